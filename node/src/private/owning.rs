//! What an owner does to a roster: vouch for a key, let one go, turn private mail on and off.
//!
//! Nothing is ever taken out of a roster: a key that is no longer in use still proves what was
//! written with it.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::{NodeId, RoleId},
    limits::ROSTER_KEYS_MAX,
    private::{NodeKey, Plays, Roster, Vouched},
};

/// How long the old key of a node counts once its new one does, in milliseconds: what is on its
/// way, or waits at a node that has not seen the new roster, was signed with the old.
pub const ROTATION_GRACE_MS: u64 = 10 * 60 * 1000;

/// Why a roster stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unchanged {
    #[error("the roster has {ROSTER_KEYS_MAX} keys, which is the limit")]
    Full,
    #[error("no key of {0} is in use")]
    Unknown(NodeId),
}

/// The next roster, in which `key` has exactly the roles it asks for, and other keys of its node
/// come to their end.
pub fn vouch(roster: &Roster, key: &NodeKey, now_ms: u64) -> Result<Roster, Unchanged> {
    let mut next = after(roster);
    let id = key.id();
    for other in next.keys.iter_mut().filter(|it| it.node == key.node && it.id() != id) {
        if other.is_in_use() {
            other.retired_ms = now_ms.saturating_add(ROTATION_GRACE_MS);
        }
    }
    let count = next.keys.len();
    match next.keys.iter_mut().find(|it| it.id() == id) {
        Some(known) => {
            known.node.clone_from(&key.node);
            known.retired_ms = 0;
            let mut new: BTreeSet<&RoleId> = key.roles.iter().collect();
            for plays in &mut known.roles {
                plays.is_now = new.remove(&plays.role);
            }
            let new = key.roles.iter().filter(|role| new.contains(role));
            known.roles.extend(new.map(|role| Plays { role: role.clone(), is_now: true }));
        }
        None if ROSTER_KEYS_MAX <= count => return Err(Unchanged::Full),
        None => next.keys.push(Vouched {
            node: key.node.clone(),
            sign: key.sign,
            seal: key.seal,
            retired_ms: 0,
            roles: key
                .roles
                .iter()
                .map(|role| Plays { role: role.clone(), is_now: true })
                .collect(),
        }),
    }
    Ok(next)
}

/// The next roster, in which no key of `node` is in use: nothing more is sealed for it, and what
/// it signs from now on does not count.
pub fn let_go(roster: &Roster, node: &NodeId, now_ms: u64) -> Result<Roster, Unchanged> {
    let mut next = after(roster);
    let mut was_there = false;
    for key in next.keys.iter_mut().filter(|it| it.node == *node) {
        if key.is_in_use() || now_ms < key.retired_ms {
            key.retired_ms = now_ms.max(1);
            was_there = true;
        }
    }
    if was_there { Ok(next) } else { Err(Unchanged::Unknown(node.clone())) }
}

/// The next roster, with private mail on or off.
pub fn turned(roster: &Roster, is_on: bool) -> Roster {
    Roster { is_on, ..after(roster) }
}

fn after(roster: &Roster) -> Roster {
    Roster { number: roster.number.saturating_add(1), ..roster.clone() }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use tasuki_proto::private::OwnerKey;

    use super::*;

    fn key(node: &str, seed: u8, roles: &[&str]) -> NodeKey {
        let roles = roles.iter().map(|role| role.parse().unwrap()).collect();
        let secret = SigningKey::from_bytes(&[seed; 32]);
        NodeKey::proven(&"w".parse().unwrap(), node.parse().unwrap(), roles, &secret, [seed; 32])
    }

    fn told(roster: &Roster) -> String {
        let keys = roster.keys.iter().map(|it| {
            let roles = it.roles.iter().map(|it| match it.is_now {
                true => it.role.to_string(),
                false => format!("({})", it.role),
            });
            let roles = roles.collect::<Vec<_>>().join(",");
            format!(" {}/{}:{roles}@{}", it.node, it.seal[0], it.retired_ms)
        });
        format!("{}{}", roster.number, keys.collect::<String>())
    }

    #[test]
    fn what_an_owner_does_step_by_step() {
        let owner = OwnerKey([0; 32]);
        let workspace = "w".parse().unwrap();
        let mut roster = Roster { workspace, owner, number: 0, is_on: true, keys: Vec::new() };
        let (n1, n2) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        roster = vouch(&roster, &key("n1", 1, &["A"]), 5).unwrap();
        assert_eq!(told(&roster), "1 n1/1:A@0");
        roster = vouch(&roster, &key("n2", 2, &["B", "C"]), 5).unwrap();
        assert_eq!(told(&roster), "2 n1/1:A@0 n2/2:B,C@0");
        // A role moved.
        roster = vouch(&roster, &key("n2", 2, &["C", "A"]), 5).unwrap();
        assert_eq!(told(&roster), "3 n1/1:A@0 n2/2:(B),C,A@0");
        // A key was rotated.
        roster = vouch(&roster, &key("n1", 3, &["A"]), 5).unwrap();
        assert_eq!(told(&roster), "4 n1/1:A@600005 n2/2:(B),C,A@0 n1/3:A@0");
        roster = let_go(&roster, &n1, 9).unwrap();
        assert_eq!(told(&roster), "5 n1/1:A@9 n2/2:(B),C,A@0 n1/3:A@9");
        assert_eq!(let_go(&roster, &n1, 10), Err(Unchanged::Unknown(n1)));
        let off = turned(&let_go(&roster, &n2, 9).unwrap(), false);
        assert_eq!(
            (told(&off), off.is_on),
            ("7 n1/1:A@9 n2/2:(B),C,A@9 n1/3:A@9".to_owned(), false)
        );
        // One that was let go may come back.
        roster = vouch(&roster, &key("n1", 1, &["A"]), 20).unwrap();
        assert_eq!(told(&roster), "6 n1/1:A@0 n2/2:(B),C,A@0 n1/3:A@9");
    }

    #[test]
    fn a_full_roster_says_so() {
        let owner = OwnerKey([0; 32]);
        let workspace = "w".parse().unwrap();
        let mut roster = Roster { workspace, owner, number: 0, is_on: true, keys: Vec::new() };
        for seed in 0..ROSTER_KEYS_MAX {
            let mut next = key("n1", u8::try_from(seed % 200).unwrap(), &["A"]);
            next.seal[1] = u8::try_from(seed / 200).unwrap();
            roster = vouch(&roster, &next, 1).unwrap();
        }
        assert_eq!(vouch(&roster, &key("n2", 250, &["A"]), 1), Err(Unchanged::Full));
    }
}
