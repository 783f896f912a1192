//! `tasuki task submit`.

use serde_json::json;
use tasuki_proto::wire::{self, SubmissionStatus, swarm_question::Ask};

use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{
            Failure, Output, again,
            awaited::{self, Wait},
            commit::Rerun,
            files,
            labels::submission_status,
            names::TaskName,
        },
        text::line,
    },
    config::Config,
};

/// Submit work on a claimed task for review.
///
/// The claim does not expire while the submission waits for its review. The same submission sent
/// twice counts once; a different one replaces it. A changed file that another role has locked is
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{}\n\n{HELP}", awaited::HELP))]
pub struct Args {
    /// Task that the work is for
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// What was done
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// Changed file; repeatable
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Result of the tests in one word, such as passed or failed
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// What was tested; repeatable
    #[arg(long, value_name = "TEXT")]
    case: Vec<String>,
    /// Output of the tests
    #[arg(long, value_name = "TEXT")]
    test_output: Option<String>,
    /// The change as a diff
    #[arg(long, value_name = "TEXT")]
    diff: Option<String>,
    /// Link to more; repeatable
    #[arg(long, value_name = "URL")]
    link: Vec<String>,
    #[command(flatten)]
    rerun: Rerun,
    /// Token of the claim; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let ids = args.task.find(&acting).await?;
    let mut words = TextArgs::default();
    let files = files::changed(&args.file);
    let said = wire::SubmissionWords {
        summary: words.read("--summary", &args.summary)?,
        changed_files: args.file,
        diff: words.read_if("--diff", args.diff.as_deref())?,
        links: args.link,
        test_cases: args.case,
        test_result: args.result.unwrap_or_default(),
        test_output: words.read_if("--test-output", args.test_output.as_deref())?,
        rerun: args.rerun.named(output)?,
    };
    let request = wire::SubmitTaskRequest {
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        claim_token: args.token,
        words: Some(said),
        files,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    let told = |output: &mut Output| {
        output.answer(
            || json!(done),
            || {
                let (id, task) = (line(&done.submission_id), line(&request.task_id));
                format!("{id} of {task} {}.{}\n", standing(&done), again(done.repeated))
            },
        )
    };
    args.wait.behind(&acting, output, Ask::Submission(done.submission_id.clone()), told).await
}

/// How it is with a submission: one that was made before may have been judged.
fn standing(done: &wire::SubmitTaskResponse) -> String {
    let newest = done.task.as_ref().and_then(|it| it.submission.as_ref());
    let judged = newest.filter(|it| it.submission_id == done.submission_id);
    match judged.map(wire::Submission::status) {
        None | Some(SubmissionStatus::Open) => "waits for its review".to_owned(),
        Some(status) => format!("is {}", submission_status(status)),
    }
}
