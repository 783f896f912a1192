//! The steps that run on this node: the key of each, which a sub-agent's token is checked against, and
//! where its agent works.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use tasuki_proto::run::StepId;
use tokio::sync::watch;

use crate::step_key::StepKey;

/// All of them. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct LiveSteps(Arc<watch::Sender<BTreeMap<StepId, Running>>>);

#[derive(Debug)]
struct Running {
    key: StepKey,
    directory: PathBuf,
}

impl LiveSteps {
    /// Whether it is the key of a step that runs here. How long this takes does not show what is
    /// wrong with a key.
    pub fn find(&self, key: &StepKey) -> bool {
        let shown = key.secret_hash();
        self.0.borrow().get(&key.step()).is_some_and(|live| live.key.secret_hash() == shown)
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

    /// A step begins to run in a directory; it runs until what is returned is dropped.
    pub fn begin(&self, key: StepKey, directory: PathBuf) -> LiveStep {
        let step = key.step();
        self.0.send_modify(|steps| {
            assert!(!steps.contains_key(&step), "WK2: step {step} runs here already");
            steps.insert(step, Running { key, directory });
        });
        LiveStep { steps: self.clone(), step }
    }

    /// Where the agent of a step works that runs here.
    pub fn directory(&self, step: StepId) -> Option<PathBuf> {
        self.0.borrow().get(&step).map(|live| live.directory.clone())
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
        let running = live.begin(key.clone(), "/p/web".into());
        assert!(live.has(step(1)) && live.find(&key));
        assert_eq!(live.directory(step(1)), Some("/p/web".into()));
        assert!(!live.find(&other) && !live.find(&StepKey::new(step(2)).expect("chance")));
        assert!(live.ended(step(1)).now_or_never().is_none());
        assert!(live.ended(step(2)).now_or_never().is_some());
        assert!(live.idle().now_or_never().is_none());
        drop(running);
        assert!(live.idle().now_or_never().is_some());
        assert!(!live.find(&key) && live.ended(step(1)).now_or_never().is_some());
        assert_eq!(live.directory(step(1)), None);
    }

    /// Holds WK2.
    #[test]
    #[should_panic(expected = "WK2")]
    fn a_step_does_not_run_twice() {
        let (live, key) = (LiveSteps::default(), StepKey::new(step(1)).expect("chance"));
        let _running = live.begin(key.clone(), PathBuf::new());
        let _again = live.begin(key, PathBuf::new());
    }
}
