//! Issues: opened, kept, closed and opened again by their lead.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Timestamp},
    limits::{NEW_DOCS_MAX, TEXT_BYTES_MAX},
    reason::Reason,
    swarm::{DocName, IssueId},
    wire,
};
use tonic::Status;

use super::{
    super::scan::{Page, Part, SKIPPED_MAX},
    super::{
        LaterRefusal,
        parse::{check_count, check_size},
        refuse,
        status::invalid,
    },
    Actor, Answer, Endpoint, Later, Rejection, View, WorkspaceSession, optional, parse, render,
};
use crate::rules::{
    Command,
    swarm::{
        self, CommandKind, CreateIssue, Issue, IssueState, ListFilter, Reply,
        words::{AuditKind, DocPaths},
    },
};

/// Documents after the end of a closed issue that are passed over to find why it was closed.
const FOLLOWING_MAX: u64 = 256;

impl Endpoint for wire::CreateIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        check_size("description", self.description.len(), TEXT_BYTES_MAX)?;
        let create = CreateIssue {
            subject: parse::subject(self.subject)?,
            description: self.description,
            paths: parse::paths(self.shared_doc_paths, self.project_doc_paths)?,
            docs: docs(self.docs)?,
        };
        let render = |view: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::Issue(issue)) = reply else {
                unreachable!("an issue is opened or refused")
            };
            response(view, issue)
        };
        session.ask(CommandKind::CreateIssue(create), render).await
    }
}

fn docs(docs: Vec<wire::NewDoc>) -> Result<Vec<(DocName, String)>, Status> {
    check_count("docs", docs.len(), 0..=NEW_DOCS_MAX)?;
    let mut names = BTreeSet::new();
    let doc = |it: wire::NewDoc| {
        let name: DocName = parse::named("docs.name", &it.name)?;
        if !names.insert(name.clone()) {
            return Err(invalid("docs.name", &format!("names {name} twice")));
        }
        Ok((name, parse::content(it.content)?))
    };
    docs.into_iter().map(doc).collect()
}

/// How often the paths are set while others set them: each time somebody else got what they asked
/// for.
const SET_PATHS_TRIES: usize = 8;

impl Endpoint for wire::UpdateIssueDocPathsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue: IssueId = parse::named("issue_id", &self.issue_id)?;
        for (field, is_kept, list) in [
            ("shared_doc_paths", self.keep_shared_docs, &self.shared_doc_paths),
            ("project_doc_paths", self.keep_project_docs, &self.project_doc_paths),
        ] {
            if is_kept && !list.is_empty() {
                return Err(invalid(field, &"is given and is to be kept as it is, too"));
            }
        }
        let mut tries_left = SET_PATHS_TRIES;
        loop {
            tries_left -= 1;
            let by = Actor::Role(session.role()?);
            let paths = new_paths(session, issue, &self).await;
            let replaces = paths.as_ref().ok().and_then(|(_, replaces)| *replaces);
            // What is kept may not go with the rest by the time that the call is repeated: whether
            // it does is said once no answer is kept under its key.
            let prepare = move |_: &View<'_>| -> Result<(Command, ()), LaterRefusal> {
                let (paths, replaces) = paths.map_err(refuse)?;
                let ask = CommandKind::SetDocPaths { issue, paths, replaces };
                Ok((swarm::Command { by, ask }.into(), ()))
            };
            let render = move |view: &View<'_>, _, _: Option<()>| response(view, issue);
            match session.execute_prepared(prepare, render).await {
                // Somebody set them in between: what they said is kept.
                Err(why)
                    if replaces.is_some()
                        && 0 < tries_left
                        && Reason::of(&why) == Some(Reason::StaleToken) => {}
                answer => return answer,
            }
        }
    }
}

/// The paths that an issue is to have, and the version of those that are kept of it.
async fn new_paths(
    session: &WorkspaceSession,
    issue: IssueId,
    it: &wire::UpdateIssueDocPathsRequest,
) -> Result<(DocPaths, Option<u32>), Status> {
    let (mut shared, mut project) = (it.shared_doc_paths.clone(), it.project_doc_paths.clone());
    let mut replaces = None;
    if it.keep_shared_docs || it.keep_project_docs {
        let version =
            session.query(None, move |view| Ok(view.workspace.swarm.issue(issue)?.paths_version));
        let version = version.await?;
        let known = session.doc_paths(issue, version)?;
        shared = if it.keep_shared_docs { known.shared } else { shared };
        project = if it.keep_project_docs { known.project } else { project };
        replaces = Some(version);
    }
    Ok((parse::paths(shared, project)?, replaces))
}

impl Endpoint for wire::CloseIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue = parse::named("issue_id", &self.issue_id)?;
        let reason = parse::why("summary", self.summary)?;
        ask(session, issue, CommandKind::CloseIssue { issue, reason }).await
    }
}

impl Endpoint for wire::ReopenIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue = parse::named("issue_id", &self.issue_id)?;
        let reason = parse::why("summary", self.summary)?;
        ask(session, issue, CommandKind::ReopenIssue { issue, reason }).await
    }
}

