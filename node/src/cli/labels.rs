//! What commands of all kinds show people in the same form: names of states, lengths of time, heads
//! of lists, and sheets of facts.

use owo_colors::OwoColorize as _;

use super::text::{indented, line, width};

/// The indent of texts on a sheet, in characters.
const INDENT: usize = 4;

/// The name of a state as the protocol has it, in small letters and without its kind.
pub(super) fn bare(name: &str, kind: &str) -> String {
    name.strip_prefix(kind).unwrap_or(name).to_lowercase()
}

/// A state's name as people read and type it.
pub(super) fn spaced(name: &str, gap: &str) -> String {
    name.replace('_', gap)
}

/// A length of time, roughly.
pub(super) fn long(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {seconds:02}s"),
        (0, hours, minutes) => format!("{hours}h {minutes:02}m"),
        (days, hours, _) => format!("{days}d {hours:02}h"),
    }
}

/// The head of a list.
pub(super) fn headed(text: &str) -> String {
    format!("{}\n", text.trim_end().dimmed())
}

/// A text that is being written: a title, lines with labels, and parts below.
#[derive(Debug, Default)]
pub(super) struct Sheet(pub(super) String);

impl Sheet {
    pub(super) fn title(text: &str) -> Self {
        Self(format!("{}\n", line(text).bold()))
    }

    /// A line with a label, unless the text is empty.
    pub(super) fn row(&mut self, label: &str, text: &str) {
        if !text.is_empty() {
            let label = format!("{label:<13}");
            self.0 += &format!("  {} {text}\n", label.dimmed());
        }
    }

    /// Several names in one line.
    pub(super) fn names(&mut self, label: &str, names: &[String]) {
        self.row(label, &line(&names.join(", ")));
    }

    /// A text under its label.
    pub(super) fn text(&mut self, label: &str, text: &str) {
        if !text.trim().is_empty() {
            self.0 += &format!("  {}\n", label.dimmed());
            self.words(text);
        }
    }

    /// A text without a label.
    pub(super) fn words(&mut self, text: &str) {
        self.0.push_str(&indented(text, INDENT, width()));
    }

    /// Something of its own below.
    pub(super) fn part(&mut self, title: &str) {
        self.0 += &format!("\n{title}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_said_in_two_units() {
        for (ms, text) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m 00s"),
            (3_599_000, "59m 59s"),
            (3_600_000, "1h 00m"),
            (90_061_000, "1d 01h"),
        ] {
            assert_eq!(long(ms), text);
        }
    }
}
