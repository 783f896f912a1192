//! Starts, stops, leases, receipts: what holds between them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};

use crate::{
    agents::{Agent, Transport},
    http::{Client, call},
    process::{Process, soon, tasuki},
};

fn words(what: &str) -> Value {
    json!({ "work_summary": what, "next_instruction": "go on", "is_task_complete": false })
}

async fn session(of: &Process, role: &str) -> Client {
    Client::new(of.mcp, &format!("/mcp/{role}")).await
}

async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = soon(client.call(tool, arguments)).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

async fn refusal(client: &Client, tool: &str, arguments: Value) -> String {
    let result = soon(client.call(tool, arguments)).await;
    let code = &result["structuredContent"]["error"]["code"];
    code.as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

async fn status(client: &Client) -> Value {
    ask(client, "loop_status", json!({})).await
}

/// The loop's status once it is as `is_so` wants it.
async fn until(client: &Client, is_so: impl Fn(&Value) -> bool) -> Value {
    let asking = async {
        loop {
            let status = status(client).await;
            if is_so(&status) {
                return status;
            }
        }
    };
    soon(asking).await
}

fn waits(status: &Value, count: usize) -> bool {
    status["waiting"].as_array().unwrap().len() == count
}

/// A wait of its own agent, whose answer is a result's facts.
fn waiting(mut agent: Agent) -> JoinHandle<(Agent, Value)> {
    tokio::spawn(async move {
        let result = agent.call("await_my_turn", json!({})).await.unwrap();
        (agent, result["structuredContent"].clone())
    })
}

#[tokio::test]
async fn a_stop_answers_waits_and_the_next_start_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(
        &dir.path().join("up"),
        "--role first --role second --role third --role fourth --role fifth",
    )
    .await;
    let first = session(&up, "first").await;
    ask(&first, "handover_work", words("one")).await;
    let second = session(&up, "second").await;
    ask(
        &second,
        "handover_work",
        json!({ "work_summary": "two", "next_instruction": "go on",
        "is_task_complete": false, "to": "first" }),
    )
    .await;
    let held = [
        ("second", Transport::Session),
        ("third", Transport::Stateless),
        ("fourth", Transport::Sse),
        ("fifth", Transport::Stdio),
    ];
    let mut waits_held = Vec::new();
    for (role, transport) in held {
        waits_held.push(waiting(Agent::new(transport, role, up.mcp, up.data.clone()).await));
    }
    until(&first, |status| waits(status, 4)).await;
    let before = up.json("loop history").await;

    let began = Instant::now();
    assert_eq!(up.stop().await.code(), Some(0), "{}", up.log());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut agents = Vec::new();
    for wait in waits_held {
        let (agent, answer) = soon(wait).await.unwrap();
        assert_eq!(answer["still_waiting"], true, "{answer}");
        agents.push(agent);
    }

    up.start().await;
    assert_eq!(up.json("loop history").await, before);
    let roles = &status(&first).await["participants"];
    assert_eq!(*roles, json!(["first", "second", "third", "fourth", "fifth"]));
    // Each goes on as it was, the first in the session it had.
    let again: Vec<_> = agents.into_iter().map(waiting).collect();
    ask(&first, "handover_work", words("three")).await;
    let mut again = again.into_iter();
    let (mut agent, answer) = soon(again.next().unwrap()).await.unwrap();
    assert_eq!((&answer["turn"], &answer["summary"]), (&json!(4), &json!("three")));
    let mut done = words("four");
    done["is_task_complete"] = true.into();
    agent.call("handover_work", done).await.unwrap();
    for wait in again {
        assert_eq!(soon(wait).await.unwrap().1["is_finished"], true);
    }
    assert_eq!(ask(&first, "await_my_turn", json!({})).await["is_finished"], true);
}

