//! The acceptor's verdict, with what the evidence says of each step that the delivery names.

use std::collections::BTreeMap;

use tasuki_proto::wire::{self, DeliveryStatus};

use super::{Args, Failure};
use crate::cli::{
    swarm::delivery_client::{DeliveryClient, Verdict},
    text::line,
};

/// Said of a step that nobody ran again.
const NOT_RUN: &str = "was not run again";

/// No exit code is known.
const NO_EXIT_CODE: i32 = -1;

/// Steps named with a refusal.
const SHOWN_MAX: usize = 20;

/// Gives it, and answers with the delivery as it is then.
pub(super) async fn give(
    at: &DeliveryClient<'_>,
    args: &Args,
    delivery: &wire::Delivery,
) -> Result<wire::Delivery, Failure> {
    let (verification, open) = verification(delivery, args.by_hand.as_deref());
    // Where a verdict stands, the broker says which.
    let is_judged =
        matches!(delivery.status(), DeliveryStatus::Approved | DeliveryStatus::Rejected);
    if args.approve && args.overriding.despite.is_none() && !open.is_empty() && !is_judged {
        let shown: Vec<String> = open.iter().take(SHOWN_MAX).map(|it| line(it)).collect();
        let more = open.len().saturating_sub(SHOWN_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        return Err(Failure::usage(format!(
            "Not approved: nobody ran {}{more} again at the delivered commit. Run them, or say \
             with --by-hand TEXT how they were checked.",
            shown.join(", ")
        )));
    }
    let verdict = Verdict {
        is_approved: args.approve,
        feedback: args.feedback.clone().unwrap_or_default(),
        refs: String::new(),
        verification,
        overriding: args.overriding.read()?,
    };
    // The broker tells the token to the claimant; it refuses whoever has none.
    let claim_token = at.claim().await?.delivery.unwrap_or_default().claim_token;
    Ok(at.judge(claim_token, verdict).await?.delivery.unwrap_or_default())
}

/// What approving takes beside the feedback.
pub(super) fn approving(delivery: &wire::Delivery) -> &'static str {
    if delivery.evidence.iter().any(|it| !it.has_passed) {
        // It passes over steps that nobody ran, too.
        " --despite REASON"
    } else if verification(delivery, None).1.is_empty() {
        ""
    } else {
        " --by-hand TEXT"
    }
}

/// What was seen of each step, and the steps of which nothing was.
fn verification<'a>(
    delivery: &'a wire::Delivery,
    by_hand: Option<&str>,
) -> (wire::Verification, Vec<&'a str>) {
    let empty = const { &TEST_EVIDENCE };
    let steps = delivery.test_evidence.as_ref().unwrap_or(empty);
    let commit = steps.rerun.as_ref().map(|it| it.commit.as_str()).unwrap_or_default();
    let seen: BTreeMap<&str, &wire::CommandEvidence> = delivery
        .evidence
        .iter()
        .filter(|it| it.commit == commit)
        .flat_map(|it| &it.commands)
        .map(|it| (it.command.as_str(), it))
        .collect();
    let mut open = Vec::new();
    let mut result = |command: &'a str| match (seen.get(command), by_hand) {
        (Some(it), _) => wire::CommandResult {
            command: command.to_owned(),
            has_passed: it.exit_code == 0 && !it.is_timed_out,
            exit_code: it.exit_code,
            output: format!("run again, exit code {}, sandbox {}", it.exit_code, it.sandbox),
        },
        (None, Some(how)) => wire::CommandResult {
            command: command.to_owned(),
            has_passed: true,
            exit_code: 0,
            output: how.to_owned(),
        },
        (None, None) => {
            open.push(command);
            wire::CommandResult {
                command: command.to_owned(),
                has_passed: false,
                exit_code: NO_EXIT_CODE,
                output: NOT_RUN.to_owned(),
            }
        }
    };
    let doc_results: Vec<_> = steps.doc_commands.iter().map(|it| result(it)).collect();
    let script = (!steps.script_cmd.is_empty()).then(|| result(&steps.script_cmd));
    let verification = wire::Verification {
        script_passed: script.as_ref().is_none_or(|it| it.has_passed),
        script_result: script.map_or_else(|| "there is no script".to_owned(), |it| it.output),
        doc_passed: doc_results.iter().all(|it| it.has_passed),
        doc_results,
    };
    (verification, open)
}

/// Of a delivery without any.
static TEST_EVIDENCE: wire::TestEvidence = wire::TestEvidence {
    script_path: String::new(),
    script_cmd: String::new(),
    script_passed: false,
    script_result: String::new(),
    doc_path: String::new(),
    doc_commands: Vec::new(),
    doc_results: Vec::new(),
    doc_passed: false,
    rerun: None,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(evidence: &[(&str, &str, i32)]) -> wire::Delivery {
        let one = |(commit, command, exit_code): &(&str, &str, i32)| wire::Evidence {
            commit: (*commit).to_owned(),
            commands: vec![wire::CommandEvidence {
                command: (*command).to_owned(),
                exit_code: *exit_code,
                ..Default::default()
            }],
            has_passed: *exit_code == 0,
            ..Default::default()
        };
        wire::Delivery {
            test_evidence: Some(wire::TestEvidence {
                script_cmd: "s".to_owned(),
                doc_commands: vec!["a".to_owned(), "b".to_owned()],
                rerun: Some(wire::Rerun { commit: "c".to_owned(), commands: Vec::new() }),
                ..Default::default()
            }),
            evidence: evidence.iter().map(one).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_step_passed_if_it_was_last_run_so_at_the_delivered_commit() {
        let judge = |evidence: &[(&str, &str, i32)], by_hand| {
            let delivery = delivery(evidence);
            let (it, open) = verification(&delivery, by_hand);
            let docs: Vec<bool> = it.doc_results.iter().map(|it| it.has_passed).collect();
            let open: Vec<String> = open.into_iter().map(str::to_owned).collect();
            (it.script_passed, it.doc_passed, docs, open)
        };
        let all = [("c", "a", 0), ("c", "b", 0), ("c", "s", 0)];
        assert_eq!(judge(&all, None), (true, true, vec![true, true], vec![]));
        let later = [("c", "a", 0), ("c", "b", 0), ("c", "s", 0), ("c", "b", 1)];
        assert_eq!(judge(&later, Some("read")), (true, false, vec![true, false], vec![]));
        let other = [("d", "a", 0), ("c", "b", 0), ("c", "s", 2)];
        assert_eq!(judge(&other, None), (false, false, vec![false, true], vec!["a".to_owned()]));
        assert_eq!(judge(&other, Some("read")), (false, true, vec![true, true], vec![]));
    }

    #[test]
    fn what_approving_takes_depends_on_the_evidence() {
        let all = [("c", "a", 0), ("c", "b", 0), ("c", "s", 0)];
        assert_eq!(approving(&delivery(&all)), "");
        assert_eq!(approving(&delivery(&all[..2])), " --by-hand TEXT");
        assert_eq!(approving(&delivery(&[])), " --by-hand TEXT");
        let failed = [("c", "a", 1), ("c", "a", 0)];
        assert_eq!(approving(&delivery(&failed)), " --despite REASON");
    }
}
