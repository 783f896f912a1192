//! Mail: what happened to it, its words, and (`state`) all that is kept of it in memory.

mod state;

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{BoxKind, MessageId},
    stored::{self, event::Kind, reply},
};

pub(super) use self::state::{Decoding, encode_mail};
use super::{BodyKey, CodecError, hash, id, ids, optional, text};
use crate::rules::mailbox::{
    Attachment, AttachmentKept, ContentHash, CopyMoved, Earlier, EntryBody, EntryHead, EntryLapsed,
    EntrySent, Event, MoveOutcome, Moved, ThreadHanded, ThreadImported, ThreadRevived, ThreadSeen,
    Title,
};

/// The longest text that is kept with the facts of its entry, in bytes: what lists boxes reads
/// those, and not the words.
const TEXT_BESIDE_BYTES_MAX: usize = 4096;

/// Where an entry of a thread is.
pub fn mail_key(thread: MessageId, number: u32) -> BodyKey {
    BodyKey(format!("mail/{thread}/{number}"))
}

/// Where its text is, if it is long.
pub fn mail_text_key(thread: MessageId, number: u32) -> BodyKey {
    BodyKey(format!("mail/{thread}/{number}/text"))
}

/// Where an attached file is.
pub fn file_key(file: &ContentHash) -> BodyKey {
    BodyKey(format!("file/{}", blake3::Hash::from_bytes(*file).to_hex()))
}

/// Whether an entry's text came with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailText {
    Here,
    /// Under [`mail_text_key`].
    Apart,
}

pub(super) fn encode_body(it: &EntryBody) -> Vec<(BodyKey, Bytes)> {
    let is_text_apart = TEXT_BESIDE_BYTES_MAX < it.text.len();
    let file = |it: &Attachment| stored::MailAttachment {
        name: it.name.clone(),
        media_type: it.media_type.clone(),
        size: it.size,
        hash: Bytes::copy_from_slice(&it.hash),
    };
    let stored = stored::MailBody {
        sender: it.sender.to_string(),
        to: names(&it.to),
        kind: it.kind.clone(),
        at_ms: it.at.as_millis(),
        text: if is_text_apart { String::new() } else { it.text.clone() },
        is_text_apart,
        sealed: it.sealed.clone(),
        attachments: it.attachments.iter().map(file).collect(),
        node: text(it.node.as_ref()),
        token_id: text(it.token.as_ref()),
        lapses_ms: ms(it.lapses),
        written_ms: ms(it.written),
        title: it.title.as_ref().map(|it| stored::MailTitle {
            subject: it.subject.clone(),
            file_name: it.file_name.clone(),
        }),
    };
    let mut bodies = vec![(mail_key(it.thread, it.number), stored.encode_to_vec().into())];
    if is_text_apart {
        let words = Bytes::copy_from_slice(it.text.as_bytes());
        bodies.push((mail_text_key(it.thread, it.number), words));
    }
    bodies
}

/// The body of entry `number`; where its text is apart, without it.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_mail(
    thread: MessageId,
    number: u32,
    bytes: Bytes,
) -> Result<(EntryBody, MailText), CodecError> {
    let it = stored::MailBody::decode(bytes).map_err(|_| CodecError::Malformed("mail body"))?;
    let files = it.attachments.into_iter().map(|it| {
        Ok(Attachment {
            name: it.name,
            media_type: it.media_type,
            size: it.size,
            hash: content_hash(&it.hash)?,
        })
    });
    let body = EntryBody {
        thread,
        number,
        sender: id("sender", &it.sender)?,
        to: ids("to", &it.to)?,
        kind: it.kind,
        at: Timestamp::from_millis(it.at_ms),
        text: it.text,
        sealed: it.sealed,
        attachments: files.collect::<Result<_, CodecError>>()?,
        node: optional("node", &it.node)?,
        token: optional("token_id", &it.token_id)?,
        lapses: at(it.lapses_ms),
        written: at(it.written_ms),
        title: it.title.map(|it| Title { subject: it.subject, file_name: it.file_name }),
    };
    Ok((body, if it.is_text_apart { MailText::Apart } else { MailText::Here }))
}

