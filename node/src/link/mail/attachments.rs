//! Attached files on their way: in pieces, from the start again when the connection broke.
//!
//! What is stored is named by its content, so sending a file again changes nothing; and both ways
//! nothing passes whose BLAKE3 is not the one it is named by. A transfer is judged by whether
//! bytes move, and not by how long it takes in all: 16 MiB over a slow line are minutes.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use tasuki_proto::{
    id::RoleId,
    limits::{ATTACHMENT_BYTES_MAX, CHUNK_BYTES_MAX},
    reason::Reason,
    wire,
};
use tokio::{sync::Notify, time};
use tonic::{Response, Status};

use crate::{
    client::{
        channel::{self, ATTEMPT_MS_MAX, Channel},
        retry::{Backoff, Failure, chance},
    },
    link::{Link, state::turned_away},
    private::Unsealable,
    refusal::Refusal,
};

/// Transfers of a node under way: each has a file of at most 16 MiB in memory.
pub(in crate::link) const TRANSFERS_MAX: usize = 4;

/// How often a transfer begins anew: a broker restarts once, a connection breaks twice.
const TRIES_MAX: u32 = 4;

/// One transfer with all its tries, in milliseconds: 16 MiB at one megabit a second.
const TRANSFER_MS_MAX: u64 = 150_000;

/// Beats whenever bytes moved.
type Pulse = Arc<Notify>;

impl Link {
    /// Stores a file, to be attached.
    pub async fn put_attachment(
        &self,
        role: &RoleId,
        attachment: &wire::Attachment,
        content: Bytes,
    ) -> Result<(), Refusal> {
        let _permit = self.calls.acquire(role).await?;
        check_size(attachment.size)?;
        check(attachment, &content).map_err(|what| Refusal {
            reason: Reason::InvalidArgument,
            message: format!(
                "The file is not what its description says: {what}. Nothing was sent."
            ),
        })?;
        self.may_leave_plain(Unsealable::Files).await?;
        let head = wire::PutAttachmentHead {
            caller: None,
            role: role.to_string(),
            size: attachment.size,
            hash: attachment.hash.clone(),
        };
        let put = |channel, caller, pulse: Pulse| {
            let head = wire::PutAttachmentHead { caller: Some(caller), ..head.clone() };
            let pieces = pieces(head, content.clone()).inspect(move |_| pulse.notify_one());
            async move { channel::mailbox(channel).put_attachment(pieces).await }
        };
        self.transfer(put).await.map(|_stored| ())
    }

    /// The content of a file attached to a thread that `role` has a copy of.
    pub async fn get_attachment(
        &self,
        role: &RoleId,
        message: &str,
        attachment: &wire::Attachment,
    ) -> Result<Bytes, Refusal> {
        let _permit = self.calls.acquire(role).await?;
        check_size(attachment.size)?;
        let get = |channel, caller, pulse: Pulse| {
            let request = wire::GetAttachmentRequest {
                caller: Some(caller),
                role: role.to_string(),
                message: message.to_owned(),
                hash: attachment.hash.clone(),
            };
            async move {
                let mut pieces =
                    channel::mailbox(channel).get_attachment(request).await?.into_inner();
                let mut content = BytesMut::new();
                while let Some(piece) = pieces.message().await? {
                    pulse.notify_one();
                    if attachment.size < (content.len() + piece.chunk.len()) as u64 {
                        return Err(Reason::Damaged.status("it has more bytes than it should"));
                    }
                    content.extend_from_slice(&piece.chunk);
                }
                Ok(Response::new(content.freeze()))
            }
        };
        let content = self.transfer(get).await?;
        check(attachment, &content).map_err(|what| Refusal {
            reason: Reason::Damaged,
            message: format!("The file that came is not the one that was attached: {what}."),
        })?;
        Ok(content)
    }

