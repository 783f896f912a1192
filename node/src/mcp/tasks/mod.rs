//! Waits that answer at once with a task, for clients that can be woken by one: the extension
//! `io.modelcontextprotocol/tasks` of MCP 2026-07-28.
//!
//! A task is not stored. Its id says what was asked ([`seal`]), what becomes of it is told from
//! what the broker says when it is asked about ([`rules`]), so it outlives the node's process and
//! the broker's. [`memory`] is courtesy; [`waits`] shows others that the role waits.
//!
//! - **TK2** A task can be asked about only by the role and instance it was made for, with the same
//!   token, at an address that serves the role; to all others it is unknown, as one that never was.
//! - **TK3** What a task says of its state is always the same few words, with a run's id at most;
//!   words of other agents are in its result alone.

mod memory;
mod rules;
mod seal;
mod server_task;
mod waits;

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    ErrorData,
    model::{
        CallToolResult, CreateTaskResult, DetailedTask, Implementation, JsonObject, Task,
        TaskPayload, TaskStatus,
    },
};
use tasuki_proto::id::InstanceId;

pub use self::seal::TaskKey;
use self::{
    memory::Memory,
    rules::{Verdict, Word, verdict},
    seal::{Asked, TTL_MS},
    waits::Waits,
};
pub(super) use self::{seal::may_be_sealed, server_task::ServerTask};
use super::{
    host::{Host, Scope},
    instances::Playing,
    question::{About, Asking, Looked, Question, What},
    tools::{Call, end_run, refused, time},
    transport::write_ack::WriteAck,
};
use crate::{clock, role::player::Instance, runs::client::RunCaller, wait::RunAwaited};

/// Between two polls of one client, in milliseconds: how late it may learn that its turn came.
const POLL_INTERVAL_MS: u64 = 1_000;

/// Asked under another name than the task was made for, or never made: the same answer.
const UNKNOWN: &str = "there is no such task";

#[derive(Debug)]
pub(super) struct Tasks {
    key: TaskKey,
    memory: Mutex<Memory>,
    waits: Waits,
}

/// Who asks about a task, and where.
pub(super) struct Asker<'a> {
    pub host: &'a Host,
    pub scope: &'a Scope,
    /// Which agent asks, of those that may play the role.
    pub who: Instance,
    pub client: Option<&'a Implementation>,
}

impl Asker<'_> {
    /// What a task stands for, if it is this asker's to ask.
    fn asking(&self, asked: &Asked) -> Option<Asking> {
        let Question { role, what } = &asked.question;
        let actions = self.host.roles.get(role)?;
        let is_here = match (self.scope, what) {
            (Scope::One(own), What::Turn(_) | What::Swarm(_) | What::Board(_) | What::Run(_)) => {
                own.role() == role
            }
            // An address speaks for the others of the node too, where its token does, and an id
            // opens with no other token than the one it was made with.
            (Scope::One(_), What::Mail(_))
            | (
                Scope::All,
                What::Turn(_) | What::Mail(_) | What::Swarm(_) | What::Board(_) | What::Run(_),
            ) => true,
            // Neither has waits of its own.
            (Scope::Step(_) | Scope::Server(..), _) => false,
        };
        if !is_here || name(&self.who) != asked.instance {
            return None;
        }
        let about = match what {
            What::Turn(loop_id) => About::Turn(loop_id.clone()),
            What::Mail(filter) => {
                let acks = self.host.in_flight_acks.get(role)?.clone();
                About::Mail { filter: filter.clone(), acks }
            }
            What::Swarm(awaited) => {
                let acks = self.host.in_flight_acks.get(role)?.clone();
                About::Swarm { awaited: awaited.clone(), acks }
            }
            What::Board(awaited) => About::Board(awaited.clone()),
            What::Run(RunAwaited::Run { run, .. }) => {
                let client = self.host.runs.as_ref()?.client(RunCaller::Role(role.clone()));
                About::Run { run: *run, client, is_foreground: asked.is_foreground }
            }
            // No role waits for these.
            What::Run(RunAwaited::Reply { .. } | RunAwaited::Steps(_)) => return None,
        };
        Some(Asking { actions: Arc::clone(actions), about })
    }
}

