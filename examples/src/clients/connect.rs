//! Connects a client to the running node, as a person would: with `tasuki connect`.

use std::{process::Stdio, time::Duration};

use tokio::time::timeout;

use super::{
    client::{Client, Transport},
    home::Home,
};
use crate::Result;

/// For the command to end.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// Runs `tasuki connect` for this role; what it says is among the logs.
///
/// # Errors
/// When it refuses.
pub async fn connect(client: Client, transport: Transport, role: &str, home: &Home) -> Result<()> {
    let mut command = home.tasuki()?;
    command.args(["connect", client.name(), "--role", role, "--transport", transport.name()]);
    command.arg("--allow").stdin(Stdio::null()).kill_on_drop(true);
    let said = timeout(CONNECT_WITHIN, command.output()).await;
    let said =
        said.map_err(|_| format!("`tasuki connect` did not end in {CONNECT_WITHIN:?}"))??;
    std::fs::write(home.folder.join("connect.txt"), &said.stdout)?;
    if said.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&said.stderr);
        Err(format!("`tasuki connect {}`: {}", client.name(), why.trim()).into())
    }
}
