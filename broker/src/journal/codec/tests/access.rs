//! The bytes of what came with tokens: who may do what, and whose everything is.

use std::collections::BTreeSet;

use minicbor::bytes::ByteVec;
use proptest::prelude::*;
use tasuki_proto::token::{Right, SecretHash};

use super::*;
use crate::rules::access::{
    self, Access, Invitation, InvitationOpened, Misuse, Roles, Scope, Token, TokenIssued,
};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn scopes() -> [Scope; 3] {
    let some = Scope {
        workspace: Some("w".parse().unwrap()),
        roles: Roles::Only(["A", "B"].map(|role| role.parse().unwrap()).into()),
        rights: [Right::Read, Right::Send].into(),
    };
    let none = Scope { roles: Roles::Only(BTreeSet::new()), ..some.clone() };
    [some, none, Scope::all()]
}

/// A record with one event of every kind, each optional field set once and left out once.
fn record() -> Record {
    let [some, none, all] = scopes();
    let hash = |of: u8| SecretHash::from_bytes([of; 32]);
    let opened = InvitationOpened {
        invitation: "i1".parse().unwrap(),
        code: hash(1),
        scope: some.clone(),
        expires: at(900),
        token_valid_ms: Some(50),
        label: "laptop".to_owned(),
    };
    let issued = TokenIssued {
        token: "t1".parse().unwrap(),
        secret: hash(2),
        scope: some,
        expires: Some(at(950)),
        label: "laptop".to_owned(),
        invitation: Some("i1".parse().unwrap()),
    };
    let node = NodeRegistered {
        node: "n1".parse().unwrap(),
        epoch: 2.into(),
        roles: Vec::new(),
        software: String::new(),
        token: Some("t1".parse().unwrap()),
        replaces: Some("n0".parse().unwrap()),
    };
    let events = [
        access::Event::InvitationOpened(InvitationOpened {
            scope: none,
            token_valid_ms: None,
            ..opened.clone()
        }),
        access::Event::InvitationOpened(opened),
        access::Event::InvitationWithdrawn { invitation: "i1".parse().unwrap() },
        access::Event::InvitationMisused {
            invitation: "i1".parse().unwrap(),
            address: "10.0.0.9:5".to_owned(),
        },
        access::Event::TokenIssued(TokenIssued {
            scope: all,
            expires: None,
            invitation: None,
            ..issued.clone()
        }),
        access::Event::TokenIssued(issued),
        access::Event::TokenRotated {
            token: "t1".parse().unwrap(),
            secret: hash(3),
            old_until: at(960),
        },
        access::Event::OldSecretEnded { token: "t1".parse().unwrap() },
        access::Event::TokenRevoked { token: "t1".parse().unwrap() },
    ];
    let mut events: Vec<Event> = events.into_iter().map(Event::from).collect();
    events.push(Event::Directory(directory::Event::NodeRegistered(node)));
    Record {
        sequence: Sequence::from(5),
        time: at(300),
        principal: Principal { token: Some("t".parse().unwrap()), ..Principal::default() },
        key: None,
        events,
        reply: Reply::Done,
        is_repeat: false,
    }
}

#[test]
fn the_bytes_of_a_record_about_access_are_unchanged() {
    let stored = encode_record(&record(), &[3; 16]);
    check_golden("tests/access_record.golden.txt", &hex(&stored));
    assert_eq!(decode_record(stored).unwrap(), record());
}

#[test]
fn the_bytes_of_every_reply_about_access_are_unchanged() {
    let mut replies = vec![
        Reply::Access(access::Reply::Invited {
            invitation: "i1".parse().unwrap(),
            expires: at(900),
        }),
        Reply::Access(access::Reply::Rotated { token: "t1".parse().unwrap(), old_until: at(960) }),
    ];
    for (scope, expires) in scopes().into_iter().zip([Some(at(950)), None, None]) {
        replies.push(Reply::Access(access::Reply::Issued {
            token: "t1".parse().unwrap(),
            expires,
            scope,
        }));
    }
    let mut told = String::new();
    for reply in replies {
        told += &pinned(&reply);
    }
    check_golden("tests/access_reply.golden.txt", &told);
}

