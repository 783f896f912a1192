//! Which channels a board has, each with its reducer and the form of what is written to it.
//!
//! A schema of one's own is a JSON Schema of the whole board: its `properties` are the channels,
//! and each may say its `reducer`. An update is checked by itself and not with what was there, so
//! keywords about a whole list or object are refused beside a reducer that adds to one.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

use minicbor::{Decode, Decoder, Encode, Encoder, decode, encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value as Json, json};
use tasuki_proto::{
    board::{ChannelName, Reducer},
    limits::BOARD_CHANNELS_MAX,
    nearest::did_you_mean,
};

/// The schema of a board that names none.
pub const AGENT_STATE: &str = "agent_state";

/// The phases that its `current_phase` knows.
pub const AGENT_STATE_PHASES: [&str; 4] = ["plan", "code", "test", "review"];

/// Any channel may be written to, and what is written replaces what was there.
pub const ANY: &str = "any";

/// Keywords that say nothing of a value.
const REMARKS: [&str; 7] =
    ["reducer", "type", "title", "description", "default", "examples", "$comment"];

/// Keywords of a whole board's schema.
const TOP: [&str; 9] = [
    "type",
    "title",
    "description",
    "$comment",
    "$schema",
    "properties",
    "additionalProperties",
    "$defs",
    "definitions",
];

/// What agents that plan, code, test and review share. Nothing that one of them adds is lost.
static AGENT_STATE_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = |reducer: &str| json!({ "type": "string", "reducer": reducer });
    let schema = json!({
        "type": "object",
        "properties": {
            "task_id": text("last_value"),
            "requirements": text("last_value"),
            "messages": { "type": "array", "reducer": "add_messages" },
            "current_phase": { "enum": AGENT_STATE_PHASES },
            "artifacts": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "reducer": "merge",
            },
            "retry_count": { "type": "integer", "minimum": 0 },
            "last_error": { "type": ["string", "null"] },
            "review_comments": {
                "type": "array",
                "items": { "type": "string" },
                "reducer": "append",
            },
            "is_approved": { "type": "boolean" },
        },
        "additionalProperties": false,
    });
    Schema::parse(AGENT_STATE, &schema).expect("the built-in schema is one")
});

static ANY_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    Schema::parse(ANY, &json!({ "type": "object" })).expect("the built-in schema is one")
});

/// The schema of a board. It is equal to another one of the same text.
#[derive(Clone)]
pub struct Schema(Arc<Parsed>);

struct Parsed {
    /// A built-in one's name, or JSON.
    text: String,
    channels: BTreeMap<ChannelName, ChannelSchema>,
    /// Of any other channel; `None`: there is no other.
    others: Option<ChannelSchema>,
}

/// What may be written to a channel.
#[derive(Debug, Clone, Default)]
pub struct ChannelSchema {
    pub reducer: Reducer,
    /// The form of one update; `None`: any.
    pub form: Option<Json>,
}

impl Schema {
    /// What agents of a plan, code, test and review share.
    pub fn agent_state() -> Self {
        AGENT_STATE_SCHEMA.clone()
    }

    /// Reads a schema: a built-in one's name, or JSON.
    ///
    /// # Errors
    /// The end of a sentence that says what is wrong.
    pub fn new(text: &str) -> Result<Self, String> {
        match text {
            AGENT_STATE => return Ok(Self::agent_state()),
            ANY => return Ok(ANY_SCHEMA.clone()),
            _ => {}
        }
        if !text.trim_start().starts_with('{') {
            let near = did_you_mean(text, [AGENT_STATE, ANY].into_iter());
            return Err(format!(
                "is neither {AGENT_STATE} nor {ANY} nor a JSON Schema in JSON{near}"
            ));
        }
        let schema: Json =
            serde_json::from_str(text).map_err(|why| format!("is not JSON: {why}"))?;
        // However it is laid out.
        Self::parse(&schema.to_string(), &schema)
    }

    /// A built-in one's name, or JSON.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The whole as JSON Schema; `None` of a built-in one.
    pub fn custom(&self) -> Option<Json> {
        serde_json::from_str(self.as_str()).ok()
    }

    /// What may be written to a channel; `None`: there is no such channel.
    pub fn channel(&self, name: &ChannelName) -> Option<&ChannelSchema> {
        self.0.channels.get(name).or(self.0.others.as_ref())
    }

