//! What happened to issues, tasks, locks and deliveries.

use tasuki_proto::{
    stored::{self, swarm_event::Kind},
    swarm::{DeliveryId, IssueId, LockId},
};

use super::{
    super::{CodecError, hash, id},
    at, decode_keys, decode_ref, decode_settings, encode_keys, encode_ref, encode_settings,
    issue_event::{decode_issue_event, encode_issue_event},
    stamp, stamp_bytes, task, token,
};
use crate::rules::swarm::{
    DocWritten, Event, LeaseRenewed, LeaseTarget, Locked, Unlocked, WhyUnlocked,
};

pub(in crate::journal::codec) fn encode_event(event: &Event) -> stored::SwarmEvent {
    let kind = match event {
        Event::Issue(it) => Kind::Issue(encode_issue_event(it)),
        Event::WorkerRegistered(role) => {
            Kind::WorkerRegistered(stored::SwarmWorkerRegistered { role: role.to_string() })
        }
        Event::SettingsSet(it) => Kind::SettingsSet(encode_settings(it)),
        Event::SharedDocWritten(it) => Kind::SharedDocWritten(encode_doc(it)),
        Event::Locked(it) => Kind::Locked(stored::SwarmLocked {
            lock: stamp_bytes(it.lock.0),
            role: it.role.to_string(),
            keys: encode_keys(&it.keys),
            task: encode_ref(it.task),
            token: it.token.get(),
            lapses_ms: it.lapses.as_millis(),
        }),
        Event::Unlocked(it) => {
            let (why, reason) = match &it.why {
                WhyUnlocked::Unlocked => (1, ""),
                WhyUnlocked::Forced { reason } => (2, reason.as_str()),
                WhyUnlocked::Lapsed => (3, ""),
                WhyUnlocked::TaskEnded => (4, ""),
            };
            let (lock, reason) = (stamp_bytes(it.lock.0), reason.to_owned());
            Kind::Unlocked(stored::SwarmUnlocked { lock, why, reason })
        }
        Event::LeaseRenewed(it) => {
            let (held, id, task) = match it.held {
                LeaseTarget::Issue(issue) => (1, issue.0, 0),
                LeaseTarget::Claim(issue, task) => (2, issue.0, task.0),
                LeaseTarget::Reservation(issue, task) => (3, issue.0, task.0),
                LeaseTarget::Delivery(delivery) => (4, delivery.0, 0),
                LeaseTarget::Lock(lock) => (5, lock.0, 0),
            };
            Kind::LeaseRenewed(stored::SwarmLeaseRenewed {
                held,
                id: stamp_bytes(id),
                task,
                lapses_ms: it.lapses.as_millis(),
                is_grace: it.is_grace,
            })
        }
        Event::ItemsHanded { issue, items } => Kind::ItemsHanded(stored::SwarmItemsHanded {
            issue: stamp_bytes(issue.0),
            items: items.clone(),
        }),
    };
    stored::SwarmEvent { kind: Some(kind) }
}

pub(in crate::journal::codec) fn decode_event(
    event: stored::SwarmEvent,
) -> Result<Event, CodecError> {
    Ok(match event.kind.ok_or(CodecError::Unknown("swarm event"))? {
        Kind::Issue(it) => Event::Issue(decode_issue_event(it)?),
        Kind::WorkerRegistered(it) => Event::WorkerRegistered(id("role", &it.role)?),
        Kind::SettingsSet(it) => Event::SettingsSet(decode_settings(&it)),
        Kind::SharedDocWritten(it) => Event::SharedDocWritten(decode_doc(&it)?),
        Kind::Locked(it) => Event::Locked(Locked {
            lock: LockId(stamp("lock", &it.lock)?),
            role: id("role", &it.role)?,
            keys: decode_keys(&it.keys)?,
            task: decode_ref(it.task)?,
            token: token(it.token),
            lapses: at(it.lapses_ms),
        }),
        Kind::Unlocked(it) => {
            let why = match it.why {
                1 => WhyUnlocked::Unlocked,
                2 => WhyUnlocked::Forced { reason: it.reason },
                3 => WhyUnlocked::Lapsed,
                4 => WhyUnlocked::TaskEnded,
                _ => return Err(CodecError::Unknown("end of a lock")),
            };
            Event::Unlocked(Unlocked { lock: LockId(stamp("lock", &it.lock)?), why })
        }
        Kind::LeaseRenewed(it) => {
            let own = stamp("id", &it.id)?;
            let held = match it.held {
                1 => LeaseTarget::Issue(IssueId(own)),
                2 => LeaseTarget::Claim(IssueId(own), task(it.task)?),
                3 => LeaseTarget::Reservation(IssueId(own), task(it.task)?),
                4 => LeaseTarget::Delivery(DeliveryId(own)),
                5 => LeaseTarget::Lock(LockId(own)),
                _ => return Err(CodecError::Unknown("lease")),
            };
            let (lapses, is_grace) = (at(it.lapses_ms), it.is_grace);
            Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace })
        }
        Kind::ItemsHanded(it) => {
            Event::ItemsHanded { issue: IssueId(stamp("issue", &it.issue)?), items: it.items }
        }
    })
}

pub(super) fn encode_doc(it: &DocWritten) -> stored::SwarmDocWritten {
    stored::SwarmDocWritten {
        name: it.name.to_string(),
        version: it.version,
        content: it.content.to_bytes(),
        length: it.bytes,
    }
}

pub(super) fn decode_doc(it: &stored::SwarmDocWritten) -> Result<DocWritten, CodecError> {
    Ok(DocWritten {
        name: id("doc", &it.name)?,
        version: it.version,
        content: hash("content", &it.content)?,
        bytes: it.length,
    })
}
