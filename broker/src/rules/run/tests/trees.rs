//! Stories of sub-agents that start others, ask and tell.

use tasuki_proto::limits::{STEP_MESSAGES_MAX, STEP_REPORTS_MAX};

use super::check;

#[test]
fn what_a_step_started_ends_with_it_and_with_the_run() {
    check(
        "0 A@n1 starts single 1 on n2 elsewhere => run 1
        1 n2 claims 1/1 => token 1 until 60001
        2 1/1 starts parallel 2 => run 2
        2 1/1 starts single 1 on n1 => no: right_forbidden
        2 n1 waits 1 => nothing
        3 n2 claims 2/1 => token 2 until 60003
        4 2/1 starts single 1 => run 3
        5 A@n1 cancels 2 => no: not_asker
        5 1/1 cancels 3 => no: not_asker
        5 2/1 cancels 3 => done, 3 stopped: Canceled, 3 is Canceled
        6 A@n1 cancels 1 => done, 1 stopped: Canceled, 2 stopped: Canceled
        7 1/1 starts single 1 => no: budget_spent
        8 n2 ends 1/1 canceled => done, 1/1 Canceled, 1 is Canceled
        9 n2 ends 2/1 canceled => done, 2/1 Canceled, 2 is Canceled
        604800008 tick => done
        604800009 tick => done, 3 forgotten",
    );
}

#[test]
fn a_lost_step_takes_with_it_what_it_started() {
    check(
        "0 A@n1 starts single 1 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        2 1/1 starts chain 2 => run 2
        60001 tick => done, 1/1 Lost, 2 stopped: Canceled, 2 is Canceled, 1 is Lost
        60002 1/1 starts single 1 => no: invalid_step_token",
    );
}

#[test]
fn a_question_is_answered_once_or_ends_with_its_step() {
    check(
        "0 A@n1 starts parallel 2 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        2 1/2 asks which => no: invalid_step_token
        2 1/1 asks which => #1
        2 1/1 asks which => #1
        2 1/1 asks what => no: question_open
        3 1/1 tells so => #2
        4 B@n1 replies 1 1 left => no: not_asker
        4 A@n1 replies 1 2 left => no: unknown_message
        4 A@n1 replies 1 3 left => no: unknown_message
        4 A@n1 replies 1 1 left => #1
        4 A@n1 replies 1 1 left => #1
        4 A@n1 replies 1 1 right => no: already_replied
        5 1/1 asks what => #3
        6 n1 ends 1/1 well => done, 1/1 Succeeded
        7 ann replies 1 3 left => no: already_replied
        7 1/1 tells more => no: invalid_step_token",
    );
}

#[test]
fn who_waits_for_a_reply_names_a_question_of_their_own() {
    check(
        "0 A@n1 starts parallel 2 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        1 n1 claims 1/2 => token 2 until 60001
        2 1/1 tells so => #1
        2 1/1 asks which => #2
        3 1/1 awaits 0 => no: unknown_message
        3 1/1 awaits 1 => no: unknown_message
        3 1/1 awaits 2 => not yet
        3 1/1 awaits 3 => no: unknown_message
        3 1/2 awaits 2 => no: unknown_message
        4 A@n1 replies 1 2 left => #2
        5 1/1 awaits 2 => there
        6 1/1 asks what => #3
        7 n1 ends 1/1 well => done, 1/1 Succeeded
        8 1/1 awaits 3 => there
        8 1/1 awaits 1 => no: unknown_message",
    );
}

#[test]
fn a_step_that_told_all_it_may_can_still_ask_and_uses_up_nothing_of_others() {
    let begun = "0 A@n1 starts parallel 2 => run 1
        1 n1 claims 1/1 => token 1 until 60001
        1 n1 claims 1/2 => token 2 until 60001";
    let mut lines = vec![begun.to_owned()];
    lines.extend((1..=STEP_REPORTS_MAX).map(|number| format!("2 1/1 tells so => #{number}")));
    lines.push("3 1/1 tells more => no: budget_spent".to_owned());
    for number in STEP_REPORTS_MAX + 1..=STEP_MESSAGES_MAX {
        lines.push(format!("4 1/1 asks which => #{number}"));
        lines.push(format!("4 1/1 asks which => #{number}"));
        lines.push(format!("4 A@n1 replies 1 {number} left => #{number}"));
    }
    lines.push("5 1/1 asks which => no: budget_spent".to_owned());
    lines.push("5 1/1 tells more => no: budget_spent".to_owned());
    lines.push(format!("6 1/2 tells so => #{}", STEP_MESSAGES_MAX + 1));
    lines.push(format!("6 1/2 asks which => #{}", STEP_MESSAGES_MAX + 2));
    check(&lines.join("\n"));
}
