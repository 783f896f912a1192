//! What becomes of a task. Pure: nothing is stored, so it is told from what is true now.
//!
//! - **TK4** A task wakes an agent with the turn as it is now, or not at all. A turn that came and
//!   went while nobody asked does not end the wait: the next one does.
//! - **TK5** Of a role's waits on one loop the newest counts; an older task is cancelled, because
//!   completing it would wake its agent a second time.
//! - **TK6** As long as the broker says nothing, neither does the task.

/// What is known of the question when a task is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// The turn is the role's, or the loop is finished.
    Ready,
    NotYet,
    /// It cannot become the role's turn: no such loop, or not a participant.
    Refused,
    /// The broker cannot be reached.
    Silence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Working,
    Completed,
    Cancelled,
}

/// `created_ms` is the task's, `newest_ms` that of the role's newest wait on this loop, `is_over`
/// whether the time has passed that the agent wanted to wait at most.
pub(super) fn verdict(word: Word, created_ms: u64, newest_ms: u64, is_over: bool) -> Verdict {
    if created_ms < newest_ms {
        return Verdict::Cancelled;
    }
    match word {
        Word::Ready | Word::Refused => Verdict::Completed,
        Word::NotYet if is_over => Verdict::Completed,
        Word::NotYet | Word::Silence => Verdict::Working,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds TK4, TK5 and TK6.
    #[test]
    fn what_becomes_of_a_task() {
        use Verdict::{Cancelled, Completed, Working};
        use Word::{NotYet, Ready, Refused, Silence};
        for (word, when_newest, when_over) in [
            (Ready, Completed, Completed),
            (NotYet, Working, Completed),
            (Refused, Completed, Completed),
            (Silence, Working, Working),
        ] {
            assert_eq!(verdict(word, 5, 5, false), when_newest, "{word:?}");
            assert_eq!(verdict(word, 5, 4, false), when_newest, "{word:?}, seen first");
            assert_eq!(verdict(word, 5, 5, true), when_over, "{word:?}, over");
            assert_eq!(verdict(word, 5, 6, false), Cancelled, "{word:?}, superseded");
            assert_eq!(verdict(word, 5, 6, true), Cancelled, "{word:?}, superseded and over");
        }
    }
}
