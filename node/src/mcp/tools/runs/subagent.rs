//! `subagent`: starts a run, and waits for it unless it is told not to.
//!
//! Everything that can be known before is asked first: a run that cannot work is refused whole.

use std::{path::PathBuf, sync::Arc};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tasuki_proto::{reason::Reason, wire};

use super::{
    super::{
        field_types::{Name, Seconds, Text, Word},
        result::text_result,
        tool::{Tool, ToolInfo},
    },
    QUIET,
    args::{AnyObject, Dollars, Task},
    caller::Asker,
    consent::{self, Consent},
    foreground::{self, CallFate},
    manage::{unreadable, within},
    views::run_facts,
};
use crate::{
    mcp::intent,
    role::Refusal,
    runner::{
        discovery::Scope,
        modes::{Mode, ModeError, Params, Step},
    },
    runs::{
        own::OwnRunners,
        plan::{Plan, Wanted, nobody_runs, plan},
    },
};

/// Where the arguments have the form of the output, which is taken as it is.
const OUTPUT_SCHEMA: &str = "output_schema";

/// Runs sub-agents: processes of their own that know nothing but their task. Give exactly one of:
/// agent and task; tasks, which run in parallel; or chain, one after another, where {previous} in a
/// task becomes the output before it. Returns the output. run_agents lists the agents.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Subagent {
    agent: Option<Name>,
    task: Option<Text>,
    /// At most 8.
    tasks: Option<Vec<Task>>,
    chain: Option<Vec<Task>>,
    /// Default user.
    #[serde(rename = "agentScope")]
    agent_scope: Option<Word<Scope>>,
    /// Ignored: your user approves project agents.
    #[serde(rename = "confirmProjectAgents")]
    #[expect(dead_code, reason = "no model can consent for its user")]
    confirm_project_agents: Option<bool>,
    /// Directory in the project.
    cwd: Option<Name>,
    /// Node or label to run on. Default: this node.
    on: Option<Name>,
    /// Per sub-agent.
    timeout_sec: Option<Seconds>,
    /// Return the run's id at once. Call run_wait for its end.
    background: Option<bool>,
    /// JSON Schema of the final output.
    #[expect(dead_code, reason = "it is taken from the arguments as it is")]
    output_schema: Option<AnyObject>,
    max_cost: Option<Dollars>,
    /// Of all together.
    #[schemars(range(min = 1))]
    max_turns: Option<u64>,
    /// Sub-agents below one another. Default 3.
    #[schemars(range(min = 1))]
    max_depth: Option<u32>,
    /// Sub-agents in all. Default 64.
    #[schemars(range(min = 1))]
    max_runs: Option<u32>,
}

impl Tool for Subagent {
    const INFO: ToolInfo = ToolInfo::write("subagent", QUIET);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let playing = asker.enter()?;
        let is_background = self.background == Some(true);
        let schema = asker.call.arguments.get(OUTPUT_SCHEMA).filter(|it| it.is_object());
        let asked = Asked::new(self, schema.cloned(), asker.runs.default_runner.clone());
        let plan = planned(&asker, asked).await?;
        match consent::check(&asker, &plan).await? {
            Consent::Given => {}
            Consent::Ask(question) => return Ok(*question),
        }
        let (key, fate) = (intent::of(&asker.call.context.meta), CallFate::of(asker.call));
        let mut started = foreground::start(&asker.client, plan.request, key, fate).await?;
        if is_background {
            started.release();
            let text = format!("Started: run {}. Call run_wait.", started.id);
            return Ok(text_result(text, run_facts(&started.run)).into());
        }
        let waited = asker.wait_for(playing, started.id, None).await;
        waited.map_err(|why| Refusal {
            message: format!("Started as run {}, which goes on. {}", started.id, why.message),
            ..why
        })
    }
}

/// What a call asks for, as it is planned.
#[derive(Debug)]
struct Asked {
    params: Params,
    scope: Scope,
    /// Where a project's agents are looked for.
    from: PathBuf,
    on: String,
    timeout: Option<Seconds>,
    schema: Option<Value>,
    default_runner: String,
    budget: wire::RunBudget,
}

impl Asked {
    fn new(it: Subagent, schema: Option<Value>, default_runner: String) -> Self {
        let steps = |tasks: Vec<Task>| tasks.into_iter().map(Step::from).collect();
        let cwd = it.cwd.map(|it| it.0);
        Self {
            from: within(cwd.as_deref().unwrap_or_default()),
            params: Params {
                agent: it.agent.map(|it| it.0),
                task: it.task.map(|it| it.0),
                tasks: it.tasks.map(steps),
                chain: it.chain.map(steps),
                cwd,
            },
            scope: it.agent_scope.map(|it| it.0).unwrap_or_default(),
            on: it.on.map(|it| it.0).unwrap_or_default(),
            timeout: it.timeout_sec.filter(|it| !it.0.is_zero()),
            schema,
            default_runner,
            budget: wire::RunBudget {
                max_cost_microusd: it.max_cost.map_or(0, |it| it.0),
                max_turns: it.max_turns.unwrap_or_default(),
                max_depth: it.max_depth.unwrap_or_default(),
                max_runs: it.max_runs.unwrap_or_default(),
            },
        }
    }

