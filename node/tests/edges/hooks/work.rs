//! Hooks on turns, issues, tasks and runs of real nodes.

use std::{collections::BTreeMap, process::Stdio};

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};

use super::{Pipe, begun, configure, telling};
use crate::{
    fake_agent::Machine,
    process::{Process, soon},
};

/// What is told next that was not told before: a call that was under way at a kill is made again.
async fn next_new(pipe: &mut Pipe, ids: &mut BTreeMap<String, Value>) -> Value {
    loop {
        let told = pipe.next().await;
        let id = told["id"].as_str().unwrap().to_owned();
        match ids.get(&id) {
            Some(before) => {
                let of = |told: &Value| (told["event"].clone(), told["turn"]["turn"].clone());
                assert_eq!(of(before), of(&told), "the same call has the same id");
            }
            None => {
                ids.insert(id, told.clone());
                return told;
            }
        }
    }
}

#[tokio::test]
async fn no_turn_is_missed_though_broker_and_node_are_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("up");
    let mut pipe = Pipe::new(&dir.path().join("pipe"));
    let on = "on = [\"turn_received\", \"loop_completed\"]\nrole = \"B\"";
    configure(&data, &telling("told", on));
    let mut up = Process::up(&data, "--role A --role B").await;
    begun(&up, "told").await;
    up.json("loop start side --participants A,B").await;
    let mut ids = BTreeMap::new();
    for turn in [2, 4, 6] {
        let words = format!("--summary done{turn} --instruction $(id)");
        up.json(&format!("loop handover side --role A {words}")).await;
        up.kill().await;
        up.start().await;
        let told = next_new(&mut pipe, &mut ids).await;
        assert_eq!((&told["event"], &told["role"]), (&json!("turn_received"), &json!("B")));
        assert_eq!((&told["version"], told.get("message_id")), (&json!(1), None));
        let of = &told["turn"];
        assert_eq!((&of["loop"], &of["turn"]), (&json!("side"), &json!(turn)), "{told}");
        assert_eq!((&of["from"], &of["to"]), (&json!("A"), &json!("B")));
        let words = (&of["summary"], &of["instruction"]);
        assert_eq!(words, (&json!(format!("done{turn}")), &json!("$(id)")));
        let words = format!("--summary s{turn} --instruction i");
        up.json(&format!("loop handover side --role B {words}")).await;
    }
    up.json("loop handover side --role A --summary all --complete").await;
    let told = next_new(&mut pipe, &mut ids).await;
    assert_eq!((&told["event"], &told["turn"]["turn"]), (&json!("loop_completed"), &json!(0)));
    assert_eq!(told["turn"]["participants"], json!(["A", "B"]));
}

