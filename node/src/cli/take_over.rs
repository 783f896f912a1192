//! `tasuki take-over`: a person gives a role to another agent.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, IsTerminal as _},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::id::{InstanceId, InvalidId, RoleId};

use super::{
    Failure, Output,
    connect::configured,
    node_address::{self, NodeArgs, TokenSource},
    text::line,
};
use crate::{
    agent_tokens::Bearing,
    config::Config,
    mcp::{
        ask::{Error, get, post},
        dial::NodeAt,
    },
};

/// Give a role to another agent.
///
/// One agent at a time plays a role, unless the role is declared `shared`. Another one is
/// refused until the first has ended its session, or was quiet for a quarter of an hour. This
/// command switches at once: the first agent's wait ends, its later calls are refused, and a held turn
/// stays with the role. Agents are told apart by `?as=ID` in the address they connect
/// to, or `tasuki mcp --as ID`; `tasuki connect` gives each client an id.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Role to give
    #[arg(long, value_name = "ROLE")]
    role: RoleId,
    /// Agent that gets it; '' is the agent without an id [default: list the agents and ask]
    #[arg(long = "as", value_name = "ID")]
    agent: Option<Agent>,
    /// Accept an id that no agent has yet: the role waits for the agent that connects with it
    #[arg(long, requires = "agent")]
    new_id: bool,
    #[command(flatten)]
    given: NodeArgs,
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
    let Args { role, agent, new_id, given } = args;
    let data = &config.data.value;
    let file = config.running_node();
    let node = node_address::remote(&given, &TokenSource::of_process(None), file.as_ref())?;
    let here = || file.map(|file| node_address::local(file, data, &Bearing::Node));
    let node = node.or_else(here).ok_or_else(|| node_address::not_running(data))?;
    let agent = match agent {
        Some(agent) if new_id || agent.0.is_none() => agent,
        Some(agent) => {
            Known::find(&role, &node, config).await?.check(&role, &agent)?;
            agent
        }
        None => choose(&role, &Known::find(&role, &node, config).await?, output)?,
    };
    let query = agent.0.as_ref().map_or_else(|| "?no-id".to_owned(), |id| format!("?as={id}"));
    let told = post(&node, &format!("/take-over/{role}{query}")).await.map_err(failure)?;
    output.answer(|| told.clone(), || sentence(&role, agent.named(), &told))
}

fn failure(why: Error) -> Failure {
    let mut failure = node_address::failure(why);
    if failure.is_maybe_applied() {
        failure.message += " The role may or may not have been given: run `tasuki take-over` \
                            without --as to see.";
    }
    failure
}

/// The agents of a role, each with what is known of it.
#[derive(Debug, Default)]
struct Known {
    /// The one that plays it.
    player: Option<(Agent, String)>,
    /// Those that could get it: they called or are connected, or a client's configuration connects
    /// them.
    others: BTreeMap<Agent, String>,
}

impl Known {
    async fn find(role: &RoleId, node: &NodeAt, config: &Config) -> Result<Self, Failure> {
        let told = get(node, &format!("/take-over/{role}")).await.map_err(failure)?;
        let configured = configured::agents(&config.data.value, role);
        Ok(Self::new(&told, configured.into_iter().map(|(agent, file)| (Agent(agent), file))))
    }

    /// `configured`: agents with the file that connects each.
    fn new(told: &Value, configured: impl Iterator<Item = (Agent, PathBuf)>) -> Self {
        let about =
            |file: PathBuf| line(&format!("configured in {}, has not called yet", file.display()));
        let others = configured.map(|(agent, file)| (agent, about(file)));
        let mut known = Self { player: None, others: others.collect() };
        for it in told["agents"].as_array().into_iter().flatten() {
            let id = it["instance"].as_str().unwrap_or_default();
            // A newer node may know ids of another form.
            let Ok(agent) = id.parse::<Agent>() else { continue };
            let when = match it["quiet_ms"].as_u64() {
                None => "connected".to_owned(),
                Some(quiet_ms) => {
                    let quiet = Duration::from_secs(quiet_ms / 1000);
                    format!("last heard of {} ago", humantime::format_duration(quiet))
                }
            };
            let client = it["client"].as_str().filter(|client| !client.is_empty());
            let about = client.map_or_else(|| when.clone(), |client| format!("{client}, {when}"));
            if it["plays"] == true {
                known.others.remove(&agent);
                known.player = Some((agent, line(&about)));
            } else {
                known.others.insert(agent, line(&about));
            }
        }
        known
    }

    /// Refuses an id that nobody has: the role would wait for an agent that never comes.
    fn check(&self, role: &RoleId, agent: &Agent) -> Result<(), Failure> {
        let is_player = self.player.as_ref().is_some_and(|(player, _)| player == agent);
        if is_player || self.others.contains_key(agent) {
            return Ok(());
        }
        let listed = match self.others.is_empty() {
            true => format!("No other agent is known for {role}. "),
            false => format!("Known for {role}:{}\n", self.commands(role)),
        };
        Err(Failure::usage(format!(
            "No agent of {role} has the id {}; nothing was changed. {}{listed}If an agent is to \
             connect with that id later, add --new-id.",
            agent.named(),
            self.player(role)
        )))
    }

