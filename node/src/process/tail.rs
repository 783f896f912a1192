//! The end of what a command wrote.

/// Keeps the last bytes, up to a limit.
#[derive(Debug)]
pub struct Tail {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Tail {
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let over = self.bytes.len().saturating_sub(self.bytes_max);
        self.bytes.drain(..over);
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
