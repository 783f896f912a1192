//! The system workspace of a random story: invitations and tokens.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use tasuki_broker::{
    journal::codec::{decode_record, encode_record},
    rules::{
        Caller, Command, Context, Event, Principal, Record, Request, Workspace,
        access::{self, Access, Invite, Issue, Join, Roles, Rotate, Scope},
        presence::Presence,
    },
};
use tasuki_proto::{
    id::{InvitationId, Timestamp, TokenId},
    token::{Right, SecretHash},
};

/// Tokens that there are from the beginning, called by their number.
pub(super) const ISSUED: u8 = 3;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Invite { code: u8, scope: u8, valid_ms: u64, token_valid_ms: Option<u64> },
    Withdraw { code: u8 },
    Join { code: u8, secret: u8 },
    Misuse { code: u8 },
    Issue { secret: u8, scope: u8, valid_ms: Option<u64> },
    Rotate { token: u8, secret: u8, overlap_ms: u64 },
    Use { token: u8, secret: u8 },
    Revoke { token: u8 },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let valid = || prop::option::of(1..400u64);
    prop_oneof![
        2 => (0..3u8, 0..3u8, 1..400u64, valid()).prop_map(
            |(code, scope, valid_ms, token_valid_ms)| Step::Invite {
                code, scope, valid_ms, token_valid_ms
            }
        ),
        1 => (0..3u8).prop_map(|code| Step::Withdraw { code }),
        4 => (0..3u8, 3..7u8).prop_map(|(code, secret)| Step::Join { code, secret }),
        1 => (0..3u8).prop_map(|code| Step::Misuse { code }),
        1 => (0..7u8, 0..3u8, valid()).prop_map(|(secret, scope, valid_ms)| Step::Issue {
            secret, scope, valid_ms
        }),
        3 => (0..7u8, 0..10u8, 0..200u64).prop_map(|(token, secret, overlap_ms)| Step::Rotate {
            token, secret, overlap_ms
        }),
        2 => (0..7u8, 0..10u8).prop_map(|(token, secret)| Step::Use { token, secret }),
        1 => (0..7u8).prop_map(|token| Step::Revoke { token }),
    ]
}

fn secret(number: u8) -> SecretHash {
    SecretHash::of(&[b's', number])
}

fn code(number: u8) -> SecretHash {
    SecretHash::of(&[b'c', number])
}

fn invitation(number: u8) -> InvitationId {
    code(number).short().parse().unwrap()
}

/// The token whose first secret this was.
pub(super) fn token(number: u8) -> TokenId {
    secret(number).short().parse().unwrap()
}

fn scope(number: u8) -> Scope {
    let role = |name: &str| BTreeSet::from([name.parse().unwrap()]);
    match number {
        0 => Scope::all(),
        1 => Scope { roles: Roles::Only(role("A")), ..Scope::all() },
        _ => Scope {
            workspace: Some("w".parse().unwrap()),
            roles: Roles::Only(role("dev")),
            rights: [Right::Read].into(),
        },
    }
}

fn command(step: &Step) -> access::Command {
    use access::Command;
    let label = String::new();
    match step {
        Step::Invite { code: number, scope: which, valid_ms, token_valid_ms } => {
            Command::Invite(Invite {
                code: code(*number),
                scope: scope(*which),
                valid_ms: *valid_ms,
                token_valid_ms: *token_valid_ms,
                label,
            })
        }
        Step::Withdraw { code: number } => Command::Withdraw { invitation: invitation(*number) },
        Step::Join { code: number, secret: own } => {
            Command::Join(Join { code: code(*number), secret: secret(*own), label })
        }
        Step::Misuse { code: number } => Command::ReportMisuse {
            invitation: invitation(*number),
            address: "10.0.0.9:5".to_owned(),
        },
        Step::Issue { secret: own, scope: which, valid_ms } => Command::Issue(Issue {
            secret: secret(*own),
            scope: scope(*which),
            valid_ms: *valid_ms,
            label,
        }),
        Step::Rotate { token: of, secret: new, overlap_ms } => Command::Rotate(Rotate {
            token: token(*of),
            secret: secret(*new),
            overlap_ms: *overlap_ms,
        }),
        Step::Use { token: of, secret: used } => {
            Command::EndOldSecret { token: token(*of), used: secret(*used) }
        }
        Step::Revoke { token: of } => Command::Revoke { token: token(*of) },
    }
}