    /// The channels that it names.
    pub fn names(&self) -> impl Iterator<Item = &ChannelName> + Clone {
        self.0.channels.keys()
    }

    fn parse(text: &str, schema: &Json) -> Result<Self, String> {
        let top = schema.as_object().ok_or("must be a JSON object")?;
        if let Some(other) = top.keys().find(|it| !TOP.contains(&it.as_str())) {
            return Err(format!(
                "has {other:?}, which does not apply to a board; there are {}",
                TOP.join(", ")
            ));
        }
        if top.get("type").is_some_and(|it| it != "object") {
            return Err("must have the type \"object\"".to_owned());
        }
        let none = Map::new();
        let properties = match top.get("properties") {
            None => &none,
            Some(it) => it.as_object().ok_or("has `properties` that are no object")?,
        };
        if BOARD_CHANNELS_MAX < properties.len() {
            return Err(format!(
                "has {} channels; the limit is {BOARD_CHANNELS_MAX}",
                properties.len()
            ));
        }
        let mut channels = BTreeMap::new();
        for (name, property) in properties {
            let channel = name.parse().map_err(|why| format!("has a channel whose name {why}"))?;
            let parsed = channel_schema(top, property);
            let parsed = parsed.map_err(|why| format!("has the channel {name:?}, which {why}"))?;
            channels.insert(channel, parsed);
        }
        let others = match top.get("additionalProperties") {
            Some(Json::Bool(false)) => None,
            None | Some(Json::Bool(true)) => Some(ChannelSchema::default()),
            Some(it) => Some(
                channel_schema(top, it)
                    .map_err(|why| format!("has `additionalProperties`, which {why}"))?,
            ),
        };
        Ok(Self(Arc::new(Parsed { text: text.to_owned(), channels, others })))
    }
}

fn channel_schema(top: &Map<String, Json>, property: &Json) -> Result<ChannelSchema, String> {
    let Some(own) = property.as_object() else {
        let form = (property != &Json::Bool(true)).then(|| property.clone());
        return Ok(ChannelSchema { reducer: Reducer::default(), form });
    };
    let reducer = match own.get("reducer") {
        None => Reducer::default(),
        Some(Json::String(name)) => {
            name.parse().map_err(|why| format!("has the reducer {name:?}, which {why}"))?
        }
        Some(_) => return Err("has a `reducer` that is no text".to_owned()),
    };
    let (kind, parts): (&str, &[&str]) = match reducer {
        Reducer::LastValue => {
            return Ok(ChannelSchema { reducer, form: Some(with_definitions(top, own.clone())) });
        }
        Reducer::Append | Reducer::AddMessages => ("array", &["items"]),
        Reducer::Merge => (
            "object",
            &["properties", "patternProperties", "additionalProperties", "propertyNames"],
        ),
    };
    if own.get("type").is_some_and(|it| it != kind) {
        return Err(format!("must have the type {kind:?} with the reducer {reducer}"));
    }
    let is_known = |it: &&String| REMARKS.contains(&it.as_str()) || parts.contains(&it.as_str());
    if let Some(other) = own.keys().find(|it| !is_known(it)) {
        return Err(format!(
            "has {other:?}, which cannot be checked with the reducer {reducer}: an update is checked \
             without what was there. {} can",
            parts.join(", ")
        ));
    }
    let form = own.iter().filter(|(name, _)| parts.contains(&name.as_str()));
    let form: Map<String, Json> = form.map(|(name, it)| (name.clone(), it.clone())).collect();
    let form = (!form.is_empty()).then(|| with_definitions(top, form));
    Ok(ChannelSchema { reducer, form })
}

/// A part of a schema with what its references lead to.
fn with_definitions(top: &Map<String, Json>, mut part: Map<String, Json>) -> Json {
    for name in ["$schema", "$defs", "definitions"] {
        if let Some(it) = top.get(name) {
            part.entry(name).or_insert_with(|| it.clone());
        }
    }
    Json::Object(part)
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<C> Encode<C> for Schema {
    fn encode<W: encode::Write>(
        &self,
        to: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), encode::Error<W::Error>> {
        to.str(self.as_str())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Schema {
    fn decode(from: &mut Decoder<'b>, _: &mut C) -> Result<Self, decode::Error> {
        let at = from.position();
        let invalid = |why| decode::Error::message(format!("Schema {why}")).at(at);
        Self::new(from.str()?).map_err(invalid)
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::new(&text).map_err(|why| D::Error::custom(format!("Schema {why}")))
    }
}
