//! Counts, lengths of time and lists of names in sentences.

use std::fmt::Display;

/// So many of something: `1 file`, `2 files`, `2 entries`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, of: &str) -> String {
    match (of.strip_suffix('y'), of.strip_suffix('x')) {
        _ if is_one(number) => format!("1 {of}"),
        (Some(stem), _) => format!("{number} {stem}ies"),
        (_, Some(_)) => format!("{number} {of}es"),
        (None, None) => format!("{number} {of}s"),
    }
}

/// What agrees with so many: `1 file is`, `2 files are`.
pub fn agreeing<'a, N: Copy + PartialEq + From<u8>>(
    number: N,
    one: &'a str,
    many: &'a str,
) -> &'a str {
    if is_one(number) { one } else { many }
}

/// The first of some names, and how many more there are: `A, B`, `A, B, …, T and 980 more`.
pub fn listed_names<T: AsRef<str>>(names: &[T]) -> String {
    const NAMES_MAX: usize = 20;
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A length of time, roughly: `3m 05s`.
pub fn long(ms: u64) -> String {
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

fn is_one<N: Copy + PartialEq + From<u8>>(number: N) -> bool {
    number == N::from(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        for (of, said) in [
            ("file", "0 files, 1 file, 2 files"),
            ("entry", "0 entries, 1 entry, 2 entries"),
            ("mailbox", "0 mailboxes, 1 mailbox, 2 mailboxes"),
        ] {
            assert_eq!([0_u64, 1, 2].map(|number| counted(number, of)).join(", "), said);
        }
        assert_eq!([0_usize, 1, 2].map(|it| agreeing(it, "is", "are")), ["are", "is", "are"]);
    }

    #[test]
    fn of_many_names_the_first_are_said() {
        assert_eq!(listed_names(&["A", "B"]), "A, B");
        let many: Vec<String> = (1..=1000).map(|it| format!("r{it}")).collect();
        assert_eq!(listed_names(&many[..20]), many[..20].join(", "));
        assert!(listed_names(&many).ends_with(", r20 and 980 more"), "{}", listed_names(&many));
    }

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
