//! Each way not to get in: its own words, its own exit code, and nothing changed.

use tokio::net::TcpListener;

use crate::join::world::{Home, Host, done, id_of, until};

#[tokio::test]
async fn a_second_use_is_refused_and_the_host_is_told() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let line = host.invite("--role dev").await;
    Home::new(place.path(), "first").says(&line).await;
    let second = Home::new(place.path(), "second");
    let (exit, code, message) = second.refused(&line).await;
    assert_eq!((exit, code.as_str()), (1, "invitation_spent"), "{message}");
    assert!(!second.file("joined.json").exists() && !second.file("tasuki.toml").exists());
    assert!(!second.file("joined.json.pending").exists(), "the line can never be of use here");
    let story = host.invitation(&line).await;
    assert_eq!(story["misuses"][0]["address"], "127.0.0.1", "{story}");
    let listed = host.home.says("tasuki-broker invitations list").await;
    assert!(listed.contains("tried again") && listed.contains("from 127.0.0.1"), "{listed}");
    until(async || host.broker.said().contains("was tried again")).await;
    let withdraw = format!("tasuki-broker invitations withdraw {}", id_of(&line));
    assert_eq!(host.home.refused(&withdraw).await.1, "invitation_spent");
}

#[tokio::test]
async fn every_way_not_to_get_in_has_its_own_words() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let good = host.invite("--role dev").await;
    let (withdrawn, expired) =
        (host.invite("--role dev").await, host.invite("--role dev --expires 1ms").await);
    host.home.says(&format!("tasuki-broker invitations withdraw {}", id_of(&withdrawn))).await;

    // Another certificate than the one the line pins, as somebody in between would show.
    let other = Host::new(place.path(), "other").await;
    let own = host.address().to_string();
    let misled = good.replace(&own, &other.address().to_string());
    // Somebody who listens and says something else, and nobody.
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = stranger.local_addr().unwrap().to_string();
    tokio::spawn(async move { while stranger.accept().await.is_ok() {} });
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let (away, not_tls) = (good.replace(&own, &free), good.replace(&own, &silent));
    let cut = &good[..good.len() - 2];
    let no_code = good.rsplit_once('/').unwrap().0;

    let laptop = Home::new(place.path(), "laptop");
    std::fs::write(laptop.path.join("file"), "").unwrap();
    for (line, exit, code, words) in [
        ("tasuki join host:7420", 2, "usage", "begins with tasuki://"),
        (cut, 2, "usage", "the code in it is not complete"),
        (no_code, 2, "usage", "the code in it is not complete"),
        (&format!("{good} --ca x"), 2, "usage", "leave --ca out"),
        (&withdrawn, 1, "unknown_invitation", "was withdrawn"),
        (&expired, 1, "unknown_invitation", "has expired"),
        (&misled, 6, "untrusted", "shows another certificate"),
        (&away, 3, "unavailable", "nothing answers at"),
        (&not_tls, 3, "unavailable", "while TLS was being set up"),
        (&format!("{good} --data file/x"), 5, "local", "cannot be written to"),
    ] {
        let (exited, said, message) = laptop.refused(line).await;
        assert_eq!((exited, said.as_str()), (exit, code), "{line}: {message}");
        assert!(message.contains(words), "{line}: {message}");
        assert!(!laptop.file("joined.json").exists(), "{line}");
    }
    let story = host.invitation(&good).await;
    assert!(story["token_id"].is_null() && story["misuses"] == serde_json::json!([]), "{story}");
    laptop.says(&good).await;
    assert_eq!(host.tokens().await.len(), 2);
}

#[tokio::test]
async fn settings_that_are_damaged_are_found_before_the_line_is_used_up() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let line = host.invite("--role dev").await;
    let laptop = Home::new(place.path(), "laptop");
    std::fs::write(laptop.path.join("tasuki.toml"), "").unwrap();
    std::fs::create_dir_all(laptop.data()).unwrap();
    std::fs::write(laptop.file("tasuki.toml"), "broker = \n").unwrap();
    let (exit, code, message) = laptop.refused(&line).await;
    assert_eq!((exit, code.as_str()), (2, "usage"), "{message}");
    assert!(host.invitation(&line).await["token_id"].is_null());
}

