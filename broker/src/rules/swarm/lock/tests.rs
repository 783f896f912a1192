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
        ("**/*.css", "src/main.rs", true),
        ("**/*.css", "src/a.css", true),
        ("src/**/x.rs", "src", true),
        ("src/**/x.rs", "src/a", true),
        ("src/**/x.rs", "docs/x.rs", false),
        ("src/**/x.rs", "src/a/b/x.rs", true),
        ("src/**/", "src/a/b", true),
        ("*/b/**/x.rs", "a", true),
        ("*/b/**/x.rs", "a/c", false),
        ("src/a/**", "src/**/x.rs", true),
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
    let below = |bytes| LockKey::new("repo", &format!("*{}/", "a".repeat(bytes - 2)), false);
    assert!(below(LOCK_PATH_BYTES).is_err(), "with what stands for all below it");
    let longest = below(LOCK_PATH_BYTES - 2).unwrap();
    assert_eq!(LockKey::new("repo", longest.path(), false), Ok(longest), "as it is read from disk");
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
    let mut paths = of_segments(&["a", "b"], 3);
    paths.extend(of_segments(&["a", "*", "**", "b*"], 3));
    let others = ["A/b", "a/b/c", "[ab]/b", "b/c/d", "*b/c?d", "ab/**", "c*a/b", "B?", "abc/*"];
    paths.extend(others.map(str::to_owned));
    for locked in &paths {
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

/// All paths of up to so many of these segments.
fn of_segments(segments: &[&str], most: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    for begin in 0.. {
        let Some(begin) = all.get(begin).cloned() else { break };
        if begin.matches('/').count() < most {
            all.extend(segments.iter().map(|it| format!("{begin}{it}/")));
        }
    }
    all.into_iter().filter_map(|it| Some(it.strip_suffix('/')?.to_owned())).collect()
}

/// A path without wildcards is on what matches it, or may match something below it.
#[test]
fn paths_meet_patterns_as_a_look_at_every_segment_says() {
    fn is_match(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], _) if is_match(rest, path) => true,
            (["**", ..], [_, below @ ..]) => is_match(pattern, below),
            ([one, rest @ ..], [name, below @ ..]) => {
                (one == name || *one == "*") && is_match(rest, below)
            }
            (_, _) => false,
        }
    }
    for pattern in of_segments(&["a", "b", "*", "**"], 4).iter().filter(|it| it.contains('*')) {
        for path in of_segments(&["a", "b"], 4) {
            let segments: Vec<&str> = pattern.split('/').collect();
            let names: Vec<&str> = path.split('/').collect();
            let named = segments.split(|it| *it == "**").next().unwrap();
            let both = names.len().min(named.len());
            let meet = is_match(&named[..both], &names[..both])
                && (named.len() < segments.len() || names.len() <= segments.len());
            assert_eq!(key(pattern).overlaps(&key(&path)), meet, "{pattern} and {path}");
            assert_eq!(key(&path).overlaps(&key(pattern)), meet, "{path} and {pattern}");
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

fn locked(number: u64, keys: Vec<LockKey>) -> Lock {
    Lock {
        id: LockId(Stamp { ms: number, tail: 0 }),
        role: "W".parse().unwrap(),
        keys,
        task: None,
        token: FencingToken::from(1),
        lease: Lease::until(Timestamp::from_millis(9)),
        acquired: Timestamp::default(),
        renewed: Timestamp::default(),
    }
}

#[test]
fn a_thousand_files_and_a_thousand_patterns_of_the_usual_length_are_compared_in_one_call() {
    let generated = |family: usize| {
        (0..1000).map(move |number| {
            key(&format!(
                "packages/*/src/components/*/widgets/generated_{family}_{number:03}_*_component.test.tsx"
            ))
        })
    };
    let ends = |family: usize| {
        (0..1000).map(move |number| key(&format!("packages/*/src/*_{family}_{number:03}.tsx")))
    };
    let named = |number: usize| {
        format!(
            "packages/frontend/src/components/dashboard/widgets/hand_written_{number:03}_name.tsx"
        )
    };
    let other = "V".parse().unwrap();
    let steps = |held: Vec<LockKey>, asked: Vec<LockKey>| {
        let mut locks = Locks::default();
        locks.insert(locked(1, held));
        let effort = Effort::new(LOCK_STEPS_MAX);
        assert_eq!(locks.conflict(Some(&other), &asked, &effort), Ok(None));
        LOCK_STEPS_MAX - effort.left()
    };
    let names = || (0..1000).map(|number| key(&named(number)));
    let folders = (0..1000).map(|number| key(&format!("packages/a{number}/**/*.test.tsx")));
    for (what, held, asked) in [
        ("patterns and names", generated(0).collect(), names().collect()),
        ("patterns and patterns", generated(0).collect(), generated(1).collect()),
        ("ends and names", ends(0).collect(), names().collect()),
        ("folders and names", folders.collect(), names().collect()),
        ("ends and ends", ends(0).collect(), ends(1).collect()),
    ] {
        let taken = steps(held, asked);
        assert!(taken < LOCK_STEPS_MAX / 2, "{what}: {taken}");
    }
    let anywhere = |family: usize, count: usize| -> Vec<LockKey> {
        (0..count).map(|number| key(&format!("**/made_{family}_{number:03}_*.rs"))).collect()
    };
    let taken = steps(anywhere(0, 1000), anywhere(1, 250));
    assert!(taken < LOCK_STEPS_MAX, "in any folder, both: {taken}");
}

/// However much there is to compare, each turn does what it can of it.
#[test]
fn locks_are_looked_through_in_parts() {
    let slow = format!("{}c?", "a".repeat(250));
    let mut locks = Locks::default();
    for number in 0..20 {
        let mut keys: Vec<LockKey> =
            (0..5).map(|other| key(&format!("*{}{number}b{other}*", "a".repeat(200)))).collect();
        if number % 3 == 0 {
            keys.push(key("src/main.rs"));
        }
        locks.insert(locked(number, keys));
    }
    let asked = [key(&format!("{}?", "a".repeat(500))), key(&slow), key("src")];
    let through = |most: usize, steps: usize| {
        let (mut all, mut from, mut turns) = (Vec::new(), None, 0);
        loop {
            let effort = Effort::new(steps);
            let (found, next) = locks.look_through(from, &asked, most, |_| true, &effort);
            all.extend(found.iter().map(|it| it.0.ms));
            turns += 1;
            if next.is_none() {
                return (all, turns);
            }
            assert_ne!(next, from, "it goes on");
            from = next;
        }
    };
    let (whole, turns) = through(usize::MAX, usize::MAX);
    assert_eq!((turns, &*whole), (1, &[18, 15, 12, 9, 6, 3, 0][..]));
    for (most, steps) in [(1, usize::MAX), (7, usize::MAX), (usize::MAX, 1), (3, 100_000)] {
        let (found, turns) = through(most, steps);
        assert!(1 < turns && found == whole, "{most} {steps}: {found:?}");
    }
    let none = locks.look_through(None, &[], usize::MAX, |it| it.id.0.ms < 2, &Effort::new(9));
    assert_eq!(none.0.len(), 2, "without files all that count");
}
