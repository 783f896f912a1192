//! Work on files below the root that the operator names: `fs_read`, `fs_write`, `fs_list`.
//!
//! What they do is [`crate::file_access`]'s; here a write is held against the locks of the swarm.

use std::{fmt, sync::Arc};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::{Value, json};
use tasuki_proto::{id::RoleId, limits::FILE_WRITE_BYTES_MAX, reason::Reason, wire};

use super::{
    Call, Part, Toolset,
    caller::{FindRole, Player, Reader, RoleCaller, find_able},
    field_types::{Word, Words, schema},
    result::json_result,
    sanitizer::Sanitizer,
    tool::{Membership, RoleArgument, Tool, ToolDef, ToolInfo},
};
use crate::{
    file_access::{EntryKind, FileError, Files, ListRequest, ReadRequest, WriteMode, WriteRequest},
    role::{Actions, Refusal},
    toolset::{FILES, ToolVisibility},
};

/// Locks that are looked at for one file: those of the asking role are among them.
const LOCKS_MAX: u32 = 200;

pub(super) struct FileTools;

static TOOLS: [ToolDef; 3] =
    [ToolDef::new::<FsRead>(), ToolDef::new::<FsWrite>(), ToolDef::new::<FsList>()];

const CORE: &[Membership] = &[Membership { set: FILES, from: ToolVisibility::Quiet }];

impl Toolset for FileTools {
    fn tools(&self) -> &'static [ToolDef] {
        &TOOLS
    }

    fn part(&self, _: &RoleId, _: &[&str], _: &[RoleId]) -> Option<&'static dyn Part> {
        None
    }

    /// Their descriptions say it all.
    fn prompt_note(&self, _: &[&str]) -> Option<&'static str> {
        None
    }
}

impl FindRole for FileTools {
    const ARGUMENTS: &'static [RoleArgument] = &[];

    fn find_role(call: &Call<'_>, tool: &ToolDef) -> Result<Arc<dyn Actions>, Refusal> {
        find_able(call, tool, "role", Reason::UnknownRole)
    }
}

/// A text as it stands, however long: what it is for has a limit of its own. It may be empty.
#[derive(Debug, Default)]
pub(super) struct Verbatim(pub String);

schema!(Verbatim => { "type": "string" });

impl<'de> Deserialize<'de> for Verbatim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsItStands;
        impl Visitor<'_> for AsItStands {
            type Value = Verbatim;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Verbatim, E> {
                Ok(Verbatim(text.to_owned()))
            }
        }
        deserializer.deserialize_str(AsItStands)
    }
}

impl Words for WriteMode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("overwrite", Self::Overwrite), ("create", Self::Create), ("append", Self::Append)];
}

/// Returns the text of a file below the project's root, at most 256 KiB a call, with the SHA-256 of
/// the whole file.
#[derive(Debug, Deserialize, JsonSchema)]
struct FsRead {
    /// Relative to the root.
    path: Verbatim,
    /// First line. Default 1.
    offset: Option<u64>,
    /// Number of lines. Default: as many as fit.
    limit: Option<u64>,
}

impl Tool for FsRead {
    const INFO: ToolInfo = ToolInfo::read("fs_read", CORE);

    type Caller<'a> = Reader<'a, FileTools>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let files = files(reader.caller.call)?;
        let offset = self.offset.unwrap_or_default();
        let request = ReadRequest { path: self.path.0, offset, limit: self.limit };
        let path = request.path.clone();
        let read = on_disk(move || files.read(&request)).await?;
        let mut facts = json!({
            "path": path, "content": read.content, "first_line": read.first_line,
            "bytes": read.bytes, "sha256": read.sha256,
        });
        if let Some(next) = read.next_line {
            facts["next_offset"] = next.into();
        }
        if read.is_cut {
            facts["note"] = "The line is longer than a call returns; its end is left out.".into();
        }
        Ok(json_result(&facts).into())
    }
}

/// Writes a text file below the project's root, whole or not at all, and makes missing directories.
/// Files of version control, agents, editors and CI are protected. It is refused with file_is_locked
/// while another role has the file locked.
#[derive(Debug, Deserialize, JsonSchema)]
struct FsWrite {
    /// Relative to the root.
    path: Verbatim,
    /// At most 1 MiB.
    content: Verbatim,
    /// overwrite (default) makes or replaces the file, create refuses an existing one, append adds
    /// to its end.
    mode: Option<Word<WriteMode>>,
    /// SHA-256 that fs_read returned; it is refused with file_changed if the file is another by now.
    expected_sha256: Option<Verbatim>,
}