#[tokio::test]
async fn what_is_taken_already_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "").await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (free, other) = ("127.0.0.1:0".to_owned(), dir.path().join("other"));
    let node = format!("node --broker http://{}", up.broker.unwrap());
    for (line, data, listen, broker, expected) in [
        ("up", &other, &taken, Some(&free), taken.as_str()),
        ("up", &other, &free, Some(&taken), taken.as_str()),
        (node.as_str(), &other, &taken, None, taken.as_str()),
        ("up", &up.data, &free, Some(&free), "Tasuki already runs on this data directory (pid "),
        (node.as_str(), &up.data, &free, None, "another node runs on"),
    ] {
        let mut command = tasuki(data);
        command.args(line.split_whitespace()).arg("--data").arg(data);
        command.args(["--listen", listen]);
        command.args(broker.iter().flat_map(|it| ["--broker-listen", it.as_str()]));
        let output = soon(command.output()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{line} {listen} {broker:?}: {said}");
        let error = said.lines().rfind(|line| line.starts_with("error:"));
        assert!(error.is_some_and(|error| error.contains(expected)), "{expected}: {said}");
        assert!(error.is_none_or(|error| error.matches("in use").count() < 2), "twice: {said}");
    }
    status(&session(&up, "A").await).await;
}

/// A full disk, or a terminal that was closed.
#[tokio::test]
async fn a_log_that_nobody_takes_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    let a = session(&up, "A").await;
    up.kill().await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    up.start_saying(writer).await;
    // That an agent plays a role is logged, and so is a request that is none.
    let told = ask(&a, "await_my_turn", json!({})).await;
    assert_eq!(told["can_start"], true, "{told}");
    let nonsense = json!({ "jsonrpc": "2.0", "id": 9, "method": "no/such" });
    let told = soon(async { a.post(&nonsense).await.answer().await }).await;
    assert_eq!(told["error"]["code"], -32601, "{told}");
    assert!(up.stop().await.success());
}

#[tokio::test]
async fn a_node_without_its_broker_says_so_and_works_once_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    broker.kill().await;
    let address = broker.broker.unwrap();
    let node = Process::node(&dir.path().join("node"), address, "--role A --role B").await;
    let a = session(&node, "A").await;
    for (tool, arguments) in [
        ("loop_status", json!({})),
        ("handover_work", words("one")),
        ("await_my_turn", json!({ "timeout_sec": 0 })),
        ("await_my_turn", json!({})),
    ] {
        let began = Instant::now();
        assert_eq!(refusal(&a, tool, arguments).await, "unavailable");
        assert!(began.elapsed() < Duration::from_secs(10), "{tool}: {:?}", began.elapsed());
    }
    assert_eq!(node.run("loop status").await.status.code(), Some(3));
    // Asked while the broker is away, answered by the one that comes.
    let asking = a.clone();
    let asked = tokio::spawn(async move { asking.call("await_my_turn", json!({})).await });
    broker.start().await;
    let asked = &soon(asked).await.unwrap()["structuredContent"];
    let is_early = asked["error"]["code"] == "unavailable";
    assert!(is_early || asked["turn"] == 1, "{asked}");
    let turn = async {
        loop {
            let result = a.call("await_my_turn", json!({})).await;
            if result["isError"] != true {
                return result["structuredContent"]["turn"].clone();
            }
        }
    };
    assert_eq!(soon(turn).await, 1);
}

#[tokio::test]
async fn a_node_is_not_announced_as_ready_while_another_hosts_its_role() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut first = Process::node(&dir.path().join("first"), address, "--role A").await;
    assert!(first.printed().await.starts_with("Connect the agent that plays A"));
    let mut second = Process::node(&dir.path().join("second"), address, "--role A").await;
    let told = second.printed().await;
    assert!(told.contains("refuses this node") && told.contains("(role_in_use)"), "{told}");
    assert_eq!(second.printed().await, "It keeps trying.");
    let mut third = Process::node(&dir.path().join("third"), address, "--role A --take-over").await;
    assert!(third.printed().await.starts_with("Connect the agent that plays A"));
}

#[tokio::test]
async fn a_held_wait_does_not_notice_that_the_broker_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&dir.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let node = Process::node(&dir.path().join("node"), address, "").await;
    let a = session(&node, "A").await;
    let b = Agent::new(Transport::Session, "B", node.mcp, node.data.clone()).await;
    let held = waiting(b);
    until(&a, |status| waits(status, 1)).await;
    for _ in 0..2 {
        broker.kill().await;
        broker.start().await;
    }
    let handing_over =
        async { while soon(a.call("handover_work", words("one"))).await["isError"] == true {} };
    soon(handing_over).await;
    let (_, answer) = soon(held).await.unwrap();
    assert_eq!((&answer["can_start"], &answer["turn"]), (&json!(true), &json!(2)), "{answer}");
}

