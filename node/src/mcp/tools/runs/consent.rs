//! Whether a project's agents may run. They came with the project: whoever wrote it decides what they
//! do, with tools on this machine.
//!
//! - **RT2** An agent of a project runs for an agent only if its user trusts that very file
//!   (`tasuki trust`), or is asked by the client and says yes. A model cannot say so for its user,
//!   and a sub-agent has no user.
//!
//! A client from before 2026-07-28 is asked while its call is held. A later one is answered with
//! the question, and calls again with what its user said; the question's name says what was asked
//! about, so that the answer holds for nothing else.

use std::collections::BTreeMap;

use rmcp::{
    model::{
        CallToolResponse, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, ServerRequest,
    },
    service::PeerRequestOptions,
};
use tasuki_proto::reason::Reason;

use super::{
    super::{
        Call,
        sanitizer::Sanitizer,
        waiting::{longest, signs_of_life},
    },
    caller::Asker,
};
use crate::{
    mcp::request_context::is_legacy,
    role::Refusal,
    runner::discovery::AgentEntry,
    runs::{agent_trust, plan::Plan},
};

/// Digits of the hash in a question's name.
const HASH_DIGITS: usize = 32;

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
    let said = if is_legacy(call.context) {
        Some(Box::pin(ask(call, agents)).await?)
    } else {
        let name = question_name(agents);
        let Some(said) = call.inputs.get(&name) else {
            let question = InputRequest::Elicitation(question(agents));
            let asked = InputRequiredResult::from_input_requests([(name, question)].into());
            return Ok(Some(CallToolResponse::InputRequired(asked)));
        };
        serde_json::from_value(said.clone()).ok()
    };
    match said {
        Some(ElicitResult { action: ElicitationAction::Accept, .. }) => Ok(None),
        Some(_) | None => Err(Refusal {
            reason: Reason::RightForbidden,
            message: "Canceled: project-local agents not approved.".to_owned(),
        }),
    }
}

/// Whether the client can show its user a question.
fn can_ask(call: &Call<'_>) -> bool {
    let able = call.context.client_capabilities().and_then(|it| it.elicitation);
    // One that says no kind has the first there was.
    able.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// What its user says.
async fn ask(call: &Call<'_>, agents: &[AgentEntry]) -> Result<ElicitResult, Refusal> {
    let request = ServerRequest::ElicitRequest(question(agents));
    let options = PeerRequestOptions::with_timeout(longest(call, None));
    let asking = async {
        let asked = call.context.peer.send_request_with_option(request, options).await?;
        asked.await_response().await
    };
    let said = tokio::select! {
        said = asking => said,
        never = signs_of_life(call, "waiting for your user") => match never {},
        () = call.host.stopping.cancelled() => return Err(unanswered("the node stops")),
    };
    match said {
        Ok(ClientResult::ElicitResult(said)) => Ok(said),
        Ok(_) => Err(unanswered("the client answered something else")),
        Err(why) => Err(unanswered(&why.to_string())),
    }
}

fn question(agents: &[AgentEntry]) -> ElicitRequest {
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(agents),
        // Yes or no is all that is asked.
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    })
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
fn question_name(agents: &[AgentEntry]) -> String {
    let read = agents.iter().map(|it| (it.path.to_string_lossy(), it.source.as_str(), &it.agent));
    let read = serde_json::to_vec(&read.collect::<Vec<_>>()).expect("agents are JSON");
    let hash = blake3::hash(&read).to_hex();
    let hash: String = hash.chars().take(HASH_DIGITS).collect();
    format!("run-project-agents-{hash}")
}

fn unanswered(why: &str) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!(
            "Your user was asked whether the project's agents may run, and did not answer ({why}). \
             Nothing was started. Call again."
        ),
    }
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
