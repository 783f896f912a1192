//! Letters and moves: straight to the broker, or by way of the outbox while it is out of reach.
//!
//! Nothing newer of a role goes past what waits, and is [carried](super::drain) by itself: it waits
//! a moment for the rest to be gone, and else behind it.
//!
//! Where mail is private, a letter waits as it was written, in a file for this user alone, and is
//! sealed each time it is tried: the broker knows it again by its mark, whatever its bytes.
//!
//! A letter whose answer was lost goes into the outbox under the key it had. An agent is then told
//! the same as when it never left, since what will be is the same: it is carried out once.

use std::time::Duration;

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    limits::{CLIENT_REF_BYTES_MAX, SUBJECT_BYTES_MAX, TEXT_BYTES_MAX},
    mail::MessageId,
    reason::Reason,
    visible::is_line,
    wire,
};
use tokio::time;

use super::keys;
use crate::{
    client::{
        any::send_as,
        retry::{Attempts, UNREACHED_MS_MAX},
    },
    clock,
    link::{
        Link,
        call::{GivenUp, is_away},
        keys as command_keys,
    },
    outbox::{Before, New, Summarised, Summary, What},
    private::Fresh,
    refusal::Refusal,
};

/// What became of mail handed in.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// Durable at the broker.
    Stored(wire::SendResponse),
    /// In this node's outbox, durable: the broker is out of reach and gets it when it is back.
    Queued {
        /// Of the thread it begins, or as the sender named the thread it answers.
        message: String,
        /// Its place in the outbox, from 1.
        number: u64,
    },
}

/// What became of threads to be moved.
#[derive(Debug, Clone, PartialEq)]
pub enum Moving {
    Moved(wire::MoveResponse),
    /// As with [`Sent::Queued`].
    Queued {
        number: u64,
    },
}

/// What became of a letter or a move.
pub(super) enum Done {
    Sent(wire::SendResponse),
    Moved(wire::MoveResponse),
    /// In the outbox.
    Queued(Box<Summary>),
}

impl Link {
    /// Sends a letter of `role`. As with [`Link::call`], whoever needs it carried through spawns
    /// it.
    pub async fn send_mail(
        &self,
        role: &RoleId,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        let key = self.mail_key(role, key)?;
        let (_under_way, earlier) = self.sending.begin(role);
        let mut request = wire::SendRequest {
            role: role.to_string(),
            caller: None,
            key: None,
            earlier: earlier.into(),
            ..request
        };
        if request.in_reply_to.is_empty() && request.message_id.is_empty() {
            let (named, by_key) = (self.named(role, &request.client_ref), keys::begun_by(&key));
            request.message_id = named.unwrap_or(by_key).to_string();
            if named.is_some() {
                let anew = wire::SendRequest { message_id: by_key.to_string(), ..request.clone() };
                let sent = self.send_one(role, key.clone(), request).await;
                return match sent {
                    // So long ago that the broker has forgotten the name.
                    Err(refusal) if refusal.reason == Reason::MessageExists => {
                        self.send_one(role, key, anew).await
                    }
                    sent => sent,
                };
            }
        }
        self.send_one(role, key, request).await
    }

    /// The thread that a letter of this name begins.
    fn named(&self, role: &RoleId, name: &str) -> Option<MessageId> {
        let node = self.shared.keys.client();
        let workspace = &self.shared.settings.workspace;
        (!name.is_empty()).then(|| keys::begun_under(&node, workspace, role, name))
    }

    async fn send_one(
        &self,
        role: &RoleId,
        key: IdempotencyKey,
        request: wire::SendRequest,
    ) -> Result<Sent, Refusal> {
        match self.forward(role, key, What::Send(Box::new(request))).await? {
            Done::Sent(response) => Ok(Sent::Stored(response)),
            Done::Queued(summary) => match summary.what {
                Summarised::Send { message, .. } => {
                    Ok(Sent::Queued { message, number: summary.number })
                }
                Summarised::Move { .. } => Err(another()),
            },
            Done::Moved(_) => Err(another()),
        }
    }

