//! `tasuki pipeline approve`, `reject`, `cancel` and `resume`.

use serde_json::json;
use tasuki_proto::{
    id::{BoardName, PersonId},
    wire,
};

use super::show::stands;
use crate::{
    cli::{Failure, Output, broker::Broker, loops::person, role_args::OptionalRoleArgs},
    config::Config,
};

/// Approve what a phase did, so that the next one begins.
///
/// `tasuki pipeline status` shows the attempt and the checkpoint; name them with --attempt and
/// --checkpoint, and nothing is approved but what you looked at. An approval that was not given in
/// time is refused; `tasuki pipeline resume` asks for it again.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ApproveArgs {
    #[command(flatten)]
    decision: Decision,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

/// Reject what a phase did, so that it is done again.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct RejectArgs {
    #[command(flatten)]
    decision: Decision,
    /// Why; the next attempt reads it in `last_error`
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, clap::Args)]
struct Decision {
    /// Board of the pipeline
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Attempt that you looked at: refused if another one waits for approval
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Checkpoint of the board that you looked at: refused if the board was written to since
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: Option<u64>,
    /// Person who decides [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// End a pipeline where it stands.
///
/// What a node does for it is stopped, and nothing of that is written.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct CancelArgs {
    #[command(flatten)]
    who: Who,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

/// Go on with a pipeline that failed or was canceled, at the phase where it stopped.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ResumeArgs {
    #[command(flatten)]
    who: Who,
}

#[derive(Debug, clap::Args)]
struct Who {
    /// Board of the pipeline
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Person who does it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME", conflicts_with = "role")]
    by: Option<PersonId>,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

impl Who {
    /// The broker, and the role or the person.
    fn client(self, config: &Config) -> Result<(Broker, String, String, String), Failure> {
        let acting = self.role.client(config);
        let person = match acting.role.as_str() {
            "" => person(self.by)?.to_string(),
            _ => String::new(),
        };
        Ok((acting.broker, acting.role, person, self.board.to_string()))
    }
}

pub(super) async fn approve(
    args: ApproveArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    decide(args.decision, true, args.reason, config, output).await
}

pub(super) async fn reject(
    args: RejectArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    decide(args.decision, false, args.reason, config, output).await
}

async fn decide(
    decision: Decision,
    approve: bool,
    reason: String,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::DecideApprovalRequest {
        person: person(decision.by)?.to_string(),
        board: decision.board.to_string(),
        attempt: decision.attempt.unwrap_or_default(),
        checkpoint: decision.checkpoint.unwrap_or_default(),
        approve,
        reason,
        ..Default::default()
    };
    answer(&Broker::new(config).call(&request).await?, output)
}

pub(super) async fn cancel(
    args: CancelArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let (broker, role, person, board) = args.who.client(config)?;
    let request = wire::CancelPipelineRequest {
        role,
        person,
        board,
        reason: args.reason,
        ..Default::default()
    };
    answer(&broker.call(&request).await?, output)
}

pub(super) async fn resume(
    args: ResumeArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let (broker, role, person, board) = args.who.client(config)?;
    let request = wire::ResumePipelineRequest { role, person, board, ..Default::default() };
    answer(&broker.call(&request).await?, output)
}

fn answer(it: &wire::PipelineResponse, output: &mut Output) -> Result<(), Failure> {
    let pipeline = it.pipeline.clone().unwrap_or_default();
    output.answer(|| json!(it), || stands(&pipeline))
}
