//! `[runner.NAME]`: who may say it, and what is wrong in it.

use std::fs;

use super::{
    super::{Config, FILE, Key, Source},
    around, flag,
};

#[test]
fn runners_are_the_operators_to_say_wherever_the_command_is_called() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = flag(Key::Data, &kept.path().to_string_lossy());
    let load = || Config::load(data.clone(), None, &around(place.path(), &[]));
    let program = |config: &Config, name: &str| {
        let runner = config.runners.as_ref()?.value.get(name)?;
        runner.command.as_ref().map(|words| words[0].clone())
    };
    assert!(load().unwrap().runners.is_none());
    let theirs = "[runner.pi]\ncommand = [\"evil\"]\n[accept]\nallow = [\"make\"]\n";
    fs::write(place.path().join(FILE), theirs).unwrap();
    let config = load().unwrap();
    assert!(config.runners.is_none());
    let why = config.runners_distrust.unwrap().message;
    assert!(why.starts_with("`runner` is not taken from a file that happens to be in"), "{why}");
    let own = "[runner.pi]\ncommand = [\"own-pi\"]\n\n[runner.other]\nstream = \"codex\"\n\
               command = [\"x\", \"{prompt}\"]\n";
    fs::write(kept.path().join(FILE), own).unwrap();
    // Also where the repository's file says nothing of runners.
    for theirs in [theirs, "lease = \"7m\"\n"] {
        fs::write(place.path().join(FILE), theirs).unwrap();
        let config = load().unwrap();
        assert_eq!(program(&config, "pi").unwrap(), "own-pi");
        assert_eq!(program(&config, "other").unwrap(), "x");
        assert_eq!(program(&config, "codex"), None, "built in");
    }
    fs::remove_file(place.path().join(FILE)).unwrap();
    for (content, said) in [
        ("runner = 1\n", "1: `runner` takes tables: write [runner.NAME] above each"),
        ("[runner]\npi = 1\n", "2: `runner.\"pi\"` takes a table, not this integer"),
        (
            "[runner.pi]\ncommand = [\"x\"]\nmodel = \"y\"\n",
            "3: `runner.\"pi\"` has no setting \"model\"; there are command and stream",
        ),
        (
            "[runner.pi]\ncommand = [\"x\"]\n[runner.mine]\ncommand = [\"x\"]\n",
            "3: `runner.\"mine\"`: `stream` is missing: pi, claude, codex, gemini or opencode",
        ),
    ] {
        fs::write(kept.path().join(FILE), content).unwrap();
        let found = load().unwrap_err();
        let Source::File { line, .. } = &found[0].at else { panic!("{found:?}") };
        assert_eq!(format!("{line}: {}", found[0].message), said);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
