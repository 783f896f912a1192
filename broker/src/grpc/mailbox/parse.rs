//! What callers say of mail, as values that are already valid.

use tasuki_proto::{
    id::RoleId,
    limits::{
        ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, CLIENT_REF_BYTES_MAX, FILE_NAME_BYTES_MAX,
        IMPORT_ENTRIES_MAX, MAIL_EXPIRES_MS_MAX, RECEIVERS_MAX, SEALED_BYTES_MAX,
        SUBJECT_BYTES_MAX,
    },
    mail::{BoxKind, MessageId, MessageName, MessageType},
    reason::Reason,
    visible::is_line,
    wire,
};
use tonic::Status;

use super::{
    super::parse::{SAME_BYTES, check_count, check_file_name, check_size, text, time},
    id, optional, status,
};
use crate::{
    rules::mailbox::{
        Attachment, ContentHash, Earlier, Filter, Import, ImportedEntry, Send, Subject,
        ThreadSummary, ThreadTarget,
    },
    workspace::Question,
};

/// East of UTC, at most, in seconds: a day.
const UTC_OFFSET_S_MAX: u32 = 24 * 3600;

/// What an imported entry may have for a type, in bytes.
const KIND_BYTES_MAX: usize = 64;

pub(super) fn send(
    it: wire::SendRequest,
    role: RoleId,
    answered: Option<MessageId>,
) -> Result<Send, Status> {
    let earlier = match it.earlier() {
        wire::EarlierAnswers::Unspecified => Earlier::Unknown,
        wire::EarlierAnswers::Arrived => Earlier::Arrived,
        wire::EarlierAnswers::UnderWay => Earlier::UnderWay,
    };
    let kind: MessageType = it.r#type.parse().map_err(|e| status::invalid("type", &e))?;
    let to = roles("to", &it.to, RECEIVERS_MAX)?;
    let wire::Sealed { envelope: sealed, same } = it.sealed.unwrap_or_default();
    let has_words = !it.subject.is_empty() || !it.text.is_empty();
    if !sealed.is_empty() && has_words {
        return Err(status::invalid("sealed", &"comes instead of subject and text, not beside"));
    }
    if !same.is_empty() && (sealed.is_empty() || same.len() != SAME_BYTES) {
        let why = format!("is not the mark of an envelope, of {SAME_BYTES} bytes");
        return Err(status::invalid("sealed.same", &why));
    }
    check_size("sealed", sealed.len(), SEALED_BYTES_MAX)?;
    if UTC_OFFSET_S_MAX < it.utc_offset_s.unsigned_abs() {
        return Err(status::invalid("utc_offset_s", &"is more than a day"));
    }
    let text = text("text", it.text)?;
    let target = match answered {
        Some(thread) => ThreadTarget::Answer(thread),
        None => ThreadTarget::Begin(Subject {
            thread: match it.message_id.as_str() {
                "" => MessageId::from_bits(uuid::Uuid::new_v4().as_u128()),
                given => given.parse().map_err(|e| status::invalid("message_id", &e))?,
            },
            subject: subject(it.subject)?,
            utc_offset_s: it.utc_offset_s,
        }),
    };
    if sealed.is_empty() && text.trim().is_empty() {
        return Err(status::invalid("text", &"is empty; say something"));
    }
    if CLIENT_REF_BYTES_MAX < it.client_ref.len() || !is_line(&it.client_ref) {
        let why = format!("is not a printable text of {CLIENT_REF_BYTES_MAX} bytes");
        return Err(status::invalid("client_ref", &why));
    }
    if MAIL_EXPIRES_MS_MAX < it.expires_in_ms {
        return Err(status::invalid("expires_in_ms", &"is more than a year"));
    }
    check_count("attachments", it.attachments.len(), 0..=ATTACHMENTS_MAX)?;
    Ok(Send {
        role,
        to,
        kind,
        target,
        text,
        sealed: sealed.into(),
        same: same.into(),
        client_ref: (!it.client_ref.is_empty()).then_some(it.client_ref),
        fold: it.fold,
        earlier,
        expires_in_ms: (it.expires_in_ms != 0).then_some(it.expires_in_ms),
        attachments: it.attachments.into_iter().map(attachment).collect::<Result<_, _>>()?,
    })
}

