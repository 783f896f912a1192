//! What counts of files that came with a directory.

use tasuki_proto::limits::ROLES_MAX;

use super::*;

/// Holds U3.
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
        .filter(|name| !tasuki_proto::host::trust::FREE.contains(name))
        .collect();
    assert_eq!(others.len(), 18, "{others:?}");
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
    assert_eq!((config.data.value, problems), (place.path().join(".cache"), Vec::new()));
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
fn a_data_directory_of_a_relative_path_is_part_of_what_came() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join(".tasuki");
    fs::create_dir(&data).unwrap();
    let attack = "broker_listen = \"0.0.0.0:0\"\nmirror = true\nroles = [\"x\"]\n\
                  [[hooks]]\nname = \"a\"\non = \"sent\"\ncommand = [\"true\"]\n\
                  [accept]\nallow = [\"make\"]\n";
    fs::write(data.join(FILE), attack).unwrap();
    let by_flag = || Config::look(flag(Key::Data, ".tasuki"), None, &around(place.path(), &[]));
    let by_variable =
        || Config::look(Layer::new(), None, &around(place.path(), &[("TASUKI_DATA", ".tasuki")]));
    for (config, problems) in [by_flag(), by_variable()] {
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(said.len() == 1 && said[0].contains(".tasuki/tasuki.toml:1: `broker_"), "{said:?}");
        assert!(
            said[0].contains("and `mirror` are not taken from a file in a data dir"),
            "{said:?}"
        );
        assert!(config.broker_listen.value.ip().is_loopback() && !config.mirror.value);
        assert!(config.hooks.is_empty() && config.distrust.is_some());
        assert!(config.accept.is_none() && config.accept_distrust.is_some());
        assert_eq!(config.roles.value[0].name.as_str(), "x", "it may say so");
    }
    // Below it the user's own; here it is one of two that came.
    fs::write(place.path().join(FILE), "roles = [\"A\"]\n[accept]\nallow = [\"b\"]\n").unwrap();
    let (config, problems) = by_flag();
    assert_eq!((problems.len(), config.roles.value[0].name.as_str()), (1, "A"));
    assert!(config.accept.is_none() && config.hooks.is_empty() && config.distrust.is_some());
    fs::remove_file(place.path().join(FILE)).unwrap();
    TrustStore::within(place.path()).trust(&data, [(FILE, attack.as_bytes())]).unwrap();
    let (config, problems) = by_variable();
    assert_eq!((problems, config.hooks.len(), config.mirror.value), (Vec::new(), 1, true));
    assert!(config.accept.is_some() && config.distrust.is_none());
}

