//! Finding private mail: the broker cannot read it, so the node that can looks through it itself.
//!
//! Asked for the first time, a node reads the mail of that role from the broker, opens it, and
//! makes an index of it in memory; asked again, it reads what changed since, which the broker's
//! feed tells. Queries, filters, ranking and what is shown of a hit are the broker's own code.
//!
//! - What is found was read and opened as everything that is shown is (Y7); what this node cannot
//!   open is not in the index, and plain words say that they are.
//! - Nothing of it is on a disk: it ends with the process.
//! - What is looked through is bounded, the newest threads first; what was left out is said.
//!
//! [`own`]: the index of one role, and answers from it. `reading`: what is asked of the broker.
//! Not here: whether mail is private at all ([`Sealer`](super::Sealer)).

pub mod own;
mod reading;

pub use self::{
    own::Own,
    reading::{Ended, Items, Mail, box_page},
};

#[cfg(test)]
mod tests;
