//! What is read of a turn, an issue, a task, a delivery or a run for a hook to be told. Pure.
//!
//! Objects are the API's own messages, as `--json` prints them, without what is empty. Nobody's
//! tokens are in them: they are read as nobody, and fields of that name are taken out besides.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};
use tasuki_proto::wire;

use super::spec::{HOOK_TEXT_BYTES_MAX, Kind, Party};

/// What was read, and whom it concerns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// Of the document, by name.
    pub objects: Map<String, Value>,
    /// Roles that the feed does not name.
    pub parties: Vec<(Party, String)>,
    /// Of a run that no role started: the node where it was started.
    pub started_at: Option<String>,
    /// What the event turned out not to be.
    pub is_not: BTreeSet<Kind>,
}

impl Details {
    fn put(&mut self, name: &str, object: Map<String, Value>) {
        let object = pruned(object.into()).unwrap_or_else(|| json!({}));
        self.objects.insert(name.to_owned(), object);
    }

    fn name(&mut self, party: Party, role: &str) {
        if !role.is_empty() {
            self.parties.push((party, role.to_owned()));
        }
    }

    /// A turn: the entry of the loop's history that is about it, and the loop where it is needed.
    pub fn put_turn(
        &mut self,
        loop_id: &str,
        turn: u64,
        entry: Option<&wire::Entry>,
        of: Option<&wire::Loop>,
    ) {
        let mut object = entry.map(fields).unwrap_or_default();
        object.insert("loop".to_owned(), json!(loop_id));
        object.insert("turn".to_owned(), json!(turn));
        if let Some(it) = of {
            object.insert("participants".to_owned(), json!(it.participants));
            it.participants.iter().for_each(|role| self.name(Party::Participants, role));
            if entry.is_none() {
                object.insert("round".to_owned(), json!(it.round));
                object.insert("holder".to_owned(), json!(it.holder));
            }
        }
        self.put("turn", object);
    }

    pub fn put_issue(&mut self, issue: &wire::Issue) {
        self.name(Party::Lead, &issue.lead);
        self.put("issue", fields(issue));
    }

    /// A task, with the one of its messages that it is about.
    pub fn put_task(&mut self, mut task: wire::Task, message: &str) {
        task.messages.retain(|it| it.message_id == message);
        let is_note = |it: &wire::TaskMessage| !["question", "blocker"].contains(&it.kind.as_str());
        if task.messages.first().is_some_and(is_note) {
            self.is_not.insert(Kind::TaskAsked);
        }
        self.put("task", fields(&task));
    }

    pub fn put_worker(&mut self, role: &str) {
        self.name(Party::Worker, role);
    }

    pub fn put_delivery(&mut self, delivery: &wire::Delivery) {
        self.name(Party::Deliverer, &delivery.delivered_by);
        let verdict = match delivery.status() {
            wire::DeliveryStatus::Approved => Kind::DeliveryRejected,
            wire::DeliveryStatus::Unspecified
            | wire::DeliveryStatus::Open
            | wire::DeliveryStatus::InReview
            | wire::DeliveryStatus::Rejected => Kind::DeliveryAccepted,
        };
        self.is_not.insert(verdict);
        self.put("delivery", fields(delivery));
    }

    /// A run, with the question that it is about.
    pub fn put_run(&mut self, run: &wire::Run, question: Option<&wire::RunMessage>) {
        self.name(Party::Starter, &run.role);
        self.started_at = Some(run.node.clone()).filter(|_| run.role.is_empty());
        let mut object = fields(run);
        if let Some(it) = question {
            let (text, is_sealed) = match &it.text {
                Some(it) => (it.text.as_str(), it.sealed.is_some()),
                None => ("", false),
            };
            let question = json!({
                "number": it.number, "step": it.step, "at_ms": it.at_ms, "text": text,
                "is_sealed": is_sealed,
            });
            object.insert("question".to_owned(), question);
        }
        self.put("run", object);
    }
}

/// A message of the API by its fields.
fn fields(message: &impl Serialize) -> Map<String, Value> {
    let message = serde_json::to_value(message).expect("messages are JSON");
    let Value::Object(fields) = message else { unreachable!("a message is an object") };
    fields
}

/// Without what is empty or a token, and with each text cut to [`HOOK_TEXT_BYTES_MAX`].
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(Value::String(cut(text))),
        Value::Array(items) => {
            let items: Vec<Value> = items.into_iter().filter_map(pruned).collect();
            (!items.is_empty()).then(|| items.into())
        }
        Value::Object(fields) => {
            let is_none = |name: &str, value: &Value| {
                name.ends_with("token") || name.ends_with("_ms") && *value == json!(0)
            };
            let fields = fields.into_iter().filter(|(name, value)| !is_none(name, value));
            let fields: Map<String, Value> =
                fields.filter_map(|(name, value)| Some((name, pruned(value)?))).collect();
            (!fields.is_empty()).then(|| fields.into())
        }
        Value::Bool(_) | Value::Number(_) => Some(value),
    }
}

fn cut(mut text: String) -> String {
    if HOOK_TEXT_BYTES_MAX < text.len() {
        text.truncate(text.floor_char_boundary(HOOK_TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_empty_no_token_and_no_end_of_a_long_text_is_told() {
        let long = "ä".repeat(HOOK_TEXT_BYTES_MAX);
        let task = wire::Task {
            task_id: "task-1".into(),
            subject: long.clone(),
            claim_token: 7,
            reserved_token: "secret".into(),
            ..Default::default()
        };
        let mut details = Details::default();
        details.put_task(task, "");
        let told = &details.objects["task"];
        assert_eq!(told["task_id"], "task-1");
        let subject = told["subject"].as_str().unwrap();
        assert_eq!(subject, format!("{}…", &long[..HOOK_TEXT_BYTES_MAX]));
        let text = told.to_string();
        for absent in ["token", "secret", "null", "created_ms", "blocked_by"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }

    #[test]
    fn what_an_event_turns_out_not_to_be() {
        let message = |id: &str, kind: &str| wire::TaskMessage {
            message_id: id.into(),
            kind: kind.into(),
            ..Default::default()
        };
        for (kind, is_asked) in
            [("question", true), ("blocker", true), ("progress", false), ("message", false)]
        {
            let messages = vec![message("m1", "question"), message("m2", kind)];
            let mut details = Details::default();
            details.put_task(wire::Task { messages, ..Default::default() }, "m2");
            assert_eq!(!details.is_not.contains(&Kind::TaskAsked), is_asked, "{kind}");
            let told = details.objects["task"]["messages"].as_array().unwrap();
            assert_eq!((told.len(), &told[0]["message_id"]), (1, &json!("m2")));
        }
        for (status, kind) in [
            (wire::DeliveryStatus::Approved, Kind::DeliveryRejected),
            (wire::DeliveryStatus::Rejected, Kind::DeliveryAccepted),
        ] {
            let mut details = Details::default();
            details.put_delivery(&wire::Delivery { status: status.into(), ..Default::default() });
            assert_eq!(details.is_not, [kind].into());
        }
    }

    #[test]
    fn sealed_words_of_a_question_are_not_there_and_said_to_be_sealed() {
        let sealed = wire::Sealed { envelope: b"opaque".to_vec(), ..Default::default() };
        let text = wire::RunText { sealed: Some(sealed), ..Default::default() };
        let question = wire::RunMessage { number: 3, text: Some(text), ..Default::default() };
        let mut details = Details::default();
        details.put_run(&wire::Run::default(), Some(&question));
        let told = &details.objects["run"]["question"];
        assert_eq!((told.get("text"), &told["is_sealed"]), (None, &json!(true)));
    }
}
