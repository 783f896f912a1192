//! The calls about issues, tasks, deliveries and locks.

use tasuki_proto::{token::Right, wire};

use super::calls::{Call, acting, answers, bytes, inside, new_key};
use crate::support::caller;

const NO_ISSUE: &str = "issue_1_0000";
const NO_DELIVERY: &str = "delivery_1_0000";
const NO_LEASE: &str = "l_1_0000";

fn evidence() -> Option<wire::Evidence> {
    let command = wire::CommandEvidence { output_hash: vec![0; 32], ..Default::default() };
    let (commit, commands) = ("c".to_owned(), vec![command]);
    Some(wire::Evidence { commit, commands, ..Default::default() })
}

fn new_tasks() -> Vec<wire::NewTask> {
    let (subject, difficulty) = ("s".to_owned(), wire::Difficulty::Easy.into());
    vec![wire::NewTask { subject, difficulty, ..Default::default() }]
}

fn files(role: &str) -> Option<wire::FileSet> {
    let (repository, patterns) = ("r".to_owned(), vec![role.to_owned()]);
    Some(wire::FileSet { repository, patterns, is_case_folded: false })
}

fn review() -> Option<wire::Review> {
    let detail = wire::FeedbackDetail {
        dimension: "style".to_owned(),
        severity: "info".to_owned(),
        content: "c".to_owned(),
        ..Default::default()
    };
    let (reviewed_refs, details) = (vec!["r".to_owned()], vec![detail]);
    Some(wire::Review { reviewed_refs, details, ..Default::default() })
}

fn test_evidence() -> Option<wire::TestEvidence> {
    let doc_path = "issue-1-test-steps.md".to_owned();
    Some(wire::TestEvidence { doc_path, ..Default::default() })
}

fn submission() -> Option<wire::SubmissionWords> {
    Some(wire::SubmissionWords { summary: "s".to_owned(), ..Default::default() })
}

fn settings() -> Option<wire::SwarmSettings> {
    Some(wire::SwarmSettings {
        issue_ttl_ms: 0,
        task_claim_ms: 60_000,
        delivery_claim_ms: 60_000,
        reservation_ms: 60_000,
        lock_ms: 60_000,
        heartbeat_ms: 60_000,
        item_again_ms: 60_000,
        max_task_count: 0,
    })
}

