//! A client in a terminal, as a person has it: tmux, on a socket of its own.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    process::Command,
    time::{Instant, sleep, timeout},
};

use super::{client::Client, home::Home, stage::Stage};
use crate::Result;

/// For tmux to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Between a line and its end: what comes at once is taken for something pasted, and the end for
/// a part of it.
const BEFORE_ENTER: Duration = Duration::from_secs(1);

/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A terminal with a client in it.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Starts the client with a prompt.
    ///
    /// # Errors
    /// When there is no tmux, or no client.
    pub async fn open(client: Client, stage: &Stage, prompt: &str) -> Result<Self> {
        let home = &stage.ground.home;
        let it = Self { socket: home.path("tmux") };
        let mut command = home.outside("tmux");
        client.surround(&mut command, stage.model.url());
        it.on_socket(&mut command).args(["new-session", "-d", "-x", "160", "-y", "48", "--"]);
        command.arg(client.program_in(home)).arg(prompt);
        said(&mut command).await?;
        Ok(it)
    }

    fn on_socket<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"])
    }

    async fn ask(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("tmux");
        said(self.on_socket(&mut command).args(arguments)).await
    }

    /// A line from the keyboard.
    ///
    /// # Errors
    /// When tmux does not take it.
    pub async fn types(&self, line: &str) -> Result<()> {
        self.ask(&["send-keys", "-l", line]).await?;
        sleep(BEFORE_ENTER).await;
        self.ask(&["send-keys", "Enter"]).await.map(drop)
    }

    /// Until this is to be read on it.
    ///
    /// # Errors
    /// When it is not within this time.
    pub async fn shows(&self, text: &str, within: Duration) -> Result<()> {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if self.ask(&["capture-pane", "-p"]).await?.contains(text) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        Err(format!("its terminal does not show {text:?} within {within:?}").into())
    }

    /// What is to be read on it goes to the run's logs.
    ///
    /// # Errors
    /// When tmux does not say.
    pub async fn keep_screen(&self, home: &Home) -> Result<()> {
        let screen = self.ask(&["capture-pane", "-p", "-S", "-200"]).await?;
        Ok(std::fs::write(home.folder.join("screen.txt"), screen)?)
    }

    /// Ends the client and the terminal.
    ///
    /// # Errors
    /// When it does not.
    pub async fn leave(self) -> Result<()> {
        self.ask(&["kill-server"]).await.map(drop)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = std::process::Command::new("tmux");
        command.arg("-S").arg(&self.socket).arg("kill-server");
        // It is gone already when it was left.
        drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

async fn said(command: &mut Command) -> Result<String> {
    let output = timeout(ANSWER_WITHIN, command.kill_on_drop(true).output()).await;
    let output = output.map_err(|_| "tmux does not answer")??;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("tmux: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
    }
}
