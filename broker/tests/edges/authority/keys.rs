//! One idempotency key names one call.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tasuki_proto::{DESCRIPTORS, token::Right, wire};

use super::{all, calls::bytes, named};
use crate::{
    guarded::{Bearer, Guarded},
    support::{caller, key},
};

/// The numbers of the fields by which a message has a key, and names a thread.
#[derive(Debug, Clone, Copy)]
struct Fields {
    key: u32,
    thread: Option<u32>,
}

/// Calls whose message has a key, by path.
fn mutating() -> BTreeMap<String, Fields> {
    let mut found = BTreeMap::new();
    for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap().file {
        let package = file.package();
        let number_of = |message: &str, field: &str| {
            let message = file.message_type.iter().find(|it| it.name() == message)?;
            message
                .field
                .iter()
                .find(|it| it.name() == field)
                .map(|it| u32::try_from(it.number()).unwrap())
        };
        for service in &file.service {
            for method in &service.method {
                let message = method.input_type().rsplit('.').next().unwrap();
                let thread = number_of(message, "message");
                let thread = thread.or_else(|| number_of(message, "messages"));
                let thread = thread.or_else(|| number_of(message, "in_reply_to"));
                // Messages of issues are none of mail.
                let thread = thread.filter(|_| service.name() == "Mailbox");
                if let Some(key) = number_of(message, "key") {
                    let path = format!("/{package}.{}/{}", service.name(), method.name());
                    found.insert(path, Fields { key, thread });
                }
            }
        }
    }
    found
}

/// The message with another value of a field that is text or a message: what comes last counts.
fn with(message: &Bytes, field: u32, value: &[u8]) -> Bytes {
    let mut all = message.to_vec();
    prost::encoding::encode_key(field, prost::encoding::WireType::LengthDelimited, &mut all);
    prost::encoding::encode_varint(value.len() as u64, &mut all);
    all.extend(value);
    all.into()
}

async fn letter(bearer: &Bearer) -> String {
    let letter = bytes(wire::SendRequest {
        caller: caller("w1"),
        key: key("letters", 1),
        role: "B".to_owned(),
        to: vec!["A".to_owned()],
        r#type: "INFO".to_owned(),
        subject: "s".to_owned(),
        text: "t".to_owned(),
        ..Default::default()
    });
    let sent = bearer.unary("/tasuki.v1.Mailbox/Send", letter).await.unwrap();
    wire::SendResponse::decode(sent).unwrap().message_id
}

#[tokio::test]
async fn a_key_that_named_one_call_names_no_other() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w1", &["A", "B"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let thread = letter(&bearer).await;
    let fields = mutating();
    let known: Vec<_> =
        all().filter_map(|call| fields.get(call.path).map(|fields| (call, *fields))).collect();
    assert!(known.len() == fields.len() && 40 < known.len(), "{} calls", known.len());
    let keyed = |message: Bytes, it: Fields, counter| {
        let key = key("pairs", counter).unwrap().encode_to_vec();
        let message = with(&message, it.key, &key);
        match it.thread {
            Some(field) => with(&message, field, thread.as_bytes()),
            None => message,
        }
    };
    let mut kept = Vec::new();
    let mut wrong = Vec::new();
    for (counter, (first, of_first)) in (1..).zip(&known) {
        let message = keyed((first.message)("w1", "A"), *of_first, counter);
        if bearer.unary(first.path, message).await.is_err() {
            // Nothing is remembered of what was refused.
            continue;
        }
        kept.push(first.path);
        for (second, of_second) in known.iter().filter(|(it, _)| it.path != first.path) {
            let message = keyed((second.message)("w1", "A"), *of_second, counter);
            let said = match bearer.unary(second.path, message).await {
                Ok(_) => "ok".to_owned(),
                Err(status) => named(&status),
            };
            if said != "key_reused" {
                wrong.push(format!("{} after {}: {said}", second.path, first.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(15 < kept.len(), "{kept:?}");
}

/// The bytes of both mean the same to each, but not the same thing.
#[tokio::test]
async fn the_same_bytes_are_another_call_elsewhere() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w1", &["A", "B"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let handed = bytes(wire::HandOverRequest {
        caller: caller("w1"),
        key: key("same", 1),
        r#loop: "main".to_owned(),
        role: "A".to_owned(),
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        to: "B".to_owned(),
        ..Default::default()
    });
    let opened = bytes(wire::OpenMailboxRequest {
        caller: caller("w1"),
        key: key("same", 2),
        role: "A".to_owned(),
    });
    for (message, first, second) in [
        (handed, "/tasuki.v1.TurnLoop/HandOver", "/tasuki.v1.TurnLoop/StartRound"),
        (opened, "/tasuki.v1.Mailbox/OpenMailbox", "/tasuki.v1.Mailbox/CloseMailbox"),
    ] {
        bearer.unary(first, message.clone()).await.unwrap();
        let refused = bearer.unary(second, message).await.unwrap_err();
        assert_eq!(named(&refused), "key_reused", "{second} after {first}");
    }
}
