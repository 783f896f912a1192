//! A broker that was down or stood still, and nodes that were fenced meanwhile.

use super::check;

#[test]
fn a_lease_that_ran_out_while_the_broker_was_down_gets_one_grace() {
    check(
        &[
            (0, "A hands over s1"),
            (500, "the broker restarts"),
            (510, "tick"),
            (700, "the broker restarts"),
            (700, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        510 tick: grace until 600
        700 tick: turn 2 lapsed",
    );
}

#[test]
fn a_lease_that_ran_out_while_the_broker_stood_still_gets_one_grace() {
    check(
        &[
            (0, "A hands over s1"),
            (500, "the broker stood still"),
            (510, "tick"),
            (700, "the broker stood still"),
            (700, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        510 tick: grace until 600
        700 tick: turn 2 lapsed",
    );
}

/// The sign is written down at the next tick, since a restart forgets it.
#[test]
fn a_holder_that_was_heard_of_since_its_grace_may_have_another() {
    check(
        &[
            (0, "A hands over s1"),
            (500, "the broker restarts"),
            (510, "tick"),
            (512, "tick"),
            (515, "B is there"),
            (520, "tick"),
            (530, "tick"),
            (700, "the broker restarts"),
            (710, "tick"),
            (900, "the broker restarts"),
            (900, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        510 tick: grace until 600
        512 tick:
        520 tick: renewed until 615
        530 tick:
        710 tick: grace until 800
        900 tick: turn 2 lapsed",
    );
}

/// It fell asleep again before the sign was written down: its renewal is over, and a grace due.
#[test]
fn a_sign_counts_that_was_not_written_down_before_a_standstill() {
    check(
        &[
            (0, "A hands over s1"),
            (500, "the broker stood still"),
            (510, "tick"),
            (515, "B is there"),
            (700, "the broker stood still"),
            (700, "tick"),
            (720, "tick"),
            (900, "the broker stood still"),
            (900, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        510 tick: grace until 600
        700 tick: renewed until 615
        720 tick: grace until 800
        900 tick: turn 2 lapsed",
    );
}

#[test]
fn a_lease_that_runs_out_before_anybody_can_come_back_gets_its_grace_too() {
    check(
        &[
            (0, "A hands over s1"),
            (99, "the broker restarts"),
            (101, "tick"),
            (150, "B is there"),
            (200, "tick"),
            (251, "tick"),
        ],
        "
        0 A hands over s1: turn 1 ended, turn 2 to B
        101 tick: grace until 199
        200 tick: renewed until 250
        251 tick: turn 2 lapsed",
    );
}

/// A process on a copy of a node's data uses up the keys that the original draws from.
#[test]
fn a_fenced_node_hears_of_its_fence_and_not_of_keys_that_the_other_used() {
    check(
        &[
            (1, "n1 registers A B"),
            (2, "A hands over s1 %n1/1 #c/1"),
            (3, "n1 registers A B #c/1000"),
            (4, "B hands over s2 %n1/1 #c/2"),
            (5, "B hands over s2 %n1/1 #c/1"),
            (6, "B hands over s2 %n1/2 #c/2"),
        ],
        "
        1 n1 registers A B: epoch 1
        2 A hands over s1 %n1/1 #c/1: turn 1 ended, turn 2 to B
        3 n1 registers A B #c/1000: epoch 2
        4 B hands over s2 %n1/1 #c/2: no: stale_epoch
        5 B hands over s2 %n1/1 #c/1: no: stale_epoch
        6 B hands over s2 %n1/2 #c/2: no: key_expired",
    );
}

#[test]
fn a_node_that_was_heard_of_before_the_broker_stood_still_is_not_gone() {
    let away = tasuki_proto::limits::NODE_SILENT_MS_MAX;
    check(
        &[
            (1, "n1 registers dev"),
            (2, "n1 beats"),
            (2 * away, "the broker stood still"),
            (2 * away + 1, "n2 registers dev"),
            (3 * away, "n2 registers dev"),
        ],
        "
        1 n1 registers dev: epoch 1, seated
        90001 n2 registers dev: no: role_in_use
        135000 n2 registers dev: epoch 1",
    );
}
