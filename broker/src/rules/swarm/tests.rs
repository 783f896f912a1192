//! Stories about an issue: who does what at which moment, and what comes of it.

mod again;
mod compact;
mod delivered;
mod flows;
mod freed;
mod graces;
mod limits;
mod locks;
mod refused;
mod repairs;
mod scoring;

use std::fmt::Write as _;

use tasuki_proto::{
    id::{FencingToken, RoleId, Timestamp},
    swarm::{DeliveryId, DocName, IssueId, LockId, NextStepId, TaskNumber},
};

use super::{
    words::{
        Artifacts, CommandResult, DeliveryWords, Dimension, DocPaths, EvidenceWords,
        FeedbackDetail, MessageWords, ReviewWords, Run, Severity, TaskWords, TestEvidence,
        VerdictWords, Verification,
    },
    *,
};
use crate::{
    journal::codec::{CodecError, decode_snapshot, encode_snapshot},
    rules::{
        Caller, Command as AnyCommand, Context, Principal, Rejection as AnyRejection,
        Reply as AnyReply, Request, Workspace, presence::Presence, turn::Actor,
    },
};

struct Story {
    workspace: Workspace,
    presence: Presence,
    told: String,
    /// What was minted last.
    step: Option<NextStepId>,
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn result(is_passed: bool) -> CommandResult {
    let command = "make test".to_owned();
    CommandResult { command, is_passed, exit_code: i32::from(!is_passed), output: String::new() }
}

impl Story {
    fn new() -> Self {
        Self {
            workspace: Workspace::default(),
            presence: Presence::new(Timestamp::default()),
            told: String::new(),
            step: None,
        }
    }

    fn swarm(&self) -> &Swarm {
        &self.workspace.swarm
    }

    fn issue_id(&self) -> IssueId {
        *self.swarm().issues.last_key_value().expect("an issue").0
    }

    fn issue(&self) -> &Issue {
        &self.swarm().issues[&self.issue_id()]
    }

    fn task(&self, number: u32) -> &Task {
        &self.issue().tasks[TaskNumber(number).index()]
    }

    fn delivery(&self) -> DeliveryId {
        *self.swarm().deliveries.last_key_value().expect("a delivery").0
    }

    fn lock(&self) -> LockId {
        self.swarm().locks.iter().next_back().map(|it| it.id).unwrap_or_default()
    }

