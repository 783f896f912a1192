//! Something else where a broker was named: a node, a broker's dashboard, a port that encrypts.

use tasuki_proto::reason::Reason;

use super::Failure;
use crate::{
    config::Config,
    probe::{self, Mistaken},
};

/// That something else is at the broker's address, if that can be told.
pub(super) async fn check_broker(config: &Config) -> Result<(), Failure> {
    let url = config.broker_url();
    let Some(mistaken) = probe::mistaken_for_broker(&url).await else { return Ok(()) };
    let port = "A broker's port is 7420 unless it was given another: --broker \
                http://127.0.0.1:7420.";
    Err(Failure::usage(match mistaken {
        Mistaken::Node => format!("{url} is the MCP port of a node, not a broker. {port}"),
        Mistaken::Dashboard => {
            format!("{url} is the dashboard of a broker, not where it takes calls. {port}")
        }
        Mistaken::Tls => format!(
            "What is at {url} takes TLS alone. Join a broker there with the line that \
             `tasuki-broker invite` prints; its address begins with https://."
        ),
    }))
}

/// The same of a command that reached no broker.
pub(super) async fn explain(failure: Failure, config: &Config) -> Failure {
    if failure.as_reason() != Some(Reason::Unavailable) {
        return failure;
    }
    check_broker(config).await.err().unwrap_or(failure)
}
