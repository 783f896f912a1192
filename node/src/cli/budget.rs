//! `tasuki budget …`: how far agents may go without a person, and what each role may use.

use std::time::Duration;

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    counted::{counted, long},
    host::config::duration,
    id::{LoopId, PersonId, RoleId},
    wire,
};

use super::{
    Failure, Output,
    broker::Broker,
    loops::person,
    text::{line, time},
};
use crate::config::Config;

/// Limit what agents use and how long they go on without a person.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// List budgets, what was used of them, who is paused, and the limits
    List,
    Set(SetArgs),
    Clear(ClearArgs),
    Resume(ResumeArgs),
    Limits(LimitsArgs),
}

/// Who asks.
#[derive(Debug, clap::Args)]
struct By {
    /// Person who asks [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// Set what a role may use until it is paused.
///
/// Calls are commands that change something at the broker. Tokens are those of the runs that the
/// role starts, and what its agent reports.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Role that the budget is for
    #[arg(value_name = "ROLE")]
    target: RoleId,
    /// Calls it may make [default: no limit]
    #[arg(long, value_name = "NUMBER", required_unless_present = "tokens")]
    calls: Option<u64>,
    /// Tokens it may use [default: no limit]
    #[arg(long, value_name = "NUMBER")]
    tokens: Option<u64>,
    /// Count anew after this long, such as 1d or 8h [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    per: Option<Duration>,
    #[command(flatten)]
    by: By,
}

/// Let a role use what it likes.
#[derive(Debug, clap::Args)]
pub struct ClearArgs {
    /// Role that has the budget
    #[arg(value_name = "ROLE")]
    target: RoleId,
    #[command(flatten)]
    by: By,
}

/// Let a paused role go on, and the loops that are paused because of it.
///
/// What it used is counted anew.
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Role that is paused
    #[arg(value_name = "ROLE")]
    target: RoleId,
    /// Why; shown in the events
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    by: By,
}

/// Set how far agents may go without a person.
///
/// 0 is without a limit.
#[derive(Debug, clap::Args)]
pub struct LimitsArgs {
    /// Turns that may end in a loop until it is paused
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["hops", "of_loop"])]
    turns: Option<u32>,
    /// Hops that a message may be from what a person last did until its sender is paused
    #[arg(long, value_name = "NUMBER", conflicts_with = "of_loop")]
    hops: Option<u32>,
    /// Only of this loop; without --turns it goes by the workspace's limit again
    #[arg(long = "loop", value_name = "LOOP")]
    of_loop: Option<LoopId>,
    #[command(flatten)]
    by: By,
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    match command {
        Command::List => list(&broker, output).await,
        Command::Set(it) => {
            let window_ms =
                it.per.map_or(0, |per| u64::try_from(per.as_millis()).unwrap_or(u64::MAX));
            let budget = wire::RoleBudget {
                max_calls: it.calls.unwrap_or_default(),
                max_tokens: it.tokens.unwrap_or_default(),
                window_ms,
            };
            set(&broker, &it.target, Some(budget), it.by, output).await
        }
        Command::Clear(it) => set(&broker, &it.target, None, it.by, output).await,
        Command::Resume(it) => {
            let request = wire::ResumeRoleRequest {
                person: person(it.by.by)?.to_string(),
                target: it.target.to_string(),
                reason: it.reason.unwrap_or_default(),
                ..Default::default()
            };
            let done = broker.call(&request).await?;
            output.answer(|| json!(done), || format!("{} goes on.\n", it.target))
        }
        Command::Limits(it) => {
            let request = wire::SetLimitsRequest {
                person: person(it.by.by)?.to_string(),
                r#loop: it.of_loop.map(|it| it.to_string()).unwrap_or_default(),
                max_turns: it.turns,
                max_hops: it.hops,
                ..Default::default()
            };
            broker.call(&request).await?;
            list(&broker, output).await
        }
    }
}

async fn set(
    broker: &Broker,
    target: &RoleId,
    budget: Option<wire::RoleBudget>,
    by: By,
    output: &mut Output,
) -> Result<(), Failure> {
    let person = person(by.by)?.to_string();
    let target = target.to_string();
    let request = wire::SetBudgetRequest { person, target, budget, ..Default::default() };
    broker.call(&request).await?;
    list(broker, output).await
}

async fn list(broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let seen = broker.call(&wire::GetGuardRequest::default()).await?;
    output.answer(|| json!(seen), || render(&seen))
}

fn render(it: &wire::GetGuardResponse) -> String {
    let limit = |max: u32, what: &str| match max {
        0 => format!("no limit of {what}s"),
        max => counted(max, what),
    };
    let mut out = format!(
        "without a person: {} of a loop, {} of a message\n",
        limit(it.max_turns, "turn"),
        limit(it.max_hops, "hop")
    );
    for of in &it.loops {
        out += &format!("  {}: {}\n", line(&of.r#loop), limit(of.max_turns, "turn"));
    }
    if it.roles.is_empty() {
        out += "No role has a budget; `tasuki budget set ROLE --calls NUMBER` gives it one.\n";
    }
    out.extend(it.roles.iter().map(role_lines));
    out
}

fn role_lines(it: &wire::RoleGuard) -> String {
    let role = line(&it.role);
    let budget = it.budget.unwrap_or_default();
    let mut parts = Vec::new();
    for (used, max, what) in
        [(it.calls, budget.max_calls, "call"), (it.tokens, budget.max_tokens, "token")]
    {
        if max != 0 {
            parts.push(format!("{used} of {}", counted(max, what)));
        }
    }
    let used = if parts.is_empty() { "no budget".to_owned() } else { parts.join(", ") };
    let window = match budget.window_ms {
        0 => String::new(),
        ms => format!(" in {}, since {}", long(ms), time(it.since_ms)),
    };
    let mut out = format!("{}  {used}{window}\n", role.bold());
    if let Some(pause) = &it.pause {
        let (what, why) = ("paused".red().bold().to_string(), line(&pause.reason));
        out += &format!("  {what} since {}: it {why}\n", time(pause.at_ms));
        out += &format!("  `tasuki budget resume {role}` lets it go on\n");
    }
    out
}
