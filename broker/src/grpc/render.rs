//! Values of the domain to messages.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{LoopId, RoleId, Timestamp},
    wire,
};
use tonic::Status;

use super::{session::WorkspaceSession, status, swarm};
use crate::{
    journal::JournalError,
    rules::{
        Event,
        directory::{self, RoleSpec},
        mailbox, privacy,
        turn::{self, EntryBody, EntryKind, EntryMeta, Loop, Receipts, TurnStatus},
    },
    workspace::{Answer, View, WaitOutcome},
};

pub(super) fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

pub(super) fn text<T: ToString>(id: Option<&T>) -> String {
    id.map_or_else(String::new, ToString::to_string)
}

fn receipts(it: &Receipts) -> wire::Receipts {
    wire::Receipts {
        stored_ms: ms(it.stored),
        handed_ms: ms(it.handed),
        seen_ms: ms(it.seen),
        acted_ms: ms(it.acted),
        failed_ms: ms(it.failed),
        lapsed_ms: ms(it.lapsed),
    }
}

pub(super) fn loop_state(id: &LoopId, it: &Loop, view: &View<'_>) -> wire::Loop {
    let status = match (&it.holder, it.lease) {
        (None, _) => wire::LoopStatus::Completed,
        (Some(_), None) => wire::LoopStatus::Idle,
        (Some(_), Some(lease)) if lease.is_lapsed => wire::LoopStatus::Stalled,
        (Some(_), Some(_)) => wire::LoopStatus::Working,
    };
    wire::Loop {
        r#loop: id.to_string(),
        participants: it.participants.iter().map(ToString::to_string).collect(),
        round: it.round,
        turn: it.turn.get(),
        status: status.into(),
        holder: text(it.holder.as_ref()),
        turn_began_ms: it.began.as_millis(),
        lease_lapses_ms: it.lease.map_or(0, |lease| lease.lapses.as_millis()),
        quiet_since_ms: quiet_since(it, view),
        receipts: it.latest.as_ref().map(|latest| receipts(&latest.receipts)),
        entries: it.entries,
        waiting: view.waits.roles(id).map(ToString::to_string).collect(),
    }
}

/// Since when a turn's holder gave no sign of life; 0 while it does.
fn quiet_since(it: &Loop, view: &View<'_>) -> u64 {
    /// Signs of a connected agent come with the node's heartbeats; two may be missed.
    const QUIET_MS_MIN: u64 = 30_000;
    let Some(holder) = it.holder.as_ref().filter(|_| it.lease.is_some()) else { return 0 };
    if view.waits.is_waiting(holder) {
        return 0;
    }
    let sign = view.context.presence.role(holder).map_or(it.began, |sign| sign.at.max(it.began));
    if view.now.millis_since(sign) < QUIET_MS_MIN { 0 } else { sign.as_millis() }
}

impl WorkspaceSession {
    /// A history entry with its words.
    pub(super) fn entry(&self, facts: &EntryMeta) -> Result<wire::Entry, Status> {
        let (mut summary, mut instruction) = (String::new(), String::new());
        if facts.has_text {
            let body = self.body(&facts.loop_id, facts.number)?;
            (summary, instruction) = (body.summary, body.instruction);
        }
        Ok(wire::Entry {
            number: facts.number,
            kind: match facts.kind {
                EntryKind::Handover => wire::EntryKind::Handover,
                EntryKind::Reclaim => wire::EntryKind::Reclaim,
                EntryKind::RoundStart => wire::EntryKind::RoundStart,
            }
            .into(),
            round: facts.round,
            ended_turn: facts.ended.get(),
            turn: facts.next.as_ref().map_or(0, |(turn, _)| turn.get()),
            from: text(facts.from.as_ref()),
            to: text(facts.next.as_ref().map(|(_, to)| to)),
            summary,
            instruction,
            is_task_complete: facts.next.is_none(),
            reason: facts.reason.clone(),
            person: text(facts.person.as_ref()),
            node: text(facts.node.as_ref()),
            at_ms: ms(facts.receipts.stored),
            receipts: Some(receipts(&facts.receipts)),
            token: text(facts.token.as_ref()),
        })
    }

