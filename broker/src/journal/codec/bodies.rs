//! What is kept beside records, each under a key of its own.
//!
//! A body says what it belongs to, so that none is taken for another's.

use std::{
    borrow::Cow,
    str::{self, Utf8Error},
};

use bytes::Bytes;
use minicbor::{Decode, Encode};
use tasuki_proto::{id::LoopId, mail::MessageId};

use super::{super::BodyKey, CodecError, decode, encode};
use crate::rules::{
    Body, TextOwner,
    board::{ResultPlace, ResultValue, Value, ValuePlace},
    mailbox,
    mailbox::ContentHash,
    run,
    swarm::{DocPlace, Words},
    turn::EntryBody,
};

/// The longest text that is kept with the facts of its entry, in bytes: what lists boxes reads
/// those, and not the words.
const TEXT_BESIDE_BYTES_MAX: usize = 4096;

/// An entry of a thread.
#[derive(Encode, Decode)]
struct StoredMail<'a> {
    #[n(0)]
    entry: Cow<'a, mailbox::EntryBody>,
    #[n(1)]
    text: MailText,
}

/// Whether an entry's text came with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum MailText {
    #[n(0)]
    Here,
    /// Under [`mail_text_key`].
    #[n(1)]
    Apart,
}

/// Where the body of a history entry is.
pub fn entry_key(loop_id: &LoopId, number: u64) -> BodyKey {
    BodyKey(format!("loop/{loop_id}/{number}"))
}

/// How the keys of all mail begin.
pub const MAIL_KEYS: &str = "mail/";

/// Where an entry of a thread is.
pub fn mail_key(thread: MessageId, number: u32) -> BodyKey {
    BodyKey(format!("{MAIL_KEYS}{thread}/{number}"))
}

/// Where its text is, if it is long.
pub fn mail_text_key(thread: MessageId, number: u32) -> BodyKey {
    BodyKey(format!("{MAIL_KEYS}{thread}/{number}/text"))
}

/// Where an attached file is.
pub fn file_key(file: &ContentHash) -> BodyKey {
    BodyKey(format!("file/{}", blake3::Hash::from_bytes(*file).to_hex()))
}

/// Where words are. What is said in `words` does not count, only what they belong to.
pub fn swarm_key(words: &Words) -> BodyKey {
    BodyKey(match words {
        Words::Issue { issue, .. } => format!("swarm/{issue}/issue"),
        Words::Paths { issue, version, .. } => format!("swarm/{issue}/paths/{version}"),
        Words::Task { issue, task, .. } => format!("swarm/{issue}/{task}"),
        Words::Submission { issue, submission, .. } => format!("swarm/{issue}/{submission}"),
        Words::Review { issue, submission, .. } => format!("swarm/{issue}/{submission}/review"),
        Words::Message { issue, message, .. } => format!("swarm/{issue}/{message}"),
        Words::Reply { issue, message, .. } => format!("swarm/{issue}/{message}/reply"),
        Words::Delivery { issue, delivery, .. } => format!("swarm/{issue}/{delivery}"),
        Words::Evidence { issue, delivery, number, .. } => {
            format!("swarm/{issue}/{delivery}/evidence/{number}")
        }
        Words::Verdict { issue, delivery, .. } => format!("swarm/{issue}/{delivery}/verdict"),
        Words::Doc { place: DocPlace::Shared, name, version, .. } => {
            format!("swarm/shared/{name}/{version}")
        }
        Words::Doc { place: DocPlace::Issue(issue), name, version, .. } => {
            format!("swarm/{issue}/doc/{name}/{version}")
        }
        Words::Doc { place: DocPlace::Task(issue, task), name, version, .. } => {
            format!("swarm/{issue}/{task}/doc/{name}/{version}")
        }
        Words::Audit(it) => format!("swarm/{}/audit/{}", it.issue, it.number),
    })
}

