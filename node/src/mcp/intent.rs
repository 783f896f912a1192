//! One intent, however often a client has to say it.
//!
//! A client that sends a call again after a connection broke cannot know whether the first one
//! was carried out, and the node that could tell may be gone. So it may number its calls, under
//! a name of its own, in `_meta`; the broker carries out each number once.
//! `{"tasuki/intent": {"by": "0f3a…", "number": 7}}`
//!
//! A call that is said again says how long ago it was said first: its client has waited since then.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use tasuki_proto::id::IdempotencyKey;

const FIELD: &str = "tasuki/intent";

/// How long ago a call was said first, in milliseconds.
const AGE_FIELD: &str = "tasuki/age_ms";

/// Numbers the tool calls of one client.
#[derive(Debug)]
pub(super) struct Intents {
    by: String,
    last: u64,
}

impl Intents {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        Ok(Self { by: format!("{:016x}", getrandom::u64()?), last: 0 })
    }

    /// Whether `message` is a tool call, and has its number now.
    pub(super) fn mark(&mut self, message: &mut Value) -> bool {
        if message.get("method").and_then(Value::as_str) != Some("tools/call") {
            return false;
        }
        let params = message.get_mut("params").and_then(Value::as_object_mut);
        let meta = params.map(|it| it.entry("_meta").or_insert_with(|| json!({})));
        let Some(meta) = meta.and_then(Value::as_object_mut) else { return false };
        if meta.contains_key(FIELD) {
            return false;
        }
        let intent = self.next_intent();
        meta.insert(FIELD.to_owned(), intent);
        true
    }

    /// An intent that was never said.
    pub(super) fn next_intent(&mut self) -> Value {
        self.last += 1;
        json!({ "by": self.by, "number": self.last })
    }
}

/// Says in a tool call how long ago it was said first; whether it is one.
pub(super) fn mark_age(message: &mut Value, age: Duration) -> bool {
    if message.get("method").and_then(Value::as_str) != Some("tools/call") {
        return false;
    }
    let params = message.get_mut("params").and_then(Value::as_object_mut);
    let meta = params.map(|it| it.entry("_meta").or_insert_with(|| json!({})));
    let Some(meta) = meta.and_then(Value::as_object_mut) else { return false };
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    meta.insert(AGE_FIELD.to_owned(), age_ms.into());
    true
}

/// How long ago a call was said first.
pub(super) fn age(meta: &JsonObject) -> Duration {
    Duration::from_millis(meta.get(AGE_FIELD).and_then(Value::as_u64).unwrap_or(0))
}

/// The key that the intent of a call has at the broker; `None`: the call has no number.
pub(super) fn of(meta: &JsonObject) -> Option<IdempotencyKey> {
    key(meta.get(FIELD)?)
}

/// The key that an intent has at the broker; `None`: it is none.
///
/// The prefix keeps a client from speaking under the name of a node.
pub(super) fn key(intent: &Value) -> Option<IdempotencyKey> {
    let client = format!("agent-{}", intent.get("by")?.as_str()?).parse().ok()?;
    let counter = intent.get("number")?.as_u64().filter(|it| (1..u64::MAX).contains(it))?;
    Some(IdempotencyKey { client, counter })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_call_has_a_key() {
        let mut intents = Intents::new().expect("random bytes");
        let mut call = json!({ "method": "tools/call", "params": { "name": "x" } });
        assert!(intents.mark(&mut call));
        assert!(!intents.mark(&mut call), "it has one already");
        let meta = call["params"]["_meta"].as_object().expect("an object");
        let key = of(meta).expect("a key");
        assert_eq!(key.counter, 1);
        assert!(key.client.as_str().starts_with("agent-"));
        assert!(!intents.mark(&mut json!({ "method": "tools/list", "params": {} })));
        assert!(!intents.mark(&mut json!({ "method": "tools/call", "params": 7 })));
    }

    #[test]
    fn a_call_that_is_said_again_tells_its_age() {
        let mut call = json!({ "method": "tools/call", "params": { "name": "x" } });
        let age_of = |call: &Value| {
            let meta = call.pointer("/params/_meta").and_then(Value::as_object);
            meta.map_or(Duration::ZERO, age)
        };
        assert_eq!(age_of(&call), Duration::ZERO);
        assert!(mark_age(&mut call, Duration::from_millis(7)));
        assert!(mark_age(&mut call, Duration::from_secs(30)), "again");
        assert_eq!(age_of(&call), Duration::from_secs(30));
        assert!(!mark_age(&mut json!({ "method": "tools/list" }), Duration::ZERO));
        let odd = json!({ AGE_FIELD: "long" });
        assert_eq!(age(odd.as_object().expect("an object")), Duration::ZERO);
    }

    #[test]
    fn what_is_no_intent_gives_no_key() {
        for intent in [json!(7), json!({ "by": "a b", "number": 1 }), json!({ "by": "a" })] {
            let meta = json!({ FIELD: intent });
            assert_eq!(of(meta.as_object().expect("an object")), None);
        }
    }

    #[test]
    fn each_intent_has_another_key() {
        let mut intents = Intents::new().expect("random bytes");
        let [first, second] =
            [intents.next_intent(), intents.next_intent()].map(|it| key(&it).expect("a key"));
        assert_eq!((first.counter, second.counter), (1, 2));
        assert_eq!(first.client, second.client);
    }
}
