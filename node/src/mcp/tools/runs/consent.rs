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
use tasuki_proto::{host::trust::TrustStore, reason::Reason};

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
    runs::{
        agent_trust::{is_trusted, project_of},
        plan::Plan,
    },
};

/// Agents that one question names; it says how many more there are.
const NAMED_MAX: usize = 10;

/// Digits of the hash in a question's name.
const HASH_DIGITS: usize = 32;

pub(super) enum Consent {
    Given,
    /// The client is to ask its user, and to call again.
    Ask(Box<CallToolResponse>),
}

/// # Errors
/// When nobody says that they may run.
pub(super) async fn check(asker: &Asker<'_>, plan: &Plan) -> Result<Consent, Refusal> {
    let agents: Vec<AgentEntry> = plan.project_agents().cloned().collect();
    if agents.is_empty() {
        return Ok(Consent::Given);
    }
    let trusted = tokio::task::spawn_blocking(move || {
        let store = TrustStore::of_user();
        agents.into_iter().filter(|it| !is_trusted(&store, it)).collect::<Vec<_>>()
    });
    let agents = trusted.await.map_err(|_| unreadable())?;
    if agents.is_empty() {
        return Ok(Consent::Given);
    }
    let call = asker.call;
    if asker.actions.is_none() || !can_ask(call) {
        return Err(not_asked(&agents));
    }
    if is_legacy(call.context) {
        return match Box::pin(ask(call, &agents)).await? {
            true => Ok(Consent::Given),
            false => Err(declined()),
        };
    }
    let name = question_name(&agents);
    let Some(said) = call.inputs.get(&name) else {
        let question = InputRequest::Elicitation(question(&agents));
        let asked = InputRequiredResult::from_input_requests([(name, question)].into());
        return Ok(Consent::Ask(Box::new(CallToolResponse::InputRequired(asked))));
    };
    let said = serde_json::from_value::<ElicitResult>(said.clone());
    match said.is_ok_and(|said| said.action == ElicitationAction::Accept) {
        true => Ok(Consent::Given),
        false => Err(declined()),
    }
}

/// Whether the client can show its user a question.
fn can_ask(call: &Call<'_>) -> bool {
    let able = call.context.client_capabilities().and_then(|it| it.elicitation);
    // One that says no kind has the first there was.
    able.is_some_and(|it| it.form.is_some() || it.url.is_none())
}

/// Whether its user says yes.
async fn ask(call: &Call<'_>, agents: &[AgentEntry]) -> Result<bool, Refusal> {
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
    let said = said.map_err(|why| unanswered(&why.to_string()))?;
    let ClientResult::ElicitResult(said) = said else {
        return Err(unanswered("the client answered something else"));
    };
    Ok(said.action == ElicitationAction::Accept)
}

fn question(agents: &[AgentEntry]) -> ElicitRequest {
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(agents),
        // Yes or no is all that is asked.
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    })
}

fn message(agents: &[AgentEntry]) -> String {
    format!(
        "An agent wants to run sub-agents that came with this project. They can use tools on this \
         machine. Run them?\n{}",
        lines(agents)
    )
}

/// A line for each: what it is called, and where it is.
fn lines(agents: &[AgentEntry]) -> String {
    let mut paths = Sanitizer::default();
    let named = agents.iter().take(NAMED_MAX);
    let mut lines: Vec<String> = named
        .map(|it| format!("- {}: {}", it.agent.name, paths.line(&it.path.to_string_lossy())))
        .collect();
    if let more @ 1.. = agents.len().saturating_sub(NAMED_MAX) {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// Others, or other contents of the same files, are another question.
fn question_name(agents: &[AgentEntry]) -> String {
    let read = agents.iter().map(|it| (it.path.to_string_lossy(), it.source, &it.agent));
    let read = serde_json::to_vec(&read.collect::<Vec<_>>()).expect("agents are JSON");
    let hash = blake3::hash(&read).to_hex();
    let hash: String = hash.chars().take(HASH_DIGITS).collect();
    format!("run-project-agents-{hash}")
}

fn declined() -> Refusal {
    Refusal {
        reason: Reason::RightForbidden,
        message: "Canceled: project-local agents not approved.".to_owned(),
    }
}

/// Nobody can be asked.
fn not_asked(agents: &[AgentEntry]) -> Refusal {
    let mut paths = Sanitizer::default();
    let mut projects: Vec<String> = agents
        .iter()
        .filter_map(project_of)
        .map(|project| format!("`tasuki trust {}`", paths.line(&project.to_string_lossy())))
        .collect();
    projects.sort();
    projects.dedup();
    Refusal {
        reason: Reason::RightForbidden,
        message: format!(
            "These agents came with the project, and nobody approved them. Nothing was started.\n\
             {}\nAsk your user to read them and to run {}. Then call again.",
            lines(agents),
            projects.join(" and ")
        ),
    }
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

fn unreadable() -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: "The files of the agents could not be read. Nothing was started. Call again."
            .to_owned(),
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
        let few = [agent("scout", "Look."), agent("planner", "Plan.")];
        let asked = message(&few);
        assert!(asked.ends_with(
            "Run them?\n- scout: /p/x/.tasuki/agents/scout.md\n- planner: \
             /p/x/.tasuki/agents/planner.md"
        ));
        let many: Vec<_> = (0..NAMED_MAX + 2).map(|n| agent(&format!("a{n}"), "")).collect();
        assert!(message(&many).ends_with("\n- and 2 more"));
    }

    /// Holds RT2.
    #[test]
    fn an_answer_is_about_these_agents_as_they_are() {
        let name = |agents: &[AgentEntry]| question_name(agents);
        let one = [agent("scout", "Look.")];
        assert_eq!(name(&one), name(&[agent("scout", "Look.")]));
        assert_ne!(name(&one), name(&[agent("scout", "Delete.")]));
        assert_ne!(name(&one), name(&[agent("scout", "Look."), agent("planner", "")]));
    }

    #[test]
    fn a_refusal_says_how_to_allow_it() {
        let refusal = not_asked(&[agent("scout", ""), agent("planner", "")]);
        assert!(refusal.message.ends_with("to run `tasuki trust /p/x`. Then call again."));
        assert_eq!(declined().message, "Canceled: project-local agents not approved.");
    }
}
