//! What of a conversation must be said again to a node that was restarted.
//!
//! A client counts from when it asked, so a call that is said again says how long ago that was, and
//! one that was held for as long as its client is is answered without the node.
//!
//! Besides what is open, that is what the agent subscribed to: it does not learn that the node
//! was away, so it would wait for notifications that nobody sends. What may have changed meanwhile
//! is told as changed.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use tasuki_proto::reason::Reason;
use tokio::time::Instant;

use crate::{
    mcp::{
        hold::{Ask, Transport, hold},
        intent::{Intents, mark_age},
        notices::SUBSCRIPTIONS_MAX,
        tools::{HANDOVER_WORK, is_passed_on, is_read_only, refused},
        transport::lines::complaint,
    },
    role::Refusal,
};

/// Requests not answered yet; more are refused.
const OPEN_MAX: usize = 256;

/// The age of a call that its node is told, in milliseconds: of less, no client makes a difference.
const AGE_MS_MIN: u64 = 1_000;

/// Says that a subscription is open.
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Where it says which.
const SUBSCRIPTION_ID: &str = "/params/_meta/io.modelcontextprotocol~1subscriptionId";

/// Lists that may be others at another node.
const LISTS: [&str; 3] = ["tools/list", "prompts/list", "resources/list"];

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
    /// How long one call is held; `None`: as long as the client allows.
    hold: Option<Duration>,
    initialize: Option<Request>,
    initialized: Option<Vec<u8>>,
    /// Requests not answered yet, oldest first.
    open: Vec<Request>,
    /// Resources that the agent subscribed to.
    subscribed: BTreeSet<String>,
    /// Lists that the agent was given: it is told when they may be others.
    listed: BTreeSet<&'static str>,
    /// Answers the agent has already had, with what it is told in place of each.
    swallow: Vec<(Value, Vec<Vec<u8>>)>,
}

#[derive(Debug, Clone)]
struct Request {
    id: Value,
    line: Vec<u8>,
    asked: Instant,
    kind: Kind,
    /// The list that it asks for.
    list: Option<&'static str>,
    /// A subscription that the agent knows to be open.
    is_acknowledged: bool,
}

/// How a request is answered that the node does not answer.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A tool that certainly changes nothing.
    Look,
    /// The end of a turn.
    Handover,
    /// Any other tool of the node: it may have taken effect.
    Change,
    /// A tool of another server, likewise; said again, it is done again.
    PassedOn,
    /// No tool: an error of the protocol's.
    Protocol,
    /// A subscription, open for as long as both sides like.
    Listen,
}

impl Kind {
    fn of(method: &str, message: &Value) -> Self {
        let tool = message.pointer("/params/name").and_then(Value::as_str);
        match (method, tool) {
            ("tools/call", Some(HANDOVER_WORK)) => Self::Handover,
            ("tools/call", Some(tool)) if is_read_only(tool) => Self::Look,
            ("tools/call", Some(tool)) if is_passed_on(tool) => Self::PassedOn,
            ("tools/call", _) => Self::Change,
            ("subscriptions/listen", _) => Self::Listen,
            _ => Self::Protocol,
        }
    }
}

impl Conversation {
    pub(super) fn new(intents: Intents, hold: Option<Duration>) -> Self {
        Self {
            intents,
            hold,
            initialize: None,
            initialized: None,
            open: Vec::new(),
            subscribed: BTreeSet::new(),
            listed: BTreeSet::new(),
            swallow: Vec::new(),
        }
    }

    pub(super) fn agent_said(&mut self, mut line: Vec<u8>, now: Instant) -> ToDo {
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
                    let why =
                        format!("{OPEN_MAX} requests are pending; the request was not accepted");
                    return ToDo::Answer(failure(id, &why));
                }
                let kind = Kind::of(method, &message);
                let request = Request {
                    id: id.clone(),
                    line: line.clone(),
                    asked: now,
                    kind,
                    list: LISTS.into_iter().find(|list| *list == method),
                    is_acknowledged: false,
                };
                self.note_subscription(method, &message);
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

