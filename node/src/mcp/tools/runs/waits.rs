//! `run_wait`, and what is told while a run is waited for.
//!
//! - **RT3** A wait ends with the run or with a question that is open. What sub-agents report is
//!   shown with that and ends nothing.
//!
//! Progress is fixed words, counts and names of agents: nothing that an agent wrote.

use std::{convert::Infallible, sync::Arc, time::Duration};

use rmcp::model::{CallToolResponse, ProgressNotificationParam};
use schemars::JsonSchema;
use serde::Deserialize;
use tasuki_proto::{
    reason::Reason,
    run::RunId,
    wire::{self, RunStatus, run_answer::Standing},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    super::{
        Call,
        field_types::Id,
        tool::{Tool, ToolInfo},
        waiting::{Held, PROGRESS_FIRST_MS, PROGRESS_MS, held_with, longest, wait},
    },
    QUIET,
    args::Timeout,
    caller::Asker,
    views::run_result,
};
use crate::{
    mcp::{
        instances::Playing,
        question::{About, Asking},
    },
    role::{Actions, Refusal},
    runs::{client::RunClient, view::RunView},
    wait::{Answer, Question, RunAwaited},
};

/// Between two things that are told of a run, in milliseconds: of what changes meanwhile the newest
/// is told.
const PAUSE_MS: u64 = 250;

/// Before a run is watched again, in milliseconds, after the broker ended that or was away.
const AGAIN_MS: u64 = 1_000;

/// What is told before anything is known.
const UNKNOWN: &str = "waiting for the run";

/// Waits until a run ends. Returns its output, or a sub-agent's question, which you answer with
/// run_reply. If it is still running, call this again immediately.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunWait {
    /// Default: your newest.
    run: Option<Id<RunId>>,
    timeout_sec: Option<Timeout>,
}

impl Tool for RunWait {
    const INFO: ToolInfo = ToolInfo::read("run_wait", QUIET);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let playing = asker.enter()?;
        let run = asker.named_or_newest(self.run.map(|it| it.0)).await?;
        asker.wait_for(playing, run, self.timeout_sec.map(|Timeout(it)| it.0)).await
    }
}

impl Asker<'_> {
    /// Waits for a run as long as the client does, and for `asked` at most.
    pub(super) async fn wait_for(
        &self,
        playing: Option<Playing>,
        run: RunId,
        asked: Option<Duration>,
    ) -> Result<CallToolResponse, Refusal> {
        if let (Some(actions), Some(playing)) = (&self.actions, playing) {
            let about = About::Run { run, client: self.client.clone() };
            let asking = Asking { actions: Arc::clone(actions), about };
            return wait(self.call, playing, asking, asked).await;
        }
        // A sub-agent is alone in what it plays, and gone with its connection.
        let hold = longest(self.call, asked);
        let signs = Box::pin(progress_of(self.call, &self.client, run));
        let answer = ended_or_asked(Waiter::Step(&self.client), run, hold);
        let answer = match held_with(self.call, None, hold, signs, answer).await {
            Held::Answered(answer) => answer?,
            Held::Lost | Held::Over => wire::RunAnswer {
                standing: Standing::StillWaiting.into(),
                ..wire::RunAnswer::default()
            },
        };
        Ok(run_result(&self.client, run, &answer).await.into())
    }
}

/// Who waits for a run.
#[derive(Debug, Clone, Copy)]
pub(in crate::mcp) enum Waiter<'a> {
    Role(&'a dyn Actions),
    Step(&'a RunClient),
}

impl Waiter<'_> {
    async fn ask(self, run: RunId, after: u32, hold: Duration) -> Result<wire::RunAnswer, Refusal> {
        let actions = match self {
            Self::Role(actions) => actions,
            Self::Step(client) => return client.wait(run, after, hold).await,
        };
        let question = Question::Run(RunAwaited::Run { run, after, by: None });
        match actions.wait(question, hold).await? {
            Answer::Run(answer) => Ok(*answer),
            Answer::Turn(_) | Answer::Mail(_) | Answer::Swarm(_) => Err(Refusal {
                reason: Reason::Unavailable,
                message: "The broker answered another question. Call again.".to_owned(),
            }),
        }
    }
}

