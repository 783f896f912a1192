//! Texts of others, made fit for a terminal.
//!
//! **Invariant:** what these functions return cannot move the cursor, change colours, reorder
//! letters or hide any: no control characters but newlines, no escape sequences, no bidirectional
//! or invisible ones.

use std::{
    io::IsTerminal as _,
    sync::{LazyLock, OnceLock},
};

use jiff::{
    Timestamp,
    tz::{Offset, TimeZone},
};
use tasuki_proto::visible::shown;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::clock;

/// Narrower than this nothing is wrapped, in cells: words would stand alone.
const WIDTH_MIN: usize = 30;

/// So much of a text at the end of a line stays, in cells: of less nobody can tell what it says.
const END_MIN: usize = 12;

/// A text in one line.
pub(crate) fn line(text: &str) -> String {
    block(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same, cut to so many cells of a terminal.
pub(crate) fn short(text: &str, cells_max: usize) -> String {
    cut(&line(text), cells_max)
}

/// A line that is safe already, cut in the same way; blanks in it stay.
pub(crate) fn cut(line: &str, cells_max: usize) -> String {
    if line.width() <= cells_max {
        return line.to_owned();
    }
    let mut left = cells_max.saturating_sub(1);
    let fits = |c: &char| {
        let cells = c.width().unwrap_or(0);
        let fits = cells <= left;
        left = left.saturating_sub(cells);
        fits
    };
    let kept: String = line.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

/// A text in one line, cut to so many cells where it goes to a terminal: programs and files get all
/// of it.
pub(crate) fn fitted(text: &str, cells_max: usize) -> String {
    if width().is_some() { short(text, cells_max) } else { line(text) }
}

/// A line with a text at its end, which is cut to what the head leaves of the terminal's width.
pub(crate) fn ended(head: &str, text: &str) -> String {
    ended_within(width(), head, text)
}

fn ended_within(width: Option<usize>, head: &str, text: &str) -> String {
    let taken = anstream::adapter::strip_str(head).to_string().width();
    let cut = |width: usize| short(text, width.saturating_sub(taken).max(END_MIN));
    format!("{head}{}\n", width.map_or_else(|| line(text), cut))
}

/// The same in a column of a table, filled up with blanks.
pub(crate) fn column(text: &str, cells: usize) -> String {
    padded(fitted(text, cells), cells)
}

/// Filled up with blanks.
pub(crate) fn padded(mut text: String, cells: usize) -> String {
    let blanks = cells.saturating_sub(text.width());
    text.extend(std::iter::repeat_n(' ', blanks));
    text
}

/// A text of several lines.
pub(crate) fn block(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\u{2028}', '\u{2029}', '\r'], "\n");
    let bare = anstream::adapter::strip_str(&text).to_string();
    shown(&bare).0.replace('\t', " ")
}

/// Whether a terminal is printed to, which may not know its own size.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Columns and rows of the terminal that is printed to; `None`: it is no terminal, or has no size.
pub(crate) fn terminal() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some((columns.0.into(), rows.0.into()))
}

/// How wide lines may be, in cells; `None`: as wide as they are.
pub(crate) fn width() -> Option<usize> {
    terminal().map(|(columns, _)| columns.max(WIDTH_MIN))
}

/// A text under a label, indented, and wrapped between words where lines may be only so wide.
pub(crate) fn indented(text: &str, indent: usize, width: Option<usize>) -> String {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(WIDTH_MIN));
    let margin = " ".repeat(indent);
    let mut out = String::new();
    for line in block(text).lines() {
        let depth = line.len() - line.trim_start().len();
        let own = &line[..depth];
        let mut current = String::from(own);
        for word in line.split_whitespace() {
            let is_first = current.len() == own.len();
            let wide = current.width() + usize::from(!is_first) + word.width();
            if !is_first && room < wide {
                out.push_str(&margin);
                out.push_str(current.trim_end());
                out.push('\n');
                current = String::from(own);
            } else if !is_first {
                current.push(' ');
            }
            current.push_str(word);
        }
        if !current.trim_end().is_empty() {
            out.push_str(&margin);
        }
        out.push_str(current.trim_end());
        out.push('\n');
    }
    out
}

/// The zone that times are shown in. Where a program did not say, as in tests: UTC.
static ZONE: OnceLock<LazyLock<TimeZone, fn() -> TimeZone>> = OnceLock::new();

/// Chooses it, once: this machine's, or that of TZ, unless UTC is asked for.
pub(super) fn set_zone(is_utc: bool) {
    let zone = if is_utc { || TimeZone::UTC } else { clock::zone };
    // Whoever was first chose already. It is looked up when the first time is shown.
    let _ = ZONE.set(LazyLock::new(zone));
}

/// A time of the broker's clock, with its zone's distance from UTC; `-` for never.
pub(crate) fn time(ms: u64) -> String {
    time_in(ms, ZONE.get().map_or(&TimeZone::UTC, |it| &**it))
}

/// The same in UTC: for what is kept, or read elsewhere.
pub(crate) fn utc_time(ms: u64) -> String {
    time_in(ms, &TimeZone::UTC)
}

/// How wide a column of times is, in cells.
pub(crate) fn time_cells() -> usize {
    time(1).len()
}

fn time_in(ms: u64, zone: &TimeZone) -> String {
    if ms == 0 {
        return "-".into();
    }
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let time = time.unwrap_or(Timestamp::MAX).to_zoned(zone.clone());
    let format = if is_utc(zone) { "%Y-%m-%d %H:%M:%SZ" } else { "%Y-%m-%d %H:%M:%S%:z" };
    time.strftime(format).to_string()
}

/// Whether a zone is UTC under whatever name: it is in winter and in summer.
fn is_utc(zone: &TimeZone) -> bool {
    const WINTER_AND_SUMMER_S: [i64; 2] = [1_767_225_600, 1_782_864_000];
    let times = WINTER_AND_SUMMER_S.map(|at| Timestamp::from_second(at).unwrap_or(Timestamp::MIN));
    times.iter().all(|at| zone.to_offset(*at) == Offset::UTC)
}

/// A text as one word of a shell's command line.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_reaches_the_terminal_itself() {
        for (hostile, harmless) in [
            ("red \u{1b}[31malert\u{1b}[0m", "red alert"),
            ("title \u{1b}]0;owned\u{7}!", "title !"),
            ("link \u{1b}]8;;http://x\u{1b}\\text\u{1b}]8;;\u{1b}\\", "link text"),
            ("back\u{8}\u{8}space\u{7f}", "backspace"),
            ("c1 \u{9b}31m", "c1 31m"),
            ("bidi \u{202e}evil\u{2066}\u{200f}", "bidi evil"),
            ("hid\u{200b}den\u{feff}\u{e0041}", "hidden"),
            ("two\nlines\r\nand\rmore\u{2028}end", "two lines and more end"),
            ("  wide\t\tspace ", "wide space"),
            ("日本語 ok ä 🎽", "日本語 ok ä 🎽"),
        ] {
            assert_eq!(line(hostile), harmless, "{hostile:?}");
        }
    }

    #[test]
    fn long_lines_are_cut_with_a_mark() {
        assert_eq!(short("abcdef", 6), "abcdef");
        assert_eq!(short("abc defg", 5), "abc…");
        assert_eq!(short("日本語", 6), "日本語");
        assert_eq!(short("日本語", 5), "日本…");
        assert_eq!(short("日本語", 4), "日…");
        assert_eq!(cut("a  b  c", 7), "a  b  c");
        assert_eq!(cut("a  b  c", 6), "a  b…");
    }

    #[test]
    fn a_line_ends_where_the_terminal_does() {
        let head = "\u{1b}[1m#1\u{1b}[0m 日本 ";
        let text = "a subject of several words";
        assert_eq!(ended_within(None, head, text), format!("{head}{text}\n"));
        assert_eq!(ended_within(Some(40), head, text), format!("{head}{text}\n"));
        assert_eq!(ended_within(Some(30), head, text), format!("{head}a subject of several…\n"));
        assert_eq!(ended_within(Some(10), head, text), format!("{head}a subject o…\n"));
    }

    #[test]
    fn columns_stand_under_each_other_whatever_the_letters() {
        for (text, filled) in [
            ("abc", "abc   |"),
            ("日本", "日本  |"),
            ("e\u{301}", "e\u{301}     |"),
            ("日本語", "日本語|"),
            ("too wide", "too wide|"),
        ] {
            assert_eq!(padded(text.to_owned(), 6) + "|", filled);
        }
    }

    #[test]
    fn blocks_wrap_between_words_and_keep_their_lines() {
        let text = "one two three four five six seven eight nine\n\n  - a list of some more words that wrap";
        assert_eq!(
            indented(text, 2, Some(32)),
            "  one two three four five six\n  seven eight nine\n\n    - a list of some more words\n    that wrap\n"
        );
        let word = "x".repeat(50);
        assert_eq!(indented(&word, 2, Some(32)), format!("  {word}\n"));
        let wide = "日本語 ".repeat(5);
        assert_eq!(indented(&wide, 2, Some(32)).lines().count(), 2);
        let long = "word ".repeat(60);
        assert_eq!(indented(&long, 2, None), format!("  {}\n", long.trim_end()));
    }

    #[test]
    fn times_are_those_of_a_zone_and_name_it() {
        assert_eq!((time(0), utc_time(0)), ("-".to_owned(), "-".to_owned()));
        let east = TimeZone::fixed(jiff::tz::offset(9));
        let london = TimeZone::posix("GMT0BST,M3.5.0/1,M10.5.0").unwrap();
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (ms, zone, expected) in [
            (951_782_400_000, &TimeZone::UTC, "2000-02-29 00:00:00Z"),
            (1_795_302_600_999, &TimeZone::UTC, "2026-11-21 23:10:00Z"),
            (1_795_302_600_999, &TimeZone::unknown(), "2026-11-21 23:10:00Z"),
            (1_795_302_600_999, &east, "2026-11-22 08:10:00+09:00"),
            (1_795_302_600_999, &berlin, "2026-11-22 00:10:00+01:00"),
            (1_795_302_600_999, &london, "2026-11-21 23:10:00+00:00"),
            // In summer, and however wrong a clock is.
            (1_782_864_000_000, &berlin, "2026-07-01 02:00:00+02:00"),
            (u64::MAX, &TimeZone::UTC, "9999-12-30 22:00:00Z"),
        ] {
            assert_eq!(time_in(ms, zone), expected, "{ms}");
        }
        assert_eq!(time_cells(), 20);
    }

    #[test]
    fn a_word_stays_one_word() {
        for (text, expected) in [
            ("/home/u/d-1", "/home/u/d-1"),
            ("", "''"),
            ("/a b/$c", "'/a b/$c'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
