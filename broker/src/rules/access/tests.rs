//! Each test is a story about invitations and tokens: at these times these commands, and this is
//! what came of it.
//!
//! Codes and secrets are words; a token is called by its first secret. `shows TOKEN SECRET` says
//! whether a bearer would be let in. After each step the invariants are checked.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::rules::{
    Caller, Decision, Event as AnyEvent, Principal, Rejection, Reply, Workspace, access, tests::ask,
};

struct Story {
    access: Access,
    now: Timestamp,
    /// All that happened, with the time.
    happened: Vec<(Timestamp, Event)>,
    /// The token that each code made.
    made: BTreeMap<InvitationId, TokenId>,
    /// Tokens that were seen to be over.
    over: BTreeSet<TokenId>,
    granted: BTreeMap<TokenId, (Scope, Option<Timestamp>)>,
}

fn hash(word: &str) -> SecretHash {
    SecretHash::of(word.as_bytes())
}

fn token(word: &str) -> TokenId {
    hash(word).short().parse().unwrap()
}

fn invitation(word: &str) -> InvitationId {
    hash(word).short().parse().unwrap()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn scope(roles: &str) -> Scope {
    let roles = match roles {
        "all" => Roles::Any,
        names => Roles::Only(names.split(',').map(|name| name.parse().unwrap()).collect()),
    };
    Scope { roles, ..Scope::all() }
}

/// The command a line stands for.
fn command(line: &str) -> Command {
    let ms = |text: &str| text.parse::<u64>().unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let invite = |code, roles, valid, token_valid_ms| {
        Command::Invite(Invite {
            code: hash(code),
            scope: scope(roles),
            valid_ms: ms(valid),
            token_valid_ms,
            label: "laptop".to_owned(),
        })
    };
    let issue = |secret, roles, valid_ms| {
        let label = "ops".to_owned();
        Command::Issue(Issue { secret: hash(secret), scope: scope(roles), valid_ms, label })
    };
    match words[..] {
        ["invites", code, "as", roles, "for", valid] => invite(code, roles, valid, None),
        ["invites", code, "as", roles, "for", valid, "tokens", for_] => {
            invite(code, roles, valid, Some(ms(for_)))
        }
        ["withdraws", code] => Command::Withdraw { invitation: invitation(code) },
        ["joins", code, "with", secret] => {
            Command::Join(Join { code: hash(code), secret: hash(secret), label: String::new() })
        }
        ["reports", code] => {
            let address = "10.0.0.9:5".to_owned();
            Command::ReportMisuse { invitation: invitation(code), address }
        }
        ["issues", secret, "as", roles] => issue(secret, roles, None),
        ["issues", secret, "as", roles, "for", valid] => issue(secret, roles, Some(ms(valid))),
        ["rotates", of, "to", secret, "over", overlap] => Command::Rotate(Rotate {
            token: token(of),
            secret: hash(secret),
            overlap_ms: ms(overlap),
        }),
        ["uses", of, secret] => Command::EndOldSecret { token: token(of), used: hash(secret) },
        ["ends", "what", "expired"] => Command::EndExpired,
        ["revokes", of] => Command::Revoke { token: token(of) },
        ref other => panic!("no such command: {other:?}"),
    }
}

impl Story {
    fn new() -> Self {
        Self {
            access: Access::default(),
            now: at(0),
            happened: Vec::new(),
            made: BTreeMap::new(),
            over: BTreeSet::new(),
            granted: BTreeMap::new(),
        }
    }

    fn step(&mut self, ms: u64, line: &str) -> String {
        self.now = at(ms);
        if let ["shows", of, secret] = line.split_whitespace().collect::<Vec<_>>()[..] {
            let token = self.access.tokens.get(&token(of));
            let is_let_in =
                token.is_some_and(|it| it.is_good(self.now) && it.knows(&hash(secret), self.now));
            return if is_let_in { "let in".to_owned() } else { "kept out".to_owned() };
        }
        let said = match self.run(&command(line)) {
            Err(rejection) => format!("no: {}", rejection.reason()),
            Ok(decision) => say(&decision),
        };
        self.check_invariants();
        said
    }

    fn decide(&self, command: &Command) -> Result<Decision, Rejection> {
        let (caller, around) = (Caller::default(), Workspace::default());
        ask(self.now, &caller, &around, |asked| self.access.decide(asked, command))
    }

    fn run(&mut self, command: &Command) -> Result<Decision, Rejection> {
        let before = self.access.clone();
        let decided = self.decide(command);
        assert_eq!(before, self.access, "W4: deciding changed something");
        let decision = decided?;
        self.apply(&decision);
        Ok(decision)
    }

    /// Without the checks, which a story of thousands of steps cannot afford.
    fn just(&mut self, ms: u64, line: &str) {
        self.now = at(ms);
        let decision = self.decide(&command(line)).unwrap();
        self.apply(&decision);
    }

    fn apply(&mut self, decision: &Decision) {
        for event in &decision.events {
            let AnyEvent::Access(event) = event else { unreachable!("not of access: {event:?}") };
            self.access.apply(self.now, &Principal::default(), event);
            self.happened.push((self.now, event.clone()));
            if let Event::TokenIssued(it) = event {
                self.granted.insert(it.token.clone(), (it.scope.clone(), it.expires));
                if let Some(invitation) = &it.invitation {
                    let earlier = self.made.insert(invitation.clone(), it.token.clone());
                    assert_eq!(earlier, None, "R1: {invitation} made another before");
                }
            }
        }
    }

    fn check_invariants(&mut self) {
        for (id, token) in &self.access.tokens {
            let is_good = token.is_good(self.now);
            assert!(!is_good || !self.over.contains(id), "R2: {id} is good again");
            if !is_good {
                self.over.insert(id.clone());
            }
            let granted = (token.scope.clone(), token.expires);
            assert_eq!(Some(&granted), self.granted.get(id), "R3: {id}");
        }
    }

    /// W1: what happened makes this state.
    fn replay(&self) {
        let mut replayed = Access::default();
        for (at, event) in &self.happened {
            replayed.apply(*at, &Principal::default(), event);
        }
        assert!(replayed == self.access, "W1: replay");
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "these stories are about access")]
fn say(decision: &Decision) -> String {
    let mut said = match &decision.reply {
        Reply::Access(access::Reply::Invited { expires, .. }) => {
            format!("open until {}", expires.as_millis())
        }
        Reply::Access(access::Reply::Issued { expires, scope, .. }) => {
            let roles = match &scope.roles {
                Roles::Any => "all".to_owned(),
                Roles::Only(roles) => {
                    roles.iter().map(RoleId::as_str).collect::<Vec<_>>().join(",")
                }
            };
            match expires {
                None => format!("a token as {roles}"),
                Some(expires) => format!("a token as {roles} until {}", expires.as_millis()),
            }
        }
        Reply::Access(access::Reply::Rotated { old_until, .. }) => {
            format!("old until {}", old_until.as_millis())
        }
        Reply::Done => match &decision.events[..] {
            [] => "so already".to_owned(),
            [AnyEvent::Access(Event::InvitationWithdrawn { .. })] => "withdrawn".to_owned(),
            [AnyEvent::Access(Event::InvitationMisused { .. })] => "noted".to_owned(),
            [AnyEvent::Access(Event::OldSecretEnded { .. })] => "old ended".to_owned(),
            [AnyEvent::Access(Event::TokenRevoked { .. })] => "revoked".to_owned(),
            other => unreachable!("these have replies of their own: {other:?}"),
        },
        other => unreachable!("not of access: {other:?}"),
    };
    if decision.is_repeat {
        said += " (said before)";
    }
    said
}

#[track_caller]
fn check(steps: &[(u64, &str)], expected: &str) {
    let mut story = Story::new();
    let mut told = String::new();
    for (ms, line) in steps {
        let said = story.step(*ms, line);
        told += &format!("{ms} {line}: {said}\n");
    }
    story.replay();
    let trim = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(told.trim()), trim(expected.trim()));
}

