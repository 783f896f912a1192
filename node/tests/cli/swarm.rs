//! `tasuki issue`, `task`, `delivery` and what belongs to them against a real broker: what people
//! do with it, from an issue to its end.

#[path = "swarm_named.rs"]
mod named;
#[path = "swarm_shown.rs"]
mod shown;
#[path = "swarm_waits.rs"]
mod waits;
#[path = "swarm_walk.rs"]
mod walk;

use std::{fs, path::PathBuf, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    Said,
    process::{Process, soon, tasuki},
};

/// A broker, and people at its commands.
struct Shop {
    place: tempfile::TempDir,
    up: Process,
}

impl Shop {
    async fn open() -> Self {
        Self::hosting("--role lead --role qa --role w1 --role w2").await
    }

    async fn hosting(roles: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fs::create_dir(&data).unwrap();
        let up = Process::up(&data, roles).await;
        Self { place, up }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = tasuki(&self.up.data);
        command.args(args).arg("--data").arg(&self.up.data);
        command.env("COLUMNS", "80").env("LINES", "24").env("TZ", "UTC");
        command
    }

    async fn run(&self, args: &[&str]) -> Said {
        Said::of(&soon(self.command(args).output()).await.unwrap())
    }

    /// What a command says that must succeed, with what differs from run to run replaced.
    async fn says(&self, args: &[&str]) -> String {
        let said = self.run(args).await;
        assert_eq!(said.code, 0, "{args:?}: {said:?}\n{}", self.up.log());
        steady(&said.out)
    }

    /// Why a command is refused.
    async fn refusal(&self, code: i32, args: &[&str]) -> String {
        let said = self.run(args).await;
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{args:?}: {said:?}");
        steady(&said.err)
    }

    /// The lines of JSON that a command prints, which must end so.
    async fn json(&self, code: i32, args: &[&str]) -> Vec<Value> {
        let said = self.run(&[args, &["--json"]].concat()).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}\n{}", self.up.log());
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn issue(&self, subject: &str) -> String {
        let told = self.json(0, &["issue", "create", subject, "--as", "lead"]).await;
        told[0]["issue"]["issue_id"].as_str().unwrap().to_owned()
    }

    /// An issue with tasks that wait for nothing.
    async fn issue_with(&self, tasks: usize) -> String {
        let issue = self.issue("Work").await;
        for number in 0..tasks {
            let subject = format!("Do {number}");
            self.says(&[
                "task",
                "create",
                &issue,
                &subject,
                "--difficulty",
                "easy",
                "--as",
                "lead",
            ])
            .await;
        }
        issue
    }
}

/// A text in which ids, times, tokens and what is left of a time are the same in every run.
fn steady(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let words: Vec<String> = line.split_whitespace().map(steady_word).collect();
        let line = format!("{indent}{}\n", words.join(" "));
        line.replace("DAY TIME", "WHEN").replace("LEN LEN", "LEN")
    });
    lines.collect()
}

fn steady_word(word: &str) -> String {
    for (prefix, name) in [
        ("issue_", "ISSUE"),
        ("delivery_", "DELIVERY"),
        ("sub_", "SUB"),
        ("msg_", "MSG"),
        ("ns_", "NS"),
        ("l_", "LOCK"),
    ] {
        let Some(at) = word.find(prefix) else { continue };
        let id = &word[at + prefix.len()..];
        let is_id = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '_';
        let end = id.find(|c| !is_id(c)).unwrap_or(id.len());
        // A type such as `issue_created` is none.
        if 13 < end && id.starts_with(|c: char| c.is_ascii_digit()) {
            return format!("{}{name}{}", &word[..at], steady_word(&id[end..]));
        }
    }
    let bare = word.trim_matches(['(', ')', '.', ',', ':']);
    let is_long = |bare: &str| {
        let digits = bare.trim_end_matches(['d', 'h', 'm', 's']);
        digits.len() + 1 == bare.len() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    let as_what = match bare {
        bare if is_like(bare, "dddd-dd-dd") => "DAY",
        bare if is_like(bare, "dd:dd:ddZ") => "TIME",
        bare if !bare.is_empty() && is_long(bare) => "LEN",
        bare => bare,
    };
    if bare.is_empty() { word.to_owned() } else { word.replacen(bare, as_what, 1) }
}

/// Whether a word is made like a pattern, in which `d` is a digit.
fn is_like(word: &str, pattern: &str) -> bool {
    let fits = |(c, p): (char, char)| if p == 'd' { c.is_ascii_digit() } else { c == p };
    word.len() == pattern.len() && word.chars().zip(pattern.chars()).all(fits)
}

/// What happens to an issue, as it happens.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn begin(shop: &Shop, issue: &str) -> Self {
        let mut command = shop.command(&["issue", "history", issue, "--follow", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads on until this happened.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            let line = soon(self.lines.next_line()).await.unwrap().unwrap();
            let entry: Value = serde_json::from_str(&line).unwrap();
            if entry["type"] == kind {
                return entry;
            }
        }
    }

    async fn end(mut self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
        assert!(soon(self.child.wait()).await.unwrap().success());
    }
}