    fn note_subscription(&mut self, method: &str, message: &Value) {
        let Some(uri) = message.pointer("/params/uri").and_then(Value::as_str) else { return };
        match method {
            "resources/subscribe" if self.subscribed.len() < SUBSCRIPTIONS_MAX => {
                self.subscribed.insert(uri.to_owned());
            }
            "resources/unsubscribe" => drop(self.subscribed.remove(uri)),
            _ => {}
        }
    }

    /// What the agent is to hear of a line: the line, unless it has had it before.
    pub(super) fn node_said(&mut self, line: Vec<u8>) -> Vec<Vec<u8>> {
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { return vec![line] };
        match message.get("method").and_then(Value::as_str) {
            None => {}
            Some(ACKNOWLEDGED) => return self.acknowledged(line, &message),
            Some(_) => return vec![line],
        }
        let Some(id) = message.get("id") else { return vec![line] };
        if let Some(at) = self.swallow.iter().position(|(swallowed, _)| swallowed == id) {
            return self.swallow.remove(at).1;
        }
        // One answer is all that comes for an id, also when several requests had it.
        let answered = self.open.extract_if(.., |request| request.id == *id);
        let lists = answered.filter_map(|request| request.list);
        if message.get("result").is_some() {
            self.listed.extend(lists);
        } else {
            lists.for_each(drop);
        }
        vec![line]
    }

    /// A subscription is open; one that is so for the second time has a gap to make up for.
    fn acknowledged(&mut self, line: Vec<u8>, message: &Value) -> Vec<Vec<u8>> {
        let id = message.pointer(SUBSCRIPTION_ID);
        let request = self.open.iter_mut().find(|request| Some(&request.id) == id);
        let Some(request) = request else { return vec![line] };
        if !std::mem::replace(&mut request.is_acknowledged, true) {
            return vec![line];
        }
        let is_on = |list| message.pointer(list).and_then(Value::as_bool) == Some(true);
        let lists = [
            ("/params/notifications/toolsListChanged", "tools/list_changed"),
            ("/params/notifications/promptsListChanged", "prompts/list_changed"),
            ("/params/notifications/resourcesListChanged", "resources/list_changed"),
        ];
        let mut told: Vec<Value> = lists
            .into_iter()
            .filter(|(list, _)| is_on(list))
            .map(|(_, method)| notification(method, json!({})))
            .collect();
        let uris = message.pointer("/params/notifications/resourceSubscriptions");
        let uris = uris.and_then(Value::as_array).into_iter().flatten();
        told.extend(uris.map(|uri| notification("resources/updated", json!({ "uri": uri }))));
        let with_id = |mut told: Value| {
            told["params"]["_meta"] = message["params"]["_meta"].clone();
            told.to_string().into_bytes()
        };
        told.into_iter().map(with_id).collect()
    }

    /// What to say to a node that knows nothing of this conversation.
    pub(super) fn again(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut said = None;
        self.swallow.clear();
        if let Some(initialize) = &self.initialize {
            let is_open = self.open.iter().any(|request| request.id == initialize.id);
            if !is_open {
                // It may be another release that is there now.
                let told = self.listed.iter().map(|list| {
                    notification(&format!("{list}_changed"), json!({})).to_string().into_bytes()
                });
                self.swallow.push((initialize.id.clone(), told.collect()));
            }
            lines.push(initialize.line.clone());
            said = Some(&initialize.id);
        }
        lines.extend(self.initialized.clone());
        for uri in &self.subscribed {
            let id = Value::from(format!("tasuki/again/{uri}"));
            let ask = json!({ "jsonrpc": "2.0", "id": id, "method": "resources/subscribe",
                "params": { "uri": uri } });
            lines.push(ask.to_string().into_bytes());
            let updated = notification("resources/updated", json!({ "uri": uri }));
            self.swallow.push((id, vec![updated.to_string().into_bytes()]));
        }
        let open = self.open.iter().filter(|request| Some(&request.id) != said);
        lines.extend(open.map(|request| request.said_again(now)));
        lines
    }

    /// When the first call that is open was held for as long as its client allows.
    pub(super) fn next_overdue(&self) -> Option<Instant> {
        self.open.iter().filter_map(|request| self.held_until(request)).min()
    }

