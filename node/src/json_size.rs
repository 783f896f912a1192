//! How large something is as JSON, without writing it anywhere.

use std::io;

use serde::Serialize;

/// Counts what is written to it.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// In bytes. `None`: it cannot be said in JSON.
pub(crate) fn json_size(what: &impl Serialize) -> Option<usize> {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, what).ok().map(|()| counter.0)
}
