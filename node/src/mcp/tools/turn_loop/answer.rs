//! What the turn loop's tools answer, field by field, in the order an agent reads them.

use std::time::Duration;

use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    wire::{self, EntryKind, LoopStatus},
};

use crate::role::Seen;

/// The answer to `await_my_turn`.
#[derive(Debug, Serialize)]
pub(super) struct Awaited<'a> {
    can_start: bool,
    previous_context: String,
    is_finished: bool,
    #[serde(skip_serializing_if = "is_false")]
    still_waiting: bool,
    #[serde(skip_serializing_if = "is_false")]
    superseded: bool,
    #[serde(rename = "loop")]
    loop_id: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    round: u64,
    #[serde(skip_serializing_if = "is_zero")]
    turn: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    holder: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaimed: Option<Reclaimed<'a>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

#[derive(Debug, Serialize)]
struct Reclaimed<'a> {
    from: &'a str,
    by: &'a str,
    reason: &'a str,
}

impl<'a> Awaited<'a> {
    pub(super) fn new(role: &RoleId, answer: &'a wire::TurnAnswer) -> Self {
        let wire::TurnAnswer {
            can_start,
            is_finished,
            still_waiting,
            superseded,
            r#loop: loop_id,
            round,
            turn,
            holder,
            latest,
            reclaim,
            lease_lapses_ms: _,
            sequence: _,
        } = answer;
        let latest = latest.as_ref().filter(|_| *can_start || *is_finished);
        let has_words = latest.is_some_and(|it| {
            !it.summary.is_empty() || !it.instruction.is_empty() || it.kind() == EntryKind::Handover
        });
        let previous_context = match latest {
            Some(it) if has_words => format!(
                "Previous work by {}:\nSummary: {}\nInstruction: {}",
                author(it),
                it.summary,
                it.instruction
            ),
            _ if *can_start || *is_finished => {
                format!("Initial state. Waiting for Agent {holder} to start.")
            }
            _ => String::new(),
        };
        let words = latest.filter(|_| has_words);
        Self {
            can_start: *can_start,
            previous_context,
            is_finished: *is_finished,
            still_waiting: *still_waiting,
            superseded: *superseded,
            loop_id,
            round: u64::from(*round),
            turn: *turn,
            holder: if *can_start { "" } else { holder },
            from: words.map_or("", author),
            summary: words.map(|it| it.summary.as_str()),
            instruction: words.map(|it| it.instruction.as_str()),
            reclaimed: reclaim.as_ref().filter(|_| *can_start).map(|it| Reclaimed {
                from: &it.from,
                by: if it.person.is_empty() { &it.to } else { &it.person },
                reason: &it.reason,
            }),
            hint: hint(role, answer),
        }
    }
}

fn author(entry: &wire::Entry) -> &str {
    if entry.from.is_empty() { &entry.person } else { &entry.from }
}

fn hint(role: &RoleId, answer: &wire::TurnAnswer) -> String {
    if answer.superseded {
        format!("Another call or agent has the place of this one as {role}; do not call again.")
    } else if answer.still_waiting && answer.holder.is_empty() {
        "Not your turn yet. Call await_my_turn again at once.".to_owned()
    } else if answer.still_waiting {
        format!("It is {}'s turn. Call await_my_turn again at once.", answer.holder)
    } else {
        String::new()
    }
}

/// The answer to `loop_status`.
#[derive(Debug, Serialize)]
pub(in crate::mcp) struct Status<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seen_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
    #[serde(rename = "loop")]
    loop_id: &'a str,
    status: &'static str,
    round: u32,
    turn: u64,
    holder: &'a str,
    participants: &'a [String],
    waiting: &'a [String],
    turn_began_ms: u64,
    lease_lapses_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    quiet_since_ms: u64,
    entries: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<Latest<'a>>,
}

/// The latest line of the history.
#[derive(Debug, Serialize)]
struct Latest<'a> {
    kind: &'static str,
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    person: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instruction: Option<&'a str>,
    at_ms: u64,
    receipts: Receipts,
}

/// The times at which the latest entry got this far.
#[derive(Debug, Default, Serialize)]
struct Receipts {
    #[serde(skip_serializing_if = "is_zero")]
    stored_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    handed_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    seen_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    acted_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    failed_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    lapsed_ms: u64,
}

impl From<&wire::Receipts> for Receipts {
    fn from(it: &wire::Receipts) -> Self {
        Self {
            stored_ms: it.stored_ms,
            handed_ms: it.handed_ms,
            seen_ms: it.seen_ms,
            acted_ms: it.acted_ms,
            failed_ms: it.failed_ms,
            lapsed_ms: it.lapsed_ms,
        }
    }
}

impl<'a> Status<'a> {
    pub(in crate::mcp) fn new(loop_id: &'a str, seen: &'a Seen<wire::GetLoopResponse>) -> Self {
        let response = &seen.what;
        let shown = response.r#loop.as_ref();
        Self {
            seen_ms_ago: seen.ago.map(|ago| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)),
            caution: seen.ago.map(caution),
            loop_id,
            status: match shown.map_or(LoopStatus::Unspecified, wire::Loop::status) {
                LoopStatus::Unspecified => "unknown",
                LoopStatus::Idle => "idle",
                LoopStatus::Working => "working",
                LoopStatus::Stalled => "stalled",
                LoopStatus::Completed => "completed",
            },
            round: shown.map_or(0, |it| it.round),
            turn: shown.map_or(0, |it| it.turn),
            holder: shown.map_or("", |it| &it.holder),
            participants: shown.map_or(&[], |it| &it.participants),
            waiting: shown.map_or(&[], |it| &it.waiting),
            turn_began_ms: shown.map_or(0, |it| it.turn_began_ms),
            lease_lapses_ms: shown.map_or(0, |it| it.lease_lapses_ms),
            quiet_since_ms: shown.map_or(0, |it| it.quiet_since_ms),
            entries: shown.map_or(0, |it| it.entries),
            latest: response.latest.as_ref().map(|it| Latest {
                kind: match it.kind() {
                    EntryKind::Unspecified => "unknown",
                    EntryKind::Handover => "handover",
                    EntryKind::Reclaim => "reclaim",
                    EntryKind::RoundStart => "round_start",
                },
                from: &it.from,
                to: &it.to,
                person: &it.person,
                reason: &it.reason,
                summary: Some(&it.summary),
                instruction: Some(&it.instruction),
                at_ms: it.at_ms,
                receipts: it
                    .receipts
                    .as_ref()
                    .or_else(|| shown.and_then(|it| it.receipts.as_ref()))
                    .map_or_else(Receipts::default, Receipts::from),
            }),
        }
    }
}

impl Status<'_> {
    /// The same without what was said, for where that is said already.
    pub(in crate::mcp) fn without_words(mut self) -> Self {
        if let Some(latest) = &mut self.latest {
            (latest.summary, latest.instruction) = (None, None);
        }
        self
    }
}

/// Said beside what may be over.
fn caution(ago: Duration) -> String {
    format!(
        "As of {} s ago; the broker is out of reach. It may have changed since: only \
         await_my_turn says whether you may start.",
        ago.as_secs()
    )
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
