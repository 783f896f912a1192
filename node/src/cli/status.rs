//! `tasuki status`: everything at a glance.

use std::{fmt::Write as _, time::Duration};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::{reason::Reason, wire};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    Failure, Output,
    access::Access,
    broker::Broker,
    loop_view, loops, mirror, node_address,
    outbox::Waiting,
    text::{line, time},
};
use crate::{
    agent_tokens::Bearing,
    config::{Config, Role},
    hooks::Report,
    mcp::{self, ask},
    paths::NodeFile,
    toolset::ToolsetChoice,
};

struct Seen {
    health: ServingStatus,
    access: Option<Access>,
    nodes: Vec<wire::Node>,
    roles: Vec<wire::Role>,
    loops: Vec<wire::Loop>,
    /// Of each role in turn, how large its tools are for a model, in bytes.
    tools_bytes: Vec<usize>,
    /// Of the node here.
    hooks: Vec<Report>,
    outbox: Waiting,
    /// On disk, of the node here.
    mailboxes: Vec<crate::mirror::Report>,
}

pub(crate) async fn run(config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    match look(&broker, config).await {
        Ok(seen) => output.answer(|| value(&broker, &seen), || lines(&broker, &seen)),
        Err(failure) => {
            let waiting = Waiting::count(&config.data.value);
            output.guide(|| waiting.lines())?;
            output.beside("outbox", waiting.value());
            if failure.as_reason() == Some(Reason::Unavailable)
                && let Some(told) = remembered(&broker, config).await
                && let Some(lines) = from_memory(&told)
            {
                output.guide(|| lines)?;
                output.beside("loops", told["loops"].clone());
            }
            Err(failure)
        }
    }
}

/// What the node here last saw of that broker, if it is of the same workspace.
async fn remembered(broker: &Broker, config: &Config) -> Option<Value> {
    let workspace = broker.workspace().as_str();
    let is_meant = |node: &NodeFile| node.is_at(&broker.url) && node.workspace == workspace;
    let mut told = told_by_node(config, is_meant).await?;
    told.get_mut("broker").map(Value::take)
}

/// What the node here says of itself.
async fn told_by_node(config: &Config, is_meant: impl Fn(&NodeFile) -> bool) -> Option<Value> {
    let node = NodeFile::read(&config.data.value).filter(is_meant)?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    ask::get(&node, "/status").await.ok()
}

/// How the hooks of the node here do; none where there is no node.
async fn hooks(config: &Config) -> Vec<Report> {
    let told = told_by_node(config, |_| true).await;
    let hooks = told.map(|mut told| told["hooks"].take()).unwrap_or_default();
    serde_json::from_value(hooks).unwrap_or_default()
}

fn hook_lines(of: &Report) -> String {
    let mut out = format!("  {}  {} made", line(&of.hook).bold(), of.made);
    let mut add = |count: u64, what: &str| {
        if count != 0 {
            out += &format!(", {count} {what}");
        }
    };
    add(of.failed, "failed");
    add(of.waiting as u64, "waiting");
    add(of.dead_letters as u64, "dead letters (`tasuki mail-hook list`)");
    let unusable = of.unusable.iter().map(|why| format!("is not called: {}", line(why)));
    let deaf = of.deaf.iter().map(|why| format!("hears of no events: {}", line(why)));
    let missed = of.missed.iter().map(|what| format!("missed {}", line(what)));
    let failure = of.last_failure.iter();
    let failure = failure.map(|it| format!("failed last {}: {}", time(it.at_ms), line(&it.why)));
    for said in unusable.chain(deaf).chain(missed).chain(failure) {
        out += &format!("\n    {}", said.yellow());
    }
    out + "\n"
}

fn from_memory(told: &Value) -> Option<String> {
    let loops = told["loops"].as_array().filter(|loops| !loops.is_empty())?;
    let ago = Duration::from_secs(loops[0]["seen_ms_ago"].as_u64()? / 1000);
    let ago = humantime::format_duration(ago);
    let mut out = format!("{}\n", format!("loops as the node here saw them {ago} ago").bold());
    for of in loops {
        let text = |field: &str| line(of[field].as_str().unwrap_or_default());
        let (name, status, holder) = (text("loop"), text("status"), text("holder"));
        let turn = &of["turn"];
        out += &format!("  {} {status}: {holder} had turn {turn}\n", name.bold());
    }
    Some(out)
}