    /// Resolves or rejects threads of `role`; carried through as [`Link::send_mail`] is.
    pub async fn move_mail(
        &self,
        role: &RoleId,
        request: wire::MoveRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal> {
        let key = self.mail_key(role, key)?;
        let request =
            wire::MoveRequest { role: role.to_string(), caller: None, key: None, ..request };
        match self.forward(role, key, What::Move(request)).await? {
            Done::Moved(response) => Ok(Moving::Moved(response)),
            Done::Queued(summary) => Ok(Moving::Queued { number: summary.number }),
            Done::Sent(_) => Err(another()),
        }
    }

    fn mail_key(
        &self,
        role: &RoleId,
        key: Option<IdempotencyKey>,
    ) -> Result<IdempotencyKey, Refusal> {
        key.map_or_else(|| self.mail_keys.next(role), Ok)
    }

    async fn forward(
        &self,
        role: &RoleId,
        key: IdempotencyKey,
        what: What,
    ) -> Result<Done, Refusal> {
        let _permit = self.calls.acquire(role).await?;
        // Said once more, by somebody who did not hear that it waits.
        if let Some(summary) = self.outbox.find(role, &key) {
            return Ok(Done::Queued(Box::new(summary)));
        }
        match self.shared.ready().await {
            Ok(()) if self.is_clear_soon(role).await => {}
            Ok(()) => return self.queue(role, key, what, None).await,
            Err(refusal) if is_away(&refusal) && !self.shared.closing.is_cancelled() => {
                return self.queue(role, key, what, None).await;
            }
            Err(refusal) => return Err(refusal),
        }
        let sealed = match self.sealed(what.clone()).await {
            Ok(sealed) => sealed,
            Err(refusal) if is_away(&refusal) => return self.queue(role, key, what, None).await,
            Err(refusal) => return Err(refusal),
        };
        // What waits is sealed when it goes out, for whoever may read it by then.
        match self.deliver(&key, &sealed).await {
            Ok(done) => Ok(done),
            Err(GivenUp { refusal, .. }) if refusal.reason == Reason::OutcomeUnknown => {
                self.queue(role, key, what, Some(refusal)).await
            }
            Err(GivenUp { refusal, is_away: true }) if is_away(&refusal) => {
                self.queue(role, key, what, None).await
            }
            Err(GivenUp { refusal, .. }) => Err(refusal),
        }
    }

    /// Whether nothing of `role` waits, or will not for long.
    async fn is_clear_soon(&self, role: &RoleId) -> bool {
        let workspace = &self.shared.settings.workspace;
        let is_clear = || self.outbox.next(workspace, role).is_none();
        if is_clear() {
            return true;
        }
        let mut changes = self.outbox.watch();
        // Looked at outside of the channel's own lock, which whoever changes the outbox takes.
        let clear = async {
            while !is_clear() {
                if changes.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        let soon = Duration::from_millis(UNREACHED_MS_MAX);
        time::timeout(soon, clear).await.unwrap_or(false)
    }

    /// Keeps it for later. `lost`: it may have reached the broker, and what is said if that is all
    /// that can be said.
    async fn queue(
        &self,
        role: &RoleId,
        key: IdempotencyKey,
        what: What,
        lost: Option<Refusal>,
    ) -> Result<Done, Refusal> {
        if lost.is_none() {
            check(&what)?;
            if let Some(summary) = self.said_before(role, &what)? {
                return Ok(Done::Queued(Box::new(summary)));
            }
        }
        let queued_ms = clock::steady_ms();
        let new = New {
            workspace: self.shared.settings.workspace.clone(),
            role: role.clone(),
            key,
            may_have_reached: lost.is_some(),
            queued_ms,
            tried_ms: lost.is_some().then_some(queued_ms),
            what,
        };
        let kept = self.outbox.keep(new).await;
        let summary = kept.map_err(|why| lost.unwrap_or_else(|| why.refusal()))?;
        tracing::info!(%role, number = summary.number, "a letter waits for the broker");
        self.drain(role);
        Ok(Done::Queued(Box::new(summary)))
    }

    /// Whether it waits already: an agent says the same again when it got no answer.
    fn said_before(&self, role: &RoleId, what: &What) -> Result<Option<Summary>, Refusal> {
        let What::Send(request) = what else { return Ok(None) };
        match self.outbox.said_before(&self.shared.settings.workspace, role, request) {
            None => Ok(None),
            Some(Before::Same(summary)) => Ok(Some(summary)),
            Some(Before::Other(summary)) => Err(Refusal {
                reason: Reason::KeyReused,
                message: format!(
                    "The letter that waits in this node's outbox as number {} has the name {:?} \
                     already, and says something else. Nothing of this one was taken. Take another \
                     name.",
                    summary.number, request.client_ref
                ),
            }),
        }
    }

    /// As it may leave this node.
    pub(super) async fn sealed(&self, what: What) -> Result<What, Refusal> {
        match what {
            What::Send(request) => {
                let sealed = self.sealer().seal(self, *request, Fresh::IfPrivate).await;
                sealed.map(|request| What::Send(Box::new(request)))
            }
            What::Move(request) => Ok(What::Move(request)),
        }
    }

    /// For a broker that takes nothing unsealed any more; else what it said.
    async fn sealed_again(&self, what: &What, given_up: GivenUp) -> Result<What, GivenUp> {
        let What::Send(request) = what else { return Err(given_up) };
        let GivenUp { refusal, is_away: was_away } = given_up;
        let again = self.sealer().seal_again(self, (**request).clone(), refusal).await;
        again
            .map(|request| What::Send(Box::new(request)))
            .map_err(|refusal| GivenUp { is_away: was_away || is_away(&refusal), refusal })
    }

    /// Sends it, and once more sealed to a broker that takes nothing unsealed any more.
    pub(super) async fn deliver(&self, key: &IdempotencyKey, what: &What) -> Result<Done, GivenUp> {
        match self.deliver_once(key, what).await {
            Ok(done) => Ok(done),
            Err(given_up) => {
                let sealed = self.sealed_again(what, given_up).await?;
                self.deliver_once(key, &sealed).await
            }
        }
    }

    async fn deliver_once(&self, key: &IdempotencyKey, what: &What) -> Result<Done, GivenUp> {
        let key = Some(command_keys::wire(key));
        match what {
            What::Send(request) => {
                let request = wire::SendRequest { key, ..(**request).clone() };
                let sent = |channel, caller| send_as(&request, channel, caller);
                self.try_send(Attempts::default(), sent).await.map(Done::Sent)
            }
            What::Move(request) => {
                let request = wire::MoveRequest { key, ..request.clone() };
                let moved = |channel, caller| send_as(&request, channel, caller);
                self.try_send(Attempts::default(), moved).await.map(Done::Moved)
            }
        }
    }
}

/// What can be known without the broker: an agent had better hear it at once.
fn check(what: &What) -> Result<(), Refusal> {
    let What::Send(request) = what else { return Ok(()) };
    for (name, text, limit) in
        [("subject", &request.subject, SUBJECT_BYTES_MAX), ("text", &request.text, TEXT_BYTES_MAX)]
    {
        if limit < text.len() {
            return Err(Refusal {
                reason: Reason::TooLarge,
                message: format!(
                    "The {name} has {} bytes; {limit} are the limit. Nothing was sent.",
                    text.len()
                ),
            });
        }
    }
    let name = &request.client_ref;
    if CLIENT_REF_BYTES_MAX < name.len() || !is_line(name) {
        return Err(Refusal {
            reason: Reason::InvalidArgument,
            message: format!(
                "`client_ref` is not a printable text of at most {CLIENT_REF_BYTES_MAX} bytes. \
                 Nothing was sent."
            ),
        });
    }
    Ok(())
}

fn another() -> Refusal {
    Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The answer is one to another command. Look at the mailbox.".to_owned(),
    }
}
