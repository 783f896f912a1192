//! How a worker's result is put before the lead.

use tasuki_proto::{limits::SUBMISSIONS_MAX, swarm::SubmissionId};

use super::{
    FileHash, IssueEventKind, Rejection, Reply, SubmissionState, SubmitTask, Submitted, Swarm,
    Words, check::DecisionBuilder, words::Artifacts,
};
use crate::hash::Hash;

impl Swarm {
    pub(super) fn decide_submit(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &SubmitTask,
    ) -> Result<Reply, Rejection> {
        let role = draft.role()?;
        let (_, task) = self.open_task(it.issue, it.task)?;
        let content = it.words.content();
        // A model that calls again after its verdict came: the newest, by the same words, of the
        // claim that it has or was done under.
        if let Some(newest) = task.submissions.last()
            && newest.worker == *role
            && newest.content == content
            && matches!(newest.state, SubmissionState::Approved | SubmissionState::Rejected)
            && task.claim.as_ref().is_some_and(|claim| claim.claimed <= newest.at)
        {
            return Ok(draft.repeat(Reply::Submitted(newest.id)));
        }
        task.claim_of(role, it.token)?;
        let open = task.open_submission();
        if let Some(same) = open.filter(|open| open.content == content) {
            return Ok(draft.repeat(Reply::Submitted(same.id)));
        }
        if SUBMISSIONS_MAX <= task.submissions.len() {
            return Err(Rejection::TooManySubmissions);
        }
        self.check_submitted(draft, role, &it.files)?;
        let missing = task.required_docs.iter().find(|name| !task.docs.has(name));
        if let Some(name) = missing {
            return Err(Rejection::MissingDoc { place: "task", name: name.clone() });
        }
        let submission = SubmissionId(draft.make.stamp());
        let submitted = Submitted {
            task: it.task,
            submission,
            worker: role.clone(),
            content,
            files: it.words.file_hashes(),
            supersedes: open.map(|it| it.id),
        };
        draft.keep(Words::Submission { issue: it.issue, submission, words: it.words.clone() });
        draft.happened(it.issue, IssueEventKind::Submitted(submitted));
        Ok(Reply::Submitted(submission))
    }
}

impl Artifacts {
    /// Of the files that it changed.
    pub fn file_hashes(&self) -> Vec<FileHash> {
        self.changed_files.iter().map(|it| FileHash::of(it)).collect()
    }

    /// What is said, to recognise it when it is said again.
    pub fn content(&self) -> Hash {
        Hash::of_value(self)
    }
}
