//! What became of an import of issues, for people and programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
};

use serde_json::{Value, json};
use tasuki_proto::reason::Reason;

use super::{
    super::{super::text, Failure},
    Outcome,
    files::Skipped,
    issue::Gathered,
};
use crate::counted::{agreeing, counted};

/// What was found, done and left.
#[derive(Debug, Default)]
pub(super) struct Report {
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
    continued: usize,
    known: usize,
    calls: usize,
    /// Issues that are otherwise at the broker.
    differ: Vec<String>,
    refused: Vec<(String, Failure)>,
    notes: Vec<(String, String)>,
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

    pub(super) fn add(&mut self, it: &Gathered) {
        let whole = &it.whole;
        self.issues += 1;
        self.tasks += whole.tasks.len();
        self.submissions += whole.submissions.len();
        self.messages += whole.messages.len();
        self.docs += whole.docs.len();
        self.deliveries += whole.deliveries.len();
        self.events += whole.events.len();
        self.notes.extend(it.notes.iter().map(|note| (whole.id.clone(), note.clone())));
    }

    /// Fails with what keeps the other issues out as well.
    pub(super) fn count(&mut self, id: String, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::New { parts } => {
                self.new += 1;
                self.calls += parts;
            }
            Outcome::Continued { parts } => {
                self.continued += 1;
                self.calls += parts;
            }
            Outcome::Known => self.known += 1,
            Outcome::Differs => self.differ.push(id),
            Outcome::Refused(why) => match why.as_reason() {
                Some(Reason::InvalidArgument | Reason::TooLarge | Reason::UnknownTask) => {
                    self.refused.push((id, why));
                }
                Some(_) | None => {
                    let mut why = why;
                    why.message += &format!(
                        " {} had been taken over by then; run it again for the others, nothing is \
                         taken twice.",
                        counted(self.new + self.continued, "issue")
                    );
                    return Err(why);
                }
            },
        }
        Ok(())
    }

    /// What the exit code has to say, once all is told.
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some((_, why)) = self.refused.first() {
            let mut why = why.clone();
            let refused = self.refused.len();
            let were = agreeing(refused, "was", "were");
            why.message = format!("{} {were} refused.", counted(refused, "issue"));
            return Some(why);
        }
        let left = self.skipped.len() + self.differ.len() + self.other_docs.len();
        (left != 0).then(|| {
            Failure::local(format!(
                "Of the files, issues and documents, {left} {} not taken over.",
                agreeing(left, "was", "were")
            ))
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "dry_run": self.is_dry,
            "workers": self.workers,
            "shared_docs": self.shared_docs,
            "issues": self.issues,
            "tasks": self.tasks,
            "submissions": self.submissions,
            "messages": self.messages,
            "docs": self.docs,
            "deliveries": self.deliveries,
            "events": self.events,
            "new": self.new,
            "continued": self.continued,
            "known": self.known,
            "calls": self.calls,
            "differ": self.differ,
            "other_docs": self.other_docs,
            "changed": self.changed,
            "merged": self.merged,
            "notes": self.notes.iter().map(|(id, note)| json!({
                "issue_id": id, "note": note,
            })).collect::<Vec<_>>(),
            "refused": self.refused.iter().map(|(id, why)| json!({
                "issue_id": id, "code": why.code(), "message": why.message,
            })).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|it| json!({
                "path": it.path, "why": it.why,
            })).collect::<Vec<_>>(),
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
                "{} new, {} completed, {} here already, {} here otherwise.",
                self.new,
                self.continued,
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
        let notes = self.notes.iter().map(|(id, note)| format!("{id}: {note}"));
        section(f, "Put in order:", notes)?;
        let differ = self.differ.iter().map(|id| format!("{id}, which is left as it is"));
        let docs = self.other_docs.iter().map(|it| format!("the shared document {it}"));
        section(f, "Here already, and not as it is there:", differ.chain(docs))?;
        let refused =
            self.refused.iter().map(|(id, why)| format!("{id} {} ({})", why.message, why.code()));
        section(f, "Refused:", refused)?;
        let skipped = self.skipped.iter().map(|it| format!("{} {}", it.path.display(), it.why));
        section(f, "Not taken over:", skipped)
    }
}

fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = String>,
) -> fmt::Result {
    for (at, line) in lines.enumerate() {
        if at == 0 {
            writeln!(f, "\n{title}")?;
        }
        writeln!(f, "  {}", text::line(&line))?;
    }
    Ok(())
}
