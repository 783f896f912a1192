//! What counts of files that came with a directory.

use super::*;

#[test]
fn a_file_that_came_with_a_directory_names_a_workspace_roles_and_limits_alone() {
    let place = tempfile::tempdir().unwrap();
    let write = |text: &str| fs::write(place.path().join(FILE), text).unwrap();
    let load = |flags: Layer| Config::look(flags, None, &around(place.path(), &[]));
    let free = "workspace = \"w\"\nroles = [\"A\", \"B\"]\nshared = [\"B\"]\nlease = \"7m\"\n\
                hold = \"30s\"\n";
    let tables = "[groups]\nteam = [\"x\"]\n[toolsets]\nA = [\"mail\"]\n";
    write(&format!("{free}{tables}"));
    let (config, problems) = load(Layer::new());
    assert_eq!((problems, config.distrust), (Vec::new(), None));
    assert_eq!((config.workspace.value.as_str(), config.lease.value.as_secs()), ("w", 420));
    let roles: Vec<String> = config.roles.value.iter().map(ToString::to_string).collect();
    assert_eq!((roles, config.groups.len()), (vec!["A=mail".into(), "B=loop,mail".into()], 1));

    // Every other setting there is.
    let others: Vec<&str> = Key::ALL
        .map(Key::name)
        .into_iter()
        .chain(file::OF_THE_BROKER)
        .filter(|name| !tasuki_broker::trust::FREE.contains(name))
        .collect();
    assert_eq!(others.len(), 17, "{others:?}");
    for name in &others {
        write(&format!("{free}{name} = \"x\"\n{tables}"));
        let (config, problems) = load(Layer::new());
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains("tasuki.toml:6: `"), "{said:?}");
        assert!(said[0].contains(&format!("`{name}` is not taken from a file that")), "{said:?}");
        assert!(said[0].contains("run `tasuki trust`"), "{said:?}");
        // What is refused has no effect, and what is not has one.
        assert_eq!(config.workspace.value.as_str(), "w");
    }
    let attack = "data = \".cache\"\nlisten = \"0.0.0.0:1\"\nbroker_listen = \"0.0.0.0:2\"\n\
                  broker = \"http://127.0.0.1:3\"\nmirror = true\n";
    write(attack);
    let (config, problems) = load(Layer::new());
    assert_eq!(problems.len(), 1, "they are named together");
    let names = "`data`, `listen`, `broker_listen`, `broker` and `mirror` are not taken from";
    assert!(problems[0].to_string().contains(names), "{}", problems[0]);
    assert!(
        config.listen.value.ip().is_loopback() && config.broker_listen.value.ip().is_loopback()
    );
    assert_eq!((config.broker.value, config.mirror.value), (None, false));
    assert_ne!(config.data.value, Path::new(".cache"));
    // A flag that says otherwise does not make the file somebody's own.
    assert_eq!(load(flag(Key::Data, "d")).1.len(), 1);

    // Named, kept or trusted it counts; changed, no longer.
    let named = place.path().join(FILE);
    let (config, problems) = Config::look(Layer::new(), Some(&named), &around(place.path(), &[]));
    assert_eq!((config.mirror.value, problems), (true, Vec::new()));
    let kept = flag(Key::Data, &place.path().to_string_lossy());
    assert_eq!(load(kept.clone()).1, Vec::new());
    trust(place.path());
    let (config, problems) = load(Layer::new());
    assert_eq!((config.data.value.as_path(), problems), (Path::new(".cache"), Vec::new()));
    write(&attack.replace(":2", ":22"));
    let (_, problems) = load(Layer::new());
    assert!(problems[0].to_string().contains("changed since you trusted it"), "{}", problems[0]);
    write(attack);
    assert_eq!(load(Layer::new()).1, Vec::new());

    // One's own that everybody may write to is nobody's.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&named, fs::Permissions::from_mode(0o666)).unwrap();
        let (_, problems) = load(kept);
        assert!(problems[0].to_string().contains("everybody on this machine"), "{}", problems[0]);
        assert_eq!(load(Layer::new()).1, Vec::new(), "whoever trusts it trusts what is in it");
    }
}

