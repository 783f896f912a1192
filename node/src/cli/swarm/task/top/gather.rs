//! What a frame shows, asked for again where it changed.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::wire::{
    self, DeliveryStatus, IssueStatus, SortBy, TaskStage, TaskStatus, event::Noun,
    swarm_event::Kind,
};

use super::{
    super::{super::issue::get_issue, list::list_tasks},
    Failure,
    state::State,
};
use crate::cli::{
    broker::Broker,
    role_args::{RoleClient, every_worker},
};

/// Issues that are shown at most, each with its tasks: three calls for each that changed.
const ISSUES_MAX: u32 = 20;

/// Closed issues that are shown at most of those that are done, and of those that were canceled.
const CLOSED_MAX: u32 = 10;

/// For so long after it was closed an issue is shown, in milliseconds: one who looks now and then
/// sees how it ended.
const CLOSED_SHOWN_MS: u64 = 3_600_000;

/// Tasks of one issue in one state that are shown at most: no screen has room for more.
const TASKS_MAX: u32 = 50;

/// Locks and deliveries, likewise.
const OTHERS_MAX: u32 = 50;

/// What has to be asked for again.
#[derive(Debug, Default)]
pub(super) enum Stale {
    #[default]
    Nothing,
    /// All but the tasks of issues that are not named.
    Of(BTreeSet<String>),
    All,
}

impl Stale {
    pub(super) fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Adds more, and tells whether it is anything.
    pub(super) fn add(&mut self, more: Self) -> bool {
        let is_more = more.is_any();
        *self = match (std::mem::take(self), more) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Nothing, it) | (it, Self::Nothing) => it,
            (Self::Of(mut issues), Self::Of(more)) => {
                issues.extend(more);
                Self::Of(issues)
            }
        };
        is_more
    }
}

/// What has to be asked for again after these events.
pub(super) fn touched(events: &[wire::Event]) -> Stale {
    let mut issues = BTreeSet::new();
    let mut is_any = false;
    for event in events {
        match &event.noun {
            Some(Noun::Swarm(wire::SwarmEvent { kind: Some(kind) })) => match kind {
                // The stage of a task follows from what its lead was given.
                Kind::IssueChanged(wire::IssueChanged { issue_id, .. })
                | Kind::ItemsHanded(wire::ItemsHanded { issue_id, .. }) => {
                    issues.insert(issue_id.clone());
                }
                Kind::FilesLocked(_)
                | Kind::FilesUnlocked(_)
                | Kind::WorkerRegistered(_)
                | Kind::SwarmSettingsSet(_) => is_any = true,
                Kind::SharedDocWritten(_) => {}
            },
            Some(Noun::Directory(_)) => is_any = true,
            Some(
                Noun::Turn(_)
                | Noun::Mail(_)
                | Noun::Privacy(_)
                | Noun::Run(_)
                | Noun::Guard(_)
                | Noun::Call(_)
                | Noun::Board(_)
                | Noun::Pipeline(_)
                | Noun::Swarm(wire::SwarmEvent { kind: None }),
            )
            | None => {}
        }
    }
    if issues.is_empty() && !is_any { Stale::Nothing } else { Stale::Of(issues) }
}

/// Whoever asks the broker, and what it knows.
#[derive(Debug)]
pub(super) struct Gatherer {
    acting: RoleClient,
    /// The only issue that is shown.
    only: Option<String>,
    /// Whether closed issues are shown however old.
    is_all: bool,
    /// Tasks of each issue, and how many more there are.
    tasks: BTreeMap<String, (Vec<wire::Task>, u64)>,
    pub(super) state: State,
}

impl Gatherer {
    pub(super) fn new(broker: Broker, only: Option<String>, is_all: bool) -> Self {
        let workspace = broker.workspace().to_string();
        let acting = RoleClient { broker, role: String::new() };
        let state = State { workspace, ..State::default() };
        Self { acting, only, is_all, tasks: BTreeMap::new(), state }
    }

