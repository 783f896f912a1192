//! What callers say of issues, tasks, deliveries and locks, as values that are already valid.

use std::{fmt::Display, str::FromStr};

use prost::Message;
use tasuki_proto::{
    echo::echo,
    limits::{
        BLOCKERS_MAX, CHANGED_FILES_MAX, COMMANDS_MAX, DOC_BYTES_MAX, FILES_BYTES_MAX,
        LOCK_FILES_MAX, REFS_BYTES_MAX, SUBJECT_BYTES_MAX, SWARM_LEASE_MS_MAX, SWARM_PAGE,
        SWARM_PAGE_MAX, SWARM_WORDS_BYTES_MAX, TEXT_BYTES_MAX, WHY_BYTES_MAX,
    },
    reason::Reason,
    swarm::{CommitHash, DocName, NextStepId, SCORE_REJECTED, TaskNumber},
    visible::{is_line, shown},
    wire,
};
use tonic::Status;

use super::{
    super::{
        parse::{check_count, check_size, text},
        status::invalid,
    },
    optional,
    states::Named,
};
use crate::rules::swarm::{
    Blocker, Difficulty, DocPlace, NewTask, Override, Score, Verdict,
    lock::LockKey,
    words::{
        Artifacts, CommandResult, DeliveryWords, Dimension, DocPaths, EvidenceWords,
        FeedbackDetail, MessageWords, ReviewWords, Run, Severity, TaskSpec, TaskWords,
        TestEvidence, Verification,
    },
};

/// Paths of documents that belong to an issue, in bytes.
const DOC_PATHS_BYTES_MAX: usize = 64 * 1024;

/// A hash's bytes.
const HASH_BYTES: usize = 32;

/// An id, a number or a name.
pub(super) fn named<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Status> {
    text.parse().map_err(|e: T::Err| invalid(field, &e))
}

/// `None` for an empty field.
pub(super) fn maybe<T: FromStr<Err: Display>>(
    field: &str,
    text: &str,
) -> Result<Option<T>, Status> {
    if text.is_empty() { Ok(None) } else { named(field, text).map(Some) }
}

/// A token that says what a worker is to do next; `None` without one. What is none is no better
/// than an old one.
pub(super) fn next_step(shown: &str) -> Result<Option<NextStepId>, Status> {
    let why = |_| {
        Reason::InvalidNextStepToken
            .status("invalid next_step_token: not a token that a tool returned")
    };
    if shown.is_empty() { Ok(None) } else { shown.parse().map(Some).map_err(why) }
}

/// A lease that is asked for; `None` as the settings say.
pub(super) fn lease(for_ms: u64) -> Result<Option<u64>, Status> {
    if SWARM_LEASE_MS_MAX < for_ms {
        let limit = SWARM_LEASE_MS_MAX;
        let why = format!("is {for_ms}; the longest lease is {limit} (24 h). Nothing changed");
        return Err(invalid("for_ms", &why));
    }
    Ok((for_ms != 0).then_some(for_ms))
}

/// How many of a list are asked for.
pub(super) fn limit(limit: u32) -> usize {
    super::super::parse::limit(limit, SWARM_PAGE, SWARM_PAGE_MAX)
}

/// A line that lists show.
pub(super) fn subject(subject: String) -> Result<String, Status> {
    if subject.trim().is_empty() {
        return Err(invalid("subject", &"is empty; say in a line what this is about"));
    }
    check_size("subject", subject.len(), SUBJECT_BYTES_MAX)?;
    if subject.chars().any(char::is_control) {
        return Err(invalid("subject", &"is more than one line"));
    }
    Ok(subject)
}

/// A text that must say something.
fn said(field: &str, text: String) -> Result<String, Status> {
    if text.trim().is_empty() {
        return Err(invalid(field, &"is required"));
    }
    Ok(text)
}

/// Words that are together no longer than an agent reads.
pub(super) fn within<M: Message>(field: &str, words: &M, limit: usize) -> Result<(), Status> {
    check_size(field, words.encoded_len(), limit)
}

pub(super) fn paths(shared: Vec<String>, project: Vec<String>) -> Result<DocPaths, Status> {
    let bytes: usize = shared.iter().chain(&project).map(String::len).sum();
    check_size("doc_paths", bytes, DOC_PATHS_BYTES_MAX)?;
    Ok(DocPaths { shared, project })
}

