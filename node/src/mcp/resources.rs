//! Loops as MCP resources: `tasuki://loop/{id}`, as the role of an address sees each. Runs, at
//! `tasuki://run/{id}`, are in [`run_resource`](super::run_resource).
//!
//! Reading shows state and nothing else: a turn that was read is not handed, a read is no sign of
//! the agent's life (clients read on their own), and no wait is superseded. Words of others are in
//! fields of their own, with a notice beside them of what they are.

use rmcp::{
    ErrorData,
    model::{
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate,
    },
};
use serde::Serialize;
use serde_json::json;
use tasuki_proto::{
    echo::echo,
    id::{LoopId, RoleId},
    reason::Reason,
    run::RunId,
    wire::{self, EntryKind},
};

use super::tools::{LoopView, sanitizer::Sanitizer};
use crate::role::{Overview, Refusal, Seen};

/// What the address of every loop begins with.
const PREFIX: &str = "tasuki://loop/";

/// The same of every run.
const RUN_PREFIX: &str = "tasuki://run/";

/// What a run's name begins with, where loops are named, too: no loop has it in its name.
const RUN_NAME: &str = "run/";

/// The same of another MCP server's resource.
const SERVER_NAME: &str = "server/";

const JSON: &str = "application/json";

/// Resources in one page of a list.
const PAGE_MAX: usize = 100;

/// What a resource is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Loop(LoopId),
    Run(RunId),
    Server(ServerResource),
}

/// A resource of another MCP server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerResource {
    pub server: String,
    /// The server's own address for it.
    pub own: String,
    /// The address by which the client knows it.
    pub shown: String,
}

impl Subject {
    pub(super) fn uri(&self) -> String {
        match self {
            Self::Loop(loop_id) => format!("{PREFIX}{loop_id}"),
            Self::Run(run) => format!("{RUN_PREFIX}{run}"),
            Self::Server(resource) => resource.shown.clone(),
        }
    }

    /// `None`: not the address of a loop or a run.
    pub(super) fn at(uri: &str) -> Option<Self> {
        match uri.strip_prefix(RUN_PREFIX) {
            Some(run) => run.parse().ok().map(Self::Run),
            None => uri.strip_prefix(PREFIX)?.parse().ok().map(Self::Loop),
        }
    }

    /// The same, or that there is none.
    pub(super) fn named(uri: &str) -> Result<Self, ErrorData> {
        Self::at(uri).ok_or_else(|| unknown(uri))
    }

    /// As it is kept in a file.
    pub(super) fn to_line(&self) -> String {
        match self {
            Self::Loop(loop_id) => loop_id.to_string(),
            Self::Run(run) => format!("{RUN_NAME}{run}"),
            Self::Server(ServerResource { server, own, shown }) => {
                format!("{SERVER_NAME}{server}\t{own}\t{shown}")
            }
        }
    }

    pub(super) fn of_line(line: &str) -> Option<Self> {
        if let Some(rest) = line.strip_prefix(SERVER_NAME) {
            let mut parts = rest.split('\t').map(str::to_owned);
            let (server, own, shown) = (parts.next()?, parts.next()?, parts.next()?);
            return Some(Self::Server(ServerResource { server, own, shown }));
        }
        match line.strip_prefix(RUN_NAME) {
            Some(run) => run.parse().ok().map(Self::Run),
            None => line.parse().ok().map(Self::Loop),
        }
    }

    pub(super) const fn run(&self) -> Option<RunId> {
        match self {
            Self::Loop(_) | Self::Server(_) => None,
            Self::Run(run) => Some(*run),
        }
    }
}

/// The refusal of an address at which there is nothing.
pub(super) fn unknown(uri: &str) -> ErrorData {
    let message =
        format!("resource not found: {}; loops are {PREFIX}NAME, runs {RUN_PREFIX}ID", echo(uri));
    not_found(message, uri)
}

fn not_found(message: String, uri: &str) -> ErrorData {
    ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
}

