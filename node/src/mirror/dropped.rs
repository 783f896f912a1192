//! What a file means that somebody put into an outbox. Pure.
//!
//! It is a letter of that outbox's role: a short form with a title, receivers and a text, or a whole
//! document whose newest entry is the letter. With the Message ID of a thread it answers there, else
//! it begins one.
//!
//! - **Z4** The same file is the same letter however often it is sent: its name, its content, and
//!   when it was written make the thread it begins, else the name it is sent under. Written once
//!   more it is another.
//! - **Z5** What a thread has already is never sent: a copy of a mirrored file has nothing new.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{MessageId, MessageType},
    wire,
};

use super::disk::Stamp;
use crate::{
    filebox::{Document, Draft, Entry, Unreadable, entry_key, role_of},
    hex::hex,
};

/// What is shown to whoever wrote something that cannot be sent.
const EXAMPLE: &str = "\
A file that is sent looks like this:

# BR: a title

**Receiver:** role

===== MESSAGE THREAD =====

The text. With a line **Message ID:** above, it answers in that thread.
";

/// A file that somebody put there, read.
#[derive(Debug)]
pub(super) struct Dropped {
    pub(super) document: Document,
    /// It has just a text, which nobody sent before.
    pub(super) is_draft: bool,
    /// Tells the letter from all others.
    key: [u8; 32],
}