    /// Answers calls that were held for as long as their client allows, without the node, which is
    /// away.
    pub(super) fn answer_overdue(&mut self, now: Instant, why: &str) -> Vec<String> {
        let open = std::mem::take(&mut self.open);
        let is_overdue = |it: &Request| self.held_until(it).is_some_and(|until| until <= now);
        let (overdue, open) = open.into_iter().partition(is_overdue);
        self.open = open;
        let overdue: Vec<Request> = overdue;
        overdue.iter().map(|request| without_node(request, why)).collect()
    }

    /// Until when a call may be held, as far as can be told without the node; `None`: it is none.
    fn held_until(&self, request: &Request) -> Option<Instant> {
        let is_call =
            matches!(request.kind, Kind::Look | Kind::Handover | Kind::Change | Kind::PassedOn);
        let message: Value = serde_json::from_slice(&request.line).ok().filter(|_| is_call)?;
        let hello = self.initialize.as_ref().map(|it| it.line.as_slice()).unwrap_or_default();
        let hello: Value = serde_json::from_slice(hello).unwrap_or_default();
        let said = |field: &str| hello.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let ask = Ask {
            client: (said("/params/clientInfo/name"), said("/params/clientInfo/version")),
            transport: Transport::Stdio,
            wants_progress: message.pointer("/params/_meta/progressToken").is_some(),
            configured: self.hold,
            ..Ask::default()
        };
        Some(request.asked + hold(&ask))
    }

    /// Answers what is open without the node: it is away, and `why` says how one knows.
    pub(super) fn answer_all(&mut self, why: &str) -> Vec<String> {
        self.open.drain(..).map(|request| without_node(&request, why)).collect()
    }

    /// Whether the agent waits for no answer. That a subscription ends is none.
    pub(super) fn is_answered(&self) -> bool {
        self.open.iter().all(|request| matches!(request.kind, Kind::Listen))
    }
}

impl Request {
    /// The line, with its age if it is a call.
    fn said_again(&self, now: Instant) -> Vec<u8> {
        let age = now.saturating_duration_since(self.asked);
        // The node's own calls are done once; one that went on to another server it must know as old.
        let is_old = matches!(self.kind, Kind::PassedOn)
            || AGE_MS_MIN <= age.as_millis().try_into().unwrap_or(u64::MAX);
        let mut message = match serde_json::from_slice::<Value>(&self.line) {
            Ok(message) if is_old => message,
            Ok(_) | Err(_) => return self.line.clone(),
        };
        if mark_age(&mut message, age.max(Duration::from_millis(1))) {
            message.to_string().into_bytes()
        } else {
            self.line.clone()
        }
    }
}

fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params })
}