impl Endpoint for wire::ExtendIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue = parse::named("issue_id", &self.issue_id)?;
        let extend_ms = parse::lease(self.for_ms)?;
        ask(session, issue, CommandKind::ExtendIssue { issue, extend_ms }).await
    }
}

impl Endpoint for wire::GetIssueRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue = parse::named("issue_id", &self.issue_id)?;
        session.show(None, move |view| response(view, issue)).await
    }
}

impl Endpoint for wire::ListIssuesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (limit, offset) = (parse::limit(self.limit), self.offset as usize);
        let (status, sort_by, is_ascending) = (self.status(), self.sort_by(), self.ascending);
        let order: fn(&Issue) -> (Timestamp, String) = match sort_by {
            wire::SortBy::Unspecified | wire::SortBy::Created => |_| Default::default(),
            wire::SortBy::Updated => |it| (it.updated, String::new()),
            wire::SortBy::Subject => |it| (Timestamp::default(), it.subject.clone()),
            wire::SortBy::Points => {
                return Err(invalid("sort_by", &"is of tasks; issues have no points"));
            }
        };
        let subject_contains = wanted(&self.subject_contains);
        let filter = ListFilter { subject_contains, ..ListFilter::default() };
        let state = state(status);
        let lead: Option<RoleId> = optional("lead", &self.lead)?;
        let is_in_progress = status == wire::IssueStatus::InProgress;
        let is_plain = matches!(sort_by, wire::SortBy::Unspecified | wire::SortBy::Created)
            && !is_ascending
            && offset <= SKIPPED_MAX
            && !is_in_progress
            && filter.subject_contains.is_none()
            && lead.is_none();
        let first = move |view: &View<'_>| {
            let swarm = &view.workspace.swarm;
            let page = || swarm.list_issues(state, None).skip(offset).take(limit);
            let page = || page().map(|it| it.id).collect();
            Ok(is_plain.then(|| (page(), swarm.count_issues(state) as u64)))
        };
        let part = move |view: &View<'_>, before: Option<IssueId>| {
            let issues = view.workspace.swarm.list_issues(state, before);
            let fits = |it: &Issue| {
                let fits = filter.has_subject(&it.subject)
                    && (!is_in_progress || it.is_in_progress())
                    && (lead.is_none() || lead == it.lead);
                fits.then(|| (order(it), it.id))
            };
            Ok(Part::of(issues, usize::MAX, |it| (it.id, 1), fits))
        };
        let render = |view: &View<'_>, ids: Vec<IssueId>| {
            let issues = ids.into_iter().filter_map(|id| view.workspace.swarm.issue(id).ok());
            Ok(issues.map(render::issue).collect())
        };
        let page = Page::new(is_ascending, limit, offset);
        let (issues, total, now_ms) = session.list(None, page, first, part, render).await?;
        Ok(wire::ListIssuesResponse { issues, total, now_ms })
    }
}

/// What subjects are looked through for; `None` for nothing.
pub(super) fn wanted(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_lowercase())
}

/// Which stored state is meant; `None` for all.
pub(super) fn state(status: wire::IssueStatus) -> Option<IssueState> {
    match status {
        wire::IssueStatus::Unspecified => None,
        wire::IssueStatus::Open | wire::IssueStatus::InProgress => Some(IssueState::Open),
        wire::IssueStatus::Done => Some(IssueState::Done),
        wire::IssueStatus::Canceled => Some(IssueState::Canceled),
    }
}

/// Executes what a role asks about an issue.
async fn ask(
    session: &WorkspaceSession,
    issue: IssueId,
    ask: CommandKind,
) -> Result<wire::IssueResponse, Status> {
    session.ask(ask, move |view, _| response(view, issue)).await
}

/// The answer of a call about an issue: as it stands, with its words.
fn response(view: &View<'_>, id: IssueId) -> Result<Later<wire::IssueResponse>, Rejection> {
    let it = view.workspace.swarm.issue(id)?;
    let (mut issue, version, audit) = (render::issue(it), it.paths_version, it.audit);
    let is_closed = it.state != IssueState::Open;
    Ok(Box::new(move |session| {
        issue.description = session.description(id)?;
        let DocPaths { shared, project } = session.doc_paths(id, version)?;
        (issue.shared_doc_paths, issue.project_doc_paths) = (shared, project);
        // Nothing happens to an issue that is closed, but that documents of an import follow it: why
        // it was closed is what its audit ends with before these.
        let mut last = session.audited(id, audit)?;
        let oldest = audit.saturating_sub(FOLLOWING_MAX).max(1);
        while is_closed && last.kind == AuditKind::DocWritten && oldest < last.number {
            last = session.audited(id, last.number - 1)?;
        }
        if matches!(last.kind, AuditKind::IssueClosed | AuditKind::IssueReopened) {
            issue.summary = last.detail;
        }
        Ok(wire::IssueResponse { issue: Some(issue), ..Default::default() })
    }))
}
