//! `run_wait`, and what is told while a run is waited for.
//!
//! - **RT3** A wait ends with the run or with a question that is open. What sub-agents report is
//!   shown with that and ends nothing.
//! - **RT4** Progress is fixed words, counts and names of agents, runners and nodes: nothing that an
//!   agent wrote.

use std::{convert::Infallible, sync::Arc, time::Duration};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use tasuki_proto::{
    run::RunId,
    wire::{self, RunStatus, run_answer::Standing},
};
use tokio::{sync::watch, time::Instant};

use super::{
    super::{
        Call,
        field_types::Id,
        tool::{Tool, ToolInfo},
        waiting::{Held, held_with, longest, tell_progress, wait},
    },
    QUIET,
    args::Timeout,
    caller::{Asker, newest},
    views::{run_result, still_running},
};
use crate::{
    mcp::{
        instances::Playing,
        question::{About, Asking},
    },
    role::{Actions, Refusal},
    runs::{
        client::{Follow, RunClient, run_answer},
        view::RunView,
    },
    wait::{Question, RunAwaited},
};

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
        let run = match self.run {
            Some(Id(named)) => named,
            None => newest(&asker.own_runs().await?)?,
        };
        asker.wait_for(playing, run, self.timeout_sec.map(|Timeout(it)| it.0), false).await
    }
}

impl Asker<'_> {
    /// Waits for a run as long as the client does, and for `asked` at most. `is_foreground`: this
    /// call started it.
    pub(super) async fn wait_for(
        &self,
        playing: Option<Playing>,
        run: RunId,
        asked: Option<Duration>,
        is_foreground: bool,
    ) -> Result<CallToolResponse, Refusal> {
        if let (Some(actions), Some(playing)) = (&self.actions, playing) {
            let about = About::Run { run, client: self.client.clone(), is_foreground };
            let asking = Asking { actions: Arc::clone(actions), about };
            return wait(self.call, playing, asking, asked).await;
        }
        // A sub-agent is alone in what it plays, and gone with its connection.
        let hold = longest(self.call, asked);
        let signs = Box::pin(progress_of(self.call, &self.client, run));
        let answer = ended_or_asked(&self.client, None, run, hold);
        Ok(match held_with(self.call, None, hold, signs, answer).await {
            Held::Answered(answer) => run_result(&self.client, run, &answer?).await.into(),
            Held::Lost | Held::Over => still_running(run, None).into(),
        })
    }
}

/// Waits until a run has ended or a sub-agent's question is open, for `hold` at most. `actions`: of the
/// role that waits; `None`: the sub-agent does that `client` speaks as.
pub(in crate::mcp) async fn ended_or_asked(
    client: &RunClient,
    actions: Option<&dyn Actions>,
    run: RunId,
    hold: Duration,
) -> Result<wire::RunAnswer, Refusal> {
    let over = Instant::now() + hold;
    let mut after = 0;
    loop {
        let left = over.saturating_duration_since(Instant::now());
        let answer = match actions {
            Some(actions) => {
                let question = Question::Run(RunAwaited::Run { run, after, by: None });
                run_answer(actions.wait(question, left).await?)?
            }
            None => client.wait(run, after, left).await?,
        };
        match newest_report(&answer) {
            Some(told) if after < told => after = told,
            Some(_) | None => return Ok(answer),
        }
    }
}

/// The newest message, where there is none to answer: they are reports, or the run is being stopped.
fn newest_report(answer: &wire::RunAnswer) -> Option<u32> {
    let run = answer.run.as_ref().filter(|run| run.status() == RunStatus::Running)?;
    let is_there = answer.standing() == Standing::There;
    let is_asked = answer.messages.iter().any(|message| message.is_question);
    if !is_there || (is_asked && !run.is_stopping) {
        return None;
    }
    // None is left of those that there were a moment ago.
    Some(answer.messages.iter().map(|message| message.number).max().unwrap_or(run.messages))
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
        never = tell_progress(call, newest) => match never {},
    }
}

/// Keeps `words` as the run is.
async fn follow(client: &RunClient, run: RunId, words: &watch::Sender<String>) -> Infallible {
    let seen = |change: wire::WatchRunResponse| {
        if let Some(run) = change.run {
            let now = RunView { run, steps: Vec::new() }.progress();
            words.send_if_modified(|told| std::mem::replace(told, now) != *told);
        }
        Follow::On
    };
    client.follow(run, seen).await;
    std::future::pending().await
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
            (There, RunStatus::Running, &[], Some(0)),
            (There, RunStatus::Succeeded, &[false], None),
            (StillWaiting, RunStatus::Running, &[], None),
            (Superseded, RunStatus::Running, &[false], None),
        ] {
            let answer = answer(standing, status, questions);
            assert_eq!(newest_report(&answer), newest, "{answer:?}");
        }
        let mut stopping = answer(There, RunStatus::Running, &[true, false]);
        stopping.run.as_mut().unwrap().is_stopping = true;
        assert_eq!(newest_report(&stopping), Some(2), "nobody waits for the answer");
    }
}
