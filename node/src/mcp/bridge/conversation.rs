//! What of a conversation must be said again to a node that was restarted.

use serde_json::{Value, json};
use tasuki_proto::reason::Reason;

use crate::{
    mcp::{
        intent::Intents,
        lines::complaint,
        tools::{HANDOVER_WORK, refused},
    },
    role::Refusal,
};

/// Requests not answered yet; more are refused.
const OPEN_MAX: usize = 256;

/// What to do with a line of the agent's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToDo {
    Forward(Vec<u8>),
    /// The node need not see it.
    Answer(String),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Conversation {
    intents: Intents,
    initialize: Option<Request>,
    initialized: Option<Vec<u8>>,
    /// Requests not answered yet, oldest first.
    open: Vec<Request>,
    /// Whose answer the agent has already had.
    swallow: Option<Value>,
}

#[derive(Debug, Clone)]
struct Request {
    id: Value,
    line: Vec<u8>,
    kind: Kind,
}

/// How a request is answered that the node does not answer.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A tool that changes nothing.
    Look,
    /// A tool that may have taken effect.
    Change,
    /// No tool: an error of the protocol's.
    Protocol,
}

impl Kind {
    fn of(method: &str, message: &Value) -> Self {
        let tool = message.pointer("/params/name").and_then(Value::as_str);
        match (method, tool) {
            ("tools/call", Some(HANDOVER_WORK)) => Self::Change,
            ("tools/call", _) => Self::Look,
            _ => Self::Protocol,
        }
    }
}

impl Conversation {
    pub(super) fn new(intents: Intents) -> Self {
        Self { intents, initialize: None, initialized: None, open: Vec::new(), swallow: None }
    }

    pub(super) fn agent_said(&mut self, mut line: Vec<u8>) -> ToDo {
        let mut message: Value = match serde_json::from_slice(&line) {
            Ok(message) => message,
            Err(error) => return ToDo::Answer(complaint(&line, &error)),
        };
        if self.intents.mark(&mut message) {
            line = message.to_string().into_bytes();
        }
        let method = message.get("method").and_then(Value::as_str);
        match (method, message.get("id")) {
            (Some(method), Some(id)) => {
                if OPEN_MAX <= self.open.len() {
                    let why = format!("{OPEN_MAX} requests are not answered yet; nothing happened");
                    return ToDo::Answer(failure(id, &why));
                }
                let kind = Kind::of(method, &message);
                let request = Request { id: id.clone(), line: line.clone(), kind };
                if method == "initialize" {
                    self.initialize = Some(request.clone());
                }
                self.open.push(request);
            }
            (Some("notifications/initialized"), None) => self.initialized = Some(line.clone()),
            (Some("notifications/cancelled"), None) => {
                let cancelled = message.pointer("/params/requestId");
                self.open.retain(|request| Some(&request.id) != cancelled);
            }
            (Some(_) | None, _) => {}
        }
        ToDo::Forward(line)
    }

    /// The line, unless the agent has had it before.
    pub(super) fn node_said(&mut self, line: Vec<u8>) -> Option<Vec<u8>> {
        let message: Option<Value> = serde_json::from_slice(&line).ok();
        let answered = message.as_ref().filter(|it| it.get("method").is_none());
        if let Some(id) = answered.and_then(|message| message.get("id")) {
            if self.swallow.as_ref() == Some(id) {
                self.swallow = None;
                return None;
            }
            self.open.retain(|request| request.id != *id);
        }
        Some(line)
    }

    /// What to say to a node that knows nothing of this conversation.
    pub(super) fn again(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut said = None;
        if let Some(initialize) = &self.initialize {
            let is_open = self.open.iter().any(|request| request.id == initialize.id);
            self.swallow = (!is_open).then(|| initialize.id.clone());
            lines.push(initialize.line.clone());
            said = Some(&initialize.id);
        }
        lines.extend(self.initialized.clone());
        let open = self.open.iter().filter(|request| Some(&request.id) != said);
        lines.extend(open.map(|request| request.line.clone()));
        lines
    }

    /// Answers what is open without the node: it is away, and `why` says how one knows.
    pub(super) fn answer_all(&mut self, why: &str) -> Vec<String> {
        self.open.drain(..).map(|request| without_node(&request, why)).collect()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.open.is_empty()
    }
}

