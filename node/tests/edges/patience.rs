//! Waits as long as the most patient clients allow, over each transport at once.
//!
//! `TASUKI_WAIT_SECS` says how long (3): with 1500 it takes as many seconds. Nothing happens
//! meanwhile, so whatever cuts off what is silent would cut these off: time limits of
//! connections, sessions, streams, the lease of the turn that all wait for.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    agents::{Agent, Manner, Transport},
    http::Client,
    process::{Process, soon},
};

/// Longer than those that wait for the end of their hold, in seconds.
const LONGER_SECS: u64 = 60;

/// How late an answer may be on a busy machine, in seconds.
const LATE_SECS: u64 = 30;

/// Between two signs of life, in seconds.
const PROGRESS_SECS: u64 = 10;

/// By name; whether the client takes a task, which it polls, in place of a call that is held.
const TRANSPORTS: [(&str, Transport, bool); 6] = [
    ("session", Transport::Session, false),
    ("stateless", Transport::Stateless, false),
    ("sse", Transport::Sse, false),
    ("stdio", Transport::Stdio, false),
    ("task", Transport::Stateless, true),
    ("task-stdio", Transport::Stdio, true),
];

/// One wait: whether it ends with its hold, and what it asks.
struct Wait {
    name: String,
    agent: Agent,
    ends_with_hold: bool,
    arguments: Value,
}

struct Ended {
    wait: Wait,
    answer: Value,
    after: Duration,
}

impl Wait {
    async fn run(mut self) -> Ended {
        let began = Instant::now();
        let answer = self.agent.call("await_my_turn", self.arguments.clone()).await;
        let after = began.elapsed();
        let name = &self.name;
        let mut answer = answer.unwrap_or_else(|why| panic!("{name} after {after:?}: {why:?}"));
        Ended { wait: self, answer: answer["structuredContent"].take(), after }
    }
}

impl Ended {
    fn check(&self, secs: u64) {
        let Self { wait, answer, after } = self;
        let name = &wait.name;
        anstream::println!(
            "{name}: {:.1} s, {} signs of life",
            after.as_secs_f64(),
            wait.agent.signs
        );
        assert!(secs <= after.as_secs(), "{name} ended after {after:?}: {answer}");
        assert!(after.as_secs() <= secs + LATE_SECS, "{name} ended after {after:?}: {answer}");
        if wait.ends_with_hold {
            let told = (&answer["still_waiting"], &answer["can_start"]);
            assert_eq!(told, (&json!(true), &json!(false)), "{name}: {answer}");
        } else {
            let told = (&answer["can_start"], &answer["turn"], &answer["instruction"]);
            let words = json!(format!("go on with {name}"));
            assert_eq!(told, (&json!(true), &json!(2), &words), "{name}: {answer}");
        }
        let is_task = name.starts_with("task");
        assert_eq!(is_task, 0 < wait.agent.polls, "{name}: {} polls", wait.agent.polls);
        let due = after.as_secs() / PROGRESS_SECS;
        let signs = wait.agent.signs;
        match name.ends_with("progress") {
            true => assert!((due..=due + 2).contains(&signs), "{name}: {signs} signs of life"),
            false => assert_eq!(signs, 0, "{name} did not ask for signs of life"),
        }
    }
}

#[tokio::test]
async fn a_long_silent_wait_ends_with_its_own_answer_over_each_transport() {
    let secs = std::env::var("TASUKI_WAIT_SECS").map_or(3, |it| it.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::broker(&dir.path().join("broker"), "").await;
    let mut manners = Vec::new();
    for (transport, it, takes_tasks) in TRANSPORTS {
        for (silence, wants_progress) in [("silent", false), ("progress", true)] {
            // A task gives no signs of life: it is asked.
            if takes_tasks && wants_progress {
                continue;
            }
            // Those that are woken begin first, so that each has waited long enough by then.
            for (end, ends_with_hold) in [("woken", false), ("kept", true)] {
                let name = format!("{transport}-{end}-{silence}");
                let hold = Some(if ends_with_hold { secs } else { secs + LONGER_SECS });
                let manner = Manner { hold, wants_progress, takes_tasks };
                manners.push((name, it, manner, ends_with_hold));
            }
        }
    }
    let roles: String = manners.iter().map(|(name, ..)| format!("--role {name} ")).collect();
    let roles = format!("--role A {roles}");
    let node = Process::node(&dir.path().join("node"), broker.broker.unwrap(), &roles).await;
    let a = Client::new(node.mcp, "/mcp/A").await;

    let (mut kept, mut woken) = (JoinSet::new(), JoinSet::new());
    for (name, transport, manner, ends_with_hold) in &manners {
        node.json(&format!("loop start {name} --participants A,{name}")).await;
        let agent = Agent::with(*transport, name, node.mcp, node.data.clone(), *manner).await;
        let mut arguments = json!({ "loop": name });
        if manner.takes_tasks {
            // No call is held, so no hold ends it.
            arguments["timeout_sec"] = manner.hold.into();
        }
        let (name, ends_with_hold) = (name.clone(), *ends_with_hold);
        let wait = Wait { name, agent, ends_with_hold, arguments };
        (if ends_with_hold { &mut kept } else { &mut woken }).spawn(wait.run());
    }
    // The others may be over.
    for (name, ..) in manners.iter().filter(|(.., ends_with_hold)| !ends_with_hold) {
        let waits = async {
            let asked = json!({ "loop": name });
            while a.call("loop_status", asked.clone()).await["structuredContent"]["waiting"]
                != json!([name])
            {}
        };
        soon(waits).await;
    }

    let long = Duration::from_secs(secs + LATE_SECS);
    while let Some(ended) = timeout(long, kept.join_next()).await.expect("in time") {
        ended.unwrap().check(secs);
    }
    for (name, _, _, ends_with_hold) in &manners {
        if !ends_with_hold {
            let words = json!({ "work_summary": "done", "is_task_complete": false, "loop": name,
                "next_instruction": format!("go on with {name}"), "to": name });
            let done = soon(a.call("handover_work", words)).await;
            assert_ne!(done["isError"], true, "{name}: {done}");
        }
    }
    while let Some(ended) = soon(woken.join_next()).await {
        ended.unwrap().check(secs);
    }
}
