//! What callers write to boards, read and checked against the board's schema.
//!
//! A check of a schema of somebody's own can take seconds, so it is made on a thread that may
//! block, before the workspace's actor is asked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, value::RawValue};
use tasuki_proto::{
    board::{ChannelName, Reducer},
    echo::echo,
    id::{BoardName, CheckpointNumber},
    limits::{BOARD_CHANNELS_MAX, BOARD_KEY_BYTES_MAX, CHANNEL_BYTES_MAX},
    nearest::did_you_mean,
    schema::{Mismatch, SCHEMA_BYTES_MAX, check_schema, check_value},
    visible::is_line,
    wire,
};
use tonic::Status;

use super::super::{
    parse::{check_count, check_size},
    status::{self, invalid},
};
use crate::{
    hash::Hash,
    rules::{
        self,
        board::{
            Board, ChannelIndex, ChannelSchema, ChannelUpdate, Fields, Message, Rejection, Schema,
            parse_list, parse_messages, parse_object,
        },
    },
};

/// Names of channels that are named where one is unknown.
const NAMES_SHOWN_MAX: usize = 20;

/// A checkpoint; `None` for 0.
pub(super) fn checkpoint(number: u64) -> Option<CheckpointNumber> {
    (number != 0).then(|| number.into())
}

/// `None` for an empty one.
pub(super) fn write_key(text: &str) -> Result<Option<String>, Status> {
    check_size("write_key", text.len(), BOARD_KEY_BYTES_MAX)?;
    if !is_line(text) {
        return Err(invalid("write_key", &"has characters that are never shown"));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

pub(super) fn channels(field: &str, names: &[String]) -> Result<BTreeSet<ChannelName>, Status> {
    check_count(field, names.len(), 0..=BOARD_CHANNELS_MAX)?;
    names.iter().map(|it| it.parse().map_err(|why| invalid(field, &why))).collect()
}

/// Those of a board that are asked for; `None`: all. What its schema names and nobody wrote to yet
/// has no value.
pub(super) fn known_channels(
    name: &BoardName,
    board: &Board,
    channels: &BTreeSet<ChannelName>,
) -> Result<Option<BTreeSet<ChannelIndex>>, Rejection> {
    if channels.is_empty() {
        return Ok(None);
    }
    let mut known = BTreeSet::new();
    for channel in channels {
        match board.channel(channel) {
            Some(index) => _ = known.insert(index),
            None if board.schema.names().any(|it| it == channel) => {}
            None => {
                let there = board.channels.iter().map(|(it, _)| it).chain(board.schema.names());
                let there: BTreeSet<&ChannelName> = there.collect();
                return Err(unknown_channel(name, channel, there.iter().copied()));
            }
        }
    }
    Ok(Some(known))
}

fn unknown_channel<'a>(
    board: &BoardName,
    channel: &ChannelName,
    there: impl Iterator<Item = &'a ChannelName> + Clone,
) -> Rejection {
    let near = did_you_mean(channel.as_str(), there.clone().map(ChannelName::as_str));
    let shown: Vec<&str> = there.map(ChannelName::as_str).take(NAMES_SHOWN_MAX).collect();
    let known = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    Rejection::UnknownChannel {
        board: board.clone(),
        channel: channel.to_string(),
        known: known + &near,
    }
}

/// The checkpoint that was written under a key.
pub(super) fn written_under(
    name: &BoardName,
    board: &Board,
    key: &str,
) -> Result<CheckpointNumber, Rejection> {
    let unknown = || Rejection::UnknownWriteKey { board: name.clone(), write_key: key.to_owned() };
    board.written_under(key).ok_or_else(unknown)
}

/// A schema that a call names.
pub(in crate::grpc) fn schema(text: &str) -> Result<Option<Schema>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    check_size("schema", text.len(), SCHEMA_BYTES_MAX)?;
    Schema::new(text).map(Some).map_err(|why| invalid("schema", &why))
}

