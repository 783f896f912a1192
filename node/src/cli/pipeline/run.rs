//! `tasuki pipeline run`.

use std::path::PathBuf;

use serde_json::json;
use tasuki_proto::{
    id::{BoardName, PersonId},
    wire,
};

use super::{definition, watch};
use crate::{
    cli::{Failure, Output, board::Assignment, loops::person, role_args::OptionalRoleArgs},
    config::Config,
    pipeline::file,
};

/// Start a pipeline and follow it until it ends.
///
/// Without FILE it is plan, code, test and review, by services of the roles pm, dev, qa and arch.
/// Nodes do the phases of the roles that they host, so it goes on when this command ends. Exits
/// with 0 if it was completed, 8 if it failed, 7 if it was canceled.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// File of the pipeline
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Board that it works on, and its name; made if it does not exist
    #[arg(long, value_name = "BOARD")]
    board: BoardName,
    /// Channel and what to write to it first, such as requirements=@FILE; may be repeated
    #[arg(long = "set", value_name = "CHANNEL=VALUE")]
    updates: Vec<Assignment>,
    /// Start it and return
    #[arg(long)]
    background: bool,
    /// Person who starts it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME", conflicts_with = "role")]
    by: Option<PersonId>,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let definition = definition(args.file.as_deref(), file::read)?;
    let updates = args.updates.iter().map(Assignment::to_wire).collect::<Result<_, _>>()?;
    let acting = args.role.client(config);
    let person = match acting.role.as_str() {
        "" => person(args.by)?.to_string(),
        _ => String::new(),
    };
    let request = wire::StartPipelineRequest {
        role: acting.role.clone(),
        person,
        board: args.board.to_string(),
        definition: Some(definition),
        updates,
        ..Default::default()
    };
    let mut follower = watch::Follower::new(&acting.broker, args.board.clone()).await?;
    let started = acting.broker.call(&request).await?;
    if args.background {
        let text = || format!("Started the pipeline of board {}.\n", args.board);
        return output.answer(|| json!(started), text);
    }
    follower.follow(started.pipeline.unwrap_or_default(), output).await
}
