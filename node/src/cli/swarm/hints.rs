//! The command to run after a refusal. Agents are told of tools instead
//! (`mcp/tools/swarm/hints.rs`).

use tasuki_proto::reason::Reason;

use super::Failure;

/// The hint for a refusal.
const HINTS: &[(Reason, &str)] = &[
    (Reason::UnknownIssue, "`tasuki issue list` shows those there are"),
    (Reason::UnknownTask, "`tasuki task list ISSUE` shows those there are"),
    (Reason::UnknownDelivery, "`tasuki delivery list` shows those there are"),
    (Reason::UnknownSubmission, "`tasuki task show ISSUE/TASK` shows what was submitted"),
    (Reason::NoOpenSubmission, "`tasuki task show ISSUE/TASK` shows how it stands"),
    (Reason::UnknownMessage, "`tasuki task show ISSUE/TASK` shows what was asked"),
    (Reason::IssueClosed, "`tasuki issue reopen ISSUE` opens it again"),
    (
        Reason::NothingToDeliver,
        "`tasuki task create` adds one, `tasuki issue close` ends the issue",
    ),
    (Reason::AlreadyDelivered, "`tasuki delivery show DELIVERY` shows how it stands"),
    (
        Reason::InvalidNextStepToken,
        "`tasuki task claim` without --next-step claims a task that is free or reserved for the role",
    ),
    (Reason::TaskReserved, "`tasuki task claim --next ISSUE` claims one that is free"),
    (Reason::TaskBlocked, "`tasuki task claim --next ISSUE` claims one that is free"),
    (Reason::MissingDoc, "`tasuki doc write` writes it"),
    (Reason::LeaseNotFound, "`tasuki lock list` shows those there are"),
];

/// The same for a refusal about runs.
const RUN_HINTS: &[(Reason, &str)] = &[
    (Reason::UnknownRun, "`tasuki runs list` shows those there are"),
    (Reason::UnknownStep, "`tasuki runs show RUN` shows those there are"),
    (Reason::UnknownMessage, "`tasuki runs show RUN` shows those there are"),
];

pub(in crate::cli) fn with_hint(why: Failure) -> Failure {
    add_hint(HINTS, why)
}

pub(in crate::cli) fn with_run_hint(why: Failure) -> Failure {
    add_hint(RUN_HINTS, why)
}

/// Adds the hint, unless the refusal names a command already.
fn add_hint(hints: &[(Reason, &str)], mut why: Failure) -> Failure {
    let way = hints.iter().find(|it| why.as_reason() == Some(it.0));
    if let Some((_, way)) = way.filter(|_| !why.message.contains("`tasuki ")) {
        let said = why.message.trim_end_matches('.');
        why.message = format!("{said}. {way}.");
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::help;

    #[test]
    fn people_are_told_of_commands_that_there_are() {
        let cli = help::whole();
        for (_, way) in HINTS.iter().chain(RUN_HINTS) {
            assert!(way.contains("`tasuki "), "{way}");
            for named in way.split("`tasuki ").skip(1) {
                let mut words = named.split([' ', '`']);
                let (noun, verb) = (words.next().expect("a noun"), words.next().expect("a verb"));
                let command = cli.find_subcommand(noun).and_then(|it| it.find_subcommand(verb));
                let command = command.unwrap_or_else(|| panic!("no {noun} {verb}: {way}"));
                let flags = way.split_whitespace().filter_map(|it| it.strip_prefix("--"));
                for flag in flags {
                    let is_there = command.get_arguments().any(|it| it.get_long() == Some(flag));
                    assert!(is_there, "{noun} {verb} has no --{flag}");
                }
            }
        }
    }

    #[test]
    fn what_helps_is_said_once() {
        let of = |text: &str| with_hint(Failure::reason(Reason::UnknownIssue, text)).message;
        assert_eq!(
            of("no such issue"),
            "no such issue. `tasuki issue list` shows those there are."
        );
        assert_eq!(
            of("none; `tasuki issue list` shows them"),
            "none; `tasuki issue list` shows them"
        );
        assert_eq!(with_hint(Failure::usage("no")).message, "no");
    }
}
