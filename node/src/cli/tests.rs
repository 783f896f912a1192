//! The command line itself: that it is well formed, and what flags become.

use super::*;

fn parse(line: &str) -> Result<Cli, ErrorKind> {
    Cli::try_parse_from(line.split_whitespace()).map_err(|why| why.kind())
}

#[test]
fn the_commands_are_well_formed() {
    Cli::command().debug_assert();
}

/// All of them take twice the time, which every command would wait for.
#[test]
fn a_command_is_put_together_only_when_it_is_typed() {
    fn put_together(command: &clap::Command, all: &mut Vec<String>) {
        for it in command.get_subcommands() {
            let own = it
                .get_arguments()
                .filter(|arg| ![BROKER, WORKSPACE].contains(&arg.get_id().as_str()));
            all.extend(own.map(|arg| format!("{} {}", it.get_name(), arg.get_id())));
            put_together(it, all);
        }
    }
    let (mut typed, mut whole) = (Vec::new(), Vec::new());
    put_together(&Cli::command(), &mut typed);
    put_together(&help::whole(), &mut whole);
    assert_eq!(typed, Vec::<String>::new());
    assert!(300 < whole.len(), "{}", whole.len());
}

#[test]
fn the_command_lines_of_the_documentation_parse() {
    for line in [
        "tasuki up --data d --listen 127.0.0.1:0 --broker-listen 127.0.0.1:0 --workspace w \
         --role A=loop,mail --role B --config f --lease 20m",
        "tasuki node --broker http://127.0.0.1:1 --workspace w --role R --listen 127.0.0.1:0 \
         --take-over",
        "tasuki mcp --role A --node http://127.0.0.1:1 --hold 50",
        "tasuki mcp",
        "tasuki mcp --role A --workspace w",
        "tasuki init --workspace w --role A --role B=mail --force --json",
        "tasuki connect codex --role A --workspace w",
        "tasuki doctor --data d --workspace w --json",
        "tasuki connect claude-code --role A --allow",
        "tasuki launch",
        "tasuki launch A=claude-code B=codex --dry-run --json",
        "tasuki launch --role A --goal g --terminal tmux --wait 2m --allow --agents-md --again",
        "tasuki launch --undo --workspace w",
        "tasuki launch-agent --workspace w A",
        "tasuki connect zed --role A --scope project --name other --transport stdio --hold 50 \
         --node http://127.0.0.1:1 --force --print --json",
        "tasuki disconnect codex --role A --scope user --name tasuki",
        "tasuki loop status",
        "tasuki issue --workspace w list --broker http://127.0.0.1:1",
        "tasuki --json loop status review --broker http://127.0.0.1:1",
        "tasuki loop start --participants A,B,C",
        "tasuki loop start main --to B --summary s --instruction - --by me --json",
        "tasuki loop handover --role A --summary @f --instruction - --turn 3 --to C",
        "tasuki loop handover main --role A --summary s --instruction i --complete",
        "tasuki loop handover --role A --summary s --complete",
        "tasuki budget list",
        "tasuki budget set dev --calls 100 --tokens 1000000 --per 1d",
        "tasuki budget clear dev",
        "tasuki budget resume dev --by ann",
        "tasuki budget limits --turns 50 --hops 0",
        "tasuki budget limits --loop side",
        "tasuki loop pause --reason lunch",
        "tasuki loop pause side --reason lunch --as A",
        "tasuki loop resume side --by ann",
        "tasuki loop reclaim --reason gone --to B",
        "tasuki loop reclaim --reason gone --role B",
        "tasuki loop history --from 3 --limit 500",
        "tasuki loop list",
        "tasuki mail private status --json",
        "tasuki mail private on --broker http://127.0.0.1:1 --workspace w",
        "tasuki mail private trust a97c-7718-0f61-a979-8359-11c1-3926-5341",
        "tasuki mail private trust",
        "tasuki mail private approve desk-1 a97c77180f61a979835911c139265341",
        "tasuki mail private approve desk-1",
        "tasuki mail private remove desk-1",
        "tasuki mail private rotate",
        "tasuki mail private off",
        "tasuki task top 00af --once",
        "tasuki issue list --status in-progress --contains x --limit 3 --json",
        "tasuki task list 00af --stage in-review --as lead",
        "tasuki task list issue_1700000000000_00af --status waiting-for-answer --claimed-by w1",
        "tasuki task show 00af/3",
        "tasuki delivery show delivery_1700000000000_00b2",
        "tasuki issue create Subject --doc spec.md=spec.md --description - --as lead",
        "tasuki task plan 00af --file tasks.toml --as lead",
        "tasuki task create 00af Subject --difficulty easy --points 3 --blocked-by task-1",
        "tasuki task claim --next 00af --as w1",
        "tasuki lock acquire src/a.rs docs/ --repository host/us/it --task 00af/3 --for 5m",
        "tasuki task submit 00af/3 --summary @f --file src/a.rs --result passed --token 4",
        "tasuki task review 00af/3 --approve --score 5 --feedback Good --as lead",
        "tasuki delivery review delivery_1700000000000_00b2 --approve --despite flaky --by me \
         --feedback f --failed-step 2",
        "tasuki delivery create 00af --summary s --passed --steps issue-1-test-steps.md --step x",
        "tasuki issue close 00af --reason done",
        "tasuki task renew 00af/3 --for 2h --token 4",
        "tasuki delivery renew delivery_1700000000000_00b2 --for 2h --as qa",
        "tasuki lock renew l_1700000000000_00b3 --token 7",
        "tasuki lock list src/a.rs --holder w1",
        "tasuki issue extend 00af --for 2h",
        "tasuki issue set-docs 00af --no-shared-docs --as lead",
        "tasuki delivery claim delivery_1700000000000_00b2 --as qa",
        "tasuki delivery list --status open --json",
        "tasuki worker list w1",
        "tasuki lock release l_1700000000000_00b3 --reason gone --as lead",
        "tasuki issue history 00af --from 3 --follow",
        "tasuki doc read spec.md --of 00af --version 2 --save x",
        "tasuki settings lock 5m task-claim 2h --by me",
        "tasuki watch --from 1 --json",
        "tasuki status",
        "tasuki import filebox . ../other --role dev_agent=dev --role qa=q --dry-run --json",
        "tasuki export --format markdown --out mail --role qa --box done --workspace w",
        "tasuki export --format mbox",
        "tasuki export --format jsonl --broker http://127.0.0.1:1",
        "tasuki config check",
        "tasuki accept delivery_1795364870531_0003",
        "tasuki accept delivery_1795364870531_0003 --as acceptor --repository .. --fetch origin \
         --approve --feedback good --by-hand read --person alice --reason flaky --json",
        "tasuki accept delivery_1795364870531_0003 --no-run --reject --feedback bad",
        "tasuki accept --task issue_1795364870531_0000/task-1 --broker http://127.0.0.1:1",
        "tasuki run reviewer task",
        "tasuki run reviewer - --on gpu --timeout 10m --background --as lead --broker \
         http://127.0.0.1:1 --workspace w",
        "tasuki run --chain chain.json --max-turns 100 --max-cost 0.50 --max-depth 2 --max-runs 9",
        "tasuki run --parallel - --concurrency 8 --scope user --cwd d --schema s.json --json",
        "tasuki run reviewer task --runner claude --model m --by alice --config f --data d",
        "tasuki runs list --open --limit 5 --json",
        "tasuki runs show latest",
        "tasuki runs watch 00af --json",
        "tasuki runs cancel run_1700000000000_00af --as lead",
        "tasuki runs output 00af 2 --broker http://127.0.0.1:1",
        "tasuki runs output 00af --message 3 --out plan.md",
        "tasuki runs report done",
        "tasuki runs report --file plan.md",
        "tasuki runs report done --file plan.md",
        "tasuki runs reply 00af 3 @file --by me",
        "tasuki runs runners",
        "tasuki lock-hook install --git --as A --fail-closed --within 2s",
        "tasuki lock-hook pre-commit --as A",
        "tasuki lock-hook edit --client claude",
        "tasuki wake setup claude-code --role B --scope user --print",
        "tasuki wake setup tmux --pane %3",
        "tasuki wake remove codex",
        "tasuki wake status B",
        "tasuki wake test B --within 5s --urgent",
        "tasuki wake hook session-start --client cursor --as B",
        "tasuki broker-token rotate --overlap 1h",
        "tasuki hook list --json",
        "tasuki mail-hook list --json",
        "tasuki hook retry 00ff01 00ff02",
        "tasuki hook retry --hook notify",
        "tasuki hook drop --all",
        "tasuki completions zsh",
        "tasuki prompt A",
        "tasuki prompt qa --goal g --json",
    ] {
        assert!(parse(line).is_ok(), "{line}: {:?}", parse(line).err());
    }
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    use ErrorKind::{
        ArgumentConflict, InvalidSubcommand, InvalidValue, MissingRequiredArgument,
        UnknownArgument, ValueValidation,
    };
    for (line, kind) in [
        ("tasuki loop status ../x", ValueValidation),
        ("tasuki loop handover --role A --summary s", MissingRequiredArgument),
        ("tasuki loop pause", MissingRequiredArgument),
        ("tasuki budget set dev", MissingRequiredArgument),
        ("tasuki budget limits", MissingRequiredArgument),
        ("tasuki budget limits --hops 5 --loop side", ArgumentConflict),
        ("tasuki loop reclaim --reason gone", MissingRequiredArgument),
        ("tasuki loop reclaim --reason r --role A --by me", ArgumentConflict),
        (
            "tasuki loop handover --role A --summary s --instruction i --complete --to B",
            ArgumentConflict,
        ),
        ("tasuki loop history --limit 0", ValueValidation),
        ("tasuki lock-hook status --broker http://127.0.0.1:1", UnknownArgument),
        ("tasuki lock-hook uninstall --workspace w", UnknownArgument),
        ("tasuki outbox --broker http://127.0.0.1:1", UnknownArgument),
        ("tasuki completions cmd", InvalidValue),
        ("tasuki import filebox", MissingRequiredArgument),
        ("tasuki import filebox . --role x", ValueValidation),
        ("tasuki export", MissingRequiredArgument),
        ("tasuki export --format mbox --box trash", ValueValidation),
        ("tasuki hook drop", MissingRequiredArgument),
        ("tasuki issue show 00a", ValueValidation),
        ("tasuki swarm board", InvalidSubcommand),
        ("tasuki task show delivery_1700000000000_00b2", ValueValidation),
        ("tasuki delivery claim 00af/1", ValueValidation),
        ("tasuki lock renew delivery_1700000000000_00b2", ValueValidation),
        ("tasuki issue extend 00af --token 4", UnknownArgument),
        ("tasuki task review 00af/1 --reject --feedback f --script-failed", UnknownArgument),
        (
            "tasuki delivery review delivery_1700000000000_00b2 --approve --score 5 --feedback f",
            UnknownArgument,
        ),
        ("tasuki task claim", MissingRequiredArgument),
        ("tasuki task claim 00af/1 --next 00af", ArgumentConflict),
        ("tasuki task review 00af/1 --feedback f", MissingRequiredArgument),
        ("tasuki task review 00af/1 --approve --reject --feedback f", ArgumentConflict),
        ("tasuki task review 00af/1 --approve --score 3 --feedback f", InvalidValue),
        ("tasuki task list 00af --stage ready --status open", ArgumentConflict),
        ("tasuki doc read ../x", ValueValidation),
        ("tasuki hook retry 00ff --all", ArgumentConflict),
        ("tasuki run", MissingRequiredArgument),
        ("tasuki run reviewer", MissingRequiredArgument),
        ("tasuki run reviewer task --chain f", ArgumentConflict),
        ("tasuki run --chain f --parallel g", ArgumentConflict),
        ("tasuki run --chain f --concurrency 2", ArgumentConflict),
        ("tasuki run reviewer task --max-cost 0", ValueValidation),
        ("tasuki run reviewer task --timeout 25h", ValueValidation),
        ("tasuki run reviewer task --max-depth 17", ValueValidation),
        ("tasuki run reviewer task --scope all", InvalidValue),
        ("tasuki runs show 00a", ValueValidation),
        ("tasuki runs reply 00af 0 text", ValueValidation),
        ("tasuki runs cancel 00af --as lead --by me", ArgumentConflict),
    ] {
        assert_eq!(parse(line).err(), Some(kind), "{line}");
    }
}

