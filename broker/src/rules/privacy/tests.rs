//! Stories of rosters and keys.

use ed25519_dalek::SigningKey;
use tasuki_proto::{
    id::Timestamp,
    limits::{PENDING_KEYS_PER_TOKEN_MAX, PENDING_ROLES_PER_TOKEN_MAX, ROLES_MAX},
    private::{NodeKey, OwnerKey, Plays, Roster, SignedRoster, Vouched},
};

use super::{Command, Event, Privacy};
use crate::rules::{
    Caller, Event as AnyEvent, Principal, Rejection, Workspace,
    directory::{self, Directory, NodeRegistered},
    tests::ask,
};

fn secret(name: &str) -> SigningKey {
    SigningKey::from_bytes(blake3::hash(name.as_bytes()).as_bytes())
}

fn key(node: &str, roles: &str) -> NodeKey {
    let roles = roles.split(',').map(|role| role.parse().unwrap()).collect();
    let workspace = "default".parse().unwrap();
    NodeKey::proven(&workspace, node.parse().unwrap(), roles, &secret(node), [7; 32])
}

/// `ann signs 3 on n1:A n2:B,C`
fn roster(line: &str) -> SignedRoster {
    let words: Vec<&str> = line.split(' ').collect();
    let [owner, "signs", number, on, keys @ ..] = &words[..] else { panic!("{line}") };
    let vouched = |it: &&str| {
        let (node, roles) = it.split_once(':').unwrap();
        let NodeKey { node, roles, sign, seal, .. } = key(node, roles);
        let roles = roles.into_iter().map(|role| Plays { role, is_now: true }).collect();
        Vouched { node, sign, seal, retired_ms: 0, roles }
    };
    let roster = Roster {
        workspace: "default".parse().unwrap(),
        owner: OwnerKey(secret(owner).verifying_key().to_bytes()),
        number: number.parse().unwrap(),
        is_on: *on == "on",
        keys: keys.iter().map(vouched).collect(),
    };
    roster.signed(&secret(owner)).unwrap()
}

#[derive(Default)]
struct Story {
    privacy: Privacy,
    directory: Directory,
    caller: Caller,
    happened: Vec<(Timestamp, Event)>,
}

impl Story {
    fn step(&mut self, line: &str) -> String {
        let now = Timestamp::from_millis(self.happened.len() as u64 + 1);
        let words: Vec<&str> = line.split(' ').collect();
        let command = match &words[..] {
            [node, "shows", roles] => Command::Publish(key(node, roles)),
            ["plain"] => return self.words(false),
            ["sealed"] => return self.words(true),
            ["file"] => return said(self.privacy.check_files()),
            _ => Command::SetRoster(roster(line)),
        };
        let around = Workspace { directory: self.directory.clone(), ..Workspace::default() };
        let decided = ask(now, &self.caller, &around, |asked| self.privacy.decide(asked, &command));
        let decision = match decided {
            Ok(decision) => decision,
            Err(rejection) => return said(Err(rejection)),
        };
        for event in &decision.events {
            let AnyEvent::Privacy(event) = event else { unreachable!("of privacy: {event:?}") };
            self.privacy.apply(now, &Principal::default(), event);
            self.happened.push((now, event.clone()));
        }
        let nodes = self.privacy.pending.keys().map(ToString::to_string);
        let waiting = nodes.collect::<Vec<_>>().join(",");
        match decision.is_repeat {
            true => "so already".to_owned(),
            false => format!("done, waiting: [{waiting}]"),
        }
    }

    fn words(&self, is_sealed: bool) -> String {
        said(self.privacy.check_words(is_sealed))
    }

    /// Replay gives the same state.
    fn replay(&self) {
        let mut again = Privacy::default();
        for (at, event) in &self.happened {
            again.apply(*at, &Principal::default(), event);
        }
        assert_eq!(again, self.privacy);
    }
}