fn without_node(request: &Request, why: &str) -> String {
    const START: &str = "Start a node with `tasuki up`, or with `tasuki node` next to a broker";
    let (reason, message) = match request.kind {
        Kind::Look => {
            (Reason::Unavailable, format!("{why}. No change was made. {START}, then call again."))
        }
        Kind::Change | Kind::PassedOn => (
            Reason::OutcomeUnknown,
            format!(
                "{why}. This call may or may not have taken effect. {START}, then check the state, \
                 or call again with the same arguments."
            ),
        ),
        Kind::Handover => (
            Reason::OutcomeUnknown,
            format!(
                "{why}. The handover may or may not have taken effect. {START}, then call \
                 loop_status. If you still have the turn, call again."
            ),
        ),
        Kind::Protocol | Kind::Listen => {
            return failure(&request.id, &format!("{why}. {START}, then retry."));
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
        assert_eq!(
            conversation.agent_said(line.into(), Instant::now()),
            ToDo::Forward(line.into())
        );
    }

    fn begun() -> Conversation {
        Conversation::new(Intents::new().expect("random bytes"), None)
    }

    #[test]
    fn a_restarted_node_hears_the_handshake_and_what_is_open() {
        let mut it = begun();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let wait = r#"{"jsonrpc":"2.0","id":"w","method":"tools/call"}"#;
        let gone = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#;
        said(&mut it, hello);
        assert_eq!(it.node_said(r#"{"id":1,"result":{}}"#.into()).len(), 1);
        said(&mut it, ready);
        said(&mut it, wait);
        said(&mut it, gone);
        said(&mut it, r#"{"method":"notifications/cancelled","params":{"requestId":3}}"#);
        let again: Vec<Vec<u8>> = [hello, ready, wait].map(Into::into).into();
        assert_eq!(it.again(Instant::now()), again);
        assert!(it.node_said(r#"{"id":1,"result":{}}"#.into()).is_empty());
        assert_eq!(it.node_said(r#"{"id":"w","result":{}}"#.into()).len(), 1);
        assert!(it.is_answered());
    }

    /// A client that says a request again under the same id.
    /// Holds B3.
    #[test]
    fn requests_of_one_id_are_answered_by_one_answer() {
        let mut it = begun();
        for _ in 0..2 * OPEN_MAX {
            said(&mut it, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
            said(&mut it, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
            assert_eq!(it.node_said(r#"{"id":1,"result":{}}"#.into()).len(), 1);
            assert!(it.is_answered() && it.again(Instant::now()).is_empty());
        }
    }

    #[test]
    fn an_unanswered_handshake_is_repeated_and_its_answer_passed_on() {
        let mut it = begun();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        said(&mut it, hello);
        assert_eq!(it.again(Instant::now()), [Vec::from(hello)]);
        assert_eq!(it.node_said(r#"{"id":1,"result":{}}"#.into()).len(), 1);
    }

    #[test]
    fn a_tool_call_is_the_same_intent_each_time_it_is_sent() {
        let mut it = begun();
        let call =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lockFiles"}}"#;
        let ToDo::Forward(line) = it.agent_said(call.into(), Instant::now()) else { panic!() };
        let sent: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(sent["params"]["_meta"]["tasuki/intent"]["number"], 1);
        assert_eq!(it.again(Instant::now()), [line]);
    }

    #[test]
    fn what_a_node_that_is_away_leaves_open_is_answered_once_and_not_sent_again() {
        let mut it = begun();
        for (id, method, tool) in [
            (1, "tools/call", "await_my_turn"),
            (2, "tools/call", "handover_work"),
            (3, "tools/list", ""),
            (4, "tools/call", "lockFiles"),
            (5, "tools/call", "filebox_wait_for_message"),
        ] {
            let params = json!({ "name": tool });
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            it.agent_said(line.to_string().into(), Instant::now());
        }
        let told: Vec<Value> = it
            .answer_all("no node answers at http://127.0.0.1:1")
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for (at, code, is_maybe_applied) in [
            (0, "unavailable", false),
            (1, "outcome_unknown", true),
            (3, "outcome_unknown", true),
            (4, "unavailable", false),
        ] {
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
        assert!(it.again(Instant::now()).is_empty());
        assert!(it.is_answered() && it.answer_all("").is_empty());
    }

    /// Holds B2.
    #[test]
    fn a_call_that_is_said_again_tells_how_long_its_client_has_waited() {
        let (mut it, asked) = (begun(), Instant::now());
        for (id, method) in [(1, "tools/call"), (2, "resources/list")] {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method,
                "params": { "name": "await_my_turn" } });
            it.agent_said(line.to_string().into(), asked);
        }
        for (secs, told) in [(0, None), (30, Some(30_000)), (40, Some(40_000))] {
            let again = lines(it.again(asked + Duration::from_secs(secs)));
            let age = |at: usize| again[at].pointer("/params/_meta/tasuki~1age_ms").cloned();
            assert_eq!((age(0), age(1)), (told.map(Value::from), None), "after {secs} s");
        }
    }

    /// Which calls are answered without the node after so many seconds, by a client that is held for
    /// 48 seconds unless it was configured.
    /// Holds B3.
    #[test]
    fn a_call_is_answered_without_the_node_before_its_client_gives_it_up() {
        let check = |hold: Option<u64>, overdue: u64| {
            let hold = hold.map(Duration::from_secs);
            let mut it = Conversation::new(Intents::new().expect("random bytes"), hold);
            let asked = Instant::now();
            assert_eq!(it.next_overdue(), None);
            let client = json!({ "name": "Zed", "version": "0.220" });
            for (id, method, params, after) in [
                (1, "initialize", json!({ "clientInfo": client }), 0),
                (2, "tools/call", json!({ "name": "await_my_turn" }), 0),
                (3, "tools/call", json!({ "name": "await_my_turn" }), 5),
            ] {
                let line =
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
                it.agent_said(line.to_string().into(), asked + Duration::from_secs(after));
            }
            let at = asked + Duration::from_secs(overdue);
            assert_eq!(it.next_overdue(), Some(at));
            assert!(it.answer_overdue(at - Duration::from_millis(1), "gone").is_empty());
            let told = it.answer_overdue(at, "gone");
            let told: Value = serde_json::from_str(&told[0]).expect("JSON");
            assert_eq!(told["id"], 2);
            assert_eq!(told["result"]["structuredContent"]["error"]["code"], "unavailable");
            assert_eq!(it.next_overdue(), Some(at + Duration::from_secs(5)));
            let again = lines(it.again(at));
            let is_said_again = |id: u64| again.iter().any(|line| line["id"] == id);
            assert!(!is_said_again(2) && is_said_again(3));
        };
        check(None, 48);
        check(Some(600), 600);
    }

    fn lines(told: Vec<Vec<u8>>) -> Vec<Value> {
        told.iter().map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    #[test]
    fn what_the_agent_subscribed_to_is_subscribed_to_again_and_told_as_changed() {
        let mut it = begun();
        let ask = |id, method, uri| {
            let params = json!({ "uri": uri });
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
        };
        for (id, method, uri) in [
            (1, "resources/subscribe", "tasuki://loop/a"),
            (2, "resources/subscribe", "tasuki://loop/b"),
            (3, "resources/unsubscribe", "tasuki://loop/a"),
        ] {
            said(&mut it, &ask(id, method, uri));
            it.node_said(json!({ "id": id, "result": {} }).to_string().into());
        }
        for _ in 0..2 {
            let again = lines(it.again(Instant::now()));
            assert_eq!(again.len(), 1);
            assert_eq!(again[0]["params"]["uri"], "tasuki://loop/b");
            let answer = json!({ "id": again[0]["id"], "result": {} }).to_string();
            let told = lines(it.node_said(answer.into()));
            assert_eq!(told[0]["method"], "notifications/resources/updated");
            assert_eq!(told[0]["params"]["uri"], "tasuki://loop/b");
        }
    }

    #[test]
    fn lists_the_agent_has_seen_may_be_others_at_a_restarted_node() {
        let mut it = begun();
        for (id, method) in [(1, "initialize"), (2, "tools/list"), (3, "resources/list")] {
            said(&mut it, &json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string());
            it.node_said(json!({ "id": id, "result": {} }).to_string().into());
        }
        it.again(Instant::now());
        let told = lines(it.node_said(br#"{"id":1,"result":{}}"#.into()));
        let methods: Vec<&str> = told.iter().filter_map(|it| it["method"].as_str()).collect();
        let expected = ["notifications/resources/list_changed", "notifications/tools/list_changed"];
        assert_eq!(methods, expected);
    }

    #[test]
    fn a_listener_is_acknowledged_once_and_then_told_what_it_may_have_missed() {
        let mut it = begun();
        said(&mut it, r#"{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen"}"#);
        let told = json!({ "jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": {
            "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["u"] },
            "_meta": { "io.modelcontextprotocol/subscriptionId": 4 } } })
        .to_string();
        assert_eq!(it.node_said(told.clone().into()), [Vec::from(told.as_bytes())]);
        assert!(it.is_answered(), "nobody waits for the end of it");
        assert_eq!(it.again(Instant::now()).len(), 1);
        let missed = lines(it.node_said(told.into()));
        let methods: Vec<&str> = missed.iter().filter_map(|it| it["method"].as_str()).collect();
        assert_eq!(
            methods,
            ["notifications/tools/list_changed", "notifications/resources/updated"]
        );
        for it in missed {
            assert_eq!(it["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 4);
        }
    }

    #[test]
    fn garbage_is_answered_here() {
        let mut it = begun();
        let ToDo::Answer(told) = it.agent_said(b"garbage".to_vec(), Instant::now()) else {
            panic!()
        };
        assert!(told.contains("-32700"));
    }
}
