//! What a client calls when a session begins, a tool was called or a turn ends.
//!
//! It asks the running node, which answers from memory, and never fails: clients take some exit codes
//! for a refusal, and a node that is gone is no reason to stop anybody's work.

use std::{io::Read as _, time::Duration};

use tasuki_proto::id::RoleId;

use super::setup;
use crate::{
    agent_tokens::Bearing,
    cli::{Exit, Failure, Output, node_address, role_args},
    config::Config,
    mcp::ask,
    wake::{
        client::{ANSWER_SECS, HookClient, HookEvent, WAIT_SECS},
        hook::{Answer, INPUT_BYTES_MAX, answer, read},
        service::HookCall,
        usage::{self, Hook, Untold},
    },
};

/// What is left of a client's patience when we give up, in seconds.
const MARGIN_SECS: u64 = 2;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What happened
    #[arg(value_enum)]
    event: HookEvent,
    /// The client that calls
    #[arg(long, value_enum)]
    client: HookClient,
    /// The role that it plays
    #[arg(long = "as", value_name = "ROLE")]
    role: Option<RoleId>,
}

pub(super) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let text = ask_node(args, config).await;
    let Answer { out, err, exit } = answer(args.client, args.event, text.as_deref());
    if !out.is_empty() {
        output.raw(&out)?;
    }
    if !err.is_empty() {
        output.note(err.trim_end());
    }
    // The only code that is ever left: it wakes an idle session.
    if exit == 0 { Ok(()) } else { Err(Failure::told(Exit::Usage)) }
}

/// What the node has to say; nothing where there is none.
async fn ask_node(args: &Args, config: &Config) -> Option<String> {
    let input = tokio::task::spawn_blocking(|| {
        let mut input = Vec::new();
        // What cannot be read says nothing.
        drop(std::io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut input));
        input
    });
    let said = input.await.unwrap_or_default();
    let input = read(&said);
    let role = role_args::role(args.role.as_ref(), config, "").ok()?;
    let node = config.running_node()?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    let secs = if args.event == HookEvent::Wait { WAIT_SECS } else { ANSWER_SECS };
    let within = Duration::from_secs(secs.saturating_sub(MARGIN_SECS));
    let mut call = HookCall::new(args.client, args.event, input);
    let untold = untold(args, config, said).await;
    call.usage = untold.as_ref().map(|it| it.usage.clone());
    let body = serde_json::to_vec(&call).ok()?;
    let told = ask::post_within(&node, &format!("/wake/{role}"), body.into(), within).await;
    let told = told.ok()?;
    if let Some(untold) = untold.filter(|_| told["is_usage_told"] == true) {
        untold.told();
    }
    told["text"].as_str().map(str::to_owned)
}

/// Tokens that the client wrote down, and the broker does not know of.
async fn untold(args: &Args, config: &Config, said: Vec<u8>) -> Option<Untold> {
    let (client, event) = (args.client, args.event);
    let home = setup::user_file(client).ok()?.parent()?.to_owned();
    let hook = Hook { client, event, home, data: config.data.value.clone() };
    tokio::task::spawn_blocking(move || usage::untold(&hook, &said)).await.ok()?
}
