//! What a sub-agent that runs here is served: MCP as itself, and what `tasuki runs ask` and `tasuki
//! runs report` send for one without MCP.
//!
//! `POST /step/ask` and `POST /step/report` take a [`Message`] and answer with its number ([`Told`]);
//! `POST /step/reply` takes the number of a question ([`Question`]) and waits for its [`Reply`]. A
//! message that is sent again with its intent is told once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tasuki_proto::{
    echo::echo,
    id::IdempotencyKey,
    limits::TEXT_BYTES_MAX,
    reason::Reason,
    run::StepId,
    wire::{self, run_answer},
};

use super::{
    agent::Agents,
    host::{Host, Scope, StepCaller},
    intent::{self, Intents},
    transport::{
        server::refuse,
        step_access::{CALLS, StepService},
    },
};
use crate::{
    refusal::Refusal,
    runs::{
        client::{RunClient, Speaker},
        convert,
        host::RunsHost,
    },
    step_key::StepKey,
};

/// What is asked at these addresses.
pub(crate) const ASK: &str = "ask";
pub(crate) const REPORT: &str = "report";
pub(crate) const REPLY: &str = "reply";

/// The address of one of them.
pub(crate) fn path(name: &str) -> String {
    format!("{CALLS}{name}")
}

/// How long a question about a reply is held at most: who asks expects an answer within ten seconds.
const HOLD: Duration = Duration::from_secs(8);

/// What a sub-agent asks or reports.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    text: String,
    /// Names what is meant each time it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<Value>,
}

impl Message {
    /// One that was never sent.
    pub(crate) fn new(text: String) -> Result<Self, getrandom::Error> {
        Ok(Self { text, intent: Some(Intents::new()?.next_intent()) })
    }

    fn check(self) -> Result<(String, Option<IdempotencyKey>), Refusal> {
        if self.text.trim().is_empty() {
            return Err(invalid("`text` is empty; nothing was sent"));
        }
        if TEXT_BYTES_MAX < self.text.len() {
            return Err(Refusal {
                reason: Reason::TooLarge,
                message: format!(
                    "`text` has {} bytes; the limit is {TEXT_BYTES_MAX}. Nothing was sent.",
                    self.text.len()
                ),
            });
        }
        let no_key = || invalid("`intent` is none: it has `by`, an id, and `number`, from 1");
        let key = self.intent.map(|it| intent::key(&it).ok_or_else(no_key)).transpose()?;
        Ok((self.text, key))
    }
}

/// A message was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// Its number among the run's messages.
    pub(crate) message: u32,
}

/// Which reply is waited for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) message: u32,
    /// Default: as long as one can be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hold_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    There,
    StillWaiting,
    /// A newer wait for the same took its place.
    Superseded,
    /// There will be none.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) standing: Standing,
    /// If it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<String>,
}

impl From<&wire::RunAnswer> for Reply {
    fn from(answer: &wire::RunAnswer) -> Self {
        let reply = answer.messages.first().and_then(|question| question.reply.as_ref());
        let standing = match answer.standing() {
            run_answer::Standing::There if reply.is_some() => Standing::There,
            run_answer::Standing::There => Standing::Over,
            run_answer::Standing::Superseded => Standing::Superseded,
            run_answer::Standing::StillWaiting | run_answer::Standing::Unspecified => {
                Standing::StillWaiting
            }
        };
        let reply = reply.filter(|_| standing == Standing::There);
        Self { standing, reply: reply.map(|it| convert::plain(Some(it)).to_owned()) }
    }
}

/// The steps that run on this node.
pub(super) struct LocalSteps {
    host: Arc<Host>,
    runs: Arc<RunsHost>,
}

impl LocalSteps {
    /// `None`: this node has no runs.
    pub(super) fn new(host: &Arc<Host>) -> Option<Self> {
        let runs = host.runs.clone()?;
        Some(Self { host: Arc::clone(host), runs })
    }

    fn client(&self, key: &StepKey) -> RunClient {
        self.runs.client(Speaker::Step(key.clone()))
    }
}

#[async_trait]
impl StepService for LocalSteps {
    type Mcp = Agents;

    fn is_live(&self, key: &StepKey) -> bool {
        self.runs.steps.find(key)
    }

    async fn ended(&self, step: StepId) {
        self.runs.steps.ended(step).await;
    }

    fn mcp(&self, key: &StepKey) -> Agents {
        let caller = StepCaller { client: self.client(key) };
        Agents { host: Arc::clone(&self.host), scope: Scope::Step(Arc::new(caller)) }
    }

