//! Wakes one client from outside.
//!
//! What is started and where it goes was set up by the node's user; what is said is one fixed
//! sentence (WU1). A client that works takes it up at the end of its turn: nothing here ends a tool
//! call.

mod codex;
mod opencode;
mod tmux;

use std::{
    ffi::OsStr,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::adapters::Adapter;
use crate::hooks::command::{KEPT, excerpt, how};

/// For one program or server to take a wake.
const WITHIN: Duration = Duration::from_secs(20);

/// Whom to wake.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// Codex' own name for its conversation, as it last called.
    pub thread: Option<String>,
}

/// Whether an adapter knows whom to wake.
pub(super) fn is_ready(adapter: &Adapter, target: &Target) -> bool {
    match adapter {
        Adapter::Codex { .. } => target.thread.is_some(),
        Adapter::Opencode { .. } | Adapter::Tmux { .. } => true,
    }
}

/// Says in half a sentence why it did not work.
pub(super) async fn push(adapter: &Adapter, target: &Target, sentence: &str) -> Result<(), String> {
    let pushed = async {
        match adapter {
            Adapter::Codex { program, home } => {
                let thread = target.thread.as_deref().ok_or("it has not called yet")?;
                codex::queue(program, home.as_deref(), thread, sentence).await
            }
            Adapter::Opencode { url, session } => {
                opencode::prompt(url, session.as_deref(), sentence).await
            }
            Adapter::Tmux { program, pane, socket } => {
                tmux::type_line(program, socket.as_deref(), pane, sentence).await
            }
        }
    };
    let slow = |_| Err(format!("no answer within {} s", WITHIN.as_secs()));
    timeout(WITHIN, pushed).await.unwrap_or_else(slow)
}

/// Runs a program with arguments of this crate's own, and answers what it printed. Dropping the
/// future kills it.
async fn run(
    program: &Path,
    arguments: &[&OsStr],
    environment: &[(&str, &OsStr)],
) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(KEPT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    let name = program.display();
    let Output { status, stdout, stderr } =
        command.output().await.map_err(|why| format!("{name} cannot be started: {why}"))?;
    if !status.success() {
        let words = excerpt(if stderr.is_empty() { &stdout } else { &stderr });
        return Err(format!("{name}: {}: {words}", how(status)));
    }
    Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
}
