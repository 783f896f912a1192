//! Commands in sentences and tables: each is one that the programs know, with these options.

use std::{collections::BTreeMap, fs, process::Command};

use tasuki_examples::process::program;

use super::pages;

/// What `--help` says of a command, once.
fn help(known: &mut BTreeMap<String, String>, command: &str) -> String {
    let ask = |command: &String| {
        let mut words = command.split_whitespace();
        let mut program = Command::new(program(words.next().unwrap()).unwrap());
        let output = program.args(words).arg("--help").env("NO_COLOR", "1").output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    known.entry(command.to_owned()).or_insert_with_key(ask).clone()
}

/// Whether help lists a command. Commands stand two spaces in, under one heading or several, each
/// with what it does behind two spaces more.
fn lists(help: &str, command: &str) -> bool {
    let mut entries =
        help.lines().filter_map(|line| line.strip_prefix("  ")?.strip_prefix(command));
    entries.any(|rest| rest.is_empty() || rest.starts_with("  "))
}

/// Whether a command takes another one.
fn has_commands(help: &str) -> bool {
    help.lines().any(|it| it.ends_with("<COMMAND>") || it.ends_with("[COMMAND]"))
}

#[test]
fn commands_in_sentences_are_known() {
    let (mut known, mut found, mut unknown) = (BTreeMap::new(), 0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let sentences = text.split("\n```").step_by(2);
        let spans = sentences.flat_map(|it| it.split('`').skip(1).step_by(2));
        for span in spans {
            let mut words = span.split_whitespace().skip_while(|it| it.contains('='));
            let Some(name) = words.next().filter(|it| ["tasuki", "tasuki-broker"].contains(it))
            else {
                continue;
            };
            found += 1;
            let mut command = name.to_owned();
            let words: Vec<&str> =
                words.map(|it| it.trim_matches(['[', ']']).split('=').next().unwrap()).collect();
            for word in words {
                let help = help(&mut known, &command);
                let is_name = word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
                let is_known = if word.starts_with("--") {
                    // Options of every command are listed once.
                    help.contains(word) || self::help(&mut known, name).contains(word)
                } else if lists(&help, word) {
                    command = format!("{command} {word}");
                    true
                } else {
                    !is_name || !has_commands(&help)
                };
                if !is_known {
                    unknown.push(format!("{}: `{span}`: {word}", page.display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(100 < found, "{found}");
}
