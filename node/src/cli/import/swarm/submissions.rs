//! What was submitted for tasks, and what was delivered, with the verdicts.

use std::collections::BTreeMap;

use prost::Message as _;
use serde_json::Value;
use tasuki_proto::{
    counted::counted,
    limits::{
        CHANGED_FILES_MAX, COMMANDS_MAX, FILES_BYTES_MAX, SUBMISSIONS_MAX, SWARM_WORDS_BYTES_MAX,
        TEXT_BYTES_MAX,
    },
    swarm::{DeliveryId, SubmissionId},
    visible::shown,
    wire::{self, DeliveryStatus, IssueStatus},
};

use super::{
    fields::{Fields, cut},
    issue::{DETAIL_BYTES_MAX, IssueReader, REFS_BYTES_MAX},
};

impl IssueReader<'_> {
    pub(super) fn submissions(&mut self, tasks: &BTreeMap<u32, Value>) {
        for (number, task) in tasks {
            let task = Fields(task);
            let newest = task.text(&["submission", "submission_id"]);
            let folder = self.directory.join("submissions").join(format!("task-{number}"));
            let at = |json: &Value| Fields(json).time(&["created_at", "submitted_at"]);
            let found = self.reading.objects(&folder).into_iter();
            let mut found: Vec<_> = found.map(|(stem, json)| (at(&json), stem, json)).collect();
            found.sort_by_key(|(at, ..)| *at);
            let is_kept_there = task.get("submission_artifacts").is_some();
            if is_kept_there
                && !found.iter().any(|(_, stem, _)| *stem == newest)
                && !newest.is_empty()
            {
                found.push((task.time(&["updated_at"]), newest.clone(), Value::Null));
            }
            if SUBMISSIONS_MAX < found.len() {
                let more = found.len() - SUBMISSIONS_MAX;
                self.note(format!(
                    "task-{number} has {} too many, the oldest stay",
                    counted(more, "submission")
                ));
                found.drain(..more);
            }
            for (at, stem, json) in found {
                let own = Fields(&json);
                // Of the newest the task tells the same.
                let beside = if stem == newest { task } else { own };
                self.submission(*number, at, &stem, (own, beside));
            }
        }
    }

    fn submission(
        &mut self,
        task: u32,
        at: u64,
        stem: &str,
        (own, beside): (Fields<'_>, Fields<'_>),
    ) {
        let id = self.names.id(stem, at, SubmissionId).to_string();
        let said = |names: &[&str]| {
            let inner = own.text(names);
            if inner.is_empty() { beside.text(names) } else { inner }
        };
        let first = |names: &[&str]| {
            let all = names
                .iter()
                .map(|name| own.object(name))
                .chain(names.iter().map(|name| beside.object(name)));
            all.into_iter().find(|it| it.0.is_object()).unwrap_or(Fields(&Value::Null))
        };
        let artifacts = first(&["artifacts", "submission_artifacts"]);
        let mut words = wire::SubmissionWords {
            summary: artifacts.text(&["summary"]),
            changed_files: artifacts.texts("changed_files"),
            diff: artifacts.text(&["diff"]),
            links: artifacts.texts("links"),
            test_cases: artifacts.texts("test_cases"),
            test_result: artifacts.text(&["test_result"]),
            test_output: artifacts.text(&["test_output"]),
            rerun: None,
        };
        words.changed_files = self.files(&id, words.changed_files);
        if SWARM_WORDS_BYTES_MAX < words.encoded_len() {
            self.note(format!("{id} is too long: its diff and its test output stay"));
            words.summary = cut(words.summary, TEXT_BYTES_MAX).0;
            (words.diff, words.test_output) = (String::new(), String::new());
            (words.links, words.test_cases) = (Vec::new(), Vec::new());
            words.test_result = cut(words.test_result, DETAIL_BYTES_MAX).0;
        }
        let status = said(&["status", "verdict"]);
        let is_approved = match status.as_str() {
            "approved" => Some(true),
            "rejected" => Some(false),
            other => {
                self.note(format!("{id} was {other}: it waits for no verdict any more"));
                None
            }
        };
        self.times(&id, own);
        let scores = [own, beside].map(|it| it.number("completion_score"));
        let score = scores.iter().flatten().copied().find(|it| [1, 2, 5].contains(it));
        if score.is_none() && is_approved.is_some() {
            let said =
                scores.iter().map(|it| it.as_ref().map_or_else(Clone::clone, u64::to_string));
            let said = said.into_iter().find(|it| it != "0").unwrap_or_else(|| "no".to_owned());
            self.note(format!("{id} has {said} completion_score, and now 2"));
        }
        let review = is_approved.map(|is_approved| self.review(&id, is_approved, own, beside));
        let worker = said(&["worker_id", "submitter", "sender_id", "claimed_by", "actor"]);
        let worker = if worker.is_empty() { "unknown".to_owned() } else { worker };
        let submission = wire::Submission {
            worker: self.names.role(&worker),
            submitted_ms: at,
            reviewed_ms: own.time(&["reviewed_at", "updated_at"]).max(at),
            reviewed_by: self.names.role(&own.text(&["reviewed_by"])),
            completion_score: u32::try_from(score.unwrap_or(2)).unwrap_or(2),
            words: Some(words),
            review,
            submission_id: id,
            ..wire::Submission::default()
        };
        let (task_id, submission) = (format!("task-{task}"), Some(submission));
        self.whole.submissions.push(wire::ImportedSubmission { task_id, submission });
    }

    fn files(&mut self, what: &str, files: Vec<String>) -> Vec<String> {
        let (count, mut bytes) = (files.len(), 0);
        // A broker takes none that is not what it is shown as.
        let in_a_line = |it: &String| it.replace(['\r', '\n'], " ");
        let plain: Vec<String> =
            files.iter().map(|it| shown(&in_a_line(it)).0.into_owned()).collect();
        let changed = plain.iter().zip(&files).filter(|(plain, it)| plain != it).count();
        if changed != 0 {
            self.note(format!(
                "{what} names files with characters that are never shown, and they are kept \
                 without these: {changed} of {count}"
            ));
        }
        let fits = |it: &String| {
            bytes += it.len();
            bytes <= FILES_BYTES_MAX
        };
        let kept: Vec<String> =
            plain.into_iter().take(CHANGED_FILES_MAX).take_while(fits).collect();
        if kept.len() < count {
            self.note(format!("{what} names {count} files, of which {} are kept", kept.len()));
        }
        kept
    }

    fn review(
        &mut self,
        id: &str,
        is_approved: bool,
        own: Fields<'_>,
        beside: Fields<'_>,
    ) -> wire::Review {
        let of = if own.get("review_artifacts").is_some() || own.get("feedback").is_some() {
            own
        } else {
            beside
        };
        let artifacts = of.object("review_artifacts");
        let list = of.get("feedback_details").and_then(Value::as_array);
        let mut details = Vec::new();
        for it in list.into_iter().flatten().map(Fields) {
            let detail = wire::FeedbackDetail {
                dimension: it.text(&["dimension"]),
                severity: it.text(&["severity"]),
                file_path: it.text(&["file_path"]),
                line_range: it.text(&["line_range"]),
                content: it.text(&["content"]),
                suggestion: it.text(&["suggestion"]),
            };
            if is_detail(&detail) {
                details.push(detail);
            } else {
                self.note(format!("a part of the review of {id} is of no known kind, and stays"));
            }
        }
        let mut review = wire::Review {
            is_approved,
            feedback: of.text(&["feedback"]),
            review_summary: artifacts.text(&["review_summary"]),
            reviewed_refs: artifacts.texts("reviewed_refs"),
            details,
        };
        if SWARM_WORDS_BYTES_MAX < review.encoded_len() {
            self.note(format!("the review of {id} is too long: only its feedback comes over"));
            let (feedback, _) = cut(review.feedback, TEXT_BYTES_MAX);
            review = wire::Review { is_approved, feedback, ..wire::Review::default() };
        }
        review
    }

    pub(super) fn end(
        &mut self,
        it: Fields<'_>,
        name: &str,
        all: &[(String, Value)],
        reopened_ms: u64,
    ) {
        let status = match it.text(&["status"]).as_str() {
            "done" => IssueStatus::Done,
            "canceled" => IssueStatus::Canceled,
            _ => IssueStatus::Open,
        };
        self.issue.set_status(status);
        let own = all.iter().filter(|(_, it)| Fields(it).text(&["issue_id"]) == name);
        let mut own: Vec<&(String, Value)> = own.collect();
        own.sort_by_key(|(stem, it)| (Fields(it).time(&["delivered_at", "created_at"]), stem));
        let count = own.len();
        for (place, (stem, json)) in own.into_iter().enumerate() {
            let is_newest = place + 1 == count;
            if let Some(delivery) = self.delivery(stem, Fields(json), is_newest) {
                let is_approved = delivery.status() == DeliveryStatus::Approved;
                self.whole.is_accepted |= is_approved && reopened_ms <= delivery.reviewed_ms;
                self.whole.deliveries.push(delivery);
            }
        }
    }

    fn delivery(&mut self, stem: &str, it: Fields<'_>, is_newest: bool) -> Option<wire::Delivery> {
        let delivered_ms = it.time(&["delivered_at", "created_at"]);
        let id = self.names.id(stem, delivered_ms, DeliveryId).to_string();
        self.times(&id, it);
        let is_open = is_newest && self.issue.status() == IssueStatus::Open;
        let status = match it.text(&["status"]).as_str() {
            "approved" => DeliveryStatus::Approved,
            "rejected" => DeliveryStatus::Rejected,
            other => {
                if other == "in_review" && is_open {
                    self.note(format!("{id} was in review, and is open: claims do not come over"));
                } else if !is_open {
                    self.note(format!("{id} was {other}, and will get no verdict any more"));
                }
                if is_open { DeliveryStatus::Open } else { DeliveryStatus::Rejected }
            }
        };
        let (artifacts, evidence) = (it.object("artifacts"), it.object("test_evidence"));
        let verification = it.object("verification");
        let is_judged = ["approved", "rejected"].contains(&it.text(&["status"]).as_str());
        let changed_files = self.files(&id, artifacts.texts("changed_files"));
        let mut delivery = wire::Delivery {
            status: status.into(),
            delivered_by: self.names.role(&it.text(&["delivered_by"])),
            reviewed_by: self.names.role(&it.text(&["reviewed_by"])),
            delivered_ms,
            reviewed_ms: it.time(&["reviewed_at", "updated_at"]).max(delivered_ms),
            summary: self.fit(&id, it.text(&["summary"]), TEXT_BYTES_MAX),
            refs: self.fit(&id, it.lines("refs"), REFS_BYTES_MAX),
            artifacts: Some(wire::DeliveryArtifacts {
                has_passed: artifacts.is("test_result"),
                test_cases: artifacts.texts("test_cases"),
                changed_files,
                reviewed_refs: artifacts.texts("reviewed_refs"),
                test_output: artifacts.text(&["test_output"]),
                known_risks: artifacts.lines("known_risks"),
            }),
            test_evidence: Some(wire::TestEvidence {
                script_path: evidence.text(&["script_path"]),
                script_cmd: evidence.text(&["script_cmd"]),
                script_passed: evidence.is("script_passed"),
                script_result: evidence.text(&["script_result"]),
                doc_path: evidence.text(&["doc_path"]),
                doc_commands: evidence.texts("doc_commands"),
                doc_results: evidence.results("doc_results"),
                doc_passed: evidence.is("doc_passed"),
                rerun: None,
            }),
            verification: is_judged.then(|| wire::Verification {
                script_passed: verification.is("script_passed"),
                script_result: verification.text(&["script_result"]),
                doc_passed: verification.is("doc_passed"),
                doc_results: verification.results("doc_results"),
            }),
            feedback: self.fit(&id, it.text(&["feedback"]), TEXT_BYTES_MAX),
            delivery_id: id.clone(),
            ..wire::Delivery::default()
        };
        if SWARM_WORDS_BYTES_MAX / 2 < delivery.encoded_len() {
            self.note(format!("{id} is too long: what its tests printed stays"));
            if let Some(it) = &mut delivery.artifacts {
                (it.test_output, it.test_cases) = (String::new(), Vec::new());
            }
            for it in delivery.test_evidence.iter_mut().flat_map(|it| &mut it.doc_results) {
                it.output = String::new();
            }
            for it in delivery.verification.iter_mut().flat_map(|it| &mut it.doc_results) {
                it.output = String::new();
            }
        }
        let halves = [
            delivery.artifacts.as_ref().map_or(0, wire::DeliveryArtifacts::encoded_len),
            delivery.test_evidence.as_ref().map_or(0, wire::TestEvidence::encoded_len),
            delivery.verification.as_ref().map_or(0, wire::Verification::encoded_len),
        ];
        let commands = delivery.test_evidence.as_ref().map_or(0, |it| it.doc_commands.len());
        if halves.iter().any(|bytes| SWARM_WORDS_BYTES_MAX / 2 < *bytes) || COMMANDS_MAX < commands
        {
            self.note(format!("{id} is still too long, and stays"));
            return None;
        }
        Some(delivery)
    }
}

fn is_detail(it: &wire::FeedbackDetail) -> bool {
    let dimensions =
        ["correctness", "security", "performance", "maintainability", "style", "test", "docs"];
    let severities = ["info", "minor", "major", "critical"];
    dimensions.contains(&it.dimension.as_str())
        && severities.contains(&it.severity.as_str())
        && !it.content.trim().is_empty()
}
