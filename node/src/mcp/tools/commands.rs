//! Commands below the root that the operator names: `run_command`.
//!
//! - **RC1** A command that nothing keeps in runs for an agent only if its user is asked by the client
//!   about that very command and says yes. A model cannot say so for its user.

use std::{sync::Arc, time::Duration};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tasuki_proto::{id::RoleId, reason::Reason};

use super::{
    Call, Part, Toolset,
    caller::{FindRole, Player, find_able},
    elicit::{Question, can_ask, confirm},
    field_types::Seconds,
    files::Verbatim,
    result::json_result,
    sanitizer::Sanitizer,
    tool::{Membership, RoleArgument, Tool, ToolDef, ToolInfo},
    waiting::{Held, held},
};
use crate::{
    accept::{allowed::joined, report::Outcome},
    commands::{CommandOutcome, Commands, RunRequest},
    role::{Actions, Refusal},
    toolset::{COMMANDS, ToolVisibility},
};

/// For what is left of a command to be ended, and for its place to be removed, beside its own time.
const ENDING: Duration = Duration::from_secs(60);

pub(super) struct CommandTools;

static TOOLS: [ToolDef; 1] = [ToolDef::new::<RunCommand>()];

const CORE: &[Membership] = &[Membership { set: COMMANDS, from: ToolVisibility::Quiet }];

impl Toolset for CommandTools {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    fn part(&self, _: &RoleId, _: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        None
    }

    /// Its description says it all.
    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        None
    }
}

impl FindRole for CommandTools {
    const ARGUMENTS: &'static [RoleArgument] = &[];

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        find_able(call, tool, "role", Reason::UnknownRole)
    }
}

/// Runs a command below the project's root, without a shell, in a sandbox: no network, and it writes
/// to its temporary directory and to the directories that your user named. Returns the exit code and
/// the ends of what it printed. Only commands that your user allowed run.
#[derive(Debug, Deserialize, JsonSchema)]
struct RunCommand {
    /// The program, then its arguments.
    argv: Vec<Verbatim>,
    /// Directory relative to the root. Default: the root.
    cwd: Option<Verbatim>,
    /// It is ended after so long. Default and most: what your user set, usually 600.
    timeout_sec: Option<Seconds>,
    /// Its standard input, at most 1 MiB. Default: empty.
    stdin: Option<Verbatim>,
}

impl Tool for RunCommand {
    const INFO: ToolInfo = ToolInfo::pass_on("run_command", CORE);

    type Caller<'a> = Player<'a, CommandTools>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let Player { caller, playing } = player;
        let call = caller.call;
        let commands = commands(call)?;
        if !call.age().is_zero() {
            // It was sent to a node that ended meanwhile.
            return Err(Refusal {
                reason: Reason::OutcomeUnknown,
                message:
                    "The node was restarted during the call: the command was ended, and may have \
                          done a part of its work. Look before you call again."
                        .to_owned(),
            });
        }
        let request = RunRequest {
            argv: self.argv.into_iter().map(|it| it.0).collect(),
            cwd: self.cwd.unwrap_or_default().0,
            timeout: self.timeout_sec.map(|it| it.0),
            stdin: self.stdin.map(|it| it.0),
        };
        commands.check(&request).map_err(|why| why.refusal())?;
        if !commands.is_sandboxed()
            && let Some(asked) = ask(call, &request).await?
        {
            return Ok(asked);
        }
        let limit = request.timeout.unwrap_or(Duration::MAX).min(commands.settings().limit);
        let running = Box::pin(commands.run(request));
        let ended = held(call, &playing, limit + ENDING, "running the command", running).await;
        match ended {
            Held::Answered(Ok(outcome)) => Ok(json_result(&facts(&outcome)).into()),
            Held::Answered(Err(why)) => Err(why.refusal()),
            Held::Lost | Held::Over => Err(Refusal {
                reason: Reason::OutcomeUnknown,
                message: "The command was ended: the node stops, another agent plays the role, or \
                          nobody waits for it. It may have done a part of its work."
                    .to_owned(),
            }),
        }
    }
}

/// Asks the user about a command that nothing keeps in.
async fn ask(call: &Call<'_>, request: &RunRequest) -> Result<Option<CallToolResponse>, Refusal> {
    if !can_ask(call) {
        return Err(Refusal {
            reason: Reason::CommandForbidden,
            message:
                "Commands are not sandboxed on this node, and this client cannot ask its user \
                      about them. Nothing was run."
                    .to_owned(),
        });
    }
    let mut words = Sanitizer::default();
    let about = serde_json::to_vec(&(&request.argv, &request.cwd, &request.stdin));
    let about = about.expect("texts are JSON");
    let stdin = request
        .stdin
        .as_ref()
        .map_or_else(String::new, |it| format!("\nIts standard input has {} bytes.", it.len()));
    let question = Question {
        kind: "run-command",
        about: &about,
        message: format!(
            "An agent wants to run a command that is not sandboxed: it can do all that you can. Run \
             it?\n{}\nDirectory: {}{stdin}",
            words.line(&joined(&request.argv)),
            words.line(if request.cwd.is_empty() { "." } else { &request.cwd })
        ),
        whether: "whether the command may run",
        declined: "Canceled: the command was not approved. Nothing was run.",
    };
    confirm(call, &question).await
}

fn facts(it: &CommandOutcome) -> serde_json::Value {
    let mut facts = json!({
        "exit_code": null, "stdout": it.stdout.text, "stderr": it.stderr.text,
        "duration_ms": u64::try_from(it.took.as_millis()).unwrap_or(u64::MAX),
        "sandbox": it.sandbox,
    });
    match it.outcome {
        Outcome::Exit(code) => facts["exit_code"] = code.into(),
        Outcome::Signal(number) => facts["signal"] = number.into(),
        Outcome::TimedOut => facts["timed_out"] = true.into(),
    }
    for (name, end) in [("stdout", &it.stdout), ("stderr", &it.stderr)] {
        if end.is_cut {
            facts[format!("{name}_truncated")] = true.into();
            facts[format!("{name}_bytes")] = end.bytes.into();
        }
    }
    if !it.set_aside.paths.is_empty() {
        facts["set_aside"] = json!(it.set_aside.paths);
        facts["note"] = "Files that are protected were made where commands write; they were \
                         renamed to NAME.set-aside-…, and so was HEAD in Git repositories."
            .into();
    }
    if it.set_aside.is_postponed {
        facts["set_aside_later"] = true.into();
    }
    if let Some(why) = &it.set_aside.unchecked {
        facts["unchecked"] = format!("What it wrote could not be looked through: {why}.").into();
    }
    facts
}

/// The commands of the node.
fn commands(call: &Call<'_>) -> Result<Arc<Commands>, Refusal> {
    let none = |why: &String| Refusal {
        reason: Reason::CommandForbidden,
        message: format!("{why} Nothing was run."),
    };
    call.host.commands.as_ref().map(Arc::clone).map_err(none)
}
