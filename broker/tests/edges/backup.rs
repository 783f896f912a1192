//! Backups of a broker that serves, is killed or does not run; what is restored from them, and that
//! nothing granted before holds there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use tasuki_proto::wire;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    sync::watch,
    task::JoinSet,
};

use crate::{
    common::Dice,
    full::SmallDisk,
    support::{
        Ended, Player, Process, arguments, assert_whole, channel, history, is_broken, players,
        reason, run, seed, setting, soon, turns,
    },
};

/// Backs up the data that is in `data`.
pub(crate) async fn back_up(data: &Path, file: &Path) -> Ended {
    let ended = run(&["backup", file.to_str().unwrap()], data).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    ended
}

pub(crate) async fn restore(file: &Path, data: &Path) -> Ended {
    run(&["restore", file.to_str().unwrap()], data).await
}

/// A new data directory made of a backup, found whole.
pub(crate) async fn restored(file: &Path, data: &Path) {
    let ended = restore(file, data).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains("Work since"), "{}", ended.log);
    assert_whole(data).await;
}

fn json(ended: &Ended) -> serde_json::Value {
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    serde_json::from_str(&ended.out).unwrap()
}

/// Two workspaces: what is said in the second was said in the first before.
pub(crate) struct Pair {
    pub(crate) first: Player,
    pub(crate) second: Player,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { first: Player::new("one", "chain"), second: Player::new("two", "chain") }
    }

    pub(crate) async fn play(&mut self, address: std::net::SocketAddr) {
        let mut turns = turns(address);
        // One that was cut short is repeated under its key.
        if self.first.acknowledged == self.second.acknowledged {
            self.first.play(&mut turns).await.unwrap();
        }
        self.second.play(&mut turns).await.unwrap();
    }
}

/// Equal states at one commit, in every workspace, while others write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_of_one_commit_and_what_was_granted_is_refused_after_it() {
    let rounds = setting("TASUKI_ROUNDS", 3);
    let mut dice = Dice::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let (stop, stopped) = watch::channel(false);
    let mut load = JoinSet::new();
    for mut player in players(&["load"], 3).into_values() {
        player.create(channel(address)).await.unwrap();
        let stopped = stopped.clone();
        load.spawn(async move {
            let mut turns = turns(address);
            while !*stopped.borrow() {
                player.play(&mut turns).await.unwrap();
            }
        });
    }
    let mut pair = Pair::new();
    for player in [&pair.first, &pair.second] {
        player.create(channel(address)).await.unwrap();
    }
    for round in 0..rounds {
        for _ in 0..=dice.roll(20) {
            pair.play(address).await;
        }
        let before = pair.second.acknowledged;
        let file = dir.path().join(format!("{round}.backup"));
        let backing_up = back_up(&data, &file);
        tokio::pin!(backing_up);
        let ended = loop {
            tokio::select! {
                ended = &mut backing_up => break ended,
                () = pair.play(address) => {}
            }
        };
        assert!(ended.out.contains("as of commit"), "{}", ended.out);
        let copy = dir.path().join(format!("restored-{round}"));
        restored(&file, &copy).await;
        check_restored(&copy, &pair, before).await;
    }
    stop.send_replace(true);
    while let Some(ended) = soon("the load ends", load.join_next()).await {
        ended.unwrap();
    }
    broker.kill().await;
    assert_whole(&data).await;
}

pub(crate) async fn check_restored(data: &Path, pair: &Pair, before: u64) {
    let (broker, address) = Process::served(data).await;
    let mut turns = turns(address);
    let mut counts = Vec::new();
    for player in [&pair.first, &pair.second] {
        let count = history(&mut turns, &player.line).await.unwrap().len() as u64;
        let player = Player { acknowledged: count, ..player.clone() };
        player.check_until(&mut turns, Some(count)).await.unwrap();
        // What was granted by then, and what was granted later, which this broker never heard of.
        for turn in [count + 1, count + 2, count + 1000] {
            let mut old = player.handover(turn);
            old.key = crate::support::key("late", turn);
            let refused = turns.hand_over(old).await.unwrap_err();
            assert_eq!(reason(&refused), "stale_token", "{turn}: {refused:?}");
        }
        // The answers of then are gone with what they granted.
        let again = turns.hand_over(player.handover(1)).await.unwrap_err();
        assert_eq!(reason(&again), "key_expired");
        counts.push(count);
    }
    let [first, second] = counts[..] else { unreachable!("two of them") };
    assert!(before <= second && second <= first && first <= second + 1, "{first} and {second}");
    broker.kill().await;
}

