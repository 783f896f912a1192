//! What the operator declares: which services a role has, and what each does.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};
use tasuki_proto::{echo::echo, id::RoleId, pattern::matches_any};

use crate::{
    gateway::names::{self, NAME_BYTES_MAX, SEPARATOR, SERVER_BYTES_MAX},
    template::{Arguments, Reference, Template, check_path},
};

/// Services of one node: each is a tool in its roles' lists.
pub const SERVICES_MAX: usize = 200;

/// Steps of one service.
pub const SERVICE_STEPS_MAX: usize = 16;

/// What a service may take, unless it says otherwise, and the longest that it may say.
pub const SERVICE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
pub const SERVICE_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A description, which a model reads before it calls.
pub const DESCRIPTION_BYTES_MAX: usize = 2048;

/// Values that every step has.
pub const INPUT: &str = "input";
pub const ATTEMPT_KEY: &str = "attempt_key";
/// The result of the step before.
pub const PREVIOUS: &str = "previous";

/// A tool that a role offers.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub role: RoleId,
    /// Its own name, without the role's.
    pub name: String,
    pub description: String,
    /// JSON Schema of its input, which is an object.
    pub input: Map<String, Value>,
    /// JSON Schema of its result; `None`: anything.
    pub output: Option<Value>,
    /// Of all that it does.
    pub timeout: Duration,
    /// Patterns of roles that may call it. None: every role.
    pub callers: Vec<String>,
    /// At least one, in order.
    pub steps: Vec<Step>,
}

/// One thing that a service does.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The name by which later steps use its result.
    pub name: Option<String>,
    pub action: Action,
    /// JSON Schema of its result; of the last step it is the service's.
    pub output: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Agent { agent: AgentStep, prompt: Template },
    Tool { tool: String, arguments: Arguments },
}

/// Which agent runs, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentStep {
    pub agent: String,
    /// In place of the agent's own.
    pub runner: Option<String>,
    pub model: Option<String>,
    /// A node or a label of nodes. Empty: this node.
    pub on: String,
}

/// Whether a service can be called so, without its role's name. An error is the end of a sentence.
pub fn check_service_name(name: &str) -> Result<(), String> {
    if NAME_BYTES_MAX < name.len() {
        let bytes = name.len();
        return Err(format!("has {bytes} bytes; with its role it has at most {NAME_BYTES_MAX}"));
    }
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_name = !name.is_empty() && name.chars().all(is_letter) && !name.contains(SEPARATOR);
    if is_name && name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let why = "takes letters, digits, `-` and single `_`, and begins with a letter or a digit";
    Err(format!("is {}; it {why}", echo(name)))
}

/// Whether agents can call a service as `role__name`. An error is the end of a sentence.
pub fn check_tool_name(role: &RoleId, name: &str) -> Result<(), String> {
    let whole = format!("{role}{SEPARATOR}{name}");
    if names::exposed_of_role(role.as_str(), name) == whole {
        return Ok(());
    }
    Err(format!(
        "cannot be called {whole}: it takes at most {NAME_BYTES_MAX} letters, digits, `-` and `_`, \
         of which the role has at most {SERVER_BYTES_MAX}"
    ))
}

impl Service {
    /// Whether a role may call it. Its own may.
    pub fn allows(&self, role: &RoleId) -> bool {
        *role == self.role || matches_any(&self.callers, role.as_str())
    }

    /// Whether any of its agents runs on this node.
    pub fn runs_here(&self) -> bool {
        let runs_here = |step: &Step| match &step.action {
            Action::Agent { agent, .. } => agent.on.is_empty(),
            Action::Tool { .. } => false,
        };
        self.steps.iter().any(runs_here)
    }

    /// What is wrong with its steps and the values that they name, each as a sentence without its
    /// full stop: and the number of its step.
    pub fn check(&self) -> Vec<(usize, String)> {
        let mut known: BTreeMap<&str, Value> = BTreeMap::new();
        known.insert(INPUT, Value::Object(self.input.clone()));
        known.insert(ATTEMPT_KEY, json!({ "type": "string" }));
        let mut wrong = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            for reference in step.action.references() {
                if let Err(why) = check_reference(&known, reference) {
                    wrong
                        .push((at, format!("has the place {{{}}}, which {why}", reference.text())));
                }
            }
            let result = step.output.clone().unwrap_or_else(|| step.action.usual_output());
            if let Some(name) = &step.name
                && known.insert(name.as_str(), result.clone()).is_some()
            {
                wrong.push((at, format!("has `as` {name:?}, which is taken")));
            }
            known.insert(PREVIOUS, result);
        }
        wrong
    }
}

impl Action {
    pub fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Agent { prompt, .. } => prompt.references().collect(),
            Self::Tool { arguments, .. } => arguments.references(),
        }
    }

    /// What is known of a result without a schema of its own.
    fn usual_output(&self) -> Value {
        match self {
            Self::Agent { .. } => json!({ "type": "string" }),
            Self::Tool { .. } => Value::Bool(true),
        }
    }
}

fn check_reference(known: &BTreeMap<&str, Value>, reference: &Reference) -> Result<(), String> {
    match known.get(reference.name.as_str()) {
        Some(schema) => check_path(schema, &reference.path),
        None => {
            let names: Vec<&str> = known.keys().copied().collect();
            Err(format!(
                "is no value here; there are {}. Write {{{{{}}}}} for the text itself",
                names.join(", "),
                reference.text()
            ))
        }
    }
}
