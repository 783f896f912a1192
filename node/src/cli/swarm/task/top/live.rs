//! A frame on a terminal: the feed tells what changed, the broker is asked again, keys end it.
//!
//! Everything is one future, so whatever ends first ends all, and the terminal is put back.

use std::{io, time::Duration};

use crossterm::event::{Event, EventStream, KeyCode, KeyModifiers};
use futures::StreamExt as _;
use ratatui::{DefaultTerminal, style::Style};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{
    Failure,
    gather::{Gatherer, Stale, touched},
    state::State,
    view::view,
};
use crate::{
    cli::{
        broker::Broker,
        following::{Following, Told},
        stopped,
    },
    clock::{self, Moment},
};

/// How often the clocks go on.
const TICK: Duration = Duration::from_secs(1);

/// The broker is asked again no sooner than this after the last time: a busy workspace tells of
/// hundreds of things a second.
const GATHER_EVERY: Duration = Duration::from_millis(500);

/// Rows that Page Up and Page Down scroll by.
const PAGE_ROWS: usize = 10;

/// What was gathered, and when.
struct Gathered {
    state: State,
    at: Moment,
}

impl Gathered {
    fn new(state: &State) -> Self {
        Self { state: state.clone(), at: clock::now() }
    }

    /// What time it is at the broker.
    fn now_ms(&self) -> u64 {
        let since = clock::now().since(self.at).as_millis();
        self.state.now_ms + u64::try_from(since).unwrap_or(0)
    }
}

/// Shows a frame until somebody quits.
pub(super) async fn live(gatherer: Gatherer, broker: &Broker) -> Result<(), Failure> {
    // Nothing is stale yet, but the feed is joined later than this was asked.
    let stale = watch::Sender::new(Stale::Nothing);
    let gathered = watch::Sender::new(Gathered::new(&gatherer.state));
    let ended = match ratatui::try_init() {
        Ok(mut terminal) => tokio::select! {
            drawn = draw(&mut terminal, gathered.subscribe()) => drawn.map_err(|why| undrawn(&why)),
            Err(failure) = follow(broker, &stale, &gathered) => Err(failure),
            Err(failure) = gather(gatherer, &stale, &gathered) => Err(failure),
            () = stopped() => Ok(()),
        },
        Err(why) => Err(undrawn(&why)),
    };
    // A terminal that is gone needs nothing back.
    drop(ratatui::try_restore());
    ended
}

fn undrawn(why: &io::Error) -> Failure {
    Failure::local(format!("The terminal cannot be drawn on: {why}."))
}

/// Follows the feed for what has to be asked for again.
async fn follow(
    broker: &Broker,
    stale: &watch::Sender<Stale>,
    gathered: &watch::Sender<Gathered>,
) -> Result<(), Failure> {
    let mut feed = Following::new(broker, 0).await?;
    let mut note = |note: &str| gathered.send_modify(|it| note.clone_into(&mut it.state.trouble));
    loop {
        let more = match feed.next(&mut note).await? {
            Told::Joined { .. } => Stale::All,
            Told::Item(item) => touched(&item.events),
        };
        stale.send_if_modified(|stale| stale.add(more));
    }
}

/// Asks again for what is stale.
async fn gather(
    mut gatherer: Gatherer,
    stale: &watch::Sender<Stale>,
    gathered: &watch::Sender<Gathered>,
) -> Result<(), Failure> {
    let mut pace = interval(GATHER_EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = stale.subscribe();
    loop {
        pace.tick().await;
        drop(told.wait_for(Stale::is_any).await);
        let wanted = stale.send_replace(Stale::Nothing);
        match gatherer.gather(&wanted).await {
            Ok(()) => drop(gathered.send_replace(Gathered::new(&gatherer.state))),
            // It is asked again.
            Err(failure) if failure.is_retryable() => {
                gathered.send_modify(|it| it.state.trouble = failure.message);
                stale.send_if_modified(|stale| stale.add(wanted));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Draws what was gathered until somebody quits, or nobody is before the terminal.
async fn draw(
    terminal: &mut DefaultTerminal,
    mut gathered: watch::Receiver<Gathered>,
) -> io::Result<()> {
    let has_colours = anstream::stdout().current_choice() != anstream::ColorChoice::Never;
    let mut events = EventStream::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut scroll = 0;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) if !is_quit(&event) => scroll = scrolled(&event, scroll),
                Some(_) | None => return Ok(()),
            },
            _ = gathered.changed() => {}
            _ = ticks.tick() => {}
        }
        let gathered = gathered.borrow_and_update();
        let mut hidden = 0;
        terminal.draw(|frame| {
            let area = frame.area();
            hidden = view(&gathered.state, gathered.now_ms(), scroll, area, frame.buffer_mut());
            if !has_colours {
                frame.buffer_mut().set_style(area, Style::reset());
            }
        })?;
        scroll = scroll.min(hidden);
    }
}

/// By how many rows the frame is scrolled after a key.
fn scrolled(event: &Event, scroll: usize) -> usize {
    match event.as_key_press_event().map(|key| key.code) {
        Some(KeyCode::Down | KeyCode::Char('j')) => scroll + 1,
        Some(KeyCode::Up | KeyCode::Char('k')) => scroll.saturating_sub(1),
        Some(KeyCode::PageDown | KeyCode::Char(' ')) => scroll + PAGE_ROWS,
        Some(KeyCode::PageUp) => scroll.saturating_sub(PAGE_ROWS),
        Some(KeyCode::Home) => 0,
        // Drawing bounds it.
        Some(KeyCode::End) => usize::MAX / 2,
        Some(_) | None => scroll,
    }
}

fn is_quit(event: &Event) -> bool {
    let Some(key) = event.as_key_press_event() else { return false };
    match key.modifiers.contains(KeyModifiers::CONTROL) {
        true => matches!(key.code, KeyCode::Char('c' | 'd' | 'q' | 'Q') | KeyCode::Esc),
        false => matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc),
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn q_escape_and_control_c_quit() {
        let quits = |code, modifiers| is_quit(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert!(quits(KeyCode::Char('q'), none));
        assert!(quits(KeyCode::Esc, none));
        assert!(quits(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!quits(KeyCode::Char('c'), none));
        assert!(!is_quit(&Event::Resize(1, 1)));
    }

    #[test]
    fn keys_scroll_and_stop_at_the_ends() {
        let after =
            |code, scroll| scrolled(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), scroll);
        for (code, before, expected) in [
            (KeyCode::Down, 3, 4),
            (KeyCode::Char('k'), 3, 2),
            (KeyCode::Up, 0, 0),
            (KeyCode::PageUp, 3, 0),
            (KeyCode::PageDown, 3, 13),
            (KeyCode::Home, 30, 0),
            (KeyCode::Char('x'), 3, 3),
        ] {
            assert_eq!(after(code, before), expected, "{code:?}");
        }
        assert!(1_000_000 < after(KeyCode::End, 0));
    }
}
