//! Real programs: agents that go on without a person end at one, and go on with one command.

use serde_json::{Value, json};

use crate::{
    http::Client,
    process::{Process, soon},
};

/// An agent of a role.
async fn agent(up: &Process, role: &str) -> Client {
    Client::new(up.mcp, &format!("/mcp/{role}")).await
}

/// What an agent is told when it asks for its turn.
async fn turn(up: &Process, role: &str) -> Value {
    let mut told = agent(up, role).await.call("await_my_turn", json!({ "timeout_sec": 0 })).await;
    told["structuredContent"].take()
}

/// An agent hands over; its result.
async fn hand_over(up: &Process, role: &str, turn: u64, words: &str) -> Value {
    let over = json!({ "work_summary": words, "next_instruction": "go on", "turn": turn });
    soon(agent(up, role).await.call("handover_work", over)).await
}

/// Two agents hand over to each other from this turn on until they are paused: the last result.
async fn ping_pong(up: &Process, from: u64, words: impl Fn(u64) -> String) -> (u64, Value) {
    for number in from..from + 100 {
        let role = if number % 2 == 1 { "A" } else { "B" };
        let told = turn(up, role).await;
        assert_eq!((&told["can_start"], &told["turn"]), (&json!(true), &json!(number)), "{told}");
        let done = hand_over(up, role, number, &words(number)).await;
        assert_ne!(done["isError"], true, "{done}");
        if done["structuredContent"]["paused"] == true {
            return (number + 1, done);
        }
    }
    panic!("nothing paused them");
}

async fn run(up: &Process, line: &str) -> String {
    let told = up.run(line).await;
    assert!(told.status.success(), "{line}: {told:?}");
    String::from_utf8(told.stdout).unwrap()
}

#[tokio::test]
async fn agents_that_go_on_without_a_person_are_paused_and_go_on_with_one_command() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    run(&up, "budget limits --turns 5").await;
    let (next, last) = ping_pong(&up, 1, |turn| format!("done {turn}")).await;
    assert_eq!(next, 6);
    let text = last["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Handover successful. Turn switched."), "{text}");
    assert!(text.contains("`tasuki loop resume main`"), "{text}");
    let why = "5 turns ended and no person acted in it";
    assert_eq!(last["structuredContent"]["paused_because"], why);

    up.kill().await;
    up.start().await;
    let told = turn(&up, "B").await;
    assert_eq!((&told["can_start"], &told["paused"]), (&json!(false), &json!(true)), "{told}");
    assert_eq!(told["paused_because"], why);
    assert!(told["hint"].as_str().unwrap().contains("end your turn"), "{told}");
    let seen = agent(&up, "A").await.call("loop_status", json!({})).await;
    let seen = &seen["structuredContent"];
    assert!(seen["hint"].as_str().unwrap().contains("`tasuki loop resume main`"), "{seen}");
    let again = hand_over(&up, "A", 5, "done 5").await;
    assert_eq!(again["structuredContent"]["paused_because"], why, "{again}");
    let status = run(&up, "status").await;
    assert!(status.contains(&format!("main is paused: {why}.")), "{status}");
    assert!(status.contains("`tasuki loop resume main`"), "{status}");
    let shown = run(&up, "loop status").await;
    assert!(shown.contains(r#""status":"paused""#) && shown.contains(why), "{shown}");

    run(&up, "loop resume").await;
    let told = turn(&up, "B").await;
    let was = (&told["can_start"], &told["summary"]);
    assert_eq!(was, (&json!(true), &json!("done 5")), "nothing was lost: {told}");
    hand_over(&up, "B", 6, "done 6").await;
    assert_eq!(turn(&up, "A").await["can_start"], true);
}

#[tokio::test]
async fn agents_that_say_the_same_in_a_circle_are_paused() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "").await;
    let (next, last) = ping_pong(&up, 1, |turn| format!("your turn {}", turn % 2)).await;
    assert_eq!(next, 7, "after three rounds");
    let why = "the same 2 handovers came 3 times in a row";
    assert_eq!(last["structuredContent"]["paused_because"], why);
    run(&up, "loop resume").await;
    let (next, _) = ping_pong(&up, 7, |turn| format!("your turn {}", turn % 2)).await;
    assert_eq!(next, 13, "three more");
}

#[tokio::test]
async fn a_role_that_used_up_its_budget_hands_over_and_begins_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    run(&up, "budget set A --calls 4").await;
    let (next, _) = ping_pong(&up, 1, |turn| format!("done {turn}")).await;
    up.kill().await;
    up.start().await;
    let list = run(&up, "budget list").await;
    assert!(list.contains("used up its budget of 4 calls"), "{list}");
    let letter = json!({ "receiver_id": "B", "msg_type": "INFO", "title": "t", "content": "m" });
    let refused = agent(&up, "A").await.call("filebox_send_message", letter).await;
    let error = &refused["structuredContent"]["error"];
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("paused"), &json!(false)),
        "{refused}"
    );
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("answer, submit") && said.contains("`tasuki budget resume A`"), "{said}");
    let wait = json!({ "timeout_sec": 0 });
    let waits = agent(&up, "A").await.call("filebox_wait_for_message", wait).await;
    let told = &waits["structuredContent"];
    assert_eq!((&told["paused"], &told["still_waiting"]), (&json!(true), &json!(true)), "{told}");
    assert_eq!(told["paused_because"], "A used up its budget of 4 calls");
    assert!(told["hint"].as_str().unwrap().contains("end your turn"), "{told}");
    let status = run(&up, "status").await;
    assert!(status.contains("`tasuki budget resume A`"), "{status}");
    run(&up, "budget resume A").await;
    let role = if next % 2 == 1 { "A" } else { "B" };
    assert_eq!(turn(&up, role).await["can_start"], true);
}

#[tokio::test]
async fn a_person_takes_turns_and_writes_as_the_role_human() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "").await;
    run(&up, "loop start review --participants A,human").await;
    let over = json!({ "work_summary": "look at it", "next_instruction": "is it right?",
        "loop": "review", "to": "human" });
    let done = agent(&up, "A").await.call("handover_work", over).await;
    assert_eq!(done["structuredContent"]["to"], "human", "{done}");
    let status = run(&up, "status").await;
    assert!(status.contains("review waits for a person: human has turn 2."), "{status}");
    run(&up, "loop handover review --as human --summary good --instruction ship").await;
    let asked = json!({ "timeout_sec": 0, "loop": "review" });
    let told = agent(&up, "A").await.call("await_my_turn", asked).await;
    assert_eq!(told["structuredContent"]["instruction"], "ship", "{told}");

    let letter = json!({ "receiver_id": "human", "msg_type": "INFO", "title": "t",
        "content": "m" });
    let sent = agent(&up, "A").await.call("filebox_send_message", letter).await;
    assert_ne!(sent["isError"], true, "{sent}");
    let inbox = up.json("mail list --role human").await;
    assert!(inbox.iter().any(|it| it.to_string().contains("INFO")), "{inbox:?}");
}
