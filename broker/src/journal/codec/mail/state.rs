//! All mail of a workspace, as a snapshot holds it: threads in columns, since there may be
//! millions of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::MessageId,
    stored::snapshot,
};

use super::{
    super::{CodecError, hash, id, snapshot::Pieces},
    box_code, box_of, content_hash, id_bytes, thread,
};
use crate::rules::mailbox::{
    ClientRef, ContentHash, Copy, CopyState, File, Head, Letter, Mailbox, Mailboxes, Mark,
    MarkKind, Recent, RoleNumber, Thread, ThreadNumber,
};

/// Threads in one piece of a snapshot: mostly some 100 bytes each.
const THREADS_OF_PIECE: usize = 512;

/// A deadline in a snapshot, in bytes, at most.
const EXPIRY_BYTES: usize = 20;

/// The part of a snapshot that is about mail.
pub(in crate::journal::codec) fn encode_mail<E>(
    mail: &Mailboxes,
    pieces: &mut Pieces<impl FnMut(Bytes) -> Result<(), E>>,
) -> Result<(), E> {
    pieces.add(EXPIRY_BYTES, |piece| piece.arrivals = mail.arrivals())?;
    for it in mail.mailboxes() {
        let it = encode_mailbox(it);
        pieces.add(it.encoded_len(), |piece| piece.mailboxes.push(it))?;
    }
    let mut threads = mail.threads().iter().peekable();
    while threads.peek().is_some() {
        let some = encode_threads(threads.by_ref().take(THREADS_OF_PIECE));
        pieces.add(some.encoded_len(), |piece| piece.threads = Some(some))?;
        if threads.peek().is_some() {
            // A piece has its threads in columns, so there is one set of them.
            pieces.end()?;
        }
    }
    for (at, thread, entry) in mail.expiries() {
        let it = snapshot::Expiry { at_ms: at.as_millis(), thread: thread.0, entry: *entry };
        pieces.add(EXPIRY_BYTES, |piece| piece.expiries.push(it))?;
    }
    for it in mail.files() {
        let it = encode_file(it);
        pieces.add(it.encoded_len(), |piece| piece.attachments.push(it))?;
    }
    Ok(())
}

/// What the pieces of a snapshot said of mail so far.
#[derive(Default)]
pub(in crate::journal::codec) struct Decoding {
    mailboxes: Vec<Mailbox>,
    threads: Vec<Thread>,
    expiries: BTreeSet<(Timestamp, ThreadNumber, u32)>,
    arrivals: u32,
    files: BTreeMap<ContentHash, File>,
}

impl Decoding {
    pub(in crate::journal::codec) fn piece(
        &mut self,
        mailboxes: Vec<snapshot::Mailbox>,
        threads: Option<snapshot::Threads>,
        expiries: &[snapshot::Expiry],
        arrivals: u32,
        attachments: Vec<snapshot::File>,
    ) -> Result<(), CodecError> {
        for it in mailboxes {
            self.mailboxes.push(decode_mailbox(it)?);
        }
        self.threads.extend(decode_threads(threads.unwrap_or_default())?);
        let expiries = expiries
            .iter()
            .map(|it| (Timestamp::from_millis(it.at_ms), ThreadNumber(it.thread), it.entry));
        self.expiries.extend(expiries);
        self.arrivals = self.arrivals.max(arrivals);
        for it in attachments {
            let (hash, file) = decode_file(it)?;
            self.files.insert(hash, file);
        }
        Ok(())
    }

    pub(in crate::journal::codec) fn end(self) -> Result<Mailboxes, CodecError> {
        let Self { mailboxes, threads, expiries, arrivals, files } = self;
        let restored = Mailboxes::restored(mailboxes, threads, expiries, arrivals, files);
        restored.map_err(|what| CodecError::Invalid { field: "mail", value: what.to_owned() })
    }
}

fn encode_file((hash, it): (&ContentHash, &File)) -> snapshot::File {
    snapshot::File {
        hash: Bytes::copy_from_slice(hash),
        size: it.size,
        roles: it.roles.iter().map(|it| it.0.into()).collect(),
        threads: it.threads.iter().map(|it| it.0).collect(),
    }
}

