//! How long one call may stay parked before the client that made it gives up.
//!
//! Clients cut long calls off at very different times, and most show the cut to the model as an
//! error. Each is therefore answered at 0.8 of its own limit.
//!
//! - [`table`]: what clients put up with by themselves.
//! - [`learned_timeouts`]: what is learnt from calls they gave up. Pure. [`learning`]: its shell.

mod learned_timeouts;
mod learning;
mod table;

use std::time::Duration;

use tasuki_proto::limits::HOLD_MS_MAX;

use self::learned_timeouts::HOLD_PERCENT;
pub(super) use self::learning::{Held, Learning};

/// Twenty-five minutes: a client that waits for as long as it hears of us, and one whose limit
/// is longer, still asks two or three times an hour, so that a wait that went astray is found.
const PATIENT_SECS: u64 = 1500;

/// A client nobody measured, in seconds: the common limit is 60.
const UNKNOWN_SECS: u64 = 45;

/// What a client's own limit may depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Transport {
    #[default]
    Http,
    Stdio,
}

/// What is known about one call.
#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    /// The client's name and version, as it gave them.
    pub client: (&'a str, &'a str),
    pub transport: Transport,
    pub wants_progress: bool,
    /// What this client taught us.
    pub learnt: Option<Duration>,
    /// From the address, the header or the command line.
    pub configured: Option<Duration>,
    /// The tool's own parameter; it can only shorten.
    pub asked: Option<Duration>,
}

pub(super) fn hold(ask: &Ask<'_>) -> Duration {
    let bound = ask.configured.unwrap_or_else(|| {
        let usual = by_client(ask);
        ask.learnt.map_or(usual, |learnt| learnt.min(usual))
    });
    ask.asked.unwrap_or(bound).min(bound).min(Duration::from_millis(HOLD_MS_MAX))
}

fn by_client(ask: &Ask<'_>) -> Duration {
    let (name, version) = ask.client;
    let Some(limit) = table::limit(name, version) else { return Duration::from_secs(UNKNOWN_SECS) };
    let secs = limit.secs(ask.transport, ask.wants_progress);
    let secs = secs.map_or(PATIENT_SECS, |secs| secs * HOLD_PERCENT / 100);
    Duration::from_secs(secs.min(PATIENT_SECS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Transport::{Http, Stdio};

    fn check(client: (&str, &str), transport: Transport, wants_progress: bool, expected: u64) {
        let ask = Ask { client, transport, wants_progress, ..Ask::default() };
        assert_eq!(hold(&ask).as_secs(), expected, "{client:?} {transport:?} {wants_progress}");
    }

    #[test]
    fn each_client_is_answered_before_it_gives_up() {
        check(("claude-code", "2.1.330"), Http, true, 1500);
        check(("claude-code", "2.1.330"), Http, false, 240);
        check(("claude-code", "2.1.330"), Stdio, false, 1440);
        check(("opencode", "1.18.33"), Http, true, 1500);
        check(("opencode", "1.0"), Stdio, false, 48);
        check(("codex-mcp-client", "0.169.0"), Http, true, 240);
        check(("codex-mcp-client", "0.145.0-alpha.3"), Stdio, true, 240);
        check(("codex-mcp-client", "0.92.0"), Stdio, true, 48);
        check(("codex-mcp-client", "unknown"), Stdio, true, 48);
        check(("gemini-cli-mcp-client-tasuki", "0.61.0"), Http, true, 480);
        check(("antigravity-client", "v1.0.0"), Http, true, 144);
        check(("Cline", "3.0.65"), Http, false, 48);
        check(("Zed", "0.220"), Stdio, true, 48);
        check(("Visual Studio Code", "1.106.0"), Http, true, 240);
        check(("Visual Studio Code - Insiders", "1.107.0"), Stdio, true, 1500);
        check(("JetBrains-IU/copilot-intellij", "252.27397.103/1.5.59-243"), Http, true, 24);
        check(("claude-ai", "0.1.0"), Stdio, false, 192);
        check(("github-copilot-developer", "1.0.0"), Stdio, true, 48);
        check(("goose", "1.9"), Http, true, 240);
        check(("cursor-vscode", "1.0.0"), Http, true, 45);
        check(("", ""), Http, false, 45);
    }

    #[test]
    fn a_configured_hold_wins_and_all_else_only_shortens() {
        let secs = |learnt: Option<u64>, configured: Option<u64>, asked: Option<u64>| {
            hold(&Ask {
                client: ("goose", "1"),
                learnt: learnt.map(Duration::from_secs),
                configured: configured.map(Duration::from_secs),
                asked: asked.map(Duration::from_secs),
                ..Ask::default()
            })
            .as_secs()
        };
        assert_eq!(secs(None, None, None), 240);
        assert_eq!(secs(Some(48), None, None), 48);
        assert_eq!(secs(Some(900), None, None), 240);
        assert_eq!(secs(Some(48), Some(600), None), 600);
        assert_eq!(secs(None, Some(999_999), None), HOLD_MS_MAX / 1000);
        assert_eq!(secs(None, Some(600), Some(5)), 5);
        assert_eq!(secs(None, None, Some(3600)), 240);
        assert_eq!(secs(None, None, Some(0)), 0);
    }
}
