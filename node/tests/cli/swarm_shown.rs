//! What commands about issues and tasks show: their lists, to programs and to people, what others wrote, and why
//! something cannot be done.

use std::fs;

use serde_json::{Value, json};
use tasuki_proto::wire::{self, swarm_client::SwarmClient};

use super::{PLAN, Shop};
use crate::process::soon;

fn fields(of: &Value) -> Vec<&str> {
    of.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn programs_get_every_list_in_lines_of_one_shape() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(2).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let lock = [
        "lock",
        "acquire",
        "a",
        "--repository",
        "host.example/us/r",
        "--task",
        &task,
        "--as",
        "w1",
    ];
    shop.says(&lock).await;
    let are = async |args: &[&str], message: Value| {
        let lines = shop.json(0, args).await;
        assert_eq!(fields(&lines[0]), fields(&message), "{args:?}");
    };
    are(&["worker", "list"], json!(wire::Worker::default())).await;
    are(&["lock", "list"], json!(wire::Lock::default())).await;
    shop.says(&["task", "submit", &task, "--summary", "Done.", "--as", "w1"]).await;
    are(&["issue", "list"], json!(wire::Issue::default())).await;
    are(&["task", "list", &issue], json!(wire::Task::default())).await;
    are(&["settings"], json!(wire::SwarmSettings::default())).await;
    are(&["issue", "history", &issue], json!(wire::HistoryEntry::default())).await;
    let spec = shop.file("spec", "x");
    shop.says(&["doc", "write", "spec.md", &spec, "--of", &issue, "--as", "lead"]).await;
    are(&["doc", "list", &issue], json!(wire::Doc::default())).await;
    let top = shop.json(0, &["task", "top"]).await.remove(0);
    assert_eq!(top["issues"][0]["docs"].as_array().map(Vec::len), Some(1));
    assert_eq!(top["tasks"][0]["stage"], "submitted", "what is submitted comes first");
    assert_eq!(top["tasks_total"], 2);

    let approve = ["--approve", "--score", "1", "--feedback", "Good.", "--as", "lead"];
    let done =
        shop.json(0, &[&["task", "review", task.as_str()], &approve[..]].concat()).await.remove(0);
    let whole = &done["task"];
    assert_eq!(
        fields(&whole["submission"]["next_step"]),
        fields(&json!(wire::NextStep::default()))
    );
    assert_eq!(whole["submission"]["review"]["feedback"], "Good.");
    let two = format!("{issue}/2");
    shop.says(&["task", "claim", &two, "--as", "w1"]).await;
    shop.says(&["task", "submit", &two, "--summary", "Done.", "--as", "w1"]).await;
    shop.says(&[&["task", "review", two.as_str()], &approve[..]].concat()).await;
    let deliver = ["delivery", "create", &issue, "--summary", "s", "--passed", "--as", "lead"];
    shop.says(&deliver).await;
    are(&["delivery", "list"], json!(wire::Delivery::default())).await;
}

