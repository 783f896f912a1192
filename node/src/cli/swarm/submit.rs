//! `tasuki swarm submit`.

use serde_json::json;
use tasuki_proto::wire::{self, SubmissionStatus, swarm_question::Ask};

use super::{
    Failure, Output, again,
    awaited::{self, Wait},
    commit::Rerun,
    json as as_json,
    names::TaskName,
    who::{Who, client},
    words::submission_status,
};
use crate::{
    cli::{
        loops::words::{HELP, Words},
        text::line,
    },
    config::Config,
};

/// Put what was done before the lead.
///
/// The claim does not run out while the lead has it. The same again is the same submission; another
/// one takes its place.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{}\n\n{HELP}", awaited::HELP))]
pub struct Args {
    /// Which task
    #[arg(value_name = "ISSUE/TASK")]
    task: TaskName,
    /// What was done
    #[arg(long, value_name = "TEXT")]
    summary: String,
    /// A file that was changed; repeat for each
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// What came of the tests, in a word: passed, failed
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,
    /// What was tested; repeat for each
    #[arg(long, value_name = "TEXT")]
    case: Vec<String>,
    /// What the tests printed
    #[arg(long, value_name = "TEXT")]
    test_output: Option<String>,
    /// The change itself
    #[arg(long, value_name = "TEXT")]
    diff: Option<String>,
    /// Where to see more; repeat for each
    #[arg(long, value_name = "URL")]
    link: Vec<String>,
    #[command(flatten)]
    rerun: Rerun,
    /// The token of the claim: refused if it is not the present one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let ids = args.task.find(&acting).await?;
    let mut words = Words::default();
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
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        issue_id: ids.issue,
        task_id: ids.task,
        claim_token: args.token,
        words: Some(said),
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::SubmitTaskRequest { key: Some(key), ..request.clone() };
            client(channel).submit_task(request).await
        })
        .await?;
    let told = |output: &mut Output| {
        output.answer(
            || {
                json!({
                    "submission_id": done.submission_id,
                    "task": done.task.as_ref().map(as_json::task),
                    "repeated": done.repeated,
                    "sequence": done.sequence,
                })
            },
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
