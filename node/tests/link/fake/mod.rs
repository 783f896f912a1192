//! A broker of one loop and some mail, in memory, that can be killed, and that notes what it was told.

mod mailbox;
mod privacy;
pub(crate) mod proxy;

pub(crate) use self::mailbox::Mail;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    pin::Pin,
    time::Duration,
};

use tasuki_proto::{
    reason::Reason,
    wire::{
        self, directory_server, mailbox_server, park_request::Ask, park_response::Outcome,
        privacy_server, turn_loop_server, waits_server,
    },
};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, time};
use tokio_stream::{
    Stream,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Longer than anything here takes, on a machine that is busy.
const SOON: Duration = Duration::from_secs(20);

/// Between heartbeats, in milliseconds, unless a test says otherwise.
const HEARTBEAT_MS: u64 = 20;

/// Heartbeats that are remembered.
const HEARTBEATS_MAX: usize = 100;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) registrations: Vec<wire::RegisterRequest>,
    /// The epoch that is not stale.
    pub(crate) epoch: u64,
    pub(crate) epochs: u64,
    /// Another process that registered the same node.
    pub(crate) rival: Option<u64>,
    pub(crate) refuse_roles: bool,
    /// The highest counter of each client that registered.
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) heartbeats: VecDeque<wire::HeartbeatRequest>,
    pub(crate) holder: String,
    pub(crate) turn: u64,
    pub(crate) answers: BTreeMap<(String, u64), wire::HandOverResponse>,
    /// Keys of every handover that came in, repeats included.
    pub(crate) keys: Vec<(String, u64)>,
    pub(crate) parked: BTreeMap<(u64, u64), wire::TurnQuestion>,
    pub(crate) streams: u64,
    pub(crate) parks: u64,
    pub(crate) marks: Vec<wire::MarkTurnRequest>,
    /// Carries out and does not answer.
    pub(crate) is_mute: bool,
    /// Takes waits in and does not say that it does.
    pub(crate) opens_no_stream: bool,
    /// Waits that a newer one somewhere takes the place of, by number.
    pub(crate) superseded: Vec<u64>,
    /// Answers every wait as a broker that is stopping does.
    pub(crate) is_stopping: bool,
    /// What every call has to show.
    pub(crate) token: Option<String>,
    /// Calls that showed something else.
    pub(crate) strangers: u64,
    /// Between heartbeats, in milliseconds.
    pub(crate) heartbeat_ms: u64,
    /// The same from the next heartbeat on; 0 says nothing.
    pub(crate) next_heartbeat_ms: u64,
    pub(crate) mail: Mail,
}

/// The broker's process, so to speak: what it knows outlives it, as a journal would.
pub(crate) struct Fake {
    pub(crate) world: watch::Sender<World>,
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let world = World {
            holder: "A".to_owned(),
            turn: 1,
            heartbeat_ms: HEARTBEAT_MS,
            ..World::default()
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { world: watch::Sender::new(world), address, runtime: None }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn serve(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let service = Service(self.world.clone());
        let address = self.address;
        let at_the_door = service.clone();
        let guard = move |request: Request<()>| at_the_door.admit(request);
        runtime.spawn(async move {
            let listener = TcpListener::bind(address).await.expect("the port is free");
            Server::builder()
                .layer(tonic::service::InterceptorLayer::new(guard))
                .add_service(turn_loop_server::TurnLoopServer::new(service.clone()))
                .add_service(directory_server::DirectoryServer::new(service.clone()))
                .add_service(mailbox_server::MailboxServer::new(service.clone()))
                .add_service(privacy_server::PrivacyServer::new(service.clone()))
                .add_service(waits_server::WaitsServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .expect("served");
        });
        self.runtime = Some(runtime);
    }

    /// Ends every task and connection in the middle of whatever they do.
    pub(crate) async fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let end = move || runtime.shutdown_timeout(SOON);
            tokio::task::spawn_blocking(end).await.expect("ended");
        }
        self.world.send_modify(|world| {
            world.parked.clear();
            world.mail.parked.clear();
        });
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        self.world.send_modify(change);
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) -> World {
        let mut world = self.world.subscribe();
        let waited = time::timeout(SOON, world.wait_for(|world| holds(world))).await;
        let Ok(Ok(world)) = waited else {
            panic!("not in time: {what}; {:#?}", self.world.borrow());
        };
        world.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Clone)]
struct Service(watch::Sender<World>);

