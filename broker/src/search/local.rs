//! An index in memory of one role's mail, for whoever has its words: a node whose mail is private.
//!
//! What a word is, how a query is read, what ranks how and which piece is shown are the broker's
//! own. Nothing of it is ever on a disk, and nobody but its maker knows of it. Everything here
//! blocks.

use tasuki_proto::id::{RoleId, Sequence, Timestamp};

use super::{
    index::{Extent, Found, Index, IndexError, SearchRequest},
    query::{Narrow, Query},
    schema::Doc,
};
use crate::rules::mailbox::ThreadNumber;

/// Why there is no answer: the engine failed, and what it made is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LocalError(String);

impl From<IndexError> for LocalError {
    fn from(error: IndexError) -> Self {
        Self(error.to_string())
    }
}

/// One entry, to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As its maker numbers threads.
    pub thread: ThreadNumber,
    /// From 1.
    pub entry: u32,
    /// Its thread's.
    pub subject: String,
    pub text: String,
    pub kind: String,
    pub sender: RoleId,
    pub receivers: Vec<RoleId>,
    pub at: Timestamp,
}

/// An index in memory.
#[derive(Debug)]
pub struct Local {
    index: Index,
    reader: RoleId,
}

impl Local {
    /// An empty one, of what `reader` may read.
    ///
    /// # Errors
    /// Of the engine.
    pub fn new(reader: RoleId) -> Result<Self, LocalError> {
        Ok(Self { index: Index::in_memory()?, reader })
    }

    /// Takes out what it has of the threads `again`, and adds `entries`. Searches see all of that
    /// or nothing.
    ///
    /// # Errors
    /// Of the engine.
    pub fn change(
        &self,
        again: &[ThreadNumber],
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), LocalError> {
        // A writer takes some 15 MB and two threads: none is kept for what changes now and then.
        let mut writer = self.index.writer(false)?;
        again.iter().for_each(|thread| writer.remove(*thread));
        for it in entries {
            writer.add(&Doc {
                thread: it.thread,
                entry: it.entry,
                subject: it.subject,
                text: it.text,
                kind: it.kind,
                sender: it.sender,
                receivers: it.receivers,
                readers: vec![self.reader.clone()],
                at: it.at,
            })?;
        }
        writer.commit(Extent::up_to(Sequence::NONE))?;
        writer.settle()?;
        Ok(())
    }

    /// Looks for entries.
    ///
    /// # Errors
    /// Of the engine.
    pub fn search(
        &self,
        query: &Query,
        narrow: Narrow,
        limit: usize,
        now: Timestamp,
    ) -> Result<Found, LocalError> {
        let (reader, query) = (self.reader.clone(), query.clone());
        Ok(self.index.search(&SearchRequest { reader, query, narrow, limit, now })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::parse;

    fn entry(thread: u32, entry: u32, subject: &str, text: &str) -> Entry {
        Entry {
            thread: ThreadNumber(thread),
            entry,
            subject: subject.to_owned(),
            text: text.to_owned(),
            kind: "BR".to_owned(),
            sender: "qa".parse().unwrap(),
            receivers: vec!["dev".parse().unwrap()],
            at: Timestamp::from_millis(1_000),
        }
    }

    #[test]
    fn what_is_added_and_changed_is_found_as_the_broker_would() {
        let local = Local::new("dev".parse().unwrap()).unwrap();
        let finds = |typed: &str| {
            let now = Timestamp::from_millis(2_000);
            let found = local.search(&parse(typed).unwrap(), Narrow::default(), 10, now).unwrap();
            let mut hits: Vec<_> = found.hits.iter().map(|it| (it.thread.0, it.entry)).collect();
            hits.sort_unstable();
            hits
        };
        assert_eq!(finds("login"), []);
        local
            .change(
                &[],
                [
                    entry(1, 1, "ログイン", "サーバーのログイン画面でエラーが出る"),
                    entry(1, 2, "ログイン", "call parseHttpHeader(x)"),
                    entry(2, 1, "crash", "std::vec::Vec overflows"),
                ],
            )
            .unwrap();
        assert_eq!(finds("画面 エラー"), [(1, 1)]);
        assert_eq!(finds("http_header from:qa"), [(1, 2)]);
        assert_eq!(finds("type:br -login"), [(1, 1), (1, 2), (2, 1)]);
        local.change(&[ThreadNumber(1)], [entry(1, 1, "s", "vec")]).unwrap();
        assert_eq!((finds("parseHttpHeader"), finds("vec")), (vec![], vec![(1, 1), (2, 1)]));
    }

    #[test]
    fn phrases_are_left_out_wherever_they_begin_to_match() {
        let local = Local::new("dev".parse().unwrap()).unwrap();
        let texts = ["one", "two", "an http header", "a header of http", "an http header again"];
        let numbered = (1..).zip(texts);
        local.change(&[], numbered.map(|(number, text)| entry(number, 1, "s", text))).unwrap();
        let finds = |typed: &str| {
            let now = Timestamp::from_millis(2_000);
            let found = local.search(&parse(typed).unwrap(), Narrow::default(), 10, now).unwrap();
            let mut hits: Vec<_> = found.hits.iter().map(|it| it.thread.0).collect();
            hits.sort_unstable();
            hits
        };
        for left_out in ["-\"http header\"", "-body:\"http header\"", "-http/head*"] {
            assert_eq!(finds(left_out), [1, 2, 4], "{left_out}");
            assert_eq!(finds(&format!("from:qa {left_out}")), [1, 2, 4], "{left_out}");
        }
        assert_eq!(finds("header -body:\"http header again\" -nowhere"), [3, 4]);
    }
}