/// The loops that any of `roles` takes part in, by name.
pub(super) async fn list(
    overview: &dyn Overview,
    roles: &[&RoleId],
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let Ok(after) = cursor.map(str::parse::<LoopId>).transpose() else {
        return Err(ErrorData::invalid_params("invalid cursor", None));
    };
    let loops = overview.loops().await.map_err(|refusal| failed(&refusal, None))?.what.loops;
    let takes_part = |of: &&wire::Loop| {
        of.participants.iter().any(|name| roles.iter().any(|role| role.as_str() == name))
    };
    let ids = loops.iter().filter(takes_part).filter_map(|of| of.r#loop.parse::<LoopId>().ok());
    let mut ids: Vec<LoopId> = ids.filter(|id| after.as_ref().is_none_or(|it| it < id)).collect();
    ids.sort();
    let has_more = PAGE_MAX < ids.len();
    ids.truncate(PAGE_MAX);
    let mut page = ListResourcesResult::with_all_items(ids.iter().map(resource).collect());
    page.next_cursor = ids.last().filter(|_| has_more).map(LoopId::to_string);
    Ok(page)
}

fn resource(loop_id: &LoopId) -> Resource {
    Resource::new(format!("{PREFIX}{loop_id}"), format!("loop {loop_id}"))
        .with_title(format!("Loop {loop_id}"))
        .with_description("Current turn and last handover.")
        .with_mime_type(JSON)
}

/// Those of an address that shows loops, or runs.
pub(super) fn templates(has_loops: bool, has_runs: bool) -> ListResourceTemplatesResult {
    let template = |prefix: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(format!("{prefix}{{id}}"), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    let loops = has_loops
        .then(|| template(PREFIX, "loop", "Loop", "Current turn and last handover of a loop."));
    let runs = has_runs.then(|| {
        template(RUN_PREFIX, "run", "Run", "State of a run, and the newest output of its agents.")
    });
    ListResourceTemplatesResult::with_all_items(loops.into_iter().chain(runs).collect())
}

/// The loop at `uri`, as `role` sees it; `None`: as nobody in particular.
pub(super) async fn read(
    overview: &dyn Overview,
    role: Option<&RoleId>,
    loop_id: &LoopId,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let seen = overview.look(loop_id).await.map_err(|refusal| failed(&refusal, Some(uri)))?;
    contents(&Shown::new(loop_id, role, &seen), uri)
}

/// A resource as JSON.
pub(super) fn contents(shown: &impl Serialize, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let text = serde_json::to_string_pretty(shown);
    let text = text.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(JSON)]))
}

pub(super) fn failed(refusal: &Refusal, uri: Option<&str>) -> ErrorData {
    let message = refusal.message.clone();
    if let (Some(uri), Reason::UnknownLoop | Reason::UnknownRun) = (uri, refusal.reason) {
        return not_found(message, uri);
    }
    let data = json!({
        "code": refusal.reason.as_str(),
        "retryable": refusal.reason.is_retryable(),
    });
    ErrorData::internal_error(message, Some(data))
}

/// What a reader gets.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_my_turn: Option<bool>,
    #[serde(flatten)]
    status: LoopView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Previous>,
}

/// What whoever had the turn before said to the reader, whose turn it is.
#[derive(Debug, Serialize)]
struct Previous {
    from: String,
    summary: String,
    instruction: String,
    #[serde(skip_serializing_if = "is_nothing")]
    stripped: usize,
}

impl<'a> Shown<'a> {
    fn new(
        loop_id: &'a LoopId,
        role: Option<&'a RoleId>,
        seen: &'a Seen<wire::GetLoopResponse>,
    ) -> Self {
        let told = &seen.what;
        let holder = told.r#loop.as_ref().map_or("", |it| &it.holder);
        // From memory nobody is told to start.
        let is_my_turn = role.filter(|_| seen.ago.is_none()).map(|role| role.as_str() == holder);
        let words = told.words.as_ref().or(told.latest.as_ref());
        let previous = words.filter(|it| is_my_turn == Some(true) && has_words(it)).map(|it| {
            let from = if it.from.is_empty() { &it.person } else { &it.from };
            let mut others = Sanitizer::default();
            Previous {
                from: others.line(from),
                summary: others.text(&it.summary),
                instruction: others.text(&it.instruction),
                stripped: others.stripped,
            }
        });
        let mut status = LoopView::new(loop_id.as_str(), seen);
        if previous.is_some() {
            // They are said once.
            status = status.without_texts();
        }
        Self { role: role.map(RoleId::as_str), is_my_turn, status, previous }
    }
}