    /// `L opens s`, `L plans easy 3; focus 5 <1 <#0`, `W registers`, `W claims 1`,
    /// `W claims 1 +step`, `W renews 1 +token=1`, `W submits 1 +on=a: words`, `L mints 1 for W 5`,
    /// `L approves 1 5`, `L rejects 1 5`, `L resets 1: why`, `L cancels 1: why`, `W asks 1: what`, `W tells 1: what`,
    /// `L replies 1: so`, `L is handed`, `L delivers f1 f2 +of=c +steps=p`, `A takes`, `A runs again +failed +of=c`,
    /// `A accepts +failed +by=ann`, `A refuses +wordless`, `L closes: why`, `L reopens`, `W writes 1 name`,
    /// `W locks a b* +for=1 +ttl=9`, `W keeps`, `W unlocks`, `L forces`, `time`, `W is there`, `restart`.
    fn command(&self, line: &str) -> Option<Command> {
        let (head, text) = line.split_once(": ").unwrap_or((line, ""));
        let (mut words, mut options) = (Vec::new(), Vec::new());
        for word in head.split(' ') {
            match word.strip_prefix('+') {
                Some(option) => options.push(option),
                None => words.push(word),
            }
        }
        let has = |name: &str| options.contains(&name);
        let option = |name: &str| options.iter().find_map(|it| it.strip_prefix(name));
        let token = option("token=").map_or(0, |it| it.parse().unwrap());
        let token = FencingToken::from(token);
        let number = |at: usize| TaskNumber(words[at].parse().unwrap());
        let score = |at: usize| Score::new(words[at].parse().unwrap()).unwrap();
        let issue = || self.issue_id();
        let said = || MessageWords { content: text.to_owned(), refs: String::new() };
        let key = |path: &str| {
            let (repository, path) = path.split_once(':').unwrap_or(("repo", path));
            lock::LockKey::new(repository, path, has("folded")).unwrap()
        };
        let review = |verdict| {
            CommandKind::ReviewTask(ReviewTask {
                issue: issue(),
                task: number(2),
                submission: None,
                verdict,
                score: score(3),
                next_step: self.step.filter(|_| !has("without")),
                words: reviewed(text),
            })
        };
        let judge = |verdict| {
            let is_passed = !has("failed");
            let verification = Verification {
                is_script_passed: is_passed,
                is_doc_passed: true,
                doc_results: vec![result(true); if has("unaligned") { 2 } else { 1 }],
                ..Verification::default()
            };
            let feedback = if has("wordless") { "" } else { "why" }.to_owned();
            let by = option("by=").map(|person| Override {
                person: person.parse().unwrap(),
                reason: "known".to_owned(),
            });
            CommandKind::ReviewDelivery(ReviewDelivery {
                delivery: self.delivery(),
                token,
                verdict,
                words: VerdictWords { feedback, verification, ..VerdictWords::default() },
                overridden: by,
            })
        };
        let ask = match words[1] {
            "opens" => CommandKind::CreateIssue(CreateIssue {
                subject: words[2].to_owned(),
                description: String::new(),
                paths: DocPaths::default(),
                docs: vec![("lead".parse().unwrap(), "text".to_owned())],
            }),
            "plans" => {
                CommandKind::CreateTasks(CreateTasks { issue: issue(), tasks: plan(&words[2..]) })
            }
            "registers" => CommandKind::RegisterWorker,
            "claims" => {
                let next_step = self.step.filter(|_| has("step"));
                CommandKind::ClaimTask { issue: issue(), task: number(2), next_step }
            }
            "renews" => {
                CommandKind::RenewClaim { issue: issue(), task: number(2), token, extend_ms: None }
            }
            "submits" => CommandKind::SubmitTask(SubmitTask {
                issue: issue(),
                task: number(2),
                token,
                words: Artifacts {
                    summary: text.to_owned(),
                    changed_files: vec![format!("f{}", words[2])],
                    ..Artifacts::default()
                },
                files: option("on=").map(key).into_iter().collect(),
            }),
            "mints" => CommandKind::MintNextStep(MintNextStep {
                issue: issue(),
                task: number(2),
                worker: role(words[4]),
                score: score(5),
            }),
            "approves" => review(Verdict::Approved),
            "rejects" => review(Verdict::Rejected),
            "resets" => {
                CommandKind::ResetTask { issue: issue(), task: number(2), reason: text.to_owned() }
            }
            "cancels" => {
                let reason = text.to_owned();
                CommandKind::CancelTask { issue: issue(), task: number(2), reason }
            }
            "asks" | "tells" => CommandKind::PostMessage(PostMessage {
                issue: issue(),
                task: number(2),
                token,
                kind: match words[1] {
                    "asks" => MessageKind::Question,
                    _ => MessageKind::Progress,
                },
                words: said(),
            }),
            "replies" => CommandKind::ReplyMessage(ReplyMessage {
                issue: issue(),
                task: number(2),
                message: None,
                words: said(),
            }),
            "delivers" => {
                let commit = option("of=").unwrap_or_default().to_owned();
                let mut words = delivered(&words[2..], text, !has("failed"));
                words.evidence.doc_path = option("steps=").unwrap_or_default().to_owned();
                let words = Box::new(DeliveryWords { commit, ..words });
                CommandKind::SubmitDelivery { issue: issue(), words }
            }
            "takes" => CommandKind::ClaimDelivery { delivery: self.delivery(), extend_ms: None },
            "runs" => {
                let runs = vec![Run { result: result(!has("failed")), ..Run::default() }];
                let commit = option("of=").unwrap_or("c").to_owned();
                let words = EvidenceWords { commit, runs, ..Default::default() };
                CommandKind::AttachEvidence { delivery: self.delivery(), token, words }
            }
            "accepts" => judge(Verdict::Approved),
            "refuses" => judge(Verdict::Rejected),
            "closes" => CommandKind::CloseIssue { issue: issue(), reason: text.to_owned() },
            "reopens" => CommandKind::ReopenIssue { issue: issue(), reason: text.to_owned() },
            "writes" => {
                let place = match words[2] {
                    "shared" => DocPlace::Shared,
                    "issue" => DocPlace::Issue(issue()),
                    _ => DocPlace::Task(issue(), number(2)),
                };
                let name: DocName = words[3].parse().unwrap();
                let (content, as_claimant) = (text.to_owned(), has("claimant"));
                CommandKind::WriteDoc { place, name, content, as_claimant }
            }
            "locks" => {
                let keys = words[2..].iter().map(|path| key(path));
                let task = option("for=").map(|it| (issue(), TaskNumber(it.parse().unwrap())));
                let ttl_ms = option("ttl=").map(|it| it.parse().unwrap());
                CommandKind::LockFiles(LockFiles {
                    keys: keys.collect(),
                    task,
                    claim: token,
                    ttl_ms,
                })
            }
            "keeps" => CommandKind::RenewLock { lock: self.lock(), token, extend_ms: None },
            "unlocks" => CommandKind::Unlock { lock: self.lock(), token },
            "forces" => CommandKind::ForceUnlock { lock: self.lock(), reason: "stuck".to_owned() },
            "is" => {
                let shown = self.issue().item(self.workspace.time, 300_000);
                CommandKind::MarkItems { issue: issue(), items: vec![shown?.0] }
            }
            other => panic!("no such command: {other}"),
        };
        let by = match words[0] {
            "ann" => Actor::Person("ann".parse().unwrap()),
            name => Actor::Role(role(name)),
        };
        Some(Command { by, ask })
    }

