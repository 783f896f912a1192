//! Who may do what: every call there is, by everybody who may not make it.

mod board_calls;
mod calls;
mod endings;
mod files;
mod keys;
mod limits;
mod numbers;
mod pipeline_calls;
mod run_calls;
mod swarm_calls;

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tasuki_proto::{DESCRIPTORS, reason::Reason, token::Right, wire};
use tonic::Status;

use self::calls::Call;
use crate::{
    guarded::{Bearer, Guarded},
    support::reason,
};

/// Every call there is.
fn all() -> impl Iterator<Item = &'static Call> {
    let nouns = swarm_calls::CALLS.iter().chain(run_calls::CALLS).chain(board_calls::CALLS);
    nouns.chain(pipeline_calls::CALLS).chain(calls::CALLS)
}

/// What a call came to, where the answer itself carries refusals, too.
async fn outcome(bearer: &Bearer, call: &Call, workspace: &str, role: &str) -> String {
    let message = (call.message)(workspace, role);
    let answered = if call.is_stream {
        bearer.call(call.path, message).await
    } else {
        bearer.unary(call.path, message).await
    };
    match answered {
        Ok(answer) if call.path.ends_with("/Park") => {
            match wire::ParkResponse::decode(answer).unwrap().outcome {
                Some(wire::park_response::Outcome::Refusal(it)) => it.reason,
                Some(
                    wire::park_response::Outcome::Turn(_)
                    | wire::park_response::Outcome::Mail(_)
                    | wire::park_response::Outcome::Swarm(_)
                    | wire::park_response::Outcome::Board(_)
                    | wire::park_response::Outcome::Run(_),
                )
                | None => "ok".to_owned(),
            }
        }
        Ok(_) => "ok".to_owned(),
        Err(status) => named(&status),
    }
}

