//! Any bytes as a file of a mailbox: read or refused, never a panic; and what is read is written so
//! that it is read back the same.
//!
//! To run it, from `node`:
//!
//! ```text
//! cargo install cargo-fuzz --locked
//! mkdir -p fuzz/corpus/parse && cp src/filebox/goldens/*.md fuzz/corpus/parse/
//! cargo fuzz run -s none parse -- -max_total_time=300 -dict=fuzz/parse.dict -max_len=4096
//! ```
//!
//! It runs with the stable compiler: without unsafe code there is nothing for a sanitizer to find.
//! The parser is built in from its source, since the rest of the node would take minutes and is not
//! what is tried here.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tasuki_proto::id::Timestamp;

#[path = "../../src/filebox/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only the format is tried")]
mod filebox;

use filebox::{Document, Draft, Entry};

fuzz_target!(|bytes: &[u8]| {
    let draft = Draft { sender: "a", at: Timestamp::from_millis(1) };
    for found in [Document::read(bytes), Document::read_draft(bytes, draft)] {
        let Ok(found) = found else { continue };
        let again = Document::read(found.to_markdown().as_bytes());
        assert_eq!(again, Ok(found));
    }
    // The same bytes as the words of a thread.
    let Ok(text) = str::from_utf8(bytes) else { return };
    let parts: Vec<&str> = text.splitn(5, '\0').collect();
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    let entries = vec![
        Entry::new(Timestamp::from_millis(2), part(1), &[part(2)], part(3), part(0)),
        Entry::new(Timestamp::from_millis(1), part(2), &[part(1), part(3)], part(4), part(4)),
    ];
    let thread = Document::new(None, part(3), part(2), entries);
    let found = Document::read(thread.to_markdown().as_bytes());
    assert_eq!(found.map(|it| it.entries), Ok(thread.entries));
});
