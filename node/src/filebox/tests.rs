//! The format: to the byte, tolerant, and the same after a round trip.

use proptest::prelude::*;
use tasuki_proto::id::Timestamp;

use super::{
    document::{Document, Entry},
    read::{Draft, Unreadable},
};

const NEW: &str = include_str!("goldens/new.md");
const REPLY: &str = include_str!("goldens/reply.md");
const THREE: &str = include_str!("goldens/three.md");
const DESIGN: &str = include_str!("goldens/design.md");

const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn letter(ms: u64, from: &str, to: &str, kind: &str, text: &str) -> Entry {
    Entry::new(at(ms), from, &[to], kind, text)
}

/// The thread of the goldens, the newest first.
fn story() -> Vec<Entry> {
    let body = "body\n\n- **Message ID:** not of this file";
    vec![
        letter(1_795_294_987_120, "qa_agent", "dev_agent", "INFO", "thanks"),
        letter(1_795_294_200_000, "dev_agent", "qa_agent", "ACK", "修复中"),
        letter(1_795_293_772_094, "qa_agent", "dev_agent", "BR", body),
    ]
}

fn thread(entries: &[Entry]) -> Document {
    Document::new(ID.parse().ok(), "BR", "API performance issue!", entries.to_vec())
}

fn read(text: &str) -> Document {
    Document::read(text.as_bytes()).unwrap_or_else(|why| panic!("{why}:\n{text}"))
}

#[test]
fn files_are_those_of_peoples_mailboxes() {
    let story = story();
    for (golden, entries) in [(NEW, &story[2..]), (REPLY, &story[1..]), (THREE, &story[..])] {
        let written = thread(entries).to_markdown();
        assert_eq!(written, golden);
        assert_eq!(read(golden), thread(entries));
    }
}

#[test]
fn bars_may_stand_before_every_entry_and_between_blank_lines() {
    assert_eq!(read(DESIGN), thread(&story()));
    assert_eq!(read(DESIGN).to_markdown(), THREE);
}

#[test]
fn files_of_windows_and_their_marks_are_the_same() {
    let windows = format!("\u{feff}{}", THREE.replace('\n', "\r\n"));
    assert_eq!(read(&windows), thread(&story()));
    let kept = thread(&[letter(1, "a", "b", "INFO", "one\r\ntwo")]);
    assert_eq!(read(&kept.to_markdown()), kept, "a text's own line ends stay");
}

#[test]
fn what_the_head_lacks_is_taken_from_the_entries() {
    let entries = THREE.split_once("=====\n").unwrap().1;
    let bare = read(entries);
    assert_eq!(bare.entries, story());
    assert_eq!((bare.title.as_str(), bare.kind.as_str()), ("", "BR"));
    assert_eq!((bare.sender.as_str(), bare.original_sender.as_str()), ("qa_agent", "qa_agent"));
    assert_eq!(bare.message_id, None);
    let short = THREE.replace("**Receiver:** dev_agent\n", "").replace("**Timestamp:**", "Time:");
    assert_eq!(read(&short), thread(&story()));
}

#[test]
fn what_a_text_quotes_is_no_entry() {
    let quote = format!("see:\n\n{THREE}\n\nand {ID}");
    let nested =
        thread(&[letter(5, "dev", "qa", "ACK", &quote), letter(4, "qa", "dev", "BR", &quote)]);
    let written = nested.to_markdown();
    assert_eq!(read(&written), nested);
    assert!(written.contains("\n\\## 2026-11-21T21:03:07.120Z"), "{written}");
    assert!(written.contains("\n\\===== MESSAGE"), "{written}");
    assert!(written.contains("\n\\━━━"), "{written}");
    // The original escapes nothing. The first head without a bar is the oldest entry's.
    let raw = format!("{NEW}\n\n## 2026-11-20T00:00:00.000Z - x to y (BR)\n\nquoted");
    assert_eq!(read(&raw).entries.len(), 1);
    // With bars it is the last, of the original sender if there is one.
    let raw =
        REPLY.replace("修复中", "> wrote\n## 2026-11-21T20:42:52.094Z - qa_agent to x (BR)\nyes");
    let found = read(&raw);
    assert_eq!(found.entries.len(), 2);
    assert_eq!(found.entries[1], story()[2]);
    let raw = format!("{REPLY}\n## 2026-11-20T00:00:00.000Z - stranger to y (BR)\nquoted");
    assert_eq!(read(&raw).entries[1].at, story()[2].at);
}

#[test]
fn a_line_that_was_kept_from_being_more_is_kept_so_again() {
    let text = "\\## 2026-11-20T00:00:00.000Z - x to y (BR)\n\\\\━━━\n\\x\n  ===== MESSAGE THREAD =====  \n━━━ a";
    let one = thread(&[letter(1, "a", "b", "INFO", text)]);
    assert_eq!(read(&one.to_markdown()), one);
}

