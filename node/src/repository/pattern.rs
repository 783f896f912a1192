//! Names of files as patterns of a lock, and back, without IO.
//!
//! In a pattern `*`, `?` and `[` are wildcards; in the name of a file they are themselves. A file
//! whose name has some is written as classes of one, `[[]`, so that the broker, which compares
//! patterns, finds it where it is and nowhere else.

use std::borrow::Cow;

use tasuki_broker::rules::swarm::lock::LockKey;

/// What is a wildcard in a pattern.
pub(super) const WILDCARDS: [char; 3] = ['*', '?', '['];

/// What stands for no text, and what the broker takes for a sign of another system's paths, are
/// any one sign.
fn is_special(c: char) -> bool {
    WILDCARDS.contains(&c) || matches!(c, '\\' | char::REPLACEMENT_CHARACTER)
}

/// The pattern that is on this very file and, if it is a directory, all below. A name that no
/// pattern can hold, for its length or its signs, gets one that is on some others, too: rather too
/// much is locked than the file not.
pub fn literal(path: &str) -> String {
    let is_plain = |text: &str| !text.contains(is_special);
    let fits = |pattern: &str| LockKey::new("", pattern, false).is_ok();
    if is_plain(path) && fits(path) {
        return path.to_owned();
    }
    let written = |class: fn(char) -> Cow<'static, str>| {
        let written =
            path.chars().map(|c| if is_special(c) { class(c) } else { Cow::from(c.to_string()) });
        written.collect::<String>() + "/"
    };
    let exact = written(|c| match c {
        '*' => "[*]".into(),
        '?' => "[?]".into(),
        '[' => "[[]".into(),
        _ => "?".into(),
    });
    if fits(&exact) {
        return exact;
    }
    let near = written(|_| "?".into());
    if fits(&near) {
        return near;
    }
    let mut above: Vec<&str> = path.split('/').take_while(|it| is_plain(it)).collect();
    while !above.is_empty() {
        let around = above.join("/") + "/**";
        if above.len() < path.split('/').count() && fits(&around) {
            return around;
        }
        above.pop();
    }
    "**".to_owned()
}

/// The pattern in which a `[` stands for itself.
pub(super) fn without_classes(pattern: &str) -> String {
    pattern.replace('[', "[[]")
}

/// How a pattern is shown, as it is sent or as it is kept: a file whose name has wildcards in it as it
/// is called.
pub fn shown(pattern: &str) -> Cow<'_, str> {
    let name = pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix('/'));
    let Some(name) = name else { return pattern.into() };
    let bare = name.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?");
    if bare != name && literal(&bare).strip_suffix('/') == Some(name) {
        bare.into()
    } else {
        pattern.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(pattern: &str) -> LockKey {
        LockKey::new("r", pattern, false).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn a_file_is_locked_by_its_name_whatever_that_is() {
        for (name, pattern, as_shown) in [
            ("src/main.rs", "src/main.rs", "src/main.rs"),
            ("app/[slug]/page.tsx", "app/[[]slug]/page.tsx/", "app/[slug]/page.tsx"),
            ("a*b?c", "a[*]b[?]c/", "a*b?c"),
            ("a\\b", "a?b/", "a?b/**"),
            ("what[", "what[[]/", "what["),
            ("]", "]", "]"),
        ] {
            assert_eq!(literal(name), pattern);
            assert_eq!(shown(key(pattern).path()), as_shown, "{name}");
        }
        let odd = format!("d/e/{}", "*".repeat(12));
        assert_eq!(literal(&odd), format!("d/e/{}/", "?".repeat(12)));
        let odder = format!("d/e/{}", "*".repeat(40));
        assert_eq!(literal(&odder), "d/e/**");
        assert_eq!(literal(&"*".repeat(40)), "**");
        let long = format!("{}/{}", "d".repeat(200), "e".repeat(1000));
        assert_eq!(literal(&long), "d".repeat(200) + "/**");
    }

    #[test]
    fn patterns_are_shown_as_they_are() {
        for pattern in ["src/**", "src/*.rs", "**", "[ab]/**", "[[]/*/**", "a/**/b/**"] {
            assert_eq!(shown(pattern), pattern);
        }
    }

    proptest! {
        #[test]
        fn a_file_meets_itself_and_not_its_neighbour(
            name in "[a-c*?\\[\\]]{1,5}(/[a-c*?\\[\\]]{1,5}){0,2}",
        ) {
            let own = key(&literal(&name));
            prop_assert!(own.overlaps(&key(&literal(&name))));
            let below = key(&literal(&format!("{name}/below")));
            prop_assert!(own.overlaps(&below));
            prop_assert!(own.overlaps(&key("**")));
            let other = literal(&format!("{name}x"));
            if !own.path().contains('?') || own.path().contains("[?]") {
                prop_assert!(!own.overlaps(&key(&other)), "{} {}", own.path(), other);
            }
        }
    }
}
