//! The terminal that a board is drawn on.
//!
//! What was changed is put back however the board ends. Only lines that differ are written, all at
//! once, so nothing flickers.

use std::{
    io::{self, Stdout, Write as _, stdout},
    time::Duration,
};

use crossterm::{
    cursor::{Hide, MoveTo, Show},
    event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read},
    queue,
    style::Print,
    terminal::{
        self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
        EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    },
};
use tokio::sync::mpsc;

use super::frame::{Line, ansi, plain, wide};
use crate::cli::text;

/// How long keys are waited for before it is looked whether anybody still wants them.
const KEYS_POLL: Duration = Duration::from_millis(250);

/// Keys that nobody took yet.
const KEYS_MAX: usize = 16;

/// What somebody at the keyboard wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Resized,
}

/// What a terminal's event means to a board; `None`: nothing.
fn meant(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            let is_quit = matches!(key.code, KeyCode::Char('q' | 'Q') | KeyCode::Esc)
                || (is_control && matches!(key.code, KeyCode::Char('c' | 'd')));
            is_quit.then_some(Key::Quit)
        }
        Event::Key(_)
        | Event::FocusGained
        | Event::FocusLost
        | Event::Mouse(_)
        | Event::Paste(_) => None,
    }
}

/// Reads keys on a thread of their own, since a terminal can only be waited for.
pub(super) fn keys() -> mpsc::Receiver<Key> {
    let (tell, told) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while !tell.is_closed() {
            let event = match poll(KEYS_POLL) {
                Ok(false) => continue,
                Ok(true) => read(),
                Err(why) => Err(why),
            };
            // A terminal that is gone has nobody before it.
            let key = event.map_or(Some(Key::Quit), |event| meant(&event));
            if let Some(key) = key
                && (tell.blocking_send(key).is_err() || key == Key::Quit)
            {
                return;
            }
        }
    });
    told
}

#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    /// What stands on it.
    shown: Vec<Line>,
    drawn_at: (usize, usize),
    has_colours: bool,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let choice = anstream::AutoStream::choice(&stdout());
        terminal::enable_raw_mode()?;
        // From here on dropping it puts everything back.
        let mut screen = Self {
            out: stdout(),
            shown: Vec::new(),
            drawn_at: (0, 0),
            has_colours: choice != anstream::ColorChoice::Never,
        };
        queue!(screen.out, EnterAlternateScreen, DisableLineWrap, Hide)?;
        screen.out.flush()?;
        Ok(screen)
    }

    pub(super) fn size(&self) -> (usize, usize) {
        text::terminal().unwrap_or(self.drawn_at)
    }

    /// Puts these lines there.
    pub(super) fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let size = self.size();
        queue!(self.out, BeginSynchronizedUpdate)?;
        if size != self.drawn_at {
            queue!(self.out, Clear(ClearType::All))?;
            self.shown.clear();
            self.drawn_at = size;
        }
        for (row, line) in lines.iter().enumerate() {
            if self.shown.get(row) == Some(line) {
                continue;
            }
            let text = if self.has_colours { ansi(line) } else { plain(line) };
            // To the end of the line: what stood there before was longer perhaps.
            let blank = " ".repeat(size.0.saturating_sub(wide(line)));
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(self.out, MoveTo(0, row), Print(text), Print(blank))?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.out.flush()?;
        self.shown = lines.to_vec();
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        drop(queue!(self.out, Show, EnableLineWrap, LeaveAlternateScreen));
        drop(self.out.flush());
        drop(terminal::disable_raw_mode());
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn q_escape_and_control_c_end_it() {
        let key = |code, modifiers| meant(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none), Some(Key::Quit));
        assert_eq!(key(KeyCode::Esc, none), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), none), None);
        assert_eq!(meant(&Event::Resize(1, 1)), Some(Key::Resized));
    }
}
