//! An issue as the one call that takes it over, and what that call has no room for.
//!
//! The largest documents go first: they are sent after it, and nothing is lost. Diffs and test
//! output of the oldest submissions are left out next; the longest texts are cut last.

use std::{cmp::Reverse, collections::BTreeSet};

use prost::Message as _;
use tasuki_proto::wire;

/// What a call has, in bytes: a message may have some more, for what is around the issue.
pub(super) const CALL_BYTES_MAX: usize = 3584 * 1024;

/// No text is cut to fewer bytes: most are shorter, and what is left still says something.
const TEXT_BYTES_MIN: usize = 1024;

/// Bytes around each text of a list, at least.
const LISTED_BYTES: usize = 2;

/// How an issue was made to fit into one call.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fitted {
    /// Documents to be sent after it.
    pub later: Vec<wire::Doc>,
    /// Submissions without their diffs and test output.
    pub shortened: usize,
    /// What is said of each text that was cut.
    pub notes: Vec<String>,
}

/// Makes the issue fit into one call. The document `history` always comes with it.
///
/// # Errors
/// The bytes that it still has, if that is too much.
pub(super) fn fit_call(
    request: &mut wire::ImportIssueRequest,
    history: &str,
) -> Result<Fitted, usize> {
    let later = take_docs(request, history);
    let shortened = drop_output(request);
    let notes = cut_texts(request);
    let bytes = request.encoded_len();
    if bytes <= CALL_BYTES_MAX { Ok(Fitted { later, shortened, notes }) } else { Err(bytes) }
}

/// Bytes that are too many.
fn excess(request: &wire::ImportIssueRequest) -> usize {
    request.encoded_len().saturating_sub(CALL_BYTES_MAX)
}

/// Takes out documents, the largest first, until the rest fits.
fn take_docs(request: &mut wire::ImportIssueRequest, history: &str) -> Vec<wire::Doc> {
    let mut excess = excess(request);
    let is_history = |it: &wire::Doc| {
        it.name == history && it.place.as_ref().is_none_or(|place| place.task_id.is_empty())
    };
    let docs = std::mem::take(&mut request.docs);
    let mut largest: Vec<usize> = (0..docs.len()).filter(|at| !is_history(&docs[*at])).collect();
    largest.sort_by_key(|at| Reverse(docs[*at].content.len()));
    let mut taken = BTreeSet::new();
    for at in largest {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(docs[at].encoded_len());
        taken.insert(at);
    }
    let mut later = Vec::new();
    for (at, doc) in docs.into_iter().enumerate() {
        let list = if taken.contains(&at) { &mut later } else { &mut request.docs };
        list.push(doc);
    }
    later
}

/// Leaves out diffs and test output, of the oldest submissions first, until the rest fits. Returns
/// of how many submissions.
fn drop_output(request: &mut wire::ImportIssueRequest) -> usize {
    let mut excess = excess(request);
    let mut submissions: Vec<&mut wire::Submission> =
        request.submissions.iter_mut().filter_map(|it| it.submission.as_mut()).collect();
    submissions.sort_by_key(|it| it.submitted_ms);
    let mut shortened = 0;
    for submission in submissions {
        if excess == 0 {
            break;
        }
        let Some(words) = &mut submission.words else { continue };
        let left_out = words.diff.len() + words.test_output.len();
        (words.diff, words.test_output) = (String::new(), String::new());
        excess = excess.saturating_sub(left_out);
        shortened += usize::from(left_out != 0);
    }
    shortened
}

/// Cuts the longest texts, all to the same length, until the rest fits.
fn cut_texts(request: &mut wire::ImportIssueRequest) -> Vec<String> {
    let excess = excess(request);
    if excess == 0 {
        return Vec::new();
    }
    let texts = texts(request);
    let sizes: Vec<usize> = texts.iter().map(|(_, text)| text.bytes()).collect();
    let limit = length(&sizes, excess);
    let mut notes = Vec::new();
    for ((owner, text), bytes) in texts.into_iter().zip(sizes) {
        if limit < bytes {
            text.cut(limit);
            notes.push(format!(
                "{owner} has a text of {bytes} bytes, which is cut to {limit}: the issue is too \
                 large for one call"
            ));
        }
    }
    notes
}

