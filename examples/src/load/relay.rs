//! From a handover at one MCP client to the waiter woken at the other: client, node, broker,
//! the other node, the other client.
//!
//! Both clients are in this process, so that one clock measures; all else is in processes of
//! its own.

use std::{error::Error, time::Duration};

use serde_json::{Value, json};
use tasuki_proto::wire::{GetLoopRequest, turn_loop_client::TurnLoopClient};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{
    Figure, Quantity, Sizes, Target,
    calls::lift_limits,
    limits::{self, Disk},
    median, micros,
};
use crate::{
    Result,
    mcp::{Agent, Said},
    relay::{ROLES, Relay},
};

/// # Errors
/// When a call fails.
pub async fn handover(sizes: &Sizes) -> Result<Vec<Figure>> {
    let echo = limits::start("mcp-echo").await?;
    let mut bare = Agent::connect(&format!("{}/mcp", echo.url()), "load").await?;
    let mut disk = Disk::new(&sizes.dir)?;
    let relay = Relay::start_in(&sizes.dir).await?;
    let mut agents = [relay.agent(0).await?, relay.agent(1).await?];
    let mut loops = TurnLoopClient::connect(relay.broker.url().to_owned()).await?;
    lift_limits(&relay.broker, "").await?;
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut holder = 0;
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut handovers) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.handovers {
            let began = Instant::now();
            bare.call("echo", handover_of(holder)).await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            let (time, back) = hand_over(agents, holder, &mut loops).await?;
            (agents, holder) = (back, 1 - holder);
            handovers.push(micros(time));
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let limit = 2.0 * median(&mut calls) + median(&mut appends);
        let value = median(&mut handovers);
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    drop(agents);
    relay.stop().await?;
    Ok(vec![Figure {
        name: "handover to woken waiter, MCP to MCP".into(),
        value: Quantity::Micros(median(&mut values)),
        limit: Some(("2 bare calls + append".into(), Quantity::Micros(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::AtMost(1.5),
    }])
}

fn handover_of(holder: usize) -> Value {
    json!({
        "current_agent_id": ROLES[holder],
        "work_summary": "s".repeat(200),
        "next_instruction": "i".repeat(200),
        "is_task_complete": false,
    })
}

/// The holder hands over to the other, who waits.
async fn hand_over(
    agents: [Agent; 2],
    holder: usize,
    loops: &mut TurnLoopClient<Channel>,
) -> Result<(Duration, [Agent; 2])> {
    let [a, b] = agents;
    let (mut giver, mut taker) = if holder == 0 { (a, b) } else { (b, a) };
    let waits = tokio::spawn(async move {
        let wait = json!({ "agent_id": ROLES[1 - holder] });
        let said = taker.call("await_my_turn", wait).await;
        (said, Instant::now(), taker)
    });
    while !is_waiting(loops, ROLES[1 - holder]).await? {
        if waits.is_finished() {
            return Err(too_early(&waits.await?.0?));
        }
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    refused(&giver.call("handover_work", handover_of(holder)).await?)?;
    let (said, woken, taker) = waits.await?;
    let told = said?.json()?;
    if told["can_start"] != true {
        return Err(format!("the waiter was told {told}").into());
    }
    let agents = if holder == 0 { [giver, taker] } else { [taker, giver] };
    Ok((woken.duration_since(began), agents))
}

/// A wait that ends before anything was sent would be waited for without an end.
pub(super) fn too_early(said: &Said) -> Box<dyn Error + Send + Sync> {
    format!("the waiter was answered before anything was sent: {}", said.text).into()
}

fn refused(said: &Said) -> Result<()> {
    if said.is_error { Err(said.text.as_str().into()) } else { Ok(()) }
}

async fn is_waiting(loops: &mut TurnLoopClient<Channel>, role: &str) -> Result<bool> {
    let state = loops.get_loop(GetLoopRequest::default()).await?.into_inner();
    Ok(state.r#loop.is_some_and(|it| it.waiting.iter().any(|waiting| waiting == role)))
}
