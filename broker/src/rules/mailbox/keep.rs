//! Files that are attached to mail, each kept once, by its content.
//!
//! Who has stored a file, or has a thread that it is attached to, may attach it. To everybody else it
//! is as if it were not there (X6), or a hash alone would tell that somebody has the file, and lead to
//! its bytes. So what is refused does not depend on what others stored, and a second role sends all
//! bytes, which nobody writes again.

use std::collections::BTreeSet;

use tasuki_proto::{id::RoleId, limits::ATTACHMENTS_BYTES_MAX};

use super::{
    AttachmentKept, ContentHash, Event, File, FileBody, MAILBOXES_MAX, Mailboxes, StoreAttachment,
    ThreadNumber,
};
use crate::rules::{Body, Decision, Rejection, Reply};

impl Mailboxes {
    pub(super) fn decide_keep(&self, it: &StoreAttachment) -> Result<Decision, Rejection> {
        if self.size_of_known(&it.role, &it.hash).is_some() {
            return Ok(Decision::repeat(Reply::Done));
        }
        let size = it.content.len() as u64;
        if ATTACHMENTS_BYTES_MAX < self.attachment_bytes + size {
            return Err(Rejection::TooManyAttachments);
        }
        if self.number(&it.role).is_none() && MAILBOXES_MAX <= self.mailboxes.len() {
            return Err(Rejection::TooManyMailboxes);
        }
        let kept = AttachmentKept { hash: it.hash, size, role: it.role.clone() };
        let mut decision = Decision::new([Event::Kept(kept)], Reply::Done);
        if !self.files.contains_key(&it.hash) {
            decision
                .bodies
                .push(Body::File(FileBody { hash: it.hash, content: it.content.clone() }));
        }
        Ok(decision)
    }

    /// How many bytes the file has, if this role stored it or got it.
    pub fn size_of_known(&self, role: &RoleId, hash: &ContentHash) -> Option<u64> {
        let (file, role) = (self.files.get(hash)?, self.number(role)?);
        let has_copy = |thread: &ThreadNumber| self.threads.get(*thread).copy_of(role).is_some();
        let is_known = file.roles.contains(&role) || file.threads.iter().any(has_copy);
        is_known.then_some(file.size)
    }

    pub(super) fn attached(&mut self, thread: ThreadNumber, files: &[ContentHash]) {
        for hash in files {
            let file = self.files.get_mut(hash);
            file.expect("X6: only what is kept is attached").threads.insert(thread);
        }
    }

    pub(super) fn kept(&mut self, it: &AttachmentKept) {
        let role = self.number_or_new(&it.role);
        let file = self.files.entry(it.hash).or_insert_with(|| {
            self.attachment_bytes += it.size;
            File { size: it.size, roles: BTreeSet::new(), threads: BTreeSet::new() }
        });
        assert!(file.size == it.size, "X6: a file of {} bytes has {}", file.size, it.size);
        file.roles.insert(role);
    }
}
