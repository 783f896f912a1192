//! The part of the story that is about issues, tasks, locks and deliveries, and what must hold of
//! it, judged by what happened and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tasuki_broker::{
    journal::codec::{decode_words, encode_body, swarm_key},
    rules::{
        Body, Event, Workspace,
        swarm::{
            Answer, Ask, Blocker, Command, CreateIssue, CreateTasks, Difficulty, DocPlace,
            Happened, IssueState, LockFiles, MessageKind, MessageState, MintNextStep, NewTask,
            OfIssue, PostMessage, Question, ReplyMessage, ReviewDelivery, ReviewTask, Score,
            Settings, SubmissionState, SubmitTask, TaskState, Verdict, Words,
            lock::LockKey,
            words::{
                Artifacts, DeliveryWords, DocPaths, EvidenceWords, FeedbackDetail, MessageWords,
                ReviewWords, Run, Severity, TaskWords, TestEvidence, VerdictWords, Verification,
            },
        },
        turn::Actor,
    },
};
use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DeliveryId, IssueId, NextStepId, SubmissionId, TaskMessageId, TaskNumber},
};

use super::{Call, ROLES, call};

/// Files and patterns that are locked, and files that those are on or not.
const PATTERNS: [&str; 8] =
    ["a/b.rs", "a", "a/*.rs", "**/b.rs", "c/", "c/d/e.rs", "*/?.rs", "[a-c]/b*"];
const FILES: [&str; 9] =
    ["a/b.rs", "a/c.rs", "a", "b.rs", "c/d/e.rs", "c/b.rs", "x/b.rs", "c/bb", "x/y/b.rs"];

#[derive(Debug, Clone, Copy)]
enum What {
    CreateIssue,
    CloseIssue,
    Reopen,
    Extend,
    CreateTasks,
    Register,
    Claim,
    ClaimOwn,
    Renew,
    Submit,
    Mint,
    Approve,
    Reject,
    Reset,
    Ask,
    Reply,
    MarkItems,
    Deliver,
    ClaimDelivery,
    Evidence,
    Verdict,
    Doc,
    Lock,
    RenewLock,
    Unlock,
    Force,
    Settings,
    Pass,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Most are asked without a key, so that they have an effect.
    call: Option<Call>,
    what: What,
    who: u8,
    issue: u8,
    task: u8,
    n: u8,
    old_token: bool,
    /// At who may and what is due, not at anybody and anything.
    is_aimed: bool,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    use What::*;
    let what = prop_oneof![
        1 => Just(CreateIssue), 1 => Just(CloseIssue), 1 => Just(Reopen), 1 => Just(Extend),
        2 => Just(CreateTasks), 1 => Just(Register), 14 => Just(Claim), 4 => Just(ClaimOwn),
        1 => Just(Renew), 14 => Just(Submit), 14 => Just(Mint), 16 => Just(Approve),
        3 => Just(Reject), 2 => Just(Reset), 5 => Just(Ask), 4 => Just(Reply), 3 => Just(MarkItems),
        5 => Just(Deliver), 4 => Just(ClaimDelivery), 2 => Just(Evidence), 5 => Just(Verdict),
        1 => Just(Doc), 6 => Just(Lock), 2 => Just(RenewLock), 2 => Just(Unlock), 1 => Just(Force),
        1 => Just(Settings), 4 => Just(Pass),
    ];
    let rare = (proptest::bool::weighted(0.1), proptest::bool::weighted(0.8));
    let call = proptest::option::weighted(0.2, call());
    (call, what, 0..4u8, 0..2u8, 0..6u8, any::<u8>(), rare).prop_map(
        |(call, what, who, issue, task, n, (old_token, is_aimed))| Step {
            call,
            what,
            who,
            issue,
            task,
            n,
            old_token,
            is_aimed,
        },
    )
}

/// How far the step lets time go.
pub(super) fn passes(step: &Step) -> Option<u64> {
    let times = [1, 1_000, 20_000, 60_000, 90_000, 130_000, 1_000_000, 3_700_000, 7_300_000];
    matches!(step.what, What::Pass).then(|| times[usize::from(step.n) % times.len()])
}

fn role(number: u8) -> RoleId {
    ROLES[usize::from(number) % ROLES.len()].parse().expect("a role")
}

fn nth<T>(all: impl Iterator<Item = T>, n: u8) -> Option<T> {
    let all: Vec<T> = all.collect();
    let at = usize::from(n) % all.len().max(1);
    all.into_iter().nth(at)
}