/// A state with every field that came with tokens set, beside those without.
fn state() -> Workspace {
    let mut state = super::state();
    let some = || Some("t1".parse().unwrap());
    let client = |counter: u64| {
        let answer = Answer {
            request: Hash([1; 16]),
            sequence: 8.into(),
            reply: Reply::Done,
            is_repeat: false,
        };
        let answers = [(counter, answer)].into();
        Client { highest: counter, last: at(700), answers, retired_at: None }
    };
    let retired = |highest: u64| Retired { highest, last: at(600) };
    state.clients = clients(
        [(None, "c", client(3)), (some(), "c", client(4))],
        [(None, "old", retired(7)), (some(), "old", retired(8))],
    );
    state.directory.forgotten = 6.into();
    let node = state.directory.nodes.values_mut().next().unwrap();
    node.token = some();
    let mut loops = state.loops.by_id.clone();
    let main = loops.first_entry().unwrap().into_mut();
    main.latest.as_mut().unwrap().token = some();
    state.loops = Loops::of(loops);
    let [scope, _, all] = scopes();
    let hash = |of: u8| SecretHash::from_bytes([of; 32]);
    let invitation = Invitation {
        code: hash(1),
        scope: scope.clone(),
        label: "laptop".to_owned(),
        opened: at(100),
        expires: at(900),
        token_valid_ms: Some(50),
        used: Some(("t1".parse().unwrap(), at(200))),
        is_withdrawn: false,
        misuses: vec![Misuse { at: at(250), address: "10.0.0.9:5".to_owned() }],
    };
    let withdrawn = Invitation {
        used: None,
        token_valid_ms: None,
        is_withdrawn: true,
        misuses: Vec::new(),
        ..invitation.clone()
    };
    state.access.invitations =
        [("i1".parse().unwrap(), invitation), ("i2".parse().unwrap(), withdrawn)].into();
    let token = Token {
        secret: hash(3),
        scope,
        label: "laptop".to_owned(),
        issued: at(200),
        expires: Some(at(950)),
        invitation: Some("i1".parse().unwrap()),
        old: Some((hash(2), at(960))),
        rotated: Some(at(300)),
        revoked: Some(at(310)),
    };
    let bare = Token {
        scope: all,
        expires: None,
        invitation: None,
        old: None,
        rotated: None,
        revoked: None,
        ..token.clone()
    };
    state.access.tokens = [("t1".parse().unwrap(), token), ("t2".parse().unwrap(), bare)].into();
    state
}

