//! Mail as JSON, where it is more than the API's messages: what people are told above a thread
//! stands beside each of its entries.

use serde_json::{Value, json};
use tasuki_proto::wire;

/// A thread. BodyArgs of its first entry are opened, or said to be sealed.
pub(super) fn thread(of: &wire::MailThread) -> Value {
    let mut value = json!(of);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("first");
        fields.insert("is_sealed".to_owned(), is_sealed(of).into());
    }
    value
}

/// Whether its subject is in words that were not opened.
pub(super) fn is_sealed(of: &wire::MailThread) -> bool {
    of.first.is_some() && of.subject.is_empty()
}

/// An entry that stands alone, and so says of which thread it is.
pub(super) fn entry_of(of: &wire::MailThread, entry: &wire::MailEntry) -> Value {
    let mut value = thread(of);
    if let (Some(fields), Value::Object(own)) = (value.as_object_mut(), json!(entry)) {
        fields.extend(own);
    }
    value
}

pub(super) fn hit(of: &wire::MailHit) -> Value {
    let mut value = json!(of);
    value["thread"] = of.thread.as_ref().map(thread).into();
    value
}
