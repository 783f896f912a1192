//! Deliveries: an issue's finished work, put before the acceptors and judged by one of them.

use rmcp::model::{CallToolResponse, CallToolResult};
use serde::Serialize;
use tasuki_proto::{
    limits::SWARM_PAGE_MAX,
    reason::Reason,
    swarm::DeliveryId,
    wire::{self, DeliveryStatus},
};

use super::{
    super::{
        arguments::{Arguments, invalid, missing},
        sanitizer::Sanitizer,
    },
    answer::{Page, answer},
    args,
    caller::Caller,
    delivery_views,
};
use crate::role::{Refusal, swarm::Awaited};

const DELIVERY: &str = "delivery_id";
const DOC_RESULTS: &str = "doc_results";

/// Puts an issue before the acceptors, and waits for the verdict.
pub(super) async fn submit(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    // Nothing is delivered by a call that cannot wait.
    arguments.seconds("timeout_sec")?;
    let request = wire::SubmitDeliveryRequest {
        issue_id: args::issue(arguments)?.to_string(),
        summary: arguments.words("summary", "summarize the work")?,
        refs: args::refs(arguments)?,
        artifacts: Some(artifacts(arguments)?),
        test_evidence: Some(test_evidence(arguments)?),
        ..wire::SubmitDeliveryRequest::default()
    };
    let delivery = caller.tell(request).await?.delivery.unwrap_or_default().delivery_id;
    let delivery: DeliveryId = delivery.parse().map_err(|why| Refusal {
        reason: Reason::OutcomeUnknown,
        message: format!("The broker returned the delivery {delivery:?}, which {why}."),
    })?;
    caller.wait_for_stored(&delivery, Awaited::Verdict(delivery), arguments).await
}

fn artifacts(arguments: Arguments<'_>) -> Result<wire::DeliveryArtifacts, Refusal> {
    const RESULT: &str = "test_result";
    let it = arguments.required_object("artifacts", "give the changes and the tests")?;
    let has_passed = match args::word(it, RESULT)?.as_deref() {
        Some("passed") => true,
        Some("failed") => false,
        Some(_) => return Err(invalid(&it.at(RESULT), &"must be passed or failed")),
        None => return Err(missing(&it.at(RESULT), "passed or failed")),
    };
    Ok(wire::DeliveryArtifacts {
        has_passed,
        test_cases: args::required_texts(it, "test_cases", "list what was tested")?,
        changed_files: args::required_texts(
            it,
            "changed_files",
            "list all files of the approved submissions",
        )?,
        reviewed_refs: args::required_texts(it, "reviewed_refs", "list what you reviewed")?,
        test_output: it.text("test_output")?.unwrap_or_default(),
        known_risks: it.text("known_risks")?.unwrap_or_default(),
    })
}

fn test_evidence(arguments: Arguments<'_>) -> Result<wire::TestEvidence, Refusal> {
    const FIELD: &str = "test_evidence";
    let it = arguments.required_object(FIELD, "give how to test it and the results")?;
    let what = "give how the whole is tested";
    Ok(wire::TestEvidence {
        script_path: it.words("script_path", what)?,
        script_cmd: it.words("script_cmd", what)?,
        script_passed: args::required_flag(it, "script_passed")?,
        script_result: it.words("script_result", "give its output")?,
        doc_path: it.words("doc_path", "give the document with the test steps")?,
        doc_commands: args::required_texts(it, "doc_commands", "list the document's commands")?,
        doc_results: doc_results(it)?,
        doc_passed: args::required_flag(it, "doc_passed")?,
        rerun: args::rerun(it)?,
    })
}

fn doc_results(of: Arguments<'_>) -> Result<Vec<wire::CommandResult>, Refusal> {
    if !of.has(DOC_RESULTS) {
        let what = "give the result of each of doc_commands, in order";
        return Err(missing(&of.at(DOC_RESULTS), what));
    }
    let result = |it: Arguments<'_>| {
        const CODE: &str = "exit_code";
        let what = "the exit code of the command";
        let code = it.integer(CODE)?.ok_or_else(|| missing(&it.at(CODE), what))?;
        Ok(wire::CommandResult {
            command: it.words("command", "as in doc_commands")?,
            has_passed: args::required_flag(it, "passed")?,
            exit_code: i32::try_from(code).map_err(|_| invalid(&it.at(CODE), &"is too large"))?,
            output: it.text("output")?.unwrap_or_default(),
        })
    };
    let results = of.objects(DOC_RESULTS)?.into_iter().enumerate();
    results.map(|(place, it)| result(it).map_err(|why| args::of(DOC_RESULTS, place, why))).collect()
}

