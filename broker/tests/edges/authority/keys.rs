//! One idempotency key names one call.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use prost_types::FileDescriptorSet;
use tasuki_proto::{DESCRIPTORS, token::Right, wire};
use tonic::Status;

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

async fn call<T: Message + Default>(
    bearer: &Bearer,
    path: &'static str,
    message: impl Message,
) -> Result<T, Status> {
    bearer.unary(path, bytes(message)).await.map(|it| T::decode(it).unwrap())
}

/// `B` begins a thread with this id with `A`.
async fn begin(bearer: &Bearer, counter: u64, message_id: &str) {
    let letter = wire::SendRequest {
        caller: caller("w1"),
        key: key("threads", counter),
        role: "B".to_owned(),
        to: vec!["A".to_owned()],
        r#type: "INFO".to_owned(),
        subject: "s".to_owned(),
        text: format!("letter {counter}"),
        message_id: message_id.to_owned(),
        ..Default::default()
    };
    let sent: wire::SendResponse = call(bearer, "/tasuki.v1.Mailbox/Send", letter).await.unwrap();
    assert_eq!(sent.message_id, message_id);
}

#[tokio::test]
async fn a_repeat_is_answered_although_its_names_mean_several_threads_by_then() {
    const SEND: &str = "/tasuki.v1.Mailbox/Send";
    const MOVE: &str = "/tasuki.v1.Mailbox/Move";
    const HAND_AGAIN: &str = "/tasuki.v1.Mailbox/HandAgain";
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w1", &["A", "B"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    begin(&bearer, 1, "aaaa0000-0000-4000-8000-000000000001").await;
    begin(&bearer, 2, "bbbb0000-0000-4000-8000-000000000001").await;
    begin(&bearer, 3, "cccc0000-0000-4000-8000-000000000001").await;

    let answer = |counter| wire::SendRequest {
        caller: caller("w1"),
        key: key("answers", counter),
        role: "A".to_owned(),
        to: vec!["B".to_owned()],
        r#type: "INFO".to_owned(),
        text: "t".to_owned(),
        in_reply_to: "aaaa".to_owned(),
        ..Default::default()
    };
    let moving = |counter| wire::MoveRequest {
        caller: caller("w1"),
        key: key("moves", counter),
        role: "A".to_owned(),
        messages: ["dddd", "bbbb", "!"].map(str::to_owned).to_vec(),
        to: wire::Box::Done.into(),
    };
    let again = |counter| wire::HandAgainRequest {
        caller: caller("w1"),
        key: key("again", counter),
        role: "A".to_owned(),
        message: "cccc".to_owned(),
    };
    let sent: wire::SendResponse = call(&bearer, SEND, answer(1)).await.unwrap();
    assert_eq!((sent.entry, &sent.message_id[..4]), (2, "aaaa"));
    let moved: wire::MoveResponse = call(&bearer, MOVE, moving(1)).await.unwrap();
    let handed: wire::HandAgainResponse = call(&bearer, HAND_AGAIN, again(1)).await.unwrap();

    begin(&bearer, 4, "aaaa1111-0000-4000-8000-000000000001").await;
    begin(&bearer, 5, "bbbb1111-0000-4000-8000-000000000001").await;
    begin(&bearer, 6, "cccc1111-0000-4000-8000-000000000001").await;
    begin(&bearer, 7, "dddd0000-0000-4000-8000-000000000001").await;

    let repeated: wire::SendResponse = call(&bearer, SEND, answer(1)).await.unwrap();
    assert_eq!(repeated, sent);
    let repeated: wire::MoveResponse = call(&bearer, MOVE, moving(1)).await.unwrap();
    let told = |it: &wire::MoveResponse| -> Vec<(String, String, String)> {
        let refusal =
            |it: &wire::Moved| it.refusal.clone().map_or_else(String::new, |it| it.reason);
        let told = it.moved.iter().map(|it| (it.asked.clone(), it.message_id.clone(), refusal(it)));
        told.collect()
    };
    let expected = [
        ("dddd", "", "unknown_message"),
        ("bbbb", "bbbb0000-0000-4000-8000-000000000001", ""),
        ("!", "", "invalid_argument"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(asked, id, why)| (str::to_owned(asked), str::to_owned(id), str::to_owned(why)))
        .collect();
    assert_eq!((told(&moved), told(&repeated)), (expected.clone(), expected));
    assert_eq!((&repeated.moved[1], repeated.sequence), (&moved.moved[1], moved.sequence));
    let repeated: wire::HandAgainResponse = call(&bearer, HAND_AGAIN, again(1)).await.unwrap();
    assert_eq!(repeated, handed);
    assert_eq!(handed.message_id, "cccc0000-0000-4000-8000-000000000001");

    // Under a new key each is another intent.
    let refused = call::<wire::SendResponse>(&bearer, SEND, answer(2)).await.unwrap_err();
    assert_eq!(named(&refused), "ambiguous_message");
    let refused = call::<wire::HandAgainResponse>(&bearer, HAND_AGAIN, again(2)).await.unwrap_err();
    assert_eq!(named(&refused), "ambiguous_message");
    let moved: wire::MoveResponse = call(&bearer, MOVE, moving(2)).await.unwrap();
    let reasons: Vec<_> = told(&moved).into_iter().map(|(_, _, why)| why).collect();
    assert_eq!(reasons, ["", "ambiguous_message", "invalid_argument"]);
}

#[tokio::test]
async fn paths_that_were_set_are_answered_again_although_they_would_be_too_many_by_then() {
    const SET: &str = "/tasuki.v1.Swarm/UpdateIssueDocPaths";
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let token = broker.token("w1", &["A"], Right::ALL).await;
    let bearer = broker.bearer(Some(&token.expose()));
    let create = wire::CreateIssueRequest {
        caller: caller("w1"),
        key: key("issues", 1),
        role: "A".to_owned(),
        subject: "s".to_owned(),
        ..Default::default()
    };
    let created: wire::IssueResponse =
        call(&bearer, "/tasuki.v1.Swarm/CreateIssue", create).await.unwrap();
    let set = wire::UpdateIssueDocPathsRequest {
        caller: caller("w1"),
        role: "A".to_owned(),
        issue_id: created.issue.unwrap().issue_id,
        ..Default::default()
    };
    let half = || vec!["x".repeat(40 * 1024)];
    let shared = |counter| wire::UpdateIssueDocPathsRequest {
        key: key("paths", counter),
        shared_doc_paths: half(),
        keep_project_docs: true,
        ..set.clone()
    };
    let project = wire::UpdateIssueDocPathsRequest {
        key: key("paths", 2),
        project_doc_paths: half(),
        ..set.clone()
    };
    let first: wire::IssueResponse = call(&bearer, SET, shared(1)).await.unwrap();
    let _: wire::IssueResponse = call(&bearer, SET, project).await.unwrap();
    let repeated: wire::IssueResponse = call(&bearer, SET, shared(1)).await.unwrap();
    assert_eq!(repeated.sequence, first.sequence);
    let refused = call::<wire::IssueResponse>(&bearer, SET, shared(3)).await.unwrap_err();
    assert_eq!(named(&refused), "too_large");
}
