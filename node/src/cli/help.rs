//! Help: the list of commands in `tasuki --help`, under headings, and what stands there once for
//! all of them.
//!
//! clap has no headings for subcommands, so the list is text of its template. Names, descriptions
//! and headings come from the commands themselves. Options that several commands take are global in
//! clap's sense, which would list them on every page: the pages of commands show their own options
//! and a line that says where the others are.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::{Cli, target};

/// Where a command stands in the list: its `display_order`, higher than any that clap gives.
pub(super) const START: usize = 1_001;
pub(super) const WORK: usize = 1_002;
pub(super) const AGENTS: usize = 1_003;
pub(super) const MACHINE: usize = 1_004;

/// Each heading, in the order of the list.
const HEADINGS: [(usize, &str); 4] =
    [(START, "Start"), (WORK, "Work"), (AGENTS, "Roles and agents"), (MACHINE, "Machine")];

/// The page of a command that has others below it, or none: clap's own, and where to find the rest.
const PAGE: &str = "\
{before-help}{about-with-newline}
{usage-heading} {usage}

{all-args}{after-help}

Global options: tasuki --help";

/// All commands with all they take. Otherwise clap puts together only the one that was typed, in half
/// the time.
pub(super) fn whole() -> Command {
    let mut whole = Cli::command();
    whole.build();
    whole
}

/// `command` with a help that lists its subcommands under headings, and options that several take
/// only there.
pub(super) fn with_headings(command: Command) -> Command {
    let template = template(&command);
    command.mut_args(unlisted).help_template(template).mut_subcommands(page)
}

fn page(command: Command) -> Command {
    command.mut_args(unlisted).help_template(PAGE).mut_subcommands(page)
}

/// Keeps a global option off help pages; manuals and shells still know it.
fn unlisted(arg: Arg) -> Arg {
    let is_global = arg.is_global_set();
    if is_global { arg.hide_short_help(true).hide_long_help(true) } else { arg }
}

/// Options as help lists them.
fn listed(options: impl Iterator<Item = Arg>) -> String {
    let mut options = Command::new("options")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(options.map(|arg| arg.global(false)))
        .help_template("{options}");
    let text = options.render_help().ansi().to_string();
    // Braces would be a tag of the template that this becomes a part of.
    text.trim_end().replace(['{', '}'], "")
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
    let global = command.get_arguments().filter(|arg| arg.is_global_set()).cloned();
    write(format_args!("{header}Global options:{header:#}\n{}\n\n", listed(global)));
    let target = listed(target().into_iter());
    write(format_args!(
        "{header}Global options of commands that ask a broker:{header:#}\n{target}"
    ));
    write(format_args!("\n\n{header}Options:{header:#}\n"));
    out + "{options}{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_stands_under_a_heading() {
        let cli = whole();
        let is_listed =
            |it: &Command| HEADINGS.iter().any(|(order, _)| it.get_display_order() == *order);
        // clap's own is named below them all.
        let shown = cli.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
        let missing: Vec<&str> = shown.filter(|it| !is_listed(it)).map(Command::get_name).collect();
        assert!(
            missing.is_empty(),
            "`display_order` of cli::Command names no heading: {missing:?}"
        );
    }

    #[test]
    fn help_lists_the_commands_under_headings_however_it_is_asked_for() {
        for line in ["tasuki --help", "tasuki -h", "tasuki help", "tasuki"] {
            let asked = with_headings(whole()).try_get_matches_from(line.split(' '));
            let help = asked.unwrap_err().render().to_string();
            for (order, heading) in HEADINGS {
                let section = help.split(&format!("\n{heading}:\n")).nth(1);
                let section = section.unwrap_or_else(|| panic!("{line}: {heading}: {help}"));
                let rows: Vec<&str> = section.split("\n\n").next().unwrap().lines().collect();
                let shown: Vec<&str> =
                    rows.iter().map(|row| row.split_whitespace().next().unwrap()).collect();
                let cli = whole();
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
        let all = with_headings(whole()).try_get_matches_from(["tasuki", "--help"]);
        let help = all.unwrap_err().render().to_string();
        assert!(help.contains("Exit codes:"), "{help}");
    }

    /// What the help of a command line says.
    fn help(line: &str) -> String {
        let asked = with_headings(whole()).try_get_matches_from(line.split(' '));
        asked.unwrap_err().render().to_string()
    }

    #[test]
    fn an_option_of_every_command_is_listed_once() {
        let all = help("tasuki --help");
        let listed = |page: &str, option: &str| {
            page.lines().filter(|it| it.trim_start().starts_with(option)).count()
        };
        for option in ["--data <DIR>", "--json", "--utc", "--broker <URL>", "--workspace <NAME>"] {
            assert_eq!(listed(&all, option), 1, "{option}: {all}");
        }
        for line in [
            "tasuki loop history --help",
            "tasuki loop history -h",
            "tasuki help mail",
            "tasuki up -h",
        ] {
            let page = help(line);
            assert!(page.ends_with("\nGlobal options: tasuki --help\n"), "{line}: {page}");
            for option in ["--json", "--config", "--log-format"] {
                assert_eq!(listed(&page, option), 0, "{line}: {page}");
            }
        }
        let history = help("tasuki loop history -h");
        assert_eq!((listed(&history, "--limit"), listed(&history, "--workspace")), (1, 0));
        // This is its own.
        assert_eq!(listed(&help("tasuki up --help"), "--workspace"), 1);
    }

    #[test]
    fn short_help_is_short() {
        const LINES_MAX: usize = 30;
        for line in ["tasuki loop history -h", "tasuki mail list -h", "tasuki issue -h"] {
            let (short, long) = (help(line), help(&line.replace(" -h", " --help")));
            assert!(short.lines().count() <= LINES_MAX, "{line}: {short}");
            assert!(short.len() <= long.len(), "{line}");
        }
    }

    #[test]
    fn no_description_is_taken_for_a_tag_of_the_template() {
        let cli = whole();
        for command in cli.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.contains(['{', '}']), "{about}");
        }
    }
}
