//! Lines out of bytes that come in any pieces.
//!
//! A line ends with LF alone: U+2028 and U+2029 may stand inside JSON. A trailing CR is no part of
//! it. At most [`LINE_BYTES_MAX`] bytes are held; a longer line is skipped to its LF, and only its
//! beginning is handed out, in its turn.
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

/// What is handed out of a line that is too long.
const HEAD_BYTES: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The beginning of one longer than [`LINE_BYTES_MAX`].
    Oversized(&'a [u8]),
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose LF has not come.
    partial: Vec<u8>,
    /// The line that comes is too long.
    is_skipping: bool,
}

impl Lines {
    /// Hands every line that these bytes complete to `line`, and each that they make too long.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(Line<'_>)) {
        while !bytes.is_empty() {
            let mut rest = bytes;
            // Reading from memory does not fail; were it to, the rest is one unfinished line.
            let taken = rest.skip_until(b'\n').unwrap_or(bytes.len());
            let (piece, rest) = bytes.split_at(taken);
            bytes = rest;
            match piece.strip_suffix(b"\n") {
                Some(piece) => self.end(piece, &mut line),
                None => self.hold(piece, &mut line),
            }
        }
    }

    /// Hands out what came after the last LF.
    pub(super) fn finish(&mut self, mut line: impl FnMut(Line<'_>)) {
        if !self.partial.is_empty() {
            self.end(&[], &mut line);
        }
    }

    fn end(&mut self, piece: &[u8], line: &mut impl FnMut(Line<'_>)) {
        if self.is_skipping {
            self.is_skipping = false;
        } else if self.is_too_long(piece) {
            self.skip(piece, line);
            self.is_skipping = false;
        } else if self.partial.is_empty() {
            line(Line::Whole(trim(piece)));
        } else {
            self.append(piece);
            line(Line::Whole(trim(&self.partial)));
            if self.partial.capacity() > KEPT_BYTES_MAX {
                self.partial = Vec::new();
            }
            self.partial.clear();
        }
    }

    fn hold(&mut self, piece: &[u8], line: &mut impl FnMut(Line<'_>)) {
        if self.is_skipping {
        } else if self.is_too_long(piece) {
            self.skip(piece, line);
        } else {
            self.append(piece);
        }
    }

    fn is_too_long(&self, piece: &[u8]) -> bool {
        self.partial.len() + piece.len() > LINE_BYTES_MAX
    }

    fn skip(&mut self, piece: &[u8], line: &mut impl FnMut(Line<'_>)) {
        let mut head = std::mem::take(&mut self.partial);
        head.truncate(HEAD_BYTES);
        let room = piece.len().min(HEAD_BYTES - head.len());
        head.extend_from_slice(&piece[..room]);
        self.is_skipping = true;
        line(Line::Oversized(&head));
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

    /// The lines, and the beginnings of those that are too long.
    fn lines(pieces: &[&[u8]]) -> Vec<Result<Vec<u8>, Vec<u8>>> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut note = |line: Line<'_>| {
            seen.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::Oversized(head) => Err(head.to_vec()),
            });
        };
        for piece in pieces {
            lines.push(piece, &mut note);
        }
        lines.finish(&mut note);
        seen
    }

    #[test]
    fn only_lf_ends_a_line() {
        let seen = lines(&["a\u{2028}b\r\n\n c\rd\r\r\nlast".as_bytes()]);
        let expected = ["a\u{2028}b", "", " c\rd\r", "last"];
        assert_eq!(seen, expected.map(|line| Ok(line.as_bytes().to_vec())));
    }

    #[test]
    fn a_line_at_the_bound_is_read_and_one_past_it_is_skipped_however_it_is_split() {
        let mut bytes = vec![b'x'; LINE_BYTES_MAX];
        bytes.extend(b"\nhead");
        bytes.extend(vec![b'y'; LINE_BYTES_MAX]);
        bytes.extend(b"\nz\n");
        let head = [&b"head"[..], &[b'y'; HEAD_BYTES - 4]].concat();
        let expected = [Ok(vec![b'x'; LINE_BYTES_MAX]), Err(head), Ok(b"z".to_vec())];
        // The last split is behind `he`.
        for size in [bytes.len(), 1 << 16, 1_000_003, LINE_BYTES_MAX + 3] {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            assert!(lines(&pieces) == expected, "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_line_is_not_held() {
        let (mut lines, mut oversized) = (Lines::default(), 0);
        for _ in 0..40 {
            lines.push(&[b'x'; 1 << 20], |line| {
                assert_eq!(line, Line::Oversized(&[b'x'; HEAD_BYTES]), "no line ended");
                oversized += 1;
            });
            assert!(lines.partial.capacity() <= LINE_BYTES_MAX);
        }
        assert!(lines.is_skipping && lines.partial.capacity() == 0);
        lines.push(b"\n{}\n", |line| assert_eq!(line, Line::Whole(b"{}")));
        assert_eq!(oversized, 1);
    }
}
