//! The steps that run on this node, and the key of each: what a sub-agent's token is checked against.

use std::{collections::BTreeMap, sync::Arc};

use tasuki_proto::run::StepId;
use tokio::sync::watch;

use crate::step_key::StepKey;

/// Steps with their keys. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct LiveSteps(Arc<watch::Sender<BTreeMap<StepId, StepKey>>>);

impl LiveSteps {
    /// Whether it is the key of a step that runs here. What is wrong with a key cannot be told from
    /// how long this takes.
    pub fn find(&self, key: &StepKey) -> bool {
        let shown = key.secret_hash();
        self.0.borrow().get(&key.step()).is_some_and(|live| live.secret_hash() == shown)
    }

    /// Resolves once the step does not run here.
    pub async fn ended(&self, step: StepId) {
        let mut steps = self.0.subscribe();
        // It cannot fail: what changes them is here.
        drop(steps.wait_for(|steps| !steps.contains_key(&step)).await);
    }

    /// Resolves once no step runs here.
    pub async fn idle(&self) {
        let mut steps = self.0.subscribe();
        // As above.
        drop(steps.wait_for(BTreeMap::is_empty).await);
    }

    /// A step begins to run; it runs until what is returned is dropped.
    pub fn begin(&self, key: StepKey) -> LiveStep {
        let step = key.step();
        self.0.send_modify(|steps| {
            assert!(!steps.contains_key(&step), "WK2: step {step} runs here already");
            steps.insert(step, key);
        });
        LiveStep { steps: self.clone(), step }
    }

    /// Whether the step runs here.
    pub fn has(&self, step: StepId) -> bool {
        self.0.borrow().contains_key(&step)
    }
}

/// A step that runs as long as this lives.
#[derive(Debug)]
pub struct LiveStep {
    steps: LiveSteps,
    step: StepId,
}

impl Drop for LiveStep {
    fn drop(&mut self) {
        self.steps.0.send_modify(|steps| {
            steps.remove(&self.step);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn step(number: u32) -> StepId {
        StepId { run: "run_1700000000000_00af".parse().expect("an id"), number }
    }

    #[test]
    fn a_key_is_good_while_its_step_runs() {
        let (live, key) = (LiveSteps::default(), StepKey::new(step(1)).expect("chance"));
        let other = StepKey::new(step(1)).expect("chance");
        assert!(!live.find(&key) && live.ended(step(1)).now_or_never().is_some());
        let running = live.begin(key.clone());
        assert!(live.has(step(1)) && live.find(&key));
        assert!(!live.find(&other) && !live.find(&StepKey::new(step(2)).expect("chance")));
        assert!(live.ended(step(1)).now_or_never().is_none());
        assert!(live.ended(step(2)).now_or_never().is_some());
        assert!(live.idle().now_or_never().is_none());
        drop(running);
        assert!(live.idle().now_or_never().is_some());
        assert!(!live.find(&key) && live.ended(step(1)).now_or_never().is_some());
    }

    /// Holds WK2.
    #[test]
    #[should_panic(expected = "WK2")]
    fn a_step_does_not_run_twice() {
        let (live, key) = (LiveSteps::default(), StepKey::new(step(1)).expect("chance"));
        let _running = live.begin(key.clone());
        let _again = live.begin(key);
    }
}
