//! `tasuki task create`.

use tasuki_proto::wire::{self, Difficulty};

use super::plan::create_tasks;
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{Failure, Output, labels::difficulties, names::IssueName},
    },
    config::Config,
};

/// Create a task in an issue.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Issue that gets the task
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Subject, one line
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// How hard it is
    #[arg(long, value_name = "LEVEL", value_parser = difficulties(), default_value = "medium")]
    difficulty: Difficulty,
    /// Points granted on approval
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true)]
    points: u32,
    /// Task of the issue that must be done first; repeatable
    #[arg(long, value_name = "TASK")]
    blocked_by: Vec<String>,
    /// What to do
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// How to check that it is done
    #[arg(long, value_name = "TEXT")]
    acceptance: Option<String>,
    /// What it must not do
    #[arg(long, value_name = "TEXT")]
    constraints: Option<String>,
    /// Label to find the task by; repeatable
    #[arg(long, value_name = "WORD")]
    label: Vec<String>,
    /// File that the task is about; repeatable
    #[arg(long, value_name = "PATH")]
    file: Vec<String>,
    /// Document of the task that must exist when it is submitted; repeatable
    #[arg(long, value_name = "NAME")]
    needs_doc: Vec<String>,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let mut words = TextArgs::default();
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
    create_tasks(&acting, issue, vec![task], output).await
}
