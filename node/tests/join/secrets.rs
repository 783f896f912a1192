//! Secrets are where they belong, and nowhere else.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use crate::join::world::{Home, Host, Served, done};

/// All files below a folder, and what they may be read by.
fn modes(folder: &Path, found: &mut Vec<(String, u32)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        found.push((path.file_name().unwrap().to_str().unwrap().to_owned(), mode));
        if path.is_dir() {
            modes(&path, found);
        }
    }
}

#[tokio::test]
async fn a_careless_umask_opens_no_secret() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "host");
    let serve = "tasuki-broker serve --listen 127.0.0.1:0 --secure";
    let log = home.path.join("broker.log");
    let broker = Served::start(home.after("umask 000", serve), &log, "(broker gRPC)").await;
    let host = Host { home, broker };
    let laptop = Home::new(place.path(), "laptop");
    let line = host.invite("--role dev").await;
    done(&line, &laptop.after("umask 000", &line).output().await.unwrap());
    done(
        "rotate",
        &laptop.after("umask 000", "tasuki broker-token rotate").output().await.unwrap(),
    );
    let mut found = Vec::new();
    modes(&laptop.data(), &mut found);
    found.sort();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["joined.json", "joined.lock", "tasuki.toml"]);
    assert!(found.iter().all(|(_, mode)| *mode == 0o600), "{found:?}");
    let own = std::fs::metadata(laptop.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(own, 0o700);

    // What agents say to each other is nobody else's either.
    let theirs = std::fs::metadata(host.home.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(theirs, 0o700);
    let mut found = Vec::new();
    modes(&host.home.data(), &mut found);
    for secret in ["admin.json", "key.pem"] {
        let modes: Vec<u32> =
            found.iter().filter(|(name, _)| name == secret).map(|(_, mode)| *mode).collect();
        assert_eq!(modes, [0o600], "{secret}");
    }

    // What others could have read is not used.
    let file = laptop.file("joined.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (exit, _, message) = laptop.refused("tasuki status").await;
    assert_eq!(exit, 5, "{message}");
    assert!(message.contains("others on this machine may read"), "{message}");
}

#[tokio::test]
async fn no_log_list_or_list_of_processes_shows_a_secret() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "host");
    let mut serve = home.command("tasuki-broker serve --listen 127.0.0.1:0 --secure");
    serve.env("RUST_LOG", "trace");
    let log = home.path.join("broker.log");
    let broker = Served::start(serve, &log, "(broker gRPC)").await;
    let host = Host { home, broker };
    let laptop = Home::new(place.path(), "laptop");
    let (line, spare) = (host.invite("--role dev").await, host.invite("--role dev").await);
    let code = line.rsplit('/').next().unwrap().to_owned();
    let mut secrets = vec![code, spare.rsplit('/').next().unwrap().to_owned()];
    let of = |home: &Home, file: &str| {
        let token = home.read(file)["token"].as_str().unwrap().to_owned();
        token.splitn(3, '_').nth(2).unwrap().to_owned()
    };
    let mut said = Vec::new();
    let mut run = async |home: &Home, line: &str| {
        let mut command = home.command(line);
        let output = command.env("RUST_LOG", "trace").output().await.unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        said.push(String::from_utf8(output.stderr).unwrap());
        said.push(String::from_utf8(output.stdout).unwrap());
    };
    run(&laptop, &line).await;
    secrets.push(of(&laptop, "joined.json"));
    let mut command = laptop.command("tasuki node");
    command.env("RUST_LOG", "trace");
    let node = Served::start(command, &laptop.path.join("node.log"), "(MCP)").await;
    for line in
        ["tasuki broker-token rotate", "tasuki broker-token show --json", "tasuki status --json"]
    {
        run(&laptop, line).await;
    }
    secrets.push(of(&laptop, "joined.json"));
    secrets.push(of(&host.home, "broker/admin.json"));
    for line in ["tasuki-broker token list --json", "tasuki-broker invitations list --json"] {
        run(&host.home, line).await;
    }
    said.extend([host.broker.said(), node.said()]);
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        said.push(String::from_utf8_lossy(&arguments).into_owned());
    }
    assert_eq!(secrets.len(), 5);
    for text in &said {
        for secret in &secrets {
            assert!(secret.len() == 43 && !text.contains(secret.as_str()), "{secret}: {text}");
        }
    }
    assert!(host.broker.said().contains("a node joined") && node.said().contains("connected"));
}