/// Who asks, and about which task; for what is aimed, somebody who may, and one that it is due for.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others need no aim")]
fn aimed(step: &Step, workspace: &Workspace) -> (RoleId, Option<(IssueId, TaskNumber)>) {
    use What::*;
    let (who, swarm) = (role(step.who), &workspace.swarm);
    let tasks = swarm.issues().values().filter(|it| it.state == IssueState::Open);
    let tasks = tasks.flat_map(|issue| issue.tasks.iter().map(|task| (issue.id, task)));
    let due: Vec<_> = match step.what {
        _ if !step.is_aimed => return (who, None),
        Claim => tasks.filter(|(_, it)| it.is_ready()).collect(),
        Submit | Renew | Ask => tasks.filter(|(_, it)| it.live_claim().is_some()).collect(),
        Mint | Approve | Reject => tasks.filter(|(_, it)| it.open_submission().is_some()).collect(),
        Reply => tasks.filter(|(_, it)| it.open_questions().next().is_some()).collect(),
        Deliver => {
            let done = swarm.issues().values().filter(|it| it.counts().tasks[..3] == [0, 0, 0]);
            let done = done.filter(|it| !it.tasks.is_empty() && it.state == IssueState::Open);
            return (who, nth(done.map(|it| (it.id, TaskNumber(1))), step.task));
        }
        Verdict => {
            let holders = swarm.deliveries().values().filter_map(|it| it.live_claim());
            return (nth(holders.map(|it| it.role.clone()), step.n).unwrap_or(who), None);
        }
        _ => return (who, None),
    };
    let Some((issue, task)) = nth(due.into_iter(), step.task) else { return (who, None) };
    let worker = task.live_claim().map(|it| it.worker.clone());
    let who = match step.what {
        Submit | Renew | Ask => worker.unwrap_or(who),
        Mint | Approve | Reject if worker.as_ref() == Some(&who) => role(step.who + 1),
        _ => who,
    };
    (who, Some((issue, task.number)))
}

/// Roles that work, an issue, and some tasks of it.
pub(super) fn prelude() -> Vec<Step> {
    let step = |what, who, n| Step {
        call: None,
        what,
        who,
        issue: 0,
        task: 0,
        n,
        old_token: false,
        is_aimed: false,
    };
    let register = (0..4).map(|who| step(What::Register, who, 0));
    register.chain([step(What::CreateIssue, 0, 0), step(What::CreateTasks, 0, 9)]).collect()
}

