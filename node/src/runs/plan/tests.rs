//! What is planned, a line for each step, and what is refused.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::{
    runner::{agent_file::Agent, discovery::DirectoryKind},
    runs::convert::plain,
};

fn entry(front_matter: &str, source: Source, kind: DirectoryKind) -> AgentEntry {
    let text = format!("---\ndescription: d\n{front_matter}\n---\nYou are careful.\n");
    let agent = Agent::parse(&text).expect("an agent");
    let path = PathBuf::from(format!("/agents/{}.md", agent.name));
    AgentEntry { agent, path, source, kind }
}

fn agents() -> Agents {
    let all = [
        entry("name: scout", Source::User, DirectoryKind::Pi),
        entry("name: writer\nmodel: opus", Source::Project, DirectoryKind::Claude),
        entry(
            "name: tester\nrunner: claude-code\ntools: read, bash\ncwd: tests\ntimeout: 90s\n\
             env: CI\nsandbox: true",
            Source::Project,
            DirectoryKind::Tasuki,
        ),
        entry("name: plain", Source::User, DirectoryKind::Tasuki),
        entry("name: upward\ncwd: ../other", Source::User, DirectoryKind::Tasuki),
    ];
    let named = all.into_iter().map(|entry| (entry.agent.name.clone(), entry));
    Agents { agents: named.collect(), skipped: Vec::new() }
}

fn step(agent: &str, task: &str) -> Step {
    Step { agent: agent.to_owned(), task: task.to_owned(), cwd: None }
}

fn steps(names: &[&str]) -> Vec<Step> {
    names.iter().map(|agent| step(agent, "t")).collect()
}

fn wanted(mode: &Mode) -> RunRequest<'_> {
    RunRequest {
        mode,
        on: "",
        timeout: None,
        output_schema: None,
        runner: None,
        default_runner: "pi",
        model: None,
        budget: wire::RunBudget::default(),
        concurrency: 0,
    }
}

fn planned(wanted: &RunRequest<'_>) -> Plan {
    plan(wanted, &agents()).unwrap_or_else(|why| panic!("{why}"))
}

fn refused(wanted: &RunRequest<'_>) -> String {
    plan(wanted, &agents()).expect_err("it cannot be planned")
}

fn spec(step: &wire::NewStep) -> Spec {
    Spec::parse(plain(step.spec.as_ref())).expect("a spec")
}

/// Each step in a line: agent, runner, model, place, timeout.
fn render(plan: &Plan) -> Vec<String> {
    let line = |step: &wire::NewStep| {
        let wire::NewStep { agent, runner, model, on, timeout_ms, .. } = step;
        format!("{agent} {runner} [{model}] [{on}] {timeout_ms}")
    };
    plan.request.steps.iter().map(line).collect()
}

#[test]
fn what_a_call_says_goes_before_the_agents_file_and_that_before_the_default() {
    let mode = Mode::Parallel(steps(&["scout", "writer", "tester", "plain"]));
    assert_eq!(
        render(&planned(&wanted(&mode))),
        [
            "scout pi [] [] 0",
            "writer claude [opus] [] 0",
            "tester claude [] [] 90000",
            "plain pi [] [] 0"
        ]
    );
    let all = RunRequest {
        on: "gpu",
        timeout: Some(Duration::from_millis(1500)),
        runner: Some("codex"),
        model: Some("small"),
        ..wanted(&mode)
    };
    assert_eq!(
        render(&planned(&all)),
        ["scout", "writer", "tester", "plain"].map(|it| format!("{it} codex [small] [gpu] 1500"))
    );
    let other_default = planned(&RunRequest { default_runner: "mine", ..wanted(&mode) });
    assert_eq!(render(&other_default)[3], "plain mine [] [] 0");
}

#[test]
fn a_request_says_mode_budget_and_who_is_used() {
    for (mode, wire_mode, count) in [
        (Mode::Single(step("scout", "t")), RunMode::Single, 1),
        (Mode::Parallel(steps(&["scout", "writer", "scout"])), RunMode::Parallel, 3),
        (Mode::Chain(steps(&["writer", "scout"])), RunMode::Chain, 2),
    ] {
        let budget = wire::RunBudget { max_turns: 7, ..Default::default() };
        let plan = planned(&RunRequest { budget, concurrency: 3, ..wanted(&mode) });
        assert_eq!((plan.request.mode(), plan.request.steps.len()), (wire_mode, count));
        assert_eq!((plan.request.budget, plan.request.concurrency), (Some(budget), 3));
        let names: Vec<_> = plan.agents.iter().map(|entry| entry.agent.name.as_str()).collect();
        let of_project: Vec<_> = plan.project_agents().map(|entry| &*entry.agent.name).collect();
        match count {
            1 => assert_eq!((names, of_project), (vec!["scout"], vec![])),
            _ => assert_eq!((names, of_project), (vec!["scout", "writer"], vec!["writer"])),
        }
    }
}