impl Service {
    fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        let mut answer = None;
        self.0.send_modify(|world| answer = Some(f(world)));
        answer.expect("called")
    }

    fn admit(&self, request: Request<()>) -> Result<Request<()>, Status> {
        self.with(|world| {
            let Some(token) = &world.token else { return Ok(request) };
            let shown = request.metadata().get("authorization");
            if shown.is_some_and(|shown| shown == format!("Bearer {token}").as_str()) {
                return Ok(request);
            }
            world.strangers += 1;
            Err(Reason::Unauthenticated.status("the token was revoked"))
        })
    }

    fn check(&self, caller: Option<wire::Caller>) -> Result<(), Status> {
        let epoch = self.0.borrow().epoch;
        if caller.unwrap_or_default().epoch == epoch {
            Ok(())
        } else {
            Err(Reason::StaleEpoch.status(format!("the epoch is {epoch}")))
        }
    }
}

#[tonic::async_trait]
impl directory_server::Directory for Service {
    async fn register(
        &self,
        request: Request<wire::RegisterRequest>,
    ) -> Result<Response<wire::RegisterResponse>, Status> {
        self.with(|world| {
            let request = request.into_inner();
            if world.refuse_roles && !request.take_over {
                return Err(Reason::RoleInUse.status(
                    "role A is hosted by node other, which is connected; stop it there, or start \
                     this one with --take-over",
                ));
            }
            let key = request.key.clone().unwrap_or_default();
            let newest = world.counters.entry(key.client_id).or_default();
            if key.counter <= *newest {
                return Err(Reason::KeyExpired.status("the key is too old"));
            }
            *newest = key.counter;
            world.registrations.push(request);
            world.epochs += 1;
            world.epoch = world.epochs;
            let heartbeat_ms = world.heartbeat_ms;
            let answer = wire::RegisterResponse { epoch: world.epoch, heartbeat_ms, sequence: 1 };
            Ok(Response::new(answer))
        })
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Result<Response<wire::HeartbeatResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        let heartbeat_ms = self.with(|world| {
            world.heartbeats.push_back(request);
            if HEARTBEATS_MAX < world.heartbeats.len() {
                world.heartbeats.pop_front();
            }
            world.next_heartbeat_ms
        });
        Ok(Response::new(wire::HeartbeatResponse { heartbeat_ms, ..Default::default() }))
    }

    async fn list_roles(
        &self,
        _: Request<wire::ListRolesRequest>,
    ) -> Result<Response<wire::ListRolesResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_nodes(
        &self,
        _: Request<wire::ListNodesRequest>,
    ) -> Result<Response<wire::ListNodesResponse>, Status> {
        let world = self.0.borrow().clone();
        let node = world.registrations.last().map(|r| r.node.clone()).unwrap_or_default();
        let rival = |epoch| wire::Node { node, epoch, is_present: true, ..wire::Node::default() };
        let nodes = world.rival.map(rival).into_iter().collect();
        Ok(Response::new(wire::ListNodesResponse { nodes, ..Default::default() }))
    }
}

