//! `[files]` and `[commands]`: who may say them, what they say, and what is wrong in them.

use std::{fs, path::Path};

use super::{
    super::{Config, FILE, Key, Layer},
    around, flag, problems,
};
use crate::process::policy::Kind;

#[test]
fn what_agents_may_touch_is_the_operators_to_say() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = flag(Key::Data, &kept.path().to_string_lossy());
    let load = || Config::load(data.clone(), None, &around(place.path(), &[])).unwrap();
    let theirs = "[files]\nroot = \"/\"\nwrite = true\n[commands]\nallow = [\"sh *\"]\n";
    fs::write(place.path().join(FILE), theirs).unwrap();
    let config = load();
    assert!(config.files.is_none() && config.commands.is_none());
    let whys = [config.files_distrust.unwrap(), config.commands_distrust.unwrap()];
    assert!(whys.iter().all(|it| it.message.contains("is not taken from a file")), "{whys:?}");
    let own = "[files]\nroot = \"/p\"\n[commands]\nallow = [\"make *\"]\n";
    fs::write(kept.path().join(FILE), own).unwrap();
    let config = load();
    let files = config.files.unwrap().value;
    assert_eq!((files.root.as_deref(), files.may_write), (Some(Path::new("/p")), false));
    let commands = config.commands.unwrap().value;
    assert_eq!(
        (commands.allow[0].to_string(), commands.kind),
        ("make *".to_owned(), Kind::Landlock)
    );
}

#[test]
fn what_is_wrong_in_them_is_told_with_its_line() {
    assert_eq!(
        problems("[files]\nroot = \"here\"\nprotect = [\"*\"]\nwrite = 1\nread = true\n"),
        [
            "5: `files` has no setting \"read\"; there are root, write, protect",
            "3: `files` has `protect`, which names \"*\", which has a name of nothing but `*`, `.` or \
             blanks",
            "2: `files` has `root`, which names \"here\"; it takes absolute paths below /, or such as \
             \"~/.cargo\"",
            "4: `files` has `write`, which takes true or false, not this integer",
        ]
    );
    let wrong = "[commands]\nallow = [\"*\"]\nenv = [\"TASUKI_TOKEN\"]\nsandbox = \"maybe\"\n\
                 at_once = 0\nfile_mb = 99999\n";
    let told = problems(wrong).join("\n");
    for why in [
        "2: `commands` has `allow`, which names \"*\", which allows everything",
        "3: `commands` has `env`, which names TASUKI_TOKEN, which is Tasuki's own",
        "4: `commands` has `sandbox`, which is \"maybe\"; there are \"landlock\" and \"none\"",
        "5: `commands` has `at_once`, which takes a number from 1 to 32",
        "6: `commands` has `file_mb`, which takes a number from 1 to 16384",
    ] {
        assert!(told.contains(why), "{why}: {told}");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    fs::write(&path, "[commands]\nallow = [\"a\"]\nmemory_mb = 0\nprocesses = 7\n").unwrap();
    let config = Config::load(Layer::new(), Some(&path), &around(place.path(), &[])).unwrap();
    let commands = config.commands.unwrap().value;
    assert_eq!((commands.memory_mb, commands.processes, commands.file_mb), (None, 7, 1024));
}
