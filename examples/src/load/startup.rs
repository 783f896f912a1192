//! Starting with a long history: how long until every workspace answers, and in how much
//! memory.
//!
//! The history is written by the broker's own rules and journal, without the wire between; the
//! broker that then starts is a process like any other.

use std::{path::Path, sync::Arc};

use tasuki_broker::{
    hash::Hash,
    journal::{
        Append, Journal as _, Outcome, Writer, codec,
        sled::{Options, SledJournal},
    },
    rules::{Caller, Command, Context, Principal, Request, Workspace, presence::Presence, turn},
};
use tasuki_proto::{
    id::{IdempotencyKey, RoleId, Sequence, Timestamp, Turn, WorkspaceId},
    limits::LEASE_MS,
    wire::{self, turn_loop_client::TurnLoopClient},
};
use tokio::{process, sync::watch, time::Instant};

use super::{Figure, Quantity, Sizes, Target, median};
use crate::{Result, process::Process};

/// Workspaces the records spread over.
const WORKSPACES: u64 = 100;

/// Records of a workspace queued before waiting for the disk.
const QUEUED_MAX: u64 = 32;

/// Records between two snapshots, as in a running broker.
const SNAPSHOT_RECORDS: u64 = 4096;

/// Starts measured of each history; the median counts.
const STARTS: usize = 3;

/// A workspace that is being filled.
struct Filled {
    state: Workspace,
    context: Context,
    writer: Box<dyn Writer>,
    durable: watch::Receiver<u64>,
    snapshot: Option<Sequence>,
}

/// # Errors
/// When something fails.
pub async fn history(sizes: &Sizes) -> Result<Vec<Figure>> {
    let records = sizes.records;
    let with_snapshots = measured(sizes, records, true).await?;
    let by_replay = measured(sizes, records, false).await?;
    let tenth = measured(sizes, records / 10, true).await?;
    let seconds = |name: String, (time, _): (f64, f64), most: f64| Figure {
        name,
        value: Quantity::Seconds(time),
        limit: None,
        score: time,
        target: Target::AtMost(most),
    };
    Ok(vec![
        seconds(format!("{records} records: start with snapshots"), with_snapshots, 1.5),
        seconds(format!("{records} records: start by replay"), by_replay, 15.0),
        Figure {
            name: format!("{records} records: memory after start"),
            value: Quantity::Bytes(with_snapshots.1),
            limit: Some(("with a tenth".into(), Quantity::Bytes(tenth.1))),
            score: with_snapshots.1 / tenth.1,
            target: Target::None,
        },
        Figure {
            name: format!("{records} records: memory after replay"),
            value: Quantity::Bytes(by_replay.1),
            limit: Some(("with snapshots".into(), Quantity::Bytes(with_snapshots.1))),
            score: by_replay.1 / with_snapshots.1,
            target: Target::None,
        },
    ])
}

/// Seconds until a broker with so many records answers for all, and its memory then.
async fn measured(sizes: &Sizes, records: u64, has_snapshots: bool) -> Result<(f64, f64)> {
    let history = tempfile::tempdir_in(&sizes.dir)?;
    fill(history.path(), records, has_snapshots).await?;
    let (mut times, mut memories) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        // A broker that ran has taken snapshots: each start gets the history as it was.
        let data = tempfile::tempdir_in(&sizes.dir)?;
        let mut copy = process::Command::new("cp");
        copy.arg("-r").arg(history.path().join("broker")).arg(data.path());
        if !copy.status().await?.success() {
            return Err("cannot copy the history".into());
        }
        let began = Instant::now();
        let mut broker = Process::broker(data.path()).await?;
        let mut turns = TurnLoopClient::connect(broker.url().to_owned()).await?;
        for number in 0..WORKSPACES {
            let caller = wire::Caller { workspace: format!("w{number}"), ..<_>::default() };
            let request = wire::GetLoopRequest { caller: Some(caller), ..<_>::default() };
            let state = turns.get_loop(request).await?.into_inner().r#loop.unwrap_or_default();
            assert_eq!(state.turn, records / WORKSPACES + 1, "it has all of its history");
        }
        times.push(began.elapsed().as_secs_f64());
        memories.push(broker.memory_bytes()? as f64);
        broker.kill().await?;
    }
    Ok((median(&mut times), median(&mut memories)))
}

