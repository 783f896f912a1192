//! What `filebox_send_message` attaches, and `filebox_save_attachment`.

use std::path::{Path, PathBuf};

use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tasuki_proto::{limits::ATTACHMENTS_MAX, reason::Reason, wire};

use super::{
    super::{
        arguments::invalid,
        field_types::Name,
        result::text_result,
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
    },
    FULL,
    caller::{Mailbox, Player, message_name},
};
use crate::{
    attached::{self, No, Project, media_type, on_disk},
    role::Refusal,
};

/// The parameter of what is attached.
const ATTACHMENTS: &str = "attachments";

/// Stores the files that a call names, to be attached.
pub(super) async fn attach(
    mailbox: &Mailbox<'_>,
    paths: Vec<String>,
) -> Result<Vec<wire::Attachment>, Refusal> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    if ATTACHMENTS_MAX < paths.len() {
        return Err(Refusal {
            reason: Reason::TooLarge,
            message: format!(
                "`{ATTACHMENTS}` lists {} files; the limit is {ATTACHMENTS_MAX}. Nothing was sent.",
                paths.len()
            ),
        });
    }
    let project = project(mailbox)?;
    // All are read before any is stored.
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let (project, from) = (project.clone(), PathBuf::from(&path));
        let content = on_disk(move || project.read(&from)).await;
        let content = content.map_err(|why| match why {
            No::TooLarge(_) => Refusal {
                reason: Reason::TooLarge,
                message: format!("`{ATTACHMENTS}` names {path:?}: {why}. Nothing was sent."),
            },
            No::Outside(_)
            | No::Private(_)
            | No::Key(_)
            | No::NoFile(_)
            | No::Taken
            | No::Io(_) => invalid(ATTACHMENTS, &format_args!("names {path:?}: {why}")),
        })?;
        let file = wire::Attachment {
            name: name_of(&path)?,
            media_type: media_type(Path::new(&path)).to_owned(),
            size: content.len() as u64,
            hash: blake3::hash(&content).to_hex().to_string(),
        };
        files.push((file, content));
    }
    let mut stored = Vec::with_capacity(files.len());
    for (file, content) in files {
        mailbox.actions.put_attachment(&file, content).await?;
        stored.push(file);
    }
    Ok(stored)
}

fn name_of(path: &str) -> Result<String, Refusal> {
    attached::name_of(Path::new(path)).map(str::to_owned).ok_or_else(|| {
        invalid(ATTACHMENTS, &format_args!("names {path:?}, whose path cannot be resolved"))
    })
}

fn project(mailbox: &Mailbox<'_>) -> Result<Project, Refusal> {
    let host = mailbox.call.host;
    let root = host.project.as_deref().ok_or_else(|| Refusal {
        reason: Reason::InvalidArgument,
        message: format!(
            "No project directory is configured for {} on this node, so files cannot be read or \
             written. No change was made. Ask your user to set `mirror_root` in the configuration, \
             or TASUKI_MIRROR_ROOT, to the project directory and to restart the node.",
            mailbox.role()
        ),
    })?;
    Ok(Project::of(root, host.directories.of(mailbox.role()), &host.private))
}

/// Saves an attached file to your project. Returns its path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SaveAttachment {
    /// Message ID, ID prefix or file name.
    message_id: Name,
    /// BLAKE3 hash of the file, or a prefix.
    hash: Name,
}

impl Tool for SaveAttachment {
    const INFO: ToolInfo = ToolInfo::write("filebox_save_attachment", FULL);

    type Caller<'a> = Player<'a>;

    async fn call(self, player: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let (mailbox, Name(message)) = (&player.caller, self.message_id);
        message_name(&message)?;
        let project = project(mailbox)?;
        let file = find(mailbox, &message, &self.hash.0).await?;
        let content = mailbox.actions.get_attachment(&message, &file).await?;
        let (name, bytes) = (file.name.clone(), content.clone());
        let saved = on_disk(move || project.save(&name, &bytes)).await.map_err(|why| Refusal {
            reason: Reason::Unavailable,
            message: format!("The file cannot be saved: {why}. Nothing was changed."),
        })?;
        let text = format!("Saved as {}", saved.display());
        let mut others = Sanitizer::default();
        let facts = json!({
            "message": text, "path": saved, "name": others.line(&file.name), "size": file.size,
            "hash": file.hash,
        });
        Ok(text_result(text, facts).into())
    }
}

/// The file with this hash, or the beginning of one, among those of a thread.
async fn find(
    mailbox: &Mailbox<'_>,
    message: &str,
    hash: &str,
) -> Result<wire::Attachment, Refusal> {
    let mut from = 1;
    while from != 0 {
        let request =
            wire::ReadThreadRequest { message: message.to_owned(), from, ..Default::default() };
        let read = mailbox.read_thread(request).await?.what;
        let mut files = read.entries.iter().flat_map(|it| &it.attachments);
        if let Some(file) = files.find(|it| it.hash.starts_with(hash)) {
            return Ok(file.clone());
        }
        // What leads nowhere would be asked for for ever.
        from = if from < read.next { read.next } else { 0 };
    }
    Err(Refusal {
        reason: Reason::UnknownAttachment,
        message: format!(
            "No file with the hash {hash:?} is attached to that thread. filebox_thread lists the \
             files."
        ),
    })
}
