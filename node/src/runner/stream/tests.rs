//! Every captured stream, read in every way; what streams do wrong; and random damage.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use super::*;
use crate::runner::CAPTURED;

/// All captured streams by `FOLDER/NAME`.
fn fixtures() -> BTreeMap<String, (Dialect, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for folder in fs::read_dir(CAPTURED).expect("the captured streams") {
        let folder = folder.expect("an entry").path();
        if !folder.is_dir() || folder.ends_with("golden") {
            continue;
        }
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let dialect = name.split('-').next().expect("a dialect").parse().expect("a dialect");
        for file in fs::read_dir(&folder).expect("a folder") {
            let file = file.expect("an entry").path();
            let end = file.file_name().expect("a name").to_string_lossy().into_owned();
            if end.ends_with(".jsonl") || end == "rpc-session.txt" {
                let mut bytes = fs::read(&file).expect("a stream");
                if end == "rpc-session.txt" {
                    bytes = answers(&bytes);
                }
                found.insert(format!("{name}/{end}"), (dialect, bytes));
            }
        }
    }
    assert!(found.len() > 40, "only {} streams", found.len());
    found
}

/// What pi wrote in a session of both sides.
fn answers(session: &[u8]) -> Vec<u8> {
    let lines = session.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"<<< ")).flatten().copied().collect()
}

/// The progress of a stream, one line each, and its report.
fn read_pieces(dialect: Dialect, pieces: &[&[u8]]) -> (String, Report) {
    let mut rendered = String::new();
    let mut tools: Vec<String> = Vec::new();
    let mut note = |progress: Progress<'_>| {
        // ST4
        if let Progress::ToolStarted { name } = progress {
            tools.push(name.to_owned());
        } else if let Progress::ToolEnded { name, .. } = progress {
            let open = tools.iter().position(|open| open == name);
            tools.remove(open.expect("a tool that began"));
        }
        writeln!(rendered, "  {progress:?}").expect("memory");
    };
    let mut reader = Reader::new(dialect);
    for piece in pieces {
        reader.push(piece, &mut note);
    }
    let report = reader.finish(&mut note);
    (rendered, report)
}

/// A report, a line for each thing that can be wrong with it.
fn summary(report: &Report) -> String {
    let Report { session, model, output, messages, stop, stop_reason, error, usage, .. } = report;
    let Report { retries, is_settled, events, unknown_events, garbage_lines, .. } = report;
    format!(
        "session {session:?}, model {model:?}\n\
         {messages} messages, {retries} retries, stop {stop:?} ({stop_reason:?}), settled {is_settled}\n\
         output {:?}, {} bytes\nerror {error:?}\n{usage:?}\n\
         {events} events, {unknown_events} unknown, {garbage_lines} garbage, {} oversized",
        output.text, output.bytes, report.oversized_lines
    )
}

fn report(dialect: Dialect, stream: &str) -> Report {
    read_pieces(dialect, &[stream.as_bytes()]).1
}

#[test]
fn every_captured_stream_tells_what_its_golden_says() {
    let mut goldens: BTreeMap<String, String> = BTreeMap::new();
    for (name, (dialect, bytes)) in fixtures() {
        let (rendered, report) = read_pieces(dialect, &[&bytes]);
        let (folder, file) = name.split_once('/').expect("a folder");
        let golden = goldens.entry(folder.to_owned()).or_default();
        writeln!(golden, "== {file}\n{rendered}{}\n", summary(&report)).expect("memory");
    }
    for (folder, golden) in goldens {
        let path = Path::new(CAPTURED).join("golden").join(format!("{folder}.txt"));
        if std::env::var_os("GOLDENS").is_some_and(|value| value == "write") {
            fs::write(&path, &golden).expect("a golden");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(expected == golden, "{folder} tells otherwise: GOLDENS=write, then read the diff");
    }
}

/// Holds ST1.
#[test]
fn how_a_stream_is_split_changes_nothing() {
    /// Streams up to this size are read once for each place to split them.
    const EACH_SPLIT_BYTES_MAX: usize = 1200;
    for (name, (dialect, bytes)) in fixtures() {
        let whole = read_pieces(dialect, &[&bytes]);
        for size in [1, 2, 3, 7, 64, 1000, 4096] {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            assert_eq!(read_pieces(dialect, &pieces), whole, "{name} in pieces of {size}");
        }
        if bytes.len() <= EACH_SPLIT_BYTES_MAX {
            for at in 0..bytes.len() {
                let (a, b) = bytes.split_at(at);
                assert_eq!(read_pieces(dialect, &[a, b]), whole, "{name} split at {at}");
            }
        }
        // What is parsed depends on the lines alone: they are the same wherever a line is split.
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            for at in 0..line.len() {
                let (a, b) = line.split_at(at);
                let (mut lines, mut seen) = (Lines::default(), 0);
                let mut same = |found: Line<'_>| {
                    let whole = Line::Whole(line.trim_ascii_end());
                    assert_eq!(found, whole, "{name} split at {at}");
                    seen += 1;
                };
                lines.push(a, &mut same);
                lines.push(b, &mut same);
                lines.finish(&mut same);
                assert_eq!(seen, 1, "{name} split at {at}");
            }
        }
    }
}

