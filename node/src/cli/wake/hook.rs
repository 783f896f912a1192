//! What a client calls when a session begins or ends, a tool was called or a turn ends.
//!
//! It asks the running node, which answers from memory, and never fails: clients take some exit codes
//! for a refusal, and a node that is gone is no reason to stop anybody's work.
//!
//! Where the session that plays the role is gone, what the role holds is given back by a process that
//! outlives this one: clients that end wait for a second or so. Where `tasuki launch` watches over the
//! session, that does it.

use std::{io::Read as _, time::Duration};

use tasuki_proto::id::RoleId;

use super::setup;
use crate::{
    agent_tokens::Bearing,
    cli::{
        Exit, Failure, Output,
        broker::Broker,
        launch::{
            order::is_watched,
            session_end::{self, Ended},
            terminal::spawn_apart,
        },
        node_address, role_args,
    },
    config::Config,
    launch::session::Why,
    mcp::ask,
    step_key::STEP_TOKEN_VARIABLE,
    wake::{
        client::{ANSWER_SECS, HookClient, HookEvent, WAIT_SECS},
        hook::{Answer, Gone, INPUT_BYTES_MAX, Input, answer, read},
        service::{HookAnswer, HookCall},
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
    /// Give back what the role holds: nothing is left of the quota, as this says; empty: the session
    /// ended
    #[arg(long, value_name = "WORDS")]
    give_back: Option<String>,
}

pub(super) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    if let Some(words) = &args.give_back {
        return give_back(args, words, config).await;
    }
    let input = tokio::task::spawn_blocking(|| {
        let mut input = Vec::new();
        // What cannot be read says nothing.
        drop(std::io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut input));
        input
    });
    let said = input.await.unwrap_or_default();
    let input = read(&said);
    let told = ask_node(args, &input, said, config).await.unwrap_or_default();
    let HookAnswer { text, is_left, .. } = told;
    if is_left && let Some(gone) = input.gone {
        leave(args, gone, config);
    }
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
async fn ask_node(
    args: &Args,
    input: &Input,
    said: Vec<u8>,
    config: &Config,
) -> Option<HookAnswer> {
    // A sub-agent of a run finds the hooks of its project, but it plays none of its roles.
    if std::env::var_os(STEP_TOKEN_VARIABLE).is_some_and(|it| !it.is_empty()) {
        return None;
    }
    let role = role(args, config)?;
    let node = config.running_node()?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    let secs = if args.event == HookEvent::Wait { WAIT_SECS } else { ANSWER_SECS };
    let within = Duration::from_secs(secs.saturating_sub(MARGIN_SECS));
    let mut call = HookCall::new(args.client, args.event, input);
    let untold = untold(args, config, said).await;
    call.usage = untold.as_ref().map(|it| it.usage.clone());
    let body = serde_json::to_vec(&call).ok()?;
    let told = ask::post_within(&node, &format!("/wake/{role}"), body.into(), within).await;
    let told: HookAnswer = serde_json::from_value(told.ok()?).ok()?;
    if let Some(untold) = untold.filter(|_| told.is_usage_told) {
        untold.told();
    }
    Some(told)
}

/// Tokens that the client wrote down, and the broker does not know of.
async fn untold(args: &Args, config: &Config, said: Vec<u8>) -> Option<Untold> {
    let (client, event) = (args.client, args.event);
    let home = setup::user_file(client).ok()?.parent()?.to_owned();
    let hook = Hook { client, event, home, data: config.data.value.clone() };
    tokio::task::spawn_blocking(move || usage::untold(&hook, &said)).await.ok()?
}

fn role(args: &Args, config: &Config) -> Option<RoleId> {
    role_args::role(args.role.as_ref(), config, "").ok()
}

/// Starts what gives back, unless somebody else does it.
fn leave(args: &Args, gone: Gone, config: &Config) {
    let is_launched =
        role(args, config).is_none_or(|role| is_watched(&config.data.value, &role).unwrap_or(true));
    let (false, Ok(program)) = (is_launched, std::env::current_exe()) else { return };
    let words = match gone {
        Gone::Ended => String::new(),
        Gone::Quota(said) => said,
    };
    let mut again = std::process::Command::new(program);
    again.args(std::env::args_os().skip(1)).arg(format!("--give-back={words}"));
    // Where it does not start, the leases lapse.
    drop(spawn_apart(&mut again));
}

/// Gives back what the role holds. Turns and claims are handed on under their numbers: what another
/// agent holds by then stays.
async fn give_back(args: &Args, words: &str, config: &Config) -> Result<(), Failure> {
    let role = role_args::role(args.role.as_ref(), config, "")?;
    let project = std::env::current_dir().unwrap_or_default();
    let why = match words {
        "" => Why::Ended,
        said => Why::Quota(said.to_owned()),
    };
    let ended = Ended { role: &role, agent: args.client.title(), why: &why, project: &project };
    session_end::report(ended, &Broker::new(config)).await.map(drop)
}