impl Tasks {
    /// Without a key, tasks end with this process.
    pub(super) fn new(key: Option<TaskKey>) -> Self {
        let key = key.unwrap_or_else(TaskKey::of_process);
        Self { key, memory: Mutex::default(), waits: Waits::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// A wait begins that no task stands for: the role's older tasks end.
    pub(super) fn supersede(&self, question: &Question) {
        self.memory().begin(question, clock::steady_ms());
        self.waits.end(question);
    }

    /// Makes a task for a wait that has no answer yet, for at most `at_most`.
    pub(super) fn create(
        &self,
        call: &Call<'_>,
        asking: Asking,
        playing: Playing,
        at_most: Option<Duration>,
    ) -> Result<CreateTaskResult, getrandom::Error> {
        let question = asking.question();
        let nonce = getrandom::u64()?.to_le_bytes();
        let created_ms = self.memory().begin(&question, clock::steady_ms());
        let within = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        let asked = Asked {
            question,
            instance: name(&call.who).to_owned(),
            created_ms,
            until_ms: at_most.map_or(0, |it| created_ms.saturating_add(within(it))),
            is_foreground: matches!(asking.about, About::Run { is_foreground: true, .. }),
        };
        let waiting = asking.words().waiting;
        self.waits.park(asking, playing, call.host.stopping.clone());
        let id = asked.seal(&self.key.of(call.who.token()), nonce);
        Ok(CreateTaskResult::new(task(&id, &asked, TaskStatus::Working, waiting)))
    }

    /// The id by which an agent asks about the task of another MCP server.
    pub(super) fn id_of_server(&self, task: &ServerTask, who: &Instance) -> Option<String> {
        task.seal(&self.key.of(who.token()), name(who), getrandom::u64().ok()?.to_le_bytes())
    }

    /// The server's task that an id stands for, if it is this asker's to ask about.
    pub(super) fn of_server(&self, id: &str, asker: &Asker<'_>) -> Option<ServerTask> {
        let task = ServerTask::open(&self.key.of(asker.who.token()), id, name(&asker.who))?;
        asker.scope.roles(asker.host).contains(&&task.role).then_some(task)
    }

    /// How a task stands.
    pub(super) async fn get(
        self: &Arc<Self>,
        id: &str,
        asker: &Asker<'_>,
        probe: Option<&WriteAck>,
    ) -> Result<DetailedTask, ErrorData> {
        let (asked, asking) = self.open(id, asker)?;
        if let Some(end) = self.memory().end(id) {
            return Ok(DetailedTask::clone(&end));
        }
        let (actions, words) = (&asking.actions, asking.words());
        asker.host.waker.polled(actions.role());
        if self.is_superseded(&asked) {
            return Ok(self.cancelled(id, &asked, words.superseded));
        }
        let Ok(playing) = asker.host.enter(&**actions, &asker.who, asker.client) else {
            return Ok(self.cancelled(id, &asked, LOST));
        };
        let admitted = asker.host.admit(actions.role());
        let is_over = asked.until_ms != 0 && asked.until_ms <= clock::steady_ms();
        let working = || detailed(id, &asked, words.waiting, TaskPayload::Working);
        if admitted.is_err() || (!is_over && self.waits.is_parked(&asked.question)) {
            return Ok(working());
        }
        let looked = asking.look(&asker.host.stopping).await;
        let newest_ms = self.memory().heard_of(&asked.question, asked.created_ms);
        match verdict(word(&looked), asked.created_ms, newest_ms, is_over) {
            Verdict::Working => {
                let stopping = asker.host.stopping.clone();
                let working = working();
                self.waits.park(asking, playing, stopping);
                Ok(working)
            }
            Verdict::Cancelled => Ok(self.cancelled(id, &asked, words.superseded)),
            Verdict::Completed => {
                self.waits.end(&asked.question);
                Ok(self.completed(id, &asked, &asking, looked, probe).await)
            }
        }
    }

    /// Takes note that nobody waits for a task any more, and ends the run that its call started. A
    /// task that has ended stays as it is, and so does the run of one that a newer wait superseded.
    pub(super) fn cancel(&self, id: &str, asker: &Asker<'_>) -> Result<(), ErrorData> {
        let (asked, asking) = self.open(id, asker)?;
        if self.memory().end(id).is_none() {
            let is_newest = !self.is_superseded(&asked);
            if is_newest {
                self.waits.end(&asked.question);
            }
            let what_becomes_of_it = match asking.about {
                About::Run { run, client, is_foreground: true } if is_newest => {
                    end_run(client, run);
                    format!(" Run {run} is being canceled.")
                }
                About::Run { run, .. } => format!(" The run goes on; run_cancel {run} ends it."),
                About::Turn(_) | About::Mail { .. } | About::Swarm { .. } | About::Board(_) => {
                    String::new()
                }
            };
            self.cancelled(id, &asked, &format!("{CANCELLED}{what_becomes_of_it}"));
        }
        Ok(())
    }

    /// Takes what a client says to a task; nothing is ever asked of it, so nothing changes.
    pub(super) fn update(&self, id: &str, asker: &Asker<'_>) -> Result<(), ErrorData> {
        self.open(id, asker).map(|_| ())
    }

    fn open(&self, id: &str, asker: &Asker<'_>) -> Result<(Asked, Asking), ErrorData> {
        let key = self.key.of(asker.who.token());
        let asked = Asked::open(&key, id, clock::steady_ms());
        let opened = asked.and_then(|asked| {
            let asking = asker.asking(&asked)?;
            Some((asked, asking))
        });
        opened.ok_or_else(|| ErrorData::invalid_params(UNKNOWN, None))
    }

    fn is_superseded(&self, asked: &Asked) -> bool {
        asked.created_ms < self.memory().heard_of(&asked.question, asked.created_ms)
    }

    fn cancelled(&self, id: &str, asked: &Asked, why: &str) -> DetailedTask {
        let end = Arc::new(detailed(id, asked, why, TaskPayload::Cancelled));
        self.memory().told(id, &end, id.len());
        DetailedTask::clone(&end)
    }

    /// What the tool would have answered, and what holds once it is written.
    async fn completed(
        self: &Arc<Self>,
        id: &str,
        asked: &Asked,
        asking: &Asking,
        looked: Looked,
        probe: Option<&WriteAck>,
    ) -> DetailedTask {
        let result = match looked {
            Looked::Told(answer) => asking.given(&answer, probe).await,
            Looked::Refused(refusal) => refused(&refusal),
            Looked::Unanswered => asking.given(&asking.unanswered(), probe).await,
        };
        let (result, bytes) = object(&result);
        let end = Arc::new(detailed(id, asked, OVER, TaskPayload::Completed { result }));
        if let Some(probe) = probe {
            let (tasks, id, told) = (Arc::clone(self), id.to_owned(), Arc::clone(&end));
            probe.then(move || tasks.memory().told(&id, &told, bytes));
        }
        DetailedTask::clone(&end)
    }
}

const OVER: &str = "The wait is over.";
const CANCELLED: &str = "Cancelled by its client.";

/// An agent that polls for a role it lost learns of it, as one that is held does.
const LOST: &str = "Another agent plays this role now. No action is needed.";

/// Empty: it did not say.
fn name(who: &Instance) -> &str {
    who.id().map_or("", InstanceId::as_str)
}

fn word(looked: &Looked) -> Word {
    match looked {
        Looked::Told(answer) if answer.is_ready() => Word::Ready,
        Looked::Told(_) => Word::NotYet,
        Looked::Refused(_) => Word::Refused,
        Looked::Unanswered => Word::Silence,
    }
}

fn task(id: &str, asked: &Asked, status: TaskStatus, message: &str) -> Task {
    let updated_ms = match status.is_terminal() {
        true => clock::steady_ms().max(asked.created_ms),
        false => asked.created_ms,
    };
    Task::new(id, status, time(asked.created_ms), time(updated_ms))
        .with_status_message(message)
        .with_ttl_ms(TTL_MS)
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

fn detailed(id: &str, asked: &Asked, message: &str, payload: TaskPayload) -> DetailedTask {
    DetailedTask::new(task(id, asked, payload.status(), message), payload)
}

/// A tool's result as a task carries it, and its size in bytes of JSON.
fn object(result: &CallToolResult) -> (JsonObject, usize) {
    let json = serde_json::to_vec(result).unwrap_or_default();
    (serde_json::from_slice(&json).unwrap_or_default(), json.len())
}
