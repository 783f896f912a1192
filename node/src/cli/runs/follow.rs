//! A run until it is over: watched over reconnects, shown as it goes, and ended if whoever follows it
//! says so. `tasuki runs watch` is that alone.
//!
//! What the broker sends is the run as it is, so nothing is lost with a connection, and nothing has
//! to be resumed: it is asked for again.

use std::time::Duration;

use serde_json::Value;
use tasuki_proto::{
    reason::Reason,
    wire::{self, RunStatus},
};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tonic::Status;

use super::{
    Exit, Failure, Output,
    client::{self, RunsClient},
    display::Display,
    labels,
    list::RunName,
};
use crate::{
    cli::{broker::Broker, following::backoff, hosting::node_flags, stopped, text::line},
    client::{
        channel::{self, Channel},
        retry::{Backoff, chance},
    },
    clock::{self, Moment},
    config::Config,
    runs::view::RunView,
};

/// How often a terminal is drawn on.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// For a broker to be started in the place of a command's that has ended.
const REPLACED_WITHIN: Duration = Duration::from_secs(20);

/// Between two looks for that one, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For the broker to confirm a cancel: who asks for one wants to leave.
const CANCELED_WITHIN: Duration = Duration::from_secs(30);

/// Follow a run until it ends.
///
/// Each step has a line on standard error. Ctrl-C ends this command, and the run goes on. Exits with
/// 0 if the run succeeded, with 8 if it failed, and with 7 if it was canceled. With --json each
/// change is one line, and the last line is the result.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run to follow
    #[arg(value_name = "RUN")]
    run: RunName,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let interrupts = Interrupts::listen();
    let mut broker = Broker::new(config);
    let found = async {
        let run_id = args.run.find(&broker).await?;
        client::get(&broker, &run_id).await
    };
    let (run, now_ms) = tokio::select! {
        found = found => found?,
        () = interrupts.until(1) => return Err(Failure::told(Exit::Nothing)),
    };
    let display = Display::new(run.run_id, now_ms, output);
    let flags = node_flags(config);
    let view = Box::pin(follow(&mut broker, display, &interrupts, None, &flags, output)).await?;
    let summary = || {
        let (run_id, status) = (line(&view.run.run_id), labels::run_status(&view.run));
        let [turns, tokens, cost] = labels::usage(view.run.usage);
        format!("{run_id}: {}\n", labels::listed([Some(status), turns, tokens, cost]))
    };
    output.answer(|| end_event(&view), summary)?;
    ended(&view)
}

/// Signals that ask this process to stop: the first ends what it does, the second the process.
pub(in crate::cli) struct Interrupts(watch::Receiver<u32>);

impl Interrupts {
    pub(in crate::cli) fn listen() -> Self {
        let (count, told) = watch::channel(0);
        tokio::spawn(async move {
            for _ in 0..2 {
                stopped().await;
                count.send_modify(|count| *count += 1);
            }
        });
        Self(told)
    }

    /// How many there were.
    pub(in crate::cli) fn count(&self) -> u32 {
        *self.0.borrow()
    }

    /// Resolves once there were so many.
    pub(in crate::cli) async fn until(&self, many: u32) {
        drop(self.0.clone().wait_for(|count| many <= *count).await);
    }
}

/// Shows a run until it is over. Returns how it ended, with the words of its steps.
///
/// A broker that goes away is waited for, and `broker` is then where it has come back; not one that
/// ended with the command whose it was. The first signal cancels the run where it is `own`, and ends
/// the following elsewhere. `flags`: what other commands must be told to find it.
pub(in crate::cli) async fn follow(
    broker: &mut Broker,
    mut display: Display,
    interrupts: &Interrupts,
    own: Option<&RunsClient>,
    flags: &str,
    output: &mut Output,
) -> Result<RunView, Failure> {
    let run_id = display.run_id().to_owned();
    let (told, updates) = mpsc::channel(1);
    let left = leave(&run_id, interrupts, own, told.clone());
    let followed = async {
        let watched = Box::pin(tell_changes(broker, &run_id, flags, told));
        let ended = show(&mut display, watched, updates, output).await?;
        let (mut away, mut is_away) = (Away::new(), false);
        loop {
            match client::view(broker, ended.clone()).await {
                Err(why) if why.is_retryable() => {
                    if !std::mem::replace(&mut is_away, true) {
                        output.note(&format!("{} It is asked again.", why.message));
                    }
                    if !away.pause(broker).await {
                        return Err(broker_ended(&run_id, flags));
                    }
                }
                view => return view,
            }
        }
    };
    tokio::select! {
        // Where nobody reads how it goes, nothing is known of how it ends.
        view = followed => view.map_err(|why| {
            if why.exit() == Exit::Ok { Failure::told(Exit::Nothing) } else { why }
        }),
        why = left => Err(why),
    }
}

/// A broker that does not answer.
struct Away {
    backoff: Backoff,
    /// Since when it is known to have ended for good.
    ended: Option<Moment>,
}

impl Away {
    const fn new() -> Self {
        Self { backoff: backoff(), ended: None }
    }

    /// Pauses, and finds out where it is to be asked then. `false`: nowhere any more.
    async fn pause(&mut self, broker: &mut Broker) -> bool {
        let most = if self.ended.is_some() { LOOK_EVERY } else { Duration::MAX };
        sleep(self.backoff.pause(chance()).min(most)).await;
        if broker.find_again() {
            self.ended = None;
            return true;
        }
        let now = clock::now();
        now.since(*self.ended.get_or_insert(now)) < REPLACED_WITHIN
    }
}