fn decode_file(it: snapshot::File) -> Result<(ContentHash, File), CodecError> {
    let number = |number: u32| {
        let invalid = |_| CodecError::Invalid { field: "roles", value: number.to_string() };
        number.try_into().map(RoleNumber).map_err(invalid)
    };
    let roles = it.roles.into_iter().map(number).collect::<Result<_, _>>()?;
    let threads = it.threads.into_iter().map(ThreadNumber).collect();
    Ok((content_hash(&it.hash)?, File { size: it.size, roles, threads }))
}

fn encode_mailbox(it: &Mailbox) -> snapshot::Mailbox {
    let named = |it: &ClientRef| snapshot::ClientRef {
        name: it.name.clone(),
        content: it.content.to_bytes(),
        thread: id_bytes(it.thread),
        entry: it.entry,
    };
    let known = |it: &Letter| snapshot::ClientRef {
        name: String::new(),
        content: it.content.to_bytes(),
        thread: id_bytes(it.thread),
        entry: it.entry,
    };
    let mut letters = it.recent.iter();
    let last = letters.next_back();
    snapshot::Mailbox {
        role: it.role.to_string(),
        is_closed: it.is_closed,
        refs: it.refs.iter().map(named).collect(),
        last: last.map(known),
        is_last_among_others: last.is_some_and(|it| it.is_among_others),
        among_others: letters.map(known).collect(),
    }
}

fn decode_mailbox(it: snapshot::Mailbox) -> Result<Mailbox, CodecError> {
    let role: RoleId = id("role", &it.role)?;
    let mut mailbox = Mailbox::new(role);
    mailbox.is_closed = it.is_closed;
    for named in it.refs {
        mailbox.refs.push_back(ClientRef {
            name: named.name,
            content: hash("content", &named.content)?,
            thread: thread(&named.thread)?,
            entry: named.entry,
        });
    }
    let older = it.among_others.into_iter().map(|it| (it, true));
    let letters = older.chain(it.last.map(|last| (last, it.is_last_among_others)));
    let letters = letters.map(|(it, is_among_others)| {
        let (content, thread) = (hash("content", &it.content)?, thread(&it.thread)?);
        Ok(Letter { content, thread, entry: it.entry, is_among_others })
    });
    mailbox.recent = Recent::restored(letters.collect::<Result<Vec<_>, CodecError>>()?);
    Ok(mailbox)
}

fn encode_threads<'a>(threads: impl Iterator<Item = &'a Thread>) -> snapshot::Threads {
    /// What is kept as bytes, one each.
    #[derive(Default)]
    struct Columns {
        ids: BytesMut,
        head_sender: BytesMut,
        head_kind: BytesMut,
        copy_box: BytesMut,
        copy_tries: BytesMut,
        copy_is_dead: BytesMut,
        mark_kind: BytesMut,
        mark_copy: BytesMut,
    }
    let count = |len: usize| u32::try_from(len).expect("parts of a thread");
    let low = |code: u32| u8::try_from(code).expect("a small number");
    let (mut out, mut columns) = (snapshot::Threads::default(), Columns::default());
    for it in threads {
        columns.ids.put_u128(it.id.bits());
        out.heads.push(count(it.heads.len()));
        out.copies.push(count(it.copies.len()));
        out.marks.push(count(it.marks().len()));
        for head in &it.heads {
            out.head_to.push(head.to);
            columns.head_sender.put_u8(head.sender);
            columns.head_kind.put_u8(head.kind);
        }
        for copy in &it.copies {
            out.copy_role.push(copy.role.0.into());
            columns.copy_box.put_u8(low(box_code(copy.kind)));
            columns.copy_tries.put_u8(copy.tries);
            columns.copy_is_dead.put_u8(copy.state.is_dead.into());
            out.copy_arrival.push(copy.arrival);
            out.copy_handed.push(copy.handed);
            out.copy_seen.push(copy.seen);
        }
        for mark in it.marks() {
            out.mark_at_ms.push(mark.at.as_millis());
            columns.mark_kind.put_u8(mark_code(mark.kind));
            columns.mark_copy.put_u8(mark.copy);
            out.mark_entry.push(mark.entry);
        }
    }
    out.ids = columns.ids.freeze();
    out.head_sender = columns.head_sender.freeze();
    out.head_kind = columns.head_kind.freeze();
    out.copy_box = columns.copy_box.freeze();
    out.copy_tries = columns.copy_tries.freeze();
    out.copy_is_dead = columns.copy_is_dead.freeze();
    out.mark_kind = columns.mark_kind.freeze();
    out.mark_copy = columns.mark_copy.freeze();
    out
}

