//! An agent CLI as a process: shell scripts play every agent that does not behave.

use std::{
    fs,
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat as open_at};
use tasuki_node::{
    process::policy::{Kind, Policy},
    runner::{
        child::{Job, run},
        outcome::{Exit, FailureKind, Outcome, Stopped},
        runners::CommandLine,
        stream::{Dialect, Progress},
    },
};
use tokio::sync::watch;

/// No test reaches it unless something hangs.
const LONG: Duration = Duration::from_secs(300);

/// A stream that stops in the middle.
const BEGUN: &str = "pi-1.5.2/abort-sigterm.jsonl";

/// What a script is given to end by itself.
const GRACE: Duration = Duration::from_millis(200);

struct Agent {
    place: tempfile::TempDir,
    line: CommandLine,
    limit: Duration,
    grace: Duration,
}

impl Agent {
    /// One that is this script; `$alive` is open for writing in it and in whatever it starts.
    fn script(text: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let alive = place.path().join("alive");
        make_pipe(&alive);
        let script = format!("exec 9>'{}'\n{text}", alive.display());
        let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let line = CommandLine { argv, ..CommandLine::default() };
        Self { place, line, limit: LONG, grace: GRACE }
    }

    /// One that plays a captured stream before the rest of the script.
    fn plays(stream: &str, rest: &str) -> Self {
        Self::script(&format!("{}\n{rest}", play(stream)))
    }

    async fn run(&self) -> Outcome {
        let (_stop, asked) = watch::channel(None);
        self.run_until(asked, &mut |_| {}).await
    }

    async fn run_until(
        &self,
        asked: watch::Receiver<Option<Stopped>>,
        on_progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Outcome {
        let environment = [("PATH".to_owned(), std::env::var_os("PATH").unwrap_or_default())];
        let job = Job {
            keeper: Path::new(env!("CARGO_BIN_EXE_tasuki")),
            command_line: &self.line,
            dialect: Dialect::Pi,
            directory: self.place.path(),
            own: self.place.path(),
            environment: &environment,
            policy: open(),
            limit: self.limit,
            grace: self.grace,
            linger: GRACE,
        };
        run(&job, asked, on_progress).await
    }

    /// Starts to wait until nobody has `$alive` open. Nobody had it open for reading before, so a
    /// script begins when this is called.
    fn watch(&self) -> Watch {
        let alive: PathBuf = self.place.path().join("alive");
        let pipe = alive.clone();
        let reader = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut said).unwrap();
        });
        Watch { alive, reader }
    }
}

