//! What became of an import, for people and programs.

use std::{
    collections::BTreeSet,
    fmt::{self, Display},
};

use serde_json::{Value, json};
use tasuki_proto::{id::Timestamp, limits::TEXT_BYTES_MAX, mail::MessageId};

use super::{super::text, Failure, filebox::is_of_this_thread, roles::Roles};
use crate::{
    counted::{agreeing, counted},
    filebox::{Entry, Skipped},
};

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
#[derive(Debug)]
pub(super) struct Report {
    is_dry: bool,
    mailboxes: usize,
    files: usize,
    threads: usize,
    entries: usize,
    new: usize,
    extended: usize,
    known: usize,
    sent: usize,
    roles: Vec<(String, String)>,
    notes: Vec<(MessageId, String)>,
    left_out: Vec<(MessageId, Timestamp, usize)>,
    refused: Vec<(MessageId, Failure)>,
    skipped: Vec<Skipped>,
    /// Roles that take part and have no mailbox there.
    pub(super) absent: BTreeSet<String>,
}

impl Report {
    pub(super) fn new(
        mailboxes: usize,
        files: usize,
        roles: &Roles,
        skipped: Vec<Skipped>,
        is_dry: bool,
    ) -> Self {
        let roles = roles.changed().map(|(name, role)| (name.to_owned(), role.to_string()));
        Self {
            is_dry,
            mailboxes,
            files,
            threads: 0,
            entries: 0,
            new: 0,
            extended: 0,
            known: 0,
            sent: 0,
            roles: roles.collect(),
            notes: Vec::new(),
            left_out: Vec::new(),
            refused: Vec::new(),
            skipped,
            absent: BTreeSet::new(),
        }
    }

    /// A thread of so many entries, and what was found in it.
    pub(super) fn add(
        &mut self,
        id: MessageId,
        entries: usize,
        notes: Vec<(MessageId, String)>,
        too_large: &[Entry],
    ) {
        self.entries += entries;
        self.notes.extend(notes);
        self.left_out.extend(too_large.iter().map(|it| (id, it.at, it.text.len())));
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
            Outcome::Refused(id, why) if is_of_this_thread(&why) => self.refused.push((id, why)),
            Outcome::Refused(_, mut why) => {
                why.message += &format!(
                    " {} had been taken over by then; run it again for the others, nothing is taken \
                     twice.",
                    counted(self.new + self.extended, "thread")
                );
                return Err(why);
            }
        }
        self.threads += 1;
        Ok(())
    }

    /// What the exit code has to say, once all is told.
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some((_, why)) = self.refused.first() {
            let mut why = why.clone();
            let refused = self.refused.len();
            let were = agreeing(refused, "was", "were");
            why.message = format!("{} {were} refused.", counted(refused, "thread"));
            return Some(why);
        }
        let lost = self.skipped.iter().filter(|it| it.is_loss).count() + self.left_out.len();
        (lost != 0).then(|| {
            Failure::local(format!(
                "Of the files and entries, {lost} {} not taken over.",
                agreeing(lost, "was", "were")
            ))
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let roles = self.roles.iter().map(|(name, role)| (name.clone(), json!(role)));
        json!({
            "dry_run": self.is_dry,
            "mailboxes": self.mailboxes,
            "files": self.files,
            "threads": self.threads,
            "entries": self.entries,
            "new": self.new,
            "extended": self.extended,
            "known": self.known,
            "sent": self.sent,
            "absent": self.absent,
            "roles": roles.collect::<serde_json::Map<_, _>>(),
            "notes": self.notes.iter().map(|(id, note)| json!({
                "message_id": id.to_string(), "note": note,
            })).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(|(id, at, bytes)| json!({
                "message_id": id.to_string(), "written_ms": at.as_millis(), "bytes": bytes,
            })).collect::<Vec<_>>(),
            "refused": self.refused.iter().map(|(id, why)| json!({
                "message_id": id.to_string(), "code": why.code(), "message": why.message,
            })).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(|it| json!({
                "path": it.path, "why": it.why, "is_loss": it.is_loss,
            })).collect::<Vec<_>>(),
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
        section(f, "Put in order:", self.notes.iter().map(|(id, note)| format!("{id} {note}")))?;
        let left_out = self.left_out.iter().map(|(id, at, bytes)| {
            let at = text::time(at.as_millis());
            format!("{id} entry of {at} has {bytes} bytes; the limit is {TEXT_BYTES_MAX}")
        });
        section(f, "Left out:", left_out)?;
        let refused =
            self.refused.iter().map(|(id, why)| format!("{id} {} ({})", why.message, why.code()));
        section(f, "Refused:", refused)?;
        let skipped = self.skipped.iter().map(|it| format!("{} {}", it.path.display(), it.why));
        section(f, "Not read:", skipped)
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
