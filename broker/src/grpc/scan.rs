//! Lists that are looked through part by part, so that none holds up a workspace.
//!
//! What fits a filter may be anywhere in a list of a hundred thousand. A workspace's one actor looks
//! at [`PART`] of them in a turn and does other work before the next; what was found is sorted
//! outside of it, and only the page that was asked for is rendered. So a list is of several moments:
//! what came or went meanwhile may be on it or not.

use tasuki_proto::id::RoleId;
use tonic::Status;

use super::WorkspaceSession;
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
            let Part { found, next } = self.query(None, move |view| part(view, from)).await?;
            take(found);
            match next {
                Some(_) => behind = next,
                None => return Ok(()),
            }
        }
    }

    /// What is on one page of a list, how many are on all pages, and the time. `first` has the ids
    /// on the page and how many there are where one turn of the actor tells; else they are found
    /// part by part.
    pub(super) async fn list<K, I, P, T>(
        &self,
        asker: Option<&RoleId>,
        mut page: Page<K, I>,
        first: impl FnOnce(&View<'_>) -> Result<Option<(Vec<I>, u64)>, Rejection> + Send + 'static,
        part: impl Fn(&View<'_>, Option<P>) -> Result<Part<(K, I), P>, Rejection>
        + Clone
        + Send
        + 'static,
        render: impl Fn(&View<'_>, Vec<I>) -> Result<Vec<T>, Rejection> + Clone + Send + 'static,
    ) -> Result<(Vec<T>, u64, u64), Status>
    where
        K: Ord + Send + 'static,
        I: Ord + Send + 'static,
        P: Send + 'static,
        T: Send + 'static,
    {
        let render_first = render.clone();
        let whole = self.query(asker, move |view| {
            let Some((ids, total)) = first(view)? else { return Ok(None) };
            Ok(Some((render_first(view, ids)?, total, view.now.as_millis())))
        });
        if let Some(whole) = whole.await? {
            return Ok(whole);
        }
        self.scan(part, |found| page.add(found)).await?;
        let (ids, total) = page.finish();
        let rendered =
            self.query(asker, move |view| Ok((render(view, ids)?, view.now.as_millis())));
        let (items, now_ms) = rendered.await?;
        Ok((items, total, now_ms))
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
