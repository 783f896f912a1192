//! `tasuki mcp`: MCP on standard input and output, for clients that start their servers.
//!
//! It bridges to the running node and keeps nothing, so it may be started and killed at will.

use std::{io, path::PathBuf, time::Duration};

use tasuki_proto::{
    id::{InstanceId, RoleId},
    reason::Reason,
};

use super::{
    Failure, Flags, hosting,
    node_address::{self, NodeArgs, TokenSource},
    pipes,
};
use crate::{
    agent_tokens::Bearing,
    config::{Config, Environment, Key},
    filebox,
    mcp::{
        bridge::{Error, Options, bridge},
        dial::NodeAt,
    },
    paths::NodeFile,
    probe,
};

/// Serve MCP on standard input and output, as one role.
///
/// For MCP clients that start their servers as commands. Needs a running node: `tasuki up` or
/// `tasuki node`. Without --role, the `current_agent` of a FileBox project's `.filebox` file, in
/// this directory or above, names the role.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Role to play [default: the `current_agent` of `.filebox`]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
    /// Id of this agent; one agent at a time plays a role
    #[arg(long = "as", value_name = "ID")]
    instance: Option<InstanceId>,
    #[command(flatten)]
    given: NodeArgs,
    /// File with the token for a guarded node elsewhere [default: the variable TASUKI_AGENT_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long one waiting call is held open, in seconds [default: as long as the client allows]
    #[arg(long, value_name = "SECONDS")]
    hold: Option<String>,
}

impl Args {
    pub(super) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}

/// Which role of which node to speak for.
#[derive(Debug, PartialEq, Eq)]
pub struct Bridge {
    /// The node when it was looked for first.
    pub node: NodeAt,
    /// Where a running node says where it is; `None`: the URL was given.
    pub data: Option<PathBuf>,
    pub role: RoleId,
    pub instance: Option<InstanceId>,
    /// `None`: by the table of clients.
    pub hold: Option<Duration>,
}

pub(crate) async fn run(args: Args, config: &Config) -> Result<(), Failure> {
    let around = Environment::of_process();
    let running = config.running_node();
    let bridge = resolve(args, config, &around, running)?;
    serve(bridge).await
}

fn resolve(
    args: Args,
    config: &Config,
    around: &Environment,
    running: Option<NodeFile>,
) -> Result<Bridge, Failure> {
    let role = match args.role {
        Some(role) => Some(role),
        None => {
            let found = filebox::current_agent(&around.directory, around.home.as_deref());
            found.map_err(|why| Failure::usage(why.to_string()))?
        }
    };
    let role = role.ok_or_else(|| {
        Failure::reason(
            Reason::RoleRequired,
            "Specify --role NAME, or have a `.filebox` with \
             `current_agent` in this directory or above.",
        )
    })?;
    let kept = &config.data.value;
    let shown = TokenSource::of_process(args.token_file);
    let given = node_address::remote(&args.given, &shown, running.as_ref())?;
    let data = given.is_none().then(|| kept.clone());
    let bearing = Bearing::Role(role.clone());
    let here = || running.map(|file| node_address::local(file, kept, &bearing));
    let node = given.or_else(here).ok_or_else(|| node_address::not_running(kept))?;
    Ok(Bridge { node, data, role, instance: args.instance, hold: config.hold.value })
}

impl Bridge {
    /// Where the node is by now: it may have been started again at another address.
    fn node(&self) -> NodeAt {
        let running = self.data.as_deref().and_then(|data| {
            let bearing = Bearing::Role(self.role.clone());
            Some(node_address::local(NodeFile::read(data)?, data, &bearing))
        });
        running.unwrap_or_else(|| self.node.clone())
    }
}

/// Carries MCP between standard input and output and the node until either ends.
async fn serve(to: Bridge) -> Result<(), Failure> {
    let hold = to.hold.map(|hold| hold.as_secs());
    let options = Options {
        role: Some(to.role.clone()),
        instance: to.instance.clone(),
        hold,
        ..Options::default()
    };
    let mut pipes = pipes::open();
    let ended = bridge(move || to.node(), &options, &mut pipes.stdin, &mut pipes.stdout).await;
    let Err(mut why) = ended else { return Ok(()) };
    if let Error::NoNode { url, why } = &mut why
        && probe::is_grpc(url).await
    {
        *why = io::Error::other(probe::GRPC);
    }
    let text = hosting::sentence(&why);
    Err(match why {
        Error::Address(_) => Failure::usage(text),
        Error::NoNode { .. } => Failure::reason(Reason::Unavailable, text),
        Error::Refused { .. } => Failure::reason(Reason::UnknownRole, text),
        Error::Unsafe { .. } | Error::Agent(_) | Error::Random(_) => Failure::local(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_looked_for_where_it_says_it_is_unless_its_url_was_given() {
        let data = tempfile::tempdir().unwrap();
        let at = |data| Bridge {
            node: "http://127.0.0.1:1".to_owned().into(),
            data,
            role: "A".parse().unwrap(),
            instance: None,
            hold: None,
        };
        let (found, given) = (at(Some(data.path().to_owned())), at(None));
        assert_eq!(found.node().url, "http://127.0.0.1:1");
        let running = NodeFile {
            pid: std::process::id(),
            mcp: "http://127.0.0.1:2".into(),
            ..NodeFile::example("")
        };
        running.write(data.path()).unwrap();
        assert_eq!(found.node().url, "http://127.0.0.1:2");
        assert_eq!(given.node().url, "http://127.0.0.1:1");
    }
}
