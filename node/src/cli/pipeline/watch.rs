//! `tasuki pipeline watch`, and how a pipeline is followed to its end.

use std::collections::BTreeSet;

use serde_json::json;
use tasuki_proto::{
    id::BoardName,
    wire::{self, AttemptStatus, PipelineStatus, event::Noun, pipeline_event::Kind},
};

use super::show::{attempt_line, ending, stands};
use crate::{
    cli::{
        Exit, Failure, Output,
        broker::Broker,
        following::{Following, Told},
        stopped,
    },
    config::Config,
};

/// Follow a pipeline until it ends.
///
/// Prints a line for each attempt and each decision. With --json each change is one line with the
/// whole pipeline. Exits with 0 if it was completed, 8 if it failed, 7 if it was canceled. Ctrl-C
/// stops watching; the pipeline goes on.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// Board of the pipeline
    #[arg(value_name = "BOARD")]
    board: BoardName,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut follower = Follower::new(&broker, args.board).await?;
    let pipeline = follower.read().await?;
    follower.follow(pipeline, output).await
}

/// Whoever follows a pipeline: told of changes from when this was made.
pub(super) struct Follower {
    broker: Broker,
    board: BoardName,
    feed: Following,
    /// Lines that were printed.
    printed: BTreeSet<String>,
}

impl Follower {
    pub(super) async fn new(broker: &Broker, board: BoardName) -> Result<Self, Failure> {
        let mut feed = Following::new(broker, 0).await?;
        // Nothing is missed from here on.
        while !matches!(feed.next(&mut |_| {}).await?, Told::Joined { .. }) {}
        Ok(Self { broker: broker.clone(), board, feed, printed: BTreeSet::new() })
    }

    async fn read(&self) -> Result<wire::Pipeline, Failure> {
        let request =
            wire::GetPipelineRequest { board: self.board.to_string(), ..Default::default() };
        Ok(self.broker.call(&request).await?.pipeline.unwrap_or_default())
    }

    /// Prints what is new until it ends, and how it ended.
    pub(super) async fn follow(
        &mut self,
        first: wire::Pipeline,
        output: &mut Output,
    ) -> Result<(), Failure> {
        tokio::select! {
            ended = self.follow_on(first, output) => ended,
            () = stopped() => Ok(()),
        }
    }

    async fn follow_on(
        &mut self,
        first: wire::Pipeline,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let mut pipeline = first;
        loop {
            self.print(&pipeline, output)?;
            let ended = match pipeline.status() {
                PipelineStatus::Completed => Some(Ok(())),
                PipelineStatus::Failed => Some(Err(Failure::told(Exit::Failed))),
                PipelineStatus::Canceled => Some(Err(Failure::told(Exit::Nothing))),
                PipelineStatus::Unspecified
                | PipelineStatus::Running
                | PipelineStatus::AwaitingApproval => None,
            };
            if let Some(ended) = ended {
                return ended;
            }
            while !self.is_news(output).await? {}
            pipeline = self.read().await?;
        }
    }

    /// Waits for the next record, and says whether it is about this pipeline.
    async fn is_news(&mut self, output: &mut Output) -> Result<bool, Failure> {
        let told = self.feed.next(&mut |note| output.note(note)).await?;
        let Told::Item(item) = told else { return Ok(true) };
        let is_its = |event: &wire::Event| {
            let Some(Noun::Pipeline(wire::PipelineEvent { kind: Some(kind) })) = &event.noun else {
                return false;
            };
            let board = match kind {
                Kind::PipelineStarted(it) => &it.board,
                Kind::PhaseClaimed(it) => &it.board,
                Kind::PipelineChanged(it) => &it.board,
            };
            *board == self.board.as_str()
        };
        Ok(item.events.iter().any(is_its))
    }

    /// Prints lines that were not printed before.
    fn print(&mut self, it: &wire::Pipeline, output: &mut Output) -> Result<(), Failure> {
        if output.is_json() {
            output.answer(|| json!(it), String::new)?;
            return output.flush();
        }
        let begun = |it: &&wire::PhaseAttempt| it.status() != AttemptStatus::Waiting;
        let attempts = it.attempts.iter().filter(begun).map(attempt_line);
        let decisions = it.decisions.iter().map(super::show::decision_line);
        let mut lines: Vec<String> = attempts.chain(decisions).collect();
        match it.status() {
            PipelineStatus::AwaitingApproval => lines.push(stands(it)),
            PipelineStatus::Completed | PipelineStatus::Failed | PipelineStatus::Canceled => {
                lines.push(ending(it));
            }
            PipelineStatus::Unspecified | PipelineStatus::Running => {}
        }
        for line in lines {
            if self.printed.insert(line.clone()) {
                output.answer(|| json!(null), || line)?;
            }
        }
        output.flush()
    }
}