fn is_nothing(count: &usize) -> bool {
    *count == 0
}

fn has_words(entry: &wire::Entry) -> bool {
    let is_handover = entry.kind() == EntryKind::Handover;
    is_handover || !entry.summary.is_empty() || !entry.instruction.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_memory_nobody_is_told_to_start() {
        let main: LoopId = "main".parse().expect("an id");
        let role: RoleId = "B".parse().expect("an id");
        let of = wire::Loop { holder: "B".into(), ..Default::default() };
        let kind = EntryKind::Handover.into();
        let latest = wire::Entry { kind, instruction: "go".into(), ..Default::default() };
        let what =
            wire::GetLoopResponse { r#loop: Some(of), latest: Some(latest), ..Default::default() };
        for (ago, starts) in [(None, true), (Some(std::time::Duration::from_secs(9)), false)] {
            let seen = Seen { what: what.clone(), ago };
            let shown = Shown::new(&main, Some(&role), &seen);
            let shown = serde_json::to_value(shown).expect("JSON");
            assert_eq!(shown.get("is_my_turn").is_some(), starts, "{shown}");
            assert_eq!(shown.get("previous").is_some(), starts, "{shown}");
            assert_eq!(shown.get("caution").is_some(), !starts, "{shown}");
            assert_eq!(shown["holder"], "B");
        }
    }

    #[test]
    fn words_are_shown_without_what_hides() {
        let main: LoopId = "main".parse().expect("an id");
        let role: RoleId = "B".parse().expect("an id");
        let words = || "a\u{e0041}\u{202e}b\u{1b}".to_owned();
        let latest = wire::Entry {
            kind: EntryKind::Handover.into(),
            summary: words(),
            instruction: words(),
            person: words(),
            reason: words(),
            ..Default::default()
        };
        let of = wire::Loop { holder: "B".into(), ..Default::default() };
        let what =
            wire::GetLoopResponse { r#loop: Some(of), latest: Some(latest), ..Default::default() };
        let seen = Seen { what, ago: None };
        let shown = |role| serde_json::to_value(Shown::new(&main, role, &seen)).expect("JSON");
        let (own, nobodys) = (shown(Some(&role)), shown(None));
        let previous = &own["previous"];
        assert_eq!((&previous["summary"], &previous["instruction"]), (&"ab".into(), &"ab".into()));
        assert_eq!((&previous["from"], &previous["stripped"]), (&"ab".into(), &9.into()));
        for field in ["summary", "instruction", "person", "reason"] {
            assert_eq!(nobodys["latest"][field], "ab", "{nobodys}");
        }
        assert_eq!(nobodys["stripped"], 12);
        for shown in [own, nobodys] {
            assert!(shown["note"].as_str().expect("a text").contains("untrusted data"));
        }
    }

    #[test]
    fn which_addresses_are_a_loops() {
        let main = Subject::Loop("main".parse().expect("an id"));
        assert_eq!(main.uri(), "tasuki://loop/main");
        assert_eq!(Subject::at(&main.uri()), Some(main));
        for other in [
            "",
            "tasuki://loop/",
            "tasuki://loop/a/b",
            "tasuki://loop/%6dain",
            "tasuki://loop/../x",
            "tasuki://role/A",
            "TASUKI://loop/main",
            "file:///etc/passwd",
        ] {
            assert_eq!(Subject::at(other), None, "{other}");
        }
    }

    #[test]
    fn a_subject_is_read_as_it_was_written() {
        let run: RunId = "run_1700000000000_00af".parse().expect("an id");
        let named: LoopId = run.to_string().parse().expect("an id");
        for subject in [Subject::Run(run), Subject::Loop(named)] {
            assert_eq!(Subject::at(&subject.uri()), Some(subject.clone()));
            assert_eq!(Subject::of_line(&subject.to_line()), Some(subject.clone()));
        }
        assert_eq!(Subject::Run(run).uri(), "tasuki://run/run_1700000000000_00af");
        for other in ["tasuki://run/", "tasuki://run/main", "tasuki://run/run_1_00af/2"] {
            assert_eq!(Subject::at(other), None, "{other}");
        }
        assert_eq!(Subject::of_line("run/main"), None);
    }
}