pub(super) static CALLS: &[Call] = &[
    acting("/tasuki.v1.Swarm/RegisterWorker", Right::Claim, |workspace, role| {
        bytes(wire::RegisterWorkerRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
        })
    }),
    answers(
        "unknown_delivery",
        acting("/tasuki.v1.Swarm/AttachEvidence", Right::Review, |workspace, role| {
            bytes(wire::AttachEvidenceRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                delivery_id: NO_DELIVERY.to_owned(),
                evidence: evidence(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.Swarm/AwaitSwarm", Right::Read, |workspace, role| {
        bytes(wire::SwarmQuestion {
            caller: caller(workspace),
            role: role.to_owned(),
            ask: Some(wire::swarm_question::Ask::Deliveries(true)),
            ..Default::default()
        })
    }),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/CancelTask", Right::Review, |workspace, role| {
            bytes(wire::CancelTaskRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                reason: "why".to_owned(),
            })
        }),
    ),
    answers(
        "unknown_delivery",
        acting("/tasuki.v1.Swarm/ClaimDelivery", Right::Review, |workspace, role| {
            bytes(wire::ClaimDeliveryRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                delivery_id: NO_DELIVERY.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ClaimTask", Right::Claim, |workspace, role| {
            bytes(wire::ClaimTaskRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/CloseIssue", Right::Send, |workspace, role| {
            bytes(wire::CloseIssueRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.Swarm/CreateIssue", Right::Send, |workspace, role| {
        bytes(wire::CreateIssueRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            subject: "s".to_owned(),
            ..Default::default()
        })
    }),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/CreateTasks", Right::Send, |workspace, role| {
            bytes(wire::CreateTasksRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                tasks: new_tasks(),
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ExtendIssue", Right::Send, |workspace, role| {
            bytes(wire::ExtendIssueRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "lease_not_found",
        acting("/tasuki.v1.Swarm/ForceUnlock", Right::Review, |workspace, role| {
            bytes(wire::ForceUnlockRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                lease_id: NO_LEASE.to_owned(),
                reason: "r".to_owned(),
            })
        }),
    ),
    answers(
        "unknown_delivery",
        acting("/tasuki.v1.Swarm/GetDelivery", Right::Read, |workspace, role| {
            bytes(wire::GetDeliveryRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                delivery_id: NO_DELIVERY.to_owned(),
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/GetTask", Right::Read, |workspace, role| {
            bytes(wire::GetTaskRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
            })
        }),
    ),
    acting("/tasuki.v1.Swarm/ListDeliveries", Right::Read, |workspace, role| {
        bytes(wire::ListDeliveriesRequest {
            caller: caller(workspace),
            role: role.to_owned(),
            ..Default::default()
        })
    }),
    acting("/tasuki.v1.Swarm/ListLocks", Right::Read, |workspace, role| {
        bytes(wire::ListLocksRequest {
            caller: caller(workspace),
            role: role.to_owned(),
            ..Default::default()
        })
    }),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ListTasks", Right::Read, |workspace, role| {
            bytes(wire::ListTasksRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.Swarm/ListWorkers", Right::Read, |workspace, role| {
        bytes(wire::ListWorkersRequest {
            caller: caller(workspace),
            role: role.to_owned(),
            ..Default::default()
        })
    }),
    acting("/tasuki.v1.Swarm/LockFiles", Right::Claim, |workspace, role| {
        bytes(wire::LockFilesRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            files: files(role),
            ..Default::default()
        })
    }),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/MarkItems", Right::Review, |workspace, role| {
            bytes(wire::MarkItemsRequest {
                caller: caller(workspace),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                numbers: vec![1],
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/MintNextStep", Right::Review, |workspace, role| {
            bytes(wire::MintNextStepRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                worker: "w".to_owned(),
                completion_score: 5,
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/PostMessage", Right::Claim, |workspace, role| {
            bytes(wire::PostMessageRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                kind: "question".to_owned(),
                content: "c".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/RenewClaim", Right::Claim, |workspace, role| {
            bytes(wire::RenewClaimRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_delivery",
        acting("/tasuki.v1.Swarm/RenewDelivery", Right::Review, |workspace, role| {
            bytes(wire::RenewDeliveryRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                delivery_id: NO_DELIVERY.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "lease_not_found",
        acting("/tasuki.v1.Swarm/RenewLock", Right::Claim, |workspace, role| {
            bytes(wire::RenewLockRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                lease_id: NO_LEASE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ReopenIssue", Right::Send, |workspace, role| {
            bytes(wire::ReopenIssueRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ReplyMessage", Right::Review, |workspace, role| {
            bytes(wire::ReplyMessageRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                content: "c".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ResetTask", Right::Review, |workspace, role| {
            bytes(wire::ResetTaskRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_delivery",
        acting("/tasuki.v1.Swarm/ReviewDelivery", Right::Review, |workspace, role| {
            bytes(wire::ReviewDeliveryRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                delivery_id: NO_DELIVERY.to_owned(),
                verification: Some(wire::Verification::default()),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/ReviewTask", Right::Review, |workspace, role| {
            bytes(wire::ReviewTaskRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                completion_score: 5,
                review: review(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/SubmitDelivery", Right::Send, |workspace, role| {
            bytes(wire::SubmitDeliveryRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                summary: "s".to_owned(),
                artifacts: Some(wire::DeliveryArtifacts::default()),
                test_evidence: test_evidence(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/SubmitTask", Right::Claim, |workspace, role| {
            bytes(wire::SubmitTaskRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                task_id: "task-1".to_owned(),
                words: submission(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "lease_not_found",
        acting("/tasuki.v1.Swarm/Unlock", Right::Claim, |workspace, role| {
            bytes(wire::UnlockRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                lease_id: NO_LEASE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        acting("/tasuki.v1.Swarm/UpdateIssueDocPaths", Right::Send, |workspace, role| {
            bytes(wire::UpdateIssueDocPathsRequest {
                caller: caller(workspace),
                key: new_key(),
                role: role.to_owned(),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    acting("/tasuki.v1.Swarm/WriteDoc", Right::Send, |workspace, role| {
        bytes(wire::WriteDocRequest {
            caller: caller(workspace),
            key: new_key(),
            role: role.to_owned(),
            name: "plan".to_owned(),
            content: "c".to_owned(),
            ..Default::default()
        })
    }),
    answers(
        "unknown_issue",
        inside("/tasuki.v1.Swarm/GetHistory", Right::Read, |workspace, _| {
            bytes(wire::GetHistoryRequest {
                caller: caller(workspace),
                issue_id: NO_ISSUE.to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "unknown_issue",
        inside("/tasuki.v1.Swarm/GetIssue", Right::Read, |workspace, _| {
            bytes(wire::GetIssueRequest {
                caller: caller(workspace),
                issue_id: NO_ISSUE.to_owned(),
            })
        }),
    ),
    inside("/tasuki.v1.Swarm/GetSettings", Right::Read, |workspace, _| {
        bytes(wire::GetSettingsRequest { caller: caller(workspace) })
    }),
    inside("/tasuki.v1.Swarm/ListDocs", Right::Read, |workspace, _| {
        bytes(wire::ListDocsRequest { caller: caller(workspace), ..Default::default() })
    }),
    inside("/tasuki.v1.Swarm/ListIssues", Right::Read, |workspace, _| {
        bytes(wire::ListIssuesRequest { caller: caller(workspace), ..Default::default() })
    }),
    answers(
        "unknown_doc",
        inside("/tasuki.v1.Swarm/ReadDoc", Right::Read, |workspace, _| {
            bytes(wire::ReadDocRequest {
                caller: caller(workspace),
                name: "none".to_owned(),
                ..Default::default()
            })
        }),
    ),
    answers(
        "invalid_argument",
        inside("/tasuki.v1.Swarm/ImportIssue", Right::Steer, |workspace, _| {
            // Of the future, which the rules refuse: it is parsed before.
            let issue = wire::Issue {
                issue_id: "issue_9999999999999_0000".to_owned(),
                subject: "s".to_owned(),
                created_ms: 1,
                status: wire::IssueStatus::Open.into(),
                ..Default::default()
            };
            bytes(wire::ImportIssueRequest {
                caller: caller(workspace),
                key: new_key(),
                person: "p".to_owned(),
                issue: Some(issue),
                ..Default::default()
            })
        }),
    ),
    inside("/tasuki.v1.Swarm/ImportShared", Right::Steer, |workspace, _| {
        bytes(wire::ImportSharedRequest {
            caller: caller(workspace),
            key: new_key(),
            person: "p".to_owned(),
            ..Default::default()
        })
    }),
    inside("/tasuki.v1.Swarm/SetSettings", Right::Steer, |workspace, _| {
        bytes(wire::SetSettingsRequest {
            caller: caller(workspace),
            key: new_key(),
            person: "p".to_owned(),
            settings: settings(),
        })
    }),
];