impl Tool for FsWrite {
    const INFO: ToolInfo = ToolInfo::destroy("fs_write", CORE);

    type Caller<'a> = Player<'a, FileTools>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let caller = &player.caller;
        let files = files(caller.call)?;
        let request = WriteRequest {
            path: self.path.0,
            content: self.content.0,
            mode: self.mode.map_or_else(WriteMode::default, |it| it.0),
            expected_sha256: self.expected_sha256.map(|it| it.0),
        };
        let path = files.check_write(&request.path).map_err(|why| why.refusal())?;
        let unchecked = check_locks(caller, &files, path).await?;
        let written = on_disk(move || files.write(&request)).await?;
        let mut facts = json!({
            "path": written.path, "created": written.is_new, "bytes": written.bytes,
            "sha256": written.sha256,
        });
        if let Some(why) = unchecked {
            facts["note"] = format!("Locks could not be checked: {why}").into();
        }
        Ok(json_result(&facts).into())
    }
}

/// Lists a directory below the project's root, at most 1,000 entries.
#[derive(Debug, Deserialize, JsonSchema)]
struct FsList {
    /// Relative to the root. Default: the root.
    path: Option<Verbatim>,
    /// Levels of directories, 1 to 16. Default 1.
    depth: Option<u64>,
}

impl Tool for FsList {
    const INFO: ToolInfo = ToolInfo::read("fs_list", CORE);

    type Caller<'a> = Reader<'a, FileTools>;

    async fn call(self, reader: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let files = files(reader.caller.call)?;
        let path = self.path.unwrap_or_default().0;
        let request = ListRequest { path, depth: self.depth.unwrap_or_default() };
        let listed = on_disk(move || files.list(&request)).await?;
        let entries = listed.entries.iter().map(|it| {
            let kind = match it.kind {
                EntryKind::File => "file",
                EntryKind::Directory => "directory",
                EntryKind::Link => "link",
                EntryKind::Other => "other",
            };
            let mut entry = json!({ "path": it.path, "kind": kind });
            if it.kind == EntryKind::File {
                entry["bytes"] = it.bytes.into();
            }
            entry
        });
        let mut facts = json!({ "entries": entries.collect::<Vec<Value>>() });
        if listed.has_more {
            facts["truncated"] = true.into();
            facts["note"] = "There are more; list a directory of these.".into();
        }
        Ok(json_result(&facts).into())
    }
}

/// The files of the node.
pub(super) fn files(call: &Call<'_>) -> Result<Arc<Files>, Refusal> {
    let none = |why: &String| Refusal {
        reason: Reason::FileProtected,
        message: format!("{why} No change was made."),
    };
    call.host.files.as_ref().map(Arc::clone).map_err(none)
}

/// Does what blocks on the disk.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    let done =
        done.map_err(|why| Refusal { reason: Reason::Unavailable, message: why.to_string() })?;
    done.map_err(|why| why.refusal())
}

/// Refuses what another role has locked. `Some`: why nobody could say, which keeps nobody from their
/// work.
async fn check_locks(
    caller: &RoleCaller<'_, FileTools>,
    files: &Arc<Files>,
    path: String,
) -> Result<Option<String>, Refusal> {
    let (repositories, file) = (caller.call.host.repositories.clone(), files.root().join(&path));
    let named = tokio::task::spawn_blocking(move || {
        repositories.names_of(&file).map_err(|why| why.to_string())
    });
    let sets = match named.await {
        Ok(Ok(sets)) => sets,
        Ok(Err(why)) => return Ok(Some(why)),
        Err(why) => return Ok(Some(why.to_string())),
    };
    for set in sets {
        let request =
            wire::ListLocksRequest { files: Some(set), limit: LOCKS_MAX, ..Default::default() };
        let listed = match caller.actions.query(request).await {
            Ok(listed) => listed,
            Err(why) => return Ok(Some(why.message)),
        };
        let own = caller.role().as_str();
        if let Some(lock) = listed.locks.iter().find(|it| it.holder != own) {
            let holder = Sanitizer::default().line(&lock.holder);
            return Err(Refusal {
                reason: Reason::FileIsLocked,
                message: format!(
                    "{path} is locked by {holder}. No change was made. Work on other files, or ask \
                     {holder} to unlock it."
                ),
            });
        }
    }
    Ok(None)
}

const _: () = assert!(FILE_WRITE_BYTES_MAX == 1 << 20, "as the tool's description says");
