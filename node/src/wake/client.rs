//! What each client can be woken by. Pure.

use serde::{Deserialize, Serialize};

/// A client with hooks that can be told something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum HookClient {
    /// Claude Code
    Claude,
    /// Codex
    Codex,
    /// Cursor
    Cursor,
}

/// Something that a client tells a hook of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// A session begins, goes on, or was made shorter
    SessionStart,
    /// A person's prompt begins a turn
    Prompt,
    /// A tool was called
    Tool,
    /// A turn ends
    Stop,
    /// A turn ended because the model's API refused it
    Failure,
    /// A session ends
    SessionEnd,
    /// Runs behind an idle session until something comes
    Wait,
}

/// How a client's hook is written down in its file of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookRow {
    pub event: HookEvent,
    /// The name of the list that it stands in.
    pub list: &'static str,
    /// Which tools, or which beginnings, it is for; `None`: it takes none.
    pub matcher: Option<&'static str>,
}

/// For a hook to answer, in seconds; its client waits so long at most.
pub const ANSWER_SECS: u64 = 10;

/// The same at the end of a session; Codex gives no more.
pub const END_SECS: u64 = 3;

/// For the hook that waits behind an idle session, in seconds: a day.
pub const WAIT_SECS: u64 = 24 * 3600;

/// How often Cursor goes on by itself after one prompt, at most.
pub const CURSOR_LOOPS_MAX: u64 = 10;

impl HookClient {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Cursor];

    /// As in the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Cursor => "cursor",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
        }
    }

    /// The hooks that `tasuki wake setup` installs.
    pub const fn rows(self) -> &'static [HookRow] {
        const fn row(
            event: HookEvent,
            list: &'static str,
            matcher: Option<&'static str>,
        ) -> HookRow {
            HookRow { event, list, matcher }
        }
        const CLAUDE: [HookRow; 7] = [
            row(HookEvent::SessionStart, "SessionStart", None),
            row(HookEvent::Prompt, "UserPromptSubmit", None),
            row(HookEvent::Tool, "PostToolUse", Some("*")),
            row(HookEvent::Stop, "Stop", None),
            row(HookEvent::Wait, "Stop", None),
            row(HookEvent::Failure, "StopFailure", Some("rate_limit|billing_error")),
            row(HookEvent::SessionEnd, "SessionEnd", None),
        ];
        const CODEX: [HookRow; 5] = [
            row(HookEvent::SessionStart, "SessionStart", None),
            row(HookEvent::Prompt, "UserPromptSubmit", None),
            row(HookEvent::Tool, "PostToolUse", Some("*")),
            row(HookEvent::Stop, "Stop", None),
            row(HookEvent::SessionEnd, "SessionEnd", None),
        ];
        const CURSOR: [HookRow; 4] = [
            row(HookEvent::SessionStart, "sessionStart", None),
            row(HookEvent::Prompt, "beforeSubmitPrompt", None),
            row(HookEvent::Tool, "postToolUse", None),
            row(HookEvent::Stop, "stop", None),
        ];
        match self {
            Self::Claude => &CLAUDE,
            Self::Codex => &CODEX,
            Self::Cursor => &CURSOR,
        }
    }

    /// Whether it is the client that calls itself so to MCP servers.
    pub fn is_called(self, name: &str) -> bool {
        name.starts_with(self.name())
    }

    /// Whether a hook of its can wait behind an idle session and wake it.
    pub const fn waits_behind_idle(self) -> bool {
        matches!(self, Self::Claude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_one_hook_for_an_event() {
        for client in HookClient::ALL {
            let mut events: Vec<_> = client.rows().iter().map(|row| row.event).collect();
            let count = events.len();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), count, "{client:?}");
            assert_eq!(events.contains(&HookEvent::Wait), client.waits_behind_idle());
            assert!(events.contains(&HookEvent::Stop), "{client:?}");
        }
    }
}
