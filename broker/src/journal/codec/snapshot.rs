//! The whole state of a workspace.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::{LoopId, Timestamp},
    stored::{self, snapshot},
};

use super::{
    CodecError, FORMAT, access, decode_facts, decode_next, encode_facts, hash, id, ids, mail,
    optional, privacy, readable,
    record::{decode_reply, decode_roles, encode_reply, encode_roles},
    swarm, text,
};
use crate::rules::{
    Workspace,
    clients::{Answer, Client, Clients, Retired},
    directory::{Directory, Node},
    turn::{Ended, Lease, Loop, Loops},
};

/// The bytes of a workspace's state.
pub fn encode_snapshot(state: &Workspace) -> Bytes {
    let clients = state.clients.active().map(|(owner, id, client)| snapshot::Client {
        client_id: id.to_string(),
        highest: client.highest,
        last_ms: client.last.as_millis(),
        token_id: text(owner.as_ref()),
        answers: client
            .answers
            .iter()
            .map(|(counter, answer)| snapshot::Answer {
                counter: *counter,
                request_hash: answer.request.to_bytes(),
                sequence: answer.sequence.get(),
                reply: Some(encode_reply(&answer.reply)),
                is_repeat: answer.is_repeat,
            })
            .collect(),
    });
    let retired = state.clients.retired().map(|(owner, id, retired)| snapshot::RetiredClient {
        client_id: id.to_string(),
        highest: retired.highest,
        last_ms: retired.last.as_millis(),
        token_id: text(owner.as_ref()),
    });
    let nodes = state.directory.nodes.iter().map(|(id, node)| snapshot::Node {
        node: id.to_string(),
        epoch: node.epoch.get(),
        roles: encode_roles(&node.roles),
        software: node.software.clone(),
        registered_ms: node.registered.as_millis(),
        token_id: text(node.token.as_ref()),
    });
    let stored = stored::Snapshot {
        sequence: state.sequence.get(),
        time_ms: state.time.as_millis(),
        clients: clients.collect(),
        retired: retired.collect(),
        nodes: nodes.collect(),
        loops: state.loops.by_id.iter().map(encode_loop).collect(),
        min_reader: FORMAT,
        invitations: state.access.invitations.iter().map(access::encode_invitation).collect(),
        tokens: state.access.tokens.iter().map(access::encode_token).collect(),
        forgotten_epoch: state.directory.forgotten.get(),
        roster: state.privacy.roster.as_ref().map(privacy::encode_roster),
        pending_keys: state.privacy.pending.values().map(privacy::encode_pending).collect(),
        swarm: swarm::encode_state(&state.swarm),
        ..mail::encode_mail(&state.mail)
    };
    stored.encode_to_vec().into()
}

/// A workspace's state from its bytes.
///
/// # Errors
/// Names what is missing, unknown or not valid.
pub fn decode_snapshot(stored: Bytes) -> Result<Workspace, CodecError> {
    let it = stored::Snapshot::decode(stored).map_err(|_| CodecError::Malformed("snapshot"))?;
    readable(it.min_reader)?;
    let (mut active, mut retired) = (Vec::new(), Vec::new());
    for client in it.clients {
        let mut answers = BTreeMap::new();
        for answer in client.answers {
            answers.insert(
                answer.counter,
                Answer {
                    request: hash("request_hash", &answer.request_hash)?,
                    sequence: answer.sequence.into(),
                    reply: decode_reply(answer.reply)?,
                    is_repeat: answer.is_repeat,
                },
            );
        }
        let last = Timestamp::from_millis(client.last_ms);
        active.push((
            optional("token_id", &client.token_id)?,
            id("client_id", &client.client_id)?,
            Client { highest: client.highest, last, answers },
        ));
    }
    for client in it.retired {
        let last = Timestamp::from_millis(client.last_ms);
        retired.push((
            optional("token_id", &client.token_id)?,
            id("client_id", &client.client_id)?,
            Retired { highest: client.highest, last },
        ));
    }
    let mut directory = Directory { forgotten: it.forgotten_epoch.into(), ..Directory::default() };
    for node in it.nodes {
        directory.nodes.insert(
            id("node", &node.node)?,
            Node {
                epoch: node.epoch.into(),
                roles: decode_roles(&node.roles)?,
                software: node.software,
                registered: Timestamp::from_millis(node.registered_ms),
                token: optional("token_id", &node.token_id)?,
            },
        );
    }
    let mail = mail::decode_mail_state(
        it.mailboxes,
        it.threads,
        &it.expiries,
        it.arrivals,
        it.attachments,
    )?;
    let loops = it.loops.into_iter().map(decode_loop).collect::<Result<_, _>>()?;
    Ok(Workspace {
        sequence: it.sequence.into(),
        time: Timestamp::from_millis(it.time_ms),
        clients: Clients::restored(active, retired),
        directory,
        loops: Loops::restored(loops),
        access: access::decode_access(it.invitations, it.tokens)?,
        mail,
        privacy: privacy::decode_privacy(it.roster, it.pending_keys)?,
        swarm: swarm::decode_state(it.swarm)?,
    })
}

fn encode_loop((id, it): (&LoopId, &Loop)) -> snapshot::LoopState {
    snapshot::LoopState {
        r#loop: id.to_string(),
        participants: it.participants.iter().map(ToString::to_string).collect(),
        round: it.round,
        turn: it.turn.get(),
        holder: text(it.holder.as_ref()),
        began_ms: it.began.as_millis(),
        lapses_ms: it.lease.map_or(0, |lease| lease.lapses.as_millis()),
        is_lapsed: it.lease.is_some_and(|lease| lease.is_lapsed),
        had_grace: it.lease.is_some_and(|lease| lease.had_grace),
        entries: it.entries,
        latest: it.latest.as_ref().map(encode_facts),
        recent: it
            .recent
            .iter()
            .map(|ended| snapshot::Ended {
                turn: ended.turn.get(),
                is_reclaim: ended.is_reclaim,
                from: ended.from.to_string(),
                to: text(ended.next.as_ref().map(|(_, to)| to)),
                next_turn: ended.next.as_ref().map_or(0, |(turn, _)| turn.get()),
                content: ended.content.to_bytes(),
            })
            .collect(),
        is_open_to_join: it.is_open_to_join,
    }
}

fn decode_loop(it: snapshot::LoopState) -> Result<(LoopId, Loop), CodecError> {
    let loop_id: LoopId = id("loop", &it.r#loop)?;
    let recent = it.recent.iter().map(|ended| {
        Ok(Ended {
            turn: ended.turn.into(),
            is_reclaim: ended.is_reclaim,
            from: id("from", &ended.from)?,
            next: decode_next(ended.next_turn, &ended.to)?,
            content: hash("content", &ended.content)?,
        })
    });
    let state = Loop {
        participants: ids("participant", &it.participants)?,
        round: it.round,
        turn: it.turn.into(),
        holder: optional("holder", &it.holder)?,
        began: Timestamp::from_millis(it.began_ms),
        lease: (it.lapses_ms != 0).then(|| Lease {
            lapses: Timestamp::from_millis(it.lapses_ms),
            is_lapsed: it.is_lapsed,
            had_grace: it.had_grace,
        }),
        entries: it.entries,
        latest: it.latest.map(|facts| decode_facts(&loop_id, facts)).transpose()?,
        recent: recent.collect::<Result<VecDeque<_>, _>>()?,
        is_open_to_join: it.is_open_to_join,
    };
    if state.participants.is_empty() {
        return Err(CodecError::Invalid { field: "participants", value: loop_id.to_string() });
    }
    Ok((loop_id, state))
}
