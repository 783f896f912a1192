//! What a role can wait for, whoever waits: a call that is held, or a task that is polled.
//!
//! A wait shows state and may show it again. What it showed counts as handed only once it is
//! written, which is why an answer and its receipt are made in one place, here.

use std::{sync::Arc, time::Duration};

use rmcp::model::CallToolResult;
use tasuki_proto::{
    id::{LoopId, RoleId, Turn},
    mail::MessageId,
    reason::Reason,
    run::RunId,
    wire::MailMark,
};
use tokio_util::sync::CancellationToken;

use super::{
    in_flight_acks::InFlightAcks,
    tasks::may_be_sealed,
    tools::{board_result, ended_or_asked, mail_result, run_result, swarm_result, turn_result},
    transport::write_ack::{Mark, WriteAck},
};
pub(super) use crate::wait::{Answer, Question as What};
use crate::{
    refusal::Refusal,
    role::Actions,
    runs::client::RunClient,
    wait::{Awaited, BoardAwaited, MailFilter, RunAwaited},
};

/// How long an answer may be overdue, in milliseconds, before the wait ends without it: longer
/// than it takes to find out that the broker is away, and before the client's own limit.
pub(super) const OVERDUE_MS: u64 = 4_000;

/// One question of one role. Of its waits the newest counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub role: RoleId,
    pub what: What,
}

/// A question, and whom to ask.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub actions: Arc<dyn Actions>,
    pub about: About,
}

#[derive(Debug, Clone)]
pub(super) enum About {
    Turn(LoopId),
    Mail {
        filter: MailFilter,
        acks: InFlightAcks,
    },
    Swarm {
        awaited: Awaited,
        acks: InFlightAcks,
    },
    Board(BoardAwaited),
    /// The end of a run, or a question of a sub-agent; `client` reads what it wrote.
    Run {
        run: RunId,
        client: RunClient,
        /// The call that waits started the run: a client that takes it back ends the run.
        is_foreground: bool,
    },
}

/// What was found out without waiting.
#[derive(Debug)]
pub(super) enum Looked {
    Told(Answer),
    Refused(Refusal),
    /// The broker said nothing, or not for now.
    Unanswered,
}

/// The fixed words of a wait: nothing that anybody wrote is among them.
#[derive(Debug)]
pub(super) struct Words {
    pub progress: &'static str,
    pub waiting: &'static str,
    /// Clients wake their agent for this too; it must not call again, which would cancel the newer.
    pub superseded: &'static str,
}

impl Asking {
    pub(super) fn question(&self) -> Question {
        Question { role: self.actions.role().clone(), what: self.what() }
    }

    fn what(&self) -> What {
        match &self.about {
            About::Turn(loop_id) => What::Turn(loop_id.clone()),
            About::Mail { filter, .. } => What::Mail(filter.clone()),
            About::Swarm { awaited, .. } => What::Swarm(awaited.clone()),
            About::Board(awaited) => What::Board(awaited.clone()),
            About::Run { run, .. } => What::Run(RunAwaited::Run { run: *run, after: 0, by: None }),
        }
    }

    pub(super) async fn ask(&self, hold: Duration) -> Result<Answer, Refusal> {
        match &self.about {
            About::Run { run, client, .. } => {
                let answer = ended_or_asked(client, Some(&*self.actions), *run, hold).await?;
                Ok(Answer::Run(Box::new(answer)))
            }
            About::Turn(_) | About::Mail { .. } | About::Swarm { .. } | About::Board(_) => {
                self.actions.wait(self.what(), hold).await
            }
        }
    }

    /// Whether a task may stand for it. A lock is taken by the call that waits for its files; and
    /// the id of a task says all that is asked.
    pub(super) fn may_be_task(&self) -> bool {
        match &self.about {
            About::Swarm { awaited, .. } => !matches!(awaited, Awaited::Files { .. }),
            About::Board(awaited) => may_be_sealed(awaited),
            About::Turn(_) | About::Mail { .. } | About::Run { .. } => true,
        }
    }

    /// Asks without waiting, for as long as the broker is worth waiting for.
    pub(super) async fn look(&self, stopping: &CancellationToken) -> Looked {
        let answer = tokio::select! {
            biased;
            answer = self.ask(Duration::ZERO) => answer,
            () = stopping.cancelled() => return Looked::Unanswered,
            () = tokio::time::sleep(Duration::from_millis(OVERDUE_MS)) => return Looked::Unanswered,
        };
        match answer {
            Ok(answer) => Looked::Told(answer),
            Err(refusal) if is_silence(refusal.reason) => Looked::Unanswered,
            Err(refusal) => Looked::Refused(refusal),
        }
    }

    /// The hold is over, and nothing is known.
    pub(super) fn still_waiting(&self) -> Answer {
        self.what().still_waiting()
    }

    /// Another agent plays the role by now.
    pub(super) fn lost(&self) -> Answer {
        self.what().superseded()
    }

