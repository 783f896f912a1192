//! The broker: one journal, one writer per workspace, many nodes.
pub mod journal;
