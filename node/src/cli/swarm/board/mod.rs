//! `tasuki board`: issues, tasks, workers, locks and deliveries, live.
//!
//! What is shown is a `State`, which `gather` asks the broker for; `frame` makes lines of it, of any
//! size, and is pure; `screen` puts what changed of them on the terminal. The feed tells when to ask
//! again, and about which issues; the clocks go on by themselves.

mod frame;
mod gather;
mod screen;
mod state;

use std::{collections::BTreeSet, io::IsTerminal as _, pin::Pin, time::Duration};

use tasuki_proto::wire::event::Kind;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use self::{
    frame::{ansi, frame, printed},
    gather::{Gatherer, Stale},
    screen::{Key, Screen, keys},
    state::State,
};
use super::{Failure, Output, Target, names::IssueName, who::Acting};
use crate::{
    cli::{
        broker::Broker,
        following::{Following, Told},
        stopped,
        text::terminal,
    },
    clock::{self, Moment},
    config::Config,
};

/// How often the clocks go on.
const TICK: Duration = Duration::from_secs(1);

/// The broker is asked again no sooner than this after the last time: a busy workspace tells of
/// hundreds of things a second.
const GATHER_EVERY: Duration = Duration::from_millis(500);

/// What the feed told and nobody looked at yet.
const TOLD_MAX: usize = 64;

/// A frame where nothing says how large one may be, in characters.
const SIZE: (usize, usize) = (80, 24);

/// Show issues, tasks, workers, locks and deliveries, live.
///
/// Work in progress comes first; what does not fit is counted. q, Escape or Ctrl-C quits. One frame
/// is printed if the output is not a terminal, or one that cannot be drawn on (TERM=dumb).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this issue
    #[arg(value_name = "ISSUE")]
    issue: Option<IssueName>,
    /// Print one frame, as large as the terminal or $COLUMNS by $LINES, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(in crate::cli::swarm) target: Target,
}

pub(in crate::cli::swarm) async fn run(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let acting = Acting { broker: Broker::new(config), role: String::new() };
    let only = match &args.issue {
        Some(issue) => Some(issue.find(&acting).await?),
        None => None,
    };
    let mut gatherer = Gatherer::new(acting.broker.clone(), only);
    gatherer.gather(&Stale::All).await?;
    if args.once || output.is_json() || !is_drawn_on() {
        let (width, height) = size();
        return output.answer(
            || state::json(&gatherer.state),
            || {
                let lines = printed(&gatherer.state, width, height);
                let text: Vec<String> = lines.iter().map(ansi).collect();
                format!("{}\n", text.join("\n").trim_end())
            },
        );
    }
    let screen = Screen::open()
        .map_err(|why| Failure::local(format!("The terminal cannot be drawn on: {why}.")))?;
    tokio::select! {
        ended = live(gatherer, &acting.broker, screen) => ended,
        () = stopped() => Ok(()),
    }
}

/// Whether the output is a terminal that goes by more than newlines.
fn is_drawn_on() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

/// How large a frame is that is printed.
fn size() -> (usize, usize) {
    // A variable that says 0 says nothing.
    let told = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok().filter(|it| 0 < *it);
    let told = || (told("COLUMNS").unwrap_or(SIZE.0), told("LINES").unwrap_or(SIZE.1));
    terminal().unwrap_or_else(told)
}

/// What the feed said.
enum News {
    Told(Told),
    /// It is not followed at the moment, and why.
    Trouble(String),
    Failed(Failure),
}

/// Follows the feed beside everything else.
fn follow(broker: &Broker) -> mpsc::Receiver<News> {
    let (tell, told) = mpsc::channel(TOLD_MAX);
    let broker = broker.clone();
    tokio::spawn(async move {
        let mut feed = match Following::new(&broker, 0).await {
            Ok(feed) => feed,
            Err(why) => return drop(tell.send(News::Failed(why)).await),
        };
        loop {
            // A note that finds no room is one of many.
            let mut note = |note: &str| drop(tell.try_send(News::Trouble(note.to_owned())));
            let news = match feed.next(&mut note).await {
                Ok(told) => News::Told(told),
                Err(why) => return drop(tell.send(News::Failed(why)).await),
            };
            if tell.send(news).await.is_err() {
                return;
            }
        }
    });
    told
}

