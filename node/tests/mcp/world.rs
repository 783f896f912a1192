//! Roles that play a loop without a broker, and a server for them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tasuki_node::{
    clock::{Clock, Moment},
    link::{AnyRequest, AnyResponse, LinkState, Moving, Sent},
    mcp::{Settings, serve},
    outbox::{Counts, Summary, Untold},
    role::{
        Actions, Connected, NodeStatus, Overview, Refusal, Seen, Settling, news::News,
        player::Instance,
    },
    wait::{Answer, Question},
};
use tasuki_proto::{
    id::{IdempotencyKey, LoopId, RoleId, Turn},
    mail::MessageId,
    reason::Reason,
    swarm::IssueId,
    wire::{self, event::Noun, turn_event::Kind},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Fails a test that would hang.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time")
}

/// Time, as the tests move it on.
#[derive(Clone, Default)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn pass(&self, secs: u64) {
        self.0.fetch_add(secs * 1000, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || Moment::from_millis(now.load(Ordering::SeqCst)))
    }
}

/// What is true of the one loop there is.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) turn: u64,
    pub(crate) holder: String,
    pub(crate) is_finished: bool,
    pub(crate) latest: Option<wire::Entry>,
    pub(crate) reclaim: Option<wire::Entry>,
    pub(crate) handed: Vec<u64>,
    pub(crate) waiting: usize,
    pub(crate) connected: usize,
    pub(crate) clients: Vec<String>,
    /// The hold each wait came with, in seconds.
    pub(crate) holds: Vec<f64>,
    /// Nothing is answered but that the broker is away.
    pub(crate) is_away: bool,
    /// Questions that did not wait.
    pub(crate) looks: usize,
    /// By role.
    newest_wait: BTreeMap<String, u64>,
}

/// The loop `main`, other loops by name, and what is told of them.
#[derive(Debug)]
pub(crate) struct Loop(
    pub(crate) watch::Sender<State>,
    pub(crate) News,
    Mutex<Vec<(String, Vec<String>)>>,
);

impl Loop {
    pub(crate) fn new() -> Arc<Self> {
        let state = State { turn: 1, holder: "A".to_owned(), ..State::default() };
        let news = News::default();
        // Told of as from a broker that is there.
        news.begin(true);
        Arc::new(Self(watch::Sender::new(state), news, Mutex::default()))
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) -> State {
        let mut states = self.0.subscribe();
        let waited =
            tokio::time::timeout(Duration::from_secs(20), states.wait_for(|state| is_so(state)));
        match waited.await {
            Ok(state) => state.unwrap().clone(),
            Err(_) => panic!("never {what}: {:?}", self.0.borrow()),
        }
    }

    /// Tells of an event.
    pub(crate) fn tell(&self, kind: Kind) {
        let noun = Noun::Turn(wire::TurnEvent { kind: Some(kind) });
        let events = vec![wire::Event { noun: Some(noun) }];
        self.1.take(&wire::FeedItem { events, ..Default::default() });
    }

