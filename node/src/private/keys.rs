//! The secret keys of this node: one to sign with and one to open with, made together.
//!
//! The newest is used as soon as the owner vouched for it, and the one before until then. Old
//! ones stay, to read with (Y8).

use std::{fmt, path::Path, sync::Arc};

use ed25519_dalek::SigningKey;
use hpke::{Deserializable as _, Kem as _, Serializable as _};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{NodeId, RoleId, WorkspaceId},
    private::{KeyId, NodeKey, Roster, Vouched},
};

use super::{
    envelope::Kem,
    store::{self, StoreError},
};
use crate::clock;

const FILE: &str = "mail-keys.json";

/// Keys of one node, old ones included: a rotation a week for a year, and more.
const KEYS_MAX: usize = 64;

/// One pair of secrets. `Debug` shows its fingerprint only.
#[derive(Clone)]
pub struct SecretKey {
    id: KeyId,
    sign: SigningKey,
    open: <Kem as hpke::Kem>::PrivateKey,
    seal: [u8; 32],
    made_ms: u64,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretKey").field(&self.id).finish()
    }
}

impl SecretKey {
    /// From 64 bytes of chance.
    pub(super) fn new(sign: &[u8; 32], open: &[u8; 32], made_ms: u64) -> Option<Self> {
        let open = <Kem as hpke::Kem>::PrivateKey::from_bytes(open).ok()?;
        let seal = Kem::sk_to_pk(&open).to_bytes().into();
        let sign = SigningKey::from_bytes(sign);
        let id = vouched_id(&sign, seal);
        Some(Self { id, sign, open, seal, made_ms })
    }

    /// What people compare.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    pub const fn made_ms(&self) -> u64 {
        self.made_ms
    }

    pub(super) const fn sign(&self) -> &SigningKey {
        &self.sign
    }

    pub(super) const fn open(&self) -> &<Kem as hpke::Kem>::PrivateKey {
        &self.open
    }

    /// Hashes what only this node can hash so.
    pub(super) fn marker(&self) -> blake3::Hasher {
        let secret = self.sign.to_bytes();
        blake3::Hasher::new_keyed(&blake3::derive_key("tasuki 2026 the same words again", &secret))
    }

    /// Its public halves, said by this node to a workspace.
    pub fn public(&self, workspace: &WorkspaceId, node: NodeId, roles: Vec<RoleId>) -> NodeKey {
        NodeKey::proven(workspace, node, roles, &self.sign, self.seal)
    }
}

fn vouched_id(sign: &SigningKey, seal: [u8; 32]) -> KeyId {
    let nobody = "none".parse().expect("it is an id");
    let sign = sign.verifying_key().to_bytes();
    Vouched { node: nobody, sign, seal, retired_ms: 0, roles: Vec::new() }.id()
}

/// The secret keys of a node, oldest first.
#[derive(Debug, Clone, Default)]
pub struct NodeKeys(Vec<Arc<SecretKey>>);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    keys: Vec<WrittenKey>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKey {
    fingerprint: String,
    sign: String,
    open: String,
    made_ms: u64,
}

impl NodeKeys {
    /// What is kept in `data`. Blocks on the disk.
    pub fn read(data: &Path) -> Result<Self, StoreError> {
        parse(data, &store::read(data, FILE)?)
    }

    /// The same, with a first key made if there was none. Blocks on the disk.
    pub fn with_one(data: &Path) -> Result<Self, StoreError> {
        Self::change(data, Vec::is_empty)
    }

    /// The same with one more, which is the newest from now on. Blocks on the disk.
    pub fn rotate(data: &Path) -> Result<Self, StoreError> {
        Self::change(data, |_| true)
    }

    fn change(
        data: &Path,
        is_wanted: impl FnOnce(&Vec<WrittenKey>) -> bool,
    ) -> Result<Self, StoreError> {
        store::change(data, FILE, |written: &mut Written| {
            parse(data, written)?;
            if is_wanted(&written.keys) {
                if KEYS_MAX <= written.keys.len() {
                    return Err(StoreError::Full(KEYS_MAX));
                }
                written.keys.push(fresh(data)?);
            }
            parse(data, written)
        })
    }

