//! `--wait` of `tasuki task submit`, `task ask` and `delivery create`: what comes of it, in time, too late or
//! never, whoever is away meanwhile.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout},
};

use super::{Shop, steady};
use crate::process::soon;

/// A command that waits.
struct Waiting {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Waiting {
    fn begin(shop: &Shop, args: &[&str]) -> Self {
        let mut command = shop.command(args);
        command.arg("--wait").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let err = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, out, err }
    }

    async fn line(&mut self) -> String {
        steady(&soon(self.out.next_line()).await.unwrap().unwrap()).trim_end().to_owned()
    }

    async fn json(&mut self) -> Value {
        let line = soon(self.out.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn note(&mut self) -> String {
        soon(self.err.next_line()).await.unwrap().unwrap()
    }

    fn interrupt(&self) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    }

    /// What is left to read, and the exit code.
    async fn end(mut self) -> (String, i32) {
        let mut rest = String::new();
        while let Some(line) = soon(self.out.next_line()).await.unwrap() {
            rest += &line;
            rest.push('\n');
        }
        (steady(&rest), soon(self.child.wait()).await.unwrap().code().unwrap())
    }
}

const APPROVE: [&str; 7] = ["--approve", "--score", "5", "--feedback", "Good.", "--as", "lead"];
const REJECT: [&str; 5] = ["--reject", "--feedback", "It panics.", "--as", "lead"];

#[tokio::test]
async fn a_submission_is_waited_for_until_its_verdict() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    let review = |how: &'static [&'static str]| [&["task", "review", &task], how].concat();
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let submit = ["task", "submit", &task, "--summary", "Done.", "--as", "w1"];
    let late = shop.run(&[&submit[..], &["--wait", "--timeout", "0s"]].concat()).await;
    assert_eq!(
        (late.code, steady(&late.out)),
        (
            7,
            "SUB of task-1 waits for its review.\nNo verdict came in time. SUB waits for it \
             still.\n"
                .to_owned()
        )
    );

    let mut waiting = Waiting::begin(&shop, &submit);
    let again = "SUB of task-1 waits for its review. That had been done before.";
    assert_eq!(waiting.line().await, again);
    shop.says(&review(&REJECT)).await;
    let (said, code) = waiting.end().await;
    assert_eq!(code, 9);
    assert_eq!(
        said,
        "SUB is rejected.\n  reviewed WHEN by lead\n  looked at SUB\n  feedback\n    It panics.\n  \
         major correctness\n    It panics.\n"
    );

    let other = ["task", "submit", &task, "--summary", "Mended.", "--as", "w1", "--json"];
    let mut waiting = Waiting::begin(&shop, &other);
    let told = waiting.json().await;
    shop.says(&review(&APPROVE)).await;
    let judged = waiting.json().await;
    assert_eq!(judged["standing"], "there");
    assert_eq!(judged["submission"]["submission_id"], told["submission_id"]);
    assert_eq!(judged["submission"]["status"], "approved");
    assert_eq!(waiting.end().await, (String::new(), 0));
    // Whoever asks late is told at once.
    let late = shop.run(&[&other[..7], &["--wait"]].concat()).await;
    assert_eq!(late.code, 0, "{late:?}");
    let begins = "SUB of task-1 is approved. That had been done before.\nSUB is approved.\n";
    assert!(steady(&late.out).starts_with(begins), "{late:?}");
}

#[tokio::test]
async fn a_wait_outlives_its_broker_and_its_own_end_takes_nothing_back() {
    let mut shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let submit = ["task", "submit", &task, "--summary", "Done.", "--as", "w1"];
    let mut waiting = Waiting::begin(&shop, &submit);
    waiting.line().await;
    waiting.interrupt();
    assert_eq!(waiting.end().await, (String::new(), 7));
    assert_eq!(shop.json(0, &["task", "show", &task]).await[0]["submission"]["status"], "open");

    let mut waiting = Waiting::begin(&shop, &submit);
    waiting.line().await;
    shop.up.kill().await;
    let note = waiting.note().await;
    assert!(note.starts_with("No broker answers at ") && note.ends_with("It is asked again."));
    shop.up.start().await;
    shop.says(&[&["task", "review", &task], &APPROVE[..]].concat()).await;
    let (said, code) = waiting.end().await;
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("SUB is approved.\n"), "{said}");
}

#[tokio::test]
async fn an_answer_is_waited_for_and_what_never_comes_says_why() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    let note = ["task", "ask", &task, "Half of it.", "--kind", "progress", "--as", "w1", "--wait"];
    assert_eq!(
        shop.refusal(2, &note).await,
        "error: --wait is for a question or a blocker: a \"progress\" needs no answer. \
         Nothing was sent. (usage)\n"
    );
    assert_eq!(
        shop.json(0, &["task", "show", &task]).await[0]["messages"].as_array().unwrap().len(),
        0
    );
    let mut waiting = Waiting::begin(&shop, &["task", "ask", &task, "Which?", "--as", "w1"]);
    assert_eq!(waiting.line().await, "MSG, a question about task-1, was sent to the lead.");
    let both = "Both \u{1b}[31mof\u{202e} them.";
    shop.says(&["task", "answer", &task, both, "--as", "lead"]).await;
    let (said, code) = waiting.end().await;
    assert_eq!((said.as_str(), code), ("MSG is answered by lead.\n    Both of them.\n", 0));

    let mut waiting = Waiting::begin(&shop, &["task", "ask", &task, "And now?", "--as", "w1"]);
    waiting.line().await;
    shop.says(&["task", "reset", &task, "--reason", "w2 does it", "--as", "lead"]).await;
    let (said, code) = waiting.end().await;
    assert!(said.starts_with("MSG ended without an answer: "), "{said}");
    assert_eq!(code, 7);
}

#[tokio::test]
async fn a_delivery_is_waited_for_until_its_verdict() {
    let shop = Shop::open().await;
    let issue = shop.issue_with(1).await;
    let task = format!("{issue}/1");
    shop.says(&["task", "claim", &task, "--as", "w1"]).await;
    shop.says(&["task", "submit", &task, "--summary", "Done.", "--file", "a.rs", "--as", "w1"])
        .await;
    shop.says(&[&["task", "review", &task], &APPROVE[..]].concat()).await;
    let deliver = ["delivery", "create", &issue, "--passed", "--as", "lead", "--summary"];
    const STEPS: &str = "docs/issue-1-test-steps.md";
    let steps = ["--steps", STEPS, "--step", "make", "--file", "a.rs", "--file", STEPS];
    for (how, code, says) in
        [("--reject", 9, "DELIVERY is rejected.\n"), ("--approve", 0, "DELIVERY is approved.\n")]
    {
        let mut waiting =
            Waiting::begin(&shop, &[&deliver[..], &[says.trim_end()], &steps].concat());
        assert_eq!(waiting.line().await, "DELIVERY of ISSUE waits for an acceptor.");
        let open = shop.json(0, &["delivery", "list", "--status", "open"]).await;
        let id = open[0]["delivery_id"].as_str().unwrap();
        shop.says(&["delivery", "claim", id, "--as", "qa"]).await;
        shop.says(&["delivery", "review", id, how, "--feedback", "Seen.", "--as", "qa"]).await;
        let (said, ended) = waiting.end().await;
        assert!(said.starts_with(says) && said.ends_with("feedback\n    Seen.\n"), "{said}");
        assert_eq!(ended, code);
    }
}
