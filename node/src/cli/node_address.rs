//! The address of the node that a command or a bridge calls: the running one, or one given by URL.
//!
//! The running node's address is in `node.json`, and its tokens are in the file beside it. For a node
//! elsewhere the fingerprint and the token have to be given.

use std::path::{Path, PathBuf};

use tasuki_proto::{
    invitation::Fingerprint,
    reason::Reason,
    token::{InvalidToken, Token},
};

use super::{Failure, hosting::sentence};
use crate::{
    agent_tokens::{AgentTokens, Bearing},
    config::{AGENT_TOKEN_VARIABLE, FINGERPRINT_VARIABLE, NODE_VARIABLE},
    mcp::{ask::Error, dial::NodeAt},
    paths::NodeFile,
};

/// Options that name a node.
#[derive(Debug, Default, clap::Args)]
pub(super) struct NodeArgs {
    /// URL of the node's MCP side [default: the running node's]
    #[arg(long, value_name = "URL", env = NODE_VARIABLE)]
    pub node: Option<String>,
    /// Fingerprint of the certificate of a guarded node elsewhere [default: authorities vouch for it]
    #[arg(long, value_name = "HEX", env = FINGERPRINT_VARIABLE)]
    pub fingerprint: Option<String>,
}

/// Where the token for a node elsewhere comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct TokenSource {
    /// What the variable says.
    pub variable: Option<String>,
    /// A file that holds the token.
    pub file: Option<PathBuf>,
}

impl TokenSource {
    pub(super) fn of_process(file: Option<PathBuf>) -> Self {
        Self { variable: std::env::var(AGENT_TOKEN_VARIABLE).ok(), file }
    }

    pub(super) fn token(&self) -> Result<Option<Token>, Failure> {
        let (text, from) = match (&self.file, &self.variable) {
            (Some(path), _) => {
                let read = tasuki_proto::host::files::read_secret(path);
                let read = read.map_err(|why| Failure::local(sentence(&why)))?;
                let missing = || Failure::local(format!("{} does not exist.", path.display()));
                let text = String::from_utf8(read.ok_or_else(missing)?).unwrap_or_default();
                (text, path.display().to_string())
            }
            (None, Some(text)) => (text.clone(), AGENT_TOKEN_VARIABLE.to_owned()),
            (None, None) => return Ok(None),
        };
        // A variable that says nothing is one that is not set.
        if text.trim().is_empty() {
            return Ok(None);
        }
        let token = text.trim().parse();
        token.map(Some).map_err(|why: InvalidToken| Failure::usage(format!("{from} {why}.")))
    }
}

/// A node whose URL was given; `None`: the running one is meant.
pub(super) fn remote(
    given: &NodeArgs,
    shown: &TokenSource,
    running: Option<&NodeFile>,
) -> Result<Option<NodeAt>, Failure> {
    let url = given.node.as_deref().map(|url| url.trim_end_matches('/'));
    // A variable that says nothing is one that is not set.
    let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
    if running.is_some_and(|file| file.mcp == url) {
        return Ok(None);
    }
    let fingerprint = given.fingerprint.as_deref().filter(|text| !text.is_empty());
    let fingerprint = fingerprint.map(str::parse::<Fingerprint>).transpose().map_err(|_| {
        Failure::usage("--fingerprint takes the 32 pairs of digits that the node prints.")
    })?;
    let token = if url.starts_with("https://") { shown.token()? } else { None };
    Ok(Some(NodeAt { url: url.to_owned(), fingerprint, token }))
}

/// The node that keeps its things in `data`, for whoever speaks as `bearing`. The token is read
/// each time: it may have been rotated.
pub(super) fn local(file: NodeFile, data: &Path, bearing: &Bearing) -> NodeAt {
    let fingerprint = file.fingerprint.as_deref().and_then(|text| text.parse().ok());
    let token = fingerprint.and_then(|_: Fingerprint| {
        let tokens = AgentTokens::read(data);
        let tokens = tokens.inspect_err(|why| tracing::warn!(%why, "there is no token to show"));
        tokens.ok()?.get(bearing).cloned()
    });
    NodeAt { url: file.mcp, fingerprint, token }
}

/// Why the node did not do what was asked of it.
pub(super) fn failure(why: Error) -> Failure {
    let text = sentence(&why);
    match why {
        Error::Address(_) => Failure::usage(text),
        Error::NoNode { .. } => Failure::reason(Reason::Unavailable, text),
        Error::Unanswered { .. } => Failure::reason(Reason::OutcomeUnknown, text),
        Error::Refused { reason: Some(reason), message } => Failure::reason(reason, message),
        Error::Unsafe { .. } => Failure::untrusted(text),
        Error::Refused { reason: None, .. } | Error::Unreadable { .. } => Failure::local(text),
    }
}

/// The refusal when no node is running.
pub(super) fn not_running(data: &Path) -> Failure {
    let data = data.display();
    Failure::reason(
        Reason::Unavailable,
        format!(
            "No node is running with data in {data}. Start one with `tasuki up`, or specify \
             --node URL."
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Exit;

    #[test]
    fn a_node_that_refuses_is_told_apart_from_one_that_is_gone() {
        let url = || "http://127.0.0.1:1".to_owned();
        let gone = Error::Refused {
            reason: Some(Reason::Unauthenticated),
            message: "its step has ended".to_owned(),
        };
        assert_eq!(failure(gone).exit(), Exit::Refused);
        let why = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        assert!(failure(Error::Unanswered { url: url(), why: why() }).is_retryable());
        assert!(failure(Error::NoNode { url: url(), why: why() }).is_retryable());
        assert!(!failure(Error::Unreadable { url: url() }).is_retryable());
    }
}