/// Where words of runs are. What is said in `words` does not count, only what they belong to.
pub fn run_key(words: &run::Words) -> BodyKey {
    BodyKey(match words {
        run::Words::Step { step, .. } => format!("run/{step}"),
        run::Words::Output { step, .. } => format!("run/{step}/output"),
        run::Words::Message { run, number, .. } => format!("run/{run}/message/{number}"),
        run::Words::Reply { run, number, .. } => format!("run/{run}/reply/{number}"),
        run::Words::File { run, number, .. } => format!("run/{run}/message/{number}/file"),
    })
}

/// Where a value of a board is.
pub fn board_key(place: &ValuePlace) -> BodyKey {
    let ValuePlace { board, checkpoint, channel, is_whole } = place;
    let whole = if *is_whole { "/whole" } else { "" };
    BodyKey(format!("board/{board}/{checkpoint}/{channel}{whole}"))
}

/// Where a result that is stored at a checkpoint is.
pub fn board_result_key(place: &ResultPlace) -> BodyKey {
    let ResultPlace { board, checkpoint, number } = place;
    BodyKey(format!("result/{board}/{checkpoint}/{number}"))
}

/// What a body belongs to; `None` for one that no release so far writes.
pub fn text_owner(key: &BodyKey) -> Option<TextOwner> {
    let (kind, rest) = key.0.split_once('/')?;
    let (first, others) = rest.split_once('/').unwrap_or((rest, ""));
    Some(match kind {
        "loop" => TextOwner::Entry(first.parse().ok()?, others.parse().ok()?),
        "mail" => TextOwner::Thread(first.parse().ok()?),
        "file" => TextOwner::File(*blake3::Hash::from_hex(first).ok()?.as_bytes()),
        "swarm" if first == "shared" => {
            let (name, version) = others.split_once('/')?;
            TextOwner::Doc(name.parse().ok()?, version.parse().ok()?)
        }
        "swarm" => TextOwner::Issue(first.parse().ok()?),
        "run" => TextOwner::Run(first.parse().ok()?),
        "board" => {
            let (checkpoint, _) = others.split_once('/')?;
            let checkpoint: u64 = checkpoint.parse().ok()?;
            TextOwner::Checkpoint(first.parse().ok()?, checkpoint.into())
        }
        "result" => {
            let (checkpoint, number) = others.split_once('/')?;
            let checkpoint = checkpoint.parse::<u64>().ok()?.into();
            let (board, number) = (first.parse().ok()?, number.parse().ok()?);
            TextOwner::BoardResult(ResultPlace { board, checkpoint, number })
        }
        _ => return None,
    })
}

/// A body in its parts, each with the key it is kept under.
pub fn encode_body(body: &Body) -> Vec<(BodyKey, Bytes)> {
    let bytes = match body {
        Body::Entry(it) => encode(it).into(),
        Body::Mail(it) => return encode_mail(it),
        Body::File(it) => it.content.clone(),
        Body::Swarm(it) => encode(it).into(),
        Body::Run(it) => encode(it).into(),
        Body::Board(it) => encode(it).into(),
        Body::BoardResult(it) => encode(it).into(),
    };
    vec![(body_key(body), bytes)]
}

fn encode_mail(it: &mailbox::EntryBody) -> Vec<(BodyKey, Bytes)> {
    let key = mail_key(it.thread, it.number);
    if it.text.len() <= TEXT_BESIDE_BYTES_MAX {
        let stored = StoredMail { entry: Cow::Borrowed(it), text: MailText::Here };
        return vec![(key, encode(&stored).into())];
    }
    let mut entry = it.clone();
    let text = std::mem::take(&mut entry.text);
    let stored = StoredMail { entry: Cow::Owned(entry), text: MailText::Apart };
    vec![(key, encode(&stored).into()), (mail_text_key(it.thread, it.number), text.into())]
}

/// The body of entry `number` of a history.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_entry(loop_id: &LoopId, number: u64, bytes: &[u8]) -> Result<EntryBody, CodecError> {
    let it: EntryBody = decode("entry", bytes)?;
    let found = entry_key(&it.loop_id, it.number);
    check_place("entry", &entry_key(loop_id, number), found).map(|()| it)
}