#[test]
fn a_code_makes_one_token_and_says_so_again_to_its_maker_alone() {
    check(
        &[
            (0, "invites c as dev for 100 tokens 50"),
            (1, "invites c as dev for 100 tokens 50"),
            (1, "invites c as qa for 100 tokens 50"),
            (1, "invites c as dev for 101 tokens 50"),
            (1, "invites c as dev for 100"),
            (9, "joins c with s"),
            (10, "joins c with s"),
            (11, "joins c with t"),
            (12, "reports c"),
            (13, "withdraws c"),
            (58, "shows s s"),
            (58, "joins c with s"),
            (59, "shows s s"),
            (59, "joins c with s"),
        ],
        "
        0 invites c as dev for 100 tokens 50: open until 100
        1 invites c as dev for 100 tokens 50: open until 100 (said before)
        1 invites c as qa for 100 tokens 50: no: invalid_argument
        1 invites c as dev for 101 tokens 50: no: invalid_argument
        1 invites c as dev for 100: no: invalid_argument
        9 joins c with s: a token as dev until 59
        10 joins c with s: a token as dev until 59 (said before)
        11 joins c with t: no: invitation_spent
        12 reports c: noted
        13 withdraws c: no: invitation_spent
        58 shows s s: let in
        58 joins c with s: a token as dev until 59 (said before)
        59 shows s s: kept out
        59 joins c with s: no: invitation_spent",
    );
}

