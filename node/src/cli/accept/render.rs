//! What came of it, for people and for programs.

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::{counted::counted, wire};

use super::{Failure, Output, plan::Plan, rerun::Ran, verdict};
use crate::{
    accept::report::{self, TAIL_BYTES_MAX},
    cli::{
        swarm::delivery_client,
        text::{block, line},
    },
};

/// Of a failed command's output, shown to people: its last lines.
const LINES_MAX: usize = 15;

/// Digits of a hash shown to people.
const HASH_DIGITS: usize = 16;

/// Whose evidence it is.
pub(super) enum Of<'a> {
    /// Attached to it; with the delivery after the verdict, if there was one.
    Delivery {
        of: &'a wire::Delivery,
        verdict: Option<&'a wire::Delivery>,
    },
    Submission(&'a str),
    /// It could not be attached.
    Nothing,
}

pub(super) fn answer(
    output: &mut Output,
    plan: &Plan,
    ran: &Ran,
    of: Of<'_>,
) -> Result<(), Failure> {
    output.answer(|| value(plan, ran, &of), || text(ran, &of))
}

fn value(plan: &Plan, ran: &Ran, of: &Of<'_>) -> Value {
    let commands: Vec<Value> = ran.0.iter().map(command_json).collect();
    let (delivery, submission, attached, verdict) = match of {
        Of::Delivery { of, verdict } => {
            let verdict = verdict.map(verdict_name);
            (Some(of.delivery_id.as_str()), None, Some(of.evidence.len()), verdict)
        }
        Of::Submission(id) => (None, Some(*id), None, None),
        Of::Nothing => (None, None, None, None),
    };
    json!({
        "delivery_id": delivery, "submission_id": submission, "commit": plan.commit.as_str(),
        "passed": ran.is_passed(), "commands": commands, "evidence": attached,
        "verdict": verdict,
    })
}

fn command_json(it: &report::Ran) -> Value {
    json!({
        "command": it.command,
        "passed": it.outcome.is_passed(),
        "exit_code": it.outcome.exit_code(),
        "timed_out": it.outcome == report::Outcome::TimedOut,
        "output_hash": it.printed.hash().to_hex().as_str(),
        "output_bytes": it.printed.bytes(),
        "output_tail": it.printed.tail(TAIL_BYTES_MAX),
        "duration_ms": u64::try_from(it.took.as_millis()).unwrap_or(u64::MAX),
        "sandbox": it.sandbox,
    })
}

fn verdict_name(it: &wire::Delivery) -> &'static str {
    match it.status() {
        wire::DeliveryStatus::Approved => "approved",
        wire::DeliveryStatus::Rejected => "rejected",
        wire::DeliveryStatus::Open
        | wire::DeliveryStatus::InReview
        | wire::DeliveryStatus::Unspecified => "none",
    }
}

fn text(ran: &Ran, of: &Of<'_>) -> String {
    let mut out = String::new();
    for it in &ran.0 {
        let outcome = it.outcome.to_string();
        let outcome = match it.outcome.is_passed() {
            true => outcome.green().to_string(),
            false => outcome.red().bold().to_string(),
        };
        let (seconds, bytes) = (it.took.as_secs_f64(), counted(it.printed.bytes(), "byte"));
        let hash = it.printed.hash().to_hex();
        let hash = &hash[..HASH_DIGITS];
        let facts = format!("{seconds:.1} s, {bytes} printed, {hash}, {}", it.sandbox);
        put(&mut out, &format!("{} {outcome}", line(&it.command)));
        put(&mut out, &format!("  {}", facts.dimmed()));
        if !it.outcome.is_passed() {
            let tail = block(&it.printed.tail(TAIL_BYTES_MAX));
            let lines: Vec<&str> = tail.lines().collect();
            for line in &lines[lines.len().saturating_sub(LINES_MAX)..] {
                put(&mut out, &format!("  | {line}"));
            }
        }
    }
    let failed = ran.0.iter().filter(|it| !it.outcome.is_passed()).count();
    let sum = match (ran.0.len(), failed) {
        (1, 0) => "The command passed.".to_owned(),
        (all, 0) => format!("All {all} commands passed."),
        (1, 1) => "The command failed.".to_owned(),
        (all, failed) => format!("{failed} of {all} commands failed."),
    };
    let rest = match of {
        Of::Delivery { of, verdict: Some(it) } => format!(
            "Attached to {} as evidence {}. {}",
            line(&of.delivery_id),
            of.evidence.len(),
            delivery_client::judged(it)
        ),
        Of::Delivery { of, verdict: None } => {
            let id = line(&of.delivery_id);
            let (verdict, more) = match failed {
                0 => ("--approve", verdict::approving(of)),
                _ => ("--reject", ""),
            };
            format!(
                "Attached to {id} as evidence {}. The verdict is yours:\n\
                 tasuki accept {id} --no-run {verdict} --feedback TEXT{more}",
                of.evidence.len()
            )
        }
        Of::Submission(_) => "It is kept nowhere: evidence is a delivery's.".to_owned(),
        Of::Nothing => "It could not be attached.".to_owned(),
    };
    put(&mut out, &format!("{sum} {rest}"));
    out
}

/// What a verdict made of the delivery.
pub(super) fn judged_json(it: &wire::Delivery) -> Value {
    let overridden = it.overridden.as_ref();
    let overridden = overridden.map(|it| json!({"person": it.person, "reason": it.reason}));
    json!({
        "delivery_id": it.delivery_id, "verdict": verdict_name(it), "overridden": overridden,
        "evidence": it.evidence.len(),
    })
}

fn put(out: &mut String, line: &str) {
    *out += &format!("{line}\n");
}
