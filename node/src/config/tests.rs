//! What settings are made of, and which source wins.

use std::{collections::BTreeMap, fs, path::Path};

use tasuki_proto::host::trust::TrustStore;

use super::*;
use crate::{hooks::spec::Action, process::policy::Kind};

mod came_along;
mod files;
mod gateway;
mod runner;
mod runs;
mod service;

fn around(directory: &Path, env: &[(&str, &str)]) -> Environment {
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let trusted = TrustStore::within(directory);
    Environment { env, directory: directory.to_owned(), home: None, trusted }
}

impl Environment {
    /// That of a directory which holds the data, too.
    pub(crate) fn within(place: &Path) -> Self {
        around(place, &[("TASUKI_DATA", &place.display().to_string())])
    }
}

/// Trusts the file in a directory as it is.
fn trust(place: &Path) {
    let content = fs::read(place.join(FILE)).unwrap();
    TrustStore::within(place).trust(place, [(FILE, &content[..])]).unwrap();
}

fn flag(key: Key, text: &str) -> Layer {
    let raw = Raw { source: Source::Flag("--flag"), texts: key.split(text) };
    BTreeMap::from([(key, raw)])
}

/// Puts `content` in a file and says what is wrong with it, by line.
fn problems(content: &str) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    fs::write(&path, content).unwrap();
    let found = Config::load(Layer::new(), Some(&path), &around(place.path(), &[])).unwrap_err();
    let at = |problem: &Problem| match &problem.at {
        Source::File { line, .. } => format!("{line}: {}", problem.message),
        Source::Default | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => {
            panic!("{}", problem.at)
        }
    };
    found.iter().map(at).collect()
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(FILE), "workspace = \"from-file\"\n").unwrap();
    let workspace = |flags: Layer, env: &[(&str, &str)], place: &Path| {
        let config = Config::load(flags, None, &around(place, env)).unwrap();
        (config.workspace.value.to_string(), config.workspace.source.to_string())
    };
    let flags = || flag(Key::Workspace, "from-flag");
    let env = [("TASUKI_WORKSPACE", "from-env")];

    let all = workspace(flags(), &env, place.path());
    assert_eq!(all, ("from-flag".into(), "--flag".into()));
    let two = workspace(Layer::new(), &env, place.path());
    assert_eq!(two, ("from-env".into(), "TASUKI_WORKSPACE".into()));
    let one = workspace(Layer::new(), &[], place.path());
    let line = format!("{}:1", place.path().join(FILE).display());
    assert_eq!(one, ("from-file".into(), line));
    let elsewhere = tempfile::tempdir().unwrap();
    let nothing = elsewhere.path().to_string_lossy();
    let none = workspace(Layer::new(), &[("TASUKI_DATA", &nothing)], elsewhere.path());
    assert_eq!(none, ("default".into(), "default".into()));
}

#[test]
fn the_data_directory_may_hold_the_file() {
    let (place, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(data.path().join(FILE), "roles = [\"x\", \"y=loop:full\"]\n").unwrap();
    let flags = flag(Key::Data, &data.path().to_string_lossy());
    let config = Config::load(flags, None, &around(place.path(), &[])).unwrap();
    let roles: Vec<String> = config.roles.value.iter().map(ToString::to_string).collect();
    assert_eq!(roles, ["x=loop,mail", "y=loop:full"]);
}

#[test]
fn a_role_gets_the_toolsets_of_its_table_or_of_its_name() {
    let place = tempfile::tempdir().unwrap();
    let content = "roles = [\"lead\", \"worker-1\", \"c\", \"d=swarm-lead\"]\n\
                   [toolsets]\nc = [\"mail:full\"]\nd = [\"loop\"]\nelsewhere = [\"mail\"]\n";
    fs::write(place.path().join(FILE), content).unwrap();
    let config = Config::load(Layer::new(), None, &around(place.path(), &[])).unwrap();
    let roles: Vec<String> = config.roles.value.iter().map(ToString::to_string).collect();
    assert_eq!(
        roles,
        [
            "lead=loop:quiet,mail:quiet,swarm-lead",
            "worker-1=loop:quiet,mail:quiet,swarm-worker",
            "c=mail:full",
            "d=swarm-lead"
        ]
    );
    assert_eq!(config.idle_toolsets, ["elsewhere"]);
}

#[test]
fn roles_that_several_may_play_are_among_the_roles() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(FILE), "shared = [\"B\"]\n").unwrap();
    let config = Config::load(Layer::new(), None, &around(place.path(), &[])).unwrap();
    assert_eq!(config.shared.value, ["B".parse().unwrap()]);
    assert_eq!(
        problems("shared = [\"C\"]\n"),
        ["1: `shared` names C, which is not among the roles"]
    );
}

