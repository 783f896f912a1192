//! Files as clients write them, and what is told of them.

use std::{fs, io::Write as _};

use super::*;

/// A client's directory with one conversation, and one of ours.
struct Place {
    dir: tempfile::TempDir,
    client: HookClient,
}

impl Place {
    fn new(client: HookClient) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir, client }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("home/talk.jsonl")
    }

    fn says(&self, lines: &[&str]) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.file()).unwrap();
        for line in lines {
            writeln!(file, "{line}").unwrap();
        }
    }

    fn hook(&self, event: HookEvent) -> Hook {
        let path = self.dir.path();
        Hook { client: self.client, event, home: path.join("home"), data: path.join("data") }
    }

    fn untold_at(&self, event: HookEvent, path: &Path) -> Option<Untold> {
        let said = serde_json::json!({ "session_id": "s", "transcript_path": path });
        untold(&self.hook(event), said.to_string().as_bytes())
    }

    /// The tokens that are told at an event, as the broker is told them.
    fn tokens(&self, event: HookEvent) -> u64 {
        let Some(it) = self.untold_at(event, &self.file()) else { return 0 };
        let tokens = it.usage.tokens;
        it.told();
        tokens
    }
}

/// A part of a message as Claude Code writes it down.
fn message(id: &str, input: u64, output: u64) -> String {
    format!(
        r#"{{"parentUuid":"p","isSidechain":false,"type":"assistant","message":{{"id":"{id}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"hi"}}],"stop_reason":null,"usage":{{"input_tokens":{input},"cache_creation_input_tokens":100,"cache_read_input_tokens":7000,"output_tokens":{output},"service_tier":"standard"}}}},"uuid":"u","timestamp":"2026-11-26T03:13:04.495Z","sessionId":"s"}}"#
    )
}

const PROMPT: &str = r#"{"type":"user","message":{"role":"user","content":"usage of it?"}}"#;

/// What Codex writes down after a call of its model.
fn count(total: u64, last: u64) -> String {
    format!(
        r#"{{"timestamp":"2026-11-26T03:17:10.557Z","ordinal":9,"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{},"cached_input_tokens":1000,"output_tokens":{total},"reasoning_output_tokens":0,"total_tokens":0}},"last_token_usage":{{"input_tokens":{},"cached_input_tokens":50,"output_tokens":{last},"reasoning_output_tokens":0,"total_tokens":0}},"model_context_window":1}},"rate_limits":null}}}}"#,
        1000, 50
    )
}

const NO_COUNT: &str =
    r#"{"type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":{}}}"#;

#[test]
fn what_claude_code_adds_is_told_once_and_a_message_of_several_lines_too() {
    let place = Place::new(HookClient::Claude);
    place.says(&[PROMPT, &message("m1", 10, 1), &message("m1", 10, 5), &message("m2", 3, 4)]);
    assert_eq!(place.tokens(HookEvent::Stop), 115 + 107, "without what came from the cache");
    assert_eq!(place.tokens(HookEvent::Stop), 0);
    place.says(&["not JSON", "{}", &message("m2", 3, 9), PROMPT]);
    assert_eq!(place.tokens(HookEvent::Stop), 5, "the message went on");
    place.says(&[&message("m3", 1, 1)]);
    assert_eq!(place.tokens(HookEvent::Prompt), 0, "at the end of a turn");
    assert_eq!(place.tokens(HookEvent::Stop), 102);
}

#[test]
fn what_codex_counts_in_all_is_told_as_what_was_added() {
    let place = Place::new(HookClient::Codex);
    place.says(&[NO_COUNT, &count(20, 20), &count(20, 20), &count(50, 30)]);
    assert_eq!(place.tokens(HookEvent::Stop), 50, "the same again is no more");
    place.says(&[&count(60, 10), NO_COUNT]);
    assert_eq!(place.tokens(HookEvent::Stop), 10);
    place.says(&[&count(5, 5)]);
    assert_eq!(place.tokens(HookEvent::Stop), 5, "it counts anew");
}

#[test]
fn what_was_used_before_a_session_goes_on_is_not_told() {
    for client in [HookClient::Claude, HookClient::Codex] {
        let place = Place::new(client);
        place.says(&[&message("m1", 10, 1), &count(20, 20)]);
        assert_eq!(place.tokens(HookEvent::SessionStart), 0);
        assert_eq!(place.tokens(HookEvent::Stop), 0);
        place.says(&[&message("m2", 1, 1), &count(27, 7)]);
        let expected = if client == HookClient::Claude { 102 } else { 7 };
        assert_eq!(place.tokens(HookEvent::Stop), expected, "{client:?}");
        place.says(&[&message("m3", 1, 1), &count(28, 1)]);
        assert_eq!(place.tokens(HookEvent::SessionStart), 0, "it was made shorter");
        let expected = if client == HookClient::Claude { 102 } else { 1 };
        assert_eq!(place.tokens(HookEvent::Stop), expected, "{client:?}");
    }
}

