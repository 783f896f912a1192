//! The scripts say what they need, and tests that are not run are not counted as passed.

mod install;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What the scripts themselves call, and whether there is a compiler does not matter to them.
const TOOLS: [&str; 13] = [
    "bash", "sed", "dirname", "id", "realpath", "cat", "ls", "sh", "env", "grep", "sort", "mktemp",
    "rm",
];

/// In place of Cargo: lists the tests of `tests`, says which are ignored and why, and notes what
/// it is to run.
const CARGO: &str = r#"#!/bin/bash
tests=${0%/*}/../tests
case "$*" in
    metadata*)
        for name in cli edges; do
            echo "{\"kind\":[\"test\"],\"crate_types\":[\"bin\"],\"name\":\"$name\"}"
        done
        ;;
    *--no-run*) ;;
    *--list*) sed 's/ .*/: test/' "$tests" ;;
    *--include-ignored*) echo "$@" >> "${0%/*}/../ran" ;;
    *) while read -r name why; do echo "test $name ... ignored, $why"; done < "$tests" ;;
esac
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A machine with few programs.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(tools: &[&str]) -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        fs::create_dir(it.path("bin")).unwrap();
        for tool in TOOLS.iter().chain(tools) {
            let places = ["/usr/bin", "/bin", "/usr/sbin"].map(|it| Path::new(it).join(tool));
            let found = places.iter().find(|it| it.exists()).unwrap();
            symlink(found, it.path("bin").join(tool)).unwrap();
        }
        it.program("cargo", CARGO);
        it
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, script: &str) -> Output {
        let mut command = Command::new(self.path("bin").join("bash"));
        command.arg(root().join(script)).env_clear().env("PATH", self.path("bin"));
        command.env("PROGRAMS", self.path("bin")).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn tests_that_lack_something_are_skipped_by_name_and_counted() {
    let machine = Machine::new(&[]);
    let tests = "a::one needs a minute\na::two needs strace\nb needs git and perl: to see\n";
    fs::write(machine.path("tests"), tests).unwrap();
    let output = machine.run("scripts/test.sh");
    let (said, why) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{output:?}");
    let last = "Skipped 2 tests for what they need: a::two (strace), b (git)";
    assert_eq!(said.lines().last(), Some(last), "{why}");
    let ran = fs::read_to_string(machine.path("ran")).unwrap();
    assert_eq!(ran.lines().count(), 2, "{ran}");
    for what in ["--test edges --test machines ", "--lib --bins --test cli "] {
        let is_run = |line: &str| {
            line.contains(what)
                && line.ends_with("-- --include-ignored --exact --skip a::two --skip b")
        };
        assert!(ran.lines().any(is_run), "{ran}");
    }
    // And how to have them run.
    let install = why.lines().find(|it| it.contains("sudo apt-get install -y ")).unwrap();
    assert!(install.contains(" strace") && install.contains(" python3 python3-venv"), "{install}");
}

/// Every test that is not for everybody says what it needs in words that the script knows.
#[test]
fn the_script_knows_every_need() {
    let mut folders = vec![root().to_owned()];
    let mut tests = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(path).unwrap();
                let reasons = text.lines().filter_map(|it| it.strip_prefix("#[ignore = \""));
                for reason in reasons.filter_map(|it| it.strip_suffix("\"]")) {
                    tests.insert(reason.to_owned(), format!("t{}", tests.len()));
                }
            }
        }
    }
    assert!(10 < tests.len());
    let machine = Machine::new(&[]);
    let lines: String = tests.iter().map(|(why, name)| format!("{name} {why}\n")).collect();
    fs::write(machine.path("tests"), lines + "odd needs patience\n").unwrap();
    let output = machine.run("scripts/test.sh");
    let why = text(&output.stderr);
    assert_eq!(why.matches("unknown need").count(), 1, "{why}");
    assert!(why.contains("odd has the unknown need 'patience'"), "{why}");
}

#[test]
fn the_two_machines_say_what_they_need() {
    let machine = Machine::new(&[]);
    let output = machine.run("examples/two_machines.sh");
    let why = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{why}");
    for what in ["/tasuki: run cargo build --workspace", "/tasuki-broker: run ", "install iproute2"]
    {
        assert!(why.contains(what), "{what}: {why}");
    }
}
