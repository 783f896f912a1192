//! All of it, as a snapshot holds it.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::RoleId,
    stored::{self, swarm_state},
    swarm::{DeliveryId, DocName, IssueId, LockId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{
    super::{CodecError, hash, id, optional, snapshot::Pieces, text},
    at, decode_keys, decode_ref, decode_settings, encode_keys, encode_ref, encode_settings,
    event::{decode_doc, encode_doc},
    issue_event::{decode_override, encode_override},
    named, optional_at, optional_bytes, optional_stamp, stamp, stamp_bytes, task,
    task_state::{decode_task, encode_task},
    token,
};
use crate::{
    hash::Hash,
    rules::swarm::{
        Attached, Delivery, DeliveryClaim, DeliveryState, DeliveryVerdict, Doc, DocWritten, Docs,
        Import, Issue, IssueState, Item, ItemKind, ItemState, Lease, Parts, Swarm, Total, Verdict,
        Worker,
        lock::{Ended, Forced, Lock},
    },
};

/// Tasks, and items for the lead, that one message of an issue has.
const TASKS_AT_ONCE: usize = 64;
const ITEMS_AT_ONCE: usize = 1024;

/// Nothing where nothing of it was ever used.
pub(in crate::journal::codec) fn encode_state<E>(
    it: &Swarm,
    pieces: &mut Pieces<impl FnMut(Bytes) -> Result<(), E>>,
) -> Result<(), E> {
    if *it == Swarm::default() {
        return Ok(());
    }
    let worker = |(role, it): (&RoleId, &Worker)| swarm_state::Worker {
        role: role.to_string(),
        joined_ms: it.joined.as_millis(),
    };
    let given_back = |(lock, role): &(LockId, RoleId)| swarm_state::GivenBack {
        lock: stamp_bytes(lock.0),
        role: role.to_string(),
    };
    let forced = |it: &Ended| {
        let Forced { by, reason } = it.forced.clone()?;
        Some(swarm_state::ForcedLock { lock: stamp_bytes(it.lock.0), by, reason })
    };
    let base = stored::SwarmState {
        settings: Some(encode_settings(&it.settings)),
        workers: it.workers.iter().map(worker).collect(),
        shared_docs: encode_docs(&it.shared_docs),
        ended_locks: it.locks.ended().map(|it| stamp_bytes(it.lock.0)).collect(),
        given_back: it.locks.given_back().map(given_back).collect(),
        token: it.token().get(),
        next_tail: it.next_tail(),
        forced_locks: it.locks.ended().filter_map(forced).collect(),
        ..stored::SwarmState::default()
    };
    pieces.add(base.encoded_len(), |piece| piece.swarm = Some(base))?;
    for issue in it.issues().values() {
        let (first, rests) = encode_issue(issue);
        pieces.add(first.encoded_len(), |piece| own(piece).issues.push(first))?;
        for rest in rests {
            pieces.add(rest.encoded_len(), |piece| own(piece).rests.push(rest))?;
        }
    }
    for it in it.deliveries().values() {
        let it = encode_delivery(it);
        pieces.add(it.encoded_len(), |piece| own(piece).deliveries.push(it))?;
    }
    for it in it.locks.iter() {
        let it = encode_lock(it);
        pieces.add(it.encoded_len(), |piece| own(piece).locks.push(it))?;
    }
    Ok(())
}

fn own(piece: &mut stored::Snapshot) -> &mut stored::SwarmState {
    piece.swarm.get_or_insert_default()
}

/// What the pieces of a snapshot said of issues and locks so far.
#[derive(Default)]
pub(in crate::journal::codec) struct Decoding {
    is_there: bool,
    has_settings: bool,
    parts: Parts,
}

impl Decoding {
    pub(in crate::journal::codec) fn piece(
        &mut self,
        it: Option<stored::SwarmState>,
    ) -> Result<(), CodecError> {
        let Some(it) = it else { return Ok(()) };
        self.is_there = true;
        let parts = &mut self.parts;
        if let Some(settings) = &it.settings {
            self.has_settings = true;
            parts.settings = decode_settings(settings);
            (parts.token, parts.next_tail) = (token(it.token), it.next_tail);
        }
        for worker in &it.workers {
            let joined = Worker { joined: at(worker.joined_ms) };
            parts.workers.insert(id("role", &worker.role)?, joined);
        }
        parts.shared_docs.by_name.extend(decode_docs(it.shared_docs)?.by_name);
        for it in it.given_back {
            let given_back = (LockId(stamp("lock", &it.lock)?), id("role", &it.role)?);
            parts.given_back.push(given_back);
        }
        let mut forced = BTreeMap::new();
        for it in it.forced_locks {
            let lock = LockId(stamp("lock", &it.lock)?);
            forced.insert(lock, Forced { by: it.by, reason: it.reason });
        }
        for lock in &it.ended_locks {
            let lock = LockId(stamp("lock", lock)?);
            parts.ended_locks.push(Ended { lock, forced: forced.remove(&lock) });
        }
        // What follows an issue may have begun in the piece before, and goes on in this one.
        for it in it.issues {
            parts.issues.push(decode_issue(it)?);
        }
        for it in it.rests {
            decode_rest(&mut parts.issues, it)?;
        }
        for it in it.deliveries {
            parts.deliveries.push(decode_delivery(it)?);
        }
        for it in it.locks {
            parts.locks.push(decode_lock(it)?);
        }
        Ok(())
    }

    pub(in crate::journal::codec) fn end(self) -> Result<Swarm, CodecError> {
        if !self.is_there {
            return Ok(Swarm::default());
        }
        if !self.has_settings {
            return Err(CodecError::Unknown("settings"));
        }
        let restored = Swarm::restored(self.parts);
        restored.map_err(|what| CodecError::Invalid { field: "swarm", value: what.to_owned() })
    }
}

pub(super) fn encode_docs(docs: &Docs) -> Vec<swarm_state::Doc> {
    let encode = |(name, it): (&DocName, &Doc)| {
        let (name, version, content) = (name.clone(), it.version, it.content);
        let doc = DocWritten { name, version, content, bytes: it.bytes };
        swarm_state::Doc {
            doc: Some(encode_doc(&doc)),
            at_ms: it.at.as_millis(),
            by: text(it.by.as_ref()),
        }
    };
    docs.by_name.iter().map(encode).collect()
}

pub(super) fn decode_docs(docs: Vec<swarm_state::Doc>) -> Result<Docs, CodecError> {
    let mut decoded = Docs::default();
    for it in docs {
        let doc = decode_doc(&it.doc.ok_or(CodecError::Unknown("document"))?)?;
        let DocWritten { name, version, content, bytes } = doc;
        let by = optional("by", &it.by)?;
        decoded.by_name.insert(name, Doc { version, content, bytes, at: at(it.at_ms), by });
    }
    Ok(decoded)
}

#[expect(clippy::unnecessary_wraps, reason = "a lease is a message, which may be missing")]
pub(super) fn encode_lease(it: Lease) -> Option<swarm_state::Lease> {
    let (lapses_ms, Lease { had_grace, length_ms, .. }) = (it.lapses.as_millis(), it);
    Some(swarm_state::Lease { lapses_ms, had_grace, length_ms })
}

pub(super) fn decode_lease(it: Option<swarm_state::Lease>) -> Result<Lease, CodecError> {
    let it = it.ok_or(CodecError::Unknown("lease"))?;
    Ok(Lease { lapses: at(it.lapses_ms), had_grace: it.had_grace, length_ms: it.length_ms })
}

/// An issue, and what follows it in messages of their own.
fn encode_issue(it: &Issue) -> (swarm_state::Issue, impl Iterator<Item = swarm_state::IssueRest>) {
    let issue = stamp_bytes(it.id.0);
    let of_tasks = issue.clone();
    let tasks = it.tasks.chunks(TASKS_AT_ONCE).skip(1).map(move |tasks| swarm_state::IssueRest {
        issue: of_tasks.clone(),
        tasks: tasks.iter().map(encode_task).collect(),
        items: Vec::new(),
    });
    let mut rest = it.items.iter().skip(ITEMS_AT_ONCE);
    let items = std::iter::from_fn(move || {
        let some = rest.by_ref().take(ITEMS_AT_ONCE);
        let items: Vec<_> = some.map(|(number, it)| encode_item(*number, it)).collect();
        let issue = issue.clone();
        let rest = swarm_state::IssueRest { issue, tasks: Vec::new(), items };
        (!rest.items.is_empty()).then_some(rest)
    });
    let first = swarm_state::Issue {
        id: stamp_bytes(it.id.0),
        subject: it.subject.clone(),
        state: it.state.code(),
        lead: text(it.lead.as_ref()),
        content: it.content.to_bytes(),
        paths_version: it.paths_version,
        paths_content: it.paths_content.to_bytes(),
        created_ms: it.created.as_millis(),
        updated_ms: it.updated.as_millis(),
        lease: it.lease.and_then(encode_lease),
        audit: it.audit,
        tasks: it.tasks.iter().take(TASKS_AT_ONCE).map(encode_task).collect(),
        docs: encode_docs(&it.docs),
        totals: it
            .totals
            .iter()
            .map(|(worker, it)| swarm_state::Total {
                worker: worker.to_string(),
                points: it.points,
                low_scores: it.low_scores,
            })
            .collect(),
        items: it
            .items
            .iter()
            .take(ITEMS_AT_ONCE)
            .map(|(number, it)| encode_item(*number, it))
            .collect(),
        delivery: optional_bytes(it.delivery.map(|it| it.0)),
        is_accepted: it.is_accepted,
        import: it.import.map(|it| swarm_state::Import {
            content: it.content.to_bytes(),
            parts: it.parts,
            done: it.done,
        }),
    };
    (first, tasks.chain(items))
}

fn decode_issue(it: swarm_state::Issue) -> Result<Issue, CodecError> {
    let (own, lead) = (IssueId(stamp("issue", &it.id)?), optional("lead", &it.lead)?);
    let mut issue = Issue::opened(own, it.subject, lead, at(it.created_ms));
    issue.state = named("state of an issue", IssueState::of_code(it.state))?;
    issue.content = hash("content", &it.content)?;
    issue.paths_version = it.paths_version;
    issue.paths_content = hash("paths", &it.paths_content)?;
    issue.updated = at(it.updated_ms);
    issue.lease = it.lease.map(|it| decode_lease(Some(it))).transpose()?;
    issue.audit = it.audit;
    issue.docs = decode_docs(it.docs)?;
    issue.delivery = optional_stamp("delivery", &it.delivery)?.map(DeliveryId);
    issue.is_accepted = it.is_accepted;
    issue.import = match it.import {
        None => None,
        Some(it) => {
            let content = hash("content", &it.content)?;
            Some(Import { content, parts: it.parts, done: it.done })
        }
    };
    for (number, task) in (1..).zip(it.tasks) {
        issue.tasks.push(decode_task(TaskNumber(number), task)?);
    }
    for it in it.totals {
        let total = Total { points: it.points, low_scores: it.low_scores };
        issue.totals.insert(id("worker", &it.worker)?, total);
    }
    for it in it.items {
        issue.items.insert(it.number, decode_item(&it)?);
    }
    Ok(issue)
}

/// Adds it to its issue.
fn decode_rest(issues: &mut [Issue], it: swarm_state::IssueRest) -> Result<(), CodecError> {
    let own = IssueId(stamp("issue", &it.issue)?);
    let issue = issues.iter_mut().rev().find(|issue| issue.id == own);
    let issue = issue.ok_or(CodecError::Unknown("issue"))?;
    for task in it.tasks {
        let number = u32::try_from(issue.tasks.len() + 1);
        let number = number.map_err(|_| CodecError::Malformed("tasks"))?;
        issue.tasks.push(decode_task(TaskNumber(number), task)?);
    }
    for it in it.items {
        issue.items.insert(it.number, decode_item(&it)?);
    }
    Ok(())
}

fn encode_item(number: u64, it: &Item) -> swarm_state::Item {
    let (kind, task, id) = match it.kind {
        ItemKind::Submission(task, id) => (1, task.0, stamp_bytes(id.0)),
        ItemKind::Message(task, id) => (2, task.0, stamp_bytes(id.0)),
        ItemKind::DeliveryReviewed(id) => (3, 0, stamp_bytes(id.0)),
        ItemKind::ClaimLapsed(task) => (4, task.0, Bytes::new()),
    };
    let handed_ms = match it.state {
        ItemState::New => 0,
        ItemState::Handed(at) => at.as_millis(),
    };
    swarm_state::Item { number, kind, task, id, handed_ms }
}

fn decode_item(it: &swarm_state::Item) -> Result<Item, CodecError> {
    let own = || stamp("item", &it.id);
    let kind = match it.kind {
        1 => ItemKind::Submission(task(it.task)?, SubmissionId(own()?)),
        2 => ItemKind::Message(task(it.task)?, TaskMessageId(own()?)),
        3 => ItemKind::DeliveryReviewed(DeliveryId(own()?)),
        4 => ItemKind::ClaimLapsed(task(it.task)?),
        _ => return Err(CodecError::Unknown("item")),
    };
    let state = optional_at(it.handed_ms).map_or(ItemState::New, ItemState::Handed);
    Ok(Item { kind, state })
}

pub(super) fn encode_delivery(it: &Delivery) -> swarm_state::Delivery {
    swarm_state::Delivery {
        id: stamp_bytes(it.id.0),
        issue: stamp_bytes(it.issue.0),
        role: text(it.role.as_ref()),
        content: it.content.to_bytes(),
        commit: it.commit.clone(),
        is_passed: it.is_passed,
        commands: Vec::new(),
        state: it.state.code(),
        at_ms: it.at.as_millis(),
        updated_ms: it.updated.as_millis(),
        claim: it.claim.as_ref().map(|it| swarm_state::Claim {
            role: it.role.to_string(),
            token: it.token.get(),
            lease: encode_lease(it.lease),
            claimed_ms: it.claimed.as_millis(),
        }),
        former: text(it.former.as_ref()),
        evidence: it
            .evidence
            .iter()
            .map(|it| swarm_state::Evidence {
                is_passed: it.is_passed,
                content: it.content.to_bytes(),
                at_ms: it.at.as_millis(),
            })
            .collect(),
        verdict: it.verdict.as_ref().map(|it| swarm_state::Verdict {
            verdict: it.verdict.code(),
            content: it.content.to_bytes(),
            by: text(it.by.as_ref()),
            at_ms: it.at.as_millis(),
            overridden: it.overridden.as_ref().map(encode_override),
        }),
        commands_hash: it.commands.map_or_else(Bytes::new, |it| it.to_bytes()),
    }
}

pub(super) fn decode_delivery(it: swarm_state::Delivery) -> Result<Delivery, CodecError> {
    let claim = it.claim.map(|it| {
        Ok(DeliveryClaim {
            role: id("role", &it.role)?,
            token: token(it.token),
            lease: decode_lease(it.lease)?,
            claimed: at(it.claimed_ms),
        })
    });
    let evidence = it.evidence.iter().map(|it| {
        let content = hash("content", &it.content)?;
        Ok(Attached { is_passed: it.is_passed, content, at: at(it.at_ms) })
    });
    let verdict = it.verdict.map(|it| {
        Ok(DeliveryVerdict {
            verdict: named("verdict", Verdict::of_code(it.verdict))?,
            content: hash("content", &it.content)?,
            by: optional("by", &it.by)?,
            at: at(it.at_ms),
            overridden: it.overridden.map(decode_override).transpose()?,
        })
    });
    let commands: Vec<Hash> =
        it.commands.iter().map(|it| hash("command", it)).collect::<Result<_, _>>()?;
    let commands = match it.commands_hash.is_empty() {
        true => Delivery::commands_hash(&commands),
        false => Some(hash("commands_hash", &it.commands_hash)?),
    };
    Ok(Delivery {
        id: DeliveryId(stamp("delivery", &it.id)?),
        issue: IssueId(stamp("issue", &it.issue)?),
        role: optional("role", &it.role)?,
        content: hash("content", &it.content)?,
        commit: it.commit,
        is_passed: it.is_passed,
        commands,
        state: named("state of a delivery", DeliveryState::of_code(it.state))?,
        at: at(it.at_ms),
        updated: at(it.updated_ms),
        claim: claim.transpose()?,
        former: optional("former", &it.former)?,
        evidence: evidence.collect::<Result<_, CodecError>>()?,
        verdict: verdict.transpose()?,
    })
}

fn encode_lock(it: &Lock) -> swarm_state::Lock {
    swarm_state::Lock {
        id: stamp_bytes(it.id.0),
        role: it.role.to_string(),
        keys: encode_keys(&it.keys),
        task: encode_ref(it.task),
        token: it.token.get(),
        lease: encode_lease(it.lease),
        acquired_ms: it.acquired.as_millis(),
        renewed_ms: it.renewed.as_millis(),
    }
}

fn decode_lock(it: swarm_state::Lock) -> Result<Lock, CodecError> {
    Ok(Lock {
        id: LockId(stamp("lock", &it.id)?),
        role: id("role", &it.role)?,
        keys: decode_keys(&it.keys)?,
        task: decode_ref(it.task)?,
        token: token(it.token),
        lease: decode_lease(it.lease)?,
        acquired: at(it.acquired_ms),
        renewed: at(it.renewed_ms),
    })
}
