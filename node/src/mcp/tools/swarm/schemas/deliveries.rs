//! Deliveries, as clients are told of the tools.

use rmcp::model::Tool;
use serde_json::json;

use super::{
    super::list,
    Does::{Act, Look},
    about, count, flag, lease, object, one_of, page, results, text, texts, tool, wait_for,
    with_rerun,
};

pub(super) fn tools() -> Vec<Tool> {
    let delivery = || json!({ "delivery_id": text() });
    let lasting = || json!({ "delivery_id": text(), "extend_sec": lease() });
    let artifacts = object(
        json!({
            "test_result": one_of(&["passed", "failed"]),
            "test_cases": texts(""),
            "changed_files": texts("All files changed by the approved submissions."),
            "reviewed_refs": texts(""),
            "test_output": text(),
            "known_risks": text(),
        }),
        &["test_result", "test_cases", "changed_files", "reviewed_refs"],
    );
    let evidence = object(
        with_rerun(json!({
            "script_path": text(),
            "script_cmd": text(),
            "script_passed": flag(),
            "script_result": text(),
            "doc_path": about("issue-NAME-test-steps.md"),
            "doc_commands": texts(""),
            "doc_results": results(),
            "doc_passed": flag(),
        })),
        &[
            "script_path",
            "script_cmd",
            "script_passed",
            "script_result",
            "doc_path",
            "doc_commands",
            "doc_results",
            "doc_passed",
        ],
    );
    let verification = object(
        json!({
            "script_passed": flag(),
            "script_result": text(),
            "doc_passed": flag(),
            "doc_results": results(),
        }),
        &["script_passed", "script_result", "doc_passed", "doc_results"],
    );
    vec![
        tool(
            list::SUBMIT_DELIVERY,
            Act,
            "Submits an issue whose tasks are all done for acceptance and waits for the verdict. A \
             repeat is not delivered twice.",
            json!({
                "issue_id": text(),
                "summary": text(),
                "artifacts": artifacts,
                "test_evidence": evidence,
                "refs": text(),
                "timeout_sec": wait_for(),
            }),
            &["issue_id", "summary", "artifacts", "test_evidence"],
        ),
        tool(
            list::WAIT_DELIVERIES,
            Look,
            "Waits for a delivery that you can claim. With status in_review, returns those you \
             claimed.",
            json!({
                "status": about("open or in_review."),
                "limit": count("Maximum number of results. Default: all."),
                "timeout_sec": wait_for(),
            }),
            &[],
        ),
        tool(
            list::CLAIM_DELIVERY,
            Act,
            "Claims a delivery. No other acceptor can claim it while you hold it.",
            lasting(),
            &["delivery_id"],
        ),
        tool(
            list::EXTEND_DELIVERY,
            Act,
            "Extends your claim of a delivery.",
            lasting(),
            &["delivery_id"],
        ),
        tool(
            list::REVIEW_DELIVERY,
            Act,
            "Approves or rejects a delivery that you claimed, with the results of your \
             verification.",
            json!({
                "delivery_id": text(),
                "verdict": about("approved or rejected."),
                "verification": verification,
                "feedback": text(),
                "refs": text(),
            }),
            &["delivery_id", "verdict", "verification"],
        ),
        tool(
            list::GET_DELIVERY,
            Look,
            "Returns a delivery with its evidence.",
            delivery(),
            &["delivery_id"],
        ),
        tool(
            list::LIST_DELIVERIES,
            Look,
            "Lists deliveries, newest first.",
            page(json!({
                "status": about("open, in_review, approved or rejected."),
                "issue_id": text(),
                "delivered_by": text(),
                "reviewed_by": text(),
            })),
            &[],
        ),
        tool(list::LIST_OPEN_DELIVERIES, Look, "Lists unclaimed deliveries.", json!({}), &[]),
        tool(
            list::BUNDLE,
            Look,
            "Returns what a review of the issue needs: documents, tasks, submissions and delivery.",
            json!({ "issue_id": text() }),
            &["issue_id"],
        ),
    ]
}
