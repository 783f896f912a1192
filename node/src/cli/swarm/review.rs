//! `tasuki swarm review`: of a task's submission.
//!
//! To approve takes the token of what the worker is to do next. It is asked for here, for the same
//! submission and score; what it reserves may lapse before the verdict arrives, and is then asked
//! for once more.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use tasuki_proto::{
    reason::Reason,
    wire::{self, SubmissionStatus},
};

use super::{
    Failure, Output, again, json as as_json,
    names::{TaskIds, TaskName, What},
    show::task_of,
    verdict,
    who::{Acting, Who, client},
    whole,
};
use crate::{
    cli::{
        loops::words::{HELP, Words},
        text::line,
    },
    config::Config,
};

/// The score of a rejected submission, which adds no points.
const SCORE_REJECTED: u32 = 1;

/// Say what is thought of a submission, or of a delivery.
///
/// Of a task: approving it takes a score and keeps the worker's next task for it. Of a delivery,
/// which is claimed before: this is for what was checked by hand; approving says that its script and
/// every step of its document were gone through and passed, but for those named with
/// --script-failed and --failed-step. Where a delivery names a commit and commands, `tasuki accept`
/// runs them again, attaches what came of it, and judges by that.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group = clap::ArgGroup::new("judged").required(true).args(["approve", "reject"]))]
pub struct Args {
    /// Which one
    #[arg(value_name = "ISSUE/TASK|DELIVERY")]
    what: What,
    /// It is done
    #[arg(long)]
    approve: bool,
    /// It is not: the worker goes on with its task, the lead with a delivery
    #[arg(long)]
    reject: bool,
    /// Of a task: how well it is done: 1 is poor, 2 is fair, 5 is good
    #[arg(long, value_name = "1|2|5", value_parser = scores())]
    score: Option<u32>,
    /// What to tell whoever did it
    #[arg(long, value_name = "TEXT")]
    feedback: String,
    /// Of a task: which submission [default: the open one]
    #[arg(long, value_name = "ID")]
    submission: Option<tasuki_proto::swarm::SubmissionId>,
    /// What was looked at; repeat for each [default: the submission]
    #[arg(long = "ref", value_name = "TEXT")]
    refs: Vec<String>,
    /// Of a task: something that was found; repeat for each [default: the feedback]
    #[arg(long, value_name = "DIMENSION/SEVERITY[@FILE[:LINES]]=TEXT", value_parser = finding)]
    finding: Vec<wire::FeedbackDetail>,
    #[command(flatten)]
    verdict: verdict::Checked,
    #[command(flatten)]
    pub(super) who: Who,
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
    let acting = args.who.acting(config).await?;
    let feedback = Words::default().read("--feedback", &args.feedback)?;
    match &args.what {
        What::Task(task) => of_task(&acting, &args, task, feedback, output).await,
        What::Delivery(id) => {
            if args.score.is_some() || !args.finding.is_empty() || args.submission.is_some() {
                return Err(Failure::usage(
                    "--score, --finding and --submission are of a task; a delivery has none. \
                     Nothing was reviewed.",
                ));
            }
            let refs = args.refs.join(", ");
            let judged = verdict::Judged { is_approved: args.approve, feedback, refs };
            verdict::run(&acting, &id.to_string(), judged, args.verdict, output).await
        }
        What::Issue(_) | What::Lock(_) => Err(Failure::usage(
            "What is reviewed is a task's submission or a delivery: give ISSUE/TASK or DELIVERY. \
             Nothing was reviewed.",
        )),
    }
}

async fn of_task(
    acting: &Acting,
    args: &Args,
    task: &TaskName,
    feedback: String,
    output: &mut Output,
) -> Result<(), Failure> {
    if args.verdict.is_said() {
        return Err(Failure::usage(
            "--script-failed, --failed-step and --despite are of a delivery. Nothing was reviewed.",
        ));
    }
    let score = match (args.score, args.approve) {
        (Some(score), _) => score,
        (None, false) => SCORE_REJECTED,
        (None, true) => {
            return Err(Failure::usage(
                "Approving takes --score 1, 2 or 5: what the worker earns counts by it. Nothing \
                 was reviewed.",
            ));
        }
    };
    let ids = task.find(acting).await?;
    let known = task_of(acting, &ids).await?.task.unwrap_or_default();
    let submission = known.submission.unwrap_or_default();
    let newest = submission.submission_id.clone();
    let submission_id = args.submission.map_or(newest, |id| id.to_string());
    let looked_at = if submission_id.is_empty() { ids.task.clone() } else { submission_id.clone() };
    let refs = if args.refs.is_empty() { vec![looked_at] } else { args.refs.clone() };
    let details = if args.finding.is_empty() {
        let severity = if args.approve { "info" } else { "major" };
        vec![wire::FeedbackDetail {
            dimension: "correctness".to_owned(),
            severity: severity.to_owned(),
            content: feedback.clone(),
            ..Default::default()
        }]
    } else {
        args.finding.clone()
    };
    let request = wire::ReviewTaskRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        submission_id,
        completion_score: score,
        next_step_token: String::new(),
        review: Some(wire::Review {
            is_approved: args.approve,
            feedback,
            review_summary: String::new(),
            reviewed_refs: refs,
            details,
        }),
    };
    let done = if args.approve {
        approve(acting, &ids, &submission, request).await?
    } else {
        say(acting, request).await?
    };
    told(&done, args.approve, output)
}

async fn approve(
    acting: &Acting,
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
        match say(acting, asked).await {
            Err(why) if is_first && why.as_reason() == Some(Reason::InvalidNextStepToken) => {
                is_first = false;
            }
            told => return told,
        }
    }
}

async fn mint(
    acting: &Acting,
    ids: &TaskIds,
    worker: &str,
    completion_score: u32,
) -> Result<wire::NextStep, Failure> {
    let request = wire::MintNextStepRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue.clone(),
        task_id: ids.task.clone(),
        worker: worker.to_owned(),
        completion_score,
    };
    let minted = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::MintNextStepRequest { key: Some(key), ..request.clone() };
            client(channel).mint_next_step(request).await
        })
        .await?;
    Ok(minted.next_step.unwrap_or_default())
}

async fn say(
    acting: &Acting,
    request: wire::ReviewTaskRequest,
) -> Result<wire::TaskResponse, Failure> {
    acting
        .broker
        .tell(async |channel, key| {
            let request = wire::ReviewTaskRequest { key: Some(key), ..request.clone() };
            client(channel).review_task(request).await
        })
        .await
}

fn told(done: &wire::TaskResponse, is_approved: bool, output: &mut Output) -> Result<(), Failure> {
    let of = done.task.clone().unwrap_or_default();
    output.answer(
        || {
            let value = json!({
                "task": as_json::task(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            });
            as_json::at(value, done.now_ms)
        },
        || {
            let (task, again) = (line(&of.task_id), again(done.repeated));
            let submission = of.submission.clone().unwrap_or_default();
            let worker = line(&submission.worker);
            match submission.next_step {
                _ if !is_approved => {
                    format!("{task} is rejected; {worker} goes on with it.{again}\n")
                }
                Some(next) => {
                    let next = whole::next_step(&next, done.now_ms);
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
