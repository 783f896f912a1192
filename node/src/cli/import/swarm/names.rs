//! Who somebody becomes, and which ids stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    str::FromStr,
};

use tasuki_proto::swarm::Stamp;

use super::super::roles::Renaming;
use crate::filebox::role_of;

/// Roles and ids of what is taken over, with those that are called otherwise here.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: Vec<Renaming>,
    /// An id is of a time before this one.
    now_ms: u64,
    /// Of roles and ids, old and new.
    pub changed: BTreeMap<String, String>,
    /// By role, who becomes it without the operator's having said so.
    becoming: BTreeMap<String, BTreeSet<String>>,
}

impl Names {
    pub(super) fn new(given: Vec<Renaming>, now_ms: u64) -> Self {
        Self { given, now_ms, ..Self::default() }
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
        if given.is_none() {
            self.becoming.entry(role.clone()).or_default().insert(name.to_owned());
        }
        role
    }

    /// Roles that several become, with these.
    pub(super) fn merged(&self) -> BTreeMap<String, BTreeSet<String>> {
        let several = self.becoming.iter().filter(|(_, names)| 1 < names.len());
        several.map(|(role, names)| (role.clone(), names.clone())).collect()
    }

    /// The id as it is, else one that its name makes: always the same. A broker takes none of the
    /// future.
    pub(super) fn id<T>(&mut self, name: &str, at_ms: u64, of: fn(Stamp) -> T) -> T
    where
        T: FromStr + Display,
    {
        let is_past = |ms: u64| ms < self.now_ms;
        let ms = name.rsplit('_').nth(1).and_then(|it| it.parse::<u64>().ok());
        if let Ok(id) = name.parse()
            && ms.is_some_and(is_past)
        {
            return id;
        }
        let ms = if is_past(at_ms) { at_ms } else { 0 };
        let hash = blake3::hash(name.as_bytes());
        let tail: [u8; 4] = [0, 1, 2, 3].map(|at: usize| hash.as_bytes()[at]);
        let id = of(Stamp { ms, tail: u32::from_be_bytes(tail) });
        self.changed.insert(name.to_owned(), id.to_string());
        id
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::swarm::TaskMessageId;

    use super::*;

    #[test]
    fn an_id_of_the_future_is_replaced_by_one_of_the_past() {
        let mut names = Names::new(Vec::new(), 1_700_000_000_000);
        let mut id = |name: &str, at_ms| names.id(name, at_ms, TaskMessageId).0;
        let past = id("msg_1699999999999_0001", 7);
        assert_eq!((past.ms, past.tail), (1_699_999_999_999, 1));
        let late = id("msg_1700000000000_0001", 7);
        assert_eq!(late.ms, 7);
        assert_eq!(id("msg_1700000000000_0001", 7), late, "always the same");
        assert_eq!(id("msg_99999999999999_0001", 1_700_000_000_000).ms, 0);
        assert_eq!(id("no id", 8).ms, 8);
        assert_eq!(names.changed.len(), 3);
    }

    #[test]
    fn several_who_become_one_are_told() {
        let renaming: Renaming = "e vil=other".parse().unwrap();
        for (given, merged) in [
            (vec![], vec!["e-vil: e vil, e-vil", "evil: ../evil, evil"]),
            (vec![renaming], vec!["evil: ../evil, evil"]),
        ] {
            let mut names = Names::new(given, 0);
            for name in ["evil", "../evil", "evil", "e vil", "e-vil", "alone", "al one", ""] {
                names.role(name);
            }
            let told = |(role, names): (String, BTreeSet<String>)| {
                format!("{role}: {}", names.into_iter().collect::<Vec<_>>().join(", "))
            };
            let told: Vec<String> = names.merged().into_iter().map(told).collect();
            assert_eq!(told, merged);
        }
    }
}
