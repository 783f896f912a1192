//! Reading the streams of agent CLIs, on one core: what all of them wrote when they were captured,
//! again and again, in pieces as they come from a pipe.

use std::{fs, hint::black_box};

use serde_json::Value;
use tasuki_node::runner::stream::{Dialect, Reader};
use tokio::time::Instant;

use super::super::{Figure, Quantity, Sizes, Target, median};
use crate::Result;

/// The captured streams, in a folder for each version of a CLI.
pub(super) const STREAMS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../node/tests/agent-streams");

/// What must be read in a second.
const BYTES_PER_SECOND_MIN: f64 = 200e6;

/// Bytes read at once, as a node reads them.
const PIECE_BYTES: usize = 64 * 1024;

/// What is repeated, at least: less would be cut into other pieces than a long stream is.
const BLOCK_BYTES: usize = 1024 * 1024;

/// The limit takes longer, so it reads this part.
const LIMIT_PART: usize = 8;

/// A figure for each stream.
pub(super) fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    Dialect::ALL.into_iter().map(|dialect| one(sizes, dialect)).collect()
}

fn one(sizes: &Sizes, dialect: Dialect) -> Result<Figure> {
    let block = captured(dialect)?;
    let (mut limits, mut values) = (Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let limit = parse_values(&block, sizes.parsed / LIMIT_PART);
        let value = read(dialect, &block, sizes.parsed)?;
        if run == 0 {
            // It warmed up.
            continue;
        }
        limits.push(limit);
        values.push(value);
    }
    let value = median(&mut values);
    Ok(Figure {
        name: format!("reading a stream of {dialect}: MB/s"),
        value: Quantity::BytesPerSecond(value),
        limit: Some(("serde_json to Value".into(), Quantity::BytesPerSecond(median(&mut limits)))),
        score: value / 1e6,
        target: Target::AtLeast(BYTES_PER_SECOND_MIN / 1e6),
    })
}

/// Bytes a second, of at least so many.
fn read(dialect: Dialect, block: &[u8], bytes: usize) -> Result<f64> {
    let mut reader = Reader::new(dialect);
    let (mut done, mut told) = (0, 0_u64);
    let began = Instant::now();
    while done < bytes {
        for piece in block.chunks(PIECE_BYTES) {
            reader.push(piece, &mut |_| told += 1);
        }
        done += block.len();
    }
    let report = reader.finish(&mut |_| told += 1);
    let took = began.elapsed().as_secs_f64();
    if told == 0 || report.events < report.garbage_lines {
        let (events, garbage) = (report.events, report.garbage_lines);
        return Err(format!("{dialect}: {events} events, {garbage} lines that are none").into());
    }
    Ok(done as f64 / took)
}

/// The same of lines that are made into values of JSON, and nothing else.
fn parse_values(block: &[u8], bytes: usize) -> f64 {
    let mut done = 0;
    let began = Instant::now();
    while done < bytes {
        for line in block.split(|byte| *byte == b'\n') {
            black_box(serde_json::from_slice::<Value>(line).ok());
        }
        done += block.len();
    }
    done as f64 / began.elapsed().as_secs_f64()
}

/// All that a CLI wrote, repeated to a block.
fn captured(dialect: Dialect) -> Result<Vec<u8>> {
    let prefix = match dialect {
        Dialect::Pi => "pi-",
        Dialect::Claude => "claude-code-",
        Dialect::Codex => "codex-",
        Dialect::Gemini => "gemini-",
        Dialect::Opencode => "opencode-",
    };
    let mut paths = Vec::new();
    for folder in fs::read_dir(STREAMS)? {
        let folder = folder?;
        if !folder.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let mut streams = Vec::new();
    for path in paths {
        streams.extend(fs::read(path)?);
        // One that was cut off ends within a line.
        if !streams.ends_with(b"\n") {
            streams.push(b'\n');
        }
    }
    if streams.is_empty() {
        return Err(format!("no stream of {dialect} lies in {STREAMS}").into());
    }
    Ok(streams.repeat(BLOCK_BYTES.div_ceil(streams.len())))
}