async fn fill(data: &Path, records: u64, has_snapshots: bool) -> Result<()> {
    // Where `tasuki-broker --data` keeps it.
    let dir = data.join("broker");
    let opened = move || SledJournal::open(&dir, Options::default());
    let journal = tokio::task::spawn_blocking(opened).await??;
    let mut workspaces = Vec::new();
    for number in 0..WORKSPACES {
        let id: WorkspaceId = format!("w{number}").parse()?;
        let (tell, durable) = watch::channel(0);
        let listener = move |outcome| match outcome {
            Outcome::Durable { through } => drop(tell.send_replace(through.get())),
            // Whoever waits sees that nobody tells any more.
            Outcome::Fenced | Outcome::Ambiguous | Outcome::Failed => {}
        };
        let writer = journal.open(&id, Arc::new(listener)).await?.writer;
        let context = Context::new(Presence::new(Timestamp::default()), LEASE_MS);
        let (state, snapshot) = (Workspace::default(), None);
        workspaces.push(Filled { state, context, writer, durable, snapshot });
    }
    let incarnation = journal.incarnation();
    let each = records / WORKSPACES;
    let mut written = 0;
    while written < each {
        let next = (written + QUEUED_MAX).min(each);
        for workspace in &mut workspaces {
            for _ in written..next {
                workspace.hand_over(&incarnation)?;
            }
            if has_snapshots && workspace.is_snapshot_due() {
                workspace.take_snapshot()?;
            }
        }
        for workspace in &mut workspaces {
            workspace.durable.wait_for(|through| next <= *through).await?;
        }
        written = next;
    }
    drop(workspaces);
    Ok(journal.close().await?)
}

impl Filled {
    /// The holder of the loop `main` hands over.
    fn hand_over(&mut self, incarnation: &[u8; 16]) -> Result<()> {
        let sequence = self.state.sequence.next();
        let role: RoleId = if sequence.get() % 2 == 1 { "A" } else { "B" }.parse()?;
        let handover = turn::HandOver {
            loop_id: "main".parse()?,
            role: role.clone(),
            summary: "s".repeat(100),
            instruction: "i".repeat(100),
            is_task_complete: false,
            to: None,
            turn: Some(Turn::from(sequence.get())),
        };
        let key = IdempotencyKey { client: "load".parse()?, counter: sequence.get() };
        let key = Some((key, Hash::of(&sequence.get().to_be_bytes())));
        let command = Command::Turn(turn::Command::HandOver(handover));
        let request = Request { caller: Caller::default(), key, command };
        // A second between two.
        let time = Timestamp::from_millis(sequence.get() * 1000);
        let decision = self.state.decide(time, &self.context, &request)?;
        let principal = Principal { role: Some(role), ..Principal::default() };
        let (record, bodies) = decision.into_record(sequence, time, principal, request.key);
        self.state.apply(&record);
        self.writer.append(Append {
            sequence,
            record: codec::encode_record(&record, incarnation),
            bodies: bodies.iter().flat_map(codec::encode_body).collect(),
            // Each names an entry of a history, which is written once.
            are_bodies_new: true,
        });
        Ok(())
    }

    fn is_snapshot_due(&self) -> bool {
        let before = self.snapshot.unwrap_or_default().get();
        before + SNAPSHOT_RECORDS <= self.state.sequence.get()
    }

    fn take_snapshot(&mut self) -> Result<()> {
        let before = self.snapshot.replace(self.state.sequence).unwrap_or_default();
        let mut snapshot = self.writer.snapshot(self.state.sequence, before.next());
        codec::encode_snapshot(&self.state, |piece| snapshot.piece(piece))?;
        Ok(snapshot.finish()?)
    }
}