fn named(status: &Status) -> String {
    match Reason::of(status) {
        Some(_) => reason(status).to_owned(),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

#[test]
fn no_call_is_forgotten_here() {
    let mut there = BTreeSet::new();
    for bytes in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ] {
        for file in FileDescriptorSet::decode(bytes).unwrap().file {
            for service in &file.service {
                for method in &service.method {
                    let (package, service) = (file.package(), service.name());
                    there.insert(format!("/{package}.{service}/{}", method.name()));
                }
            }
        }
    }
    let here = all().map(|call| call.path.to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(here, there);
}

/// Holds E7.
#[tokio::test]
async fn every_call_is_refused_to_everybody_who_may_not_make_it() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let every = Right::ALL;
    let good = broker.token("w1", &["A", "B"], every).await;
    let elsewhere = broker.token("w2", &["A", "B"], every).await;
    let other_role = broker.token("w1", &["B"], every).await;
    let revoked = broker.token("w1", &["A"], every).await;
    broker.revoke(&revoked.id).await;
    let expired = broker.token_for("w1", &["A"], every, 1).await;
    let mut wrong_secret = good.expose();
    let last = if wrong_secret.ends_with('A') { 'B' } else { 'A' };
    wrong_secret
        .replace_range(10.., &format!("{}{last}", &good.expose()[10..good.expose().len() - 1]));

    let mut wrong = Vec::new();
    for call in all() {
        let strangers: [(&str, Option<String>); 7] = [
            ("no token", None),
            ("no token but words", Some(String::new())),
            ("garbage", Some("garbage".to_owned())),
            ("a wrong secret", Some(wrong_secret.clone())),
            (
                "a token of another broker",
                Some("tasuki_0011_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned()),
            ),
            ("revoked", Some(revoked.expose())),
            ("expired", Some(expired.expose())),
        ];
        let unauthenticated = call.without_token.unwrap_or("unauthenticated");
        for (who, shows) in strangers {
            let said = outcome(&broker.bearer(shows.as_deref()), call, "w1", "A").await;
            if said != unauthenticated {
                wrong.push(format!("{} with {who}: {said}", call.path));
            }
        }
        let mut known = Vec::new();
        if let Some(right) = call.right {
            let rest: Vec<Right> = every.iter().copied().filter(|it| *it != right).collect();
            let token = broker.token("w1", &["A", "B"], &rest).await;
            known.push(("too few rights", token.expose(), "right_forbidden"));
        }
        if call.has_workspace {
            known.push(("another workspace", elsewhere.expose(), "unknown_workspace"));
        }
        if call.has_role {
            known.push(("another role", other_role.expose(), "role_forbidden"));
        }
        known.push(("what it takes", good.expose(), call.answer));
        for (what, shows, expected) in known {
            let said = outcome(&broker.bearer(Some(&shows)), call, "w1", "A").await;
            if said != expected {
                wrong.push(format!("{} with {what}: {said}, not {expected}", call.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Nobody learns from a refusal whether there is a workspace of that name.
/// Holds E6.
#[tokio::test]
async fn a_workspace_one_may_not_see_is_as_if_it_were_not_there() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let inside = broker.token("seen-1", &["A"], Right::ALL).await;
    let outside = broker.token("mine", &["A"], Right::ALL).await;
    let (inside, outside) =
        (broker.bearer(Some(&inside.expose())), broker.bearer(Some(&outside.expose())));
    for call in all().filter(|call| call.has_workspace) {
        outcome(&inside, call, "seen-1", "A").await;
    }
    for call in all().filter(|call| call.has_workspace && !call.path.ends_with("/Park")) {
        let mut said = Vec::new();
        for workspace in ["seen-1", "seen-2"] {
            let message = (call.message)(workspace, "A");
            let status = if call.is_stream {
                outside.call(call.path, message).await.unwrap_err()
            } else {
                outside.unary(call.path, message).await.unwrap_err()
            };
            let words = status.message().replace(workspace, "W");
            let details = String::from_utf8_lossy(status.details()).replace(workspace, "W");
            said.push((status.code(), words, details));
        }
        assert_eq!(said[0], said[1], "{}", call.path);
    }
    let system = outcome(&broker.administrator(), &calls::CALLS[0], "_system", "A").await;
    assert_eq!(system, "ok", "health asks for no workspace");
    for call in all().filter(|call| call.has_workspace) {
        let said = outcome(&broker.administrator(), call, "_system", "A").await;
        assert_eq!(said, "invalid_argument", "{}", call.path);
    }
}

/// A person answers for what failed; a role that may review cannot name one by itself.
#[tokio::test]
async fn overriding_failed_evidence_takes_the_right_to_steer() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let reviewer = broker.token("w1", &["A"], &[Right::Read, Right::Review]).await;
    let steerer = broker.token("w1", &["A"], &[Right::Read, Right::Review, Right::Steer]).await;
    for (token, expected) in [(reviewer, "right_forbidden"), (steerer, "unknown_delivery")] {
        let by = wire::Override { person: "ann".to_owned(), reason: "known".to_owned() };
        let request = wire::ReviewDeliveryRequest {
            caller: crate::support::caller("w1"),
            key: calls::new_key(),
            role: "A".to_owned(),
            delivery_id: "delivery_1_0000".to_owned(),
            is_approved: true,
            verification: Some(wire::Verification::default()),
            r#override: Some(by),
            ..Default::default()
        };
        let message = request.encode_to_vec().into();
        let bearer = broker.bearer(Some(&token.expose()));
        let said = bearer.unary("/tasuki.v1.Swarm/ReviewDelivery", message).await.unwrap_err();
        assert_eq!(named(&said), expected);
    }
}

/// A worker writes about the task it has claimed, and nothing else.
#[tokio::test]
async fn a_token_that_may_only_claim_writes_documents_of_its_own_task() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let lead = broker.token("w1", &["L"], Right::ALL).await;
    let worker = broker.token("w1", &["W"], &[Right::Read, Right::Claim]).await;
    let reviewer = broker.token("w1", &["W"], &[Right::Read, Right::Review]).await;
    let [lead, worker, reviewer] =
        [lead, worker, reviewer].map(|it| broker.bearer(Some(&it.expose())));
    let caller = || crate::support::caller("w1");
    let create = wire::CreateIssueRequest {
        caller: caller(),
        key: calls::new_key(),
        role: "L".to_owned(),
        subject: "s".to_owned(),
        ..Default::default()
    };
    let message = create.encode_to_vec().into();
    let created = lead.unary("/tasuki.v1.Swarm/CreateIssue", message).await.unwrap();
    let issue = wire::IssueResponse::decode(created).unwrap().issue.unwrap().issue_id;
    let task = |subject: &str| wire::NewTask {
        subject: subject.to_owned(),
        difficulty: wire::Difficulty::Easy.into(),
        ..Default::default()
    };
    let plan = wire::CreateTasksRequest {
        caller: caller(),
        key: calls::new_key(),
        role: "L".to_owned(),
        issue_id: issue.clone(),
        tasks: vec![task("one"), task("two")],
    };
    let message = plan.encode_to_vec().into();
    lead.unary("/tasuki.v1.Swarm/CreateTasks", message).await.unwrap();
    let register = wire::RegisterWorkerRequest {
        caller: caller(),
        key: calls::new_key(),
        role: "W".to_owned(),
    };
    let message = register.encode_to_vec().into();
    worker.unary("/tasuki.v1.Swarm/RegisterWorker", message).await.unwrap();
    let claim = wire::ClaimTaskRequest {
        caller: caller(),
        key: calls::new_key(),
        role: "W".to_owned(),
        issue_id: issue.clone(),
        task_id: "task-1".to_owned(),
        ..Default::default()
    };
    let message = claim.encode_to_vec().into();
    worker.unary("/tasuki.v1.Swarm/ClaimTask", message).await.unwrap();
    let issue = issue.as_str();
    let cases = [
        (&worker, "W", issue, "task-1", "ok"),
        (&worker, "W", issue, "task-2", "not_claimant"),
        (&worker, "W", issue, "", "right_forbidden"),
        (&worker, "W", "", "", "right_forbidden"),
        (&reviewer, "W", issue, "task-1", "right_forbidden"),
        (&lead, "L", issue, "task-1", "ok"),
        (&lead, "L", issue, "", "ok"),
    ];
    for (bearer, role, issue_id, task_id, expected) in cases {
        let place = wire::DocPlace { issue_id: issue_id.to_owned(), task_id: task_id.to_owned() };
        let write = wire::WriteDocRequest {
            caller: caller(),
            key: calls::new_key(),
            role: role.to_owned(),
            place: Some(place),
            name: "notes".to_owned(),
            content: format!("{role} says so"),
        };
        let message = write.encode_to_vec().into();
        let written = bearer.unary("/tasuki.v1.Swarm/WriteDoc", message).await;
        let said = written.map_or_else(|status| named(&status), |_| "ok".to_owned());
        assert_eq!(said, expected, "{role} in {issue_id}/{task_id}");
    }
}

/// Whoever administrates one workspace has no power over another.
#[tokio::test]
async fn administration_gives_away_no_more_than_it_has() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let admin = broker.token("w1", &["A", "B"], &[Right::Admin, Right::Read]).await;
    let other = broker.token("w2", &["A"], &[Right::Read]).await;
    let own = broker.token("w1", &["A"], &[Right::Read]).await;
    let mut access = broker.bearer(Some(&admin.expose())).access();

    let issue = |workspace: &str, roles: &[&str], rights: &[Right]| wire::IssueTokenRequest {
        secret: crate::guarded::fresh().hash().as_bytes().to_vec(),
        scope: Some(crate::guarded::scope(workspace, roles, rights)),
        ..wire::IssueTokenRequest::default()
    };
    for (workspace, roles, rights, said) in [
        ("w1", &["A"][..], &[Right::Read][..], "ok"),
        ("w1", &["A", "B"], &[Right::Admin, Right::Read], "ok"),
        ("w2", &["A"], &[Right::Read], "right_forbidden"),
        ("", &["A"], &[Right::Read], "right_forbidden"),
        ("w1", &["C"], &[Right::Read], "right_forbidden"),
        ("w1", &["*"], &[Right::Read], "right_forbidden"),
        ("w1", &["A"], &[Right::Send], "right_forbidden"),
    ] {
        let issued = access.issue_token(issue(workspace, roles, rights)).await;
        let came = issued.map_or_else(|status| named(&status), |_| "ok".to_owned());
        assert_eq!(came, said, "{workspace} {roles:?} {rights:?}");
    }
    let listed = access.list_tokens(wire::ListTokensRequest {}).await.unwrap().into_inner().tokens;
    assert!(listed.iter().any(|it| it.token_id == own.id.as_str()));
    assert!(listed.iter().all(|it| it.scope.as_ref().unwrap().workspace == "w1"), "{listed:?}");
    let mut told = Vec::new();
    for id in [other.id.as_str(), "0000000000000000"] {
        let revoked =
            access.revoke_token(wire::RevokeTokenRequest { token_id: id.to_owned() }).await;
        let rotated = access
            .rotate_token(wire::RotateTokenRequest {
                token_id: id.to_owned(),
                secret: crate::guarded::fresh().hash().as_bytes().to_vec(),
                overlap_ms: 0,
            })
            .await;
        for status in [revoked.unwrap_err(), rotated.unwrap_err()] {
            told.push((named(&status), status.message().replace(id, "ID")));
        }
    }
    assert_eq!(told[..2], told[2..]);
    assert_eq!(told[0].0, "unknown_token");
}
