//! What an acceptor thinks of a delivery.

use tasuki_proto::wire;

use super::{
    Failure, Output, again,
    at::{self, At, Overriding, Verdict},
    json as as_json,
    who::Acting,
};
use crate::counted::counted;

/// What was checked by hand.
#[derive(Debug, clap::Args)]
pub(super) struct Checked {
    /// Of a delivery: its script failed
    #[arg(long)]
    script_failed: bool,
    /// Of a delivery: this step of its document failed, counted from 1; repeat for each
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    failed_step: Vec<u64>,
    #[command(flatten)]
    overriding: Overriding,
    /// The token of the claim of a delivery: refused if it is not the present one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
}

impl Checked {
    /// Whether anything was said that is of deliveries alone.
    pub(super) fn is_said(&self) -> bool {
        self.script_failed
            || !self.failed_step.is_empty()
            || self.overriding.despite.is_some()
            || self.token != 0
    }
}

/// The verdict itself.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) is_approved: bool,
    pub(super) feedback: String,
    pub(super) refs: String,
}

pub(super) async fn run(
    acting: &Acting,
    id: &str,
    judged: Judged,
    checked: Checked,
    output: &mut Output,
) -> Result<(), Failure> {
    let at = At { acting, delivery: id.to_owned() };
    let known = at.get().await?.delivery.unwrap_or_default();
    let commands = known.test_evidence.unwrap_or_default().doc_commands;
    let verdict = Verdict {
        is_approved: judged.is_approved,
        feedback: judged.feedback,
        refs: judged.refs,
        verification: verification(&checked, &commands)?,
        overriding: checked.overriding.read()?,
    };
    let done = at.judge(checked.token, verdict).await?;
    let of = done.delivery.unwrap_or_default();
    output.answer(
        || as_json::delivery_done(&of, done.repeated, done.sequence),
        || format!("{}{}\n", at::judged(&of), again(done.repeated)),
    )
}

/// One result for each step of the document that the delivery names.
fn verification(checked: &Checked, commands: &[String]) -> Result<wire::Verification, Failure> {
    let count = commands.len() as u64;
    if let Some(number) = checked.failed_step.iter().find(|it| count < **it) {
        return Err(Failure::usage(format!(
            "The delivery has {}, so there is no step {number}. Nothing was reviewed.",
            counted(count, "step")
        )));
    }
    let results = (1_u64..).zip(commands).map(|(number, command)| {
        let has_passed = !checked.failed_step.contains(&number);
        wire::CommandResult {
            command: command.clone(),
            has_passed,
            exit_code: i32::from(!has_passed),
            output: String::new(),
        }
    });
    Ok(wire::Verification {
        script_passed: !checked.script_failed,
        script_result: String::new(),
        doc_passed: checked.failed_step.is_empty(),
        doc_results: results.collect(),
    })
}
