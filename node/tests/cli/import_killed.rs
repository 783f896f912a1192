//! `tasuki import swarm`, killed in the middle: what was taken over by then and what the next run
//! adds are together what one run takes over, once.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::json;
use tasuki_proto::{
    limits::SWARM_PAGE_MAX,
    wire::{self, swarm_client::SwarmClient},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tonic::transport::Channel;

use super::import_swarm::{ISSUE, done, import, tree};
use crate::process::{Process, soon, tasuki};

/// Entries of the log of each issue, so that some kills fall into each of them.
const EVENTS: u64 = 2500;

/// Kills on the way.
const CUTS: u64 = 6;

/// Where a kill falls: so many bytes after the client began to talk, with the last of them on their
/// way to the broker, or not.
#[derive(Debug, Clone, Copy)]
struct Cut {
    bytes: u64,
    are_sent: bool,
}

/// Between a client and the broker. Tells when the cut is reached; from then on nothing goes through.
struct Proxy {
    url: String,
    bytes: Arc<AtomicU64>,
    reached: mpsc::Receiver<()>,
}

impl Proxy {
    async fn before(broker: std::net::SocketAddr, cut: Cut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bytes = Arc::new(AtomicU64::new(0));
        let (tell, reached) = mpsc::channel(1);
        let sum = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let broker = TcpStream::connect(broker).await.unwrap();
                tokio::spawn(carry(client, broker, cut, Arc::clone(&sum), tell.clone()));
            }
        });
        Self { url, bytes, reached }
    }
}

async fn carry(
    client: TcpStream,
    broker: TcpStream,
    cut: Cut,
    sum: Arc<AtomicU64>,
    tell: mpsc::Sender<()>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_broker, mut to_broker) = broker.into_split();
    let back = tokio::spawn(async move { drop(copy(&mut from_broker, &mut to_client).await) });
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
        let sum = sum.fetch_add(count as u64, Ordering::SeqCst) + count as u64;
        let is_over = cut.bytes <= sum;
        if is_over {
            // No answer goes back any more.
            back.abort();
        }
        if (!is_over || cut.are_sent) && to_broker.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if is_over {
            tell.send(()).await.ok();
            // Neither side hears that the other is gone before the kill.
            return std::future::pending().await;
        }
    }
}

/// Imports until the cut, and dies there, if it gets so far. Answers with whether it did, and the
/// bytes that were sent.
async fn import_until(
    data: &Path,
    path: &str,
    workspace: &str,
    up: &Process,
    cut: Cut,
) -> (bool, u64) {
    let mut proxy = Proxy::before(up.broker.unwrap(), cut).await;
    let mut command = tasuki(data);
    command.args(["import", "swarm", "--json", path, "--workspace", workspace]);
    command.args(["--broker", &proxy.url]).arg("--data").arg(data);
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let is_cut = soon(async {
        tokio::select! {
            Some(()) = proxy.reached.recv() => true,
            _ = child.wait() => false,
        }
    })
    .await;
    if is_cut {
        soon(child.kill()).await.unwrap();
    }
    (is_cut, proxy.bytes.load(Ordering::SeqCst))
}

/// All that is there of what was taken over, but for when that was.
async fn all_of(swarm: &mut SwarmClient<Channel>, workspace: &str) -> String {
    let caller = || Some(wire::Caller { workspace: workspace.to_owned(), ..Default::default() });
    let mut all = String::new();
    let request = wire::ListIssuesRequest {
        caller: caller(),
        sort_by: wire::SortBy::Subject.into(),
        ..Default::default()
    };
    let issues = swarm.list_issues(request).await.unwrap().into_inner().issues;
    for issue in issues {
        let issue_id = issue.issue_id.clone();
        let request = wire::GetIssueRequest { caller: caller(), issue_id: issue_id.clone() };
        let mut issue = swarm.get_issue(request).await.unwrap().into_inner().issue.unwrap();
        (issue.updated_ms, issue.lease_expires_ms) = (0, 0);
        let tasks = issue.tasks.unwrap_or_default();
        let count =
            tasks.open + tasks.in_progress + tasks.waiting_for_answer + tasks.done + tasks.canceled;
        writeln!(all, "{issue:?}").unwrap();
        for number in 1..=count {
            let request = wire::GetTaskRequest {
                caller: caller(),
                role: String::new(),
                issue_id: issue_id.clone(),
                task_id: format!("task-{number}"),
            };
            let mut task = swarm.get_task(request).await.unwrap().into_inner().task.unwrap();
            task.updated_ms = 0;
            writeln!(all, "{task:?}").unwrap();
        }
        let (mut after, mut total) = (0, 1);
        while after < total {
            let request = wire::GetHistoryRequest {
                caller: caller(),
                issue_id: issue_id.clone(),
                after,
                limit: SWARM_PAGE_MAX,
            };
            let page = swarm.get_history(request).await.unwrap().into_inner();
            total = page.total;
            for mut entry in page.entries {
                after += 1;
                assert_eq!(entry.number, after);
                entry.at_ms = 0;
                writeln!(all, "{entry:?}").unwrap();
            }
        }
        let place = Some(wire::DocPlace { issue_id: issue_id.clone(), task_id: String::new() });
        docs(swarm, caller(), place, &mut all).await;
    }
    docs(swarm, caller(), None, &mut all).await;
    let request = wire::ListWorkersRequest { caller: caller(), ..Default::default() };
    for it in swarm.list_workers(request).await.unwrap().into_inner().workers {
        writeln!(all, "{} {:?}", it.worker, it.points).unwrap();
    }
    let request = wire::ListDeliveriesRequest { caller: caller(), ..Default::default() };
    for it in swarm.list_deliveries(request).await.unwrap().into_inner().deliveries {
        let it = wire::Delivery { updated_ms: 0, ..it };
        writeln!(all, "{it:?}").unwrap();
    }
    all
}

