//! Issues: opened, kept, closed and opened again by their lead.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Sequence, Timestamp},
    limits::{NEW_DOCS_MAX, TEXT_BYTES_MAX},
    reason::Reason,
    swarm::{DocName, IssueId},
    wire,
};
use tonic::Status;

use super::{
    super::scan::{Page, Part, SKIPPED_MAX},
    super::status::{invalid, too_large},
    View, WorkspaceSession, id, optional, parse, render,
};
use crate::rules::swarm::{
    CommandKind, CreateIssue, Issue, IssueState, ListFilter, Reply,
    words::{AuditKind, DocPaths},
};

pub(super) async fn create(
    session: &WorkspaceSession,
    mut it: wire::CreateIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    if TEXT_BYTES_MAX < it.description.len() {
        return Err(too_large("description", it.description.len(), TEXT_BYTES_MAX));
    }
    let create = CreateIssue {
        subject: parse::subject(it.subject)?,
        description: it.description,
        paths: parse::paths(it.shared_doc_paths, it.project_doc_paths)?,
        docs: docs(it.docs)?,
    };
    let done = session.ask(role, Some(key), CommandKind::CreateIssue(create)).await?;
    let Some(Reply::Issue(issue)) = done.reply else {
        unreachable!("an issue is opened or refused")
    };
    session.issue_response(issue, done.is_repeat, done.sequence).await
}

