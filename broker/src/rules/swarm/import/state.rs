//! How what came from elsewhere is kept here: over, and held by nobody.

use tasuki_proto::{
    id::{FencingToken, Timestamp},
    swarm::IssueId,
};

use super::{
    super::{
        Claim, Delivery, DeliveryState, DeliveryVerdict, Judged, Lease, Message, MessageState,
        Submission, SubmissionState, Task, Verdict,
    },
    ImportedDelivery, ImportedMessage, ImportedSubmission, ImportedTask,
};
use crate::hash::Hash;

impl ImportedTask {
    pub(super) fn state(&self, now: Timestamp) -> Task {
        // Who did it: a claim that is over.
        let claim = self.worker.clone().map(|worker| Claim {
            worker,
            token: FencingToken::NONE,
            lease: Lease::until(now),
            claimed: self.updated,
        });
        Task {
            difficulty: self.difficulty,
            points: self.points,
            state: self.state,
            required_docs: self.words.required_task_docs.clone(),
            updated: self.updated,
            claim,
            ..Task::blank(self.number, self.subject.clone(), self.created)
        }
    }
}

impl ImportedSubmission {
    pub(super) fn state(&self) -> Submission {
        let state = match self.review.as_ref().map(|it| it.verdict) {
            Some(Verdict::Approved) => SubmissionState::Approved,
            Some(Verdict::Rejected) => SubmissionState::Rejected,
            None => SubmissionState::Reset,
        };
        let is_approved = state == SubmissionState::Approved;
        Submission {
            id: self.id,
            worker: self.worker.clone(),
            content: self.words.content(),
            at: self.at,
            state,
            reviewed: self.review.as_ref().map(|it| Judged {
                verdict: it.verdict,
                score: it.score,
                content: it.words.content(it.verdict, it.score),
                at: it.at,
                by: it.by.clone(),
                next_step: None,
                total: None,
            }),
            minted: None,
            files: if is_approved { self.words.file_hashes() } else { Vec::new() },
            item: 0,
        }
    }
}

impl ImportedMessage {
    pub(super) fn state(&self) -> Message {
        let reply = self.reply.as_ref();
        Message {
            id: self.id,
            sender: self.sender.clone(),
            kind: self.kind,
            content: self.words.content(),
            at: self.at,
            state: if reply.is_some() { MessageState::Replied } else { MessageState::Resolved },
            replied: reply.map(|it| it.at),
            replied_by: reply.and_then(|it| it.by.clone()),
            reply: reply.map(|it| it.words.content()),
            item: 0,
        }
    }
}

impl ImportedDelivery {
    pub(super) fn state(&self, issue: IssueId) -> Delivery {
        let verdict = self.verdict.as_ref();
        let commands = self.words.evidence.doc_commands.iter();
        let commands: Vec<_> = commands.map(|it| Hash::of(it.as_bytes())).collect();
        Delivery {
            id: self.id,
            issue,
            role: self.role.clone(),
            content: self.words.content(),
            commit: self.words.commit.clone(),
            is_passed: self.words.is_passed(),
            commands: Delivery::commands_hash(&commands),
            state: match verdict.map(|it| it.verdict) {
                Some(Verdict::Approved) => DeliveryState::Approved,
                Some(Verdict::Rejected) => DeliveryState::Rejected,
                None if self.is_open => DeliveryState::Open,
                None => DeliveryState::Rejected,
            },
            at: self.at,
            updated: verdict.map_or(self.at, |it| it.at),
            claim: None,
            former: None,
            evidence: Vec::new(),
            verdict: verdict.map(|it| DeliveryVerdict {
                verdict: it.verdict,
                content: it.words.content(it.verdict, None),
                by: it.by.clone(),
                at: it.at,
                overridden: None,
            }),
        }
    }
}
