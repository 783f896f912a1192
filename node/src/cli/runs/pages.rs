//! Lists of runs, page by page: the newest first, each page behind the last run of the one before.

use tasuki_proto::wire;

use super::Failure;
use crate::cli::broker::Broker;

/// Runs that are asked for at once, as many as the broker gives.
const PAGE: u64 = 200;

/// Calls `show` for each run that the request asks for, at most `most` of them, with the broker's
/// time. Returns whether there are more.
pub(super) async fn each(
    broker: &Broker,
    mut request: wire::ListRunsRequest,
    most: u64,
    mut show: impl FnMut(&wire::Run, u64) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut left = most;
    loop {
        request.limit = u32::try_from(left.min(PAGE)).unwrap_or(u32::MAX);
        let page = broker.call(&request).await?;
        for run in &page.runs {
            show(run, page.now_ms)?;
        }
        left = left.saturating_sub(page.runs.len() as u64);
        // A page that leads nowhere would be asked for for ever.
        let Some(last) = page.runs.last().filter(|_| page.has_more && 0 < left) else {
            return Ok(page.has_more);
        };
        request.before.clone_from(&last.run_id);
    }
}