    pub(crate) fn open(&self, name: &str, participants: &[&str]) {
        let participants: Vec<String> = participants.iter().map(ToString::to_string).collect();
        self.2.lock().unwrap().push((name.to_owned(), participants.clone()));
        self.tell(Kind::LoopOpened(wire::LoopOpened { r#loop: name.to_owned(), participants }));
    }

    fn of(&self, name: &str) -> Option<wire::GetLoopResponse> {
        let participants = match name {
            "main" => vec!["A".to_owned(), "B".to_owned()],
            _ => self.2.lock().unwrap().iter().find(|it| it.0 == name)?.1.clone(),
        };
        let state = self.0.borrow().clone();
        // A reclaim is the latest entry, and the words are in the one before.
        let (latest, words) = match state.reclaim {
            Some(reclaim) => (Some(reclaim), state.latest),
            None => (state.latest, None),
        };
        let status = match state.is_finished {
            true => wire::LoopStatus::Completed,
            false => wire::LoopStatus::Working,
        };
        Some(wire::GetLoopResponse {
            r#loop: Some(wire::Loop {
                r#loop: name.to_owned(),
                participants,
                round: 1,
                turn: state.turn,
                status: status.into(),
                holder: state.holder,
                ..Default::default()
            }),
            latest,
            words,
        })
    }

    /// Until as many follow what changes.
    pub(crate) async fn followed_by(&self, count: usize) {
        let mut followers = self.1.followers();
        let waited = soon(followers.wait_for(|now| *now == count)).await;
        drop(waited.unwrap());
    }

    pub(crate) fn give_to(&self, holder: &str, entry: wire::Entry) {
        self.0.send_modify(|state| {
            state.turn += 1;
            state.holder = holder.to_owned();
            // A reclaim has no words; whose words hold stays as it was.
            if entry.kind() == wire::EntryKind::Reclaim {
                state.reclaim = Some(entry);
            } else {
                state.reclaim = None;
                state.latest = Some(entry);
            }
        });
        let handed = wire::HandedOver { r#loop: "main".to_owned(), ..Default::default() };
        self.tell(Kind::HandedOver(handed));
    }
}

/// What one who only looks sees.
#[derive(Debug)]
struct View(Arc<Loop>);

#[async_trait]
impl Overview for View {
    async fn loops(&self) -> Result<Seen<wire::ListLoopsResponse>, Refusal> {
        let others = self.0.2.lock().unwrap().iter().map(|it| it.0.clone()).collect::<Vec<_>>();
        let names = std::iter::once("main").chain(others.iter().map(String::as_str));
        let mut loops: Vec<_> = names.filter_map(|name| self.0.of(name)?.r#loop).collect();
        loops.sort_by(|a, b| a.r#loop.cmp(&b.r#loop));
        Ok(Seen::now(wire::ListLoopsResponse { loops, next: String::new() }))
    }

    async fn look(&self, loop_id: &LoopId) -> Result<Seen<wire::GetLoopResponse>, Refusal> {
        self.0.of(loop_id.as_str()).map(Seen::now).ok_or_else(|| Refusal {
            reason: Reason::UnknownLoop,
            message: format!("there is no loop {loop_id}"),
        })
    }

    fn at_a_glance(&self) -> NodeStatus {
        let loops = wire::ListLoopsResponse {
            loops: self.0.of("main").and_then(|of| of.r#loop).into_iter().collect(),
            next: String::new(),
        };
        let ago = Duration::from_secs(42);
        NodeStatus {
            broker: "https://broker:7420".to_owned(),
            link: LinkState::down("the cable is out", 1_000),
            outbox: Counts { queued: 2, failed: 1 },
            loops: Some(Seen { what: loops, ago: Some(ago) }),
        }
    }

    fn outbox(&self) -> Vec<Summary> {
        Vec::new()
    }

    async fn settle(&self, number: u64, _how: Settling) -> Result<bool, Refusal> {
        Ok(number == 1)
    }

    fn news(&self) -> &News {
        &self.0.1
    }
}

#[derive(Debug)]
struct Fake {
    role: RoleId,
    shared: Arc<Loop>,
    mail: Option<Arc<dyn Mailbox>>,
}

/// A role's mail. What can be looked up has no method of its own.
#[async_trait]
pub(crate) trait Mailbox: std::fmt::Debug + Send + Sync + 'static {
    async fn call(&self, request: AnyRequest) -> Result<Seen<AnyResponse>, Refusal>;

    async fn wait(&self, question: Question, hold: Duration) -> Result<Answer, Refusal>;

    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal>;

    async fn move_mail(&self, request: wire::MoveRequest) -> Result<Moving, Refusal>;

    fn put_attachment(&self) -> Result<(), Refusal>;

    fn get_attachment(&self, attachment: &wire::Attachment) -> Result<Bytes, Refusal>;

    fn untold(&self, max: usize) -> Untold;

    fn kept(&self, names: &[String]) -> Vec<Summary>;

    fn mark_told(&self, told: Untold);

    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark);
}

struct Counted(Arc<Loop>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.waiting -= 1);
    }
}

/// A connection that is open until dropped.
struct CountedConnection(Arc<Loop>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.connected -= 1);
    }
}

impl Fake {
    fn mailbox(&self) -> &dyn Mailbox {
        self.mail.as_deref().expect("nothing here asks for mail")
    }

