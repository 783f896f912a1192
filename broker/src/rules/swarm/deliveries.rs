//! How an issue's finished work is put before an acceptor, and the verdict on it.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{FencingToken, RoleId},
    limits::{DELIVERIES_MAX, EVIDENCE_MAX},
    swarm::{DeliveryId, DocName, IssueId, TaskNumber},
};

use super::{
    Delivered, Delivery, DeliveryClaim, DeliveryReviewed, DeliveryState, Event, FileHash, Issue,
    IssueEventKind, LeaseRenewed, LeaseTarget, Override, Rejection, Reply, ReviewDelivery,
    Submission, SubmissionState, Swarm, Task, TaskState, Verdict, Words,
    check::{AGAIN, DecisionBuilder, check_token},
    issues::FIRST,
    words::{
        CommandResult, DeliveryWords, EvidenceWords, TestEvidence, VerdictWords, Verification,
    },
};
use crate::{
    hash::Hash,
    rules::{guard::is_human, rejection::listed},
};

/// Submissions whose files a refusal says are missing: it shows some names.
const MISSING_MAX: usize = 32;

/// Letters shown of what is called a commit: no commit's hash is longer.
const COMMIT_LETTERS_MAX: usize = 64;

impl Swarm {
    pub(super) fn decide_deliver(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: IssueId,
        words: &DeliveryWords,
    ) -> Result<Reply, Rejection> {
        let issue = self.open_issue(id)?;
        let content = words.content();
        if let Some(open) =
            issue.delivery.map(|it| &self.deliveries[&it]).filter(|it| it.state.is_open())
        {
            if open.content == content && issue.changed_since(open).is_empty() {
                return Ok(draft.repeat(Reply::Delivered(open.id)));
            }
            return Err(Rejection::AlreadyDelivered { delivery: open.id });
        }
        // A model that calls again after its verdict came: nothing was done about the issue since.
        let newest = issue.delivery.map(|it| &self.deliveries[&it]);
        if let Some(newest) = newest
            && newest.content == content
            && newest.role.as_ref() == draft.by.role()
            && newest.verdict.as_ref().is_some_and(|it| it.at == issue.updated)
            && issue.changed_since(newest).is_empty()
        {
            return Ok(draft.repeat(Reply::Delivered(newest.id)));
        }
        issue.check_done("deliver", FIRST)?;
        // What was canceled is in nobody's way, but it is no work either.
        if !issue.tasks.iter().any(|it| it.state == TaskState::Done) {
            return Err(Rejection::NothingToDeliver { issue: id });
        }
        issue.check_files(&words.changed_files)?;
        words.evidence.check_aligned()?;
        self.check_steps(issue, words)?;
        if DELIVERIES_MAX <= self.deliveries.len() {
            return Err(Rejection::TooManyDeliveries);
        }
        let delivery = DeliveryId(draft.make.stamp());
        let commands = words.evidence.doc_commands.iter().map(|it| Hash::of(it.as_bytes()));
        let delivered = Delivered {
            delivery,
            content,
            is_passed: words.is_passed(),
            commands: commands.collect(),
            role: draft.by.role().cloned(),
            commit: words.commit.clone(),
        };
        draft.keep(Words::Delivery { issue: id, delivery, words: Box::new(words.clone()) });
        draft.happened(id, IssueEventKind::Delivered(delivered));
        Ok(Reply::Delivered(delivery))
    }

    /// Whether the document of test steps is one that an acceptor can find: a document here, or a
    /// file of what is delivered.
    fn check_steps(&self, issue: &Issue, words: &DeliveryWords) -> Result<(), Rejection> {
        let path = &words.evidence.doc_path;
        if path.is_empty() || words.changed_files.contains(path) {
            return Ok(());
        }
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        let name: DocName = name
            .parse()
            .map_err(|why| Rejection::Invalid(format!("test_evidence.doc_path {why}")))?;
        let of_tasks = issue.tasks.iter().map(|it| &it.docs);
        let mut docs = [&self.shared_docs, &issue.docs].into_iter().chain(of_tasks);
        match docs.any(|it| it.has(&name)) {
            true => Ok(()),
            false => Err(Rejection::MissingSteps { issue: issue.id, name, path: path.clone() }),
        }
    }

