//! `scripts/install.sh` writes what the archive has, takes out exactly that, and leaves data alone.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::{root, text};

/// In place of both programs.
const PROGRAM: &str = "#!/bin/sh\necho tasuki 0.1.0\n";

/// An archive and a user's home, with names that shells and units read otherwise.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for name in ["bin/tasuki", "bin/tasuki-broker"] {
            machine.add(name, PROGRAM);
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(machine.archive().join(name), executable).unwrap();
        }
        machine.add("share/man/man1/tasuki.1", "");
        machine.add("share/tasuki/grafana.json", "{}");
        for name in ["user/tasuki", "user/tasuki-node", "system/tasuki-broker"] {
            let (_, unit) = name.split_once('/').unwrap();
            let packaged = root().join("packaging").join(unit).with_extension("service");
            let packaged = fs::read_to_string(packaged).unwrap();
            machine.add(&format!("lib/systemd/{name}.service"), &packaged);
        }
        let script = fs::read_to_string(root().join("scripts/install.sh")).unwrap();
        machine.add("share/doc/tasuki/install.sh", &script);
        machine
    }

    fn archive(&self) -> PathBuf {
        self.0.path().join("tasuki 0.1.0")
    }

    fn home(&self) -> PathBuf {
        self.0.path().join(r"100% a&b|c\d")
    }

    fn prefix(&self) -> PathBuf {
        self.home().join(".local")
    }

    fn add(&self, name: &str, text: &str) {
        let path = self.archive().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a script that lies below a directory.
    fn run(&self, place: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.arg(place.join("share/doc/tasuki/install.sh")).args(arguments);
        command.current_dir(self.0.path()).env("HOME", self.home()).output().unwrap()
    }

    /// The same, which must succeed.
    fn install(&self, arguments: &[&str]) -> String {
        let output = self.run(&self.archive(), arguments);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    }

    /// The same, which must not; why.
    fn refused(&self, arguments: &[&str]) -> String {
        let before = files(&self.prefix());
        let output = self.run(&self.archive(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(files(&self.prefix()), before, "{output:?}");
        text(&output.stderr)
    }

    fn archived(&self) {
        for (program, arguments) in [
            ("tar", vec!["-czf", "t.tar.gz", "tasuki 0.1.0"]),
            ("sh", vec!["-c", "sha256sum t.tar.gz > t.tar.gz.sha256"]),
        ] {
            let mut command = Command::new(program);
            assert!(command.args(arguments).current_dir(self.0.path()).status().unwrap().success());
        }
    }
}

/// The files below a directory.
fn files(directory: &Path) -> BTreeSet<String> {
    let mut folders = vec![directory.to_owned()];
    let mut files = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files
}

#[test]
fn what_was_installed_is_taken_out_and_data_stays() {
    let machine = Machine::new();
    let data = "share/tasuki/broker/db";
    let own = machine.prefix().join(data);
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "data").unwrap();

    let said = machine.install(&[]);
    assert!(said.contains("is not on your PATH"), "{said}");
    let installed = [
        "bin/tasuki",
        "bin/tasuki-broker",
        "share/doc/tasuki/grafana.json",
        "share/doc/tasuki/install.sh",
        "share/doc/tasuki/installed",
        "share/man/man1/tasuki.1",
        "share/systemd/user/tasuki-node.service",
        "share/systemd/user/tasuki.service",
    ];
    let expected = || installed.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    let with_data = |mut files: BTreeSet<String>| {
        files.insert(data.to_owned());
        files
    };
    assert_eq!(files(&machine.prefix()), with_data(expected()));
    let unit = machine.prefix().join("share/systemd/user/tasuki.service");
    let unit = fs::read_to_string(unit).unwrap();
    let home = machine.0.path().to_str().unwrap();
    let command = format!(r#"ExecStart="{home}/100%% a&b|c\\d/.local/bin/tasuki" up"#);
    assert!(unit.lines().any(|line| line == command), "{command}: {unit}");

    // Another version has other files.
    machine.add("share/man/man1/tasuki-mail.1", "");
    fs::remove_file(machine.archive().join("share/man/man1/tasuki.1")).unwrap();
    machine.install(&[]);
    let mut newer = expected();
    newer.remove("share/man/man1/tasuki.1");
    newer.insert("share/man/man1/tasuki-mail.1".to_owned());
    assert_eq!(files(&machine.prefix()), with_data(newer));

    // The one that was installed knows where it was installed.
    let output = machine.run(&machine.prefix(), &["--uninstall"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(files(&machine.prefix()), with_data(BTreeSet::new()));
    assert!(!machine.prefix().join("bin").exists());
    let why = machine.refused(&["--uninstall"]);
    assert!(why.contains("nothing is installed in"), "{why}");
}

#[test]
fn an_archive_is_checked_and_nothing_of_others_is_written_over() {
    let machine = Machine::new();
    machine.archived();
    machine.install(&["--prefix", "other", "t.tar.gz"]);
    let other = machine.0.path().join("other");
    assert!(files(&other).contains("bin/tasuki"));

    let archive = machine.0.path().join("t.tar.gz");
    let mut bytes = fs::read(&archive).unwrap();
    bytes.push(b'x');
    fs::write(&archive, bytes).unwrap();
    let why = machine.refused(&["t.tar.gz"]);
    assert!(why.contains("is not what t.tar.gz.sha256 says"), "{why}");

    let theirs = machine.prefix().join("bin/tasuki-broker");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "theirs").unwrap();
    let why = machine.refused(&[]);
    assert!(why.contains("bin/tasuki-broker is there already"), "{why}");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");

    // A list that somebody changed leads nowhere else.
    let list = other.join("share/doc/tasuki/installed");
    fs::write(&list, "../t.tar.gz\n").unwrap();
    let output = machine.run(&other, &["--uninstall"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(archive.exists() && files(&other).contains("bin/tasuki"));
}
