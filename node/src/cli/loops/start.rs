//! `tasuki loop start`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    id::{LoopId, PersonId, RoleId, WorkspaceId},
    limits::ROLE_HUMAN,
    reason::Reason,
    wire,
};

use super::{
    super::{Failure, Output, broker::Broker, loop_view, prompt::roles_of, role_args, text::line},
    Which, person, status,
    text_args::{self, TextArgs},
};
use crate::{
    config::{Config, Source},
    mcp,
    paths::NodeFile,
};

/// Open a loop, or a new round of a completed one.
///
/// A loop that is not there yet is opened for --participants, and the first of them has the
/// turn. One that is there and completed gets a new round and keeps its history.
#[derive(Debug, clap::Args)]
#[command(after_help = text_args::HELP)]
pub struct Args {
    #[command(flatten)]
    pub(super) which: Which,
    /// Roles that take turns in a new loop, in order [default: the configured roles, else the
    /// running node's]
    #[arg(long, value_name = "ROLE,ROLE…", value_delimiter = ',')]
    participants: Vec<RoleId>,
    /// Allow participants that the workspace does not know yet
    #[arg(long)]
    new_role: bool,
    /// Role that begins the new round [default: the first participant]
    #[arg(long, value_name = "ROLE")]
    to: Option<RoleId>,
    /// What was done so far, for the role that begins
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,
    /// What to do, for the role that begins
    #[arg(long, value_name = "TEXT")]
    instruction: Option<String>,
    /// Person who starts it [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

pub(super) async fn run(
    args: Args,
    broker: &Broker,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let name = args.which.r#loop.clone();
    match status::get(broker, &name).await {
        Ok(seen) => {
            let there = seen.r#loop.unwrap_or_default();
            agree(&args.participants, &there)?;
            start_round(args, broker, output).await
        }
        Err(failure) if failure.as_reason() == Some(Reason::UnknownLoop) => {
            create(args, &name, broker, config, output).await
        }
        Err(failure) => Err(failure),
    }
}

/// Participants given for a loop that is there must be its own.
fn agree(given: &[RoleId], there: &wire::Loop) -> Result<(), Failure> {
    let is_same =
        given.iter().map(RoleId::as_str).eq(there.participants.iter().map(String::as_str));
    if given.is_empty() || is_same {
        return Ok(());
    }
    Err(Failure::reason(
        Reason::LoopExists,
        format!(
            "The loop `{}` is there with the participants {}; leave --participants out to start \
             a new round of it, or choose another name.",
            there.r#loop,
            there.participants.join(", ")
        ),
    ))
}

async fn create(
    args: Args,
    name: &LoopId,
    broker: &Broker,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    if args.to.is_some() || args.summary.is_some() || args.instruction.is_some() {
        return Err(Failure::usage(format!(
            "There is no loop `{name}` yet, and --to, --summary and --instruction are for a new \
             round of one. Open it without them: its first participant has the turn."
        )));
    }
    let mut participants: Vec<String> = args.participants.iter().map(RoleId::to_string).collect();
    if participants.is_empty() {
        participants = usual(config, broker.workspace(), NodeFile::read(&config.data.value));
    }
    // Asked before: the broker knows whoever a loop names.
    let strangers = strangers(&participants, broker, NodeFile::read(&config.data.value)).await;
    let request = wire::CreateLoopRequest {
        r#loop: name.to_string(),
        participants,
        // Those of the node here the broker may not have heard of yet.
        allow_new_roles: args.new_role || strangers.as_ref().is_some_and(Vec::is_empty),
        ..Default::default()
    };
    let created = broker.call(&request).await.map_err(with_new_role)?.r#loop.unwrap_or_default();
    let unknown = strangers.unwrap_or_default();
    if !unknown.is_empty() {
        output.note(&format!(
            "No node hosts {0} and no mailbox is theirs: the loop stands still at their turn until \
             a node starts with `--role {1}`. `tasuki loop reclaim {name} --reason TEXT --to ROLE` \
             gives a turn to another role.",
            unknown.join(", "),
            unknown.join(" --role ")
        ));
    }
    output.answer(
        || json!({"created": true, "loop": created, "unknown_participants": unknown}),
        || format!("Opened.\n{}", loop_view::render_loop(&created)),
    )
}

/// A refusal of participants that nobody knows, with what to do if their names are right.
fn with_new_role(mut why: Failure) -> Failure {
    if why.as_reason() == Some(Reason::UnknownRole) {
        let said = why.message.trim_end_matches('.');
        why.message = format!(
            "{said}. If the names are right, start a node with `tasuki up --role NAME`, or repeat \
             this with --new-role."
        );
    }
    why
}

/// Those of `participants` that the workspace does not know, mistyped say. `None`, where it cannot
/// be seen which roles there are.
async fn strangers(
    participants: &[String],
    broker: &Broker,
    running: Option<NodeFile>,
) -> Option<Vec<String>> {
    let mut known = role_args::known_roles(broker).await.ok().flatten()?;
    // The broker hears of a node's roles a moment after it began.
    let running = running
        .filter(|node| node.is_at(&broker.url) && node.workspace == broker.workspace().as_str());
    known.extend(running.into_iter().flat_map(|node| node.roles));
    known.insert(ROLE_HUMAN.to_owned());
    Some(participants.iter().filter(|role| !known.contains(*role)).cloned().collect())
}

/// Who takes turns when nobody says so: of the roles that were configured, else of those that the
/// node of this machine was started with, else of the default, those that take turns.
fn usual(config: &Config, workspace: &WorkspaceId, running: Option<NodeFile>) -> Vec<String> {
    let roles = match running {
        Some(node)
            if matches!(config.roles.source, Source::Default | Source::Filebox(_))
                && node.workspace == workspace.as_str() =>
        {
            roles_of(&node)
        }
        Some(_) | None => config.roles.value.clone(),
    };
    mcp::turn_takers(&roles).into_iter().map(|role| role.name.to_string()).collect()
}

async fn start_round(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let mut words = TextArgs::default();
    let request = wire::StartRoundRequest {
        r#loop: args.which.r#loop.to_string(),
        to: args.to.map(|role| role.to_string()).unwrap_or_default(),
        summary: words.read_if("--summary", args.summary.as_deref())?,
        instruction: words.read_if("--instruction", args.instruction.as_deref())?,
        person: person(args.by)?.to_string(),
        role: String::new(),
        ..Default::default()
    };
    let started = broker.call(&request).await?;
    output.answer(
        || {
            json!({
                "created": false,
                "round": started.round,
                "turn": started.turn,
                "holder": started.holder,
                "sequence": started.sequence,
            })
        },
        || {
            let (round, turn) = (started.round, started.turn);
            let holder = line(&started.holder);
            format!("Round {round} started; {} has turn {turn}.\n", holder.bold())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Key, Layer, Raw};

    #[test]
    fn a_new_loop_is_for_the_roles_of_the_node_that_runs() {
        let place = tempfile::tempdir().unwrap();
        let around = Environment::within(place.path());
        let roles = |layer: Layer, running: Option<&NodeFile>| {
            let config = Config::load(layer, None, &around).unwrap();
            usual(&config, &config.workspace.value, running.cloned()).join(" ")
        };
        let mut node = NodeFile {
            roles: vec!["planner".into(), "coder".into()],
            ..NodeFile::example("default")
        };
        let raw = Raw { source: Source::Env("TASUKI_ROLES"), texts: vec!["x".into()] };
        assert_eq!(roles(Layer::new(), None), "A B");
        assert_eq!(roles(Layer::new(), Some(&node)), "planner coder");
        node.roles.push("lead".into());
        assert_eq!(roles(Layer::new(), Some(&node)), "planner coder");
        node.toolsets.insert("lead".into(), vec!["loop".into(), "swarm-lead".into()]);
        assert_eq!(roles(Layer::new(), Some(&node)), "planner coder lead");
        assert_eq!(roles(Layer::from([(Key::Roles, raw)]), Some(&node)), "x");
        node.workspace = "another".into();
        assert_eq!(roles(Layer::new(), Some(&node)), "A B");
    }
}
