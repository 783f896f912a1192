//! What a command line asks for: one task, or several from a file, and the limits of the run.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tasuki_proto::{
    limits::{RUN_DEPTH_MAX, RUN_STEPS_MAX, RUN_TREE_STEPS_MAX},
    schema::check_schema,
    wire,
};

use super::{Failure, Output};
use crate::{
    cli::{
        loops::text_args::{TextArgs, bounded_to, open},
        runs_setup::{default_runner, own_runners, settings},
        text::line,
    },
    config::{Config, step_timeout},
    runner::{
        discovery::{Agents, Scope},
        modes::{Mode, Params, Step},
    },
    runs::{
        agent_trust::{refusal, untrusted},
        own::OwnRunners,
        plan::{Plan, RunRequest, plan},
        view::micro_usd,
    },
};

/// How files and texts are given, for `--help`.
pub(super) const HELP: &str = "\
- as the task, or as FILE, reads standard input. FILE is a JSON array:
[{\"agent\": \"scout\", \"task\": \"Find it\"}, {\"agent\": \"planner\", \"task\": \"Plan {previous}\"}]
`cwd` may be added to each. {previous} stands for the output of the step before, in a chain.

Exits with 0 only if the run succeeded, with 8 if it failed or others canceled it, and with 7 if it
was canceled by Ctrl-C, which waits until it has ended.";

/// A file of tasks, in bytes: as many as there may be, each as long as a text may be.
const FILE_BYTES_MAX: usize = 17 << 20;

/// What is to be run.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").args(["agent", "chain", "parallel"]).required(true)))]
pub(super) struct TaskArgs {
    /// Agent to run
    #[arg(value_name = "AGENT", requires = "task")]
    agent: Option<String>,
    /// Task for the agent
    #[arg(value_name = "TASK", requires = "agent")]
    task: Option<String>,
    /// Run the tasks of this file one after another
    #[arg(long, value_name = "FILE")]
    chain: Option<PathBuf>,
    /// Run the tasks of this file at the same time
    #[arg(long, value_name = "FILE")]
    parallel: Option<PathBuf>,
}

/// How it is to be run.
#[derive(Debug, clap::Args)]
pub(super) struct LimitArgs {
    /// Whose agents may run: user, project or both; the file of a project's agent is named [default:
    /// both; of a sub-agent user]
    #[arg(long, value_name = "SCOPE", value_parser = scopes())]
    scope: Option<Scope>,
    /// Directory to work in [default: the current one, if it lies in the project]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Node, or label of nodes, to run it on [default: this machine's node]
    #[arg(long, value_name = "NODE_OR_LABEL", default_value = "", hide_default_value = true)]
    pub(super) on: String,
    /// Stop a step that runs longer [default: as its agent's file says, else 1h]
    #[arg(long, value_name = "DURATION", value_parser = step_timeout)]
    timeout: Option<Duration>,
    /// JSON Schema that the output must meet
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Agent CLI to use, whatever the agents' files say
    #[arg(long, value_name = "NAME")]
    runner: Option<String>,
    /// Model to use, whatever the agents' files say
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Most US dollars that it and all runs below it may cost [default: no limit]
    #[arg(long, value_name = "USD", value_parser = max_cost)]
    max_cost: Option<u64>,
    /// Most turns of models [default: no limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    max_turns: Option<u64>,
    /// Most runs below one another, with this one [default: 3]
    #[arg(long, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RUN_DEPTH_MAX)))]
    max_depth: Option<u32>,
    /// Most steps of it and all runs below it [default: 64]
    #[arg(long, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RUN_TREE_STEPS_MAX)))]
    max_runs: Option<u32>,
    /// Most tasks of --parallel that run at the same time [default: 4]
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["agent", "chain"],
          value_parser = clap::value_parser!(u32).range(1..=RUN_STEPS_MAX as i64))]
    concurrency: Option<u32>,
}

/// What was asked for, checked as far as it can be here.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) plan: Plan,
    pub(super) own: OwnRunners,
}

