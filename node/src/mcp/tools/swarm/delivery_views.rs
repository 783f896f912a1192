//! What answers about deliveries are made of, and what waits for one or for its verdict end with.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    swarm::DeliveryId,
    wire::{self, SwarmAnswer, swarm_answer::Standing},
};

use super::{
    super::{
        sanitizer::Sanitizer,
        view::view,
        waiting::{PauseView, role_paused, superseded},
    },
    answer::answer,
    items::status,
    views::{Rerun, Time},
};

view! {
    Delivery(it: wire::Delivery, others) with {
        let verdict = match it.status() {
            wire::DeliveryStatus::Approved => Some("approved"),
            wire::DeliveryStatus::Rejected if it.ended_because.is_empty() => Some("rejected"),
            wire::DeliveryStatus::Rejected
            | wire::DeliveryStatus::Unspecified
            | wire::DeliveryStatus::Open
            | wire::DeliveryStatus::InReview => None,
        };
    } {
        id: String = it.delivery_id.clone(),
        delivery_id: String = it.delivery_id.clone(),
        issue_id: String = it.issue_id.clone(),
        status: &'static str = delivery_status(it.status()),
        delivered_by: String = it.delivered_by.clone() => if_any,
        claimed_by: String = it.claimed_by.clone() => if_any,
        reviewed_by: String = it.reviewed_by.clone() => if_any,
        verdict: Option<&'static str> = verdict => if_any,
        /// Why no verdict came, nor will.
        ended_because: String = others.text(&it.ended_because) => if_any,
        delivered_at: Time = Time(it.delivered_ms),
        claimed_at: Time = Time(it.claimed_ms),
        reviewed_at: Time = Time(it.reviewed_ms),
        updated_at: Time = Time(it.updated_ms),
        lease_expires_at: Time = Time(it.lease_expires_ms) => if_any,
        lease_expires_at_ms: u64 = it.lease_expires_ms => if_any,
        summary: String = others.text(&it.summary) => if_any,
        refs: String = others.text(&it.refs) => if_any,
        artifacts: Option<Artifacts> =
            it.artifacts.as_ref().map(|it| Artifacts::new(it, others)) => if_any,
        test_evidence: Option<TestEvidence> =
            it.test_evidence.as_ref().map(|it| TestEvidence::new(it, others)) => if_any,
        verification: Option<Verification> =
            it.verification.as_ref().map(|it| Verification::new(it, others)) => if_any,
        feedback: String = others.text(&it.feedback) => if_any,
        review_refs: String = others.text(&it.review_refs) => if_any,
        /// Commands that were run again where an acceptor is.
        evidence: Vec<Evidence> =
            it.evidence.iter().map(|it| Evidence::new(it, others)).collect() => if_any,
        /// A person approved what failed.
        overridden: Option<Override> =
            it.overridden.as_ref().map(|it| Override::new(it, others)) => if_any,
    }
}

view! {
    Artifacts(it: wire::DeliveryArtifacts, others) {
        test_result: &'static str = if it.has_passed { "passed" } else { "failed" },
        test_cases: Vec<String> = others.lines(&it.test_cases),
        changed_files: Vec<String> = others.lines(&it.changed_files),
        reviewed_refs: Vec<String> = others.lines(&it.reviewed_refs),
        test_output: String = others.text(&it.test_output) => if_any,
        known_risks: String = others.text(&it.known_risks) => if_any,
    }
}

view! {
    TestEvidence(it: wire::TestEvidence, others) {
        script_path: String = others.line(&it.script_path),
        script_cmd: String = others.text(&it.script_cmd),
        script_passed: bool = it.script_passed,
        script_result: String = others.text(&it.script_result),
        doc_path: String = others.line(&it.doc_path),
        doc_commands: Vec<String> = it.doc_commands.iter().map(|it| others.text(it)).collect(),
        doc_results: Vec<CommandResult> =
            it.doc_results.iter().map(|it| CommandResult::new(it, others)).collect(),
        doc_passed: bool = it.doc_passed,
        #[serde(flatten)]
        rerun: Option<Rerun> = it.rerun.as_ref().map(|it| Rerun::new(it, others)),
    }
}

view! {
    Verification(it: wire::Verification, others) {
        script_passed: bool = it.script_passed,
        script_result: String = others.text(&it.script_result),
        doc_passed: bool = it.doc_passed,
        doc_results: Vec<CommandResult> =
            it.doc_results.iter().map(|it| CommandResult::new(it, others)).collect(),
    }
}

view! {
    CommandResult(it: wire::CommandResult, others) {
        command: String = others.text(&it.command),
        passed: bool = it.has_passed,
        exit_code: i32 = it.exit_code,
        output: String = others.text(&it.output),
    }
}

