//! Runs as a role or a sub-agent of this node reaches them at the broker.
//!
//! A command that was begun is carried through even when its future is dropped. What is refused, the
//! broker refused, or it cannot be reached.

use std::time::Duration;

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    reason::Reason,
    run::{RunId, StepId},
    wire,
};
use tokio::time::sleep;
use tonic::Streaming;

use super::{convert, files::HandedFile, output::Rest};
use crate::{
    client::retry::Failure,
    link::Link,
    refusal::Refusal,
    step_key::StepKey,
    wait::{Answer, Question, RunAwaited},
};

/// Before a run is watched again, in milliseconds, after the broker ended that or was away.
const AGAIN_MS: u64 = 1_000;

/// Whether whoever follows a run wants its next change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    On,
    Stop,
}

/// Who calls: whose runs these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCaller {
    Role(RoleId),
    /// A sub-agent, which runs as this step.
    Step(StepKey),
}

#[derive(Debug, Clone)]
pub struct RunClient {
    link: Link,
    caller: RunCaller,
}

impl RunClient {
    pub const fn new(link: Link, caller: RunCaller) -> Self {
        Self { link, caller }
    }

    pub const fn caller(&self) -> &RunCaller {
        &self.caller
    }

    /// Starts a run; who asks is filled in. `key` names the intent each time its sender says it.
    pub async fn start(
        &self,
        request: wire::StartRunRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<wire::StartRunResponse, Refusal> {
        let (role, parent) = self.asker();
        let request = wire::StartRunRequest { role, person: String::new(), parent, ..request };
        self.link.command_without_role(request, key).await.map_err(without_runs)
    }

    /// Ends a run and all below it.
    pub async fn cancel(&self, run: RunId) -> Result<wire::RunResponse, Refusal> {
        let (role, parent) = self.asker();
        let run_id = run.to_string();
        let request = wire::CancelRunRequest { role, parent, run_id, ..Default::default() };
        self.link.command_without_role(request, None).await
    }

    /// Answers a sub-agent's question.
    pub async fn reply(
        &self,
        run: RunId,
        message: u32,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<wire::RunResponse, Refusal> {
        let (role, parent) = self.asker();
        let (run_id, text) = (run.to_string(), Some(convert::text(text)));
        let request =
            wire::ReplyToRunRequest { role, parent, run_id, message, text, ..Default::default() };
        self.link.command_without_role(request, key).await
    }

    /// Asks whoever started this sub-agent. A role has no parent.
    pub async fn ask_parent(
        &self,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<wire::RunMessageResponse, Refusal> {
        let (step, text) = (Some(self.step_key()?.to_wire()), Some(convert::text(text)));
        let request = wire::AskParentRequest { step, text, ..Default::default() };
        self.link.command_without_role(request, key).await
    }

    /// Tells whoever started this sub-agent something, or hands over a file.
    pub async fn report(
        &self,
        text: &str,
        file: Option<HandedFile>,
        key: Option<IdempotencyKey>,
    ) -> Result<wire::RunMessageResponse, Refusal> {
        let (step, text) = (Some(self.step_key()?.to_wire()), Some(convert::text(text)));
        let (file, content) = file.map(|it| (it.about, it.content)).unzip();
        let content = content.unwrap_or_default();
        let request =
            wire::ReportToParentRequest { step, text, file, content, ..Default::default() };
        self.link.command_without_role(request, key).await
    }

    pub async fn get(&self, run: RunId) -> Result<wire::RunResponse, Refusal> {
        let request = wire::GetRunRequest { run_id: run.to_string(), ..Default::default() };
        self.link.query(request).await
    }

    pub async fn list(
        &self,
        request: wire::ListRunsRequest,
    ) -> Result<wire::ListRunsResponse, Refusal> {
        self.link.query(request).await
    }

    /// A step with all its words.
    pub async fn step(&self, step: StepId) -> Result<wire::GetStepResponse, Refusal> {
        let (run_id, step) = (step.run.to_string(), step.number);
        self.link.query(wire::GetStepRequest { run_id, step, ..Default::default() }).await
    }

    /// A part of what the broker does not keep of an output, from the node that ran the step.
    pub async fn rest(&self, step: StepId, offset: u64, limit: u32) -> Result<Rest, Refusal> {
        let (run_id, step) = (step.run.to_string(), step.number);
        let request = wire::ReadOutputRequest { caller: None, run_id, step, offset, limit };
        match self.link.ask_once(request).await {
            Ok(answer) => Ok(Rest::answered(answer)),
            Err(
                Failure::Refused(refusal)
                | Failure::TurnedAway(refusal)
                | Failure::NotTaken(refusal),
            ) => Err(refusal),
            Err(
                Failure::Lost(message) | Failure::Unsure(message) | Failure::StaleEpoch(message),
            ) => Err(Refusal {
                reason: Reason::Unavailable,
                message: format!("The broker did not answer ({message}). Call again."),
            }),
        }
    }

    /// What sub-agents asked and told, newer than `after`.
    pub async fn messages(
        &self,
        run: RunId,
        after: u32,
    ) -> Result<wire::ListRunMessagesResponse, Refusal> {
        let run_id = run.to_string();
        let request = wire::ListRunMessagesRequest { run_id, after, ..Default::default() };
        self.link.query(request).await
    }

    /// The file that came with a report.
    pub async fn run_file(
        &self,
        run: RunId,
        message: u32,
    ) -> Result<wire::GetRunFileResponse, Refusal> {
        let run_id = run.to_string();
        self.link.query(wire::GetRunFileRequest { run_id, message, ..Default::default() }).await
    }

    /// What the nodes run that wait for steps.
    pub async fn runners(&self) -> Result<wire::ListRunnersResponse, Refusal> {
        self.link.query(wire::ListRunnersRequest::default()).await
    }

    /// Waits for the end of a run, or a message newer than `after`.
    pub async fn wait(
        &self,
        run: RunId,
        after: u32,
        hold: Duration,
    ) -> Result<wire::RunAnswer, Refusal> {
        let question = |by| Question::Run(RunAwaited::Run { run, after, by });
        let answer = match &self.caller {
            RunCaller::Role(role) => {
                let permit = self.link.admit_wait(role, hold).await?;
                self.link.wait(role, question(None), hold, permit).await?
            }
            RunCaller::Step(key) => {
                self.link.wait_without_role(question(Some(key.clone())), hold).await?
            }
        };
        run_answer(answer)
    }

    /// Waits for the reply to this sub-agent's question.
    pub async fn wait_reply(
        &self,
        message: u32,
        hold: Duration,
    ) -> Result<wire::RunAnswer, Refusal> {
        let by = self.step_key()?.clone();
        let question = Question::Run(RunAwaited::Reply { by, message });
        run_answer(self.link.wait_without_role(question, hold).await?)
    }

    /// The run as it is, then each change, until it has ended or the connection has: then it is to
    /// be watched again.
    pub async fn watch(&self, run: RunId) -> Result<Streaming<wire::WatchRunResponse>, Refusal> {
        self.link.watch_run(run.to_string()).await
    }

    /// Tells each change of a run until `seen` has seen enough, or the run is not known: it is watched
    /// again after the broker ended that, or was away.
    pub async fn follow(&self, run: RunId, mut seen: impl FnMut(wire::WatchRunResponse) -> Follow) {
        loop {
            match self.watch(run).await {
                Ok(mut changes) => {
                    while let Ok(Some(change)) = changes.message().await {
                        if seen(change) == Follow::Stop {
                            return;
                        }
                    }
                }
                Err(why) if why.reason == Reason::UnknownRun => return,
                Err(_) => {}
            }
            sleep(Duration::from_millis(AGAIN_MS)).await;
        }
    }

    fn asker(&self) -> (String, Option<wire::StepKey>) {
        match &self.caller {
            RunCaller::Role(role) => (role.to_string(), None),
            RunCaller::Step(key) => (String::new(), Some(key.to_wire())),
        }
    }

    fn step_key(&self) -> Result<&StepKey, Refusal> {
        match &self.caller {
            RunCaller::Step(key) => Ok(key),
            RunCaller::Role(role) => Err(Refusal {
                reason: Reason::RoleForbidden,
                message: format!(
                    "{role} was started by a person, not by an agent. Ask your user, or send mail."
                ),
            }),
        }
    }
}

/// What the broker says of mail there is true of runs, and not what they ask for.
fn without_runs(refusal: Refusal) -> Refusal {
    if refusal.reason != Reason::PrivateWorkspace {
        return refusal;
    }
    let message = "This workspace is private, and private workspaces have no runs: the broker could \
                   read their tasks and outputs. Nothing was started. Use another workspace, or do \
                   the work yourself.";
    Refusal { message: message.to_owned(), ..refusal }
}

/// The answer to a question about runs.
pub(crate) fn run_answer(answer: Answer) -> Result<wire::RunAnswer, Refusal> {
    match answer {
        Answer::Run(answer) => Ok(*answer),
        Answer::Turn(_) | Answer::Mail(_) | Answer::Swarm(_) | Answer::Board(_) => Err(Refusal {
            reason: Reason::Unavailable,
            message: "The broker answered another question. Ask again.".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_workspace_is_said_to_have_no_runs() {
        let refused = |reason| Refusal { reason, message: "mail here is private".to_owned() };
        let told = without_runs(refused(Reason::PrivateWorkspace));
        assert_eq!(told.reason, Reason::PrivateWorkspace);
        assert!(told.message.contains("have no runs"), "{told}");
        let other = refused(Reason::Overloaded);
        assert_eq!(without_runs(other.clone()), other);
    }
}
