//! The part of the story that is about issues, tasks, locks and deliveries, and what must hold of
//! it, judged by what happened and nothing else.

mod again;
mod led;
mod ledger;

use proptest::prelude::*;
use tasuki_broker::rules::{
    Workspace,
    swarm::{
        Blocker, Command, CommandKind, CreateIssue, CreateTasks, Difficulty, DocPlace, IssueState,
        LockFiles, MessageKind, MintNextStep, NewTask, PostMessage, ReplyMessage, ReviewDelivery,
        ReviewTask, Score, Settings, SubmitTask, Verdict,
        lock::LockKey,
        words::{
            Artifacts, DeliveryWords, DocPaths, EvidenceWords, FeedbackDetail, MessageWords,
            ReviewWords, Run, Severity, TaskWords, TestEvidence, VerdictWords, Verification,
        },
    },
    turn::Actor,
};
use tasuki_proto::{
    id::{FencingToken, RoleId},
    swarm::{IssueId, TaskNumber},
};

pub(super) use self::ledger::Ledger;
use super::{Call, ROLES, call};

/// Files and patterns that are locked.
const PATTERNS: [&str; 8] =
    ["a/b.rs", "a", "a/*.rs", "**/b.rs", "c/", "c/d/e.rs", "*/?.rs", "[a-c]/b*"];

