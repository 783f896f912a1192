//! Patterns of names in settings: `*` at the end of one stands for anything.

/// Whether a name matches a pattern.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Whether a name matches one of several patterns. No patterns match every name.
pub fn matches_any<P: AsRef<str>>(patterns: &[P], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern.as_ref(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_stands_for_anything() {
        for (patterns, name, expected) in [
            (&[][..], "dev", true),
            (&["dev"][..], "dev", true),
            (&["dev"][..], "dev1", false),
            (&["lead", "dev*"][..], "dev1", true),
            (&["*"][..], "dev", true),
            (&["d*v"][..], "dev", false),
        ] {
            assert_eq!(matches_any(patterns, name), expected, "{patterns:?} {name}");
        }
    }
}