#[test]
fn an_agents_limits_go_along() {
    let mode = Mode::Chain(vec![
        step("tester", "first"),
        Step { cwd: Some("web".to_owned()), ..step("tester", "{previous}") },
        step("plain", "third"),
    ]);
    let plan = planned(&wanted(&mode));
    let specs: Vec<_> = plan.request.steps.iter().map(spec).collect();
    let tester = Spec {
        tools: Some(vec!["read".to_owned(), "bash".to_owned()]),
        cwd: Some("tests".to_owned()),
        env: Some(vec!["CI".to_owned()]),
        sandbox: true,
        output_schema: None,
    };
    let in_web = Spec { cwd: Some("web".to_owned()), ..tester.clone() };
    assert_eq!(specs, [tester, in_web, Spec::default()]);
    let tasks = plan.request.steps.iter().map(|step| plain(step.task.as_ref()));
    assert_eq!(tasks.collect::<Vec<_>>(), ["first", "{previous}", "third"]);
}

#[test]
fn the_final_output_alone_has_a_form_and_its_agent_is_told() {
    let schema = json!({"type": "object"});
    let told = "You are careful.\n\nAnswer with JSON alone that matches this JSON Schema: \
                {\"type\":\"object\"}";
    let untold = "You are careful.";
    for (mode, expected) in [
        (Mode::Single(step("scout", "t")), vec![told]),
        (Mode::Parallel(steps(&["scout", "writer"])), vec![told, told]),
        (Mode::Chain(steps(&["scout", "writer", "plain"])), vec![untold, untold, told]),
    ] {
        let plan = planned(&RunRequest { output_schema: Some(&schema), ..wanted(&mode) });
        let steps = &plan.request.steps;
        let prompts: Vec<_> = steps.iter().map(|step| plain(step.system.as_ref())).collect();
        assert_eq!(prompts, expected);
        let schemas: Vec<_> = steps.iter().map(|step| spec(step).output_schema.is_some()).collect();
        assert_eq!(schemas, expected.iter().map(|it| *it == told).collect::<Vec<_>>());
    }
    assert_eq!(with_instruction("", Some(&json!({}))), instruction(&json!({})));
}

#[test]
fn what_cannot_be_passed_on_is_refused_before_anything_runs() {
    let single = |agent, task: &str| Mode::Single(step(agent, task));
    let in_directory =
        |cwd: &str| Mode::Single(Step { cwd: Some(cwd.to_owned()), ..step("scout", "t") });
    for (mode, said) in [
        (
            Mode::Chain(steps(&["scout", "ghost"])),
            "Unknown agent: \"ghost\". Available agents: \"plain\", \"scout\", \"tester\", \
             \"upward\", \"writer\".",
        ),
        (single("scout", " \n"), "The task for agent `scout` is empty."),
        (single("scout", "a\0b"), "The task of agent `scout` contains a NUL character."),
        (
            single("scout", &"x".repeat(TEXT_BYTES_MAX + 1)),
            "The task of agent `scout` has 262145 bytes; the limit is 262144.",
        ),
        (
            single("upward", "t"),
            "`cwd` of agent `upward` is \"../other\", which leaves the project; name a directory \
             in it.",
        ),
        (
            in_directory("web/../../other"),
            "`cwd` of agent `scout` is \"web/../../other\", which leaves the project; name a \
             directory in it.",
        ),
        (in_directory("a\0"), "The `cwd` of agent `scout` contains a NUL character."),
    ] {
        assert_eq!(refused(&wanted(&mode)), said);
    }
    let mode = single("scout", "t");
    let wanted = wanted(&mode);
    let schema = json!({"type": "strin"});
    for (wanted, said) in [
        (RunRequest { on: "my node", ..wanted }, "`on` is \"my node\", which is no name of a node"),
        (
            RunRequest { runner: Some("-x"), ..wanted },
            "The runner \"-x\" of agent `scout` is no name",
        ),
        (RunRequest { runner: Some(""), ..wanted }, "Agent `scout` names no runner"),
        (RunRequest { model: Some("--yolo"), ..wanted }, "The model \"--yolo\" of agent `scout`"),
        (RunRequest { model: Some(""), ..wanted }, "The model \"\" of agent `scout`"),
        (RunRequest { model: Some("a\nb"), ..wanted }, "The model \"a\\nb\" of agent `scout`"),
        (
            RunRequest { output_schema: Some(&schema), ..wanted },
            "`output_schema` is not a valid JSON",
        ),
    ] {
        let why = refused(&wanted);
        assert!(why.starts_with(said), "{why}");
    }
}