#[test]
fn a_group_names_several_roles_at_once() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(FILE), "[groups]\ndevs = [\"dev-2\", \"dev-1\"]\n").unwrap();
    let config = Config::load(Layer::new(), None, &around(place.path(), &[])).unwrap();
    let devs = ["dev-1".parse().unwrap(), "dev-2".parse().unwrap()];
    assert_eq!(config.groups, BTreeMap::from([("devs".to_owned(), devs.to_vec())]));
    let many: Vec<String> = (0..33).map(|it| format!("\"r{it}\"")).collect();
    for (group, why) in [
        ("A = [\"x\"]", "`groups` has A, which is also the name of a role"),
        ("x = []", "`groups` of x has 0 roles; it takes 1 to 32"),
        (&format!("x = [{}]", many.join(",")), "`groups` of x has 33 roles; it takes 1 to 32"),
        ("x = [\"y\", \"y\"]", "`groups` of x names the role y twice"),
        ("x = \"y\"", "`groups` takes a list of texts, not this string"),
    ] {
        assert_eq!(problems(&format!("[groups]\n{group}\n")), [format!("2: {why}")], "{group}");
    }
    let bad = &problems("[groups]\n\"a b\" = [\"x\"]\n")[0];
    assert!(bad.starts_with("2: `groups` of a b is no name for a group: it contains ' '"), "{bad}");
}

#[test]
fn every_toolset_has_a_name_the_broker_takes() {
    let all = "loop,mail,swarm-lead,swarm-worker,swarm-acceptor,runs,board,gateway:full";
    let role: Role = format!("A={all}").parse().unwrap();
    let sets: Vec<String> = role.sets().iter().map(ToString::to_string).collect();
    assert_eq!(sets.join(","), all.trim_end_matches(":full"));
    assert_eq!(role.to_string(), format!("A={all}"));
}

#[test]
fn a_toolset_that_is_not_there_is_refused_by_name() {
    for set in ["run-step", "boards:full", "pipelines:quiet"] {
        let name = set.split(':').next().unwrap();
        let why = format!(
            "names the toolset {name:?}; there are loop, mail, swarm-lead, swarm-worker, \
             swarm-acceptor, runs, board, pipeline, gateway, files, commands"
        );
        assert_eq!(format!("A=loop,{set}").parse::<Role>().unwrap_err(), why);
        let file = problems(&format!("roles = [\"A\"]\n[toolsets]\nA = [\"{set}\"]\n"));
        assert_eq!(file, [format!("3: `toolsets` of A {why}")]);
    }
}

#[test]
fn every_problem_of_a_file_is_found_with_its_line() {
    assert_eq!(
        problems("lisen = \"x\"\nlease = 15\n\nbroker_listen = \"7420\"\nworkspace = \"a b\"\n"),
        [
            "2: `lease` takes a text in quotes, not this integer",
            "1: `lisen` is not a setting; there are data, workspace, listen, broker_listen, \
             dashboard, broker, roles, shared, lease, hold, log_format, mcp_secure, mcp_advertise, \
             mcp_tls_cert, mcp_tls_key, mirror, mirror_root, hook_fail, toolsets, groups, hooks, accept, \
             runner, runs, launch, gateway, role, service, files, commands, and of the broker secure, advertise, tls_cert, tls_key, client_ca",
            "5: `workspace` is \"a b\", which contains ' '; an id is made of letters, digits, \
             '_', '.' and '-'",
            "4: `broker_listen` is \"7420\"; it takes ADDRESS:PORT, such as 127.0.0.1:7421",
        ]
    );
    assert_eq!(
        problems("[toolsets]\nA = [\"loop\"]\nB = [\"lop\"]\n"),
        ["3: `toolsets` of B names the toolset \"lop\"; there are loop, mail, swarm-lead, \
          swarm-worker, swarm-acceptor, runs, board, pipeline, gateway, files, commands"]
    );
    assert!(problems("listen = \"127.0.0.1:1\"\nlisten = \n")[0].starts_with("2: "));
}