/// The body of entry `number`; where its text is apart, without it.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_mail(
    thread: MessageId,
    number: u32,
    bytes: &[u8],
) -> Result<(mailbox::EntryBody, MailText), CodecError> {
    let StoredMail { entry, text } = decode("mail", bytes)?;
    let found = mail_key(entry.thread, entry.number);
    check_place("mail", &mail_key(thread, number), found)?;
    Ok((entry.into_owned(), text))
}

/// The words that are kept where `place` is: the same with what is said.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_words(place: &Words, bytes: &[u8]) -> Result<Words, CodecError> {
    let it: Words = decode("words", bytes)?;
    check_place("words", &swarm_key(place), swarm_key(&it)).map(|()| it)
}

/// The same for words of runs.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_run_words(place: &run::Words, bytes: &[u8]) -> Result<run::Words, CodecError> {
    let it: run::Words = decode("words of a run", bytes)?;
    check_place("words of a run", &run_key(place), run_key(&it)).map(|()| it)
}

/// The value that is kept at a place of a board.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_board_value(place: &ValuePlace, bytes: &[u8]) -> Result<Value, CodecError> {
    let it: Value = decode("a value of a board", bytes)?;
    check_place("a value of a board", &board_key(place), board_key(&it.place)).map(|()| it)
}

/// The result that is kept at a place.
///
/// # Errors
/// When the bytes are something else.
pub fn decode_board_result(place: &ResultPlace, bytes: &[u8]) -> Result<ResultValue, CodecError> {
    let it: ResultValue = decode("a result of a board", bytes)?;
    let found = board_result_key(&it.place);
    check_place("a result of a board", &board_result_key(place), found).map(|()| it)
}

/// A body as what it is; where the text of a letter is apart, without it.
///
/// # Errors
/// When the bytes are something else, or no release so far writes such a body.
pub fn decode_body(key: &BodyKey, bytes: &Bytes) -> Result<(Body, MailText), CodecError> {
    let unknown = || CodecError::Unknown("a body");
    let (kind, name) = key.0.split_once('/').ok_or_else(unknown)?;
    let mut place = MailText::Here;
    let body = match kind {
        "loop" => Body::Entry(decode("entry", bytes)?),
        "mail" => {
            let StoredMail { entry, text } = decode("mail", bytes)?;
            place = text;
            Body::Mail(entry.into_owned())
        }
        "file" => {
            let hash = *blake3::Hash::from_hex(name).map_err(|_| unknown())?.as_bytes();
            Body::File(mailbox::FileBody { hash, content: bytes.clone() })
        }
        "swarm" => Body::Swarm(decode("words", bytes)?),
        "run" => Body::Run(decode("words of a run", bytes)?),
        "board" => Body::Board(decode("a value of a board", bytes)?),
        "result" => Body::BoardResult(decode("a result of a board", bytes)?),
        _ => return Err(unknown()),
    };
    check_place("a body", key, body_key(&body)).map(|()| (body, place))
}

/// A letter with its text that is apart.
///
/// # Errors
/// When the bytes are something else.
pub fn with_text(letter: Body, key: &BodyKey, text: &Bytes) -> Result<Body, CodecError> {
    let Body::Mail(mut letter) = letter else { return Err(CodecError::Unknown("a body")) };
    check_place("text", &mail_text_key(letter.thread, letter.number), key.clone())?;
    let malformed = |why: Utf8Error| CodecError::Malformed { what: "text", why: why.to_string() };
    letter.text = str::from_utf8(text).map_err(malformed)?.to_owned();
    Ok(Body::Mail(letter))
}

fn body_key(body: &Body) -> BodyKey {
    match body {
        Body::Entry(it) => entry_key(&it.loop_id, it.number),
        Body::Mail(it) => mail_key(it.thread, it.number),
        Body::File(it) => file_key(&it.hash),
        Body::Swarm(it) => swarm_key(it),
        Body::Run(it) => run_key(it),
        Body::Board(it) => board_key(&it.place),
        Body::BoardResult(it) => board_result_key(&it.place),
    }
}

fn check_place(what: &'static str, asked: &BodyKey, found: BodyKey) -> Result<(), CodecError> {
    if *asked == found { Ok(()) } else { Err(CodecError::Misplaced { what, found: found.0 }) }
}