pub(super) fn import(it: wire::ImportThreadRequest) -> Result<Import, Status> {
    let thread = it.message_id.parse().map_err(|e| status::invalid("message_id", &e))?;
    check_count("entries", it.entries.len(), 1..=IMPORT_ENTRIES_MAX)?;
    let file_name = match it.file_name {
        name if name.is_empty() => None,
        name => {
            check_size("file_name", name.len(), FILE_NAME_BYTES_MAX)?;
            if !is_line(&name) {
                return Err(status::invalid("file_name", &"has characters that are never shown"));
            }
            match name.parse() {
                Ok(MessageName::File { short, .. }) if short == MessageId::short(thread) => {}
                Ok(_) | Err(_) => {
                    let why = "does not end with the first eight digits of the message's id";
                    return Err(status::invalid("file_name", &why));
                }
            }
            Some(name)
        }
    };
    let entries = it.entries.into_iter().map(|it| {
        if KIND_BYTES_MAX < it.r#type.len() || !is_line(&it.r#type) {
            let why = format!("is not a printable text of {KIND_BYTES_MAX} bytes");
            return Err(status::invalid("type", &why));
        }
        Ok(ImportedEntry {
            sender: id("sender", &it.sender)?,
            to: roles("receivers", &it.receivers, RECEIVERS_MAX)?,
            kind: it.r#type,
            written: time("written_ms", it.written_ms)?,
            text: text("text", it.text)?,
        })
    });
    let copies = it.copies.into_iter().map(|it| {
        let kind = BoxKind::of_wire(it.r#box());
        let kind = kind.ok_or_else(|| status::invalid("copies.box", &"is missing"))?;
        Ok((id("copies.role", &it.role)?, kind))
    });
    Ok(Import {
        thread,
        subject: subject(it.subject)?,
        file_name,
        entries: entries.collect::<Result<_, Status>>()?,
        copies: copies.collect::<Result<_, Status>>()?,
    })
}

/// What a wait for mail asks.
pub(in crate::grpc) fn question(it: &wire::AwaitMailRequest) -> Result<Question, Status> {
    let filter = Filter { kind: kind(&it.r#type)?, sender: optional("sender", &it.sender)? };
    Ok(Question::Mail { role: id("role", &it.role)?, filter })
}

/// Which threads of a box are asked for, by their newest entry.
#[derive(Debug, Clone)]
pub(super) struct ListFilter {
    kinds: Vec<MessageType>,
    sender: Option<RoleId>,
}

impl ListFilter {
    pub(super) fn fits(&self, facts: &ThreadSummary) -> bool {
        let kind_fits = self.kinds.is_empty()
            || self.kinds.iter().any(|kind| kind.as_str() == facts.latest_kind);
        kind_fits && self.sender.as_ref().is_none_or(|sender| *sender == facts.latest_sender)
    }
}

pub(super) fn list_filter(it: &wire::ListBoxRequest) -> Result<ListFilter, Status> {
    let kinds = it.types.iter().map(|it| it.parse().map_err(|e| status::invalid("types", &e)));
    let kinds = kinds.collect::<Result<_, _>>()?;
    Ok(ListFilter { kinds, sender: optional("sender", &it.sender)? })
}

/// Where a page begins: `next` of the one before.
pub(super) fn after(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let place = u64::from_str_radix(text, 16);
    let place = place.map_err(|_| status::invalid("after", &"is not what a page gave as next"))?;
    Ok(Some(place))
}

/// Where threads are to be put.
pub(super) fn target(to: wire::Box) -> Result<BoxKind, Status> {
    match BoxKind::of_wire(to) {
        Some(kind @ (BoxKind::Done | BoxKind::Cancel)) => Ok(kind),
        Some(BoxKind::Inbox | BoxKind::Outbox) | None => {
            Err(status::invalid("to", &"is neither done nor cancel"))
        }
    }
}

/// Whether it says that a name is none, of the names of several.
pub(super) const fn is_of_name(reason: Reason) -> bool {
    matches!(reason, Reason::UnknownMessage | Reason::AmbiguousMessage | Reason::InvalidArgument)
}

pub(super) fn refusal(status: &Status) -> wire::MailRefusal {
    let reason = Reason::of(status).unwrap_or(Reason::InvalidArgument).to_string();
    wire::MailRefusal { reason, message: status.message().to_owned() }
}

/// BLAKE3 in hexadecimal.
pub(super) fn content_hash(text: &str) -> Result<ContentHash, Status> {
    let hash = blake3::Hash::from_hex(text);
    let hash = hash.map_err(|_| status::invalid("hash", &"is not 64 hexadecimal digits"))?;
    Ok(*hash.as_bytes())
}

/// Whether a file is no larger than one may be, in bytes.
pub(super) fn check_file_size(field: &str, size: u64) -> Result<(), Status> {
    if ATTACHMENT_BYTES_MAX < size {
        return Err(status::file_too_large(field, size, ATTACHMENT_BYTES_MAX));
    }
    Ok(())
}

fn attachment(it: wire::Attachment) -> Result<Attachment, Status> {
    check_file_name("attachments", &it.name, &it.media_type)?;
    check_file_size("attachments.size", it.size)?;
    let hash = content_hash(&it.hash)?;
    Ok(Attachment { name: it.name, media_type: it.media_type, size: it.size, hash })
}

fn subject(value: String) -> Result<String, Status> {
    check_size("subject", value.len(), SUBJECT_BYTES_MAX)?;
    Ok(value)
}

fn kind(text: &str) -> Result<Option<MessageType>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|e| status::invalid("type", &e))
}