pub(super) fn encode_event(event: &Event) -> Kind {
    match event {
        Event::Sent(it) => Kind::MailSent(stored::MailSent {
            thread: id_bytes(it.thread),
            entry: it.entry,
            sender: it.sender.to_string(),
            to: names(&it.to),
            kind: it.kind.into(),
            content: it.content.to_bytes(),
            client_ref: it.client_ref.clone().unwrap_or_default(),
            sender_box: box_code(it.sender_box),
            acted: it.acted,
            lapses_ms: ms(it.lapses),
            files: it.files.iter().map(|it| Bytes::copy_from_slice(it)).collect(),
            earlier: earlier_code(it.earlier),
        }),
        Event::Moved(it) => Kind::MailMoved(stored::MailMoved {
            thread: id_bytes(it.thread),
            role: it.role.to_string(),
            to: box_code(it.to),
            acted: it.acted,
        }),
        Event::Handed(it) => Kind::MailHanded(stored::MailHanded {
            thread: id_bytes(it.thread),
            role: it.role.to_string(),
            through: it.through,
            is_dead: it.is_dead,
            unseen: {
                let unseen = it.unseen.iter().map(|(sender, entry)| stored::MailUnseen {
                    sender: sender.to_string(),
                    entry: *entry,
                });
                unseen.collect()
            },
        }),
        Event::Seen(it) => Kind::MailSeen(stored::MailSeen {
            thread: id_bytes(it.thread),
            role: it.role.to_string(),
            through: it.through,
        }),
        Event::Lapsed(it) => Kind::MailLapsed(stored::MailLapsed {
            thread: id_bytes(it.thread),
            entry: it.entry,
            at_ms: it.at.as_millis(),
            roles: names(&it.roles),
            cancelled: names(&it.cancelled),
            sender: it.sender.as_ref().map(ToString::to_string).unwrap_or_default(),
        }),
        Event::Revived(it) => Kind::MailRevived(stored::MailRevived {
            thread: id_bytes(it.thread),
            role: it.role.to_string(),
        }),
        Event::Imported(it) => Kind::MailImported(stored::MailImported {
            thread: id_bytes(it.thread),
            first: it.first,
            entries: it.entries.iter().map(encode_head).collect(),
            copies: it
                .copies
                .iter()
                .map(|(role, kind)| stored::MailCopy {
                    role: role.to_string(),
                    r#box: box_code(*kind),
                })
                .collect(),
        }),
        Event::Opened(role) => {
            Kind::MailboxOpened(stored::MailboxOpened { role: role.to_string() })
        }
        Event::Closed(role) => {
            Kind::MailboxClosed(stored::MailboxClosed { role: role.to_string() })
        }
        Event::Kept(it) => Kind::AttachmentKept(stored::AttachmentKept {
            hash: Bytes::copy_from_slice(&it.hash),
            size: it.size,
            role: text(it.role.as_ref()),
        }),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "whoever calls chose the kind")]
