//! Where a step comes from, and what the steps above it bind it to.
//!
//! What cannot be found out is as strict as can be: from another machine, and below a sandbox.

use tasuki_proto::{
    run::StepId,
    wire::{self, StepRef},
};

use crate::{
    link::Link,
    runs::{convert::plain, spec::Spec},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    /// Another machine asked for the run, or for one that it is below.
    pub(super) is_elsewhere: bool,
    /// A step above it is in a sandbox, so this one is, too.
    pub(super) is_sandboxed: bool,
}

impl Origin {
    /// Looks up the tree.
    pub(super) async fn find(link: &Link, id: StepId, given: &wire::ClaimStepResponse) -> Self {
        let run = given.run.as_ref();
        let own = run.and_then(|run| run.steps.iter().find(|step| step.step == id.number));
        let own = own.map(|step| step.node.as_str()).filter(|node| !node.is_empty());
        let mut found = Self { is_elsewhere: own.is_none(), is_sandboxed: false };
        let Some(run) = run else { return Self { is_sandboxed: true, ..found } };
        let (mut asker, mut parent) = (run.node.clone(), run.parent.clone());
        loop {
            found.is_elsewhere |= own != Some(asker.as_str());
            let Some(above) = parent else { return found };
            let Some((run, is_sandboxed)) = parent_run(link, above).await else {
                return Self { is_elsewhere: true, is_sandboxed: true };
            };
            found.is_sandboxed |= is_sandboxed;
            (asker, parent) = (run.node, run.parent);
        }
    }
}

/// The run that a step is in, and whether the step is in a sandbox.
async fn parent_run(link: &Link, StepRef { run_id, step }: StepRef) -> Option<(wire::Run, bool)> {
    let request = wire::GetRunRequest { run_id: run_id.clone(), ..Default::default() };
    let run = link.query(request).await.ok()?.run?;
    let request = wire::GetStepRequest { run_id, step, ..Default::default() };
    let told = link.query(request).await.ok()?;
    let spec = Spec::parse(plain(told.spec.as_ref())).ok()?;
    Some((run, spec.sandbox))
}