/// Pseudo-random numbers that are the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).expect("below a size")
    }
}

/// Holds ST2 and RN2.
#[test]
fn random_damage_is_survived_and_read_alike_in_pieces() {
    const ROUNDS: usize = 40;
    /// Enough of each stream for every kind of event.
    const BYTES_MAX: usize = 3000;
    let mut chance = Chance(0x5eed_1234_dead_beef);
    let joints: [&[u8]; 9] =
        [b"\n", b"{", b"}", b"\"", b"\\ud800", b"null", b"[]", b"\xff\xfe", b"-1e999"];
    for (name, (dialect, bytes)) in fixtures() {
        if bytes.is_empty() {
            continue;
        }
        for round in 0..ROUNDS {
            let start = chance.below(bytes.len().saturating_sub(BYTES_MAX));
            let mut damaged = bytes[start..(start + BYTES_MAX).min(bytes.len())].to_vec();
            for _ in 0..=chance.below(6) {
                let at = chance.below(damaged.len());
                match chance.below(4) {
                    0 => damaged[at] = chance.below(256).to_le_bytes()[0],
                    1 => drop(damaged.splice(at..at, joints[chance.below(joints.len())].to_vec())),
                    2 => {
                        let end = (at + chance.below(40)).min(damaged.len());
                        drop(damaged.drain(at..end));
                        damaged.push(b'\n');
                    }
                    _ => {
                        let end = (at + chance.below(200)).min(damaged.len());
                        let copy = damaged[at..end].to_vec();
                        drop(damaged.splice(at..at, copy));
                    }
                }
            }
            let whole = read_pieces(dialect, &[&damaged]);
            let (a, b) = damaged.split_at(chance.below(damaged.len()));
            assert_eq!(read_pieces(dialect, &[a, b]), whole, "{name}, round {round}");
            // No dialect is confused by the stream of another one.
            let other = Dialect::ALL[chance.below(Dialect::ALL.len())];
            drop(read_pieces(other, &[&damaged]));
        }
    }
}

#[test]
fn lines_that_are_no_event_are_counted_and_ignored() {
    let message = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"ok"}],"stopReason":"stop"}}"#;
    let stream = format!(
        "Welcome!\r\n\n   \n[1,2]\n{{\"type\":5}}\n{{\"no\":\"type\"}}\n\
         \x1b]0;title\x07{message}\r\n{{\"type\":\"from_the_future\",\"x\":1}}\n\
         {{\"type\":\"message_start\",\"message\":{{\"role\":\"oracle\"}}}}\n{{\"type\":\"turn_st"
    );
    let report = report(Dialect::Pi, &stream);
    assert_eq!((report.events, report.unknown_events, report.garbage_lines), (1, 2, 5));
    assert_eq!(report.output.text, "ok");
    assert_eq!(report.stop, Some(Stop::Normal));
}

#[test]
fn a_type_that_does_not_come_first_or_is_escaped_is_found() {
    for line in [
        r#"{"id":"s1","type":"session"}"#,
        r#"{ "type": "session", "id": "s1" }"#,
        r#"{"type":"\u0073ession","id":"s1"}"#,
    ] {
        assert_eq!(report(Dialect::Pi, line).session.as_deref(), Some("s1"), "{line}");
    }
}

/// Holds ST5.
#[test]
fn output_is_cut_on_a_character_and_its_length_is_known() {
    let long = "é".repeat(OUTPUT_BYTES_MAX);
    let content = format!(r#"[{{"type":"text","text":"a{long}"}}]"#);
    let line = format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":{content},"stopReason":"stop"}}}}"#
    );
    let mut spooled = 0;
    let mut reader = Reader::new(Dialect::Pi);
    reader.push(line.as_bytes(), &mut |_| {});
    let report = reader.finish(&mut |progress| {
        if let Progress::Output { text, begins: true } = progress {
            spooled = text.len();
        }
    });
    assert_eq!(report.output.bytes, 2 * OUTPUT_BYTES_MAX as u64 + 1);
    assert_eq!(report.output.text.len(), OUTPUT_BYTES_MAX - 1);
    assert_eq!(report.output.omitted_bytes(), OUTPUT_BYTES_MAX as u64 + 2);
    assert_eq!(spooled, 2 * OUTPUT_BYTES_MAX + 1);
}

#[test]
fn pieces_of_a_long_output_do_not_follow_what_was_left_out() {
    let piece = |text: &str| {
        format!(
            "{{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"{text}\",\"delta\":true}}\n"
        )
    };
    let stream = piece(&"x".repeat(OUTPUT_BYTES_MAX - 1)) + &piece("éé") + &piece("z");
    let report = report(Dialect::Gemini, &stream);
    assert_eq!(report.output.text.len(), OUTPUT_BYTES_MAX - 1);
    assert_eq!(report.output.bytes, OUTPUT_BYTES_MAX as u64 + 4);
}

