//! A server that is a program: started under a keeper, its last words kept.

use std::{ffi::OsString, io, os::fd::OwnedFd, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tasuki_proto::visible;
use tokio::{io::AsyncReadExt as _, net::unix::pipe, task::JoinHandle, time::timeout};

use super::{settings::ServerTransport, stdio::Stdio};
use crate::process::{
    keeper::{Ended, Input, NOT_FOUND, Order},
    kept::{Kept, Outputs, Surroundings},
    policy::Policy,
    tail::Tail,
};

/// What is kept of the end of its standard error, in bytes.
const STDERR_BYTES_MAX: usize = 2048;

/// Of that, in a sentence, in bytes.
const LAST_WORDS_BYTES_MAX: usize = 300;

/// Between the end of its input, a request to end, and the end.
const GRACE: Duration = Duration::from_secs(2);

/// One that runs.
pub(super) struct Program {
    kept: Kept,
    stderr: Arc<Mutex<Tail>>,
    reading: JoinHandle<()>,
    name: String,
}

impl Program {
    /// Starts it. What is returned beside it is how to speak to it.
    pub(super) fn start(
        server: &str,
        keeper: &Path,
        words: &[String],
        env: &[(String, Option<String>)],
        directory: &Path,
    ) -> io::Result<(Self, Stdio<pipe::Receiver, pipe::Sender>)> {
        let environment: Vec<(String, OsString)> =
            ServerTransport::environment(env, |name| std::env::var_os(name));
        let order = Order { policy: Policy::outside(), words: words.to_vec(), input: Input::Pipe };
        let (theirs, ours) = io::pipe()?;
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(ours))?;
        let at = Surroundings { directory, environment: &environment };
        let (kept, pipes) = Kept::start(keeper, &order, &at, Outputs::Apart, Some(theirs.into()))?;
        let stderr = Arc::new(Mutex::new(Tail::new(STDERR_BYTES_MAX)));
        let reading = tokio::spawn(read(pipes.stderr, Arc::clone(&stderr)));
        let name = words.first().cloned().unwrap_or_default();
        Ok((Self { kept, stderr, reading, name }, Stdio::new(server, pipes.stdout, writer)))
    }

    /// Ends it, and says why it is over: by `why`, unless it ended by itself.
    pub(super) async fn end(mut self, why: String) -> String {
        // Its input has ended, which asks it to end.
        let mut ended = timeout(GRACE, self.kept.told()).await.ok().flatten();
        let is_own = ended.is_some();
        if ended.is_none() {
            self.kept.terminate().await;
            ended = timeout(GRACE, self.kept.told()).await.ok().flatten();
        }
        if ended.is_none() {
            ended = self.kept.end().await;
        }
        self.kept.gone().await;
        timeout(GRACE, &mut self.reading).await.ok();
        let how = match &ended {
            Some(ended) if is_own => self.how(ended),
            Some(_) | None => why,
        };
        let said = self.last_words();
        if said.is_empty() { how } else { format!("{how}; its last output: {said}") }
    }

    fn how(&self, ended: &Ended) -> String {
        let name = &self.name;
        match (ended.code, ended.signal) {
            (Some(NOT_FOUND), _) => format!("the program {name} was not found"),
            (Some(code), _) => format!("{name} ended with exit code {code}"),
            (None, Some(signal)) => format!("{name} was ended by signal {signal}"),
            (None, None) => format!("{name} ended"),
        }
    }

    fn last_words(&self) -> String {
        let text = self.stderr.lock().text();
        let (text, _) = visible::shown(text.trim());
        let begin = text.ceil_char_boundary(text.len().saturating_sub(LAST_WORDS_BYTES_MAX));
        text[begin..].split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read(stderr: Option<pipe::Receiver>, into: Arc<Mutex<Tail>>) {
    let Some(mut stderr) = stderr else { return };
    let mut buffer = vec![0; STDERR_BYTES_MAX];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        into.lock().push(&buffer[..count]);
    }
}
