//! `tasuki delivery create`.

use std::{collections::BTreeSet, path::Path};

use serde_json::json;
use tasuki_proto::wire::{self, DeliveryStatus, SubmissionStatus, TaskStage, swarm_question::Ask};

use crate::{
    cli::{
        labels::spaced,
        loops::text_args::{HELP, TextArgs},
        role_args::{RoleArgs, RoleClient},
        swarm::{
            Failure, Output, again,
            awaited::{self, Wait},
            commit::Rerun,
            labels::delivery_status,
            names::{IssueName, TaskIds},
            pages::{PAGE, offset},
            task::{get_task, list::list_tasks},
        },
        text::line,
    },
    config::Config,
};

/// Deliver an issue's finished work to the acceptors.
///
/// All its tasks must be done. The delivery names every file that approved work changed, unless
/// --file names them. --passed or --failed states the outcome of the tests.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{}\n\n{HELP}", awaited::HELP))]
#[command(group = clap::ArgGroup::new("outcome").required(true).args(["passed", "failed"]))]
pub struct Args {
    /// Issue to deliver
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// What is delivered
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// The tests passed
    #[arg(long)]
    passed: bool,
    /// The tests failed
    #[arg(long)]
    failed: bool,
    /// Document with the steps to test the delivery, issue-NAME-test-steps.md: a document of the
    /// issue, or a changed file
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    steps: String,
    /// Command of that document, after its exit code unless that is 0; repeatable
    #[arg(long, value_name = "[CODE:]COMMAND", value_parser = step)]
    step: Vec<wire::CommandResult>,
    /// Script that tests the delivery
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    script: String,
    /// Command that runs the script
    #[arg(long, value_name = "COMMAND", default_value = "", hide_default_value = true)]
    script_command: String,
    /// Output of the script
    #[arg(long, value_name = "TEXT")]
    script_result: Option<String>,
    /// Changed file; repeatable [default: those of all approved submissions]
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// What was tested; repeatable
    #[arg(long, value_name = "TEXT")]
    case: Vec<String>,
    /// What was reviewed; repeatable
    #[arg(long = "ref", value_name = "TEXT")]
    refs: Vec<String>,
    /// Output of the tests
    #[arg(long, value_name = "TEXT")]
    test_output: Option<String>,
    /// Known risks
    #[arg(long, value_name = "TEXT")]
    risks: Option<String>,
    #[command(flatten)]
    rerun: Rerun,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    role: RoleArgs,
}

/// `make test`, or `2:make test` where it ended with 2.
fn step(text: &str) -> Result<wire::CommandResult, String> {
    let said = text.split_once(':').and_then(|(code, command)| {
        let code: i32 = code.parse().ok()?;
        Some((code, command))
    });
    let (exit_code, command) = said.unwrap_or((0, text));
    if command.trim().is_empty() {
        return Err("a step is a command, such as `make test` or `2:make test`".to_owned());
    }
    Ok(wire::CommandResult {
        command: command.to_owned(),
        has_passed: exit_code == 0,
        exit_code,
        output: String::new(),
    })
}

/// What the broker calls by its field, by the flag that it was given with.
const FLAGS: [(&str, &str); 3] = [
    ("test_evidence.doc_path", "--steps"),
    ("test_evidence.doc_commands", "--step"),
    ("artifacts.changed_files", "--file"),
];

fn by_flags(mut why: Failure) -> Failure {
    for (field, flag) in FLAGS {
        why.message = why.message.replace(field, flag);
    }
    why
}

