//! Bytes of rosters and keys.

use ed25519_dalek::SigningKey;
use tasuki_proto::private::{NodeKey, OwnerKey, Plays, Roster, SignedRoster, Vouched};

use super::*;
use crate::rules::privacy::{self, Pending, Privacy, Published};

fn roster() -> SignedRoster {
    let owner = SigningKey::from_bytes(&[7; 32]);
    let key = key();
    let roster = Roster {
        workspace: "default".parse().unwrap(),
        owner: OwnerKey(owner.verifying_key().to_bytes()),
        number: 3,
        is_on: true,
        keys: vec![Vouched {
            node: key.node,
            sign: key.sign,
            seal: key.seal,
            retired_ms: 900,
            roles: vec![Plays { role: "A".parse().unwrap(), is_now: true }],
        }],
    };
    roster.signed(&owner).unwrap()
}

fn key() -> NodeKey {
    let secret = SigningKey::from_bytes(&[3; 32]);
    let roles = vec!["A".parse().unwrap(), "B".parse().unwrap()];
    NodeKey::proven(&"default".parse().unwrap(), "n1".parse().unwrap(), roles, &secret, [4; 32])
}

#[test]
fn the_bytes_of_a_record_about_private_mail_are_unchanged() {
    let published = Published { key: key(), token: Some("t".parse().unwrap()) };
    let record = Record {
        sequence: Sequence::from(5),
        time: Timestamp::from_millis(300),
        principal: Principal::default(),
        key: None,
        events: vec![
            Event::Privacy(privacy::Event::RosterSet(roster())),
            Event::Privacy(privacy::Event::KeyPublished(published)),
        ],
        reply: Reply::Done,
        is_repeat: false,
    };
    let stored = encode_record(&record, &[3; 16]);
    check_golden("tests/privacy_record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record);
}

#[test]
fn the_bytes_of_a_snapshot_of_a_private_workspace_are_unchanged() {
    let pending = Pending { key: key(), published: Timestamp::from_millis(200), token: None };
    let pending = [(key().node, pending)].into();
    let state =
        Workspace { privacy: Privacy { roster: Some(roster()), pending }, ..Workspace::default() };
    let stored = encode_snapshot(&state);
    check_golden("tests/privacy_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

#[test]
fn a_roster_that_nobody_signed_is_named() {
    let mut bytes = encode(&roster());
    *bytes.last_mut().unwrap() ^= 1;
    let refused = decode::<SignedRoster>("roster", &bytes);
    assert!(matches!(refused, Err(CodecError::Malformed { what: "roster", .. })), "{refused:?}");
}