/// A document's words.
pub(super) fn content(content: String) -> Result<String, Status> {
    check_size("content", content.len(), DOC_BYTES_MAX)?;
    Ok(content)
}

pub(super) fn place(place: Option<wire::DocPlace>) -> Result<DocPlace, Status> {
    let wire::DocPlace { issue_id, task_id } = place.unwrap_or_default();
    match (maybe("issue_id", &issue_id)?, maybe("task_id", &task_id)?) {
        (None, None) => Ok(DocPlace::Shared),
        (Some(issue), None) => Ok(DocPlace::Issue(issue)),
        (Some(issue), Some(task)) => Ok(DocPlace::Task(issue, task)),
        (None, Some(_)) => Err(invalid("issue_id", &"is missing: a task is one of an issue")),
    }
}

/// The score that a verdict is given with; a rejection may leave it out, as it adds no points.
pub(super) fn score_of(score: u32, verdict: Verdict) -> Result<Score, Status> {
    match (score, verdict) {
        (0, Verdict::Rejected) => self::score(SCORE_REJECTED),
        (score, Verdict::Approved | Verdict::Rejected) => self::score(score),
    }
}

pub(super) fn score(score: u32) -> Result<Score, Status> {
    Score::new(score).ok_or_else(|| {
        invalid("completion_score", &format!("is {score}; it is 1, 2 or 5. Nothing changed"))
    })
}

pub(super) fn difficulty(difficulty: wire::Difficulty) -> Result<Difficulty, Status> {
    let missing = || invalid("difficulty", &"is missing; say easy, medium or focus");
    Difficulty::of_wire(difficulty).ok_or_else(missing)
}

pub(super) fn new_task(it: wire::NewTask) -> Result<NewTask, Status> {
    let count = it.blocked_by.len() + it.blocked_by_new.len();
    check_count("blocked_by", count, 0..=BLOCKERS_MAX)?;
    let difficulty = difficulty(it.difficulty())?;
    let known = it.blocked_by.iter().map(|name| named("blocked_by", name).map(Blocker::Task));
    let new = it.blocked_by_new.iter().map(|place| Ok(Blocker::New(*place as usize)));
    Ok(NewTask {
        blocked_by: known.chain(new).collect::<Result<_, Status>>()?,
        subject: subject(it.subject)?,
        difficulty,
        points: it.points,
        words: task_words(it.words.unwrap_or_default())?,
    })
}

pub(super) fn task_words(it: wire::TaskWords) -> Result<TaskWords, Status> {
    let spec = it.spec.unwrap_or_default();
    let mut context: Vec<TaskNumber> = Vec::new();
    for name in it.context_task_ids.iter().chain(&spec.context_task_ids) {
        let number = named("context_task_ids", name)?;
        if !context.contains(&number) {
            context.push(number);
        }
    }
    let docs = |field: &str, names: &[String]| {
        names.iter().map(|name| named(field, name)).collect::<Result<Vec<DocName>, _>>()
    };
    Ok(TaskWords {
        required_issue_docs: docs("required_issue_docs", &it.required_issue_docs)?,
        required_task_docs: docs("required_task_docs", &it.required_task_docs)?,
        description: it.description,
        labels: it.labels,
        suggested_files: it.suggested_files,
        doc_paths: it.doc_paths,
        context,
        spec: TaskSpec {
            name: spec.name,
            split_from: spec.split_from,
            split_reason: spec.split_reason,
            impact_scope: spec.impact_scope,
            goal: spec.goal,
            rules: spec.rules,
            constraints: spec.constraints,
            conventions: spec.conventions,
            acceptance: spec.acceptance,
        },
    })
}

/// Names of files, which are kept inside the record.
fn files(field: &str, files: Vec<String>) -> Result<Vec<String>, Status> {
    check_count(field, files.len(), 0..=CHANGED_FILES_MAX)?;
    // Whoever delivers has to name them as they are shown.
    if let Some(hidden) = files.iter().find(|it| it.contains('\n') || shown(it).1 != 0) {
        let why = format!("names {}, which has characters that are never shown", echo(hidden));
        return Err(invalid(field, &why));
    }
    let bytes: usize = files.iter().map(String::len).sum();
    check_size(field, bytes, FILES_BYTES_MAX)?;
    Ok(files)
}