/// What is delivered, if it is named, and what is run again.
const COMMITS: [&str; 3] = ["", "c1", "c2"];

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
    Cancel,
    CommandKind,
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
        2 => Just(CreateIssue), 1 => Just(CloseIssue), 1 => Just(Reopen), 1 => Just(Extend),
        3 => Just(CreateTasks), 1 => Just(Register), 14 => Just(Claim), 4 => Just(ClaimOwn),
        1 => Just(Renew), 14 => Just(Submit), 14 => Just(Mint), 16 => Just(Approve),
        3 => Just(Reject), 2 => Just(Reset), 1 => Just(Cancel), 5 => Just(CommandKind), 4 => Just(Reply), 3 => Just(MarkItems),
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
        Submit | Renew | CommandKind => tasks.filter(|(_, it)| it.live_claim().is_some()).collect(),
        Mint | Approve | Reject => tasks.filter(|(_, it)| it.open_submission().is_some()).collect(),
        Reply => tasks.filter(|(_, it)| it.open_questions().next().is_some()).collect(),
        Deliver => {
            let done = swarm.issues().values().filter(|it| it.counts().tasks[..3] == [0, 0, 0]);
            let done = done.filter(|it| !it.tasks.is_empty() && it.state == IssueState::Open);
            return (who, nth(done.map(|it| (it.id, TaskNumber(1))), step.task));
        }
        Verdict | Evidence => {
            let holders = swarm.deliveries().values().filter_map(|it| it.live_claim());
            return (nth(holders.map(|it| it.role.clone()), step.n).unwrap_or(who), None);
        }
        _ => return (who, None),
    };
    let Some((issue, task)) = nth(due.into_iter(), step.task) else { return (who, None) };
    let worker = task.live_claim().map(|it| it.worker.clone());
    let who = match step.what {
        Submit | Renew | CommandKind => worker.unwrap_or(who),
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
        What::CreateIssue => CommandKind::CreateIssue(CreateIssue {
            subject: format!("s{}", n % 3),
            description: String::new(),
            paths: DocPaths::default(),
            docs: vec![("lead".parse().expect("a name"), "text".to_owned())],
        }),
        What::CloseIssue => {
            let reason = if n.is_multiple_of(2) { "enough" } else { "" }.to_owned();
            CommandKind::CloseIssue { issue: id()?, reason }
        }
        What::Reopen => CommandKind::ReopenIssue { issue: id()?, reason: "again".to_owned() },
        What::Extend => {
            CommandKind::ExtendIssue { issue: id()?, extend_ms: Some(u64::from(n) * 100_000) }
        }
        What::CreateTasks => {
            // Now and then what somebody may have asked for before.
            let n = if step.is_aimed { n } else { 9 };
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
            CommandKind::CreateTasks(CreateTasks { issue: id()?, tasks: tasks.collect() })
        }
        What::Register => CommandKind::RegisterWorker,
        What::Claim => {
            let shown = the_task()?.reservation.as_ref().map(|it| it.next_step);
            let next_step = if n.is_multiple_of(2) { shown } else { None };
            CommandKind::ClaimTask { issue: id()?, task: number()?, next_step }
        }
        What::ClaimOwn => {
            let issue = swarm.issue(id()?).ok()?;
            let (task, kept) = issue.reserved_for(&who).next()?;
            CommandKind::ClaimTask { issue: issue.id, task, next_step: Some(kept.next_step) }
        }
        What::Renew => {
            let extend_ms = Some(u64::from(n) * 50_000);
            CommandKind::RenewClaim { issue: id()?, task: number()?, token, extend_ms }
        }
        What::Submit => {
            let words = Artifacts {
                summary: format!("w{}", n % 3),
                changed_files: vec![format!("f{}", n % 4)],
                ..Artifacts::default()
            };
            let path = PATTERNS[usize::from(n) % PATTERNS.len()];
            let files = vec![LockKey::new("repo", path, false).expect("a path")];
            CommandKind::SubmitTask(SubmitTask {
                issue: id()?,
                task: number()?,
                token,
                words,
                files,
            })
        }
        What::Mint => {
            let task = number()?;
            let worker = match the_task()?.open_submission() {
                Some(open) if n % 8 != 0 => open.worker.clone(),
                Some(_) | None => role(n),
            };
            CommandKind::MintNextStep(MintNextStep { issue: id()?, task, worker, score })
        }
        What::Approve | What::Reject => {
            let minted = the_task()?.open_submission().and_then(|it| it.minted.clone());
            let score = minted.as_ref().filter(|_| n % 8 != 0).map_or(score, |it| it.score);
            CommandKind::ReviewTask(ReviewTask {
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
            CommandKind::ResetTask { issue: id()?, task: number()?, reason: "because".to_owned() }
        }
        What::Cancel => {
            CommandKind::CancelTask { issue: id()?, task: number()?, reason: "enough".to_owned() }
        }
        What::CommandKind => CommandKind::PostMessage(PostMessage {
            issue: id()?,
            task: number()?,
            token,
            kind: MessageKind::ALL[usize::from(n) % 5],
            words: MessageWords { content: format!("q{}", n % 2), refs: String::new() },
        }),
        What::Reply => {
            let messages = the_task()?.messages.iter().map(|it| it.id);
            let message = if n.is_multiple_of(2) { nth(messages, n / 2) } else { None };
            CommandKind::ReplyMessage(ReplyMessage {
                issue: id()?,
                task: number()?,
                message,
                words: MessageWords { content: format!("a{}", n % 2), refs: String::new() },
            })
        }
        What::MarkItems => {
            let issue = swarm.issue(id()?).ok()?;
            let items = issue.items.keys().copied().take(usize::from(n % 4) + 1);
            CommandKind::MarkItems { issue: issue.id, items: items.collect() }
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
                commit: COMMITS[usize::from(n / 8) % 2].to_owned(),
                evidence,
                ..DeliveryWords::default()
            };
            CommandKind::SubmitDelivery { issue: id()?, words: Box::new(words) }
        }
        What::ClaimDelivery => {
            CommandKind::ClaimDelivery { delivery: delivery()?, extend_ms: None }
        }
        What::Evidence => {
            let runs = vec![Run { result: result(n % 2 == 0), ..Run::default() }];
            let commit = COMMITS[1 + usize::from(n / 4) % 2].to_owned();
            let words = EvidenceWords { commit, runs, ..Default::default() };
            CommandKind::AttachEvidence { delivery: delivery()?, token, words }
        }
        What::Verdict => {
            let is_passed = n % 4 != 0;
            let verification = Verification {
                is_script_passed: is_passed,
                is_doc_passed: true,
                doc_results: vec![result(is_passed)],
                ..Verification::default()
            };
            CommandKind::ReviewDelivery(ReviewDelivery {
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
            let (content, as_claimant) = (format!("v{}", n / 8), n % 2 == 0);
            CommandKind::WriteDoc { place, name, content, as_claimant }
        }
        What::Lock => {
            let pick = |at: u8| PATTERNS[usize::from(at) % PATTERNS.len()];
            let paths = [pick(n), pick(n / 8)];
            let keys = paths.map(|path| LockKey::new("repo", path, n % 16 == 0).expect("a path"));
            let task = id().zip(number()).filter(|_| n.is_multiple_of(2));
            CommandKind::LockFiles(LockFiles {
                keys: keys.to_vec(),
                task,
                claim: token,
                ttl_ms: None,
            })
        }
        What::RenewLock => {
            CommandKind::RenewLock { lock: lock()?, token, extend_ms: Some(u64::from(n) * 2000) }
        }
        What::Unlock => CommandKind::Unlock { lock: lock()?, token },
        What::Force => CommandKind::ForceUnlock { lock: lock()?, reason: "stuck".to_owned() },
        What::Settings => CommandKind::SetSettings(Settings {
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