#[test]
fn a_text_for_several_is_for_several() {
    let to = ["dev", "ops"];
    let one = thread(&[Entry::new(at(7), "qa", &to, "URGENT", "now")]);
    let written = one.to_markdown();
    assert!(written.contains("**Receiver:** dev, ops\n"), "{written}");
    assert!(written.contains(" - qa to dev, ops (URGENT)\n"), "{written}");
    assert_eq!(read(&written), one);
}

#[test]
fn a_file_that_is_no_thread_says_why() {
    for (bytes, why) in [
        (&b""[..], Unreadable::NoThread),
        (b"# Notes\n\nmine", Unreadable::NoThread),
        (b"===== MESSAGE THREAD =====\n\ntext", Unreadable::NoEntry),
        (b"# BR: caf\xe9", Unreadable::NotUtf8(9)),
        (
            b"**Message ID:** seven\n\n## 2026-11-20T00:00:00Z - x to y (BR)",
            Unreadable::MessageId("seven".into()),
        ),
        (b"\n## 1969-11-20T00:00:00Z - x to y (BR)", Unreadable::NoThread),
        (
            b"===== MESSAGE THREAD =====\nmine\n\n## 2026-11-20T00:00:00Z - x to y (BR)",
            Unreadable::Stray(2),
        ),
    ] {
        assert_eq!(Document::read(bytes), Err(why), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn what_a_person_puts_into_an_outbox_may_be_short() {
    let draft = Draft { sender: "qa", at: at(9) };
    let read = |text: &str| Document::read_draft(text.as_bytes(), draft);
    let short =
        "# ER: Dark mode\n\n**Receiver:** dev, ops\n\n===== MESSAGE THREAD =====\n\nplease\n";
    let found = read(short).unwrap();
    assert_eq!(found.title, "Dark mode");
    assert_eq!(found.entries, [Entry::new(at(9), "qa", &["dev", "ops"], "ER", "please")]);
    assert_eq!(read(&short.replace("**Receiver", "**For")), Err(Unreadable::NoReceiver));
    assert_eq!(read(NEW), Document::read(NEW.as_bytes()), "a whole file is read as it is");
}

/// Words that the format itself is made of, among others.
fn words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,12}",
        2 => "\\PC{0,6}",
        1 => Just("===== MESSAGE THREAD =====".to_owned()),
        1 => Just("━━━━".to_owned()),
        1 => Just("━".repeat(102)),
        2 => Just("## 2026-11-20T00:00:00.000Z - x to y (BR)".to_owned()),
        1 => Just("**Message ID:** ded6".to_owned()),
        1 => Just("# BR: t".to_owned()),
        1 => Just("\\".to_owned()),
        3 => Just("\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\u{feff}".to_owned()),
        1 => Just(" to ".to_owned()),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn entry() -> impl Strategy<Value = Entry> {
    let name = || prop_oneof![3 => "[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", 1 => words()];
    let kind = prop_oneof![3 => "BR|ACK|URGENT", 1 => words()];
    (0..4_000_000_000_000_u64, name(), proptest::collection::vec(name(), 1..4), kind, words())
        .prop_map(|(ms, from, to, kind, text)| Entry::new(at(ms), &from, &to, &kind, &text))
}

fn document() -> impl Strategy<Value = Document> {
    let entries = proptest::collection::vec(entry(), 1..5);
    (any::<u128>(), "BR|DIS", words(), entries).prop_map(|(id, kind, title, entries)| {
        let id = tasuki_proto::mail::MessageId::from_bits(id);
        Document::new(Some(id), &kind, &title, entries)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(document in document()) {
        let written = document.to_markdown();
        let found = Document::read(written.as_bytes());
        prop_assert_eq!(found.as_ref(), Ok(&document), "{}", written);
    }

    #[test]
    fn a_file_that_was_read_stays_what_it_is(pieces in proptest::collection::vec(words(), 1..4)) {
        let file = pieces.join("\n");
        let draft = Draft { sender: "a", at: at(1) };
        for found in [Document::read(file.as_bytes()), Document::read_draft(file.as_bytes(), draft)] {
            let Ok(found) = found else { continue };
            let again = Document::read(found.to_markdown().as_bytes());
            prop_assert_eq!(again, Ok(found));
        }
    }

    #[test]
    fn any_bytes_are_a_file_or_a_reason(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(Document::read(&bytes));
    }

    #[test]
    fn a_file_that_was_cut_anywhere_is_a_file_or_a_reason(end in 0..THREE.len()) {
        drop(Document::read(&THREE.as_bytes()[..end]));
    }
}