    pub(super) async fn gather(&mut self, stale: &Stale) -> Result<(), Failure> {
        let (issues, issues_total) = self.issues().await?;
        let mut tasks = BTreeMap::new();
        for issue in &issues {
            let known = self.tasks.remove(&issue.issue_id);
            let is_stale = match stale {
                Stale::All => true,
                Stale::Of(named) => named.contains(&issue.issue_id),
                Stale::Nothing => false,
            };
            let known = match known {
                Some(known) if !is_stale => known,
                _ => self.tasks_of(&issue.issue_id).await?,
            };
            tasks.insert(issue.issue_id.clone(), known);
        }
        self.tasks = tasks;
        let mut state = State {
            workspace: self.state.workspace.clone(),
            issues,
            issues_total,
            closed: self.closed().await?,
            ..State::default()
        };
        self.others(&mut state).await?;
        let since_ms = if self.is_all { 0 } else { state.now_ms.saturating_sub(CLOSED_SHOWN_MS) };
        state.closed.retain(|issue| since_ms <= issue.updated_ms);
        // Sorting is stable: issues keep their order.
        for issue in &state.issues {
            if let Some((tasks, total)) = self.tasks.get(&issue.issue_id) {
                state.tasks.extend(tasks.iter().cloned());
                state.tasks_total += total;
            }
        }
        state.tasks.sort_by_key(|it| rank(it.stage()));
        self.state = state;
        Ok(())
    }

    async fn issues(&self) -> Result<(Vec<wire::Issue>, u64), Failure> {
        if let Some(only) = &self.only {
            let told = get_issue(&self.acting, only).await?;
            return Ok((told.issue.into_iter().collect(), 1));
        }
        let request = wire::ListIssuesRequest {
            status: IssueStatus::Open.into(),
            sort_by: SortBy::Updated.into(),
            limit: ISSUES_MAX,
            ..Default::default()
        };
        let page = self.acting.broker.call(&request).await?;
        Ok((page.issues, page.total))
    }

    async fn closed(&self) -> Result<Vec<wire::Issue>, Failure> {
        let mut found = Vec::new();
        // One that was named is shown in any case.
        if self.only.is_some() {
            return Ok(found);
        }
        for status in [IssueStatus::Done, IssueStatus::Canceled] {
            let request = wire::ListIssuesRequest {
                status: status.into(),
                sort_by: SortBy::Updated.into(),
                limit: CLOSED_MAX,
                ..Default::default()
            };
            found.extend(self.acting.broker.call(&request).await?.issues);
        }
        found.sort_by_key(|issue| std::cmp::Reverse(issue.updated_ms));
        Ok(found)
    }

    async fn tasks_of(&self, issue: &str) -> Result<(Vec<wire::Task>, u64), Failure> {
        let (mut found, mut total) = (Vec::new(), 0);
        for status in [TaskStatus::InProgress, TaskStatus::WaitingForAnswer, TaskStatus::Open] {
            let wanted = wire::ListTasksRequest {
                issue_id: issue.to_owned(),
                status: status.into(),
                ..Default::default()
            };
            let page = list_tasks(&self.acting, &wanted, TASKS_MAX, 0).await?;
            found.extend(page.things);
            total += page.total;
        }
        Ok((found, total))
    }

    /// Workers, locks, deliveries and the time.
    async fn others(&self, state: &mut State) -> Result<(), Failure> {
        let broker = &self.acting.broker;
        let request = wire::ListWorkersRequest::default();
        (state.workers, state.now_ms) = every_worker(broker, request).await?;
        let request = wire::ListLocksRequest { limit: OTHERS_MAX, ..Default::default() };
        let told = broker.call(&request).await?;
        (state.locks, state.locks_total) = (told.locks, told.total);
        for status in [DeliveryStatus::InReview, DeliveryStatus::Open] {
            let request = wire::ListDeliveriesRequest {
                status: status.into(),
                issue_id: self.only.clone().unwrap_or_default(),
                limit: OTHERS_MAX,
                ..Default::default()
            };
            let told = broker.call(&request).await?;
            state.deliveries.extend(told.deliveries);
            state.deliveries_total += told.total;
        }
        if let Some(only) = &self.only {
            let all = state.locks.len() as u64;
            state.locks.retain(|it| it.issue_id == *only);
            let kept = state.locks.len() as u64;
            state.locks_total -= all - kept;
            state.workers.retain(|it| it.claims.iter().any(|it| it.issue_id == *only));
        }
        Ok(())
    }
}

/// What is shown first: what somebody has to do something about.
fn rank(stage: TaskStage) -> u8 {
    match stage {
        TaskStage::WaitingForAnswer => 0,
        TaskStage::Submitted => 1,
        TaskStage::InReview => 2,
        TaskStage::Working => 3,
        TaskStage::Reserved => 4,
        TaskStage::Ready => 5,
        TaskStage::Blocked => 6,
        TaskStage::Unspecified => 7,
        TaskStage::Done => 8,
        TaskStage::Canceled => 9,
    }
}
