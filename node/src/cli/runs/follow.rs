//! A run until it is over: shown as it goes, and ended if whoever follows it says so.

use std::time::Duration;

use serde_json::Value;
use tasuki_proto::wire::{self, RunStatus};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{
    Exit, Failure, Output,
    client::{self, RunsClient},
    display::{BrokerClock, Display},
    labels,
    watching::{Update, Watching},
};
use crate::{
    cli::{broker::Broker, stopped, waiting::Waiting},
    runs::view::RunView,
};

/// How often a terminal is drawn on.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Signals that ask this process to stop: the first ends what it does, the second the process.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Interrupts {
    first: CancellationToken,
    second: CancellationToken,
}

impl Interrupts {
    pub(in crate::cli) fn listen() -> Self {
        let interrupts = Self::default();
        let told = interrupts.clone();
        tokio::spawn(async move {
            stopped().await;
            told.first.cancel();
            stopped().await;
            told.second.cancel();
        });
        interrupts
    }

    pub(in crate::cli) async fn first(&self) {
        self.first.cancelled().await;
    }

    pub(in crate::cli) async fn second(&self) {
        self.second.cancelled().await;
    }
}

/// What the first signal does to a run that is followed.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum OnInterrupt<'a> {
    Cancel(&'a RunsClient),
    StopFollowing,
}

/// Shows a run until it is over. Returns how it ended, with the words of its steps.
///
/// A broker that goes away is waited for.
pub(in crate::cli) async fn follow(
    broker: &Broker,
    run: &wire::Run,
    clock: BrokerClock,
    interrupts: &Interrupts,
    on_interrupt: OnInterrupt<'_>,
    output: &mut Output,
) -> Result<RunView, Failure> {
    let mut display = Display::new(run, clock, output);
    let mut watching = Watching::new(broker, &run.run_id);
    let (mut told, mut is_away, mut is_interrupted) = (0, false, false);
    let mut ticks = interval(DRAW_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let ended = loop {
        let next = watching.next();
        tokio::pin!(next);
        let update = loop {
            tokio::select! {
                () = interrupts.second() => return Err(Failure::told(Exit::Nothing)),
                () = interrupts.first(), if !is_interrupted => {
                    let OnInterrupt::Cancel(runs) = on_interrupt else {
                        return Err(Failure::told(Exit::Nothing));
                    };
                    is_interrupted = true;
                    display.note("Canceling the run. Ctrl-C again ends this command.", output);
                    tokio::select! {
                        canceled = runs.cancel(&run.run_id) => drop(canceled?),
                        () = interrupts.second() => return Err(Failure::told(Exit::Nothing)),
                    }
                }
                update = &mut next => break update?,
                _ = ticks.tick(), if display.is_drawn() => display.draw(),
            }
        };
        let update = match update {
            Update::Run(update) => update,
            Update::Away(why) => {
                if !std::mem::replace(&mut is_away, true) {
                    display.note(&format!("{why} It is asked again."), output);
                }
                continue;
            }
        };
        is_away = false;
        display.update(&update, output)?;
        let Some(run) = update.run else { continue };
        if told < run.messages {
            told = tell_messages(broker, &run, told, &mut display, output).await?;
        }
        if labels::is_over(&run) {
            break run;
        }
    };
    display.draw();
    let view = async |_: u64| client::view(broker, ended.clone()).await;
    tokio::select! {
        view = Waiting::new(None).answer(output, view, |_| false) => view,
        () = interrupts.second() => Err(Failure::told(Exit::Nothing)),
    }
}

/// Shows messages after this one. Returns the last that was shown.
async fn tell_messages(
    broker: &Broker,
    run: &wire::Run,
    told: u32,
    display: &mut Display,
    output: &mut Output,
) -> Result<u32, Failure> {
    let messages = match client::messages(broker, &run.run_id, told).await {
        Ok(messages) => messages,
        // They are told with the next change.
        Err(failure) if failure.is_retryable() => return Ok(told),
        Err(failure) => return Err(failure),
    };
    for message in &messages {
        display.message(message, output)?;
    }
    Ok(messages.last().map_or(told, |it| it.number))
}

/// The result of a run as programs get it behind all that happened.
pub(in crate::cli) fn end_event(view: &RunView) -> Value {
    let mut value = view.value();
    value["event"] = "end".into();
    value
}

/// The exit code of a command that followed a run to its end.
pub(in crate::cli) fn exit_of(run: &wire::Run) -> Exit {
    match run.status() {
        RunStatus::Succeeded => Exit::Ok,
        RunStatus::Canceled => Exit::Nothing,
        RunStatus::Unspecified
        | RunStatus::Running
        | RunStatus::Failed
        | RunStatus::Lost
        | RunStatus::OutOfBudget => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_ends_with_0() {
        let code = |status: RunStatus| {
            exit_of(&wire::Run { status: status.into(), ..Default::default() }) as u8
        };
        assert_eq!(code(RunStatus::Succeeded), 0);
        assert_eq!(code(RunStatus::Canceled), 7);
        for status in [RunStatus::Failed, RunStatus::Lost, RunStatus::OutOfBudget] {
            assert_eq!(code(status), 8, "{status:?}");
        }
    }
}
