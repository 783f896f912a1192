//! What both imports report alike.

use std::fmt::{self, Display};

use serde::Serialize;
use tasuki_proto::counted::{agreeing, counted};

use super::{super::text, Failure};

/// What a person should know about one thread or issue.
#[derive(Debug, Serialize)]
pub(super) struct Note {
    pub(super) id: String,
    pub(super) note: String,
}

impl Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.note)
    }
}

/// What the broker refused while it took others.
#[derive(Debug, Default, Serialize)]
pub(super) struct Refusals(Vec<Refusal>);

#[derive(Debug, Serialize)]
struct Refusal {
    id: String,
    code: &'static str,
    message: String,
    #[serde(skip)]
    why: Failure,
}

impl Refusals {
    pub(super) fn push(&mut self, id: String, why: Failure) {
        self.0.push(Refusal { id, code: why.code(), message: why.message.clone(), why });
    }

    /// How the command fails after all others were taken, if any was refused.
    pub(super) fn failure(&self, noun: &str) -> Option<Failure> {
        let mut why = self.0.first()?.why.clone();
        let were = agreeing(self.0.len(), "was", "were");
        why.message = format!("{} {were} refused.", counted(self.0.len(), noun));
        Some(why)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|it| format!("{} {} ({})", it.id, it.message, it.code))
    }
}

/// A failure that keeps the others out as well, after so many were taken.
pub(super) fn broken_off(mut why: Failure, done: usize, noun: &str) -> Failure {
    why.message += &format!(
        " {} had been taken over by then; run it again for the others, nothing is taken twice.",
        counted(done, noun)
    );
    why
}

/// A list under a title, if there is anything in it.
pub(super) fn section(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl IntoIterator<Item: Display>,
) -> fmt::Result {
    for (at, line) in lines.into_iter().enumerate() {
        if at == 0 {
            writeln!(f, "\n{title}")?;
        }
        writeln!(f, "  {}", text::line(&line.to_string()))?;
    }
    Ok(())
}