fn decode_threads(it: snapshot::Threads) -> Result<Vec<Thread>, CodecError> {
    if it.head_to.len() != it.head_sender.len() || it.head_to.len() != it.head_kind.len() {
        return Err(CodecError::Malformed("entries of threads"));
    }
    let senders = it.head_sender.iter().zip(&it.head_kind);
    let mut heads = it.head_to.iter().zip(senders).map(|(to, (sender, kind))| Head {
        to: *to,
        sender: *sender,
        kind: *kind,
    });
    let mut copies = (0..it.copy_role.len()).map(|at| {
        let missing = || CodecError::Malformed("copies of threads");
        let bytes = |column: &Bytes| column.get(at).copied().ok_or_else(missing);
        let number = |column: &[u32]| column.get(at).copied().ok_or_else(missing);
        let role = it.copy_role[at];
        Ok::<_, CodecError>(Copy {
            role: RoleNumber(role.try_into().map_err(|_| missing())?),
            kind: box_of(bytes(&it.copy_box)?.into())?,
            tries: bytes(&it.copy_tries)?,
            state: CopyState { is_dead: bytes(&it.copy_is_dead)? != 0, ..CopyState::default() },
            arrival: number(&it.copy_arrival)?,
            handed: number(&it.copy_handed)?,
            seen: number(&it.copy_seen)?,
        })
    });
    let mut marks = (0..it.mark_at_ms.len()).map(|at| {
        let missing = || CodecError::Malformed("marks of threads");
        Ok::<_, CodecError>(Mark {
            at: Timestamp::from_millis(it.mark_at_ms[at]),
            kind: mark_of(*it.mark_kind.get(at).ok_or_else(missing)?)?,
            copy: *it.mark_copy.get(at).ok_or_else(missing)?,
            entry: *it.mark_entry.get(at).ok_or_else(missing)?,
        })
    });
    let parts = it.heads.iter().zip(&it.copies).zip(&it.marks);
    let (ids, odd) = it.ids.as_chunks::<16>();
    if ids.len() != parts.len() || !odd.is_empty() || it.heads.len() != it.marks.len() {
        return Err(CodecError::Malformed("threads"));
    }
    let mut threads = Vec::with_capacity(ids.len());
    for (bits, ((head_count, copy_count), mark_count)) in ids.iter().zip(parts) {
        let id = MessageId::from_bits(u128::from_be_bytes(*bits));
        let own_heads = heads.by_ref().take(*head_count as usize).collect();
        let own_copies = copies.by_ref().take(*copy_count as usize).collect::<Result<_, _>>()?;
        let own_marks = marks.by_ref().take(*mark_count as usize).collect::<Result<_, _>>()?;
        threads.push(Thread::new(id, own_heads, own_copies, own_marks));
    }
    if heads.next().is_some() || copies.next().is_some() || marks.next().is_some() {
        return Err(CodecError::Malformed("threads"));
    }
    Ok(threads)
}

const fn mark_code(kind: MarkKind) -> u8 {
    match kind {
        MarkKind::Handed => 1,
        MarkKind::Seen => 2,
        MarkKind::Acted => 3,
        MarkKind::Lapsed => 4,
        MarkKind::Dead => 5,
    }
}

fn mark_of(code: u8) -> Result<MarkKind, CodecError> {
    let found = MarkKind::ALL.into_iter().find(|kind| mark_code(*kind) == code);
    found.ok_or_else(|| CodecError::Invalid { field: "mark", value: code.to_string() })
}
