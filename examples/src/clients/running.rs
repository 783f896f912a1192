//! A client's process and everything it started.

use std::{process::ExitStatus, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::{client::Client, home::Home, stage::Stage};
use crate::Result;

/// A client at work, in a process group of its own. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts it; what it says goes to the run's logs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, home: &Home) -> Result<Self> {
        let command = command
            .stdin(Stdio::null())
            .stdout(home.log("client.out")?)
            .stderr(home.log("client.err")?)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn();
        Ok(Self { child: child.map_err(|e| format!("{:?}: {e}", command.as_std().get_program()))? })
    }

    /// Starts a client with a prompt.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn work(client: Client, stage: &Stage, prompt: &str) -> Result<Self> {
        let home = &stage.ground.home;
        Self::start(client.work(home, stage.model.url(), prompt), home)
    }

    /// How it ended, if it does within this time.
    ///
    /// # Errors
    /// When the system does not say.
    pub async fn ended_within(&mut self, time: Duration) -> Result<Option<ExitStatus>> {
        Ok(timeout(time, self.child.wait()).await.ok().transpose()?)
    }

    /// kill -9, whole.
    ///
    /// # Errors
    /// When the system does not let us.
    pub async fn kill(&mut self) -> Result<()> {
        self.kill_group();
        self.child.wait().await?;
        Ok(())
    }

    fn kill_group(&self) {
        // A child that was waited for has no id any more, and its group may be another's.
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended by itself meanwhile.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// For a command to end.
const COMMAND_WITHIN: Duration = Duration::from_secs(90);

/// Whether a command succeeded, and what it printed; its errors where it printed nothing.
///
/// # Errors
/// When it cannot be started, or does not end.
pub async fn output(command: Command) -> Result<(bool, String)> {
    output_within(command, COMMAND_WITHIN).await
}

/// The same of a command that takes its time.
///
/// # Errors
/// When it cannot be started, or does not end within this time.
pub async fn output_within(mut command: Command, within: Duration) -> Result<(bool, String)> {
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = timeout(within, ended).await.map_err(|_| "a command did not end")??;
    let printed = if ended.stdout.is_empty() { &ended.stderr } else { &ended.stdout };
    Ok((ended.status.success(), String::from_utf8_lossy(printed).into_owned()))
}
