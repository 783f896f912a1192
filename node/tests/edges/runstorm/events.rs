//! What the broker tells of runs as they happen, read on over its deaths.

use std::{collections::BTreeMap, net::SocketAddr};

use tasuki_proto::wire::{self, RunStatus, event::Noun, feed_client::FeedClient, run_event::Kind};
use tokio::{sync::watch, task::JoinHandle};

use super::{RUNS, Trouble};
use crate::process::soon;

/// How often each was told.
#[derive(Debug, Default)]
struct Told {
    /// The newest sequence that was read.
    sequence: u64,
    started: BTreeMap<String, usize>,
    ended: BTreeMap<String, Vec<RunStatus>>,
    steps_started: BTreeMap<(String, u32), usize>,
    steps_ended: BTreeMap<(String, u32), usize>,
}

pub(super) struct Events {
    told: watch::Receiver<Told>,
    following: JoinHandle<()>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Events {
    pub(super) fn follow(broker: SocketAddr, mut trouble: watch::Receiver<Trouble>) -> Self {
        let (telling, told) = watch::channel(Told::default());
        let following = tokio::spawn(async move {
            loop {
                // A connection that breaks ends this, and the next one goes on behind it.
                read(broker, &telling).await.unwrap_or_default();
                if trouble.wait_for(|it| !it.is_under_way).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        });
        Self { told, following }
    }

    /// Up to this sequence each run and each step ended once, as everybody was told.
    pub(super) async fn check(
        mut self,
        sequence: u64,
        ended: &BTreeMap<String, (usize, RunStatus)>,
    ) {
        let told = soon(self.told.wait_for(|told| sequence <= told.sequence)).await.unwrap();
        assert_eq!((told.started.len(), told.ended.len()), (RUNS, RUNS));
        for (run_id, (_, status)) in ended {
            assert_eq!(told.started[run_id], 1, "{run_id}");
            assert_eq!(told.ended[run_id], [*status], "{run_id}");
        }
        for (step, count) in &told.steps_ended {
            assert_eq!(*count, 1, "{step:?}");
        }
        for (step, count) in &told.steps_started {
            assert_eq!((*count, told.steps_ended[step]), (1, 1), "{step:?}");
        }
    }
}

async fn read(broker: SocketAddr, telling: &watch::Sender<Told>) -> Option<()> {
    let mut feed = FeedClient::connect(format!("http://{broker}")).await.ok()?;
    let from_sequence = telling.borrow().sequence + 1;
    let request = wire::SubscribeRequest { caller: None, from_sequence, ..Default::default() };
    let mut items = feed.subscribe(request).await.ok()?.into_inner();
    while let Some(item) = items.message().await.ok()? {
        telling.send_modify(|told| told.take(item));
    }
    None
}

impl Told {
    fn take(&mut self, item: wire::FeedItem) {
        assert_eq!(item.sequence, self.sequence + 1, "no gap, and nothing twice");
        self.sequence = item.sequence;
        for event in item.events {
            let Some(Noun::Run(wire::RunEvent { kind: Some(kind) })) = event.noun else { continue };
            match kind {
                Kind::RunStarted(it) => *self.started.entry(it.run_id).or_default() += 1,
                Kind::StepStarted(it) => {
                    *self.steps_started.entry((it.run_id, it.step)).or_default() += 1;
                }
                Kind::StepEnded(it) => {
                    *self.steps_ended.entry((it.run_id, it.step)).or_default() += 1;
                }
                Kind::RunEnded(it) => {
                    let status = it.status();
                    self.ended.entry(it.run_id).or_default().push(status);
                }
                Kind::RunStopped(_)
                | Kind::ParentTold(_)
                | Kind::RunReplied(_)
                | Kind::RunsForgotten(_) => {}
            }
        }
    }
}
