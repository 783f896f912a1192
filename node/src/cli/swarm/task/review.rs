//! `tasuki task review`.
//!
//! Approving takes the token of the worker's next step. It is asked for here, for the same
//! submission and score; what it reserves may expire before the verdict arrives, and is then asked
//! for once more.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    review_terms::with_defaults,
    swarm::{SCORE_REJECTED, SubmissionId},
    wire::{self, SubmissionStatus},
};

use super::get_task;
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::{RoleArgs, RoleClient},
        swarm::{
            Failure, Output, again, details,
            names::{TaskIds, TaskName},
        },
        text::line,
    },
    config::Config,
};

/// Review a submission.
///
/// Approving takes a score, and reserves the worker's next task for it.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group = clap::ArgGroup::new("verdict").required(true).args(["approve", "reject"]))]
pub struct Args {
    /// Task whose submission to review
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// Approve it
    #[arg(long)]
    approve: bool,
    /// Reject it; the worker keeps the task
    #[arg(long)]
    reject: bool,
    /// Quality of the work: 1 is poor, 2 is fair, 5 is good; needed to approve
    #[arg(long, value_name = "1|2|5", value_parser = scores())]
    score: Option<u32>,
    /// Feedback for the worker
    #[arg(long, value_name = "TEXT")]
    feedback: String,
    /// Submission to review [default: the open one]
    #[arg(long, value_name = "ID")]
    submission: Option<SubmissionId>,
    /// What was reviewed; repeatable [default: the submission]
    #[arg(long = "ref", value_name = "TEXT")]
    refs: Vec<String>,
    /// A finding; repeatable [default: the feedback]
    #[arg(long, value_name = "DIMENSION/SEVERITY[@FILE[:LINES]]=TEXT", value_parser = finding)]
    finding: Vec<wire::FeedbackDetail>,
    #[command(flatten)]
    role: RoleArgs,
}

fn scores() -> impl TypedValueParser<Value = u32> {
    PossibleValuesParser::new(["1", "2", "5"]).map(|it| it.parse().expect("it is one of them"))
}

/// `security/major@src/a.rs:3-9=What is wrong`
fn finding(text: &str) -> Result<wire::FeedbackDetail, String> {
    let wrong = || "a finding is like security/major@src/a.rs:3-9=What is wrong".to_owned();
    let (head, content) = text.split_once('=').ok_or_else(wrong)?;
    let (kind, place) = head.split_once('@').unwrap_or((head, ""));
    let (dimension, severity) = kind.split_once('/').ok_or_else(wrong)?;
    let (path, lines) = place.rsplit_once(':').unwrap_or((place, ""));
    Ok(wire::FeedbackDetail {
        dimension: dimension.to_owned(),
        severity: severity.to_owned(),
        file_path: path.to_owned(),
        line_range: lines.to_owned(),
        content: content.to_owned(),
        suggestion: String::new(),
    })
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let feedback = TextArgs::default().read("--feedback", &args.feedback)?;
    let score = match (args.score, args.approve) {
        (Some(score), _) => score,
        (None, false) => SCORE_REJECTED,
        (None, true) => {
            return Err(Failure::usage("Approving needs --score 1, 2 or 5. Nothing was reviewed."));
        }
    };
    let ids = args.task.find(&acting).await?;
    let known = get_task(&acting, &ids).await?.task.unwrap_or_default();
    let submission = known.submission.unwrap_or_default();
    let newest = submission.submission_id.clone();
    let submission_id = args.submission.map_or(newest, |id| id.to_string());
    let looked_at = if submission_id.is_empty() { ids.task.clone() } else { submission_id.clone() };
    let review = wire::Review {
        is_approved: args.approve,
        feedback,
        review_summary: String::new(),
        reviewed_refs: args.refs,
        details: args.finding,
    };
    let request = wire::ReviewTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        submission_id,
        completion_score: score,
        next_step_token: String::new(),
        review: Some(with_defaults(review, &looked_at)),
        ..Default::default()
    };
    let done = if args.approve {
        approve(&acting, &ids, &submission, request).await?
    } else {
        send_review(&acting, request).await?
    };
    report_review(&done, args.approve, output)
}

async fn approve(
    acting: &RoleClient,
    ids: &TaskIds,
    submission: &wire::Submission,
    request: wire::ReviewTaskRequest,
) -> Result<wire::TaskResponse, Failure> {
    let mut is_first = true;
    loop {
        // Of one that was reviewed the verdict is only repeated, which takes no token.
        let token = if submission.status() == SubmissionStatus::Open {
            mint(acting, ids, &submission.worker, request.completion_score).await?.token
        } else {
            String::new()
        };
        let asked = wire::ReviewTaskRequest { next_step_token: token, ..request.clone() };
        match send_review(acting, asked).await {
            Err(why) if is_first && why.as_reason() == Some(Reason::InvalidNextStepToken) => {
                is_first = false;
            }
            told => return told,
        }
    }
}

async fn mint(
    acting: &RoleClient,
    ids: &TaskIds,
    worker: &str,
    completion_score: u32,
) -> Result<wire::NextStep, Failure> {
    let request = wire::MintNextStepRequest {
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        worker: worker.to_owned(),
        completion_score,
        ..Default::default()
    };
    let minted = acting.broker.call(&request).await?;
    Ok(minted.next_step.unwrap_or_default())
}

async fn send_review(
    acting: &RoleClient,
    request: wire::ReviewTaskRequest,
) -> Result<wire::TaskResponse, Failure> {
    acting.broker.call(&request).await
}

fn report_review(
    done: &wire::TaskResponse,
    is_approved: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || {
            let (task, again) = (line(&of.task_id), again(done.repeated));
            let submission = of.submission.clone().unwrap_or_default();
            let worker = line(&submission.worker);
            match submission.next_step {
                _ if !is_approved => {
                    format!("{task} is rejected; {worker} keeps the task.{again}\n")
                }
                Some(next) => {
                    let next = details::next_step(&next, done.now_ms);
                    format!("{task} is approved.{again}\nNext for {worker}: {next}.\n")
                }
                None => format!("{task} is approved.{again}\n"),
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_what_where_and_how_bad() {
        let said = |text: &str| {
            finding(text).map(|it| {
                format!(
                    "{}|{}|{}|{}|{}",
                    it.dimension, it.severity, it.file_path, it.line_range, it.content
                )
            })
        };
        let is = |text: &str, expected: &str| {
            assert_eq!(said(text).as_deref(), Ok(expected), "{text}");
        };
        is("style/minor=A = B", "style|minor|||A = B");
        is("security/major@src/a.rs=x", "security|major|src/a.rs||x");
        is("security/major@src/a.rs:3-9=x", "security|major|src/a.rs|3-9|x");
        assert!(said("style=x").is_err() && said("style/minor").is_err());
    }
}
