//! Values that all nouns render alike, and pages that fit into a message.

use prost::Message;
use tasuki_proto::{id::Timestamp, limits::MESSAGE_BYTES_MAX, wire};

use crate::rules::guard::Cause;

/// Items of one page, in bytes as they are sent: half of what a message may carry. The other half
/// is room for what comes with them, and for one item that comes whole though it does not fit.
const PAGE_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

pub(super) fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

pub(super) fn text<T: ToString>(id: Option<&T>) -> String {
    id.map_or_else(String::new, ToString::to_string)
}

/// What led to something.
pub(super) fn cause(it: &Cause) -> wire::Cause {
    use wire::cause::Of;
    let of = match it {
        Cause::Turn { loop_id, turn } => {
            Of::Turn(wire::TurnCause { r#loop: loop_id.to_string(), turn: turn.get() })
        }
        Cause::Mail { thread, entry } => {
            Of::Mail(wire::MailCause { message_id: thread.to_string(), entry: *entry })
        }
    };
    wire::Cause { of: Some(of) }
}

/// Items of one answer, as many as fit.
pub(super) struct BoundedPage<T> {
    pub(super) items: Vec<T>,
    bytes: usize,
}

impl<T> Default for BoundedPage<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0 }
    }
}

impl<T: Message> BoundedPage<T> {
    /// False: it does not fit any more. The first one always does, so that no reader stands still.
    pub(super) fn add(&mut self, item: T) -> bool {
        /// Around each: a tag, and a length of at most four bytes.
        const FRAME_BYTES: usize = 6;
        let bytes = self.bytes + item.encoded_len() + FRAME_BYTES;
        if PAGE_BYTES_MAX < bytes && !self.items.is_empty() {
            return false;
        }
        self.bytes = bytes;
        self.items.push(item);
        true
    }
}

/// The first of some items, as many as fit into a page, and whether there are more.
pub(super) fn fitting<T: Message>(items: impl IntoIterator<Item = T>) -> (Vec<T>, bool) {
    let mut page = BoundedPage::default();
    let has_more = items.into_iter().any(|item| !page.add(item));
    (page.items, has_more)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::wire;

    use super::*;

    fn lock(bytes: usize) -> wire::Lock {
        wire::Lock { holder: "x".repeat(bytes), ..wire::Lock::default() }
    }

    #[test]
    fn a_page_ends_before_a_message_is_full() {
        let mut left: Vec<wire::Lock> = (0..17).map(|_| lock(256 * 1024)).collect();
        let mut pages = 0;
        while !left.is_empty() {
            let (locks, has_more) = fitting(left.iter().cloned());
            assert!(!locks.is_empty() && has_more == (locks.len() < left.len()));
            left.drain(..locks.len());
            let answer = wire::ListLocksResponse { locks, total: u64::MAX, now_ms: u64::MAX };
            assert!(answer.encoded_len() <= PAGE_BYTES_MAX + 32, "{}", answer.encoded_len());
            pages += 1;
        }
        assert_eq!(pages, 3);
    }

    #[test]
    fn an_item_that_is_larger_than_a_page_comes_alone() {
        let (locks, has_more) = fitting([lock(PAGE_BYTES_MAX + 1), lock(1)]);
        assert!(locks.len() == 1 && has_more);
        assert_eq!(fitting(Vec::<wire::Lock>::new()), (Vec::new(), false));
    }
}
