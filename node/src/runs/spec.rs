//! What a node needs to know of a step beside what the broker reads: JSON, as nodes agreed on.
//!
//! A field that a node does not know is refused: it may be a limit, and a limit must not be dropped.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an agent is to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// The only tools that it may use; `None`: all that its runner gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Where it works, in the project of the node that runs it; `None`: the project's own directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The variables that it gets beside the usual ones; `None`: all but Tasuki's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    pub sandbox: bool,
    /// The JSON Schema that its output has to meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

impl Spec {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a spec is JSON")
    }

    /// Reads what another node wrote; nothing is a spec that asks for nothing. An error is a sentence:
    /// it is no spec, or one of a newer version.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text)
            .map_err(|why| format!("This node cannot read how the step is to run: {why}."))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_is_read_as_it_was_written() {
        let spec = Spec {
            tools: Some(vec!["read".to_owned()]),
            cwd: Some("web".to_owned()),
            env: Some(Vec::new()),
            sandbox: true,
            output_schema: Some(json!({"type": "object"})),
        };
        assert_eq!(Spec::parse(&spec.to_text()), Ok(spec));
        assert_eq!(Spec::parse(&Spec::default().to_text()), Ok(Spec::default()));
        assert_eq!(Spec::parse(""), Ok(Spec::default()));
    }

    #[test]
    fn a_limit_of_a_newer_version_is_not_dropped() {
        let why = Spec::parse(r#"{"memory": "1 GiB"}"#).unwrap_err();
        assert!(why.contains("memory"), "{why}");
        assert!(Spec::parse("1").is_err() && Spec::parse("{").is_err());
    }
}
