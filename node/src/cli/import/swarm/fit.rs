//! An issue as the one call that takes it over.

use prost::Message as _;
use tasuki_proto::wire;

/// What a call has, in bytes: a message may have some more, for what is around the issue.
pub(super) const CALL_BYTES_MAX: usize = 3584 * 1024;

/// Leaves out diffs and test output, of the oldest submissions first, until the issue fits into one
/// call. Returns of how many submissions.
///
/// # Errors
/// The bytes that it still has, if that is too much.
pub(super) fn fit_call(request: &mut wire::ImportIssueRequest) -> Result<usize, usize> {
    let mut bytes = request.encoded_len();
    let mut submissions: Vec<&mut wire::Submission> =
        request.submissions.iter_mut().filter_map(|it| it.submission.as_mut()).collect();
    submissions.sort_by_key(|it| it.submitted_ms);
    let mut shortened = 0;
    for submission in submissions {
        if bytes <= CALL_BYTES_MAX {
            break;
        }
        let Some(words) = &mut submission.words else { continue };
        let left_out = words.diff.len() + words.test_output.len();
        (words.diff, words.test_output) = (String::new(), String::new());
        bytes -= left_out;
        shortened += usize::from(left_out != 0);
    }
    let bytes = request.encoded_len();
    if bytes <= CALL_BYTES_MAX { Ok(shortened) } else { Err(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_loses_the_oldest_diffs_first() {
        let submission = |submitted_ms| {
            let words = wire::SubmissionWords {
                summary: "s".to_owned(),
                diff: "x".repeat(1024 * 1024),
                ..Default::default()
            };
            let submission =
                wire::Submission { submitted_ms, words: Some(words), ..Default::default() };
            wire::ImportedSubmission { submission: Some(submission), ..Default::default() }
        };
        let request = |times: &[u64]| wire::ImportIssueRequest {
            submissions: times.iter().copied().map(submission).collect(),
            ..Default::default()
        };
        let mut small = request(&[1, 2, 3]);
        assert_eq!(fit_call(&mut small), Ok(0));
        let mut large = request(&[4, 1, 3, 2, 5]);
        assert_eq!(fit_call(&mut large), Ok(2));
        assert!(large.encoded_len() <= CALL_BYTES_MAX);
        let kept = large.submissions.iter().map(|it| {
            let words = it.submission.as_ref().unwrap().words.as_ref().unwrap();
            (words.diff.len(), words.summary.as_str())
        });
        let (whole, none) = ((1024 * 1024, "s"), (0, "s"));
        assert_eq!(kept.collect::<Vec<_>>(), [whole, none, whole, none, whole]);
        let doc = wire::Doc { content: "x".repeat(CALL_BYTES_MAX), ..Default::default() };
        let mut docs = wire::ImportIssueRequest { docs: vec![doc], ..request(&[1]) };
        let left = fit_call(&mut docs).unwrap_err();
        assert_eq!(left, docs.encoded_len());
    }
}
