//! How a node says that mail cannot be sealed, and work that would hold others up.

use tasuki_proto::{id::RoleId, reason::Reason};

use super::TRUST;
use crate::{
    private::{keys::NodeKeys, store::StoreError},
    refusal::Refusal,
};

pub(super) fn not_vouched(keys: &NodeKeys, role: &RoleId) -> Refusal {
    let how = match keys.newest() {
        Some(key) => format!(
            "on the owner's machine, `tasuki mail private approve NODE {}` does, once this node \
             published its key with `tasuki mail private trust`",
            key.id()
        ),
        None => format!("first {TRUST}"),
    };
    private(format!(
        "mail here is private, and the owner has not vouched for this node as {role}: {how}"
    ))
}

pub(super) fn private(message: impl Into<String>) -> Refusal {
    Refusal { reason: Reason::PrivateWorkspace, message: format!("{}.", message.into()) }
}

pub(super) fn failed(why: &StoreError) -> Refusal {
    private(format!("what this node needs for private mail is not to be had: {why}"))
}

pub(super) fn invalid(message: String) -> Refusal {
    Refusal { reason: Reason::InvalidArgument, message }
}

pub(super) fn parsed<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, Refusal>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|why| invalid(format!("{field} {why}")))
}

pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|why| Err(private(format!("private mail failed: {why}"))))
}

pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(why) => std::panic::resume_unwind(why.into_panic()),
    }
}