#[tokio::test]
async fn an_intent_is_carried_out_once_though_its_turn_is_long_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    // As `tasuki mcp` sends it, and sends it again to a node that was killed meanwhile.
    let mut message = call(1, "handover_work", words("one"));
    message["params"]["_meta"] = json!({ "tasuki/intent": { "by": "0f3a", "number": 1 } });
    let first = a.post(&message).await.answer().await["result"].clone();
    assert_eq!(first["structuredContent"]["turn"], 2, "{first}");
    ask(&b, "handover_work", words("two")).await;
    up.kill().await;
    up.start().await;
    let again = a.post(&message).await.answer().await["result"].clone();
    assert_eq!(again["structuredContent"]["turn"], 2, "{again}");
    assert_eq!(status(&a).await["turn"], 3);
    // Without it the same words are taken for the old ones until A was told of its new turn.
    let again = ask(&a, "handover_work", words("one")).await;
    assert_eq!((&again["turn"], &again["repeated"]), (&json!(2), &json!(true)), "{again}");
    assert_eq!(ask(&a, "await_my_turn", json!({})).await["turn"], 3);
    assert_eq!(ask(&a, "handover_work", words("one")).await["turn"], 4);
}

#[tokio::test]
async fn a_lapsed_turn_can_be_reclaimed_and_its_holder_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "--lease 2s").await;
    let a = session(&up, "A").await;
    assert_eq!(ask(&a, "await_my_turn", json!({})).await["turn"], 1);
    let reclaim = "loop reclaim --role B --reason silent";
    let refused = up.run(reclaim).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let refused: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(refused["error"]["code"], "turn_held");

    let b = session(&up, "B").await;
    until(&b, |status| status["status"] == "stalled").await;
    let done = up.json(reclaim).await;
    assert_eq!((&done[0]["turn"], &done[0]["to"]), (&json!(2), &json!("B")), "{done:?}");
    let mut late = words("late");
    assert_eq!(refusal(&a, "handover_work", late.clone()).await, "stale_token");
    late["turn"] = 1.into();
    assert_eq!(refusal(&a, "handover_work", late).await, "stale_token");
    let turn = ask(&b, "await_my_turn", json!({})).await;
    assert_eq!((&turn["turn"], &turn["reclaimed"]["reason"]), (&json!(2), &json!("silent")));

    // A person need not wait, and is known by name.
    up.json("loop reclaim --to A --reason now --by alice").await;
    assert_eq!(refusal(&b, "handover_work", words("late")).await, "stale_token");
    let history = up.json("loop history").await;
    assert_eq!(history.len(), 2);
    assert_eq!((&history[1]["kind"], &history[1]["person"]), (&json!("reclaim"), &json!("alice")));
}

#[tokio::test]
async fn receipts_claim_no_more_than_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::up(&dir.path().join("up"), "").await;
    let a = session(&up, "A").await;
    let is_set = |of: &Value| of.as_u64().is_some_and(|ms| ms != 0);
    for (turn, is_cut) in [(1, true), (3, false)] {
        // The session lives on when the connection of its wait is cut.
        let b = session(&up, "B").await;
        let http = b.post(&call(1, "await_my_turn", json!({}))).await;
        until(&a, |status| waits(status, 1)).await;
        let held = (!is_cut).then_some(http);
        ask(&a, "handover_work", words(&format!("done {turn}"))).await;
        if let Some(mut http) = held {
            let answer = http.answer().await;
            assert_eq!(answer["result"]["structuredContent"]["turn"], turn + 1);
            assert!(http.next_event().await.is_none());
            until(&a, |status| status["latest"]["receipts"]["handed"].is_string()).await;
        } else {
            // A later receipt of the same node arrives, so an earlier one would have, too.
            up.json(&format!("loop start fence{turn} --participants A,B")).await;
            let mut fence = words("fence");
            fence["loop"] = format!("fence{turn}").into();
            ask(&a, "handover_work", fence.clone()).await;
            ask(&b, "await_my_turn", json!({ "loop": fence["loop"] })).await;
            let fenced = async {
                let asked = json!({ "loop": fence["loop"] });
                while !ask(&a, "loop_status", asked.clone()).await["latest"]["receipts"]["handed"]
                    .is_string()
                {}
            };
            soon(fenced).await;
            let receipts = &status(&a).await["latest"]["receipts"];
            assert!(receipts["stored"].is_string(), "{receipts}");
            assert!(receipts.get("handed").is_none(), "{receipts}");
        }
        ask(&b, "handover_work", words("mine")).await;
    }
    let history = up.json("loop history").await;
    let got = |entry: usize, receipt: &str| is_set(&history[entry]["receipts"][receipt]);
    assert!(!got(0, "handed_ms") && got(0, "acted_ms"), "{}", history[0]);
    assert!(got(2, "stored_ms") && got(2, "handed_ms") && got(2, "acted_ms"), "{}", history[2]);
    assert!(got(3, "stored_ms") && !got(3, "handed_ms") && !got(3, "acted_ms"), "{}", history[3]);
}