/// The greatest length to which texts of these sizes are cut if they are to lose so many bytes; the
/// smallest there is if they cannot.
fn length(sizes: &[usize], excess: usize) -> usize {
    let lost = |limit: usize| sizes.iter().map(|it| it.saturating_sub(limit)).sum::<usize>();
    let mut low = TEXT_BYTES_MIN;
    let mut high = sizes.iter().copied().max().unwrap_or(0).max(low);
    while low < high {
        let middle = high - (high - low) / 2;
        if excess <= lost(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// What may be cut.
enum Text<'a> {
    One(&'a mut String),
    /// Loses its last ones.
    List(&'a mut Vec<String>),
}

impl Text<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::One(text) => text.len(),
            Self::List(texts) => texts.iter().map(|it| it.len() + LISTED_BYTES).sum(),
        }
    }

    /// Leaves at most so many bytes, of which the last say what is missing.
    fn cut(self, limit: usize) {
        let bytes = self.bytes();
        match self {
            Self::One(text) => {
                let end = format!("\n[Cut by the import: Swarm MCP has {bytes} bytes.]");
                text.truncate(text.floor_char_boundary(limit.saturating_sub(end.len())));
                text.push_str(&end);
            }
            Self::List(texts) => {
                let mut sum = 0;
                let fits = |it: &&String| {
                    sum += it.len() + LISTED_BYTES;
                    sum <= limit
                };
                let kept = texts.iter().take_while(fits).count();
                texts.truncate(kept);
            }
        }
    }
}

/// All texts without a form of their own, each with what it belongs to.
fn texts(request: &mut wire::ImportIssueRequest) -> Vec<(String, Text<'_>)> {
    let mut all = Vec::new();
    if let Some(issue) = &mut request.issue {
        all.push(("the issue".to_owned(), Text::One(&mut issue.description)));
    }
    for task in &mut request.tasks {
        let Some(words) = &mut task.words else { continue };
        let lists = [&mut words.suggested_files, &mut words.labels, &mut words.doc_paths];
        add(&mut all, &task.task_id, [&mut words.description], lists);
        let Some(spec) = &mut words.spec else { continue };
        let ones = [
            &mut spec.name,
            &mut spec.split_from,
            &mut spec.split_reason,
            &mut spec.impact_scope,
            &mut spec.goal,
            &mut spec.rules,
            &mut spec.constraints,
            &mut spec.conventions,
            &mut spec.acceptance,
        ];
        add(&mut all, &task.task_id, ones, []);
    }
    for submission in request.submissions.iter_mut().filter_map(|it| it.submission.as_mut()) {
        if let Some(it) = &mut submission.words {
            let ones = [&mut it.summary, &mut it.diff, &mut it.test_result, &mut it.test_output];
            let lists = [&mut it.links, &mut it.test_cases];
            add(&mut all, &submission.submission_id, ones, lists);
        }
        if let Some(it) = &mut submission.review {
            let owner = format!("the review of {}", submission.submission_id);
            let ones = [&mut it.feedback, &mut it.review_summary];
            add(&mut all, &owner, ones, [&mut it.reviewed_refs]);
            let details = it.details.iter_mut();
            let ones = details.flat_map(|it| [&mut it.content, &mut it.suggestion]);
            add(&mut all, &owner, ones, []);
        }
    }
    for it in &mut request.messages {
        let ones = [&mut it.content, &mut it.refs, &mut it.reply, &mut it.reply_refs];
        add(&mut all, &it.message_id, ones, []);
    }
    for it in &mut request.deliveries {
        let id = &it.delivery_id;
        let ones = [&mut it.summary, &mut it.refs, &mut it.feedback, &mut it.review_refs];
        add(&mut all, id, ones, []);
        if let Some(it) = &mut it.artifacts {
            let lists = [&mut it.test_cases, &mut it.reviewed_refs];
            add(&mut all, id, [&mut it.test_output, &mut it.known_risks], lists);
        }
        if let Some(it) = &mut it.test_evidence {
            let outputs = it.doc_results.iter_mut().map(|it| &mut it.output);
            add(&mut all, id, outputs.chain([&mut it.script_result]), []);
        }
        if let Some(it) = &mut it.verification {
            let outputs = it.doc_results.iter_mut().map(|it| &mut it.output);
            add(&mut all, id, outputs.chain([&mut it.script_result]), []);
        }
    }
    all
}

fn add<'a, const N: usize>(
    all: &mut Vec<(String, Text<'a>)>,
    owner: &str,
    ones: impl IntoIterator<Item = &'a mut String>,
    lists: [&'a mut Vec<String>; N],
) {
    all.extend(ones.into_iter().map(|it| (owner.to_owned(), Text::One(it))));
    all.extend(lists.into_iter().map(|it| (owner.to_owned(), Text::List(it))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(name: &str, bytes: usize) -> wire::Doc {
        wire::Doc { name: name.to_owned(), content: "x".repeat(bytes), ..Default::default() }
    }

    fn submission(submitted_ms: u64, summary: &str, diff: usize) -> wire::ImportedSubmission {
        let words = wire::SubmissionWords {
            summary: summary.to_owned(),
            diff: "x".repeat(diff),
            ..Default::default()
        };
        let submission = wire::Submission {
            submission_id: format!("sub-{submitted_ms}"),
            submitted_ms,
            words: Some(words),
            ..Default::default()
        };
        wire::ImportedSubmission { submission: Some(submission), ..Default::default() }
    }

    fn task(number: u32, description: &str) -> wire::Task {
        let words = wire::TaskWords { description: description.to_owned(), ..Default::default() };
        wire::Task { task_id: format!("task-{number}"), words: Some(words), ..Default::default() }
    }

    #[test]
    fn what_is_too_large_loses_the_oldest_diffs_first() {
        let request = |times: &[u64]| wire::ImportIssueRequest {
            submissions: times.iter().map(|it| submission(*it, "s", 1024 * 1024)).collect(),
            ..Default::default()
        };
        let mut small = request(&[1, 2, 3]);
        assert_eq!(fit_call(&mut small, "history"), Ok(Fitted::default()));
        let mut large = request(&[4, 1, 3, 2, 5]);
        assert_eq!(
            fit_call(&mut large, "history"),
            Ok(Fitted { shortened: 2, ..Fitted::default() })
        );
        assert!(large.encoded_len() <= CALL_BYTES_MAX);
        let kept = large.submissions.iter().map(|it| {
            let words = it.submission.as_ref().unwrap().words.as_ref().unwrap();
            (words.diff.len(), words.summary.as_str())
        });
        let (whole, none) = ((1024 * 1024, "s"), (0, "s"));
        assert_eq!(kept.collect::<Vec<_>>(), [whole, none, whole, none, whole]);
        let docs = vec![doc("history", CALL_BYTES_MAX)];
        let mut docs = wire::ImportIssueRequest { docs, ..request(&[1]) };
        let left = fit_call(&mut docs, "history").unwrap_err();
        assert_eq!(left, docs.encoded_len());
    }

    #[test]
    fn the_largest_documents_are_sent_later_and_nothing_else_is_lost() {
        let mut docs = vec![doc("small", 100), doc("history", 256 * 1024)];
        docs.extend((1..=20).map(|it| doc(&format!("plan-{it}"), 200 * 1024 - it)));
        let all = docs.len();
        let submissions = vec![submission(1, "s", 1024)];
        let mut request = wire::ImportIssueRequest { docs, submissions, ..Default::default() };
        let fitted = fit_call(&mut request, "history").unwrap();
        let later: Vec<&str> = fitted.later.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(later, ["plan-1", "plan-2", "plan-3", "plan-4"]);
        assert_eq!((fitted.shortened, fitted.notes), (0, vec![]));
        assert_eq!(request.docs.len() + 4, all);
        assert!(request.encoded_len() <= CALL_BYTES_MAX);
        let words = request.submissions[0].submission.as_ref().unwrap().words.as_ref();
        assert_eq!(words.unwrap().diff.len(), 1024);
    }

    #[test]
    fn the_longest_texts_are_cut_and_say_so() {
        let long = "ä".repeat(450 * 1024);
        let tasks = (1..=5).map(|it| task(it, &long)).chain([task(6, "short")]);
        let mut request = wire::ImportIssueRequest { tasks: tasks.collect(), ..Default::default() };
        let files = (0..100).map(|it| format!("{it:01024}")).collect();
        request.tasks[0].words.as_mut().unwrap().suggested_files = files;
        let fitted = fit_call(&mut request, "history").unwrap();
        assert_eq!(fitted.notes.len(), 5, "{:?}", fitted.notes);
        let first = "task-1 has a text of 921600 bytes, which is cut to ";
        assert!(fitted.notes[0].starts_with(first), "{:?}", fitted.notes);
        let bytes = request.encoded_len();
        assert!((CALL_BYTES_MAX - 100..=CALL_BYTES_MAX).contains(&bytes), "{bytes}");
        let words = |at: usize| request.tasks[at].words.as_ref().unwrap();
        let end = "\n[Cut by the import: Swarm MCP has 921600 bytes.]";
        assert!(words(4).description.starts_with("ää") && words(4).description.ends_with(end));
        assert_eq!((words(5).description.as_str(), words(0).suggested_files.len()), ("short", 100));

        let submissions = (1..=6).map(|it| submission(it, &"s".repeat(700 * 1024), 0)).collect();
        let mut request = wire::ImportIssueRequest { submissions, ..Default::default() };
        assert_eq!(fit_call(&mut request, "history").unwrap().notes.len(), 6);

        // A list loses its last ones, and what nothing helps with is not taken.
        let mut wide = wire::ImportIssueRequest { tasks: vec![task(1, "")], ..Default::default() };
        wide.tasks[0].words.as_mut().unwrap().labels = vec!["label".to_owned(); 1024 * 1024];
        assert_eq!(fit_call(&mut wide, "history").unwrap().notes.len(), 1);
        let kept = wide.tasks[0].words.as_ref().unwrap().labels.len();
        assert!((400 * 1024..1024 * 1024).contains(&kept), "{kept}");
        let tasks = (1..=4000).map(|it| task(it, &"x".repeat(1000))).collect();
        let mut many = wire::ImportIssueRequest { tasks, ..Default::default() };
        assert!(CALL_BYTES_MAX < fit_call(&mut many, "history").unwrap_err());
    }
}
