//! One command's record.

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::{IdempotencyKey, Timestamp, Turn},
    stored,
};

use super::{
    CodecError, FORMAT, access, decode_next, hash, id, ids, mail, optional, privacy, readable,
    swarm, text,
};
use crate::rules::{
    Event, Principal, Record, Reply, access as any_access,
    directory::{self, NodeRegistered, RoleSpec},
    mailbox,
    turn::{
        self, HandedOver, LeaseRenewed, LoopOpened, NextTurn, ParticipantsSet, RoundStarted,
        TurnMoment, TurnReclaimed,
    },
};

/// The bytes of a record in the database with this incarnation.
pub fn encode_record(record: &Record, incarnation: &[u8; 16]) -> Bytes {
    let key = record.key.as_ref();
    let stored = stored::Record {
        sequence: record.sequence.get(),
        time_ms: record.time.as_millis(),
        principal: Some(stored::Principal {
            node: text(record.principal.node.as_ref()),
            role: text(record.principal.role.as_ref()),
            token_id: text(record.principal.token.as_ref()),
            person: text(record.principal.person.as_ref()),
        }),
        key: key.map(|(key, _)| stored::Key {
            client_id: key.client.to_string(),
            counter: key.counter,
        }),
        request_hash: key.map_or_else(Bytes::new, |(_, request)| request.to_bytes()),
        incarnation: Bytes::copy_from_slice(incarnation),
        events: record.events.iter().map(encode_event).collect(),
        reply: Some(encode_reply(&record.reply)),
        min_reader: FORMAT,
        is_repeat: record.is_repeat,
    };
    stored.encode_to_vec().into()
}

/// A record from its bytes.
///
/// # Errors
/// Names what is missing, unknown or not valid.
pub fn decode_record(stored: Bytes) -> Result<Record, CodecError> {
    let it = stored::Record::decode(stored).map_err(|_| CodecError::Malformed("record"))?;
    readable(it.min_reader)?;
    let principal = it.principal.unwrap_or_default();
    let key = match it.key {
        None => None,
        Some(key) => {
            let client = id("client_id", &key.client_id)?;
            let key = IdempotencyKey { client, counter: key.counter };
            Some((key, hash("request_hash", &it.request_hash)?))
        }
    };
    Ok(Record {
        sequence: it.sequence.into(),
        time: Timestamp::from_millis(it.time_ms),
        principal: Principal {
            node: optional("node", &principal.node)?,
            role: optional("role", &principal.role)?,
            person: optional("person", &principal.person)?,
            token: optional("token_id", &principal.token_id)?,
        },
        key,
        events: it.events.into_iter().map(decode_event).collect::<Result<_, _>>()?,
        reply: decode_reply(it.reply)?,
        is_repeat: it.is_repeat,
    })
}

