//! A call that waits, whatever for: held as long as its client allows, or answered with a task.

use std::{convert::Infallible, time::Duration};

use rmcp::model::{CallToolResponse, ProgressNotificationParam};
use serde::Serialize;
use tasuki_proto::{id::RoleId, reason::Reason, wire};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{Call, runs::progress_of, sanitizer::Sanitizer, view::is_nothing};
use crate::{
    mcp::{
        hold::{Ask, hold},
        instances::Playing,
        question::{About, Asking, Looked, OVERDUE_MS},
    },
    role::Refusal,
};

/// Between two signs of life during a wait, in milliseconds: a third of the shortest silence
/// that a client takes for death.
const PROGRESS_MS: u64 = 10_000;

/// Before the first of them, in milliseconds: it opens the response, but an answer that is
/// there at once needs none.
const PROGRESS_FIRST_MS: u64 = 200;

/// Between two of them that differ, in milliseconds: of what changes meanwhile the newest is told.
const PROGRESS_PAUSE_MS: u64 = 250;

/// What became of a held call.
pub(super) enum Held<T> {
    Answered(T),
    /// Another agent plays the role by now.
    Lost,
    /// The hold is over, the node stops, or nobody hears the answer any more.
    Over,
}

/// What `status` says in every tool that waits, where a wait ended without what it waited for. Runs
/// say how the run stands.
pub(super) const STILL_WAITING: &str = "still_waiting";
pub(super) const SUPERSEDED: &str = "superseded";

/// The same of an answer that has a field for each; `None`: it is what was waited for.
pub(super) const fn unmet(is_waiting: bool, is_superseded: bool) -> Option<&'static str> {
    match (is_waiting, is_superseded) {
        (_, true) => Some(SUPERSEDED),
        (true, false) => Some(STILL_WAITING),
        (false, false) => None,
    }
}

/// What an agent is told whose wait a newer one took the place of.
pub(super) fn superseded(role: &RoleId) -> String {
    format!("Superseded: another call or agent is waiting as {role}. Do not call again.")
}

/// That what an agent waits for does not come before a person acts, as results say it.
#[derive(Debug, Default, Serialize)]
pub(super) struct PauseView {
    #[serde(skip_serializing_if = "is_nothing")]
    pub paused: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub paused_because: String,
}

impl PauseView {
    /// Why a loop is paused: a clause about it.
    pub(super) fn of_loop(pause: Option<&wire::Pause>, others: &mut Sanitizer) -> Self {
        Self::new(pause.map(|it| others.line(&it.reason)))
    }

    /// Why the role that waits is: a sentence about it.
    pub(super) fn of_role(
        role: &RoleId,
        pause: Option<&wire::RolePause>,
        others: &mut Sanitizer,
    ) -> Self {
        Self::new(pause.map(|it| format!("{role} {}", others.line(&it.reason))))
    }

    fn new(because: Option<String>) -> Self {
        Self { paused: because.is_some(), paused_because: because.unwrap_or_default() }
    }
}

/// What prompts and instructions say of pauses, wherever a call may be answered with one.
pub(in crate::mcp) const PAUSED: &str = "On paused, tell your user and end your turn.";

/// What an agent does whose role or loop is paused: nothing, so that its user hears of it.
fn paused(what: &str, command: &str) -> String {
    format!(
        "{what} is paused until a person resumes it with `{command}`. Tell your user why and end \
         your turn; do not call again until then."
    )
}

pub(super) fn loop_paused(loop_id: &str) -> String {
    paused("The loop", &format!("tasuki loop resume {loop_id}"))
}

/// What a role that waits is told in place of calling again. `None`: it is not paused.
pub(super) fn role_paused(role: &RoleId, pause: Option<&wire::RolePause>) -> Option<String> {
    pause?;
    Some(paused(&format!("Your role {role}"), &format!("tasuki budget resume {role}")))
}

/// How long a call may be held. `asked` is how long the agent itself wants to wait at most. Of one
/// that is said again, its client has waited a part already.
pub(super) fn longest(call: &Call<'_>, asked: Option<Duration>) -> Duration {
    let client = call.client.as_ref();
    hold(&Ask {
        client: client.map_or(("", ""), |client| (&client.name, &client.version)),
        transport: call.transport,
        wants_progress: call.context.meta.get_progress_token().is_some(),
        learnt: client.and_then(|client| call.host.learning.hold(client)),
        configured: call.hold,
        asked,
    })
    .saturating_sub(call.age())
}

/// Holds a call until `answer` is there, for `hold` and what its answer may be overdue, with signs
/// of life that say what it waits for.
pub(super) async fn held<T>(
    call: &Call<'_>,
    playing: &Playing,
    hold: Duration,
    waits_for: &'static str,
    answer: impl Future<Output = T>,
) -> Held<T> {
    held_with(call, Some(playing), hold, signs_of_life(call, waits_for), answer).await
}

