//! Each captured run judged with the exit code that it had, and a table of everything else.

use super::*;
use crate::runner::stream::{Dialect, Reader};

fn read(dialect: Dialect, bytes: &[u8]) -> Report {
    let mut reader = Reader::new(dialect);
    reader.push(bytes, &mut |_| {});
    reader.finish(&mut |_| {})
}

fn captured(name: &str) -> (Report, String) {
    let folder = std::path::Path::new(crate::runner::CAPTURED);
    let dialect = name.split('-').next().expect("a dialect").parse().expect("a dialect");
    let stream = std::fs::read(folder.join(format!("{name}.jsonl"))).expect("a stream");
    let stderr = std::fs::read_to_string(folder.join(format!("{name}.stderr")));
    (read(dialect, &stream), stderr.unwrap_or_default())
}

fn render(outcome: &Outcome) -> String {
    match &outcome.failure {
        None => format!("ok: {}", outcome.output.text),
        Some(failure) => format!("{}: {}", failure.kind, failure.text),
    }
}

#[test]
fn every_captured_run_is_judged_as_it_went() {
    let ok = "ok: Final answer: found 2 files.";
    let hello = "ok: Hello from the fake model.";
    let killed = "killed: Killed by SIGTERM.";
    let cut = "cut_off: The answer was cut off at the model's output limit.";
    let flag =
        "bad_flag: The agent's CLI refused its arguments: Error: Unknown option: --frobnicate";
    for (name, code, expected) in [
        ("pi-0.73.1/plain", 0, hello),
        ("pi-0.73.1/success-tool", 0, ok),
        ("pi-0.73.1/bad-command", 0, ok),
        ("pi-0.73.1/bad-model", 0, ok),
        ("pi-0.73.1/llm-429-then-ok", 0, hello),
        ("pi-0.73.1/length", 0, cut),
        ("pi-0.73.1/llm-401", 0, "model_error: 401"),
        ("pi-0.73.1/llm-429", 0, "rate_limited: 429 Rate limit reached for requests"),
        ("pi-0.73.1/llm-500", 0, "model_error: 500"),
        ("pi-0.73.1/abort-sigterm", 143, killed),
        ("pi-0.73.1/bad-flag", 1, flag),
        ("pi-1.5.2/plain", 0, hello),
        ("pi-1.5.2/success-tool", 0, ok),
        ("pi-1.5.2/bad-command", 0, ok),
        ("pi-1.5.2/llm-429-then-ok", 0, hello),
        ("pi-1.5.2/bad-model", 0, ok),
        ("pi-1.5.2/length", 0, cut),
        ("pi-1.5.2/llm-401", 0, "model_error: 401"),
        ("pi-1.5.2/llm-429", 0, "rate_limited: 429: {"),
        ("pi-1.5.2/llm-500", 0, "model_error: 500"),
        ("pi-1.5.2/abort-sigterm", 143, killed),
        ("pi-1.5.2/bad-flag", 1, flag),
        ("claude-code-2.1.197/success-tool", 0, ok),
        ("claude-code-2.1.197/json-single", 0, ok),
        ("claude-code-2.1.197/err-401", 1, "model_error: Failed to authenticate. API Error: 401"),
        ("claude-code-2.1.197/err-429", 1, "rate_limited: API Error: Request rejected (429)"),
        ("claude-code-2.1.197/err-500", 1, "model_error: API Error: 500"),
        ("claude-code-2.1.330/success-tool", 0, ok),
        ("claude-code-2.1.330/partial-messages", 0, ok),
        ("claude-code-2.1.330/err-401-retrying", 143, killed),
        (
            "claude-code-2.1.197/no-verbose",
            1,
            "bad_flag: The agent's CLI refused its arguments: Error: When using --print, ",
        ),
        ("codex-0.169.0/success-tool", 0, ok),
        ("codex-0.169.0/err-401", 1, "model_error: unexpected status 401 Unauthorized"),
        ("codex-0.169.0/err-429", 1, "rate_limited: exceeded retry limit, last status: 429"),
        ("codex-0.169.0/err-500", 1, "model_error: We’re currently experiencing high demand"),
        ("gemini-0.61.0/success-tool", 0, ok),
        ("gemini-0.61.0/err-401", 145, "model_error: [API Error: {\"error\":{\"code\":401"),
        ("opencode-1.18.33/plain", 0, ok),
        ("opencode-1.18.33/success-tool", 0, ok),
        ("opencode-1.18.33/tool-denied", 0, ok),
        ("opencode-1.18.33/bad-command", 0, ok),
        ("opencode-1.18.33/err-429-then-ok", 0, ok),
        ("opencode-1.18.33/length", 0, cut),
        ("opencode-1.18.33/err-401", 1, "model_error: fake error 401"),
        ("opencode-1.18.33/bad-model", 1, "model_error: Unexpected server error."),
        (
            "opencode-1.18.33/bad-flag",
            1,
            "bad_flag: The agent's CLI refused its arguments and printed its help.",
        ),
        ("opencode-1.18.33/no-prompt", 1, "bad_flag: The agent's CLI refused its arguments: "),
        ("opencode-1.18.33/abort-sigterm", 143, killed),
    ] {
        let (report, stderr) = captured(name);
        let text = render(&Outcome::new(report, Exit::Code(code), &stderr, None));
        assert!(text.starts_with(expected), "{name}: {text}");
    }
}