async fn look(broker: &Broker, config: &Config) -> Result<Seen, Failure> {
    let service = String::new();
    let health = broker
        .ask(async |c| {
            HealthClient::new(c).check(HealthCheckRequest { service: service.clone() }).await
        })
        .await?
        .status();
    let access = Access::look(broker).await?;
    let request = wire::ListNodesRequest::default();
    let nodes = broker.call(&request).await?;
    let roles = every_role(broker).await?;
    let loops = loops::every(broker).await?;
    let hooks = hooks(config).await;
    let mailboxes = mirror::mailboxes(config).await.unwrap_or_default();
    let tools_bytes = roles.iter().map(|of| mcp::tools_bytes(&toolsets(of, config))).collect();
    let outbox = Waiting::count(&config.data.value);
    let nodes = nodes.nodes;
    Ok(Seen { health, access, nodes, roles, loops, tools_bytes, hooks, outbox, mailboxes })
}

/// All roles of the workspace, page by page.
async fn every_role(broker: &Broker) -> Result<Vec<wire::Role>, Failure> {
    let (mut roles, mut request) = (Vec::new(), wire::ListRolesRequest::default());
    loop {
        let page = broker.call(&request).await?;
        roles.extend(page.roles);
        if page.next.is_empty() {
            return Ok(roles);
        }
        request.after = page.next;
    }
}

/// The toolsets of a role. Whether one is shown in full, its node's configuration says.
fn toolsets(of: &wire::Role, config: &Config) -> Vec<ToolsetChoice> {
    let here = config.roles.value.iter().find(|role| role.name.as_str() == of.role);
    let names = |role: &&Role| {
        let sets = role.toolsets.iter().map(|choice| choice.set);
        sets.eq(of.toolsets.iter().map(String::as_str))
    };
    match here.filter(names) {
        Some(role) => role.toolsets.clone(),
        None => of.toolsets.iter().filter_map(|name| name.parse().ok()).collect(),
    }
}

fn health_name(health: ServingStatus) -> &'static str {
    match health {
        ServingStatus::Serving => "serving",
        ServingStatus::NotServing => "not_serving",
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => "unknown",
    }
}

fn value(broker: &Broker, seen: &Seen) -> Value {
    let roles = seen.roles.iter().zip(&seen.tools_bytes).map(|(role, bytes)| {
        let mut role = json!(role);
        role["tools_bytes"] = (*bytes).into();
        role
    });
    let roles: Vec<Value> = roles.collect();
    json!({
        "broker": {"url": broker.url, "health": health_name(seen.health)},
        "access": seen.access.as_ref().map(Access::value),
        "workspace": broker.workspace().as_str(),
        "nodes": seen.nodes,
        "roles": roles,
        "loops": seen.loops,
        "hooks": seen.hooks,
        "outbox": seen.outbox.value(),
        "mirror": seen.mailboxes,
    })
}

fn lines(broker: &Broker, seen: &Seen) -> String {
    let health = match seen.health {
        ServingStatus::Serving => "healthy".green().to_string(),
        ServingStatus::NotServing => {
            "not healthy: no durable write succeeded lately".red().to_string()
        }
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            "does not say how it is".yellow().to_string()
        }
    };
    let mut out = format!("broker {} {health}\n", broker.url);
    out += &seen.access.as_ref().map(Access::lines).unwrap_or_default();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    write(format_args!("workspace {}\n", broker.workspace()));
    write(format_args!("\n{}\n", "nodes".bold()));
    for node in &seen.nodes {
        let roles = line(&node.roles.join(", "));
        let there = presence(node.is_present, node.last_seen_ms);
        let software = line(&node.software);
        let name = line(&node.node);
        write(format_args!("  {name}  {there}  {roles}  {}\n", software.dimmed()));
    }
    if seen.nodes.is_empty() {
        write(format_args!("  none; `tasuki up` or `tasuki node` starts one\n"));
    }
    write(format_args!("\n{}\n", "roles".bold()));
    for (role, bytes) in seen.roles.iter().zip(&seen.tools_bytes) {
        write(format_args!("{}", role_line(role, *bytes)));
    }
    if seen.roles.is_empty() {
        write(format_args!("  none\n"));
    }
    write(format_args!("\n{}\n", "loops".bold()));
    for of in &seen.loops {
        for row in loop_view::render_loop(of).lines() {
            write(format_args!("  {row}\n"));
        }
    }
    if seen.loops.is_empty() {
        write(format_args!("  none; `tasuki loop start` opens one\n"));
    }
    if !seen.hooks.is_empty() {
        write(format_args!("\n{}\n", "hooks of the node here".bold()));
    }
    for hook in &seen.hooks {
        write(format_args!("{}", hook_lines(hook)));
    }
    out += &seen.outbox.lines();
    if !seen.mailboxes.is_empty() {
        out += &format!("\n{}\n", "mailboxes kept as files by the node here".bold());
    }
    out += &seen.mailboxes.iter().map(|of| mirror::of_mailbox(of, false)).collect::<String>();
    out
}