    /// The facts of entry `number` of a loop whose newest is `latest`.
    pub(super) fn facts(
        &self,
        loop_id: &LoopId,
        number: u64,
        latest: &EntryMeta,
    ) -> Result<EntryMeta, Status> {
        if number == latest.number {
            return Ok(latest.clone());
        }
        let after = self.body(loop_id, number + 1)?;
        let facts = after.before.filter(|facts| facts.number == number);
        facts.ok_or_else(|| {
            status::reading(&JournalError::Damaged {
                place: format!(
                    "workspace {}, loop {loop_id}, entry {}",
                    self.workspace,
                    number + 1
                ),
                what: format!("the facts of entry {number} are missing"),
            })
        })
    }

    /// What the journal keeps beside the records of entry `number`.
    fn body(&self, loop_id: &LoopId, number: u64) -> Result<EntryBody, Status> {
        self.bodies().entry(loop_id, number).map_err(|e| status::reading(&e))
    }

    /// The latest entry of `loop_id` that has words, from `latest` back: a reclaim has none, and
    /// who takes a turn over works from what its last holder was told.
    pub(super) fn latest_words(
        &self,
        latest: &EntryMeta,
    ) -> Result<(EntryMeta, Option<EntryMeta>), Status> {
        /// Reclaims in a row that are looked behind.
        const RECLAIMS_MAX: usize = 64;
        let mut facts = latest.clone();
        for _ in 0..RECLAIMS_MAX {
            if facts.kind != EntryKind::Reclaim || facts.number == 1 {
                break;
            }
            facts = self.facts(&facts.loop_id.clone(), facts.number - 1, latest)?;
        }
        let reclaim = (latest.kind == EntryKind::Reclaim).then(|| latest.clone());
        Ok((facts, reclaim))
    }

    /// What a wait ended with.
    pub(super) fn turn_answer(&self, told: &WaitOutcome) -> Result<wire::TurnAnswer, Status> {
        let Answer::Turn(it) = &told.answer else {
            unreachable!("a question about turns is answered with one")
        };
        let can_start = it.standing == TurnStatus::CanStart;
        let is_finished = it.standing == TurnStatus::Finished;
        let mut answer = wire::TurnAnswer {
            can_start,
            is_finished,
            still_waiting: !can_start && !is_finished,
            superseded: told.is_superseded,
            r#loop: it.loop_id.to_string(),
            round: it.round,
            turn: it.turn.get(),
            holder: text(it.holder.as_ref()),
            latest: None,
            reclaim: None,
            lease_lapses_ms: ms(it.lapses),
            sequence: told.sequence.get(),
        };
        if !answer.still_waiting
            && let Some(latest) = &it.latest
        {
            let (words, reclaim) = self.latest_words(latest)?;
            answer.latest = Some(self.entry(&words)?);
            answer.reclaim = reclaim.map(|facts| self.entry(&facts)).transpose()?;
        }
        Ok(answer)
    }
}

pub(super) fn role_spec(it: &RoleSpec) -> wire::RoleSpec {
    wire::RoleSpec {
        role: it.role.to_string(),
        toolsets: it.toolsets.iter().map(ToString::to_string).collect(),
    }
}

