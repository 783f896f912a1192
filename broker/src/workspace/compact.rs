//! What a compaction asks of a workspace beside its commands: to let go of bodies and old records.

use tasuki_proto::id::WorkspaceId;

use super::{
    handle::ExecuteError,
    state::{State, compact::Removal},
    supervisor::Workspaces,
};
use crate::journal::BodyKey;

impl Workspaces {
    /// Removes those of these bodies, each with its length, that nothing in a workspace names. Says
    /// how many and of how many bytes, once that is durable; `None` where it was not done: somebody
    /// reads all that there was at one moment.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn remove_unnamed(
        &self,
        workspace: &WorkspaceId,
        bodies: Vec<(BodyKey, u64)>,
    ) -> Result<Option<(u64, u64)>, ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let removal = handle.run(permit, |state| state.remove_unnamed(bodies)).await?;
        let Removal { count, bytes, done } = removal.ok_or(ExecuteError::OutcomeUnknown)?;
        Ok(done.await.is_ok().then_some((count, bytes)))
    }

    /// Has a workspace make a snapshot and let the records before it be dropped. Returns when that
    /// is done, or cannot be.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn drop_records(&self, workspace: &WorkspaceId) -> Result<(), ExecuteError> {
        let (handle, permit) = self.admitted(workspace).await?;
        let made = handle.run(permit, State::drop_records).await?;
        // It closes without a word.
        let _ = made.ok_or(ExecuteError::OutcomeUnknown)?.await;
        Ok(())
    }
}
