//! Workers that wait for a task, over streams as nodes have them, and the one that is woken.

use std::{collections::BTreeMap, time::Duration};

use tasuki_proto::wire::{
    IssueStatus, ParkRequest, ParkResponse, SwarmQuestion, park_request::Ask,
    park_response::Outcome, swarm_answer::Standing, swarm_question, waits_client::WaitsClient,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{
    super::micros,
    desk::{Desk, channel},
};
use crate::{Result, process::Process};

/// Streams the waits spread over: a node each.
const STREAMS: usize = 5;

/// Longer than any of this takes.
const HOLD_MS: u64 = 30 * 60 * 1000;

/// For anything to be told that should be.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// What was told over a stream, and when it came.
struct Told {
    response: ParkResponse,
    at: Instant,
}

pub(super) struct Crowd {
    desk: Desk,
    streams: Vec<mpsc::Sender<ParkRequest>>,
    told: mpsc::Receiver<Told>,
    /// By the number of its wait: which worker waits.
    waiting: BTreeMap<u64, usize>,
    /// The number used last.
    number: u64,
    /// Read what is told, until this is dropped.
    _readers: JoinSet<()>,
}

impl Crowd {
    /// Registers so many workers, all of which wait for a task of one issue.
    pub(super) async fn gather(broker: &Process, workspace: &str, workers: usize) -> Result<Self> {
        let mut desk = Desk::open(broker, workspace).await?;
        let (tell, told) = mpsc::channel(64);
        let (mut streams, mut readers) = (Vec::new(), JoinSet::new());
        for _ in 0..STREAMS {
            let (asks, stream) = mpsc::channel(64);
            let mut waits = WaitsClient::new(channel(broker).await?);
            let answers = waits.park(ReceiverStream::new(stream)).await?.into_inner();
            readers.spawn(read(answers, tell.clone()));
            streams.push(asks);
        }
        for worker in 0..workers {
            desk.register(&name(worker)).await?;
        }
        let waiting = BTreeMap::new();
        let mut crowd = Self { desk, streams, told, waiting, number: 0, _readers: readers };
        for worker in 0..workers {
            crowd.park(worker).await?;
        }
        crowd.nobody_else().await?;
        Ok(crowd)
    }

    /// Microseconds from the call that makes one task until a worker is told of it. That one
    /// claims it and waits again; everybody else was told nothing.
    pub(super) async fn wake(&mut self) -> Result<f64> {
        let (request, mut swarm) = (self.desk.plan(1), self.desk.client());
        let began = Instant::now();
        let made = tokio::spawn(async move { swarm.create_tasks(request).await });
        let Told { response, at } = self.next().await?;
        let made = made.await??.into_inner().tasks;
        let worker = self.waiting.remove(&response.wait).ok_or("nobody waited for what came")?;
        let task = match response.outcome {
            Some(Outcome::Swarm(it)) if it.standing() == Standing::There => it.tasks,
            other => return Err(format!("told {other:?}").into()),
        };
        let (Some(task), Some(made)) = (task.first(), made.first()) else {
            return Err("told of no task".into());
        };
        if task.task_id != made.task_id {
            return Err(format!("told of {}, not of {}", task.task_id, made.task_id).into());
        }
        self.nobody_else().await?;
        self.desk.claim(&name(worker), &task.task_id, "").await?;
        self.park(worker).await?;
        self.nobody_else().await?;
        Ok(micros(at.duration_since(began)))
    }

    async fn park(&mut self, worker: usize) -> Result<()> {
        let tasks = swarm_question::Ask::TasksOf(self.desk.issue.clone());
        let wait = self.ask(worker % STREAMS, name(worker), tasks, HOLD_MS).await?;
        self.waiting.insert(wait, worker);
        Ok(())
    }

    async fn ask(
        &mut self,
        stream: usize,
        role: String,
        ask: swarm_question::Ask,
        hold_ms: u64,
    ) -> Result<u64> {
        self.number += 1;
        let caller = Some(self.desk.caller.clone());
        let question = SwarmQuestion { caller, role, hold_ms, ask: Some(ask) };
        let ask = ParkRequest { wait: self.number, ask: Some(Ask::Swarm(question)) };
        self.streams[stream].send(ask).await?;
        Ok(self.number)
    }

    /// Fails if anybody was told something. What is asked here of each stream is answered behind
    /// all that was told before, and after all that was asked before is parked.
    async fn nobody_else(&mut self) -> Result<()> {
        for stream in 0..STREAMS {
            let open = swarm_question::Ask::Issues(IssueStatus::Open.into());
            self.ask(stream, format!("stream-{stream}"), open, 0).await?;
        }
        for _ in 0..STREAMS {
            let Told { response, .. } = self.next().await?;
            if let Some(worker) = self.waiting.get(&response.wait) {
                let told = response.outcome;
                return Err(format!("{} was told for nothing: {told:?}", name(*worker)).into());
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Told> {
        let told = tokio::time::timeout(TOLD_WITHIN, self.told.recv()).await;
        let told = told.map_err(|_| format!("nobody was told anything for {TOLD_WITHIN:?}"))?;
        told.ok_or_else(|| "the streams ended".into())
    }
}

fn name(worker: usize) -> String {
    format!("worker-{worker}")
}

/// Hands on what a stream tells, with the time at which it came.
async fn read(mut answers: Streaming<ParkResponse>, tell: mpsc::Sender<Told>) {
    while let Ok(Some(response)) = answers.message().await {
        let told = Told { response, at: Instant::now() };
        if tell.send(told).await.is_err() {
            return;
        }
    }
}