    async fn call(&self, key: &StepKey, name: &str, body: Bytes) -> Response {
        let client = self.client(key);
        let answer = match name {
            ASK => ask(&client, &body).await.map(|told| Json(told).into_response()),
            REPORT => report(&client, &body).await.map(|told| Json(told).into_response()),
            REPLY => reply(&client, &body).await.map(|reply| Json(reply).into_response()),
            _ => {
                let message = "nothing is served at this address";
                return refuse(StatusCode::NOT_FOUND, "not_found", message);
            }
        };
        answer.unwrap_or_else(|refusal| refused(&refusal))
    }
}

async fn ask(client: &RunClient, body: &[u8]) -> Result<Told, Refusal> {
    let (text, key) = read::<Message>(body)?.check()?;
    Ok(Told { message: client.ask_parent(&text, key).await?.message })
}

async fn report(client: &RunClient, body: &[u8]) -> Result<Told, Refusal> {
    let (text, key) = read::<Message>(body)?.check()?;
    Ok(Told { message: client.report(&text, key).await?.message })
}

async fn reply(client: &RunClient, body: &[u8]) -> Result<Reply, Refusal> {
    let Question { message, hold_ms } = read(body)?;
    let hold = hold_ms.map_or(HOLD, |ms| Duration::from_millis(ms).min(HOLD));
    Ok(Reply::from(&client.wait_reply(message, hold).await?))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let why =
        |why: serde_json::Error| invalid(&format!("invalid body: {}", echo(&why.to_string())));
    serde_json::from_slice(body).map_err(why)
}

fn invalid(message: &str) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message: message.to_owned() }
}

fn refused(refusal: &Refusal) -> Response {
    let is_invalid = [Reason::InvalidArgument, Reason::TooLarge].contains(&refusal.reason);
    let status = if is_invalid { StatusCode::BAD_REQUEST } else { StatusCode::CONFLICT };
    refuse(status, refusal.reason.as_str(), refusal.message.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tasuki_proto::wire::run_answer::Standing as Wire;

    use super::*;

    fn check(body: &Value) -> Result<(String, Option<IdempotencyKey>), Refusal> {
        read::<Message>(&serde_json::to_vec(body).unwrap()).and_then(Message::check)
    }

    #[test]
    fn a_message_sent_again_has_the_same_key_and_another_one_another() {
        let message = Message::new("Which one?".to_owned()).unwrap();
        let sent = serde_json::to_value(&message).unwrap();
        let (text, key) = check(&sent).unwrap();
        assert_eq!((text.as_str(), &check(&sent).unwrap().1), ("Which one?", &key));
        let other = Message::new("Which one?".to_owned()).unwrap();
        assert_ne!(other.check().unwrap().1, key);
        assert_eq!(check(&json!({ "text": "x" })).unwrap(), ("x".to_owned(), None));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        for (body, reason) in [
            (json!({ "text": " \n" }), Reason::InvalidArgument),
            (json!({ "text": 7 }), Reason::InvalidArgument),
            (json!({}), Reason::InvalidArgument),
            (
                json!({ "text": "x", "intent": { "by": "a b", "number": 1 } }),
                Reason::InvalidArgument,
            ),
            (json!({ "text": long }), Reason::TooLarge),
        ] {
            let refusal = check(&body).unwrap_err();
            assert_eq!(refusal.reason, reason, "{refusal}");
            assert!(refusal.message.len() < 1_000, "{refusal}");
        }
        assert!(check(&json!({ "text": "x".repeat(TEXT_BYTES_MAX) })).is_ok());
    }

    #[test]
    fn a_reply_is_there_or_will_never_be() {
        let of = |standing: Wire, reply: Option<&str>, is_over| {
            let question =
                wire::RunMessage { reply: reply.map(convert::text), is_over, ..Default::default() };
            let answer = wire::RunAnswer {
                standing: standing.into(),
                messages: vec![question],
                ..Default::default()
            };
            serde_json::to_value(Reply::from(&answer)).unwrap()
        };
        for (told, expected) in [
            (of(Wire::There, Some("yes"), false), json!({ "standing": "there", "reply": "yes" })),
            (of(Wire::There, Some(""), false), json!({ "standing": "there", "reply": "" })),
            (of(Wire::There, None, true), json!({ "standing": "over" })),
            (of(Wire::StillWaiting, None, false), json!({ "standing": "still_waiting" })),
            (of(Wire::Superseded, None, false), json!({ "standing": "superseded" })),
        ] {
            assert_eq!(told, expected);
        }
    }
}
