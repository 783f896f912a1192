//! What somebody searches for: read from what was typed (`parse`), as terms with places
//! (`pattern`), and as the index takes it (`plan`).
//!
//! Nothing that can be typed is malformed: quotes that do not end, signs and fields that mean
//! nothing are taken as text. Refused is only what cannot be searched for, with what to do.

mod aside;
mod parse;
mod pattern;
mod plan;

pub use parse::{QueryError, parse};
pub(super) use pattern::{Pattern, Test};
pub use plan::Narrow;
pub(super) use plan::plan;

/// What is searched for; every clause must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub(super) clauses: Vec<Clause>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause {
    /// It must not match.
    pub(super) is_without: bool,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Words(Place, Pattern),
    /// A role that sent it.
    From(Name),
    /// A role it is addressed to.
    To(Name),
    Kind(Name),
    /// How the id of its thread begins: hexadecimal digits.
    Thread(String),
}

/// Where words are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    Subject,
    Body,
}

/// In any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    pub(super) is_prefix: bool,
}

impl Query {
    /// What is to be shown of a text that was found.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Pattern> {
        self.clauses.iter().filter(|it| !it.is_without).filter_map(|it| match &it.what {
            What::Words(Place::Anywhere | Place::Body, pattern) => Some(pattern),
            What::Words(Place::Subject, _)
            | What::From(_)
            | What::To(_)
            | What::Kind(_)
            | What::Thread(_) => None,
        })
    }

    /// The beginnings of ids that the thread must and must not have.
    pub fn threads(&self) -> impl Iterator<Item = (bool, &str)> {
        self.clauses.iter().filter_map(|it| match &it.what {
            What::Thread(digits) => Some((it.is_without, digits.as_str())),
            What::Words(..) | What::From(_) | What::To(_) | What::Kind(_) => None,
        })
    }
}
