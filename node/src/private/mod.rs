//! Private mail: what this node sends is sealed here and opened here; the broker keeps ciphertext.
//!
//! # Who trusts whom
//! A workspace's mail is private once somebody's **owner's key** signed a roster that says so. The
//! roster lists keys of nodes and the roles that each may read and write as. It lies at the
//! broker, which can keep it back but not change it: each node trusts one owner's key for a
//! workspace ([`trust`]), whose fingerprint its user compared or which was made here, and believes
//! no other roster, and none older than one it saw. People carry two fingerprints between
//! machines: the owner's to each node, and each node's to the owner.
//!
//! # What is sealed
//! Subject and text of one entry, padded, under a key of its own (ChaCha20-Poly1305), which is
//! wrapped (HPKE: X25519, HKDF-SHA256, ChaCha20-Poly1305) for the keys of every role of the
//! thread and for the sender's own, and signed (Ed25519) with the sender's key together with
//! workspace, owner, thread, how much of the thread the sender saw, sender, receivers, and type
//! ([`envelope`]).
//!
//! - **Y6** Where an owner is trusted and mail is private, nothing leaves in the clear, whatever
//!   the broker says.
//! - **Y7** What is shown as an entry's words was signed, by a key the owner vouched for as that
//!   role, for that place. All else is shown as what it is: not opened and why, or not sealed.
//! - **Y8** A secret key is on disk before anybody hears of its public half, and is never taken
//!   off it: what was sealed for it can be read as long as the data directory lives.
//!
//! # What it costs, and what it does not do
//! The broker cannot search, show or moderate words of private mail; nodes search what they can
//! open, in memory ([`finding`]). It still knows who writes to
//! whom, when, of what type, and roughly how much; it can keep mail back, or stop. Turns' words
//! are not mail: handovers stay in the clear. Files are not taken. A node that joins later, or
//! takes a role over, cannot read what was written before its key was vouched for. There is no
//! forward secrecy: whoever gets a node's secret keys reads what was ever sealed for them. A node
//! that was removed and works together with the broker can still backdate what it signs. Whoever
//! loses the owner's key can vouch for nobody and turn nothing off.
//!
//! - [`store`]: the files. [`keys`]: a node's secrets. [`trust`]: owners' keys, trusted and own.
//! - [`envelope`]: the bytes. [`sealer`]: requests on their way out, answers on their way in.
//! - [`owning`]: what an owner does to a roster. [`finding`]: searching what the broker cannot.

pub mod envelope;
pub mod finding;
pub mod keys;
pub mod owning;
pub mod sealer;
pub mod store;
pub mod trust;

pub use self::sealer::{Ask, Fresh, Sealer, Unsealable};
