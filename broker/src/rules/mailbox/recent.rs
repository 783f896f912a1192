//! The letters of a role that are known when they are said again.
//!
//! An agent that heard nothing says the same once more. What it said is its role's last letter, or
//! the role has several agents, and others have written since. So a letter is known until its
//! answer has certainly arrived: the last one of a role always, one that was or may have been under
//! way together with others until the role writes again with none under way.

use std::collections::VecDeque;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{limits::LETTERS_KNOWN_MAX, mail::MessageId};

use super::command::Earlier;
use crate::hash::Hash;

/// The letters of one role, oldest first. All but the last were under way together with others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
pub struct Recent(#[n(0)] VecDeque<Letter>);

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Letter {
    #[n(0)]
    pub content: Hash,
    #[n(1)]
    pub thread: MessageId,
    #[n(2)]
    pub entry: u32,
    #[n(3)]
    pub is_among_others: bool,
}

impl Recent {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Letter> {
        self.0.iter()
    }

    /// The role wrote this, and knew so much of what it wrote before.
    pub(super) fn push(&mut self, mut letter: Letter, earlier: Earlier) {
        match earlier {
            Earlier::Arrived => self.0.clear(),
            Earlier::Unknown => {
                // It may have left first and come last: then others were under way with it.
                letter.is_among_others |= self.0.back().is_some_and(|it| it.is_among_others);
                self.0.retain(|it| it.is_among_others);
            }
            Earlier::UnderWay => {
                if let Some(last) = self.0.back_mut() {
                    last.is_among_others = true;
                }
            }
        }
        self.0.push_back(letter);
        if LETTERS_KNOWN_MAX < self.0.len() {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_that_left_before_others_and_comes_behind_them_is_known_like_them() {
        let mut recent = Recent::default();
        let mut say = |number: u8, earlier| {
            let is_among_others = earlier == Earlier::UnderWay;
            let thread = MessageId::from_bits(number.into());
            let letter = Letter { content: Hash([number; 16]), thread, entry: 1, is_among_others };
            recent.push(letter, earlier);
            recent.iter().map(|it| it.content.0[0]).collect::<Vec<_>>()
        };
        assert_eq!(say(1, Earlier::Unknown), [1]);
        assert_eq!(say(2, Earlier::UnderWay), [1, 2]);
        // It was first to leave, and another agent's comes after all were cut off.
        assert_eq!(say(3, Earlier::Unknown), [1, 2, 3]);
        assert_eq!(say(4, Earlier::Unknown), [1, 2, 3, 4]);
        assert_eq!(say(5, Earlier::Arrived), [5]);
        assert_eq!(say(6, Earlier::Unknown), [6]);
    }
}
