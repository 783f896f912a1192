//! A node where a broker was named, and the other way round.

use tasuki_proto::reason::Reason;

use super::Failure;
use crate::{config::Config, probe};

/// That the broker's address is a node's, if it is.
pub(super) async fn check_broker(config: &Config) -> Result<(), Failure> {
    let url = config.broker_url();
    if !probe::is_node(&url).await {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{url} is the MCP port of a node, not a broker. A broker's port is 7420 unless it was given \
         another: --broker http://127.0.0.1:7420."
    )))
}

/// The same of a command that reached no broker.
pub(super) async fn explain(failure: Failure, config: &Config) -> Failure {
    if failure.as_reason() != Some(Reason::Unavailable) {
        return failure;
    }
    check_broker(config).await.err().unwrap_or(failure)
}