/// Why it is not known how a run ended.
fn broker_ended(run_id: &str, flags: &str) -> Failure {
    let run_id = line(run_id);
    Failure::reason(
        Reason::Unavailable,
        format!(
            "The broker that {run_id} ran on has ended. `tasuki up{flags}`, then `tasuki runs \
             show{flags} {run_id}` shows how the run ended."
        ),
    )
}

/// Resolves when whoever follows a run is to do so no longer.
async fn leave(
    run_id: &str,
    interrupts: &Interrupts,
    own: Option<&RunsClient>,
    told: mpsc::Sender<Update>,
) -> Failure {
    interrupts.until(1).await;
    let Some(runs) = own else { return Failure::told(Exit::Nothing) };
    let note = "Canceling the run. Ctrl-C again ends this command.".to_owned();
    // Who has seen its end need not be told.
    told.send(Update::Note(note)).await.ok();
    let canceled = Box::pin(async {
        let (broker, speaker) = (runs.broker.clone(), runs.speaker.clone());
        let (mut runs, mut away) = (RunsClient { broker, speaker }, Away::new());
        loop {
            match runs.cancel(run_id).await {
                // Its broker is away; whoever is told how it goes is told if that has ended.
                Err(why) if why.is_retryable() => {
                    away.pause(&mut runs.broker).await;
                }
                canceled => return canceled,
            }
        }
    });
    let unconfirmed = || {
        Err(Failure::reason(
            Reason::OutcomeUnknown,
            format!(
                "The broker did not confirm that {run_id} is canceled, and it may go on. `tasuki \
                 runs cancel {run_id}` cancels it."
            ),
        ))
    };
    let canceled = tokio::select! {
        canceled = timeout(CANCELED_WITHIN, canceled) => {
            canceled.unwrap_or_else(|_| unconfirmed())
        }
        () = interrupts.until(2) => unconfirmed(),
    };
    let Err(why) = canceled else {
        interrupts.until(2).await;
        return Failure::told(Exit::Nothing);
    };
    why
}

/// What is told of a run.
enum Update {
    /// With what its sub-agents asked and reported since.
    Run(Box<wire::WatchRunResponse>, Vec<wire::RunMessage>),
    /// For people.
    Note(String),
}

/// Shows what is told of a run until it is over, or cannot be watched.
async fn show(
    display: &mut Display,
    mut watched: impl Future<Output = Failure> + Unpin,
    mut updates: mpsc::Receiver<Update>,
    output: &mut Output,
) -> Result<wire::Run, Failure> {
    let mut ticks = interval(DRAW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            why = &mut watched => return Err(why),
            Some(update) = updates.recv() => match update {
                Update::Note(note) => display.note(&note, output),
                Update::Run(update, messages) => {
                    display.update(&update, &messages, output)?;
                    if let Some(run) = update.run.filter(|run| run.ended_ms != 0) {
                        display.draw();
                        return Ok(run);
                    }
                }
            },
            _ = ticks.tick() => display.tick(output),
        }
    }
}

/// Tells how a run goes for as long as somebody listens. Returns why it cannot.
async fn tell_changes(
    broker: &mut Broker,
    run_id: &str,
    flags: &str,
    told: mpsc::Sender<Update>,
) -> Failure {
    let (mut away, mut is_away, mut message) = (Away::new(), false, 0);
    loop {
        let asked = &*broker;
        let broken = |why: Status| match asked.shows_another(&why) {
            true => Failure::reason(Reason::Unavailable, "The token was replaced."),
            false => asked.failure(&why),
        };
        let read = async {
            let opened = asked.open(async |channel: Channel, caller: wire::Caller| {
                let (caller, run_id) = (Some(caller), run_id.to_owned());
                channel::runs(channel).watch_run(wire::WatchRunRequest { caller, run_id }).await
            });
            let mut items = opened.await?.map_err(broken)?;
            while let Some(update) = items.message().await.map_err(broken)? {
                away = Away::new();
                is_away = false;
                let mut messages = Vec::new();
                if update.run.as_ref().is_some_and(|run| message < run.messages) {
                    messages = client::messages(asked, run_id, message).await?;
                    message = messages.last().map_or(message, |it| it.number);
                }
                // Nobody is left to be told once the run is over.
                told.send(Update::Run(Box::new(update), messages)).await.ok();
            }
            Ok::<(), Failure>(())
        };
        let why = match read.await {
            Ok(()) => "The broker ended the connection.".to_owned(),
            Err(why) if why.is_retryable() => why.message,
            Err(why) => return why,
        };
        if !std::mem::replace(&mut is_away, true) {
            told.send(Update::Note(format!("{why} It is asked again."))).await.ok();
        }
        if !away.pause(broker).await {
            return broker_ended(run_id, flags);
        }
    }
}

/// The result of a run as programs get it behind all that happened.
pub(in crate::cli) fn end_event(view: &RunView) -> Value {
    let mut value = view.value();
    value["event"] = "end".into();
    value
}

/// The exit code of a command that followed a run to its end.
pub(in crate::cli) fn exit_of(view: &RunView) -> Exit {
    if view.run.status() == RunStatus::Canceled {
        Exit::Nothing
    } else if view.is_failure() {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// What it ends with where all was told.
fn ended(view: &RunView) -> Result<(), Failure> {
    let exit = exit_of(view);
    if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) }
}
