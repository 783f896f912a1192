//! `tasuki take-over`: a person gives a role to another agent.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, IsTerminal as _},
    str::FromStr,
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::{
    id::{InstanceId, InvalidId, RoleId},
    reason::Reason,
};

use super::{
    Failure, Output,
    connect::configured,
    hosting,
    reach::{self, Given, Shown},
    text::line,
};
use crate::{
    agent_tokens::Bearing,
    config::Config,
    mcp::{
        ask::{Error, get, post},
        dial::NodeAt,
    },
    paths::NodeFile,
};

/// Give a role to another agent than the one that plays it.
///
/// One agent at a time plays a role, unless the role is declared `shared`. Another one is
/// refused until the first has ended its session, or was quiet for a quarter of an hour. This
/// ends that at once: the first agent's wait ends, its later calls are refused, and a turn that
/// is held stays with the role. Agents are told apart by `?as=ID` in the address they connect
/// to, or `tasuki mcp --as ID`; `tasuki connect` gives each client an id.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The role to give
    #[arg(long, value_name = "ROLE")]
    role: RoleId,
    /// The agent that gets it; '' is the agent without an id [default: list the agents and ask]
    #[arg(long = "as", value_name = "ID")]
    agent: Option<Agent>,
    #[command(flatten)]
    given: Given,
}

/// An agent by its id; `None`: the one without an id.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Agent(Option<InstanceId>);

impl FromStr for Agent {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text.is_empty() { Ok(Self(None)) } else { Ok(Self(Some(text.parse()?))) }
    }
}

impl Agent {
    fn named(&self) -> &str {
        self.0.as_ref().map_or("the agent without an id", InstanceId::as_str)
    }

    /// As an argument of a command line.
    fn argument(&self) -> &str {
        self.0.as_ref().map_or("''", InstanceId::as_str)
    }
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let Args { role, agent, given } = args;
    let data = &config.data.value;
    let file = NodeFile::read(data);
    let node = reach::elsewhere(&given, &Shown::of_process(None), file.as_ref())?;
    let here = || file.map(|file| reach::running(file, data, &Bearing::Node));
    let node = node.or_else(here).ok_or_else(|| reach::nowhere(data))?;
    let agent = match agent {
        Some(agent) => agent,
        None => choose(&role, &node, config, output).await?,
    };
    let query = agent.0.as_ref().map(|id| format!("?as={id}")).unwrap_or_default();
    let told = post(&node, &format!("/take-over/{role}{query}")).await.map_err(failure)?;
    output.answer(|| told.clone(), || sentence(&role, agent.named(), &told))
}

fn failure(why: Error) -> Failure {
    let text = hosting::sentence(&why);
    match why {
        Error::Address(_) => Failure::usage(text),
        Error::NoNode { .. } => Failure::reason(Reason::Unavailable, text),
        Error::Refused { reason: Some(reason), message } => Failure::reason(reason, message),
        Error::Refused { reason: None, .. } | Error::Unreadable { .. } | Error::Unsafe { .. } => {
            Failure::local(text)
        }
    }
}

/// Asks a person which of the known agents gets the role.
async fn choose(
    role: &RoleId,
    node: &NodeAt,
    config: &Config,
    output: &mut Output,
) -> Result<Agent, Failure> {
    let told = get(node, &format!("/take-over/{role}")).await.map_err(failure)?;
    let configured = configured::agents(&config.data.value, role);
    let candidates = candidates(&told, configured.into_iter().map(Agent));
    let input = io::stdin();
    let is_asked = input.is_terminal() && io::stderr().is_terminal() && !output.is_json();
    if !is_asked || candidates.is_empty() {
        return Err(Failure::usage(unnamed(role, &candidates)));
    }
    ask(role, &candidates, &mut input.lock(), |text| output.note(text))
}

/// The agents that could get the role, each with what is known of it: those that called or are
/// connected, and those that a client's configuration connects. The one that plays it is not among
/// them.
fn candidates(told: &Value, configured: impl Iterator<Item = Agent>) -> BTreeMap<Agent, String> {
    let mut known: BTreeMap<Agent, String> =
        configured.map(|agent| (agent, "configured, has not called yet".to_owned())).collect();
    for it in told["agents"].as_array().into_iter().flatten() {
        let id = it["instance"].as_str().unwrap_or_default();
        // A newer node may know ids of another form.
        let Ok(agent) = id.parse::<Agent>() else { continue };
        if it["plays"] == true {
            known.remove(&agent);
            continue;
        }
        let when = match it["quiet_ms"].as_u64() {
            None => "connected".to_owned(),
            Some(quiet_ms) => {
                let quiet = Duration::from_secs(quiet_ms / 1000);
                format!("last heard of {} ago", humantime::format_duration(quiet))
            }
        };
        let client = it["client"].as_str().filter(|client| !client.is_empty());
        let about = client.map_or_else(|| when.clone(), |client| format!("{client}, {when}"));
        known.insert(agent, line(&about));
    }
    known
}

