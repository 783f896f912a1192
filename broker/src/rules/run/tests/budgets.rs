//! Stories of what runs may use.

use super::check;

/// Holds RU5 and RU6.
#[test]
fn a_run_below_another_has_no_more_than_that_one_has_left() {
    check(
        "0 A@n1 starts parallel 2 cost 100 turns 10 steps 5 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        1 n1 claims 1/2 => token 2 until 60001
        2 n1 reports 1/1 cost 30 => go on
        3 1/1 starts parallel 2 cost 500 => run 2
        3 1/1 starts parallel 2 => no: budget_spent
        3 1/1 starts single 1 steps 1 => run 3
        3 1/2 starts single 1 => no: budget_spent
        4 n1 claims 2/1 => token 3 until 60004
        5 n1 reports 2/1 cost 69 turns 9 => go on
        5 n1 reports 2/1 cost 70 turns 11 => stop: Budget
        5 n1 reports 2/1 cost 71 turns 9 => stop: Budget
        5 n1 reports 1/2 => stop: Budget
        6 n1 ends 2/1 broke cost 71 => done, 2/1 Failed(Budget), 2 stopped: Budget, 2 is OutOfBudget
        7 n1 ends 1/1 well cost 30 => done, 1/1 Succeeded, 3 stopped: Canceled, 3 is Canceled, \
         1 stopped: Budget
        8 n1 ends 1/2 well => done, 1/2 Succeeded, 1 is Succeeded",
    );
}

#[test]
fn a_chain_that_used_all_it_had_ends_there() {
    check(
        "0 A@n1 starts chain 3 turns 10 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        2 n1 reports 1/1 turns 10 => go on
        3 n1 ends 1/1 well turns 10 => done, 1/1 Succeeded, 1 stopped: Budget, 1 is OutOfBudget
        4 A@n1 starts single 1 turns 0 => no: budget_spent
        4 A@n1 starts parallel 3 steps 2 => no: budget_spent
        4 A@n1 starts single 1 turns 10 => run 2
        5 n1 claims 2/1 => token 2 until 60005
        6 n1 ends 2/1 well turns 10 => done, 2/1 Succeeded, 2 is Succeeded",
    );
}

#[test]
fn one_that_starts_itself_in_a_circle_ends_at_its_depth() {
    check(
        "0 A@n1 starts single 1 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        2 1/1 starts single 1 depth 9 => run 2
        3 n1 claims 2/1 => token 2 until 60003
        4 2/1 starts single 1 => run 3
        5 n1 claims 3/1 => token 3 until 60005
        6 3/1 starts single 1 => no: budget_spent
        7 A@n1 starts single 1 depth 1 => run 4
        7 n1 claims 4/1 => token 4 until 60007
        7 4/1 starts single 1 => no: budget_spent",
    );
}
