//! `tasuki delivery review`.

use serde_json::json;
use tasuki_proto::{counted::counted, swarm::DeliveryId, wire};

use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{
            Failure, Output, again,
            delivery_client::{self, DeliveryClient, Overriding, Verdict},
        },
    },
    config::Config,
};

/// Review a delivery.
///
/// Claim it first. Review by hand: approving states that its script and every step of its document
/// were run and passed, except those named with --script-failed and --failed-step. Where a delivery
/// names a commit and commands, `tasuki accept` runs them again, attaches the results as evidence,
/// and judges by that.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
#[command(group = clap::ArgGroup::new("verdict").required(true).args(["approve", "reject"]))]
pub struct Args {
    /// Delivery to review
    #[arg(value_name = "DELIVERY")]
    delivery: DeliveryId,
    /// Approve it
    #[arg(long)]
    approve: bool,
    /// Reject it; the lead goes on with the issue
    #[arg(long)]
    reject: bool,
    /// Feedback for the lead
    #[arg(long, value_name = "TEXT")]
    feedback: String,
    /// What was reviewed; repeatable
    #[arg(long = "ref", value_name = "TEXT")]
    refs: Vec<String>,
    /// The delivery's script failed
    #[arg(long)]
    script_failed: bool,
    /// Number of a step of its document that failed, from 1; repeatable
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    failed_step: Vec<u64>,
    #[command(flatten)]
    overriding: Overriding,
    /// Token of the claim; refused if it is not the current one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    role: RoleArgs,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let feedback = TextArgs::default().read("--feedback", &args.feedback)?;
    let at = DeliveryClient { acting: &acting, delivery: args.delivery.to_string() };
    let known = at.get().await?.delivery.unwrap_or_default();
    let commands = known.test_evidence.unwrap_or_default().doc_commands;
    let verdict = Verdict {
        is_approved: args.approve,
        feedback,
        refs: args.refs.join(", "),
        verification: verification(&args, &commands)?,
        overriding: args.overriding.read()?,
    };
    let done = at.judge(args.token, verdict).await?;
    let delivery = done.delivery.clone().unwrap_or_default();
    output.answer(
        || json!(done),
        || format!("{}{}\n", delivery_client::judged(&delivery), again(done.repeated)),
    )
}

/// One result for each step of the document that the delivery names.
fn verification(args: &Args, commands: &[String]) -> Result<wire::Verification, Failure> {
    let count = commands.len() as u64;
    if let Some(number) = args.failed_step.iter().find(|it| count < **it) {
        return Err(Failure::usage(format!(
            "The delivery has {}, so there is no step {number}. Nothing was reviewed.",
            counted(count, "step")
        )));
    }
    let results = (1_u64..).zip(commands).map(|(number, command)| {
        let has_passed = !args.failed_step.contains(&number);
        wire::CommandResult {
            command: command.clone(),
            has_passed,
            exit_code: i32::from(!has_passed),
            output: String::new(),
        }
    });
    Ok(wire::Verification {
        script_passed: !args.script_failed,
        script_result: String::new(),
        doc_passed: args.failed_step.is_empty(),
        doc_results: results.collect(),
    })
}