#[test]
fn paths_in_a_file_start_at_its_own_directory() {
    let (place, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = own.path().join("named.toml");
    let text = "data = \"d\"\nmcp_tls_cert = \"c\"\nmcp_tls_key = \"/k\"\n";
    fs::write(&path, text).unwrap();
    let config = Config::load(Layer::new(), Some(&path), &around(place.path(), &[])).unwrap();
    assert_eq!(config.data.value, own.path().join("d"));
    assert_eq!(config.tls_cert.value, Some(own.path().join("c")));
    assert_eq!(config.tls_key.value, Some("/k".into()));
    // What is said where the command is called means what is there.
    let config =
        Config::load(flag(Key::Data, "e"), Some(&path), &around(place.path(), &[])).unwrap();
    assert_eq!(config.data.value, Path::new("e"));
}

#[cfg(unix)]
#[test]
fn a_relative_project_lies_in_the_current_directory_whoever_names_it() {
    let outside = tempfile::tempdir().unwrap();
    let (place, data) = (outside.path().join("clone"), tempfile::tempdir().unwrap());
    for directory in ["clone/docs", "private"] {
        fs::create_dir_all(outside.path().join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("../private", place.join("mail")).unwrap();
    let flags = || flag(Key::Data, &data.path().to_string_lossy());
    let look = |env: &[(&str, &str)]| Config::look(flags(), None, &around(&place, env)).0;
    let led_out = |config: &Config| {
        let why = config.distrust.as_ref().map(ToString::to_string);
        config.mirror_root.value.is_none()
            && why.is_some_and(|why| why.contains("`mirror_root` is mail, which leads out of"))
    };
    assert!(led_out(&look(&[("TASUKI_MIRROR_ROOT", "mail")])));
    fs::write(data.path().join(FILE), "mirror_root = \"mail\"\n").unwrap();
    assert!(led_out(&look(&[])));
    // So it is below a file that may not name any.
    fs::write(place.join(FILE), "roles = [\"A\"]\n").unwrap();
    assert!(led_out(&look(&[])));
    fs::write(data.path().join(FILE), "mirror_root = \"docs\"\n").unwrap();
    let config = look(&[]);
    let docs = place.canonicalize().unwrap().join("docs");
    assert_eq!((config.mirror_root.value, config.distrust), (Some(docs), None));
}

#[test]
fn a_file_that_cannot_be_read_switches_nothing_of_its_users_off() {
    let (place, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = "hook_fail = \"closed\"\nmcp_secure = true\n[accept]\nallow = [\"make\"]\n";
    fs::write(data.path().join(FILE), own).unwrap();
    let flags = flag(Key::Data, &data.path().to_string_lossy());
    for content in [vec![0xff], vec![b' '; 1024 * 1024 + 1], b"a = \n".to_vec()] {
        fs::write(place.path().join(FILE), content).unwrap();
        let (config, problems) = Config::look(flags.clone(), None, &around(place.path(), &[]));
        let own = data.path().join(FILE);
        assert_eq!(config.hook_fail.source, Source::File { path: own, line: 1 });
        assert!(config.hook_fail.value == HookFail::Closed && config.secure.value);
        assert!(config.accept.is_some());
        assert!(!problems.is_empty());
    }
    fs::write(place.path().join(FILE), [0xff]).unwrap();
    let (_, problems) = Config::look(flags, None, &around(place.path(), &[]));
    let said = problems[0].to_string();
    assert!(said.contains("tasuki.toml: cannot be read: "), "no line of it: {said}");
}

#[test]
fn a_hook_whose_setting_cannot_be_read_is_closed() {
    let (place, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = data.path().join(FILE);
    let look = |env: &[(&str, &str)]| {
        let flags = flag(Key::Data, &data.path().to_string_lossy());
        Config::look(flags, None, &around(place.path(), env)).0.hook_fail.value
    };
    for lost in ["hook_fail = \"closd\"\n", "hook_fail = true\n", "hook_fail = \"closed\"\na =\n"] {
        fs::write(&path, lost).unwrap();
        assert_eq!(look(&[]), HookFail::Closed, "{lost}");
        assert_eq!(look(&[("TASUKI_HOOK_FAIL", "open")]), HookFail::Open, "{lost}");
    }
    fs::write(&path, [0xff]).unwrap();
    assert_eq!(look(&[]), HookFail::Closed);
    #[cfg(unix)]
    for nowhere in ["/nonexistent/tasuki.toml", FILE] {
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(nowhere, &path).unwrap();
        assert_eq!(look(&[]), HookFail::Closed, "a link to {nowhere}");
    }
    fs::remove_file(&path).unwrap();
    // Nobody said anything of it.
    fs::write(&path, "lease = 1\nhook_fale = \"closed\"\n").unwrap();
    assert_eq!(look(&[]), HookFail::Open);
    assert_eq!(look(&[("TASUKI_HOOK_FAIL", "closd")]), HookFail::Closed);
    // A repository says nothing of it, in whatever way.
    for theirs in ["hook_fail = true\n", "hook_fail = \"closed\"\n", "hook_fail =\n"] {
        fs::write(place.path().join(FILE), theirs).unwrap();
        assert_eq!(look(&[]), HookFail::Open, "{theirs}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(&path, "hook_fail = \"closed\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(look(&[]), HookFail::Closed, "it does not count, and is no reason to open");
    }
}

#[test]
fn a_file_with_a_hundred_thousand_problems_is_told_in_a_hundred() {
    let keys: String = (0..100_000).map(|it| format!("k{it}=1\n")).collect();
    let found = problems(&keys);
    assert_eq!(found.len(), 101);
    assert!(found[0].contains("is not a setting; there are data"), "{}", found[0]);
    assert_eq!(found[100], "0: has 99900 more problems; mend these first");
    let groups: String = (0..50_000).map(|it| format!("g{it}=[\"x\"]\n")).collect();
    let expected = "1: `groups` has 50000 groups; the limit is 1000";
    assert_eq!(problems(&format!("[groups]\n{groups}")), [expected]);
    let sets: String = (0..50_000).map(|it| format!("r{it}=[\"mail\"]\n")).collect();
    let expected = "1: `toolsets` has 50000 roles; the limit is 1000";
    assert_eq!(problems(&format!("[toolsets]\n{sets}")), [expected]);
    let hooks = problems(&format!("hooks = [{}]\n", "{},\n".repeat(200_000)));
    assert!(hooks.len() == 1 && hooks[0].contains("`hooks` are 200000; the limit is"), "{hooks:?}");
}

#[test]
fn of_a_large_file_that_is_no_toml_the_first_error_is_told() {
    // Each line of it would be an error by itself.
    let small = problems(&"=\n".repeat(100));
    assert!(1 < small.len(), "{small:?}");
    let large = problems(&"=\n".repeat(500_000));
    assert_eq!(large, small[..1]);
}

#[test]
fn roles_that_several_may_play_are_as_many_as_there_may_be_and_named_once() {
    let many: Vec<String> = (0..=ROLES_MAX).map(|it| format!("\"r{it}\"")).collect();
    assert_eq!(
        problems(&format!("shared = [{}]\n", many.join(","))),
        ["1: `shared` has 1001 roles; the limit is 1000"]
    );
    assert_eq!(problems("shared = [\"B\", \"B\"]\n"), ["1: `shared` names the role B twice"]);
}

#[test]
fn what_is_no_toml_has_no_other_problem() {
    let found = problems("lease = \"7m\"\nroles = [\n");
    assert!(!found.is_empty() && found.iter().all(|it| !it.contains("`roles`")), "{found:?}");
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
    let around = Environment { directory: way, ..around(place.path(), &[]) };
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
