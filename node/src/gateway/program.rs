//! A server that is a program: started under a keeper, its last words kept.

use std::{ffi::OsString, io, os::fd::OwnedFd, path::Path, time::Duration};

use parking_lot::Mutex;
use std::sync::Arc;
use tasuki_proto::visible;
use tokio::{io::AsyncReadExt as _, net::unix::pipe, task::JoinHandle, time::timeout};

use super::{settings::Way, stdio::Stdio};
use crate::process::{
    keeper::{Ended, Input, Order},
    kept::{Kept, Outputs, Surroundings},
    policy::Policy,
};

/// What a program wrote last on its standard error, in bytes.
const LAST_WORDS_BYTES: usize = 2048;

/// Of that, in a sentence.
const LAST_WORDS_SAID: usize = 300;

/// Between the end of its input, a request to end, and the end.
const GRACE: Duration = Duration::from_secs(2);

/// One that runs.
pub(super) struct Program {
    kept: Kept,
    last_words: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
    name: String,
}

impl Program {
    /// Starts it. What is returned beside it is how to speak to it.
    pub(super) fn start(
        keeper: &Path,
        words: &[String],
        env: &[(String, Option<String>)],
        directory: &Path,
    ) -> io::Result<(Self, Stdio<pipe::Receiver, pipe::Sender>)> {
        let environment: Vec<(String, OsString)> =
            Way::environment(env, |name| std::env::var_os(name));
        let order = Order { policy: Policy::outside(), words: words.to_vec(), input: Input::Given };
        let (theirs, ours) = io::pipe()?;
        let writer = pipe::Sender::from_owned_fd(OwnedFd::from(ours))?;
        let at = Surroundings { directory, environment: &environment };
        let (kept, pipes) = Kept::start_given(keeper, &order, &at, Outputs::Apart, theirs.into())?;
        let last_words: Arc<Mutex<Vec<u8>>> = Arc::default();
        let reading =
            pipes.stderr.map(|stderr| tokio::spawn(read(stderr, Arc::clone(&last_words))));
        let reading = reading.unwrap_or_else(|| tokio::spawn(async {}));
        let name = words.first().cloned().unwrap_or_default();
        Ok((Self { kept, last_words, reading, name }, Stdio::new(pipes.stdout, writer)))
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
        if said.is_empty() { how } else { format!("{how}; it wrote: {said}") }
    }

    fn how(&self, ended: &Ended) -> String {
        let name = &self.name;
        match (ended.code, ended.signal) {
            (Some(crate::process::keeper::NOT_FOUND), _) => format!("there is no program {name}"),
            (Some(code), _) => format!("{name} ended with exit code {code}"),
            (None, Some(signal)) => format!("{name} was ended by signal {signal}"),
            (None, None) => format!("{name} ended"),
        }
    }

    fn last_words(&self) -> String {
        let words = self.last_words.lock();
        let text = String::from_utf8_lossy(&words);
        let (text, _) = visible::shown(text.trim());
        let begin = text.ceil_char_boundary(text.len().saturating_sub(LAST_WORDS_SAID));
        text[begin..].split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read(mut stderr: pipe::Receiver, last_words: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; LAST_WORDS_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        let mut words = last_words.lock();
        words.extend_from_slice(&buffer[..count]);
        let surplus = words.len().saturating_sub(LAST_WORDS_BYTES);
        words.drain(..surplus);
    }
}
