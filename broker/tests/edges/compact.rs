//! What has been over for long is removed by a real broker and without one, the space is given back,
//! and whoever is killed meanwhile loses nothing else.

use std::{net::SocketAddr, path::Path, process::Stdio};

use serde_json::{Value, json};
use tasuki_proto::wire::{
    self, feed_client::FeedClient, mailbox_client::MailboxClient, swarm_client::SwarmClient,
};
use tokio::process::Command;
use tonic::transport::{Channel, Endpoint};

use crate::{
    common::Dice,
    full::SmallDisk,
    support::{
        Ended, Player, Process, arguments, assert_whole, caller, channel, history, key, reason,
        run, seed, setting, soon, turns,
    },
};

/// Handovers: 30 more than are kept in any case.
const HANDOVERS: u64 = 130;
const OLDEST_KEPT: u64 = 31;

/// Threads that are resolved, each with a long text.
const RESOLVED: u64 = 40;

const NOW: [&str; 4] = ["compact", "--json", "--older-than", "0s"];

async fn compact(data: &Path, more: &[&str]) -> Value {
    let ended = run(&[&NOW, more].concat(), data).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    serde_json::from_str(&ended.out).unwrap()
}

/// What a workspace has of which some is over.
struct Work {
    player: Player,
    /// The oldest handover that is left.
    oldest: u64,
    resolved: Vec<String>,
    open: String,
}

impl Work {
    async fn begin(address: SocketAddr) -> Self {
        let mut player = Player::new("default", "chain");
        player.create(channel(address)).await.unwrap();
        let mut turns = turns(address);
        for _ in 0..HANDOVERS {
            player.play(&mut turns).await.unwrap();
        }
        let mut mail = MailboxClient::new(channel(address));
        let mut resolved = Vec::new();
        for number in 0..RESOLVED {
            resolved.push(send(&mut mail, number, &"long ".repeat(10_000)).await);
        }
        let request = wire::MoveRequest {
            caller: caller("default"),
            key: key("mover", 1),
            role: "B".to_owned(),
            messages: resolved.clone(),
            to: wire::Box::Done.into(),
        };
        let moved = mail.r#move(request).await.unwrap().into_inner().moved;
        assert!(moved.iter().all(|it| it.refusal.is_none()), "{moved:?}");
        let open = send(&mut mail, RESOLVED, "short").await;
        let mut swarm = SwarmClient::new(channel(address));
        for (number, content) in (1..).zip(["one", "two", "three"]) {
            let request = wire::WriteDocRequest {
                caller: caller("default"),
                key: key("writer", number),
                role: "A".to_owned(),
                name: "plan".to_owned(),
                content: content.to_owned(),
                ..wire::WriteDocRequest::default()
            };
            swarm.write_doc(request).await.unwrap();
        }
        Self { player, oldest: OLDEST_KEPT, resolved, open }
    }

    /// What was over is gone, and nothing else is.
    async fn check(&self, address: SocketAddr) {
        let mut turns = turns(address);
        let entries = history(&mut turns, &self.player.line).await.unwrap();
        let numbers: Vec<u64> = entries.iter().map(|it| it.number).collect();
        let all: Vec<u64> = (self.oldest..=self.player.acknowledged).collect();
        assert_eq!(numbers, all);
        assert!(entries.iter().all(|it| it.summary == self.player.summary(it.number)));
        let mut mail = MailboxClient::new(channel(address));
        for id in &self.resolved {
            let refused = mail.read_thread(read("B", id)).await.unwrap_err();
            assert_eq!(reason(&refused), "unknown_message", "{refused:?}");
        }
        let thread = mail.read_thread(read("B", &self.open)).await.unwrap().into_inner();
        assert_eq!(thread.entries[0].text, "short");
        let mut swarm = SwarmClient::new(channel(address));
        let mut doc = async |version| {
            let request = wire::ReadDocRequest {
                caller: caller("default"),
                name: "plan".to_owned(),
                version,
                ..wire::ReadDocRequest::default()
            };
            swarm.read_doc(request).await.map(|it| it.into_inner().content)
        };
        assert_eq!(doc(3).await.unwrap(), "three");
        let refused = doc(2).await.unwrap_err();
        assert!(refused.message().contains("the oldest is 3"), "{refused:?}");
    }
}