    /// Begins anew until it is through, as long as that has no effect beyond the file's being
    /// there.
    async fn transfer<T, F>(
        &self,
        call: impl Fn(Channel, wire::Caller, Pulse) -> F,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let _room = self.transfers.acquire().await?;
        let shared = &self.shared;
        let mut backoff = Backoff::default();
        let whole = async {
            let mut tries = 1;
            loop {
                shared.ready().await?;
                let epoch = shared.epoch();
                let pulse = Pulse::default();
                let attempt = call(shared.client.channel(), shared.caller(), pulse.clone());
                let failure = match moving(attempt, &pulse).await {
                    Ok(done) => return Ok(done),
                    Err(failure) => failure,
                };
                if failure.is_of_connection() {
                    shared.suspect.notify_one();
                }
                let refusal = match failure {
                    Failure::Refused(refusal) => return Err(refusal),
                    Failure::TurnedAway(refusal) => return Err(turned_away(refusal)),
                    Failure::StaleEpoch(_) if tries < TRIES_MAX => {
                        shared.renew(epoch, Duration::from_millis(ATTEMPT_MS_MAX)).await?;
                        tries += 1;
                        continue;
                    }
                    Failure::StaleEpoch(message) => Refusal { reason: Reason::StaleEpoch, message },
                    Failure::NotTaken(refusal) => refusal,
                    Failure::Lost(why) | Failure::Unsure(why) => not_through(&why),
                };
                if tries == TRIES_MAX {
                    return Err(refusal);
                }
                tries += 1;
                time::sleep(backoff.pause(chance())).await;
            }
        };
        let whole = time::timeout(Duration::from_millis(TRANSFER_MS_MAX), whole);
        whole.await.unwrap_or_else(|_| Err(not_through("it took too long")))
    }
}

fn not_through(why: &str) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!("The file did not get through ({why}). Call again: that does no harm."),
    }
}

/// Ends when nothing moved for as long as one attempt at any call may take.
async fn moving<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
    pulse: &Notify,
) -> Result<T, Failure> {
    let mut call = std::pin::pin!(call);
    let still = Duration::from_millis(ATTEMPT_MS_MAX);
    loop {
        tokio::select! {
            answer = &mut call => {
                return answer.map(Response::into_inner).map_err(|status| Failure::of(&status));
            }
            moved = time::timeout(still, pulse.notified()) => if moved.is_err() {
                return Err(Failure::Lost(format!("nothing moved for {ATTEMPT_MS_MAX} ms")));
            }
        }
    }
}

fn pieces(
    head: wire::PutAttachmentHead,
    content: Bytes,
) -> impl futures::Stream<Item = wire::PutAttachmentRequest> {
    use wire::put_attachment_request::Part;
    let request = |part| wire::PutAttachmentRequest { part: Some(part) };
    let head = futures::stream::iter([request(Part::Head(head))]);
    let chunks = (0..content.len()).step_by(CHUNK_BYTES_MAX);
    let chunks = futures::stream::iter(chunks).map(move |from| {
        let end = content.len().min(from + CHUNK_BYTES_MAX);
        request(Part::Chunk(content.slice(from..end).into()))
    });
    head.chain(chunks)
}

fn check_size(size: u64) -> Result<(), Refusal> {
    if size <= ATTACHMENT_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal {
        reason: Reason::TooLarge,
        message: format!(
            "The file has {size} bytes; an attached file has at most {ATTACHMENT_BYTES_MAX}. \
             Nothing was sent."
        ),
    })
}

/// Whether `content` is what `attachment` says, or what is different.
fn check(attachment: &wire::Attachment, content: &[u8]) -> Result<(), String> {
    if content.len() as u64 != attachment.size {
        return Err(format!("{} bytes instead of {}", content.len(), attachment.size));
    }
    let hash = blake3::hash(content).to_hex();
    if hash.as_str() != attachment.hash {
        return Err(format!("its BLAKE3 is {hash} instead of {}", attachment.hash));
    }
    Ok(())
}