    async fn await_turn(
        &self,
        loop_id: &LoopId,
        hold: Duration,
    ) -> Result<wire::TurnAnswer, Refusal> {
        if loop_id.as_str() != "main" {
            let message = format!("there is no loop {loop_id}");
            return Err(Refusal { reason: Reason::UnknownLoop, message });
        }
        if self.shared.0.borrow().is_away {
            let message = "the broker is away".to_owned();
            return Err(Refusal { reason: Reason::Unavailable, message });
        }
        let is_look = hold.is_zero();
        let mut number = 0;
        self.shared.0.send_modify(|state| {
            state.waiting += 1;
            let newest = state.newest_wait.entry(self.role.to_string()).or_default();
            *newest += u64::from(!is_look);
            number = *newest;
            state.looks += usize::from(is_look);
            state.holds.push(hold.as_secs_f64());
        });
        let _counted = Counted(Arc::clone(&self.shared));
        let mut states = self.shared.0.subscribe();
        let is_newest = |state: &State| state.newest_wait[self.role.as_str()] == number;
        let is_mine = |state: &State| state.is_finished || state.holder == self.role.as_str();
        let woken = tokio::time::timeout(
            hold,
            states.wait_for(|state| is_mine(state) || !is_newest(state)),
        )
        .await;
        let state = match woken {
            Ok(state) => state.unwrap().clone(),
            Err(_) => self.shared.0.borrow().clone(),
        };
        let can_start = is_mine(&state);
        Ok(wire::TurnAnswer {
            can_start: can_start && !state.is_finished,
            is_finished: state.is_finished,
            still_waiting: !can_start && is_newest(&state),
            superseded: !can_start && !is_newest(&state),
            r#loop: loop_id.to_string(),
            round: 1,
            turn: state.turn,
            holder: state.holder,
            latest: state.latest.filter(|_| can_start),
            reclaim: state.reclaim.filter(|_| can_start),
            ..Default::default()
        })
    }

    fn hand_over(
        &self,
        handover: wire::HandOverRequest,
    ) -> Result<wire::HandOverResponse, Refusal> {
        let state = self.shared.0.borrow().clone();
        if state.holder != self.role.as_str() {
            let message = format!("it is {}'s turn, not {}'s", state.holder, self.role);
            return Err(Refusal { reason: Reason::NotYourTurn, message });
        }
        let to = Some(handover.to).filter(|to| !to.is_empty()).unwrap_or_else(|| "B".to_owned());
        let entry = wire::Entry {
            kind: wire::EntryKind::Handover.into(),
            from: self.role.to_string(),
            to: to.clone(),
            summary: handover.summary,
            instruction: handover.instruction,
            ..Default::default()
        };
        if handover.is_task_complete {
            self.shared.0.send_modify(|state| {
                state.is_finished = true;
                state.latest = Some(entry);
            });
        } else {
            self.shared.give_to(&to, entry);
        }
        Ok(wire::HandOverResponse {
            ended_turn: state.turn,
            turn: if handover.is_task_complete { 0 } else { state.turn + 1 },
            to: if handover.is_task_complete { String::new() } else { to },
            is_finished: handover.is_task_complete,
            ..Default::default()
        })
    }

    fn loop_status(&self, loop_id: &str) -> wire::GetLoopResponse {
        let state = self.shared.0.borrow().clone();
        wire::GetLoopResponse {
            r#loop: Some(wire::Loop {
                r#loop: loop_id.to_string(),
                participants: vec!["A".to_owned(), "B".to_owned()],
                round: 1,
                turn: state.turn,
                status: wire::LoopStatus::Working.into(),
                holder: state.holder,
                ..Default::default()
            }),
            latest: state.latest,
            ..Default::default()
        }
    }
}

#[async_trait]
impl Actions for Fake {
    fn role(&self) -> &RoleId {
        &self.role
    }

