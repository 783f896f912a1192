//! A set in order whose places are counted: what is at a place, and the place of something, are
//! found without a walk past everything before it.
//!
//! Sorted chunks of bounded length, of which none is empty. A place is found by adding up the
//! lengths of chunks, so it costs what there are of them; two sets are the same when they hold the
//! same, however it is cut.

/// Values of one chunk: of 200,000, some hundred lengths are added up, and a value that comes or
/// goes moves no more than a few KiB.
const CHUNK_MAX: usize = 512;

#[derive(Debug, Clone)]
pub(super) struct OrderStatisticSet<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for OrderStatisticSet<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Ord> OrderStatisticSet<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What has so many before it.
    pub(super) fn at(&self, place: usize) -> Option<&T> {
        let mut left = place;
        self.chunks.iter().find_map(|chunk| {
            let found = chunk.get(left);
            left = left.saturating_sub(chunk.len());
            found
        })
    }

    /// How many are before it, whether it is there or not.
    pub(super) fn before(&self, value: &T) -> usize {
        let Some(at) = self.chunk_of(value) else { return 0 };
        let earlier: usize = self.chunks[..at].iter().map(Vec::len).sum();
        earlier + self.chunks[at].partition_point(|it| it < value)
    }

    /// What has so many before it where these are there as well: in order, and none of them is
    /// there already.
    pub(super) fn at_with<'a>(&'a self, more: &'a [T], place: usize) -> Option<&'a T> {
        let place_of = |one: &T| self.before(one) + more.partition_point(|it| it < one);
        let before = more.partition_point(|one| place_of(one) < place);
        more.get(before).filter(|one| place_of(one) == place).or_else(|| self.at(place - before))
    }

    /// If it is not there yet.
    pub(super) fn insert(&mut self, value: T) {
        let Some(at) = self.chunk_of(&value) else {
            self.chunks.push(vec![value]);
            self.len = 1;
            return;
        };
        let chunk = &mut self.chunks[at];
        let Err(place) = chunk.binary_search(&value) else { return };
        chunk.insert(place, value);
        self.len += 1;
        if CHUNK_MAX < chunk.len() {
            let second = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, second);
        }
    }

    /// If it is there.
    pub(super) fn remove(&mut self, value: &T) {
        let Some(at) = self.chunk_of(value) else { return };
        let Ok(place) = self.chunks[at].binary_search(value) else { return };
        self.chunks[at].remove(place);
        self.len -= 1;
        if self.chunks[at].is_empty() {
            self.chunks.remove(at);
            return;
        }
        self.join(at);
        if let Some(earlier) = at.checked_sub(1) {
            self.join(earlier);
        }
    }

    /// Makes one of this chunk and the next if they are small, so that values that came and went
    /// leave no more chunks behind than what is left takes.
    fn join(&mut self, at: usize) {
        let Some(next) = self.chunks.get(at + 1) else { return };
        if self.chunks[at].len() + next.len() <= CHUNK_MAX / 2 {
            let mut next = self.chunks.remove(at + 1);
            self.chunks[at].append(&mut next);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// The chunk that it is in, or would be; `None` where there is none.
    fn chunk_of(&self, value: &T) -> Option<usize> {
        let later = self.chunks.partition_point(|chunk| chunk[0] <= *value);
        (!self.chunks.is_empty()).then(|| later.saturating_sub(1))
    }
}

impl<T: Ord> PartialEq for OrderStatisticSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: Ord> Eq for OrderStatisticSet<T> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Numbers that look like chance and are the same in each run.
    fn numbers(below: u64) -> impl Iterator<Item = u64> {
        let next = |it: &u64| {
            Some(it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        };
        std::iter::successors(Some(1_u64), next).map(move |it| (it >> 33) % below)
    }

    fn check(ranked: &OrderStatisticSet<u64>, all: &BTreeSet<u64>) {
        assert_eq!(ranked.len(), all.len());
        assert!(ranked.iter().eq(all));
        assert!(ranked.chunks.iter().all(|it| (1..=CHUNK_MAX).contains(&it.len())));
        for (place, value) in all.iter().enumerate() {
            assert_eq!((ranked.at(place), ranked.before(value)), (Some(value), place));
        }
        assert_eq!(ranked.at(all.len()), None);
    }

    #[test]
    fn what_is_there_is_at_its_place() {
        const BELOW: u64 = 5_000;
        let (mut ranked, mut all) = (OrderStatisticSet::default(), BTreeSet::new());
        check(&ranked, &all);
        // Mostly added, then mostly taken away.
        for (step, number) in (0..30_000).zip(numbers(BELOW)) {
            let is_growing = step < 15_000;
            if (step % 4 == 0) == is_growing {
                ranked.remove(&number);
                all.remove(&number);
            } else {
                ranked.insert(number);
                all.insert(number);
            }
            if step % 64 == 0 {
                let looked = (number * 7) % BELOW;
                assert_eq!(ranked.before(&looked), all.range(..looked).count());
            }
            if step % 3_000 == 0 {
                check(&ranked, &all);
            }
        }
        check(&ranked, &all);
        for number in 0..BELOW {
            ranked.remove(&number);
        }
        assert_eq!(ranked, OrderStatisticSet::default());
    }

    #[test]
    fn what_would_be_there_is_at_its_place() {
        const BELOW: u64 = 3_000;
        for (count, more_count) in [(0, 0), (0, 7), (1, 1), (5, 0), (700, 3), (40, 600)] {
            let all: BTreeSet<u64> = numbers(BELOW).take(count + more_count).collect();
            // Every other one, until one side has enough.
            let (mut ranked, mut more) = (OrderStatisticSet::default(), Vec::new());
            for (place, number) in all.iter().enumerate() {
                if more.len() < more_count && (place % 2 == 0 || count <= ranked.len()) {
                    more.push(*number);
                } else {
                    ranked.insert(*number);
                }
            }
            for (place, number) in all.iter().enumerate() {
                assert_eq!(ranked.at_with(&more, place), Some(number), "{count} {more_count}");
            }
            assert_eq!(ranked.at_with(&more, all.len()), None);
        }
    }

    #[test]
    fn what_is_left_decides_how_many_chunks_there_are() {
        const COUNT: usize = 100_000;
        const KEPT: usize = 1_000;
        let (mut few, mut full) = (OrderStatisticSet::default(), OrderStatisticSet::default());
        (0..COUNT).step_by(KEPT).for_each(|it| few.insert(it));
        (0..COUNT).for_each(|it| full.insert(it));
        assert!(full.chunks.len() <= 2 * COUNT / CHUNK_MAX, "{}", full.chunks.len());
        let (mut upwards, mut downwards) = (full.clone(), full);
        for it in (0..COUNT).filter(|it| it % KEPT != 0) {
            upwards.remove(&it);
        }
        for it in (0..COUNT).filter(|it| it % KEPT != 0).rev() {
            downwards.remove(&it);
        }
        for left in [upwards, downwards] {
            assert_eq!(left, few, "the same, however it is cut");
            assert!(left.chunks.len() <= 2, "{}", left.chunks.len());
        }
    }
}
