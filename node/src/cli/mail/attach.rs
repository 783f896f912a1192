//! Files that are attached: from a path to the broker, and from there into a folder.
//!
//! **Invariant:** nothing that was there is written over, no name leads out of the folder, and a
//! file has its name only once its content was checked against its hash.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures::stream;
use tasuki_proto::{
    limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, CHUNK_BYTES_MAX},
    reason::Reason,
    wire::{self, put_attachment_request::Part},
};

use super::{Failure, mail_client::MailClient, show::bytes};
use crate::{
    attached::{self, NAMES_MAX, media_type, names},
    client::channel,
};

/// Refuses what cannot be attached, before anything is read or sent.
pub(super) fn check(paths: &[PathBuf]) -> Result<(), Failure> {
    if ATTACHMENTS_MAX < paths.len() {
        let text = format!(
            "{} files are to be attached; the limit is {ATTACHMENTS_MAX}. Nothing was sent.",
            paths.len()
        );
        return Err(Failure::reason(Reason::TooLarge, text));
    }
    for path in paths {
        let shown = path.display();
        let about = fs::metadata(path).map_err(|why| {
            Failure::usage(format!("--attach: {shown} cannot be read: {why}. Nothing was sent."))
        })?;
        if !about.is_file() {
            let text = format!("--attach: {shown} is no file; nothing was sent.");
            return Err(Failure::usage(text));
        }
        if ATTACHMENT_BYTES_MAX < about.len() {
            return Err(too_large(path, about.len()));
        }
        name_of(path)?;
    }
    Ok(())
}

fn too_large(path: &Path, size: u64) -> Failure {
    let text = format!(
        "--attach: {} has {size} bytes; the limit is {}. Nothing was sent.",
        path.display(),
        bytes(ATTACHMENT_BYTES_MAX)
    );
    Failure::reason(Reason::TooLarge, text)
}

fn name_of(path: &Path) -> Result<String, Failure> {
    attached::name_of(path).map(str::to_owned).ok_or_else(|| {
        let shown = path.display();
        Failure::usage(format!(
            "--attach: {shown} has no name that can be shown. Nothing was sent."
        ))
    })
}

/// Stores files at the broker, one after the other. The same bytes again are stored once.
pub(super) async fn put(
    mail: &MailClient,
    paths: &[PathBuf],
) -> Result<Vec<wire::Attachment>, Failure> {
    let mut stored = Vec::with_capacity(paths.len());
    for path in paths {
        let content = read(path)?;
        let attachment = wire::Attachment {
            name: name_of(path)?,
            media_type: media_type(path).to_owned(),
            size: content.len() as u64,
            hash: blake3::hash(&content).to_hex().to_string(),
        };
        let head = wire::PutAttachmentHead {
            caller: Some(mail.broker.caller()),
            role: mail.role.to_string(),
            size: attachment.size,
            hash: attachment.hash.clone(),
        };
        let put = async |broker| {
            let mut rest = content.clone();
            let chunks = std::iter::from_fn(move || {
                let chunk = rest.split_to(CHUNK_BYTES_MAX.min(rest.len()));
                (!chunk.is_empty()).then(|| Part::Chunk(chunk.to_vec()))
            });
            let parts = std::iter::once(Part::Head(head.clone())).chain(chunks);
            let parts = parts.map(|part| wire::PutAttachmentRequest { part: Some(part) });
            channel::mailbox(broker).put_attachment(stream::iter(parts)).await
        };
        mail.broker.ask(put).await?;
        stored.push(attachment);
    }
    Ok(stored)
}

/// It may have grown since its size was looked at.
fn read(path: &Path) -> Result<Bytes, Failure> {
    let mut content = Vec::new();
    let file = File::open(path);
    let file = file.and_then(|it| it.take(ATTACHMENT_BYTES_MAX + 1).read_to_end(&mut content));
    let size = file.map_err(|why| {
        Failure::local(format!("{} cannot be read: {why}. Nothing was sent.", path.display()))
    })? as u64;
    if ATTACHMENT_BYTES_MAX < size { Err(too_large(path, size)) } else { Ok(content.into()) }
}

/// Writes a file of a thread into a folder, and says under which name.
pub(super) async fn save(
    mail: &MailClient,
    message: &str,
    attachment: &wire::Attachment,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    let content = get(mail, message, attachment).await?;
    let cannot = |path: &Path, why: std::io::Error| {
        Failure::local(format!("{} cannot be written: {why}.", path.display()))
    };
    fs::create_dir_all(folder).map_err(|why| cannot(folder, why))?;
    for path in names(&attachment.name).map(|name| folder.join(name)) {
        match File::create_new(&path) {
            Ok(mut file) => {
                return file.write_all(&content).map(|()| path.clone()).map_err(|why| {
                    drop(fs::remove_file(&path));
                    cannot(&path, why)
                });
            }
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
            Err(why) => return Err(cannot(&path, why)),
        }
    }
    let text = format!("{} has {NAMES_MAX} files of one name already.", folder.display());
    Err(Failure::local(text))
}

async fn get(mail: &MailClient, message: &str, of: &wire::Attachment) -> Result<Vec<u8>, Failure> {
    let request = wire::GetAttachmentRequest {
        caller: Some(mail.broker.caller()),
        role: mail.role.to_string(),
        message: message.to_owned(),
        hash: of.hash.clone(),
    };
    let ask = async |broker| channel::mailbox(broker).get_attachment(request.clone()).await;
    let mut chunks = mail.broker.ask(ask).await?;
    let mut content = Vec::new();
    let wrong =
        |why: &str| Failure::reason(Reason::Damaged, format!("The attached {:?} {why}.", of.name));
    while let Some(it) = chunks.message().await.map_err(|status| Failure::of_status(&status))? {
        content.extend_from_slice(&it.chunk);
        if ATTACHMENT_BYTES_MAX < content.len() as u64 {
            return Err(wrong("is larger than any may be"));
        }
    }
    if blake3::hash(&content).to_hex().as_str() != of.hash {
        return Err(wrong("is not what was sent: its hash is another"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_attached_is_refused_before_it_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("big");
        File::create(&path).unwrap().set_len(ATTACHMENT_BYTES_MAX + 1).unwrap();
        let code = |paths: &[PathBuf]| check(paths).map_err(|failure| failure.code());
        assert_eq!(code(std::slice::from_ref(&path)), Err("too_large"));
        File::create(&path).unwrap().set_len(ATTACHMENT_BYTES_MAX).unwrap();
        assert_eq!(code(std::slice::from_ref(&path)), Ok(()));
        assert_eq!(code(&[place.path().to_owned()]), Err("usage"));
        assert_eq!(code(&[place.path().join("none")]), Err("usage"));
        assert_eq!(code(&vec![path; ATTACHMENTS_MAX + 1]), Err("too_large"));
    }
}
