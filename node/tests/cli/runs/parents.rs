//! Sub-agents that speak to whoever started them, and that start others.

use std::{fs, net::TcpListener};

use serde_json::json;
use tasuki_proto::wire::{Run, RunStatus};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{CANCELED, FAILED, Running, lines, machine, only_run, printed, result, said};
use crate::{
    Said,
    fake_agent::{Machine, Runs, write_agent},
    process::{soon, tasuki},
};

/// Until there is a question, and its number.
async fn asked(runs: &Runs, run_id: &str) -> u32 {
    let run = runs.until(run_id, |run| !run.open_questions.is_empty()).await;
    run.open_questions[0]
}

#[tokio::test]
async fn a_sub_agent_asks_its_parent_and_goes_on_with_the_answer() {
    let mut machine = machine().await;
    let runs = machine.runs();
    let task = "\"$tasuki\" runs report 'half done' >&2 && \
                say \"I take: $(\"$tasuki\" runs ask 'Which \"one\"?')\"";
    let running = Running::begin(machine.command(&["run", "scout", task]));
    machine.fake.begun(1).await;
    let run_id = only_run(&runs).await;
    let number = asked(&runs, &run_id).await;
    let told = runs.messages(&run_id).await;
    let told: Vec<_> = told.iter().map(|it| (it.is_question, &it.text)).collect();
    let text = |text: &str| Some(tasuki_proto::wire::RunText { text: text.into(), sealed: None });
    assert_eq!(told, [(false, &text("half done")), (true, &text("Which \"one\"?"))]);
    let shown = printed(&machine, &["runs", "show", &run_id]).await;
    assert!(shown.contains("Which \"one\"?") && shown.contains("half done"), "{shown}");
    let number = number.to_string();
    printed(&machine, &["runs", "reply", &run_id, &number, "the $second one"]).await;
    let told = running.end().await;
    assert_eq!((told.code, told.out.as_str()), (0, "I take: the $second one\n"), "{told:?}");
    assert!(told.err.contains("Which \"one\"?"), "who waits is shown the question: {told:?}");
    let refused = said(&machine, &["runs", "reply", &run_id, &number, "another one"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    machine.fake.gone().await;
}

/// Bytes come as they are, whatever a terminal would make of them.
#[tokio::test]
async fn a_sub_agent_hands_over_a_file_and_whoever_started_it_gets_it() {
    let mut machine = machine().await;
    let task = "mkdir out && cd out && printf 'a\\377\\033[1m' > plan.bin && \
                \"$tasuki\" runs report --file plan.bin >&2 && ln -s plan.bin link && \
                say \"$(\"$tasuki\" runs report more --file link 2>&1)\"";
    let told = result(&machine, 0, &["scout", task]).await;
    let refused = told["output"].as_str().unwrap();
    assert!(refused.contains("it is a link, and links are not followed"), "{refused}");
    let runs = machine.runs();
    let run_id = only_run(&runs).await;
    let messages = runs.messages(&run_id).await;
    let file = messages[0].file.as_ref().unwrap();
    assert_eq!((messages.len(), file.name.as_str(), file.size), (1, "plan.bin", 6));
    let shown = printed(&machine, &["runs", "show", &run_id]).await;
    assert!(shown.contains("plan.bin, 6 bytes: tasuki runs output"), "{shown}");

    let content = b"a\xff\x1b[1m";
    let get = ["runs", "output", &run_id, "--message", "1"];
    let got = soon(machine.command(&get).output()).await.unwrap();
    assert!(got.status.success() && got.stdout == content, "{got:?}");
    let to = machine.path("got.bin");
    let save = [&get[..], &["--out", to.to_str().unwrap()]].concat();
    printed(&machine, &save).await;
    assert_eq!(fs::read(&to).unwrap(), content);
    let refused = said(&machine, &save).await;
    assert!(refused.code == 2 && refused.err.contains("is there already"), "{refused:?}");
    let told = lines(&machine, 0, &get).await;
    assert_eq!((&told[0]["file"]["name"], &told[0]["text"]), (&json!("plan.bin"), &json!(null)));
    let refused = lines(&machine, 1, &["runs", "output", &run_id, "--message", "2"]).await;
    assert_eq!(refused[0]["error"]["code"], "unknown_message", "{refused:?}");
    machine.fake.gone().await;
}

/// A question ends with the sub-agent that asked, and its token with it.
#[tokio::test]
async fn a_token_is_good_while_its_step_runs() {
    let mut machine = machine().await;
    let runs = machine.runs();
    let task = "tell \"$TASUKI_STEP_TOKEN $TASUKI_NODE\"; wait_go; say done";
    let running = Running::run(&machine, &["scout", task]);
    machine.fake.begun(1).await;
    let told = machine.fake.told().await;
    let (token, node) = told.split_once(' ').unwrap();
    let report = async |token: &str| {
        let mut command = machine.command(&["runs", "report", "hello"]);
        command.env("TASUKI_STEP_TOKEN", token).env("TASUKI_NODE", node);
        Said::of(&soon(command.output()).await.unwrap())
    };
    assert_eq!(report(token).await.code, 0);
    let other = if token.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{other}", &token[..token.len() - 1]);
    for wrong in ["", "nonsense", &other] {
        let told = report(wrong).await;
        assert_ne!(told.code, 0, "{wrong:?}: {told:?}");
        assert!(!told.err.contains(token), "{told:?}");
    }
    machine.fake.let_go(1);
    running.result(0).await;
    let told = report(token).await;
    assert_ne!(told.code, 0, "{told:?}");
    assert_eq!(runs.messages(&only_run(&runs).await).await.len(), 1);
    // Neither list nor log has it.
    let secret = token.rsplit('/').next().unwrap();
    assert!(!machine.up.log().contains(secret));
    machine.fake.gone().await;
}

/// Whoever runs the command may have no time left before there is a reply.
#[tokio::test]
async fn who_stops_waiting_for_a_reply_is_told_how_to_wait_on() {
    let place = tempfile::tempdir().unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let key = format!("run_1700000000000_00af/1/{}", "0".repeat(64));
    let data = place.path().join("data");
    let mut command = tasuki(&data);
    command.args(["runs", "ask", "--message", "3", "--data"]).arg(&data);
    command.env("TASUKI_STEP_TOKEN", key).env("TASUKI_NODE", format!("http://{nobody}"));
    let Running(mut asking) = Running::begin(command);
    let mut errors = BufReader::new(asking.stderr.take().unwrap()).lines();
    // It says once that nobody is there.
    soon(errors.next_line()).await.unwrap();
    let asking = Running(asking);
    asking.interrupt();
    let told = asking.end().await;
    assert_eq!(told.code, CANCELED, "{told:?}");
    assert!(told.out.contains("`tasuki runs ask --message 3`"), "{told:?}");
}

/// A task that has another agent do this.
fn below(task: &str) -> String {
    format!("say \"$(\"$tasuki\" run planner \"$rest\" --data \"$data\")\"\n{task}")
}

#[tokio::test]
async fn what_a_sub_agent_starts_counts_for_whoever_started_it() {
    let mut machine = machine().await;
    let told = result(&machine, 0, &["scout", &below("turn a; say inner")]).await;
    assert_eq!(told["output"], "inner", "{told}");
    assert_eq!(told["usage"]["turns"], 3, "two below, one of its own: {told}");
    assert_eq!(told["steps"][0]["usage"]["turns"], 1);
    let all = machine.runs().all().await.unwrap();
    let depths: Vec<_> = all.iter().map(|run| (run.depth, run.root_id == all[1].run_id)).collect();
    assert_eq!(depths, [(2, true), (1, true)], "the newest first");
    assert_eq!(all[0].parent.as_ref().unwrap().run_id, all[1].run_id);
    let listed = lines(&machine, 0, &["runs", "list"]).await;
    assert_eq!(listed.len(), 2);
    machine.fake.gone().await;
}

/// What a sub-agent types is nobody's consent.
#[tokio::test]
async fn a_sub_agent_runs_no_agent_of_the_project_that_nobody_approved() {
    let mut machine = machine().await;
    write_agent(&machine.path(""), "local", "");
    for (scope, why) in
        [("", "Unknown agent"), ("--scope both", "came with the project, and nobody approved")]
    {
        let task = format!("say \"$(\"$tasuki\" run local x {scope} --data \"$data\" 2>&1)\"");
        let told = result(&machine, 0, &["scout", &task]).await;
        assert!(told["output"].as_str().unwrap().contains(why), "{scope}: {told}");
    }
    assert_eq!(machine.runs().all().await.unwrap().len(), 2, "nothing else was started");
    assert_eq!(printed(&machine, &["run", "local", "say mine"]).await, "mine\n");
    machine.fake.gone().await;
}

#[tokio::test]
async fn one_that_starts_itself_in_a_circle_comes_to_an_end() {
    let mut machine = machine().await;
    let circle = "say \"$(\"$tasuki\" run scout \"$first\" --data \"$data\" 2>&1)\"";
    let told = result(&machine, 0, &["scout", circle]).await;
    let output = told["output"].as_str().unwrap();
    assert!(output.contains("max_depth"), "{output}");
    assert_eq!(machine.runs().all().await.unwrap().len(), 3);
    let told = result(&machine, 0, &["scout", circle, "--max-depth", "1"]).await;
    assert!(told["output"].as_str().unwrap().contains("max_depth"), "{told}");
    assert_eq!(machine.runs().all().await.unwrap().len(), 4);
    machine.fake.gone().await;
}

#[tokio::test]
async fn what_a_sub_agent_uses_is_taken_from_its_parents_budget() {
    let mut machine = machine().await;
    // It would go on for ever, so it is stopped, too.
    let task = "\"$tasuki\" run planner \"$rest\" --data \"$data\" >&2; turn d; hang\n\
                turn a; turn b; turn c; hang";
    let told = result(&machine, FAILED, &["scout", task, "--max-turns", "2"]).await;
    assert_eq!(told["status"], "out_of_budget", "{told}");
    machine.fake.gone().await;
    for run in machine.runs().all().await.unwrap() {
        assert_eq!(run.status(), RunStatus::OutOfBudget, "{run:?}");
    }
}

/// Who cancels a run cancels what it started.
#[tokio::test]
async fn a_tree_is_canceled_as_a_whole() {
    let mut machine = machine().await;
    let running = Running::run(&machine, &["scout", &below("stubborn; daemon; hang")]);
    machine.fake.begun(2).await;
    running.interrupt();
    running.result(CANCELED).await;
    machine.fake.gone().await;
    let runs = machine.runs();
    for run in runs.all().await.unwrap() {
        assert_eq!(runs.end(&run.run_id).await, RunStatus::Canceled);
    }
}

/// Nothing goes out in the clear, and the reason is said.
#[tokio::test]
async fn a_private_workspace_refuses_runs() {
    let mut machine = Machine::up("--role A --role B", "").await;
    machine.up.json("mail private on").await;
    let told = said(&machine, &["run", "scout", "say secret", "--json"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    let why = super::parsed(&told.out).pop().unwrap();
    assert_eq!(why["error"]["code"], "private_workspace", "{told:?}");
    assert_eq!(machine.runs().all().await.unwrap(), Vec::<Run>::new());
    machine.fake.gone().await;
    let told = said(&machine, &["run", "scout", "say secret"]).await;
    assert!(told.err.contains("private"), "{told:?}");
    assert_eq!(told.out, "");
}

/// A role that asks is the one that may answer, beside a person.
#[tokio::test]
async fn whoever_asked_is_a_role_where_that_is_said() {
    let mut machine = Machine::up("--role A --role B", "").await;
    let runs = machine.runs();
    let task = "say \"$(\"$tasuki\" runs ask 'Go on?')\"";
    let begun = result(&machine, 0, &["scout", task, "--background", "--as", "A"]).await;
    let run_id = begun["run"]["run_id"].as_str().unwrap();
    machine.fake.begun(1).await;
    assert_eq!(runs.get(run_id).await.unwrap().role, "A");
    let number = asked(&runs, run_id).await.to_string();
    let reply = ["runs", "reply", run_id, &number, "yes", "--as"];
    let refused = lines(&machine, 1, &[&reply[..], &["B"]].concat()).await;
    assert_eq!(refused[0]["error"]["code"], json!("not_asker"), "{refused:?}");
    printed(&machine, &[&reply[..], &["A"]].concat()).await;
    assert_eq!(runs.end(run_id).await, RunStatus::Succeeded);
    machine.fake.gone().await;
}
