//! What a role asks about its mail.
//!
//! - `forward`: letters and moves, which the outbox keeps while the broker is away. `carry`: how it
//!   is emptied. `keys`: what names them. `sending`: which are under way.
//! - `receipts`: how far mail got. `seen`: what boxes looked like, for when nobody can be asked.
//!   `attachments`: files. `private`: mail that the broker cannot read.

mod attachments;
mod carry;
mod forward;
mod keys;
mod private;
mod receipts;
mod seen;
mod sending;

use std::time::Duration;

use tasuki_proto::{id::RoleId, mail::MessageId, wire};

pub use self::carry::settle;
pub(super) use self::{
    attachments::TRANSFERS_MAX, carry::Carriers, keys::MailKeys, private::Found,
    receipts::MailReceipts, seen::Memory, sending::Sending,
};
use super::{Link, call::is_away};
use crate::role::{Refusal, Seen, mail::MailFilter};

impl Link {
    /// One box of `role`; while the broker is out of reach, as it was last seen.
    pub async fn list_box(
        &self,
        role: &RoleId,
        request: wire::ListBoxRequest,
    ) -> Result<Seen<wire::ListBoxResponse>, Refusal> {
        let request = wire::ListBoxRequest { role: role.to_string(), ..request };
        let memory = &self.shared.mail;
        match self.query(request.clone()).await {
            Ok(seen) => {
                let seen = self.opened_box(seen).await;
                memory.remember_box(&request, &seen);
                Ok(Seen::now(seen))
            }
            Err(refusal) => {
                memory.recall_box(&request).filter(|_| is_away(&refusal)).ok_or(refusal)
            }
        }
    }

    /// Entries of one thread; while the broker is out of reach, as they were last seen.
    pub async fn read_thread(
        &self,
        role: &RoleId,
        request: wire::ReadThreadRequest,
    ) -> Result<Seen<wire::ReadThreadResponse>, Refusal> {
        let mark = wire::MailMark::None.into();
        let request = wire::ReadThreadRequest { role: role.to_string(), mark, ..request };
        let memory = &self.shared.mail;
        match self.query(request.clone()).await {
            Ok(seen) => {
                let seen = self.opened_thread(seen).await;
                memory.remember_thread(&request, &seen);
                Ok(Seen::now(seen))
            }
            Err(refusal) => {
                memory.recall_thread(&request).filter(|_| is_away(&refusal)).ok_or(refusal)
            }
        }
    }

    /// Every mailbox there is; while the broker is out of reach, as they were last seen.
    pub async fn mailboxes(&self) -> Result<Seen<wire::ListMailboxesResponse>, Refusal> {
        let memory = &self.shared.mail;
        match self.query(wire::ListMailboxesRequest::default()).await {
            Ok(seen) => {
                memory.remember_mailboxes(&seen);
                Ok(Seen::now(seen))
            }
            Err(refusal) => memory.recall_mailboxes().filter(|_| is_away(&refusal)).ok_or(refusal),
        }
    }

    /// Waits for unseen mail of `role`, over reconnects, until `hold` is over.
    pub async fn await_mail(
        &self,
        role: &RoleId,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal> {
        let answer = self.waits.ask_mail(role.clone(), filter.clone(), hold).await?;
        Ok(self.opened_answer(answer).await)
    }

    /// What is found in the mail of `role`: by the broker, or here where only this node can read
    /// it.
    pub async fn search_mail(
        &self,
        role: &RoleId,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal> {
        let request = wire::SearchMailRequest { role: role.to_string(), ..request };
        if self.searches_itself().await? {
            return self.search_sealed(role, request).await;
        }
        self.query(request).await
    }

    pub async fn dead_letters(
        &self,
        role: &RoleId,
    ) -> Result<wire::ListDeadLettersResponse, Refusal> {
        let role = role.to_string();
        let request = wire::ListDeadLettersRequest { role, ..Default::default() };
        Ok(self.opened_dead_letters(self.query(request).await?).await)
    }

    pub async fn open_mailbox(&self, role: &RoleId) -> Result<wire::OpenMailboxResponse, Refusal> {
        let role = role.to_string();
        self.command(wire::OpenMailboxRequest { role, ..Default::default() }, None).await
    }

    pub async fn close_mailbox(
        &self,
        role: &RoleId,
    ) -> Result<wire::CloseMailboxResponse, Refusal> {
        let role = role.to_string();
        self.command(wire::CloseMailboxRequest { role, ..Default::default() }, None).await
    }

    /// Has waits of `role` show a dead letter again.
    pub async fn hand_again(
        &self,
        role: &RoleId,
        message: &str,
    ) -> Result<wire::HandAgainResponse, Refusal> {
        let (role, message) = (role.to_string(), message.to_owned());
        self.command(wire::HandAgainRequest { role, message, ..Default::default() }, None).await
    }

    /// Reports in the background how far a thread got at `role`.
    pub fn mark_mail(&self, role: &RoleId, message: MessageId, through: u32, mark: wire::MailMark) {
        self.mail_receipts.push(role, message, through, mark);
    }

    /// Resolves once what was marked so far is told, or will not be soon.
    pub async fn mail_marks_settled(&self, role: &RoleId) {
        if self.shared.state.borrow().is_connected() {
            self.mail_receipts.settled(role).await;
        }
    }
}