pub(super) fn decode_event(kind: Kind) -> Result<Event, CodecError> {
    Ok(match kind {
        Kind::MailSent(it) => Event::Sent(EntrySent {
            thread: thread(&it.thread)?,
            entry: it.entry,
            sender: id("sender", &it.sender)?,
            to: ids("to", &it.to)?,
            kind: byte("kind", it.kind)?,
            content: hash("content", &it.content)?,
            client_ref: (!it.client_ref.is_empty()).then_some(it.client_ref),
            sender_box: box_of(it.sender_box)?,
            acted: it.acted,
            lapses: at(it.lapses_ms),
            files: it.files.iter().map(|it| content_hash(it)).collect::<Result<_, _>>()?,
            earlier: earlier_of(it.earlier)?,
        }),
        Kind::MailMoved(it) => Event::Moved(CopyMoved {
            thread: thread(&it.thread)?,
            role: id("role", &it.role)?,
            to: box_of(it.to)?,
            acted: it.acted,
        }),
        Kind::MailHanded(it) => Event::Handed(ThreadHanded {
            thread: thread(&it.thread)?,
            role: id("role", &it.role)?,
            through: it.through,
            is_dead: it.is_dead,
            unseen: {
                let unseen = it.unseen.iter();
                let unseen = unseen.map(|it| Ok((id("sender", &it.sender)?, it.entry)));
                unseen.collect::<Result<_, CodecError>>()?
            },
        }),
        Kind::MailSeen(it) => Event::Seen(ThreadSeen {
            thread: thread(&it.thread)?,
            role: id("role", &it.role)?,
            through: it.through,
        }),
        Kind::MailLapsed(it) => Event::Lapsed(EntryLapsed {
            thread: thread(&it.thread)?,
            entry: it.entry,
            at: Timestamp::from_millis(it.at_ms),
            roles: ids("roles", &it.roles)?,
            cancelled: ids("cancelled", &it.cancelled)?,
            sender: optional("sender", &it.sender)?,
        }),
        Kind::MailRevived(it) => Event::Revived(ThreadRevived {
            thread: thread(&it.thread)?,
            role: id("role", &it.role)?,
        }),
        Kind::MailImported(it) => Event::Imported(ThreadImported {
            thread: thread(&it.thread)?,
            first: it.first,
            entries: it.entries.iter().map(decode_head).collect::<Result<_, _>>()?,
            copies: it
                .copies
                .iter()
                .map(|it| Ok((id("role", &it.role)?, box_of(it.r#box)?)))
                .collect::<Result<_, CodecError>>()?,
        }),
        Kind::MailboxOpened(it) => Event::Opened(id("role", &it.role)?),
        Kind::MailboxClosed(it) => Event::Closed(id("role", &it.role)?),
        Kind::AttachmentKept(it) => Event::Kept(AttachmentKept {
            hash: content_hash(&it.hash)?,
            size: it.size,
            role: optional("role", &it.role)?,
        }),
        _ => return Err(CodecError::Unknown("mail event")),
    })
}

pub(super) fn encode_moved(to: BoxKind, moved: &[Moved]) -> reply::Moved {
    let one = |it: &Moved| {
        let (outcome, detail) = match it.outcome {
            MoveOutcome::Moved => (1, 0),
            MoveOutcome::Already => (2, 0),
            MoveOutcome::NotInInbox(kind) => (3, box_code(kind)),
            MoveOutcome::Unseen(count) => (4, count),
            MoveOutcome::Unknown => (5, 0),
        };
        reply::MovedOne { thread: id_bytes(it.thread), outcome, detail }
    };
    reply::Moved { to: box_code(to), moved: moved.iter().map(one).collect() }
}

pub(super) fn decode_moved(moved: Vec<reply::MovedOne>) -> Result<Vec<Moved>, CodecError> {
    let one = |it: reply::MovedOne| {
        let outcome = match it.outcome {
            1 => MoveOutcome::Moved,
            2 => MoveOutcome::Already,
            3 => MoveOutcome::NotInInbox(box_of(it.detail)?),
            4 => MoveOutcome::Unseen(it.detail),
            5 => MoveOutcome::Unknown,
            _ => return Err(CodecError::Unknown("outcome of a move")),
        };
        Ok(Moved { thread: thread(&it.thread)?, outcome })
    };
    moved.into_iter().map(one).collect()
}

fn encode_head(it: &EntryHead) -> stored::MailHead {
    stored::MailHead { sender: it.sender.to_string(), to: names(&it.to), kind: it.kind.into() }
}

fn decode_head(it: &stored::MailHead) -> Result<EntryHead, CodecError> {
    Ok(EntryHead {
        sender: id("sender", &it.sender)?,
        to: ids("to", &it.to)?,
        kind: byte("kind", it.kind)?,
    })
}

fn names(roles: &[RoleId]) -> Vec<String> {
    roles.iter().map(RoleId::to_string).collect()
}

pub(super) fn id_bytes(thread: MessageId) -> Bytes {
    Bytes::copy_from_slice(&thread.bits().to_be_bytes())
}

pub(super) fn thread(bytes: &[u8]) -> Result<MessageId, CodecError> {
    let bits = bytes.try_into().map(u128::from_be_bytes);
    let invalid = |_| CodecError::Invalid { field: "thread", value: format!("{bytes:?}") };
    bits.map(MessageId::from_bits).map_err(invalid)
}

fn content_hash(bytes: &[u8]) -> Result<ContentHash, CodecError> {
    let invalid = |_| CodecError::Invalid { field: "hash", value: format!("{bytes:?}") };
    bytes.try_into().map_err(invalid)
}

pub(super) const fn box_code(kind: BoxKind) -> u32 {
    match kind {
        BoxKind::Inbox => 1,
        BoxKind::Outbox => 2,
        BoxKind::Done => 3,
        BoxKind::Cancel => 4,
    }
}

pub(super) fn box_of(code: u32) -> Result<BoxKind, CodecError> {
    let found = BoxKind::ALL.into_iter().find(|kind| box_code(*kind) == code);
    found.ok_or_else(|| CodecError::Invalid { field: "box", value: code.to_string() })
}

fn byte(field: &'static str, value: u32) -> Result<u8, CodecError> {
    value.try_into().map_err(|_| CodecError::Invalid { field, value: value.to_string() })
}

fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

fn at(ms: u64) -> Option<Timestamp> {
    (ms != 0).then(|| Timestamp::from_millis(ms))
}

const fn earlier_code(earlier: Earlier) -> u32 {
    match earlier {
        Earlier::Unknown => 0,
        Earlier::Arrived => 1,
        Earlier::UnderWay => 2,
    }
}

fn earlier_of(code: u32) -> Result<Earlier, CodecError> {
    let all = [Earlier::Unknown, Earlier::Arrived, Earlier::UnderWay];
    let found = all.into_iter().find(|it| earlier_code(*it) == code);
    found.ok_or_else(|| CodecError::Invalid { field: "earlier", value: code.to_string() })
}
