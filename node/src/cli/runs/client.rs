//! Runs as commands reach them at the broker, and who speaks of them: a role, the sub-agent within
//! which a command is typed, or the person who types. `tasuki runs cancel` and `reply` are a call each.

use serde_json::json;
use tasuki_proto::{
    id::{PersonId, RoleId},
    wire,
};

use super::{Failure, Output, labels, list::RunName};
use crate::{
    cli::{
        broker::Broker,
        loops::{
            self,
            text_args::{HELP, TextArgs},
        },
        swarm::again,
        text::line,
    },
    config::Config,
    runs::{convert, view::RunView},
    step_key::{InvalidStepKey, STEP_TOKEN_VARIABLE, StepKey},
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
pub(in crate::cli) struct RunsClient {
    pub(in crate::cli) broker: Broker,
    pub(in crate::cli) speaker: Speaker,
}

/// Role, person and sub-agent as a request has them: one of them. What a sub-agent starts is below
/// its step.
pub(in crate::cli) type Speaker = (String, String, Option<wire::StepKey>);

impl SpeakerArgs {
    pub(in crate::cli) fn client(&self, config: &Config) -> Result<RunsClient, Failure> {
        let token = std::env::var(STEP_TOKEN_VARIABLE).ok();
        let speaker = self.speaker(token.as_deref())?;
        Ok(RunsClient { broker: Broker::new(config), speaker })
    }

    /// Whether nobody else is named where a sub-agent types this.
    pub(in crate::cli) fn is_sub_agent(&self) -> bool {
        let is_set = || std::env::var_os(STEP_TOKEN_VARIABLE).is_some_and(|it| !it.is_empty());
        self.role.is_none() && self.by.is_none() && is_set()
    }

    fn speaker(&self, token: Option<&str>) -> Result<Speaker, Failure> {
        let mut speaker = Speaker::default();
        match (&self.role, token.filter(|token| self.by.is_none() && !token.is_empty())) {
            (Some(role), _) => speaker.0 = role.to_string(),
            (None, Some(token)) => speaker.2 = Some(step_key(token)?.to_wire()),
            (None, None) => speaker.1 = loops::person(self.by.clone())?.to_string(),
        }
        Ok(speaker)
    }
}

/// What the variable of a sub-agent holds; it is not said back.
pub(super) fn step_key(variable: &str) -> Result<StepKey, Failure> {
    let unread = |why: InvalidStepKey| {
        Failure::usage(format!("{STEP_TOKEN_VARIABLE} {why}. Unset it outside of sub-agents."))
    };
    variable.trim().parse().map_err(unread)
}

impl RunsClient {
    /// Ends a run and all below it.
    pub(in crate::cli) async fn cancel(&self, run_id: &str) -> Result<wire::RunResponse, Failure> {
        let (role, person, parent) = self.speaker.clone();
        let run_id = run_id.to_owned();
        let request = wire::CancelRunRequest { role, person, parent, run_id, ..Default::default() };
        self.broker.call(&request).await
    }
}

/// Cancel a run and all runs below it.
///
/// Steps that wait end at once, those that run as soon as their node has stopped them. By whoever
/// asked for the run, or a person, which requires the `steer` right.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// Run to cancel
    #[arg(value_name = "RUN")]
    run: RunName,
    #[command(flatten)]
    speaker: SpeakerArgs,
}

/// Answer a question of a sub-agent.
///
/// `tasuki runs show` lists questions with their numbers. By whoever asked for the run, or a person,
/// which requires the `steer` right.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct ReplyArgs {
    /// Run whose sub-agent asks
    #[arg(value_name = "RUN")]
    run: RunName,
    /// Number of the question
    #[arg(value_name = "MESSAGE", value_parser = clap::value_parser!(u32).range(1..))]
    message: u32,
    /// Answer
    #[arg(value_name = "TEXT")]
    text: String,
    #[command(flatten)]
    speaker: SpeakerArgs,
}

pub(super) async fn cancel(
    args: CancelArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let runs = args.speaker.client(config)?;
    let run_id = args.run.find(&runs.broker).await?;
    let told = runs.cancel(&run_id).await?;
    let run = told.run.clone().unwrap_or_default();
    let run_id = line(&run_id);
    output.answer(
        || json!(told),
        || match run.ended_ms {
            0 => format!(
                "{run_id} is being canceled; `tasuki runs watch {run_id}` shows when it has ended.\n"
            ),
            _ => format!("{run_id} has ended: {}.\n", labels::run_status(&run)),
        },
    )
}

pub(super) async fn reply(
    args: ReplyArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let text = TextArgs::default().read("TEXT", &args.text)?;
    let runs = args.speaker.client(config)?;
    let run_id = args.run.find(&runs.broker).await?;
    let (role, person, parent) = runs.speaker.clone();
    let request = wire::ReplyToRunRequest {
        role,
        person,
        parent,
        run_id: run_id.clone(),
        message: args.message,
        text: Some(convert::text(text)),
        ..Default::default()
    };
    let told = runs.broker.call(&request).await?;
    let again = again(told.repeated);
    output.answer(
        || json!(told),
        || format!("Question {} of {} is answered.{again}\n", args.message, line(&run_id)),
    )
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
pub(super) async fn view(broker: &Broker, run: wire::Run) -> Result<RunView, Failure> {
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
        match messages.last().map(|it| it.number) {
            Some(last) if page.has_more && after < last => after = last,
            Some(_) | None => return Ok(messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::run::StepId;

    use super::*;

    #[test]
    fn a_sub_agent_speaks_for_itself_unless_somebody_is_named() {
        let key = StepKey::new(StepId::default()).unwrap();
        let token = key.to_string();
        let said = |role: Option<&str>, by: Option<&str>, token: Option<&str>| {
            let (role, by) = (role.map(|it| it.parse().unwrap()), by.map(|it| it.parse().unwrap()));
            SpeakerArgs { role, by }.speaker(token)
        };
        let none = String::new;
        assert_eq!(said(None, None, Some(&token)), Ok((none(), none(), Some(key.to_wire()))));
        assert_eq!(said(Some("lead"), None, Some(&token)), Ok(("lead".to_owned(), none(), None)));
        for token in ["", token.as_str()] {
            let alice = "alice".to_owned();
            assert_eq!(said(None, Some("alice"), Some(token)), Ok((none(), alice, None)));
        }
        assert_eq!(said(None, None, Some("nonsense")).unwrap_err().code(), "usage");
    }
}