#[test]
fn the_bytes_of_a_snapshot_with_tokens_are_unchanged() {
    let stored = encode_snapshot(&state());
    check_golden("tests/access_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state());
}

#[test]
fn the_bytes_of_an_entry_with_a_token_are_unchanged() {
    let before = EntryMeta { token: Some("t1".parse().unwrap()), ..facts() };
    let body = EntryBody {
        loop_id: "main".parse().unwrap(),
        number: 2,
        summary: "s".to_owned(),
        instruction: "i".to_owned(),
        before: Some(before),
    };
    let (_, stored) = encode_body(&Body::Entry(body.clone())).remove(0);
    check_golden("tests/access_entry.golden.txt", &hex(&stored));
    assert_eq!(decode_entry(&body.loop_id, 2, &stored).unwrap(), body);
    check_body(&Body::Entry(body));
}

#[test]
fn a_scope_or_a_secret_that_is_not_whole_is_refused() {
    let [scope, ..] = scopes();
    let issued = |secret: &[u8], scope: &[u8]| {
        // Of two: the kind, and five fields: token, secret, scope, expiry, label.
        let mut bytes = vec![0x82, 3, 0x85];
        bytes.extend([encode(&"t1"), encode(&ByteVec::from(secret.to_vec()))].concat());
        bytes.extend_from_slice(scope);
        bytes.extend([encode(&1), encode(&"")].concat());
        decode::<access::Event>("event", &bytes)
    };
    let whole = encode(&scope);
    assert!(issued(&[1; 32], &whole).is_ok());
    for (secret, scope) in [(31, &whole[..]), (33, &whole[..]), (32, &[0x80]), (32, &[0xf6])] {
        let refused = issued(&vec![1; secret], scope);
        assert!(matches!(refused, Err(CodecError::Malformed { .. })), "{refused:?}");
    }
}

fn a_scope() -> impl Strategy<Value = Scope> {
    let workspace = prop::option::of("[a-z]{1,8}");
    let roles = prop::option::of(prop::collection::btree_set("[A-Za-z]{1,4}", 0..4));
    let rights = prop::collection::btree_set(prop::sample::select(Right::ALL), 0..7);
    (workspace, roles, rights).prop_map(|(workspace, roles, rights)| Scope {
        workspace: workspace.map(|name| name.parse().unwrap()),
        roles: roles.map_or(Roles::Any, |roles| {
            Roles::Only(roles.iter().map(|role| role.parse().unwrap()).collect())
        }),
        rights,
    })
}

fn a_hash() -> impl Strategy<Value = SecretHash> {
    any::<[u8; 32]>().prop_map(SecretHash::from_bytes)
}

/// No event happens at 0, which stands for none.
fn a_time() -> impl Strategy<Value = Timestamp> {
    (1..=u64::MAX).prop_map(at)
}

fn an_invitation() -> impl Strategy<Value = Invitation> {
    let misuse = (a_time(), ".{0,8}").prop_map(|(at, address)| Misuse { at, address });
    let used = prop::option::of(("[0-9a-f]{16}", a_time()));
    let times = (a_time(), a_time(), prop::option::of(1..=u64::MAX));
    let misuses = prop::collection::vec(misuse, 0..4);
    (a_hash(), a_scope(), ".{0,8}", times, used, any::<bool>(), misuses).prop_map(
        |(code, scope, label, (opened, expires, token_valid_ms), used, is_withdrawn, misuses)| {
            let used = used.map(|(token, at)| (token.parse().unwrap(), at));
            let (opened, expires) = (opened.min(expires), opened.max(expires));
            Invitation {
                code,
                scope,
                label,
                opened,
                expires,
                token_valid_ms,
                used,
                is_withdrawn,
                misuses,
            }
        },
    )
}

fn a_token() -> impl Strategy<Value = Token> {
    let time = || prop::option::of(a_time());
    let old = prop::option::of((a_hash(), a_time()));
    let invitation = prop::option::of("[0-9a-f]{16}");
    let times = (a_time(), time(), time(), time());
    (a_hash(), a_scope(), ".{0,8}", times, invitation, old).prop_map(
        |(secret, scope, label, (issued, expires, rotated, revoked), invitation, old)| Token {
            secret,
            scope,
            label,
            issued,
            expires,
            invitation: invitation.map(|it| it.parse().unwrap()),
            old,
            rotated,
            revoked,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_known_of_access_survives_a_snapshot(
        invitations in prop::collection::btree_map("[0-9a-f]{16}", an_invitation(), 0..4),
        tokens in prop::collection::btree_map("[0-9a-f]{16}", a_token(), 0..4),
    ) {
        let access = Access {
            invitations: invitations.into_iter().map(|(id, it)| (id.parse().unwrap(), it)).collect(),
            tokens: tokens.into_iter().map(|(id, it)| (id.parse().unwrap(), it)).collect(),
        };
        let state = Workspace { access, ..Workspace::default() };
        prop_assert_eq!(decode_snapshot(encode_snapshot(&state)).unwrap(), state);
    }
}