/// What the lost part of a log granted would be granted again.
#[tokio::test]
async fn what_was_granted_is_refused_once_a_log_was_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let mut pair = Pair::new();
    for player in [&pair.first, &pair.second] {
        player.create(channel(address)).await.unwrap();
    }
    for _ in 0..5 {
        pair.play(address).await;
    }
    broker.terminate();
    assert_eq!(broker.ended().await.code, Some(0));

    fs::remove_dir_all(data.join("broker/log")).unwrap();
    let repaired = run(&["repair-log"], &data).await;
    assert_eq!(repaired.code, Some(0), "{}", repaired.log);
    assert!(repaired.out.contains("does not show how many"), "{}", repaired.out);
    assert_whole(&data).await;
    check_restored(&data, &pair, pair.second.acknowledged).await;

    let whole = json(&run(&["repair-log", "--json"], &data).await);
    assert_eq!(whole["complete"], true, "{whole}");
    assert_whole(&data).await;
}

/// A file is there whole or not at all, whenever the broker that makes it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_while_it_makes_a_backup_leaves_none_or_a_whole_one() {
    let mut dice = Dice::new(seed());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut players = players(&["one", "two"], 2);
    for round in 0..setting("TASUKI_ROUNDS", 4) {
        let (broker, address) = Process::served(&data).await;
        let mut playing = JoinSet::new();
        for mut player in std::mem::take(&mut players).into_values() {
            playing.spawn(async move {
                let mut turns = turns(address);
                let mut gone = None;
                if player.acknowledged == 0 {
                    gone = player.create(channel(address)).await.err();
                }
                while gone.is_none() {
                    gone = player.play(&mut turns).await.err();
                }
                let status = gone.expect("it was not gone before");
                assert!(is_broken(&status), "{status:?}");
                player
            });
        }
        let file = dir.path().join(format!("{round}.backup"));
        let words = arguments(&["backup", file.to_str().unwrap()], &data);
        let backing_up = Process::spawn(&words, &[("RUST_LOG", "trace".into())]);
        let mut logged = backing_up.logged.clone();
        let lines = usize::try_from(dice.roll(40)).unwrap();
        // Whichever is first: it may be done before it has said so much.
        let said = async { logged.wait_for(|count| lines <= *count).await.is_ok() };
        soon("log lines or the end", said).await;
        broker.kill().await;
        let ended = backing_up.ended().await;
        assert_eq!(file.exists(), ended.code == Some(0), "{ended:?}");
        let left: Vec<PathBuf> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|it| it.to_string_lossy().contains(".new-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        if file.exists() {
            restored(&file, &dir.path().join(format!("restored-{round}"))).await;
        }
        while let Some(player) = soon("the players end", playing.join_next()).await {
            let player = player.unwrap();
            players.insert(player.line.clone(), player);
        }
    }
    let (broker, address) = Process::served(&data).await;
    for player in players.values() {
        player.check(&mut turns(address)).await.unwrap();
    }
    broker.kill().await;
    assert_whole(&data).await;
}

/// Some data, and its backup; nobody serves the data any more.
async fn backed_up(dir: &Path) -> (PathBuf, PathBuf) {
    let (data, file) = (dir.join("data"), dir.join("file.backup"));
    let (broker, address) = Process::served(&data).await;
    let mut player = Player::new("one", "chain");
    player.create(channel(address)).await.unwrap();
    for _ in 0..5 {
        player.play(&mut turns(address)).await.unwrap();
    }
    broker.kill().await;
    back_up(&data, &file).await;
    (data, file)
}