#[test]
fn what_is_the_brokers_is_left_to_the_broker() {
    let text = "secure = true\nadvertise = \"h\"\ntls_cert = \"c\"\ntls_key = \"k\"\n\
                client_ca = \"a\"\nlease = 15\n";
    assert_eq!(problems(text), ["6: `lease` takes a text in quotes, not this integer"]);
    let around = around(Path::new("."), &[("TASUKI_TLS_CERT", "c"), ("TASUKI_TLS_CART", "c")]);
    assert_eq!(around.strangers(), ["TASUKI_TLS_CART"]);
}

#[test]
fn a_bad_value_is_found_though_another_overrides_it() {
    let place = tempfile::tempdir().unwrap();
    let env = [("TASUKI_LEASE", "soon")];
    let found = Config::load(flag(Key::Lease, "2h"), None, &around(place.path(), &env));
    let found: Vec<String> = found.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["TASUKI_LEASE: `lease` is \"soon\"; it takes a duration such as 90s, 15m or 2h"]
    );
}

#[test]
fn a_variable_that_is_no_setting_is_found() {
    let env = [("TASUKI_LISTEM", "x"), ("TASUKI_LEASE", "1m"), ("TASUKI_NODE", "y")];
    let place = tempfile::tempdir().unwrap();
    assert_eq!(around(place.path(), &env).strangers(), ["TASUKI_LISTEM"]);
}

#[test]
fn a_named_file_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    let missing = place.path().join("none.toml");
    let found = Config::load(Layer::new(), Some(&missing), &around(place.path(), &[]));
    assert!(found.unwrap_err()[0].message.starts_with("cannot be read: "));
}