#[test]
fn broker_and_workspace_are_taken_before_and_after_the_verb() {
    for line in [
        "tasuki issue list --broker b --workspace w",
        "tasuki issue --broker b list --workspace w",
        "tasuki issue --broker b --workspace w list",
        "tasuki issue --broker x list --broker b --workspace w",
        "tasuki mail private --workspace w on --broker b",
        "tasuki lock-hook install --broker b --workspace w",
    ] {
        let matches = Cli::command().try_get_matches_from(line.split(' ')).unwrap();
        let mut flags = Flags::default();
        flags.target(&matches);
        let text = |key| flags.0.get(&key).map(|raw| raw.texts.concat());
        let expected = (Some("b".to_owned()), Some("w".to_owned()));
        assert_eq!((text(Key::Broker), text(Key::Workspace)), expected, "{line}");
    }
    for name in ["issue", "mail", "loop", "watch"] {
        let mut command = help::whole();
        let help = command.find_subcommand_mut(name).unwrap().render_help().to_string();
        assert!(help.contains("--broker <URL>") && help.contains("--workspace <NAME>"), "{help}");
    }
}

#[test]
fn the_long_help_of_a_command_says_what_the_short_one_leaves_out() {
    for (line, said) in [
        ("up", "SIGTERM and Ctrl-C stop it."),
        ("node", "keeps trying"),
        ("connect", "Two roles in one client need two names."),
        ("disconnect", "Everything else in the client's files stays."),
        ("mcp", "Needs a running node"),
        ("take-over", "was quiet for a quarter of an hour"),
        ("loop start", "keeps its history"),
        ("import filebox", "only what is missing is sent"),
        ("export", "Marks nothing as seen."),
        ("task claim", "exits with 7 when there is none."),
        ("delivery review", "were run and passed"),
        ("loop reclaim", "The old holder is refused from then on."),
        ("run", "broker and node run within this command."),
        ("runs watch", "the run goes on."),
    ] {
        let mut command = help::whole();
        let last = line.split(' ').fold(&mut command, |command, name| {
            command.find_subcommand_mut(name).unwrap_or_else(|| panic!("{line}"))
        });
        let long = last.render_long_help().to_string();
        let long = long.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(long.contains(said), "{line}: {long}");
        assert!(!last.render_help().to_string().contains(said), "{line}");
    }
}

