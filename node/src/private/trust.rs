//! Whose rosters this machine believes, and the owners' keys that it has itself.
//!
//! Kept by workspace. A trusted owner is replaced by its user alone, never because a broker shows
//! another.

use std::{collections::BTreeMap, path::Path};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::WorkspaceId,
    private::{KeyId, OwnerKey, Roster},
};

use super::store::{self, StoreError};

const TRUST: &str = "mail-trust.json";
const OWNERS: &str = "mail-owner.json";

/// The owner that is trusted, and the newest roster of its that was seen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    pub owner: KeyId,
    /// 0: none yet.
    pub number: u64,
    /// Whether that one said that mail is private.
    pub is_on: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTrust {
    workspaces: BTreeMap<String, WrittenPin>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPin {
    owner: String,
    number: u64,
    is_on: bool,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOwners {
    workspaces: BTreeMap<String, String>,
}

impl Pin {
    /// Whether this machine was ever told whom to trust. Looks at one name, which is quicker than to
    /// have another thread do it.
    pub fn may_be(data: &Path) -> bool {
        !matches!(data.join(TRUST).try_exists(), Ok(false))
    }

    /// Whom this machine trusts for `workspace`. Blocks on the disk.
    pub fn read(data: &Path, workspace: &WorkspaceId) -> Result<Option<Self>, StoreError> {
        let written: WrittenTrust = store::read(data, TRUST)?;
        let Some(it) = written.workspaces.get(workspace.as_str()) else { return Ok(None) };
        let owner = it.owner.parse().map_err(|why| store::damaged(data, TRUST, &why))?;
        Ok(Some(Self { owner, number: it.number, is_on: it.is_on }))
    }

    /// Trusts `owner` from now on, and nobody else, for a workspace whose mail counts as private
    /// until a roster of this owner's says otherwise. Blocks on the disk.
    pub fn trust(data: &Path, workspace: &WorkspaceId, owner: KeyId) -> Result<(), StoreError> {
        store::change(data, TRUST, |written: &mut WrittenTrust| {
            let pins = &mut written.workspaces;
            let is_trusted =
                pins.get(workspace.as_str()).is_some_and(|it| it.owner == owner.to_string());
            if !is_trusted {
                let pin = WrittenPin { owner: owner.to_string(), number: 0, is_on: true };
                pins.insert(workspace.to_string(), pin);
            }
            Ok(())
        })
    }

    /// A roster of the trusted owner's was seen. Blocks on the disk.
    pub fn saw(data: &Path, roster: &Roster) -> Result<(), StoreError> {
        store::change(data, TRUST, |written: &mut WrittenTrust| {
            if let Some(pin) = written.workspaces.get_mut(roster.workspace.as_str())
                && pin.owner == roster.owner.id().to_string()
                && pin.number < roster.number
            {
                pin.number = roster.number;
                pin.is_on = roster.is_on;
            }
            Ok(())
        })
    }
}

/// The owner's secret key for a workspace, if this machine has it. Blocks on the disk.
pub fn owner(data: &Path, workspace: &WorkspaceId) -> Result<Option<SigningKey>, StoreError> {
    let written: WrittenOwners = store::read(data, OWNERS)?;
    let Some(text) = written.workspaces.get(workspace.as_str()) else { return Ok(None) };
    let bytes = store::to_bytes(text).ok_or_else(|| store::damaged(data, OWNERS, &"no key"))?;
    Ok(Some(SigningKey::from_bytes(&bytes)))
}

/// The same, made if there was none (Y8). Blocks on the disk.
pub fn owner_or_new(data: &Path, workspace: &WorkspaceId) -> Result<SigningKey, StoreError> {
    if let Some(known) = owner(data, workspace)? {
        return Ok(known);
    }
    store::change(data, OWNERS, |written: &mut WrittenOwners| {
        let text = match written.workspaces.get(workspace.as_str()) {
            Some(text) => text.clone(),
            None => store::to_text(&store::chance::<32>()?),
        };
        let bytes =
            store::to_bytes(&text).ok_or_else(|| store::damaged(data, OWNERS, &"no key"))?;
        written.workspaces.insert(workspace.to_string(), text);
        Ok(SigningKey::from_bytes(&bytes))
    })
}

/// Takes the owner's secret key for a workspace away again: one that was made for a roster which
/// nobody took. Another that came in its place stays. Blocks on the disk.
pub fn disown(data: &Path, workspace: &WorkspaceId, owner: &SigningKey) -> Result<(), StoreError> {
    let text = store::to_text(&owner.to_bytes());
    store::change(data, OWNERS, |written: &mut WrittenOwners| {
        if written.workspaces.get(workspace.as_str()) == Some(&text) {
            written.workspaces.remove(workspace.as_str());
        }
        Ok(())
    })
}

/// The public half.
pub fn public(owner: &SigningKey) -> OwnerKey {
    OwnerKey(owner.verifying_key().to_bytes())
}

/// Where the secret is kept: whoever has a copy of this file can vouch for keys, too.
pub fn owner_file(data: &Path) -> std::path::PathBuf {
    data.join(OWNERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(owner: &SigningKey, number: u64, is_on: bool) -> Roster {
        let workspace = "w".parse().unwrap();
        Roster { workspace, owner: public(owner), number, is_on, keys: Vec::new() }
    }

    #[test]
    fn trust_goes_to_one_owner_and_only_forward() {
        let data = tempfile::tempdir().unwrap();
        let (here, w) = (data.path(), "w".parse().unwrap());
        assert_eq!(Pin::read(here, &w).unwrap(), None);
        assert!(!Pin::may_be(here));
        let own = owner_or_new(here, &w).unwrap();
        assert_eq!(owner_or_new(here, &w).unwrap(), own);
        // A key is taken away by whoever has it alone, and then the file as well.
        disown(here, &w, &SigningKey::from_bytes(&[1; 32])).unwrap();
        assert_eq!(owner(here, &w).unwrap().as_ref(), Some(&own));
        disown(here, &w, &own).unwrap();
        assert!(owner(here, &w).unwrap().is_none() && !owner_file(here).exists());
        let own = owner_or_new(here, &w).unwrap();
        assert_eq!(owner(here, &"other".parse().unwrap()).unwrap(), None);
        let id = public(&own).id();
        Pin::trust(here, &w, id).unwrap();
        let pin = |number, is_on| Some(Pin { owner: id, number, is_on });
        assert_eq!(Pin::read(here, &w).unwrap(), pin(0, true));
        assert!(Pin::may_be(here));
        for (number, is_on, expected) in [
            (3, true, pin(3, true)),
            (2, false, pin(3, true)), // older
            (4, false, pin(4, false)),
        ] {
            Pin::saw(here, &roster(&own, number, is_on)).unwrap();
            assert_eq!(Pin::read(here, &w).unwrap(), expected);
        }
        // Trusting the same again forgets nothing; what another signed changes nothing.
        Pin::trust(here, &w, id).unwrap();
        Pin::saw(here, &roster(&SigningKey::from_bytes(&[1; 32]), 9, true)).unwrap();
        assert_eq!(Pin::read(here, &w).unwrap(), pin(4, false));
        let other = KeyId::from_bytes([1; 16]);
        Pin::trust(here, &w, other).unwrap();
        let fresh = Some(Pin { owner: other, number: 0, is_on: true });
        assert_eq!(Pin::read(here, &w).unwrap(), fresh);
    }
}
