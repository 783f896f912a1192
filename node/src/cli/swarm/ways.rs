//! Which command helps after a refusal. Agents are told of tools instead
//! (`mcp/tools/swarm/ways.rs`).

use tasuki_proto::reason::Reason;

use super::Failure;

/// What helps, in a sentence.
const WAYS: &[(Reason, &str)] = &[
    (Reason::UnknownIssue, "`tasuki swarm issues` shows those there are"),
    (Reason::UnknownTask, "`tasuki swarm tasks ISSUE` shows those there are"),
    (Reason::UnknownDelivery, "`tasuki swarm deliveries` shows those there are"),
    (Reason::UnknownSubmission, "`tasuki swarm show ISSUE/TASK` shows what was submitted"),
    (Reason::NoOpenSubmission, "`tasuki swarm show ISSUE/TASK` shows how it stands"),
    (Reason::UnknownMessage, "`tasuki swarm show ISSUE/TASK` shows what was asked"),
    (Reason::IssueClosed, "`tasuki swarm reopen ISSUE` opens it again"),
    (Reason::NothingToDeliver, "`tasuki swarm task` plans one, `tasuki swarm close` ends it"),
    (Reason::AlreadyDelivered, "`tasuki swarm show DELIVERY` shows how it stands"),
    (
        Reason::InvalidNextStepToken,
        "`tasuki swarm claim` without --next-step takes what is kept for the role, or for nobody",
    ),
    (Reason::TaskReserved, "`tasuki swarm claim --next ISSUE` takes one that is free"),
    (Reason::TaskBlocked, "`tasuki swarm claim --next ISSUE` takes one that is free"),
    (Reason::MissingDoc, "`tasuki swarm doc write` writes it"),
    (Reason::LeaseNotFound, "`tasuki swarm locks` shows those there are"),
];

/// `why` with what helps, where that is not said already.
pub(in crate::cli) fn with_way(mut why: Failure) -> Failure {
    let way = WAYS.iter().find(|it| why.as_reason() == Some(it.0));
    if let Some((_, way)) = way.filter(|_| !why.message.contains("`tasuki ")) {
        let said = why.message.trim_end_matches('.');
        why.message = format!("{said}. {way}.");
    }
    why
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn people_are_told_of_commands_that_there_are() {
        let cli = Cli::command();
        let swarm = cli.find_subcommand("swarm").expect("tasuki swarm");
        for (_, way) in WAYS {
            for named in way.split("`tasuki swarm ").skip(1) {
                let name = named.split([' ', '`']).next().expect("a name");
                let command = swarm.find_subcommand(name);
                let command = command.unwrap_or_else(|| panic!("no command {name}: {way}"));
                let flags = way.split_whitespace().filter_map(|it| it.strip_prefix("--"));
                for flag in flags {
                    let is_there = command.get_arguments().any(|it| it.get_long() == Some(flag));
                    assert!(is_there, "{name} has no --{flag}");
                }
            }
        }
    }

    #[test]
    fn what_helps_is_said_once() {
        let of = |text: &str| with_way(Failure::reason(Reason::UnknownIssue, text)).message;
        assert_eq!(
            of("no such issue"),
            "no such issue. `tasuki swarm issues` shows those there are."
        );
        assert_eq!(
            of("none; `tasuki swarm issues` shows them"),
            "none; `tasuki swarm issues` shows them"
        );
        assert_eq!(with_way(Failure::usage("no")).message, "no");
    }
}
