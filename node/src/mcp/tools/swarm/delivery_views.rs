//! What answers about deliveries are made of, and what waits for one or for its verdict end with.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    swarm::DeliveryId,
    wire::{self, SwarmAnswer, swarm_answer::Standing},
};

use super::{
    super::sanitizer::Sanitizer,
    answer::answer,
    items::{status, superseded},
    views::{Rerun, Time},
};

#[derive(Debug, Serialize)]
pub(super) struct Delivery {
    pub id: String,
    pub issue_id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub delivered_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claimed_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reviewed_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<&'static str>,
    /// Why no verdict came, nor will.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended_because: String,
    pub delivered_at: Time,
    pub claimed_at: Time,
    pub reviewed_at: Time,
    pub updated_at: Time,
    #[serde(skip_serializing_if = "is_zero")]
    pub lease_expires_at_ms: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refs: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Artifacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_evidence: Option<TestEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub feedback: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub review_refs: String,
    /// Commands that were run again where an acceptor is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// A person approved what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overridden: Option<Override>,
}

#[derive(Debug, Serialize)]
pub(super) struct Artifacts {
    pub test_result: &'static str,
    pub test_cases: Vec<String>,
    pub changed_files: Vec<String>,
    pub reviewed_refs: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub test_output: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub known_risks: String,
}

#[derive(Debug, Serialize)]
pub(super) struct TestEvidence {
    pub script_path: String,
    pub script_cmd: String,
    pub script_passed: bool,
    pub script_result: String,
    pub doc_path: String,
    pub doc_commands: Vec<String>,
    pub doc_results: Vec<CommandResult>,
    pub doc_passed: bool,
    #[serde(flatten)]
    pub rerun: Option<Rerun>,
}

#[derive(Debug, Serialize)]
pub(super) struct Verification {
    pub script_passed: bool,
    pub script_result: String,
    pub doc_passed: bool,
    pub doc_results: Vec<CommandResult>,
}

