//! Any bytes as the standard output of an agent CLI: read without a panic, in bounded memory, and
//! alike however they are split.
//!
//! The first byte says which CLI, the second how long pieces are.
//!
//! To run it, from `node`:
//!
//! ```text
//! mkdir -p fuzz/corpus/streams && number=0
//! for cli in pi claude codex gemini opencode; do
//!     for stream in tests/agent-streams/"$cli"*/*.jsonl; do
//!         name=$(echo "$stream" | tr / -)
//!         { printf "\\$number@" && head -c 4094 "$stream"; } > "fuzz/corpus/streams/$name"
//!     done
//!     number=$((number + 1))
//! done
//! cargo fuzz run -s none streams -- -max_total_time=300 -dict=fuzz/streams.dict -max_len=4096
//! ```
//!
//! The parsers are built in from their source, as in `parse.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/runner/stream/mod.rs"]
#[allow(dead_code, unused_imports, reason = "only the parsers are tried")]
mod stream;

use stream::{Dialect, OUTPUT_BYTES_MAX, Progress, Reader, Report};

/// What a stream of these pieces tells.
fn read<'p>(dialect: Dialect, pieces: impl Iterator<Item = &'p [u8]>) -> (Vec<String>, Report) {
    let mut told = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut note = |progress: Progress<'_>| {
        match progress {
            Progress::ToolStarted { name } => open.push(name.to_owned()),
            Progress::ToolEnded { name, .. } => {
                let at = open.iter().position(|open| open == name);
                open.remove(at.expect("a tool that ends has begun"));
            }
            Progress::Started { .. }
            | Progress::Text { .. }
            | Progress::Output { .. }
            | Progress::TurnEnded { .. }
            | Progress::Retrying { .. }
            | Progress::Settled => {}
        }
        told.push(format!("{progress:?}"));
    };
    let mut reader = Reader::new(dialect);
    for piece in pieces {
        reader.push(piece, &mut note);
    }
    let report = reader.finish(&mut note);
    (told, report)
}

fuzz_target!(|bytes: &[u8]| {
    let [which, size, stream @ ..] = bytes else { return };
    let dialect = Dialect::ALL[usize::from(*which) % Dialect::ALL.len()];
    let whole = read(dialect, std::iter::once(stream));
    let output = &whole.1.output;
    assert!(output.text.len() <= OUTPUT_BYTES_MAX && output.text.len() as u64 <= output.bytes);
    let size = usize::from(*size).max(1);
    let (first, rest) = stream.split_at(size.min(stream.len()));
    assert_eq!(read(dialect, [first, rest].into_iter()), whole);
    assert_eq!(read(dialect, stream.chunks(size)), whole);
    assert_eq!(read(dialect, stream.chunks(1)), whole);
});
