//! Waits parked over streams, as nodes park them: what each costs, and whether many make waking
//! one slower.

use tasuki_proto::wire::{
    Caller, CreateLoopRequest, HandOverRequest, IdempotencyKey, ParkRequest, ParkResponse,
    TurnQuestion, directory_client::DirectoryClient, park_request::Ask, park_response::Outcome,
    turn_loop_client::TurnLoopClient, waits_client::WaitsClient,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{
    Figure, Quantity, Sizes, Target,
    calls::{lift_limits, registration},
    median, micros, number,
};
use crate::{Result, process::Process};

/// Streams the waits spread over: a node each.
const STREAMS: usize = 5;

/// How many are few.
pub(super) const FEW: usize = 10;

/// Longer than any of this takes.
pub(super) const HOLD_MS: u64 = 30 * 60 * 1000;

/// Loops opened at once.
const OPENERS: usize = 64;

/// A node's stream of waits.
pub(super) struct Node {
    asks: mpsc::Sender<ParkRequest>,
    answers: Streaming<ParkResponse>,
    /// Where its loops are.
    workspace: &'static str,
    loops: Vec<String>,
    /// The key used last.
    counter: u64,
    turns: TurnLoopClient<Channel>,
    /// Who holds the turn of all its loops, except those handed over since.
    next: usize,
}

impl Node {
    pub(super) async fn new(
        broker: &Process,
        workspace: &'static str,
        loops: Vec<String>,
    ) -> Result<Self> {
        let channel = Channel::from_shared(broker.url().to_owned())?.tcp_nodelay(true);
        let channel = channel.connect().await?;
        let (asks, stream) = mpsc::channel(64);
        let mut waits = WaitsClient::new(channel.clone());
        let answers = waits.park(ReceiverStream::new(stream)).await?.into_inner();
        let turns = TurnLoopClient::new(channel);
        Ok(Self { asks, answers, workspace, loops, counter: 0, turns, next: 0 })
    }

    fn caller(&self) -> Option<Caller> {
        Some(Caller { workspace: self.workspace.to_owned(), ..Caller::default() })
    }

    fn key(&mut self) -> Option<IdempotencyKey> {
        self.counter += 1;
        let client_id = format!("{}-{}", self.workspace, self.loops[0]);
        Some(IdempotencyKey { client_id, counter: self.counter })
    }

    pub(super) async fn park(&mut self, wait: usize, role: &str) -> Result<()> {
        let question = TurnQuestion {
            caller: self.caller(),
            r#loop: self.loops[wait].clone(),
            role: role.to_owned(),
            hold_ms: HOLD_MS,
        };
        let ask = ParkRequest { wait: wait as u64 + 1, ask: Some(Ask::Turn(question)) };
        self.asks.send(ask).await.map_err(|_| "the stream ended")?;
        Ok(())
    }

    /// Asks what is answered at once.
    async fn ask_once(&mut self) -> Result<()> {
        let question = TurnQuestion {
            caller: self.caller(),
            r#loop: self.loops[0].clone(),
            role: "A".to_owned(),
            hold_ms: 0,
        };
        let wait = self.loops.len() as u64 + 1;
        self.asks.send(ParkRequest { wait, ask: Some(Ask::Turn(question)) }).await?;
        self.answers.message().await?.ok_or("the stream ended")?;
        Ok(())
    }

    /// Microseconds from a handover in one of its loops until the wait there is told. The wait
    /// is parked again, for the other role.
    pub(super) async fn wake(&mut self) -> Result<f64> {
        let wait = self.next % self.loops.len();
        let is_a = (self.next / self.loops.len()).is_multiple_of(2);
        self.next += 1;
        let (from, to) = if is_a { ("A", "B") } else { ("B", "A") };
        let request = HandOverRequest {
            caller: self.caller(),
            key: self.key(),
            r#loop: self.loops[wait].clone(),
            role: from.to_owned(),
            summary: "s".into(),
            instruction: "i".into(),
            ..HandOverRequest::default()
        };
        let began = Instant::now();
        let mut turns = self.turns.clone();
        let handed = tokio::spawn(async move { turns.hand_over(request).await });
        let told = self.answers.message().await?.ok_or("the stream ended")?;
        let took = began.elapsed();
        handed.await??;
        match told.outcome {
            Some(Outcome::Turn(answer))
                if answer.can_start && answer.turn % 2 == u64::from(to == "A") => {}
            other => return Err(format!("told {other:?}").into()),
        }
        self.park(wait, from).await?;
        Ok(micros(took))
    }
}

/// # Errors
/// When a call fails.
pub async fn parked(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let mut broker = Process::broker(data.path()).await?;
    let names = |count: usize| (0..count).map(|it| format!("l{it}")).collect::<Vec<_>>();
    open(&broker, "few", &names(FEW)).await?;
    open(&broker, "many", &names(sizes.waits)).await?;
    // Opening them left memory behind that waits would fill without being seen.
    broker.stop().await?;
    broker = Process::broker(data.path()).await?;
    let mut few = Node::new(&broker, "few", names(FEW)).await?;
    let mut many = Vec::new();
    for loops in names(sizes.waits).chunks(sizes.waits.div_ceil(STREAMS)) {
        many.push(Node::new(&broker, "many", loops.to_vec()).await?);
    }
    for wait in 0..FEW {
        few.park(wait, "B").await?;
    }
    // Idle, with all loops in memory and all streams connected.
    for _ in 0..FEW {
        few.wake().await?;
        many[0].ask_once().await?;
    }
    let idle = broker.memory_bytes()?;
    for node in &mut many {
        for wait in 0..node.loops.len() {
            node.park(wait, "B").await?;
        }
        // Its answer says that all asked before are parked.
        node.ask_once().await?;
    }
    let full = broker.memory_bytes()?;
    let each = full.saturating_sub(idle) as f64 / number(sizes.waits);

    let (mut with_few, mut with_many, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for it in 0..sizes.handovers {
            a.push(few.wake().await?);
            let node = it % many.len();
            b.push(many[node].wake().await?);
        }
        if run == 0 {
            continue;
        }
        let (a, b) = (median(&mut a), median(&mut b));
        with_few.push(a);
        with_many.push(b);
        ratios.push(b / a);
    }
    drop((few, many));
    broker.stop().await?;
    let waits = sizes.waits;
    Ok(vec![
        Figure {
            name: format!("{waits} waits: memory of each"),
            value: Quantity::Bytes(each),
            limit: None,
            score: each,
            target: Target::AtMost(4096.0),
        },
        Figure {
            name: format!("{waits} waits: waking one"),
            value: Quantity::Micros(median(&mut with_many)),
            limit: Some(("with ten".into(), Quantity::Micros(median(&mut with_few)))),
            score: median(&mut ratios),
            target: Target::AtMost(1.1),
        },
    ])
}

/// Opens loops of A and B.
pub(super) async fn open(
    broker: &Process,
    workspace: &'static str,
    loops: &[String],
) -> Result<()> {
    let channel = Channel::from_shared(broker.url().to_owned())?.connect().await?;
    let caller = Caller { workspace: workspace.to_owned(), ..Caller::default() };
    DirectoryClient::new(channel.clone()).register(registration(&caller, "opener")).await?;
    lift_limits(broker, workspace).await?;
    let mut openers: JoinSet<Result<()>> = JoinSet::new();
    for (opener, loops) in loops.chunks(loops.len().div_ceil(OPENERS)).enumerate() {
        let (loops, mut turns) = (loops.to_vec(), TurnLoopClient::new(channel.clone()));
        openers.spawn(async move {
            for (counter, name) in (1..).zip(loops) {
                let client_id = format!("opener-{opener}");
                let request = CreateLoopRequest {
                    caller: Some(Caller { workspace: workspace.to_owned(), ..Caller::default() }),
                    key: Some(IdempotencyKey { client_id, counter }),
                    r#loop: name,
                    participants: vec!["A".to_owned(), "B".to_owned()],
                    allow_new_roles: true,
                };
                turns.create_loop(request).await?;
            }
            Ok(())
        });
    }
    while let Some(opened) = openers.join_next().await {
        opened??;
    }
    Ok(())
}
