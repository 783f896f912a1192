//! Types of these tools' arguments.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use tasuki_proto::{reason::Reason, run::RunId};

use super::super::{
    arguments::refuse,
    field_types::{Name, ParseName, Seconds, Text, Words, schema},
};
use crate::{
    runner::{discovery::Scope, modes::Step},
    runs::view::micro_usd,
};

impl ParseName for RunId {
    /// What is no id is a run that nobody has.
    fn parse_name(name: &str) -> Result<Self, (Reason, String)> {
        name.parse().map_err(|why| (Reason::UnknownRun, format!("{why}")))
    }
}

impl Words for Scope {
    const WORDS: &'static [(&'static str, Self)] =
        &[("user", Self::User), ("project", Self::Project), ("both", Self::Both)];
}

// One task of several. Clients are told of its fields alone; one that names another, such as where
// it is to run, means more than would be done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    agent: Name,
    task: Text,
    cwd: Option<Name>,
}

impl From<Task> for Step {
    fn from(it: Task) -> Self {
        Self { agent: it.agent.0, task: it.task.0, cwd: it.cwd.map(|it| it.0) }
    }
}

/// How long a call waits at most.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Timeout(pub Seconds);

schema!(Timeout => {
    "type": "number",
    "description": "Seconds. Default: as long as your client allows."
});

/// US dollars, kept in millionths. None is one: a limit of 0 would be no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dollars(pub u64);

schema!(Dollars => { "type": "number", "description": "US dollars." });

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let why = "must be a number of US dollars, 0 or more";
        let micros = micro_usd(f64::deserialize(deserializer)?);
        micros.map(|it| Self(it.max(1))).ok_or_else(|| refuse(Reason::InvalidArgument, why))
    }
}

/// An object that is read as it was sent: its numbers and texts are what they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnyObject;

schema!(AnyObject => { "type": "object" });

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self, A::Error> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::super::arguments::{UnknownFields, read, read_all},
        *,
    };

    #[derive(Debug, Deserialize)]
    struct Arguments {
        tasks: Option<Vec<Task>>,
        max_cost: Option<Dollars>,
        output_schema: Option<AnyObject>,
    }

    #[test]
    fn a_schema_has_no_unknown_fields() {
        let schema = json!({ "type": "object", "properties": { "a": { "minimum": 1 } } });
        let arguments = json!({ "output_schema": schema, "tasks": [{ "agent": "a", "task": "t" }],
            "max_cost": 0.5 });
        let unknown = UnknownFields::default();
        let read: Arguments = read(arguments.as_object().unwrap(), &unknown).unwrap();
        assert!(read.output_schema.is_some());
        assert_eq!(read.max_cost.unwrap().0, 500_000);
        let task = Step::from(read.tasks.unwrap().remove(0));
        assert_eq!(task, Step { agent: "a".into(), task: "t".into(), cwd: None });
        assert!(unknown.into_inner().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (arguments, why) in [
            (json!({ "output_schema": "{}" }), "`output_schema` must be an object"),
            (json!({ "max_cost": -1 }), "`max_cost` must be a number of US dollars"),
            (json!({ "tasks": [{ "agent": "a" }] }), "`tasks[0].task` is missing"),
            (
                json!({ "tasks": [{ "agent": "a", "task": "t", "on": "gpu" }] }),
                "`tasks[0]` has no field \"on\"; its fields are agent, task, cwd. No change",
            ),
        ] {
            let refusal = read_all::<Arguments>(arguments.as_object().unwrap()).unwrap_err();
            assert!(refusal.message.starts_with(why), "{refusal}");
        }
        let none = read_all::<Arguments>(json!({ "max_cost": 0 }).as_object().unwrap()).unwrap();
        assert_eq!(none.max_cost.unwrap().0, 1, "0 would be no limit");
    }
}
