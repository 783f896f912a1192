//! Messages of a channel with the reducer `add_messages`, merged as LangGraph does it.
//!
//! A message with an id that is there takes its place, any other goes to the end. A message of the
//! type `remove` removes the one with its id; with the id `__remove_all__` it removes all that came
//! before it, and what follows in the same update is kept just as it stands.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{
    Value as Json,
    value::{RawValue, to_raw_value},
};
use tasuki_proto::limits::BOARD_KEY_BYTES_MAX;

use super::MessageChange;

/// Of the message that removes all before it.
const REMOVE_ALL: &str = "__remove_all__";

/// One message, as JSON.
#[derive(Debug, Clone)]
pub struct Message {
    pub id: String,
    pub is_removal: bool,
    json: Box<RawValue>,
}

#[derive(Deserialize)]
struct Head {
    id: String,
    #[serde(default)]
    role: Json,
    #[serde(default)]
    r#type: Json,
}

impl<'de> Deserialize<'de> for Message {
    /// Of one that was parsed before.
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(from)?;
        let head: Head = serde_json::from_str(json.get()).map_err(serde::de::Error::custom)?;
        // As LangGraph has it: the role counts, where there is one.
        let kind = if head.role.is_null() { head.r#type } else { head.role };
        Ok(Self { id: head.id, is_removal: kind == "remove", json })
    }
}

impl Message {
    /// As it is kept.
    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

/// Reads what somebody adds to messages: one message or a list. A message is a text, a pair of
/// role and text, or an object with a `role` or `type`, a `content` and perhaps an `id`; `new_id`
/// names those that have none. Answers with the same as it is kept, and with what it does.
///
/// # Errors
/// The end of a sentence that says what is wrong.
pub fn parse_messages(
    json: &str,
    mut new_id: impl FnMut() -> String,
) -> Result<(String, Vec<MessageChange>), String> {
    let items: Vec<Box<RawValue>> = match json.trim_start().starts_with('[') {
        true => serde_json::from_str(json).map_err(|why| format!("is not a list: {why}"))?,
        false => vec![serde_json::from_str(json).map_err(|why| format!("is not JSON: {why}"))?],
    };
    let mut messages = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let parsed = parse_message(item, &mut new_id);
        messages.push(parsed.map_err(|why| format!("has the message {index}, which {why}"))?);
    }
    let marker = messages.iter().rposition(is_marker);
    let mut changes = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let id = || message.id.clone();
        match marker {
            Some(marker) if index < marker => {}
            Some(marker) if index == marker => changes.push(MessageChange::RemoveAll),
            None if message.is_removal => changes.push(MessageChange::Remove(id())),
            Some(_) | None => changes.push(MessageChange::Put(id())),
        }
    }
    let kept: Vec<&RawValue> = messages.iter().map(Message::json).collect();
    let kept = serde_json::to_string(&kept).map_err(|why| format!("cannot be kept: {why}"))?;
    Ok((kept, changes))
}

/// Whether it removes all before it.
fn is_marker(message: &Message) -> bool {
    message.is_removal && message.id == REMOVE_ALL
}

fn parse_message(item: &RawValue, new_id: &mut impl FnMut() -> String) -> Result<Message, String> {
    let raw = |text: &str| to_raw_value(text).map_err(|why| format!("cannot be kept: {why}"));
    let mut fields: BTreeMap<String, Box<RawValue>> = match item.get().as_bytes().first() {
        Some(b'"') => {
            let content = item.to_owned();
            BTreeMap::from([("role".to_owned(), raw("user")?), ("content".to_owned(), content)])
        }
        Some(b'[') => {
            let (role, content): (String, Box<RawValue>) = serde_json::from_str(item.get())
                .map_err(|_| "is a list, but not a pair of role and text".to_owned())?;
            BTreeMap::from([("role".to_owned(), raw(&role)?), ("content".to_owned(), content)])
        }
        Some(b'{') => {
            serde_json::from_str(item.get()).map_err(|why| format!("is not an object: {why}"))?
        }
        _ => return Err("is neither a text nor a pair of role and text nor an object".to_owned()),
    };
    let text = |name: &str| -> Result<Option<String>, String> {
        match fields.get(name).map(|it| serde_json::from_str(it.get())) {
            None | Some(Ok(Json::Null)) => Ok(None),
            Some(Ok(Json::String(text))) => Ok(Some(text)),
            Some(_) => Err(format!("has a `{name}` that is no text")),
        }
    };
    let (role, kind, id) = (text("role")?, text("type")?, text("id")?);
    let is_removal = role.as_deref().or(kind.as_deref()) == Some("remove");
    if role.is_none() && kind.is_none() {
        return Err("has neither `role` nor `type`".to_owned());
    }
    if !is_removal && !fields.contains_key("content") {
        return Err("has no `content`".to_owned());
    }
    let id = match id.filter(|it| !it.is_empty()) {
        Some(id) if BOARD_KEY_BYTES_MAX < id.len() => {
            return Err(format!(
                "has an id of {} bytes; the limit is {BOARD_KEY_BYTES_MAX}",
                id.len()
            ));
        }
        Some(id) => id,
        None if is_removal => {
            return Err("removes a message and does not say which `id`".to_owned());
        }
        None => {
            let id = new_id();
            fields.insert("id".to_owned(), raw(&id)?);
            id
        }
    };
    let json = to_raw_value(&fields).map_err(|why| format!("cannot be kept: {why}"))?;
    Ok(Message { id, is_removal, json })
}

/// Messages, update by update. What an update removes is there: that was judged before it was
/// written.
#[derive(Debug, Default)]
pub struct MessageList {
    /// In order; `None` where one was removed.
    items: Vec<Option<Message>>,
    /// Of several with one id the last is meant.
    places: BTreeMap<String, usize>,
    has_duplicates: bool,
}

impl MessageList {
    pub fn new(messages: Vec<Message>) -> Self {
        let mut list = Self::default();
        messages.into_iter().for_each(|it| list.push(it));
        list
    }

    pub fn merge(&mut self, update: Vec<Message>) {
        if let Some(marker) = update.iter().rposition(is_marker) {
            *self = Self::new(update.into_iter().skip(marker + 1).collect());
            return;
        }
        let mut removed = BTreeSet::new();
        for message in update {
            match self.places.get(&message.id) {
                Some(_) if message.is_removal => _ = removed.insert(message.id),
                Some(index) => {
                    removed.remove(&message.id);
                    self.items[*index] = Some(message);
                }
                None => self.push(message),
            }
        }
        for id in removed {
            if let Some(index) = self.places.remove(&id) {
                self.items[index] = None;
            }
            if self.has_duplicates {
                let same = self.items.iter_mut();
                let same = same.filter(|it| it.as_ref().is_some_and(|it| it.id == id));
                same.for_each(|it| *it = None);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Message> {
        self.items.iter().flatten()
    }

    fn push(&mut self, message: Message) {
        let before = self.places.insert(message.id.clone(), self.items.len());
        self.has_duplicates |= before.is_some();
        self.items.push(Some(message));
    }
}
