//! Taking a lock, so that in the end it is told to its agent or free.
//!
//! An agent may leave, or take its call back, while its lock is being granted or after that, until
//! the answer is [given](crate::mcp::transport::write_ack::Fate). Then the lock is given back, so that
//! whoever waits for the files need not wait for its lease.
//!
//! - **LK1** A lock is given back when all answers that would have told of it were taken back: an
//!   agent that calls again is answered with the same lock.
//! - **LK2** An intent that may be said again is answered with the same lock, which stays.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tasuki_proto::{id::RoleId, wire};
use tokio::{runtime::Handle, sync::oneshot};

use super::caller::Caller;
use crate::{
    link::retry::outcome_unknown,
    mcp::intent,
    role::{Actions, Refusal},
};

/// The locks of one role, by their leases, that answers on their way tell of. While it is held
/// nothing else is locked or given back here as that role.
type Untold = Arc<tokio::sync::Mutex<BTreeMap<String, Weak<AtomicBool>>>>;

/// What is granted and not told yet, of each role.
#[derive(Debug, Default)]
pub(in crate::mcp) struct LockGrants(Mutex<BTreeMap<RoleId, Untold>>);

impl LockGrants {
    fn of(&self, role: &RoleId) -> Untold {
        let mut all = self.0.lock();
        Arc::clone(all.entry(role.clone()).or_default())
    }
}

/// A lock that an answer is about to tell of. Dropped, it was told.
#[derive(Debug)]
struct Telling {
    /// Whether some answer told of it.
    is_told: Option<Arc<AtomicBool>>,
}

impl Telling {
    /// The answer is not given. True: none else tells of the lock.
    fn end_untold(mut self) -> bool {
        let is_told = self.is_told.take().and_then(Arc::into_inner);
        is_told.is_some_and(|it| !it.into_inner())
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if let Some(is_told) = &self.is_told {
            is_told.store(true, Ordering::Relaxed);
        }
    }
}

/// Locks files, or says why not.
pub(super) async fn lock_files(
    caller: &Caller<'_>,
    request: wire::LockFilesRequest,
) -> Result<wire::LockResponse, Refusal> {
    let _playing = caller.enter()?;
    let (actions, probe) = (Arc::clone(&caller.actions), caller.call.probe.clone());
    let untold = caller.call.host.grants.of(caller.role());
    let key = intent::of(&caller.call.context.meta);
    let may_be_said_again = key.is_some();
    let (tell, told) = oneshot::channel();
    let (keep, kept) = oneshot::channel();
    let (of_call, locks, fate) = (Arc::clone(&actions), Arc::clone(&untold), probe.clone());
    tokio::spawn(async move {
        let mut untold = locks.lock().await;
        let answer = of_call.command(request, key).await;
        let lock = answer.as_ref().ok().and_then(|it| Some((it.lock.clone()?, it.repeated)));
        let is_told = lock.as_ref().and_then(|(lock, is_repeat)| {
            let known = untold.get(&lock.lease_id).and_then(Weak::upgrade);
            known.or_else(|| (!is_repeat).then(Arc::default))
        });
        untold.retain(|_, it| it.strong_count() != 0);
        if let (Some((lock, _)), Some(is_told)) = (&lock, &is_told) {
            untold.insert(lock.lease_id.clone(), Arc::downgrade(is_told));
        }
        let is_heard = tell.send((answer, is_told.clone())).is_ok() && kept.await.is_ok();
        let (false, Some((lock, _)), Some(is_told)) = (is_heard, lock, is_told) else { return };
        let telling = Telling { is_told: Some(is_told) };
        if !may_be_said_again || fate.is_some_and(|it| it.fate().is_disowned()) {
            give_back(&*of_call, lock, telling).await;
        }
    });
    let lost = |_| (Err(outcome_unknown("the node stopped or failed before the result")), None);
    let (answer, is_told) = told.await.unwrap_or_else(lost);
    if let (Ok(it), Some(is_told), Some(probe)) = (&answer, is_told, probe) {
        let telling = Telling { is_told: Some(is_told) };
        let (runtime, lock) = (Handle::current(), it.lock.clone().unwrap_or_default());
        let back = async move {
            let _alone = untold.lock().await;
            give_back(&*actions, lock, telling).await;
        };
        probe.fate().unless_given(may_be_said_again, move || drop(runtime.spawn(back)));
    }
    // From here on nothing waits.
    let _ = keep.send(());
    answer
}

/// One that cannot be given back lapses.
async fn give_back(actions: &dyn Actions, lock: wire::Lock, telling: Telling) {
    if telling.end_untold() {
        let wire::Lock { lease_id, lock_token, .. } = lock;
        let back = wire::UnlockRequest { lease_id, lock_token, ..Default::default() };
        drop(actions.command(back, None).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling(is_told: &Arc<AtomicBool>) -> Telling {
        Telling { is_told: Some(Arc::clone(is_told)) }
    }

    /// Holds LK1 and LK2.
    #[test]
    fn a_lock_is_given_back_when_no_answer_tells_of_it() {
        let both = || {
            let is_told = Arc::default();
            (telling(&is_told), telling(&is_told))
        };
        let (first, second) = both();
        assert!(!first.end_untold() && second.end_untold());
        let (first, second) = both();
        drop(first);
        assert!(!second.end_untold());
        let (first, second) = both();
        assert!(!first.end_untold());
        drop(second);
    }
}