    fn step(&mut self, ms: u64, line: &str) {
        let now = Timestamp::from_millis(ms);
        let said = match line {
            "time" => self.execute(now, AnyCommand::Tick),
            "restart" => {
                let mut pieces = Vec::new();
                let put = |piece| -> Result<(), CodecError> {
                    pieces.push(Ok(piece));
                    Ok(())
                };
                encode_snapshot(&self.workspace, put).unwrap();
                let woken: Result<_, CodecError> = decode_snapshot(pieces);
                let woken = woken.unwrap();
                assert!(woken == self.workspace, "a snapshot holds all of it");
                self.presence = Presence::new(now);
                "so".to_owned()
            }
            "standstill" => {
                self.presence.listens_since(now);
                "so".to_owned()
            }
            line if line.ends_with(" is there") => {
                self.presence.role_seen(&role(line.split(' ').next().unwrap()), now);
                "so".to_owned()
            }
            line => match self.command(line) {
                Some(command) => self.execute(now, AnyCommand::Swarm(command)),
                None => "nothing to show".to_owned(),
            },
        };
        writeln!(self.told, "{ms:>3} {line}: {said}{}", self.tasks()).unwrap();
    }

    fn execute(&mut self, now: Timestamp, command: AnyCommand) -> String {
        let presence = self.presence.clone();
        let context = Context::new(presence, 1_000_000);
        let request = Request { caller: Caller::default(), key: None, command };
        let decision = match self.workspace.decide(now, &context, &request) {
            Err(AnyRejection::Swarm(Rejection::Invalid(text))) => return format!("no: {text}"),
            Err(rejection) => return format!("no: {}", rejection.reason()),
            Ok(decision) => decision,
        };
        let mut said = self.say(&decision.reply);
        if decision.is_repeat {
            said += " (as before)";
        }
        if !decision.events.is_empty() {
            let principal =
                Principal { role: request.command.role().cloned(), ..Principal::default() };
            let sequence = self.workspace.sequence.next();
            let (record, _) = decision.into_record(sequence, now, principal, None);
            self.workspace.apply(&record);
        }
        said
    }

    fn say(&mut self, reply: &AnyReply) -> String {
        let AnyReply::Swarm(reply) = reply else { return "done".to_owned() };
        match reply {
            Reply::Issue(_) => "an issue".to_owned(),
            Reply::Tasks { first, count } => format!("{count} from {first}"),
            Reply::Granted { token, lapses } => {
                format!("token {token} until {}", lapses.as_millis())
            }
            Reply::Submitted(_) => "submitted".to_owned(),
            Reply::NextStep(it) => {
                self.step = Some(it.next_step);
                let task = it.task.map_or_else(|| "end".to_owned(), |it| it.to_string());
                format!("{} → {task}, {} points, {} low", it.difficulty, it.points, it.low_scores)
            }
            Reply::Reviewed { .. } => "reviewed".to_owned(),
            Reply::Message(_) => "said".to_owned(),
            Reply::Delivered(_) => "delivery".to_owned(),
            Reply::Evidence { number } => format!("evidence {number}"),
            Reply::Locked { token, lapses, .. } => {
                format!("locked, token {token} until {}", lapses.as_millis())
            }
            Reply::Doc { version } => format!("version {version}"),
            Reply::Kept { lapses } => format!("kept until {lapses:?}"),
        }
    }