/// The same with signs of life of its own. Who plays no role loses none.
pub(super) async fn held_with<T>(
    call: &Call<'_>,
    playing: Option<&Playing>,
    hold: Duration,
    signs: impl Future<Output = Infallible>,
    answer: impl Future<Output = T>,
) -> Held<T> {
    let lost = async {
        match playing {
            Some(playing) => playing.lost().await,
            None => std::future::pending().await,
        }
    };
    let counted = call.hold_for(hold);
    let ended = tokio::select! {
        biased;
        () = lost => Held::Lost,
        answer = answer => Held::Answered(answer),
        () = call.host.stopping.cancelled() => Held::Over,
        () = sleep(hold + Duration::from_millis(OVERDUE_MS)) => Held::Over,
        () = abandoned(call) => Held::Over,
        never = signs => match never {},
    };
    counted.answered();
    ended
}

/// Answers once `asking` is answered, the hold is over, or at once with a task. `asked` is how
/// long the agent itself wants to wait at most.
pub(super) async fn wait(
    call: &Call<'_>,
    playing: Playing,
    asking: Asking,
    asked: Option<Duration>,
) -> Result<CallToolResponse, Refusal> {
    let hold = longest(call, asked);
    let _present = asking.actions.connected(&call.who);
    let probe = call.probe.as_ref();
    if call.takes_tasks && asking.may_be_task() && !hold.is_zero() {
        match asking.look(&call.host.stopping).await {
            Looked::Told(answer) if answer.is_ready() => {
                call.host.tasks.supersede(&asking.question());
                return Ok(CallToolResponse::Complete(asking.given(&answer, probe).await));
            }
            Looked::Told(_) | Looked::Unanswered => {
                let task = call.host.tasks.create(call, asking, playing, asked);
                return task.map(CallToolResponse::Task).map_err(|why| Refusal {
                    reason: Reason::Unavailable,
                    message: format!("The system's random source failed ({why}). Call again."),
                });
            }
            Looked::Refused(refusal) => return Err(refusal),
        }
    }
    if !hold.is_zero() {
        call.host.tasks.supersede(&asking.question());
    }
    let signs = Box::pin(signs_of(call, &asking));
    let answer = match held_with(call, Some(&playing), hold, signs, asking.ask(hold)).await {
        Held::Answered(answer) => answer?,
        Held::Lost => asking.lost(),
        Held::Over => asking.still_waiting(),
    };
    Ok(CallToolResponse::Complete(asking.given(&answer, probe).await))
}

/// What a client is told while it waits.
async fn signs_of(call: &Call<'_>, asking: &Asking) -> Infallible {
    match &asking.about {
        About::Run { run, client, .. } => progress_of(call, client, *run).await,
        About::Turn(_) | About::Mail { .. } | About::Swarm { .. } | About::Board(_) => {
            signs_of_life(call, asking.words().progress).await
        }
    }
}

/// Resolves when nobody hears the answer any more and nobody came back for it: a session outlives
/// its streams, so its calls go on when their client is gone.
async fn abandoned(call: &Call<'_>) {
    let Some(probe) = &call.probe else { return std::future::pending().await };
    loop {
        probe.is_cut().await;
        if timeout(call.host.resume_within, probe.is_resumed()).await.is_err() {
            return;
        }
    }
}

/// Progress for as long as it is polled.
pub(super) async fn signs_of_life(call: &Call<'_>, message: &'static str) -> Infallible {
    let (_unchanged, message) = watch::channel(message.to_owned());
    tell_progress(call, message).await
}

/// The same with words that change: the newest, and now and then that they did not.
pub(super) async fn tell_progress(
    call: &Call<'_>,
    mut newest: watch::Receiver<String>,
) -> Infallible {
    let Some(token) = call.context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    sleep(Duration::from_millis(PROGRESS_FIRST_MS)).await;
    let mut count = 0.0;
    loop {
        count += 1.0;
        let words = newest.borrow_and_update().clone();
        let sign = ProgressNotificationParam::new(token.clone(), count).with_message(words);
        if call.context.peer.notify_progress(sign).await.is_err() {
            // The stream is gone but a session outlives it: the wait itself goes on.
            return std::future::pending().await;
        }
        sleep(Duration::from_millis(PROGRESS_PAUSE_MS)).await;
        let quiet = Duration::from_millis(PROGRESS_MS - PROGRESS_PAUSE_MS);
        // Whether something changed or not, it is said.
        drop(timeout(quiet, newest.changed()).await);
    }
}