fn role_line(role: &wire::Role, tools_bytes: usize) -> String {
    let there = presence(role.is_present, role.last_seen_ms);
    let waits = match role.waits.as_slice() {
        [] => String::new(),
        waits => format!("  waits for {}", line(&waits.join(", "))),
    };
    // Whoever no node hosts is shown none.
    let tools = match role.node.as_str() {
        "" => String::new(),
        _ => format!("  {}", format!("tools {:.1} KiB", tools_bytes as f64 / 1024.0).dimmed()),
    };
    let (name, client) = (line(&role.role), line(&role.client));
    format!("  {}  {there}{waits}  {}{tools}\n", name.bold(), client.dimmed())
}

fn presence(is_present: bool, last_seen_ms: u64) -> String {
    match (is_present, last_seen_ms) {
        (true, _) => "present".green().to_string(),
        // A node tells of its agents every few seconds, and a broker that starts anew asks nobody.
        (false, 0) => "not heard of since the broker started".dimmed().to_string(),
        (false, ms) => format!("away since {}", time(ms)).yellow().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_remembers_is_shown_with_its_age() {
        let of = json!({
            "seen_ms_ago": 102_400, "loop": "main", "status": "working", "turn": 7,
            "holder": "B\u{1b}[31m",
        });
        let told = from_memory(&json!({ "loops": [of] })).expect("something");
        let plain = anstream::adapter::strip_str(&told).to_string();
        let expected = "loops as the node here saw them 1m 42s ago\n  main working: B had turn 7\n";
        assert_eq!(plain, expected);
        assert_eq!(from_memory(&json!({ "url": "u" })), None);
        assert_eq!(from_memory(&Value::Null), None);
    }

    #[test]
    fn a_role_says_what_the_broker_knows_of_it() {
        let shown = |node: &str| {
            let role = wire::Role { role: "B".into(), node: node.into(), ..wire::Role::default() };
            anstream::adapter::strip_str(&role_line(&role, 2_560)).to_string()
        };
        let unheard = "  B  not heard of since the broker started  ";
        assert_eq!(shown("desk"), format!("{unheard}  tools 2.5 KiB\n"));
        assert_eq!(shown(""), format!("{unheard}\n"));
    }

    #[test]
    fn a_hook_that_fails_says_so() {
        let shown = |told: Value| {
            let report: Report = serde_json::from_value(told).expect("a report");
            anstream::adapter::strip_str(&hook_lines(&report)).to_string()
        };
        let fine = json!({
            "hook": "notify", "made": 7, "failed": 0, "waiting": 0, "dead_letters": 0,
            "sequence": 40,
        });
        assert_eq!(shown(fine), "  notify  7 made\n");
        let failing = json!({
            "hook": "post", "made": 0, "failed": 2, "waiting": 1, "dead_letters": 2,
            "sequence": 40, "missed": "events 3 to 9", "deaf": "no answer",
            "last_failure": {
                "at_ms": 1_795_305_600_000_u64, "id": "00ff", "why": "answered 500: \u{1b}[2Jx",
            },
        });
        assert_eq!(
            shown(failing),
            "  post  0 made, 2 failed, 1 waiting, 2 dead letters (`tasuki mail-hook list`)\n    \
             hears of no events: no answer\n    missed events 3 to 9\n    failed last 2026-11-22 00:00:00Z: answered 500: x\n"
        );
    }
}
