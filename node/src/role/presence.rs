//! Whether somebody plays a role, shared between who calls and who tells the broker.
//!
//! It lives beside the role's actor, not in it: a connection stays open when the actor starts
//! anew.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::state::Signs;
use crate::clock::{self, Moment};

/// One role's signs of life.
#[derive(Debug, Clone, Default)]
pub struct Presence(Arc<Mutex<Signs>>);

impl Presence {
    pub fn called(&self, client: &str) {
        self.signs().called(clock::now(), client);
    }

    /// Whether the role's agent answered when it was asked for a sign of life.
    pub fn answers(&self, is_answered: bool) {
        let mut signs = self.signs();
        if is_answered { signs.answered(clock::now()) } else { signs.fell_asleep() }
    }

    /// Something of the role's is open until the guard is dropped.
    pub fn open(&self) -> Open {
        self.signs().opened(clock::now());
        Open(self.clone())
    }

    /// How long ago the last sign was, and whose; `None`: there was none.
    pub fn quiet(&self, now: Moment) -> Option<(Duration, String)> {
        let signs = self.signs();
        Some((signs.quiet(now)?, signs.client().to_owned()))
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection or wait.
#[derive(Debug)]
pub struct Open(Presence);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.signs().closed(clock::now());
    }
}
