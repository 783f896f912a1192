//! The name that somebody meant who wrote one that nobody has.

/// Known names that are compared, beyond those that differ in capitals alone.
const COMPARED_MAX: usize = 1_000;

/// A name of so many letters may have one of them wrong.
const LETTERS_PER_SLIP: usize = 3;

/// ` (did you mean NAME?)`, to follow the list of known names; nothing where none is near.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    nearest(name, known).map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if let Some(same) = known.clone().find(|it| it.eq_ignore_ascii_case(name)) {
        return Some(same);
    }
    let slips_max = name.len() / LETTERS_PER_SLIP;
    let alike = known.take(COMPARED_MAX).filter(|it| it.len().abs_diff(name.len()) <= slips_max);
    let slips = alike.map(|it| (strsim::osa_distance(name, it), it));
    slips.filter(|(slips, _)| *slips <= slips_max).min_by_key(|(slips, _)| *slips).map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_name() {
        for (name, known, expected) in [
            ("a", "A B", Some("A")),
            ("LEAD", "lead worker1", Some("lead")),
            ("worker", "lead worker1 acceptor", Some("worker1")),
            ("workre1", "worker2 worker1", Some("worker1")),
            ("acceptro", "lead acceptor", Some("acceptor")),
            ("C", "A B", None),
            ("qa", "dev", None),
            ("lead", "", None),
            ("planner", "coder tester", None),
        ] {
            assert_eq!(nearest(name, known.split_whitespace()), expected, "{name} of {known}");
        }
        assert_eq!(did_you_mean("a", ["A"].into_iter()), " (did you mean A?)");
        assert_eq!(did_you_mean("C", ["A"].into_iter()), "");
    }
}
