//! Lines out of bytes that come in any pieces.
//!
//! A line ends with LF alone: U+2028 and U+2029 may stand inside JSON. A trailing CR is no part of
//! it. At most [`LINE_BYTES_MAX`] bytes are held; a longer line is skipped to its LF and counted.
//!
//! Not here: what a line means.

use std::io::BufRead as _;

/// The longest line that is read. Agents write whole messages and whole tool results as one line;
/// one of this size is a runaway.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// The buffer that is kept from one line to the next.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// The first reservation for a line that came in pieces.
const PARTIAL_BYTES: usize = 8 << 10;

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose LF has not come.
    partial: Vec<u8>,
    /// The line that comes is too long.
    is_skipping: bool,
    /// Lines that were too long.
    oversized: u64,
}

impl Lines {
    pub(super) fn oversized(&self) -> u64 {
        self.oversized
    }

    /// Hands every line that these bytes complete to `line`.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let mut rest = bytes;
            // Reading from memory does not fail; were it to, the rest is one unfinished line.
            let taken = rest.skip_until(b'\n').unwrap_or(bytes.len());
            let (piece, rest) = bytes.split_at(taken);
            bytes = rest;
            match piece.strip_suffix(b"\n") {
                Some(piece) => self.end(piece, &mut line),
                None => self.hold(piece),
            }
        }
    }

    /// Hands out what came after the last LF.
    pub(super) fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            self.end(&[], &mut line);
        }
    }

    fn end(&mut self, piece: &[u8], line: &mut impl FnMut(&[u8])) {
        if self.is_skipping {
            self.is_skipping = false;
        } else if self.is_too_long(piece) {
            self.skip();
            self.is_skipping = false;
        } else if self.partial.is_empty() {
            line(trim(piece));
        } else {
            self.append(piece);
            line(trim(&self.partial));
            if self.partial.capacity() > KEPT_BYTES_MAX {
                self.partial = Vec::new();
            }
            self.partial.clear();
        }
    }

    fn hold(&mut self, piece: &[u8]) {
        if self.is_skipping {
        } else if self.is_too_long(piece) {
            self.skip();
        } else {
            self.append(piece);
        }
    }

    fn is_too_long(&self, piece: &[u8]) -> bool {
        self.partial.len() + piece.len() > LINE_BYTES_MAX
    }

    fn skip(&mut self) {
        self.partial = Vec::new();
        self.is_skipping = true;
        self.oversized += 1;
    }

    /// Doubles as `Vec` does, but never past the bound.
    fn append(&mut self, piece: &[u8]) {
        let needed = self.partial.len() + piece.len();
        if needed > self.partial.capacity() {
            let doubled = self.partial.capacity().saturating_mul(2).min(LINE_BYTES_MAX);
            let wanted = needed.max(doubled).max(PARTIAL_BYTES);
            self.partial.reserve_exact(wanted - self.partial.len());
        }
        self.partial.extend_from_slice(piece);
    }
}

fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in pieces {
            lines.push(piece, |line| seen.push(line.to_vec()));
        }
        lines.finish(|line| seen.push(line.to_vec()));
        (seen, lines.oversized())
    }

    #[test]
    fn only_lf_ends_a_line() {
        let (seen, _) = lines(&["a\u{2028}b\r\n\n c\rd\r\r\nlast".as_bytes()]);
        let text: Vec<_> = seen.iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert_eq!(text, ["a\u{2028}b", "", " c\rd\r", "last"]);
    }

    #[test]
    fn a_line_at_the_bound_is_read_and_one_past_it_is_skipped_however_it_is_split() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX];
        bytes.extend(b"\n");
        bytes.extend(vec![b'y'; LINE_BYTES_MAX + 1]);
        bytes.extend(b"\nz\n");
        let ends = |(seen, oversized): (Vec<Vec<u8>>, u64)| {
            let sizes: Vec<_> = seen.iter().map(Vec::len).collect();
            (sizes, oversized)
        };
        let whole = ends(lines(&[&bytes]));
        assert_eq!(whole, (vec![LINE_BYTES_MAX, 1], 1));
        for size in [1 << 16, 1_000_003] {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            assert_eq!(ends(lines(&pieces)), whole);
        }
    }

    #[test]
    fn an_endless_line_is_not_held() {
        let mut lines = Lines::default();
        for _ in 0..40 {
            lines.push(&[b'x'; 1 << 20], |_| panic!("no line ended"));
            assert!(lines.partial.capacity() <= LINE_BYTES_MAX);
        }
        assert!(lines.is_skipping && lines.partial.capacity() == 0);
        lines.push(b"\n{}\n", |line| assert_eq!(line, b"{}"));
        assert_eq!(lines.oversized(), 1);
    }
}