view! {
    Evidence(it: wire::Evidence, others) {
        by: String = it.by.clone(),
        node: String = it.node.clone() => if_any,
        at: Time = Time(it.at_ms),
        commit: String = others.line(&it.commit),
        passed: bool = it.has_passed,
        commands: Vec<Run> = it.commands.iter().map(|it| Run::new(it, others)).collect(),
    }
}

view! {
    Run(it: wire::CommandEvidence, others) {
        command: String = others.text(&it.command),
        exit_code: i32 = it.exit_code,
        is_timed_out: bool = it.is_timed_out => if_any,
        duration_ms: u64 = it.duration_ms,
        output_bytes: u64 = it.output_bytes,
        /// Its end.
        output_tail: String = others.text(&it.output_tail),
        sandbox: String = others.line(&it.sandbox),
    }
}

view! {
    Override(it: wire::Override, others) {
        person: String = others.line(&it.person),
        reason: String = others.text(&it.reason),
    }
}

impl Delivery {
    /// What its lead did not say itself.
    pub(super) fn judged(it: &wire::Delivery, others: &mut Sanitizer) -> Self {
        let it = wire::Delivery {
            summary: String::new(),
            refs: String::new(),
            artifacts: None,
            test_evidence: None,
            ..it.clone()
        };
        Self::new(&it, others)
    }
}

pub(super) const fn delivery_status(it: wire::DeliveryStatus) -> &'static str {
    match it {
        wire::DeliveryStatus::Unspecified => "",
        wire::DeliveryStatus::Open => "open",
        wire::DeliveryStatus::InReview => "in_review",
        wire::DeliveryStatus::Approved => "approved",
        wire::DeliveryStatus::Rejected => "rejected",
    }
}

/// What a lead does after the verdict on its delivery.
pub(super) fn after_verdict(it: Option<&wire::Delivery>) -> &'static str {
    match it.map_or(wire::DeliveryStatus::Unspecified, wire::Delivery::status) {
        wire::DeliveryStatus::Approved => "Approved. Call closeIssue.",
        wire::DeliveryStatus::Rejected => {
            "Rejected. Fix what verification and feedback report, with createIssueTask or \
             resetIssueTask. Then call submitDelivery with a summary of what changed: identical \
             arguments repeat the same delivery."
        }
        wire::DeliveryStatus::Unspecified
        | wire::DeliveryStatus::Open
        | wire::DeliveryStatus::InReview => "Call waitIssueTaskEvents for the verdict.",
    }
}

#[derive(Debug, Serialize)]
struct ToClaim {
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deliveries: Vec<Delivery>,
    #[serde(flatten)]
    pause: PauseView,
}

/// The answer to the wait of an acceptor for a delivery.
pub(super) fn to_claim(role: &RoleId, limit: u32, it: &SwarmAnswer) -> CallToolResult {
    let standing = it.standing();
    let mut others = Sanitizer::default();
    let mut told = it.deliveries.clone();
    told.sort_by_key(|it| it.claimed_by != role.as_str());
    cut(&mut told, limit);
    let found = told.iter().map(|it| Delivery::new(it, &mut others)).collect();
    let pause = PauseView::of_role(role, it.pause.as_ref(), &mut others);
    let shown = ToClaim { status: status(standing, true), deliveries: found, pause };
    let next = match standing {
        Standing::Superseded => superseded(role),
        Standing::Unspecified | Standing::StillWaiting => role_paused(role, it.pause.as_ref())
            .unwrap_or_else(|| "Nothing yet. Call waitDeliveries again immediately.".to_owned()),
        Standing::There => next_of(role, &told),
    };
    answer(shown, it.now_ms, &others, vec![next])
}