#[test]
fn a_token_expires_at_a_time_that_can_be_shown_or_never() {
    check(
        &[
            (0, "invites c as dev for 100 tokens 3153600000001"),
            (1, "invites c as dev for 100 tokens 18446744073709551615"),
            (2, "invites c as dev for 100 tokens 3153600000000"),
            (3, "issues s as dev for 3153600000001"),
            (4, "issues s as dev for 3153600000000"),
        ],
        "
        0 invites c as dev for 100 tokens 3153600000001: no: invalid_argument
        1 invites c as dev for 100 tokens 18446744073709551615: no: invalid_argument
        2 invites c as dev for 100 tokens 3153600000000: open until 102
        3 issues s as dev for 3153600000001: no: invalid_argument
        4 issues s as dev for 3153600000000: a token as dev until 3153600000004",
    );
}

#[test]
fn an_invitation_that_was_withdrawn_or_expired_is_as_one_that_never_was() {
    let refusal = |steps: &[(u64, &str)]| {
        let mut story = Story::new();
        for (ms, line) in steps {
            story.step(*ms, line);
        }
        story.now = at(100);
        story.run(&command("joins c with s")).unwrap_err()
    };
    let never = refusal(&[]);
    assert_eq!(never, Rejection::UnknownInvitation);
    assert_eq!(refusal(&[(0, "invites c as dev for 100")]), never);
    assert_eq!(refusal(&[(0, "invites c as dev for 500"), (1, "withdraws c")]), never);
    check(
        &[
            (0, "withdraws c"),
            (0, "invites c as all for 100"),
            (1, "withdraws c"),
            (2, "withdraws c"),
            (3, "invites c as all for 100"), // a late repeat opens nothing
            (4, "joins c with s"),
            (5, "reports c"),
            (6, "invites d as all for 100"),
            (105, "joins d with s"),
            (106, "joins d with s"), // the answer was lost, and the invitation expired meanwhile
        ],
        "
        0 withdraws c: no: unknown_invitation
        0 invites c as all for 100: open until 100
        1 withdraws c: withdrawn
        2 withdraws c: so already
        3 invites c as all for 100: open until 100 (said before)
        4 joins c with s: no: unknown_invitation
        5 reports c: so already
        6 invites d as all for 100: open until 106
        105 joins d with s: a token as all
        106 joins d with s: a token as all (said before)",
    );
}

#[test]
fn a_token_that_was_revoked_stays_so_whatever_is_said_again() {
    check(
        &[
            (0, "invites c as dev for 100"),
            (1, "joins c with s"),
            (2, "revokes s"),
            (3, "revokes s"),
            (4, "shows s s"),
            (5, "joins c with s"),
            (6, "rotates s to s2 over 50"),
            (7, "issues s as dev"),
            (8, "invites d as dev for 100"),
            (9, "joins d with s"), // one secret, one token
            (10, "joins d with t"),
            (11, "revokes nobody"),
        ],
        "
        0 invites c as dev for 100: open until 100
        1 joins c with s: a token as dev
        2 revokes s: revoked
        3 revokes s: so already
        4 shows s s: kept out
        5 joins c with s: no: invitation_spent
        6 rotates s to s2 over 50: no: unknown_token
        7 issues s as dev: no: invalid_argument
        8 invites d as dev for 100: open until 108
        9 joins d with s: no: invalid_argument
        10 joins d with t: a token as dev
        11 revokes nobody: no: unknown_token",
    );
}

