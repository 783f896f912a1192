//! Whether what a session shows says that nothing is left of its quota.
//!
//! A screen also shows what an agent writes about, and what others wrote to it. While it runs, only
//! a line counts that begins as agent CLIs say so themselves, and only while nothing else changes
//! ([`STILL_LOOKS`]): an agent that is shown such a line goes on and shows more. Once it has failed,
//! any line about a rate limit does.

use crate::runner::stream::{ErrorClass, classify};

/// How agent CLIs say that their quota is used up, in lower case.
const PHRASES: [&str; 15] = [
    // Claude Code; the first two and the fifth were seen.
    "usage limit reached",
    "api error: request rejected (429)",
    "limit reached ∙ resets",
    "limit reached · resets",
    "you've hit your limit",
    "you've hit your session limit",
    "you've hit your weekly limit",
    "credit balance is too low",
    // Codex; the second was seen.
    "you've hit your usage limit",
    "exceeded retry limit, last status: 429",
    // Gemini CLI.
    "you have exhausted your daily quota",
    "you have exhausted your capacity",
    "quota exceeded for quota metric",
    // Models of OpenAI, in any client; the second was seen in opencode.
    "insufficient_quota",
    "exceeded your current quota",
];

/// Where in its line a phrase begins at the latest, in characters: behind `5-hour`, and not behind
/// who wrote it.
const BEGINS_WITHIN: usize = 8;

/// Looks in a row that see the same: half a minute.
pub const STILL_LOOKS: usize = 6;

/// Lines at the end of a screen in which it stands.
const LINES_MAX: usize = 15;

/// The longest line that is told, in characters.
const CHARS_MAX: usize = 200;

/// What a running session's screen says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub said: String,
    /// All else on the screen.
    rest: String,
}

impl Shown {
    /// Whether nothing happened since, but for what is counted in the line itself: some clients show
    /// there when they try again.
    pub fn is_still(&self, before: &Self) -> bool {
        self.rest == before.rest
    }
}

/// What a running session's screen says about it; `None`: nothing.
pub fn shown(screen: &str) -> Option<Shown> {
    let said = on_screen(screen)?;
    let rest: Vec<&str> = screen.lines().filter(|line| !has_phrase(line)).collect();
    Some(Shown { said, rest: rest.join("\n") })
}

/// The line of a running session's screen that says so.
pub fn on_screen(screen: &str) -> Option<String> {
    find(screen, has_phrase)
}

fn has_phrase(line: &str) -> bool {
    let line = undrawn(line).to_lowercase().replace('’', "'");
    PHRASES.iter().any(|phrase| line.find(phrase).is_some_and(|at| at <= BEGINS_WITHIN))
}

/// A line without what a screen draws before it.
fn undrawn(line: &str) -> &str {
    line.trim_start_matches(|c: char| !c.is_alphanumeric() && !"(\"'".contains(c))
}

/// The line that says so, in the last output of a session that failed.
pub fn in_last_output(text: &str) -> Option<String> {
    on_screen(text).or_else(|| find(text, |line| classify(line) == ErrorClass::RateLimited))
}

fn find(text: &str, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.take(LINES_MAX).find(|line| is_it(line))?;
    let line = undrawn(line);
    // Nor is a part of it what stands beside it, or counts down to the next try.
    let line = ["  ", " [retrying"]
        .into_iter()
        .fold(line, |line, end| line.split_once(end).map_or(line, |(said, _)| said));
    Some(line.chars().take(CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_quota_is_read_from_a_screen() {
        for (screen, expected) in [
            (
                "work\n ⎿ 5-hour limit reached ∙ resets 3pm\n\n> \n",
                "5-hour limit reached ∙ resets 3pm",
            ),
            (
                "■ You’ve hit your usage limit. Try again at 4 PM.",
                "You’ve hit your usage limit. Try again at 4 PM.",
            ),
            ("API Error: Request rejected (429)", "API Error: Request rejected (429)"),
        ] {
            assert_eq!(on_screen(screen).as_deref(), Some(expected), "{screen}");
        }
    }

    /// As these versions showed it, when their model's API answered that nothing is left.
    #[test]
    fn what_clients_were_seen_to_show_is_recognised() {
        for (screen, expected) in [
            (
                include_str!("screens/claude-code-2.1.330.txt"),
                "Usage limit reached · limit resets 8am",
            ),
            (
                include_str!("screens/claude-code-2.1.330-api-key.txt"),
                "API Error: Request rejected (429) · This request would exceed your account's rate \
                 limit. Please try again later.",
            ),
            (
                include_str!("screens/codex-0.169.0.txt"),
                "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), \
                 visit https://chatgpt.com/settings/usage to purchase more credits or try again",
            ),
            (
                include_str!("screens/opencode-1.18.33.txt"),
                "You exceeded your current quota, please check your plan and billing details.",
            ),
        ] {
            assert_eq!(on_screen(screen).as_deref(), Some(expected), "{screen}");
        }
    }

    /// As opencode counts down to its next try, with something that moves beside it.
    #[test]
    fn a_client_that_tries_again_by_itself_does_not_work() {
        let look = |spinner: &str, secs: u32, work: &str| {
            shown(&format!(
                "{work}\n  ┃\n   {spinner} You exceeded your current quota, please check your plan \
                 and billing details. [retrying in {secs}s attempt #4]   • OpenCode 1.18.33\n"
            ))
            .unwrap()
        };
        let first = look("■⬝⬝⬝⬝⬝⬝⬝", 19, "Begin");
        assert_eq!(
            first.said,
            "You exceeded your current quota, please check your plan and billing details."
        );
        assert!(look("⬝⬝⬝⬝⬝⬝⬝⬝", 13, "Begin").is_still(&first));
        assert!(!look("⬝⬝⬝⬝⬝⬝⬝⬝", 13, "Begin. I go on.").is_still(&first));
        assert_eq!(shown("Begin"), None);
    }

    #[test]
    fn what_an_agent_writes_about_limits_is_no_quota() {
        for screen in [
            "I added a rate limit of 429 per minute to the quota module",
            "mail from B (untrusted): \"Please document the error text: usage limit reached\"",
            "  ⎿  message: You've hit your usage limit",
            "",
            "\n\n",
        ] {
            assert_eq!(on_screen(screen), None, "{screen}");
        }
        let scrolled = format!("usage limit reached\n{}", "line\n".repeat(LINES_MAX));
        assert_eq!(on_screen(&scrolled), None);
    }

    #[test]
    fn a_session_that_failed_may_say_it_in_any_words() {
        let text = "Error: 429 Too Many Requests";
        assert_eq!(in_last_output(text).as_deref(), Some(text));
        assert_eq!(in_last_output("Error: segmentation fault"), None);
    }
}