    /// Who plays the role, as a sentence that another one follows.
    fn player(&self, role: &RoleId) -> String {
        self.player.as_ref().map_or_else(String::new, |(player, about)| {
            format!("{role} is played by {} now ({about}). ", player.named())
        })
    }

    /// The command for each agent that could get the role, a line each.
    fn commands(&self, role: &RoleId) -> String {
        let command = |(agent, about): (&Agent, &String)| {
            format!("\n  tasuki take-over --role {role} --as {}  ({about})", agent.argument())
        };
        self.others.iter().map(command).collect()
    }
}

/// Asks a person which of the known agents gets the role.
fn choose(role: &RoleId, known: &Known, output: &mut Output) -> Result<Agent, Failure> {
    let input = io::stdin();
    let is_asked = input.is_terminal() && io::stderr().is_terminal() && !output.is_json();
    if !is_asked || known.others.is_empty() {
        return Err(Failure::usage(unnamed(role, known)));
    }
    ask(role, known, &mut input.lock(), |text| output.note(text))
}

/// What is said when no agent was named and nobody can be asked.
fn unnamed(role: &RoleId, known: &Known) -> String {
    let player = known.player(role);
    if known.others.is_empty() {
        return format!(
            "{player}No other agent is known for {role}. Pass its id with --as ID (`?as=ID` in its \
             address) and --new-id; --as '' means an agent without an id."
        );
    }
    format!("{player}Say which agent gets {role}:{}", known.commands(role))
}

/// Lists the agents, and reads which one is meant: its number, or its id.
fn ask(
    role: &RoleId,
    known: &Known,
    input: &mut dyn BufRead,
    mut say: impl FnMut(&str),
) -> Result<Agent, Failure> {
    let others = &known.others;
    if known.player.is_some() {
        say(known.player(role).trim_end());
    }
    for (number, (agent, about)) in (1..).zip(others) {
        say(&format!("{number}. {} ({about})", agent.named()));
    }
    say(&format!("Which agent gets {role}? Type a number, or press Enter to cancel."));
    let mut answer = String::new();
    let read = input.read_line(&mut answer);
    read.map_err(|why| Failure::local(format!("Standard input cannot be read: {why}.")))?;
    let answer = answer.trim();
    let by_number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let by_number = by_number.and_then(|place| others.keys().nth(place));
    let by_id = || others.keys().find(|agent| agent.0.is_some() && agent.named() == answer);
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
    fn four() -> Known {
        let told = json!({ "agents": [
            { "instance": "codex-1", "client": "codex 2", "plays": true, "quiet_ms": null },
            { "instance": null, "client": "", "plays": false, "quiet_ms": null },
            { "instance": "zed-1", "client": "zed\n 1", "plays": false, "quiet_ms": 180_000 },
        ]});
        let configured = ["codex-1", "claude-code-1"].map(|id| (agent(id), "/p/.mcp.json".into()));
        Known::new(&told, configured.into_iter())
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
            "B is played by codex-1 now (codex 2, connected). Say which agent gets B:\n  \
             tasuki take-over --role B --as ''  (connected)\n  \
             tasuki take-over --role B --as claude-code-1  (configured in /p/.mcp.json, has not called yet)\n  \
             tasuki take-over --role B --as zed-1  (zed 1, last heard of 3m ago)"
        );
        assert_eq!(
            unnamed(&role(), &Known::default()),
            "No other agent is known for B. Pass its id with --as ID (`?as=ID` in its address) and \
             --new-id; --as '' means an agent without an id."
        );
    }

    #[test]
    fn an_id_that_nobody_has_gets_no_role() {
        for known in ["codex-1", "zed-1", "claude-code-1", ""] {
            assert_eq!(four().check(&role(), &agent(known)), Ok(()), "{known}");
        }
        assert_eq!(
            four().check(&role(), &agent("zed-l")).unwrap_err().message,
            "No agent of B has the id zed-l; nothing was changed. B is played by codex-1 now \
             (codex 2, connected). Known for B:\n  \
             tasuki take-over --role B --as ''  (connected)\n  \
             tasuki take-over --role B --as claude-code-1  (configured in /p/.mcp.json, has not called yet)\n  \
             tasuki take-over --role B --as zed-1  (zed 1, last heard of 3m ago)\n\
             If an agent is to connect with that id later, add --new-id."
        );
        let told = json!({ "agents": [{ "instance": null, "plays": true, "quiet_ms": null }] });
        let one = Known::new(&told, std::iter::empty());
        assert_eq!(
            one.check(&role(), &agent("x")).unwrap_err().message,
            "No agent of B has the id x; nothing was changed. B is played by the agent without an \
             id now (connected). No other agent is known for B. If an agent is to connect with that id \
             later, add --new-id."
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
            assert_eq!(said.len(), 5);
            assert_eq!(said[0], "B is played by codex-1 now (codex 2, connected).");
            assert_eq!(said[1], "1. the agent without an id (connected)");
        }
    }
}
