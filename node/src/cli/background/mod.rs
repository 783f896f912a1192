//! Nodes that run without a terminal: `--detach`, their log, `tasuki stop`, and the service.

pub(super) mod detach;
mod log_file;
pub(super) mod logs;
pub(super) mod service;
pub(super) mod stop;

use std::path::Path;

use crate::{config::Config, projects};

/// Where the workspace's node keeps its state; `None`: no node of it ever started.
fn own_directory(config: &Config) -> Option<&Path> {
    let data = config.data.value.as_path();
    let owner = projects::owner(data).ok().flatten();
    owner.is_none_or(|owner| owner == config.workspace.value).then_some(data)
}