/// Who waits until nobody has a script's pipe open.
struct Watch {
    alive: PathBuf,
    reader: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// A run is over. One that was ended before its script began never opened the pipe.
    async fn gone(self) {
        let to_write =
            || open_at(CWD, &self.alive, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
        // It fails until the reader is there, and once it is no longer.
        while !self.reader.is_finished() && to_write().is_err() {
            tokio::task::yield_now().await;
        }
        self.reader.await.unwrap();
    }
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// A shell command that plays a captured stream.
fn play(stream: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent-streams").join(stream);
    format!("cat '{}'", path.display())
}

fn open() -> Policy {
    Policy {
        kind: Kind::None,
        read: Vec::new(),
        write: Vec::new(),
        is_network_open: true,
        has_unix_sockets: true,
        memory_bytes: None,
        cpu_sec: None,
        file_bytes: None,
        processes: None,
    }
}

fn failed(outcome: &Outcome) -> FailureKind {
    outcome.failure.as_ref().unwrap_or_else(|| panic!("{outcome:?}")).kind
}

#[tokio::test]
async fn an_agent_that_answers_and_ends_has_succeeded() {
    let agent = Agent::plays("pi-1.5.2/success-tool.jsonl", "");
    let watch = agent.watch();
    let outcome = agent.run().await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(!outcome.output.text.is_empty());
    watch.gone().await;
}

#[tokio::test]
async fn what_its_standard_input_holds_is_read_and_ends() {
    let mut agent = Agent::script("cat >copy; cat copy >&2; exit 3");
    agent.line.stdin = Some("first\nlast".to_owned());
    let watch = agent.watch();
    let outcome = agent.run().await;
    assert_eq!(fs::read_to_string(agent.place.path().join("copy")).unwrap(), "first\nlast");
    assert_eq!(failed(&outcome), FailureKind::ExitCode);
    assert!(outcome.failure.unwrap().text.contains("last"), "its last words are told");
    watch.gone().await;
}

#[tokio::test]
async fn each_way_to_fail_is_told_apart() {
    let table = [
        ("exit 0", FailureKind::NoOutput),
        ("exit 7", FailureKind::ExitCode),
        ("kill -9 $$", FailureKind::Killed),
        ("exec no-such-agent-at-all", FailureKind::NotInstalled),
        ("echo 'error: unknown option --x' >&2; exit 2", FailureKind::BadFlag),
    ];
    for (script, kind) in table {
        let agent = Agent::script(script);
        let watch = agent.watch();
        assert_eq!(failed(&agent.run().await), kind, "{script}");
        watch.gone().await;
    }
    let mut agent = Agent::script("");
    agent.line.argv = vec!["no-such-agent-at-all".to_owned()];
    assert_eq!(failed(&agent.run().await), FailureKind::NotInstalled);
}

/// RN4: whatever it does to stay.
#[tokio::test]
async fn nothing_is_left_of_an_agent_that_ended() {
    for script in [
        "sleep 1000 & exit 0",
        "setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &) & exit 0",
        // Its name is no text.
        "x=$(printf 'x\\377)'); ln -s \"$(command -v sh)\" \"$x\"; \
         setsid \"./$x\" -c ': >up; while :; do sleep 1000; done' & until [ -e up ]; do :; done",
    ] {
        let agent = Agent::script(script);
        let watch = agent.watch();
        assert_eq!(failed(&agent.run().await), FailureKind::NoOutput, "{script}");
        watch.gone().await;
    }
}

/// RN4: however it takes that.
#[tokio::test]
async fn nothing_is_left_of_an_agent_that_is_cancelled() {
    let stubborn = "trap '' TERM; while :; do sleep 1000; done";
    let daemon = format!("setsid sh -c \"{stubborn}\" & {stubborn}");
    for rest in ["sleep 1000", stubborn, &daemon] {
        let agent = Agent::plays(BEGUN, rest);
        let watch = agent.watch();
        let (ask, asked) = watch::channel(None);
        let mut on_progress = |_: Progress<'_>| drop(ask.send_replace(Some(Stopped::Cancelled)));
        let outcome = agent.run_until(asked, &mut on_progress).await;
        assert_eq!(failed(&outcome), FailureKind::Cancelled, "{rest}");
        watch.gone().await;
    }
}

/// RN4: also where nobody is left who was to see to it.
#[tokio::test]
async fn nothing_is_left_of_an_agent_that_killed_its_keeper() {
    for script in [
        "sleep 1000 & kill -9 $PPID; sleep 1000",
        "setsid sh -c \"trap '' TERM; sleep 1000 & sleep 1000\" & (setsid sleep 1000 &); \
         kill $PPID; sleep 1000",
    ] {
        let agent = Agent::plays("pi-1.5.2/success-tool.jsonl", script);
        let watch = agent.watch();
        let outcome = agent.run().await;
        assert_eq!(failed(&outcome), FailureKind::Killed, "{script}");
        assert_eq!(outcome.failure.unwrap().text, "What watched over it was killed.");
        watch.gone().await;
    }
}

#[tokio::test]
async fn an_agent_that_killed_its_keeper_takes_nobody_else_with_it() {
    let start = |command: &mut Command| command.spawn().unwrap();
    let hook = start(Command::new("sleep").arg("1000").process_group(0));
    let daemon = start(Command::new("setsid").args(["sleep", "1000"]));
    let waiting = Agent::script(&format!("read -r _ <go; {}", play("pi-1.5.2/success-tool.jsonl")));
    let go = waiting.place.path().join("go");
    make_pipe(&go);
    let killing = Agent::script("kill -9 $PPID; sleep 1000");
    let watches = [waiting.watch(), killing.watch()];
    let (waited, killed) = tokio::join!(waiting.run(), async {
        let killed = killing.run().await;
        tokio::task::spawn_blocking(move || fs::write(go, "\n")).await.unwrap().unwrap();
        killed
    });
    assert_eq!(failed(&killed), FailureKind::Killed);
    assert!(waited.is_success(), "{waited:?}");
    for mut child in [hook, daemon] {
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for watch in watches {
        watch.gone().await;
    }
}

/// RN1: a program that ends well when it is told to was told to all the same.
#[tokio::test]
async fn an_agent_that_was_stopped_has_not_succeeded_whatever_it_said_and_ended_with() {
    // A `sleep` that has just been forked loses the signal, so none of them is long.
    let script = format!(
        "trap 'exit 0' TERM\n{}\nwhile :; do sleep 0.1; done",
        play("pi-1.5.2/success-tool.jsonl")
    );
    let budget = Stopped::Budget { limit: "max_turns 1".to_owned() };
    for (stopped, kind) in [
        (Some(Stopped::Cancelled), FailureKind::Cancelled),
        (Some(Stopped::TimedOut { secs: 1 }), FailureKind::TimedOut),
        (Some(budget), FailureKind::Budget),
        // It lingers.
        (None, FailureKind::Killed),
    ] {
        let mut agent = Agent::script(&script);
        agent.grace = LONG;
        let watch = agent.watch();
        let (ask, asked) = watch::channel(None);
        let mut on_progress = |progress: Progress<'_>| {
            if progress == Progress::Settled {
                drop(ask.send_replace(stopped.clone()));
            }
        };
        let outcome = agent.run_until(asked, &mut on_progress).await;
        assert_eq!((failed(&outcome), outcome.exit), (kind, Exit::Code(0)));
        assert!(!outcome.output.text.is_empty(), "what it said is kept");
        watch.gone().await;
    }
}

#[tokio::test]
async fn an_agent_that_asks_for_more_time_than_it_has_is_ended() {
    let mut agent = Agent::script("sleep 1000");
    agent.limit = Duration::from_millis(100);
    let watch = agent.watch();
    assert_eq!(failed(&agent.run().await), FailureKind::TimedOut);
    watch.gone().await;
}

/// RN4: dropping it is enough.
#[tokio::test]
async fn an_agent_whose_run_is_dropped_is_ended() {
    let agent = Agent::plays("pi-1.5.2/success-tool.jsonl", "sleep 1000");
    let watch = agent.watch();
    let (begun, heard) = tokio::sync::oneshot::channel();
    let (_stop, asked) = watch::channel(None);
    let mut begun = Some(begun);
    let mut on_progress = |_: Progress<'_>| {
        if let Some(begun) = begun.take() {
            begun.send(()).unwrap();
        }
    };
    tokio::select! {
        outcome = agent.run_until(asked, &mut on_progress) => panic!("{outcome:?}"),
        heard = heard => heard.unwrap(),
    }
    watch.gone().await;
}

#[tokio::test]
async fn an_agent_that_has_answered_need_not_end_by_itself() {
    for rest in ["sleep 1000", "exec >&- 2>&-; sleep 1000"] {
        let agent = Agent::plays("pi-1.5.2/success-tool.jsonl", rest);
        let watch = agent.watch();
        let outcome = agent.run().await;
        assert_eq!(failed(&outcome), FailureKind::Killed, "{rest}");
        assert!(!outcome.output.text.is_empty(), "what it said is kept");
        watch.gone().await;
    }
}

/// RN5: garbage without end on one output does not hide what the other says.
#[tokio::test]
async fn an_agent_may_print_as_much_as_it_likes() {
    let flood = "head -c 64000000 /dev/zero | tr '\\0' 'x'";
    let script = format!("{flood} >&2; echo >&2; {flood}; echo; echo the last word >&2; exit 7");
    let agent = Agent::script(&script);
    let watch = agent.watch();
    let outcome = agent.run().await;
    assert_eq!(failed(&outcome), FailureKind::ExitCode);
    assert!(outcome.failure.unwrap().text.contains("the last word"));
    watch.gone().await;
}

#[tokio::test]
async fn an_agent_is_told_what_it_is_passed_on_and_nothing_else() {
    let mut agent = Agent::script("env >told");
    agent.line.env = vec![("TASK".to_owned(), "one".to_owned())];
    let watch = agent.watch();
    agent.run().await;
    let told = fs::read_to_string(agent.place.path().join("told")).unwrap();
    let names: Vec<&str> = told.lines().filter_map(|it| Some(it.split_once('=')?.0)).collect();
    assert!(names.contains(&"TASK"), "{told}");
    let own = ["PATH", "TASK", "PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| own.contains(name)), "{told}");
    watch.gone().await;
}

#[tokio::test]
async fn runners_are_checked_without_being_used() {
    let place = tempfile::tempdir().unwrap();
    let check = async |runners: &str| {
        let config = place.path().join("tasuki.toml");
        fs::write(&config, runners).unwrap();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tasuki"));
        command.args(["runners", "check", "--json", "--config"]).arg(&config);
        command.arg("--data").arg(place.path().join("data")).env("HOME", place.path());
        let said = command.output().await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        (said.status.code().unwrap(), answer["runners"].clone())
    };
    let runner = |name: &str, command: &str| {
        format!("[runner.{name}]\nstream = \"pi\"\ncommand = [{command}]\n")
    };
    let found = runner("found", r#""sh", "-c", "echo; echo mine 1.2""#);
    let placed = runner("placed", r#""no-such-agent-at-all", "{prompt}""#);
    let (code, runners) = check(&format!("{found}{placed}")).await;
    let of = |runners: &serde_json::Value, name: &str| {
        let mut all = runners.as_array().unwrap().iter();
        all.find(|it| it["name"] == name).unwrap().clone()
    };
    assert_eq!(code, 0, "{runners}");
    assert_eq!(of(&runners, "found")["version"], "mine 1.2", "{runners}");
    assert_eq!(
        (&of(&runners, "placed")["version"], &of(&runners, "placed")["error"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(runners.as_array().unwrap().len(), 7, "the built-in ones, too: {runners}");
    let (code, runners) = check(&runner("lost", r#""no-such-agent-at-all""#)).await;
    assert_eq!(code, 5, "{runners}");
    assert_eq!(of(&runners, "lost")["error"], "not installed, or not on the PATH");
}
