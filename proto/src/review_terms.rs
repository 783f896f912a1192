//! What a verdict on a submission rests on where its lead says no more than why: one filling up for
//! commands, tools and pages. Pure.

use crate::wire;

/// The review with what was reviewed, `looked_at` where it is not said, and at least one finding:
/// what was said in whole.
pub fn with_defaults(review: wire::Review, looked_at: &str) -> wire::Review {
    let mut review = review;
    if review.reviewed_refs.is_empty() {
        review.reviewed_refs.push(looked_at.to_owned());
    }
    if review.details.is_empty() {
        let said = [&review.feedback, &review.review_summary];
        let said = said.into_iter().find(|it| !it.trim().is_empty()).cloned();
        review.details.push(wire::FeedbackDetail {
            dimension: "correctness".to_owned(),
            severity: if review.is_approved { "info" } else { "major" }.to_owned(),
            content: said.unwrap_or_default(),
            ..Default::default()
        });
    }
    review
}
