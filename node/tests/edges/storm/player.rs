//! A client that plays one role in many loops at once, and does not always stay.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinError, JoinSet},
};

use super::{World, connection::Wire, loop_name, next_of, role, turn_of, words};
use crate::{
    agents::{Broken, Transport},
    crash::accepted,
};

/// What a client is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Hang up on some of its questions, or on all where they share a connection.
    HangUp,
    /// Cancel some of its questions.
    Cancel,
    /// End its session in good order.
    Leave,
    /// Be gone without a word, and there again as somebody new.
    Vanish,
    /// Be gone until told to come back.
    StayAway,
    ComeBack,
}

pub(super) struct Player {
    pub(super) number: usize,
    transport: Transport,
    world: World,
    wire: Option<Wire>,
    is_away: bool,
    /// Loops whose turn it has not had yet.
    open: BTreeSet<usize>,
    ids: u64,
    /// The question that is open on each loop.
    asked: BTreeMap<usize, (u64, AbortHandle)>,
    answers: JoinSet<(usize, u64, Result<Value, Broken>)>,
    orders: mpsc::Receiver<Order>,
}

impl Player {
    pub(super) fn new(
        number: usize,
        transport: Transport,
        world: World,
        open: BTreeSet<usize>,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            number,
            transport,
            world,
            wire: None,
            is_away: false,
            open,
            ids: 100,
            asked: BTreeMap::new(),
            answers: JoinSet::new(),
            orders,
        }
    }

    /// Asks until it has had its turn in each of its loops, then leaves.
    pub(super) async fn play(mut self) {
        while !self.open.is_empty() {
            if !self.is_away {
                self.ask().await;
            }
            tokio::select! {
                Some(ended) = self.answers.join_next() => self.heard(ended).await,
                Some(order) = self.orders.recv() => self.obey(order).await,
            }
        }
        while let Some(wire) = self.wire.take() {
            if let Err(why) = wire.clone().leave().await {
                self.again(&why.0).await;
                self.wire = Some(wire);
            }
        }
    }

    /// Before something is tried again.
    async fn again(&self, why: &str) {
        self.world.seen.send_modify(|seen| {
            seen.again += 1;
            seen.latest = format!("{:?} {}: {why}", self.transport, role(self.number));
        });
        let mut is_up = self.world.is_up.clone();
        is_up.wait_for(|is_up| *is_up).await.unwrap();
    }

    async fn wire(&mut self) -> Wire {
        loop {
            match &self.wire {
                Some(wire) if !wire.is_over() => return wire.clone(),
                _ => self.forget(),
            }
            let role = role(self.number);
            let data = self.world.data.clone();
            match Wire::open(self.transport, &role, self.world.mcp, data).await {
                Ok(wire) => {
                    let mut freezers = self.world.freezers.lock().unwrap();
                    drop(freezers.remove(&self.number));
                    freezers.extend(wire.freezer().map(|it| (self.number, it)));
                    self.wire = Some(wire);
                }
                Err(why) => self.again(&why.0).await,
            }
        }
    }

    async fn ask(&mut self) {
        let wire = self.wire().await;
        let unasked = self.open.iter().filter(|it| !self.asked.contains_key(it));
        for of in unasked.copied().collect::<Vec<_>>() {
            self.ids += 1;
            let (id, wire) = (self.ids, wire.clone());
            let asking = self.answers.spawn(async move {
                let answer = wire.ask(id, "await_my_turn", json!({ "loop": loop_name(of) })).await;
                (of, id, answer)
            });
            self.asked.insert(of, (id, asking));
        }
    }

    async fn heard(&mut self, ended: Result<(usize, u64, Result<Value, Broken>), JoinError>) {
        let (of, id, answer) = match ended {
            Ok(answer) => answer,
            Err(why) if why.is_cancelled() => return,
            Err(why) => std::panic::resume_unwind(why.into_panic()),
        };
        // What was given up is not read, as if its client had not lived to see it.
        if self.asked.get(&of).is_none_or(|(latest, _)| *latest != id) {
            return;
        }
        self.asked.remove(&of);
        let role = role(self.number);
        match accepted(answer) {
            Ok(told) if told["can_start"] == true => {
                let turn = turn_of(of, self.number);
                let was = (&told["loop"], &told["turn"], &told["instruction"]);
                let is = (&json!(loop_name(of)), &json!(turn), &json!(words(of, &role)));
                assert_eq!(was, is, "{role}: {told}");
                self.hand_over(of, turn).await;
                assert!(self.open.remove(&of));
                self.world.seen.send_modify(|seen| seen.answered += 1);
            }
            Ok(told) => {
                assert_ne!(told["is_finished"], true, "{role}: {told}");
                self.world.seen.send_modify(|seen| {
                    seen.unanswered += 1;
                    seen.superseded += usize::from(told["superseded"] == true);
                });
            }
            Err(why) => {
                assert!(!why.is_refusal, "{role}: {why}");
                self.again(&why.to_string()).await;
            }
        }
    }

    async fn hand_over(&mut self, of: usize, turn: u64) {
        let to = next_of(of, Some(self.number));
        loop {
            let wire = self.wire().await;
            self.ids += 1;
            match accepted(wire.ask(self.ids, "handover_work", handover(of, turn, &to)).await) {
                Ok(done) => {
                    assert_eq!(done["ended_turn"], turn, "{done}");
                    return;
                }
                Err(why) => {
                    assert!(!why.is_refusal, "turn {turn} of {}: {why}", loop_name(of));
                    self.again(&why.to_string()).await;
                }
            }
        }
    }

    /// Gives up what is open, with its connections.
    fn forget(&mut self) {
        for (_, (_, asking)) in std::mem::take(&mut self.asked) {
            asking.abort();
        }
        self.wire = None;
    }

    /// About a third of what is open.
    fn some(&self) -> Vec<(usize, u64)> {
        self.asked.iter().map(|(of, (id, _))| (*of, *id)).filter(|(_, id)| id % 3 == 0).collect()
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::HangUp if matches!(self.wire, Some(Wire::Shared(_))) => self.forget(),
            Order::HangUp => {
                for (of, _) in self.some() {
                    self.give_up(of);
                }
            }
            Order::Cancel => {
                for (of, id) in self.some() {
                    if let Some(wire) = &self.wire
                        && let Err(why) = wire.cancel(id).await
                    {
                        self.again(&why.0).await;
                    }
                    self.give_up(of);
                }
            }
            Order::Leave => {
                if let Some(wire) = self.wire.take() {
                    self.forget();
                    if let Err(why) = wire.leave().await {
                        self.again(&why.0).await;
                    }
                }
            }
            Order::Vanish => self.forget(),
            Order::StayAway => {
                self.forget();
                self.is_away = true;
            }
            Order::ComeBack => self.is_away = false,
        }
    }

    fn give_up(&mut self, of: usize) {
        if let Some((_, asking)) = self.asked.remove(&of) {
            asking.abort();
        }
    }
}

/// What ends `turn`.
pub(super) fn handover(of: usize, turn: u64, to: &str) -> Value {
    json!({ "loop": loop_name(of), "turn": turn, "to": to, "is_task_complete": false,
        "work_summary": format!("turn {turn} of {}", loop_name(of)),
        "next_instruction": words(of, to) })
}