fn told(it: wire::DeliveryResponse, next: Vec<String>) -> CallToolResult {
    let mut others = Sanitizer::default();
    let delivery = delivery_views::Delivery::new(&it.delivery.unwrap_or_default(), &mut others);
    answer(delivery, it.now_ms, &others, next)
}

fn named(arguments: Arguments<'_>) -> Result<String, Refusal> {
    args::id::<DeliveryId>(arguments, DELIVERY, Reason::UnknownDelivery).map(|it| it.to_string())
}

pub(super) async fn claim(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ClaimDeliveryRequest {
        delivery_id: named(arguments)?,
        for_ms: args::lasting(arguments, "extend_sec")?,
        ..wire::ClaimDeliveryRequest::default()
    };
    let claimed = caller.tell(request).await?;
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
    Ok(told(claimed, next.to_vec()))
}

pub(super) async fn extend(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let delivery_id = named(arguments)?;
    let request = wire::RenewDeliveryRequest {
        claim_token: caller.token(&delivery_id),
        delivery_id,
        for_ms: args::lasting(arguments, "extend_sec")?,
        ..wire::RenewDeliveryRequest::default()
    };
    let mut renewed = caller.tell(request).await?;
    // Its words are known to whoever claimed it.
    renewed.delivery = renewed.delivery.map(|it| wire::Delivery {
        summary: String::new(),
        refs: String::new(),
        artifacts: None,
        test_evidence: None,
        evidence: Vec::new(),
        ..it
    });
    Ok(told(renewed, Vec::new()))
}

pub(super) async fn review(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let delivery_id = named(arguments)?;
    let is_approved = args::approves(arguments)?;
    let it = arguments.required_object("verification", "give the results of your verification")?;
    let verification = wire::Verification {
        script_passed: args::required_flag(it, "script_passed")?,
        script_result: it.words("script_result", "give its output")?,
        doc_passed: args::required_flag(it, "doc_passed")?,
        doc_results: doc_results(it)?,
    };
    let request = wire::ReviewDeliveryRequest {
        claim_token: caller.token(&delivery_id),
        delivery_id: delivery_id.clone(),
        is_approved,
        feedback: arguments.text("feedback")?.unwrap_or_default(),
        refs: args::refs(arguments)?,
        verification: Some(verification),
        ..wire::ReviewDeliveryRequest::default()
    };
    let reviewed = caller.tell(request).await?;
    caller.ended(&delivery_id);
    let next = "Its lead is notified. Call waitDeliveries for the next one.";
    let mut others = Sanitizer::default();
    let delivery = reviewed.delivery.unwrap_or_default();
    let delivery = delivery_views::Delivery::judged(&delivery, &mut others);
    Ok(answer(delivery, reviewed.now_ms, &others, vec![next.to_owned()]))
}

pub(super) async fn get(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let delivery_id = named(arguments)?;
    let request = wire::GetDeliveryRequest { delivery_id, ..wire::GetDeliveryRequest::default() };
    let found = caller.ask(request).await?;
    let next = delivery_views::next_of(caller.role(), found.delivery.as_slice());
    Ok(told(found, vec![next]))
}

#[derive(Debug, Serialize)]
struct Deliveries {
    deliveries: Vec<delivery_views::Delivery>,
    #[serde(flatten)]
    page: Page,
}

