//! Runs as commands reach them at the broker, and who speaks of them: a role, the sub-agent within
//! which a command is typed, or the person who types.

use tasuki_proto::{
    id::{PersonId, RoleId},
    wire,
};

use super::Failure;
use crate::{
    cli::{broker::Broker, loops},
    config::Config,
    runs::{convert, view::RunView},
    step_key::{STEP_TOKEN_VARIABLE, StepKey},
};

/// Who asks for a run, ends it or answers its questions.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SpeakerArgs {
    /// Role to act as, instead of a person
    #[arg(long, visible_alias = "as", value_name = "ROLE", conflicts_with = "by")]
    role: Option<RoleId>,
    /// Person to act as [default: the sub-agent of TASUKI_STEP_TOKEN, else $USER, else the user's
    /// number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// Runs at the broker.
#[derive(Debug, Clone)]
pub(in crate::cli) struct RunsClient {
    pub(in crate::cli) broker: Broker,
    pub(in crate::cli) speaker: Speaker,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Speaker {
    Role(RoleId),
    Person(PersonId),
    /// What it starts is below its step.
    SubAgent(StepKey),
}

impl SpeakerArgs {
    pub(in crate::cli) fn client(&self, config: &Config) -> Result<RunsClient, Failure> {
        let token = std::env::var(STEP_TOKEN_VARIABLE).ok();
        let speaker = self.speaker(token.as_deref())?;
        Ok(RunsClient { broker: Broker::new(config), speaker })
    }

    fn speaker(&self, token: Option<&str>) -> Result<Speaker, Failure> {
        if let Some(role) = &self.role {
            return Ok(Speaker::Role(role.clone()));
        }
        match token.filter(|token| self.by.is_none() && !token.is_empty()) {
            Some(token) => {
                let key = token.parse::<StepKey>().map_err(|why| {
                    Failure::usage(format!("What {STEP_TOKEN_VARIABLE} holds {why}."))
                })?;
                Ok(Speaker::SubAgent(key))
            }
            None => loops::person(self.by.clone()).map(Speaker::Person),
        }
    }
}

impl Speaker {
    /// Role, person and sub-agent as a request has them: one of them.
    pub(in crate::cli) fn to_wire(&self) -> (String, String, Option<wire::StepKey>) {
        match self {
            Self::Role(role) => (role.to_string(), String::new(), None),
            Self::Person(person) => (String::new(), person.to_string(), None),
            Self::SubAgent(key) => (String::new(), String::new(), Some(key.to_wire())),
        }
    }
}

impl RunsClient {
    /// Ends a run and all below it.
    pub(in crate::cli) async fn cancel(&self, run_id: &str) -> Result<wire::RunResponse, Failure> {
        let (role, person, parent) = self.speaker.to_wire();
        let run_id = run_id.to_owned();
        let request = wire::CancelRunRequest { role, person, parent, run_id, ..Default::default() };
        self.broker.call(&request).await
    }

    /// Answers a sub-agent's question.
    pub(super) async fn reply(
        &self,
        run_id: &str,
        message: u32,
        text: &str,
    ) -> Result<wire::RunResponse, Failure> {
        let (role, person, parent) = self.speaker.to_wire();
        let request = wire::ReplyToRunRequest {
            role,
            person,
            parent,
            run_id: run_id.to_owned(),
            message,
            text: Some(convert::text(text)),
            ..Default::default()
        };
        self.broker.call(&request).await
    }
}

pub(super) async fn get(broker: &Broker, run_id: &str) -> Result<(wire::Run, u64), Failure> {
    let request = wire::GetRunRequest { run_id: run_id.to_owned(), ..Default::default() };
    let told = broker.call(&request).await?;
    Ok((told.run.unwrap_or_default(), told.now_ms))
}

/// A step with all its words.
pub(super) async fn step(
    broker: &Broker,
    run_id: &str,
    step: u32,
) -> Result<wire::GetStepResponse, Failure> {
    let request = wire::GetStepRequest { run_id: run_id.to_owned(), step, ..Default::default() };
    broker.call(&request).await
}

/// A run with the words of all its steps.
pub(in crate::cli) async fn view(broker: &Broker, run: wire::Run) -> Result<RunView, Failure> {
    let mut steps = Vec::with_capacity(run.steps.len());
    for known in &run.steps {
        steps.push(step(broker, &run.run_id, known.step).await?);
    }
    Ok(RunView { run, steps })
}

/// What its sub-agents asked and told after this message, with the replies.
pub(super) async fn messages(
    broker: &Broker,
    run_id: &str,
    mut after: u32,
) -> Result<Vec<wire::RunMessage>, Failure> {
    let mut messages = Vec::new();
    loop {
        let run_id = run_id.to_owned();
        let request = wire::ListRunMessagesRequest { run_id, after, ..Default::default() };
        let page = broker.call(&request).await?;
        messages.extend(page.messages);
        // A page that leads nowhere would be asked for for ever.
        let last = messages.last().map(|it| it.number).filter(|last| after < *last);
        match last {
            Some(last) if page.has_more => after = last,
            Some(_) | None => return Ok(messages),
        }
    }
}

/// What the nodes run that wait for steps.
pub(in crate::cli) async fn offers(broker: &Broker) -> Result<Vec<wire::RunnerOffer>, Failure> {
    let request = wire::ListRunnersRequest::default();
    Ok(broker.call(&request).await?.offers)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::run::StepId;

    use super::*;

    #[test]
    fn a_sub_agent_speaks_for_itself_unless_somebody_is_named() {
        let key = StepKey::new(StepId::default()).unwrap();
        let token = key.to_string();
        let role: RoleId = "lead".parse().unwrap();
        let by: PersonId = "alice".parse().unwrap();
        let said = |role: Option<&RoleId>, by: Option<&PersonId>, token: Option<&str>| {
            SpeakerArgs { role: role.cloned(), by: by.cloned() }.speaker(token)
        };
        assert_eq!(said(None, None, Some(&token)), Ok(Speaker::SubAgent(key)));
        assert_eq!(said(Some(&role), None, Some(&token)), Ok(Speaker::Role(role.clone())));
        assert_eq!(said(None, Some(&by), Some(&token)), Ok(Speaker::Person(by.clone())));
        assert_eq!(said(None, Some(&by), Some("")), Ok(Speaker::Person(by)));
        assert_eq!(said(None, None, Some("nonsense")).unwrap_err().code(), "usage");
    }
}