fn docs(docs: Vec<wire::NewDoc>) -> Result<Vec<(DocName, String)>, Status> {
    if NEW_DOCS_MAX < docs.len() {
        let why = format!("are {}; at most {NEW_DOCS_MAX} are possible", docs.len());
        return Err(invalid("docs", &why));
    }
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

pub(super) async fn set_paths(
    session: &WorkspaceSession,
    mut it: wire::UpdateIssueDocPathsRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let (role, issue): (RoleId, IssueId) =
        (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let (keeps_shared, keeps_project) = (it.keep_shared_docs, it.keep_project_docs);
    for (field, is_kept, list) in [
        ("shared_doc_paths", keeps_shared, &it.shared_doc_paths),
        ("project_doc_paths", keeps_project, &it.project_doc_paths),
    ] {
        if is_kept && !list.is_empty() {
            return Err(invalid(field, &"is given and is to be kept as it is, too"));
        }
    }
    let mut tries_left = SET_PATHS_TRIES;
    loop {
        tries_left -= 1;
        let (mut shared, mut project) = (it.shared_doc_paths.clone(), it.project_doc_paths.clone());
        let mut replaces = None;
        if keeps_shared || keeps_project {
            let look = move |view: &View<'_>| Ok(view.workspace.swarm.issue(issue)?.paths_version);
            let version = session.look_for(None, look).await?;
            let known = session.doc_paths(issue, version)?;
            shared = if keeps_shared { known.shared } else { shared };
            project = if keeps_project { known.project } else { project };
            replaces = Some(version);
        }
        let paths = parse::paths(shared, project)?;
        let ask = CommandKind::SetDocPaths { issue, paths, replaces };
        let done = match session.ask(role.clone(), Some(key.clone()), ask).await {
            // Somebody set them in between: what they said is kept.
            Err(why)
                if replaces.is_some()
                    && 0 < tries_left
                    && Reason::of(&why) == Some(Reason::StaleToken) =>
            {
                continue;
            }
            done => done?,
        };
        return session.issue_response(issue, done.is_repeat, done.sequence).await;
    }
}

pub(super) async fn close(
    session: &WorkspaceSession,
    mut it: wire::CloseIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let reason = parse::why("summary", it.summary)?;
    let done = session.ask(role, Some(key), CommandKind::CloseIssue { issue, reason }).await?;
    session.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn reopen(
    session: &WorkspaceSession,
    mut it: wire::ReopenIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let reason = parse::why("summary", it.summary)?;
    let done = session.ask(role, Some(key), CommandKind::ReopenIssue { issue, reason }).await?;
    session.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn extend(
    session: &WorkspaceSession,
    mut it: wire::ExtendIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let ask = CommandKind::ExtendIssue { issue, extend_ms: parse::lease(it.for_ms)? };
    let done = session.ask(role, Some(key), ask).await?;
    session.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn get(
    session: &WorkspaceSession,
    it: wire::GetIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let issue = parse::named("issue_id", &it.issue_id)?;
    session.issue_response(issue, false, Sequence::default()).await
}

pub(super) async fn list(
    session: &WorkspaceSession,
    it: wire::ListIssuesRequest,
) -> Result<wire::ListIssuesResponse, Status> {
    let (limit, offset) = (parse::limit(it.limit), it.offset as usize);
    let (status, sort_by, is_ascending) = (it.status(), it.sort_by(), it.ascending);
    let order: fn(&Issue) -> (Timestamp, String) = match sort_by {
        wire::SortBy::Unspecified | wire::SortBy::Created => |it| (it.created, String::new()),
        wire::SortBy::Updated => |it| (it.updated, String::new()),
        wire::SortBy::Subject => |it| (Timestamp::default(), it.subject.clone()),
        wire::SortBy::Points => {
            return Err(invalid("sort_by", &"is of tasks; issues have no points"));
        }
    };
    let filter =
        ListFilter { subject_contains: wanted(&it.subject_contains), ..ListFilter::default() };
    let state = state(status);
    let lead: Option<RoleId> = optional("lead", &it.lead)?;
    let is_in_progress = status == wire::IssueStatus::InProgress;
    let is_default = matches!(sort_by, wire::SortBy::Unspecified | wire::SortBy::Created);
    let is_plain = !is_in_progress && filter.subject_contains.is_none() && lead.is_none();
    if is_default && !is_ascending && is_plain && offset <= SKIPPED_MAX {
        // A page costs what is before its end.
        let look = move |view: &View<'_>| {
            let swarm = &view.workspace.swarm;
            let page = swarm.list_issues(state, None).skip(offset).take(limit);
            wire::ListIssuesResponse {
                issues: page.map(render::issue).collect(),
                total: swarm.count_issues(state) as u64,
                now_ms: view.now.as_millis(),
            }
        };
        return session.look(look).await;
    }
    let part = move |view: &View<'_>, before: Option<IssueId>| {
        let issues = view.workspace.swarm.list_issues(state, before);
        let fits = |it: &Issue| {
            let fits = filter.has_subject(&it.subject)
                && (!is_in_progress || it.is_in_progress())
                && (lead.is_none() || lead == it.lead);
            fits.then(|| (if is_default { Default::default() } else { order(it) }, it.id))
        };
        Ok(Part::of(issues, usize::MAX, |it| (it.id, 1), fits))
    };
    let (ids, total) = session.page(Page::new(is_ascending, limit, offset), part).await?;
    let look = move |view: &View<'_>| {
        let swarm = &view.workspace.swarm;
        let issues = ids.into_iter().filter_map(|id| swarm.issue(id).ok());
        let (issues, now_ms) = (issues.map(render::issue).collect(), view.now.as_millis());
        wire::ListIssuesResponse { issues, total, now_ms }
    };
    session.look(look).await
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

impl WorkspaceSession {
    /// An issue as it stands, with its words.
    async fn issue_response(
        &self,
        id: IssueId,
        repeated: bool,
        sequence: Sequence,
    ) -> Result<wire::IssueResponse, Status> {
        let look = move |view: &View<'_>| {
            let it = view.workspace.swarm.issue(id)?;
            let shown = render::issue(it);
            let seen = (view.now.as_millis(), view.workspace.sequence);
            Ok((shown, it.paths_version, it.audit, seen))
        };
        let (mut issue, version, audit, (now_ms, seen)) = self.look_for(None, look).await?;
        issue.description = self.description(id)?;
        let DocPaths { shared, project } = self.doc_paths(id, version)?;
        (issue.shared_doc_paths, issue.project_doc_paths) = (shared, project);
        // Nothing happens to an issue that is closed, so why it was is what its audit ends with.
        let last = self.audited(id, audit)?;
        if matches!(last.kind, AuditKind::IssueClosed | AuditKind::IssueReopened) {
            issue.summary = last.detail;
        }
        let sequence = if sequence == Sequence::default() { seen } else { sequence }.get();
        Ok(wire::IssueResponse { issue: Some(issue), repeated, sequence, now_ms })
    }
}