/// `None` for what belongs to no workspace that anybody can follow.
pub(super) fn event(event: &Event) -> Option<wire::Event> {
    use wire::event::Kind;
    let marked = |it: &turn::TurnMoment, receipt: &str| {
        Kind::TurnMarked(wire::TurnMarked {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            receipt: receipt.to_owned(),
        })
    };
    let kind = match event {
        Event::Directory(directory::Event::NodeRegistered(it)) => {
            Kind::NodeRegistered(wire::NodeRegistered {
                node: it.node.to_string(),
                epoch: it.epoch.get(),
                roles: it.roles.iter().map(role_spec).collect(),
                software: it.software.clone(),
            })
        }
        Event::Turn(turn::Event::LoopOpened(it)) => Kind::LoopOpened(wire::LoopOpened {
            r#loop: it.loop_id.to_string(),
            participants: it.participants.iter().map(ToString::to_string).collect(),
        }),
        Event::Turn(turn::Event::ParticipantsSet(it)) => {
            Kind::ParticipantsSet(wire::ParticipantsSet {
                r#loop: it.loop_id.to_string(),
                participants: it.participants.iter().map(ToString::to_string).collect(),
            })
        }
        Event::Turn(turn::Event::HandedOver(it)) => Kind::HandedOver(wire::HandedOver {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.as_ref().map_or(0, |next| next.turn.get()),
            from: it.from.to_string(),
            to: text(it.next.as_ref().map(|next| &next.to)),
            is_task_complete: it.next.is_none(),
        }),
        Event::Turn(turn::Event::TurnReclaimed(it)) => Kind::TurnReclaimed(wire::TurnReclaimed {
            r#loop: it.loop_id.to_string(),
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.turn.get(),
            from: it.from.to_string(),
            to: it.next.to.to_string(),
            reason: it.reason.clone(),
        }),
        Event::Turn(turn::Event::RoundStarted(it)) => Kind::RoundStarted(wire::RoundStarted {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            turn: it.next.turn.get(),
            to: it.next.to.to_string(),
        }),
        Event::Turn(turn::Event::TurnHanded(it)) => marked(it, "handed"),
        Event::Turn(turn::Event::TurnSeen(it)) => marked(it, "seen"),
        Event::Turn(turn::Event::TurnLapsed(it)) => Kind::TurnLapsed(wire::TurnLapsed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
        }),
        Event::Turn(turn::Event::LeaseRenewed(it)) => Kind::LeaseRenewed(wire::LeaseRenewed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            lapses_ms: it.lapses.as_millis(),
            is_grace: it.is_grace,
        }),
        Event::Mail(it) => mail_event(it)?,
        Event::Privacy(privacy::Event::RosterSet(it)) => {
            let roster = it.roster();
            Kind::RosterSet(wire::RosterSet { number: roster.number, is_on: roster.is_on })
        }
        Event::Privacy(privacy::Event::KeyPublished(it)) => {
            Kind::KeyPublished(wire::KeyPublished { node: it.key.node.to_string() })
        }
        Event::Swarm(it) => swarm::event(it)?,
        // The feed tells nothing of these.
        Event::Access(_) => return None,
    };
    Some(wire::Event { kind: Some(kind) })
}

fn mail_event(event: &mailbox::Event) -> Option<wire::event::Kind> {
    use wire::event::Kind;
    let marked = |message_id: String, role: &RoleId, through, receipt: &str| {
        let (role, receipt) = (role.to_string(), receipt.to_owned());
        Kind::MailMarked(wire::MailMarked { message_id, role, through, receipt })
    };
    Some(match event {
        mailbox::Event::Sent(it) => Kind::MailSent(wire::MailSent {
            message_id: it.thread.to_string(),
            entry: it.entry,
            sender: it.sender.to_string(),
            receivers: it.to.iter().map(ToString::to_string).collect(),
            r#type: mailbox::kind_name(it.kind).to_owned(),
        }),
        mailbox::Event::Moved(it) => Kind::MailMoved(wire::MailMoved {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            r#box: it.to.to_wire().into(),
        }),
        mailbox::Event::Handed(it) if it.is_dead => Kind::MailDied(wire::MailDied {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            is_revived: false,
            unseen: {
                let unseen = it.unseen.iter().map(|(sender, entry)| wire::MailUnseen {
                    sender: sender.to_string(),
                    entry: *entry,
                });
                unseen.collect()
            },
        }),
        mailbox::Event::Handed(it) => marked(it.thread.to_string(), &it.role, it.through, "handed"),
        mailbox::Event::Seen(it) => marked(it.thread.to_string(), &it.role, it.through, "seen"),
        mailbox::Event::Lapsed(it) => Kind::MailLapsed(wire::MailLapsed {
            message_id: it.thread.to_string(),
            roles: it.roles.iter().map(ToString::to_string).collect(),
            entry: it.entry,
            sender: it.sender.as_ref().map(ToString::to_string).unwrap_or_default(),
        }),
        mailbox::Event::Revived(it) => Kind::MailDied(wire::MailDied {
            message_id: it.thread.to_string(),
            role: it.role.to_string(),
            is_revived: true,
            unseen: Vec::new(),
        }),
        mailbox::Event::Imported(it) => Kind::MailImported(wire::MailImported {
            message_id: it.thread.to_string(),
            entries: it.first + u32::try_from(it.entries.len()).unwrap_or(u32::MAX) - 1,
            participants: {
                let roles: BTreeSet<&RoleId> = event.roles().into_iter().collect();
                roles.into_iter().map(ToString::to_string).collect()
            },
        }),
        mailbox::Event::Opened(role) => {
            Kind::MailboxOpened(wire::MailboxOpened { role: role.to_string() })
        }
        mailbox::Event::Closed(role) => {
            Kind::MailboxClosed(wire::MailboxClosed { role: role.to_string() })
        }
        mailbox::Event::Kept(_) => return None,
    })
}
