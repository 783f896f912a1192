//! Writes a file as people's mailboxes have had them so far, to the byte: the bar stands directly
//! under the line before it, the oldest entry has none, and no newline ends the file.

use super::{
    document::{Document, Entry},
    line::{BAR_CHARS, MARKER, push_escaped, time_text},
};

impl Document {
    /// The file.
    pub fn to_markdown(&self) -> String {
        let texts: usize = self.entries.iter().map(|it| it.text.len()).sum();
        let mut file = String::with_capacity(texts + 512 * (1 + self.entries.len()));
        let id = self.message_id.map(|id| id.to_string()).unwrap_or_default();
        for part in ["# ", &self.kind, ": ", &self.title, "\n\n"] {
            file.push_str(part);
        }
        for (key, value) in [
            ("Format Version", self.format_version.as_str()),
            ("Message ID", &id),
            ("Sender", &self.sender),
            ("Receiver", &self.receivers.join(", ")),
            ("Timestamp", &time_text(self.timestamp)),
            ("Original Sender", &self.original_sender),
            ("Current Owner", &self.current_owners.join(", ")),
        ] {
            for part in ["**", key, ":** ", value, "\n"] {
                file.push_str(part);
            }
        }
        file.push('\n');
        file.push_str(MARKER);
        let bar = "━".repeat(BAR_CHARS);
        for (at, entry) in self.entries.iter().enumerate() {
            file.push('\n');
            let is_oldest = at + 1 == self.entries.len();
            if !is_oldest {
                file.push_str(&bar);
                file.push('\n');
            }
            file.push('\n');
            push_entry(&mut file, entry);
        }
        file
    }
}

fn push_entry(file: &mut String, entry: &Entry) {
    let to = entry.to.join(", ");
    let at = time_text(entry.at);
    for part in ["## ", &at, " - ", &entry.from, " to ", &to, " (", &entry.kind, ")\n\n"] {
        file.push_str(part);
    }
    for (at, line) in entry.text.trim().split('\n').enumerate() {
        if at != 0 {
            file.push('\n');
        }
        push_escaped(file, line);
    }
}
