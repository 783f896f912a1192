//! Documents: shared ones, those of an issue, those of a task.
//!
//! Each write is a version, from 1; the words of each are kept. A name is no path, so none leads
//! anywhere else.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    limits::{DOC_VERSIONS_MAX, DOCS_MAX},
    swarm::DocName,
};

use super::{
    IssueEventKind, Rejection, Reply, Swarm,
    check::DecisionBuilder,
    event::{DocWritten, Event},
    words::DocPlace,
};
use crate::{hash::Hash, rules::rejection::listed};

/// The documents of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Docs {
    #[n(0)]
    pub by_name: BTreeMap<DocName, Doc>,
}

/// The newest version of a document.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Doc {
    /// From 1.
    #[n(0)]
    pub version: u32,
    #[n(1)]
    pub content: Hash,
    #[n(2)]
    pub bytes: u32,
    #[n(3)]
    pub at: Timestamp,
    /// Who wrote it; `None` where a person did.
    #[n(4)]
    pub by: Option<RoleId>,
    /// Versions before this one were removed.
    #[n(5)]
    pub oldest: Option<u32>,
}

impl Doc {
    /// The oldest version that is kept.
    pub fn oldest(&self) -> u32 {
        self.oldest.unwrap_or(1)
    }
}

impl Docs {
    pub fn has(&self, name: &DocName) -> bool {
        self.by_name.contains_key(name)
    }

    /// The document of this name.
    ///
    /// # Errors
    /// [`Rejection::UnknownDoc`] names those there are.
    pub fn get(&self, name: &DocName) -> Result<&Doc, Rejection> {
        self.by_name.get(name).ok_or_else(|| Rejection::UnknownDoc {
            name: name.to_string(),
            known: listed(self.by_name.keys().map(DocName::as_str)),
        })
    }

    /// The next version; `Err` with the present one where nothing changes.
    pub(super) fn next(&self, name: &DocName, content: &str) -> Result<NextVersion, Rejection> {
        let hash = Hash::of(content.as_bytes());
        let version = match self.by_name.get(name) {
            Some(doc) if doc.content == hash => return Ok(NextVersion::Same(doc.version)),
            Some(doc) => doc.version + 1,
            None if DOCS_MAX <= self.by_name.len() => return Err(Rejection::TooManyDocs),
            None => 1,
        };
        if DOC_VERSIONS_MAX < version {
            return Err(Rejection::TooManyDocs);
        }
        let bytes = u32::try_from(content.len()).expect("at most DOC_BYTES_MAX");
        Ok(NextVersion::New(DocWritten { name: name.clone(), version, content: hash, bytes }))
    }

    pub(super) fn written(&mut self, now: Timestamp, by: Option<&RoleId>, it: &DocWritten) {
        let doc = Doc {
            version: it.version,
            content: it.content,
            bytes: it.bytes,
            at: now,
            by: by.cloned(),
            oldest: self.by_name.get(&it.name).and_then(|doc| doc.oldest),
        };
        self.by_name.insert(it.name.clone(), doc);
    }
}

/// What a write makes of a document.
pub(super) enum NextVersion {
    Same(u32),
    New(DocWritten),
}

impl Swarm {
    /// The documents of a place.
    ///
    /// # Errors
    /// When there is no such issue or task.
    pub fn docs(&self, place: DocPlace) -> Result<&Docs, Rejection> {
        match place {
            DocPlace::Shared => Ok(&self.shared_docs),
            DocPlace::Issue(issue) => Ok(&self.issue(issue)?.docs),
            DocPlace::Task(issue, task) => Ok(&self.task(issue, task)?.1.docs),
        }
    }

    pub(super) fn decide_doc(
        &self,
        draft: &mut DecisionBuilder<'_>,
        place: DocPlace,
        (name, content): (&DocName, &str),
        as_claimant: bool,
    ) -> Result<Reply, Rejection> {
        let doc = match self.docs(place)?.next(name, content)? {
            NextVersion::Same(version) => return Ok(draft.repeat(Reply::Doc { version })),
            NextVersion::New(doc) => doc,
        };
        let version = doc.version;
        let (name, content) = (name.clone(), content.to_owned());
        draft.keep_doc(place, name, version, content);
        match place {
            DocPlace::Shared => draft.push(Event::SharedDocWritten(doc)),
            DocPlace::Issue(issue) => {
                self.open_issue(issue)?;
                draft.happened(issue, IssueEventKind::DocWritten { task: None, doc });
            }
            DocPlace::Task(issue, task) => {
                let (_, state) = self.open_task(issue, task)?;
                // Whoever lost its claim writes nothing about the task as if it had it.
                let has_lost =
                    |role: &RoleId| state.former.as_ref().is_some_and(|it| it.worker == *role);
                if as_claimant || draft.by.role().is_some_and(has_lost) {
                    state.claim_of(draft.role()?, FencingToken::NONE)?;
                }
                draft.happened(issue, IssueEventKind::DocWritten { task: Some(task), doc });
            }
        }
        Ok(Reply::Doc { version })
    }
}
