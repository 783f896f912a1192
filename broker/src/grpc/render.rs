//! Values that all nouns render alike.

use tasuki_proto::id::Timestamp;

pub(super) fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

pub(super) fn text<T: ToString>(id: Option<&T>) -> String {
    id.map_or_else(String::new, ToString::to_string)
}
