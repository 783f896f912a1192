//! What each client puts up with unless its user configured it otherwise.
//!
//! Measured with a scripted model on loopback (m), read in the client's source or documentation
//! (d), or reported by its users (i). A client that is not here waits as an unknown one; so do
//! those nobody measured: Cursor, JetBrains AI Assistant, Junie, Windsurf, Continue.

use super::Transport;

/// How a client is recognised by what it calls itself, in lower case.
#[derive(Debug, Clone, Copy)]
enum Name {
    Begins(&'static str),
    Contains(&'static str),
}

use Name::{Begins, Contains};

/// When a client gives a call up, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// After so long, whatever it hears meanwhile.
    Wall(u64),
    /// After hearing nothing for so long; progress is heard, if the client asked for it.
    Idle { http: u64, stdio: u64 },
    /// Over HTTP after so long; never over stdio.
    HttpOnly(u64),
}

use Limit::{HttpOnly, Idle, Wall};

#[derive(Debug)]
struct Row {
    name: Name,
    /// The first version it is true of; empty: all of them.
    since: &'static [u32],
    limit: Limit,
}

const fn row(name: Name, since: &'static [u32], limit: Limit) -> Row {
    Row { name, since, limit }
}

/// The first row that fits decides.
const ROWS: &[Row] = &[
    // m, 2.1.197 and 2.1.330: its watchdog hears progress, not comments; the wall is 28 hours.
    row(Begins("claude-code"), &[], Idle { http: 300, stdio: 1800 }),
    // i: 60 to 240 s, by release; anthropics/claude-code #65643, #22542.
    row(Begins("claude-ai"), &[], Wall(240)),
    row(Begins("claude-desktop"), &[], Wall(240)),
    row(Begins("claude desktop"), &[], Wall(240)),
    row(Begins("local-agent-mode"), &[], Wall(240)),
    // m, 0.169.0: 300 s, progress ignored; d: openai/codex #28234 raised it in June 2026, when
    // 0.144 was not out. i: 60 s in 0.92.
    row(Begins("codex"), &[0, 145], Wall(300)),
    row(Begins("codex"), &[], Wall(60)),
    // m, 0.61.0; d: its source sets nothing but a time-out.
    row(Begins("gemini-cli"), &[], Wall(600)),
    // i: Antigravity CLI #780.
    row(Begins("antigravity"), &[], Wall(180)),
    // m, 1.18.33; d: anomalyco/opencode #32477. Releases from before it ask for no progress.
    row(Begins("opencode"), &[], Idle { http: 60, stdio: 60 }),
    // m, 3.0.65, which says `@cline/core`; d: the extension's setting begins at 60 s.
    row(Begins("cline"), &[], Wall(60)),
    row(Begins("@cline/"), &[], Wall(60)),
    // i: zed-industries/zed #56774, not extended by progress.
    row(Begins("zed"), &[], Wall(60)),
    // i: microsoft/vscode #311595, waits forever; #261734 and #274094, 5 min over HTTP.
    row(Begins("visual studio code"), &[], HttpOnly(300)),
    row(Begins("visual-studio-code"), &[], HttpOnly(300)),
    row(Begins("code - oss"), &[], HttpOnly(300)),
    // i: microsoft/copilot-intellij-feedback #1935; it says `JetBrains-IU/copilot-intellij`.
    row(Contains("copilot-intellij"), &[], Wall(30)),
    // i: github/copilot-cli #1535.
    row(Begins("github-copilot-developer"), &[], Wall(60)),
    row(Begins("copilot-cli"), &[], Wall(60)),
    // d: an extension's `timeout` is 300 s.
    row(Begins("goose"), &[], Wall(300)),
    // i.
    row(Begins("q-dev-cli"), &[], Wall(60)),
    row(Begins("q-cli"), &[], Wall(60)),
];

/// When the client of this name and version gives a call up; `None`: nobody knows.
pub(super) fn limit(name: &str, version: &str) -> Option<Limit> {
    let name = name.trim().to_lowercase();
    let version: Vec<u32> = version
        .split(['.', '-', '+'])
        .map_while(|part| part.trim_start_matches('v').parse().ok())
        .collect();
    let fits = |row: &&Row| {
        let is_named = match row.name {
            Begins(text) => name.starts_with(text),
            Contains(text) => name.contains(text),
        };
        is_named && row.since <= version.as_slice()
    };
    ROWS.iter().find(fits).map(|row| row.limit)
}

impl Limit {
    /// For one call; `None`: there is none, as long as it hears of us.
    pub(super) const fn secs(self, transport: Transport, wants_progress: bool) -> Option<u64> {
        match (self, transport) {
            (Wall(secs), _) | (HttpOnly(secs), Transport::Http) => Some(secs),
            (HttpOnly(_), Transport::Stdio) => None,
            (Idle { .. }, _) if wants_progress => None,
            (Idle { http, .. }, Transport::Http) => Some(http),
            (Idle { stdio, .. }, Transport::Stdio) => Some(stdio),
        }
    }
}
