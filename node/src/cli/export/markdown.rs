//! A thread as a file of FileBox's mailboxes.

use std::io::{self, ErrorKind, Write as _};

use tasuki_proto::{
    limits::FILE_NAME_BYTES_MAX,
    mail::{MessageName, file_name},
};

use super::RoleThread;
use crate::{
    dir::Dir,
    filebox::{Document, written},
};

/// Writes it into `folder`, under its own name.
pub(super) fn write(found: &RoleThread, folder: &Dir) -> io::Result<()> {
    let document = Document::of_stored(&found.thread, &found.entries);
    let mut last = None;
    for name in names(found) {
        match folder.create_new(name) {
            Ok(mut file) => return file.write_all(document.to_markdown().as_bytes()),
            Err(why) if why.kind() == ErrorKind::AlreadyExists => last = Some(why),
            Err(why) => return Err(why),
        }
    }
    Err(last.unwrap_or_else(|| ErrorKind::InvalidData.into()))
}

/// Its name if that is one, else one of the same kind; two threads may have the same.
fn names(found: &RoleThread) -> impl Iterator<Item = String> {
    let thread = &found.thread;
    let own = Some(&thread.file_name).filter(|it| is_name(it)).cloned();
    let id = thread.message_id.parse().ok();
    let at = found.entries.first().map(written).unwrap_or_default();
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let kind: String = thread.r#type.chars().take(20).map(fit).collect();
    let named = move |subject: &str| id.map(|id| file_name(at, 0, &kind, subject, id));
    let made = named(&thread.subject);
    let with_id = named(&format!("{} {}", thread.message_id, thread.subject));
    own.into_iter().chain(made).chain(with_id)
}

/// A broker may say anything.
fn is_name(name: &str) -> bool {
    name.len() <= FILE_NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(char::is_control)
        && matches!(name.parse(), Ok(MessageName::File { .. }))
}