/// Reads everything and plans the run. Tells people of the agents that came with the project.
pub(super) fn read(
    tasks: &TaskArgs,
    limits: &LimitArgs,
    is_sub_agent: bool,
    config: &Config,
    output: &mut Output,
) -> Result<Asked, Failure> {
    let settings = settings(config);
    let own = own_runners(config, &settings)?;
    let is_here = limits.on.is_empty();
    // Of another node it is a path there.
    let cwd =
        if is_here { limits.cwd.as_deref().map(absolute).transpose()? } else { limits.cwd.clone() };
    let here = absolute(Path::new("."))?;
    let from = cwd.as_deref().filter(|_| is_here).unwrap_or(&here);
    // A person consents to a project's agent by its name. A sub-agent is nobody's consent.
    let usual = if is_sub_agent { Scope::User } else { Scope::Both };
    let agents = own.agents(limits.scope.unwrap_or(usual), from);
    let mut mode = tasks.mode(&agents, cwd.as_deref())?;
    if is_here {
        let usual = is_within(&here, &own.project).then_some(here.as_path());
        resolve_directories(&mut mode, from, usual, &agents);
    }
    let schema = limits.schema.as_deref().map(|file| read_json::<Value>("--schema", file, "JSON"));
    let schema = schema.transpose()?;
    if let Some(schema) = &schema {
        check_schema(schema).map_err(|why| Failure::usage(format!("--schema {why}.")))?;
    }
    let wanted = RunRequest {
        mode: &mode,
        on: &limits.on,
        timeout: limits.timeout,
        output_schema: schema.as_ref(),
        runner: limits.runner.as_deref(),
        default_runner: &default_runner(&settings),
        model: limits.model.as_deref(),
        budget: wire::RunBudget {
            max_cost_microusd: limits.max_cost.unwrap_or_default(),
            max_turns: limits.max_turns.unwrap_or_default(),
            max_depth: limits.max_depth.unwrap_or_default(),
            max_runs: limits.max_runs.unwrap_or_default(),
        },
        concurrency: limits.concurrency.unwrap_or_default(),
    };
    let plan = match plan(&wanted, &agents) {
        Ok(plan) => plan,
        Err(why) => {
            for skipped in &agents.skipped {
                output.note(&format!("{} is not used: {}", skipped.path.display(), skipped.why));
            }
            let places = match agents.agents.is_empty() {
                true => " Agents are files in ~/.tasuki/agents and .tasuki/agents.",
                false => "",
            };
            return Err(Failure::usage(format!("{why}{places}")));
        }
    };
    if is_sub_agent {
        refuse_untrusted(&plan)?;
    }
    for entry in plan.project_agents() {
        let (name, path) = (&entry.agent.name, entry.path.display());
        output.note(&format!("{name} is an agent of this project: {path}"));
    }
    Ok(Asked { plan, own })
}

/// Agents that came with the project run for a sub-agent only as its user trusts them.
fn refuse_untrusted(plan: &Plan) -> Result<(), Failure> {
    let untrusted = untrusted(plan.project_agents());
    if untrusted.is_empty() {
        return Ok(());
    }
    let refused = refusal(&untrusted, line);
    Err(Failure::reason(refused.reason, refused.message))
}

impl TaskArgs {
    fn mode(&self, agents: &Agents, cwd: Option<&Path>) -> Result<Mode, Failure> {
        let mut params =
            Params { cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()), ..Params::default() };
        if let Some(task) = &self.task {
            let task =
                if task == "-" { TextArgs::default().read("TASK", task)? } else { task.clone() };
            if task.trim().is_empty() {
                return Err(Failure::usage("The task is empty."));
            }
            (params.agent, params.task) = (self.agent.clone(), Some(task));
        }
        params.chain = self.chain.as_deref().map(|file| steps("--chain", file)).transpose()?;
        params.tasks =
            self.parallel.as_deref().map(|file| steps("--parallel", file)).transpose()?;
        params.mode(&agents.available()).map_err(|why| Failure::usage(why.to_string()))
    }
}

/// Directories of tasks are below `from`, as one types paths. A task that names none, of an agent
/// that names none, is done in the usual one.
fn resolve_directories(mode: &mut Mode, from: &Path, usual: Option<&Path>, agents: &Agents) {
    let steps = match mode {
        Mode::Single(step) => std::slice::from_mut(step),
        Mode::Parallel(steps) | Mode::Chain(steps) => steps.as_mut_slice(),
    };
    for step in steps {
        let known = agents.agents.get(&step.agent);
        let cwd = match &step.cwd {
            Some(cwd) => Some(from.join(cwd)),
            None if known.is_some_and(|entry| entry.agent.cwd.is_some()) => None,
            None => usual.map(Path::to_owned),
        };
        step.cwd = cwd.map(|cwd| cwd.to_string_lossy().into_owned());
    }
}

/// Whether a directory is the project's or below it, links followed.
fn is_within(directory: &Path, project: &Path) -> bool {
    let real = directory.canonicalize().ok().zip(project.canonicalize().ok());
    real.is_some_and(|(directory, project)| directory.starts_with(project))
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|why| Failure::usage(format!("{} is no path: {why}.", path.display())))
}

