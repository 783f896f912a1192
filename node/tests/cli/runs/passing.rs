//! What an agent is given: its task, its file's settings, its environment.

use super::{file, machine, printed, result, said};
use crate::{
    Said,
    fake_agent::{FakeAgents, configure},
    process::{Process, soon, tasuki},
};

#[tokio::test]
async fn a_long_task_arrives_whole() {
    let machine = machine().await;
    // Below and above what fits into one argument, and close to it once it is quoted.
    for bytes in [60_000, 120_000, 130_900, 131_000, 200_000] {
        let text = "\"\\\n".repeat(bytes / 3);
        let task = format!("say \"$(printf %s \"$rest\" | wc -c)\"\n{text}end");
        let mut command = machine.command(&["run", "scout", "-"]);
        command.stdin(std::fs::File::open(file(&machine, "task.txt", &task)).unwrap());
        let told = Said::of(&soon(command.output()).await.unwrap());
        let expected = (text.len() + "end".len()).to_string();
        assert_eq!((told.code, told.out.trim()), (0, expected.as_str()), "{bytes}: {told:?}");
    }
}

#[tokio::test]
async fn an_agents_file_says_how_it_runs() {
    let machine = machine().await;
    std::fs::create_dir(machine.path("web")).unwrap();
    machine.fake.add("expert", "model: best\ntools: [read, bash]\ncwd: web\n");
    let task = "say \"$model $tools $(cat \"$system\") ${PWD##*/}\"";
    let told = printed(&machine, &["run", "expert", task]).await;
    assert_eq!(told, "best read,bash Be brief. web\n");
    let told = printed(&machine, &["run", "expert", task, "--model", "other"]).await;
    assert_eq!(told, "other read,bash Be brief. web\n");
}

#[tokio::test]
async fn an_agent_gets_the_variables_that_its_file_lists() {
    let place = tempfile::tempdir().unwrap();
    let fake = FakeAgents::new(place.path());
    let data = place.path().join("data");
    configure(&data, &fake.config());
    fake.add("listed", "env: [KEPT]\n");
    let mut env = fake.env();
    for name in ["KEPT", "OTHER", "TASUKI_LOG_FORMAT"] {
        env.push((name, if name.starts_with("TASUKI") { "text" } else { name }.into()));
    }
    let up = Process::up_with(&data, "", &env).await;
    let task = "say \"${KEPT-no} ${OTHER-no} ${TASUKI_LOG_FORMAT-no} ${HOME:+yes} ${PATH:+yes}\"";
    for (agent, answer) in [("scout", "KEPT OTHER no yes yes"), ("listed", "KEPT no no yes yes")] {
        let mut command = tasuki(&data);
        command.args(["run", agent, task, "--data"]).arg(&data).envs(fake.env());
        let told = Said::of(&soon(command.output()).await.unwrap());
        assert_eq!((told.code, told.out.trim_end()), (0, answer), "{told:?}\n{}", up.log());
    }
}

/// What is too long for the broker stays with the node that ran it.
#[tokio::test]
async fn an_output_of_any_length_can_be_read_where_it_was_written() {
    const BYTES: usize = 3 << 20;
    let machine = machine().await;
    let told = result(&machine, 0, &["scout", &format!("big {BYTES}")]).await;
    assert_eq!(told["steps"][0]["output_bytes"], BYTES);
    let run = machine.runs().only().await;
    assert_eq!(run.steps[0].output_kept, 1 << 20);
    let shown = printed(&machine, &["runs", "output", &run.run_id]).await;
    assert_eq!((shown.trim_end().len(), shown.trim_end_matches(['x', '\n'])), (BYTES, ""));
}

/// Holds RN5 and ST2.
#[tokio::test]
async fn whatever_an_agent_prints_costs_its_node_little() {
    /// What the node may use more at its worst, in KiB.
    const GROWTH_KIB_MAX: u64 = 64 * 1024;
    let machine = machine().await;
    printed(&machine, &["run", "scout", "say warm"]).await;
    let before = machine.up.peak_kib();
    let task = "xs 50000000; echo; xs 100000000 >&2; echo; echo '{\"type\":\"new\"}'; say done";
    let told = printed(&machine, &["run", "scout", task]).await;
    assert_eq!(told, "done\n");
    let grown = machine.up.peak_kib() - before;
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
}

#[tokio::test]
async fn an_output_must_have_the_form_that_was_asked_for() {
    let machine = machine().await;
    let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
    let schema = file(&machine, "schema.json", schema);
    let run = async |code: i32, output: &str| {
        let task = format!("say \"$rest\"\n{output}");
        result(&machine, code, &["scout", &task, "--schema", &schema]).await
    };
    assert_eq!(run(0, r#"{"n": 1}"#).await["output"], r#"{"n": 1}"#);
    for wrong in [r#"{"n": "one"}"#, "{}", "I found one."] {
        let told = run(super::FAILED, wrong).await;
        assert_eq!(told["steps"][0]["failure"], "output_invalid", "{told}");
    }
    let wrong = file(&machine, "wrong.json", r#"{"type":"nonsense"}"#);
    let told = said(&machine, &["run", "scout", "say x", "--schema", &wrong]).await;
    assert!(told.code != 0 && told.err.contains("schema"), "{told:?}");
    assert_eq!(machine.runs().all().await.unwrap().len(), 4, "nothing was started");
}

/// An agent's file may ask for less than its user may do.
#[tokio::test]
#[ignore = "needs landlock"]
async fn an_agent_in_a_sandbox_writes_to_the_project_and_nowhere_else() {
    let mut machine = machine().await;
    machine.fake.add("boxed", "sandbox: true\n");
    // Agents need the usual directory for temporary files, so that one is open.
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let task = |place: &std::path::Path| {
        let place = place.display();
        format!("if (: > '{place}/made') 2> /dev/null; then say made; else say refused; fi")
    };
    // What it starts is in the sandbox, too.
    let nested = "say \"$(\"$tasuki\" run scout \"$rest\" --data \"$data\" 2>&1 | tail -n 1)\"";
    for (agent, place, answer) in [
        ("scout", elsewhere.path(), "made\n"),
        ("boxed", machine.path("").as_path(), "made\n"),
        ("boxed", elsewhere.path(), "refused\n"),
    ] {
        drop(std::fs::remove_file(elsewhere.path().join("made")));
        assert_eq!(printed(&machine, &["run", agent, &task(place)]).await, answer, "{agent}");
    }
    for (agent, answer) in [("planner", "made\n"), ("boxed", "refused\n")] {
        drop(std::fs::remove_file(elsewhere.path().join("made")));
        let task = format!("{nested}\n{}", task(elsewhere.path()));
        assert_eq!(printed(&machine, &["run", agent, &task]).await, answer, "{agent}");
    }
    machine.fake.gone().await;
}