#[test]
fn what_the_values_may_be() {
    let one = |text: &str| [text.to_owned()];
    assert_eq!(value::lease(&one("90")), Ok(Duration::from_secs(90)));
    assert_eq!(value::lease(&one("1d")), Ok(Duration::from_secs(86_400)));
    assert!(value::lease(&one("10ms")).is_err());
    assert!(value::lease(&one("99999999999999999999h")).is_err());
    assert_eq!(value::hold(&one("")), Ok(None));
    assert_eq!(value::hold(&one("500ms")), Ok(Some(Duration::from_millis(500))));
    assert!(value::hold(&one("31m")).is_err());
    assert!(value::hold(&one("0s")).is_err());
    assert!(value::path(&one("")).is_err());
    assert_eq!(value::listen(&one("localhost:0")).unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(value::listen(&one("[::1]:7421")).unwrap().to_string(), "[::1]:7421");
    assert!(value::listen(&one("7421")).is_err());
    assert_eq!(value::listen(&one("0.0.0.0:1")).unwrap().to_string(), "0.0.0.0:1");
    assert_eq!(value::host(&one("[fd00::1]")), Ok(Some("fd00::1".into())));
    assert_eq!(value::host(&one("")), Ok(None));
    assert!(value::host(&one("box:7421")).is_err());
    assert!(value::yes_or_no(&one("true")).is_err());
    assert_eq!(value::url(&one("http://[::1]:7420/")), Ok(Some("http://[::1]:7420".into())));
    assert!(value::url(&one("ftp://127.0.0.1:1")).unwrap_err().contains("scheme is ftp"));
    assert_eq!(value::url(&one("https://host:7420")), Ok(Some("https://host:7420".into())));
    for bad in ["127.0.0.1:7420", "http://10.0.0.1:7420", "http://host", "https://a/b"] {
        assert!(value::url(&one(bad)).is_err(), "{bad}");
    }
    assert!(value::roles(&["A".into(), "A=mail".into()]).is_err());
    assert!(value::roles(&[]).is_err());
}

#[test]
fn durations_are_said_in_the_largest_exact_unit() {
    for (ms, text) in [(0, "0ms"), (1500, "1500ms"), (90_000, "90s"), (900_000, "15m")] {
        assert_eq!(duration_text(Duration::from_millis(ms)), text);
    }
}

#[test]
fn roles_that_nobody_gave_are_the_agents_of_filebox() {
    let (place, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deep = place.path().join("src");
    fs::create_dir(&deep).unwrap();
    let around = Environment { home: Some(home.path().to_owned()), ..around(&deep, &[]) };
    let roles = |flags: Layer| {
        let config = Config::load(flags, None, &around).unwrap();
        let names = config.roles.value.iter().map(|role| role.name.to_string());
        (names.collect::<Vec<_>>().join(" "), config.roles.source.to_string())
    };
    let file = |place: &Path| place.join(".filebox");
    assert_eq!(roles(Layer::new()), ("A B".into(), "default".into()));
    fs::write(file(home.path()), r#"{"agents": {"ops": "/o", "dev": "/d"}}"#).unwrap();
    let from = |place: &Path| file(place).display().to_string();
    assert_eq!(roles(Layer::new()), ("dev ops".into(), from(home.path())));
    let own = r#"{"current_agent": "qa", "agents": {"dev": "/d", "qa": "/q"}}"#;
    fs::write(file(place.path()), own).unwrap();
    assert_eq!(roles(Layer::new()), ("qa dev".into(), from(place.path())));
    assert_eq!(roles(flag(Key::Roles, "x")), ("x".into(), "--flag".into()));

    fs::write(file(place.path()), "{").unwrap();
    let found = Config::load(Layer::new(), None, &around).unwrap_err();
    let said = found[0].to_string();
    assert!(said.starts_with(&format!("{}: is not the JSON", from(place.path()))), "{said}");
    assert_eq!(roles(flag(Key::Roles, "x")).0, "x", "whoever says who needs no such file");
}

/// Loads a file that was named, which may have hooks.
fn hooks(content: &str) -> Result<Vec<Sourced<Hook>>, Vec<String>> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("named.toml");
    fs::write(&path, content).unwrap();
    let config = Config::load(Layer::new(), Some(&path), &around(place.path(), &[]));
    let shown = |problem: &Problem| {
        problem.to_string().replace(&format!("{}:", path.display()), "").replace(" :", " ")
    };
    config.map(|config| config.hooks).map_err(|found| found.iter().map(shown).collect())
}

#[test]
fn a_hook_is_what_its_table_says() {
    let found = hooks(
        "[[hooks]]\nname = \"notify\"\non = \"received\"\ncommand = [\"notify-send\", \"mail\"]\n\n\
         [[hooks]]\nname = \"post\"\non = [\"sent\", \"dead\"]\nrole = \"B\"\n\
         type = [\"BR\", \"URGENT\"]\nsender = \"A\"\nreceiver = [\"B\", \"C\"]\n\
         url = \"http://10.0.0.1/h?k=v\"\nallow_http = true\nsecret_file = \"s\"\n\
         timeout_sec = 20\nretries = 3\n",
    );
    let found = found.unwrap();
    let lines: Vec<_> = found.iter().map(|hook| hook.source.to_string()).collect();
    assert!(lines[0].ends_with(":1") && lines[1].ends_with(":6"), "{lines:?}");
    let [notify, post] = [&found[0].value, &found[1].value];
    let Action::Command(command) = &notify.action else { panic!("{notify:?}") };
    assert_eq!(
        (command.program.as_str(), &command.arguments[..]),
        ("notify-send", &["mail".into()][..])
    );
    assert!(command.directory.is_absolute());
    assert_eq!((notify.limit, notify.retries), (Duration::from_secs(10), 0));
    assert!(notify.roles.is_empty() && notify.types.is_empty());
    let Action::Webhook(webhook) = &post.action else { panic!("{post:?}") };
    assert_eq!(webhook.url, "http://10.0.0.1/h?k=v");
    assert_eq!(webhook.secret_file, Some(command.directory.join("s")));
    assert!(!format!("{post:?}").contains("k=v"), "a path may be a secret");
    assert_eq!((post.limit, post.retries), (Duration::from_secs(20), 3));
    let filters = (post.on.len(), post.roles.len(), post.types.len(), post.senders.len());
    assert_eq!((filters, post.receivers.len()), ((2, 1, 2, 1), 2));
}

#[test]
fn every_problem_of_a_hook_is_found_with_its_line() {
    let hook = |rest: &str| format!("[[hooks]]\nname = \"h\"\non = \"sent\"\n{rest}\n");
    let run = "command = [\"x\"]";
    for (content, expected) in [
        ("hooks = 1\n".to_owned(), &["1: `hooks` takes tables: write [[hooks]] above each"][..]),
        (
            "[[hooks]]\nonn = 1\n".to_owned(),
            &[
                "2: the hook has no setting \"onn\"; there are name, on, role, type, sender, \
                 receiver, command, url, secret_file, ca_file, allow_http, timeout_sec, retries",
                "1: the hook has no `name`",
                "1: the hook has no `on`",
                "1: the hook has neither `command` nor `url`",
            ],
        ),
        (
            hook("type = \"BUG\"\nrole = \"../x\"\ntimeout_sec = 0\ncommand = [\"x\"]"),
            &[
                "5: the hook h has `role`, which names \"../x\", which contains '/'; an id is made \
                 of letters, digits, '_', '.' and '-'",
                "4: the hook h has `type`, which is \"BUG\"; a message is one of BR, ACK, ER, INFO, \
                 URGENT, DIS",
                "6: the hook h has `timeout_sec`, which takes a number from 1 to 300",
            ],
        ),
        (
            hook(&format!("{run}\nurl = \"https://h\"")),
            &["1: the hook has both `command` and `url`; each is a hook"],
        ),
        (
            hook(&format!("{run}\nsecret_file = \"s\"")),
            &["5: the hook h has `secret_file`, which belongs to `url`"],
        ),
        (
            hook("command = [\"./x\"]"),
            &[
                "4: the hook has `command`, which begins with \"./x\"; it takes a program's absolute \
               path, or a name in PATH",
            ],
        ),
        (
            hook("command = \"x y\""),
            &["4: the hook has `command`, which takes a list of texts, not this string"],
        ),
        (
            hook("url = \"http://host/secret\""),
            &["4: the hook has `url`, which begins with http://, so everybody on the way could \
               read what is sent; use https://, or say `allow_http = true`"],
        ),
        (
            hook("url = \"https://u:p@host/\""),
            &["4: the hook has `url`, which has a user or password in it; sign with `secret_file`"],
        ),
        (
            "[[hooks]]\nname = \"h\"\non = [\"send\"]\ncommand = [\"x\"]\n".to_owned(),
            &["3: the hook h has `on`, which names \"send\"; there are received, sent, resolved, \
               rejected, seen, lapsed, dead, loop_started, loop_completed, turn_handed_over, \
               turn_reclaimed, turn_received, turn_lapsed, loop_paused, loop_resumed, issue_created, issue_closed, \
               issue_reopened, issue_lapsed, task_created, task_claimed, task_submitted, \
               task_approved, task_rejected, task_asked, task_answered, task_lapsed, task_reset, \
               task_canceled, delivery_submitted, delivery_claimed, delivery_accepted, \
               delivery_rejected, delivery_lapsed, run_started, run_question, run_ended"],
        ),
        (
            "[[hooks]]\nname = \"h\"\non = [\"sent\", \"turn_received\"]\ntype = \"BR\"\n\
             sender = \"A\"\nrole = \"B\"\ncommand = [\"x\"]\n"
                .to_owned(),
            &[
                "4: the hook h has `type`, which is mail's alone; turn_received is none",
                "5: the hook h has `sender`, which is mail's alone; turn_received is none",
            ],
        ),
        (
            hook(run) + &hook(run).replace("\"h\"", "\"H\""),
            &["5: the hook H has the name of that at 1"],
        ),
    ] {
        assert_eq!(hooks(&content).unwrap_err(), expected, "{content}");
    }
    for fine in ["url = \"http://127.0.0.1:1/\"", "url = \"http://[::1]:1\"", "url = \"https://h\""]
    {
        assert!(hooks(&hook(fine)).is_ok(), "{fine}");
    }
}

#[test]
fn hooks_of_a_file_that_anybody_could_have_put_there_do_not_count() {
    let content = "[[hooks]]\nname = \"h\"\non = \"sent\"\ncommand = [\"x\"]\n";
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(FILE), content).unwrap();
    let found = Config::load(Layer::new(), None, &around(place.path(), &[])).unwrap();
    let why = found.distrust.unwrap().to_string();
    assert!(
        why.contains(":1: `hooks` is not taken") && why.contains("the current directory"),
        "{why}"
    );
    assert!(found.hooks.is_empty());
    // The same file, where configuration is kept.
    let data = flag(Key::Data, &place.path().to_string_lossy());
    let config = Config::load(data.clone(), None, &around(place.path(), &[])).unwrap();
    assert_eq!((config.hooks.len(), config.distrust), (1, None));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Nobody else gets at it, and it could have been written before.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let anybody = fs::Permissions::from_mode(0o666);
        fs::set_permissions(place.path().join(FILE), anybody).unwrap();
        let found = Config::load(data, None, &around(place.path(), &[])).unwrap();
        let why = found.distrust.unwrap().message;
        assert!(found.hooks.is_empty() && why.contains("everybody on this machine"), "{why}");
    }
}