/// The board's schema, or that of a new one, and which of the two it is.
pub(in crate::grpc) fn pick_schema(
    board: &BoardName,
    current: Option<Schema>,
    named: Option<Schema>,
) -> Result<(Schema, bool), Status> {
    match (current, named) {
        (Some(current), Some(named)) if current != named => {
            let current = echo(current.as_str()).to_string();
            let rejection = Rejection::OtherSchema { board: board.clone(), current };
            Err(status::rejected(&rules::Rejection::Board(rejection)))
        }
        (Some(current), _) => Ok((current, false)),
        (None, named) => Ok((named.unwrap_or_else(Schema::agent_state), true)),
    }
}

/// JSON however it is laid out, with the digits of its numbers: a parsed number may have fewer.
fn plain(json: &str) -> String {
    let Ok(value) = serde_json::from_str::<Json>(json) else { return json.to_owned() };
    let is_of_number = |it: char| it.is_ascii_digit() || "+-.eE".contains(it);
    let mut numbers = Vec::new();
    let (mut rest, mut is_text) = (json, false);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\\' if is_text => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '-' | '0'..='9' if !is_text => {
                let end = rest.find(|it| !is_of_number(it)).unwrap_or(rest.len());
                numbers.push(&rest[..end]);
                end
            }
            _ => first.len_utf8(),
        };
        is_text ^= first == '"';
        rest = &rest[length..];
    }
    // Fields may come in any order.
    numbers.sort_unstable();
    format!("{value}\n{}", numbers.join(" "))
}

/// What an update means, to recognise it when it is made again.
pub(super) fn content(it: &wire::UpdateBoardRequest) -> Hash {
    let updates = it.updates.iter().map(|it| (it.channel.clone(), plain(&it.value_json)));
    let updates: BTreeMap<String, String> = updates.collect();
    let who = [it.role.clone(), it.person.clone()];
    let updates = updates.into_iter().flat_map(|(channel, value)| [channel, value]);
    Hash::of_fields(who.into_iter().chain(updates))
}

/// Ids of the messages of a value that has any.
pub(super) fn message_ids(reducer: Reducer, json: &str) -> Vec<String> {
    if reducer != Reducer::AddMessages {
        return Vec::new();
    }
    let messages: Vec<Message> = serde_json::from_str(json).unwrap_or_default();
    messages.into_iter().map(|it| it.id).collect()
}

/// Updates as the board takes them.
pub(in crate::grpc) async fn updates(
    board: &BoardName,
    schema: &Schema,
    is_new: bool,
    updates: Vec<wire::ChannelUpdate>,
    may_be_none: bool,
) -> Result<Vec<ChannelUpdate>, Status> {
    let min = usize::from(!may_be_none);
    check_count("updates", updates.len(), min..=BOARD_CHANNELS_MAX)?;
    let (board, schema) = (board.clone(), schema.clone());
    let Some(custom) = schema.custom() else { return parse_all(&board, &schema, updates) };
    let parsed = tokio::task::spawn_blocking(move || {
        if is_new {
            check_schema(&custom).map_err(|why| invalid("schema", &why))?;
            check_channels(&schema)?;
        }
        parse_all(&board, &schema, updates)
    });
    parsed.await.map_err(|_| Status::internal("an update was not checked"))?
}

/// Whether something can be written to each channel of a new board, which keeps its schema.
fn check_channels(schema: &Schema) -> Result<(), Status> {
    for name in schema.names() {
        let form = schema.channel(name).and_then(|it| it.form.as_ref());
        let why = match form.map(|form| check_value(form, &Json::Null, 4)) {
            Some(Err(Mismatch::Schema(why))) => why,
            Some(Err(Mismatch::TakesTooLong)) => "refers to itself without an end".to_owned(),
            Some(Err(Mismatch::Violations(_)) | Ok(())) | None => continue,
        };
        return Err(invalid("schema", &format!("has the channel {name}, whose schema {why}")));
    }
    Ok(())
}

