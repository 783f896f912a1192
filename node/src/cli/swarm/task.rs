//! `tasuki swarm task`.

use tasuki_proto::wire::{self, Difficulty};

use super::{Failure, Output, names::IssueName, plan::create, who::Who, words::difficulties};
use crate::{
    cli::loops::words::{HELP, Words},
    config::Config,
};

/// Add one task to an issue.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Which issue
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// What it is about, in a line
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// How hard it is
    #[arg(long, value_name = "LEVEL", value_parser = difficulties(), default_value = "medium")]
    difficulty: Difficulty,
    /// What its worker earns
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    points: u32,
    /// A task of the issue that has to be done before; repeat for each
    #[arg(long, value_name = "TASK")]
    blocked_by: Vec<String>,
    /// What is to be done
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// How to see that it is done
    #[arg(long, value_name = "TEXT")]
    acceptance: Option<String>,
    /// What it must not do
    #[arg(long, value_name = "TEXT")]
    constraints: Option<String>,
    /// A word to find it by; repeat for each
    #[arg(long, value_name = "WORD")]
    label: Vec<String>,
    /// A file it is about; repeat for each
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// A document of the task that has to be there when it is submitted; repeat for each
    #[arg(long, value_name = "NAME")]
    needs_doc: Vec<String>,
    #[command(flatten)]
    pub(super) who: Who,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let mut words = Words::default();
    let spec = wire::TaskSpec {
        goal: words.read_if("--goal", args.goal.as_deref())?,
        acceptance: words.read_if("--acceptance", args.acceptance.as_deref())?,
        constraints: words.read_if("--constraints", args.constraints.as_deref())?,
        ..Default::default()
    };
    let said = wire::TaskWords {
        description: words.read_if("--description", args.description.as_deref())?,
        labels: args.label,
        suggested_files: args.file,
        required_task_docs: args.needs_doc,
        spec: Some(spec),
        ..Default::default()
    };
    let blocked_by = args.blocked_by.into_iter().map(|it| match it.parse::<u32>() {
        Ok(number) => format!("task-{number}"),
        Err(_) => it,
    });
    let task = wire::NewTask {
        subject: args.subject,
        difficulty: args.difficulty.into(),
        points: args.points,
        words: Some(said),
        blocked_by: blocked_by.collect(),
        blocked_by_new: Vec::new(),
    };
    let issue = args.issue.find(&acting).await?;
    create(&acting, issue, vec![task], output).await
}
