//! The run itself: checkout, one command after the other, and nothing left behind.

use std::{convert::Infallible, time::Duration};

use tasuki_proto::{reason::Reason, swarm::CommitHash, wire};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Claimed, Failure, Output, plan, plan::Plan};
use crate::{
    accept::{
        checkout::{self, Place},
        report,
        run::{Lost, Runner},
    },
    beside::on_disk,
    cli::{stopped, swarm::delivery_client::DeliveryClient, text::line},
    process::policy::Kind,
};

/// A claim is renewed so often in the time it is good for.
const RENEWALS: u64 = 3;

/// The shortest time between two renewals, in milliseconds.
const RENEW_MS_MIN: u64 = 1000;

/// What was run.
pub(super) struct Ran(pub(super) Vec<report::Ran>);

impl Ran {
    pub(super) fn is_passed(&self) -> bool {
        report::is_passed(&self.0)
    }

    pub(super) fn evidence(&self, commit: &CommitHash) -> wire::Evidence {
        report::evidence(commit.as_str(), &self.0)
    }
}

/// Says when this process is asked to stop.
pub(super) fn stopping() -> CancellationToken {
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        stopped().await;
        told.cancel();
    });
    stop
}

/// Runs everything, and keeps the claim meanwhile.
pub(super) async fn claimed(
    at: &DeliveryClient<'_>,
    claimed: &Claimed,
    plan: &Plan,
    stop: &CancellationToken,
    output: &mut Output,
) -> Result<Ran, Failure> {
    let stop = stop.child_token();
    let running = all(plan, &stop, output);
    tokio::pin!(running);
    tokio::select! {
        ran = &mut running => ran,
        Err(lost) = keep(at, claimed) => {
            stop.cancel();
            drop(running.await);
            Err(lost)
        }
    }
}

/// Renews the claim as long as it is there.
async fn keep(at: &DeliveryClient<'_>, claimed: &Claimed) -> Result<Infallible, Failure> {
    let pause = Duration::from_millis((claimed.lease_ms / RENEWALS).max(RENEW_MS_MIN));
    loop {
        sleep(pause).await;
        let Err(why) = at.renew(claimed.delivery.claim_token, 0).await else { continue };
        match why.as_reason() {
            Some(Reason::Unavailable | Reason::OutcomeUnknown | Reason::Overloaded) => {}
            Some(_) | None => return Err(why),
        }
    }
}

/// Runs everything.
pub(super) async fn all(
    plan: &Plan,
    stop: &CancellationToken,
    output: &mut Output,
) -> Result<Ran, Failure> {
    let disk = |why| Failure::local(format!("There is no place for a checkout: {why}."));
    let data = plan.data.clone();
    let cleaned = on_disk(move || checkout::clean(&data)).await;
    match cleaned {
        Ok(0) => {}
        Ok(count) => output.note(&format!("{count} checkouts that were left behind are removed.")),
        Err(why) => output.note(&format!("What was left behind cannot be removed: {why}.")),
    }
    let directory = plan.settings.directory.clone().unwrap_or_else(std::env::temp_dir);
    let data = plan.data.clone();
    let place = on_disk(move || Place::make(&data, &directory)).await.map_err(disk)?;
    let ran = in_place(plan, &place, stop, output).await;
    if let Err(why) = on_disk(move || place.remove()).await {
        output.note(&format!("The checkout stays behind until the next run: {why}."));
    }
    ran
}

async fn in_place(
    plan: &Plan,
    place: &Place,
    stop: &CancellationToken,
    output: &mut Output,
) -> Result<Ran, Failure> {
    let checkout = place.checkout();
    tokio::select! {
        taken = plan.repository.take_out(&plan.commit, &checkout) => {
            taken.map_err(plan::not_found)?;
        }
        () = stop.cancelled() => return Err(interrupted()),
    }
    let runner = Runner::new(&plan.settings, &checkout, &place.temporary());
    if plan.settings.kind == Kind::None {
        output.note("There is no sandbox: the configuration says `sandbox = \"none\"`.");
    }
    let mut ran = Vec::with_capacity(plan.commands.len());
    for (number, (command, words)) in (1..).zip(&plan.commands) {
        let of = plan.commands.len();
        output.note(&format!("{number}/{of} {}", line(command)));
        let run = runner.run(words, stop).await.map_err(|why| match why {
            Lost::Stopped => interrupted(),
            Lost::Start(_) | Lost::NoSandbox(_) | Lost::Unwatched | Lost::Left => {
                Failure::local(format!(
                    "{} was not run to its end, and nothing was attached: {why}.",
                    line(command)
                ))
            }
        })?;
        let seconds = run.took.as_secs_f64();
        output.note(&format!("{number}/{of} {} in {seconds:.1} s", run.outcome));
        ran.push(report::Ran {
            command: command.clone(),
            outcome: run.outcome,
            printed: run.printed,
            took: run.took,
            sandbox: runner.sandbox(),
        });
    }
    Ok(Ran(ran))
}

fn interrupted() -> Failure {
    Failure::local(
        "Interrupted: what ran was ended, and nothing was attached. A claim on the delivery stays \
         until it lapses; the same command goes on with it.",
    )
}