/// The first ones, so many at most; 0: all.
pub(super) fn cut(deliveries: &mut Vec<wire::Delivery>, limit: u32) {
    if limit != 0 {
        deliveries.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
}

/// What an acceptor does first about these.
pub(super) fn next_of(role: &RoleId, deliveries: &[wire::Delivery]) -> String {
    let is_own = |it: &&wire::Delivery| {
        it.status() == wire::DeliveryStatus::InReview && it.claimed_by == role.as_str()
    };
    if let Some(own) = deliveries.iter().find(is_own) {
        return format!(
            "You have claimed {}. Verify it (getDelivery), then call reviewDelivery.",
            own.delivery_id
        );
    }
    let is_open = |it: &&wire::Delivery| it.status() == wire::DeliveryStatus::Open;
    match deliveries.iter().find(is_open) {
        Some(open) => format!("Claim one with claimDelivery, such as {}.", open.delivery_id),
        None => "There is no delivery for you here. Call waitDeliveries.".to_owned(),
    }
}

#[derive(Debug, Serialize)]
struct Judged {
    status: &'static str,
    delivery_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
    #[serde(skip_serializing_if = "String::is_empty")]
    ended_because: String,
    #[serde(flatten)]
    pause: PauseView,
}

/// The answer to the wait of a lead for the verdict on its delivery.
pub(super) fn verdict(role: &RoleId, delivery: DeliveryId, it: &SwarmAnswer) -> CallToolResult {
    let standing = it.standing();
    let is_judged = it.ended_because.is_empty();
    let mut others = Sanitizer::default();
    let found = it.delivery.as_ref().filter(|_| standing == Standing::There);
    let shown = Judged {
        status: status(standing, is_judged),
        delivery_id: delivery.to_string(),
        verdict: found.filter(|_| is_judged).map(|it| delivery_status(it.status())),
        delivery: found.map(|it| Delivery::judged(it, &mut others)),
        ended_because: others.text(&it.ended_because),
        pause: PauseView::of_role(role, it.pause.as_ref(), &mut others),
    };
    let next = match standing {
        Standing::Superseded => superseded(role),
        Standing::Unspecified | Standing::StillWaiting => role_paused(role, it.pause.as_ref())
            .unwrap_or_else(|| {
                "No verdict yet. Call submitDelivery again immediately with the same arguments, or \
                 call waitIssueTaskEvents. Nothing is delivered twice."
                    .to_owned()
            }),
        Standing::There if !is_judged => "The issue is over. There will be no verdict.".to_owned(),
        Standing::There => after_verdict(found).to_owned(),
    };
    answer(shown, it.now_ms, &others, vec![next])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(status: wire::DeliveryStatus, claimed_by: &str) -> wire::Delivery {
        wire::Delivery {
            delivery_id: "delivery_1_0000".to_owned(),
            status: status.into(),
            claimed_by: claimed_by.to_owned(),
            summary: "what the lead said".to_owned(),
            feedback: "fix\u{200b} it".to_owned(),
            ..wire::Delivery::default()
        }
    }

    fn told(result: &CallToolResult) -> &serde_json::Value {
        result.structured_content.as_ref().unwrap()
    }

    #[test]
    fn a_verdict_comes_without_the_leads_own_words() {
        let role = "lead".parse().unwrap();
        let id = "delivery_1_0000".parse().unwrap();
        let rejected = SwarmAnswer {
            standing: Standing::There.into(),
            delivery: Some(delivery(wire::DeliveryStatus::Rejected, "acceptor")),
            ..SwarmAnswer::default()
        };
        let result = verdict(&role, id, &rejected);
        let shown = told(&result);
        assert_eq!((&shown["status"], &shown["verdict"]), (&"there".into(), &"rejected".into()));
        assert_eq!(shown["delivery"]["feedback"], "fix it");
        assert!(shown["delivery"].get("summary").is_none(), "{shown}");
        assert!(shown["next_actions"][0].as_str().unwrap().contains("what changed"));
        let closed = SwarmAnswer { ended_because: "its issue was closed".to_owned(), ..rejected };
        let result = verdict(&role, id, &closed);
        assert_eq!(told(&result)["status"], "ended");
        assert!(told(&result).get("verdict").is_none());
        let waiting = SwarmAnswer {
            standing: Standing::StillWaiting.into(),
            delivery: Some(delivery(wire::DeliveryStatus::InReview, "acceptor")),
            ..SwarmAnswer::default()
        };
        let result = verdict(&role, id, &waiting);
        assert_eq!(told(&result)["status"], "still_waiting");
        assert!(told(&result).get("delivery").is_none());
    }

    #[test]
    fn an_acceptor_is_told_of_as_many_as_it_asks_for_its_own_first() {
        let role: RoleId = "acceptor".parse().unwrap();
        let open = delivery(wire::DeliveryStatus::Open, "");
        let own = delivery(wire::DeliveryStatus::InReview, "acceptor");
        let there = SwarmAnswer {
            standing: Standing::There.into(),
            deliveries: vec![open.clone(), open, own],
            ..SwarmAnswer::default()
        };
        for (limit, count) in [(0, 3), (1, 1), (2, 2), (7, 3)] {
            let result = to_claim(&role, limit, &there);
            let shown = told(&result)["deliveries"].as_array().unwrap();
            assert_eq!((shown.len(), &shown[0]["status"]), (count, &"in_review".into()));
        }
    }

    #[test]
    fn an_acceptor_finishes_what_it_has_first() {
        let role: RoleId = "acceptor".parse().unwrap();
        let open = delivery(wire::DeliveryStatus::Open, "");
        let own = delivery(wire::DeliveryStatus::InReview, "acceptor");
        let other = delivery(wire::DeliveryStatus::InReview, "someone");
        assert!(next_of(&role, &[open.clone(), own]).contains("You have claimed"));
        assert!(next_of(&role, &[other.clone(), open]).contains("claimDelivery"));
        assert!(next_of(&role, &[other]).contains("waitDeliveries"));
    }
}
