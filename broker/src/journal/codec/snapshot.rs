//! The whole state of a workspace, in pieces: there is no size at which it does not fit.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use tasuki_proto::{
    id::{ClientId, LoopId, Timestamp, TokenId},
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

/// How long a piece becomes, in bytes, but for what cannot be divided: it is written between other
/// commits, which wait for it.
const PIECE_BYTES: usize = 64 * 1024;

/// A snapshot that is being cut into pieces. Each is a `Snapshot` by itself, with some of what
/// there is; a small state has one.
pub(super) struct Pieces<F> {
    piece: stored::Snapshot,
    bytes: usize,
    put: F,
}

impl<E, F: FnMut(Bytes) -> Result<(), E>> Pieces<F> {
    /// Adds what takes so many bytes.
    pub(super) fn add(
        &mut self,
        bytes: usize,
        add: impl FnOnce(&mut stored::Snapshot),
    ) -> Result<(), E> {
        add(&mut self.piece);
        self.bytes += bytes;
        if self.bytes < PIECE_BYTES { Ok(()) } else { self.end() }
    }

    /// Ends the piece, if anything is in it.
    pub(super) fn end(&mut self) -> Result<(), E> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.bytes = 0;
        (self.put)(std::mem::take(&mut self.piece).encode_to_vec().into())
    }
}

/// Encodes a workspace's state piece by piece, each of which `put` gets in order.
///
/// # Errors
/// Of `put`.
pub fn encode_snapshot<E>(
    state: &Workspace,
    put: impl FnMut(Bytes) -> Result<(), E>,
) -> Result<(), E> {
    let mut pieces = Pieces { piece: stored::Snapshot::default(), bytes: 0, put };
    let head = stored::Snapshot {
        sequence: state.sequence.get(),
        time_ms: state.time.as_millis(),
        min_reader: FORMAT,
        forgotten_epoch: state.directory.forgotten.get(),
        roster: state.privacy.roster.as_ref().map(privacy::encode_roster),
        ..stored::Snapshot::default()
    };
    pieces.add(head.encoded_len(), |piece| *piece = head)?;
    for (owner, id, client) in state.clients.active() {
        let client = encode_client(text(owner.as_ref()), id.to_string(), client);
        pieces.add(client.encoded_len(), |piece| piece.clients.push(client))?;
    }
    for (owner, id, retired) in state.clients.retired() {
        let retired = snapshot::RetiredClient {
            client_id: id.to_string(),
            highest: retired.highest,
            last_ms: retired.last.as_millis(),
            token_id: text(owner.as_ref()),
        };
        pieces.add(retired.encoded_len(), |piece| piece.retired.push(retired))?;
    }
    for (id, node) in &state.directory.nodes {
        let node = snapshot::Node {
            node: id.to_string(),
            epoch: node.epoch.get(),
            roles: encode_roles(&node.roles),
            software: node.software.clone(),
            registered_ms: node.registered.as_millis(),
            token_id: text(node.token.as_ref()),
        };
        pieces.add(node.encoded_len(), |piece| piece.nodes.push(node))?;
    }
    for it in &state.loops.by_id {
        let it = encode_loop(it);
        pieces.add(it.encoded_len(), |piece| piece.loops.push(it))?;
    }
    for it in &state.access.invitations {
        let it = access::encode_invitation(it);
        pieces.add(it.encoded_len(), |piece| piece.invitations.push(it))?;
    }
    for it in &state.access.tokens {
        let it = access::encode_token(it);
        pieces.add(it.encoded_len(), |piece| piece.tokens.push(it))?;
    }
    for it in state.privacy.pending.values() {
        let it = privacy::encode_pending(it);
        pieces.add(it.encoded_len(), |piece| piece.pending_keys.push(it))?;
    }
    mail::encode_mail(&state.mail, &mut pieces)?;
    swarm::encode_state(&state.swarm, &mut pieces)?;
    pieces.end()
}

fn encode_client(token_id: String, client_id: String, client: &Client) -> snapshot::Client {
    snapshot::Client {
        client_id,
        highest: client.highest,
        last_ms: client.last.as_millis(),
        token_id,
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
    }
}

/// What the pieces of a snapshot said so far.
#[derive(Default)]
struct Decoding {
    /// Of the first piece.
    sequence: u64,
    time_ms: u64,
    active: Vec<(Option<TokenId>, ClientId, Client)>,
    retired: Vec<(Option<TokenId>, ClientId, Retired)>,
    directory: Directory,
    loops: BTreeMap<LoopId, Loop>,
    invitations: Vec<snapshot::Invitation>,
    tokens: Vec<snapshot::Token>,
    roster: Option<stored::RosterSet>,
    pending_keys: Vec<snapshot::PendingKey>,
    mail: mail::Decoding,
    swarm: swarm::Decoding,
}

/// A workspace's state from the pieces of its snapshot, in order. No more than one is in memory.
///
/// # Errors
/// Names what is missing, unknown or not valid; or where a piece cannot be had, why.
pub fn decode_snapshot<E: From<CodecError>>(
    pieces: impl IntoIterator<Item = Result<Bytes, E>>,
) -> Result<Workspace, E> {
    let mut decoding = Decoding::default();
    for piece in pieces {
        let piece = stored::Snapshot::decode(piece?);
        decoding.piece(piece.map_err(|_| CodecError::Malformed("snapshot"))?)?;
    }
    Ok(decoding.end()?)
}

impl Decoding {
    fn piece(&mut self, it: stored::Snapshot) -> Result<(), CodecError> {
        readable(it.min_reader)?;
        // Of the first piece, which alone says so.
        if it.min_reader != 0 {
            (self.sequence, self.time_ms) = (it.sequence, it.time_ms);
            self.directory.forgotten = it.forgotten_epoch.into();
            self.roster = it.roster;
        }
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
            self.active.push((
                optional("token_id", &client.token_id)?,
                id("client_id", &client.client_id)?,
                Client { highest: client.highest, last, answers },
            ));
        }
        for client in it.retired {
            let last = Timestamp::from_millis(client.last_ms);
            self.retired.push((
                optional("token_id", &client.token_id)?,
                id("client_id", &client.client_id)?,
                Retired { highest: client.highest, last },
            ));
        }
        for node in it.nodes {
            self.directory.nodes.insert(
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
        for it in it.loops {
            let (id, it) = decode_loop(it)?;
            self.loops.insert(id, it);
        }
        self.invitations.extend(it.invitations);
        self.tokens.extend(it.tokens);
        self.pending_keys.extend(it.pending_keys);
        self.mail.piece(it.mailboxes, it.threads, &it.expiries, it.arrivals, it.attachments)?;
        self.swarm.piece(it.swarm)
    }

    fn end(self) -> Result<Workspace, CodecError> {
        Ok(Workspace {
            sequence: self.sequence.into(),
            time: Timestamp::from_millis(self.time_ms),
            clients: Clients::restored(self.active, self.retired),
            directory: self.directory,
            loops: Loops::restored(self.loops),
            access: access::decode_access(self.invitations, self.tokens)?,
            mail: self.mail.end()?,
            privacy: privacy::decode_privacy(self.roster, self.pending_keys)?,
            swarm: self.swarm.end()?,
        })
    }
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
