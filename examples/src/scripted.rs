//! An agent CLI that follows a script: it writes pi's JSON stream and asks no model.
//!
//! It answers `Find …` with two files, ends `Fail …` as a CLI does whose model refused, with exit
//! code 0, and says of anything else that it is done.
//!
//! Not here: quotes, backslashes and line breaks in a task, which the script does not escape.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::Result;

/// The program. The task is its last argument, as pi has it.
pub const AGENT: &str = r#"#!/bin/sh
for task; do :; done
task=${task#Task: }
echo '{"type":"session","version":3,"id":"script"}'
echo '{"type":"agent_start"}'
case $task in
    'Fail '*)
        echo '{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"429 Rate limit reached"}}'
        echo '{"type":"agent_end","messages":[]}'
        exit 0
        ;;
    'Find '*) answer='src/login.rs and src/session.rs' ;;
    *) answer="Done: $task" ;;
esac
usage='"usage":{"input":1000,"output":40,"cacheRead":0,"cacheWrite":0,"totalTokens":1040,"cost":{"total":0.001}}'
printf '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"%s"}],"provider":"script","model":"one",%s,"stopReason":"stop"}}\n' "$answer" "$usage"
echo '{"type":"agent_end","messages":[]}'
"#;

/// Writes the program where `path` says.
///
/// # Errors
/// When the disk does not take it.
pub fn write(path: &Path) -> Result<()> {
    fs::write(path, AGENT)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
