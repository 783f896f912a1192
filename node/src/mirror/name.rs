//! What files of a mirrored mailbox are called. Pure.
//!
//! A name that comes from mail is used only if it is a thread's file name and nothing else: no
//! path, nothing hidden, nothing that does not fit.

use std::collections::BTreeSet;

use tasuki_proto::{
    limits::FILE_NAME_BYTES_MAX,
    mail::{MessageId, MessageName},
    visible::shown,
};

/// What is put aside because somebody edited it.
pub(super) const EDITED: &str = "edited";

/// What was dropped into an outbox and is not sent.
pub(super) const REJECTED: &str = "rejected";

/// What was dropped into an outbox and waits in the node's own for the broker.
pub(super) const QUEUED: &str = "queued";

/// A file that is being written; it may be half.
const NEW: &str = ".tasuki-new";

/// A whole file that is about to be put into its place, or was just taken out of it.
const OLD: &str = ".tasuki-old";

/// Names tried until one is free; somebody with more edits of one file should look at them.
pub(super) const NUMBERS_MAX: u32 = 1_000;

/// What a file is, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A message, or what somebody wants to be one.
    Message,
    /// Put aside here.
    Aside,
    /// Waits for the broker; its name before.
    Queued(&'a str),
    /// Of an interrupted write.
    New,
    /// Of an interrupted write; the name it had or was to have.
    Old(&'a str),
    /// Somebody else's.
    Strange,
}

impl<'a> Kind<'a> {
    pub(super) fn of(name: &'a str) -> Self {
        if let Some(hidden) = name.strip_prefix('.') {
            if let Some(own) = hidden.strip_suffix(OLD) {
                return Self::Old(own);
            }
            return if hidden.ends_with(NEW) { Self::New } else { Self::Strange };
        }
        if name.starts_with('#') {
            // As some editors keep what is not saved yet.
            return Self::Strange;
        }
        if name.ends_with(".md") {
            return Self::Message;
        }
        let (stem, number) = match name.rsplit_once('.') {
            Some((stem, number)) if number.bytes().all(|it| it.is_ascii_digit()) => (stem, true),
            _ => (name, false),
        };
        match stem.rsplit_once('.') {
            Some((own, QUEUED)) if own.ends_with(".md") && !number => Self::Queued(own),
            Some((own, EDITED | REJECTED)) if own.ends_with(".md") => Self::Aside,
            _ => Self::Strange,
        }
    }
}

pub(super) fn new(name: &str) -> String {
    format!(".{name}{NEW}")
}

pub(super) fn old(name: &str) -> String {
    format!(".{name}{OLD}")
}

/// The `number`th name of something that is put aside, from 1.
pub(super) fn aside(name: &str, what: &str, number: u32) -> String {
    if number == 1 { format!("{name}.{what}") } else { format!("{name}.{what}.{number}") }
}

/// Names that are one file where letters of either case are the same.
pub(super) fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// What a thread's file is called here: as the broker calls it, unless that cannot be, or another
/// thread's file has that name already.
pub(super) fn of_thread(told: &str, id: MessageId, taken: &BTreeSet<String>) -> String {
    let plain =
        if is_fit(told) { told.to_owned() } else { format!("message-{:08x}.md", id.short()) };
    if !taken.contains(&fold(&plain)) {
        return plain;
    }
    let tail = format!("-{:08x}.md", id.short());
    let digits = format!("-{:032x}", id.bits());
    let mut stem = plain.strip_suffix(&tail).unwrap_or("message").to_owned();
    let room = FILE_NAME_BYTES_MAX - tail.len() - digits.len();
    while room < stem.len() {
        stem.pop();
    }
    format!("{stem}{digits}{tail}")
}

fn is_fit(name: &str) -> bool {
    name.len() <= FILE_NAME_BYTES_MAX
        && !name.starts_with(['.', '#', '-'])
        && shown(name).1 == 0
        && !name.contains(|c: char| c.is_whitespace() && c != ' ' || "/\\:*?\"<>|".contains(c))
        && matches!(name.parse(), Ok(MessageName::File { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "2026-11-21_2042-BR-t-ded66c6a.md";
    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

    #[test]
    fn what_a_name_says() {
        for (name, kind) in [
            (NAME, Kind::Message),
            ("notes.md", Kind::Message),
            (".hidden.md", Kind::Strange),
            ("#x.md#", Kind::Strange),
            ("#x.md", Kind::Strange),
            ("x.md~", Kind::Strange),
            ("x.txt", Kind::Strange),
            ("x.md.edited", Kind::Aside),
            ("x.md.edited.12", Kind::Aside),
            ("x.md.rejected", Kind::Aside),
            ("x.md.rejected.txt", Kind::Strange),
            ("x.edited", Kind::Strange),
            ("x.md.queued", Kind::Queued("x.md")),
            (".x.md.tasuki-new", Kind::New),
            (".x.md.tasuki-old", Kind::Old("x.md")),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
        assert_eq!(Kind::of(&new(NAME)), Kind::New);
        assert_eq!(Kind::of(&old(NAME)), Kind::Old(NAME));
        assert_eq!(Kind::of(&aside(NAME, EDITED, 1)), Kind::Aside);
        assert_eq!(Kind::of(&aside(NAME, REJECTED, 2)), Kind::Aside);
    }

    #[test]
    fn no_name_leads_elsewhere_or_is_taken_twice() {
        let id = ID.parse().unwrap();
        let none = BTreeSet::new();
        assert_eq!(of_thread(NAME, id, &none), NAME);
        let long = format!("{}-ded66c6a.md", "x".repeat(300));
        for bad in [
            "../../x-ded66c6a.md",
            "/etc/x-ded66c6a.md",
            "a\\x-ded66c6a.md",
            ".x-ded66c6a.md",
            "x\n-ded66c6a.md",
            "c:x-ded66c6a.md",
            "notes.md",
            "",
            &long,
        ] {
            assert_eq!(of_thread(bad, id, &none), "message-ded66c6a.md", "{bad:?}");
        }
        let taken = BTreeSet::from([fold(NAME)]);
        let other = of_thread("2026-11-21_2042-BR-T-ded66c6a.md", id, &taken);
        assert_eq!(other, "2026-11-21_2042-BR-T-ded66c6a58c147f4916e13787156f665-ded66c6a.md");
        assert!(is_fit(&other));
        let full = format!("{}-ded66c6a.md", "é".repeat(94));
        let other = of_thread(&full, id, &BTreeSet::from([fold(&full)]));
        assert!(is_fit(&other) && other.len() <= FILE_NAME_BYTES_MAX, "{other}");
    }
}