    pub(super) fn decide_claim_delivery(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: DeliveryId,
        extend_ms: Option<u64>,
    ) -> Result<Reply, Rejection> {
        let role = draft.role()?;
        let it = self.delivery(id)?;
        if let Some(claim) = it.live_claim() {
            if claim.role == *role {
                let (token, lapses) = (claim.token, claim.lease.lapses);
                return Ok(draft.repeat(Reply::Granted { token, lapses }));
            }
            let holder = claim.role.clone();
            if !is_human(role) {
                return Err(Rejection::DeliveryAlreadyClaimed { delivery: id, holder });
            }
        }
        it.check_open()?;
        draft.not_own(it.role.as_ref())?;
        self.issue(it.issue)?.check_worked(role)?;
        // A person who steps in does not wait for an agent's lease.
        if let Some(claim) = it.live_claim() {
            let (delivery, role) = (id, claim.role.clone());
            draft.happened(it.issue, IssueEventKind::DeliveryLapsed { delivery, role });
        }
        let claim_ms = self.settings.delivery_claim_ms;
        let claim_ms = extend_ms.unwrap_or(claim_ms).max(claim_ms);
        let (token, lapses) = (draft.make.token(), draft.now.plus_millis(claim_ms));
        let role = role.clone();
        let claimed = IssueEventKind::DeliveryClaimed { delivery: id, role, token, lapses };
        draft.happened(it.issue, claimed);
        Ok(Reply::Granted { token, lapses })
    }

    pub(super) fn decide_renew_delivery(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: DeliveryId,
        token: FencingToken,
        extend_ms: Option<u64>,
    ) -> Result<Reply, Rejection> {
        let it = self.delivery(id)?;
        it.check_open()?;
        let claim = it.claim_of(draft, token)?;
        let usual_ms = self.settings.delivery_claim_ms;
        let extend_ms = extend_ms.unwrap_or_else(|| claim.lease.length(usual_ms));
        let lapses = draft.now.plus_millis(extend_ms).max(claim.lease.lapses);
        if lapses != claim.lease.lapses {
            let held = LeaseTarget::Delivery(id);
            draft.push(Event::LeaseRenewed(LeaseRenewed { held, lapses, is_grace: false }));
        }
        Ok(Reply::Granted { token: claim.token, lapses })
    }

    pub(super) fn decide_evidence(
        &self,
        draft: &mut DecisionBuilder<'_>,
        id: DeliveryId,
        token: FencingToken,
        words: &EvidenceWords,
    ) -> Result<Reply, Rejection> {
        let it = self.delivery(id)?;
        if words.runs.is_empty() {
            return Err(Rejection::Invalid("evidence is of at least one command".to_owned()));
        }
        let number = |at: usize| u32::try_from(at + 1).expect("at most EVIDENCE_MAX");
        let content = Hash::of_value(words);
        if let Some(at) = it.evidence.iter().position(|own| own.content == content) {
            return Ok(draft.repeat(Reply::Evidence { number: number(at) }));
        }
        it.check_open()?;
        draft.not_own(it.role.as_ref())?;
        it.claim_of(draft, token)?;
        if !it.commit.is_empty() && it.commit != words.commit {
            let text = format!(
                "evidence.commit is {}, but delivery '{id}' is of commit {}: run it again on that \
                 one. Nothing was attached",
                shown_commit(&words.commit),
                shown_commit(&it.commit)
            );
            return Err(Rejection::Invalid(text));
        }
        if EVIDENCE_MAX <= it.evidence.len() {
            return Err(Rejection::TooMuchEvidence);
        }
        let number = number(it.evidence.len());
        let is_passed = words.runs.iter().all(|run| run.result.has_ended_well());
        let (issue, delivery) = (it.issue, id);
        draft.keep(Words::Evidence { issue, delivery, number, words: words.clone() });
        let attached = IssueEventKind::EvidenceAttached { delivery, number, is_passed, content };
        draft.happened(issue, attached);
        Ok(Reply::Evidence { number })
    }

