//! What a phase tells its role's node to do: call one of the role's services, or run an agent; with
//! values of the board, and what becomes of the result. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tasuki_proto::{board::ChannelName, schema::check_schema, wire};

use crate::{
    service_settings::AgentStep,
    template::{Arguments, Template, Values},
};

/// The value that names one attempt, beside the channels of the board.
pub(super) const ATTEMPT_KEY: &str = "attempt_key";

/// As it is written to a pipeline. One of `service` and `agent` is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PhaseSpec {
    /// A service of the role, by its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Its input; without it the channels that its schema names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// JSON Schema of the agent's answer; without it the answer is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The channel that the result goes to, or one key of it: `artifacts.plan`. Without it the
    /// result is an object whose fields are channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// What a phase does, with its templates read.
#[derive(Debug)]
pub enum PhaseAction {
    Service { name: String, arguments: Option<Arguments> },
    Agent { agent: AgentStep, prompt: Template, output: Option<Value> },
}

impl PhaseSpec {
    /// What a pipeline says.
    ///
    /// # Errors
    /// The field that is wrong, and the end of a sentence about it.
    pub fn read(text: &str) -> Result<Self, (&'static str, String)> {
        serde_json::from_str(text)
            .map_err(|why| ("spec", format!("is none that this node knows: {why}")))
    }

    /// Reads its templates.
    ///
    /// # Errors
    /// The field that is wrong, and the end of a sentence about it.
    pub fn action(&self) -> Result<PhaseAction, (&'static str, String)> {
        if let Some(into) = &self.into {
            Place::parse(into).map_err(|why| ("into", why))?;
        }
        let only = |field: &'static str, is_there: bool, of: &str| match is_there {
            true => Err((field, format!("belongs to `{of}`"))),
            false => Ok(()),
        };
        match (&self.service, &self.agent) {
            (Some(_), Some(_)) => {
                Err(("agent", "is there beside `service`; one of them does it".to_owned()))
            }
            (None, None) => {
                Err(("service", "is missing, and so is `agent`; one of them does it".to_owned()))
            }
            (Some(name), None) => {
                for (field, is_there) in [
                    ("prompt", self.prompt.is_some()),
                    ("runner", self.runner.is_some()),
                    ("model", self.model.is_some()),
                    ("output", self.output.is_some()),
                ] {
                    only(field, is_there, "agent")?;
                }
                let arguments = self.arguments.clone().map(Arguments::parse);
                let arguments = arguments.transpose().map_err(|why| ("arguments", why))?;
                Ok(PhaseAction::Service { name: name.clone(), arguments })
            }
            (None, Some(agent)) => {
                only("arguments", self.arguments.is_some(), "service")?;
                let Some(prompt) = &self.prompt else {
                    return Err((
                        "prompt",
                        "is missing; it says what the agent is to do".to_owned(),
                    ));
                };
                let prompt = Template::parse(prompt).map_err(|why| ("prompt", why))?;
                if let Some(schema) = &self.output {
                    check_schema(schema).map_err(|why| ("output", why))?;
                }
                if self.output.is_none() && self.into.is_none() {
                    let why = "is missing; an answer without `output` is a text, which goes to a \
                               channel: into = \"artifacts.plan\"";
                    return Err(("into", why.to_owned()));
                }
                let agent = AgentStep {
                    agent: agent.clone(),
                    runner: self.runner.clone(),
                    model: self.model.clone(),
                    on: String::new(),
                };
                Ok(PhaseAction::Agent { agent, prompt, output: self.output.clone() })
            }
        }
    }

    /// What a result writes to the board.
    ///
    /// # Errors
    /// A sentence that says why it cannot.
    pub fn updates(&self, result: Value) -> Result<Vec<wire::ChannelUpdate>, String> {
        let fields = match (&self.into, result) {
            (Some(into), result) => Place::parse(into)?.put(result),
            (None, Value::Object(fields)) => fields,
            (None, other) => {
                let kind = match other {
                    Value::String(_) => "a text",
                    Value::Array(_) => "a list",
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                        "no object"
                    }
                };
                return Err(format!(
                    "The result is {kind}. It has to be an object whose fields are channels of the \
                     board, or the phase says with `into` where it goes."
                ));
            }
        };
        let updates = fields
            .into_iter()
            .map(|(channel, value)| wire::ChannelUpdate { channel, value_json: value.to_string() });
        Ok(updates.collect())
    }
}

/// A channel, or one key of it.
struct Place {
    channel: ChannelName,
    key: Option<String>,
}

impl Place {
    fn parse(text: &str) -> Result<Self, String> {
        let (channel, key) = match text.split_once('.') {
            Some((channel, key)) => (channel, Some(key.to_owned())),
            None => (text, None),
        };
        let channel = channel.parse().map_err(|why| format!("names a channel that {why}"))?;
        match key.as_deref() {
            Some("") => Err("ends with a point; write CHANNEL or CHANNEL.KEY".to_owned()),
            _ => Ok(Self { channel, key }),
        }
    }

    fn put(self, value: Value) -> Map<String, Value> {
        let value = match self.key {
            None => value,
            Some(key) => json!({ key: value }),
        };
        Map::from_iter([(self.channel.to_string(), value)])
    }
}

/// The values of a board by channel, and the key of the attempt.
pub(super) fn values(
    board: &wire::ReadBoardResponse,
    attempt_key: &str,
) -> (Values, Map<String, Value>) {
    let read = |it: &wire::ChannelValue| {
        let value = serde_json::from_str(&it.value_json).unwrap_or(Value::Null);
        (it.channel.clone(), value)
    };
    let channels: Map<String, Value> = board.channels.iter().map(read).collect();
    let mut values = Values::default();
    // What nobody wrote yet, or took back, is an empty text, and no mistake.
    for it in board.board.iter().flat_map(|it| &it.channels) {
        values.set(&it.channel, "".into());
    }
    for (name, value) in &channels {
        let value = if value.is_null() { "".into() } else { value.clone() };
        values.set(name, value);
    }
    values.set(ATTEMPT_KEY, attempt_key.into());
    (values, channels)
}