async fn live(gatherer: Gatherer, broker: &Broker, mut screen: Screen) -> Result<(), Failure> {
    let (mut news, mut keys) = (follow(broker), keys());
    let mut shown = Shown { state: gatherer.state.clone(), at: clock::now() };
    let mut idle = Some(gatherer);
    let mut gathering: Option<Gathering> = None;
    // Nothing is stale yet, but the feed is joined later than this was asked.
    let mut stale = Stale::default();
    let mut next = clock::now().after(GATHER_EVERY);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let rest = next.since(clock::now());
        if stale.is_any()
            && rest.is_zero()
            && let Some(mut gatherer) = idle.take()
        {
            next = clock::now().after(GATHER_EVERY);
            let wanted = std::mem::take(&mut stale);
            gathering = Some(Box::pin(async move {
                let result = gatherer.gather(&wanted).await;
                (gatherer, wanted, result)
            }));
        }
        tokio::select! {
            key = keys.recv() => match key {
                Some(Key::Quit) | None => return Ok(()),
                Some(Key::Resized) => {}
            },
            (gatherer, wanted, result) = finished(&mut gathering) => {
                match result {
                    Ok(()) => shown = Shown { state: gatherer.state.clone(), at: clock::now() },
                    // A later one is weather: it is asked again.
                    Err(failure) if failure.is_retryable() => {
                        shown.state.trouble = failure.message;
                        stale.add(wanted);
                    }
                    Err(failure) => return Err(failure),
                }
                idle = Some(gatherer);
            }
            told = news.recv() => match told {
                Some(News::Told(Told::Joined)) => stale.add(Stale::All),
                Some(News::Told(Told::Item(item))) => {
                    stale.add(touched(item.events.iter().filter_map(|it| it.kind.as_ref())));
                    // There is nothing new to draw until it was looked at.
                    continue;
                }
                Some(News::Trouble(why)) => shown.state.trouble = why,
                Some(News::Failed(failure)) => return Err(failure),
                None => return Ok(()),
            },
            () = sleep(rest), if stale.is_any() && idle.is_some() => continue,
            _ = ticks.tick() => {}
        }
        let (width, height) = screen.size();
        let lines = frame(&shown.now(), width, height);
        screen
            .draw(&lines)
            .map_err(|why| Failure::local(format!("The terminal cannot be drawn on: {why}.")))?;
    }
}

/// A gatherer that is at work, and what it was sent for.
type Gathering = Pin<Box<dyn Future<Output = (Gatherer, Stale, Result<(), Failure>)>>>;

/// What is under way, once it is finished; never where nothing is.
async fn finished(gathering: &mut Option<Gathering>) -> (Gatherer, Stale, Result<(), Failure>) {
    let Some(under_way) = gathering else { return std::future::pending().await };
    let done = under_way.await;
    *gathering = None;
    done
}

/// What was gathered, and when.
struct Shown {
    state: State,
    at: Moment,
}

impl Shown {
    /// The same with the time it is at the broker now.
    fn now(&self) -> State {
        let since = clock::now().since(self.at).as_millis();
        let now_ms = self.state.now_ms + u64::try_from(since).unwrap_or(0);
        State { now_ms, ..self.state.clone() }
    }
}

/// What has to be asked for again after these events.
fn touched<'a>(events: impl Iterator<Item = &'a Kind>) -> Stale {
    let mut issues = BTreeSet::new();
    let mut is_any = false;
    for event in events {
        match event {
            Kind::IssueChanged(it) => drop(issues.insert(it.issue_id.clone())),
            Kind::FilesLocked(_)
            | Kind::FilesUnlocked(_)
            | Kind::WorkerRegistered(_)
            | Kind::ItemsHanded(_)
            | Kind::NodeRegistered(_)
            | Kind::SwarmSettingsSet(_) => is_any = true,
            Kind::SharedDocWritten(_)
            | Kind::LoopOpened(_)
            | Kind::ParticipantsSet(_)
            | Kind::HandedOver(_)
            | Kind::TurnReclaimed(_)
            | Kind::RoundStarted(_)
            | Kind::TurnMarked(_)
            | Kind::TurnLapsed(_)
            | Kind::LeaseRenewed(_)
            | Kind::MailSent(_)
            | Kind::MailMoved(_)
            | Kind::MailMarked(_)
            | Kind::MailLapsed(_)
            | Kind::MailDied(_)
            | Kind::MailImported(_)
            | Kind::MailboxOpened(_)
            | Kind::MailboxClosed(_)
            | Kind::RosterSet(_)
            | Kind::KeyPublished(_) => {}
        }
        // The stage of a task follows from what its lead was given.
        if let Kind::ItemsHanded(it) = event {
            issues.insert(it.issue_id.clone());
        }
    }
    if issues.is_empty() && !is_any { Stale::Nothing } else { Stale::Of(issues) }
}

#[cfg(test)]
mod tests;