    pub(super) fn decide_verdict(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &ReviewDelivery,
    ) -> Result<Reply, Rejection> {
        let id = it.delivery;
        let delivery = self.delivery(id)?;
        let content = it.content();
        if let Some(judged) = &delivery.verdict
            && judged.content == content
        {
            return Ok(draft.repeat(Reply::Delivered(id)));
        }
        delivery.check_open()?;
        draft.not_own(delivery.role.as_ref())?;
        delivery.claim_of(draft, it.token)?;
        delivery.check_aligned(&it.words.verification)?;
        let says_why = !it.words.feedback.trim().is_empty();
        if it.verdict == Verdict::Rejected
            && !says_why
            && delivery.failed(&it.words.verification).is_none()
        {
            let text = "feedback is empty and nothing of the evidence failed; say in feedback what \
                        must be fixed. Nothing was judged";
            return Err(Rejection::Invalid(text.to_owned()));
        }
        if it.verdict == Verdict::Approved {
            // A task that was reset or added meanwhile is not in what was delivered, also once it
            // is done.
            let issue = self.issue(delivery.issue)?;
            issue.check_done("accept", "reject it, and it can be delivered anew once they are")?;
            let changed = issue.changed_since(delivery);
            if !changed.is_empty() {
                let changed: Vec<String> = changed.iter().map(ToString::to_string).collect();
                let tasks = listed(changed.iter().map(String::as_str));
                return Err(Rejection::DeliveryOutdated { delivery: id, tasks });
            }
        }
        if it.verdict == Verdict::Approved
            && it.overridden.is_none()
            && let Some(what) = delivery.failed(&it.words.verification)
        {
            return Err(Rejection::EvidenceFailed { delivery: id, what });
        }
        if it.overridden.as_ref().is_some_and(|it| it.reason.trim().is_empty()) {
            return Err(Rejection::Invalid("an override takes a reason".to_owned()));
        }
        let (issue, words) = (delivery.issue, it.words.clone());
        draft.keep(Words::Verdict { issue, delivery: id, words });
        let (verdict, overridden) = (it.verdict, it.overridden.clone());
        let reviewed = DeliveryReviewed { delivery: id, verdict, content, overridden };
        draft.happened(issue, IssueEventKind::DeliveryReviewed(reviewed));
        Ok(Reply::Delivered(id))
    }
}

fn shown_commit(commit: &str) -> String {
    commit.chars().take(COMMIT_LETTERS_MAX).collect()
}

impl Issue {
    /// Whoever did a task of it cannot judge the whole.
    fn check_worked(&self, role: &RoleId) -> Result<(), Rejection> {
        let accepted = self.tasks.iter().filter_map(Task::accepted);
        match accepted.into_iter().any(|it| it.worker == *role) {
            true => Err(Rejection::OwnWork { role: role.clone() }),
            false => Ok(()),
        }
    }

    /// Tasks of which other work is accepted than when this was delivered, or none any more.
    fn changed_since(&self, delivery: &Delivery) -> Vec<TaskNumber> {
        // Of what came from elsewhere, only the times are known to be in order.
        let is_after = |it: &Submission| (delivery.at, delivery.id.0) < (it.at, it.id.0);
        let is_changed = |task: &&Task| match task.state {
            TaskState::Done => task.accepted().is_some_and(is_after),
            TaskState::Canceled => {
                let was_accepted = |it: &Submission| it.state == SubmissionState::Approved;
                delivery.at < task.updated && task.submissions.iter().any(was_accepted)
            }
            TaskState::Open | TaskState::InProgress | TaskState::WaitingForAnswer => false,
        };
        self.tasks.iter().filter(is_changed).map(|it| it.number).collect()
    }

    /// Whether every file that approved work changed is named.
    fn check_files(&self, named: &[String]) -> Result<(), Rejection> {
        let named: BTreeSet<FileHash> = named.iter().map(|it| FileHash::of(it)).collect();
        let accepted = self.tasks.iter().filter_map(Task::accepted);
        let missing = accepted.map(|it| {
            let unnamed = it.files.iter().filter(|it| !named.contains(it)).copied();
            (it.id, unnamed.collect::<Vec<_>>())
        });
        let missing = missing.filter(|(_, files)| !files.is_empty()).take(MISSING_MAX);
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = missing.iter().map(|(id, _)| id.to_string()).collect();
        let names = format!("all those of {}", listed(ids.iter().map(String::as_str)));
        Err(Rejection::FilesMissing { issue: self.id, missing, names })
    }
}

impl Delivery {
    /// Of commands, by the hash of each.
    pub fn commands_hash(commands: &[Hash]) -> Option<Hash> {
        let all: Vec<u8> = commands.iter().flat_map(|it| it.0).collect();
        (!commands.is_empty()).then(|| Hash::of(&all))
    }

    /// The live claim.
    pub fn live_claim(&self) -> Option<&DeliveryClaim> {
        self.claim.as_ref().filter(|_| self.state == DeliveryState::InReview)
    }

    /// Whether a verdict can still come.
    pub(super) fn check_open(&self) -> Result<(), Rejection> {
        let delivery = self.id;
        match self.state {
            DeliveryState::Open | DeliveryState::InReview => Ok(()),
            DeliveryState::Rejected if self.verdict.is_none() => {
                Err(Rejection::DeliveryEnded { delivery })
            }
            state @ (DeliveryState::Approved | DeliveryState::Rejected) => {
                Err(Rejection::DeliveryReviewed { delivery, state: state.as_str() })
            }
        }
    }

