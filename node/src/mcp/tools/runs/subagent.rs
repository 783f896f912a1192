//! `subagent`: starts a run, and waits for it unless it is told not to.
//!
//! Everything that can be known before is asked first: a run that cannot work is refused whole.

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tasuki_proto::{reason::Reason, wire};
use tokio::time::Instant;

use super::{
    super::{
        field_types::{Name, Seconds, Text, Word},
        result::text_result,
        tool::{Tool, ToolInfo},
        waiting::longest,
    },
    QUIET,
    args::{AnyObject, Dollars, Task},
    caller::Asker,
    consent,
    foreground::{self, CallFate},
    manage::{unreadable, within},
    views::run_facts,
};
use crate::{
    mcp::intent,
    role::Refusal,
    runner::{
        discovery::{AgentEntry, Scope},
        modes::{Params, Step},
    },
    runs::{
        own::OwnRunners,
        plan::{Plan, RunRequest, nobody_runs, plan},
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
        let (begun, call) = (Instant::now(), asker.call);
        let is_background = self.background == Some(true);
        let (plan, untrusted) = self.planned(&asker).await?;
        if let Some(question) = consent::check(&asker, &untrusted).await? {
            return Ok(question);
        }
        let (key, fate) = (intent::of(&call.context.meta), CallFate::of(call));
        let mut started = foreground::start(&asker.client, plan.request, key, fate).await?;
        if is_background {
            started.fate = None;
            let text = format!("Started: run {}. Call run_wait.", started.id);
            return Ok(text_result(text, run_facts(&started.run)).into());
        }
        // The client has waited since the call began, also while its user was asked. One that gives
        // the call up takes it back, and ends the run.
        let left = longest(call, None).saturating_sub(begun.elapsed());
        let asked = (!call.takes_tasks).then_some(left);
        let waited = asker.wait_for(playing, started.id, asked, true).await;
        waited.map_err(|why| Refusal {
            message: format!("Started as run {}, which goes on. {}", started.id, why.message),
            ..why
        })
    }
}

impl Subagent {
    /// A run that somebody can run, and those of its agents that need its user's consent.
    async fn planned(self, asker: &Asker<'_>) -> Result<(Plan, Vec<AgentEntry>), Refusal> {
        let schema = asker.call.arguments.get(OUTPUT_SCHEMA).filter(|it| it.is_object()).cloned();
        let offers = asker.client.runners().await?.offers;
        let (own, default_runner) = (asker.runs.own.clone(), asker.runs.default_runner.clone());
        let planning = tokio::task::spawn_blocking(move || {
            let plan = self.plan(schema.as_ref(), &own, &default_runner)?;
            match nobody_runs(&plan, &offers, &own) {
                Some(why) => Err(cannot(why)),
                None => {
                    let untrusted = consent::untrusted(&plan);
                    Ok((plan, untrusted))
                }
            }
        });
        planning.await.map_err(|_| unreadable())?
    }

    /// Looks for the agents, and makes steps of it. Blocks on the disk.
    fn plan(
        self,
        schema: Option<&Value>,
        own: &OwnRunners,
        default_runner: &str,
    ) -> Result<Plan, Refusal> {
        let name = |it: Option<Name>| it.map(|Name(name)| name);
        let steps = |tasks: Vec<Task>| tasks.into_iter().map(Step::from).collect();
        let (cwd, on) = (name(self.cwd), name(self.on).unwrap_or_default());
        let scope = self.agent_scope.map(|Word(scope)| scope).unwrap_or_default();
        let agents = own.agents(scope, &within(cwd.as_deref().unwrap_or_default()));
        let params = Params {
            agent: name(self.agent),
            task: self.task.map(|Text(task)| task),
            tasks: self.tasks.map(steps),
            chain: self.chain.map(steps),
            cwd,
        };
        let mode = params.mode(&agents.available()).map_err(|why| cannot(why.to_string()))?;
        let wanted = RunRequest {
            mode: &mode,
            on: &on,
            timeout: self.timeout_sec.map(|Seconds(limit)| limit).filter(|it| !it.is_zero()),
            output_schema: schema,
            runner: None,
            default_runner,
            model: None,
            budget: wire::RunBudget {
                max_cost_microusd: self.max_cost.map_or(0, |Dollars(micros)| micros),
                max_turns: self.max_turns.unwrap_or_default(),
                max_depth: self.max_depth.unwrap_or_default(),
                max_runs: self.max_runs.unwrap_or_default(),
            },
            concurrency: 0,
        };
        plan(&wanted, &agents).map_err(cannot)
    }
}

/// What was asked for cannot be done, and nothing of it was begun.
fn cannot(message: String) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::{super::super::arguments::read_all, *};
    use crate::runner::runners::RunnerTable;

    /// What a call with these arguments asks the broker for, where a project has an agent `scout`.
    fn planned(mut arguments: Value) -> wire::StartRunRequest {
        let project = tempfile::tempdir().unwrap();
        let agents = project.path().join("web/.tasuki/agents");
        fs::create_dir_all(&agents).unwrap();
        fs::write(agents.join("scout.md"), "---\nname: scout\ndescription: d\n---\n").unwrap();
        let own = OwnRunners { table: RunnerTable::default(), project: project.path().to_owned() };
        arguments["cwd"] = "web".into();
        arguments["agentScope"] = "project".into();
        let read: Subagent = read_all(arguments.as_object().unwrap()).unwrap();
        let plan = read.plan(None, &own, "pi").unwrap();
        assert_eq!(plan.project_agents().count(), 1);
        plan.request
    }

    #[test]
    fn what_is_not_said_is_left_to_the_broker() {
        let it = planned(json!({ "agent": "scout", "task": "t", "timeout_sec": 0 }));
        assert_eq!(it.budget, Some(wire::RunBudget::default()));
        assert_eq!((it.steps[0].timeout_ms, it.steps[0].on.as_str()), (0, ""));
        let it = planned(json!({ "agent": "scout", "task": "t", "max_cost": 0.25, "max_turns": 9,
            "max_depth": 2, "max_runs": 8, "confirmProjectAgents": false, "timeout_sec": 1.5 }));
        let budget =
            wire::RunBudget { max_cost_microusd: 250_000, max_turns: 9, max_depth: 2, max_runs: 8 };
        assert_eq!((it.budget, it.steps[0].timeout_ms), (Some(budget), 1_500));
    }
}
