//! How issues are opened, kept, closed and opened again.

use tasuki_proto::{
    limits::ISSUES_MAX,
    swarm::{IssueId, TaskNumber},
};

use super::{
    Closed, CreateIssue, Docs, Event, Issue, IssueEventKind, IssueState, LeaseRenewed, LeaseTarget,
    Rejection, Reply, Swarm, Task, Words,
    check::DecisionBuilder,
    docs::NextVersion,
    words::{DocPaths, DocPlace},
};
use crate::{hash::Hash, rules::rejection::listed};

/// What is to be done about tasks that are in the way of an issue's end.
pub(super) const FIRST: &str = "they have to be done or canceled first";

impl Swarm {
    pub(super) fn decide_create_issue(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &CreateIssue,
    ) -> Result<Reply, Rejection> {
        let content = it.content();
        // A model that calls again, after a time-out or because it began anew, as long as what it
        // opened is open.
        let before = self.newest.get(&(draft.by.role().cloned(), content));
        if let Some(before) = before.filter(|id| self.issues[id].state == IssueState::Open) {
            return Ok(draft.repeat(Reply::Issue(*before)));
        }
        if ISSUES_MAX <= self.issues.len() {
            return Err(Rejection::TooManyIssues);
        }
        let issue = IssueId(draft.make.stamp());
        let subject = it.subject.clone();
        draft.keep(Words::Issue { issue, description: it.description.clone() });
        draft.keep(Words::Paths { issue, version: 1, paths: it.paths.clone() });
        draft.happened(
            issue,
            IssueEventKind::Created { subject, content, paths: it.paths.content() },
        );
        for (name, content) in &it.docs {
            let NextVersion::New(doc) = Docs::default().next(name, content)? else { continue };
            let (place, version) = (DocPlace::Issue(issue), doc.version);
            let (name, content) = (name.clone(), content.clone());
            draft.keep_doc(place, name, version, content);
            draft.happened(issue, IssueEventKind::DocWritten { task: None, doc });
        }
        Ok(Reply::Issue(issue))
    }

    pub(super) fn decide_paths(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        paths: &DocPaths,
        replaces: Option<u32>,
    ) -> Result<Reply, Rejection> {
        let issue = self.open_issue(id)?;
        if replaces.is_some_and(|version| version != issue.paths_version) {
            return Err(Rejection::PathsSetMeanwhile { issue: id });
        }
        let content = paths.content();
        if issue.paths_content == content {
            return Ok(draft.repeat(Reply::Issue(id)));
        }
        let version = issue.paths_version + 1;
        draft.keep(Words::Paths { issue: id, version, paths: paths.clone() });
        draft.happened(id, IssueEventKind::PathsSet { version, content });
        Ok(Reply::Issue(id))
    }

    pub(super) fn decide_close(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        reason: &str,
    ) -> Result<Reply, Rejection> {
        let issue = self.issue(id)?;
        if issue.state == IssueState::Done {
            return Ok(draft.repeat(Reply::Issue(id)));
        }
        let issue = self.open_issue(id)?;
        issue.check_done("close", FIRST)?;
        if !issue.is_accepted && reason.trim().is_empty() {
            return Err(Rejection::NotAccepted { issue: id });
        }
        let (reason, is_accepted) = (reason.to_owned(), issue.is_accepted);
        let unjudged = issue.delivery.filter(|it| self.deliveries[it].state.is_open());
        draft.happened(id, IssueEventKind::Closed(Closed { reason, is_accepted, unjudged }));
        Ok(Reply::Issue(id))
    }

    pub(super) fn decide_reopen(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        reason: &str,
    ) -> Result<Reply, Rejection> {
        let issue = self.issue(id)?;
        if issue.state == IssueState::Open {
            return Ok(draft.repeat(Reply::Issue(id)));
        }
        draft.happened(id, IssueEventKind::Reopened { reason: reason.to_owned() });
        Ok(Reply::Issue(id))
    }

    pub(super) fn decide_extend(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        extend_ms: Option<u64>,
    ) -> Result<Reply, Rejection> {
        let issue = self.open_issue(id)?;
        let Some(lease) = issue.lease else { return Ok(Reply::Kept { lapses: None }) };
        let extend_ms = extend_ms.unwrap_or(self.settings.issue_ttl_ms);
        let lapses = draft.now.plus_millis(extend_ms).max(lease.lapses);
        if lapses != lease.lapses {
            let held = LeaseTarget::Issue(id);
            draft.push(Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace: false }));
        }
        Ok(Reply::Kept { lapses: Some(lapses) })
    }
}

impl Issue {
    /// Whether every task is done or canceled.
    pub(super) fn check_done(
        &self,
        what: &'static str,
        next: &'static str,
    ) -> Result<(), Rejection> {
        let [open, in_progress, waiting_for_answer, ..] = &self.by_state;
        let undone = open.iter().chain(in_progress).chain(waiting_for_answer);
        let told = |number: &TaskNumber| {
            let task: &Task = &self.tasks[number.index()];
            format!("{number}:{}", task.state)
        };
        let undone: Vec<String> = undone.map(told).take(21).collect();
        if undone.is_empty() {
            return Ok(());
        }
        let tasks = listed(undone.iter().map(String::as_str));
        Err(Rejection::TasksNotDone { what, tasks, next })
    }
}

impl CreateIssue {
    fn content(&self) -> Hash {
        let paths = self.paths.content().to_string();
        let docs = self.docs.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]);
        let fields = [self.subject.as_str(), &self.description, &paths];
        Hash::of_fields(fields.into_iter().chain(docs))
    }
}

impl DocPaths {
    pub fn content(&self) -> Hash {
        let shared = self.shared.iter().map(String::as_str);
        let project = self.project.iter().map(String::as_str);
        Hash::of_fields(shared.chain(["\0"]).chain(project))
    }
}
