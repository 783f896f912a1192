//! Bodies read back from a journal as what they are, each checked to be there and to be one.
//!
//! The one place where what callers, listings and the search index read comes from. A body that a
//! record names and that is missing or something else is damage: a named error, never skipped.
//!
//! A read is of memory or of the page cache as a rule, and blocks whoever asks: a few microseconds
//! an entry. Who reads many at once says so to its runtime.

use bytes::Bytes;
use tasuki_proto::{
    id::{LoopId, WorkspaceId},
    mail::MessageId,
};

use super::{BodyKey, Journal, JournalError, codec};
use crate::rules::{board, mailbox, run, swarm, turn};

/// The bodies of one workspace.
#[derive(Debug, Clone, Copy)]
pub struct Bodies<'a> {
    journal: &'a dyn Journal,
    workspace: &'a WorkspaceId,
}

impl<'a> Bodies<'a> {
    pub fn new(journal: &'a dyn Journal, workspace: &'a WorkspaceId) -> Self {
        Self { journal, workspace }
    }

    /// Entry `number` of a history.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn entry(self, loop_id: &LoopId, number: u64) -> Result<turn::EntryBody, JournalError> {
        let key = codec::entry_key(loop_id, number);
        let decoded = codec::decode_entry(loop_id, number, &self.kept(&key)?);
        decoded.map_err(|e| self.damaged(&key, e.to_string()))
    }

    /// Entry `number` of a thread with its words.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn letter(
        self,
        thread: MessageId,
        number: u32,
    ) -> Result<mailbox::EntryBody, JournalError> {
        let (mut body, place) = self.mail(thread, number)?;
        if place == codec::MailText::Apart {
            let key = codec::mail_text_key(thread, number);
            body.text = String::from_utf8(self.kept(&key)?.to_vec())
                .map_err(|_| self.damaged(&key, "is not text".to_owned()))?;
        }
        Ok(body)
    }

    /// The same without a text that is kept apart.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn letter_facts(
        self,
        thread: MessageId,
        number: u32,
    ) -> Result<mailbox::EntryBody, JournalError> {
        Ok(self.mail(thread, number)?.0)
    }

    /// An attached file.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn file(self, hash: &mailbox::ContentHash) -> Result<Bytes, JournalError> {
        self.kept(&codec::file_key(hash))
    }

    /// What was said about issues and deliveries, where `place` is; what is said in it does not
    /// count.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn words(self, place: swarm::Words) -> Result<swarm::Words, JournalError> {
        let key = codec::swarm_key(&place);
        let decoded = codec::decode_words(&place, &self.kept(&key)?);
        decoded.map_err(|e| self.damaged(&key, e.to_string()))
    }

    /// What was said in runs, where `place` is; what is said in it does not count.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn run_words(self, place: run::Words) -> Result<run::Words, JournalError> {
        let key = codec::run_key(&place);
        let decoded = codec::decode_run_words(&place, &self.kept(&key)?);
        decoded.map_err(|e| self.damaged(&key, e.to_string()))
    }

    /// What a checkpoint of a board has of a channel, as JSON.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn board_value(self, place: &board::ValuePlace) -> Result<String, JournalError> {
        let key = codec::board_key(place);
        let decoded = codec::decode_board_value(place, &self.kept(&key)?);
        decoded.map(|it| it.json).map_err(|e| self.damaged(&key, e.to_string()))
    }

    /// A result that is stored at a checkpoint of a board, as JSON.
    ///
    /// # Errors
    /// When it is not there or cannot be read.
    pub fn board_result(self, place: &board::ResultPlace) -> Result<String, JournalError> {
        let key = codec::board_result_key(place);
        let decoded = codec::decode_board_result(place, &self.kept(&key)?);
        decoded.map(|it| it.json).map_err(|e| self.damaged(&key, e.to_string()))
    }

    fn mail(
        self,
        thread: MessageId,
        number: u32,
    ) -> Result<(mailbox::EntryBody, codec::MailText), JournalError> {
        let key = codec::mail_key(thread, number);
        let decoded = codec::decode_mail(thread, number, &self.kept(&key)?);
        decoded.map_err(|e| self.damaged(&key, e.to_string()))
    }

    fn kept(self, key: &BodyKey) -> Result<Bytes, JournalError> {
        let bytes = self.journal.body(self.workspace, key)?;
        bytes.ok_or_else(|| self.damaged(key, "missing".to_owned()))
    }

    fn damaged(self, key: &BodyKey, what: String) -> JournalError {
        let place = format!("workspace {}, body {}", self.workspace, key.0);
        JournalError::Damaged { place, what }
    }
}
