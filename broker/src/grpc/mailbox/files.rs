//! Files that are attached: in and out in pieces, checked against their hash.

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use tasuki_proto::{
    id::RoleId,
    limits::CHUNK_BYTES_MAX,
    reason::Reason,
    wire::{self, put_attachment_request::Part},
};
use tonic::{Status, Streaming, codegen::BoxStream};

use super::{
    super::{Admitted, Services, only, parse::check_size},
    id, parse, status,
};
use crate::rules::mailbox;

/// `PutAttachment`: keeps a file; repeated when this role had stored it already, or has a thread
/// that it is attached to.
pub(in crate::grpc) async fn put(
    services: Services,
    admitted: Admitted,
    mut parts: Streaming<wire::PutAttachmentRequest>,
) -> Result<BoxStream<wire::PutAttachmentResponse>, Status> {
    let respond = |repeated| stream::iter([Ok(wire::PutAttachmentResponse { repeated })]).boxed();
    let Some(Part::Head(head)) = parts.message().await?.and_then(|it| it.part) else {
        return Err(status::invalid("head", &"is missing: the first message says what comes"));
    };
    let size = usize::try_from(head.size).unwrap_or(usize::MAX);
    let admitted = Admitted { bytes: size, ..admitted };
    let session = services.enter(&admitted, head.caller.as_ref())?;
    let role: RoleId = id("role", &head.role)?;
    let hash = parse::content_hash(&head.hash)?;
    parse::check_file_size("size", head.size)?;
    // Before any of it is taken in: where mail is private, files had better not be sent at all.
    let sender = role.clone();
    let known = session.query(Some(&role), move |view| {
        view.workspace.privacy.check_files()?;
        Ok(view.workspace.mail.size_of_known(&sender, &hash))
    });
    if known.await? == Some(head.size) {
        return Ok(respond(true));
    }
    // What is on its way counts from its first byte on.
    let reserved = session.reserve_bytes()?;
    let mut content = BytesMut::new();
    while let Some(it) = parts.message().await? {
        let Some(Part::Chunk(chunk)) = it.part else {
            return Err(status::invalid("chunk", &"is missing: after the head come bytes alone"));
        };
        check_size("chunk", chunk.len(), CHUNK_BYTES_MAX)?;
        if head.size < (content.len() + chunk.len()) as u64 {
            return Err(status::invalid("size", &"is less than what came"));
        }
        content.extend_from_slice(&chunk);
    }
    if content.len() as u64 != head.size || *blake3::hash(&content).as_bytes() != hash {
        let why = "is not that of what came; nothing was stored";
        return Err(status::invalid("hash", &why));
    }
    let keep = mailbox::StoreAttachment { role, hash, content: content.freeze() };
    let keep = mailbox::Command::StoreAttachment(keep);
    let is_repeat = session.execute_within(reserved, keep, |_, done| Ok(done.is_repeat)).await?;
    Ok(respond(is_repeat))
}

/// `GetAttachment`: a file's bytes, to a role that has a thread it is attached to.
pub(in crate::grpc) async fn get(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::GetAttachmentRequest>,
) -> Result<BoxStream<wire::GetAttachmentResponse>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    let role: RoleId = id("role", &it.role)?;
    let hash = parse::content_hash(&it.hash)?;
    let asker = role.clone();
    let looked = session.query_named(&role, "message", &it.message, move |view, thread| {
        Ok((thread, view.workspace.mail.thread_facts(&asker, thread)?.entries))
    });
    let (thread, entries) = looked.await?;
    let found = session.reading(entries as usize, move |session| {
        for number in 1..=entries {
            let facts = session.facts_of(thread, number)?;
            if facts.attachments.iter().any(|it| it.hash == hash) {
                let content = session.bodies().file(&hash);
                return content.map(Some).map_err(|e| status::reading(&e));
            }
        }
        Ok(None)
    });
    let Some(mut content) = found.await? else {
        let text = format!("no file with the hash {} is attached to {}", it.hash, it.message);
        return Err(Reason::UnknownAttachment.status(text));
    };
    let chunks = std::iter::from_fn(move || {
        let chunk: Bytes = content.split_to(CHUNK_BYTES_MAX.min(content.len()));
        (!chunk.is_empty()).then(|| Ok(wire::GetAttachmentResponse { chunk: chunk.to_vec() }))
    });
    Ok(stream::iter(chunks).boxed())
}