fn said(outcome: Result<(), Rejection>) -> String {
    match outcome {
        Ok(()) => "taken".to_owned(),
        Err(rejection) => format!("no: {}", rejection.reason()),
    }
}

#[track_caller]
fn check(steps: &str) {
    let mut story = Story::default();
    for step in steps.trim().lines() {
        let (line, expected) = step.trim().split_once(" => ").expect("what comes of it");
        assert_eq!(story.step(line.trim()), expected, "{line}");
    }
    story.replay();
}

#[test]
fn only_the_owner_replaces_the_roster_while_mail_is_private() {
    check(
        "plain => taken
        sealed => no: invalid_argument
        ann signs 1 off => no: invalid_argument
        ann signs 1 on n1:A => done, waiting: []
        ann signs 1 on n1:A => so already
        plain => no: private_workspace
        sealed => taken
        file => no: private_workspace
        eve signs 2 on n1:A n6:B => no: right_forbidden
        eve signs 2 off => no: right_forbidden
        ann signs 1 on n1:A n2:B => no: stale_token
        ann signs 5 on n1:A n2:B => done, waiting: []
        ann signs 4 on n1:A => no: stale_token
        ann signs 6 off n1:A n2:B => done, waiting: []
        plain => taken
        sealed => taken
        file => taken
        ann signs 7 off => no: invalid_argument
        eve signs 6 on n6:A => no: stale_token
        eve signs 7 on n6:A => done, waiting: []
        ann signs 8 on n1:A => no: right_forbidden",
    );
}

#[test]
fn a_key_waits_until_the_owner_vouches_for_it_with_its_roles() {
    check(
        "n1 shows A => done, waiting: [n1]
        n2 shows B,C => done, waiting: [n1,n2]
        n2 shows B,C => so already
        ann signs 1 on n1:A n2:B => done, waiting: [n2]
        n1 shows A => so already
        n2 shows B => done, waiting: []
        ann signs 2 on n1:A n2:B => done, waiting: []
        n1 shows A,D => done, waiting: [n1]
        ann signs 3 on n1:A,D n2:B => done, waiting: []",
    );
}

#[test]
fn nobody_speaks_for_the_node_of_another_token_or_fills_the_list() {
    let mut story = Story::default();
    let registered = NodeRegistered {
        node: "n1".parse().unwrap(),
        epoch: 1.into(),
        roles: Vec::new(),
        software: String::new(),
        token: Some("t1".parse().unwrap()),
        replaces: None,
    };
    let registered = directory::Event::NodeRegistered(registered);
    story.directory.apply(Timestamp::from_millis(1), &Principal::default(), &registered);
    story.caller.token = Some("t2".parse().unwrap());
    assert_eq!(story.step("n1 shows A"), "no: node_forbidden");
    for node in 0..PENDING_KEYS_PER_TOKEN_MAX {
        assert!(story.step(&format!("m{node} shows A")).starts_with("done"));
    }
    assert_eq!(story.step("more shows A"), "no: overloaded");
    assert!(story.step("m0 shows B").starts_with("done"), "one it had is replaced");
    story.caller.token = Some("t1".parse().unwrap());
    assert!(story.step("n1 shows A").starts_with("done"));
    story.replay();
}

#[test]
fn keys_that_wait_have_no_more_roles_than_one_message_carries() {
    let mut story = Story::default();
    story.caller.token = Some("t1".parse().unwrap());
    let roles: Vec<String> = (0..ROLES_MAX).map(|it| format!("r{it}")).collect();
    let roles = roles.join(",");
    for node in 0..PENDING_ROLES_PER_TOKEN_MAX / ROLES_MAX {
        assert!(story.step(&format!("m{node} shows {roles}")).starts_with("done"));
    }
    assert_eq!(story.step("more shows A"), "no: overloaded");
    assert!(story.step("m0 shows A").starts_with("done"), "it asks for fewer than before");
    assert!(story.step("more shows A").starts_with("done"));
    story.replay();
}