async fn send(mail: &mut MailboxClient<Channel>, number: u64, text: &str) -> String {
    let request = wire::SendRequest {
        caller: caller("default"),
        key: key("sender", number + 1),
        role: "A".to_owned(),
        to: vec!["B".to_owned()],
        r#type: "INFO".to_owned(),
        subject: format!("letter {number}"),
        text: text.to_owned(),
        ..wire::SendRequest::default()
    };
    mail.send(request).await.unwrap().into_inner().message_id
}

fn read(role: &str, message: &str) -> wire::ReadThreadRequest {
    wire::ReadThreadRequest {
        caller: caller("default"),
        role: role.to_owned(),
        message: message.to_owned(),
        ..wire::ReadThreadRequest::default()
    }
}

/// What is over in [`Work`].
fn assert_compacted(said: &Value) {
    let found = &said["workspaces"]["default"];
    let counts = ["threads", "issues", "runs", "entries", "versions"];
    let counts = counts.map(|name| found[name].as_u64().unwrap());
    assert_eq!(counts, [RESOLVED, 0, 0, OLDEST_KEPT - 1, 2], "{said}");
    // A long text stands apart from the rest of its letter.
    assert_eq!(found["texts"], 2 * RESOLVED + OLDEST_KEPT - 1 + 2, "{said}");
    assert!(RESOLVED * 50_000 < found["bytes"].as_u64().unwrap(), "{said}");
}

#[tokio::test]
async fn what_is_over_goes_while_the_broker_serves_and_a_rewrite_gives_the_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let mut work = Work::begin(address).await;
    let young = run(&["compact", "--yes"], &data).await;
    assert!(young.out.contains("Nothing has been over for 90 days"), "{}", young.out);
    assert_compacted(&compact(&data, &[]).await);
    // That was only shown.
    assert_compacted(
        &compact(&data, &["--kind", "mail", "--kind", "turns", "--kind", "documents"]).await,
    );
    assert_eq!(compact(&data, &["--kind", "issues"]).await["workspaces"], json!({}));
    let refused = run(&[&NOW[..], &["--yes", "--rewrite"]].concat(), &data).await;
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    let unknown = run(&[&NOW[..], &["--workspace", "nowhere"]].concat(), &data).await;
    assert!(unknown.out.contains("unknown_workspace"), "{}", unknown.out);

    assert_compacted(&compact(&data, &["--yes"]).await);
    work.check(address).await;
    assert_eq!(compact(&data, &["--yes"]).await["workspaces"], json!({}));
    work.player.play(&mut turns(address)).await.unwrap();
    broker.kill().await;
    assert_whole(&data).await;

    let (broker, address) = Process::served(&data).await;
    work.check(address).await;
    broker.terminate();
    broker.ended().await;
    let said = compact(&data, &["--yes", "--rewrite"]).await;
    let bytes = |name: &str| said[name].as_u64().unwrap();
    assert!(bytes("database_bytes") < bytes("database_bytes_before"), "{said}");
    // One more was handed over since.
    work.oldest += 1;
    assert_whole(&data).await;
    let (broker, address) = Process::served(&data).await;
    work.check(address).await;
    work.player.play(&mut turns(address)).await.unwrap();
    work.check(address).await;
    broker.kill().await;
}

