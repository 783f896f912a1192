//! Whether a project's agents may run. They came with the project: whoever wrote it decides what they
//! do, with tools on this machine.
//!
//! - **RT2** An agent of a project runs for an agent only if its user trusts that very file
//!   (`tasuki trust`), or is asked by the client and says yes. A model cannot say so for its user,
//!   and a sub-agent has no user.

use rmcp::model::CallToolResponse;

use super::{
    super::{
        elicit::{Question, can_ask, confirm},
        sanitizer::Sanitizer,
    },
    caller::Asker,
};
use crate::{
    role::Refusal,
    runner::discovery::AgentEntry,
    runs::{agent_trust, plan::Plan},
};

/// Agents that came with the project, and that its user does not trust as they are. Blocks on the
/// disk.
pub(super) fn untrusted(plan: &Plan) -> Vec<AgentEntry> {
    agent_trust::untrusted(plan.project_agents())
}

/// Whether these may run. `Some`: the client is to ask its user, and to call again.
///
/// # Errors
/// When nobody says that they may.
pub(super) async fn check(
    asker: &Asker<'_>,
    agents: &[AgentEntry],
) -> Result<Option<CallToolResponse>, Refusal> {
    let call = asker.call;
    if agents.is_empty() {
        return Ok(None);
    }
    if asker.actions.is_none() || !can_ask(call) {
        return Err(agent_trust::refusal(agents, line));
    }
    let about = about(agents);
    confirm(call, &question(agents, &about)).await
}

fn question<'a>(agents: &[AgentEntry], about: &'a [u8]) -> Question<'a> {
    Question {
        kind: "run-project-agents",
        about,
        message: message(agents),
        whether: "whether the project's agents may run",
        declined: "Canceled: project-local agents not approved.",
    }
}

/// Names all of them: one that is not named is one that nobody agreed to.
fn message(agents: &[AgentEntry]) -> String {
    format!(
        "An agent wants to run sub-agents that came with this project. They can use tools on this \
         machine. Run them?{}",
        agent_trust::lines(agents, line)
    )
}

fn line(text: &str) -> String {
    Sanitizer::default().line(text)
}

/// Others, or other contents of the same files, are another question.
fn about(agents: &[AgentEntry]) -> Vec<u8> {
    let read = agents.iter().map(|it| (it.path.to_string_lossy(), it.source.as_str(), &it.agent));
    serde_json::to_vec(&read.collect::<Vec<_>>()).expect("agents are JSON")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::runner::{
        agent_file::Agent,
        discovery::{DirectoryKind, Source},
    };

    fn agent(name: &str, body: &str) -> AgentEntry {
        let text = format!("---\nname: {name}\ndescription: d\n---\n{body}\n");
        AgentEntry {
            agent: Agent::parse(&text).unwrap(),
            path: PathBuf::from(format!("/p/\u{202e}x/.tasuki/agents/{name}.md")),
            source: Source::Project,
            kind: DirectoryKind::Tasuki,
        }
    }

    #[test]
    fn a_question_names_each_agent_and_its_file() {
        let mut few = [agent("scout", "Look."), agent("planner", "Plan.")];
        few[1].agent.tools = Some(vec!["read".to_owned(), "bash".to_owned()]);
        few[1].agent.env = Some(vec!["API_KEY".to_owned()]);
        let asked = message(&few);
        assert!(asked.ends_with(
            "Run them?\n- scout: /p/x/.tasuki/agents/scout.md (all tools)\n- planner: \
             /p/x/.tasuki/agents/planner.md (tools read, bash; env API_KEY)"
        ));
        let many: Vec<_> = (0..100).map(|n| agent(&format!("a{n}"), "")).collect();
        assert_eq!(message(&many).matches("\n- a").count(), many.len(), "none hides among others");
    }

    /// Holds RT2.
    #[test]
    fn an_answer_is_about_these_agents_as_they_are() {
        let question_name = |agents: &[AgentEntry]| question(agents, &about(agents)).name();
        let one = question_name(&[agent("scout", "Look.")]);
        assert_eq!(one, question_name(&[agent("scout", "Look.")]));
        assert_ne!(one, question_name(&[agent("scout", "Delete.")]));
        assert_ne!(one, question_name(&[agent("scout", "Look."), agent("planner", "")]));
    }

    #[test]
    fn a_refusal_says_how_to_allow_it() {
        let refusal = agent_trust::refusal(&[agent("scout", ""), agent("planner", "")], line);
        assert!(refusal.message.ends_with("to run `tasuki trust /p/x`. Then call again."));
    }
}
