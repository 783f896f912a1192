//! The protocol of coding agents that ask a hook before an edit. Without IO.
//!
//! Each has a hook that is called with an edit before it is made, as JSON on standard input. The
//! three agree on where the tool's name and input are; they differ in the names of editing tools,
//! and in how an edit is refused.
//!
//! - **RP3** What cannot be read is never taken for an edit of nothing: it is [`InvalidInput`].

mod patch;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// An agent whose edits can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// Claude Code
    Claude,
    /// Cursor
    Cursor,
    /// Codex
    Codex,
}

/// Larger than any edit, in bytes: the input has the whole new file.
pub const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Files of one edit. A patch of more is not written by a model.
const FILES_MAX: usize = 4096;

/// Tools that change files, in any of the three. Others change none, or run a shell command, whose
/// files cannot be known.
const TOOLS: [&str; 16] = [
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "StrReplace",
    "EditNotebook",
    "Delete",
    "ApplyPatch",
    "apply_patch",
    "functions.apply_patch",
    "edit_file",
    "search_replace",
    "write",
    "delete_file",
    "edit_notebook",
    "TabWrite",
];

/// Where the input of a tool has the file.
const PATHS: [&str; 8] = [
    "file_path",
    "filePath",
    "path",
    "notebook_path",
    "target_file",
    "target_notebook",
    "old_path",
    "new_path",
];

/// Where the input of a tool has a patch, whose text names the files.
const PATCHES: [&str; 3] = ["command", "input", "patch"];

/// What an agent is about to change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// Where relative paths are from; `None`: where the hook was started.
    pub directory: Option<PathBuf>,
    /// None: it changes no file.
    pub files: Vec<PathBuf>,
}

/// Why the files of an edit cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    #[error("the agent's input is not JSON: {0}")]
    Malformed(String),
    #[error("the agent's input names no tool")]
    NoTool,
    #[error("the agent's tool {0:?} names no file")]
    NoFile(String),
    #[error("the agent's tool {tool:?} names more than {FILES_MAX} files")]
    TooMany { tool: String },
}

impl Client {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Cursor, Self::Codex];

    /// As in the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Cursor => "cursor",
            Self::Codex => "codex",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Cursor => "Cursor",
            Self::Codex => "Codex",
        }
    }

    /// The tools before which it calls the hook.
    pub const fn matcher(self) -> &'static str {
        match self {
            Self::Claude => "Edit|Write|MultiEdit|NotebookEdit",
            Self::Cursor => "Write|StrReplace|Edit|EditNotebook|ApplyPatch|Delete",
            Self::Codex => "apply_patch|Edit|Write",
        }
    }
}

/// Reads what an agent wrote to standard input.
///
/// # Errors
/// Says what is wrong with it.
pub fn read(input: &[u8]) -> Result<Edit, InvalidInput> {
    let input: Value =
        serde_json::from_slice(input).map_err(|why| InvalidInput::Malformed(why.to_string()))?;
    let tool = input.get("tool_name").and_then(Value::as_str).ok_or(InvalidInput::NoTool)?;
    let text = |key: &str| input.get(key).and_then(Value::as_str).filter(|it| !it.is_empty());
    let first_root = || {
        let roots = input.get("workspace_roots").and_then(Value::as_array);
        roots.and_then(|it| it.first()).and_then(Value::as_str)
    };
    let directory = text("cwd").or_else(first_root).map(PathBuf::from);
    if !TOOLS.contains(&tool) {
        return Ok(Edit { directory, files: Vec::new() });
    }
    let mut files = Vec::new();
    match input.get("tool_input") {
        Some(Value::Object(input)) => collect_files(input, &mut files),
        // A patch by itself, or the input written as text.
        Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(input)) => collect_files(&input, &mut files),
            Ok(_) | Err(_) => files.extend(patch::files(text)),
        },
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {}
    }
    let mut kept: Vec<PathBuf> = Vec::new();
    for file in files.into_iter().filter(|it| !it.is_empty()).map(PathBuf::from) {
        if !kept.contains(&file) {
            kept.push(file);
        }
        if FILES_MAX < kept.len() {
            return Err(InvalidInput::TooMany { tool: tool.to_owned() });
        }
    }
    if kept.is_empty() {
        return Err(InvalidInput::NoFile(tool.to_owned()));
    }
    Ok(Edit { directory, files: kept })
}

fn collect_files(input: &Map<String, Value>, files: &mut Vec<String>) {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    files.extend(PATHS.iter().filter_map(|key| text(key)).map(str::to_owned));
    for key in PATCHES {
        match input.get(key) {
            Some(Value::String(text)) => files.extend(patch::files(text)),
            // As a program and its arguments.
            Some(Value::Array(words)) => {
                let words = words.iter().filter_map(Value::as_str);
                files.extend(words.flat_map(patch::files));
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {}
        }
    }
    for edit in input.get("edits").and_then(Value::as_array).into_iter().flatten() {
        let paths = PATHS.iter().filter_map(|key| edit.get(key)?.as_str());
        files.extend(paths.map(str::to_owned));
    }
}

/// What a hook leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// On standard output, as it is.
    pub out: String,
    /// On standard error, for whoever reads it: the agent where it is refused.
    pub message: String,
    pub is_refused: bool,
}

/// Lets an edit be made; `warning` is for people.
pub fn allow(client: Client, warning: Option<&str>) -> Answer {
    let out = match client {
        // Who is not told to refuse goes by their user's own rules; to say "allow" would pass over
        // them.
        Client::Claude | Client::Codex => String::new(),
        // It takes nothing for a broken hook.
        Client::Cursor => json!({ "permission": "allow" }).to_string() + "\n",
    };
    Answer { out, message: warning.unwrap_or_default().to_owned(), is_refused: false }
}

/// Refuses an edit, which the agent is told in `why`. The exit code says it, too, 2 in all three.
pub fn refuse(client: Client, why: &str) -> Answer {
    let out = match client {
        Client::Claude | Client::Codex => String::new(),
        Client::Cursor => {
            let answer = json!({
                "permission": "deny", "user_message": why, "agent_message": why,
            });
            answer.to_string() + "\n"
        }
    };
    Answer { out, message: why.to_owned(), is_refused: true }
}
