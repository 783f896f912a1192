//! What a phase tells its role's node to do: call one of the role's services, or run an agent; with
//! values of the board, and what becomes of the result. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tasuki_broker::rules::board::Schema;
use tasuki_proto::{
    board::ChannelName, echo::echo, nearest::did_you_mean, schema::check_schema, wire,
};

use crate::{
    service_settings::{AgentStep, check_service_name},
    template::{Arguments, Reference, Template, Values, check_path},
};

/// The value that names one attempt, beside the channels of the board.
pub(super) const ATTEMPT_KEY: &str = "attempt_key";

/// The channel in which a gate says whether it is passed.
const VERDICT: &str = "is_approved";

/// A field that is wrong, and the end of a sentence about it.
type Wrong = (&'static str, String);

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
    pub fn read(text: &str) -> Result<Self, Wrong> {
        // Fields have names, and no places.
        serde_json::from_str::<Map<String, Value>>(text)
            .and_then(|fields| serde_json::from_value(fields.into()))
            .map_err(|why| ("spec", format!("is none that this node knows: {why}")))
    }

    /// Reads its templates.
    ///
    /// # Errors
    /// The field that is wrong, and the end of a sentence about it.
    pub fn action(&self) -> Result<PhaseAction, Wrong> {
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
                check_service_name(name).map_err(|why| ("service", why))?;
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

    /// Whether it can write what a gate writes, and what no other phase may.
    ///
    /// # Errors
    /// The field that is wrong, and the end of a sentence about it.
    pub fn check_verdict(&self, is_gate: bool) -> Result<(), Wrong> {
        let into = self.into.as_deref();
        let channel = into.map(|it| it.split_once('.').map_or(it, |(channel, _)| channel));
        match (is_gate, channel) {
            (false, Some(VERDICT)) => {
                let why =
                    format!("is {VERDICT}, which only a gate writes; `approves` makes it one");
                return Err(("into", why));
            }
            (false, _) => return Ok(()),
            (true, None | Some(VERDICT)) => {}
            (true, Some(_)) => {
                let is = echo(into.unwrap_or_default());
                return Err(("into", format!("is {is}; a gate writes {VERDICT}")));
            }
        }
        let why = match (&self.agent, &self.output, into) {
            (None, ..) => return Ok(()),
            (Some(_), None, _) => "is missing; the answer of a gate is",
            (Some(_), Some(schema), None) => match check_path(schema, &[VERDICT.to_owned()]) {
                Ok(()) => return Ok(()),
                Err(_) => "does not have what a gate writes:",
            },
            (Some(_), Some(_), Some(_)) => return Ok(()),
        };
        Err(("output", format!("{why} an object with the boolean {VERDICT}")))
    }

    /// What it names that a board with this schema does not have.
    pub fn check_channels(&self, action: &PhaseAction, schema: &Schema) -> Vec<Wrong> {
        let mut all = Vec::new();
        let (field, references) = action.references();
        for reference in references.into_iter().filter(|it| it.name != ATTEMPT_KEY) {
            if let Err(why) = check_reference(schema, reference) {
                all.push((field, format!("has the place {{{}}}, which {why}", reference.text())));
            }
        }
        let place = self.into.as_deref().and_then(|it| Place::parse(it).ok());
        if let Some(Place { channel, .. }) =
            place.filter(|it| schema.channel(&it.channel).is_none())
        {
            let is = echo(channel.as_str());
            all.push(("into", format!("names {is}, which {}", no_channel(schema, &channel))));
        }
        all
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

impl PhaseAction {
    /// The field that has places for values, and the values that they name.
    fn references(&self) -> (&'static str, Vec<&Reference>) {
        match self {
            Self::Service { arguments, .. } => {
                let all = arguments.as_ref().map(Arguments::references);
                ("arguments", all.unwrap_or_default())
            }
            Self::Agent { prompt, .. } => ("prompt", prompt.references().collect()),
        }
    }
}

/// An error is the end of a sentence.
fn check_reference(schema: &Schema, reference: &Reference) -> Result<(), String> {
    let write = || format!("Write {{{{{}}}}} for the text itself", reference.text());
    let channel: ChannelName = reference.name.parse().map_err(|why| format!("{why}"))?;
    match schema.channel(&channel) {
        None => Err(format!("{}. {}", no_channel(schema, &channel), write())),
        Some(it) => {
            let form = it.form.as_ref().unwrap_or(&Value::Bool(true));
            check_path(form, &reference.path).map_err(|why| format!("{why}. {}", write()))
        }
    }
}

fn no_channel(schema: &Schema, channel: &ChannelName) -> String {
    let names = schema.names().map(ChannelName::as_str);
    let near = did_you_mean(channel.as_str(), names.clone());
    let names = names.collect::<Vec<_>>().join(", ");
    format!("is no channel of the board; there are {names}{near}")
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
    // What nobody wrote yet, or took back, is an empty text with all its parts, and no mistake.
    for it in board.board.iter().flat_map(|it| &it.channels) {
        values.set_empty(&it.channel);
    }
    for (name, value) in &channels {
        match value {
            Value::Null => values.set_empty(name),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => values.set(name, value.clone()),
        }
    }
    values.set(ATTEMPT_KEY, attempt_key.into());
    (values, channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_that_was_not_written_is_empty_with_all_its_parts() {
        let channel =
            |name: &str| wire::BoardChannel { channel: name.to_owned(), ..Default::default() };
        let value = |name: &str, json: &str| wire::ChannelValue {
            channel: name.to_owned(),
            value_json: json.to_owned(),
            ..Default::default()
        };
        let board = wire::BoardSummary {
            channels: vec![channel("artifacts"), channel("requirements"), channel("last_error")],
            ..Default::default()
        };
        let read = wire::ReadBoardResponse {
            board: Some(board),
            channels: vec![value("requirements", "\"x\""), value("last_error", "null")],
            ..Default::default()
        };
        let (values, _) = values(&read, "b/1/plan");
        for (text, filled) in [
            ("{artifacts}{artifacts.plan}{artifacts.a.b}{last_error}{last_error.x}", Ok("")),
            ("{requirements} {attempt_key}", Ok("x b/1/plan")),
            ("{requirements.x}", Err("requirements is a text, which has no parts here")),
            ("{nothing}", Err("There is no value \"nothing\"")),
        ] {
            let got = Template::parse(text).unwrap().fill(&values);
            match filled {
                Ok(wanted) => assert_eq!(got.as_deref(), Ok(wanted), "{text}"),
                Err(why) => assert!(got.unwrap_err().contains(why), "{text}"),
            }
        }
    }
}
