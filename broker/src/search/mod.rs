//! Finding mail by its words.

mod excerpt;
mod index;
mod query;
mod schema;
mod text;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadNumber(pub u32);
