//! The real binary as a child, and callers that drive it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tasuki_proto::{
    limits::WORKSPACE_DEFAULT,
    reason::Reason,
    wire::{
        self, directory_client::DirectoryClient, guard_client::GuardClient,
        turn_loop_client::TurnLoopClient,
    },
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::watch,
};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// Longer than anything here takes on a busy machine: past it the test has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Log lines kept of a child that talks much.
const LOG_LINES_MAX: usize = 2000;

/// What a test waits for, or a failure that says what did not come.
pub(crate) async fn soon<T>(what: &str, it: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, it).await {
        Ok(it) => it,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// A number from the environment, for longer runs and for running a seed again.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |it| it.parse().expect("a number"))
}

/// A seed that is new each time, unless it is set; printed, so that it can be set.
#[expect(clippy::print_stderr, reason = "a failing seed must be known")]
pub(crate) fn seed() -> u64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    let seed = setting("TASUKI_SEED", u32::from_le_bytes(bytes).into());
    eprintln!("TASUKI_SEED={seed}");
    seed
}

/// A running `tasuki-broker`; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: Arc<Mutex<Vec<String>>>,
    /// Log lines so far.
    pub(crate) logged: watch::Receiver<usize>,
    logging: tokio::task::JoinHandle<()>,
}

/// How a child ended, and its last words.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) log: String,
}

pub(crate) fn arguments(words: &[&str], data: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = words.iter().map(Into::into).collect();
    all.extend(["--data".into(), data.into()]);
    all
}

impl Process {
    pub(crate) fn spawn(arguments: &[OsString], environment: &[(&str, OsString)]) -> Self {
        Self::spawn_program(env!("CARGO_BIN_EXE_tasuki-broker"), arguments, environment)
    }

    /// Something else that becomes the broker.
    pub(crate) fn spawn_program(
        program: &str,
        arguments: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).env_remove("RUST_LOG");
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (count, logged) = watch::channel(0);
        let kept = Arc::clone(&log);
        let logging = tokio::spawn(async move {
            while let Ok(Some(line)) = errors.next_line().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < LOG_LINES_MAX || line.contains("panicked at") {
                    kept.push(line);
                }
                count.send_modify(|count| *count += 1);
            }
        });
        Self { child, lines, log, logged, logging }
    }

    /// `serve` on a free port.
    pub(crate) fn serve(data: &Path) -> Self {
        Self::spawn(&arguments(&["serve", "--listen", "127.0.0.1:0"], data), &[])
    }

    /// The same on a copy.
    pub(crate) fn serve_moved(data: &Path) -> Self {
        Self::spawn(&arguments(&["serve", "--moved", "--listen", "127.0.0.1:0"], data), &[])
    }

    /// A broker that serves, and where.
    pub(crate) async fn served(data: &Path) -> (Self, SocketAddr) {
        let mut broker = Self::serve(data);
        match broker.address().await {
            Some(address) => (broker, address),
            None => panic!("the broker does not start: {}", broker.log()),
        }
    }

    /// A line of its status in the kernel, e.g. `VmHWM`, in KiB.
    pub(crate) fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().split(' ').next().unwrap().parse().unwrap()
    }

    /// Its open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Where it listens; `None` when it ended before it did.
    pub(crate) async fn address(&mut self) -> Option<SocketAddr> {
        let line = self.line().await?;
        let url = line.strip_prefix("listening on http").unwrap();
        let rest = url.trim_start_matches('s').strip_prefix("://").unwrap();
        Some(rest.split(' ').next().unwrap().parse().unwrap())
    }

    /// What it says next; `None` when it ended.
    pub(crate) async fn line(&mut self) -> Option<String> {
        soon("the broker says something or ends", self.lines.next_line()).await.unwrap()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// kill -9.
    pub(crate) async fn kill(mut self) -> Ended {
        self.child.start_kill().unwrap();
        self.ended().await
    }

    /// `None` when it listens; then it is killed.
    pub(crate) async fn ended_or_listening(mut self) -> Option<Ended> {
        match self.address().await {
            Some(_) => {
                self.kill().await;
                None
            }
            None => Some(self.ended().await),
        }
    }

    pub(crate) async fn ended(mut self) -> Ended {
        let mut out = String::new();
        while let Ok(Some(line)) = soon("the broker ends", self.lines.next_line()).await {
            out += &line;
            out.push('\n');
        }
        let status = soon("the broker ends", self.child.wait()).await.unwrap();
        soon("its log ends", &mut self.logging).await.unwrap();
        Ended { code: status.code(), out, log: self.log() }
    }
}

