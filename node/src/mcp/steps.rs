//! What a sub-agent that runs here is served: MCP as itself, and what `tasuki runs ask` and `tasuki
//! runs report` send for one without MCP.
//!
//! `POST /step/ask` and `POST /step/report` take a [`Message`] and answer with its number ([`MessageAck`]);
//! `POST /step/reply` takes the number of a question ([`ReplyRequest`]) and waits for its [`Reply`]. A
//! message that is sent again with its intent is told once. The file of a report is named, and read
//! here.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Json,
    response::{IntoResponse, Response},
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
    agents::Agents,
    host::{Host, Scope},
    intent::{self, Intents},
    transport::{
        server::refuse,
        step_access::{CALLS, StepService},
    },
};
use crate::{
    refusal::Refusal,
    runs::{
        client::{RunCaller, RunClient},
        convert::plain,
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
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    /// The path of a file that a report hands over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Names what is meant each time it is sent.
    intent: Value,
}

impl Message {
    /// One that was never sent.
    pub(crate) fn new(text: String, file: Option<String>) -> Result<Self, getrandom::Error> {
        Ok(Self { text, file, intent: Intents::new()?.next_intent() })
    }

    fn check(self) -> Result<(String, Option<String>, IdempotencyKey), Refusal> {
        if self.text.trim().is_empty() && self.file.is_none() {
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
        let no_key = || invalid("`intent` must have `by`, an id, and `number`, 1 or more");
        let key = intent::key(&self.intent).ok_or_else(no_key)?;
        Ok((self.text, self.file, key))
    }
}

/// The answer to a message that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageAck {
    /// Its number among the run's messages.
    pub(crate) message: u32,
}

/// A wait for the reply to a question.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ReplyRequest {
    pub(crate) message: u32,
    /// Default: as long as one can be held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hold_ms: Option<u64>,
}

/// Whether a reply is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyStatus {
    There,
    StillWaiting,
    /// A newer wait for the same took its place.
    Superseded,
    /// There will be none.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    #[serde(rename = "standing")]
    pub(crate) status: ReplyStatus,
    /// If it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reply: Option<String>,
}

impl From<&wire::RunAnswer> for Reply {
    fn from(answer: &wire::RunAnswer) -> Self {
        use run_answer::Standing;
        let reply = answer.messages.first().and_then(|question| question.reply.as_ref());
        let (status, reply) = match (answer.standing(), reply) {
            (Standing::There, Some(reply)) => {
                (ReplyStatus::There, Some(plain(Some(reply)).to_owned()))
            }
            (Standing::There, None) => (ReplyStatus::Over, None),
            (Standing::Superseded, _) => (ReplyStatus::Superseded, None),
            (Standing::StillWaiting | Standing::Unspecified, _) => {
                (ReplyStatus::StillWaiting, None)
            }
        };
        Self { status, reply }
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
        self.runs.client(RunCaller::Step(key.clone()))
    }

    async fn tell(
        &self,
        key: &StepKey,
        is_question: bool,
        body: &[u8],
    ) -> Result<Json<MessageAck>, Refusal> {
        let (text, file, intent) = read::<Message>(body)?.check()?;
        let client = self.client(key);
        let told = match (is_question, file) {
            (true, Some(_)) => return Err(invalid("`file` is for reports; nothing was sent")),
            (true, None) => client.ask_parent(&text, Some(intent)).await?,
            (false, None) => client.report(&text, None, Some(intent)).await?,
            (false, Some(path)) => {
                let file = self.runs.read_file(key.step(), &path, &self.host.private).await?;
                client.report(&text, Some(file), Some(intent)).await?
            }
        };
        Ok(Json(MessageAck { message: told.message }))
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
        Agents { host: Arc::clone(&self.host), scope: Scope::Step(Arc::new(self.client(key))) }
    }

    async fn call(&self, key: &StepKey, name: &str, body: Bytes) -> Response {
        let client = self.client(key);
        let answering = async {
            let _places = self.host.admit_step(key.step())?;
            Ok::<_, Refusal>(match name {
                ASK | REPORT => self.tell(key, name == ASK, &body).await?.into_response(),
                REPLY => reply(&client, &body).await?.into_response(),
                _ => {
                    let message = "nothing is served at this address";
                    refuse(StatusCode::NOT_FOUND, "not_found", message)
                }
            })
        };
        answering.await.unwrap_or_else(|Refusal { reason, message }| {
            let is_invalid = [Reason::InvalidArgument, Reason::TooLarge].contains(&reason);
            let status = if is_invalid { StatusCode::BAD_REQUEST } else { StatusCode::CONFLICT };
            refuse(status, reason.as_str(), message)
        })
    }
}

async fn reply(client: &RunClient, body: &[u8]) -> Result<Json<Reply>, Refusal> {
    let ReplyRequest { message, hold_ms } = read(body)?;
    let hold = hold_ms.map_or(HOLD, |ms| Duration::from_millis(ms).min(HOLD));
    Ok(Json(Reply::from(&client.wait_reply(message, hold).await?)))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let why =
        |why: serde_json::Error| invalid(&format!("invalid body: {}", echo(&why.to_string())));
    serde_json::from_slice(body).map_err(why)
}

fn invalid(message: &str) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: &Value) -> Result<(String, Option<String>, IdempotencyKey), Refusal> {
        read::<Message>(&serde_json::to_vec(body).unwrap()).and_then(Message::check)
    }

    #[test]
    fn a_message_sent_again_has_the_same_key_and_another_one_another() {
        let message = Message::new("Which one?".to_owned(), None).unwrap();
        let sent = serde_json::to_value(&message).unwrap();
        let (text, file, key) = check(&sent).unwrap();
        assert_eq!((text.as_str(), file, &check(&sent).unwrap().2), ("Which one?", None, &key));
        let other = Message::new("Which one?".to_owned(), None).unwrap();
        assert_ne!(other.check().unwrap().2, key);
    }

    #[test]
    fn a_file_needs_no_text() {
        let message = Message::new(String::new(), Some("/p/plan.md".to_owned())).unwrap();
        let (text, file, _) = check(&serde_json::to_value(&message).unwrap()).unwrap();
        assert_eq!((text.as_str(), file.as_deref()), ("", Some("/p/plan.md")));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let said =
            |text: Value, by: &str| json!({ "text": text, "intent": { "by": by, "number": 1 } });
        let long = |bytes: usize| said("x".repeat(bytes).into(), "a");
        for (body, reason) in [
            (said(" \n".into(), "a"), Reason::InvalidArgument),
            (said(7.into(), "a"), Reason::InvalidArgument),
            (said("x".into(), "a b"), Reason::InvalidArgument),
            (json!({ "text": "x" }), Reason::InvalidArgument),
            (long(TEXT_BYTES_MAX + 1), Reason::TooLarge),
        ] {
            let refusal = check(&body).unwrap_err();
            assert_eq!(refusal.reason, reason, "{refusal}");
            assert!(refusal.message.len() < 1_000, "{refusal}");
        }
        assert!(check(&long(TEXT_BYTES_MAX)).is_ok());
    }
}
