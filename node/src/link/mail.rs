//! What a role asks about its mail, beyond single calls.
//!
//! - `forward`: letters and moves, which the outbox keeps while the broker is away. `drain`: how it
//!   is emptied. `keys`: what names them. `in_flight`: which are under way.
//! - `attachments`: files. `private`: mail that the broker cannot read.

mod attachments;
mod drain;
mod forward;
mod in_flight;
mod keys;
mod private;

use tasuki_proto::{id::RoleId, mail::MessageId, wire};

pub(super) use self::{
    attachments::TRANSFERS_MAX, drain::Drains, in_flight::InFlight, keys::MailKeys,
    private::SearchIndexes,
};
pub use self::{
    drain::settle,
    forward::{Moving, Sent},
};
use super::Link;

impl Link {
    /// Reports in the background how far a thread got at `role`.
    pub fn mark_mail(&self, role: &RoleId, message: MessageId, through: u32, mark: wire::MailMark) {
        self.receipts.push_mail(role, message, through, mark);
    }

    /// Resolves once what was marked so far is told, or will not be soon.
    pub async fn mail_marks_settled(&self, role: &RoleId) {
        if self.shared.state.borrow().is_connected() {
            self.receipts.mail_settled(role).await;
        }
    }
}