impl Drop for Process {
    /// A panic ends only the call that led to it, so nothing else would show it: whatever a test
    /// does, none is reached.
    fn drop(&mut self) {
        let log = self.log();
        // What sled makes of damage is caught, and said as damage.
        let is_ours = |line: &str| line.contains("panicked at") && !line.contains("'sled-open'");
        assert!(std::thread::panicking() || !log.lines().any(is_ours), "{log}");
    }
}

/// Runs a command that ends by itself.
pub(crate) async fn run(words: &[&str], data: &Path) -> Ended {
    Process::spawn(&arguments(words, data), &[]).ended().await
}

/// `verify`, which must find everything whole.
pub(crate) async fn assert_whole(data: &Path) {
    let verified = run(&["verify"], data).await;
    assert_eq!(verified.code, Some(0), "{}", verified.log);
}

pub(crate) fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.tcp_nodelay(true).connect_timeout(PATIENCE).connect_lazy()
}

pub(crate) fn turns(address: SocketAddr) -> TurnLoopClient<Channel> {
    TurnLoopClient::new(channel(address))
}

pub(crate) fn caller(workspace: &str) -> Option<wire::Caller> {
    Some(wire::Caller { workspace: workspace.to_owned(), ..wire::Caller::default() })
}

/// Lets agents go on in a workspace for as long as they like.
pub(crate) async fn without_limits(address: SocketAddr, workspace: &str) {
    let request = wire::SetLimitsRequest {
        caller: caller(workspace),
        key: key("limits", 1),
        person: "tester".to_owned(),
        max_turns: Some(0),
        max_hops: Some(0),
        ..wire::SetLimitsRequest::default()
    };
    GuardClient::new(channel(address)).set_limits(request).await.unwrap();
}

/// Makes a workspace, as a node does that registers in it.
pub(crate) async fn make(channel: Channel, workspace: &str, client: &str) -> Result<(), Status> {
    let request = wire::RegisterRequest {
        caller: caller(workspace),
        key: key(&format!("{client}-node"), 1),
        node: "maker".to_owned(),
        ..Default::default()
    };
    DirectoryClient::new(channel).register(request).await.map(drop)
}

pub(crate) fn key(client: &str, counter: u64) -> Option<wire::IdempotencyKey> {
    Some(wire::IdempotencyKey { client_id: client.to_owned(), counter })
}

pub(crate) fn reason(status: &Status) -> &'static str {
    Reason::of(status).map_or("none", Reason::as_str)
}

/// Whether the same request under the same key is to be sent again.
pub(crate) fn is_broken(status: &Status) -> bool {
    matches!(Reason::of(status), None | Some(Reason::Unavailable | Reason::OutcomeUnknown))
}

/// A loop: its workspace and its name.
pub(crate) type Line = (String, String);

/// All of a loop's history, page by page.
pub(crate) async fn history(
    turns: &mut TurnLoopClient<Channel>,
    (workspace, name): &Line,
) -> Result<Vec<wire::Entry>, Status> {
    let mut entries = Vec::new();
    let mut from = 1;
    while from != 0 {
        let request = wire::HistoryRequest {
            caller: caller(workspace),
            r#loop: name.clone(),
            from,
            limit: 0,
        };
        let page = turns.history(request).await?.into_inner();
        entries.extend(page.entries);
        from = page.next;
    }
    Ok(entries)
}

/// Plays both sides of a loop, one handover after the other, and knows what was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Player {
    pub(crate) line: Line,
    /// Handovers acknowledged: turns 1 to this.
    pub(crate) acknowledged: u64,
}

impl Player {
    pub(crate) fn new(workspace: &str, name: &str) -> Self {
        Self { line: (workspace.to_owned(), name.to_owned()), acknowledged: 0 }
    }

    fn client(&self) -> String {
        format!("{}-{}", self.line.0, self.line.1)
    }

