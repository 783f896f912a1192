//! A fake agent CLI for tests with real programs, and a machine on which it runs: `play.sh`, which
//! does what the first line of its task says, as a shell command.
//!
//! Whatever an agent starts has a pipe open that ends when nobody is left. An agent that waits for
//! the test is let go on by another pipe, so nothing here depends on time.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tasuki_proto::wire::{self, RunStatus, runs_client::RunsClient};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::unix::pipe,
    task::yield_now,
};
use tonic::{Status, transport::Channel};

use crate::process::{Process, Variable, soon, tasuki};

const SCRIPT: &str = include_str!("play.sh");

/// The agents of one place: their files and their pipes.
pub(crate) struct FakeAgents {
    home: PathBuf,
    /// Its path is in the command line or the environment of each, and of nobody else.
    place: PathBuf,
    alive: Lines<BufReader<pipe::Receiver>>,
    /// As long as it is there, `alive` does not end.
    open: Option<pipe::Sender>,
    /// For reading, too: so it can be written to when nobody waits.
    go: fs::File,
}

impl FakeAgents {
    /// With a home that has the agents `planner` and `scout`.
    pub(crate) fn new(place: &Path) -> Self {
        let (home, place) = (place.join("home"), place.join("fake"));
        fs::create_dir_all(&place).unwrap();
        // Where a sandbox lets it be read.
        fs::write(place.join("play.sh"), SCRIPT).unwrap();
        for name in ["alive", "go"] {
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, place.join(name), FileType::Fifo, mode, 0).unwrap();
        }
        for name in ["planner", "scout"] {
            write_agent(&home, name, "");
        }
        let (alive, open) = open(&place.join("alive"));
        let go = fs::File::options().read(true).write(true).open(place.join("go")).unwrap();
        Self { home, place, alive, open: Some(open), go }
    }

    /// The runner `fake`, in a configuration.
    pub(crate) fn config(&self) -> String {
        let (program, place) = (env!("CARGO_BIN_EXE_tasuki"), self.place.display());
        let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent-streams");
        format!(
            "[runner.fake]\nstream = \"pi\"\n\
             command = [\"sh\", \"{place}/play.sh\", \"{program}\", \"{place}\", \"{streams}\"]\n"
        )
    }

    /// The environment of a user who has these agents.
    pub(crate) fn env(&self) -> Vec<Variable> {
        let of = |name, path: &str| (name, self.home.join(path));
        vec![
            ("HOME", self.home.clone()),
            of("XDG_CONFIG_HOME", ".config"),
            of("XDG_DATA_HOME", ".local/share"),
            of("PI_CODING_AGENT_DIR", ".pi/agent"),
        ]
    }

    /// Gives the user one more agent, of whose file this is a part.
    pub(crate) fn add(&self, name: &str, more: &str) {
        write_agent(&self.home, name, more);
    }

    /// What an agent says next to the test.
    pub(crate) async fn told(&mut self) -> String {
        soon(self.alive.next_line()).await.unwrap().unwrap()
    }

    /// Until so many have begun.
    pub(crate) async fn begun(&mut self, count: usize) {
        for _ in 0..count {
            let told = self.told().await;
            assert!(told.starts_with("begun "), "{told}");
        }
    }

    /// Lets so many of those that wait go on, or that will wait.
    pub(crate) fn let_go(&self, count: usize) {
        (&self.go).write_all(&vec![b'\n'; count]).unwrap();
    }

    /// Whether as many wait as were let go.
    pub(crate) fn has_let_go_none(&self) -> bool {
        rustix::io::ioctl_fionread(&self.go).unwrap() == 0
    }

    /// Until nobody is left: none that has its pipe open, and none that can be found.
    pub(crate) async fn gone(&mut self) {
        self.open = None;
        while soon(self.alive.next_line()).await.unwrap().is_some() {}
        // An end stays one, so what comes later is heard by a pipe opened anew.
        let (alive, open) = open(&self.place.join("alive"));
        (self.alive, self.open) = (alive, Some(open));
        let looking = async {
            while !self.found().is_empty() {
                yield_now().await;
            }
        };
        soon(looking).await;
    }

    /// The command lines of processes that an agent is, keeps or started.
    pub(crate) fn found(&self) -> Vec<String> {
        let mark = self.place.as_os_str().as_encoded_bytes();
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let marked = processes.filter_map(|process| {
            let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
            let line = read("cmdline");
            let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|it| it == mark);
            let is_marked = has_mark(&line) || has_mark(&read("environ"));
            is_marked.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
        });
        marked.collect()
    }
}

