//! A client as the sub-agent of runs: `tasuki run` starts it once, several times at once and in a
//! chain, its model fails, and it is canceled while its model says nothing.

use std::{fs, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    process::Command,
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use super::{
    client::Client,
    home::Home,
    model::Model,
    script::{
        Move,
        replies::{HANG, REFUSE, Replies, reply},
    },
};
use crate::{Result, process::Process};

/// For a run to end: some clients compile themselves when they start.
const ENDS_WITHIN: Duration = Duration::from_secs(240);

/// For a client to be gone once its run was canceled: 5 s to end by itself, and then some.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Between two looks at what runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The agent's name.
const AGENT: &str = "worker";

/// What was seen of one client.
#[derive(Debug)]
pub struct Seen {
    pub client: Client,
    pub version: String,
    /// Why it does not work.
    pub failure: Option<String>,
    /// One line for each thing that went as it should.
    pub lines: Vec<String>,
}

/// Starts its runs; whatever goes wrong is in what was seen. `starting` bounds how many clients
/// start at a time.
pub async fn play(client: Client, place: &Path, runs: &Path, starting: &Semaphore) -> Seen {
    let mut seen = Seen { client, version: "?".to_owned(), failure: None, lines: Vec::new() };
    let folder = runs.join(format!("{}-runs", client.name()));
    let played: Result<()> = async {
        seen.version = client.version(place)?;
        let _permit = starting.acquire().await?;
        let mut scene = Scene::set(client, place, &folder).await?;
        if let Err(why) = scene.play(&mut seen.lines).await {
            let home = scene.home.keep().display();
            return Err(format!("{why} (its home is kept: {home})").into());
        }
        scene.up.stop().await
    }
    .await;
    seen.failure = played.err().map(|why| why.to_string());
    seen
}

/// Broker, node and model, and a user who has one agent.
struct Scene {
    home: Home,
    model: Model,
    up: Process,
}

impl Scene {
    async fn set(client: Client, place: &Path, folder: &Path) -> Result<Self> {
        let runner = client.runner().ok_or("no runner starts this client")?;
        let home = Home::new(folder, place)?;
        let model = Model::start(&folder.join("model"), Box::new(Replies)).await?;
        client.settle(&home, model.url())?;
        let model_line = client.model().map_or(String::new(), |name| format!("model: {name}\n"));
        home.write(
            &format!(".tasuki/agents/{AGENT}.md"),
            &format!(
                "---\nname: {AGENT}\ndescription: Answers as it is told.\nrunner: {runner}\n\
                 {model_line}---\n\nBe brief.\n"
            ),
        )?;
        let mut up = home.tasuki()?;
        up.args(["up", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
        // Agents get what the node has.
        client.surround(&mut up, model.url());
        up.env("RUST_LOG", "info").stderr(home.log("node.log")?);
        let up = Process::start(up, "broker gRPC").await?;
        Ok(Self { home, model, up })
    }

    async fn play(&self, lines: &mut Vec<String>) -> Result<()> {
        let (code, told) = self.run(&[AGENT, &reply("one")]).await?;
        check("single", code == 0 && told["output"] == "one", code, &told)?;
        check("its usage", told["usage"]["turns"].as_u64() >= Some(1), code, &told)?;
        lines.push(format!("single, {} ms", told["steps"][0]["duration_ms"]));

        let tasks = [reply("one"), reply("two"), reply("three")];
        let file = self.steps("parallel.json", &tasks)?;
        let (code, told) = self.run(&["--parallel", &file]).await?;
        let text = told["output"].as_str().unwrap_or_default();
        let places = ["one", "two", "three"].map(|word| text.find(word));
        let is_right = places.is_sorted() && places[0].is_some();
        check("parallel", code == 0 && is_right, code, &told)?;
        lines.push("parallel".to_owned());

        let file = self.steps("chain.json", &[reply("one"), reply("two after {previous}")])?;
        let (code, told) = self.run(&["--chain", &file]).await?;
        check("chain", code == 0 && told["output"] == "two after one", code, &told)?;
        lines.push("chain".to_owned());

        let (code, told) = self.run(&[AGENT, REFUSE]).await?;
        let failure = told["steps"][0]["failure"].as_str().unwrap_or_default().to_owned();
        check("error", code != 0 && !failure.is_empty(), code, &told)?;
        lines.push(format!("error ({failure}): {}", told["steps"][0]["error"]));

        self.cancel().await?;
        lines.push("cancel".to_owned());
        Ok(())
    }

    /// Tasks of the agent, as a file.
    fn steps(&self, name: &str, tasks: &[String]) -> Result<String> {
        let steps: Vec<Value> =
            tasks.iter().map(|task| json!({ "agent": AGENT, "task": task })).collect();
        let path = self.home.project.join(name);
        fs::write(&path, Value::from(steps).to_string())?;
        Ok(path.display().to_string())
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = self.home.tasuki()?;
        command.arg("run").args(args).arg("--json").stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }

    /// How `tasuki run` ended, and the last that it printed.
    async fn run(&self, args: &[&str]) -> Result<(i32, Value)> {
        let output = timeout(ENDS_WITHIN, self.command(args)?.output()).await;
        let output =
            output.map_err(|_| format!("{args:?} did not end within {ENDS_WITHIN:?}"))??;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().next_back().unwrap_or_default();
        let told = serde_json::from_str(last).map_err(|why| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("{args:?} printed {text:?}: {why}; {}", errors.trim())
        })?;
        Ok((output.status.code().unwrap_or(-1), told))
    }

    /// Ctrl-C while the model says nothing.
    async fn cancel(&self) -> Result<()> {
        let mut command = self.command(&[AGENT, HANG])?;
        command.stdout(Stdio::null()).stderr(self.home.log("run.err")?);
        let mut child = command.spawn()?;
        let mut asked = self.model.asked();
        let hangs = asked.wait_for(|all| all.iter().any(|it| it.answered == Move::Hang));
        let hangs = timeout(ENDS_WITHIN, hangs).await.map_err(|_| "the model was not asked")?;
        drop(hangs?);
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        kill_process(pid.ok_or("it has ended already")?, Signal::INT)?;
        let ended =
            timeout(GONE_WITHIN, child.wait()).await.map_err(|_| "Ctrl-C does not end it")?;
        if ended?.success() {
            return Err("a run that was canceled ends as if it had succeeded".into());
        }
        let until = Instant::now() + GONE_WITHIN;
        loop {
            let left = self.left()?;
            if left.is_empty() {
                return Ok(());
            }
            if until < Instant::now() {
                return Err(format!("a run that was canceled left {left:?}").into());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Command lines of all that has this home, but for `tasuki up`.
    fn left(&self) -> Result<Vec<String>> {
        let mark = format!("HOME={}", self.home.home.display());
        let mut left = Vec::new();
        for process in fs::read_dir("/proc")?.filter_map(std::result::Result::ok) {
            // One that ended meanwhile has neither.
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            let (environment, line) = (read("environ"), read("cmdline"));
            let is_its = environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
            let is_up = line.split(|byte| *byte == 0).any(|it| it == b"up");
            if is_its && !is_up {
                left.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        Ok(left)
    }
}

fn check(what: &str, is_right: bool, code: i32, told: &Value) -> Result<()> {
    if is_right { Ok(()) } else { Err(format!("{what}: exit code {code}, {told}").into()) }
}
