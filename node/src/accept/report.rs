//! What came of commands that were run again, as the broker keeps it. Pure.

use std::{fmt, time::Duration};

use tasuki_proto::{limits::TEXT_BYTES_MAX, wire};

/// Of a command's output, kept to read: its end, in bytes.
pub const TAIL_BYTES_MAX: usize = 16 * 1024;

/// What evidence takes beside commands and tails, in bytes of each command: hash, numbers, lengths.
const FRAME_BYTES: usize = 128;

/// Commands of one delivery together, in bytes: the rest of what evidence may have is for what they
/// print.
pub const COMMANDS_BYTES_MAX: usize = TEXT_BYTES_MAX / 2;

/// A signal's number is told as a shell tells it.
const SIGNALED: i32 = 128;

/// The signal that ends what is over its time.
const KILLED: i32 = 9;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Exit(i32),
    Signal(i32),
    TimedOut,
}

impl Outcome {
    pub const fn is_passed(self) -> bool {
        matches!(self, Self::Exit(0))
    }

    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(number) => SIGNALED + number,
            Self::TimedOut => SIGNALED + KILLED,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(0) => f.write_str("passed"),
            Self::Exit(code) => write!(f, "failed with exit code {code}"),
            Self::Signal(number) => write!(f, "was ended by signal {number}"),
            Self::TimedOut => f.write_str("ran over its time and was killed"),
        }
    }
}

/// What a command printed on both its outputs, in the order it came.
#[derive(Debug, Clone)]
pub struct Printed {
    hasher: blake3::Hasher,
    bytes: u64,
    tail: Vec<u8>,
}

impl Default for Printed {
    fn default() -> Self {
        Self { hasher: blake3::Hasher::new(), bytes: 0, tail: Vec::new() }
    }
}

impl Printed {
    pub fn take_in(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        self.tail.extend_from_slice(piece);
        // Not at each piece: what is cut off has to be moved for.
        if 4 * TAIL_BYTES_MAX < self.tail.len() {
            self.tail.drain(..self.tail.len() - TAIL_BYTES_MAX);
        }
    }

    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Its end, at most so many bytes of text, beginning with a whole letter.
    pub fn tail(&self, bytes_max: usize) -> String {
        let kept = &self.tail[self.tail.len().saturating_sub(bytes_max)..];
        let text = String::from_utf8_lossy(kept);
        // What is no text takes three bytes for each of its own.
        let mut from = text.len().saturating_sub(bytes_max);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text[from..].to_owned()
    }
}

/// One command that was run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// As it was named.
    pub command: String,
    pub outcome: Outcome,
    pub printed: Printed,
    pub took: Duration,
    pub sandbox: String,
}

/// Whether all passed, and any ran at all.
pub fn is_passed(ran: &[Ran]) -> bool {
    !ran.is_empty() && ran.iter().all(|it| it.outcome.is_passed())
}

/// What is attached to a delivery. It fits into what one may have.
pub fn evidence(commit: &str, ran: &[Ran]) -> wire::Evidence {
    let fixed: usize = ran.iter().map(|it| FRAME_BYTES + it.command.len() + it.sandbox.len()).sum();
    let room = TEXT_BYTES_MAX.saturating_sub(fixed + commit.len() + FRAME_BYTES);
    let tail_max = (room / ran.len().max(1)).min(TAIL_BYTES_MAX);
    let one = |it: &Ran| wire::CommandEvidence {
        command: it.command.clone(),
        exit_code: it.outcome.exit_code(),
        output_hash: it.printed.hash().as_bytes().to_vec(),
        output_bytes: it.printed.bytes(),
        output_tail: it.printed.tail(tail_max),
        duration_ms: u64::try_from(it.took.as_millis()).unwrap_or(u64::MAX),
        is_timed_out: it.outcome == Outcome::TimedOut,
        sandbox: it.sandbox.clone(),
    };
    wire::Evidence {
        commit: commit.to_owned(),
        commands: ran.iter().map(one).collect(),
        has_passed: is_passed(ran),
        ..wire::Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tasuki_proto::limits::COMMANDS_MAX;

    use super::*;

    fn ran(command: &str, outcome: Outcome, output: &[u8]) -> Ran {
        let mut printed = Printed::default();
        for piece in output.chunks(1000) {
            printed.take_in(piece);
        }
        let took = Duration::from_millis(5);
        Ran { command: command.to_owned(), outcome, printed, took, sandbox: "none".to_owned() }
    }

    /// Holds AC6.
    #[test]
    fn only_exit_code_0_within_its_time_passes() {
        let at =
            |outcome| evidence("c", &[ran("a", Outcome::Exit(0), b""), ran("b", outcome, b"")]);
        for (outcome, is_passed, code, is_timed_out) in [
            (Outcome::Exit(0), true, 0, false),
            (Outcome::Exit(3), false, 3, false),
            (Outcome::Signal(11), false, 139, false),
            (Outcome::TimedOut, false, 137, true),
        ] {
            let it = at(outcome);
            let second = &it.commands[1];
            assert_eq!(
                (it.has_passed, second.exit_code, second.is_timed_out),
                (is_passed, code, is_timed_out)
            );
        }
        assert!(!evidence("c", &[]).has_passed, "nothing ran");
    }

    /// Holds AC6.
    #[test]
    fn the_hash_is_of_all_and_the_tail_is_the_end() {
        let output: Vec<u8> =
            (0..1_000_000_u32).flat_map(|it| format!("{it}\n").into_bytes()).collect();
        let it = evidence("c", &[ran("a", Outcome::Exit(0), &output)]);
        let it = &it.commands[0];
        assert_eq!(it.output_hash, blake3::hash(&output).as_bytes());
        assert_eq!(it.output_bytes, output.len() as u64);
        assert_eq!(it.output_tail.as_bytes(), &output[output.len() - TAIL_BYTES_MAX..]);
        let none = evidence("c", &[ran("a", Outcome::Exit(0), b"")]);
        assert_eq!(none.commands[0].output_tail, "");
    }

    #[test]
    fn a_tail_is_text_and_bounded_whatever_was_printed() {
        for output in [vec![0xff; 100_000], "ä€𝄞".repeat(20_000).into_bytes(), vec![0; 40_000]]
        {
            let it = ran("a", Outcome::Exit(0), &output);
            for most in [0, 1, 2, 3, 10, TAIL_BYTES_MAX] {
                assert!(it.printed.tail(most).len() <= most);
            }
            assert!(TAIL_BYTES_MAX - 4 < it.printed.tail(TAIL_BYTES_MAX).len());
        }
    }

    #[test]
    fn evidence_of_as_many_commands_as_there_can_be_fits() {
        let command = "x".repeat(COMMANDS_BYTES_MAX / COMMANDS_MAX);
        let all: Vec<Ran> =
            (0..COMMANDS_MAX).map(|_| ran(&command, Outcome::Exit(1), &[b'y'; 40_000])).collect();
        let it = evidence(&"c".repeat(64), &all);
        assert!(it.encoded_len() <= TEXT_BYTES_MAX, "{}", it.encoded_len());
        assert!(200 < it.commands[0].output_tail.len());
    }
}