#[test]
fn a_directory_may_lie_anywhere_that_is_not_plainly_outside() {
    for cwd in ["", ".", "web", "./web/../api", "a/..", "/srv/project/web", "/elsewhere"] {
        let mode = Mode::Single(Step { cwd: Some(cwd.to_owned()), ..step("scout", "t") });
        let plan = planned(&wanted(&mode));
        assert_eq!(spec(&plan.request.steps[0]).cwd.as_deref(), Some(cwd));
    }
}

#[cfg(unix)]
#[test]
fn nobody_runs_what_no_node_offers() {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use crate::runner::runners::{RunnerConfig, RunnerTable};

    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("program");
    fs::write(&program, "").expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut configs = BTreeMap::new();
    for (name, program) in [("here", program.display().to_string()), ("gone", "/no/such".into())] {
        let stream = Some("pi".to_owned());
        configs.insert(name.to_owned(), RunnerConfig { command: Some(vec![program]), stream });
    }
    let table = RunnerTable::new(&configs).expect("runners");
    let own = OwnRunners { table, project: directory.path().to_owned() };
    let offer = |node: &str, runners: &str, labels: &str| wire::RunnerOffer {
        node: node.to_owned(),
        runners: runners.split_whitespace().map(str::to_owned).collect(),
        labels: labels.split_whitespace().map(str::to_owned).collect(),
        accepts_elsewhere: node != "laptop",
        ..Default::default()
    };
    let offers = [
        offer("laptop", "here", ""),
        offer("tower", "gone mine", "gpu big"),
        offer("server", "here", "big tower"),
    ];
    for (runner, on, expected) in [
        ("here", "", ""),
        (
            "gone",
            "",
            "Runner `gone` of agent `scout` is not installed on this machine. Run `tasuki runners \
             check` to see what is. Nodes that offer it: tower; name one with `on`.",
        ),
        (
            "other",
            "",
            "Runner `other` of agent `scout` is not known on this machine. Available: claude, codex, \
             gemini, gone, here, opencode, pi.",
        ),
        ("mine", "tower", ""),
        ("mine", "gpu", ""),
        ("here", "big", ""),
        (
            // The node is meant, not the other one with a label of this name.
            "here",
            "tower",
            "Runner `here` of agent `scout` is not offered by tower; runners there: gone, mine. Run \
             `tasuki runners check` there to see why. Nodes that offer `here`: laptop, server.",
        ),
        (
            "other",
            "big",
            "Runner `other` of agent `scout` is not offered by tower, server; runners there: gone, \
             here, mine. Run `tasuki runners check` there to see why. No connected node offers \
             `other`.",
        ),
        (
            "mine",
            "nowhere",
            "No connected node that runs agents is called `nowhere` or has this label. Nodes that \
             offer `mine`: tower.",
        ),
    ] {
        let mode = Mode::Single(step("scout", "t"));
        let plan = planned(&RunRequest { runner: Some(runner), on, ..wanted(&mode) });
        let said = nobody_runs(&plan, &offers, &own);
        assert_eq!(said.unwrap_or_default(), expected, "{runner} on {on}");
    }
}

#[test]
fn of_many_names_the_first_are_said() {
    let names: Vec<String> = (0..=NAMED_MAX).map(|number| format!("n{number}")).collect();
    let said = listed(names.iter().map(String::as_str));
    assert!(said.starts_with("n0, n1, ") && said.ends_with("n19, …"), "{said}");
    assert_eq!(listed(names.iter().map(String::as_str).take(2)), "n0, n1");
}
