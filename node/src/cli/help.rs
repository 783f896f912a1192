//! The list of commands in `tasuki --help`, under headings.
//!
//! clap has no headings for subcommands, so the list is text of its template. Names, descriptions
//! and headings come from the commands themselves.

use std::fmt::Write as _;

use clap::Command;

/// Where a command stands in the list: its `display_order`, higher than any that clap gives.
pub(super) const START: usize = 1_001;
pub(super) const WORK: usize = 1_002;
pub(super) const AGENTS: usize = 1_003;
pub(super) const MACHINE: usize = 1_004;

/// Each heading, in the order of the list.
const HEADINGS: [(usize, &str); 4] =
    [(START, "Start"), (WORK, "Work"), (AGENTS, "Roles and agents"), (MACHINE, "Machine")];

/// `command` with a help that lists its subcommands under headings.
pub(super) fn with_headings(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

/// The commands of a heading.
fn under(command: &Command, order: usize) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(move |it| it.get_display_order() == order)
}

fn template(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names =
        HEADINGS.iter().flat_map(|(order, _)| under(command, *order)).map(Command::get_name);
    let width = names.map(str::len).max().unwrap_or_default();
    let mut out = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    for (order, heading) in HEADINGS {
        write(format_args!("{header}{heading}:{header:#}\n"));
        for command in under(command, order) {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
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

    #[test]
    fn each_command_stands_under_a_heading() {
        let cli = Cli::command();
        let is_listed =
            |it: &Command| HEADINGS.iter().any(|(order, _)| it.get_display_order() == *order);
        let shown = cli.get_subcommands().filter(|it| !it.is_hide_set());
        let missing: Vec<&str> = shown.filter(|it| !is_listed(it)).map(Command::get_name).collect();
        assert!(
            missing.is_empty(),
            "`display_order` of cli::Command names no heading: {missing:?}"
        );
    }

    #[test]
    fn help_lists_the_commands_under_headings_however_it_is_asked_for() {
        for line in ["tasuki --help", "tasuki -h", "tasuki help", "tasuki"] {
            let asked = with_headings(Cli::command()).try_get_matches_from(line.split(' '));
            let help = asked.unwrap_err().render().to_string();
            for (order, heading) in HEADINGS {
                let section = help.split(&format!("\n{heading}:\n")).nth(1);
                let section = section.unwrap_or_else(|| panic!("{line}: {heading}: {help}"));
                let rows: Vec<&str> = section.split("\n\n").next().unwrap().lines().collect();
                let shown: Vec<&str> =
                    rows.iter().map(|row| row.split_whitespace().next().unwrap()).collect();
                let cli = Cli::command();
                let names: Vec<&str> = under(&cli, order).map(Command::get_name).collect();
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
