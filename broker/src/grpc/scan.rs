//! Lists that are looked through part by part, so that none holds up a workspace.
//!
//! What fits a filter may be anywhere in a list of a hundred thousand. A workspace's one actor looks
//! at [`PART`] of them in a turn and does other work before the next; what was found is sorted
//! outside of it, and only the page that was asked for is rendered. So a list is of several moments:
//! what came or went meanwhile may be on it or not.

use tonic::Status;

use super::session::WorkspaceSession;
use crate::{rules::Rejection, workspace::View};

/// Things that are looked at in one turn of the actor: less than a millisecond.
pub(super) const PART: usize = 1_000;

/// What is before a page is gone over in one turn where nothing else need be looked at, up to so many
/// things: some 0.1 µs each, about a millisecond. A later page is found in parts.
pub(super) const SKIPPED_MAX: usize = 10 * PART;

/// What one part of a list has.
#[derive(Debug)]
pub(super) struct Part<T, P> {
    pub(super) found: Vec<T>,
    /// Behind which the next part begins; `None` at the end.
    pub(super) next: Option<P>,
}

impl<T, P> Part<T, P> {
    /// The first part of `items`, or as much of it as has `most` that fit. `place`: where an item
    /// is, and how much there is to look at.
    pub(super) fn of<I>(
        items: impl Iterator<Item = I>,
        most: usize,
        place: impl Fn(&I) -> (P, usize),
        fits: impl Fn(I) -> Option<T>,
    ) -> Self {
        let (mut found, mut looked) = (Vec::new(), 0_usize);
        for item in items {
            let (place, weight) = place(&item);
            looked = looked.saturating_add(weight.max(1));
            found.extend(fits(item));
            if PART <= looked || most <= found.len() {
                return Self { found, next: Some(place) };
            }
        }
        Self { found, next: None }
    }
}

/// One page of a sorted list, and how many are on all pages.
#[derive(Debug)]
pub(super) struct Page<K, I> {
    is_ascending: bool,
    limit: usize,
    offset: usize,
    found: Vec<(K, I)>,
    total: u64,
}

impl<K: Ord, I: Ord> Page<K, I> {
    pub(super) fn new(is_ascending: bool, limit: usize, offset: usize) -> Self {
        Self { is_ascending, limit, offset, found: Vec::new(), total: 0 }
    }

    fn add(&mut self, found: Vec<(K, I)>) {
        self.total += found.len() as u64;
        self.found.extend(found);
        // What comes behind the page need not be kept.
        if self.end().saturating_mul(2).saturating_add(PART) <= self.found.len() {
            self.sort();
        }
    }

    fn end(&self) -> usize {
        self.offset.saturating_add(self.limit)
    }

    /// What is equal is in the order of ids, as the rest.
    fn sort(&mut self) {
        if self.is_ascending {
            self.found.sort_unstable();
        } else {
            self.found.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.found.truncate(self.end());
    }

    fn finish(mut self) -> (Vec<I>, u64) {
        self.sort();
        let page = self.found.into_iter().skip(self.offset).map(|(_, id)| id);
        (page.collect(), self.total)
    }
}

impl WorkspaceSession {
    /// Looks at all parts of a list, one turn of the actor each.
    pub(super) async fn scan<T: Send + 'static, P: Send + 'static>(
        &self,
        part: impl Fn(&View<'_>, Option<P>) -> Result<Part<T, P>, Rejection> + Clone + Send + 'static,
        mut take: impl FnMut(Vec<T>),
    ) -> Result<(), Status> {
        let mut behind = None;
        loop {
            let (part, from) = (part.clone(), behind.take());
            let seen = self.look(move |view| part(view, from)).await?;
            let Part { found, next } =
                seen.map_err(|rejection| super::status::rejected(&rejection))?;
            take(found);
            match next {
                Some(_) => behind = next,
                None => return Ok(()),
            }
        }
    }

    /// The ids on one page of a list, and how many are on all pages.
    pub(super) async fn page<K, I, P>(
        &self,
        mut page: Page<K, I>,
        part: impl Fn(&View<'_>, Option<P>) -> Result<Part<(K, I), P>, Rejection>
        + Clone
        + Send
        + 'static,
    ) -> Result<(Vec<I>, u64), Status>
    where
        K: Ord + Send + 'static,
        I: Ord + Send + 'static,
        P: Send + 'static,
    {
        self.scan(part, |found| page.add(found)).await?;
        Ok(page.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted, not timed: however long a list is and however little of it fits, a turn looks at
    /// no more than a part.
    #[test]
    fn a_turn_looks_at_a_part_of_a_long_list() {
        use std::cell::Cell;
        let (looked, mut turns, mut behind) = (Cell::new(0), 0, 0);
        loop {
            looked.set(0);
            let part: Part<u32, u32> = Part::of(
                behind..100_000_u32,
                usize::MAX,
                |it| (*it + 1, 1),
                |it| {
                    looked.set(looked.get() + 1);
                    (it == 99_999).then_some(it)
                },
            );
            assert!(looked.get() <= PART);
            turns += 1;
            let Some(next) = part.next else {
                assert!(part.found.is_empty());
                break;
            };
            assert_eq!(part.found.is_empty(), next != 100_000);
            behind = next;
        }
        assert_eq!(turns, 100_000 / PART + 1);
    }

    #[test]
    fn what_is_heavy_to_look_at_ends_a_part_sooner() {
        let part = Part::of(0..100, usize::MAX, |it| (*it, PART / 2), Some);
        assert_eq!((part.found, part.next), (vec![0, 1], Some(1)));
        let part = Part::of(0..100, 3, |it| (*it, 0), Some);
        assert_eq!((part.found, part.next), (vec![0, 1, 2], Some(2)));
    }

    #[test]
    fn a_page_is_the_same_however_many_parts_it_came_in() {
        let all: Vec<(u32, u32)> = (0..10_000).map(|id| (id * 7919 % 100, id)).collect();
        for is_ascending in [true, false] {
            let mut page = Page::new(is_ascending, 5, 20);
            for part in all.chunks(PART) {
                page.add(part.to_vec());
                assert!(page.found.len() < 2 * 25 + PART);
            }
            let mut sorted = all.clone();
            sorted.sort_unstable();
            if !is_ascending {
                sorted.reverse();
            }
            let expected = sorted[20..25].iter().map(|(_, id)| *id).collect::<Vec<_>>();
            assert_eq!(page.finish(), (expected, 10_000));
        }
    }
}