#[test]
fn a_file_that_came_with_a_directory_switches_nothing_of_its_users_off() {
    let (place, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = "mcp_secure = true\nhook_fail = \"closed\"\nbroker = \"https://h:1\"\n\
               workspace = \"own\"\nlease = \"3m\"\nroles = [\"x\", \"y\"]\nshared = [\"y\"]\n\
               mirror_root = \"/\"\n[groups]\nA = [\"x\"]\nteam = [\"x\"]\n\
               [[hooks]]\nname = \"a\"\non = \"sent\"\ncommand = [\"true\"]\n";
    fs::write(data.path().join(FILE), own).unwrap();
    let write = |text: &str| fs::write(place.path().join(FILE), text).unwrap();
    let flags = || flag(Key::Data, &data.path().to_string_lossy());
    let look = || Config::look(flags(), None, &around(place.path(), &[]));
    write("roles = [\"A\"]\nworkspace = \"w\"\n");
    let (config, problems) = look();
    assert_eq!((problems, config.distrust), (Vec::new(), None));
    assert!(config.secure.value && config.hook_fail.value == HookFail::Closed);
    assert_eq!(config.broker.value.as_deref(), Some("https://h:1"));
    assert_eq!((config.hooks.len(), config.mirror_root.value), (1, Some("/".into())));
    // Its free settings win, and what does not fit to its roles is left out.
    let roles: Vec<&str> = config.roles.value.iter().map(|role| role.name.as_str()).collect();
    assert_eq!((config.workspace.value.as_str(), roles), ("w", vec!["A"]));
    assert_eq!((config.shared.value.len(), config.lease.value.as_secs()), (0, 180));
    assert_eq!(config.groups.keys().collect::<Vec<_>>(), ["team"]);
    // What it may not say stays refused, and has no effect.
    write("mcp_secure = false\n");
    let (config, problems) = look();
    assert_eq!((problems.len(), config.secure.value), (1, true));
    // One that is trusted stands in the place of the user's own.
    trust(place.path());
    let (config, problems) = look();
    assert_eq!((problems, config.secure.value), (Vec::new(), false));
    assert_eq!((config.broker.value, config.hooks.len()), (None, 0));
}

#[test]
fn every_bad_entry_is_told_and_no_value_whole() {
    let found = problems(
        "[toolsets]\nA = []\nB = [\"lop\"]\nC = [\"mail\"]\n[groups]\nx = []\ny = \"z\"\n",
    );
    for (line, why) in [
        ("2: ", "`toolsets` of A has no toolsets"),
        ("3: ", "`toolsets` of B names the toolset \"lop\""),
        ("6: ", "`groups` of x has 0 roles"),
        ("7: ", "`groups` takes a list"),
    ] {
        assert!(found.iter().any(|it| it.starts_with(&format!("{line}{why}"))), "{why}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
    let long = "x/".repeat(100_000);
    for text in [
        format!("workspace = \"{long}\"\n"),
        format!("roles = [\"{long}\"]\n"),
        format!("broker = \"{long}\"\n"),
        format!("lease = \"{long}\"\n"),
        format!("\"{long}\" = 1\n"),
    ] {
        let found = problems(&text);
        assert!(found.iter().all(|it| it.len() < 1000), "{}", &text[..20]);
    }
}

#[test]
fn a_variable_that_is_empty_names_no_file() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(FILE), "workspace = \"w\"\n").unwrap();
    let config =
        Config::load(Layer::new(), None, &around(place.path(), &[("TASUKI_CONFIG", "")])).unwrap();
    assert_eq!(config.workspace.value.as_str(), "w");
}

#[cfg(unix)]
#[test]
fn a_link_is_no_way_around_trust() {
    let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("x.toml");
    fs::write(&target, "mirror = true\n").unwrap();
    std::os::unix::fs::symlink(&target, place.path().join(FILE)).unwrap();
    let load = || Config::look(Layer::new(), None, &around(place.path(), &[])).1;
    assert!(load()[0].message.starts_with("`mirror` is not taken from"));
    trust(place.path());
    assert_eq!(load(), Vec::new());
    fs::write(&target, "mirror = true\nlisten = \"0.0.0.0:1\"\n").unwrap();
    assert!(load()[0].message.starts_with("`mirror` and `listen` are not taken from"));
    // The directory itself is the same whichever way one comes.
    fs::write(&target, "mirror = true\n").unwrap();
    let way = elsewhere.path().join("way");
    std::os::unix::fs::symlink(place.path(), &way).unwrap();
    let around = Surroundings { directory: way, ..around(place.path(), &[]) };
    assert_eq!(Config::look(Layer::new(), None, &around).1, Vec::new());
}

#[cfg(unix)]
#[test]
fn a_data_directory_that_others_may_write_to_is_a_problem() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let load = |mode| {
        fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
        let flags = flag(Key::Data, &data.to_string_lossy());
        Config::look(flags, None, &around(place.path(), &[])).1
    };
    assert_eq!(load(0o755), Vec::new());
    for mode in [0o777, 0o770, 0o1777] {
        let problems = load(mode);
        let why = format!("chmod go-w {}", data.display());
        assert!(problems[0].to_string().starts_with("--flag: `data` cannot be used: others"));
        assert!(problems[0].message.ends_with(&why), "{}", problems[0]);
    }
}

