//! `tasuki wake status`.

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::id::RoleId;

use crate::{
    agent_tokens::Bearing,
    cli::{
        Failure, Output, node_address,
        text::{line, time},
    },
    config::Config,
    mcp::ask,
    wake::service::{LastWake, RoleReport},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this role
    #[arg(value_name = "ROLE")]
    role: Option<RoleId>,
}

pub(super) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let roles = reports(config).await?;
    let is_meant =
        |it: &&RoleReport| args.role.as_ref().is_none_or(|role| role.as_str() == it.role);
    let meant: Vec<&RoleReport> = roles.iter().filter(is_meant).collect();
    if let (Some(role), true) = (&args.role, meant.is_empty()) {
        let names: Vec<&str> = roles.iter().map(|it| it.role.as_str()).collect();
        return Err(Failure::usage(format!(
            "The node here does not host {role}; it hosts {}. Ask on the machine whose node hosts \
             it; `tasuki status` shows which that is.",
            names.join(", ")
        )));
    }
    output.answer(|| json!({ "roles": meant }), || meant.iter().map(|it| lines(it)).collect())
}

/// What the node here says of each role.
pub(super) async fn reports(config: &Config) -> Result<Vec<RoleReport>, Failure> {
    let data = &config.data.value;
    let node = config.running_node().ok_or_else(|| node_address::not_running(data))?;
    let node = node_address::local(node, data, &Bearing::Node);
    let told = ask::get(&node, "/wake").await.map_err(node_address::failure)?;
    Ok(parse(told))
}

pub(super) fn parse(mut told: Value) -> Vec<RoleReport> {
    serde_json::from_value(told["roles"].take()).unwrap_or_default()
}

fn lines(it: &RoleReport) -> String {
    let client = if it.client.is_empty() { "no agent has called" } else { &it.client };
    let mut out = format!("{}  {}\n", it.role.bold(), line(client));
    out += &format!("  {}\n", way(it));
    if let Some(problem) = &it.problem {
        out += &format!("  {}\n", line(problem).yellow());
    }
    if let Some(last) = &it.last {
        out += &format!("  {}\n", last_wake(last));
    }
    out
}

/// How what comes now reaches the agent.
pub(super) fn way(it: &RoleReport) -> String {
    let hooks = it.hooks.map(|client| client.title());
    match (&*it.adapters, &it.way, hooks) {
        _ if it.waits != 0 => "waits for what comes, which wakes it by itself".to_owned(),
        _ if it.is_polling => "polls a task, which wakes it by itself".to_owned(),
        (_, Some(way), Some(hooks)) if way == "hook" => {
            format!("a hook of {hooks} waits behind its idle session")
        }
        (_, Some(way), _) => format!("woken by {way}"),
        ([], None, None) => {
            "not set up: it sees what comes when it next calls; `tasuki wake setup CLIENT` sets it up"
                .to_owned()
        }
        (adapters, None, hooks) => {
            let hooks = hooks.map(|hooks| format!("hooks of {hooks} tell it at the end of a turn"));
            let all = hooks.into_iter().chain(
                (!adapters.is_empty())
                    .then(|| format!("{} is used once it has called", adapters.join(", "))),
            );
            all.collect::<Vec<_>>().join("; ")
        }
    }
}

fn last_wake(last: &LastWake) -> String {
    let at = time(last.at_ms);
    let by = line(&last.by);
    if let Some(why) = &last.why {
        return format!("not woken by {by} at {at}: {}", line(why));
    }
    let seconds = |ms: u64| f64::from(u32::try_from(ms).unwrap_or(u32::MAX)) / 1000.0;
    match last.called_after_ms {
        Some(ms) => format!("woken by {by} at {at}, it called {:.1} s later", seconds(ms)),
        None => format!("woken by {by} at {at}, it has not called since"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::client::HookClient;

    #[test]
    fn each_role_is_said_to_be_reached_as_it_is() {
        let none = parse(json!({ "roles": [{
            "role": "B", "client": "", "is_hook_waiting": false, "adapters": [], "waits": 0,
            "is_polling": false,
        }]}));
        let none = none.into_iter().next().unwrap();
        let hooks = RoleReport { hooks: Some(HookClient::Codex), ..none.clone() };
        let both = RoleReport { adapters: vec!["codex".into()], ..hooks.clone() };
        let pushed = RoleReport { way: Some("codex".into()), ..both.clone() };
        let waiting = RoleReport {
            way: Some("hook".into()),
            hooks: Some(HookClient::Claude),
            ..none.clone()
        };
        for (it, expected) in [
            (&none, "not set up"),
            (&hooks, "hooks of Codex tell it at the end of a turn"),
            (
                &both,
                "hooks of Codex tell it at the end of a turn; codex is used once it has called",
            ),
            (&pushed, "woken by codex"),
            (&waiting, "a hook of Claude Code waits behind its idle session"),
            (&RoleReport { waits: 1, ..none.clone() }, "waits for what comes"),
            (&RoleReport { is_polling: true, ..none.clone() }, "polls a task"),
        ] {
            assert!(way(it).starts_with(expected), "{it:?}: {}", way(it));
        }
        let last = LastWake {
            at_ms: 0,
            by: "tmux".into(),
            arrivals: 1,
            why: None,
            called_after_ms: Some(3_240),
        };
        assert!(last_wake(&last).ends_with("it called 3.2 s later"), "{}", last_wake(&last));
    }
}