#[tokio::test]
async fn a_backup_that_is_cut_off_or_changed_is_refused_and_nothing_is_made_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(dir.path()).await;
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let spoilt = dir.path().join("spoilt.backup");
    for (bytes, expected) in [
        (&whole[..whole.len() / 2], "was cut off"),
        (&whole[..whole.len() - 1], "was cut off"),
        (&flipped[..], "nothing of it is used"),
        (b"something else", "is no backup"),
    ] {
        fs::write(&spoilt, bytes).unwrap();
        let target = dir.path().join("refused");
        let ended = restore(&spoilt, &target).await;
        assert_eq!(ended.code, Some(65), "{ended:?}");
        assert!(ended.log.contains(expected), "{}", ended.log);
        assert!(!target.join("broker").exists() && !target.join("broker.restoring").exists());
    }
    // One that is there is left as it is.
    let ended = restore(&file, &data).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.log.contains("is not empty"), "{}", ended.log);
    assert_whole(&data).await;
    let ended = restore(&dir.path().join("none"), &dir.path().join("new")).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

#[tokio::test]
async fn a_backup_is_for_its_owner_alone_and_replaces_an_older_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(dir.path()).await;
    let first = fs::read(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let told = json(&run(&["backup", "--json", file.to_str().unwrap()], &data).await);
    assert_eq!(told["bytes"].as_u64(), Some(fs::metadata(&file).unwrap().len()));
    assert!(fs::read(&file).unwrap() != first, "it says when it was made");
    // Nothing but the backup is on standard output.
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_tasuki-broker"))
        .args(arguments(&["backup", "-"], &data))
        .output()
        .unwrap();
    assert!(piped.status.success(), "{piped:?}");
    let target = dir.path().join("from-standard-input");
    fs::write(&file, &piped.stdout).unwrap();
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_tasuki-broker"))
        .args(arguments(&["restore", "-"], &target))
        .stdin(fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_whole(&target).await;
}

/// What a backup that was killed left is removed by the next one, unless it is still written.
#[tokio::test]
async fn what_a_killed_backup_left_goes_with_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(dir.path()).await;
    let unfinished = |pid: &str| dir.path().join(format!(".file.backup.new-{pid}"));
    for pid in ["1", "2", "x"] {
        fs::write(unfinished(pid), "secret").unwrap();
    }
    let written = fs::File::open(unfinished("2")).unwrap();
    written.try_lock().unwrap();
    back_up(&data, &file).await;
    let left = ["1", "2", "x"].map(|pid| unfinished(pid).exists());
    assert_eq!(left, [false, true, true]);
}

/// A restore, or an import, that has read half of a file and waits for the rest.
pub(crate) async fn begun(word: &str, half: &[u8], target: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tasuki-broker"))
        .args(arguments(&[word, "-"], target))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(half).await.unwrap();
    let staging = target.join("broker.restoring");
    let appears = async {
        while !staging.join("db").exists() {
            tokio::task::yield_now().await;
        }
    };
    soon("it has begun", appears).await;
    child
}

async fn end_restore(mut child: Child, rest: &[u8]) -> std::process::Output {
    let mut input = child.stdin.take().unwrap();
    input.write_all(rest).await.unwrap();
    drop(input);
    soon("the restore ends", child.wait_with_output()).await.unwrap()
}

#[tokio::test]
async fn of_two_restores_at_once_the_first_is_whole_and_the_second_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = backed_up(dir.path()).await;
    let bytes = fs::read(&file).unwrap();
    let (half, rest) = bytes.split_at(bytes.len() / 2);
    let target = dir.path().join("restored");
    let first = begun("restore", half, &target).await;
    for _ in 0..2 {
        let second = restore(&file, &target).await;
        assert_eq!(second.code, Some(69), "{second:?}");
        assert!(second.log.contains("Another restore writes to"), "{}", second.log);
        assert!(target.join("broker.restoring/log").exists(), "it is the first one's");
    }
    let ended = end_restore(first, rest).await;
    assert!(ended.status.success(), "{ended:?}");
    assert_whole(&target).await;
    assert!(!target.join("broker.restoring").exists());
}