    /// Looks for the agents, and makes steps of it. Blocks on the disk.
    fn plan(self, own: &OwnRunners) -> Result<Plan, Refusal> {
        let agents = own.agents(self.scope, &self.from);
        let mode = self.params.mode(&agents.available());
        let mode: Mode = mode.map_err(|why: ModeError| cannot(why.to_string()))?;
        let wanted = Wanted {
            mode: &mode,
            on: &self.on,
            timeout: self.timeout.map(|it| it.0),
            output_schema: self.schema.as_ref(),
            runner: None,
            default_runner: &self.default_runner,
            model: None,
            budget: self.budget,
            concurrency: 0,
        };
        plan(&wanted, &agents).map_err(|why| cannot(why.to_string()))
    }
}

/// A run that somebody can run.
async fn planned(asker: &Asker<'_>, asked: Asked) -> Result<Plan, Refusal> {
    let is_elsewhere = !asked.on.is_empty();
    let offers = match is_elsewhere {
        true => asker.client.runners().await?.offers,
        false => Vec::new(),
    };
    let own = Arc::clone(&asker.runs.own);
    let checked = tokio::task::spawn_blocking(move || {
        let plan = asked.plan(&own)?;
        let nobody = nobody_runs(&plan, &offers, &own);
        Ok::<_, Refusal>((plan, nobody))
    });
    let (plan, nobody) = checked.await.map_err(|_| unreadable())??;
    let Some(why) = nobody else { return Ok(plan) };
    if is_elsewhere {
        return Err(cannot(why));
    }
    // Others may run it: then it is said who.
    let Ok(told) = asker.client.runners().await else { return Err(cannot(why)) };
    let own = Arc::clone(&asker.runs.own);
    let named = tokio::task::spawn_blocking(move || nobody_runs(&plan, &told.offers, &own));
    Err(cannot(named.await.ok().flatten().unwrap_or(why)))
}

/// What was asked for cannot be done, and nothing of it was begun.
fn cannot(message: String) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::arguments::read_all, *};

    fn asked(arguments: Value) -> Asked {
        let read: Subagent = read_all(arguments.as_object().unwrap()).unwrap();
        Asked::new(read, None, "pi".to_owned())
    }

    fn mode(arguments: Value) -> Result<Mode, String> {
        asked(arguments).params.mode("scout (user)").map_err(|why| why.to_string())
    }

    #[test]
    fn exactly_one_mode_is_taken() {
        let step = |task: &str| Step { agent: "scout".into(), task: task.into(), cwd: None };
        let task = |task: &str| json!({ "agent": "scout", "task": task });
        assert_eq!(mode(task("a")), Ok(Mode::Single(step("a"))));
        assert_eq!(
            mode(json!({ "tasks": [task("a"), task("b")] })),
            Ok(Mode::Parallel(vec![step("a"), step("b")]))
        );
        assert_eq!(
            mode(json!({ "chain": [task("a")], "tasks": [] })),
            Ok(Mode::Chain(vec![step("a")]))
        );
        let none = "Invalid parameters. Provide exactly one mode.\nAvailable agents: scout (user)";
        for other in [
            json!({}),
            json!({ "agent": "scout" }),
            json!({ "agent": "scout", "task": "" }),
            json!({ "agent": "scout", "task": "a", "chain": [task("a")] }),
        ] {
            assert_eq!(mode(other), Err(none.to_owned()));
        }
        let many = vec![task("a"); 9];
        let why = mode(json!({ "tasks": many })).unwrap_err();
        assert_eq!(why, "Too many parallel tasks (9). Max is 8.");
    }

    #[test]
    fn what_is_not_said_is_left_to_the_broker() {
        let it = asked(json!({ "agent": "a", "task": "t", "timeout_sec": 0 }));
        assert_eq!(it.budget, wire::RunBudget::default());
        assert!(it.timeout.is_none() && it.on.is_empty() && it.scope == Scope::User);
        let it = asked(json!({ "agentScope": "both", "max_cost": 0.25, "max_turns": 9,
            "max_depth": 2, "max_runs": 8, "cwd": "web", "confirmProjectAgents": false }));
        let budget =
            wire::RunBudget { max_cost_microusd: 250_000, max_turns: 9, max_depth: 2, max_runs: 8 };
        assert_eq!((it.budget, it.scope), (budget, Scope::Both));
        assert_eq!(it.from, PathBuf::from("web"));
    }
}