/// Waits until a run has ended or a sub-agent's question is open, for `hold` at most.
pub(in crate::mcp) async fn ended_or_asked(
    waiter: Waiter<'_>,
    run: RunId,
    hold: Duration,
) -> Result<wire::RunAnswer, Refusal> {
    let over = Instant::now() + hold;
    let mut after = 0;
    loop {
        let left = over.saturating_duration_since(Instant::now());
        let answer = waiter.ask(run, after, left).await?;
        match newest_report(&answer) {
            Some(newest) if after < newest => after = newest,
            Some(_) | None => return Ok(answer),
        }
    }
}

/// The newest message, where reports are all that there is to tell.
fn newest_report(answer: &wire::RunAnswer) -> Option<u32> {
    let is_open = answer.run.as_ref().is_some_and(|run| run.status() == RunStatus::Running);
    let are_reports = answer.messages.iter().all(|message| !message.is_question);
    let is_there = answer.standing() == Standing::There;
    if !(is_there && is_open && are_reports) {
        return None;
    }
    answer.messages.iter().map(|message| message.number).max()
}

/// Tells a client that asked for progress how far a run is, for as long as it is polled.
pub(in crate::mcp::tools) async fn progress_of(
    call: &Call<'_>,
    client: &RunClient,
    run: RunId,
) -> Infallible {
    if call.context.meta.get_progress_token().is_none() {
        return std::future::pending().await;
    }
    let (words, newest) = watch::channel(UNKNOWN.to_owned());
    tokio::select! {
        never = follow(client, run, &words) => match never {},
        never = tell(call, newest) => match never {},
    }
}

/// Keeps `words` as the run is.
async fn follow(client: &RunClient, run: RunId, words: &watch::Sender<String>) -> Infallible {
    loop {
        if let Ok(mut changes) = client.watch(run).await {
            while let Ok(Some(change)) = changes.message().await {
                if let Some(run) = change.run {
                    let now = RunView { run, steps: Vec::new() }.progress();
                    words.send_if_modified(|before| {
                        let is_other = *before != now;
                        *before = now;
                        is_other
                    });
                }
            }
        }
        sleep(Duration::from_millis(AGAIN_MS)).await;
    }
}

/// Tells what is new, and now and then that it is not.
async fn tell(call: &Call<'_>, mut newest: watch::Receiver<String>) -> Infallible {
    let Some(token) = call.context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    sleep(Duration::from_millis(PROGRESS_FIRST_MS)).await;
    let mut count = 0.0;
    loop {
        count += 1.0;
        let words = newest.borrow_and_update().clone();
        let sign = ProgressNotificationParam::new(token.clone(), count).with_message(words);
        if call.context.peer.notify_progress(sign).await.is_err() {
            // The stream is gone but a session outlives it: the wait itself goes on.
            return std::future::pending().await;
        }
        sleep(Duration::from_millis(PAUSE_MS)).await;
        let quiet = Duration::from_millis(PROGRESS_MS - PAUSE_MS);
        // Whether something changed or not, it is said.
        drop(timeout(quiet, newest.changed()).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(standing: Standing, status: RunStatus, questions: &[bool]) -> wire::RunAnswer {
        let messages = (1..).zip(questions).map(|(number, is_question)| wire::RunMessage {
            number,
            is_question: *is_question,
            ..Default::default()
        });
        wire::RunAnswer {
            standing: standing.into(),
            run: Some(wire::Run { status: status.into(), ..Default::default() }),
            messages: messages.collect(),
            ..Default::default()
        }
    }

    /// Holds RT3.
    #[test]
    fn reports_alone_end_no_wait() {
        use Standing::{StillWaiting, Superseded, There};
        for (standing, status, questions, newest) in [
            (There, RunStatus::Running, &[false, false][..], Some(2)),
            (There, RunStatus::Running, &[false, true], None),
            (There, RunStatus::Running, &[], None),
            (There, RunStatus::Succeeded, &[false], None),
            (StillWaiting, RunStatus::Running, &[], None),
            (Superseded, RunStatus::Running, &[false], None),
        ] {
            let answer = answer(standing, status, questions);
            assert_eq!(newest_report(&answer), newest, "{answer:?}");
        }
    }
}
