//! Who somebody becomes, and which ids stay.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use tasuki_proto::swarm::Stamp;

use super::super::roles::Renaming;
use crate::filebox::role_of;

/// Roles and ids of what is taken over, with those that are called otherwise here.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: Vec<Renaming>,
    /// Of roles and ids, old and new.
    pub changed: BTreeMap<String, String>,
}

impl Names {
    pub(super) fn new(given: Vec<Renaming>) -> Self {
        Self { given, changed: BTreeMap::new() }
    }

    /// Empty for nobody.
    pub(super) fn role(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let given = self.given.iter().rfind(|it| it.old == name);
        let role = given.map_or_else(|| role_of(name), |it| it.new.clone()).to_string();
        if role != name {
            self.changed.insert(name.to_owned(), role.clone());
        }
        role
    }

    /// The id as it is, else one that its name makes: always the same.
    pub(super) fn id<T>(&mut self, name: &str, at_ms: u64, of: fn(Stamp) -> T) -> T
    where
        T: FromStr + Display,
    {
        if let Ok(id) = name.parse() {
            return id;
        }
        let hash = blake3::hash(name.as_bytes());
        let tail: [u8; 4] = [0, 1, 2, 3].map(|at: usize| hash.as_bytes()[at]);
        let id = of(Stamp { ms: at_ms, tail: u32::from_be_bytes(tail) });
        self.changed.insert(name.to_owned(), id.to_string());
        id
    }
}
