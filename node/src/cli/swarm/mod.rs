//! `tasuki issue`, `task`, `delivery`, `lock`, `doc`, `worker` and `settings`: a folder or a file a noun,
//! a file a verb where there are many.
//!
//! A command that changes something acts as one role (`role_args`) and asks the broker itself, with
//! what this machine joined it with; no node has to run. Things are called as in `names`. What came
//! from others is sanitized (`rows` for lists, `details` for one thing). Lists and their JSON go page
//! by page, one line a thing (`pages`).
//!
//! Not here: renewing a claim while somebody works. A running node does that for agents; a person
//! claims for as long as the settings say, and `renew`s.

mod awaited;
mod commit;
pub(super) mod delivery;
pub(super) mod delivery_client;
pub(super) mod details;
pub(super) mod doc;
mod files;
pub(super) mod hints;
pub(super) mod issue;
pub(super) mod labels;
mod lease;
pub(super) mod lock;
pub(super) mod names;
mod pages;
pub(super) mod rows;
pub(super) mod settings;
pub(super) mod task;
pub(super) mod worker;

use serde_json::Value;

use super::{Failure, Output};

/// How things are called, for `--help`.
const IDS: &str = "\
An issue is named by its id, or by the last part of it: issue_1700000000000_00af or 00af.
A task is named ISSUE/task-3 or ISSUE/3, a delivery and a lock by their ids.";

/// What an answer that was repeated says to people.
pub(super) fn again(repeated: bool) -> &'static str {
    if repeated { " That had been done before." } else { "" }
}

/// `value` with the broker's time, by which what is left of a lease is counted.
fn with_now(mut value: Value, now_ms: u64) -> Value {
    value["now_ms"] = now_ms.into();
    value
}
