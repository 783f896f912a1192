//! Who plays a role, step by step.

use std::fmt::Write as _;

use super::*;

enum Step {
    Act,
    Look,
    Open,
    Close(Ended),
    Goodbye,
    TakeOver,
}

use Ended::{Call, Connection, Stream};
use Step::{Act, Close, Goodbye, Look, Open, TakeOver};

fn instance(name: &str) -> Instance {
    Instance::from(Some(name).filter(|it| !it.is_empty()).map(|it| it.parse().expect("an id")))
}

/// What each step comes to, steps at seconds.
fn check(steps: &[(u64, &str, Step)], expected: &str) {
    let mut players = Players::default();
    let mut told = String::new();
    for (secs, name, step) in steps {
        let (now, who) = (Moment::from_millis(secs * 1000), instance(name));
        let by = |it: &InUse| match it.quiet {
            Some(quiet) => format!("{}, quiet {} s", it.by, quiet.as_secs()),
            None => format!("{}, there", it.by),
        };
        let said = match step {
            Act => match players.enter(now, &who, &format!("client of {name}")) {
                Ok(true) => "plays from here on".to_owned(),
                Ok(false) => "plays".to_owned(),
                Err(in_use) => {
                    assert_eq!(in_use.client, format!("client of {}", short(&in_use.by)));
                    format!("no: {}", by(&in_use))
                }
            },
            Look if players.looked(now, &who, "") => "is a sign of life".to_owned(),
            Look => "only looks".to_owned(),
            Open => {
                players.opened(&who);
                continue;
            }
            Close(what) => {
                players.closed(now, &who, *what);
                continue;
            }
            Goodbye => {
                players.ended(now, &who, Connection);
                continue;
            }
            TakeOver => match players.take_over(now, &who) {
                Some(loses) => format!("takes it from {}", by(&loses)),
                None => "takes it".to_owned(),
            },
        };
        writeln!(told, "{secs} {name} {said}").expect("a String takes everything");
    }
    assert_eq!(told.trim(), expected);
}

fn short(who: &Instance) -> &str {
    who.id().map_or("", InstanceId::as_str)
}

/// Holds P1.
#[test]
fn whoever_acts_first_plays_until_it_was_quiet_for_a_quarter_of_an_hour() {
    check(
        &[(0, "x", Act), (1, "y", Act), (2, "x", Act), (901, "y", Act), (902, "y", Act)],
        "0 x plays from here on
1 y no: instance x, quiet 1 s
2 x plays
901 y no: instance x, quiet 899 s
902 y plays from here on",
    );
}

#[test]
fn all_without_an_id_are_one() {
    check(
        &[(0, "", Act), (1, "", Act), (2, "y", Act)],
        "0  plays from here on
1  plays
2 y no: the instance without an id, quiet 1 s",
    );
}

#[test]
fn who_only_looks_takes_no_part() {
    check(
        &[(0, "y", Look), (1, "x", Act), (2, "y", Look), (800, "x", Look), (1600, "y", Act)],
        "0 y is a sign of life
1 x plays from here on
2 y only looks
800 x is a sign of life
1600 y no: instance x, quiet 800 s",
    );
}

#[test]
fn who_has_something_open_is_there() {
    check(
        &[(0, "x", Open), (1, "x", Act), (9000, "y", Act)],
        "1 x plays from here on\n9000 y no: instance x, there",
    );
    // Also what was opened before it played.
    check(
        &[(0, "y", Open), (0, "x", Act), (900, "y", Act), (9000, "x", Act)],
        "0 x plays from here on
900 y plays from here on
9000 x no: instance y, there",
    );
}

#[test]
fn how_it_went_says_how_long_it_is_waited_for() {
    for (ended, still, gone) in [(Call, 910, 911), (Stream, 40, 41), (Connection, 10, 11)] {
        let mut steps = vec![(0, "x", Open), (1, "x", Act), (11, "x", Close(ended))];
        if 11 < still {
            steps.push((still, "y", Act));
        }
        steps.push((gone, "y", Act));
        let refused = match still {
            10 => String::new(),
            _ => format!("{still} y no: instance x, quiet {} s\n", still - 11),
        };
        let expected = format!("1 x plays from here on\n{refused}{gone} y plays from here on");
        check(&steps, &expected);
    }
}

