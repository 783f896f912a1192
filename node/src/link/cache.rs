//! What this node last saw of the loops, for when the broker cannot be asked.
//!
//! It is kept to be shown to whoever looks, with its age, and decides nothing: whose turn it is,
//! the broker alone says.
//!
//! - **L6** What is kept is bounded by [`BYTES_MAX`]; what was seen longest ago goes first.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{id::LoopId, wire};
use tokio::time;

use super::{Link, LinkState, retry::chance};
use crate::{
    clock::{self, Moment},
    role::Seen,
};

/// Kept of what loops looked like, words included, in bytes: each has some 1 MiB at most.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Between two looks at all loops, in milliseconds. It is what people see of a broker that went
/// away, so a minute more does not matter to them.
const LOOK_EVERY_MS: u64 = 60_000;

/// A workspace of so many loops is looked at half as often: a list costs by its length.
const LOOPS_USUAL: usize = 200;

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    loops: BTreeMap<LoopId, (Moment, wire::GetLoopResponse)>,
    bytes: usize,
    list: Option<(Moment, wire::ListLoopsResponse)>,
}

/// What a loop takes, roughly: its words, and a name or two.
fn weight(seen: &wire::GetLoopResponse) -> usize {
    let words = [&seen.latest, &seen.words].into_iter().flatten();
    512 + words.map(|it| it.summary.len() + it.instruction.len()).sum::<usize>()
}

impl Kept {
    fn remember(&mut self, loop_id: LoopId, seen: wire::GetLoopResponse, now: Moment) {
        self.bytes += weight(&seen);
        if let Some((_, before)) = self.loops.insert(loop_id, (now, seen)) {
            self.bytes -= weight(&before);
        }
        while BYTES_MAX < self.bytes {
            let oldest = self.loops.iter().min_by_key(|(_, (at, _))| *at);
            let Some(oldest) = oldest.map(|(loop_id, _)| loop_id.clone()) else { return };
            if let Some((_, seen)) = self.loops.remove(&oldest) {
                self.bytes -= weight(&seen);
            }
        }
    }

    /// The loop itself, or as it was in the list, whichever was seen later.
    fn recall(&self, loop_id: &LoopId, now: Moment) -> Option<Seen<wire::GetLoopResponse>> {
        let own = self.loops.get(loop_id);
        let listed = self.list.as_ref().and_then(|(at, list)| {
            let of = list.loops.iter().find(|of| of.r#loop == loop_id.as_str())?;
            let seen = wire::GetLoopResponse { r#loop: Some(of.clone()), ..Default::default() };
            Some((*at, seen))
        });
        let (at, what) = match (own, listed) {
            (Some((at, _)), Some(listed)) if *at < listed.0 => listed,
            (Some(own), _) => own.clone(),
            (None, listed) => listed?,
        };
        Some(Seen { what, ago: Some(now.since(at)) })
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    pub(super) fn remember(&self, loop_id: &LoopId, seen: &wire::GetLoopResponse) {
        self.kept().remember(loop_id.clone(), seen.clone(), clock::now());
    }

    pub(super) fn remember_all(&self, seen: &wire::ListLoopsResponse) {
        self.kept().list = Some((clock::now(), seen.clone()));
    }

    pub(super) fn recall(&self, loop_id: &LoopId) -> Option<Seen<wire::GetLoopResponse>> {
        self.kept().recall(loop_id, clock::now())
    }

    pub(super) fn recall_all(&self) -> Option<Seen<wire::ListLoopsResponse>> {
        let kept = self.kept();
        let (at, list) = kept.list.as_ref()?;
        Some(Seen { what: list.clone(), ago: Some(clock::now().since(*at)) })
    }
}

/// Looks at all loops now and then, so that there is something to show. Runs until the node
/// stops.
pub(super) async fn run(link: Link) {
    let mut state = link.state();
    loop {
        if state.wait_for(LinkState::is_connected).await.is_err() {
            return;
        }
        let count = match link.list_loops().await {
            Ok(list) => list.what.loops.len(),
            Err(refusal) => {
                tracing::debug!(%refusal, "the loops cannot be looked at");
                0
            }
        };
        let longer = u64::try_from(1 + count / LOOPS_USUAL).unwrap_or(u64::MAX);
        let every = LOOK_EVERY_MS.saturating_mul(longer);
        time::sleep(Duration::from_millis(every / 2 + chance() % every)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn named(name: &str, turn: u64, bytes: usize) -> wire::GetLoopResponse {
        let of = wire::Loop { r#loop: name.to_owned(), turn, ..wire::Loop::default() };
        let latest = wire::Entry { summary: "x".repeat(bytes), ..wire::Entry::default() };
        wire::GetLoopResponse { r#loop: Some(of), latest: Some(latest), ..Default::default() }
    }

    #[test]
    fn the_latest_look_is_recalled_with_its_age() {
        let mut kept = Kept::default();
        let main: LoopId = "main".parse().expect("an id");
        let told = |kept: &Kept, now| {
            let seen = kept.recall(&main, at(now))?;
            Some((seen.what.r#loop?.turn, seen.ago?.as_millis()))
        };
        assert_eq!(told(&kept, 0), None);
        kept.remember(main.clone(), named("main", 1, 0), at(1_000));
        assert_eq!(told(&kept, 43_000), Some((1, 42_000)));
        let list = vec![named("main", 3, 0).r#loop.expect("a loop")];
        kept.list = Some((at(5_000), wire::ListLoopsResponse { loops: list, next: String::new() }));
        assert_eq!(told(&kept, 6_000), Some((3, 1_000)));
        kept.remember(main.clone(), named("main", 4, 0), at(7_000));
        assert_eq!(told(&kept, 8_000), Some((4, 1_000)));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let mut kept = Kept::default();
        for number in 0..100 {
            let name = format!("l{number}");
            let loop_id: LoopId = name.parse().expect("an id");
            for turn in 0..3 {
                kept.remember(loop_id.clone(), named(&name, turn, 256 * 1024), at(number));
                assert!(kept.bytes <= BYTES_MAX, "L6");
            }
        }
        let whole: usize = kept.loops.values().map(|(_, seen)| weight(seen)).sum();
        assert_eq!((kept.bytes, kept.loops.len()), (whole, 15));
        assert!(kept.loops.keys().any(|it| it.as_str() == "l99"));
        assert!(!kept.loops.keys().any(|it| it.as_str() == "l80"));
    }
}
