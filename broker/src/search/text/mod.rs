//! How text is cut into what is searched for.
//!
//! | text | terms, and the places they have |
//! |---|---|
//! | `The Café` | the 0, cafe 1 |
//! | `parseHttpHeader` | parsehttpheader 0, parse 0, http 1, header 2 |
//! | `foo::bar` | foo::bar 0, foo 0, bar 1 |
//! | `v1.2.3` | v1.2.3 0, v1 0, v 0, 1 1, 2 2, 3 3 |
//! | `修复登录` | 修 0, 修复 0, 复 1, 复登 1, 登 2, 登录 2, 录 3 |
//!
//! Scripts without spaces between words are indexed sign by sign and pair by pair. No dictionary
//! decides where their words end, so a word is found wherever it stands. The pairs keep it fast: a
//! sign alone is in nearly every text, a pair is in few. A query of one sign asks for the sign, of
//! two for the pair, of more for pairs side by side.
//!
//! Names are indexed whole and in parts, with each part at a place of its own, so that `http
//! header` and `parse_http_header` find `parseHttpHeader`, and `parsehttpheader` does too.
//!
//! Not here: which of the terms a query needs (`query::plan`).

mod fold;
mod scan;
mod tokens;

pub(super) use fold::fold;
pub(super) use scan::{Group, Scanner, Span, parts};
pub(super) use tokens::{TextTokenizer, Tokens};

/// A term, in bytes: hashes and encoded data need no more to be told apart.
pub(super) const TERM_BYTES_MAX: usize = 96;