fn open(path: &Path) -> (Lines<BufReader<pipe::Receiver>>, pipe::Sender) {
    let receiver = pipe::OpenOptions::new().open_receiver(path).unwrap();
    let sender = pipe::OpenOptions::new().open_sender(path).unwrap();
    (BufReader::new(receiver).lines(), sender)
}

/// Writes an agent's file below a home or a project.
pub(crate) fn write_agent(root: &Path, name: &str, more: &str) {
    let folder = root.join(".tasuki/agents");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "---\nname: {name}\ndescription: Does what its task says.\nrunner: fake\n{more}---\n\n\
         Be brief.\n"
    );
    fs::write(folder.join(format!("{name}.md")), text).unwrap();
}

/// Writes the configuration of whoever has this data directory.
pub(crate) fn configure(data: &Path, config: &str) {
    fs::create_dir_all(data).unwrap();
    fs::write(data.join("tasuki.toml"), config).unwrap();
}

/// Broker and node in one, with fake agents, and the user who has them.
pub(crate) struct Machine {
    pub(crate) up: Process,
    pub(crate) fake: FakeAgents,
    place: tempfile::TempDir,
}

impl Machine {
    /// `line` follows `up`, `config` the runner's configuration.
    pub(crate) async fn up(line: &str, config: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let fake = FakeAgents::new(place.path());
        let data = place.path().join("data");
        configure(&data, &format!("{}{config}", fake.config()));
        let up = Process::up_with(&data, line, &fake.env()).await;
        Runs::at(up.broker.unwrap()).until_offered(1).await;
        Self { up, fake, place }
    }

    /// Where its programs are started: the project.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A command of its user.
    pub(crate) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tasuki(&self.up.data);
        command.args(args).arg("--data").arg(&self.up.data).envs(self.fake.env());
        command.env("COLUMNS", "80").env("LINES", "24");
        command
    }

    /// Its broker.
    pub(crate) fn runs(&self) -> Runs {
        Runs::at(self.up.broker.unwrap())
    }
}

/// What a broker says of runs.
#[derive(Clone)]
pub(crate) struct Runs(RunsClient<Channel>);

impl Runs {
    pub(crate) fn at(broker: SocketAddr) -> Self {
        let channel = Channel::from_shared(format!("http://{broker}")).unwrap().connect_lazy();
        Self(RunsClient::new(channel))
    }

    pub(crate) fn client(&self) -> RunsClient<Channel> {
        self.0.clone()
    }

    /// Until so many nodes wait for steps.
    pub(crate) async fn until_offered(&self, nodes: usize) {
        let asking = async {
            let mut offered = 0;
            while offered != nodes {
                let request = wire::ListRunnersRequest::default();
                // The first node makes the workspace.
                if let Ok(listed) = self.client().list_runners(request).await {
                    offered = listed.into_inner().offers.len();
                }
                yield_now().await;
            }
        };
        soon(asking).await;
    }

    /// The newest first.
    pub(crate) async fn all(&self) -> Result<Vec<wire::Run>, Status> {
        let request = wire::ListRunsRequest { limit: 200, ..Default::default() };
        let listed = soon(self.client().list_runs(request)).await?.into_inner();
        assert!(!listed.has_more);
        Ok(listed.runs)
    }

    pub(crate) async fn get(&self, run_id: &str) -> Result<wire::Run, Status> {
        let request = wire::GetRunRequest { run_id: run_id.to_owned(), ..Default::default() };
        Ok(soon(self.client().get_run(request)).await?.into_inner().run.unwrap())
    }

    /// The only run that there is.
    pub(crate) async fn only(&self) -> wire::Run {
        let mut all = self.all().await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// A run once it is as `is_so` wants it.
    pub(crate) async fn until(
        &self,
        run_id: &str,
        is_so: impl Fn(&wire::Run) -> bool,
    ) -> wire::Run {
        let asking = async {
            loop {
                let run = self.get(run_id).await.unwrap();
                if is_so(&run) {
                    return run;
                }
            }
        };
        soon(asking).await
    }

    /// How a run ended.
    pub(crate) async fn end(&self, run_id: &str) -> RunStatus {
        self.until(run_id, |run| run.status() != RunStatus::Running).await.status()
    }

    /// What sub-agents asked and told.
    pub(crate) async fn messages(&self, run_id: &str) -> Vec<wire::RunMessage> {
        let request =
            wire::ListRunMessagesRequest { run_id: run_id.to_owned(), ..Default::default() };
        soon(self.client().list_run_messages(request)).await.unwrap().into_inner().messages
    }
}