#[test]
fn what_could_not_be_told_is_told_again_as_it_was_and_by_one_hook_at_a_time() {
    let place = Place::new(HookClient::Claude);
    place.says(&[&message("m1", 10, 1)]);
    let first = place.untold_at(HookEvent::Stop, &place.file()).unwrap();
    assert!(place.untold_at(HookEvent::Stop, &place.file()).is_none(), "another is at it");
    let usage = first.usage.clone();
    drop(first);
    place.says(&[&message("m2", 1, 1)]);
    let again = place.untold_at(HookEvent::Stop, &place.file()).unwrap();
    assert_eq!(again.usage, usage, "the same key, the same words");
    again.told();
    assert_eq!(place.tokens(HookEvent::Stop), 102);
}

#[test]
fn a_file_that_is_not_what_it_should_be_says_nothing() {
    let place = Place::new(HookClient::Claude);
    let at = |name: &str| place.dir.path().join(name);
    assert!(place.untold_at(HookEvent::Stop, &place.file()).is_none(), "it is not there");
    let outside = at("outside.jsonl");
    fs::write(&outside, message("m1", 10, 1) + "\n").unwrap();
    assert!(place.untold_at(HookEvent::Stop, &outside).is_none(), "it is elsewhere");
    let above = at("home/../outside.jsonl");
    assert!(place.untold_at(HookEvent::Stop, &above).is_none(), "it is elsewhere");
    assert!(place.untold_at(HookEvent::Stop, &at("home")).is_none(), "it is a directory");
    #[cfg(unix)]
    {
        let link = at("home/link.jsonl");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(place.untold_at(HookEvent::Stop, &link).is_none(), "it is a link");
        let inner = at("home/inner.jsonl");
        std::os::unix::fs::symlink(place.file(), &inner).unwrap();
        place.says(&[&message("m1", 10, 1)]);
        assert!(place.untold_at(HookEvent::Stop, &inner).is_none(), "it is a link");
        fs::remove_file(place.file()).unwrap();
        let pipe = at("home/pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(place.untold_at(HookEvent::Stop, &pipe).is_none(), "it is a pipe");
    }
    for said in ["", "[]", r#"{"session_id":7}"#, r#"{"session_id":"s","transcript_path":null}"#] {
        assert!(untold(&place.hook(HookEvent::Stop), said.as_bytes()).is_none(), "{said}");
    }
    assert!(!at("data").exists(), "nothing was noted");
}

#[test]
fn a_file_that_became_shorter_and_a_note_that_is_damaged_are_begun_at_their_end() {
    let place = Place::new(HookClient::Claude);
    place.says(&[&message("m1", 10, 1), PROMPT, PROMPT]);
    assert_eq!(place.tokens(HookEvent::Stop), 111);
    fs::write(place.file(), message("m2", 1, 1) + "\n").unwrap();
    assert_eq!(place.tokens(HookEvent::Stop), 0);
    place.says(&[&message("m3", 1, 1)]);
    assert_eq!(place.tokens(HookEvent::Stop), 102);
    let notes = fs::read_dir(place.dir.path().join("data/usage")).unwrap();
    let notes = notes.map(|it| it.unwrap().path()).filter(|it| it.extension().unwrap() == "json");
    notes.for_each(|note| fs::write(note, "{").unwrap());
    place.says(&[&message("m4", 1, 1)]);
    assert_eq!(place.tokens(HookEvent::Stop), 0, "what is not known is not guessed");
    place.says(&[&message("m5", 1, 1)]);
    assert_eq!(place.tokens(HookEvent::Stop), 102);
}

#[test]
fn a_file_is_read_piece_by_piece_however_long_it_and_its_lines_are() {
    let place = Place::new(HookClient::Claude);
    let bytes = usize::try_from(READ_BYTES_MAX).unwrap();
    place.says(&[&message("m1", 10, 1), &"x".repeat(2 * bytes), &message("m2", 1, 1)]);
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(place.tokens(HookEvent::Stop));
    }
    assert_eq!(told.iter().sum::<u64>(), 111 + 102, "{told:?}");
    assert_eq!(place.tokens(HookEvent::Stop), 0);
}