#[tokio::test]
async fn a_restore_leaves_a_broker_that_was_started_meanwhile_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = backed_up(dir.path()).await;
    let bytes = fs::read(&file).unwrap();
    let (half, rest) = bytes.split_at(bytes.len() / 2);
    let target = dir.path().join("restored");
    let restoring = begun("restore", half, &target).await;
    let (broker, address) = Process::served(&target).await;
    let ended = end_restore(restoring, rest).await;
    assert_eq!(ended.status.code(), Some(69), "{ended:?}");
    let log = String::from_utf8(ended.stderr).unwrap();
    assert!(log.contains("nothing was restored. Name a new directory"), "{log}");
    assert!(!target.join("broker.restoring").exists());
    Player::new("one", "chain").create(channel(address)).await.unwrap();
    broker.kill().await;
    assert_whole(&target).await;
}

/// A command that has the data is no broker to be asked.
#[tokio::test]
async fn data_that_another_command_has_is_said_to_be_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(dir.path()).await;
    // As the backup before it did.
    let lock = fs::File::open(data.join("broker/lock")).unwrap();
    lock.try_lock().unwrap();
    let file = file.to_str().unwrap();
    for words in [&["verify"][..], &["stats"], &["compact"], &["backup", file]] {
        let ended = run(words, &data).await;
        assert_eq!(ended.code, Some(69), "{ended:?}");
        assert!(ended.log.contains("another command such as `verify`"), "{}", ended.log);
    }
}

#[tokio::test]
async fn a_running_broker_tells_of_its_data_what_is_found_in_it_when_it_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (data, _) = backed_up(dir.path()).await;
    let (broker, _) = Process::served(&data).await;
    let running = json(&run(&["stats", "--json"], &data).await);
    let verified = run(&["verify"], &data).await;
    assert!(verified.out.starts_with("whole: "), "{verified:?}");
    let verified = json(&run(&["verify", "--json"], &data).await);
    broker.kill().await;
    let down = json(&run(&["stats", "--json"], &data).await);
    assert_eq!(running["workspaces"]["one"], down["workspaces"]["one"]);
    assert_eq!(down["workspaces"]["one"]["loops"], 2);
    let again = json(&run(&["verify", "--json"], &data).await);
    assert_eq!(verified["workspaces"]["one"], again["workspaces"]["one"]);
    assert_eq!(verified["incarnation"], again["incarnation"]);
}

/// Whoever follows a feed from before a restore, or from what is lost with it, hears of it.
#[tokio::test]
async fn a_feed_of_before_a_restore_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = backed_up(dir.path()).await;
    let target = dir.path().join("restored");
    restored(&file, &target).await;
    let (broker, address) = Process::served(&target).await;
    let mut feed = wire::feed_client::FeedClient::new(channel(address));
    for (workspace, from_sequence) in [("one", 2), ("one", 500), ("default", 500)] {
        let caller = crate::support::caller(workspace);
        let asked = wire::SubscribeRequest { caller, from_sequence, ..Default::default() };
        let refused = feed.subscribe(asked).await.unwrap_err();
        assert_eq!(reason(&refused), "compacted", "{workspace} from {from_sequence}");
    }
    broker.kill().await;
}

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_disk_that_is_too_small_for_a_backup_or_what_is_restored_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = backed_up(dir.path()).await;
    let disk = SmallDisk::mount(1);
    // No byte is left on it.
    let fill = fs::write(disk.path().join("fill"), vec![1; 2 * 1024 * 1024]);
    assert!(fill.is_err());
    let full = disk.path().join("file.backup");
    let ended = run(&["backup", full.to_str().unwrap()], &data).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.log.contains("No space left"), "{}", ended.log);
    let target = disk.path().join("data");
    let ended = restore(&file, &target).await;
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(!full.exists() && !target.join("broker").exists());
}