/// Holds ST3.
#[test]
fn an_error_that_the_agent_recovered_from_is_forgotten() {
    let failed = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"429 slow down"}}"#;
    let good = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"stopReason":"stop"}}"#;
    let first = report(Dialect::Pi, failed);
    let error = first.error.expect("an error");
    assert_eq!((error.class, error.text.as_str()), (ErrorClass::RateLimited, "429 slow down"));
    let second = report(Dialect::Pi, &format!("{failed}\n{good}"));
    assert_eq!((second.error, second.stop), (None, Some(Stop::Normal)));
    assert_eq!((second.messages, second.usage.turns), (1, 2));
}

#[test]
fn the_output_is_the_first_text_of_the_last_message_that_has_one() {
    let message = |content: &str| {
        format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","content":[{content}],"stopReason":"stop"}}}}"#
        )
    };
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let two = message(&format!(r#"{{"type":"thinking"}},{},{}"#, text("first"), text("second")));
    assert_eq!(report(Dialect::Pi, &two).output.text, "first");
    for empty in [message(""), message(&text("")), message(&text("  \\n"))] {
        let stream = format!("{two}\n{empty}");
        assert_eq!(report(Dialect::Pi, &stream).output.text, "first", "{empty}");
    }
}

#[test]
fn the_alias_of_a_tool_result_ends_a_tool_that_is_under_way() {
    let start = r#"{"type":"tool_execution_start","toolCallId":"c1","toolName":"bash"}"#;
    let end = r#"{"type":"tool_result_end","message":{"role":"toolResult","toolCallId":"c1","isError":true}}"#;
    let stream = format!("{start}\n{end}\n{end}\n");
    let (rendered, report) = read_pieces(Dialect::Pi, &[stream.as_bytes()]);
    assert_eq!(
        rendered,
        "  ToolStarted { name: \"bash\" }\n  ToolEnded { name: \"bash\", is_error: true }\n"
    );
    assert_eq!((report.events, report.unknown_events), (3, 0));
}

#[test]
fn tools_that_never_end_are_remembered_to_a_bound() {
    let mut stream = String::new();
    for number in 0..2000 {
        writeln!(
            stream,
            r#"{{"type":"tool_execution_start","toolCallId":"c{number}","toolName":"bash"}}"#
        )
        .expect("memory");
    }
    stream += r#"{"type":"tool_execution_end","toolCallId":"c0","toolName":"bash"}"#;
    let (rendered, _) = read_pieces(Dialect::Pi, &[stream.as_bytes()]);
    assert_eq!(rendered.matches("ToolStarted").count(), 2001);
    assert!(rendered.ends_with("ToolEnded { name: \"bash\", is_error: false }\n"));
}

#[test]
fn claude_streams_text_once_and_leaves_out_its_own_sub_agents() {
    let stream = [
        r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_start","index":0},"parent_tool_use_id":null}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"Hel"}},"parent_tool_use_id":null}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"lo"}},"parent_tool_use_id":null}"#,
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"Hello"}],"usage":{"input_tokens":3}},"parent_tool_use_id":null}"#,
        r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"inner"}]},"parent_tool_use_id":"t1"}"#,
        r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Hello","stop_reason":"end_turn","total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":2}}"#,
    ]
    .join("\n");
    let (rendered, report) = read_pieces(Dialect::Claude, &[stream.as_bytes()]);
    let texts: Vec<_> = rendered.lines().filter(|line| line.contains("Text {")).collect();
    assert_eq!(
        texts,
        ["  Text { text: \"Hel\", begins: true }", "  Text { text: \"lo\", begins: false }"]
    );
    assert_eq!((report.messages, report.output.text.as_str()), (1, "Hello"));
    assert_eq!(report.usage.cost_nanos, Some(500_000_000));
}

#[test]
fn claude_tells_its_own_limits_from_a_failing_model() {
    for (line, class) in [
        (r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#, ErrorClass::Budget),
        (
            r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"no"}"#,
            ErrorClass::RateLimited,
        ),
        (
            r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["boom"]}"#,
            ErrorClass::Model,
        ),
    ] {
        let report = report(Dialect::Claude, line);
        assert_eq!(report.error.map(|error| error.class), Some(class), "{line}");
        assert_eq!(report.stop, Some(Stop::Error));
    }
    let cut = r#"{"type":"result","subtype":"success","is_error":false,"result":"x","stop_reason":"max_tokens"}"#;
    assert_eq!(report(Dialect::Claude, cut).stop, Some(Stop::Length));
}

#[test]
fn a_rate_limit_is_recognised_and_other_numbers_are_not() {
    for text in ["429: {}", "Rate limit reached", "status=429", "insufficient_quota", "HTTP 429."] {
        assert_eq!(classify(text), ErrorClass::RateLimited, "{text}");
    }
    for text in ["401 bad key", "request 4290 failed", "after 1429 ms", "", "500"] {
        assert_eq!(classify(text), ErrorClass::Model, "{text}");
    }
}
