//! What the index holds of an entry. Words are in it to be found, never to be shown: those are
//! read from the journal.

use tantivy::{
    TantivyDocument,
    schema::{FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{TextAnalyzer, TokenizerManager},
};
use tasuki_proto::id::{RoleId, Timestamp};

use super::text::{TERM_BYTES_MAX, TextTokenizer, fold};
use crate::rules::mailbox::ThreadNumber;

/// Of fields, terms, or what they mean. An index of another version is made anew.
pub(super) const VERSION: u32 = 1;

const TEXT: &str = "tasuki_text";
const NAME: &str = "raw";

/// One entry of a thread, to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doc {
    pub(super) thread: ThreadNumber,
    /// From 1.
    pub(super) entry: u32,
    /// Its thread's.
    pub(super) subject: String,
    pub(super) text: String,
    pub(super) kind: String,
    pub(super) sender: RoleId,
    pub(super) receivers: Vec<RoleId>,
    /// Everyone with a copy of the thread: who may find it.
    pub(super) readers: Vec<RoleId>,
    pub(super) at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) thread: Field,
    pub(super) entry: Field,
    pub(super) at: Field,
    pub(super) subject: Field,
    pub(super) body: Field,
    pub(super) kind: Field,
    pub(super) sender: Field,
    pub(super) receiver: Field,
    pub(super) reader: Field,
}

/// Names of the columns that are read by name.
pub(super) const THREAD: &str = "thread";
pub(super) const ENTRY: &str = "entry";
pub(super) const AT: &str = "at";

impl Fields {
    pub(super) fn schema() -> (Schema, Self) {
        let mut schema = Schema::builder();
        let words = || {
            let indexing = TextFieldIndexing::default()
                .set_tokenizer(TEXT)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions);
            TextOptions::default().set_indexing_options(indexing)
        };
        let name = || {
            let indexing = TextFieldIndexing::default()
                .set_tokenizer(NAME)
                .set_fieldnorms(false)
                .set_index_option(IndexRecordOption::Basic);
            TextOptions::default().set_indexing_options(indexing)
        };
        let fields = Self {
            thread: schema.add_u64_field(THREAD, INDEXED | FAST),
            entry: schema.add_u64_field(ENTRY, FAST),
            at: schema.add_u64_field(AT, FAST),
            subject: schema.add_text_field("subject", words()),
            body: schema.add_text_field("body", words()),
            kind: schema.add_text_field("type", name()),
            sender: schema.add_text_field("sender", name()),
            receiver: schema.add_text_field("receiver", name()),
            reader: schema.add_text_field("reader", name()),
        };
        (schema.build(), fields)
    }

    pub(super) fn tokenizers() -> TokenizerManager {
        let tokenizers = TokenizerManager::default();
        tokenizers.register(TEXT, TextAnalyzer::from(TextTokenizer));
        tokenizers
    }

    pub(super) fn document(&self, doc: &Doc) -> TantivyDocument {
        let mut it = TantivyDocument::new();
        it.add_u64(self.thread, doc.thread.0.into());
        it.add_u64(self.entry, doc.entry.into());
        it.add_u64(self.at, doc.at.as_millis());
        it.add_text(self.subject, &doc.subject);
        it.add_text(self.body, &doc.text);
        it.add_text(self.kind, any_case(&doc.kind));
        for (field, role) in [(self.sender, &doc.sender)]
            .into_iter()
            .chain(doc.receivers.iter().map(|role| (self.receiver, role)))
        {
            it.add_text(field, exactly(role));
            it.add_text(field, any_case(role.as_str()));
        }
        for role in &doc.readers {
            it.add_text(self.reader, role.as_str());
        }
        it
    }
}

/// The term of a role as it is written.
pub(super) fn exactly(role: &RoleId) -> String {
    format!("={role}")
}

/// The term of a name in any case.
pub(super) fn any_case(name: &str) -> String {
    let mut term = "~".to_owned();
    fold(name, TERM_BYTES_MAX, &mut term);
    term
}