#[tokio::test]
async fn who_reads_what_is_kept_reads_on_though_the_oldest_of_it_leaves() {
    const HANDOVERS: u64 = 1200;
    let data = tempfile::tempdir().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut turns = turns(address);
    let mut player = Player::new("default", "loop");
    player.create(channel(address)).await.unwrap();
    while player.acknowledged < HANDOVERS {
        player.play(&mut turns).await.unwrap();
    }
    // It takes in next to nothing, so most of it is in the journal yet.
    let narrow = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let narrow = narrow.initial_stream_window_size(Some(1024)).connect_lazy();
    let newest = wire::SubscribeRequest {
        caller: caller("default"),
        latest: 10_000,
        only_kept: true,
        ..Default::default()
    };
    let feed = FeedClient::new(narrow).subscribe(newest).await.unwrap();
    let mut feed = feed.into_inner();
    let first = soon("an item", feed.message()).await.unwrap().unwrap();
    compact(data.path(), &["--yes"]).await;
    player.play(&mut turns).await.unwrap();
    let mut sequence = first.sequence;
    while let Some(item) = soon("an item or the end", feed.message()).await.unwrap() {
        assert!(sequence < item.sequence);
        sequence = item.sequence;
    }
    assert!(sequence < HANDOVERS, "{sequence}: all of it was still there");
    broker.kill().await;
}

/// Also what is removed without a broker, and by one that is killed on the way: the next time finds
/// what is left.
#[tokio::test]
async fn a_broker_that_is_killed_while_it_compacts_goes_on_the_next_time() {
    let rounds = setting("TASUKI_ROUNDS", 3);
    let mut dice = Dice::new(seed());
    for _ in 0..rounds {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let (broker, address) = Process::served(&data).await;
        let work = Work::begin(address).await;
        let words = [&NOW[..], &["--yes"]].concat();
        let compacting = run(&words, &data);
        tokio::pin!(compacting);
        let wait = async {
            for _ in 0..dice.roll(20_000) {
                tokio::task::yield_now().await;
            }
        };
        let ended: Option<Ended> = tokio::select! {
            ended = &mut compacting => Some(ended),
            () = wait => None,
        };
        broker.kill().await;
        if ended.is_none() {
            // It lost its broker, or was done.
            compacting.await;
        }
        assert_whole(&data).await;
        compact(&data, &["--yes"]).await;
        assert_eq!(compact(&data, &[]).await["workspaces"], json!({}));
        assert_whole(&data).await;
        let (broker, address) = Process::served(&data).await;
        work.check(address).await;
        broker.kill().await;
    }
}

#[tokio::test]
async fn a_rewrite_that_is_killed_leaves_the_old_database_or_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let work = Work::begin(address).await;
    broker.terminate();
    broker.ended().await;
    compact(&data, &["--yes"]).await;
    for place in
        ["rewrite.new", "rewrite.new/mark", "rewrite.new/before", "rewrite.done", "rewrite.old"]
    {
        let place = data.join("broker").join(place);
        let mut child = Command::new(env!("CARGO_BIN_EXE_tasuki-broker"))
            .args(arguments(&[&NOW[..], &["--yes", "--rewrite"]].concat(), &data))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let appears = async {
            while !place.exists() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! {
            ended = child.wait() => Some(ended.unwrap()),
            () = appears => None,
        };
        match ended {
            Some(ended) => assert!(ended.success(), "{ended:?}"),
            None => soon("it is killed", child.kill()).await.unwrap(),
        }
        assert_whole(&data).await;
        let (broker, address) = Process::served(&data).await;
        work.check(address).await;
        broker.kill().await;
        for left in ["rewrite.new", "rewrite.done", "rewrite.old"] {
            assert!(!data.join("broker").join(left).exists(), "{left} is left");
        }
    }
}

/// What was removed before there was no room to rewrite the database is not said to be there.
#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_rewrite_without_room_says_what_was_removed() {
    const MIB: u64 = 1024 * 1024;
    let disk = SmallDisk::mount(64);
    let data = disk.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let work = Work::begin(address).await;
    broker.terminate();
    broker.ended().await;
    disk.fill_but(4 * MIB);
    let ended = run(&["compact", "--older-than", "0s", "--yes", "--rewrite"], &data).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    for part in ["so it was not rewritten", "was removed before", "and stays removed"] {
        assert!(ended.log.contains(part), "{}", ended.log);
    }
    assert!(!ended.log.contains("nothing was changed"), "{}", ended.log);
    assert_eq!(compact(&data, &[]).await["workspaces"], json!({}));
    disk.grow();
    let (broker, address) = Process::served(&data).await;
    work.check(address).await;
    broker.kill().await;
}
