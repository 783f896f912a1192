//! How what is said about issues is written to be hashed: submissions, reviews, plans and
//! deliveries are known by it when they are said again.
//!
//! The hashes are in journals, so the numbers of fields stay: a new field gets a new one.

use super::{
    command::{Blocker, NewTask, Override},
    words::{
        Artifacts, CommandResult, DeliveryWords, EvidenceWords, FeedbackDetail, ReviewWords, Run,
        TaskSpec, TaskWords, TestEvidence, VerdictWords, Verification,
    },
};
use crate::canonical::{Canonical, canonical};

canonical! {
    NewTask { 1 subject, 2 difficulty, 3 points, 4 blocked_by, 5 words, }
    TaskWords {
        1 description, 2 labels, 3 suggested_files, 4 doc_paths, 5 context, 6 required_issue_docs,
        7 required_task_docs, 8 spec,
    }
    TaskSpec {
        1 name, 2 split_from, 3 split_reason, 4 impact_scope, 5 goal, 6 rules, 7 constraints,
        8 conventions, 9 acceptance,
    }
    Artifacts {
        1 summary, 2 changed_files, 3 diff, 4 links, 5 test_cases, 6 test_result, 7 test_output,
        8 commit, 9 commands,
    }
    ReviewWords { 1 summary, 2 reviewed_refs, 3 feedback, 4 details, }
    FeedbackDetail {
        1 dimension, 2 severity, 3 file_path, 4 line_range, 5 content, 6 suggestion,
    }
    DeliveryWords {
        1 summary, 2 refs, 3 is_test_passed, 4 test_cases, 5 changed_files, 6 reviewed_refs,
        7 test_output, 8 known_risks, 9 evidence, 10 commit, 11 commands,
    }
    TestEvidence {
        1 script_path, 2 script_cmd, 3 is_script_passed, 4 script_result, 5 doc_path,
        6 doc_commands, 7 doc_results, 8 is_doc_passed,
    }
    CommandResult { 1 command, 2 is_passed, 3 exit_code, 4 output, }
    EvidenceWords { 1 commit, 2 runs, 3 role, 4 node, }
    Run {
        1 result, 2 output_hash, 3 output_bytes, 4 duration_ms, 5 is_timed_out, 6 sandbox,
    }
    VerdictWords { 1 feedback, 2 refs, 3 verification, }
    Verification { 1 is_script_passed, 2 script_result, 3 is_doc_passed, 4 doc_results, }
    Override { 1 person, 2 reason, }
}

impl Canonical for Blocker {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Task(number) => {
                to.push(1);
                number.write(to);
            }
            Self::New(place) => {
                to.push(2);
                (*place as u64).write(to);
            }
        }
    }
}

#[cfg(test)]
mod tests;