#[tokio::test]
async fn three_take_turns_by_name_and_play_a_second_round() {
    let dir = tempfile::tempdir().unwrap();
    let up =
        Process::up(&dir.path().join("up"), "--role planner=loop --role coder --role tester").await;
    let planner = session(&up, "planner").await;
    let coder = session(&up, "coder").await;
    let tester = session(&up, "tester").await;
    let all = [&planner, &coder, &tester];
    let roles = &status(&planner).await["participants"];
    assert_eq!(*roles, json!(["planner", "coder", "tester"]));

    let mut to_tester = words("plan");
    to_tester["to"] = "tester".into();
    assert_eq!(ask(&planner, "handover_work", to_tester).await["to"], "tester");
    let mut to_nobody = words("test");
    to_nobody["to"] = "nobody".into();
    assert_eq!(refusal(&tester, "handover_work", to_nobody).await, "unknown_role");
    assert_eq!(ask(&tester, "handover_work", words("test")).await["to"], "planner");
    assert_eq!(ask(&planner, "handover_work", words("plan 2")).await["to"], "coder");
    assert_eq!(refusal(&tester, "handover_work", words("too soon")).await, "not_your_turn");
    let busy = up.run("loop start").await;
    assert_eq!(busy.status.code(), Some(1), "{busy:?}");

    let mut last = words("all done");
    last["is_task_complete"] = true.into();
    ask(&coder, "handover_work", last).await;
    for client in all {
        let answer = ask(client, "await_my_turn", json!({})).await;
        assert_eq!((&answer["is_finished"], &answer["can_start"]), (&json!(true), &json!(false)));
        assert_eq!(answer["summary"], "all done");
    }
    assert_eq!(refusal(&planner, "handover_work", words("more")).await, "loop_completed");

    let started = up.json("loop start --instruction again --to coder").await;
    assert_eq!(started[0]["round"], 2, "{started:?}");
    let turn = ask(&coder, "await_my_turn", json!({})).await;
    assert_eq!((&turn["round"], &turn["turn"]), (&json!(2), &json!(5)), "{turn}");
    assert_eq!((&turn["instruction"], &turn["from"]), (&json!("again"), &json!("alice")), "{turn}");
    assert_eq!(ask(&coder, "handover_work", words("code")).await["to"], "tester");
    assert_eq!(up.json("loop history").await.len(), 6);
}

/// How many connections to a port stand, as the system says: both ends' addresses and the state, in
/// hexadecimal.
#[cfg(target_os = "linux")]
fn connections_to(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[2].ends_with(&format!(":{port:04X}")) && words[3] == ESTABLISHED
    };
    table.lines().skip(1).filter(is_one).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_node_reaches_the_broker_of_its_own_process_without_a_connection() {
    let data = tempfile::tempdir().unwrap();
    let up = Process::up(data.path(), "").await;
    let broker = up.broker.unwrap();
    let [a, b] = [session(&up, "A").await, session(&up, "B").await];
    ask(&a, "handover_work", words("s1")).await;
    let turn = ask(&b, "await_my_turn", json!({})).await;
    assert!(turn.to_string().contains("s1"), "{turn}");
    assert_eq!(connections_to(broker.port()), 0);
    // Others connect.
    let other = tempfile::tempdir().unwrap();
    let node = Process::node(other.path(), broker, "--role C").await;
    let c = session(&node, "C").await;
    ask(&c, "loop_status", json!({})).await;
    assert_ne!(connections_to(broker.port()), 0);
}