    /// A task's time is over, and the broker says nothing.
    pub(super) fn unanswered(&self) -> Answer {
        match &self.about {
            About::Turn(_) => Answer::Turn(Box::default()),
            About::Mail { .. } | About::Swarm { .. } | About::Board(_) | About::Run { .. } => {
                self.still_waiting()
            }
        }
    }

    /// The answer as a result; what it gives is handed once it is written.
    pub(super) async fn given(&self, answer: &Answer, probe: Option<&WriteAck>) -> CallToolResult {
        if let Some(probe) = probe
            && let Some(mark) = self.mark(answer)
        {
            probe.when_written(mark);
        }
        match (answer, &self.about) {
            (Answer::Turn(answer), _) => turn_result(&*self.actions, answer),
            (Answer::Mail(answer), _) => mail_result(self.actions.role(), answer),
            (Answer::Swarm(answer), About::Swarm { awaited, .. }) => {
                swarm_result(self.actions.role(), awaited, answer)
            }
            (Answer::Board(answer), _) => board_result(self.actions.role(), answer),
            (Answer::Run(answer), About::Run { run, client, .. }) => {
                run_result(client, *run, answer).await
            }
            (
                Answer::Swarm(_),
                About::Turn(_) | About::Mail { .. } | About::Board(_) | About::Run { .. },
            )
            | (
                Answer::Run(_),
                About::Turn(_) | About::Mail { .. } | About::Swarm { .. } | About::Board(_),
            ) => {
                unreachable!("an answer is to what was asked")
            }
        }
    }

    fn mark(&self, answer: &Answer) -> Option<Mark> {
        match (&self.about, answer) {
            (About::Turn(loop_id), Answer::Turn(answer)) if answer.can_start => {
                let (actions, loop_id) = (Arc::clone(&self.actions), loop_id.clone());
                Some(Mark::Turn { actions, loop_id, turn: Turn::from(answer.turn) })
            }
            (About::Mail { acks, .. }, Answer::Mail(answer)) => {
                let message: MessageId = answer.thread.as_ref()?.message_id.parse().ok()?;
                let through = answer.entries.last()?.number;
                let (actions, mark) = (Arc::clone(&self.actions), MailMark::Handed);
                Some(Mark::Mail { actions, message, through, mark, on_its_way: acks.begin() })
            }
            (About::Swarm { awaited: Awaited::Items(issue), acks }, Answer::Swarm(answer)) => {
                let number = answer.item.as_ref()?.number;
                let (actions, on_its_way) = (Arc::clone(&self.actions), acks.begin());
                Some(Mark::Item { actions, issue: *issue, number, on_its_way })
            }
            (
                About::Turn(_)
                | About::Mail { .. }
                | About::Swarm { .. }
                | About::Board(_)
                | About::Run { .. },
                _,
            ) => None,
        }
    }

    pub(super) const fn words(&self) -> &'static Words {
        match &self.about {
            About::Turn(_) => &Words {
                progress: "waiting for the turn",
                waiting: "Waiting for the turn.",
                superseded: "A newer await_my_turn of this role superseded this call. No action is \
                             needed.",
            },
            About::Mail { .. } => &Words {
                progress: "waiting for mail",
                waiting: "Waiting for mail.",
                superseded: "A newer filebox_wait_for_message of this role superseded this call. \
                             No action is needed.",
            },
            About::Swarm { awaited, .. } => swarm_words(awaited),
            About::Board(_) => &Words {
                progress: "waiting for the board",
                waiting: "Waiting for the board.",
                superseded: "A newer board_wait of this role superseded this call. No action is \
                             needed.",
            },
            About::Run { .. } => &Words {
                progress: "waiting for the run",
                waiting: "Waiting for the run.",
                superseded: "A newer run_wait of this role superseded this call. No action is \
                             needed.",
            },
        }
    }
}

const fn swarm_words(awaited: &Awaited) -> &'static Words {
    /// A wait that another call of the same tool takes the place of.
    macro_rules! words {
        ($what:literal, $tool:literal) => {
            &Words {
                progress: concat!("waiting for ", $what),
                waiting: concat!("Waiting for ", $what, "."),
                superseded: concat!(
                    "A newer ",
                    $tool,
                    " of this role superseded this call. No action is needed."
                ),
            }
        };
    }
    match awaited {
        Awaited::Issues { .. } => words!("issues", "waitIssues"),
        Awaited::Tasks(_) => words!("a task", "waitIssueTasks"),
        Awaited::Items(_) => words!("the next event", "waitIssueTaskEvents"),
        Awaited::Review(_) => words!("the review", "submitIssueTask"),
        Awaited::Reply(_) => words!("the reply", "askIssueTask"),
        Awaited::Deliveries { .. } => words!("a delivery", "waitDeliveries"),
        Awaited::Verdict(_) => words!("the verdict", "submitDelivery"),
        Awaited::Files { .. } => words!("the files", "lockFiles"),
    }
}

/// Whether a refusal says nothing about the question, only that it got no answer for now.
pub(super) fn is_silence(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unavailable | Reason::Overloaded | Reason::OutcomeUnknown | Reason::StaleEpoch
    )
}
