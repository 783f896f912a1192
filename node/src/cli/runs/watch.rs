//! `tasuki runs watch`.

use super::{
    Exit, Failure, Output, client,
    display::BrokerClock,
    follow::{Interrupts, OnInterrupt, end_event, exit_of, follow},
    labels,
    names::RunName,
    with_hint,
};
use crate::{
    cli::{broker::Broker, text::line},
    config::Config,
};

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
    let broker = Broker::new(config);
    let watched = async {
        let run_id = args.run.find(&broker).await?;
        client::get(&broker, &run_id).await.map_err(with_hint)
    };
    let (run, now_ms) = tokio::select! {
        watched = watched => watched?,
        () = interrupts.first() => return Err(Failure::told(Exit::Nothing)),
    };
    let clock = BrokerClock::new(now_ms);
    let view = follow(&broker, &run, clock, &interrupts, OnInterrupt::StopFollowing, output);
    let view = Box::pin(view).await?;
    let ended = || {
        let used = labels::used(None, &view.run.usage.unwrap_or_default());
        let used = if used.is_empty() { used } else { format!(", {used}") };
        format!("{}: {}{used}\n", line(&view.run.run_id), labels::run_status(&view.run))
    };
    output.answer(|| end_event(&view), ended)?;
    let exit = exit_of(&view.run);
    if exit == Exit::Ok { Ok(()) } else { Err(Failure::told(exit)) }
}