#[test]
fn a_token_issued_again_is_the_same_and_the_last_one_may_be_revoked() {
    check(
        &[
            (0, "issues s as all for 100"),
            (50, "issues s as all for 100"),
            (50, "issues s as all for 101"),
            (50, "issues s as dev for 100"),
            (99, "shows s s"),
            (100, "shows s s"),
            (100, "issues s as all for 100"),
            (101, "rotates s to s2 over 50"),
            (102, "revokes s"),
            (103, "issues t as all"),
            (104, "revokes t"),
        ],
        "
        0 issues s as all for 100: a token as all until 100
        50 issues s as all for 100: a token as all until 100 (said before)
        50 issues s as all for 101: no: invalid_argument
        50 issues s as dev for 100: no: invalid_argument
        99 shows s s: let in
        100 shows s s: kept out
        100 issues s as all for 100: no: invalid_argument
        101 rotates s to s2 over 50: no: unknown_token
        102 revokes s: revoked
        103 issues t as all: a token as all
        104 revokes t: revoked",
    );
}

#[test]
fn a_rotated_secret_is_good_until_the_new_one_is_used_or_the_overlap_is_over() {
    check(
        &[
            (0, "invites c as dev for 900"),
            (1, "joins c with s"),
            (10, "rotates s to s2 over 50"),
            (20, "rotates s to s2 over 50"),
            (20, "shows s s"),
            (20, "shows s s2"),
            (20, "joins c with s"), // its answer was lost
            (21, "uses s s"),
            (22, "uses s s2"),
            (23, "uses s s2"),
            (24, "shows s s"),
            (25, "shows s s2"),
            (26, "joins c with s"),
            (30, "rotates s to s3 over 50"),
            (79, "shows s s2"),
            (80, "shows s s2"),
            (80, "shows s s3"),
            (90, "rotates s to s4 over 0"),
            (90, "shows s s3"),
            (91, "revokes s"),
            (92, "shows s s4"),
        ],
        "
        0 invites c as dev for 900: open until 900
        1 joins c with s: a token as dev
        10 rotates s to s2 over 50: old until 60
        20 rotates s to s2 over 50: old until 60 (said before)
        20 shows s s: let in
        20 shows s s2: let in
        20 joins c with s: a token as dev (said before)
        21 uses s s: so already
        22 uses s s2: old ended
        23 uses s s2: so already
        24 shows s s: kept out
        25 shows s s2: let in
        26 joins c with s: no: invitation_spent
        30 rotates s to s3 over 50: old until 80
        79 shows s s2: let in
        80 shows s s2: kept out
        80 shows s s3: let in
        90 rotates s to s4 over 0: old until 90
        90 shows s s3: kept out
        91 revokes s: revoked
        92 shows s s4: kept out",
    );
}

#[test]
fn a_token_has_two_secrets_at_most_and_none_comes_back() {
    check(
        &[
            (0, "issues s as dev"),
            (1, "rotates s to s over 50"), // to the one it has
            (10, "rotates s to s2 over 50"),
            (11, "rotates s to s over 50"),
            (12, "rotates s to s3 over 50"), // during the overlap: the oldest ends
            (13, "shows s s"),
            (13, "shows s s2"),
            (13, "shows s s3"),
            (14, "rotates s to s2 over 50"), // an old call that arrives late
            (15, "rotates s to s over 50"),
            (16, "uses s s2"), // seen before the newer rotation: that one's overlap stands
            (17, "shows s s2"),
            (18, "uses s s3"),
            (19, "rotates s to s over 50"),
        ],
        "
        0 issues s as dev: a token as dev
        1 rotates s to s over 50: no: invalid_argument
        10 rotates s to s2 over 50: old until 60
        11 rotates s to s over 50: no: invalid_argument
        12 rotates s to s3 over 50: old until 62
        13 shows s s: kept out
        13 shows s s2: let in
        13 shows s s3: let in
        14 rotates s to s2 over 50: no: invalid_argument
        15 rotates s to s over 50: no: invalid_argument
        16 uses s s2: so already
        17 shows s s2: let in
        18 uses s s3: old ended
        19 rotates s to s over 50: no: invalid_argument",
    );
}

#[test]
fn what_grants_nothing_or_is_ambiguous_is_refused() {
    let mut story = Story::new();
    let nothing = Scope { rights: BTreeSet::new(), ..Scope::all() };
    let Command::Invite(invite) = command("invites c as all for 100") else { unreachable!() };
    let Command::Issue(issue) = command("issues s as all") else { unreachable!() };
    let roles = (0..=tasuki_proto::limits::ROLES_MAX).map(|it| format!("r{it}").parse().unwrap());
    let crowd = Scope { roles: Roles::Only(roles.collect()), ..Scope::all() };
    for refused in [
        Command::Invite(Invite { scope: nothing.clone(), ..invite.clone() }),
        Command::Invite(Invite { scope: crowd.clone(), ..invite.clone() }),
        Command::Invite(Invite { token_valid_ms: Some(0), ..invite }),
        Command::Issue(Issue { scope: nothing, ..issue.clone() }),
        Command::Issue(Issue { scope: crowd, ..issue }),
    ] {
        let refusal = story.run(&refused).unwrap_err();
        assert!(matches!(refusal, Rejection::Invalid(_)), "{refused:?}: {refusal}");
    }
}