const PLAN: &str = r#"
[[tasks]]
name = "parser"
subject = "Parse the format"
difficulty = "easy"
points = 3
goal = "Every file is read"
acceptance = "`make corpus` passes"

[[tasks]]
subject = "Show it in the list"
difficulty = "easy"
blocked_by = ["parser"]
"#;

#[tokio::test]
async fn an_issue_is_planned_done_reviewed_delivered_accepted_and_closed() {
    let shop = Shop::hosting("--role lead --role qa").await;
    let spec = shop.file("spec.md", "# The format\n\n\tone line each\n");
    let new = ["issue", "create", "Read the format", "--description", "All of it.", "--as", "lead"];
    let said = shop.says(&[&new[..], &["--doc", &format!("spec.md={spec}")]].concat()).await;
    let listed = shop.json(0, &["issue", "list"]).await;
    let issue = listed[0]["issue_id"].as_str().unwrap().to_owned();
    let short = issue.rsplit('_').next().unwrap();
    assert_eq!(
        said,
        format!(
            "ISSUE is open: Read the format.\nFor short: {short}. Next: tasuki task create {short} \
             SUBJECT --acceptance TEXT\n"
        )
    );

    let plan = shop.file("tasks.toml", PLAN);
    assert_eq!(
        shop.says(&["task", "plan", short, "--file", &plan, "--as", "lead"]).await,
        "2 tasks were added to ISSUE.
TASK STAGE LEVEL PTS WHO LEFT SUBJECT
task-1 ready easy 3 Parse the format
task-2 blocked easy 1 after task-1 Show it in the list
"
    );
    assert_eq!(
        shop.says(&["task", "show", &format!("{short}/2")]).await,
        "Show it in the list
  task ISSUE/task-2
  stage blocked
  level easy, 1 point
  after task-1 (ready)
  made WHEN
  changed WHEN
"
    );
    let claimed =
        shop.says(&["task", "claim", &format!("{short}/1"), "--as", "w1", "--new-role"]).await;
    assert_eq!(
        claimed,
        "w1 has task-1 of ISSUE until WHEN (LEN left): Parse the format. Its token is 1.\n"
    );
    let lock = [
        "lock",
        "acquire",
        "src/parse.rs",
        "tests/**",
        "--repository",
        "host.example/us/it",
        "--as",
        "w1",
    ];
    let locked = shop.says(&[&lock[..], &["--task", &format!("{short}/1")]].concat()).await;
    assert_eq!(locked, "w1 has 2 files locked as LOCK until WHEN (LEN left). Its token is 2.\n");
    assert_eq!(
        shop.says(&["lock", "list"]).await,
        "LOCK HOLDER LEFT FILES
LOCK w1 LEN src/parse.rs, tests/** in host.example/us/it, for ISSUE/task-1
"
    );
    assert_eq!(
        shop.says(&["worker", "list"]).await,
        "WORKER NODE POINTS HAS
w1 no node 0 ISSUE/task-1 (LEN left)
"
    );
    let submit = ["task", "submit", &format!("{short}/1"), "--as", "w1", "--summary", "Read."];
    let said =
        shop.says(&[&submit[..], &["--file", "src/parse.rs", "--result", "passed"]].concat()).await;
    assert_eq!(said, "SUB of task-1 waits for its review.\n");
    let review =
        ["task", "review", &format!("{short}/1"), "--as", "lead", "--feedback", "Good work."];
    assert_eq!(
        shop.says(&[&review[..], &["--approve", "--score", "5"]].concat()).await,
        "task-1 is approved.
Next for w1: task-2, reserved until WHEN (LEN left); the worker has 3 points.
"
    );
    assert_eq!(shop.says(&["lock", "list"]).await, "No matching locks.\n", "its task ended");
    let again = shop.json(0, &[&review[..], &["--approve", "--score", "5"]].concat()).await;
    assert_eq!(again[0]["repeated"], true);
    assert_eq!(
        shop.says(&["task", "claim", "--next", short, "--as", "w1"]).await,
        "w1 has task-2 of ISSUE until WHEN (LEN left): Show it in the list. Its token is 4.\n"
    );
    let submit = ["task", "submit", &format!("{short}/2"), "--as", "w1", "--file", "src/list.rs"];
    shop.says(&[&submit[..], &["--summary", "First try."]].concat()).await;
    let review = ["task", "review", &format!("{short}/2"), "--as", "lead"];
    let finding = ["--finding", "style/minor@src/list.rs:3-9=Sorted?"];
    let reject = ["--reject", "--feedback", "Not sorted."];
    assert_eq!(
        shop.says(&[&review[..], &reject, &finding].concat()).await,
        "task-2 is rejected; w1 keeps the task.\n"
    );
    let whole = shop.says(&["task", "show", &format!("{short}/2")]).await;
    assert!(
        whole.contains("feedback\n    Not sorted.\n  minor style src/list.rs:3-9\n"),
        "{whole}"
    );
    shop.says(&[&submit[..], &["--summary", "Sorted."]].concat()).await;
    let approve = ["--approve", "--score", "2", "--feedback", "Fine."];
    assert_eq!(
        shop.says(&[&review[..], &approve].concat()).await,
        "task-2 is approved.\nNext for w1: no task is reserved; the worker has 4 points.\n"
    );

    let deliver =
        ["delivery", "create", short, "--as", "lead", "--summary", "It reads.", "--passed"];
    let steps = ["--steps", "issue-1-test-steps.md", "--step", "make corpus"];
    let refused = shop.refusal(1, &[&deliver[..], &steps].concat()).await;
    assert!(refused.contains("no document issue-1-test-steps, nor") && refused.contains("--file"));
    let text = shop.file("steps.md", "make corpus\n");
    let write = ["doc", "write", "issue-1-test-steps.md", &text, "--of", short];
    shop.says(&[&write[..], &["--as", "lead"]].concat()).await;
    let said = shop.says(&[&deliver[..], &steps].concat()).await;
    assert_eq!(said, "DELIVERY of ISSUE waits for an acceptor.\n");
    let delivery = shop.json(0, &["delivery", "list", "--status", "open"]).await.remove(0);
    let delivery = delivery["delivery_id"].as_str().unwrap();
    let whole = shop.json(0, &["delivery", "show", delivery]).await.remove(0);
    assert_eq!(whole["artifacts"]["changed_files"], json!(["src/list.rs", "src/parse.rs"]));
    assert_eq!(
        shop.says(&["delivery", "claim", delivery, "--as", "qa"]).await,
        "qa has DELIVERY until WHEN (LEN left). Its token is 5.\n"
    );
    let close = ["issue", "close", short, "--as", "lead"];
    assert_eq!(
        shop.refusal(1, &close).await,
        "error: no delivery of issue ISSUE was approved since it was opened; deliver it, or close \
         it with a summary that says why it ends without one (not_accepted)\n"
    );
    let verdict =
        ["delivery", "review", delivery, "--approve", "--feedback", "Works here.", "--as", "qa"];
    assert_eq!(
        shop.refusal(1, &[&verdict[..], &["--failed-step", "1"]].concat()).await,
        "error: step 1 of the delivery's test_evidence.doc_commands failed with exit code 1, so \
         delivery 'DELIVERY' cannot be approved; reject it, or have a person override that by name \
         and reason (evidence_failed)\n"
    );
    assert_eq!(shop.says(&verdict).await, "DELIVERY is approved.\n");
    assert_eq!(shop.says(&close).await, "ISSUE is closed: Read the format.\n");
    assert_eq!(
        shop.says(&["issue", "list"]).await,
        "ISSUE STATUS DONE CHANGED SUBJECT\nISSUE done 2 of 2 WHEN Read the format\n"
    );
    let history = shop.json(0, &["issue", "history", short]).await;
    let kinds: Vec<&str> = history.iter().map(|it| it["type"].as_str().unwrap()).collect();
    for kind in ["issue_created", "issue_task_claimed", "submission_created", "issue_closed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let numbers: Vec<u64> = history.iter().map(|it| it["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=history.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_task_waits_for_an_answer_until_its_question_has_one() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let asked = shop.says(&["task", "ask", &task, "Which of them?", "--as", "w1"]).await;
    assert_eq!(asked, "MSG, a question about task-1, was sent to the lead.\n");
    let list = shop.says(&["task", "list", &issue, "--stage", "waiting-for-answer"]).await;
    assert!(list.contains("task-1 waiting for an answer easy 1 w1 LEN Do 0\n"), "{list}");
    let answered = shop.says(&["task", "answer", &task, "Both.", "--as", "lead"]).await;
    assert_eq!(answered, "MSG, a question about task-1, is answered.\n");
    let whole = shop.says(&["task", "show", &task]).await;
    assert!(
        whole.ends_with(
            "MSG question from w1: replied WHEN\n    Which of them?\n  reply of lead WHEN\n    \
             Both.\n"
        ),
        "{whole}"
    );
    assert_eq!(shop.json(0, &["task", "show", &task]).await[0]["stage"], "working");
    assert_eq!(
        shop.refusal(1, &["task", "answer", &task, "Again.", "--as", "lead"]).await,
        "error: no open message found for task 'task-1': no question waits for a reply. `tasuki \
         task show ISSUE/TASK` shows what was asked. (unknown_message)\n"
    );
}

#[tokio::test]
async fn what_lapses_or_is_reset_is_open_again_and_its_tokens_are_stale() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(2).await;
    let (one, two) = (format!("{issue}/1"), format!("{issue}/2"));
    let mut history = Following::begin(&shop, &issue);
    shop.says(&["settings", "task-claim", "1s"]).await;
    shop.says(&["task", "claim", &one, "--as", "w1"]).await;
    let lapsed = history.until("issue_task_expired").await;
    assert_eq!((lapsed["task_id"].as_str(), lapsed["role"].as_str()), (Some("task-1"), Some("w1")));
    let late = ["task", "submit", &one, "--summary", "Late.", "--token", "1"];
    assert_eq!(
        shop.refusal(1, &[&late[..], &["--as", "w1"]].concat()).await,
        "error: the claim of w1 on task-1 lapsed; nothing was written. Claim it again before \
         going on (lease_lost)\n"
    );

    shop.says(&["settings", "task-claim", "1h"]).await;
    shop.says(&["task", "claim", &one, "--as", "w2"]).await;
    shop.says(&["task", "submit", &one, "--summary", "Done.", "--as", "w2"]).await;
    let approve = ["--approve", "--score", "5", "--feedback", "Good.", "--as", "lead"];
    let done = shop.json(0, &[&["task", "review", one.as_str()], &approve[..]].concat()).await;
    assert_eq!(done[0]["task"]["submission"]["next_step"]["task_id"], "task-2");
    let step = shop.json(0, &["task", "show", &one, "--as", "w2"]).await.remove(0);
    let step = step["submission"]["next_step"]["token"].as_str().unwrap().to_owned();
    assert_eq!(
        shop.refusal(1, &["task", "claim", &two, "--next-step", &step, "--as", "w1"]).await,
        "error: invalid next_step_token: it was given to another worker. `tasuki task claim` without \
         --next-step claims a task that is free or reserved for the role. (invalid_next_step_token)\n"
    );
    let reset = ["task", "reset", &two, "--reason", "Not that one.", "--as", "lead"];
    assert_eq!(shop.says(&reset).await, "task-2 of ISSUE is open.\n");
    let told = history.until("issue_task_reset").await;
    assert_eq!(told["detail"], "Not that one.");
    assert_eq!(
        shop.refusal(1, &["task", "claim", &two, "--next-step", &step, "--as", "w2"]).await,
        "error: invalid next_step_token: nothing is kept with it any more. `tasuki task claim` \
         without --next-step claims a task that is free or reserved for the role. \
         (invalid_next_step_token)\n"
    );

    shop.says(&["task", "claim", &two, "--as", "w1"]).await;
    shop.says(&reset).await;
    history.until("issue_task_reset").await;
    let late = ["task", "submit", &two, "--summary", "Late.", "--as", "w1"];
    assert!(shop.refusal(1, &late).await.contains("the claim of w1 on task-2 was reset"));
    let cancel = ["task", "cancel", &two, "--reason", "Not needed.", "--as", "lead"];
    assert_eq!(shop.says(&cancel).await, "task-2 of ISSUE is canceled.\n");
    assert_eq!(shop.json(0, &["task", "show", &two]).await[0]["stage"], "canceled");
    // What is counted adds up.
    let whole = shop.says(&["issue", "show", &issue]).await;
    let tasks = whole.lines().find_map(|line| line.trim().strip_prefix("tasks")).unwrap();
    let numbers: Vec<u64> = tasks.split([' ', ':']).filter_map(|it| it.parse().ok()).collect();
    let (total, parts) = numbers.split_first().unwrap();
    assert!(tasks.contains("1 canceled") && *total == parts.iter().sum::<u64>(), "{tasks}");
    history.end().await;
}

#[tokio::test]
async fn of_two_who_want_the_same_one_gets_it() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    let (as_w1, as_w2) =
        (["task", "claim", &task, "--as", "w1"], ["task", "claim", &task, "--as", "w2"]);
    let (first, second) = tokio::join!(shop.run(&as_w1), shop.run(&as_w2));
    let (won, lost) = if first.code == 0 { (first, second) } else { (second, first) };
    assert_eq!((won.code, lost.code), (0, 1), "{won:?} {lost:?}");
    let winner = if won.out.starts_with("w1") { "w1" } else { "w2" };
    assert_eq!(
        lost.err,
        format!(
            "error: task 'task-1' is not open (status: in_progress), claimed by {winner}; take \
             another one (task_already_claimed)\n"
        )
    );
    let none = shop.run(&["task", "claim", "--next", &issue, "--as", "qa"]).await;
    assert_eq!(
        (none.code, steady(&none.out)),
        (7, "No task of ISSUE can be claimed now.\n".into())
    );

    let lock = |files: &'static [&'static str], who: &'static str| {
        [&["lock", "acquire", "--repository", "host.example/us/r", "--as", who], files].concat()
    };
    shop.says(&lock(&["a.rs"], "w1")).await;
    shop.says(&lock(&["z/"], "w2")).await;
    let refused = shop.refusal(1, &lock(&["b.rs", "z/deep.rs"], "w1")).await;
    assert!(
        refused.starts_with("error: file 'z/deep.rs' locked by 'w2' (task: , for "),
        "{refused}"
    );
    assert!(refused.ends_with(" LEN more); nothing was locked (file_is_locked)\n"), "{refused}");
    let held = shop.json(0, &["lock", "list", "--holder", "w1"]).await;
    assert_eq!(
        held[0]["files"]["patterns"],
        json!(["a.rs"]),
        "its own earlier lock stays: {held:?}"
    );
    assert_eq!(held.len(), 1);
    let there =
        shop.json(0, &["lock", "list", "z/other.rs", "--repository", "host.example/us/r"]).await;
    assert_eq!(there[0]["holder"], "w2");
    let id = there[0]["lease_id"].as_str().unwrap();
    let why = "w2 is gone";
    assert_eq!(
        shop.refusal(1, &["lock", "release", id, "--as", "w1"]).await,
        "error: lease 'LOCK' is not owned by w1: it is w2's; nothing changed (not_holder)\n"
    );
    assert_eq!(
        shop.says(&["lock", "release", id, "--reason", why, "--as", "lead"]).await,
        "LOCK, which w2 had, is unlocked.\n"
    );

    shop.says(&["task", "submit", &task, "--summary", "Done.", "--as", winner]).await;
    let good = ["--approve", "--score", "5", "--feedback", "Good.", "--as", "lead"];
    let bad = ["--reject", "--feedback", "Bad.", "--as", "qa"];
    let review = ["task", "review", task.as_str()];
    let (good, bad) = ([&review[..], &good].concat(), [&review[..], &bad].concat());
    let (good, bad) = tokio::join!(shop.run(&good), shop.run(&bad));
    let (won, lost) = if good.code == 0 { (good, bad) } else { (bad, good) };
    assert_eq!((won.code, lost.code), (0, 1), "{won:?} {lost:?}");
    let judged = shop.json(0, &["task", "show", &task]).await.remove(0);
    let state = judged["submission"]["status"].as_str().unwrap();
    let is_late =
        lost.err.contains("(already_reviewed)") || lost.err.contains("(no_open_submission)");
    assert!(is_late && matches!(state, "approved" | "rejected"), "{state}: {lost:?}");
}
