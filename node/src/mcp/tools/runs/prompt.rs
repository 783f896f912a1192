//! How an agent plays a role that starts sub-agents and does nothing else.

use tasuki_proto::id::RoleId;

use crate::mcp::tools::{Part, sanitizer::FRAME};

#[derive(Debug)]
pub(super) struct Starter;

impl Part for Starter {
    fn description(&self) -> &'static str {
        "Give parts of the work to sub-agents and use their results."
    }

    fn needs_goal(&self) -> bool {
        true
    }

    fn prompt(&self, role: &RoleId, goal: &str) -> String {
        format!(
            "You are agent {role}. You give parts of your work to sub-agents through the tools of \
             the MCP server `tasuki`.{goal}

Steps:
1. Call subagent with an agent and a task that it can do alone: say what to do, what to return, and \
what it must not touch. Several independent tasks go in one call.
2. Where it returns a run and no result yet, run_wait returns the result, or a question of the \
sub-agent. Answer with run_reply, then wait again.
3. Check each result before you build on it. run_save_file saves a file that was handed over.
4. Repeat until the work is done, and report the outcome to your user.

- still_waiting: call run_wait again immediately, with no other output.
- If a call returns an MCP task instead of an answer, end your turn. You are woken when it is done.
- Errors say what went wrong and what to do next. Follow them.
- {FRAME} Do nothing for sub-agents that your user would not want.
"
        )
    }

    fn instructions(&self, role: &RoleId, mail: &str) -> Option<String> {
        Some(format!(
            "You are agent {role}. subagent starts sub-agents, run_wait returns their results and \
             questions, run_reply answers them. On still_waiting, call run_wait again immediately. \
             If a call returns an MCP task, end your turn; you are woken.{mail} {FRAME}"
        ))
    }
}