/// What is said when no agent was named and nobody can be asked.
fn unnamed(role: &RoleId, candidates: &BTreeMap<Agent, String>) -> String {
    let command =
        |agent: &Agent| format!("tasuki take-over --role {role} --as {}", agent.argument());
    if candidates.is_empty() {
        return format!(
            "No other agent is known for {role}. Pass its id with --as ID (`?as=ID` in its address); \
             --as '' means an agent without an id."
        );
    }
    let lines =
        candidates.iter().map(|(agent, about)| format!("\n  {}  ({about})", command(agent)));
    format!("Say which agent gets {role}:{}", lines.collect::<String>())
}

/// Lists the agents, and reads which one is meant: its number, or its id.
fn ask(
    role: &RoleId,
    candidates: &BTreeMap<Agent, String>,
    input: &mut dyn BufRead,
    mut say: impl FnMut(&str),
) -> Result<Agent, Failure> {
    for (number, (agent, about)) in (1..).zip(candidates) {
        say(&format!("{number}. {} ({about})", agent.named()));
    }
    say(&format!("Which agent gets {role}? Type a number, or press Enter to cancel."));
    let mut answer = String::new();
    let read = input.read_line(&mut answer);
    read.map_err(|why| Failure::local(format!("Standard input cannot be read: {why}.")))?;
    let answer = answer.trim();
    let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = by_number.and_then(|place| candidates.keys().nth(place));
    let by_id = || candidates.keys().find(|agent| agent.0.is_some() && agent.named() == answer);
    by_number
        .or_else(by_id)
        .cloned()
        .ok_or_else(|| Failure::usage("No agent was chosen; nothing was changed.".to_owned()))
}

fn sentence(role: &RoleId, who: &str, told: &Value) -> String {
    let from = match told.get("from").and_then(Value::as_object) {
        None => "nobody else was playing it".to_owned(),
        Some(from) => {
            let client = from["client"].as_str().filter(|client| !client.is_empty());
            let id = from["instance"].as_str().unwrap_or("without an id");
            format!("until now {} ({id}) played it", client.unwrap_or("an agent"))
        }
    };
    line(&format!("{role} is played by {who}; {from}.")) + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role() -> RoleId {
        "B".parse().unwrap()
    }

    fn agent(id: &str) -> Agent {
        id.parse().unwrap()
    }

    /// Of one that plays, one that is connected, one that called, and two that are configured.
    fn four() -> BTreeMap<Agent, String> {
        let told = json!({ "agents": [
            { "instance": "codex-1", "client": "codex 2", "plays": true, "quiet_ms": null },
            { "instance": null, "client": "", "plays": false, "quiet_ms": null },
            { "instance": "zed-1", "client": "zed\n 1", "plays": false, "quiet_ms": 180_000 },
        ]});
        candidates(&told, ["codex-1", "claude-code-1"].map(agent).into_iter())
    }

    #[test]
    fn one_is_told_who_lost_the_role() {
        for (from, expected) in [
            (json!(null), "B is played by x; nobody else was playing it.\n"),
            (
                json!({ "instance": "y", "client": "codex\n 1" }),
                "B is played by x; until now codex 1 (y) played it.\n",
            ),
            (
                json!({ "instance": null, "client": "" }),
                "B is played by x; until now an agent (without an id) played it.\n",
            ),
        ] {
            assert_eq!(sentence(&role(), "x", &json!({ "from": from })), expected);
        }
    }

    #[test]
    fn whoever_names_no_agent_is_told_the_commands_that_name_one() {
        assert_eq!(
            unnamed(&role(), &four()),
            "Say which agent gets B:\n  \
             tasuki take-over --role B --as ''  (connected)\n  \
             tasuki take-over --role B --as claude-code-1  (configured, has not called yet)\n  \
             tasuki take-over --role B --as zed-1  (zed 1, last heard of 3m ago)"
        );
        assert_eq!(
            unnamed(&role(), &BTreeMap::new()),
            "No other agent is known for B. Pass its id with --as ID (`?as=ID` in its address); \
             --as '' means an agent without an id."
        );
    }

    #[test]
    fn on_a_terminal_the_agent_is_chosen_by_number_or_id() {
        for (typed, expected) in [
            ("1\n", Some("")),
            ("2", Some("claude-code-1")),
            (" zed-1 \n", Some("zed-1")),
            ("4\n", None),
            ("0\n", None),
            ("codex-1\n", None),
            ("\n", None),
            ("", None),
        ] {
            let mut said = Vec::new();
            let chosen =
                ask(&role(), &four(), &mut typed.as_bytes(), |text| said.push(text.to_owned()));
            assert_eq!(chosen.ok(), expected.map(agent), "{typed:?}");
            assert_eq!(said.len(), 4);
            assert_eq!(said[0], "1. the agent without an id (connected)");
        }
    }
}
