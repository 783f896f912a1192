//! A role's mail, as the MCP side gets at it.
//!
//! Waits are the actor's, which knows what supersedes what. Nothing else here needs what an actor
//! keeps; it has the link, and begins the rest beside itself.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    mail::MessageId,
    wire,
};

use super::{Handle, beside, gone};
use crate::{
    link::Link,
    outbox::{Summary, Untold},
    role::{
        Refusal, Seen,
        actor::{Msg, RoleContext},
        mail::{Mail, MailFilter, Moving, Sent},
    },
};

#[async_trait]
impl Mail for Handle {
    async fn send(
        &self,
        request: wire::SendRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Sent, Refusal> {
        self.carry(|link, role| async move { link.send_mail(&role, request, key).await }).await
    }

    async fn move_mail(
        &self,
        request: wire::MoveRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<Moving, Refusal> {
        self.carry(|link, role| async move { link.move_mail(&role, request, key).await }).await
    }

    async fn list_box(
        &self,
        request: wire::ListBoxRequest,
    ) -> Result<Seen<wire::ListBoxResponse>, Refusal> {
        self.ask(|link, role| async move { link.list_box(&role, request).await }).await
    }

    async fn read_thread(
        &self,
        request: wire::ReadThreadRequest,
    ) -> Result<Seen<wire::ReadThreadResponse>, Refusal> {
        self.ask(|link, role| async move { link.read_thread(&role, request).await }).await
    }

    async fn await_mail(
        &self,
        filter: &MailFilter,
        hold: Duration,
    ) -> Result<wire::MailAnswer, Refusal> {
        let permit = self.admit_wait(hold).await?;
        let filter = filter.clone();
        self.call(|reply| Msg::AwaitMail { filter, hold, reply, permit }, gone).await
    }

    async fn search_mail(
        &self,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Refusal> {
        self.ask(|link, role| async move { link.search_mail(&role, request).await }).await
    }

    async fn mailboxes(&self) -> Result<Seen<wire::ListMailboxesResponse>, Refusal> {
        self.ask(|link, _| async move { link.mailboxes().await }).await
    }

    async fn open_mailbox(&self, role: &RoleId) -> Result<wire::OpenMailboxResponse, Refusal> {
        let role = role.clone();
        self.carry(|link, _| async move { link.open_mailbox(&role).await }).await
    }

    async fn close_mailbox(&self, role: &RoleId) -> Result<wire::CloseMailboxResponse, Refusal> {
        let role = role.clone();
        self.carry(|link, _| async move { link.close_mailbox(&role).await }).await
    }

    async fn dead_letters(&self) -> Result<wire::ListDeadLettersResponse, Refusal> {
        self.ask(|link, role| async move { link.dead_letters(&role).await }).await
    }

    async fn hand_again(&self, message: &str) -> Result<wire::HandAgainResponse, Refusal> {
        let message = message.to_owned();
        self.carry(|link, role| async move { link.hand_again(&role, &message).await }).await
    }

    async fn put_attachment(
        &self,
        attachment: &wire::Attachment,
        content: Bytes,
    ) -> Result<(), Refusal> {
        let attachment = attachment.clone();
        let put = |link: Link, role| async move {
            link.put_attachment(&role, &attachment, content).await
        };
        self.ask(put).await
    }

    async fn get_attachment(
        &self,
        message: &str,
        attachment: &wire::Attachment,
    ) -> Result<Bytes, Refusal> {
        let (message, attachment) = (message.to_owned(), attachment.clone());
        let get = |link: Link, role| async move {
            link.get_attachment(&role, &message, &attachment).await
        };
        self.ask(get).await
    }

    async fn untold(&self, max: usize) -> Result<Untold, Refusal> {
        self.ask(move |link, role| async move { Ok(link.untold(&role, max)) }).await
    }

    async fn kept(&self, names: &[String]) -> Result<Vec<Summary>, Refusal> {
        let names = names.to_vec();
        self.ask(move |link, role| async move { Ok(link.kept(&role, &names)) }).await
    }

    fn mark_told(&self, told: Untold) {
        let Ok(permit) = self.reports.clone().try_acquire_owned() else { return };
        let note = beside(move |around| {
            let RoleContext { role, link, .. } = around.clone();
            around.link.spawn(async move {
                link.mark_told(&role, told).await;
                drop(permit);
            });
        });
        let actor = self.actor.borrow().clone();
        // What nobody claims to have told is told again.
        drop(actor.send_message(note));
    }

    fn mark_mail(&self, message: MessageId, through: u32, mark: wire::MailMark) {
        let Ok(permit) = self.reports.clone().try_acquire_owned() else { return };
        let report = beside(move |around| {
            around.link.mark_mail(&around.role, message, through, mark);
            drop(permit);
        });
        let actor = self.actor.borrow().clone();
        // A receipt that is lost is one that nobody claims.
        drop(actor.send_message(report));
    }

    async fn marks_settled(&self) {
        let settled = |link: Link, role: RoleId| async move {
            link.mail_marks_settled(&role).await;
            Ok(())
        };
        // Behind the marks in the actor's mailbox. If it is stopping, they are on their way.
        drop(self.ask(settled).await);
    }
}
