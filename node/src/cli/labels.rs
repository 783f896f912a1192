//! What commands of all kinds show people in the same form: names of states, lengths of time, heads
//! of lists, and sheets of facts.

use owo_colors::OwoColorize as _;
pub(super) use tasuki_proto::{counted::long, enum_name::enum_name};

use super::text::{indented, line, width};

/// The indent of texts on a sheet, in characters.
const INDENT: usize = 4;

/// Who did something: a role, or a person by name.
pub(super) fn author(role: &str, person: &str) -> String {
    line(if role.is_empty() { person } else { role })
}

/// A state's name as people read and type it.
pub(super) fn spaced(name: &str, gap: &str) -> String {
    name.replace('_', gap)
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
