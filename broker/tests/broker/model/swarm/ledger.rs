//! What happened to issues, tasks, locks and deliveries, kept by one who forgets nothing, and what
//! must follow from it.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_broker::{
    journal::codec::{decode_words, encode_body, swarm_key},
    rules::{
        Body, Command, Decision, Event, Rejection, Reply, Workspace,
        swarm::{
            self, Answer, CommandKind, IssueEvent, IssueEventKind, IssueState, MessageState,
            Question, ReviewDelivery, SubmissionState, Swarm, TaskState, Verdict, Words,
        },
    },
};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    reason::Reason,
    swarm::{DeliveryId, IssueId, NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{again::Made, led, role};

/// Files that the patterns are on, or not.
const FILES: [&str; 9] =
    ["a/b.rs", "a/c.rs", "a", "b.rs", "c/d/e.rs", "c/b.rs", "x/b.rs", "c/bb", "x/y/b.rs"];

/// Whether a file is one of those that a pattern means, by trying all ways.
fn is_on(pattern: &str, file: &str) -> bool {
    fn segments(pattern: &[&str], file: &[&str]) -> bool {
        match (pattern.split_first(), file.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), None) => segments(rest, file),
            (Some((&"**", rest)), Some((_, behind))) => {
                segments(rest, file) || segments(pattern, behind)
            }
            (Some((one, rest)), Some((name, behind))) => {
                let (one, name): (Vec<char>, Vec<char>) =
                    (one.chars().collect(), name.chars().collect());
                chars(&one, &name) && segments(rest, behind)
            }
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
    fn chars(pattern: &[char], name: &[char]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some('*'), None) => chars(&pattern[1..], name),
            (Some('*'), Some(_)) => chars(&pattern[1..], name) || chars(pattern, &name[1..]),
            (Some('?'), Some(_)) => chars(&pattern[1..], &name[1..]),
            // The only class there is.
            (Some('['), Some(c)) => ('a'..='c').contains(c) && chars(&pattern[5..], &name[1..]),
            (Some(one), Some(c)) => one == c && chars(&pattern[1..], &name[1..]),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
    let is_plain = !pattern.contains(['*', '?', '[']);
    let mut parts: Vec<&str> = pattern.split('/').filter(|it| !it.is_empty()).collect();
    if is_plain {
        parts.push("**");
    }
    segments(&parts, &file.split('/').collect::<Vec<_>>())
}

/// What happened, as one who keeps everything would tell it.
#[derive(Debug, Default)]
pub(in crate::model) struct Ledger {
    token: FencingToken,
    /// The newest entry of each issue's audit.
    audits: BTreeMap<IssueId, u64>,
    bodies: BTreeSet<String>,
    points: BTreeMap<(IssueId, TaskNumber), u32>,
    claims: BTreeMap<(IssueId, TaskNumber), RoleId>,
    /// Who each task is kept for, until when, by which next step.
    kept: BTreeMap<(IssueId, TaskNumber), (RoleId, Timestamp, NextStepId)>,
    /// The next step of each open submission.
    steps: BTreeMap<SubmissionId, NextStepId>,
    approved: BTreeSet<SubmissionId>,
    earned: BTreeMap<(IssueId, RoleId), u32>,
    open_submissions: BTreeMap<(IssueId, TaskNumber), SubmissionId>,
    ended_submissions: BTreeSet<SubmissionId>,
    open_messages: BTreeSet<(IssueId, TaskNumber, TaskMessageId)>,
    ended_messages: BTreeSet<TaskMessageId>,
    open_deliveries: BTreeMap<IssueId, DeliveryId>,
    ended_deliveries: BTreeSet<DeliveryId>,
    made: Made,
    /// What happened so far.
    count: u64,
    /// When each issue was delivered, and when other work of it was accepted last, by that count;
    /// when what was accepted was taken back last.
    delivered: BTreeMap<DeliveryId, (u64, Timestamp)>,
    accepted: BTreeMap<IssueId, u64>,
    taken_back: BTreeMap<IssueId, Timestamp>,
    commits: BTreeMap<DeliveryId, String>,
    was_accepted: BTreeSet<(IssueId, TaskNumber)>,
}

impl Ledger {
    /// What is decided, before it is applied to what was there.
    pub(in crate::model) fn judge(
        &mut self,
        before: &Workspace,
        command: &Command,
        decided: Result<&Decision, &Rejection>,
    ) {
        let Command::Swarm(command) = command else { return };
        if let CommandKind::ReviewDelivery(it) = &command.ask {
            self.judge_verdict(&before.swarm, it, decided);
        }
        if let (CommandKind::AttachEvidence { delivery, words, .. }, Ok(_)) =
            (&command.ask, decided)
        {
            let named = &self.commits[delivery];
            assert!(named.is_empty() || *named == words.commit, "{delivery} is of {named}");
        }
        if let Ok(decision) = decided
            && decision.answered_by.is_none()
        {
            if let (CommandKind::MintNextStep(it), Reply::Swarm(reply)) =
                (&command.ask, &decision.reply)
                && let swarm::Reply::NextStep(told) = reply
            {
                led::judge(&before.swarm, it, told, decision.is_repeat);
            }
            self.made.judge(&before.swarm, command, decision);
        }
    }

    /// What is accepted is what was delivered.
    fn judge_verdict(
        &self,
        swarm: &Swarm,
        it: &ReviewDelivery,
        decided: Result<&Decision, &Rejection>,
    ) {
        let Some((count, at)) = self.delivered.get(&it.delivery).copied() else { return };
        let issue = swarm.deliveries()[&it.delivery].issue;
        let is_redone = self.accepted.get(&issue).is_some_and(|it| count < *it);
        let taken_back = self.taken_back.get(&issue).copied();
        let is_refused = match decided {
            Err(Rejection::Swarm(it)) => it.reason() == Reason::DeliveryOutdated,
            Err(_) => return,
            Ok(decision) if decision.is_repeat || it.verdict == Verdict::Rejected => return,
            Ok(_) => false,
        };
        if is_refused {
            assert!(is_redone || Some(at) < taken_back, "{it:?} was refused for nothing");
        } else if decided.is_ok() {
            assert!(!is_redone && taken_back <= Some(at), "{it:?} is not what was delivered");
        }
    }

    /// What is written beside the record: each under a key of its own, once.
    pub(in crate::model) fn keep(&mut self, bodies: &[Body]) {
        for body in bodies {
            let Body::Swarm(words) = body else { continue };
            let is_new = self.bodies.insert(swarm_key(words).0);
            assert!(is_new, "I7: {words:?} is written twice");
            let (_, bytes) = encode_body(body).remove(0);
            assert_eq!(decode_words(words, &bytes).unwrap(), *words);
        }
    }

    /// Nobody can ask for anything of these any more.
    fn compacted(&mut self, swarm: &Swarm, issues: &[IssueId]) {
        for id in issues {
            let issue = &swarm.issues()[id];
            assert!(issue.state != IssueState::Open, "{id} is open and removed");
            assert!(!self.claims.keys().any(|(of, _)| of == id), "I1: {id} is held and removed");
            assert!(!self.kept.keys().any(|(of, _)| of == id), "I5: {id} is kept and removed");
            assert!(!self.open_deliveries.contains_key(id), "{id} is delivered and removed");
            for task in &issue.tasks {
                for submission in &task.submissions {
                    self.ended_submissions.remove(&submission.id);
                }
                for message in &task.messages {
                    self.ended_messages.remove(&message.id);
                }
            }
            self.open_messages.retain(|(of, ..)| of != id);
            for delivery in swarm.deliveries().values().filter(|it| it.issue == *id) {
                self.ended_deliveries.remove(&delivery.id);
                self.delivered.remove(&delivery.id);
            }
        }
    }

    fn grant(&mut self, token: FencingToken) {
        assert!(self.token < token, "I3: {token} after {}", self.token);
        self.token = token;
    }

    /// Takes in what is about to be applied.
    pub(in crate::model) fn take(&mut self, now: Timestamp, swarm: &Swarm, event: &Event) {
        use swarm::Event as It;
        let Event::Swarm(event) = event else { return };
        let IssueEvent { issue, audit, what } = match event {
            It::Issue(it) => it,
            It::Locked(it) => return self.grant(it.token),
            It::WorkerRegistered(_)
            | It::SettingsSet(_)
            | It::SharedDocWritten(_)
            | It::Unlocked(_)
            | It::ItemsHanded { .. }
            | It::DocCompacted { .. } => return,
            It::Compacted(issues) => return self.compacted(swarm, issues),
            It::LeaseRenewed(it) => {
                if let swarm::LeaseTarget::Reservation(issue, task) = it.held
                    && let Some(kept) = self.kept.get_mut(&(issue, task))
                {
                    kept.1 = it.lapses;
                }
                return;
            }
        };
        let last = self.audits.insert(*issue, *audit).unwrap_or(0);
        assert_eq!(*audit, last + 1, "I7: {issue}");
        let key = format!("swarm/{issue}/audit/{audit}");
        assert!(self.bodies.contains(&key), "I7: {key} is not written");
        let at = |task: TaskNumber| (*issue, task);
        self.count += 1;
        match what {
            IssueEventKind::TaskCreated(it) => _ = self.points.insert(at(it.task), it.points),
            IssueEventKind::Claimed(it) => {
                self.grant(it.token);
                if let Some((bearer, until, _)) = self.kept.remove(&at(it.task)) {
                    let is_live = now < until;
                    assert!(!is_live || bearer == it.worker, "I5: {} took {}", it.worker, it.task);
                }
                let other = self.claims.insert(at(it.task), it.worker.clone());
                assert!(other.is_none(), "I1: {} and {other:?}", it.worker);
            }
            IssueEventKind::ClaimLapsed { task, .. } => {
                self.end_claim(at(*task));
                self.end_messages(at(*task));
            }
            IssueEventKind::Reset { task, .. } | IssueEventKind::Canceled { task, .. } => {
                let is_canceled = matches!(what, IssueEventKind::Canceled { .. });
                if is_canceled && self.was_accepted.contains(&at(*task)) {
                    self.taken_back.insert(*issue, now);
                }
                self.end_claim(at(*task));
                self.kept.remove(&at(*task));
                self.end_submission(at(*task));
                self.end_messages(at(*task));
            }
            IssueEventKind::Submitted(it) => {
                self.end_submission(at(it.task));
                self.open_submissions.insert(at(it.task), it.submission);
                assert_eq!(self.claims.get(&at(it.task)), Some(&it.worker), "I1: submits");
            }
            IssueEventKind::NextStepMinted(it) => {
                if let Some(older) = self.steps.insert(it.submission, it.next_step) {
                    self.kept.retain(|_, (.., step)| *step != older);
                }
                if let Some(reserved) = &it.reserved {
                    self.grant(reserved.token);
                    let kept = (it.worker.clone(), reserved.lapses, it.next_step);
                    let other = self.kept.insert(at(reserved.task), kept);
                    assert!(other.is_none(), "I5: {} is kept twice", reserved.task);
                }
            }
            IssueEventKind::ReservationLapsed { task, .. } => _ = self.kept.remove(&at(*task)),
            IssueEventKind::Reviewed(it) if it.verdict == Verdict::Approved => {
                let step = self.steps.remove(&it.submission);
                assert_eq!(step, it.next_step, "I5: a review gives out what was made for it");
                for (.., (_, until, own)) in &mut self.kept {
                    if Some(*own) == step {
                        *until = it.lapses.expect("a reservation lapses");
                    }
                }
                self.accepted.insert(*issue, self.count);
                self.was_accepted.insert(at(it.task));
                assert!(self.approved.insert(it.submission), "I4: {} twice", it.submission);
                let worker = self.claims.remove(&at(it.task)).expect("I1: it was claimed");
                *self.earned.entry((*issue, worker)).or_default() += self.points[&at(it.task)];
                self.end_submission(at(it.task));
                self.end_messages(at(it.task));
            }
            IssueEventKind::Reviewed(it) => self.end_submission(at(it.task)),
            IssueEventKind::MessagePosted(it) => {
                self.open_messages.insert((*issue, it.task, it.message));
            }
            IssueEventKind::Replied { task, message, .. } => {
                let was_open = self.open_messages.remove(&(*issue, *task, *message));
                assert!(was_open, "I6: {message} was over");
                self.ended_messages.insert(*message);
            }
            IssueEventKind::Delivered(it) => {
                self.commits.insert(it.delivery, it.commit.clone());
                self.delivered.insert(it.delivery, (self.count, now));
                let other = self.open_deliveries.insert(*issue, it.delivery);
                assert!(other.is_none(), "one delivery of an issue at a time");
            }
            IssueEventKind::DeliveryClaimed { token, .. } => self.grant(*token),
            IssueEventKind::DeliveryReviewed(_) | IssueEventKind::Closed(_) => {
                self.ended_deliveries.extend(self.open_deliveries.remove(issue));
            }
            IssueEventKind::Created { .. }
            | IssueEventKind::PathsSet { .. }
            | IssueEventKind::Reopened { .. }
            | IssueEventKind::Lapsed
            | IssueEventKind::DocWritten { .. }
            | IssueEventKind::DeliveryLapsed { .. }
            | IssueEventKind::EvidenceAttached { .. }
            | IssueEventKind::Imported(_) => {}
        }
    }

    fn end_claim(&mut self, at: (IssueId, TaskNumber)) {
        self.claims.remove(&at);
    }

    fn end_submission(&mut self, at: (IssueId, TaskNumber)) {
        let Some(ended) = self.open_submissions.remove(&at) else { return };
        self.ended_submissions.insert(ended);
        if let Some(step) = self.steps.remove(&ended) {
            self.kept.retain(|_, (.., own)| *own != step);
        }
    }

    fn end_messages(&mut self, at: (IssueId, TaskNumber)) {
        let (ended, open): (BTreeSet<_>, BTreeSet<_>) =
            self.open_messages.iter().copied().partition(|it| (it.0, it.1) == at);
        self.open_messages = open;
        self.ended_messages.extend(ended.into_iter().map(|it| it.2));
    }

    /// What must hold of the state after each step.
    pub(in crate::model) fn check(&self, workspace: &Workspace) {
        let swarm = &workspace.swarm;
        for (id, issue) in swarm.issues() {
            assert_eq!(self.audits.get(id), Some(&issue.audit), "I7");
            for task in &issue.tasks {
                let at = (*id, task.number);
                let live = task.live_claim().map(|it| &it.worker);
                assert_eq!(live, self.claims.get(&at), "I1: {at:?}");
                let is_claimed =
                    matches!(task.state, TaskState::InProgress | TaskState::WaitingForAnswer);
                assert_eq!(is_claimed, live.is_some(), "I1: {at:?} is {}", task.state);
                let kept = task.reservation.as_ref();
                let kept = kept.map(|it| (it.worker.clone(), it.lease.lapses, it.next_step));
                assert_eq!(kept.as_ref(), self.kept.get(&at), "I5: {at:?}");
                let is_asked = task.open_questions().next().is_some();
                assert!(
                    !is_asked || task.state == TaskState::WaitingForAnswer,
                    "a question is open"
                );
                let undone = task.blocked_by.iter().filter(|other| {
                    !matches!(
                        issue.tasks[other.index()].state,
                        TaskState::Done | TaskState::Canceled
                    )
                });
                assert_eq!(undone.count(), task.undone_blockers(), "{at:?}");
                let is_ready = issue.ready().any(|it| it == task.number);
                assert_eq!(is_ready, task.is_ready(), "{at:?}");
                check_circles(issue, task.number);
            }
            for (worker, total) in &issue.totals {
                let earned = self.earned.get(&(*id, worker.clone())).copied();
                assert_eq!(earned, Some(total.points), "I4: {worker} in {id}");
            }
        }
        self.check_waits(workspace);
        for file in FILES {
            let on =
                swarm.locks.iter().filter(|it| it.keys.iter().any(|it| is_on(it.path(), file)));
            let holders: BTreeSet<&RoleId> = on.map(|it| &it.role).collect();
            assert!(holders.len() <= 1, "I2: {file} is locked by {holders:?}");
        }
    }

    /// I6: what is open is waited for, and what ended is told.
    fn check_waits(&self, workspace: &Workspace) {
        let now = workspace.time;
        let ask = |what: Question| {
            let answer =
                workspace.swarm.answer(now, &role(0), &what, |_| true).expect("it is there");
            (answer.is_there(), answer)
        };
        for id in self.open_submissions.values() {
            let told = ask(Question::Review(*id));
            let open = Answer::Review { submission: *id, state: SubmissionState::Open };
            assert_eq!(told, (false, open), "I6");
        }
        for id in &self.ended_submissions {
            assert!(ask(Question::Review(*id)).0, "I6: nobody is told of {id}");
        }
        for (.., id) in &self.open_messages {
            let told = ask(Question::Reply(*id));
            let open = Answer::Reply { message: *id, state: MessageState::Open };
            assert_eq!(told, (false, open), "I6");
        }
        for id in &self.ended_messages {
            assert!(ask(Question::Reply(*id)).0, "I6: nobody is told of {id}");
        }
        for id in self.open_deliveries.values() {
            assert!(!ask(Question::Verdict(*id)).0, "I6: {id}");
        }
        for id in &self.ended_deliveries {
            assert!(ask(Question::Verdict(*id)).0, "I6: nobody is told of {id}");
        }
        for (id, issue) in workspace.swarm.issues() {
            let (is_there, _) = ask(Question::Events(*id));
            assert!(is_there || issue.items.len() == issue.counts().items);
            assert!(issue.state == IssueState::Open || is_there, "I6: {id} is over");
        }
    }
}

/// I8: following what blocks a task never comes back to it.
fn check_circles(issue: &swarm::Issue, start: TaskNumber) {
    let mut seen = BTreeSet::new();
    let mut open = issue.tasks[start.index()].blocked_by.clone();
    while let Some(next) = open.pop() {
        assert!(next != start, "I8: {start} waits for itself");
        if seen.insert(next) {
            open.extend(&issue.tasks[next.index()].blocked_by);
        }
    }
}

/// Words are looked up by what they belong to.
#[test]
fn the_audit_of_an_issue_has_a_place_for_each_entry() {
    let words = Words::Issue { issue: IssueId::default(), description: String::new() };
    assert_eq!(swarm_key(&words).0, "swarm/issue_0_0000/issue");
}
