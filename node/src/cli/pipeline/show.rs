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
        text::{block, line, time},
    },
    config::Config,
};

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
                _ => format!("{phase} waits for a node that hosts {role}\n"),
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

/// One decision of a person as a line.
pub(super) fn decision_line(it: &wire::ApprovalDecision) -> String {
    let verb = if it.approved { "approved" } else { "rejected" };
    let reason = match it.reason.as_str() {
        "" => "\n".to_owned(),
        reason => format!(":\n{}", block(reason)),
    };
    format!("      {} {verb} {} {}{reason}", line(&it.person), line(&it.phase), time(it.at_ms))
}
