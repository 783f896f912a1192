//! From what is on disk to what should be there. Pure.
//!
//! - **Z1** Nothing that a person wrote is overwritten or removed: whatever is not the node's own is
//!   put aside first.
//! - **Z2** At any moment in between, a thread that was there is there: its file moves, and is
//!   replaced in place.

/// One of the two places that a thread's file is concerned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where it was written last.
    Known,
    /// Where it should be.
    Wanted,
}

/// What is in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Missing,
    /// To the byte as it should be.
    Wanted,
    /// What the node wrote, or would have written when the thread was shorter.
    Own,
    /// Anything else.
    Edited,
}

/// What is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The thread's file stays where it is, or there was none.
    One(Content),
    /// It should be elsewhere: here it was, there it should be.
    Two(Content, Content),
    /// It should be nowhere.
    Leaving(Content),
}

/// One change on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    PutAside(Place),
    /// From where it was to where it should be.
    Move,
    Create,
    Replace,
    /// The node's own, which is not needed.
    TakeAway,
}

/// The changes, in order.
pub(super) fn plan(found: Found) -> Vec<Step> {
    use Content::{Edited, Missing, Own, Wanted};
    use Step::{Create, Move, PutAside, Replace, TakeAway};
    let there = |content| match content {
        Missing => vec![Create],
        Wanted => vec![],
        Own => vec![Replace],
        Edited => vec![PutAside(Place::Wanted), Create],
    };
    let moved = |content| match content {
        Own => vec![Move, Replace],
        Missing | Wanted | Edited => vec![Move],
    };
    match found {
        Found::One(content) => there(content),
        Found::Two(Missing, content) => there(content),
        Found::Two(Edited, content) => [vec![PutAside(Place::Known)], there(content)].concat(),
        Found::Two(own @ (Wanted | Own), Missing) => moved(own),
        Found::Two(own @ (Wanted | Own), Edited) => {
            [vec![PutAside(Place::Wanted)], moved(own)].concat()
        }
        Found::Two(Wanted | Own, Wanted) => vec![TakeAway],
        Found::Two(Wanted | Own, Own) => vec![Replace, TakeAway],
        Found::Leaving(Missing) => vec![],
        Found::Leaving(Wanted | Own) => vec![TakeAway],
        Found::Leaving(Edited) => vec![PutAside(Place::Known)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_about_what_is_found() {
        use Content::{Edited, Missing, Own, Wanted};
        use Found::{Leaving, One, Two};
        for (found, expected) in [
            (One(Missing), "create"),
            (One(Wanted), ""),
            (One(Own), "replace"),
            (One(Edited), "aside(wanted) create"),
            (Two(Missing, Missing), "create"),
            (Two(Missing, Wanted), ""),
            (Two(Missing, Own), "replace"),
            (Two(Missing, Edited), "aside(wanted) create"),
            (Two(Wanted, Missing), "move"),
            (Two(Own, Missing), "move replace"),
            (Two(Wanted, Wanted), "take-away"),
            (Two(Own, Wanted), "take-away"),
            (Two(Wanted, Own), "replace take-away"),
            (Two(Own, Own), "replace take-away"),
            (Two(Wanted, Edited), "aside(wanted) move"),
            (Two(Own, Edited), "aside(wanted) move replace"),
            (Two(Edited, Missing), "aside(known) create"),
            (Two(Edited, Wanted), "aside(known)"),
            (Two(Edited, Own), "aside(known) replace"),
            (Two(Edited, Edited), "aside(known) aside(wanted) create"),
            (Leaving(Missing), ""),
            (Leaving(Wanted), "take-away"),
            (Leaving(Own), "take-away"),
            (Leaving(Edited), "aside(known)"),
        ] {
            let said = |step: Step| match step {
                Step::PutAside(Place::Known) => "aside(known)",
                Step::PutAside(Place::Wanted) => "aside(wanted)",
                Step::Move => "move",
                Step::Create => "create",
                Step::Replace => "replace",
                Step::TakeAway => "take-away",
            };
            let steps: Vec<&str> = plan(found).into_iter().map(said).collect();
            assert_eq!(steps.join(" "), expected, "{found:?}");
        }
    }

    /// Plays every plan on two places, and looks after each step.
    #[test]
    fn nothing_edited_is_lost_and_the_thread_is_always_there() {
        use Content::{Edited, Missing, Own, Wanted};
        let all = [Missing, Wanted, Own, Edited];
        for (before, there) in all.into_iter().flat_map(|a| all.map(|b| (a, b))) {
            let (mut known, mut wanted, mut aside) = (before, there, 0);
            let is_there = |a, b| [a, b].iter().any(|it| matches!(it, Wanted | Own));
            let was_there = is_there(before, there);
            for step in plan(Found::Two(before, there)) {
                match step {
                    Step::PutAside(place) => {
                        let at = if place == Place::Known { &mut known } else { &mut wanted };
                        assert_eq!(*at, Edited, "only what a person wrote is put aside");
                        (*at, aside) = (Missing, aside + 1);
                    }
                    Step::Move => {
                        assert_eq!(wanted, Missing, "Z1");
                        (known, wanted) = (Missing, known);
                    }
                    Step::Create => {
                        assert_eq!(wanted, Missing, "Z1");
                        wanted = Wanted;
                    }
                    Step::Replace => {
                        assert_eq!(wanted, Own, "Z1");
                        wanted = Wanted;
                    }
                    Step::TakeAway => {
                        assert_ne!(known, Edited, "Z1");
                        known = Missing;
                    }
                }
                assert!(!was_there || is_there(known, wanted), "Z2: {before:?} {there:?} {step:?}");
            }
            assert_eq!((known, wanted), (Missing, Wanted));
            assert_eq!(aside, [before, there].iter().filter(|it| **it == Edited).count());
        }
    }
}