pub(super) async fn run(
    args: Box<Args>,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let mut words = TextArgs::default();
    let summary = words.read("--summary", &args.summary)?;
    let artifacts = wire::DeliveryArtifacts {
        has_passed: args.passed,
        test_cases: args.case,
        changed_files: Vec::new(),
        reviewed_refs: args.refs.clone(),
        test_output: words.read_if("--test-output", args.test_output.as_deref())?,
        known_risks: words.read_if("--risks", args.risks.as_deref())?,
    };
    let test_evidence = wire::TestEvidence {
        script_path: args.script,
        script_cmd: args.script_command,
        script_passed: args.passed,
        script_result: words.read_if("--script-result", args.script_result.as_deref())?,
        doc_path: args.steps,
        doc_commands: args.step.iter().map(|it| it.command.clone()).collect(),
        doc_passed: args.passed && args.step.iter().all(|it| it.has_passed),
        doc_results: args.step,
        rerun: args.rerun.named(output)?,
    };
    let issue_id = args.issue.find(&acting).await?;
    let mut changed_files =
        if args.file.is_empty() { changed(&acting, &issue_id).await? } else { args.file };
    // The document of steps is one that the acceptor finds in what is delivered.
    let steps = &test_evidence.doc_path;
    if Path::new(steps).is_file() && !changed_files.contains(steps) {
        changed_files.push(steps.clone());
    }
    let request = wire::SubmitDeliveryRequest {
        role: acting.role.clone(),
        issue_id,
        summary,
        refs: args.refs.join(", "),
        artifacts: Some(wire::DeliveryArtifacts { changed_files, ..artifacts }),
        test_evidence: Some(test_evidence),
        ..Default::default()
    };
    let done = acting.broker.call(&request).await.map_err(by_flags)?;
    let of = done.delivery.clone().unwrap_or_default();
    let told = |output: &mut Output| {
        output.answer(
            || json!(done),
            || {
                let (id, issue) = (line(&of.delivery_id), line(&of.issue_id));
                format!("{id} of {issue} {}.{}\n", standing(&of), again(done.repeated))
            },
        )
    };
    args.wait.behind(&acting, output, Ask::Delivery(of.delivery_id.clone()), told).await
}

/// How it is with a delivery: one that was made before may have been judged.
fn standing(of: &wire::Delivery) -> String {
    match of.status() {
        DeliveryStatus::Open | DeliveryStatus::Unspecified => "waits for an acceptor".to_owned(),
        status @ (DeliveryStatus::InReview
        | DeliveryStatus::Approved
        | DeliveryStatus::Rejected) => format!("is {}", spaced(&delivery_status(status), " ")),
    }
}

/// The files that the approved submissions of an issue changed.
async fn changed(acting: &RoleClient, issue: &str) -> Result<Vec<String>, Failure> {
    let wanted = wire::ListTasksRequest {
        issue_id: issue.to_owned(),
        stage: TaskStage::Done.into(),
        ..Default::default()
    };
    let mut files = BTreeSet::new();
    let mut at = 0_u64;
    loop {
        let page = list_tasks(acting, &wanted, PAGE, offset(at)).await?;
        for task in &page.things {
            let ids = TaskIds { issue: issue.to_owned(), task: task.task_id.clone() };
            let of = get_task(acting, &ids).await?.task.unwrap_or_default();
            let submission = of.submission.unwrap_or_default();
            if submission.status() == SubmissionStatus::Approved {
                files.extend(submission.words.unwrap_or_default().changed_files);
            }
        }
        at += page.things.len() as u64;
        if page.things.is_empty() || page.total <= at {
            return Ok(files.into_iter().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_flag() {
        let why = by_flags(Failure::usage("test_evidence.doc_path must match"));
        assert_eq!(why.message, "--steps must match");
    }

    #[test]
    fn a_step_ended_with_0_unless_it_says_otherwise() {
        let said = |text: &str| step(text).map(|it| (it.command, it.exit_code, it.has_passed));
        assert_eq!(said("make test"), Ok(("make test".to_owned(), 0, true)));
        assert_eq!(said("2:make test"), Ok(("make test".to_owned(), 2, false)));
        assert_eq!(said("-1:x:y"), Ok(("x:y".to_owned(), -1, false)));
        assert_eq!(said("echo a:b"), Ok(("echo a:b".to_owned(), 0, true)));
        assert!(said("3:").is_err() && said(" ").is_err());
    }
}