/// An answer of pi that ended like this.
fn answer(stop: &str) -> String {
    format!(
        "{{\"type\":\"message_end\",\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"hi\"}}],\"stopReason\":\"{stop}\"}}}}\n"
    )
}

/// Holds RN1.
#[test]
fn everything_that_is_no_success_says_which_failure_it_is() {
    let stop = answer("stop");
    let tool = answer("toolUse");
    let aborted = answer("aborted");
    let header = "{\"type\":\"session\",\"id\":\"x\"}\n";
    let timed_out = Stopped::TimedOut { secs: 60 };
    let budget = Stopped::Budget { limit: "max_cost 0.50 USD".to_owned() };
    let long = format!("{}\n{stop}{tool}", "x".repeat(super::super::stream::LINE_BYTES_MAX + 1));
    let not_found = Exit::NotFound { program: "pi".to_owned() };
    let not_started =
        Exit::NotStarted { program: "pi".to_owned(), why: "permission denied".to_owned() };
    let table: [(&str, Exit, &str, Option<&Stopped>, &str); 37] = [
        (&stop, Exit::Code(0), "", None, "ok: hi"),
        // It took our signal, and ended as if nothing were wrong.
        (&stop, Exit::Code(0), "", Some(&Stopped::Cancelled), "cancelled: Cancelled."),
        (&stop, Exit::Code(0), "", Some(&timed_out), "timed_out: Timed out after 60 s."),
        (
            &stop,
            Exit::Code(0),
            "",
            Some(&budget),
            "budget: Stopped: the budget is used up (max_cost 0.50 USD).",
        ),
        (
            &stop,
            Exit::Code(0),
            "",
            Some(&Stopped::Lingering),
            "killed: The agent finished, but its process did not exit and was killed.",
        ),
        (&stop, Exit::KeeperLost, "", None, "killed: What watched over it was killed."),
        (&stop, Exit::KeeperLost, "", Some(&Stopped::Cancelled), "cancelled: Cancelled."),
        (&stop, Exit::Code(143), "", Some(&Stopped::Cancelled), "cancelled: Cancelled."),
        (&tool, Exit::Code(0), "", Some(&Stopped::Cancelled), "cancelled: Cancelled."),
        (&tool, Exit::Signal(9), "", Some(&timed_out), "timed_out: Timed out after 60 s."),
        (
            &tool,
            Exit::Signal(15),
            "",
            Some(&budget),
            "budget: Stopped: the budget is used up (max_cost 0.50 USD).",
        ),
        (
            &stop,
            Exit::Signal(15),
            "",
            Some(&Stopped::Lingering),
            "killed: The agent finished, but its process did not exit and was killed.",
        ),
        ("", not_found, "", None, "not_installed: `pi` is not installed, or not on the PATH."),
        ("", not_started, "", None, "not_installed: Cannot start `pi`: permission denied."),
        (
            "",
            Exit::Code(127),
            "sh: 1: pi: not found\n",
            None,
            "not_installed: The program is not installed, or cannot be run: sh: 1: pi: not found",
        ),
        (&stop, Exit::Signal(9), "", None, "killed: Killed by SIGKILL after its answer."),
        (&tool, Exit::Signal(9), "", None, "killed: Killed by SIGKILL."),
        (&tool, Exit::Signal(64), "", None, "killed: Killed by signal 64."),
        (&tool, Exit::Code(129), "", None, "killed: Killed by SIGHUP."),
        (&tool, Exit::Code(145), "", None, "exit_code: The agent exited with code 145."),
        (&aborted, Exit::Code(0), "", None, "killed: The agent was interrupted."),
        (
            &stop,
            Exit::Code(1),
            "bye\n",
            None,
            "exit_code: The agent answered, then exited with code 1: bye",
        ),
        (
            "",
            Exit::Code(2),
            "error: unexpected argument '--x'\n\nUsage: codex\n",
            None,
            "bad_flag: The agent's CLI refused its arguments: error: unexpected argument '--x'",
        ),
        (
            "",
            Exit::Code(1),
            "Error: Model \"nosuch/zzz\" not found. Use --list-models to see them.\n",
            None,
            "bad_flag: The agent's CLI refused its arguments: Error: Model \"nosuch/zzz\" not found. \
             Use --list-models to see them.",
        ),
        ("", Exit::Code(2), "", None, "bad_flag: The agent's CLI refused its arguments."),
        (
            "",
            Exit::Code(1),
            "boom\n  at x.js\n",
            None,
            "exit_code: The agent exited with code 1: at x.js",
        ),
        (
            "",
            Exit::Code(1),
            "Error: 429 Too Many Requests",
            None,
            "rate_limited: The agent exited with code 1: Error: 429 Too Many Requests",
        ),
        // Once it had begun to work, such words are about something else.
        (
            &tool,
            Exit::Code(1),
            "unknown option",
            None,
            "exit_code: The agent exited with code 1: unknown option",
        ),
        ("", Exit::Code(0), "", None, "no_output: The agent exited without an answer."),
        (header, Exit::Code(0), "", None, "no_output: The agent exited without an answer."),
        (
            "hello\n",
            Exit::Code(0),
            "",
            None,
            "malformed_stream: The output is not a stream of this runner's format.",
        ),
        (
            &tool,
            Exit::Code(0),
            "",
            None,
            "malformed_stream: The stream ended before the final answer.",
        ),
        (
            &long,
            Exit::Code(0),
            "",
            None,
            "malformed_stream: A line of the stream is longer than 16 MiB.",
        ),
        (&long[..100], Exit::Code(-1), "", None, "exit_code: The agent exited with code -1."),
        (
            &answer("pending"),
            Exit::Code(0),
            "",
            None,
            "malformed_stream: The stream ended before the final answer.",
        ),
        (
            &answer("length"),
            Exit::Code(1),
            "",
            None,
            "cut_off: The answer was cut off at the model's output limit.",
        ),
        ("", Exit::Code(i32::MIN), "", None, "exit_code: The agent exited with code -2147483648."),
    ];
    for (stream, exit, stderr, stopped, expected) in table {
        let report = read(Dialect::Pi, stream.as_bytes());
        let shown = format!("{exit:?} {stderr:?} {stopped:?}");
        assert_eq!(render(&Outcome::new(report, exit, stderr, stopped)), expected, "{shown}");
    }
}

