//! Letters and moves: straight to the broker, or by way of the outbox while it is out of reach.
//!
//! What waits goes out by itself, each role's in order (O3); and nothing newer of a role goes past
//! it: that waits a moment for the rest to be gone, and else behind it.
//!
//! A letter whose answer was lost goes into the outbox under the key it had. An agent is then told
//! the same as when it never left, since what will be is the same: it is carried out once.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    limits::{SUBJECT_BYTES_MAX, TEXT_BYTES_MAX},
    reason::Reason,
    wire,
};
use tokio::time;

use super::keys;
use crate::{
    clock,
    link::{
        Link, LinkState,
        call::{GivenUp, is_away},
        channel::{self},
        keys as command_keys,
        retry::{Attempts, Backoff, UNREACHED_MS_MAX, chance},
    },
    outbox::{Counts, Entry, Failed, New, Outbox, Summary, What, thread_of},
    private::Fresh,
    role::{
        Refusal, Settling,
        mail::{Moving, Sent},
    },
};

/// Roles whose outbox is being emptied.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct Carriers(Arc<Mutex<BTreeSet<RoleId>>>);

/// What became of a letter or a move.
enum Done {
    Sent(wire::SendResponse),
    Moved(wire::MoveResponse),
    /// Under this number in the outbox.
    Queued(u64),
}

/// What follows a try to send something that waits.
enum Next {
    /// It waits no more.
    Further,
    /// The broker may take it another time.
    Later,
}

impl Link {
    /// Sends a letter of `role`. As with [`Link::hand_over`], whoever needs it carried through
    /// spawns it.
    pub async fn send_mail(
        &self,
        role: &RoleId,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        let key = self.mail_key(role, key)?;
        let mut request =
            wire::SendRequest { role: role.to_string(), caller: None, key: None, ..request };
        if request.in_reply_to.is_empty() && request.message_id.is_empty() {
            request.message_id = keys::begun_by(&key).to_string();
        }
        let message = thread_of(&request);
        match self.forward(role, key, What::Send(Box::new(request))).await? {
            Done::Sent(response) => Ok(Sent::Stored(response)),
            Done::Queued(number) => Ok(Sent::Queued { message, number }),
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
            Done::Queued(number) => Ok(Moving::Queued { number }),
            Done::Sent(_) => Err(another()),
        }
    }

    /// What waits in the outbox, or was refused late; of one role, or of all.
    pub fn outbox_of(&self, role: Option<&RoleId>) -> Vec<Summary> {
        let mut list = self.outbox.list();
        list.retain(|it| role.is_none_or(|role| it.role == *role));
        list
    }

    pub fn outbox_counts(&self) -> Counts {
        self.outbox.counts()
    }

    /// The agent of `role` was told that these were refused late.
    pub async fn mark_told(&self, role: &RoleId, numbers: &[u64]) {
        let own: BTreeSet<_> = self.outbox_of(Some(role)).into_iter().map(|it| it.number).collect();
        let numbers: Vec<_> = numbers.iter().copied().filter(|it| own.contains(it)).collect();
        if let Err(error) = self.outbox.mark_told(&numbers).await {
            // It is told once more.
            tracing::warn!(%error, "the outbox cannot be written to");
        }
    }

    /// A person decides about something in the outbox.
    pub async fn settle_mail(&self, number: u64, how: Settling) -> Result<bool, Refusal> {
        let is_settled = settle(&self.outbox, number, how).await?;
        self.carry_what_waits();
        Ok(is_settled)
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
        let _room = self.room()?;
        // Said once more, by somebody who did not hear that it waits.
        if let Some(summary) = self.outbox.find(role, &key) {
            return Ok(Done::Queued(summary.number));
        }
        match self.shared.ready().await {
            Ok(()) if self.is_clear_soon(role).await => {}
            Ok(()) => return self.queue(role, key, what, None).await,
            Err(refusal) if is_away(&refusal) && !self.shared.closing.is_cancelled() => {
                return self.queue(role, key, what, None).await;
            }
            Err(refusal) => return Err(refusal),
        }
        // Sealed once, before it is tried, so that each attempt says the same.
        let mut what = match self.sealed(what.clone()).await {
            Ok(what) => what,
            Err(refusal) if is_away(&refusal) => return self.queue(role, key, what, None).await,
            Err(refusal) => return Err(refusal),
        };
        let mut answer = self.deliver(&key, &what).await;
        if let Err(given_up) = answer {
            answer = match self.sealed_again(&what, given_up).await {
                Ok(sealed) => {
                    what = sealed;
                    self.deliver(&key, &what).await
                }
                Err(given_up) => Err(given_up),
            };
        }
        match answer {
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
        let clear = changes.wait_for(|_| is_clear());
        let soon = Duration::from_millis(UNREACHED_MS_MAX);
        matches!(time::timeout(soon, clear).await, Ok(Ok(_)))
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
        }
        let new = New {
            workspace: self.shared.settings.workspace.clone(),
            role: role.clone(),
            key,
            may_have_reached: lost.is_some(),
            queued_ms: clock::wall_ms(),
            what,
        };
        let kept = self.outbox.keep(new).await;
        let summary = kept.map_err(|why| lost.unwrap_or_else(|| why.refusal()))?;
        tracing::info!(%role, number = summary.number, "a letter waits for the broker");
        self.carry(role);
        Ok(Done::Queued(summary.number))
    }