fn roles(field: &str, names: &[String], max: usize) -> Result<Vec<RoleId>, Status> {
    check_count(field, names.len(), 1..=max)?;
    let mut roles: Vec<RoleId> = Vec::with_capacity(names.len());
    for name in names {
        let role = id(field, name)?;
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    Ok(roles)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::limits::TIME_MS_MAX;

    use super::*;

    /// What hides, and what turns around.
    const HIDDEN: [&str; 4] = ["\u{200b}", "\u{202e}", "\u{e0041}", "\n"];

    #[test]
    fn an_imported_thread_is_named_as_it_is_shown() {
        let thread = |kind: &str, file_name: &str| wire::ImportThreadRequest {
            message_id: "ded66c6a-58c1-47f4-916e-13787156f665".to_owned(),
            file_name: file_name.to_owned(),
            entries: vec![wire::ImportedEntry {
                sender: "A".to_owned(),
                receivers: vec!["B".to_owned()],
                r#type: kind.to_owned(),
                text: "hidden\u{200b}, as text may be".to_owned(),
                ..wire::ImportedEntry::default()
            }],
            ..wire::ImportThreadRequest::default()
        };
        assert!(import(thread("note to self", "é-ded66c6a.md")).is_ok());
        for hidden in HIDDEN {
            let refused = import(thread(&format!("B{hidden}R"), "")).unwrap_err();
            assert!(refused.message().contains("type"), "{refused}");
            let name = format!("x{hidden}y-ded66c6a.md");
            let refused = import(thread("BR", &name)).unwrap_err();
            assert!(refused.message().contains("file_name"), "{refused}");
        }
    }

    #[test]
    fn an_imported_entry_is_of_a_time_that_can_be_shown() {
        let thread = |written_ms| wire::ImportThreadRequest {
            message_id: "ded66c6a-58c1-47f4-916e-13787156f665".to_owned(),
            entries: vec![wire::ImportedEntry {
                sender: "A".to_owned(),
                receivers: vec!["B".to_owned()],
                written_ms,
                ..wire::ImportedEntry::default()
            }],
            ..wire::ImportThreadRequest::default()
        };
        assert!(import(thread(TIME_MS_MAX)).is_ok());
        for late in [TIME_MS_MAX + 1, u64::MAX] {
            let refused = import(thread(late)).unwrap_err();
            assert!(refused.message().contains("written_ms"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_not_to_be_put_into_a_file() {
        check_file_size("size", ATTACHMENT_BYTES_MAX).unwrap();
        let refused = check_file_size("size", ATTACHMENT_BYTES_MAX + 1).unwrap_err();
        assert_eq!(Reason::of(&refused), Some(Reason::TooLarge));
        let expected = "size is 16777217 bytes; a file has at most 16777216. Nothing was stored: \
                        compress the file or split it";
        assert_eq!(refused.message(), expected);
    }

    #[test]
    fn an_attached_file_is_named_as_it_is_shown() {
        let file = |name: &str, media: &str| wire::Attachment {
            name: name.to_owned(),
            media_type: media.to_owned(),
            size: 1,
            hash: "ab".repeat(32),
        };
        assert!(attachment(file("é 1.png", "image/png")).is_ok());
        for hidden in HIDDEN {
            assert!(attachment(file(&format!("gpj.{hidden}exe"), "")).is_err(), "{hidden:?}");
            assert!(attachment(file("a", &format!("image/{hidden}"))).is_err(), "{hidden:?}");
        }
    }
}
