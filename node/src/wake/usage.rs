//! Tokens that an agent used for itself, as its client wrote them down: what was added to the file of
//! a conversation since it was looked at last.
//!
//! Where it was looked at last stands in a note of our own, which also keeps what was read and not told
//! yet. So two hooks for one end of a turn tell once, and one that was cut off is made up for. What
//! was written before the first look at a session that goes on is not told: it was used before.
//!
//! A file that is not there, is another user's, is no plain file below the client's own directory, or
//! is not understood is no error: then nothing is known, and nobody waits.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use tasuki_broker::hash::Hash;
use tasuki_proto::{
    host::files::{self, Locked},
    id::IdempotencyKey,
    limits::BUDGET_MAX,
    wire,
};
use tokio::time::timeout;

use super::client::{HookClient, HookEvent};
use crate::role::Actions;

/// What is read for one end of a turn, in bytes; the rest is for the next.
const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A note of ours is of no use after it: no session rests for so long.
const NOTE_LASTS: Duration = Duration::from_secs(90 * 24 * 3600);

/// For the broker to take what is told, while a client waits for its hook.
const TELL_WITHIN: Duration = Duration::from_secs(3);

/// What a client says of where it writes a conversation down.
#[derive(Debug, Deserialize)]
struct Input {
    session_id: String,
    transcript_path: PathBuf,
}

/// Whose hook it is.
#[derive(Debug, Clone)]
pub struct Hook {
    pub client: HookClient,
    pub event: HookEvent,
    /// The client's directory, below which it writes.
    pub home: PathBuf,
    /// Where we keep notes.
    pub data: PathBuf,
}

/// So many tokens of a conversation were used, up to this place of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The conversation.
    pub source: String,
    pub through: u64,
    pub tokens: u64,
}

/// What was read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Bytes.
    through: u64,
    counted: Counted,
    untold: Option<Usage>,
}

/// What the figures that come next go on from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    /// Claude Code writes a message in several lines, each with what all of it used so far.
    message: String,
    of_message: u64,
    /// Codex says what the whole conversation used.
    total: Option<u64>,
}

/// Tokens to be told. No other hook tells any of this conversation meanwhile.
#[derive(Debug)]
pub struct Untold {
    pub usage: Usage,
    note: Note,
    file: PathBuf,
    _lock: Locked,
}

impl Untold {
    /// The broker knows of them.
    pub fn told(mut self) {
        self.note.untold = None;
        // Told again, it is the same to the broker.
        drop(write(&self.file, &self.note));
    }
}

/// What is to be told once a client said this; `None`: nothing, or it is not known.
pub fn untold(hook: &Hook, input: &[u8]) -> Option<Untold> {
    let Hook { client, event, home, data } = hook;
    if !matches!(event, HookEvent::SessionStart | HookEvent::Stop) {
        return None;
    }
    let input: Input = serde_json::from_slice(input).ok()?;
    let mut file = open(*client, &input.transcript_path, home)?;
    let source = Hash::of(input.session_id.as_bytes()).0.map(|byte| format!("{byte:02x}")).concat();
    let directory = data.join("usage");
    let note_file = directory.join(format!("{source}.json"));
    let is_first = !note_file.exists();
    files::private_directory(&directory).ok()?;
    let lock = directory.join(format!("{source}.lock"));
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock).ok()?;
    // Another hook is at it.
    let lock = Locked::take(lock).ok()?;
    let end = file.metadata().ok()?.len();
    let mut note = match fs::read(&note_file) {
        Ok(bytes) => serde_json::from_slice::<Note>(&bytes).ok(),
        // A session that begins with something in it goes on.
        Err(_) if *event == HookEvent::SessionStart => None,
        Err(_) => Some(Note::default()),
    }
    // What is not known is not guessed.
    .filter(|note| note.through <= end)
    .unwrap_or_else(|| Note { through: end, ..Note::default() });
    if note.untold.is_none() && *event == HookEvent::Stop {
        let (read, tokens) = read(*client, &mut file, note.through, &mut note.counted).ok()?;
        note.through += read;
        let usage = Usage { source, through: note.through, tokens: tokens.min(BUDGET_MAX) };
        note.untold = Some(usage).filter(|it| it.tokens != 0);
    }
    if is_first {
        remove_old(&directory);
    }
    write(&note_file, &note).ok()?;
    let usage = note.untold.clone()?;
    Some(Untold { usage, note, file: note_file, _lock: lock })
}

fn write(file: &Path, note: &Note) -> std::io::Result<()> {
    files::replace(file, &serde_json::to_vec(note)?)
}