#[derive(Debug, Serialize)]
pub(super) struct CommandResult {
    pub command: String,
    pub passed: bool,
    pub exit_code: i32,
    pub output: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Evidence {
    pub by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    pub at: Time,
    pub commit: String,
    pub passed: bool,
    pub commands: Vec<Run>,
}

#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub command: String,
    pub exit_code: i32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_timed_out: bool,
    pub duration_ms: u64,
    pub output_bytes: u64,
    /// Its end.
    pub output_tail: String,
    pub sandbox: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Override {
    pub person: String,
    pub reason: String,
}

impl Delivery {
    pub(super) fn new(it: &wire::Delivery, others: &mut Sanitizer) -> Self {
        let verdict = match it.status() {
            wire::DeliveryStatus::Approved => Some("approved"),
            wire::DeliveryStatus::Rejected if it.ended_because.is_empty() => Some("rejected"),
            wire::DeliveryStatus::Rejected
            | wire::DeliveryStatus::Unspecified
            | wire::DeliveryStatus::Open
            | wire::DeliveryStatus::InReview => None,
        };
        let overridden = it.overridden.as_ref();
        Self {
            id: it.delivery_id.clone(),
            issue_id: it.issue_id.clone(),
            status: delivery_status(it.status()),
            delivered_by: it.delivered_by.clone(),
            claimed_by: it.claimed_by.clone(),
            reviewed_by: it.reviewed_by.clone(),
            verdict,
            ended_because: others.text(&it.ended_because),
            delivered_at: Time(it.delivered_ms),
            claimed_at: Time(it.claimed_ms),
            reviewed_at: Time(it.reviewed_ms),
            updated_at: Time(it.updated_ms),
            lease_expires_at_ms: it.lease_expires_ms,
            summary: others.text(&it.summary),
            refs: others.text(&it.refs),
            artifacts: it.artifacts.as_ref().map(|it| Artifacts::new(it, others)),
            test_evidence: it.test_evidence.as_ref().map(|it| TestEvidence::new(it, others)),
            verification: it.verification.as_ref().map(|it| Verification::new(it, others)),
            feedback: others.text(&it.feedback),
            review_refs: others.text(&it.review_refs),
            evidence: it.evidence.iter().map(|it| Evidence::new(it, others)).collect(),
            overridden: overridden.map(|it| Override {
                person: others.line(&it.person),
                reason: others.text(&it.reason),
            }),
        }
    }

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

impl Artifacts {
    fn new(it: &wire::DeliveryArtifacts, others: &mut Sanitizer) -> Self {
        Self {
            test_result: if it.has_passed { "passed" } else { "failed" },
            test_cases: others.lines(&it.test_cases),
            changed_files: others.lines(&it.changed_files),
            reviewed_refs: others.lines(&it.reviewed_refs),
            test_output: others.text(&it.test_output),
            known_risks: others.text(&it.known_risks),
        }
    }
}

impl TestEvidence {
    fn new(it: &wire::TestEvidence, others: &mut Sanitizer) -> Self {
        Self {
            script_path: others.line(&it.script_path),
            script_cmd: others.text(&it.script_cmd),
            script_passed: it.script_passed,
            script_result: others.text(&it.script_result),
            doc_path: others.line(&it.doc_path),
            doc_commands: it.doc_commands.iter().map(|it| others.text(it)).collect(),
            doc_results: results(&it.doc_results, others),
            doc_passed: it.doc_passed,
            rerun: it.rerun.as_ref().map(|it| Rerun::new(it, others)),
        }
    }
}

impl Verification {
    fn new(it: &wire::Verification, others: &mut Sanitizer) -> Self {
        Self {
            script_passed: it.script_passed,
            script_result: others.text(&it.script_result),
            doc_passed: it.doc_passed,
            doc_results: results(&it.doc_results, others),
        }
    }
}

fn results(results: &[wire::CommandResult], others: &mut Sanitizer) -> Vec<CommandResult> {
    let result = |it: &wire::CommandResult| CommandResult {
        command: others.text(&it.command),
        passed: it.has_passed,
        exit_code: it.exit_code,
        output: others.text(&it.output),
    };
    results.iter().map(result).collect()
}

impl Evidence {
    fn new(it: &wire::Evidence, others: &mut Sanitizer) -> Self {
        let run = |it: &wire::CommandEvidence| Run {
            command: others.text(&it.command),
            exit_code: it.exit_code,
            is_timed_out: it.is_timed_out,
            duration_ms: it.duration_ms,
            output_bytes: it.output_bytes,
            output_tail: others.text(&it.output_tail),
            sandbox: others.line(&it.sandbox),
        };
        let commands = it.commands.iter().map(run).collect();
        Self {
            by: it.by.clone(),
            node: it.node.clone(),
            at: Time(it.at_ms),
            commit: others.line(&it.commit),
            passed: it.has_passed,
            commands,
        }
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
}

/// The answer to the wait of an acceptor for a delivery.
pub(super) fn to_claim(role: &RoleId, limit: u32, it: &SwarmAnswer) -> CallToolResult {
    let standing = it.standing();
    let mut others = Sanitizer::default();
    let mut told = it.deliveries.clone();
    told.sort_by_key(|it| it.claimed_by != role.as_str());
    cut(&mut told, limit);
    let found = told.iter().map(|it| Delivery::new(it, &mut others)).collect();
    let shown = ToClaim { status: status(standing, true), deliveries: found };
    let next = match standing {
        Standing::Superseded => superseded(role),
        Standing::Unspecified | Standing::StillWaiting => {
            "Nothing yet. Call waitDeliveries again immediately.".to_owned()
        }
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
    };
    let next = match standing {
        Standing::Superseded => superseded(role),
        Standing::Unspecified | Standing::StillWaiting => {
            "No verdict yet. Call submitDelivery again immediately with the same arguments, or \
             call waitIssueTaskEvents. Nothing is delivered twice."
                .to_owned()
        }
        Standing::There if !is_judged => "The issue is over. There will be no verdict.".to_owned(),
        Standing::There => after_verdict(found).to_owned(),
    };
    answer(shown, it.now_ms, &others, vec![next])
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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
