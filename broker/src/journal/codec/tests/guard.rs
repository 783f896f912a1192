//! The bytes of limits, budgets and pauses.

use super::*;
use crate::rules::{
    guard::{self, Budget, Guard, Limits, PauseReason, RolePause, RoleUse, Usage},
    turn,
};

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

const BUDGET: Budget = Budget { calls: Some(100), tokens: Some(5000), window_ms: 60_000 };
const USED: Usage = Usage { calls: 3, tokens: 70 };

/// One event of every kind.
fn events() -> Vec<guard::Event> {
    let (max, window_ms) = (100, 60_000);
    vec![
        guard::Event::LimitsSet(Limits { turns: Some(9), hops: Some(0) }),
        guard::Event::LoopLimitSet("main".parse().unwrap(), Some(7)),
        guard::Event::BudgetSet(role("A"), Some(BUDGET)),
        guard::Event::UsageReported(role("A"), USED),
        guard::Event::RolePaused(role("A"), PauseReason::Calls { max, window_ms }),
        guard::Event::RolePaused(role("A"), PauseReason::Tokens { max, window_ms }),
        guard::Event::RolePaused(role("A"), PauseReason::Hops { hops: 300 }),
        guard::Event::RoleResumed(role("A"), "seen".to_owned()),
    ]
}

/// Why loops are paused, besides that somebody asked for it.
fn pauses() -> Vec<turn::PauseReason> {
    vec![
        turn::PauseReason::Turns { turns: 200 },
        turn::PauseReason::Cycle { length: 2, times: 3 },
        turn::PauseReason::Role { role: role("A"), reason: PauseReason::Hops { hops: 300 } },
    ]
}

/// Holds A5.
#[test]
fn the_bytes_of_limits_and_pauses_are_unchanged() {
    let told: String = events().iter().map(|it| pinned(&Event::Guard(it.clone()))).collect();
    let paused: String = pauses().iter().map(pinned).collect();
    check_golden("tests/guard_events.golden.txt", &(told + &paused));
}

#[test]
fn the_bytes_of_a_snapshot_with_budgets_are_unchanged() {
    let pause = RolePause {
        at: Timestamp::from_millis(7),
        reason: PauseReason::Calls { max: 100, window_ms: 60_000 },
    };
    let of = RoleUse {
        budget: Some(BUDGET),
        since: Timestamp::from_millis(5),
        used: USED,
        pause: Some(pause),
        is_fresh: true,
    };
    let state = Workspace {
        guard: Guard {
            limits: Limits { turns: Some(9), hops: None },
            loops: [("main".parse().unwrap(), 7)].into(),
            roles: [(role("A"), of)].into(),
        },
        ..Workspace::default()
    };
    let stored = encode_snapshot(&state);
    check_golden("tests/guard_snapshot.golden.txt", &hex(&stored));
    assert_eq!(decode_snapshot(stored).unwrap(), state);
}

/// Before there were limits, loops had no pause, entries of histories no hops, letters no cause,
/// and mailboxes did not know what was handed last.
#[test]
fn what_earlier_releases_wrote_is_read() {
    let bytes = |hex: &str| -> Bytes {
        let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|it| it.iter().collect::<String>());
        pairs.map(|it| u8::from_str_radix(&it, 16).unwrap()).collect()
    };
    let state = decode_snapshot(bytes(include_str!("earlier_snapshot.golden.txt"))).unwrap();
    let main = &state.loops.by_id[&"main".parse().unwrap()];
    assert_eq!((main.turn.get(), &main.pause, main.turns_alone()), (2, &None, 0));
    assert_eq!(main.latest.as_ref().unwrap().hops, None);
    assert_eq!(state.guard, Guard::default());
    let state = decode_snapshot(bytes(include_str!("earlier_mail.golden.txt"))).unwrap();
    assert!(state.mail.mailboxes().iter().all(|it| it.handed.is_none()));
    let heads: Vec<_> = state.mail.threads().iter().flat_map(|it| it.heads.iter()).collect();
    assert!(!heads.is_empty() && heads.iter().all(|it| it.hops == 0));
    let record = decode_record(bytes(include_str!("earlier_mail_record.golden.txt"))).unwrap();
    let sent = record.events.iter().filter_map(|event| {
        let Event::Mail(crate::rules::mailbox::Event::Sent(it)) = event else { return None };
        Some(it)
    });
    assert!(sent.clone().count() != 0);
    assert!(sent.into_iter().all(|it| it.hops.is_none() && it.cause.is_none()));
}
