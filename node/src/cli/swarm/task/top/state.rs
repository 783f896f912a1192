//! What a frame shows.

use serde::Serialize;
use tasuki_proto::wire;

/// What is known of a workspace's issues. Lists are bounded; what they leave out is counted.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct State {
    pub(super) workspace: String,
    /// What time it was at the broker.
    pub(super) now_ms: u64,
    /// Those that are open, the one that changed last first.
    pub(super) issues: Vec<wire::Issue>,
    pub(super) issues_total: u64,
    /// Those that were closed lately, or all that were asked for; the last one first.
    pub(super) closed: Vec<wire::Issue>,
    /// Of these issues, those that are not done: what is under way first.
    pub(super) tasks: Vec<wire::Task>,
    pub(super) tasks_total: u64,
    pub(super) workers: Vec<wire::Worker>,
    pub(super) locks: Vec<wire::Lock>,
    pub(super) locks_total: u64,
    /// Those without a verdict.
    pub(super) deliveries: Vec<wire::Delivery>,
    pub(super) deliveries_total: u64,
    /// Why this may be old; empty where it is not.
    #[serde(skip)]
    pub(super) trouble: String,
}
