//! Real programs: what they get, how they end, and that nothing of them stays.

#![cfg(unix)]

use std::{
    fs,
    io::{Seek as _, Write as _},
    path::Path,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::unix::pipe,
};

use super::*;

/// For a step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn program(words: &[&str], directory: &Path) -> Program {
    let (program, arguments) = words.split_first().unwrap();
    let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
    let command = spec::Command {
        program: (*program).to_owned(),
        arguments,
        directory: directory.to_owned(),
    };
    Program::find(&command).unwrap()
}

fn holding(text: &str) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file
}

async fn run(words: &[&str], directory: &Path, input: &str, limit: Duration) -> Result<(), String> {
    let run = program(words, directory).run(holding(input), limit).await;
    run.map_err(|failure| {
        assert!(!failure.is_final);
        assert!(!failure.how.contains("; std"), "what it printed is not for logs: {failure:?}");
        failure.why
    })
}

#[tokio::test]
async fn a_program_gets_the_document_its_arguments_and_little_else() {
    let place = tempfile::tempdir().unwrap();
    let script = "cat > in; pwd > at; env > env; for it in \"$@\"; do echo \"<$it>\"; done > args";
    let words = ["sh", "-c", script, "sh", "$HOME", "`id`", "a b;", ""];
    let input = format!("{{\"text\":\"{}\"}}", "x".repeat(300_000));
    run(&words, place.path(), &input, PATIENCE).await.unwrap();
    let told = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert!(told("in") == input);
    assert_eq!(told("args"), "<$HOME>\n<`id`>\n<a b;>\n<>\n", "no shell");
    let at = told("at");
    assert_eq!(fs::canonicalize(at.trim()).unwrap(), fs::canonicalize(place.path()).unwrap());
    // What shells set, they set.
    assert!(std::env::vars().any(|(name, _)| !KEPT.contains(&name.as_str())));
    let env = told("env");
    let names = env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let names: Vec<_> =
        names.filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert!(names.contains(&"PATH"), "{names:?}");
    assert!(names.iter().all(|name| KEPT.contains(name)), "{names:?}");
}

#[tokio::test]
async fn how_a_program_failed_is_said_in_one_line() {
    let place = tempfile::tempdir().unwrap();
    let long = "yes no | head -c 1000000; exit 3";
    for (script, expected) in [
        ("exit 7", "exit code 7"),
        (
            "echo out; echo 'er\u{1b}[31m\u{202e}r' >&2; exit 1",
            "exit code 1; stderr: er[31mr; stdout: out",
        ),
        ("kill -TERM $$", "ended by signal 15"),
    ] {
        let failed = run(&["sh", "-c", script], place.path(), "{}", PATIENCE).await;
        assert_eq!(failed.unwrap_err(), expected, "{script}");
    }
    let failed = run(&["sh", "-c", long], place.path(), "{}", PATIENCE).await.unwrap_err();
    assert!(failed.starts_with("exit code 3; stdout: no no no"), "{failed}");
    assert!(failed.len() < 600 && failed.ends_with('…'), "{failed}");
}

#[tokio::test]
async fn a_program_need_not_read_what_it_gets() {
    let place = tempfile::tempdir().unwrap();
    let input = "x".repeat(1_000_000);
    assert_eq!(run(&["true"], place.path(), &input, PATIENCE).await, Ok(()));
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let script = "sleep 300 & echo $! > left";
    let ended = run(&["sh", "-c", script], place.path(), "{}", PATIENCE).await;
    let left = fs::read_to_string(place.path().join("left")).unwrap();
    let left = rustix::process::Pid::from_raw(left.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
    assert_eq!(ended, Ok(()));
}

/// A program whose grandchild holds a pipe open, which ends with it.
const FAMILY: [&str; 3] =
    ["sh", "-c", "sh -c '(echo here; exec sleep 300) > pipe; wait' > /dev/null 2>&1 & wait"];

fn pipe(place: &Path) -> Lines<BufReader<pipe::Receiver>> {
    let path = place.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    BufReader::new(pipe::OpenOptions::new().open_receiver(&path).unwrap()).lines()
}

/// Says when the grandchild is there.
async fn there(lines: &mut Lines<BufReader<pipe::Receiver>>) {
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("here"));
}

/// Holds Q4.
#[tokio::test]
async fn the_time_limit_ends_a_program_and_all_it_started() {
    let place = tempfile::tempdir().unwrap();
    let mut lines = pipe(place.path());
    let program = program(&FAMILY, place.path());
    let story = async {
        let (ran, ()) =
            tokio::join!(program.run(holding("{}"), Duration::from_secs(2)), there(&mut lines));
        assert_eq!(ran.unwrap_err().why, "killed after its limit of 2 s");
        assert_eq!(lines.next_line().await.unwrap(), None, "the grandchild is gone");
    };
    time::timeout(PATIENCE, story).await.unwrap();
}

/// Holds Q4.
#[tokio::test]
async fn a_call_that_is_given_up_leaves_nothing_running() {
    let place = tempfile::tempdir().unwrap();
    let mut lines = pipe(place.path());
    let program = program(&FAMILY, place.path());
    let story = async {
        tokio::select! {
            _ = program.run(holding("{}"), PATIENCE) => panic!("it sleeps"),
            () = there(&mut lines) => {}
        }
        assert_eq!(lines.next_line().await.unwrap(), None, "the grandchild is gone");
    };
    time::timeout(PATIENCE, story).await.unwrap();
}

/// Holds Q3.
#[test]
fn a_program_is_looked_up_once_and_never_here() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, mode| {
        let path = place.path().join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        path
    };
    let (good, plain) = (file("good", 0o700), file("plain", 0o600));
    let path = std::env::join_paths([Path::new("."), Path::new(""), place.path()]).unwrap();
    let look = |program: &str| look_up(program, Some(&path));
    assert_eq!(look("good"), Ok(good.clone()));
    assert_eq!(look(good.to_str().unwrap()), Ok(good));
    assert!(look("plain").unwrap_err().contains("no folder of PATH"));
    assert!(look(plain.to_str().unwrap()).unwrap_err().contains("not executable"));
    assert!(look(place.path().to_str().unwrap()).unwrap_err().contains("no file"));
    assert!(look_up("good", None).is_err());
    // Cargo runs tests where there is a file of this name.
    assert!(look_up("Cargo.toml", Some(OsStr::new("."))).is_err());
}