/// The first line that differs is enough to read.
fn check(there: &str, whole: &str, about: &str) {
    for (there, whole) in there.lines().zip(whole.lines()) {
        assert_eq!(there, whole, "{about}");
    }
    assert_eq!(there.lines().count(), whole.lines().count(), "{about}");
}

async fn docs(
    swarm: &mut SwarmClient<Channel>,
    caller: Option<wire::Caller>,
    place: Option<wire::DocPlace>,
    all: &mut String,
) {
    let listed = wire::ListDocsRequest { caller: caller.clone(), place: place.clone() };
    for it in swarm.list_docs(listed).await.unwrap().into_inner().docs {
        let (caller, place) = (caller.clone(), place.clone());
        let request = wire::ReadDocRequest { caller, place, name: it.name, version: 0 };
        let doc = swarm.read_doc(request).await.unwrap().into_inner();
        writeln!(all, "{} {} {}", doc.name, doc.version, doc.content).unwrap();
    }
}

#[tokio::test]
async fn what_a_killed_import_began_the_next_one_ends_and_nothing_is_there_twice() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let tree = tree(place.path());
    for issue in [ISSUE, "old project"] {
        let log = tree.join("issues").join(issue).join("events.jsonl");
        let mut events = fs::read_to_string(&log).unwrap_or_default();
        // Its last line may be half a one.
        events.push('\n');
        for seq in 100..100 + EVENTS {
            let entry = json!({"seq": seq, "type": "issue_task_message", "task_id": "task-1",
                "actor": "lead", "kind": "note", "detail": format!("Note {seq}"),
                "timestamp": seq});
            writeln!(events, "{entry}").unwrap();
        }
        fs::write(&log, events).unwrap();
    }
    let path = tree.to_str().unwrap();
    let up = Process::up(&data, "").await;
    let url = format!("http://{}", up.broker.unwrap());
    let mut swarm = SwarmClient::connect(url).await.unwrap();

    for name in ["whole", "often"] {
        up.make_workspace(name).await;
    }
    let never = Cut { bytes: u64::MAX, are_sent: true };
    let (is_cut, bytes) = import_until(&data, path, "whole", &up, never).await;
    assert!(!is_cut);
    let whole = all_of(&mut swarm, "whole").await;
    let events = whole.lines().filter(|it| it.contains(": Note ")).count() as u64;
    assert_eq!(events, 2 * EVENTS);

    let mut killed = 0;
    for number in 1..=CUTS {
        let cut = Cut { bytes: bytes * number / (CUTS + 1), are_sent: number % 2 == 0 };
        let once = format!("once-{number}");
        up.make_workspace(&once).await;
        assert!(import_until(&data, path, &once, &up, cut).await.0, "{cut:?}");
        let rest = import(&data, 5, &[path, "--workspace", &once]).await;
        assert_eq!((&rest["refused"], &rest["differ"]), (&json!([]), &json!([])), "{cut:?}");
        killed += u64::from(done(&rest) == json!([1, 1]));
        check(&all_of(&mut swarm, &once).await, &whole, &format!("{cut:?}: {rest}"));
        let again = import(&data, 5, &[path, "--workspace", &once]).await;
        assert_eq!(done(&again), json!([0, 2]), "{cut:?}");
    }
    assert_ne!(killed, 0, "some kill falls between the issues");
    // One that dies again and again.
    for _ in 0..CUTS {
        let cut = Cut { bytes: bytes / 3, are_sent: true };
        import_until(&data, path, "often", &up, cut).await;
    }
    import(&data, 5, &[path, "--workspace", "often"]).await;
    check(&all_of(&mut swarm, "often").await, &whole, "often");
}

#[tokio::test]
async fn documents_that_a_killed_import_did_not_send_come_with_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let issue = place.path().join("tree/issues").join(ISSUE);
    fs::create_dir_all(issue.join("docs")).unwrap();
    let file = json!({"id": ISSUE, "subject": "s", "status": "done"});
    fs::write(issue.join("issue.json"), file.to_string()).unwrap();
    // The issue's call has room for 18 of them; 7 follow, and then 5.
    for number in 10..40 {
        let text = number.to_string().repeat(100_000);
        fs::write(issue.join(format!("docs/plan-{number}.md")), text).unwrap();
    }
    let tree = place.path().join("tree");
    let path = tree.to_str().unwrap();
    let up = Process::up(&data, "").await;
    let mut swarm = SwarmClient::connect(format!("http://{}", up.broker.unwrap())).await.unwrap();
    up.make_workspace("whole").await;
    let never = Cut { bytes: u64::MAX, are_sent: true };
    let (is_cut, bytes) = import_until(&data, path, "whole", &up, never).await;
    assert!(!is_cut);
    assert!(30 * 200_000 < bytes, "{bytes}");
    let whole = all_of(&mut swarm, "whole").await;
    for (once, left) in [("in-the-last-call", 300_000), ("in-the-one-before", 1_500_000)] {
        let cut = Cut { bytes: bytes - left, are_sent: false };
        up.make_workspace(once).await;
        assert!(import_until(&data, path, once, &up, cut).await.0, "{once}");
        let there = all_of(&mut swarm, once).await;
        assert!(there.lines().count() < whole.lines().count(), "{once}: some are missing");
        let rest = import(&data, 0, &[path, "--workspace", once]).await;
        assert_eq!(done(&rest), json!([0, 1]), "{once}");
        check(&all_of(&mut swarm, once).await, &whole, once);
    }
}