fn encode_event(event: &Event) -> stored::Event {
    use stored::event::Kind;
    let kind = match event {
        Event::Directory(directory::Event::NodeRegistered(it)) => {
            Kind::NodeRegistered(stored::NodeRegistered {
                node: it.node.to_string(),
                epoch: it.epoch.get(),
                roles: encode_roles(&it.roles),
                software: it.software.clone(),
                token_id: text(it.token.as_ref()),
                replaces: text(it.replaces.as_ref()),
            })
        }
        Event::Turn(turn::Event::LoopOpened(it)) => Kind::LoopOpened(stored::LoopOpened {
            r#loop: it.loop_id.to_string(),
            participants: it.participants.iter().map(ToString::to_string).collect(),
        }),
        Event::Turn(turn::Event::ParticipantsSet(it)) => {
            Kind::ParticipantsSet(stored::ParticipantsSet {
                r#loop: it.loop_id.to_string(),
                participants: it.participants.iter().map(ToString::to_string).collect(),
                is_chosen: it.is_chosen,
            })
        }
        Event::Turn(turn::Event::HandedOver(it)) => Kind::HandedOver(stored::HandedOver {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.as_ref().map_or(0, |next| next.turn.get()),
            from: it.from.to_string(),
            to: text(it.next.as_ref().map(|next| &next.to)),
            content: it.content.to_bytes(),
            lapses_ms: it.next.as_ref().map_or(0, |next| next.lapses.as_millis()),
        }),
        Event::Turn(turn::Event::TurnReclaimed(it)) => Kind::TurnReclaimed(stored::TurnReclaimed {
            r#loop: it.loop_id.to_string(),
            entry: it.entry,
            ended_turn: it.ended.get(),
            turn: it.next.turn.get(),
            from: it.from.to_string(),
            to: it.next.to.to_string(),
            reason: it.reason.clone(),
            content: it.content.to_bytes(),
            lapses_ms: it.next.lapses.as_millis(),
        }),
        Event::Turn(turn::Event::RoundStarted(it)) => Kind::RoundStarted(stored::RoundStarted {
            r#loop: it.loop_id.to_string(),
            round: it.round,
            entry: it.entry,
            turn: it.next.turn.get(),
            to: it.next.to.to_string(),
            content: it.content.to_bytes(),
            lapses_ms: it.next.lapses.as_millis(),
            has_text: it.has_text,
        }),
        Event::Turn(turn::Event::TurnHanded(it)) => Kind::TurnHanded(stored::TurnHanded {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
        }),
        Event::Turn(turn::Event::TurnSeen(it)) => {
            Kind::TurnSeen(stored::TurnSeen { r#loop: it.loop_id.to_string(), turn: it.turn.get() })
        }
        Event::Turn(turn::Event::TurnLapsed(it)) => Kind::TurnLapsed(stored::TurnLapsed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
        }),
        Event::Turn(turn::Event::LeaseRenewed(it)) => Kind::LeaseRenewed(stored::LeaseRenewed {
            r#loop: it.loop_id.to_string(),
            turn: it.turn.get(),
            lapses_ms: it.lapses.as_millis(),
            is_grace: it.is_grace,
        }),
        Event::Access(it) => access::encode_event(it),
        Event::Mail(it) => mail::encode_event(it),
        Event::Privacy(it) => privacy::encode_event(it),
        Event::Swarm(it) => Kind::Swarm(swarm::encode_event(it)),
    };
    stored::Event { kind: Some(kind) }
}

fn decode_event(event: stored::Event) -> Result<Event, CodecError> {
    use stored::event::Kind;
    let moment = |name: &str, turn: u64| -> Result<TurnMoment, CodecError> {
        Ok(TurnMoment { loop_id: id("loop", name)?, turn: turn.into() })
    };
    let kind = event.kind.ok_or(CodecError::Unknown("event"))?;
    Ok(match kind {
        Kind::NodeRegistered(it) => {
            Event::Directory(directory::Event::NodeRegistered(NodeRegistered {
                node: id("node", &it.node)?,
                epoch: it.epoch.into(),
                roles: decode_roles(&it.roles)?,
                software: it.software,
                token: optional("token_id", &it.token_id)?,
                replaces: optional("replaces", &it.replaces)?,
            }))
        }
        Kind::LoopOpened(it) => Event::Turn(turn::Event::LoopOpened(LoopOpened {
            loop_id: id("loop", &it.r#loop)?,
            participants: ids("participant", &it.participants)?,
        })),
        Kind::ParticipantsSet(it) => Event::Turn(turn::Event::ParticipantsSet(ParticipantsSet {
            loop_id: id("loop", &it.r#loop)?,
            participants: ids("participant", &it.participants)?,
            is_chosen: it.is_chosen,
        })),
        Kind::HandedOver(it) => Event::Turn(turn::Event::HandedOver(HandedOver {
            loop_id: id("loop", &it.r#loop)?,
            round: it.round,
            entry: it.entry,
            ended: it.ended_turn.into(),
            from: id("from", &it.from)?,
            content: hash("content", &it.content)?,
            next: decode_next(it.turn, &it.to)?.map(|(turn, to)| NextTurn {
                turn,
                to,
                lapses: Timestamp::from_millis(it.lapses_ms),
            }),
        })),
        Kind::TurnReclaimed(it) => Event::Turn(turn::Event::TurnReclaimed(TurnReclaimed {
            loop_id: id("loop", &it.r#loop)?,
            entry: it.entry,
            ended: it.ended_turn.into(),
            from: id("from", &it.from)?,
            reason: it.reason,
            content: hash("content", &it.content)?,
            next: required_next(it.turn, &it.to, it.lapses_ms)?,
        })),
        Kind::RoundStarted(it) => Event::Turn(turn::Event::RoundStarted(RoundStarted {
            loop_id: id("loop", &it.r#loop)?,
            round: it.round,
            entry: it.entry,
            content: hash("content", &it.content)?,
            has_text: it.has_text,
            next: required_next(it.turn, &it.to, it.lapses_ms)?,
        })),
        Kind::TurnHanded(it) => Event::Turn(turn::Event::TurnHanded(moment(&it.r#loop, it.turn)?)),
        Kind::TurnSeen(it) => Event::Turn(turn::Event::TurnSeen(moment(&it.r#loop, it.turn)?)),
        Kind::TurnLapsed(it) => Event::Turn(turn::Event::TurnLapsed(moment(&it.r#loop, it.turn)?)),
        Kind::LeaseRenewed(it) => Event::Turn(turn::Event::LeaseRenewed(LeaseRenewed {
            loop_id: id("loop", &it.r#loop)?,
            turn: it.turn.into(),
            lapses: Timestamp::from_millis(it.lapses_ms),
            is_grace: it.is_grace,
        })),
        Kind::InvitationOpened(_)
        | Kind::InvitationWithdrawn(_)
        | Kind::InvitationMisused(_)
        | Kind::TokenIssued(_)
        | Kind::TokenRotated(_)
        | Kind::OldSecretEnded(_)
        | Kind::TokenRevoked(_) => Event::Access(access::decode_event(kind)?),
        Kind::MailSent(_)
        | Kind::MailMoved(_)
        | Kind::MailHanded(_)
        | Kind::MailSeen(_)
        | Kind::MailLapsed(_)
        | Kind::MailRevived(_)
        | Kind::MailImported(_)
        | Kind::MailboxOpened(_)
        | Kind::MailboxClosed(_)
        | Kind::AttachmentKept(_) => Event::Mail(mail::decode_event(kind)?),
        Kind::Swarm(it) => Event::Swarm(swarm::decode_event(it)?),
        Kind::RosterSet(_) | Kind::KeyPublished(_) => Event::Privacy(privacy::decode_event(kind)?),
    })
}

fn required_next(turn: u64, to: &str, lapses_ms: u64) -> Result<NextTurn, CodecError> {
    let lapses = Timestamp::from_millis(lapses_ms);
    Ok(NextTurn { turn: Turn::from(turn), to: id("to", to)?, lapses })
}

pub(super) fn encode_roles(roles: &[RoleSpec]) -> Vec<stored::RoleSpec> {
    let encode = |spec: &RoleSpec| stored::RoleSpec {
        role: spec.role.to_string(),
        toolsets: spec.toolsets.iter().map(ToString::to_string).collect(),
    };
    roles.iter().map(encode).collect()
}

pub(super) fn decode_roles(roles: &[stored::RoleSpec]) -> Result<Vec<RoleSpec>, CodecError> {
    let decode = |spec: &stored::RoleSpec| {
        Ok(RoleSpec { role: id("role", &spec.role)?, toolsets: ids("toolset", &spec.toolsets)? })
    };
    roles.iter().map(decode).collect()
}

pub(super) fn encode_reply(reply: &Reply) -> stored::Reply {
    use stored::reply::{self, Kind};
    let kind = match reply {
        Reply::Directory(directory::Reply::Registered { epoch }) => {
            Kind::Registered(reply::Registered { epoch: epoch.get() })
        }
        Reply::Turn(turn::Reply::Opened { loop_id }) => {
            Kind::Opened(reply::Opened { r#loop: loop_id.to_string() })
        }
        Reply::Turn(turn::Reply::Started { round, turn, holder }) => {
            Kind::Started(reply::Started {
                round: *round,
                turn: turn.get(),
                holder: holder.to_string(),
            })
        }
        Reply::Turn(turn::Reply::Handed { ended, next }) => Kind::Handed(reply::Handed {
            ended_turn: ended.get(),
            turn: next.as_ref().map_or(0, |(turn, _)| turn.get()),
            to: text(next.as_ref().map(|(_, to)| to)),
        }),
        Reply::Turn(turn::Reply::Reclaimed { ended, turn, from, to }) => {
            Kind::Reclaimed(reply::Reclaimed {
                ended_turn: ended.get(),
                turn: turn.get(),
                from: from.to_string(),
                to: to.to_string(),
            })
        }
        Reply::Access(any_access::Reply::Invited { invitation, expires }) => {
            Kind::Invited(reply::Invited {
                invitation_id: invitation.to_string(),
                expires_ms: expires.as_millis(),
            })
        }
        Reply::Access(any_access::Reply::Issued { token, expires, scope }) => {
            Kind::Issued(reply::Issued {
                token_id: token.to_string(),
                expires_ms: access::ms(*expires),
                scope: Some(access::encode_scope(scope)),
            })
        }
        Reply::Access(any_access::Reply::Rotated { token, old_until }) => {
            Kind::Rotated(reply::Rotated {
                token_id: token.to_string(),
                old_until_ms: old_until.as_millis(),
            })
        }
        Reply::Mail(mailbox::Reply::Sent { thread, entry, kind }) => Kind::Sent(reply::Sent {
            thread: mail::id_bytes(*thread),
            entry: *entry,
            r#box: mail::box_code(*kind),
        }),
        Reply::Mail(mailbox::Reply::Moved { to, moved }) => {
            Kind::Moved(mail::encode_moved(*to, moved))
        }
        Reply::Mail(mailbox::Reply::Imported { thread, entries }) => {
            Kind::Imported(reply::Imported { thread: mail::id_bytes(*thread), entries: *entries })
        }
        Reply::Swarm(it) => Kind::Swarm(swarm::encode_reply(it)),
        Reply::Done => Kind::Done(reply::Done {}),
    };
    stored::Reply { kind: Some(kind) }
}

pub(super) fn decode_reply(reply: Option<stored::Reply>) -> Result<Reply, CodecError> {
    use stored::reply::Kind;
    let kind = reply.and_then(|reply| reply.kind).ok_or(CodecError::Unknown("reply"))?;
    Ok(match kind {
        Kind::Registered(it) => {
            Reply::Directory(directory::Reply::Registered { epoch: it.epoch.into() })
        }
        Kind::Opened(it) => Reply::Turn(turn::Reply::Opened { loop_id: id("loop", &it.r#loop)? }),
        Kind::Started(it) => Reply::Turn(turn::Reply::Started {
            round: it.round,
            turn: it.turn.into(),
            holder: id("holder", &it.holder)?,
        }),
        Kind::Handed(it) => Reply::Turn(turn::Reply::Handed {
            ended: it.ended_turn.into(),
            next: decode_next(it.turn, &it.to)?,
        }),
        Kind::Reclaimed(it) => Reply::Turn(turn::Reply::Reclaimed {
            ended: it.ended_turn.into(),
            turn: it.turn.into(),
            from: id("from", &it.from)?,
            to: id("to", &it.to)?,
        }),
        Kind::Invited(it) => Reply::Access(any_access::Reply::Invited {
            invitation: id("invitation_id", &it.invitation_id)?,
            expires: Timestamp::from_millis(it.expires_ms),
        }),
        Kind::Issued(it) => Reply::Access(any_access::Reply::Issued {
            token: id("token_id", &it.token_id)?,
            expires: access::at(it.expires_ms),
            scope: access::decode_scope(it.scope)?,
        }),
        Kind::Rotated(it) => Reply::Access(any_access::Reply::Rotated {
            token: id("token_id", &it.token_id)?,
            old_until: Timestamp::from_millis(it.old_until_ms),
        }),
        Kind::Sent(it) => Reply::Mail(mailbox::Reply::Sent {
            thread: mail::thread(&it.thread)?,
            entry: it.entry,
            kind: mail::box_of(it.r#box)?,
        }),
        Kind::Moved(it) => Reply::Mail(mailbox::Reply::Moved {
            to: mail::box_of(it.to)?,
            moved: mail::decode_moved(it.moved)?,
        }),
        Kind::Imported(it) => Reply::Mail(mailbox::Reply::Imported {
            thread: mail::thread(&it.thread)?,
            entries: it.entries,
        }),
        Kind::Swarm(it) => Reply::Swarm(swarm::decode_reply(it)?),
        Kind::Done(_) => Reply::Done,
    })
}