pub(super) async fn list(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResult, Refusal> {
    let request = wire::ListDeliveriesRequest {
        status: args::delivery_status(arguments)?.into(),
        issue_id: arguments.name(args::ISSUE)?.unwrap_or_default(),
        delivered_by: arguments.name("delivered_by")?.unwrap_or_default(),
        reviewed_by: arguments.name("reviewed_by")?.unwrap_or_default(),
        limit: args::count(arguments, "limit")?,
        offset: args::count(arguments, "offset")?,
        ..wire::ListDeliveriesRequest::default()
    };
    listed(caller, request).await
}

pub(super) async fn list_open(caller: &Caller<'_>) -> Result<CallToolResult, Refusal> {
    let (status, limit) = (DeliveryStatus::Open.into(), SWARM_PAGE_MAX);
    let request = wire::ListDeliveriesRequest { status, limit, ..Default::default() };
    listed(caller, request).await
}

async fn listed(
    caller: &Caller<'_>,
    request: wire::ListDeliveriesRequest,
) -> Result<CallToolResult, Refusal> {
    let offset = request.offset;
    let found = caller.ask(request).await?;
    let next = delivery_views::next_of(caller.role(), &found.deliveries);
    let mut others = Sanitizer::default();
    let deliveries =
        found.deliveries.iter().map(|it| delivery_views::Delivery::new(it, &mut others));
    let deliveries: Vec<_> = deliveries.collect();
    let page = Page::new(offset, deliveries.len(), found.total);
    Ok(answer(Deliveries { deliveries, page }, found.now_ms, &others, vec![next]))
}

#[derive(Debug, Serialize)]
struct Own {
    status: &'static str,
    deliveries: Vec<delivery_views::Delivery>,
}

/// Waits for one to claim; those that the role has claimed are there without waiting.
pub(super) async fn wait(
    caller: &Caller<'_>,
    arguments: Arguments<'_>,
) -> Result<CallToolResponse, Refusal> {
    let limit = args::count(arguments, "limit")?;
    match args::delivery_status(arguments)? {
        DeliveryStatus::Unspecified | DeliveryStatus::Open => {
            caller.wait(Awaited::Deliveries { limit }, arguments).await
        }
        DeliveryStatus::InReview => own(caller, limit).await.map(CallToolResponse::Complete),
        DeliveryStatus::Approved | DeliveryStatus::Rejected => Err(Refusal {
            reason: Reason::InvalidArgument,
            message:
                "only status 'open' and 'in_review' are supported. For deliveries with a verdict, \
                 call listDeliveries."
                    .to_owned(),
        }),
    }
}

/// Those that the role reviews. Nobody else makes one of them, so there is nothing to wait for.
async fn own(caller: &Caller<'_>, limit: u32) -> Result<CallToolResult, Refusal> {
    let request = wire::ListDeliveriesRequest {
        status: DeliveryStatus::InReview.into(),
        limit: SWARM_PAGE_MAX,
        ..wire::ListDeliveriesRequest::default()
    };
    let mut found = caller.ask(request).await?;
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
    Ok(answer(own, found.now_ms, &others, vec![next]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evidence() -> Value {
        json!({
            "script_path": "test.sh", "script_cmd": "sh test.sh", "script_passed": true,
            "script_result": "ok", "doc_path": "issue-x-test-steps.md", "doc_commands": ["make"],
            "doc_results": [{ "command": "make", "passed": "true", "exit_code": -1, "output": "" }],
            "doc_passed": true, "commit": "AB".repeat(20), "commands": ["make"],
        })
    }

    fn refused(evidence: Value) -> String {
        let fields = json!({ "test_evidence": evidence }).as_object().cloned().unwrap();
        test_evidence(Arguments::new(&fields)).unwrap_err().message
    }

    #[test]
    fn evidence_is_taken_as_it_is_said() {
        let fields = json!({ "test_evidence": evidence() }).as_object().cloned().unwrap();
        let it = test_evidence(Arguments::new(&fields)).unwrap();
        assert_eq!((it.doc_results[0].exit_code, it.doc_results[0].has_passed), (-1, true));
        assert_eq!(
            it.rerun.unwrap(),
            wire::Rerun { commit: "ab".repeat(20), commands: vec!["make".to_owned()] }
        );
    }

    #[test]
    fn what_is_missing_is_named_in_its_place() {
        for (field, words) in [
            ("script_passed", "`test_evidence.script_passed` is missing"),
            ("doc_results", "`test_evidence.doc_results` is missing"),
            ("doc_commands", "`test_evidence.doc_commands` is missing"),
        ] {
            let mut it = evidence();
            it.as_object_mut().unwrap().remove(field);
            assert!(refused(it).contains(words), "{field}");
        }
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
        assert!(refused(it.clone()).starts_with("doc_results[0]: `doc_results.exit_code`"));
        it["doc_results"] = json!([{ "command": "make", "exit_code": 0 }]);
        assert!(refused(it).contains("`doc_results.passed` is missing"));
    }
}
