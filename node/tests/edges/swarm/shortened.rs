//! A lease that was made shorter while a node was there that speaks less often.

use serde_json::json;
use tasuki_proto::wire;

use super::{agent, broker, node, ok, set};
use crate::{
    agents::{Agent, Transport},
    http::Client,
    process::{Process, soon},
};

/// The locks that there are; nobody gives a sign of life by asking so.
async fn locks(of: &Process) -> Vec<wire::Lock> {
    let request = wire::ListLocksRequest::default();
    broker(of.broker.unwrap()).await.list_locks(request).await.unwrap().into_inner().locks
}

#[tokio::test]
async fn what_is_locked_under_a_shorter_lease_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let up = Process::broker(&place.path().join("broker"), "").await;
    let one = node(place.path(), up.broker.unwrap(), "worker").await;
    // Registered, and its next sign is ten seconds away.
    let mut worker: Agent = agent(Transport::Session, "worker", &one).await;
    ok(&mut worker, "registerWorker", json!({})).await;
    let there = Client::new(one.mcp, "/mcp/worker").await;
    let _open = there.get(None).await;
    set(up.broker.unwrap(), 1, |it| it.lock_ms = 3_000).await;
    let files = json!({ "files": ["a.rs"], "repository": "git.example/shop" });
    ok(&mut worker, "lockFiles", files).await;
    let renewed = async {
        loop {
            let locks = locks(&up).await;
            let [lock] = &locks[..] else { panic!("it lapsed: {locks:?}") };
            if lock.renewed_ms != lock.acquired_ms {
                return;
            }
        }
    };
    soon(renewed).await;
}
