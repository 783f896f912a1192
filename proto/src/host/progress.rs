//! How far a command that takes long got, drawn on standard error for whoever looks at a terminal.
//!
//! Nothing is drawn where standard error is no terminal, or where programs read the answer, so a
//! caller draws without asking. What was drawn is gone when a [`Progress`] is dropped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// How often a bar moves although nothing is counted, so that it is seen to be alive.
const TICK: Duration = Duration::from_millis(200);

/// While it is not known how much there is to do.
const UNBOUNDED: &str = "{spinner} {msg}: {human_pos} in {elapsed}";

/// The same of bytes, and of one thing that is not counted.
const UNBOUNDED_BYTES: &str = "{spinner} {msg}: {bytes} in {elapsed}";
const UNCOUNTED: &str = "{spinner} {msg}, {elapsed}";

/// As soon as it is.
const BOUNDED: &str = "{msg} [{bar:30}] {human_pos}/{human_len} {percent}%, {eta} left";
const BOUNDED_BYTES: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {percent}%, {eta} left";

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
    /// Nothing: only the time passes.
    Time,
}

/// A bar on standard error. Clones draw the same one.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    unit: Unit,
}

impl Progress {
    /// `what` is done, such as "exporting messages". `is_json`: programs read the answer.
    pub fn start(what: &str, unit: Unit, is_json: bool) -> Self {
        let target =
            if is_json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_finish(ProgressFinish::AndClear);
        bar.set_style(style(match unit {
            Unit::Items => UNBOUNDED,
            Unit::Bytes => UNBOUNDED_BYTES,
            Unit::Time => UNCOUNTED,
        }));
        bar.set_message(what.to_owned());
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, unit }
    }

    /// Says how much there is to do in all; it may grow.
    pub fn set_total(&self, total: u64) {
        if self.bar.length().is_none() && self.unit != Unit::Time {
            self.bar.set_style(style(match self.unit {
                Unit::Bytes => BOUNDED_BYTES,
                Unit::Items | Unit::Time => BOUNDED,
            }));
        }
        self.bar.set_length(total);
    }

    /// Says that so much more is done.
    pub fn advance(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Says how much is done in all.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Says what is done from here on.
    pub fn set_message(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Prints something in between: the bar makes room for it.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes away what was drawn.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template of this file").progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_counts_whether_it_is_drawn_or_not() {
        for unit in [Unit::Items, Unit::Bytes, Unit::Time] {
            let bar = Progress::start("counting", unit, true);
            assert!(bar.bar.is_hidden());
            bar.advance(2);
            bar.set_total(10);
            bar.clone().advance(3);
            assert_eq!((bar.bar.position(), bar.bar.length()), (5, Some(10)));
            bar.set(7);
            assert_eq!(bar.bar.position(), 7);
            assert_eq!(bar.suspend(|| 1), 1);
            bar.finish();
            assert!(bar.bar.is_finished());
        }
    }

    #[test]
    fn every_template_is_one() {
        for template in [UNBOUNDED, UNBOUNDED_BYTES, UNCOUNTED, BOUNDED, BOUNDED_BYTES] {
            drop(style(template));
        }
    }
}