    /// How the tasks of the newest issue stand: ` | 1 ready 2 in_progress:W`.
    fn tasks(&self) -> String {
        let Some((_, issue)) = self.swarm().issues.last_key_value() else { return String::new() };
        let mut told = String::new();
        for task in &issue.tasks {
            let holder = task.live_claim().map(|it| format!(":{}", it.worker));
            let kept = task.reservation.as_ref().map(|it| format!(":{}", it.worker));
            let (number, standing) = (task.number.0, issue.task_standing(task));
            write!(told, " {number} {standing}{}", holder.or(kept).unwrap_or_default()).unwrap();
        }
        let state = match issue.state {
            IssueState::Open => String::new(),
            state @ (IssueState::Done | IssueState::Canceled) => format!(" | {state}"),
        };
        if told.is_empty() { state } else { format!("{state} |{told}") }
    }

    /// What the lead is shown now.
    fn shown(&self) -> Option<ItemKind> {
        self.issue().item(self.workspace.time, 300_000).map(|(_, item)| item.kind)
    }
}

fn plan(words: &[&str]) -> Vec<NewTask> {
    let text = words.join(" ");
    let tasks = text.split("; ").map(|task| {
        let mut words = task.split(' ');
        let difficulty = Difficulty::parse(words.next().unwrap()).unwrap();
        let points = words.next().unwrap().parse().unwrap();
        let blocked_by = words.map(|word| {
            let word = word.strip_prefix('<').unwrap();
            match word.strip_prefix('#') {
                Some(place) => Blocker::New(place.parse().unwrap()),
                None => Blocker::Task(TaskNumber(word.parse().unwrap())),
            }
        });
        let blocked_by = blocked_by.collect();
        let (subject, words) = ("t".to_owned(), TaskWords::default());
        NewTask { subject, difficulty, points, blocked_by, words }
    });
    tasks.collect()
}

fn reviewed(text: &str) -> ReviewWords {
    ReviewWords {
        summary: text.to_owned(),
        reviewed_refs: vec!["f".to_owned()],
        feedback: String::new(),
        details: vec![FeedbackDetail {
            dimension: Dimension::Style,
            severity: Severity::Minor,
            file_path: String::new(),
            line_range: String::new(),
            content: "c".to_owned(),
            suggestion: String::new(),
        }],
    }
}

fn delivered(files: &[&str], text: &str, is_passed: bool) -> DeliveryWords {
    let evidence = TestEvidence {
        is_script_passed: is_passed,
        is_doc_passed: is_passed,
        doc_commands: vec!["make test".to_owned()],
        doc_results: vec![result(true)],
        ..TestEvidence::default()
    };
    DeliveryWords {
        summary: text.to_owned(),
        is_test_passed: true,
        changed_files: files.iter().map(|it| (*it).to_owned()).collect(),
        evidence,
        ..DeliveryWords::default()
    }
}

#[track_caller]
fn check(steps: &[(u64, &str)], expected: &str) {
    let mut story = Story::new();
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    assert_eq!(trimmed(&story.told), trimmed(expected), "\n{}", story.told);
}

/// The same of what comes after `before`, and without the tasks.
fn check_after(before: &[&str], steps: &[(u64, &str)], expected: &str) {
    let mut story = Story::new();
    for line in before {
        story.step(1, line);
    }
    story.told.clear();
    for (ms, line) in steps {
        story.step(*ms, line);
    }
    let told: Vec<&str> = story.told.lines().filter_map(|it| it.split(" |").next()).collect();
    assert_eq!(trimmed(&told.join("\n")), trimmed(expected), "\n{}", story.told);
}

fn trimmed(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}