fn parse_all(
    board: &BoardName,
    schema: &Schema,
    updates: Vec<wire::ChannelUpdate>,
) -> Result<Vec<ChannelUpdate>, Status> {
    let mut parsed: Vec<ChannelUpdate> = Vec::with_capacity(updates.len());
    for it in updates {
        let channel: ChannelName =
            it.channel.parse().map_err(|why| invalid("updates.channel", &why))?;
        let field = format!("updates.{channel}");
        check_size(&field, it.value_json.len(), CHANNEL_BYTES_MAX)?;
        let Some(form) = schema.channel(&channel) else {
            let unknown = unknown_channel(board, &channel, schema.names());
            return Err(status::rejected(&rules::Rejection::Board(unknown)));
        };
        let update = parse_update(channel, form, &it.value_json);
        parsed.push(update.map_err(|why| invalid(&field, &why))?);
    }
    parsed.sort_unstable_by(|one, other| one.channel.cmp(&other.channel));
    if let Some(twice) = parsed.windows(2).find(|it| it[0].channel == it[1].channel) {
        return Err(invalid("updates", &format!("name the channel {} twice", twice[0].channel)));
    }
    Ok(parsed)
}

fn parse_update(
    channel: ChannelName,
    ChannelSchema { reducer, form }: &ChannelSchema,
    json: &str,
) -> Result<ChannelUpdate, String> {
    // What nobody else could read, as numbers and texts go.
    serde_json::from_str::<Json>(json).map_err(|why| format!("is not JSON: {why}"))?;
    let mut messages = Vec::new();
    let json = match reducer {
        Reducer::LastValue => {
            let value: Box<RawValue> =
                serde_json::from_str(json).map_err(|why| format!("is not JSON: {why}"))?;
            value.get().to_owned()
        }
        Reducer::Append => parse_list(json).map_err(|why| {
            format!("takes a list, whose items are added: [\"…\"]. The value is none: {why}")
        })?,
        Reducer::Merge => parse_object(json).map_err(|why| {
            format!("takes an object, whose keys are set: {{\"key\": …}}. The value is none: {why}")
        })?,
        Reducer::AddMessages => {
            let new_id = || uuid::Uuid::new_v4().to_string();
            let (json, changes) = parse_messages(json, new_id)?;
            messages = changes;
            json
        }
    };
    if let Some(form) = form {
        check_form(*reducer, form, &json)?;
    }
    Ok(ChannelUpdate { channel, json, messages })
}

fn check_form(reducer: Reducer, form: &Json, json: &str) -> Result<(), String> {
    let read = |text: &str| serde_json::from_str::<Json>(text);
    let value = match reducer {
        Reducer::LastValue | Reducer::Append => read(json),
        // What is removed has no form.
        Reducer::Merge => serde_json::from_str::<Fields>(json).and_then(|fields| {
            let fields = fields.into_iter().filter(|(_, it)| it.get() != "null");
            let fields = fields.map(|(name, it)| read(it.get()).map(|it| (name, it)));
            fields.collect::<Result<_, _>>().map(Json::Object)
        }),
        Reducer::AddMessages => serde_json::from_str::<Vec<Message>>(json).and_then(|messages| {
            let messages = messages.iter().filter(|it| !it.is_removal);
            let messages = messages.map(|it| read(it.json().get()));
            messages.collect::<Result<_, _>>().map(Json::Array)
        }),
    };
    let value = value.map_err(|why| format!("is not JSON: {why}"))?;
    check_value(form, &value, json.len()).map_err(|why| match why {
        Mismatch::Schema(why) => format!("has a schema that {why}"),
        Mismatch::TakesTooLong => "takes too long to be checked with the board's schema".to_owned(),
        Mismatch::Violations(them) => format!("does not match the board's schema: {them}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_json_is_recognised_and_no_other() {
        for (one, other, is_same) in [
            (r#"{"a":1,"b":[2,3]}"#, r#"{ "b" : [2, 3], "a": 1 }"#, true),
            (r#""a\u0062""#, r#""ab""#, true),
            ("100000000000000000000000001", "100000000000000000000000002", false),
            ("0.1", "0.10000000000000000001", false),
            (r#"["1",2]"#, r#"["2",1]"#, false),
            (r#"["\"1",2]"#, r#"["\"1", 2]"#, true),
            (r#"["\\",1e2]"#, r#"["\\", 1e2 ]"#, true),
        ] {
            assert_eq!(plain(one) == plain(other), is_same, "{one} {other}");
        }
    }
}
