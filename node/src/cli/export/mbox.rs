//! Mail for mail programs: an mbox file (RFC 4155) of messages (RFC 5322), one for each entry.
//!
//! **Invariant:** all of it is ASCII, and no line of a body begins with `From ` or with `>`s and
//! `From `: such a text is encoded. So readers that take quotes away and those that leave them read
//! the same words.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp as Time, tz::TimeZone};
use tasuki_proto::{id::WorkspaceId, wire};

use super::RoleThread;
use crate::filebox::written;

/// Nobody's, for ever (RFC 2606): these addresses are names, not places to send to.
const DOMAIN: &str = "tasuki.invalid";

/// A line of a header that is not folded, and of encoded text, in characters.
const LINE_CHARS_MAX: usize = 76;

/// A line of a message as it is, in bytes (RFC 5322).
const PLAIN_BYTES_MAX: usize = 998;

/// Bytes of text in one encoded word: with them it has 72 characters of the 75 it may have.
const WORD_BYTES_MAX: usize = 45;

/// Bytes of a base64 line.
const BASE64_BYTES: usize = 57;

/// Earlier entries a message refers to, beside the first: programs cut longer lists themselves.
const REFERENCES_MAX: usize = 20;

/// A message for each entry.
pub(super) fn thread(found: &RoleThread, workspace: &WorkspaceId) -> String {
    let mut file = String::new();
    for at in 0..found.entries.len() {
        message(&mut file, found, at, workspace);
    }
    file
}

fn message(file: &mut String, found: &RoleThread, at: usize, workspace: &WorkspaceId) {
    let RoleThread { role, place, thread, entries } = found;
    let entry = &entries[at];
    let ms = i64::try_from(written(entry).as_millis()).unwrap_or(i64::MAX);
    let time = Time::from_millisecond(ms).unwrap_or(Time::MAX).to_zoned(TimeZone::UTC);
    let id = |entry: &wire::MailEntry| format!("<{}.{}@{DOMAIN}>", thread.message_id, entry.number);
    let to: Vec<String> = entry.receivers.iter().map(|it| address(it)).collect();
    let subject = if at == 0 { thread.subject.clone() } else { format!("Re: {}", thread.subject) };
    let sender = atom(&entry.sender);
    file.push_str(&format!("From {sender}@{DOMAIN} {}\n", time.strftime("%a %b %e %H:%M:%S %Y")));
    let mut put = |name: &str, value: &str| file.push_str(&format!("{name}: {value}\n"));
    put("From", &address(&entry.sender));
    put("To", &to.join(",\n "));
    put("Date", &time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string());
    put("Subject", &words("Subject", &subject));
    put("Message-ID", &id(entry));
    if let Some(before) = at.checked_sub(1) {
        put("In-Reply-To", &id(&entries[before]));
        let first = at.saturating_sub(REFERENCES_MAX).max(1);
        let all: Vec<String> = entries[..1].iter().chain(&entries[first..at]).map(id).collect();
        put("References", &all.join("\n "));
    }
    for (name, value) in [
        ("X-Tasuki-Workspace", workspace.as_str()),
        ("X-Tasuki-Role", role.as_str()),
        ("X-Tasuki-Box", place.as_str()),
        ("X-Tasuki-Type", &entry.r#type),
        ("X-Tasuki-File", &thread.file_name),
    ] {
        put(name, &words(name, value));
    }
    for it in &entry.receipts {
        let line = format!(
            "{} stored={} handed={} seen={} acted={} lapsed={} dead={}",
            it.role, it.stored_ms, it.handed_ms, it.seen_ms, it.acted_ms, it.lapsed_ms, it.dead_ms
        );
        put("X-Tasuki-Receipt", &words("X-Tasuki-Receipt", &line));
    }
    for it in &entry.attachments {
        let line = format!("{} {} {}", it.hash, it.size, it.name);
        put("X-Tasuki-Attachment", &words("X-Tasuki-Attachment", &line));
    }
    if entry.sealed.is_some() {
        put("X-Tasuki-Sealed", "yes");
    }
    put("MIME-Version", "1.0");
    put("Content-Type", "text/plain; charset=utf-8");
    let (encoding, body) = body(&entry.text);
    put("Content-Transfer-Encoding", encoding);
    file.push('\n');
    file.push_str(&body);
    if !body.is_empty() && !body.ends_with('\n') {
        file.push('\n');
    }
    file.push('\n');
}

/// The role, where it can be the local part of an address as it is.
fn address(role: &str) -> String {
    let is_plain = role.split('.').all(|part| !part.is_empty()) && atom(role) == role;
    if is_plain { format!("{role}@{DOMAIN}") } else { format!("\"{}\"@{DOMAIN}", atom(role)) }
}

/// Roles have no other characters; a broker may say anything.
fn atom(role: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    role.chars().map(fit).collect()
}

/// A header's words: as they are if they can be, folded where they are long (RFC 5322), else encoded
/// (RFC 2047).
fn words(name: &str, value: &str) -> String {
    let is_plain = value.chars().all(|c| c == ' ' || c.is_ascii_graphic())
        && value.trim() == value
        && !value.contains("=?");
    if is_plain && let Some(folded) = folded(name, value) {
        return folded;
    }
    let mut all = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let (word, next) = rest.split_at(rest.floor_char_boundary(WORD_BYTES_MAX));
        all.push(format!("=?utf-8?B?{}?=", STANDARD.encode(word)));
        rest = next;
    }
    all.join("\n ")
}

