//! An agent that calls tools of other MCP servers: it finds them and calls what it found, then the same
//! under their own names.

use serde_json::json;

use super::{Call, DONE, Move, Part, Said};

/// The role that the model plays.
pub const ROLE: &str = "dev";

/// A tool of a server of its node, and one of a role of another node.
pub const OWN: &str = "my-weather__tool_0";
pub const REMOTE: &str = "qa__tool_0";

#[derive(Debug)]
pub struct GatewayUser;

impl Part for GatewayUser {
    fn begin(&self) -> Call {
        Call::new("gateway_find", json!({ "query": "weather of a city" }))
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        let (calls, text) = (calls(), said.text);
        let next = match calls.iter().position(|it| said.to.is_some_and(|to| to.is_same(it))) {
            Some(place) if text.contains("signed") => place + 1,
            None if text.contains(OWN) && text.contains(REMOTE) => 0,
            Some(_) | None => return None,
        };
        Some(calls.get(next).cloned().map_or(Move::Say(DONE), Move::Call))
    }
}

/// What it calls of the servers, in this order.
pub fn calls() -> [Call; 4] {
    let arguments = json!({ "path": "Oslo" });
    let through = |tool: &str| json!({ "tool": tool, "arguments": arguments });
    let found = |tool: &str| Call::new("gateway_call", through(tool));
    let named = |tool: &str| Call::new(tool, arguments.clone());
    [found(OWN), found(REMOTE), named(OWN), named(REMOTE)]
}

impl Call {
    /// Whether this is that call, as its client calls it.
    pub fn is_same(&self, call: &Self) -> bool {
        self.is_of(&call.tool) && self.arguments == call.arguments
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Heard, tests::check},
        *,
    };

    #[test]
    fn it_calls_what_it_found_and_then_the_same_by_name() {
        let found = json!([{ "tool": REMOTE }, { "tool": OWN }]).to_string();
        let mut heard = Heard::Result(found, Some(GatewayUser.begin()));
        check(&GatewayUser, &Heard::Prompt, &Move::Call(GatewayUser.begin()));
        for call in calls() {
            check(&GatewayUser, &heard, &Move::Call(call.clone()));
            let tool = format!("mcp__tasuki__{}", call.tool);
            heard = Heard::Result(r#"{"signed":"x"}"#.to_owned(), Some(Call { tool, ..call }));
        }
        check(&GatewayUser, &heard, &Move::Say(DONE));
    }
}
