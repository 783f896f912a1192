//! The list of commands in `tasuki --help`, under headings.
//!
//! clap has no headings for subcommands, so the list is text of its template. Names and descriptions
//! come from the commands themselves; the table here only says which command stands where.

use std::fmt::Write as _;

use clap::Command;

/// Each heading with its commands, in the order of the list.
const HEADINGS: [(&str, &[&str]); 4] = [
    ("Start", &["up", "node", "join", "connect", "disconnect", "status", "board", "watch"]),
    ("Work", &["loop", "mail", "issue", "task", "delivery", "lock", "doc", "worker", "accept"]),
    ("Roles and agents", &["prompt", "take-over", "agent-token", "mcp", "lock-hook", "mail-hook"]),
    (
        "Machine",
        &[
            "broker-token",
            "outbox",
            "mirror",
            "config",
            "settings",
            "trust",
            "import",
            "export",
            "completions",
        ],
    ),
];

/// `command` with a help that lists its subcommands under headings.
pub(super) fn with_headings(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = HEADINGS.iter().flat_map(|(_, names)| names.iter());
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut out = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    for (heading, names) in HEADINGS {
        write(format_args!("{header}{heading}:{header:#}\n"));
        for name in names {
            // Some commands are not there on every platform.
            let Some(found) = command.find_subcommand(name) else { continue };
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            let gap = width - name.len() + 2;
            write(format_args!("  {literal}{name}{literal:#}{:gap$}{about}\n", ""));
        }
        write(format_args!("\n"));
    }
    write(format_args!("`tasuki help COMMAND` shows the help of a command.\n\n"));
    write(format_args!("{header}Options of every command:{header:#}\n"));
    out + "{options}{after-help}"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[cfg(unix)]
    #[test]
    fn each_command_stands_under_one_heading() {
        let mut listed: Vec<&str> =
            HEADINGS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        listed.sort_unstable();
        let cli = Cli::command();
        let shown = cli.get_subcommands().filter(|it| !it.is_hide_set());
        let mut commands: Vec<&str> = shown.map(Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }

    #[cfg(unix)]
    #[test]
    fn help_lists_the_commands_under_headings_however_it_is_asked_for() {
        for line in ["tasuki --help", "tasuki -h", "tasuki help", "tasuki"] {
            let asked = with_headings(Cli::command()).try_get_matches_from(line.split(' '));
            let help = asked.unwrap_err().render().to_string();
            for (heading, names) in HEADINGS {
                let section = help.split(&format!("\n{heading}:\n")).nth(1);
                let section = section.unwrap_or_else(|| panic!("{line}: {heading}: {help}"));
                let rows: Vec<&str> = section.split("\n\n").next().unwrap().lines().collect();
                let shown: Vec<&str> =
                    rows.iter().map(|row| row.split_whitespace().next().unwrap()).collect();
                assert_eq!(shown, names, "{line}: {heading}");
                for row in rows {
                    assert!(row.split_whitespace().count() > 2, "{row}: says what it does");
                    assert!(row.chars().count() <= 80, "{row}: fits a narrow terminal");
                }
            }
            assert!(help.contains("--json") && help.contains("--version"), "{line}: {help}");
            assert!(!help.contains("\nCommands:\n"), "{line}: {help}");
        }
        let all = with_headings(Cli::command()).try_get_matches_from(["tasuki", "--help"]);
        let help = all.unwrap_err().render().to_string();
        assert!(help.contains("Exit codes:"), "{help}");
    }

    #[test]
    fn no_description_is_taken_for_a_tag_of_the_template() {
        let cli = Cli::command();
        for command in cli.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.contains(['{', '}']), "{about}");
        }
    }
}