#[test]
fn help_names_every_toolset_that_a_role_can_have() {
    for name in ["up", "node"] {
        let mut command = help::whole();
        let help = command.find_subcommand_mut(name).unwrap().render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let toolsets = "Toolsets: loop, mail, swarm-lead, swarm-worker, swarm-acceptor, runs, board, pipeline, gateway, files, commands; SET:full";
        assert!(help.contains(toolsets), "{name}: {help}");
    }
}

#[test]
fn help_names_every_exit_code() {
    for exit in
        [Exit::Ok, Exit::Refused, Exit::Usage, Exit::Unreachable, Exit::OutcomeUnknown, Exit::Local]
    {
        let line = format!("\n  {}  ", exit as u8);
        assert!(failure::HELP.contains(&line), "{exit:?}");
    }
}

#[test]
fn shells_complete_the_commands_about_issues() {
    let cli = help::whole();
    let nouns: Vec<(&str, Vec<&str>)> = ["issue", "task", "delivery", "lock", "doc", "worker"]
        .into_iter()
        .map(|noun| {
            let verbs = cli.find_subcommand(noun).unwrap().get_subcommands();
            (noun, verbs.map(clap::Command::get_name).collect())
        })
        .collect();
    let count: usize = nouns.iter().map(|(_, verbs)| verbs.len()).sum();
    assert!(20 < count && nouns[1].1.contains(&"claim"), "{nouns:?}");
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish]
    {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut help::whole(), "tasuki", &mut script);
        let script = String::from_utf8(script).unwrap();
        let is_fish = shell == clap_complete::Shell::Fish;
        for (noun, verbs) in &nouns {
            let using = format!("__fish_tasuki_using_subcommand {noun}");
            let about = if is_fish { using.as_str() } else { *noun };
            let about: Vec<&str> = script.lines().filter(|line| line.contains(about)).collect();
            for name in verbs {
                let is_there = about.iter().any(|line| line.contains(name))
                    || script.lines().any(|line| line.starts_with(&format!("'{name}:")));
                assert!(is_there, "{shell}: {noun} {name}");
            }
        }
        // What may be typed for a stage is completed as well.
        assert!(script.contains("in-review"), "{shell}");
    }
}

/// Names and lines are half of a binary or more; a profiler takes them from a profile of their own.
#[test]
fn releases_are_stripped_and_there_is_a_profile_for_profilers() {
    let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
    let profile = |name: &str| manifest["profile"][name].clone();
    let (release, profiling) = (profile("release"), profile("profiling"));
    assert_eq!((release.get("strip"), release.get("debug")), (Some(&true.into()), None));
    assert_eq!(profiling["inherits"], "release".into());
    assert_eq!(profiling["strip"], false.into());
    assert_eq!(profiling["debug"], "line-tables-only".into());
}
