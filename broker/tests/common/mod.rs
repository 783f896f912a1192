//! What the tests of journals share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::{path::Path, sync::Arc};

use tasuki_broker::journal::{Journal, Listener, Opened, Outcome};
use tasuki_proto::id::WorkspaceId;
use tokio::sync::mpsc;

pub fn id(name: &str) -> WorkspaceId {
    name.parse().expect("an id")
}

/// Outcomes in the order they were told.
pub struct Heard(mpsc::Receiver<Outcome>);

impl Heard {
    pub async fn next(&mut self) -> Outcome {
        self.0.recv().await.expect("another outcome")
    }

    /// Waits until everything up to `sequence` is durable.
    pub async fn durable(&mut self, sequence: u64) {
        loop {
            match self.next().await {
                Outcome::Durable { through } if through.get() < sequence => {}
                outcome => {
                    assert_eq!(outcome, Outcome::Durable { through: sequence.into() });
                    return;
                }
            }
        }
    }
}

pub fn listener() -> (Heard, Listener) {
    // More outcomes than any test leaves unheard.
    let (tell, heard) = mpsc::channel(100_000);
    let listener = move |outcome| tell.try_send(outcome).expect("there is room");
    (Heard(heard), Arc::new(listener))
}

pub async fn open(journal: &dyn Journal, workspace: &str) -> (Opened, Heard) {
    let (heard, listener) = listener();
    (journal.open(&id(workspace), listener).await.expect("opens"), heard)
}

/// Copies a directory with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("creates");
    for entry in from.read_dir().expect("a directory") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copies");
        }
    }
}