    /// The claim of the asking role, if it is the live one and under its latest token.
    fn claim_of(
        &self,
        draft: &DecisionBuilder<'_>,
        token: FencingToken,
    ) -> Result<&DeliveryClaim, Rejection> {
        let (role, delivery) = (draft.role()?, self.id);
        if let Some(claim) = self.live_claim().filter(|it| it.role == *role) {
            check_token(format!("the claim of {delivery}"), token, claim.token)?;
            return Ok(claim);
        }
        if self.former.as_ref() == Some(role) {
            let lost = match self.live_claim() {
                Some(claim) => format!("the claim of {role} on {delivery} went to {}", claim.role),
                None => format!("the claim of {role} on {delivery} lapsed"),
            };
            return Err(Rejection::LeaseLost { lost, next: AGAIN });
        }
        let holder =
            self.live_claim().map_or_else(String::new, |it| format!(", but by {}", it.role));
        Err(Rejection::NotAcceptor { delivery, role: role.clone(), holder })
    }

    fn check_aligned(&self, it: &Verification) -> Result<(), Rejection> {
        let own = it.doc_results.iter().map(|result| Hash::of(result.command.as_bytes()));
        if Self::commands_hash(&own.collect::<Vec<_>>()) == self.commands {
            return Ok(());
        }
        let text = "verification.doc_results must align with delivery test_evidence.doc_commands";
        Err(Rejection::Invalid(format!("{text}: one for each of them, in their order")))
    }

    /// What failed; `None`: nothing did.
    fn failed(&self, it: &Verification) -> Option<String> {
        if let Some(at) = self.evidence.iter().position(|it| !it.is_passed) {
            return Some(format!("what was run again failed (evidence {})", at + 1));
        }
        let mut results = it.doc_results.iter().zip(1..);
        if let Some((failed, step)) = results.find(|(result, _)| !result.has_ended_well()) {
            let exit_code = failed.exit_code;
            let steps = "the delivery's test_evidence.doc_commands";
            return Some(format!("step {step} of {steps} failed with exit code {exit_code}"));
        }
        let failed = [
            (!it.is_script_passed, "the verification says that the script failed"),
            (!it.is_doc_passed, "the verification says that the steps of the document failed"),
            (!self.is_passed, "what was delivered says itself that its tests failed"),
        ];
        failed.into_iter().find(|(is_failed, _)| *is_failed).map(|(_, what)| what.to_owned())
    }
}

impl DeliveryWords {
    pub fn content(&self) -> Hash {
        Hash::of_value(self)
    }

    pub fn is_passed(&self) -> bool {
        let evidence = &self.evidence;
        let results = evidence.doc_results.iter().all(CommandResult::has_ended_well);
        self.is_test_passed && evidence.is_script_passed && evidence.is_doc_passed && results
    }
}

impl DeliveryWords {
    /// Whether anything is said of a script or a document beside how the tests ended.
    pub fn has_evidence(&self) -> bool {
        let (own, passed) = (&self.evidence, self.is_test_passed);
        let texts =
            [&own.script_path, &own.script_cmd, &own.script_result, &own.doc_path, &self.commit];
        texts.iter().any(|it| !it.is_empty())
            || !own.doc_commands.is_empty()
            || !self.commands.is_empty()
            || own.is_script_passed != passed
            || own.is_doc_passed != passed
    }
}

impl CommandResult {
    /// Whether it passed, also by how it ended: what says otherwise contradicts itself.
    fn has_ended_well(&self) -> bool {
        self.is_passed && self.exit_code == 0
    }
}

impl TestEvidence {
    fn check_aligned(&self) -> Result<(), Rejection> {
        let results = self.doc_results.iter().map(|it| &it.command);
        if results.eq(&self.doc_commands) {
            return Ok(());
        }
        let text = "test_evidence.doc_results must align with test_evidence.doc_commands";
        Err(Rejection::Invalid(format!("{text}: one for each of them, in their order")))
    }
}

impl ReviewDelivery {
    pub(super) fn content(&self) -> Hash {
        self.words.content(self.verdict, self.overridden.as_ref())
    }
}

impl VerdictWords {
    /// What is said with a verdict, to recognise it when it is said again.
    pub fn content(&self, verdict: Verdict, overridden: Option<&Override>) -> Hash {
        Hash::of_values(&[&verdict, self, &overridden.cloned()])
    }
}