impl Dropped {
    /// `now` is for a draft, which does not say.
    pub(super) fn read(
        role: &RoleId,
        name: &str,
        bytes: &[u8],
        stamp: Stamp,
        now: Timestamp,
    ) -> Result<Self, String> {
        let is_draft = matches!(Document::read(bytes), Err(Unreadable::NoEntry));
        let draft = Draft { sender: role.as_str(), at: now };
        let document = Document::read_draft(bytes, draft).map_err(|why| format!("It {why}."))?;
        let mut hasher =
            blake3::Hasher::new_derive_key("tasuki 2026 letter dropped into an outbox");
        for part in [role.as_str().as_bytes(), name.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let Stamp { mtime_ns, size: _, inode } = stamp;
        hasher.update(&mtime_ns.to_le_bytes()).update(&inode.to_le_bytes());
        Ok(Self { document, is_draft, key: *hasher.finalize().as_bytes() })
    }

    fn reference(&self) -> String {
        format!("file-{}", hex(&self.key[..16]))
    }

    /// The thread it begins if it names none.
    fn own_id(&self) -> MessageId {
        let mut bits = [0; 16];
        bits.copy_from_slice(&self.key[16..]);
        MessageId::from_bits(uuid::Builder::from_custom_bytes(bits).into_uuid().as_u128())
    }

    /// The letter, given the thread it names if the role has that one. `Err`: why it is none.
    pub(super) fn letter(
        &self,
        role: &RoleId,
        thread: Option<&[Entry]>,
        utc_offset_s: i32,
    ) -> Result<wire::SendRequest, String> {
        let document = &self.document;
        let letter = &document.entries[0];
        if role_of(&letter.from) != *role {
            let from = &letter.from;
            return Err(format!("It is from {from}, and this is the outbox of {role}."));
        }
        if !self.is_draft {
            self.check_new(letter, thread)?;
        }
        let kind = if letter.kind.is_empty() { &document.kind } else { &letter.kind };
        let kind: MessageType = kind
            .to_ascii_uppercase()
            .parse()
            .map_err(|why| format!("Its type, which stands before its title, {why}."))?;
        let mut to: Vec<String> = Vec::new();
        for name in letter.to.iter().filter(|it| *it != "?") {
            let receiver = role_of(name).to_string();
            if !to.contains(&receiver) {
                to.push(receiver);
            }
        }
        if to.is_empty() {
            return Err("It names no receiver.".to_owned());
        }
        if letter.text.is_empty() {
            return Err("It has no text.".to_owned());
        }
        let title = document.title.trim();
        if thread.is_none() && title.is_empty() {
            return Err("It has no title.".to_owned());
        }
        let id = document.message_id.unwrap_or_else(|| self.own_id()).to_string();
        // A thread that is its own names the letter for good.
        let is_own_id = document.message_id.is_none();
        let client_ref = if is_own_id { String::new() } else { self.reference() };
        let (in_reply_to, message_id) =
            if thread.is_some() { (id, String::new()) } else { (String::new(), id) };
        Ok(wire::SendRequest {
            role: role.to_string(),
            to,
            r#type: kind.to_string(),
            subject: if thread.is_some() { String::new() } else { title.to_owned() },
            text: letter.text.clone(),
            in_reply_to,
            message_id,
            client_ref,
            utc_offset_s,
            ..wire::SendRequest::default()
        })
    }

    /// Of a whole document just the newest entry may be new.
    fn check_new(&self, letter: &Entry, thread: Option<&[Entry]>) -> Result<(), String> {
        let earlier = &self.document.entries[1..];
        let Some(thread) = thread else {
            if earlier.is_empty() {
                return Ok(());
            }
            let count = 1 + earlier.len();
            return Err(format!(
                "It has {count} entries of a thread that this role does not have; \
                 `tasuki import filebox` takes over whole threads."
            ));
        };
        // Mirrored files have words as they are shown.
        let key = |it: &Entry| entry_key(&it.shown());
        let own: BTreeSet<_> = thread.iter().map(key).collect();
        if own.contains(&key(letter)) {
            return Err("All of it is in the thread already; an answer goes on top.".to_owned());
        }
        if let Some(other) = earlier.iter().find(|it| !own.contains(&key(it))) {
            return Err(format!(
                "Its entry from {} is not in the thread either; only the newest can be sent.",
                other.from
            ));
        }
        Ok(())
    }
}

/// What stands in the file beside one that is not sent.
pub(super) fn reason(why: &str) -> String {
    format!(
        "This was not sent. {why}\n\nPut it right, and give it a name that ends with .md again.\n\n{EXAMPLE}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { mtime_ns: 1, size: 2, inode: 3 };
    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

    fn dropped(text: &str) -> Result<Dropped, String> {
        let now = Timestamp::from_millis(5_000);
        Dropped::read(&"qa".parse().unwrap(), "x.md", text.as_bytes(), STAMP, now)
    }

    fn entry(n: u64, from: &str, to: &str) -> Entry {
        Entry::new(Timestamp::from_millis(n * 1000), from, &[to], "BR", &format!("text {n}"))
    }

    /// The thread with entries 1 (qa to dev) and 2 (back), if it is known.
    fn check(text: &str, is_known: bool, expected: &str) {
        let thread = [entry(2, "dev", "qa"), entry(1, "qa", "dev")];
        let thread = is_known.then_some(&thread[..]);
        let said = dropped(text).and_then(|it| it.letter(&"qa".parse().unwrap(), thread, 60));
        let said = match said {
            Ok(it) => {
                let place = match (it.in_reply_to.as_str(), it.message_id.as_str()) {
                    ("", ID) => "begins the named",
                    ("", _) => "begins",
                    (ID, "") => "answers",
                    other => panic!("{other:?}"),
                };
                let is_named = it.client_ref.starts_with("file-");
                assert!(it.utc_offset_s == 60 && is_named == (place != "begins"));
                format!("{place} {} {} {:?}: {}", it.r#type, it.to.join("+"), it.subject, it.text)
            }
            Err(why) => why,
        };
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn short_forms_are_letters() {
        let body = "===== MESSAGE THREAD =====\n\nthe text\n";
        let draft = |head: &str| format!("{head}\n\n{body}");
        let named = format!("# er: t\n\n**Receiver:** dev\n**Message ID:** {ID}");
        for (text, is_known, expected) in [
            (
                draft("# BR: a title\n\n**Receiver:** dev"),
                false,
                "begins BR dev \"a title\": the text",
            ),
            (
                draft("# BR: t\n\n**Receiver:** dev, ops, dev"),
                false,
                "begins BR dev+ops \"t\": the text",
            ),
            (draft(&named), true, "answers ER dev \"\": the text"),
            (draft(&named), false, "begins the named ER dev \"t\": the text"),
            (draft("# BR: t"), false, "It names no receiver."),
            (draft("# BR: \n\n**Receiver:** dev"), false, "It has no title."),
            (
                draft("# BR: t\n\n**Receiver:** dev\n**Sender:** ops"),
                false,
                "It is from ops, and this is the outbox of qa.",
            ),
            (
                draft("# MEMO: t\n\n**Receiver:** dev"),
                false,
                "Its type, which stands before its title, is \"MEMO\"; a message is one of BR, ACK, \
                 ER, INFO, URGENT, DIS.",
            ),
            (
                "# BR: t\n\n**Receiver:** dev\n\n===== MESSAGE THREAD =====\n".to_owned(),
                false,
                "It has no text.",
            ),
            (
                "# Notes\n\nwords".to_owned(),
                false,
                "It is no message: it has neither the line `===== MESSAGE THREAD =====` nor an entry.",
            ),
        ] {
            check(&text, is_known, expected);
        }
    }

    /// Holds Z5.
    #[test]
    fn of_a_whole_document_just_the_newest_entry_is_sent() {
        let whole =
            |entries: Vec<Entry>| Document::new(ID.parse().ok(), "BR", "t", entries).to_markdown();
        let (one, two, three) =
            (entry(1, "qa", "dev"), entry(2, "dev", "qa"), entry(3, "qa", "dev"));
        let four = entry(4, "qa", "dev");
        for (text, is_known, expected) in [
            (whole(vec![one.clone()]), false, "begins the named BR dev \"t\": text 1"),
            (
                whole(vec![three.clone(), two.clone(), one.clone()]),
                true,
                "answers BR dev \"\": text 3",
            ),
            (
                whole(vec![three.clone(), two.clone(), one.clone()]),
                false,
                "It has 3 entries of a thread that this role does not have; \
                 `tasuki import filebox` takes over whole threads.",
            ),
            (whole(vec![one]), true, "All of it is in the thread already; an answer goes on top."),
            (whole(vec![two]), true, "It is from dev, and this is the outbox of qa."),
            (
                whole(vec![four, three]),
                true,
                "Its entry from qa is not in the thread either; only the newest can be sent.",
            ),
        ] {
            check(&text, is_known, expected);
        }
    }

    /// Holds Z4.
    #[test]
    fn the_same_file_is_the_same_letter() {
        let text = "# BR: t\n\n**Receiver:** dev\n\n===== MESSAGE THREAD =====\n\nx";
        let read = |role: &str, name: &str, text: &str, mtime_ns| {
            let stamp = Stamp { mtime_ns, ..STAMP };
            let now = Timestamp::from_millis(1);
            Dropped::read(&role.parse().unwrap(), name, text.as_bytes(), stamp, now).unwrap()
        };
        let it = read("qa", "x.md", text, 1);
        let again = read("qa", "x.md", text, 1);
        assert_eq!((it.reference(), it.own_id()), (again.reference(), again.own_id()));
        for other in [
            read("dev", "x.md", text, 1),
            read("qa", "y.md", text, 1),
            read("qa", "x.md", &format!("{text}x"), 1),
            read("qa", "x.md", text, 2),
        ] {
            assert!(it.reference() != other.reference() && it.own_id() != other.own_id());
        }
    }
}
