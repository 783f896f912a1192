//! What became of an import of mailboxes, for people and programs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
};

use serde::Serialize;
use tasuki_proto::{
    counted::{agreeing, counted},
    limits::TEXT_BYTES_MAX,
    mail::MessageId,
};

use super::{
    super::text,
    Failure,
    filebox::is_of_this_thread,
    refusals::{Note, Refusals, broken_off, section},
};
use crate::filebox::{Entry, Skipped};

/// What became of one thread.
#[derive(Debug)]
pub(super) enum Outcome {
    New {
        sent: usize,
    },
    Extended {
        sent: usize,
    },
    Known,
    /// Nothing of it was to be sent.
    Untold,
    Refused(MessageId, Failure),
}

/// What was found, done and left.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    #[serde(rename = "dry_run")]
    pub(super) is_dry: bool,
    pub(super) mailboxes: usize,
    pub(super) files: usize,
    pub(super) threads: usize,
    pub(super) entries: usize,
    pub(super) new: usize,
    pub(super) extended: usize,
    pub(super) known: usize,
    pub(super) sent: usize,
    /// The roles of agents that are called otherwise.
    pub(super) roles: BTreeMap<String, String>,
    pub(super) notes: Vec<Note>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) refused: Refusals,
    pub(super) skipped: Vec<Skipped>,
    /// Roles that take part and have no mailbox there.
    pub(super) absent: BTreeSet<String>,
}

/// An entry that is too large.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    id: String,
    written_ms: u64,
    bytes: usize,
}

impl Report {
    /// A thread of so many entries, and what was found in it.
    pub(super) fn add(
        &mut self,
        id: MessageId,
        entries: usize,
        notes: Vec<(MessageId, String)>,
        too_large: &[Entry],
    ) {
        self.entries += entries;
        self.notes.extend(notes.into_iter().map(|(id, note)| Note { id: id.to_string(), note }));
        self.left_out.extend(too_large.iter().map(|entry| LeftOut {
            id: id.to_string(),
            written_ms: entry.at.as_millis(),
            bytes: entry.text.len(),
        }));
    }

    /// Fails with what keeps the other threads out as well.
    pub(super) fn count(&mut self, outcome: Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::New { sent } => {
                self.new += 1;
                self.sent += sent;
            }
            Outcome::Extended { sent } => {
                self.extended += 1;
                self.sent += sent;
            }
            Outcome::Known => self.known += 1,
            Outcome::Untold => {}
            Outcome::Refused(id, why) if is_of_this_thread(&why) => {
                self.refused.push(id.to_string(), why);
            }
            Outcome::Refused(_, why) => {
                return Err(broken_off(why, self.new + self.extended, "thread"));
            }
        }
        self.threads += 1;
        Ok(())
    }

    /// What the exit code has to say, once all is told.
    pub(super) fn failure(&self) -> Option<Failure> {
        let lost = self.skipped.iter().filter(|it| it.is_loss).count() + self.left_out.len();
        self.refused.failure("thread").or_else(|| {
            (lost != 0).then(|| {
                let were = agreeing(lost, "was", "were");
                Failure::local(format!("Of the files and entries, {lost} {were} not taken over."))
            })
        })
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} in {} and {}: {}.",
            counted(self.files, "file"),
            counted(self.mailboxes, "mailbox"),
            counted(self.threads, "thread"),
            counted(self.entries, "entry")
        )?;
        if self.is_dry {
            writeln!(f, "Nothing was sent.")?;
        } else {
            writeln!(
                f,
                "{} new, {} with more in them, {} there already; {} sent.",
                self.new,
                self.extended,
                self.known,
                counted(self.sent, "entry")
            )?;
        }
        for (name, role) in &self.roles {
            writeln!(f, "{} is the role {role}.", text::line(name))?;
        }
        if !self.absent.is_empty() {
            let names: Vec<&str> = self.absent.iter().map(String::as_str).collect();
            let names = text::line(&names.join(", "));
            writeln!(f, "No mailbox there is of {names}: copies of theirs come into done.")?;
        }
        section(f, "Put in order:", &self.notes)?;
        let left_out = self.left_out.iter().map(|LeftOut { id, written_ms, bytes }| {
            let at = text::time(*written_ms);
            format!("{id} entry of {at} has {bytes} bytes; the limit is {TEXT_BYTES_MAX}")
        });
        section(f, "Left out:", left_out)?;
        section(f, "Refused:", self.refused.lines())?;
        let skipped = self.skipped.iter().map(|it| format!("{} {}", it.path.display(), it.why));
        section(f, "Not read:", skipped)
    }
}