/// What a step asks for; `None` where there is nothing to ask.
pub(super) fn command<'a>(
    step: &'a Step,
    workspace: &Workspace,
) -> Option<(Option<&'a Call>, Command)> {
    let swarm = &workspace.swarm;
    let Step { call, what, issue, task, n, old_token, .. } = step;
    let n = *n;
    let (who, aim) = aimed(step, workspace);
    let token = if *old_token { FencingToken::from(1) } else { FencingToken::NONE };
    let id = || aim.map(|aim| aim.0).or_else(|| nth(swarm.issues().keys().copied(), *issue));
    let number = || {
        if let Some((_, number)) = aim {
            return Some(number);
        }
        let tasks = &swarm.issue(id()?).ok()?.tasks;
        nth(tasks.iter().map(|it| it.number), *task)
    };
    let the_task = || swarm.task(id()?, number()?).ok().map(|(_, task)| task);
    let delivery = || {
        let open = swarm.deliveries().values().filter(|it| it.state.is_open() || !step.is_aimed);
        nth(open.map(|it| it.id), *task)
    };
    let lock = || nth(swarm.locks.iter().map(|it| it.id), *task);
    let score = Score::new([1, 2, 5][usize::from(n) % 3]).expect("a score");
    let ask = match what {
        What::CreateIssue => Ask::CreateIssue(CreateIssue {
            subject: format!("s{}", n % 3),
            description: String::new(),
            paths: DocPaths::default(),
            docs: vec![("lead".parse().expect("a name"), "text".to_owned())],
        }),
        What::CloseIssue => {
            let reason = if n.is_multiple_of(2) { "enough" } else { "" }.to_owned();
            Ask::CloseIssue { issue: id()?, reason }
        }
        What::Reopen => Ask::ReopenIssue { issue: id()?, reason: "again".to_owned() },
        What::Extend => Ask::ExtendIssue { issue: id()?, extend_ms: Some(u64::from(n) * 100_000) },
        What::CreateTasks => {
            let count = usize::from(n % 3) + 1;
            let tasks = (0..count).map(|place| {
                let blocker = usize::from(n / 4) % 4;
                let mut blocked_by = match n % 5 {
                    0 => vec![Blocker::New(blocker)],
                    _ => Vec::new(),
                };
                if n % 7 == 0 {
                    blocked_by.extend(number().map(Blocker::Task));
                }
                NewTask {
                    subject: format!("t{place}"),
                    difficulty: Difficulty::ALL[(usize::from(n) + place) % 3],
                    points: u32::from(n % 16),
                    blocked_by,
                    words: TaskWords::default(),
                }
            });
            Ask::CreateTasks(CreateTasks { issue: id()?, tasks: tasks.collect() })
        }
        What::Register => Ask::RegisterWorker,
        What::Claim => {
            let shown = the_task()?.reservation.as_ref().map(|it| it.next_step);
            let next_step = if n.is_multiple_of(2) { shown } else { None };
            Ask::ClaimTask { issue: id()?, task: number()?, next_step }
        }
        What::ClaimOwn => {
            let issue = swarm.issue(id()?).ok()?;
            let (task, kept) = issue.reserved_for(&who).next()?;
            Ask::ClaimTask { issue: issue.id, task, next_step: Some(kept.next_step) }
        }
        What::Renew => {
            let extend_ms = Some(u64::from(n) * 50_000);
            Ask::RenewClaim { issue: id()?, task: number()?, token, extend_ms }
        }
        What::Submit => {
            let words = Artifacts {
                summary: format!("w{}", n % 3),
                changed_files: vec![format!("f{}", n % 4)],
                ..Artifacts::default()
            };
            Ask::SubmitTask(SubmitTask { issue: id()?, task: number()?, token, words })
        }
        What::Mint => {
            let task = number()?;
            let worker = match the_task()?.open_submission() {
                Some(open) if n % 8 != 0 => open.worker.clone(),
                Some(_) | None => role(n),
            };
            Ask::MintNextStep(MintNextStep { issue: id()?, task, worker, score })
        }
        What::Approve | What::Reject => {
            let minted = the_task()?.open_submission().and_then(|it| it.minted.clone());
            let score = minted.as_ref().filter(|_| n % 8 != 0).map_or(score, |it| it.score);
            Ask::ReviewTask(ReviewTask {
                issue: id()?,
                task: number()?,
                submission: None,
                verdict: if matches!(what, What::Approve) {
                    Verdict::Approved
                } else {
                    Verdict::Rejected
                },
                score,
                next_step: minted.map(|it| it.next_step),
                words: ReviewWords {
                    summary: "r".to_owned(),
                    reviewed_refs: vec!["f".to_owned()],
                    feedback: String::new(),
                    details: vec![FeedbackDetail {
                        dimension: tasuki_broker::rules::swarm::words::Dimension::Style,
                        severity: Severity::Minor,
                        file_path: String::new(),
                        line_range: String::new(),
                        content: format!("c{}", n % 2),
                        suggestion: String::new(),
                    }],
                },
            })
        }
        What::Reset => {
            Ask::ResetTask { issue: id()?, task: number()?, reason: "because".to_owned() }
        }
        What::Ask => Ask::PostMessage(PostMessage {
            issue: id()?,
            task: number()?,
            token,
            kind: MessageKind::ALL[usize::from(n) % 5],
            words: MessageWords { content: format!("q{}", n % 2), refs: String::new() },
        }),
        What::Reply => {
            let messages = the_task()?.messages.iter().map(|it| it.id);
            let message = if n.is_multiple_of(2) { nth(messages, n / 2) } else { None };
            Ask::ReplyMessage(ReplyMessage {
                issue: id()?,
                task: number()?,
                message,
                words: MessageWords { content: format!("a{}", n % 2), refs: String::new() },
            })
        }
        What::MarkItems => {
            let issue = swarm.issue(id()?).ok()?;
            let items = issue.items.keys().copied().take(usize::from(n % 4) + 1);
            Ask::MarkItems { issue: issue.id, items: items.collect() }
        }
        What::Deliver => {
            let is_passed = n % 4 != 0;
            let result = result(is_passed);
            let evidence = TestEvidence {
                is_script_passed: is_passed,
                is_doc_passed: is_passed,
                doc_commands: vec![result.command.clone()],
                doc_results: vec![result],
                ..TestEvidence::default()
            };
            let words = DeliveryWords {
                summary: format!("d{}", n % 2),
                is_test_passed: true,
                changed_files: (0..4).map(|at| format!("f{at}")).collect(),
                evidence,
                ..DeliveryWords::default()
            };
            Ask::SubmitDelivery { issue: id()?, words: Box::new(words) }
        }
        What::ClaimDelivery => Ask::ClaimDelivery { delivery: delivery()?, extend_ms: None },
        What::Evidence => {
            let runs = vec![Run { result: result(n % 2 == 0), ..Run::default() }];
            let words = EvidenceWords { commit: "c".to_owned(), runs, ..Default::default() };
            Ask::AttachEvidence { delivery: delivery()?, words }
        }
        What::Verdict => {
            let is_passed = n % 4 != 0;
            let verification = Verification {
                is_script_passed: is_passed,
                is_doc_passed: true,
                doc_results: vec![result(is_passed)],
                ..Verification::default()
            };
            Ask::ReviewDelivery(ReviewDelivery {
                delivery: delivery()?,
                token,
                verdict: Verdict::ALL[usize::from(n / 4) % 2],
                words: VerdictWords { verification, ..VerdictWords::default() },
                overridden: None,
            })
        }
        What::Doc => {
            let place = match n % 3 {
                0 => DocPlace::Shared,
                1 => DocPlace::Issue(id()?),
                _ => DocPlace::Task(id()?, number()?),
            };
            let name = format!("doc{}", n % 2).parse().expect("a name");
            Ask::WriteDoc { place, name, content: format!("v{}", n / 8) }
        }
        What::Lock => {
            let pick = |at: u8| PATTERNS[usize::from(at) % PATTERNS.len()];
            let paths = [pick(n), pick(n / 8)];
            let keys = paths.map(|path| LockKey::new("repo", path, n % 16 == 0).expect("a path"));
            let task = id().zip(number()).filter(|_| n.is_multiple_of(2));
            Ask::LockFiles(LockFiles { keys: keys.to_vec(), task, ttl_ms: None })
        }
        What::RenewLock => {
            Ask::RenewLock { lock: lock()?, token, extend_ms: Some(u64::from(n) * 2000) }
        }
        What::Unlock => Ask::Unlock { lock: lock()?, token },
        What::Force => Ask::ForceUnlock { lock: lock()?, reason: "stuck".to_owned() },
        What::Settings => Ask::SetSettings(Settings {
            issue_ttl_ms: [0, 100_000, 7_200_000][usize::from(n) % 3],
            task_claim_ms: [10_000, 3_600_000][usize::from(n) % 2],
            ..Settings::default()
        }),
        What::Pass => return None,
    };
    let is_leads = matches!(what, What::Approve | What::Reject | What::Reset);
    let by = if is_leads && n % 16 == 0 {
        Actor::Person("ann".parse().expect("a person"))
    } else {
        Actor::Role(who)
    };
    Some((call.as_ref(), Command { by, ask }))
}

