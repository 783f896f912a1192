//! Somebody else's Markdown in a terminal.
//!
//! **Invariant:** whatever the text, only the renderer's own colours reach the terminal, every
//! line is under the margin, and rendering takes time in proportion to the text.

use anstream::ColorChoice;
use termimad::{FmtText, MadSkin, minimad::Alignment};

use crate::cli::text::{block, width};

/// Columns of a table that is drawn as one: the work grows with their square.
const COLUMNS_MAX: usize = 16;

/// Characters that a column of a table needs, its border included; in less it is left out.
const COLUMN_CHARS_MIN: usize = 6;

/// How wide texts are drawn where colours are wanted in what is no terminal, in cells.
const WIDTH: usize = 96;

/// Under which the words of an entry stand.
const MARGIN: &str = "    ";

/// The text of an entry: rendered where colours are shown, else as it was written.
pub(super) fn shown(text: &str) -> String {
    let is_plain = matches!(anstream::stdout().current_choice(), ColorChoice::Never);
    if is_plain { plain(text) } else { rendered(text, width().unwrap_or(WIDTH)) }
}

fn plain(text: &str) -> String {
    under_margin(&block(text))
}

fn rendered(text: &str, width: usize) -> String {
    let text = block(text);
    let room = width.saturating_sub(MARGIN.len());
    if !has_fitting_tables(&text, room) {
        return under_margin(&text);
    }
    let mut skin = MadSkin::default();
    for header in &mut skin.headers {
        header.align = Alignment::Left;
    }
    let drawn = FmtText::from(&skin, &text, Some(room)).to_string();
    // A text of nothing but marks is drawn as nothing.
    if anstream::adapter::strip_str(&drawn).to_string().trim().is_empty() {
        return under_margin(&text);
    }
    under_margin(&drawn)
}

/// Whether no table would lose columns, or cost more than it is worth.
fn has_fitting_tables(text: &str, room: usize) -> bool {
    let columns_max = COLUMNS_MAX.min(room / COLUMN_CHARS_MIN);
    text.lines().all(|line| line.bytes().filter(|it| *it == b'|').count() <= columns_max)
}

fn under_margin(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        let line = line.trim_end();
        let margin = if line.is_empty() { "" } else { MARGIN };
        out += &format!("{margin}{line}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 60;

    fn bare(text: &str) -> String {
        anstream::adapter::strip_str(&rendered(text, WIDTH)).to_string()
    }

    #[test]
    fn markdown_is_drawn_under_a_margin() {
        let text = "# Head\nSome **bold** and `code`.\n\n- one\n- two\n";
        let drawn = rendered(text, WIDTH);
        assert!(drawn.contains("\u{1b}["), "{drawn:?}");
        let lines: Vec<String> = bare(text).lines().map(|it| it.trim_end().to_owned()).collect();
        assert_eq!(lines, ["    Head", "    Some bold and code.", "", "    • one", "    • two"]);
    }

    #[test]
    fn what_others_write_cannot_steer_the_terminal() {
        let text = "a \u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m `\u{202e}b\u{1b}[8m` c\u{200b}d";
        assert_eq!(plain(text), "    a 31m `b` cd\n");
        let drawn = rendered(text, WIDTH);
        for hostile in ["\u{1b}[2J", "\u{1b}]", "\u{1b}[8m", "\u{7}", "\u{9b}", "\u{202e}"] {
            assert!(!drawn.contains(hostile), "{hostile:?} in {drawn:?}");
        }
    }

    #[test]
    fn no_words_are_left_out() {
        for text in ["```", "~~~~"] {
            assert!(bare(text).contains(text), "{text}");
        }
        let wide = format!("|{}", "cell|".repeat(11));
        assert_eq!(bare(&wide).matches("cell").count(), 11);
        let table = "|a|b|\n|-|-|\n|one|two|\n";
        assert!(bare(table).contains("one") && bare(table).contains('│'), "{}", bare(table));
    }

    /// Work that grows with the square of the text would take minutes.
    #[test]
    fn the_largest_texts_are_drawn_whatever_is_in_them() {
        const BYTES: usize = tasuki_proto::limits::TEXT_BYTES_MAX;
        for piece in ["|", "word ", "x", "*", "`", "```\n", ">", "|a|b|\n", "- a\n", "[a](b) "] {
            let text = piece.repeat(BYTES / piece.len());
            assert!(!rendered(&text, WIDTH).is_empty(), "{piece}");
        }
    }
}
