//! How long one call may stay parked before the client that made it gives up.
//!
//! Clients cut long calls off at very different times, and most show the cut to the model as an
//! error. Each is therefore answered at 0.8 of its own limit.

use std::time::Duration;

use tasuki_proto::limits::HOLD_MS_MAX;

/// What one kind of client puts up with.
#[derive(Debug)]
struct Patience {
    /// How its name begins, in lower case.
    name: &'static str,
    /// Seconds, when nothing but the answer counts.
    secs: u64,
    /// Seconds, when progress resets its clock and it asked for progress.
    secs_with_progress: u64,
}

const fn patience(name: &'static str, secs: u64, secs_with_progress: u64) -> Patience {
    Patience { name, secs, secs_with_progress }
}

/// Twenty-five minutes: progress keeps these clients waiting, and a wait this long costs the
/// model two or three calls an hour.
const PATIENT_SECS: u64 = 1500;

/// A client nobody measured, in seconds: the common limit is 60.
const UNKNOWN_SECS: u64 = 45;

/// The first row whose name begins the client's decides.
const TABLE: &[Patience] = &[
    patience("claude-code", 240, PATIENT_SECS),
    patience("claude-ai", 180, 180),
    patience("claude-desktop", 180, 180),
    patience("claude desktop", 180, 180),
    patience("opencode", UNKNOWN_SECS, PATIENT_SECS),
    patience("codex", 240, 240),
    patience("gemini", 480, 480),
    patience("cline", UNKNOWN_SECS, UNKNOWN_SECS),
    patience("zed", UNKNOWN_SECS, UNKNOWN_SECS),
    patience("visual studio code", 240, 240),
    patience("vscode", 240, 240),
    patience("copilot-intellij", 24, 24),
    patience("copilot-jetbrains", 24, 24),
    patience("github-copilot-intellij", 24, 24),
];

/// What is known about one call.
#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    /// The client's name, as it gave it.
    pub client: &'a str,
    pub wants_progress: bool,
    /// From the address, the header or the command line.
    pub configured: Option<Duration>,
    /// The tool's own parameter; it can only shorten.
    pub asked: Option<Duration>,
}

pub(super) fn hold(ask: &Ask<'_>) -> Duration {
    let bound = ask.configured.unwrap_or_else(|| by_client(ask.client, ask.wants_progress));
    ask.asked.unwrap_or(bound).min(bound).min(Duration::from_millis(HOLD_MS_MAX))
}

fn by_client(client: &str, wants_progress: bool) -> Duration {
    let client = client.to_lowercase();
    let row = TABLE.iter().find(|row| client.starts_with(row.name));
    Duration::from_secs(match row {
        Some(row) if wants_progress => row.secs_with_progress,
        Some(row) => row.secs,
        None => UNKNOWN_SECS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(client: &str, wants_progress: bool, expected: u64) {
        let ask = Ask { client, wants_progress, ..Ask::default() };
        assert_eq!(hold(&ask).as_secs(), expected, "{client} {wants_progress}");
    }

    #[test]
    fn each_client_is_answered_before_it_gives_up() {
        check("claude-code", true, 1500);
        check("claude-code", false, 240);
        check("opencode", true, 1500);
        check("opencode", false, 45);
        check("codex-mcp-client", true, 240);
        check("gemini-cli-mcp-client", true, 480);
        check("Cline", false, 45);
        check("Zed", true, 45);
        check("copilot-intellij", true, 24);
        check("claude-ai", false, 180);
        check("somebody", true, 45);
        check("", false, 45);
    }

    #[test]
    fn a_configured_hold_wins_and_a_parameter_only_shortens() {
        let secs = |configured: Option<u64>, asked: Option<u64>| {
            hold(&Ask {
                client: "zed",
                wants_progress: false,
                configured: configured.map(Duration::from_secs),
                asked: asked.map(Duration::from_secs),
            })
            .as_secs()
        };
        assert_eq!(secs(Some(600), None), 600);
        assert_eq!(secs(Some(999_999), None), HOLD_MS_MAX / 1000);
        assert_eq!(secs(Some(600), Some(5)), 5);
        assert_eq!(secs(None, Some(3600)), 45);
        assert_eq!(secs(None, Some(0)), 0);
    }
}
