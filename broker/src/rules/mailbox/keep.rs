//! Files that are attached to mail, each kept once, by its content.

use tasuki_proto::limits::ATTACHMENTS_BYTES_MAX;

use super::{AttachmentKept, Event, Keep, Mailboxes};
use crate::rules::{Body, Decision, Rejection, Reply};

impl Mailboxes {
    pub(in crate::rules) fn decide_keep(&self, it: &Keep) -> Result<Decision, Rejection> {
        if self.attachments.contains_key(&it.hash) {
            return Ok(Decision::repeat(Reply::Done));
        }
        let size = it.content.len() as u64;
        if ATTACHMENTS_BYTES_MAX < self.attachment_bytes + size {
            return Err(Rejection::TooManyAttachments);
        }
        let kept = AttachmentKept { hash: it.hash, size };
        let mut decision = Decision::new(vec![Event::Kept(kept).into()], Reply::Done);
        decision.bodies.push(Body::File(it.clone()));
        Ok(decision)
    }
}
