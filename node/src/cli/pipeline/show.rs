//! `tasuki pipeline list` and `status`.

use serde_json::json;
use tasuki_proto::{
    id::BoardName,
    limits::PIPELINES_PAGE_MAX,
    wire::{self, AttemptStatus, PipelineStatus},
};

use super::check::described;
use crate::{
    cli::{
        Failure, Output,
        broker::Broker,
        labels::{author, enum_name, spaced},
        text::{indented, line, time, width},
    },
    config::Config,
};

/// Blanks before a reason, which follows its decision.
const REASON_INDENT: usize = 10;

/// List pipelines, by board.
///
/// With --json each pipeline is one line.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ListArgs {
    /// Only those that have not ended
    #[arg(long)]
    open: bool,
}

/// Show how a pipeline stands: its phases, attempts and decisions.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct StatusArgs {
    /// Board of the pipeline
    #[arg(value_name = "BOARD")]
    board: BoardName,
}

pub(super) async fn list(
    args: ListArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut request = wire::ListPipelinesRequest {
        only_open: args.open,
        limit: PIPELINES_PAGE_MAX,
        ..Default::default()
    };
    let mut is_first = true;
    loop {
        let page = broker.call(&request).await?;
        if is_first && page.pipelines.is_empty() {
            return output.guide(|| "No pipelines.\n".to_owned());
        }
        is_first = false;
        for it in &page.pipelines {
            output.answer(|| json!(it), || format!("{:<20} {}", line(&it.board), stands(it)))?;
        }
        if page.next.is_empty() {
            return Ok(());
        }
        request.after = page.next;
    }
}

pub(super) async fn status(
    args: StatusArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::GetPipelineRequest { board: args.board.to_string(), ..Default::default() };
    let it = Broker::new(config).call(&request).await?.pipeline.unwrap_or_default();
    output.answer(|| json!(it), || sheet(&it))
}

/// All of a pipeline, for people.
pub(super) fn sheet(it: &wire::Pipeline) -> String {
    let by = author(&it.by_role, &it.by_person);
    let mut text =
        format!("{}  started by {by} at {}\n{}", line(&it.board), time(it.started_ms), stands(it));
    if it.checkpoint != 0 {
        text += &format!("The board is at checkpoint {}.\n", it.checkpoint);
    }
    text += "\nPhases\n";
    text += &described(&it.definition.clone().unwrap_or_default());
    text += "\nAttempts\n";
    it.attempts.iter().for_each(|it| text += &attempt_line(it));
    if !it.decisions.is_empty() {
        text += "\nDecisions\n";
        it.decisions.iter().for_each(|it| text += &decision_line(it));
    }
    text
}

/// Where it stands, as a line.
pub(super) fn stands(it: &wire::Pipeline) -> String {
    let phase = line(&it.phase);
    match it.status() {
        PipelineStatus::Running => {
            let newest = it.attempts.last();
            let role = newest.map(|it| line(&it.role)).unwrap_or_default();
            match newest.map(wire::PhaseAttempt::status) {
                Some(AttemptStatus::Running) => {
                    let node = newest.map(|it| line(&it.node)).unwrap_or_default();
                    format!("{phase} is done by {role} on {node}\n")
                }
                _ => format!("{phase} waits for {role}: no node has taken it yet\n"),
            }
        }
        PipelineStatus::AwaitingApproval => format!(
            "{phase} waits for approval until {}: tasuki pipeline approve {}\n",
            time(it.approval_lapses_ms),
            line(&it.board)
        ),
        PipelineStatus::Completed | PipelineStatus::Failed | PipelineStatus::Canceled => ending(it),
        PipelineStatus::Unspecified => "unknown to this release\n".to_owned(),
    }
}

/// How it ended, as a line.
pub(super) fn ending(it: &wire::Pipeline) -> String {
    let status = spaced(&enum_name(it.status().as_str_name(), "PIPELINE_STATUS_"), " ");
    let why = match it.error.as_str() {
        "" => String::new(),
        why => format!(": {}", line(why)),
    };
    format!("{status} at {} ({}){why}\n", line(&it.phase), time(it.ended_ms))
}

/// One attempt as a line.
pub(super) fn attempt_line(it: &wire::PhaseAttempt) -> String {
    let status = spaced(&enum_name(it.status().as_str_name(), "ATTEMPT_STATUS_"), " ");
    let when = if it.ended_ms == 0 { it.began_ms } else { it.ended_ms };
    let when = if when == 0 { String::new() } else { format!("  {}", time(when)) };
    let written = match it.written {
        0 => String::new(),
        written => format!("  checkpoint {written}"),
    };
    let error = match it.error.as_str() {
        "" => String::new(),
        error => format!("  {}", line(error)),
    };
    let node = if it.node.is_empty() { String::new() } else { format!(" on {}", line(&it.node)) };
    format!(
        "{:>4}  {:<10} {:<10} {}{node}{when}{written}{error}\n",
        it.attempt,
        line(&it.phase),
        status,
        line(&it.role),
    )
}

/// One decision of a person: a line, and its reason below it, deeper than any line of this program
/// begins.
pub(super) fn decision_line(it: &wire::ApprovalDecision) -> String {
    let verb = if it.approved { "approved" } else { "rejected" };
    let reason = match it.reason.as_str() {
        "" => "\n".to_owned(),
        reason => format!(":\n{}", indented(reason, REASON_INDENT, width())),
    };
    format!("      {} {verb} {} {}{reason}", line(&it.person), line(&it.phase), time(it.at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(reason: &str) -> wire::ApprovalDecision {
        wire::ApprovalDecision {
            phase: "plan".to_owned(),
            person: "ann".to_owned(),
            reason: reason.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn a_reason_looks_like_no_decision() {
        let forged = "first\n      root approved plan 2026-01-01 00:00:00Z";
        assert_eq!(
            decision_line(&decision(forged)),
            "      ann rejected plan -:\n          first\n                root approved plan \
             2026-01-01 00:00:00Z\n"
        );
        let all = wire::Pipeline {
            decisions: vec![decision("thin"), decision(""), decision("a\r\nb\n")],
            ..Default::default()
        };
        let shown = sheet(&all);
        let (_, decisions) = shown.split_once("Decisions\n").unwrap();
        assert_eq!(
            decisions,
            "      ann rejected plan -:\n          thin\n      ann rejected plan -\n      ann \
             rejected plan -:\n          a\n          b\n"
        );
    }

    #[test]
    fn who_does_a_phase_is_said_as_far_as_it_is_known() {
        let attempt = |status: AttemptStatus| wire::PhaseAttempt {
            role: "dev".to_owned(),
            node: "box".to_owned(),
            status: status.into(),
            ..Default::default()
        };
        for (status, said) in [
            (AttemptStatus::Waiting, "code waits for dev: no node has taken it yet\n"),
            (AttemptStatus::Running, "code is done by dev on box\n"),
        ] {
            let it = wire::Pipeline {
                status: PipelineStatus::Running.into(),
                phase: "code".to_owned(),
                attempts: vec![attempt(status)],
                checkpoint: 7,
                ..Default::default()
            };
            assert_eq!(stands(&it), said);
            assert!(sheet(&it).contains("The board is at checkpoint 7.\n"));
        }
    }
}