#[test]
fn no_more_attempts_are_noted_than_anybody_reads() {
    let mut story = Story::new();
    story.step(0, "invites c as all for 100");
    assert_eq!(story.step(1, "reports c"), "so already", "nobody joined yet");
    story.step(1, "joins c with s");
    for _ in 0..MISUSES_MAX {
        assert_eq!(story.step(2, "reports c"), "noted");
    }
    assert_eq!(story.step(3, "reports c"), "so already");
    assert_eq!(story.access.invitations[&invitation("c")].misuses.len(), MISUSES_MAX);
}

#[test]
fn at_the_limit_the_invitation_that_is_over_for_the_longest_is_forgotten() {
    let mut story = Story::new();
    story.just(1, "invites spent as all for 900");
    story.just(1, "invites gone as all for 500");
    story.just(1, "invites back as all for 50");
    for number in 3..INVITATIONS_MAX {
        story.just(1, &format!("invites c{number} as all for 900"));
    }
    for (ms, line, said) in [
        (2, "invites more as all for 900", "no: overloaded"),
        (3, "withdraws back", "withdrawn"),
        (4, "joins spent with s", "a token as all"),
        (5, "invites more as all for 900", "open until 905"), // forgets what was used
        (6, "joins spent with s", "no: unknown_invitation"),
        (6, "shows s s", "let in"),
        (7, "invites back as all for 50", "open until 51 (said before)"),
        (8, "invites even-more as all for 900", "open until 908"), // forgets what was withdrawn
        (9, "invites most as all for 900", "no: overloaded"),
        (501, "invites most as all for 900", "open until 1401"), // forgets what expired
        (502, "withdraws gone", "no: unknown_invitation"),
    ] {
        assert_eq!(story.step(ms, line), said, "{ms} {line}");
    }
    assert_eq!(story.access.invitations.len(), INVITATIONS_MAX);
    story.replay();
}

#[test]
fn at_the_limit_the_token_that_is_over_for_the_longest_is_forgotten() {
    let mut story = Story::new();
    story.just(1, "issues short as all for 50");
    story.just(1, "invites c as all for 900");
    story.just(1, "joins c with mine");
    for number in 2..TOKENS_MAX {
        story.just(1, &format!("issues s{number} as all"));
    }
    for (ms, line, said) in [
        (2, "issues more as all", "no: overloaded"),
        (3, "invites d as all for 900", "open until 903"),
        (4, "joins d with t", "no: overloaded"),
        (40, "revokes mine", "revoked"),
        (60, "issues more as all", "a token as all"), // forgets the one revoked
        (61, "joins c with mine", "no: invitation_spent"),
        (62, "revokes mine", "no: unknown_token"),
        (63, "joins d with t", "a token as all"), // forgets the one that expired at 51
        (64, "issues most as all", "no: overloaded"),
    ] {
        assert_eq!(story.step(ms, line), said, "{ms} {line}");
    }
    assert_eq!(story.access.tokens.len(), TOKENS_MAX);
    assert!(!story.access.tokens.contains_key(&token("short")));
    story.replay();
}

/// A broker that starts again has the time of its latest record, or its machine's if that is later.
#[test]
fn what_expired_stays_over_when_the_clock_is_set_back() {
    check(
        &[
            (0, "invites c as dev for 100"),
            (0, "issues s as dev for 50"),
            (49, "ends what expired"),
            (50, "ends what expired"),
            (51, "ends what expired"),
            (40, "shows s s"),
            (100, "ends what expired"),
            (90, "joins c with t"),
            (91, "withdraws c"),
        ],
        "
        0 invites c as dev for 100: open until 100
        0 issues s as dev for 50: a token as dev until 50
        49 ends what expired: so already
        50 ends what expired: revoked
        51 ends what expired: so already
        40 shows s s: kept out
        100 ends what expired: withdrawn
        90 joins c with t: no: unknown_invitation
        91 withdraws c: so already",
    );
}