/// The words on lines that are short enough; `None`: there is no place to break one.
fn folded(name: &str, value: &str) -> Option<String> {
    let mut width = name.len() + 2;
    let mut out = String::new();
    for word in value.split(' ') {
        let is_first = out.is_empty();
        if !is_first && LINE_CHARS_MAX < width + 1 + word.len() {
            out.push('\n');
            width = 0;
        }
        if !is_first {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.len();
        // Between two blanks there would be a line of nothing.
        let is_blank = word.is_empty() && !value.is_empty();
        if LINE_CHARS_MAX < width || is_blank {
            return None;
        }
    }
    Some(out)
}

/// A text and how it is encoded.
fn body(text: &str) -> (&'static str, String) {
    let is_plain = |line: &str| {
        line.len() <= PLAIN_BYTES_MAX
            && line.bytes().all(|it| it == b'\t' || it == b' ' || it.is_ascii_graphic())
            && !is_separator(line)
    };
    if text.split('\n').all(is_plain) {
        return ("7bit", text.to_owned());
    }
    let strange = text.bytes().filter(|it| !it.is_ascii()).count();
    // From a third on base64 is shorter, and so is what people could read of it anyway.
    if text.len() / 3 < strange {
        let lines = text.as_bytes().chunks(BASE64_BYTES);
        let lines: Vec<String> = lines.map(|it| STANDARD.encode(it)).collect();
        return ("base64", lines.join("\n"));
    }
    ("quoted-printable", quoted_printable(text))
}

/// What an mbox reader takes for the next message, or takes a `>` from.
fn is_separator(line: &str) -> bool {
    line.trim_start_matches('>').starts_with("From ")
}

fn quoted_printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    for (at, line) in text.split('\n').enumerate() {
        if at != 0 {
            out.push('\n');
        }
        let mut width = 0;
        for (at, byte) in line.bytes().enumerate() {
            // One character stays for the `=` of a soft break, and the widest has three.
            if LINE_CHARS_MAX < width + 3 + 1 {
                out.push_str("=\n");
                width = 0;
            }
            let is_plain = match byte {
                b'=' => false,
                // It could begin a separator.
                b'F' | b'>' => width != 0,
                b' ' | b'\t' => at + 1 != line.len(),
                byte => byte.is_ascii_graphic(),
            };
            if is_plain {
                out.push(char::from(byte));
                width += 1;
            } else {
                out.push_str(&format!("={byte:02X}"));
                width += 3;
            }
        }
    }
    out
}
