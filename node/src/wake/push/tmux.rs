//! The last resort: keys typed into the pane of tmux that a client runs in.
//!
//! A pane whose client has ended shows a shell, which would run what is typed: nothing is typed
//! there.

use std::{ffi::OsStr, path::Path, time::Duration};

use tokio::time::sleep;

use super::run;

/// Programs that run what is typed into them.
const SHELLS: [&str; 12] =
    ["sh", "bash", "zsh", "fish", "dash", "ksh", "mksh", "csh", "tcsh", "nu", "pwsh", "xonsh"];

/// Between the sentence and the key that sends it: clients take what comes at once for pasted text,
/// and its end for a new line.
const BEFORE_ENTER: Duration = Duration::from_millis(500);

pub(super) async fn type_line(
    program: &Path,
    socket: Option<&Path>,
    pane: &str,
    sentence: &str,
) -> Result<(), String> {
    let server: Vec<&OsStr> =
        socket.map_or_else(Vec::new, |socket| vec![OsStr::new("-S"), socket.as_os_str()]);
    let tmux = async |words: &[&str]| {
        let words: Vec<&OsStr> =
            server.iter().copied().chain(words.iter().map(|it| OsStr::new(*it))).collect();
        run(program, &words, &[]).await
    };
    let shows = ["display-message", "-p", "-t", pane, "#{pane_current_command}"];
    let command = tmux(&shows).await?;
    if command.is_empty() {
        return Err(format!("there is no pane {pane}"));
    }
    if is_shell(&command) {
        return Err(format!("pane {pane} shows a shell ({command}), not a client"));
    }
    tmux(&["send-keys", "-t", pane, "-l", "--", sentence]).await?;
    sleep(BEFORE_ENTER).await;
    tmux(&["send-keys", "-t", pane, "Enter"]).await?;
    Ok(())
}

/// Whether a program would run what is typed into it.
fn is_shell(command: &str) -> bool {
    SHELLS.contains(&command.trim_start_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_told_apart_from_clients() {
        for shell in ["bash", "-zsh", "fish"] {
            assert!(is_shell(shell), "{shell}");
        }
        for client in ["claude", "codex", "node", "opencode"] {
            assert!(!is_shell(client), "{client}");
        }
    }
}
