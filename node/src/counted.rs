//! Counts in sentences.

use std::fmt::Display;

/// So many of something: `1 file`, `2 files`, `2 entries`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, of: &str) -> String {
    match (of.strip_suffix('y'), of.strip_suffix('x')) {
        _ if is_one(number) => format!("1 {of}"),
        (Some(stem), _) => format!("{number} {stem}ies"),
        (_, Some(_)) => format!("{number} {of}es"),
        (None, None) => format!("{number} {of}s"),
    }
}

/// What agrees with so many: `1 file is`, `2 files are`.
pub(crate) fn agreeing<'a, N: Copy + PartialEq + From<u8>>(
    number: N,
    one: &'a str,
    many: &'a str,
) -> &'a str {
    if is_one(number) { one } else { many }
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
}