#[tokio::test]
async fn what_others_wrote_cannot_act_on_the_terminal() {
    let shop = Shop::open().await;
    let hostile = "red \u{1b}[31malert\u{1b}[0m \u{1b}]0;owned\u{7} \u{202e}evil\u{200b}!";
    let subject = "sub\u{202e}ject\u{200b} \u{2066}x";
    let text = shop.file("text", hostile);
    let at = format!("@{text}");
    let new = ["issue", "create", subject, "--description", &at, "--as", "lead"];
    let issue = shop.json(0, &new).await[0]["issue"]["issue_id"].as_str().unwrap().to_owned();
    shop.says(&["task", "create", &issue, subject, "--goal", &at, "--as", "lead"]).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let broker = format!("http://{}", shop.up.broker.unwrap());
    let lock = |counter, repository: &str, pattern: &str| wire::LockFilesRequest {
        key: Some(wire::IdempotencyKey { client_id: "other".to_owned(), counter }),
        role: "w1".to_owned(),
        files: Some(wire::FileSet {
            repository: repository.to_owned(),
            patterns: vec![pattern.to_owned()],
            is_case_folded: false,
        }),
        ..Default::default()
    };
    let mut swarm = SwarmClient::connect(broker).await.unwrap();
    // Whoever is kept out of files has to know them by sight.
    for hidden in [lock(1, "r\u{200b}", "src/a"), lock(2, "r", "src/\u{202e}a")] {
        let refused = swarm.lock_files(hidden).await.unwrap_err();
        assert!(refused.message().contains("never shown"), "{refused}");
    }
    swarm.lock_files(lock(3, "r", "src/new\nline")).await.unwrap();
    shop.says(&["task", "ask", &task, &at, "--refs", hostile, "--as", "w1"]).await;
    shop.says(&["task", "answer", &task, &at, "--as", "lead"]).await;
    let submit = ["task", "submit", &task, "--summary", &at, "--file", "a.rs", "--as", "w1"];
    shop.says(&submit).await;
    shop.says(&["task", "reset", &task, "--reason", &at, "--as", "lead"]).await;
    shop.says(&["doc", "write", "d.md", &text, "--as", "lead"]).await;
    for args in [
        &["issue", "list"][..],
        &["issue", "show", &issue],
        &["task", "list", &issue],
        &["task", "show", &task],
        &["issue", "history", &issue],
        &["lock", "list"],
        &["doc", "read", "d.md"],
        &["task", "top"],
    ] {
        for more in [&[][..], &["--json"]] {
            let said = shop.run(&[args, more].concat()).await;
            assert_eq!(said.code, 0, "{args:?}: {said:?}");
            let is_harmful = |c: char| {
                (c.is_control() && c != '\n')
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            let harmful = said.out.chars().find(|c| is_harmful(*c));
            assert_eq!(harmful, None, "{args:?} {more:?}: {:?}", said.out);
        }
    }
    let shown = shop.says(&["issue", "show", &issue]).await;
    assert!(shown.starts_with("subject x\n"), "{shown}");
    assert!(shown.ends_with("description\n    red alert evil!\n"), "{shown}");
    // Programs get it as it was written.
    assert_eq!(shop.json(0, &["issue", "show", &issue]).await[0]["description"], hostile);
}

#[tokio::test]
async fn more_tasks_than_a_page_are_shown_in_order_once() {
    let shop = Shop::open().await;
    let issue = shop.issue("Much").await;
    for count in [200, 51] {
        let plan: String = (0..count)
            .map(|it| format!("[[tasks]]\nsubject = \"Do {it}\"\ndifficulty = \"easy\"\n"))
            .collect();
        let plan = shop.file("tasks.toml", &plan);
        shop.says(&["task", "plan", &issue, "--file", &plan, "--as", "lead"]).await;
    }
    let tasks = shop.json(0, &["task", "list", &issue]).await;
    let ids: Vec<&str> = tasks.iter().map(|it| it["task_id"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=251).map(|it| format!("task-{it}")).collect();
    assert_eq!(ids, expected);
    let some = shop.says(&["task", "list", &issue, "--limit", "205"]).await;
    assert!(some.ends_with("\n205 of 251 tasks are shown.\n"), "{some}");
    assert_eq!(some.lines().count(), 1 + 205 + 1);
    let top = shop.says(&["task", "top", "--once"]).await;
    assert_eq!(top.lines().count(), 23, "{top}");
    let note = "TASKS 251 0 in progress · 0 waiting for an answer · 251 open · 0 done\n";
    assert!(top.contains(note), "{top}");
    assert!(top.contains(" … and "), "{top}");
}

#[tokio::test]
async fn what_cannot_be_done_says_why_and_what_still_holds() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let (short, task) = (issue.rsplit('_').next().unwrap(), format!("{issue}/1"));
    let circle = PLAN.replace("goal =", "blocked_by = [\"list\"]\ngoal =") + "name = \"list\"\n";
    let circle = shop.file("circle.toml", &circle);
    let place = circle.clone();
    for (code, args, why) in [
        (
            1,
            &["issue", "show", "fffffff"][..],
            "None of the 1 newest issues has an id that ends with _fffffff; `tasuki issue list` \
             shows them. Nothing changed. (unknown_issue)",
        ),
        (
            1,
            &["task", "show", &format!("{short}/7")],
            "task 'task-7' not found in issue 'ISSUE'. `tasuki task list ISSUE` shows those there \
             are. (unknown_task)",
        ),
        (
            2,
            &["task", "claim", short, "--as", "w1"],
            &format!(
                "invalid value '{short}' for '[ISSUE/TASK]': a task is like ISSUE/task-3 or \
                 ISSUE/3; no / was found in it\n\nFor more information, try '--help'."
            ),
        ),
        (
            1,
            &["task", "plan", short, "--file", &circle, "--as", "lead"],
            &format!(
                "{place}: tasks would wait for each other in a circle: parser → list → \
                      parser. No task was made. (blocked_in_a_circle)"
            ),
        ),
        (
            2,
            &["task", "review", &task, "--approve", "--feedback", "f", "--as", "lead"],
            "Approving needs --score 1, 2 or 5. Nothing was reviewed. (usage)",
        ),
        (
            1,
            &["task", "review", &task, "--reject", "--feedback", "f", "--as", "lead"],
            "no open submission for task 'task-1': nothing waits for a verdict. `tasuki task show \
             ISSUE/TASK` shows how it stands. (no_open_submission)",
        ),
        (2, &["lock", "acquire", "../a", "--repository", "host.example/us/r", "--as", "w1"], ""),
        (2, &["lock", "list", "a", "--repository", "none"], ""),
        (
            2,
            &["settings", "lock", "soon"],
            "lock is \"soon\"; it takes a duration such as LEN, LEN or LEN. No setting was \
             changed. (usage)",
        ),
        (1, &["settings", "lock", "5ms"], ""),
        (1, &["doc", "read", "none.md"], ""),
    ] {
        let said = shop.refusal(code, args).await;
        if why.is_empty() {
            assert!(said.starts_with("error: ") && said.ends_with(")\n"), "{args:?}: {said}");
        } else {
            assert_eq!(said, format!("error: {why}\n"), "{args:?}");
        }
    }
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    shop.says(&["task", "submit", &task, "--summary", "Done.", "--as", "w1"]).await;
    let own =
        ["task", "review", &task, "--approve", "--score", "5", "--feedback", "f", "--as", "w1"];
    assert_eq!(
        shop.refusal(1, &own).await,
        "error: w1 did this work and cannot judge it; another role has to (own_work)\n"
    );
    let refused = shop.json(1, &own).await.remove(0);
    assert_eq!(refused["error"]["code"], "own_work");
    let nobody = shop.refusal(2, &["task", "claim", &task]).await;
    assert!(nobody.starts_with("error: Specify --role. Available: "), "{nobody}");
}

#[tokio::test]
async fn what_is_mistyped_is_told_to_programs_as_any_other_refusal() {
    let shop = Shop::open().await;
    for (args, why) in [
        (
            &["task", "claim"][..],
            "the following required arguments were not provided: \
             <ISSUE/TASK|--next <ISSUE>>.",
        ),
        (&["bord"], "unrecognized subcommand 'bord'; tip: a similar subcommand exists: 'board'."),
        (
            &["lock", "acquire", "a", "--for", "25h", "--as", "w1"],
            "invalid value '25h' for '--for <DURATION>': is \"25h\"; nothing is held for longer \
             than 24h at a time.",
        ),
        (
            &["task", "create", "00af", "x", "--points", "-1", "--as", "lead"],
            "invalid value '-1' for '--points <NUMBER>': -1 is not in 0..=4294967295.",
        ),
    ] {
        let said = shop.json(2, args).await.remove(0);
        assert_eq!(said["error"]["code"], "usage", "{args:?}");
        assert_eq!(said["error"]["message"], why, "{args:?}");
        // People read how it is used, too.
        let said = shop.run(args).await;
        assert!(said.code == 2 && said.out.is_empty(), "{said:?}");
        assert!(said.err.contains("For more information, try '--help'"), "{said:?}");
    }
    let help = shop.run(&["task", "claim", "--help", "--json"]).await;
    assert!(help.code == 0 && help.out.starts_with("Claim a task"), "{help:?}");
}

#[tokio::test]
async fn an_empty_workspace_says_how_to_begin() {
    let shop = Shop::open().await;
    for (args, said) in [
        (&["issue", "list"][..], "No issues. Create one with `tasuki issue create SUBJECT`.\n"),
        (&["issue", "list", "--contains", "x"], "No matching issues.\n"),
        (&["worker", "list"], "No workers. A role becomes a worker when it claims a task.\n"),
        (
            &["worker", "list", "w1"],
            "No such worker. A role becomes a worker when it claims a task.\n",
        ),
        (&["delivery", "list"], "No deliveries. Create one with `tasuki delivery create`.\n"),
        (&["delivery", "list", "--status", "open"], "No matching deliveries.\n"),
        (&["lock", "list"], "No matching locks.\n"),
        (&["doc", "list"], "No documents.\n"),
    ] {
        assert_eq!(shop.says(args).await, said, "{args:?}");
        assert!(shop.json(0, args).await.is_empty(), "{args:?}");
    }
    assert_eq!(
        shop.refusal(1, &["issue", "show", "00af"]).await,
        "error: There is no issue; `tasuki issue create SUBJECT` creates one. Nothing changed. \
         (unknown_issue)\n"
    );
    let mut command = shop.command(&["task", "top", "--once"]);
    command.env("COLUMNS", "0").env("LINES", "0");
    let top = soon(command.output()).await.unwrap();
    assert!(String::from_utf8(top.stdout).unwrap().contains("ISSUES  none"));
}

#[tokio::test]
async fn files_are_called_from_the_directory_one_is_in() {
    let shop = Shop::open().await;
    fs::create_dir(shop.path("src")).unwrap();
    shop.file("src/a.rs", "");
    // Without Git a directory is one of its own, so one is named by which the files are called.
    let root = shop.path("").display().to_string();
    shop.says(&["lock", "acquire", "src/", "--repository", &root, "--as", "w1"]).await;
    let there = shop.json(0, &["lock", "list", "src/a.rs", "--repository", &root]).await;
    assert_eq!((there.len(), there[0]["holder"].as_str()), (1, Some("w1")), "{there:?}");
    let all = shop.json(0, &["lock", "list", "--repository", &root]).await;
    assert_eq!(all, there);
    let none = shop.says(&["lock", "list", "docs/a.md", "--repository", &root]).await;
    assert_eq!(none, "No matching locks.\n");
}

#[tokio::test]
async fn documents_are_kept_byte_for_byte_and_in_versions() {
    let shop = Shop::open().await;
    let issue = shop.issue("Docs").await;
    let text = "all:\n\tmake it\n\n";
    let (file, copy) = (shop.file("Makefile", text), shop.path("copy"));
    let write = ["doc", "write", "make.md", &file, "--of", &issue, "--as", "lead"];
    assert_eq!(shop.says(&write).await, "make is written: version 1, 15 bytes.\n");
    let again = shop.says(&write).await;
    assert_eq!(again, "make is written: version 1, 15 bytes. It says what it said before.\n");
    shop.file("Makefile", "all:\n");
    assert_eq!(shop.says(&write).await, "make is written: version 2, 5 bytes.\n");
    let copy = copy.display().to_string();
    let read = ["doc", "read", "make.md", "--of", &issue];
    let save = [&read[..], &["--version", "1", "--save", &copy]].concat();
    shop.says(&save).await;
    assert_eq!(fs::read_to_string(&copy).unwrap(), text);
    let said = shop.refusal(5, &save).await;
    assert!(said.contains("cannot be written"), "what is there stays: {said}");
    assert_eq!(shop.says(&read).await, "all:\n");
    assert_eq!(shop.json(0, &["doc", "list"]).await.len(), 0, "it is of the issue alone");
}