    #[cfg(test)]
    pub(super) fn of(keys: impl IntoIterator<Item = SecretKey>) -> Self {
        Self(keys.into_iter().map(Arc::new).collect())
    }

    pub fn newest(&self) -> Option<&Arc<SecretKey>> {
        self.0.last()
    }

    pub fn get(&self, id: &KeyId) -> Option<&Arc<SecretKey>> {
        self.0.iter().find(|it| it.id == *id)
    }

    /// The newest key that a roster lets write as `role`.
    pub fn in_use(&self, roster: &Roster, role: &RoleId) -> Option<&Arc<SecretKey>> {
        let plays = |it: &&Arc<SecretKey>| roster.key(&it.id).is_some_and(|it| it.plays(role));
        self.0.iter().rev().find(plays)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<SecretKey>> {
        self.0.iter()
    }
}

fn fresh(data: &Path) -> Result<WrittenKey, StoreError> {
    let (sign, open) = (store::chance()?, store::chance()?);
    let key = SecretKey::new(&sign, &open, clock::wall_ms())
        .ok_or_else(|| store::damaged(data, FILE, &"a key of it is none"))?;
    Ok(WrittenKey {
        fingerprint: key.id.to_string(),
        sign: store::to_text(&sign),
        open: store::to_text(&open),
        made_ms: key.made_ms,
    })
}

fn parse(data: &Path, written: &Written) -> Result<NodeKeys, StoreError> {
    let key = |it: &WrittenKey| {
        let key =
            SecretKey::new(&store::to_bytes(&it.sign)?, &store::to_bytes(&it.open)?, it.made_ms)?;
        (key.id.to_string() == it.fingerprint).then(|| Arc::new(key))
    };
    let keys = written.keys.iter().map(key).collect::<Option<Vec<_>>>();
    keys.map(NodeKeys).ok_or_else(|| store::damaged(data, FILE, &"a key of it is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_stay_and_are_this_users_own() {
        let data = tempfile::tempdir().unwrap();
        assert!(NodeKeys::read(data.path()).unwrap().newest().is_none());
        let first = NodeKeys::with_one(data.path()).unwrap().newest().unwrap().id();
        let again = NodeKeys::with_one(data.path()).unwrap();
        assert_eq!((again.newest().unwrap().id(), again.iter().count()), (first, 1));
        let second = NodeKeys::rotate(data.path()).unwrap().newest().unwrap().id();
        let kept = NodeKeys::read(data.path()).unwrap();
        let ids: Vec<KeyId> = kept.iter().map(|it| it.id()).collect();
        assert_eq!(ids, [first, second], "Y8");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(data.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_file_of_keys_is_named_and_not_begun_anew() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        NodeKeys::with_one(data.path()).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let other_key = NodeKeys::rotate(data.path()).unwrap().newest().unwrap().id().to_string();
        let first = NodeKeys::read(data.path()).unwrap().0[0].id().to_string();
        for bad in ["{", "[]", &good.replace(&first, &other_key)] {
            tasuki_proto::host::files::replace(&path, bad.as_bytes()).unwrap();
            for refused in [NodeKeys::read(data.path()), NodeKeys::rotate(data.path())] {
                let why = refused.unwrap_err().to_string();
                assert!(why.contains("mail-keys.json is not what was written there"), "{why}");
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
        }
    }

    #[test]
    fn a_flipped_bit_is_named_or_harmless() {
        let data = tempfile::tempdir().unwrap();
        let ids = |keys: &NodeKeys| keys.iter().map(|it| it.id()).collect::<Vec<_>>();
        let whole = ids(&NodeKeys::with_one(data.path()).unwrap());
        crate::flips::each(&data.path().join(FILE), |what| match NodeKeys::read(data.path()) {
            Ok(read) => assert_eq!(ids(&read), whole, "{what}"),
            Err(why) => assert!(why.to_string().contains(FILE), "{what}: {why}"),
        });
    }

    #[test]
    fn keys_made_at_once_are_all_kept() {
        let data = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        NodeKeys::rotate(data.path()).unwrap();
                    }
                });
            }
        });
        assert_eq!(NodeKeys::read(data.path()).unwrap().iter().count(), 16);
    }
}