pub(super) struct System {
    workspace: Workspace,
    journal: Vec<Bytes>,
    snapshot: Option<Vec<Bytes>>,
    /// The token that each invitation made.
    made: BTreeMap<InvitationId, TokenId>,
    /// Invitations that were withdrawn.
    withdrawn: BTreeSet<InvitationId>,
    /// Tokens that were seen to be over.
    over: BTreeSet<TokenId>,
    granted: BTreeMap<TokenId, (Scope, Option<Timestamp>)>,
}

impl System {
    pub(super) fn new(now: Timestamp) -> Self {
        let mut system = Self {
            workspace: Workspace::default(),
            journal: Vec::new(),
            snapshot: None,
            made: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            over: BTreeSet::new(),
            granted: BTreeMap::new(),
        };
        for number in 0..ISSUED {
            system.take(now, &Step::Issue { secret: number, scope: 0, valid_ms: None });
        }
        system
    }

    /// Whether the bearer of a token may act.
    pub(super) fn is_good(&self, token: &TokenId, now: Timestamp) -> bool {
        self.access().tokens.get(token).is_some_and(|it| it.is_good(now))
    }

    fn access(&self) -> &Access {
        &self.workspace.access
    }

    pub(super) fn take(&mut self, now: Timestamp, step: &Step) {
        let context = Context::new(Presence::new(now), 100);
        let command = Command::Access(command(step));
        let request = Request { caller: Caller::default(), key: None, command };
        let before = self.workspace.clone();
        let decided = self.workspace.decide(now, &context, &request);
        assert_eq!(before, self.workspace, "W4: deciding changed something");
        if let Ok(decision) = decided
            && decision.is_recorded(&request)
        {
            let sequence = self.workspace.sequence.next();
            let (record, _) = decision.into_record(sequence, now, Principal::default(), None);
            self.note(&record);
            self.workspace.apply(&record);
            let bytes = encode_record(&record, &[0; 16]);
            assert_eq!(decode_record(bytes.clone()).unwrap(), record);
            self.journal.push(bytes);
        }
        self.check(now);
    }

    /// R1.
    fn note(&mut self, record: &Record) {
        for event in &record.events {
            let Event::Access(event) = event else { panic!("not of access: {event:?}") };
            if let access::Event::InvitationWithdrawn { invitation } = event {
                self.withdrawn.insert(invitation.clone());
            }
            let access::Event::TokenIssued(it) = event else { continue };
            self.granted.insert(it.token.clone(), (it.scope.clone(), it.expires));
            let Some(id) = &it.invitation else { continue };
            assert!(!self.withdrawn.contains(id), "R1: {id} was withdrawn");
            let invitation = &self.access().invitations[id];
            assert!(record.time < invitation.expires, "R1: {id} had expired");
            assert_eq!(it.scope, invitation.scope, "R3: {id} granted something else");
            assert_eq!(self.made.insert(id.clone(), it.token.clone()), None, "R1: {id}");
        }
    }

    /// R2, R3.
    fn check(&mut self, now: Timestamp) {
        let mut over = Vec::new();
        for (id, token) in &self.access().tokens {
            if !token.is_good(now) {
                over.push(id.clone());
            } else {
                assert!(!self.over.contains(id), "R2: {id} is good again");
            }
            let granted = (token.scope.clone(), token.expires);
            assert_eq!(self.granted.get(id), Some(&granted), "R3: {id}");
            let secrets = (0..10).filter(|number| token.knows(&secret(*number), now));
            assert!(secrets.count() <= 2, "{id} has more than two secrets");
        }
        self.over.extend(over);
    }

    pub(super) fn snapshot(&mut self) {
        let pieces = super::encode_snapshot(&self.workspace);
        assert_eq!(super::decode_snapshot(&pieces), self.workspace, "W1");
        self.snapshot = Some(pieces);
    }

    pub(super) fn restart(&mut self) {
        self.workspace =
            super::replayed(None, &self.journal, self.snapshot.as_deref(), &self.workspace);
    }
}
