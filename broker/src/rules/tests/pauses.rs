//! Stories of loops that are paused.

use super::check;

/// Holds T5.
#[test]
fn a_paused_loop_keeps_what_is_handed_over_and_starts_when_a_person_says_so() {
    check(
        &[
            (0, "A hands over s1"),
            (1, "ann pauses because lunch"),
            (2, "B pauses because me-too"),
            (3, "B marks seen @2"),
            (500, "tick"),
            (501, "B hands over s2"),
            (502, "B hands over s2 @2"),
            (503, "A hands over s3 @2"),
            (900, "tick"),
            (901, "A resumes"),
            (902, "ann resumes"),
            (903, "ann resumes"),
            (1001, "tick"),
            (1002, "tick"),
            (1003, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        1 ann pauses because lunch: paused: ann paused it: lunch
        2 B pauses because me-too:  (said before)
        3 B marks seen @2: turn 2 seen
        500 tick:
        501 B hands over s2: turn 2 ended, turn 3 to A, paused: ann paused it: lunch
        502 B hands over s2 @2: turn 2 ended, turn 3 to A, paused: ann paused it: lunch (said before)
        503 A hands over s3 @2: no: stale_token
        900 tick:
        901 A resumes: no: right_forbidden
        902 ann resumes: resumed until 1002
        903 ann resumes:  (said before)
        1001 tick:
        1002 tick: turn 3 lapsed
        1003 tick:",
    );
}

#[test]
fn a_loop_that_has_not_begun_is_paused_and_begins_afterwards() {
    check(
        &[
            (0, "ann pauses because wait"),
            (1, "A marks handed @1"),
            (2, "ann resumes"),
            (3, "A marks handed @1"),
        ],
        "
        0 ann pauses because wait: paused: ann paused it: wait
        1 A marks handed @1:
        2 ann resumes: resumed
        3 A marks handed @1: renewed until 103",
    );
}

#[test]
fn a_person_takes_a_turn_of_a_paused_loop_which_stays_paused() {
    check(
        &[
            (0, "A hands over s1"),
            (1, "ann pauses because lunch"),
            (2, "A reclaims because impatient"),
            (3, "ann reclaims because gone >A"),
            (4, "A hands over s2"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        1 ann pauses because lunch: paused: ann paused it: lunch
        2 A reclaims because impatient: no: turn_held
        3 ann reclaims because gone >A: turn 2 of B taken, turn 3 to A
        4 A hands over s2: turn 3 ended, turn 4 to B, paused: ann paused it: lunch",
    );
}

#[test]
fn a_paused_loop_that_is_completed_goes_on_with_the_round_that_a_person_opens() {
    check(
        &[
            (0, "ann pauses because lunch"),
            (1, "A hands over done !"),
            (2, "ann pauses because again"),
            (3, "A starts a round"),
            (4, "A hands over s2"),
            (5, "B hands over done !"),
            (6, "ann starts a round"),
            (7, "A hands over s3"),
        ],
        "
        0 ann pauses because lunch: paused: ann paused it: lunch
        1 A hands over done !: turn 1 ended, completed
        2 ann pauses because again: no: loop_completed
        3 A starts a round: round 2, turn 2 to A
        4 A hands over s2: turn 2 ended, turn 3 to B, paused: ann paused it: lunch
        5 B hands over done !: turn 3 ended, completed
        6 ann starts a round: round 3, turn 4 to A
        7 A hands over s3: turn 4 ended, turn 5 to B",
    );
}

/// Holds T6.
#[test]
fn a_loop_is_paused_when_as_many_turns_ended_without_a_person_as_it_may_take() {
    check(
        &[
            (0, "A limits turns 3"),
            (0, "ann limits turns 3"),
            (1, "A hands over s1"),
            (2, "B hands over s2"),
            (3, "A hands over s3"),
            (4, "A hands over s3"),
            (5, "A hands over s3 @3"),
            (6, "ann resumes"),
            (7, "B hands over s4"),
            (8, "A hands over s5"),
            (9, "ann reclaims because mine >B"),
            (10, "B hands over s6"),
            (11, "A hands over s7"),
            (12, "ann limits main turns 9"),
            (13, "B hands over s8"),
            (14, "ann limits main turns -"),
            (15, "A hands over s9"),
        ],
        "
        0 A limits turns 3: no: right_forbidden
        0 ann limits turns 3: set
        1 A hands over s1: turn 1 ended, turn 2 to B
        2 B hands over s2: turn 2 ended, turn 3 to A
        3 A hands over s3: turn 3 ended, turn 4 to B, paused: 3 turns ended and no person acted in it
        4 A hands over s3: turn 3 ended, turn 4 to B, paused: 3 turns ended and no person acted in it (said before)
        5 A hands over s3 @3: turn 3 ended, turn 4 to B, paused: 3 turns ended and no person acted in it (said before)
        6 ann resumes: resumed until 106
        7 B hands over s4: turn 4 ended, turn 5 to A
        8 A hands over s5: turn 5 ended, turn 6 to B
        9 ann reclaims because mine >B: turn 6 of B taken, turn 7 to B
        10 B hands over s6: turn 7 ended, turn 8 to A
        11 A hands over s7: turn 8 ended, turn 9 to B
        12 ann limits main turns 9: set
        13 B hands over s8: turn 9 ended, turn 10 to A
        14 ann limits main turns -: set
        15 A hands over s9: turn 10 ended, turn 11 to B, paused: 4 turns ended and no person acted in it",
    );
}

#[test]
fn completing_a_loop_and_starting_it_again_is_no_way_around_its_limit() {
    check(
        &[
            (0, "ann limits turns 2"),
            (1, "A hands over done !"),
            (2, "A starts a round"),
            (3, "A hands over over !"),
            (4, "A starts a round"),
            (5, "A hands over s1"),
        ],
        "
        0 ann limits turns 2: set
        1 A hands over done !: turn 1 ended, completed
        2 A starts a round: round 2, turn 2 to A
        3 A hands over over !: turn 2 ended, completed
        4 A starts a round: round 3, turn 3 to A, paused: 2 turns ended and no person acted in it
        5 A hands over s1: turn 3 ended, turn 4 to B, paused: 2 turns ended and no person acted in it",
    );
}

#[test]
fn handovers_that_go_round_in_a_circle_are_paused_once_for_each_three_rounds() {
    check(
        &[
            (1, "A hands over ping @1"),
            (2, "B hands over pong @2"),
            (3, "A hands over ping @3"),
            (4, "B hands over pong @4"),
            (5, "A hands over ping @5"),
            (6, "B hands over pong @6"),
            (7, "ann resumes"),
            (8, "A hands over ping @7"),
            (9, "B hands over pong @8"),
            (10, "A hands over ping @9"),
            (11, "B hands over other @10"),
            (12, "ann limits turns 0"),
            (13, "A hands over tick @11"),
            (14, "B hands over tock @12"),
            (15, "A hands over tick @13"),
            (16, "B hands over tock @14"),
            (17, "A hands over tick @15"),
            (18, "B hands over tock @16"),
        ],
        "
        1 A hands over ping @1: turn 1 ended, turn 2 to B
        2 B hands over pong @2: turn 2 ended, turn 3 to A
        3 A hands over ping @3: turn 3 ended, turn 4 to B
        4 B hands over pong @4: turn 4 ended, turn 5 to A
        5 A hands over ping @5: turn 5 ended, turn 6 to B
        6 B hands over pong @6: turn 6 ended, turn 7 to A, paused: the same 2 handovers came 3 times in a row
        7 ann resumes: resumed until 107
        8 A hands over ping @7: turn 7 ended, turn 8 to B
        9 B hands over pong @8: turn 8 ended, turn 9 to A
        10 A hands over ping @9: turn 9 ended, turn 10 to B
        11 B hands over other @10: turn 10 ended, turn 11 to A
        12 ann limits turns 0: set
        13 A hands over tick @11: turn 11 ended, turn 12 to B
        14 B hands over tock @12: turn 12 ended, turn 13 to A
        15 A hands over tick @13: turn 13 ended, turn 14 to B
        16 B hands over tock @14: turn 14 ended, turn 15 to A
        17 A hands over tick @15: turn 15 ended, turn 16 to B
        18 B hands over tock @16: turn 16 ended, turn 17 to A",
    );
}

#[test]
fn a_person_who_takes_turns_is_a_person_and_no_node_plays_one() {
    check(
        &[
            (0, "n1 registers A B"),
            (0, "n2 registers human"),
            (1, "opens side A human"),
            (2, "opens main A human"),
            (3, "ann limits turns 2"),
            (4, "A hands over s1"),
            (5, "human hands over h1"),
            (500, "tick"),
            (501, "A reclaims because impatient"),
            (502, "A hands over s2"),
            (900, "tick"),
            (901, "A reclaims because impatient"),
            (902, "human hands over h2"),
            (903, "human pauses because lunch"),
            (904, "A resumes"),
            (905, "human resumes"),
            (906, "A hands over done !"),
            (907, "human starts a round"),
            (908, "human reclaims because mine"),
        ],
        "
        0 n1 registers A B: epoch 1
        0 n2 registers human: no: role_forbidden
        1 opens side A human: opened
        2 opens main A human: opened, seated
        3 ann limits turns 2: set
        4 A hands over s1: turn 1 ended, turn 2 to human
        5 human hands over h1: turn 2 ended, turn 3 to A
        500 tick: turn 3 lapsed
        501 A reclaims because impatient: turn 3 of A taken, turn 4 to A
        502 A hands over s2: turn 4 ended, turn 5 to human, paused: 2 turns ended and no person acted in it
        900 tick:
        901 A reclaims because impatient: no: turn_held
        902 human hands over h2: turn 5 ended, turn 6 to A, paused: 2 turns ended and no person acted in it
        903 human pauses because lunch:  (said before)
        904 A resumes: no: right_forbidden
        905 human resumes: resumed until 1005
        906 A hands over done !: turn 6 ended, completed
        907 human starts a round: round 2, turn 7 to A
        908 human reclaims because mine: turn 7 of A taken, turn 8 to human",
    );
}

/// Holds GD1 and GD2.
#[test]
fn a_role_that_used_up_its_budget_is_paused_with_the_loop_whose_turn_it_holds() {
    check(
        &[
            (0, "n1 registers A B"),
            (0, "ann gives A 3 calls in 1000"),
            (0, "A gives A 9 calls in 1000"),
            (1, "A marks handed @1"),
            (2, "A hands over s1"),
            (3, "B hands over s2"),
            (4, "A marks handed @3"),
            (5, "A starts a round"),
            (6, "A hands over s3"),
            (7, "B hands over s4"),
            (8, "A resumes A"),
            (9, "ann resumes"),
            (10, "A marks handed @5"),
            (11, "A marks seen @5"),
            (12, "A hands over s5"),
            (13, "B hands over s6"),
            (14, "ann resumes A"),
            (15, "A hands over s7"),
            (1100, "A starts a round"),
        ],
        "
        0 n1 registers A B: epoch 1
        0 ann gives A 3 calls in 1000: set
        0 A gives A 9 calls in 1000: no: right_forbidden
        1 A marks handed @1: renewed until 101
        2 A hands over s1: turn 1 ended, turn 2 to B
        3 B hands over s2: turn 2 ended, turn 3 to A
        4 A marks handed @3: turn 3 handed, A paused: it used up its budget of 3 calls in 1s, paused: A used up its budget of 3 calls in 1s
        5 A starts a round: no: paused
        6 A hands over s3: turn 3 ended, turn 4 to B, paused: A used up its budget of 3 calls in 1s
        7 B hands over s4: turn 4 ended, turn 5 to A, paused: A used up its budget of 3 calls in 1s
        8 A resumes A: no: right_forbidden
        9 ann resumes: resumed until 109, A goes on
        10 A marks handed @5: turn 5 handed
        11 A marks seen @5: turn 5 seen
        12 A hands over s5: turn 5 ended, turn 6 to B, A paused: it used up its budget of 3 calls in 1s
        13 B hands over s6: turn 6 ended, turn 7 to A, paused: A used up its budget of 3 calls in 1s
        14 ann resumes A: A goes on, resumed until 114
        15 A hands over s7: turn 7 ended, turn 8 to B
        1100 A starts a round: no: loop_active",
    );
}

#[test]
fn a_role_that_keeps_the_turn_as_it_uses_up_its_budget_is_paused_with_its_loop() {
    check(
        &[
            (0, "n1 registers A B"),
            (0, "ann gives A 2 calls in 1000"),
            (1, "A hands over s1 >A"),
            (2, "A hands over s2 >A"),
            (3, "ann resumes"),
            (4, "A hands over s3"),
        ],
        "
        0 n1 registers A B: epoch 1
        0 ann gives A 2 calls in 1000: set
        1 A hands over s1 >A: turn 1 ended, turn 2 to A
        2 A hands over s2 >A: turn 2 ended, turn 3 to A, A paused: it used up its budget of 2 calls in 1s
        3 ann resumes: resumed until 103, A goes on
        4 A hands over s3: turn 3 ended, turn 4 to B",
    );
}

#[test]
fn a_loop_goes_on_together_with_the_role_that_has_its_turn_or_says_that_it_does_not() {
    check(
        &[
            (0, "n1 registers A B"),
            (0, "ann gives A 1 calls in 1000"),
            (0, "ann gives B 1 calls in 1000"),
            (1, "A hands over s1"),
            (2, "B hands over s2"),
            (3, "A hands over s3"),
            (4, "ann resumes A"),
            (5, "ann resumes"),
            (6, "B hands over s4"),
            (7, "ann pauses because lunch"),
            (8, "A hands over s5"),
            (9, "ann resumes"),
        ],
        "
        0 n1 registers A B: epoch 1
        0 ann gives A 1 calls in 1000: set
        0 ann gives B 1 calls in 1000: set
        1 A hands over s1: turn 1 ended, turn 2 to B, A paused: it used up its budget of 1 call in 1s
        2 B hands over s2: turn 2 ended, turn 3 to A, paused: A used up its budget of 1 call in 1s, B paused: it used up its budget of 1 call in 1s
        3 A hands over s3: turn 3 ended, turn 4 to B, paused: A used up its budget of 1 call in 1s
        4 ann resumes A: A goes on, resumed until 104, paused: B used up its budget of 1 call in 1s
        5 ann resumes: resumed until 105, B goes on
        6 B hands over s4: turn 4 ended, turn 5 to A, B paused: it used up its budget of 1 call in 1s
        7 ann pauses because lunch: paused: ann paused it: lunch
        8 A hands over s5: turn 5 ended, turn 6 to B, paused: ann paused it: lunch, A paused: it used up its budget of 1 call in 1s
        9 ann resumes: resumed until 109, B goes on",
    );
}
