//! `[runs]`: who may say it, what it says, and what is wrong in it.

use std::{fs, path::Path, time::Duration};

use super::{
    super::{Config, FILE, Key, RunSettings, Source},
    Layer, around, flag, trust,
};

#[test]
fn how_agents_run_is_the_operators_to_say_wherever_the_command_is_called() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = flag(Key::Data, &kept.path().to_string_lossy());
    let load = || Config::load(data.clone(), None, &around(place.path(), &[])).unwrap();
    let places = |config: &Config| config.runs.as_ref().map(|it| it.value.places);
    assert_eq!((load().runs, load().runs_distrust), (None, None));
    // What a repository says is not even looked at.
    let theirs = "lease = \"7m\"\n[runs]\naccept_elsewhere = true\nplaces = \"many\"\n";
    fs::write(place.path().join(FILE), theirs).unwrap();
    let config = load();
    assert_eq!((config.runs.as_ref(), config.lease.value.as_secs()), (None, 420));
    let why = config.runs_distrust.unwrap();
    assert!(why.message.starts_with("`runs` is not taken from a file that happens to be in"));
    assert!(matches!(why.at, Source::File { line: 2, .. }), "{}", why.at);
    // The operator says it in the file that the repository's hides, and accepts nothing by that.
    fs::write(kept.path().join(FILE), "[runs]\nplaces = 2\n").unwrap();
    let config = load();
    assert_eq!(places(&config), Some(2));
    assert!(!config.runs.unwrap().value.accept_elsewhere && config.runs_distrust.is_some());
    // Also where the repository's says nothing of it, or nothing that can be read.
    for theirs in ["lease = \"7m\"\n", "[accept]\nallow = [\"make\"]\n[runner.pi]\ncommand = 1\n"] {
        fs::write(place.path().join(FILE), theirs).unwrap();
        assert_eq!((places(&load()), load().runs_distrust), (Some(2), None), "{theirs}");
    }
    // A file that was named says all there is.
    let named = place.path().join(FILE);
    fs::write(&named, "lease = \"7m\"\n").unwrap();
    let config = Config::load(data.clone(), Some(&named), &around(place.path(), &[])).unwrap();
    assert_eq!(config.runs, None);
    // One that is trusted says it itself.
    fs::write(&named, theirs.replace("\"many\"", "9")).unwrap();
    trust(place.path());
    assert_eq!(places(&load()), Some(9));
}

#[test]
fn every_setting_of_runs_has_a_default_and_bounds() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    let load_file = |content: &str| {
        fs::write(&path, content).unwrap();
        let mut around = around(place.path(), &[]);
        around.home = Some("/home/u".into());
        let config = Config::load(Layer::new(), Some(&path), &around);
        config.map(|config| config.runs.unwrap().value).map_err(|found| {
            assert_eq!(found.len(), 1, "{found:?}");
            let Source::File { line, .. } = &found[0].at else { panic!("{found:?}") };
            format!("{line}: {}", found[0].message)
        })
    };
    let load = |runs: &str| load_file(&format!("[runs]\n{runs}\n"));
    let usual = load("").unwrap();
    assert_eq!(usual, RunSettings::default());
    assert_eq!((usual.places, usual.timeout.as_secs()), (4, 3600));
    let all = load(
        "accept_elsewhere = true\nlabels = [\"gpu\", \"big-disk\"]\nplaces = 64\n\
         timeout = \"90s\"\nenv = [\"ANTHROPIC_API_KEY\"]\ndirectory = \"~/src/project\"\n\
         runner = \"claude-code\"",
    );
    let all = all.unwrap();
    assert!(all.accept_elsewhere);
    assert_eq!((all.labels.join(" "), all.places), ("gpu big-disk".to_owned(), 64));
    assert_eq!((all.timeout, all.env), (Duration::from_secs(90), vec!["ANTHROPIC_API_KEY".into()]));
    assert_eq!(all.directory.as_deref(), Some(Path::new("/home/u/src/project")));
    assert_eq!(all.runner.as_deref(), Some("claude"), "by the name that nodes offer");
    assert_eq!(load("places = 0\ntimeout = \"24h\"").unwrap().places, 0);
    let own = "[runs]\nrunner = \"mine\"\n[runner.mine]\nstream = \"pi\"\ncommand = [\"x\"]\n";
    assert_eq!(load_file(own).unwrap().runner.as_deref(), Some("mine"));
    let places = "takes a number from 0 to 64";
    for (runs, why) in [
        ("accept_elsewhere = 1", "takes true or false, not this integer"),
        ("labels = \"gpu\"", "takes a list of texts, not this string"),
        (
            "labels = [\"big disk\"]",
            "names \"big disk\", which contains ' '; an id is made of letters, digits, '_', '.' and \
             '-'",
        ),
        ("labels = [\"a\", \"a\"]", "names \"a\" twice"),
        ("places = 65", places),
        ("places = -1", places),
        ("timeout = 60", "takes a text in quotes, not this integer"),
        ("timeout = \"soon\"", "is \"soon\"; it takes a duration such as 90s, 15m or 2h"),
        ("timeout = \"2d\"", "is 2d; it takes 1s to 1d"),
        ("env = [\"A=1\"]", "names \"A=1\"; it takes names of variables, without values"),
        (
            "env = [\"TASUKI_TOKEN\"]",
            "names \"TASUKI_TOKEN\", which is Tasuki's own; no agent is given it",
        ),
        (
            "directory = \"src\"",
            "names \"src\"; it takes absolute paths below /, or such as \"~/.cargo\"",
        ),
        ("runner = \"mine\"", "is \"mine\"; there are claude, codex, gemini, opencode, pi"),
    ] {
        let field = runs.split(' ').next().unwrap();
        // That there is no such runner is known once all of the file is read.
        let line = if field == "runner" { 1 } else { 2 };
        assert_eq!(load(runs).unwrap_err(), format!("{line}: `runs` has `{field}`, which {why}"));
    }
    assert_eq!(
        load("place = 1").unwrap_err(),
        "2: `runs` has no setting \"place\"; there are accept_elsewhere, labels, places, timeout, \
         env, directory, runner"
    );
    let no_table = load_file("runs = 1\n").unwrap_err();
    assert_eq!(no_table, "1: `runs` takes a table: write [runs] above it");
}
