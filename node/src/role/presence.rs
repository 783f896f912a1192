//! Whether somebody plays a role, shared between who calls and who tells the broker.
//!
//! It lives beside the role's actor, not in it: a connection stays open when the actor starts
//! anew.

use std::{sync::Arc, time::Duration};

use super::{player::Instance, state::Signs};
use crate::clock::{self, Moment};
use parking_lot::{Mutex, MutexGuard};

/// One role's signs of life.
#[derive(Debug, Clone, Default)]
pub struct Presence(Arc<Mutex<Signs>>);

impl Presence {
    pub fn called(&self, client: &str, by: Option<&Instance>) {
        self.signs().called(clock::now(), client, by);
    }

    pub fn given_to(&self, who: &Instance) {
        self.signs().given_to(who);
    }

    /// Whether an agent answered when it was asked for a sign of life.
    pub fn answers(&self, is_answered: bool, who: &Instance) {
        let mut signs = self.signs();
        if is_answered { signs.answered(clock::now(), who) } else { signs.fell_asleep(who) }
    }

    /// A connection of `who` is open until the guard is dropped.
    pub fn connected(&self, who: &Instance) -> Open {
        self.opened(Some(who.clone()))
    }

    /// A wait of whoever plays the role is open until the guard is dropped.
    pub fn wait(&self) -> Open {
        self.opened(None)
    }

    fn opened(&self, who: Option<Instance>) -> Open {
        self.signs().opened(clock::now(), who.as_ref());
        Open { presence: self.clone(), who }
    }

    /// How long ago the last sign was, and whose; `None`: there was none.
    pub fn quiet(&self, now: Moment) -> Option<(Duration, String)> {
        let signs = self.signs();
        Some((signs.quiet(now)?, signs.client().to_owned()))
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.0.lock()
    }
}

/// An open connection or wait.
#[derive(Debug)]
pub struct Open {
    presence: Presence,
    who: Option<Instance>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.presence.signs().closed(clock::now(), self.who.as_ref());
    }
}