#[test]
fn a_trusted_file_keeps_a_relative_project_in_its_own_directory() {
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().join("repository");
    fs::create_dir_all(place.join("docs")).unwrap();
    fs::create_dir(outside.path().join("repository-2")).unwrap();
    let real = place.canonicalize().unwrap();
    let write = |root: &str| {
        fs::write(place.join(FILE), format!("mirror_root = {root:?}\n")).unwrap();
    };
    let load = |file: Option<&Path>, env: &[(&str, &str)]| {
        Config::load(Layer::new(), file, &around(&place, env)).unwrap()
    };
    for (inside, means) in [(".", ""), ("docs", "docs"), ("docs/..", "")] {
        write(inside);
        trust(&place);
        let config = load(None, &[]);
        assert_eq!(config.mirror_root.value, Some(real.join(means)), "{inside}");
        assert_eq!(config.distrust, None);
    }
    let mut out = vec!["..", "docs/../..", "../repository-2"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/", place.join("docs/link")).unwrap();
        out.extend(["docs/link", "docs/link/etc"]);
    }
    for out in out {
        write(out);
        trust(&place);
        let config = load(None, &[]);
        let why = config.distrust.unwrap().to_string();
        assert!(
            why.contains(&format!(":1: `mirror_root` is {out}, which leads out"))
                && why.contains("TASUKI_MIRROR_ROOT"),
            "{why}"
        );
        assert_eq!(config.mirror_root.value, None);
    }
    // What was read as it is leads where it says.
    write("/");
    trust(&place);
    let config = load(None, &[]);
    assert_eq!((config.mirror_root.value, config.distrust), (Some("/".into()), None));
    // Whoever names the file, or the directory, has looked at it.
    let config = load(Some(&place.join(FILE)), &[]);
    assert!(config.mirror_root.value.is_some() && config.distrust.is_none());
    let config = load(None, &[("TASUKI_MIRROR_ROOT", "/x")]);
    assert_eq!((config.mirror_root.value, config.distrust), (Some("/x".into()), None));
    write("none");
    trust(&place);
    let why = load(None, &[]).distrust.unwrap().to_string();
    assert!(why.contains("`mirror_root` is none, which cannot be looked at: "), "{why}");
}