/// `tasuki up` would work with another broker than the one that was joined.
#[tokio::test]
async fn what_joined_a_broker_runs_none_of_its_own() {
    let place = tempfile::tempdir().unwrap();
    let mut host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&host.invite("--role dev").await).await;
    let (exit, code, message) = laptop.refused("tasuki up").await;
    assert_eq!((exit, code.as_str()), (2, "usage"), "{message}");
    let says = |words: &str| assert!(message.contains(words), "{message}");
    says(&format!("joined https://{}", host.address()));
    says("`tasuki node` uses that broker");
    // What is away is another's to start.
    host.broker.kill().await;
    let (exit, _, message) = laptop.refused("tasuki loop list").await;
    assert_eq!(exit, 3);
    assert!(!message.contains("tasuki up"), "{message}");
}

#[tokio::test]
async fn a_node_is_told_what_its_token_does_not_allow_before_it_starts() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&host.invite("--workspace w --role dev").await).await;
    for (line, code, words) in [
        ("tasuki node --role dev --role lead", "role_forbidden", "`roles` has lead by --role"),
        ("tasuki node --workspace x", "unknown_workspace", "`workspace` is x by --workspace"),
    ] {
        let (exit, said, message) = laptop.refused(line).await;
        assert_eq!((exit, said.as_str()), (1, code), "{message}");
        assert!(message.contains(words), "{message}");
    }
    laptop.says(&host.invite("--workspace w --role dev --right read").await).await;
    assert_eq!(laptop.refused("tasuki node").await.1, "right_forbidden");
}

/// Another broker at the joined one's address gets neither the token nor a word.
#[tokio::test]
async fn a_broker_that_was_set_up_anew_is_not_the_one_that_was_joined() {
    let place = tempfile::tempdir().unwrap();
    let mut host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    laptop.says(&host.invite("--role dev").await).await;
    host.broker.kill().await;
    let (exit, _, message) = laptop.refused("tasuki broker-token rotate").await;
    assert!(exit == 3 && message.ends_with("The token is unchanged."), "{message}");
    std::fs::remove_dir_all(host.home.data()).unwrap();
    host.restart().await;
    for line in
        ["tasuki status", "tasuki loop status", "tasuki watch", "tasuki broker-token rotate"]
    {
        let (exit, code, message) = laptop.refused(line).await;
        assert_eq!((exit, code.as_str()), (6, "untrusted"), "{line}: {message}");
    }
    laptop.says(&host.invite("--role dev").await).await;
    laptop.says("tasuki status").await;
}

#[tokio::test]
async fn a_broker_for_its_own_machine_says_that_there_is_nothing_to_join() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path(), "home");
    let (exit, code, message) = home.refused("tasuki-broker invite --role dev").await;
    assert_eq!((exit, code.as_str()), (69, "unavailable"), "{message}");
    let line = "tasuki-broker serve --listen 127.0.0.1:0";
    let log = home.path.join("log");
    let mut broker =
        crate::join::world::Served::start(home.command(line), &log, "(broker gRPC)").await;
    let (exit, code, message) = home.refused("tasuki-broker invite --role dev").await;
    assert_eq!((exit, code.as_str()), (2, "usage"), "{message}");
    assert!(message.contains("tasuki-broker serve --listen 0.0.0.0:7420"), "{message}");
    for (line, exit, words) in [
        ("tasuki-broker invite", 2, "--any-role"),
        ("tasuki-broker token revoke nobody", 1, "nobody"),
    ] {
        let (exited, _, message) = home.refused(line).await;
        assert_eq!(exited, exit, "{line}: {message}");
        assert!(message.contains(words), "{line}: {message}");
    }
    let unknown = home.run("tasuki-broker invite --role dev --right fly").await;
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.code() == Some(2) && said.contains("run, call"), "{said}");
    done("list", &home.run("tasuki-broker token list").await);

    broker.kill().await;
    let (exit, code, message) = home.refused("tasuki-broker token list").await;
    assert_eq!((exit, code.as_str()), (69, "unavailable"), "{message}");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(home.file("broker/admin.json"), open).unwrap();
    let (exit, _, message) = home.refused("tasuki-broker token list").await;
    assert_eq!(exit, 69, "{message}");
    assert!(message.contains("others on this machine may read"), "{message}");
}
