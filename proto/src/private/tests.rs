//! The bytes that are signed, pinned: if one of these fails, nodes no longer believe each other.

use ed25519_dalek::SigningKey;
use proptest::prelude::*;

use super::{octets::Malformed, *};
use crate::{id::RoleId, limits::ROSTER_KEYS_MAX};

fn owner() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn vouched(seed: u8) -> Vouched {
    let plays = |role: &str, is_now| Plays { role: role.parse().unwrap(), is_now };
    Vouched {
        node: format!("n{seed}").parse().unwrap(),
        sign: SigningKey::from_bytes(&[seed; 32]).verifying_key().to_bytes(),
        seal: [seed; 32],
        retired_ms: u64::from(seed == 2) * 900,
        roles: vec![plays("A", true), plays("B", false)],
    }
}

fn roster(number: u64) -> Roster {
    Roster {
        workspace: "default".parse().unwrap(),
        owner: OwnerKey(owner().verifying_key().to_bytes()),
        number,
        is_on: true,
        keys: vec![vouched(1), vouched(2)],
    }
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32);
    lines
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect()
}

#[test]
fn the_bytes_of_a_roster_and_of_a_nodes_key_are_unchanged() {
    let signed = roster(5).signed(&owner()).unwrap();
    let roles: Vec<RoleId> = vec!["A".parse().unwrap(), "B".parse().unwrap()];
    let workspace = "default".parse().unwrap();
    let secret = SigningKey::from_bytes(&[3; 32]);
    let key = NodeKey::proven(&workspace, "n3".parse().unwrap(), roles, &secret, [4; 32]);
    let told = format!(
        "roster\n{}signature\n{}proof\n{}owner {}\nnode {}\n",
        hex(&signed.to_wire().roster),
        hex(signed.signature()),
        hex(&key.proof),
        signed.roster().owner.id(),
        key.id(),
    );
    assert_eq!(told, include_str!("tests.golden.txt"));
    assert_eq!(SignedRoster::of_wire(&signed.to_wire()), Ok(signed));
    assert_eq!(NodeKey::of_wire(&workspace, &key.to_wire(9)), Ok(key.clone()));
    let elsewhere = NodeKey::of_wire(&"other".parse().unwrap(), &key.to_wire(9));
    assert_eq!(elsewhere, Err(Unproven::Signature));
}

#[test]
fn a_key_with_other_roles_or_another_name_is_not_what_its_node_said() {
    let workspace = "default".parse().unwrap();
    let secret = SigningKey::from_bytes(&[3; 32]);
    let roles: Vec<RoleId> = vec!["A".parse().unwrap()];
    let key = NodeKey::proven(&workspace, "n3".parse().unwrap(), roles, &secret, [4; 32]);
    let of = |change: &dyn Fn(&mut crate::wire::NodeKey)| {
        let mut wire = key.to_wire(0);
        change(&mut wire);
        NodeKey::of_wire(&workspace, &wire).unwrap_err()
    };
    assert_eq!(of(&|it| it.roles.push("C".to_owned())), Unproven::Signature);
    assert_eq!(of(&|it| it.roles.push("A".to_owned())), Unproven::Crowded);
    assert_eq!(of(&|it| it.node = "n4".to_owned()), Unproven::Signature);
    assert_eq!(of(&|it| it.seal_key = vec![5; 32]), Unproven::Signature);
    assert_eq!(of(&|it| it.seal_key = vec![5; 31]), Unproven::Length("seal_key"));
    // The weakest key there is: it "signs" everything.
    let mut weak = vec![0; 32];
    weak[0] = 1;
    let signs_all =
        of(&|it| (it.sign_key, it.proof) = (weak.clone(), [&weak[..], &[0; 32]].concat()));
    assert_eq!(signs_all, Unproven::Signature);
}

/// Holds Y1.
#[test]
fn who_is_no_owner_signs_no_roster() {
    let stranger = SigningKey::from_bytes(&[8; 32]);
    assert_eq!(roster(5).signed(&stranger), Err(Unproven::Signature));
    // A signature of a node over the same bytes is one of another kind.
    let (first, second) = (roster(5).signed(&owner()).unwrap(), roster(6).encode());
    let swapped = SignedRoster::of_bytes(&second, first.signature());
    assert_eq!(swapped, Err(Unproven::Signature));
}

#[test]
fn a_roster_that_is_too_large_or_of_another_version_is_refused() {
    let mut crowd = roster(1);
    crowd.keys = (0..=u16::try_from(ROSTER_KEYS_MAX).unwrap())
        .map(|it| {
            let mut key = vouched(1);
            key.seal[..2].copy_from_slice(&it.to_be_bytes());
            key
        })
        .collect();
    assert_eq!(crowd.signed(&owner()), Err(Unproven::Crowded));
    let twice = Roster { keys: vec![vouched(1), vouched(1)], ..roster(1) };
    assert_eq!(twice.signed(&owner()), Err(Unproven::Crowded));
    let mut newer = roster(1).encode();
    newer[0] = 2;
    let version = Malformed::Version { found: 2, known: 1 };
    assert_eq!(Roster::decode(&newer), Err(version.into()));
}

#[test]
fn fingerprints_are_read_as_people_type_them() {
    let id = vouched(1).id();
    let text = id.to_string();
    assert_eq!(text.len(), 39, "{text}");
    assert_eq!(text.parse(), Ok(id));
    assert_eq!(text.replace('-', "").to_uppercase().parse(), Ok(id));
    for bad in ["", &text[1..], "zz", &format!("{text}0")] {
        assert!(bad.parse::<KeyId>().is_err(), "{bad}");
    }
}

proptest! {
    /// Y2, and no panic whatever the bytes.
    #[test]
    fn what_is_read_is_written_again_as_it_was(
        at in 0..400_usize, flip in 1..=255_u8, cut in 0..400_usize,
    ) {
        let signed = roster(5).signed(&owner()).unwrap().to_wire();
        let mut bytes = signed.roster.clone();
        bytes.truncate(cut.max(1));
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if let Ok(read) = Roster::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes.clone());
        }
        prop_assert!(SignedRoster::of_bytes(&bytes, &signed.signature).is_err());
    }
}