fn without_node(request: &Request, why: &str) -> String {
    const START: &str = "One is started with `tasuki up`, or with `tasuki node` beside a broker";
    let (reason, message) = match request.kind {
        Kind::Look => {
            (Reason::Unavailable, format!("{why}. Nothing happened. {START}; then call again."))
        }
        Kind::Change => (
            Reason::OutcomeUnknown,
            format!(
                "{why}. The handover may or may not have taken effect. {START}; then loop_status \
                 shows whether the turn is still yours, and if it is, call again."
            ),
        ),
        Kind::Protocol => {
            return failure(&request.id, &format!("{why}. {START}; then ask again."));
        }
    };
    let result = refused(&Refusal { reason, message });
    json!({ "jsonrpc": "2.0", "id": request.id, "result": result }).to_string()
}

fn failure(id: &Value, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": message } })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(conversation: &mut Conversation, line: &str) {
        assert_eq!(conversation.agent_said(line.into()), ToDo::Forward(line.into()));
    }

    fn begun() -> Conversation {
        Conversation::new(Intents::new().expect("random bytes"))
    }

    #[test]
    fn a_restarted_node_hears_the_handshake_and_what_is_open() {
        let mut it = begun();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let wait = r#"{"jsonrpc":"2.0","id":"w","method":"tools/call"}"#;
        let gone = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#;
        said(&mut it, hello);
        assert!(it.node_said(r#"{"id":1,"result":{}}"#.into()).is_some());
        said(&mut it, ready);
        said(&mut it, wait);
        said(&mut it, gone);
        said(&mut it, r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#);
        let again: Vec<Vec<u8>> = [hello, ready, wait].map(Into::into).into();
        assert_eq!(it.again(), again);
        assert!(it.node_said(r#"{"id":1,"result":{}}"#.into()).is_none());
        assert!(it.node_said(r#"{"id":"w","result":{}}"#.into()).is_some());
        assert!(it.is_answered());
    }

    #[test]
    fn an_unanswered_handshake_is_repeated_and_its_answer_passed_on() {
        let mut it = begun();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        said(&mut it, hello);
        assert_eq!(it.again(), [Vec::from(hello)]);
        assert!(it.node_said(r#"{"id":1,"result":{}}"#.into()).is_some());
    }

    #[test]
    fn a_tool_call_is_the_same_intent_each_time_it_is_sent() {
        let mut it = begun();
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
        let ToDo::Forward(line) = it.agent_said(call.into()) else { panic!() };
        let sent: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(sent["params"]["_meta"]["tasuki/intent"]["number"], 1);
        assert_eq!(it.again(), [line]);
    }

    #[test]
    fn what_a_node_that_is_away_leaves_open_is_answered_once_and_not_sent_again() {
        let mut it = begun();
        for (id, method, tool) in [
            (1, "tools/call", "await_my_turn"),
            (2, "tools/call", "handover_work"),
            (3, "tools/list", ""),
        ] {
            let params = json!({ "name": tool });
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            it.agent_said(line.to_string().into());
        }
        let told: Vec<Value> = it
            .answer_all("no node answers at http://127.0.0.1:1")
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for (at, code, is_maybe_applied) in
            [(0, "unavailable", false), (1, "outcome_unknown", true)]
        {
            let result = &told[at]["result"];
            let error = &result["structuredContent"]["error"];
            assert_eq!(result["isError"], true, "{result}");
            assert_eq!(error["code"], code);
            assert_eq!(error["retryable"], true);
            assert_eq!(error["maybe_applied"], is_maybe_applied);
            let message = error["message"].as_str().expect("a text");
            assert!(message.contains("`tasuki up`") && message.contains("`tasuki node`"));
        }
        assert_eq!((&told[2]["id"], &told[2]["error"]["code"]), (&json!(3), &json!(-32603)));
        assert!(it.again().is_empty());
        assert!(it.is_answered() && it.answer_all("").is_empty());
    }

    #[test]
    fn garbage_is_answered_here() {
        let mut it = begun();
        let ToDo::Answer(told) = it.agent_said(b"garbage".to_vec()) else { panic!() };
        assert!(told.contains("-32700"));
    }
}