    pub(crate) fn role(turn: u64) -> &'static str {
        if turn % 2 == 1 { "A" } else { "B" }
    }

    /// From 100 bytes to some 50 KiB, by the turn.
    pub(crate) fn summary(&self, turn: u64) -> String {
        let bytes = if turn % 16 == 3 { turn * 7919 % 50_000 } else { turn * 31 % 400 };
        let (workspace, name) = &self.line;
        let fill = "0123456789 ".chars().cycle().take(100 + usize::try_from(bytes).unwrap());
        format!("{workspace} {name} {turn}: {}", fill.collect::<String>())
    }

    pub(crate) fn handover(&self, turn: u64) -> wire::HandOverRequest {
        wire::HandOverRequest {
            caller: caller(&self.line.0),
            // The first number names the creation of the loop.
            key: key(&self.client(), turn + 1),
            r#loop: self.line.1.clone(),
            role: Self::role(turn).to_owned(),
            summary: self.summary(turn),
            instruction: format!("go on with {}", turn + 1),
            turn,
            ..wire::HandOverRequest::default()
        }
    }

    pub(crate) async fn create(&self, channel: Channel) -> Result<(), Status> {
        if self.line.0 != WORKSPACE_DEFAULT {
            make(channel.clone(), &self.line.0, &self.client()).await?;
        }
        let request = wire::CreateLoopRequest {
            caller: caller(&self.line.0),
            key: key(&self.client(), 1),
            r#loop: self.line.1.clone(),
            participants: vec!["A".to_owned(), "B".to_owned()],
            allow_new_roles: true,
        };
        TurnLoopClient::new(channel).create_loop(request).await.map(|_| ())
    }

    /// The next handover.
    pub(crate) async fn play(&mut self, turns: &mut TurnLoopClient<Channel>) -> Result<(), Status> {
        let turn = self.acknowledged + 1;
        let handed = turns.hand_over(self.handover(turn)).await?.into_inner();
        assert_eq!((handed.ended_turn, handed.turn), (turn, turn + 1), "{:?}", self.line);
        self.acknowledged = turn;
        Ok(())
    }

    /// What was acknowledged is there, once, in order, word for word; at most one handover more.
    pub(crate) async fn check(&self, turns: &mut TurnLoopClient<Channel>) -> Result<(), String> {
        self.check_until(turns, None).await
    }

    /// The same of data that was restored with so many entries: the turn after them has a number
    /// that nobody had.
    pub(crate) async fn check_until(
        &self,
        turns: &mut TurnLoopClient<Channel>,
        restored: Option<u64>,
    ) -> Result<(), String> {
        let entries = match history(turns, &self.line).await {
            Ok(entries) => entries,
            Err(status)
                if ["unknown_loop", "unknown_workspace"].contains(&reason(&status))
                    && self.acknowledged == 0 =>
            {
                return Ok(());
            }
            Err(status) => return Err(format!("{:?}: {}", self.line, status.message())),
        };
        for (at, entry) in (1..).zip(&entries) {
            let next = if restored == Some(at) { entry.turn.max(at + 2) } else { at + 1 };
            let found = (entry.number, entry.ended_turn, entry.turn, entry.from.as_str());
            let is_it = found == (at, at, next, Self::role(at))
                && entry.summary == self.summary(at)
                && entry.instruction == format!("go on with {}", at + 1);
            if !is_it {
                return Err(format!("{:?}: at {at} found {entry:?}", self.line));
            }
        }
        let count = entries.len() as u64;
        if count < self.acknowledged || self.acknowledged + 1 < count {
            let Self { line, acknowledged } = self;
            return Err(format!("{line:?}: {count} entries, {acknowledged} were acknowledged"));
        }
        Ok(())
    }
}

/// Plays all loops at once until the broker is gone or `enough` handovers were acknowledged by
/// all of them together; then `then` is called, once.
pub(crate) async fn play_all(
    address: SocketAddr,
    players: &mut BTreeMap<Line, Player>,
    enough: u64,
    then: impl FnOnce(),
) {
    let (count, mut acks) = watch::channel(0_u64);
    let mut playing = tokio::task::JoinSet::new();
    for mut player in players.values().cloned() {
        let count = count.clone();
        playing.spawn(async move {
            let mut turns = turns(address);
            let created = player.create(channel(address)).await;
            let mut gone = created.err();
            while gone.is_none() {
                match player.play(&mut turns).await {
                    Ok(()) => count.send_modify(|count| *count += 1),
                    Err(status) => gone = Some(status),
                }
            }
            let status = gone.expect("it was not gone before");
            assert!(is_broken(&status), "{status:?}");
            player
        });
    }
    drop(count);
    // Closed: the broker went before it had acknowledged so much.
    let _ = soon("acknowledgements", acks.wait_for(|count| enough <= *count)).await;
    then();
    while let Some(player) = soon("the players end", playing.join_next()).await {
        let player = player.unwrap();
        players.insert(player.line.clone(), player);
    }
}

pub(crate) fn players(workspaces: &[&str], loops: u64) -> BTreeMap<Line, Player> {
    let mut players = BTreeMap::new();
    for workspace in workspaces {
        for number in 0..loops {
            let player = Player::new(workspace, &format!("loop-{number}"));
            players.insert(player.line.clone(), player);
        }
    }
    players
}

/// Every player's history, against a broker that runs.
pub(crate) async fn check_all(
    address: SocketAddr,
    players: &BTreeMap<Line, Player>,
) -> Result<(), String> {
    let mut turns = turns(address);
    for player in players.values() {
        soon("a history", player.check(&mut turns)).await?;
    }
    Ok(())
}