#[test]
fn what_may_be_run_again_is_read_with_every_problem() {
    let place = tempfile::tempdir().unwrap();
    let data = flag(Key::Data, &place.path().to_string_lossy());
    let load_file = |content: &str| {
        fs::write(place.path().join(FILE), content).unwrap();
        let mut around = around(place.path(), &[]);
        around.home = Some("/home/u".into());
        let config = Config::load(data.clone(), None, &around);
        let shown = |it: &Problem| {
            let Source::File { line, .. } = &it.at else { panic!("{it}") };
            format!("{line}: {}", it.message)
        };
        config
            .map(|config| config.accept.unwrap().value)
            .map_err(|found| found.iter().map(shown).collect::<Vec<_>>())
    };
    let load = |accept: &str| load_file(&format!("[accept]\n{accept}\n"));
    let all = load(
        "allow = [\"make\", \"cargo test *\"]\nread = [\"~/.cargo\", \"/opt/x\"]\n\
         write = [\"/c\"]\nenv = [\"CI\", \"CARGO_HOME=~/.cargo\", \"A=\"]\nnetwork = true\n\
         unix_sockets = true\nsandbox = \"none\"\ntimeout_sec = 5\nmemory_mb = 0\n\
         directory = \"/var/tmp\"",
    );
    let all = all.unwrap();
    let allow: Vec<String> = all.allow.iter().map(ToString::to_string).collect();
    assert_eq!(allow, ["make", "cargo test *"]);
    assert_eq!(all.read, [Path::new("/home/u/.cargo"), Path::new("/opt/x")]);
    let named = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let env =
        [named("CI", None), named("CARGO_HOME", Some("/home/u/.cargo")), named("A", Some(""))];
    assert_eq!(all.env, env);
    assert!(all.is_network_open && all.has_unix_sockets);
    assert_eq!((all.kind, all.limit.as_secs(), all.memory_mb), (Kind::None, 5, None));
    assert_eq!(all.directory, Some("/var/tmp".into()));
    assert_eq!(load(""), Ok(Settings::default()));
    for (accept, why) in [
        (
            "allw = []",
            "`accept` has no setting \"allw\"; there are allow, read, write, env, network, \
                       unix_sockets, sandbox, timeout_sec, memory_mb, directory",
        ),
        (
            "allow = [\"a | b\"]",
            "`accept` has `allow`, which names \"a | b\", which is no command: \
                                 `|` joins commands, and there is no shell: quote it if it is \
                                 meant as it stands",
        ),
        (
            "allow = [\"*\"]",
            "`accept` has `allow`, which names \"*\", which allows everything; name \
                             a program before `*`",
        ),
        (
            "read = [\"x\"]",
            "`accept` has `read`, which names \"x\"; it takes absolute paths below /, \
                            or such as \"~/.cargo\"",
        ),
        (
            "write = [\"/\"]",
            "`accept` has `write`, which names \"/\"; it takes absolute paths below \
                             /, or such as \"~/.cargo\"",
        ),
        ("env = [\"1A\"]", "`accept` has `env`, which names \"1A\"; it takes NAME or NAME=VALUE"),
        ("network = 1", "`accept` has `network`, which takes true or false, not this integer"),
        (
            "sandbox = \"x\"",
            "`accept` has `sandbox`, which is \"x\"; there are \"landlock\" and \
                             \"none\"",
        ),
        ("timeout_sec = 0", "`accept` has `timeout_sec`, which takes a number from 1 to 86400"),
    ] {
        assert_eq!(load(accept).unwrap_err(), [format!("2: {why}")], "{accept}");
    }
    let no_table = load_file("accept = 1\n").unwrap_err();
    assert_eq!(no_table, ["1: `accept` takes a table: write [accept] above it"]);
}

