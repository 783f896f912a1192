//! A thread as it stands in one Markdown file.
//!
//! **Invariant:** texts have no white space at either end, and names, types and the title are what
//! their place in the file can hold. [`Entry::new`] and [`Document::new`] see to it, so that what is
//! written is what is read back.

use tasuki_proto::{id::Timestamp, mail::MessageId, visible};

/// The version that files of this form name.
pub const FORMAT_VERSION: &str = "1.0";

/// What stands where a name is missing.
const NOBODY: &str = "?";

/// One letter of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    pub from: String,
    pub to: Vec<String>,
    /// BR, ACK, …; others wrote what they liked.
    pub kind: String,
    pub text: String,
}

impl Entry {
    pub fn new<S: AsRef<str>>(at: Timestamp, from: &str, to: &[S], kind: &str, text: &str) -> Self {
        Self { at, from: name(from), to: names(to), kind: kind_of(kind), text: text.trim().into() }
    }

    /// As people may be shown it: without what steers a terminal, hides, or turns words around.
    #[must_use]
    pub fn shown(&self) -> Self {
        let to: Vec<String> = self.to.iter().map(|it| shown(it)).collect();
        Self::new(self.at, &shown(&self.from), &to, &shown(&self.kind), &shown(&self.text))
    }
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Of the first entry, as a rule.
    pub kind: String,
    pub title: String,
    pub format_version: String,
    /// A file that a person wrote may have none.
    pub message_id: Option<MessageId>,
    /// Who wrote last, to whom, and when.
    pub sender: String,
    pub receivers: Vec<String>,
    pub timestamp: Timestamp,
    pub original_sender: String,
    pub current_owners: Vec<String>,
    /// The newest first, as in the file; at least one.
    pub entries: Vec<Entry>,
}

impl Document {
    /// What a thread's file says in its head follows from its entries, the newest of which comes
    /// first.
    ///
    /// # Panics
    ///
    /// A thread without entries is none.
    pub fn new(
        message_id: Option<MessageId>,
        kind: &str,
        title: &str,
        entries: Vec<Entry>,
    ) -> Self {
        let newest = entries.first().expect("a thread has an entry");
        let oldest = entries.last().expect("a thread has an entry");
        Self {
            kind: kind_of(kind),
            title: line(title),
            format_version: FORMAT_VERSION.to_owned(),
            message_id,
            sender: newest.from.clone(),
            receivers: newest.to.clone(),
            timestamp: newest.at,
            original_sender: oldest.from.clone(),
            current_owners: newest.to.clone(),
            entries,
        }
    }

    /// As people may be shown it. What a line of it could be taken for is what is seen, so this
    /// comes before it is written.
    #[must_use]
    pub fn shown(self) -> Self {
        let entries = self.entries.iter().map(Entry::shown).collect();
        Self::new(self.message_id, &shown(&self.kind), &shown(&self.title), entries)
    }

    /// The entry the thread began with.
    pub fn oldest(&self) -> &Entry {
        self.entries.last().expect("a document has an entry")
    }
}

fn shown(text: &str) -> String {
    visible::shown(text).0.into_owned()
}

/// A title in one line; its blanks stay.
pub(super) fn line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// A name as the head of an entry can hold it: in one line, and with no word `to` of its own.
pub(super) fn name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut was_to = false;
    for word in text.split_whitespace() {
        let is_to = word == "to";
        if !name.is_empty() {
            name.push(if is_to || was_to { '-' } else { ' ' });
        }
        name.push_str(word);
        was_to = is_to;
    }
    if name.is_empty() { NOBODY.to_owned() } else { name }
}

fn names<S: AsRef<str>>(all: &[S]) -> Vec<String> {
    // A comma stands between names.
    let all: Vec<String> = all.iter().map(|it| name(&it.as_ref().replace(',', " "))).collect();
    if all.is_empty() { vec![NOBODY.to_owned()] } else { all }
}

/// A type as the title and the head of an entry can hold it.
pub(super) fn kind_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace(" (", "(").replace(": ", ":")
}