/// A commit that others are to find: one place in one history, or none is named.
fn commit(commit: &str) -> Result<(), Status> {
    if commit.is_empty() {
        return Ok(());
    }
    let hash = commit.parse::<CommitHash>();
    hash.map(drop).map_err(|why| invalid("rerun.commit", &format!("{why}. Nothing changed")))
}

pub(super) fn artifacts(it: Option<wire::SubmissionWords>) -> Result<Artifacts, Status> {
    let it = artifacts_words(it.ok_or_else(|| invalid("artifacts", &"are required"))?)?;
    commit(&it.commit)?;
    Ok(Artifacts { summary: said("artifacts.summary", it.summary)?, ..it })
}

/// The same where nothing is required.
pub(super) fn artifacts_words(it: wire::SubmissionWords) -> Result<Artifacts, Status> {
    within("artifacts", &it, SWARM_WORDS_BYTES_MAX)?;
    let rerun = it.rerun.unwrap_or_default();
    check_count("rerun.commands", rerun.commands.len(), 0..=COMMANDS_MAX)?;
    Ok(Artifacts {
        summary: it.summary,
        changed_files: files("artifacts.changed_files", it.changed_files)?,
        diff: it.diff,
        links: it.links,
        test_cases: it.test_cases,
        test_result: it.test_result,
        test_output: it.test_output,
        commit: rerun.commit,
        commands: rerun.commands,
    })
}

pub(super) fn review(it: wire::Review) -> Result<ReviewWords, Status> {
    if it.reviewed_refs.is_empty() || it.details.is_empty() {
        let why = "and feedback_details are required: say what was looked at, and what was found";
        return Err(invalid("artifacts.reviewed_refs", &why));
    }
    review_words(it)
}

/// The same where nothing is required.
pub(super) fn review_words(it: wire::Review) -> Result<ReviewWords, Status> {
    within("review", &it, SWARM_WORDS_BYTES_MAX)?;
    Ok(ReviewWords {
        summary: it.review_summary,
        reviewed_refs: it.reviewed_refs,
        feedback: it.feedback,
        details: it.details.into_iter().map(detail).collect::<Result<_, _>>()?,
    })
}

fn detail(it: wire::FeedbackDetail) -> Result<FeedbackDetail, Status> {
    let unknown = |field: &str, text: &str, known: Vec<&str>| {
        let text: String = text.chars().take(80).collect();
        invalid(field, &format!("is {text:?}; it is one of {}", known.join(", ")))
    };
    let dimension = Dimension::parse(&it.dimension).ok_or_else(|| {
        let known = Dimension::ALL.iter().map(|it| it.as_str()).collect();
        unknown("feedback_details.dimension", &it.dimension, known)
    })?;
    let severity = Severity::parse(&it.severity).ok_or_else(|| {
        let known = Severity::ALL.iter().map(|it| it.as_str()).collect();
        unknown("feedback_details.severity", &it.severity, known)
    })?;
    Ok(FeedbackDetail {
        dimension,
        severity,
        file_path: it.file_path,
        line_range: it.line_range,
        content: said("feedback_details.content", it.content)?,
        suggestion: it.suggestion,
    })
}

pub(super) fn message(content: String, refs: String) -> Result<MessageWords, Status> {
    message_words(said("content", content)?, refs)
}

/// The same where nothing is required.
pub(super) fn message_words(content: String, refs: String) -> Result<MessageWords, Status> {
    Ok(MessageWords { content: text("content", content)?, refs: self::refs(refs)? })
}

pub(super) fn refs(refs: String) -> Result<String, Status> {
    check_size("refs", refs.len(), REFS_BYTES_MAX)?;
    Ok(refs)
}

/// Why something ends or begins again; it is kept in the history.
pub(super) fn why(field: &str, why: String) -> Result<String, Status> {
    check_size(field, why.len(), WHY_BYTES_MAX)?;
    Ok(why)
}

