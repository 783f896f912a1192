//! What became of an import of issues, for people and programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
};

use serde::Serialize;
use tasuki_proto::{
    counted::{agreeing, counted},
    reason::Reason,
};

use super::{
    super::{
        Failure,
        refusals::{Note, Refusals, broken_off, section},
    },
    Outcome,
    files::Skipped,
    issue::ReadIssue,
};

/// What was found, done and left.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    #[serde(rename = "dry_run")]
    is_dry: bool,
    pub workers: usize,
    pub shared_docs: usize,
    issues: usize,
    tasks: usize,
    submissions: usize,
    messages: usize,
    docs: usize,
    deliveries: usize,
    events: usize,
    new: usize,
    known: usize,
    /// Issues that are otherwise at the broker.
    differ: Vec<String>,
    refused: Refusals,
    notes: Vec<Note>,
    /// Shared documents that are otherwise at the broker.
    pub other_docs: Vec<String>,
    /// Names and ids, old and new.
    pub changed: BTreeMap<String, String>,
    /// Roles that several became, with these.
    pub merged: BTreeMap<String, BTreeSet<String>>,
    pub skipped: Vec<Skipped>,
}

impl Report {
    pub(super) fn new(is_dry: bool) -> Self {
        Self { is_dry, ..Self::default() }
    }

    pub(super) fn add(&mut self, it: &ReadIssue) {
        let whole = &it.request;
        self.issues += 1;
        self.tasks += whole.tasks.len();
        self.submissions += whole.submissions.len();
        self.messages += whole.messages.len();
        // One more is the history, which is told by its events.
        self.docs += whole.docs.len() - 1 + it.later.len();
        self.deliveries += whole.deliveries.len();
        self.events += it.events;
        let notes = it.notes.iter().map(|note| Note { id: it.id().to_owned(), note: note.clone() });
        self.notes.extend(notes);
    }

    /// Fails with what keeps the other issues out as well.
    pub(super) fn count(&mut self, id: String, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::New => self.new += 1,
            Outcome::Known => self.known += 1,
            Outcome::Differs => self.differ.push(id),
            Outcome::Refused(why) => match why.as_reason() {
                Some(Reason::InvalidArgument | Reason::TooLarge | Reason::UnknownTask) => {
                    self.refused.push(id, why);
                }
                Some(_) | None => {
                    return Err(broken_off(why, self.new, "issue"));
                }
            },
        }
        Ok(())
    }

    /// What the exit code has to say, once all is told.
    pub(super) fn failure(&self) -> Option<Failure> {
        let left = self.skipped.len() + self.differ.len() + self.other_docs.len();
        self.refused.failure("issue").or_else(|| {
            (left != 0).then(|| {
                let were = agreeing(left, "was", "were");
                Failure::local(format!(
                    "Of the files, issues and documents, {left} {were} not taken over."
                ))
            })
        })
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Issues: {}, with {}, {}, {}, {}, {}, {}. Workers: {}. Shared documents: {}.",
            self.issues,
            counted(self.tasks, "task"),
            counted(self.submissions, "submission"),
            counted(self.messages, "message"),
            counted(self.docs, "document"),
            counted(self.deliveries, "delivery"),
            counted(self.events, "event"),
            self.workers,
            self.shared_docs
        )?;
        if self.is_dry {
            writeln!(f, "Nothing was sent.")?;
        } else {
            writeln!(
                f,
                "{} new, {} here already, {} here otherwise.",
                self.new,
                self.known,
                self.differ.len()
            )?;
        }
        writeln!(f, "Locks, claims, next steps and inboxes do not come over.")?;
        let changed = self.changed.iter().map(|(old, new)| format!("{old} is {new} here"));
        section(f, "Called otherwise:", changed)?;
        let merged = self.merged.iter().map(|(role, names)| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{role} is {}", names.join(" and "))
        });
        section(f, "Several who are one here, unless --role OLD=NEW keeps them apart:", merged)?;
        section(f, "Put in order:", &self.notes)?;
        let differ = self.differ.iter().map(|id| format!("{id}, which is left as it is"));
        let docs = self.other_docs.iter().map(|it| format!("the shared document {it}"));
        section(f, "Here already, and not as it is there:", differ.chain(docs))?;
        section(f, "Refused:", self.refused.lines())?;
        let skipped = self.skipped.iter().map(|it| format!("{} {}", it.path.display(), it.why));
        section(f, "Not taken over:", skipped)
    }
}
