//! Two agents at work while broker and nodes are killed under them.
//!
//! `kill -9` of the broker, of a node, of both, each while a turn is being played. The agents do
//! what any agent does whose call failed: call again. At the end the history must hold every
//! handover once, with turns numbered without a gap. Run it, after `cargo build --workspace`:
//! `cargo run -p tasuki-examples --example crash_and_resume`.

use anstream::println;
use serde_json::json;
use tasuki_examples::{
    Result,
    mcp::Agent,
    relay::{ROLES, Relay},
};
use tokio::sync::{mpsc, oneshot};

/// Turns played.
const TURNS: u64 = 12;

/// What happens while this turn is being played.
fn accident(turn: u64) -> Option<Accident> {
    match turn {
        3 => Some(Accident { broker: true, node: false, is_mid_call: false }),
        5 => Some(Accident { broker: true, node: false, is_mid_call: true }),
        6 => Some(Accident { broker: false, node: true, is_mid_call: false }),
        8 => Some(Accident { broker: false, node: true, is_mid_call: true }),
        10 => Some(Accident { broker: true, node: true, is_mid_call: true }),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Accident {
    broker: bool,
    /// The one beside the agent whose turn it is.
    node: bool,
    /// While it hands over, so that the answer may be lost when all else is done.
    is_mid_call: bool,
}

/// An agent at work.
struct Working {
    role: usize,
    turn: u64,
    /// Lets it hand over.
    go_on: oneshot::Sender<()>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut relay = Relay::start().await?;
    let (working, mut at_work) = mpsc::channel(1);
    let a = tokio::spawn(play(relay.agent(0).await?, 0, working.clone()));
    let b = tokio::spawn(play(relay.agent(1).await?, 1, working));

    while let Some(Working { role, turn, go_on }) = at_work.recv().await {
        println!("turn {turn:>2}  {} works", ROLES[role]);
        let mut go_on = Some(go_on);
        // One that is not waiting ended with an error: `play` says which.
        let mut hand_over = || go_on.take().map(|go_on| go_on.send(()));
        let Some(Accident { broker, node, is_mid_call }) = accident(turn) else {
            hand_over();
            continue;
        };
        if is_mid_call {
            hand_over();
        }
        if broker {
            relay.broker.kill().await?;
            println!("         kill -9 of the broker");
        }
        if node {
            relay.nodes[role].kill().await?;
            println!("         kill -9 of the node of {}", ROLES[role]);
        }
        // If it did not yet, the agent hands over to a system of which a part is gone.
        hand_over();
        if broker {
            relay.restart_broker().await?;
            println!("         the broker is back");
        }
        if node {
            relay.restart_node(role).await?;
            println!("         the node of {} is back", ROLES[role]);
        }
    }
    a.await??;
    b.await??;

    let history = relay.history().await?;
    let ended: Vec<u64> = history.iter().map(|entry| entry.ended_turn).collect();
    let expected: Vec<u64> = (1..=TURNS).collect();
    assert_eq!(ended, expected, "every turn ended once, in order");
    for entry in &history {
        assert_eq!(entry.summary, did(entry.ended_turn), "with what was done in it");
    }
    println!("\nnothing lost, nothing twice: {TURNS} turns, {} handovers", history.len());
    relay.stop().await
}

fn did(turn: u64) -> String {
    format!("what was done in turn {turn}")
}

async fn play(mut agent: Agent, role: usize, working: mpsc::Sender<Working>) -> Result<()> {
    let await_turn = json!({ "agent_id": ROLES[role] });
    loop {
        let told = agent.call_until_answered("await_my_turn", &await_turn).await?.json()?;
        if told["is_finished"] == true {
            return Ok(());
        }
        if told["can_start"] != true {
            continue;
        }
        let turn = told["turn"].as_u64().ok_or("a turn has a number")?;
        let (go_on, going_on) = oneshot::channel();
        working.send(Working { role, turn, go_on }).await?;
        going_on.await?;
        // The turn is named so that a call that is made again is known again, even when the
        // other agent has answered meanwhile.
        let handover = json!({
            "current_agent_id": ROLES[role],
            "work_summary": did(turn),
            "next_instruction": "go on",
            "is_task_complete": turn == TURNS,
            "turn": turn,
        });
        let said = agent.call_until_answered("handover_work", &handover).await?;
        if said.is_error {
            return Err(said.text.into());
        }
    }
}
