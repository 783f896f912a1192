//! What comes of it: the verdict on what was submitted or delivered, the answer to a question, for
//! commands with `--wait`.
//!
//! What a command did is printed before it waits, so that nothing is lost with the wait: it shows,
//! it takes nothing, and whoever says the same again waits for the same.

use std::time::Duration;

use serde_json::json;
use tasuki_proto::{
    host::config::duration,
    wire::{
        self, DeliveryStatus, MessageStatus, SubmissionStatus, swarm_answer::Standing,
        swarm_question::Ask,
    },
};

use super::{Failure, Output, details};
use crate::cli::{Exit, role_args::RoleClient, stopped, text::line, waiting::Waiting};

/// How a wait ends, for `--help`.
pub(super) const HELP: &str = "\
--wait exits with 0 once it is approved or answered, with 9 if it is rejected, and with 7 if neither
comes: not in time, or never because, for example, its task was reset. Ctrl-C ends only the wait; the
same command waits again. A role has one wait for the same outcome: a newer one replaces it, also an
agent's. With --json the outcome is a second line.";

/// Whether to wait for the outcome.
#[derive(Debug, clap::Args)]
pub(super) struct Wait {
    /// Wait for the outcome and print it
    #[arg(long)]
    pub(super) wait: bool,
    /// Stop waiting after this long; 0 checks once [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
}

impl Wait {
    /// Tells what was done, and, if that is wanted, what comes of it.
    pub(super) async fn behind(
        &self,
        acting: &RoleClient,
        output: &mut Output,
        ask: Ask,
        told: impl FnOnce(&mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.wait {
            return told(output);
        }
        let answer = tokio::select! {
            // Signals are listened for before anything is told.
            biased;
            () = stopped() => return Err(Failure::told(Exit::Nothing)),
            answer = async {
                told(output)?;
                let is_waiting = |it: &wire::SwarmAnswer| it.standing() == Standing::StillWaiting;
                let ask = async |hold_ms| asked(acting, &ask, hold_ms).await;
                Box::pin(Waiting::new(self.timeout).answer(output, ask, is_waiting)).await
            } => answer?,
        };
        output.answer(|| json!(answer), || text(&answer))?;
        let exit = end(&answer);
        if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) }
    }
}

async fn asked(acting: &RoleClient, ask: &Ask, hold_ms: u64) -> Result<wire::SwarmAnswer, Failure> {
    let request = wire::SwarmQuestion {
        role: acting.role.clone(),
        hold_ms,
        ask: Some(ask.clone()),
        ..Default::default()
    };
    acting.broker.call(&request).await
}

/// What the command is to end with.
fn end(of: &wire::SwarmAnswer) -> Exit {
    // Of one that was closed with its issue nobody said what is thought of it.
    if of.standing() != Standing::There || !of.ended_because.is_empty() {
        return Exit::Nothing;
    }
    let submission = of.submission.as_ref().map(wire::Submission::status);
    let delivery = of.delivery.as_ref().map(wire::Delivery::status);
    let message = of.message.as_ref().map(wire::TaskMessage::status);
    match (submission, delivery, message) {
        (Some(SubmissionStatus::Approved), ..)
        | (_, Some(DeliveryStatus::Approved), _)
        | (.., Some(MessageStatus::Replied)) => Exit::Ok,
        (Some(SubmissionStatus::Rejected), ..) | (_, Some(DeliveryStatus::Rejected), _) => {
            Exit::Rejected
        }
        _ => Exit::Nothing,
    }
}

/// What is waited for, with its article.
const VERDICT: (&str, &str) = ("a", "verdict");
const ANSWER: (&str, &str) = ("an", "answer");

fn text(of: &wire::SwarmAnswer) -> String {
    let submission = of.submission.as_ref().map(|it| (&it.submission_id, VERDICT));
    let delivery = of.delivery.as_ref().map(|it| (&it.delivery_id, VERDICT));
    let message = of.message.as_ref().map(|it| (&it.message_id, ANSWER));
    let (id, (a, what)) = submission
        .or(delivery)
        .or(message)
        .map_or_else(|| ("It".to_owned(), ANSWER), |(id, what)| (line(id), what));
    match of.standing() {
        Standing::Superseded => return "A newer wait took this one's place.\n".to_owned(),
        Standing::StillWaiting | Standing::Unspecified => {
            return format!("No {what} came in time. {id} waits for it still.\n");
        }
        Standing::There => {}
    }
    match of.ended_because.as_str() {
        "" => {}
        "superseded" => {
            return format!("{id} ended without {a} {what}: another one took its place.\n");
        }
        why => return format!("{id} ended without {a} {what}: {}.\n", line(why)),
    }
    let submission = of.submission.as_ref().map(|it| details::judged_submission(it, of.now_ms));
    let delivery = || of.delivery.as_ref().map(details::judged_delivery);
    let message = || of.message.as_ref().map(details::answered);
    submission.or_else(delivery).or_else(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(status: SubmissionStatus, why: &str) -> wire::SwarmAnswer {
        let submission = wire::Submission {
            submission_id: "sub_1".to_owned(),
            status: status.into(),
            ..Default::default()
        };
        wire::SwarmAnswer {
            standing: Standing::There.into(),
            submission: Some(submission),
            ended_because: why.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn the_exit_code_says_what_came() {
        let code = |of: &wire::SwarmAnswer| end(of) as u8;
        assert_eq!(code(&submission(SubmissionStatus::Approved, "")), 0);
        assert_eq!(code(&submission(SubmissionStatus::Rejected, "")), 9);
        assert_eq!(code(&submission(SubmissionStatus::Reset, "the task was reset")), 7);
        assert_eq!(code(&submission(SubmissionStatus::Superseded, "superseded")), 7);
        let mut other = submission(SubmissionStatus::Approved, "");
        other.set_standing(Standing::Superseded);
        assert_eq!(code(&other), 7);
        let judged = |status: DeliveryStatus, why: &str| wire::SwarmAnswer {
            standing: Standing::There.into(),
            delivery: Some(wire::Delivery { status: status.into(), ..Default::default() }),
            ended_because: why.to_owned(),
            ..Default::default()
        };
        assert_eq!(code(&judged(DeliveryStatus::Approved, "")), 0);
        assert_eq!(code(&judged(DeliveryStatus::Rejected, "")), 9);
        assert_eq!(code(&judged(DeliveryStatus::Rejected, "its issue was closed")), 7);
    }

    #[test]
    fn what_ends_without_a_verdict_says_why() {
        let reset = submission(SubmissionStatus::Reset, "the task was \u{1b}[31mreset");
        assert_eq!(text(&reset), "sub_1 ended without a verdict: the task was reset.\n");
        let other = submission(SubmissionStatus::Superseded, "superseded");
        assert_eq!(text(&other), "sub_1 ended without a verdict: another one took its place.\n");
        let mut late = submission(SubmissionStatus::Open, "");
        late.set_standing(Standing::StillWaiting);
        assert_eq!(text(&late), "No verdict came in time. sub_1 waits for it still.\n");
    }
}
