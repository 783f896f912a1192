//! A user unit of systemd.

use std::{fmt::Write as _, path::Path};

use super::{Service, Unwritable};

/// The unit that packages install.
const TEMPLATE: &str = include_str!("../../../../../packaging/tasuki.service");

/// The text of a service's unit. `mark` is a comment that tells whose file it is.
pub(super) fn unit(service: &Service, mark: &str) -> Result<String, Unwritable> {
    let mut out = format!("# {mark}\n");
    // The template's first line says how it is turned on where a package installed it.
    for line in TEMPLATE.lines().skip(1) {
        if line.starts_with("ExecStart=") {
            let words = service.words().map(|word| quoted(&word)).collect::<Result<Vec<_>, _>>()?;
            if let Some(directory) = &service.directory {
                let directory = specifiers(plain(&directory.to_string_lossy())?);
                writeln!(out, "WorkingDirectory={directory}").map_err(|_| Unwritable)?;
            }
            writeln!(out, "ExecStart={}", words.join(" ")).map_err(|_| Unwritable)?;
        } else {
            writeln!(out, "{line}").map_err(|_| Unwritable)?;
        }
    }
    Ok(out)
}

/// One word of a command line.
fn quoted(word: &str) -> Result<String, Unwritable> {
    let word = plain(word)?.replace('\\', r"\\").replace('"', "\\\"").replace('$', "$$");
    Ok(format!("\"{}\"", specifiers(&word)))
}

/// `%h` and others stand for something in a unit.
fn specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

/// What fits into one line.
fn plain(text: &str) -> Result<&str, Unwritable> {
    if text.chars().any(char::is_control) { Err(Unwritable) } else { Ok(text) }
}

/// The commands that turn a service on, and off again.
pub(super) fn turn_on(name: &str) -> Vec<Vec<String>> {
    vec![systemctl(&["daemon-reload"]), systemctl(&["enable", "--now", &unit_name(name)])]
}

pub(super) fn turn_off(name: &str) -> Vec<String> {
    systemctl(&["disable", "--now", &unit_name(name)])
}

/// After its file is gone.
pub(super) fn forget() -> Vec<String> {
    systemctl(&["daemon-reload"])
}

pub(super) fn ask(name: &str) -> Vec<String> {
    systemctl(&["is-active", &unit_name(name)])
}

pub(super) fn unit_name(name: &str) -> String {
    format!("{name}.service")
}

/// Where this user's units are.
pub(super) fn path(configuration: &Path, name: &str) -> std::path::PathBuf {
    configuration.join("systemd/user").join(unit_name(name))
}

fn systemctl(words: &[&str]) -> Vec<String> {
    ["systemctl", "--user"].iter().chain(words).map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_directories_stay_what_they_are() {
        for (word, expected) in [
            ("/usr/bin/tasuki", r#""/usr/bin/tasuki""#),
            ("/home/a b/100%/$HOME", r#""/home/a b/100%%/$$HOME""#),
            (r#"it's "C:\x""#, r#""it's \"C:\\x\"""#),
        ] {
            assert_eq!(quoted(word).unwrap(), expected);
        }
        for word in ["two\nlines", "a\ttab", "\u{7f}"] {
            assert!(quoted(word).is_err(), "{word:?}");
        }
    }

    #[test]
    fn a_unit_is_the_packaged_one_with_another_command() {
        let service = Service {
            program: "/opt/my tools/tasuki".into(),
            command: "up",
            data: "/data/100%".into(),
            config: None,
            directory: Some("/srv/50% done".into()),
        };
        let unit = unit(&service, "mine").unwrap();
        let mut lines = unit.lines();
        assert_eq!(lines.next(), Some("# mine"));
        let own = [
            "WorkingDirectory=/srv/50%% done",
            r#"ExecStart="/opt/my tools/tasuki" "up" "--data" "/data/100%%""#,
        ];
        let rest: Vec<&str> = lines.filter(|line| !own.contains(line)).collect();
        let packaged = TEMPLATE.lines().skip(1).filter(|line| !line.starts_with("ExecStart="));
        assert_eq!(rest, packaged.collect::<Vec<_>>());
        for line in own {
            assert_eq!(unit.lines().filter(|it| *it == line).count(), 1, "{line}: {unit}");
        }
    }
}