/// The tasks of a file.
fn steps(flag: &str, file: &Path) -> Result<Vec<Step>, Failure> {
    let like = "list of tasks like [{\"agent\": \"scout\", \"task\": \"Find it\"}]";
    let steps: Vec<Step> = read_json(flag, file, like)?;
    if steps.is_empty() {
        return Err(Failure::usage(format!("{flag}: {} has no tasks.", file.display())));
    }
    Ok(steps)
}

/// What a file says; `-` is standard input.
fn read_json<T: DeserializeOwned>(flag: &str, file: &Path, what: &str) -> Result<T, Failure> {
    let place = file.display().to_string();
    let text = match place.as_str() {
        "-" => bounded_to(FILE_BYTES_MAX, flag, "standard input", std::io::stdin().lock())?,
        _ => bounded_to(FILE_BYTES_MAX, flag, &place, open(flag, file, "started")?)?,
    };
    serde_json::from_str(&text)
        .map_err(|why| Failure::usage(format!("{flag}: {place} is no {what}: {why}.")))
}

fn scopes() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(["user", "project", "both"]).map(|typed| match typed.as_str() {
        "user" => Scope::User,
        "project" => Scope::Project,
        _ => Scope::Both,
    })
}

/// Dollars as people write them, in millionths.
fn max_cost(text: &str) -> Result<u64, String> {
    let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>().ok();
    let micros = amount.and_then(micro_usd);
    let wrong = || format!("is {text:?}; it takes US dollars such as 0.50, more than 0");
    micros.filter(|micros| 0 < *micros).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{
        agent_file::Agent,
        discovery::{AgentEntry, DirectoryKind, Source},
    };

    #[test]
    fn dollars_are_read_to_the_last_millionth() {
        for (text, expected) in [
            ("$2.5", Some(2_500_000)),
            (".05", Some(50_000)),
            ("0.000001", Some(1)),
            ("0", None),
            ("0.0000001", None),
            ("-1", None),
            ("inf", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(max_cost(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_file_of_tasks_says_what_is_wrong_with_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tasks.json");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            steps("--chain", &file).map_err(|failure| failure.message)
        };
        let read_steps = read(r#"[{"agent": "a", "task": "t", "cwd": "server"}]"#).unwrap();
        assert_eq!(read_steps[0].cwd.as_deref(), Some("server"));
        for (text, why) in [
            ("[]", "has no tasks"),
            ("{}", "is no list of tasks"),
            (r#"[{"agent": "scout"}]"#, "missing field `task`"),
            (r#"[{"agent": "scout", "task": "t", "model": "m"}]"#, "unknown field `model`"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.starts_with("--chain: ") && said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn many_long_tasks_are_read_from_one_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tasks.json");
        let task = serde_json::json!({ "agent": "a", "task": "x".repeat(200 * 1024) });
        std::fs::write(&file, Value::from(vec![task; 2]).to_string()).unwrap();
        assert_eq!(steps("--parallel", &file).unwrap().len(), 2);
    }

    #[test]
    fn directories_of_tasks_are_below_that_of_the_run() {
        let step = |cwd: Option<&str>| {
            let (agent, task) = ("a".to_owned(), "t".to_owned());
            Step { agent, task, cwd: cwd.map(str::to_owned) }
        };
        let modes = |cwds: [Option<&str>; 3]| Mode::Chain(cwds.map(step).into());
        let written = [Some("web"), Some("/elsewhere"), None];
        let resolved = |usual: Option<&Path>, agents: &Agents| {
            let mut mode = modes(written);
            resolve_directories(&mut mode, Path::new("/project"), usual, agents);
            mode
        };
        let expected = |last| modes([Some("/project/web"), Some("/elsewhere"), last]);
        let mut agents = Agents::default();
        let here = Path::new("/project/here");
        assert_eq!(resolved(None, &agents), expected(None));
        assert_eq!(resolved(Some(here), &agents), expected(Some("/project/here")));
        // The agent says where it works.
        let text = "---\nname: a\ndescription: d\ncwd: docs\n---\n";
        let entry = AgentEntry {
            agent: Agent::parse(text).unwrap(),
            path: PathBuf::new(),
            source: Source::User,
            kind: DirectoryKind::Tasuki,
        };
        agents.agents.insert("a".to_owned(), entry);
        assert_eq!(resolved(Some(here), &agents), expected(None));
    }
}
