//! How a broker ends, and why it may not begin: told to stop, a directory in use, a directory it
//! cannot use.

use std::time::Duration;

use tasuki_proto::wire;
use tokio::time::Instant;

use crate::common;
use crate::support::{Process, arguments, assert_whole, check_all, play_all, players, soon, turns};

const STOPPED_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_under_load_it_ends_soon_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let mut players = players(&["one", "two"], 4);
    let (mut broker, address) = Process::served(data.path()).await;
    let mut waiting = turns(address);
    let wait = wire::AwaitTurnRequest {
        role: "B".to_owned(),
        hold_ms: 600_000,
        ..wire::AwaitTurnRequest::default()
    };
    let waiting = tokio::spawn(async move { waiting.await_turn(wait).await });
    let parked = async {
        let mut turns = turns(address);
        let mut state = turns.get_loop(wire::GetLoopRequest::default()).await.unwrap();
        while state.get_ref().r#loop.as_ref().unwrap().waiting.is_empty() {
            state = turns.get_loop(wire::GetLoopRequest::default()).await.unwrap();
        }
    };
    soon("the wait is parked", parked).await;
    let mut told = None;
    play_all(address, &mut players, 300, || {
        told = Some(Instant::now());
        broker.terminate();
    })
    .await;
    let answer = soon("the wait is answered", waiting).await.unwrap().unwrap().into_inner();
    assert!(answer.answer.unwrap().still_waiting);
    let last = broker.line().await.expect("the dashboard's address");
    assert!(last.ends_with("(dashboard)"), "{last}");
    assert_eq!(broker.line().await, None);
    let ended = broker.ended().await;
    let took = told.unwrap().elapsed();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(took < STOPPED_WITHIN, "it took {took:?}: {}", ended.log);

    assert_whole(data.path()).await;
    let (broker, address) = Process::served(data.path()).await;
    check_all(address, &players).await.unwrap();
    broker.kill().await;
}

#[tokio::test]
async fn a_directory_in_use_or_unusable_is_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let (broker, _) = Process::served(data.path()).await;
    let ended = Process::serve(data.path()).ended().await;
    let holder = format!("(process {})", broker.pid());
    assert_eq!(ended.code, Some(69), "{}", ended.log);
    let says = ended.log.contains("in use by another broker") || ended.log.contains(&holder);
    assert!(says && ended.log.contains(&holder), "{}", ended.log);
    let repaired = crate::support::run(&["repair-log"], data.path()).await;
    assert_eq!(repaired.code, Some(69), "{}", repaired.log);
    broker.kill().await;

    let file = data.path().join("a file");
    std::fs::write(&file, "").unwrap();
    for unusable in [file.clone(), file.join("below"), "/proc/tasuki".into()] {
        let ended = Process::serve(&unusable).ended().await;
        assert_eq!(ended.code, Some(69), "{}", ended.log);
        assert!(ended.log.contains(&unusable.display().to_string()), "{}", ended.log);
    }
    // There is nothing to check, and nothing is made.
    let none = data.path().join("none");
    for words in [&["verify"][..], &["verify", "--json"], &["repair-log"], &["reindex"], &["stats"]]
    {
        let ended = crate::support::run(words, &none).await;
        assert_eq!(ended.code, Some(69), "{words:?}: {}", ended.log);
        assert!(ended.log.contains("no broker ever kept anything in"), "{}", ended.log);
        assert!(ended.log.contains("with --data") && !none.exists(), "{}", ended.log);
    }
    // A variable that is empty is as one that is not set.
    let unset = [
        ("TASUKI_CONFIG", "".into()),
        ("TASUKI_DATA", "".into()),
        ("TASUKI_LEASE", "".into()),
        ("TASUKI_BROKER_LISTEN", "".into()),
        ("TASUKI_TLS_CERT", "".into()),
    ];
    let words = arguments(&["serve", "--listen", "127.0.0.1:0"], data.path());
    assert!(Process::spawn(&words, &unset).ended_or_listening().await.is_none(), "it listens");
    let words = arguments(&["serve", "--listen", "192.0.2.1:0"], data.path());
    let ended = Process::spawn(&words, &[]).ended().await;
    assert_eq!(ended.code, Some(69), "{}", ended.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_directory_is_not_served_beside_the_original() {
    let place = tempfile::tempdir().unwrap();
    let (data, copied) = (place.path().join("data"), place.path().join("copy"));
    let mut players = players(&["one"], 2);
    let (broker, address) = Process::served(&data).await;
    play_all(address, &mut players, 20, || broker.terminate()).await;
    assert_eq!(broker.ended().await.code, Some(0));
    common::copy(&data, &copied);

    let refused = Process::serve(&copied).ended().await;
    assert_eq!(refused.code, Some(69), "{}", refused.log);
    let noted = data.canonicalize().unwrap().join("broker").display().to_string();
    for said in [&noted, "--moved", "tokens that were revoked since"] {
        assert!(refused.log.contains(said), "{said}: {}", refused.log);
    }
    // Checking a backup is no serving, and whoever moved it says so, once.
    assert_whole(&copied).await;
    let mut moved = Process::serve_moved(&copied);
    check_all(moved.address().await.unwrap(), &players).await.unwrap();
    moved.kill().await;
    for each in [&copied, &data] {
        let (broker, address) = Process::served(each).await;
        check_all(address, &players).await.unwrap();
        broker.kill().await;
    }
    // Data of a release that noted nothing is where it is.
    std::fs::remove_file(copied.join("broker").join(tasuki_proto::host::location::FILE)).unwrap();
    let (broker, _) = Process::served(&copied).await;
    broker.kill().await;
    let away = place.path().join("away");
    std::fs::rename(&copied, &away).unwrap();
    assert_eq!(Process::serve(&away).ended().await.code, Some(69));
}