pub(super) fn delivery(mut it: wire::SubmitDeliveryRequest) -> Result<DeliveryWords, Status> {
    let Some(artifacts) = &it.artifacts else {
        return Err(invalid("artifacts", &"are required"));
    };
    // Whoever says nothing of a script and a document says nothing against them.
    let passed = artifacts.has_passed;
    it.test_evidence.get_or_insert_with(|| wire::TestEvidence {
        script_passed: passed,
        doc_passed: passed,
        ..Default::default()
    });
    let steps = it.test_evidence.as_ref().map_or("", |it| &it.doc_path);
    if !steps.is_empty() && !is_test_steps(steps) {
        let why = "must match format 'issue-xxx-test-steps.md': letters, digits and '-' for xxx";
        return Err(invalid("test_evidence.doc_path", &why));
    }
    let words = delivery_words(it)?;
    commit(&words.commit)?;
    Ok(DeliveryWords { summary: said("summary", words.summary)?, ..words })
}

/// The same where nothing is required.
pub(super) fn delivery_words(it: wire::SubmitDeliveryRequest) -> Result<DeliveryWords, Status> {
    let artifacts = it.artifacts.unwrap_or_default();
    let evidence = it.test_evidence.unwrap_or_default();
    within("artifacts", &artifacts, SWARM_WORDS_BYTES_MAX / 2)?;
    within("test_evidence", &evidence, SWARM_WORDS_BYTES_MAX / 2)?;
    check_count("test_evidence.doc_commands", evidence.doc_commands.len(), 0..=COMMANDS_MAX)?;
    let rerun = evidence.rerun.unwrap_or_default();
    check_count("rerun.commands", rerun.commands.len(), 0..=COMMANDS_MAX)?;
    Ok(DeliveryWords {
        summary: text("summary", it.summary)?,
        refs: refs(it.refs)?,
        is_test_passed: artifacts.has_passed,
        test_cases: artifacts.test_cases,
        changed_files: files("artifacts.changed_files", artifacts.changed_files)?,
        reviewed_refs: artifacts.reviewed_refs,
        test_output: artifacts.test_output,
        known_risks: artifacts.known_risks,
        evidence: TestEvidence {
            script_path: evidence.script_path,
            script_cmd: evidence.script_cmd,
            is_script_passed: evidence.script_passed,
            script_result: evidence.script_result,
            doc_path: evidence.doc_path,
            doc_commands: evidence.doc_commands,
            doc_results: evidence.doc_results.into_iter().map(result).collect(),
            is_doc_passed: evidence.doc_passed,
        },
        commit: rerun.commit,
        commands: rerun.commands,
    })
}

/// Whether a path leads to a document of test steps.
fn is_test_steps(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let middle = name.strip_prefix("issue-").and_then(|it| it.strip_suffix("-test-steps.md"));
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    middle.is_some_and(|it| !it.is_empty() && it.bytes().all(is_plain))
}

fn result(it: wire::CommandResult) -> CommandResult {
    CommandResult {
        command: it.command,
        is_passed: it.has_passed,
        exit_code: it.exit_code,
        output: it.output,
    }
}

pub(super) fn verification(it: Option<wire::Verification>) -> Result<Verification, Status> {
    let it = it.ok_or_else(|| invalid("verification", &"is required"))?;
    within("verification", &it, SWARM_WORDS_BYTES_MAX / 2)?;
    Ok(Verification {
        is_script_passed: it.script_passed,
        script_result: it.script_result,
        is_doc_passed: it.doc_passed,
        doc_results: it.doc_results.into_iter().map(result).collect(),
    })
}

pub(super) fn evidence(it: Option<wire::Evidence>) -> Result<EvidenceWords, Status> {
    let it = it.ok_or_else(|| invalid("evidence", &"is required"))?;
    within("evidence", &it, TEXT_BYTES_MAX)?;
    check_count("evidence.commands", it.commands.len(), 0..=COMMANDS_MAX)?;
    if it.commands.is_empty() {
        return Err(invalid(
            "evidence.commands",
            &"are required: what was run, and what came of it",
        ));
    }
    let run = |it: wire::CommandEvidence| {
        if it.output_hash.len() != HASH_BYTES {
            let why = format!("has {} bytes; a BLAKE3 hash has {HASH_BYTES}", it.output_hash.len());
            return Err(invalid("evidence.commands.output_hash", &why));
        }
        Ok(Run {
            result: CommandResult {
                command: it.command,
                is_passed: it.exit_code == 0 && !it.is_timed_out,
                exit_code: it.exit_code,
                output: it.output_tail,
            },
            output_hash: it.output_hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            output_bytes: it.output_bytes,
            duration_ms: it.duration_ms,
            is_timed_out: it.is_timed_out,
            sandbox: it.sandbox,
        })
    };
    let runs = it.commands.into_iter().map(run).collect::<Result<_, _>>()?;
    let commit = said("evidence.commit", it.commit)?;
    Ok(EvidenceWords { commit, runs, ..EvidenceWords::default() })
}

