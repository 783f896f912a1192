//! Files that others could have written or read are not gone by.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::{
    guarded::Guarded,
    support::{Process, arguments, soon},
};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_cloned_repository_does_not_say_where_a_brokers_data_is() {
    let place = tempfile::tempdir().unwrap();
    let (home, repository) = (place.path().join("home"), place.path().join("repository"));
    for directory in [&home, &repository] {
        fs::create_dir(directory).unwrap();
    }
    // Its author made the data, and has a token in there.
    let author = Guarded::start(&repository.join(".cache")).await;
    author.process.kill().await;
    fs::write(repository.join("tasuki.toml"), "data = \".cache\"\nlease = \"2m\"\n").unwrap();
    for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["verify"], &["token", "list"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki-broker"));
        command.args(words).current_dir(&repository).env("HOME", &home).env_remove("XDG_DATA_HOME");
        let output = soon("it ends", command.kill_on_drop(true).output()).await.unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {log}");
        assert!(log.contains("`data` is not taken from a file that happens to be in"), "{log}");
        assert!(log.contains("run `tasuki trust`"), "{log}");
    }
}

#[tokio::test]
async fn data_that_came_with_a_repository_is_served_once_its_user_made_it() {
    let place = tempfile::tempdir().unwrap();
    let (home, repository) = (place.path().join("home"), place.path().join("repository"));
    for directory in [&home, &repository] {
        fs::create_dir(directory).unwrap();
    }
    let author = Guarded::start(&repository.join(".tasuki")).await;
    author.process.kill().await;
    let command = |words: &[&str], data: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tasuki-broker"));
        command.args(words).args(["--data", data]).current_dir(&repository);
        command.env("HOME", &home).env_remove("XDG_DATA_HOME").kill_on_drop(true);
        command
    };
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for words in [&serve[..], &["verify"], &["token", "list"]] {
        let output = soon("it ends", command(words, ".tasuki").output()).await.unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {log}");
        assert!(log.contains("there is data in .tasuki, which may have come"), "{log}");
        assert!(log.contains("run `tasuki trust .tasuki`"), "{log}");
    }
    assert!(fs::read_dir(&home).unwrap().next().is_none(), "nothing was begun");
    // What the user's own broker made is served again.
    for _ in 0..2 {
        let mut served = command(&serve, "mine");
        let mut child = served.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = soon("it listens", lines.next_line()).await.unwrap();
        assert!(line.is_some_and(|line| line.starts_with("listening on ")));
        soon("it ends", child.kill()).await.unwrap();
    }
    let output = soon("it ends", command(&["verify"], "mine").output()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn data_that_others_may_write_and_keys_that_they_may_read_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let broker = Guarded::start(&data).await;
    broker.process.kill().await;
    let start = async || {
        let words = ["serve", "--listen", "127.0.0.1:0", "--secure"];
        Process::spawn(&arguments(&words, &data), &[]).ended_or_listening().await
    };
    let key = data.join("broker/tls/key.pem");
    for (path, bad, good, said) in [
        (&key, 0o644, 0o600, "so the key in it counts as known to them"),
        (&data, 0o777, 0o700, "others on this machine may write to"),
        (&data.join("broker"), 0o770, 0o700, "others on this machine may write to"),
    ] {
        set_mode(path, bad);
        let ended = start().await.unwrap_or_else(|| panic!("{} was used", path.display()));
        assert_eq!(ended.code, Some(2), "{}", ended.log);
        assert!(ended.log.contains(said) && ended.log.contains("chmod"), "{}", ended.log);
        assert!(!ended.log.contains("bring"), "it is not lost: {}", ended.log);
        set_mode(path, good);
    }
    // What only others may read is closed to them.
    set_mode(&data.join("broker"), 0o755);
    assert!(start().await.is_none(), "it listens");
    let mode = fs::metadata(data.join("broker")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