#[tokio::test]
async fn lead_and_worker_each_hear_of_a_task_what_concerns_them() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("up");
    let mut pipe = Pipe::new(&dir.path().join("pipe"));
    let on = "on = [\"issue_created\", \"task_created\", \"task_claimed\", \"task_asked\", \
              \"task_answered\", \"task_submitted\", \"task_canceled\", \"received\"]";
    configure(&data, &telling("told", on));
    let up = Process::up(&data, "--role lead --role worker-1 --role A").await;
    begun(&up, "told").await;
    let mut swarm = SwarmClient::connect(format!("http://{}", up.broker.unwrap())).await.unwrap();
    let caller = || Some(wire::Caller::default());
    let key = |counter| Some(wire::IdempotencyKey { client_id: "test".into(), counter });
    let (lead, worker) = (|| "lead".to_owned(), || "worker-1".to_owned());
    let create = wire::CreateIssueRequest {
        caller: caller(),
        key: key(1),
        role: lead(),
        subject: "Make it fast".into(),
        description: "all of it".into(),
        ..Default::default()
    };
    let issue = soon(swarm.create_issue(create)).await.unwrap().into_inner().issue.unwrap();
    let issue_id = || issue.issue_id.clone();
    let new = wire::NewTask {
        subject: "part 1".into(),
        difficulty: wire::Difficulty::Easy.into(),
        points: 1,
        ..Default::default()
    };
    let create = wire::CreateTasksRequest {
        caller: caller(),
        key: key(2),
        role: lead(),
        issue_id: issue_id(),
        tasks: vec![new],
    };
    let tasks = soon(swarm.create_tasks(create)).await.unwrap().into_inner().tasks;
    let task_id = || tasks[0].task_id.clone();
    let register = wire::RegisterWorkerRequest { caller: caller(), key: key(3), role: worker() };
    soon(swarm.register_worker(register)).await.unwrap();
    let claim = wire::ClaimTaskRequest {
        caller: caller(),
        key: key(4),
        role: worker(),
        issue_id: issue_id(),
        task_id: task_id(),
        ..Default::default()
    };
    let claimed = soon(swarm.claim_task(claim)).await.unwrap().into_inner().task.unwrap();
    for (counter, kind) in [(5, "progress"), (6, "question")] {
        let post = wire::PostMessageRequest {
            caller: caller(),
            key: key(counter),
            role: worker(),
            issue_id: issue_id(),
            task_id: task_id(),
            kind: kind.into(),
            content: format!("a {kind}"),
            claim_token: claimed.claim_token,
            ..Default::default()
        };
        soon(swarm.post_message(post)).await.unwrap();
    }
    let reply = wire::ReplyMessageRequest {
        caller: caller(),
        key: key(7),
        role: lead(),
        issue_id: issue_id(),
        task_id: task_id(),
        content: "the second".into(),
        ..Default::default()
    };
    soon(swarm.reply_message(reply)).await.unwrap();
    let words = Some(wire::SubmissionWords { summary: "faster".into(), ..Default::default() });
    let submit = wire::SubmitTaskRequest {
        caller: caller(),
        key: key(8),
        role: worker(),
        issue_id: issue_id(),
        task_id: task_id(),
        claim_token: claimed.claim_token,
        words,
        ..Default::default()
    };
    soon(swarm.submit_task(submit)).await.unwrap();
    let cancel = wire::CancelTaskRequest {
        caller: caller(),
        key: key(9),
        role: lead(),
        issue_id: issue_id(),
        task_id: task_id(),
        reason: "too late".into(),
    };
    soon(swarm.cancel_task(cancel)).await.unwrap();
    for (event, role) in [
        ("issue_created", "lead"),
        ("task_created", "worker-1"),
        ("task_claimed", "lead"),
        ("task_asked", "lead"),
        ("task_answered", "worker-1"),
        ("task_submitted", "lead"),
        ("task_canceled", "worker-1"),
    ] {
        let told = pipe.next().await;
        assert_eq!((&told["event"], &told["role"]), (&json!(event), &json!(role)), "{told}");
        assert_eq!(told["issue"]["issue_id"], json!(issue_id()), "{told}");
        assert!(!told.to_string().contains("token\":"), "nobody's tokens are told: {told}");
        if event != "issue_created" {
            assert_eq!(
                (&told["task"]["subject"], &told["issue"]["lead"]),
                (&json!("part 1"), &json!("lead"))
            );
        }
        let message = &told["task"]["messages"][0];
        match event {
            "task_asked" => assert_eq!(message["content"], "a question", "{told}"),
            "task_answered" => assert_eq!(message["reply"], "the second", "{told}"),
            "task_submitted" => {
                assert_eq!(told["task"]["submission"]["words"]["summary"], "faster", "{told}");
            }
            _ => assert!(message.is_null(), "{told}"),
        }
    }
}

#[tokio::test]
async fn the_node_where_a_run_was_started_hears_of_its_question_and_its_end() {
    let on = "on = [\"run_started\", \"run_question\", \"run_ended\"]";
    let machine = Machine::up("--role boss=runs", &telling("told", on)).await;
    let mut pipe = Pipe::new(&machine.path("pipe"));
    begun(&machine.up, "told").await;
    let ask = "say \"$(\"$tasuki\" runs ask 'Which one?')\"";
    for (args, role) in [
        (&["run", "scout", ask][..], None),
        (&["run", "scout", ask, "--role", "boss"], Some("boss")),
    ] {
        let mut running = machine.command(args).stdout(Stdio::null()).spawn().unwrap();
        let told = pipe.next().await;
        assert_eq!((&told["event"], told["role"].as_str()), (&json!("run_started"), role));
        let run = told["run"]["run_id"].as_str().unwrap().to_owned();
        let told = pipe.next().await;
        assert_eq!((&told["event"], told["role"].as_str()), (&json!("run_question"), role));
        assert_eq!(told["run"]["question"]["text"], "Which one?", "{told}");
        let number = told["run"]["question"]["number"].to_string();
        let reply = machine.command(&["runs", "reply", &run, &number, "both"]).output();
        assert!(soon(reply).await.unwrap().status.success());
        let told = pipe.next().await;
        assert_eq!((&told["event"], told["role"].as_str()), (&json!("run_ended"), role));
        let ended = (&told["run"]["run_id"], &told["run"]["status"]);
        assert_eq!(ended, (&json!(run), &json!("succeeded")));
        assert_eq!(told["run"]["steps"][0]["agent"], "scout");
        assert!(soon(running.wait()).await.unwrap().success());
    }
}
