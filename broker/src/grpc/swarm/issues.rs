//! Issues: opened, kept, closed and opened again by their lead.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{RoleId, Sequence, Timestamp},
    limits::{NEW_DOCS_MAX, TEXT_BYTES_MAX},
    swarm::{DocName, IssueId},
    wire,
};
use tonic::Status;

use super::{
    super::refuse::{invalid, too_large},
    Entered, id, parse, render,
};
use crate::rules::swarm::{
    Ask, CreateIssue, Issue, IssueState, ListFilter, Reply,
    words::{AuditKind, DocPaths},
};

pub(super) async fn create(
    entered: &Entered,
    mut it: wire::CreateIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = entered.key(it.key.take(), &it)?;
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
    let done = entered.ask(role, Some(key), Ask::CreateIssue(create)).await?;
    let Some(Reply::Issue(issue)) = done.reply else {
        unreachable!("an issue is opened or refused")
    };
    entered.issue_response(issue, done.is_repeat, done.sequence).await
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

pub(super) async fn set_paths(
    entered: &Entered,
    mut it: wire::UpdateIssueDocPathsRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = entered.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let paths = parse::paths(it.shared_doc_paths, it.project_doc_paths)?;
    let done = entered.ask(role, Some(key), Ask::SetDocPaths { issue, paths }).await?;
    entered.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn close(
    entered: &Entered,
    mut it: wire::CloseIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = entered.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let reason = parse::why("summary", it.summary)?;
    let done = entered.ask(role, Some(key), Ask::CloseIssue { issue, reason }).await?;
    entered.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn reopen(
    entered: &Entered,
    mut it: wire::ReopenIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = entered.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let reason = parse::why("summary", it.summary)?;
    let done = entered.ask(role, Some(key), Ask::ReopenIssue { issue, reason }).await?;
    entered.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn extend(
    entered: &Entered,
    mut it: wire::ExtendIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let key = entered.key(it.key.take(), &it)?;
    let (role, issue) = (id("role", &it.role)?, parse::named("issue_id", &it.issue_id)?);
    let ask = Ask::ExtendIssue { issue, extend_ms: parse::lease(it.for_ms)? };
    let done = entered.ask(role, Some(key), ask).await?;
    entered.issue_response(issue, done.is_repeat, done.sequence).await
}

pub(super) async fn get(
    entered: &Entered,
    it: wire::GetIssueRequest,
) -> Result<wire::IssueResponse, Status> {
    let issue = parse::named("issue_id", &it.issue_id)?;
    entered.issue_response(issue, false, Sequence::default()).await
}

pub(super) async fn list(
    entered: &Entered,
    it: wire::ListIssuesRequest,
) -> Result<wire::ListIssuesResponse, Status> {
    let (limit, offset) = (parse::limit(it.limit), it.offset as usize);
    let (status, sort_by, is_ascending) = (it.status(), it.sort_by(), it.ascending);
    let order: fn(&Issue) -> (Timestamp, &str) = match sort_by {
        wire::SortBy::Unspecified | wire::SortBy::Created => |it| (it.created, ""),
        wire::SortBy::Updated => |it| (it.updated, ""),
        wire::SortBy::Subject => |it| (Timestamp::default(), &it.subject),
        wire::SortBy::Points => {
            return Err(invalid("sort_by", &"is of tasks; issues have no points"));
        }
    };
    let filter = ListFilter {
        issue_state: state(status),
        subject_contains: (!it.subject_contains.is_empty()).then_some(it.subject_contains),
        ..ListFilter::default()
    };
    let is_in_progress = status == wire::IssueStatus::InProgress;
    let is_default = matches!(sort_by, wire::SortBy::Unspecified | wire::SortBy::Created);
    let look = move |view: &crate::workspace::View<'_>| {
        let swarm = &view.workspace.swarm;
        let found = swarm.list_issues(&filter).filter(|it| !is_in_progress || it.is_in_progress());
        let is_plain = !is_in_progress && filter.subject_contains.is_none();
        let total = is_plain.then(|| swarm.count_issues(filter.issue_state));
        let list = Listed { total, is_default, is_ascending, limit, offset };
        let (issues, total) = list.of(found, order);
        let issues = issues.into_iter().map(render::issue).collect();
        Ok(wire::ListIssuesResponse { issues, total, now_ms: view.now.as_millis() })
    };
    entered.look_for(None, look).await
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

/// One page of a list, and how many are on all pages.
pub(super) struct Listed {
    /// Known without counting them.
    pub total: Option<usize>,
    /// In the order they come in, newest first.
    pub is_default: bool,
    pub is_ascending: bool,
    pub limit: usize,
    pub offset: usize,
}

impl Listed {
    /// In the order they come in, and with their number known, a page costs what is before its
    /// end.
    pub(super) fn of<'a, T, K: Ord>(
        &self,
        found: impl Iterator<Item = &'a T>,
        order: impl Fn(&'a T) -> K,
    ) -> (Vec<&'a T>, u64) {
        if let Some(total) = self.total.filter(|_| self.is_default && !self.is_ascending) {
            return (found.skip(self.offset).take(self.limit).collect(), total as u64);
        }
        let mut all: Vec<&T> = found.collect();
        // What is equal stays in the order of the list, newest or oldest first.
        if self.is_ascending {
            all.reverse();
            if !self.is_default {
                all.sort_by_key(|it| order(it));
            }
        } else if !self.is_default {
            all.sort_by_key(|it| std::cmp::Reverse(order(it)));
        }
        let total = all.len() as u64;
        (all.into_iter().skip(self.offset).take(self.limit).collect(), total)
    }
}

impl Entered {
    /// An issue as it stands, with its words.
    async fn issue_response(
        &self,
        id: IssueId,
        repeated: bool,
        sequence: Sequence,
    ) -> Result<wire::IssueResponse, Status> {
        let look = move |view: &crate::workspace::View<'_>| {
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