#[tonic::async_trait]
impl turn_loop_server::TurnLoop for Service {
    async fn hand_over(
        &self,
        request: Request<wire::HandOverRequest>,
    ) -> Result<Response<wire::HandOverResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller)?;
        let key = request.key.expect("every command has a key");
        let key = (key.client_id, key.counter);
        let answer = self.with(|world| {
            world.keys.push(key.clone());
            if let Some(answer) = world.answers.get(&key) {
                return Ok(answer.clone());
            }
            if world.holder != request.role {
                return Err(Reason::NotYourTurn.status(format!("{} holds it", world.holder)));
            }
            world.holder = request.to;
            world.turn += 1;
            let answer = wire::HandOverResponse {
                ended_turn: world.turn - 1,
                turn: world.turn,
                to: world.holder.clone(),
                ..wire::HandOverResponse::default()
            };
            world.answers.insert(key, answer.clone());
            Ok(answer)
        })?;
        if self.0.borrow().is_mute {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(answer))
    }

    async fn get_loop(
        &self,
        request: Request<wire::GetLoopRequest>,
    ) -> Result<Response<wire::GetLoopResponse>, Status> {
        self.check(request.into_inner().caller)?;
        let world = self.0.borrow();
        let held = wire::Loop { holder: world.holder.clone(), ..wire::Loop::default() };
        Ok(Response::new(wire::GetLoopResponse { r#loop: Some(held), ..Default::default() }))
    }

    async fn mark_turn(
        &self,
        request: Request<wire::MarkTurnRequest>,
    ) -> Result<Response<wire::MarkTurnResponse>, Status> {
        let request = request.into_inner();
        self.check(request.caller.clone())?;
        self.with(|world| world.marks.push(request));
        Ok(Response::new(wire::MarkTurnResponse {}))
    }

    async fn create_loop(
        &self,
        _: Request<wire::CreateLoopRequest>,
    ) -> Result<Response<wire::CreateLoopResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn start_round(
        &self,
        _: Request<wire::StartRoundRequest>,
    ) -> Result<Response<wire::StartRoundResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn await_turn(
        &self,
        _: Request<wire::AwaitTurnRequest>,
    ) -> Result<Response<wire::AwaitTurnResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_loops(
        &self,
        _: Request<wire::ListLoopsRequest>,
    ) -> Result<Response<wire::ListLoopsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn pause_loop(
        &self,
        _: Request<wire::PauseLoopRequest>,
    ) -> Result<Response<wire::PauseLoopResponse>, Status> {
        Err(Status::unimplemented("pause"))
    }

    async fn resume_loop(
        &self,
        _: Request<wire::ResumeLoopRequest>,
    ) -> Result<Response<wire::ResumeLoopResponse>, Status> {
        Err(Status::unimplemented("resume"))
    }

    async fn reclaim(
        &self,
        _: Request<wire::ReclaimRequest>,
    ) -> Result<Response<wire::ReclaimResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn history(
        &self,
        _: Request<wire::HistoryRequest>,
    ) -> Result<Response<wire::HistoryResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl waits_server::Waits for Service {
    type ParkStream = Pin<Box<dyn Stream<Item = Result<wire::ParkResponse, Status>> + Send>>;

    async fn park(
        &self,
        request: Request<Streaming<wire::ParkRequest>>,
    ) -> Result<Response<Self::ParkStream>, Status> {
        let (answers, stream) = tokio::sync::mpsc::channel(64);
        let service = self.clone();
        let number = self.with(|world| {
            world.streams += 1;
            world.streams
        });
        tokio::spawn(async move {
            let mut asked = request.into_inner();
            let mut world = service.0.subscribe();
            loop {
                tokio::select! {
                    message = asked.message() => match message {
                        Ok(Some(request)) => {
                            if let Some(answer) = service.take(number, request)
                                && answers.send(Ok(answer)).await.is_err() { break }
                        }
                        Ok(None) | Err(_) => break,
                    },
                    _ = world.changed() => {}
                }
                let mail = service.due_mail(number);
                for answer in service.due(number).into_iter().chain(mail) {
                    if answers.send(Ok(answer)).await.is_err() {
                        break;
                    }
                }
            }
            service.with(|world| {
                world.parked.retain(|(stream, _), _| *stream != number);
                world.mail.parked.retain(|(stream, _), _| *stream != number);
            });
        });
        if self.0.borrow().opens_no_stream {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl Service {
    fn take(&self, stream: u64, request: wire::ParkRequest) -> Option<wire::ParkResponse> {
        let wait = request.wait;
        match request.ask? {
            Ask::Mail(question) => self.take_mail(stream, wait, question),
            // No node asks about issues, boards or runs.
            Ask::Swarm(_) => refused(wait, &Status::unimplemented("issues")),
            Ask::Run(_) => refused(wait, &Status::unimplemented("runs")),
            Ask::Board(_) => refused(wait, &Status::unimplemented("boards")),
            Ask::Decline(_) => None,
            Ask::Cancel(_) => {
                self.with(|world| {
                    world.parked.remove(&(stream, wait));
                    world.mail.parked.remove(&(stream, wait));
                });
                None
            }
            Ask::Turn(question) => {
                if let Err(status) = self.check(question.caller.clone()) {
                    return refused(wait, &status);
                }
                self.with(|world| {
                    world.parks += 1;
                    world.parked.insert((stream, wait), question);
                });
                None
            }
        }
    }

    /// Answers to the waits of a stream that need wait no longer.
    fn due(&self, stream: u64) -> Vec<wire::ParkResponse> {
        let world = self.0.borrow().clone();
        let is_superseded = |wait: u64| world.superseded.contains(&wait);
        let is_due = |question: &wire::TurnQuestion| {
            world.is_stopping || question.hold_ms == 0 || question.role == world.holder
        };
        let due: Vec<_> = world
            .parked
            .iter()
            .filter(|((of, wait), question)| {
                *of == stream && (is_due(question) || is_superseded(*wait))
            })
            .map(|((_, wait), question)| (*wait, question.clone()))
            .collect();
        if due.is_empty() {
            return Vec::new();
        }
        self.with(|world| {
            for (wait, _) in &due {
                world.parked.remove(&(stream, *wait));
            }
        });
        let answer = |(wait, question): (u64, wire::TurnQuestion)| {
            let can_start = question.role == world.holder;
            let answer = wire::TurnAnswer {
                can_start,
                still_waiting: !can_start,
                superseded: is_superseded(wait),
                turn: world.turn,
                holder: world.holder.clone(),
                ..wire::TurnAnswer::default()
            };
            wire::ParkResponse { wait, outcome: Some(Outcome::Turn(answer)) }
        };
        due.into_iter().map(answer).collect()
    }
}

fn refused(wait: u64, status: &Status) -> Option<wire::ParkResponse> {
    let reason = Reason::of(status)?.to_string();
    let message = status.message().to_owned();
    let outcome = Some(Outcome::Refusal(wire::Refusal { reason, message }));
    Some(wire::ParkResponse { wait, outcome })
}