    /// As it may leave this node.
    async fn sealed(&self, what: What) -> Result<What, Refusal> {
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

    async fn deliver(&self, key: &IdempotencyKey, what: &What) -> Result<Done, GivenUp> {
        let key = Some(command_keys::wire(key));
        match what {
            What::Send(request) => {
                let request = wire::SendRequest { key, ..(**request).clone() };
                let call = |channel, caller| {
                    let request = wire::SendRequest { caller: Some(caller), ..request.clone() };
                    async move { channel::mailbox(channel).send(request).await }
                };
                self.try_send(Attempts::default(), call).await.map(Done::Sent)
            }
            What::Move(request) => {
                let request = wire::MoveRequest { key, ..request.clone() };
                let call = |channel, caller| {
                    let request = wire::MoveRequest { caller: Some(caller), ..request.clone() };
                    async move { channel::mailbox(channel).r#move(request).await }
                };
                self.try_send(Attempts::default(), call).await.map(Done::Moved)
            }
        }
    }

    /// Begins to empty what earlier lives of the node left.
    pub(in crate::link) fn carry_what_waits(&self) {
        for role in self.outbox.roles(&self.shared.settings.workspace) {
            self.carry(&role);
        }
    }

    /// Sees to it that what waits of `role` goes out.
    fn carry(&self, role: &RoleId) {
        let mut carried = self.carriers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if carried.insert(role.clone()) {
            let (link, role) = (self.clone(), role.clone());
            self.spawn(async move { link.carry_all(&role).await });
        }
    }

    async fn carry_all(&self, role: &RoleId) {
        let mut backoff = Backoff::default();
        let closing = self.shared.closing.clone();
        while let Some(number) = self.next_to_carry(role) {
            let mut state = self.shared.state.subscribe();
            tokio::select! {
                () = closing.cancelled() => return,
                connected = state.wait_for(LinkState::is_connected) => if connected.is_err() {
                    return;
                }
            }
            match self.carry_one(number).await {
                Ok(Next::Further) => {
                    backoff.reset();
                    continue;
                }
                Ok(Next::Later) => {}
                Err(error) => tracing::error!(%error, number, "the outbox cannot be used"),
            }
            tokio::select! {
                () = closing.cancelled() => return,
                () = time::sleep(backoff.pause(chance())) => {}
            }
        }
    }

    /// What goes out next. When there is nothing, whatever comes later begins anew.
    fn next_to_carry(&self, role: &RoleId) -> Option<u64> {
        let mut carried = self.carriers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.outbox.next(&self.shared.settings.workspace, role);
        if next.is_none() {
            carried.remove(role);
        }
        next
    }

    async fn carry_one(&self, number: u64) -> std::io::Result<Next> {
        let Some(mut entry) = self.outbox.get(number).await? else { return Ok(Next::Further) };
        let before = entry.clone();
        let was_kept_back = !entry.may_have_reached;
        // Each attempt says the same, so what is sealed now is kept so.
        entry.what = match self.sealed(entry.what).await {
            Ok(what) => what,
            Err(refusal) => return self.refused(&before, &refusal).await,
        };
        // A key of somebody who went on counting may expire before it is used: then, and only
        // then, another is as good.
        entry.may_have_reached |= !keys::is_ours(&entry.key);
        if entry != before {
            self.outbox.update(&entry).await?;
        }
        let mut answer = self.deliver(&entry.key, &entry.what).await;
        if let Err(given_up) = answer {
            answer = match self.sealed_again(&entry.what, given_up).await {
                Ok(sealed) => {
                    entry.what = sealed;
                    self.outbox.update(&entry).await?;
                    self.deliver(&entry.key, &entry.what).await
                }
                Err(given_up) => Err(given_up),
            };
        }
        let refusal = match answer {
            Ok(done) => return self.carried(entry, done).await,
            Err(GivenUp { refusal, .. }) => refusal,
        };
        let can_be_renamed = was_kept_back && !keys::is_ours(&entry.key);
        if refusal.reason == Reason::KeyExpired && can_be_renamed {
            let Ok(key) = keys::alone() else { return Ok(Next::Later) };
            self.outbox.update(&Entry { key, may_have_reached: false, ..entry }).await?;
            return Ok(Next::Further);
        }
        self.refused(&entry, &refusal).await
    }

    /// For now, or for good.
    async fn refused(&self, entry: &Entry, refusal: &Refusal) -> std::io::Result<Next> {
        if may_be_taken_later(refusal.reason) {
            tracing::debug!(number = entry.number, %refusal, "a letter waits on");
            return Ok(Next::Later);
        }
        fail(&self.outbox, entry, refusal.reason.as_str(), &refusal.message).await?;
        Ok(Next::Further)
    }

    /// The broker has answered.
    async fn carried(&self, mut entry: Entry, done: Done) -> std::io::Result<Next> {
        if let (Done::Moved(response), What::Move(request)) = (done, &mut entry.what) {
            let refused = response.moved.iter().filter_map(|it| Some((it, it.refusal.as_ref()?)));
            let (names, refusals): (Vec<_>, Vec<_>) =
                refused.map(|(it, refusal)| (it.asked.clone(), refusal)).unzip();
            if let Some(first) = refusals.first() {
                request.messages = names;
                fail(&self.outbox, &entry, &first.reason, &first.message).await?;
                return Ok(Next::Further);
            }
        }
        self.outbox.remove(entry.number).await?;
        tracing::info!(role = %entry.role, number = entry.number, "a letter that waited was sent");
        Ok(Next::Further)
    }
}

/// Has something that failed go out again, or takes something out, that is then not sent unless it
/// just was. Whether it was there is answered.
pub async fn settle(outbox: &Outbox, number: u64, how: Settling) -> Result<bool, Refusal> {
    let settled = match how {
        // The broker has judged the key it had; and one of the role's own would push those of
        // what still waits out of the window.
        Settling::Retry => outbox.retry(number, keys::alone()?).await,
        Settling::Drop => outbox.remove(number).await,
    };
    settled.map_err(|why| unwritable(&why))
}

async fn fail(outbox: &Outbox, entry: &Entry, reason: &str, message: &str) -> std::io::Result<()> {
    tracing::warn!(role = %entry.role, number = entry.number, reason, "a letter was refused late");
    let failed = Failed {
        at_ms: clock::wall_ms(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        is_told: false,
    };
    outbox.fail(entry, failed).await
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
    Ok(())
}

/// Whether what was refused so may be taken when it is sent again, without anybody's doing.
fn may_be_taken_later(reason: Reason) -> bool {
    match reason {
        // Out of reach, overloaded, or about to be known again.
        Reason::Unavailable
        | Reason::Overloaded
        | Reason::OutcomeUnknown
        | Reason::StaleEpoch
        | Reason::Unauthenticated
        | Reason::NodeForbidden
        | Reason::RoleInUse
        | Reason::Lagged => true,
        Reason::InvalidArgument
        | Reason::TooLarge
        | Reason::UnknownRole
        | Reason::UnknownLoop
        | Reason::RoleForbidden
        | Reason::RoleRequired
        | Reason::NotYourTurn
        | Reason::LoopCompleted
        | Reason::LoopActive
        | Reason::LoopExists
        | Reason::TurnHeld
        | Reason::StaleToken
        | Reason::KeyReused
        | Reason::KeyExpired
        | Reason::RightForbidden
        | Reason::UnknownWorkspace
        | Reason::UnknownInvitation
        | Reason::InvitationSpent
        | Reason::UnknownToken
        | Reason::UnknownMessage
        | Reason::AmbiguousMessage
        | Reason::MessageExists
        | Reason::MailboxClosed
        | Reason::UnseenEntries
        | Reason::NotInInbox
        | Reason::UnknownAttachment
        | Reason::PrivateWorkspace
        | Reason::Compacted
        | Reason::Damaged => false,
    }
}

fn unwritable(why: &std::io::Error) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!("This node's outbox cannot be written to: {why}. Nothing was changed."),
    }
}

fn another() -> Refusal {
    Refusal {
        reason: Reason::OutcomeUnknown,
        message: "The answer is one to another command. Look at the mailbox.".to_owned(),
    }
}