/// Takes away notes of sessions that are over.
fn remove_old(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.map_while(Result::ok) {
        let written = entry.metadata().and_then(|it| it.modified());
        let age = written.ok().and_then(|it| SystemTime::elapsed(&it).ok());
        if age.is_some_and(|age| NOTE_LASTS < age) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// The file, if it is one that the client wrote.
fn open(client: HookClient, path: &Path, home: &Path) -> Option<File> {
    if client == HookClient::Cursor || fs::symlink_metadata(path).ok()?.is_symlink() {
        return None;
    }
    let path = path.canonicalize().ok()?;
    if !path.starts_with(home.canonicalize().ok()?) {
        return None;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // Whoever puts a pipe or a link in its place meanwhile does not hold the hook up.
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.cast_signed());
    }
    let file = options.open(path).ok()?;
    let about = file.metadata().ok()?;
    #[cfg(unix)]
    if !files::is_own(&about) {
        return None;
    }
    about.is_file().then_some(file)
}

/// How much was read from a place on, in whole lines, and the tokens in it.
fn read(
    client: HookClient,
    file: &mut File,
    from: u64,
    counted: &mut Counted,
) -> std::io::Result<(u64, u64)> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let is_full = bytes.len() as u64 == READ_BYTES_MAX;
    // A line that is longer than all of it says nothing.
    let read = if whole == 0 && is_full { bytes.len() } else { whole };
    let lines = bytes[..whole].split(|byte| *byte == b'\n');
    let tokens = lines.fold(0_u64, |all, line| {
        all.saturating_add(match client {
            HookClient::Claude => counted.claude(line),
            HookClient::Codex => counted.codex(line),
            HookClient::Cursor => 0,
        })
    });
    Ok((read as u64, tokens))
}

#[derive(Deserialize)]
struct ClaudeLine {
    message: ClaudeMessage,
}

#[derive(Deserialize)]
struct ClaudeMessage {
    id: String,
    usage: ClaudeUsage,
}

#[derive(Deserialize)]
struct ClaudeUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

#[derive(Deserialize)]
struct CodexLine {
    payload: CodexEvent,
}

#[derive(Deserialize)]
struct CodexEvent {
    #[serde(rename = "type")]
    kind: String,
    info: CodexInfo,
}

#[derive(Deserialize)]
struct CodexInfo {
    total_token_usage: CodexUsage,
    last_token_usage: CodexUsage,
}

#[derive(Deserialize)]
struct CodexUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl CodexUsage {
    const fn tokens(&self) -> u64 {
        let input = self.input_tokens.saturating_sub(self.cached_input_tokens);
        input.saturating_add(self.output_tokens)
    }
}

/// As runs count: without what was read again from a cache.
impl Counted {
    fn claude(&mut self, line: &[u8]) -> u64 {
        let Ok(ClaudeLine { message }) = serde_json::from_slice(line) else { return 0 };
        let ClaudeUsage { input_tokens, cache_creation_input_tokens, output_tokens } =
            message.usage;
        let all =
            input_tokens.saturating_add(cache_creation_input_tokens).saturating_add(output_tokens);
        if self.message != message.id {
            (self.message, self.of_message) = (message.id, 0);
        }
        let more = all.saturating_sub(self.of_message);
        self.of_message = self.of_message.max(all);
        more
    }

    fn codex(&mut self, line: &[u8]) -> u64 {
        let Ok(CodexLine { payload }) = serde_json::from_slice(line) else { return 0 };
        if payload.kind != "token_count" {
            return 0;
        }
        let (total, last) = (payload.info.total_token_usage, payload.info.last_token_usage);
        let (total, last) = (total.tokens(), last.tokens());
        match self.total.replace(total) {
            Some(before) if before <= total => total - before,
            // The first that is seen, or one of a conversation that was made shorter.
            Some(_) | None => last,
        }
    }
}

/// Tells the broker; `true`: it need not be told again.
pub(super) async fn tell(actions: &dyn Actions, usage: &Usage) -> bool {
    let Ok(client) = format!("usage-{}", usage.source).parse() else { return true };
    let key = IdempotencyKey { client, counter: usage.through };
    let request = wire::ReportUsageRequest { tokens: usage.tokens, ..Default::default() };
    match timeout(TELL_WITHIN, actions.command(request, Some(key))).await {
        Ok(Ok(_)) => true,
        Ok(Err(refusal)) => {
            tracing::debug!(%refusal, role = %actions.role(), "tokens were not told");
            !refusal.reason.is_retryable() && !refusal.reason.is_maybe_applied()
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
