//! The command line itself: that it is well formed, and what flags become.

use super::*;

fn parse(line: &str) -> Result<Cli, clap::error::ErrorKind> {
    Cli::try_parse_from(line.split_whitespace()).map_err(|why| why.kind())
}

#[test]
fn the_commands_are_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn the_command_lines_of_the_documentation_parse() {
    for line in [
        "tasuki up --data d --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0 --workspace w \
         --role A=loop,mail --role B --config f --lease 20m",
        "tasuki node --broker http://127.0.0.1:1 --workspace w --role R --listen 127.0.0.1:0 \
         --take-over",
        "tasuki mcp --role A --node http://127.0.0.1:1 --hold 50",
        "tasuki mcp",
        "tasuki connect claude-code --role A --allow",
        "tasuki connect zed --role A --scope project --name other --transport stdio --hold 50 \
         --node http://127.0.0.1:1 --force --print --json",
        "tasuki disconnect codex --role A --scope user --name tasuki",
        "tasuki loop status",
        "tasuki --json loop status review --broker http://127.0.0.1:1",
        "tasuki loop start --participants A,B,C",
        "tasuki loop start main --to B --summary s --instruction - --by me --json",
        "tasuki loop handover --role A --summary @f --instruction - --turn 3 --to C",
        "tasuki loop handover main --role A --summary s --instruction i --complete",
        "tasuki loop handover --role A --summary s --complete",
        "tasuki loop reclaim --reason gone --to B",
        "tasuki loop reclaim --reason gone --role B",
        "tasuki loop history --from 3 --limit 500",
        "tasuki loop list",
        "tasuki mail private status --json",
        "tasuki mail private on --broker http://127.0.0.1:1 --workspace w",
        "tasuki mail private trust a97c-7718-0f61-a979-8359-11c1-3926-5341",
        "tasuki mail private trust",
        "tasuki mail private approve desk-1 a97c77180f61a979835911c139265341",
        "tasuki mail private approve desk-1",
        "tasuki mail private remove desk-1",
        "tasuki mail private rotate",
        "tasuki mail private off",
        "tasuki watch --from 1 --json",
        "tasuki status",
        "tasuki import filebox . ../other --role dev_agent=dev --role qa=q --dry-run --json",
        "tasuki export --format markdown --out mail --role qa --box done --workspace w",
        "tasuki export --format mbox",
        "tasuki export --format jsonl --broker http://127.0.0.1:1",
        "tasuki config check",
        "tasuki hooks list --json",
        "tasuki hooks retry 00ff01 00ff02",
        "tasuki hooks retry --hook notify",
        "tasuki hooks drop --all",
        "tasuki completions zsh",
        "tasuki prompt A",
        "tasuki prompt qa --goal g --json",
    ] {
        assert!(parse(line).is_ok(), "{line}: {:?}", parse(line).err());
    }
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    use clap::error::ErrorKind::{
        ArgumentConflict, InvalidValue, MissingRequiredArgument, ValueValidation,
    };
    for (line, kind) in [
        ("tasuki loop status ../x", ValueValidation),
        ("tasuki loop handover --role A --summary s", MissingRequiredArgument),
        ("tasuki loop reclaim --reason gone", MissingRequiredArgument),
        ("tasuki loop reclaim --reason r --role A --by me", ArgumentConflict),
        (
            "tasuki loop handover --role A --summary s --instruction i --complete --to B",
            ArgumentConflict,
        ),
        ("tasuki loop history --limit 0", ValueValidation),
        ("tasuki completions cmd", InvalidValue),
        ("tasuki import filebox", MissingRequiredArgument),
        ("tasuki import filebox . --role x", ValueValidation),
        ("tasuki export", MissingRequiredArgument),
        ("tasuki export --format mbox --box trash", ValueValidation),
        ("tasuki hooks drop", MissingRequiredArgument),
        ("tasuki hooks retry 00ff --all", ArgumentConflict),
    ] {
        assert_eq!(parse(line).err(), Some(kind), "{line}");
    }
}

#[test]
fn the_long_help_of_a_command_says_what_the_short_one_leaves_out() {
    for (line, said) in [
        ("up", "SIGTERM and Ctrl-C stop it."),
        ("node", "keeps trying"),
        ("connect", "Two roles in one client need two names."),
        ("disconnect", "Whatever else is in the client's files stays."),
        ("mcp", "Needs a running node"),
        ("take-over", "was quiet for a quarter of an hour"),
        ("loop start", "keeps its history"),
        ("import filebox", "only what is missing is sent"),
        ("export", "Nothing is marked as seen"),
        ("loop reclaim", "The old holder is refused from then on."),
    ] {
        let mut command = Cli::command();
        let last = line.split(' ').fold(&mut command, |command, name| {
            command.find_subcommand_mut(name).unwrap_or_else(|| panic!("{line}"))
        });
        let long = last.render_long_help().to_string();
        let long = long.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(long.contains(said), "{line}: {long}");
        assert!(!last.render_help().to_string().contains(said), "{line}");
    }
}

#[test]
fn help_names_every_exit_code() {
    for exit in
        [Exit::Ok, Exit::Refused, Exit::Usage, Exit::Unreachable, Exit::OutcomeUnknown, Exit::Local]
    {
        let line = format!("\n  {}  ", exit as u8);
        assert!(failure::HELP.contains(&line), "{exit:?}");
    }
}
