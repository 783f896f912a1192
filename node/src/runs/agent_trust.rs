//! Which agents of a project its user trusts: files with the very content that `tasuki trust` was
//! shown. Any change ends that.
//!
//! Not here: asking somebody about those that are not trusted.

use std::{collections::BTreeSet, path::Path};

use tasuki_proto::{
    host::{config::read_settings, trust::TrustStore},
    reason::Reason,
};

use crate::{
    refusal::Refusal,
    runner::{
        agent_file::Agent,
        discovery::{AgentEntry, Agents, Directory, Scope, project_dirs},
    },
};

/// From a project to an agent's file: `.tasuki/agents/scout.md`.
const DEPTH: usize = 3;

/// An agent's file of a project, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// From the project on, with `/` between.
    pub name: String,
    pub content: Vec<u8>,
    pub entry: AgentEntry,
}

/// The agents that lie in a directory, as projects have them; not those above it.
pub fn files_of(directory: &Path) -> Vec<AgentFile> {
    let is_its = |it: &Directory| it.root.as_deref() == Some(directory);
    let own: Vec<_> = project_dirs(directory, &[]).into_iter().filter(is_its).collect();
    let agents = Agents::find(&[], &own, Scope::Project).agents;
    agents.into_values().filter_map(read).collect()
}

/// Whether the agent is as its user trusts it.
pub fn is_trusted(store: &TrustStore, entry: &AgentEntry) -> bool {
    let Some(project) = project_of(entry) else { return false };
    let Some(file) = read(entry.clone()) else { return false };
    store.distrust(project, &file.name, &file.content).is_none()
}

/// Those of a project's agents that their user does not trust as they are. Blocks on the disk.
pub fn untrusted<'e>(agents: impl Iterator<Item = &'e AgentEntry>) -> Vec<AgentEntry> {
    let store = TrustStore::of_user();
    agents.filter(|it| !is_trusted(&store, it)).cloned().collect()
}

/// Why agents that nobody approved do not run, and what lets them. `shown` makes a text of theirs a
/// line that may stand in it.
pub fn refusal(agents: &[AgentEntry], shown: impl Fn(&str) -> String) -> Refusal {
    let projects: BTreeSet<&Path> = agents.iter().filter_map(project_of).collect();
    let trusts =
        projects.into_iter().map(|it| format!("`tasuki trust {}`", shown_path(it, &shown)));
    Refusal {
        reason: Reason::RightForbidden,
        message: format!(
            "These agents came with the project, and nobody approved them. Nothing was \
             started.{}\nAsk your user to read them and to run {}. Then call again.",
            lines(agents, &shown),
            trusts.collect::<Vec<_>>().join(" and ")
        ),
    }
}

/// A line for each: what it is called, where it is, and what it may use.
pub fn lines(agents: &[AgentEntry], shown: impl Fn(&str) -> String) -> String {
    let line = |it: &AgentEntry| {
        let (file, access) = (shown_path(&it.path, &shown), shown(&access(&it.agent)));
        format!("\n- {}: {file} ({access})", it.agent.name)
    };
    agents.iter().map(line).collect()
}

fn shown_path(path: &Path, shown: impl Fn(&str) -> String) -> String {
    shown(&path.to_string_lossy())
}

/// The project that an agent came with.
pub fn project_of(entry: &AgentEntry) -> Option<&Path> {
    entry.path.ancestors().nth(DEPTH)
}

/// What an agent may use, for whoever is asked about it: `tools read, grep; env API_KEY`.
pub fn access(agent: &Agent) -> String {
    let tools = match &agent.tools {
        Some(tools) => format!("tools {}", tools.join(", ")),
        None => "all tools".to_owned(),
    };
    match agent.env.as_deref().unwrap_or_default() {
        [] => tools,
        env => format!("{tools}; env {}", env.join(", ")),
    }
}

/// `None`: it is another agent by now.
fn read(entry: AgentEntry) -> Option<AgentFile> {
    let below = entry.path.strip_prefix(project_of(&entry)?).ok()?;
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    let name = parts?.join("/");
    let (content, _) = read_settings(&entry.path).ok()?;
    let agent = Agent::parse(str::from_utf8(&content).ok()?).ok()?;
    (agent == entry.agent).then_some(AgentFile { name, content, entry })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::runner::discovery::Source;

    fn agent(place: &Path, path: &str, name: &str, body: &str) {
        let file = place.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("---\nname: {name}\ndescription: d\n---\n{body}\n")).unwrap();
    }

    fn found(project: &Path) -> Vec<AgentEntry> {
        let agents = Agents::find(&[], &project_dirs(project, &[]), Scope::Project);
        agents.agents.into_values().collect()
    }

    #[test]
    fn an_agent_is_trusted_as_it_was_shown() {
        let place = tempfile::tempdir().unwrap();
        let (project, own) = (place.path().join("project"), place.path().join("own"));
        agent(&project, ".tasuki/agents/scout.md", "scout", "Look.");
        agent(&project, ".claude/agents/planner.md", "planner", "Plan.");
        agent(&project.join("web"), ".pi/agents/painter.md", "painter", "Paint.");
        let store = TrustStore::within(&own);
        let trusted = |project: &Path| {
            let known = found(project);
            assert!(known.iter().all(|it| it.source == Source::Project));
            let known = known.iter().filter(|it| is_trusted(&store, it));
            known.map(|it| it.agent.name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(trusted(&project), "");
        let files = files_of(&project);
        let names: Vec<_> = files.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, [".claude/agents/planner.md", ".tasuki/agents/scout.md"]);
        let contents = files.iter().map(|it| (it.name.as_str(), it.content.as_slice()));
        store.trust(&project, contents).unwrap();
        assert_eq!(trusted(&project), "planner scout");
        assert_eq!(trusted(&project.join("web")), "planner scout", "those above it, too");
        agent(&project, ".tasuki/agents/scout.md", "scout", "Look elsewhere.");
        agent(&project, ".tasuki/agents/other.md", "other", "New.");
        assert_eq!(trusted(&project), "planner");
        // One that was found before its file became what is trusted is another agent.
        let before = found(&project).into_iter().find(|it| it.agent.name == "scout").unwrap();
        agent(&project, ".tasuki/agents/scout.md", "scout", "Look.");
        assert!(trusted(&project).contains("scout") && !is_trusted(&store, &before));
    }

    #[test]
    fn a_refusal_names_each_agent_and_how_to_allow_it() {
        let place = tempfile::tempdir().unwrap();
        agent(place.path(), "one/.tasuki/agents/scout.md", "scout", "Look.");
        agent(place.path(), "one/.tasuki/agents/planner.md", "planner", "Plan.");
        agent(place.path(), "two/.pi/agents/painter.md", "painter", "Paint.");
        let mut agents = found(&place.path().join("one"));
        agents.extend(found(&place.path().join("two")));
        let root = place.path().to_string_lossy().into_owned();
        let refused = refusal(&agents, |text| text.replace(&root, ""));
        assert_eq!(refused.reason, Reason::RightForbidden);
        assert_eq!(
            refused.message,
            "These agents came with the project, and nobody approved them. Nothing was started.\n\
             - planner: /one/.tasuki/agents/planner.md (all tools)\n\
             - scout: /one/.tasuki/agents/scout.md (all tools)\n\
             - painter: /two/.pi/agents/painter.md (all tools)\n\
             Ask your user to read them and to run `tasuki trust /one` and `tasuki trust /two`. \
             Then call again."
        );
    }
}