#[test]
fn what_may_be_run_again_is_the_operators_to_say_wherever_the_command_is_called() {
    let (place, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = flag(Key::Data, &kept.path().to_string_lossy());
    let load = || Config::load(data.clone(), None, &around(place.path(), &[])).unwrap();
    let allowed = |config: &Config| {
        let settings = config.accept.as_ref().map(|it| &it.value);
        let allow = settings.map(|it| it.allow.iter().map(ToString::to_string).collect());
        allow.unwrap_or_default()
    };
    // Nobody says anything.
    assert_eq!(load().accept, None);
    // A repository does, and is not asked; not even whether that makes sense.
    let theirs = "lease = \"7m\"\n[accept]\nallow = [\"rm *\"]\nread = [\"/\"]\n";
    fs::write(place.path().join(FILE), theirs).unwrap();
    let config = load();
    assert_eq!((config.accept.as_ref(), config.lease.value.as_secs()), (None, 420));
    let why = config.accept_distrust.unwrap();
    assert!(why.message.starts_with("`accept` is not taken from a file that happens to be in"));
    // The operator does, in the file that the repository's hides.
    fs::write(kept.path().join(FILE), "lease = \"9m\"\n[accept]\nallow = [\"make\"]\n").unwrap();
    let config = load();
    assert_eq!(allowed(&config), ["make"]);
    assert_eq!(config.lease.value.as_secs(), 420, "of all else one file holds");
    assert!(config.accept_distrust.is_some());
    // What the repository says about other things does not change that.
    fs::write(place.path().join(FILE), "lease = \"7m\"\n").unwrap();
    assert_eq!((allowed(&load()), load().accept_distrust), (vec!["make".to_owned()], None));
    // A file that was named says all there is.
    let named = place.path().join(FILE);
    let config = Config::load(data.clone(), Some(&named), &around(place.path(), &[])).unwrap();
    assert_eq!(config.accept, None);
    // What anybody may write to is nobody's word.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let anybody = fs::Permissions::from_mode(0o666);
        fs::set_permissions(kept.path().join(FILE), anybody).unwrap();
        let config = load();
        let why = config.accept_distrust.unwrap().message;
        assert!(config.accept.is_none() && why.contains("everybody on this machine"), "{why}");
    }
}

/// One file serves both, so what one does not look at has to be known to it all the same.
#[test]
fn the_broker_takes_a_file_with_any_of_the_nodes_settings() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    for name in Key::ALL.map(Key::name).into_iter().chain(file::TABLES) {
        fs::write(&path, format!("{name} = 1\n")).unwrap();
        // A value of the broker's own may be wrong, but not its name.
        let read =
            tasuki_proto::host::config::read(Some(&path), None).map_err(|why| why.to_string());
        assert!(read.as_ref().is_ok() || read.is_err_and(|why| !why.contains("unknown")), "{name}");
    }
}
