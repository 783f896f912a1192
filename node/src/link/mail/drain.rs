//! Empties the outbox, each role's in order (O3), whenever the broker can be reached.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tasuki_proto::{id::RoleId, reason::Reason};
use tokio::time;

use super::{forward::Done, keys};
use crate::{
    client::retry::{Backoff, chance, may_be_taken_later},
    clock,
    link::{Link, LinkState, call::GivenUp},
    outbox::{Counts, Entry, Failed, Outbox, Settling, Summary, Untold, What},
    refusal::Refusal,
};

/// Said of a letter whose key the broker no longer remembers.
const FORGOTTEN: &str = "the answer to it was lost, and the broker no longer knows whether it \
                         carried it out";

/// Roles whose outbox is being emptied.
#[derive(Debug, Clone, Default)]
pub(in crate::link) struct Drains(Arc<Mutex<BTreeSet<RoleId>>>);

/// As the receipt of a letter whose time was over at the broker.
const LAPSED: &str = "lapsed";

const TOO_LATE: &str = "The time in which it was to be seen was over before the broker could be \
                        reached. It was not sent. Send it again if it still matters.";

/// What follows a try to send something that waits.
enum Next {
    /// It waits no more.
    Further,
    /// The broker may take it another time.
    Later,
}

impl Link {
    /// What waits in the outbox, or was refused late, of all roles.
    pub fn outbox(&self) -> Vec<Summary> {
        self.outbox.list()
    }

    pub fn outbox_counts(&self) -> Counts {
        self.outbox.counts()
    }

    /// What of `role` was refused late, and its agent was not told: the oldest `max` of it.
    pub fn untold(&self, role: &RoleId, max: usize) -> Untold {
        self.outbox.untold(role, max)
    }

    /// What of `role` is in the outbox about a thread, by any of its names.
    pub fn kept(&self, role: &RoleId, names: &[String]) -> Vec<Summary> {
        self.outbox.about(role, names)
    }

    /// The agent of `role` was told that these were refused late.
    pub async fn mark_told(&self, role: &RoleId, told: Untold) {
        if let Err(error) = self.outbox.mark_told(role, told).await {
            // It is told once more.
            tracing::warn!(%error, "the outbox cannot be written to");
        }
    }

    /// A person decides about something in the outbox.
    pub async fn settle_mail(&self, number: u64, how: Settling) -> Result<bool, Refusal> {
        let is_settled = settle(&self.outbox, number, how).await?;
        self.drain_outbox();
        Ok(is_settled)
    }

    /// Begins to empty what earlier lives of the node left.
    pub(in crate::link) fn drain_outbox(&self) {
        for role in self.outbox.roles(&self.shared.settings.workspace) {
            self.drain(&role);
        }
    }

    /// Sees to it that what waits of `role` goes out.
    pub(super) fn drain(&self, role: &RoleId) {
        let mut draining = self.drains.0.lock();
        if draining.insert(role.clone()) {
            let (link, role) = (self.clone(), role.clone());
            self.spawn(async move { link.drain_role(&role).await });
        }
    }

    async fn drain_role(&self, role: &RoleId) {
        let mut backoff = Backoff::default();
        let closing = self.shared.closing.clone();
        while let Some(number) = self.next_entry(role) {
            let mut state = self.shared.state.subscribe();
            tokio::select! {
                () = closing.cancelled() => return,
                connected = state.wait_for(LinkState::is_connected) => if connected.is_err() {
                    return;
                }
            }
            match self.send_entry(number).await {
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
    fn next_entry(&self, role: &RoleId) -> Option<u64> {
        let mut draining = self.drains.0.lock();
        let next = self.outbox.next(&self.shared.settings.workspace, role);
        if next.is_none() {
            draining.remove(role);
        }
        next
    }

    async fn send_entry(&self, number: u64) -> std::io::Result<Next> {
        let Some(mut entry) = self.outbox.get(number).await? else { return Ok(Next::Further) };
        let before = entry.clone();
        let was_kept_back = !entry.may_have_reached;
        if entry.tried_ms.is_none() && has_a_time(&entry.what) {
            entry.tried_ms = Some(clock::steady_ms());
        }
        let Some(what) = entry.in_time() else {
            fail(&self.outbox, &before, LAPSED, TOO_LATE).await?;
            return Ok(Next::Further);
        };
        let sealed = match self.sealed(what).await {
            Ok(sealed) => sealed,
            Err(refusal) => return self.refused(&before, &refusal).await,
        };
        // A key of somebody who went on counting may expire before it is used: then, and only
        // then, another is as good.
        entry.may_have_reached |= !keys::is_ours(&entry.key);
        if entry != before {
            self.outbox.update(&entry).await?;
        }
        let refusal = match self.deliver(&entry.key, &sealed).await {
            Ok(done) => return self.entry_answered(entry, done).await,
            Err(GivenUp { refusal, .. }) => refusal,
        };
        // A key of ours names one letter: the broker has it, in the clear from before mail was
        // private, or sealed from before it ceased to be.
        let is_letter = matches!(entry.what, What::Send(_));
        if refusal.reason == Reason::KeyReused && is_letter && keys::is_ours(&entry.key) {
            self.outbox.remove(entry.number).await?;
            tracing::info!(role = %entry.role, number, "a letter that waited had been sent");
            return Ok(Next::Further);
        }
        let can_be_renamed = was_kept_back && !keys::is_ours(&entry.key);
        if refusal.reason == Reason::KeyExpired && can_be_renamed {
            let Ok(key) = keys::alone() else { return Ok(Next::Later) };
            let again = Entry { key, may_have_reached: false, tried_ms: None, ..entry };
            self.outbox.update(&again).await?;
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
        // Of what went out before under this key nobody knows any more.
        let is_forgotten = refusal.reason == Reason::KeyExpired && entry.may_have_reached;
        let (reason, message) = match is_forgotten {
            true => (Reason::OutcomeUnknown, FORGOTTEN),
            false => (refusal.reason, refusal.message.as_str()),
        };
        fail(&self.outbox, entry, reason.as_str(), message).await?;
        Ok(Next::Further)
    }

    /// The broker has answered.
    async fn entry_answered(&self, mut entry: Entry, done: Done) -> std::io::Result<Next> {
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

/// Whether it is to be seen by a time.
fn has_a_time(what: &What) -> bool {
    matches!(what, What::Send(request) if request.expires_in_ms != 0)
}

fn unwritable(why: &std::io::Error) -> Refusal {
    Refusal {
        reason: Reason::Unavailable,
        message: format!("This node's outbox cannot be written to: {why}. Nothing was changed."),
    }
}
