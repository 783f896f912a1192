//! Two agents take turns at a piece of work, five turns each.
//!
//! A broker and two nodes run as processes of their own. The agents follow a script; everything
//! else is as with real ones: they speak MCP to the node beside them and know nothing of the
//! broker. Run it, after `cargo build --workspace`:
//! `cargo run -p tasuki-examples --example two_agents`.

use anstream::println;
use serde_json::json;
use tasuki_examples::{
    Result,
    mcp::Agent,
    relay::{ROLES, Relay},
};

/// What A does and what it asks for, then the same for B, in the order of the turns.
const SCRIPT: [[&str; 2]; 10] = [
    ["wrote down what `parse_duration` must accept", "write tests for it"],
    ["wrote 12 tests, all failing", "make them pass"],
    ["implemented it, 11 of 12 pass", "is `1h30` without a unit at the end an error?"],
    ["it is an error; changed the test", "handle overflow too"],
    ["saturates at 584 years", "review it"],
    ["found a panic on an empty text", "fix that one"],
    ["fixed, with a test", "review it again"],
    ["reads well; the documentation is missing", "document the units"],
    ["documented, with an example for each", "last look, please"],
    ["nothing left to say", "done"],
];

#[tokio::main]
async fn main() -> Result<()> {
    let relay = Relay::start().await?;
    println!("broker   {}", relay.broker.url());
    println!("node A   {}/mcp/A", relay.nodes[0].url());
    println!("node B   {}/mcp/B", relay.nodes[1].url());
    println!();
    // B comes first and has to wait: it is A that begins.
    let b = tokio::spawn(play(relay.agent(1).await?, ROLES[1]));
    let a = tokio::spawn(play(relay.agent(0).await?, ROLES[0]));
    let turns = a.await?? + b.await??;

    let history = relay.history().await?;
    println!("\n{turns} turns; the broker's history has {} handovers", history.len());
    assert_eq!(turns, SCRIPT.len(), "every turn was played once");
    assert_eq!(history.len(), SCRIPT.len(), "every handover is there once");
    relay.stop().await
}

/// What an agent is told to do in its prompt: wait, work, hand over, until it is finished.
async fn play(mut agent: Agent, role: &str) -> Result<usize> {
    let mut played = 0;
    loop {
        let told = agent.call("await_my_turn", json!({ "agent_id": role })).await?.json()?;
        if told["is_finished"] == true {
            println!("         {role} hears that the work is finished");
            return Ok(played);
        }
        if told["can_start"] != true {
            // The hold is over, the wait is not: ask again.
            continue;
        }
        let turn = usize::try_from(told["turn"].as_u64().ok_or("a turn has a number")?)?;
        let asked = told["instruction"].as_str().unwrap_or("begin");
        let [summary, instruction] = SCRIPT[turn - 1];
        println!("turn {turn:>2}  {role} was asked: {asked}");
        println!("         {role} {summary}");
        let handover = json!({
            "current_agent_id": role,
            "work_summary": summary,
            "next_instruction": instruction,
            "is_task_complete": turn == SCRIPT.len(),
        });
        let said = agent.call("handover_work", handover).await?;
        if said.is_error {
            return Err(said.text.into());
        }
        played += 1;
    }
}