pub(super) fn overridden(it: Option<wire::Override>) -> Result<Option<Override>, Status> {
    let Some(it) = it else { return Ok(None) };
    let person = optional("override.person", &it.person)?;
    let person = person.ok_or_else(|| invalid("override.person", &"is required"))?;
    Ok(Some(Override { person, reason: super::super::parse::reason(it.reason)? }))
}

/// Files of one repository that are to be locked, or looked at.
pub(super) fn lock_keys(files: &wire::FileSet) -> Result<Vec<LockKey>, Status> {
    check_count("files", files.patterns.len(), 1..=LOCK_FILES_MAX)?;
    keys(files)
}

/// Files of a submission, where they have names for locks.
pub(super) fn submitted_keys(files: Option<wire::FileSet>) -> Result<Vec<LockKey>, Status> {
    let files = files.unwrap_or_default();
    if files.patterns.is_empty() {
        return Ok(Vec::new());
    }
    check_count("files", files.patterns.len(), 1..=CHANGED_FILES_MAX)?;
    keys(&files)
}

fn keys(files: &wire::FileSet) -> Result<Vec<LockKey>, Status> {
    if files.repository.is_empty() {
        return Err(invalid("files.repository", &"is missing: which repository are they in?"));
    }
    let bytes: usize = files.patterns.iter().map(String::len).sum();
    check_size("files", bytes, FILES_BYTES_MAX)?;
    let key = |path: &String| {
        LockKey::new(&files.repository, path, files.is_case_folded)
            .map_err(|why| invalid("files", &format!("cannot be locked: {why}")))
    };
    let mut keys = files.patterns.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// The same for files that are to be locked: whoever is kept out has to know them by sight.
pub(super) fn new_lock_keys(files: &wire::FileSet) -> Result<Vec<LockKey>, Status> {
    let keys = lock_keys(files)?;
    if !is_line(&files.repository) {
        let name = echo(&files.repository);
        let why = format!("is {name}, which has characters that are never shown");
        return Err(invalid("files.repository", &why));
    }
    if let Some(hidden) = files.patterns.iter().find(|it| shown(it).1 != 0) {
        let why = format!(
            "names {}, which has characters that are never shown; lock the directory that it is in",
            echo(hidden)
        );
        return Err(invalid("files", &why));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_locked_by_names_that_are_shown() {
        let files = |repository: &str, path: &str| wire::FileSet {
            repository: repository.to_owned(),
            patterns: vec!["src/a.rs".to_owned(), path.to_owned()],
            is_case_folded: false,
        };
        for path in ["src/é.rs", "new\nline", "app/[[]id]/page"] {
            assert_eq!(new_lock_keys(&files("r", path)).unwrap().len(), 2, "{path:?}");
        }
        for hidden in ["\u{202e}", "\u{200b}", "\u{e0041}"] {
            let path = format!("src/{hidden}b.rs");
            let refused = new_lock_keys(&files("r", &path)).unwrap_err();
            assert!(refused.message().contains("names \"src/\\u{"), "{refused}");
            // Whether a pattern covers it may be asked.
            assert!(lock_keys(&files("r", &path)).is_ok());
            assert!(new_lock_keys(&files(&format!("r{hidden}"), "b.rs")).is_err(), "{hidden:?}");
        }
    }

    #[test]
    fn test_steps_are_known_by_their_name() {
        for good in ["issue-7-test-steps.md", "docs/issue-a-b-test-steps.md"] {
            assert!(is_test_steps(good), "{good}");
        }
        for bad in ["", "issue--test-steps.md/x", "issue-test-steps.md", "issue-a_b-test-steps.md"]
        {
            assert!(!is_test_steps(bad), "{bad}");
        }
    }
}