    async fn call(
        &self,
        request: AnyRequest,
        _key: Option<IdempotencyKey>,
    ) -> Result<Seen<AnyResponse>, Refusal> {
        if let Some(handover) = request.downcast_ref::<wire::HandOverRequest>() {
            return Ok(Seen::now(Box::new(self.hand_over(handover.clone())?)));
        }
        if let Some(of) = request.downcast_ref::<wire::GetLoopRequest>() {
            return Ok(Seen::now(Box::new(self.loop_status(&of.r#loop))));
        }
        if request.call().path.contains("/tasuki.v1.Swarm/") {
            return Err(away());
        }
        self.mailbox().call(request).await
    }

    async fn wait(&self, question: Question, hold: Duration) -> Result<Answer, Refusal> {
        match question {
            Question::Turn(loop_id) => {
                Ok(Answer::Turn(Box::new(self.await_turn(&loop_id, hold).await?)))
            }
            Question::Mail(_) => self.mailbox().wait(question, hold).await,
            Question::Swarm(_) | Question::Board(_) | Question::Run(_) => Err(away()),
        }
    }

    fn open_waits(&self) -> usize {
        self.shared.0.borrow().waiting
    }

    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        self.mailbox().send(request, key).await
    }

    async fn move_mail(
        &self,
        request: wire::MoveRequest,
        _key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal> {
        self.mailbox().move_mail(request).await
    }

    async fn put_attachment(
        &self,
        _attachment: &wire::Attachment,
        _content: Bytes,
    ) -> Result<(), Refusal> {
        self.mailbox().put_attachment()
    }

    async fn get_attachment(
        &self,
        _message: &str,
        attachment: &wire::Attachment,
    ) -> Result<Bytes, Refusal> {
        self.mailbox().get_attachment(attachment)
    }

    async fn untold(&self, max: usize) -> Result<Untold, Refusal> {
        Ok(self.mailbox().untold(max))
    }

    async fn kept(&self, names: &[String]) -> Result<Vec<Summary>, Refusal> {
        Ok(self.mailbox().kept(names))
    }

    fn mark_told(&self, told: Untold) {
        self.mailbox().mark_told(told);
    }

    fn mark_handed(&self, _loop_id: &LoopId, turn: Turn) {
        self.shared.0.send_modify(|state| state.handed.push(turn.get()));
    }

    fn mark_seen(&self, _loop_id: &LoopId, _turn: Turn) {}

    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark) {
        self.mailbox().mark_mail(message, through, mark);
    }

    fn mark_item(&self, _issue: IssueId, _number: u64, _until: Box<dyn Send + Sync>) {}

    async fn marks_settled(&self) {}

    fn left(&self, _who: &Instance) {}

    fn called(&self, client: &str, _by: Option<&Instance>) {
        self.shared.0.send_modify(|state| state.clients.push(client.to_owned()));
    }

    fn given_to(&self, _who: &Instance) {}

    fn answers(&self, _is_answered: bool, _who: &Instance) {}

    fn connected(&self, _who: &Instance) -> Connected {
        self.shared.0.send_modify(|state| state.connected += 1);
        Connected::new(CountedConnection(Arc::clone(&self.shared)))
    }
}

/// A broker of issues is out of reach.
fn away() -> Refusal {
    let message = "the broker is away".to_owned();
    Refusal { reason: Reason::Unavailable, message }
}

/// A server for A and B, until dropped.
pub(crate) struct World {
    pub(crate) addr: SocketAddr,
    pub(crate) shared: Arc<Loop>,
    stop: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::start("127.0.0.1:0", Loop::new(), None).await
    }

    pub(crate) async fn start(addr: &str, shared: Arc<Loop>, sessions: Option<&Path>) -> Self {
        let settings =
            Settings { sessions_dir: sessions.map(Path::to_owned), ..Settings::default() };
        Self::with(addr, shared, settings).await
    }

    /// With tools for the loop alone, unless the settings say otherwise.
    pub(crate) async fn with(addr: &str, shared: Arc<Loop>, mut settings: Settings) -> Self {
        if settings.toolsets.is_empty() {
            let of_the_loop = |role: &str| (role.parse().unwrap(), vec!["loop".parse().unwrap()]);
            settings.toolsets = ["A", "B"].map(of_the_loop).into();
        }
        Self::with_mail(addr, shared, settings, |_| None).await
    }

    pub(crate) async fn with_mail(
        addr: &str,
        shared: Arc<Loop>,
        settings: Settings,
        mail: impl Fn(RoleId) -> Option<Arc<dyn Mailbox>>,
    ) -> Self {
        let roles = ["A", "B"]
            .map(|role| {
                let shared = Arc::clone(&shared);
                let role: RoleId = role.parse().unwrap();
                let mail = mail(role.clone());
                Arc::new(Fake { role, shared, mail }) as Arc<dyn Actions>
            })
            .to_vec();
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let overview: Arc<dyn Overview> = Arc::new(View(Arc::clone(&shared)));
        let settings = Settings { overview: Some(overview), ..settings };
        let running = tokio::spawn(serve(listener, roles, settings, stop.clone()));
        Self { addr, shared, stop, running }
    }

    /// Stops, and says how long that took.
    pub(crate) async fn stopped(mut self) -> Duration {
        let began = tokio::time::Instant::now();
        self.stop.cancel();
        soon(&mut self.running).await.unwrap().unwrap();
        began.elapsed()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