fn result(is_passed: bool) -> tasuki_broker::rules::swarm::words::CommandResult {
    tasuki_broker::rules::swarm::words::CommandResult {
        command: "make test".to_owned(),
        is_passed,
        exit_code: i32::from(!is_passed),
        output: String::new(),
    }
}

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
pub(super) struct Ledger {
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
}

impl Ledger {
    /// What is written beside the record: each under a key of its own, once.
    pub(super) fn keep(&mut self, bodies: &[Body]) {
        for body in bodies {
            let Body::Swarm(words) = body else { continue };
            let is_new = self.bodies.insert(swarm_key(words).0);
            assert!(is_new, "I7: {words:?} is written twice");
            let (_, bytes) = encode_body(body).remove(0);
            assert_eq!(decode_words(words.clone(), bytes).unwrap(), *words);
        }
    }

    fn grant(&mut self, token: FencingToken) {
        assert!(self.token < token, "I3: {token} after {}", self.token);
        self.token = token;
    }

    /// Takes in what is about to be applied.
    pub(super) fn take(&mut self, now: Timestamp, event: &Event) {
        use tasuki_broker::rules::swarm::Event as It;
        let Event::Swarm(event) = event else { return };
        let OfIssue { issue, audit, what } = match event {
            It::Issue(it) => it,
            It::Locked(it) => return self.grant(it.token),
            It::WorkerRegistered(_)
            | It::SettingsSet(_)
            | It::SharedDocWritten(_)
            | It::Unlocked(_)
            | It::ItemsHanded { .. } => return,
            It::LeaseRenewed(it) => {
                if let tasuki_broker::rules::swarm::Held::Reservation(issue, task) = it.held
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
        match what {
            Happened::TaskCreated(it) => _ = self.points.insert(at(it.task), it.points),
            Happened::Claimed(it) => {
                self.grant(it.token);
                if let Some((bearer, until, _)) = self.kept.remove(&at(it.task)) {
                    let is_live = now < until;
                    assert!(!is_live || bearer == it.worker, "I5: {} took {}", it.worker, it.task);
                }
                let other = self.claims.insert(at(it.task), it.worker.clone());
                assert!(other.is_none(), "I1: {} and {other:?}", it.worker);
            }
            Happened::ClaimLapsed { task, .. } => {
                self.end_claim(at(*task));
                self.end_messages(at(*task));
            }
            Happened::Reset { task, .. } => {
                self.end_claim(at(*task));
                self.kept.remove(&at(*task));
                self.end_submission(at(*task));
                self.end_messages(at(*task));
            }
            Happened::Submitted(it) => {
                self.end_submission(at(it.task));
                self.open_submissions.insert(at(it.task), it.submission);
                assert_eq!(self.claims.get(&at(it.task)), Some(&it.worker), "I1: submits");
            }
            Happened::NextStepMinted(it) => {
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
            Happened::ReservationLapsed { task, .. } => _ = self.kept.remove(&at(*task)),
            Happened::Reviewed(it) if it.verdict == Verdict::Approved => {
                let step = self.steps.remove(&it.submission);
                assert_eq!(step, it.next_step, "I5: a review gives out what was made for it");
                for (.., (_, until, own)) in &mut self.kept {
                    if Some(*own) == step {
                        *until = it.lapses.expect("a reservation lapses");
                    }
                }
                assert!(self.approved.insert(it.submission), "I4: {} twice", it.submission);
                let worker = self.claims.remove(&at(it.task)).expect("I1: it was claimed");
                *self.earned.entry((*issue, worker)).or_default() += self.points[&at(it.task)];
                self.end_submission(at(it.task));
                self.end_messages(at(it.task));
            }
            Happened::Reviewed(it) => self.end_submission(at(it.task)),
            Happened::MessagePosted(it) => {
                self.open_messages.insert((*issue, it.task, it.message));
            }
            Happened::Replied { task, message, .. } => {
                let was_open = self.open_messages.remove(&(*issue, *task, *message));
                assert!(was_open, "I6: {message} was over");
                self.ended_messages.insert(*message);
            }
            Happened::Delivered(it) => {
                let other = self.open_deliveries.insert(*issue, it.delivery);
                assert!(other.is_none(), "one delivery of an issue at a time");
            }
            Happened::DeliveryClaimed { token, .. } => self.grant(*token),
            Happened::DeliveryReviewed(_) | Happened::Closed(_) => {
                self.ended_deliveries.extend(self.open_deliveries.remove(issue));
            }
            Happened::Created { .. }
            | Happened::PathsSet { .. }
            | Happened::Reopened { .. }
            | Happened::Lapsed
            | Happened::DocWritten { .. }
            | Happened::DeliveryLapsed { .. }
            | Happened::EvidenceAttached { .. } => {}
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
    pub(super) fn check(&self, workspace: &Workspace) {
        let swarm = &workspace.swarm;
        for (id, issue) in swarm.issues() {
            assert_eq!(self.audits.get(id), Some(&issue.audit), "I7");
            for task in &issue.tasks {
                let at = (*id, task.number);
                let live = task.live_claim().map(|it| &it.worker);
                assert_eq!(live, self.claims.get(&at), "I1: {at:?}");
                let is_claimed = matches!(task.state, TaskState::InProgress | TaskState::Blocked);
                assert_eq!(is_claimed, live.is_some(), "I1: {at:?} is {}", task.state);
                let kept = task.reservation.as_ref();
                let kept = kept.map(|it| (it.worker.clone(), it.lease.lapses, it.next_step));
                assert_eq!(kept.as_ref(), self.kept.get(&at), "I5: {at:?}");
                let is_asked = task.open_questions().next().is_some();
                assert!(!is_asked || task.state == TaskState::Blocked, "a question blocks");
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
fn check_circles(issue: &tasuki_broker::rules::swarm::Issue, start: TaskNumber) {
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
