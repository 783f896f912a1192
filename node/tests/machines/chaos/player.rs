//! Who acts while everything breaks: agents that take turns, and a person who takes turns away.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::ledger::Ledger;
use crate::{
    chance::Chance,
    process::Desk,
    seat::{Seat, Told},
};

/// What an agent does in its turn takes so long: enough for turns to be there when things break,
/// and for the journal to stay readable from its beginning.
const WORK: Duration = Duration::from_millis(60);

/// Before a call is made again.
const REST: Duration = Duration::from_millis(100);

/// What everybody has in common.
#[derive(Debug, Clone)]
pub(super) struct Game {
    pub(super) ledger: Arc<watch::Sender<Ledger>>,
    /// The next turn is to be the last.
    pub(super) is_last: watch::Receiver<bool>,
}

/// One role in one loop.
pub(super) struct Player {
    pub(super) seat: Seat,
    pub(super) of: &'static str,
    pub(super) chance: Chance,
    pub(super) game: Game,
}

/// What a refusal says about the call.
struct Refusal {
    code: String,
    is_maybe_applied: bool,
}

impl Refusal {
    fn of(code: String, result: &Value) -> Self {
        let error = &result["structuredContent"]["error"];
        Self { code, is_maybe_applied: error["maybe_applied"] == true }
    }

    /// The turn went on without these words.
    fn is_too_late(&self) -> bool {
        matches!(self.code.as_str(), "stale_token" | "not_your_turn" | "loop_completed")
    }

    /// Nobody judged the call.
    fn is_trouble(&self) -> bool {
        matches!(self.code.as_str(), "unavailable" | "outcome_unknown" | "overloaded")
    }
}

impl Player {
    /// Takes turns until all is finished.
    pub(super) async fn play(mut self) {
        loop {
            let told = self.seat.wait_in(self.of).await.unwrap();
            let facts = match told {
                Told::Facts(facts) => facts,
                Told::Refused(code, result) => {
                    assert!(Refusal::of(code, &result).is_trouble(), "{result}");
                    self.again().await;
                    continue;
                }
                Told::Nothing(_) => {
                    self.again().await;
                    continue;
                }
            };
            if facts["is_finished"] == true {
                return;
            }
            if facts["can_start"] == true {
                let turn = facts["turn"].as_u64().unwrap();
                let (role, of) = (&self.seat.role, self.of);
                self.game.ledger.send_modify(|it| it.given(of, turn, role));
                sleep(WORK).await;
                self.hand_over(turn).await;
            }
        }
    }

    async fn again(&self) {
        self.game.ledger.send_modify(|it| it.again += 1);
        sleep(REST).await;
    }

    /// Returns once the turn is over, by these words or without them.
    async fn hand_over(&mut self, turn: u64) {
        let (of, role) = (self.of, self.seat.role.clone());
        let ledger = Arc::clone(&self.game.ledger);
        for attempt in 0.. {
            let words = format!("{of}: {role} ends {turn}, {attempt}");
            let mut may_have_been = false;
            loop {
                let handover = json!({ "loop": of, "work_summary": words, "turn": turn,
                    "next_instruction": "go on",
                    "is_task_complete": *self.game.is_last.borrow() });
                let told = self.seat.call("handover_work", handover).await;
                match told {
                    Told::Facts(done) => {
                        assert_eq!(done["ended_turn"], turn, "{done}");
                        ledger.send_modify(|it| it.done(of, &words));
                        return;
                    }
                    Told::Nothing(_) => may_have_been = true,
                    Told::Refused(code, result) => {
                        let refusal = Refusal::of(code, &result);
                        if refusal.is_too_late() {
                            // Had these words ended it, they would be the old answer.
                            assert!(!refusal.is_maybe_applied, "{result}");
                            ledger.send_modify(|it| it.refused(&words));
                            return;
                        }
                        assert!(refusal.is_trouble(), "{result}");
                        may_have_been |= refusal.is_maybe_applied;
                    }
                }
                self.again().await;
                if !may_have_been {
                    // Refused for good: from here on they must not take effect.
                    ledger.send_modify(|it| it.refused(&words));
                    break;
                }
                if self.chance.below(4) == 0 {
                    // As an agent does that forgot what it had said.
                    ledger.send_modify(|it| it.unknown(&words));
                    break;
                }
            }
        }
    }
}

/// Takes turns away from whoever holds them, from any machine, until the last turn is played.
pub(super) async fn reclaim(
    desks: Vec<Desk>,
    of: &'static str,
    roles: &'static [&'static str],
    mut chance: Chance,
    game: Game,
) {
    let mut number = 0;
    while !*game.is_last.borrow() {
        number += 1;
        let at = usize::try_from(chance.below(desks.len() as u64)).unwrap();
        let to = roles[usize::try_from(chance.below(roles.len() as u64)).unwrap()];
        let words = format!("{of}:reclaimed-{number}");
        let line = format!("tasuki loop reclaim {of} --json --reason {words} --to {to}");
        let output = desks[at].run(&line).await;
        game.ledger.send_modify(|it| match output.status.code() {
            Some(0) => it.done(of, &words),
            Some(1 | 3) => it.refused(&words),
            Some(4) => it.unknown(&words),
            _ => panic!("{line}: {output:?}"),
        });
        sleep(REST * 10).await;
    }
}
