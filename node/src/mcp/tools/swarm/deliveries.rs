//! Deliveries: an issue's finished work, put before the acceptors and judged by one of them.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    limits::{REFS_BYTES_MAX, SWARM_PAGE_MAX},
    reason::Reason,
    swarm::{CommitHash, DeliveryId, IssueId},
    wire::{self, DeliveryStatus},
};

use super::{
    super::{
        field_types::{Id, Name, Text, Word},
        sanitizer::Sanitizer,
        tool::ToolInfo,
    },
    ACCEPTOR_CORE, ACCEPTOR_FULL, LEAD_CORE, SwarmTool,
    answer::{Page, answer},
    args::{self, Approves, Lease, Passed, Timeout},
    caller::Caller,
    delivery_views,
};
use crate::{role::Refusal, wait::Awaited};

/// Submits an issue whose tasks are all done for acceptance and waits for the verdict. A repeat is not
/// delivered twice.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SubmitDelivery {
    issue_id: Id<IssueId>,
    summary: Text,
    artifacts: Artifacts,
    test_evidence: Option<TestEvidence>,
    refs: Option<Text<REFS_BYTES_MAX>>,
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for SubmitDelivery {
    const INFO: ToolInfo = ToolInfo::write("submitDelivery", &[LEAD_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::SubmitDeliveryRequest {
            issue_id: self.issue_id.0.to_string(),
            summary: self.summary.0,
            refs: self.refs.unwrap_or_default().0,
            test_evidence: self
                .test_evidence
                .map(|it| it.into_wire(self.artifacts.test_result.0.0)),
            artifacts: Some(self.artifacts.into()),
            ..wire::SubmitDeliveryRequest::default()
        };
        let delivery = caller.execute(request).await?.delivery.unwrap_or_default().delivery_id;
        let delivery: DeliveryId = delivery.parse().map_err(|why| Refusal {
            reason: Reason::OutcomeUnknown,
            message: format!("The broker returned the delivery {delivery:?}, which {why}."),
        })?;
        caller.wait_for_stored(&delivery, Awaited::Verdict(delivery), self.timeout_sec).await
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Artifacts {
    test_result: Word<Passed>,
    test_cases: Option<Vec<String>>,
    /// All files changed by the approved submissions.
    changed_files: Vec<String>,
    reviewed_refs: Option<Vec<String>>,
    test_output: Option<String>,
    known_risks: Option<String>,
}

impl From<Artifacts> for wire::DeliveryArtifacts {
    fn from(it: Artifacts) -> Self {
        Self {
            has_passed: it.test_result.0.0,
            test_cases: it.test_cases.unwrap_or_default(),
            changed_files: it.changed_files,
            reviewed_refs: it.reviewed_refs.unwrap_or_default(),
            test_output: it.test_output.unwrap_or_default(),
            known_risks: it.known_risks.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct TestEvidence {
    script_path: Option<Text>,
    script_cmd: Option<Text>,
    script_passed: Option<bool>,
    script_result: Option<Text>,
    /// issue-NAME-test-steps.md: a document of the issue, or one of changed_files.
    doc_path: Option<Text>,
    doc_commands: Option<Vec<String>>,
    /// One per entry of doc_commands, same order.
    doc_results: Option<Vec<CommandResult>>,
    doc_passed: Option<bool>,
    /// Full hash of the commit with the work.
    commit: Option<Id<CommitHash>>,
    /// Commands that repeat the tests at that commit.
    commands: Option<Vec<String>>,
}

impl TestEvidence {
    /// `passed` is how the tests ended as a whole.
    fn into_wire(self, passed: bool) -> wire::TestEvidence {
        let said = |text: Option<Text>| text.unwrap_or_default().0;
        let doc_results = self.doc_results.unwrap_or_default();
        let doc_passed = passed && doc_results.iter().all(|it| it.passed);
        wire::TestEvidence {
            script_path: said(self.script_path),
            script_cmd: said(self.script_cmd),
            script_passed: self.script_passed.unwrap_or(passed),
            script_result: said(self.script_result),
            doc_path: said(self.doc_path),
            doc_commands: self.doc_commands.unwrap_or_default(),
            doc_passed: self.doc_passed.unwrap_or(doc_passed),
            doc_results: doc_results.into_iter().map(Into::into).collect(),
            rerun: args::rerun(self.commit, self.commands),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CommandResult {
    command: Text,
    passed: bool,
    exit_code: i32,
    output: Option<String>,
}

impl From<CommandResult> for wire::CommandResult {
    fn from(it: CommandResult) -> Self {
        Self {
            command: it.command.0,
            has_passed: it.passed,
            exit_code: it.exit_code,
            output: it.output.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Verification {
    script_passed: bool,
    script_result: Text,
    doc_passed: bool,
    /// One per entry of doc_commands, same order.
    doc_results: Vec<CommandResult>,
}

impl From<Verification> for wire::Verification {
    fn from(it: Verification) -> Self {
        Self {
            script_passed: it.script_passed,
            script_result: it.script_result.0,
            doc_passed: it.doc_passed,
            doc_results: it.doc_results.into_iter().map(Into::into).collect(),
        }
    }
}

fn delivery_result(it: wire::DeliveryResponse, next: Vec<String>) -> CallToolResponse {
    let mut others = Sanitizer::default();
    let delivery = delivery_views::Delivery::new(&it.delivery.unwrap_or_default(), &mut others);
    answer(delivery, it.now_ms, &others, next).into()
}

/// Claims a delivery. No other acceptor can claim it while you hold it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ClaimDelivery {
    delivery_id: Id<DeliveryId>,
    extend_sec: Option<Lease>,
}

impl SwarmTool for ClaimDelivery {
    const INFO: ToolInfo = ToolInfo::write("claimDelivery", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ClaimDeliveryRequest {
            delivery_id: self.delivery_id.0.to_string(),
            for_ms: Lease::ms(self.extend_sec),
            ..wire::ClaimDeliveryRequest::default()
        };
        let claimed = caller.execute(request).await?;
        let delivery = claimed.delivery.clone().unwrap_or_default();
        caller.granted(delivery.delivery_id.clone(), delivery.claim_token);
        let next = [
            format!("Read the request and the work: getIssueAcceptanceBundle {}.", delivery.issue_id),
            "Run script_cmd and each of doc_commands yourself. The lead's results are not evidence."
                .to_owned(),
            "Then call reviewDelivery with your own result for each of doc_commands, in order. A \
             delivery with a failed result cannot be approved."
                .to_owned(),
        ];
        Ok(delivery_result(claimed, next.to_vec()))
    }
}

/// Extends your claim of a delivery.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ExtendDelivery {
    delivery_id: Id<DeliveryId>,
    extend_sec: Option<Lease>,
}

impl SwarmTool for ExtendDelivery {
    const INFO: ToolInfo = ToolInfo::write("extendDeliveryLease", &[ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let delivery_id = self.delivery_id.0.to_string();
        let request = wire::RenewDeliveryRequest {
            claim_token: caller.token(&delivery_id),
            delivery_id,
            for_ms: Lease::ms(self.extend_sec),
            ..wire::RenewDeliveryRequest::default()
        };
        let mut renewed = caller.execute(request).await?;
        // Its words are known to whoever claimed it.
        renewed.delivery = renewed.delivery.map(|it| wire::Delivery {
            summary: String::new(),
            refs: String::new(),
            artifacts: None,
            test_evidence: None,
            evidence: Vec::new(),
            ..it
        });
        Ok(delivery_result(renewed, Vec::new()))
    }
}

/// Approves or rejects a delivery that you claimed, with the results of your verification.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReviewDelivery {
    delivery_id: Id<DeliveryId>,
    /// approved or rejected.
    verdict: Word<Approves>,
    verification: Verification,
    feedback: Option<String>,
    refs: Option<Text<REFS_BYTES_MAX>>,
}

impl SwarmTool for ReviewDelivery {
    const INFO: ToolInfo = ToolInfo::write("reviewDelivery", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let delivery_id = self.delivery_id.0.to_string();
        let request = wire::ReviewDeliveryRequest {
            claim_token: caller.token(&delivery_id),
            delivery_id: delivery_id.clone(),
            is_approved: self.verdict.0.0,
            feedback: self.feedback.unwrap_or_default(),
            refs: self.refs.unwrap_or_default().0,
            verification: Some(self.verification.into()),
            ..wire::ReviewDeliveryRequest::default()
        };
        let reviewed = caller.execute(request).await?;
        caller.ended(&delivery_id);
        let next = "Its lead is notified. Call waitDeliveries for the next one.";
        let mut others = Sanitizer::default();
        let delivery = reviewed.delivery.unwrap_or_default();
        let delivery = delivery_views::Delivery::judged(&delivery, &mut others);
        Ok(answer(delivery, reviewed.now_ms, &others, vec![next.to_owned()]).into())
    }
}

/// Returns a delivery with its evidence.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetDelivery {
    delivery_id: Id<DeliveryId>,
}

impl SwarmTool for GetDelivery {
    const INFO: ToolInfo = ToolInfo::read("getDelivery", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let delivery_id = self.delivery_id.0.to_string();
        let request =
            wire::GetDeliveryRequest { delivery_id, ..wire::GetDeliveryRequest::default() };
        let found = caller.query(request).await?;
        let next = delivery_views::next_of(caller.role(), found.delivery.as_slice());
        Ok(delivery_result(found, vec![next]))
    }
}

#[derive(Debug, Serialize)]
struct Deliveries {
    deliveries: Vec<delivery_views::Delivery>,
    #[serde(flatten)]
    page: Page,
}

/// Lists deliveries, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListDeliveries {
    /// open, in_review, approved or rejected.
    status: Option<Word<DeliveryStatus>>,
    issue_id: Option<Name>,
    delivered_by: Option<Name>,
    reviewed_by: Option<Name>,
    /// 1–200. Default 50.
    limit: Option<u32>,
    offset: Option<u32>,
}

impl SwarmTool for ListDeliveries {
    const INFO: ToolInfo = ToolInfo::read("listDeliveries", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let request = wire::ListDeliveriesRequest {
            status: self.status.map_or(0, |it| it.0.into()),
            issue_id: self.issue_id.unwrap_or_default().0,
            delivered_by: self.delivered_by.unwrap_or_default().0,
            reviewed_by: self.reviewed_by.unwrap_or_default().0,
            limit: self.limit.unwrap_or_default(),
            offset: self.offset.unwrap_or_default(),
            ..wire::ListDeliveriesRequest::default()
        };
        list(caller, request).await
    }
}

/// Lists unclaimed deliveries.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ListOpenDeliveries {}

impl SwarmTool for ListOpenDeliveries {
    const INFO: ToolInfo = ToolInfo::read("listOpenedDeliveries", &[ACCEPTOR_FULL]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let (status, limit) = (DeliveryStatus::Open.into(), SWARM_PAGE_MAX);
        let request = wire::ListDeliveriesRequest { status, limit, ..Default::default() };
        list(caller, request).await
    }
}

async fn list(
    caller: &Caller<'_>,
    request: wire::ListDeliveriesRequest,
) -> Result<CallToolResponse, Refusal> {
    let offset = request.offset;
    let found = caller.query(request).await?;
    let next = delivery_views::next_of(caller.role(), &found.deliveries);
    let mut others = Sanitizer::default();
    let deliveries =
        found.deliveries.iter().map(|it| delivery_views::Delivery::new(it, &mut others));
    let deliveries: Vec<_> = deliveries.collect();
    let page = Page::new(offset, deliveries.len(), found.total);
    Ok(answer(Deliveries { deliveries, page }, found.now_ms, &others, vec![next]).into())
}

#[derive(Debug, Serialize)]
struct Own {
    status: &'static str,
    deliveries: Vec<delivery_views::Delivery>,
}

/// Waits for a delivery that you can claim. With status in_review, returns those you claimed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WaitDeliveries {
    /// open or in_review.
    status: Option<Word<DeliveryStatus>>,
    /// Maximum number of results. Default: all.
    limit: Option<u32>,
    timeout_sec: Option<Timeout>,
}

impl SwarmTool for WaitDeliveries {
    const INFO: ToolInfo = ToolInfo::read("waitDeliveries", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let limit = self.limit.unwrap_or_default();
        match self.status.map_or(DeliveryStatus::Unspecified, |it| it.0) {
            DeliveryStatus::Unspecified | DeliveryStatus::Open => {
                caller.wait(Awaited::Deliveries { limit }, self.timeout_sec).await
            }
            DeliveryStatus::InReview => own(caller, limit).await,
            DeliveryStatus::Approved | DeliveryStatus::Rejected => Err(Refusal {
                reason: Reason::InvalidArgument,
                message:
                    "only status 'open' and 'in_review' are supported. For deliveries with a verdict, \
                     call listDeliveries."
                        .to_owned(),
            }),
        }
    }
}

/// Those that the role reviews. Nobody else makes one of them, so there is nothing to wait for.
async fn own(caller: &Caller<'_>, limit: u32) -> Result<CallToolResponse, Refusal> {
    let request = wire::ListDeliveriesRequest {
        status: DeliveryStatus::InReview.into(),
        limit: SWARM_PAGE_MAX,
        ..wire::ListDeliveriesRequest::default()
    };
    let mut found = caller.query(request).await?;
    found.deliveries.retain(|it| it.claimed_by == caller.role().as_str());
    delivery_views::cut(&mut found.deliveries, limit);
    let next = match found.deliveries.is_empty() {
        true => "You have no claimed delivery. Call waitDeliveries without a status.".to_owned(),
        false => delivery_views::next_of(caller.role(), &found.deliveries),
    };
    let mut others = Sanitizer::default();
    let deliveries =
        found.deliveries.iter().map(|it| delivery_views::Delivery::new(it, &mut others));
    let own = Own { deliveries: deliveries.collect(), status: "there" };
    Ok(answer(own, found.now_ms, &others, vec![next]).into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::super::arguments, *};

    fn evidence() -> Value {
        json!({
            "script_path": "test.sh", "script_cmd": "sh test.sh", "script_passed": true,
            "script_result": "ok", "doc_path": "issue-x-test-steps.md", "doc_commands": ["make"],
            "doc_results": [{ "command": "make", "passed": "true", "exit_code": -1, "output": "" }],
            "doc_passed": true, "commit": "AB".repeat(20), "commands": ["make"],
        })
    }

    fn read(evidence: Value) -> Result<wire::TestEvidence, String> {
        let artifacts = json!({ "test_result": "Passed", "test_cases": [], "changed_files": "a.rs",
            "reviewed_refs": [] });
        let whole = json!({ "issue_id": "issue_1_0000", "summary": "s", "artifacts": artifacts,
            "test_evidence": evidence });
        let it: Result<SubmitDelivery, Refusal> = arguments::read_all(whole.as_object().unwrap());
        it.map(|it| it.test_evidence.unwrap().into_wire(it.artifacts.test_result.0.0))
            .map_err(|why| why.message)
    }

    fn refused(evidence: Value) -> String {
        read(evidence).unwrap_err()
    }

    #[test]
    fn evidence_is_taken_as_it_is_said() {
        let it = read(evidence()).unwrap();
        assert_eq!((it.doc_results[0].exit_code, it.doc_results[0].has_passed), (-1, true));
        assert_eq!(
            it.rerun.unwrap(),
            wire::Rerun { commit: "ab".repeat(20), commands: vec!["make".to_owned()] }
        );
    }

    #[test]
    fn what_is_not_said_is_as_the_tests_ended() {
        let it = read(json!({ "doc_commands": ["make"] })).unwrap();
        assert_eq!((it.script_passed, it.doc_passed, &it.doc_path[..]), (true, true, ""));
        let failed = json!({ "command": "make", "passed": false, "exit_code": 2 });
        let it = read(json!({ "doc_commands": ["make"], "doc_results": [failed] })).unwrap();
        assert_eq!((it.script_passed, it.doc_passed), (true, false));
        let it = read(json!({ "script_passed": false, "doc_passed": false })).unwrap();
        assert_eq!((it.script_passed, it.doc_passed), (false, false));
        let whole = json!({ "issue_id": "issue_1_0000", "summary": "s",
            "artifacts": { "test_result": "failed", "changed_files": ["a.rs"] } });
        let it: SubmitDelivery = arguments::read_all(whole.as_object().unwrap()).unwrap();
        assert!(it.test_evidence.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_in_its_place() {
        for commit in ["abc", "HEAD", &"g".repeat(40), &"a".repeat(41)] {
            let mut it = evidence();
            it["commit"] = commit.into();
            let words =
                format!("`test_evidence.commit` is {commit:?}, which is no commit's full hash");
            let words = words.to_lowercase();
            assert!(refused(it).to_lowercase().starts_with(&words), "{commit}");
        }
        let mut it = evidence();
        it["doc_results"][0]["exit_code"] = json!(1e12);
        assert!(refused(it.clone()).starts_with("`test_evidence.doc_results[0].exit_code`"));
        it["doc_results"] = json!([{ "command": "make", "exit_code": 0 }]);
        assert!(refused(it).contains("`test_evidence.doc_results[0].passed` is missing"));
    }
}
