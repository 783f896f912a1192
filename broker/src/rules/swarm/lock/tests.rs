//! Which files and patterns meet.

use tasuki_proto::swarm::Stamp;

use super::{super::super::turn::Actor, *};

fn key(path: &str) -> LockKey {
    LockKey::new("repo", path, false).unwrap()
}

#[test]
fn patterns_meet_where_a_path_is_on_both() {
    for (left, right, meet) in [
        ("a", "a", true),
        ("a", "b", false),
        ("a", "a/b/c", true),
        ("a/b", "a/bc", false),
        ("./a//b/", "a/b/c", true),
        ("*", "a", true),
        ("*", "a/b", false),
        ("*/", "a/b", true),
        ("*", "a/*", false),
        ("**", "a/b/c", true),
        ("**/x", "a/b/x", true),
        ("**/x", "x", true),
        ("a/**/z", "a/z", true),
        ("a/**/z", "a/b/c/z", true),
        ("a/**/z", "b/**/z", false),
        ("a/**", "**/z", true),
        ("*.rs", "a.rs", true),
        ("*.rs", "a.rsx", false),
        ("a*b*c", "*bb*", true),
        ("a*", "*b", true),
        ("a*", "b*", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("??", "*", true),
        ("??", "???", false),
        ("[a-c]x", "bx", true),
        ("[a-c]x", "dx", false),
        ("[!a-c]x", "dx", true),
        ("[!a-c]x", "ax", false),
        ("[a-c]", "[c-e]", true),
        ("[a-c]", "[d-e]", false),
        ("[!a-c]", "[a-d]", true),
        ("[!a-c]", "[a-c]", false),
        ("[!a]", "[!b]", true),
        ("[a-ce-g]", "[dh]", false),
        ("[c-ga-d]", "[!a-fh]", true),
        ("[!a-f]", "[b-e]", false),
        ("[z-a]", "z", false),
        ("ab*", "a*b", true),
        ("ab*ba", "aba", false),
        ("*ab*ba*", "aba", false),
        ("*ab*ba*", "a?ba", true),
        ("*aab*", "aaab", true),
        ("*?x", "x", false),
        ("*x?*", "abxc", true),
        ("**/a/b/**/c", "x/a/a/b/c", true),
        ("**/a/b/**/c", "*/a/a/*", false),
        ("**/a/b/**/c", "*/a/*/*", true),
        ("src/[id]/x", "src/[id]/x", true),
        ("a/*/c", "*/b/*", true),
        ("a/*/c", "*/b/d", false),
        ("a/*/c", "a/b", true),
    ] {
        let (one, other) = (key(left), key(right));
        assert_eq!(one.overlaps(&other), meet, "{left} and {right}");
        assert_eq!(other.overlaps(&one), meet, "{right} and {left}");
    }
}

#[test]
fn a_path_stays_inside_its_repository() {
    for bad in ["", "/", "/etc/passwd", "..", "a/../b", "a\\b", "a\0", ".", "[a"] {
        assert!(LockKey::new("repo", bad, false).is_err(), "{bad:?}");
    }
    assert!(LockKey::new("repo", &"a".repeat(LOCK_PATH_BYTES + 1), false).is_err());
    assert!(LockKey::new("repo", &"*a".repeat(17), false).is_err());
    assert!(!key("a").overlaps(&LockKey::new("other", "a", false).unwrap()));
    let folded = LockKey::new("repo", "SRC/A", true).unwrap();
    assert!(folded.overlaps(&key("src/a")) && !key("SRC/A").overlaps(&key("src/a")));
    assert!(LockKey::new("repo", "S*", true).unwrap().overlaps(&key("src")));
}

const LOCK_PATH_BYTES: usize = tasuki_proto::limits::LOCK_PATH_BYTES_MAX;

/// The index finds what comparing each with each finds.
#[test]
fn what_is_locked_is_found() {
    let paths = ["a", "a/b", "a/b/c", "A/b", "a/*", "**/c", "b", "b/c/d", "[ab]/b", "*"];
    for locked in paths {
        for (is_folded, other) in paths.iter().flat_map(|it| [(false, it), (true, it)]) {
            let mut locks = Locks::default();
            let lock = Lock {
                id: LockId::default(),
                role: "W".parse().unwrap(),
                keys: vec![key(locked)],
                task: None,
                token: FencingToken::from(1),
                lease: Lease::until(Timestamp::from_millis(9)),
                acquired: Timestamp::default(),
                renewed: Timestamp::default(),
            };
            locks.insert(lock);
            let asked = LockKey::new("repo", other, is_folded).unwrap();
            let meet = asked.overlaps(&key(locked));
            let by = Actor::Role("V".parse().unwrap());
            let free = Effort::unbounded();
            let found = locks.conflict(by.role(), std::slice::from_ref(&asked), &free).unwrap();
            assert_eq!(found.is_some(), meet, "{locked} and {other}, folded: {is_folded}");
            let own = "W".parse().unwrap();
            assert!(locks.conflict(Some(&own), &[asked], &free).unwrap().is_none());
            locks.remove(LockId::default(), &WhyUnlocked::Unlocked, &Principal::default());
            locks.given_back.clear();
            assert_eq!(locks, Locks::default(), "nothing is left");
        }
    }
}

/// As slow as it is told: every item of one with every item of the other.
#[test]
fn patterns_meet_as_a_look_at_every_place_of_both_says() {
    fn slow(left: &[u8], right: &[u8]) -> bool {
        match (left, right) {
            ([], []) => true,
            ([b'*', left_rest @ ..], _) if slow(left_rest, right) => true,
            (_, [b'*', right_rest @ ..]) if slow(left, right_rest) => true,
            ([b'*', ..], [other, right_rest @ ..]) if *other != b'*' => slow(left, right_rest),
            ([other, left_rest @ ..], [b'*', ..]) if *other != b'*' => slow(left_rest, right),
            ([a, left_rest @ ..], [b, right_rest @ ..]) if *a != b'*' && *b != b'*' => {
                (a == b || *a == b'?' || *b == b'?') && slow(left_rest, right_rest)
            }
            (_, _) => false,
        }
    }
    let of = |mut number: usize| {
        let mut pattern = String::new();
        while number != 0 {
            pattern.push(char::from(b"ab*?"[number % 4]));
            number /= 4;
        }
        // With a wildcard, it is on no more than its one segment.
        pattern + "?"
    };
    let patterns: Vec<String> = (0..4_usize.pow(4)).map(of).collect();
    for left in &patterns {
        for right in &patterns {
            let meet = slow(left.as_bytes(), right.as_bytes());
            assert_eq!(key(left).overlaps(&key(right)), meet, "{left} and {right}");
        }
    }
}

/// The steps that comparing two takes.
fn steps(left: &str, right: &str) -> usize {
    let effort = Effort::unbounded();
    key(left).overlaps_within(&key(right), &effort);
    usize::MAX - effort.left()
}

#[test]
fn no_two_patterns_take_more_steps_than_their_lengths_multiplied() {
    let longest = |begin: &str, fill: &str, end: &str| {
        let times = (LOCK_PATH_BYTES - begin.len() - end.len()) / fill.len();
        format!("{begin}{}{end}", fill.repeat(times))
    };
    let a = longest("*", "a", "*x");
    let b = longest("*", "a", "*y");
    assert!(steps(&a, &b) < 8 * LOCK_PATH_BYTES, "ends alone are compared: {}", steps(&a, &b));
    let deep = longest("**/", "a/", "**/x");
    let other = longest("**/", "a/", "**/y");
    assert!(steps(&deep, &other) < 8 * LOCK_PATH_BYTES);
    let half = format!("*{}b*?", "a".repeat(LOCK_PATH_BYTES / 2));
    let halves = format!("**/{}b/**/*", "a/".repeat(LOCK_PATH_BYTES / 4));
    let class = longest("[", "acegikmoqsuwy", "]");
    let others = longest("[", "bdfhjlnprtvxz", "]");
    let all = [a, b, deep, other, half, halves, class, others];
    let plain = [longest("", "a", "?"), longest("?", "a/", "a"), longest("", "a", "")];
    for left in all.iter().chain(&plain) {
        for right in all.iter().chain(&plain) {
            let (m, n) = (left.len(), right.len());
            let taken = steps(left, right);
            assert!(taken <= 2 * m * n + 2 * (m + n), "{taken} for {left} and {right}");
        }
    }
}

#[test]
fn files_are_compared_as_long_as_the_effort_lasts() {
    let mut locks = Locks::default();
    for number in 0..16 {
        locks.insert(Lock {
            id: LockId(Stamp { ms: number, tail: 0 }),
            role: "W".parse().unwrap(),
            keys: vec![key(&format!("*{}b{number}*", "a".repeat(500)))],
            task: None,
            token: FencingToken::from(1),
            lease: Lease::until(Timestamp::from_millis(9)),
            acquired: Timestamp::default(),
            renewed: Timestamp::default(),
        });
    }
    let other = "V".parse().unwrap();
    let asked = [key(&format!("{}?", "a".repeat(1000)))];
    let effort = Effort::new(1024 * 1024);
    let refused = locks.conflict(Some(&other), &asked, &effort).unwrap_err();
    assert_eq!(refused, Rejection::TooManySteps);
    let free = locks.conflict(Some(&other), &asked, &Effort::unbounded());
    assert_eq!(free, Ok(None), "what was let in before is looked at whole");
    let (usual, effort) = ([key("src/main.rs")], Effort::new(1024 * 1024));
    assert_eq!(locks.conflict(Some(&other), &usual, &effort), Ok(None));
}

/// So that a directory with many costs no more than a few.
#[test]
fn more_locks_than_are_wanted_are_not_gathered() {
    let mut locks = Locks::default();
    for number in 0..5 {
        locks.insert(Lock {
            id: LockId(Stamp { ms: number, tail: 0 }),
            role: "W".parse().unwrap(),
            keys: vec![key(&format!("src/{number}"))],
            task: None,
            token: FencingToken::from(1),
            lease: Lease::until(Timestamp::from_millis(9)),
            acquired: Timestamp::default(),
            renewed: Timestamp::default(),
        });
    }
    let on = |paths: &[&str], most| {
        let keys: Vec<LockKey> = paths.iter().map(|it| key(it)).collect();
        let found = locks.on(&keys, most)?;
        Some(found.iter().map(|it| it.id.0.ms).collect::<Vec<_>>())
    };
    assert_eq!(on(&["src"], 5), Some(vec![4, 3, 2, 1, 0]));
    assert_eq!(on(&["src"], 4), None);
    assert_eq!(on(&["src/1", "src/3", "src/3/x"], 3), Some(vec![3, 1]));
    assert_eq!(on(&["docs"], 0), Some(vec![]));
}