#[test]
fn a_process_that_ended_is_gone_whatever_of_it_is_closed_later() {
    for later in [Call, Stream] {
        check(
            &[
                (0, "x", Open),
                (0, "x", Open),
                (1, "x", Act),
                (2, "x", Close(Connection)),
                (3, "y", Act),
                (4, "x", Close(later)),
                (4, "y", Act),
            ],
            "1 x plays from here on
3 y no: instance x, there
4 y plays from here on",
        );
    }
}

#[test]
fn who_comes_back_in_time_plays_on() {
    check(
        &[
            (0, "x", Open),
            (1, "x", Act),
            (2, "x", Close(Connection)),
            (3, "x", Act),
            (60, "y", Act),
            (61, "x", Goodbye),
            (62, "y", Act),
        ],
        "1 x plays from here on
3 x plays
60 y no: instance x, quiet 57 s
62 y plays from here on",
    );
}

#[test]
fn the_end_of_another_agents_connection_changes_nothing() {
    check(
        &[(0, "x", Act), (1, "y", Open), (2, "y", Close(Connection)), (3, "y", Act)],
        "0 x plays from here on\n3 y no: instance x, quiet 3 s",
    );
}

/// Holds P2.
#[test]
fn a_person_gives_a_role_to_another_and_back() {
    check(
        &[
            (0, "x", Open),
            (1, "x", Act),
            (2, "y", TakeOver),
            (4, "y", Act),
            (5, "x", Act),
            (6, "x", TakeOver),
            (7, "x", Act),
            (8, "x", TakeOver),
        ],
        "1 x plays from here on
2 y takes it from instance x, there
4 y plays
5 x no: instance y, quiet 1 s
6 x takes it from instance y, quiet 2 s
7 x plays
8 x takes it",
    );
    // Nobody has it, or nobody who is still there.
    check(&[(0, "", TakeOver), (901, "x", TakeOver)], "0  takes it\n901 x takes it");
}

#[test]
fn whoever_called_or_is_connected_could_play() {
    let mut players = Players::default();
    let at = |secs: u64| Moment::from_millis(secs * 1000);
    let list = |players: &Players, secs| -> String {
        let all = players.candidates(at(secs)).into_iter().map(|it| {
            let id = it.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
            let plays = if it.is_playing { " plays" } else { "" };
            let quiet = it.quiet.map_or_else(|| "there".to_owned(), |it| format!("{it:?}"));
            format!("{id}{plays} {:?} {quiet}", it.client)
        });
        all.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(list(&players, 0), "");
    players.opened(&instance("z"));
    players.enter(at(1), &instance("x"), "codex 1").expect("free");
    players.enter(at(2), &instance("y"), "claude 2").expect_err("x plays");
    players.looked(at(3), &instance(""), "zed 3");
    // What is not known does not replace what is.
    players.looked(at(4), &instance("y"), "");
    assert_eq!(
        list(&players, 5),
        "- \"zed 3\" 2s, x plays \"codex 1\" 4s, y \"claude 2\" 1s, z \"\" there"
    );
    players.take_over(at(6), &instance("z"));
    let told = list(&players, 6);
    assert!(told.contains("z plays") && !told.contains("x plays"), "{told}");
    // It has not called, and yet has the role.
    players.take_over(at(6), &instance("new"));
    assert!(list(&players, 7).contains("new plays \"\" 1s"), "{}", list(&players, 7));
    players.take_over(at(7), &instance("z"));
    for number in 0..2 * KNOWN_MAX as u64 {
        players.looked(at(7 + number), &instance(&format!("a{number}")), "flood 1");
    }
    assert_eq!(players.candidates(at(100)).len(), KNOWN_MAX + 1, "and the one that is connected");
}