/// Holds RN1.
#[test]
fn no_older_answer_is_taken_for_one_that_is_too_long_to_be_read() {
    let long = "x".repeat(super::super::stream::LINE_BYTES_MAX);
    let line = |head: &str| format!("{head}{long}\"}}\n");
    let said = r#"{"type":"item.completed","item":{"type":"agent_message","text":"hi"}}"#;
    let said = format!("{said}\n");
    let completed = "{\"type\":\"turn.completed\"}\n";
    let (unread, of_codex) =
        (line("{\"type\":\"message_end\",\""), line("{\"type\":\"item.completed\",\""));
    let malformed = "malformed_stream: A line of the stream is longer than 16 MiB.";
    for (dialect, stream, expected) in [
        (Dialect::Pi, format!("{}{unread}", answer("stop")), malformed),
        (Dialect::Pi, format!("{unread}{}", answer("stop")), "ok: hi"),
        (Dialect::Pi, format!("{}{}", answer("stop"), line("")), malformed),
        // All messages once more.
        (
            Dialect::Pi,
            format!("{}{}", answer("stop"), line("{\"type\":\"agent_end\",\"")),
            "ok: hi",
        ),
        (Dialect::Codex, format!("{said}{of_codex}{completed}"), malformed),
        (Dialect::Codex, format!("{of_codex}{said}{completed}"), "ok: hi"),
    ] {
        let report = read(dialect, stream.as_bytes());
        assert_eq!(report.oversized_lines, 1);
        let beginning = &stream[..100];
        assert_eq!(render(&Outcome::new(report, Exit::Code(0), "", None)), expected, "{beginning}");
    }
}

#[test]
fn a_timeout_during_retries_names_their_reason() {
    let (report, _) = captured("claude-code-2.1.330/err-401-retrying");
    let stopped = Stopped::TimedOut { secs: 40 };
    let outcome = Outcome::new(report, Exit::Code(143), "", Some(&stopped));
    assert_eq!(
        render(&outcome),
        "timed_out: Timed out after 40 s. Its last error: authentication_failed"
    );
}

#[test]
fn a_timeout_tells_what_kept_the_agent() {
    let failed = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"429 slow down"}}"#;
    let report = read(Dialect::Pi, failed.as_bytes());
    let outcome = Outcome::new(report, Exit::Code(143), "", Some(&Stopped::TimedOut { secs: 600 }));
    assert_eq!(render(&outcome), "timed_out: Timed out after 600 s. Its last error: 429 slow down");
}
