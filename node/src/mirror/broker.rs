//! What the mirror asks the broker, over the node's link.
//!
//! It reads without going through what agents last saw, which is kept for them alone.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
    wire,
};

use super::source::Source;
use crate::{
    client::feed::{Ended, Items},
    link::{Link, Sent},
    private::finding::Mail,
    refusal::Refusal,
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        self.connected().await;
    }

    fn is_ready(&self) -> bool {
        self.state().borrow().is_connected()
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        self.subscribe(from).await
    }

    async fn roles(&self) -> Result<BTreeSet<String>, Refusal> {
        let all = self.query(wire::ListMailboxesRequest::default()).await?;
        Ok(all.mailboxes.into_iter().map(|it| it.role).collect())
    }

    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        Mail::list(self, role, kind, after).await
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        Mail::read(self, role, id, from).await
    }

    async fn saw(&self, role: &RoleId, id: MessageId, through: u32) {
        self.mark_mail(role, id, through, wire::MailMark::Seen);
        self.mail_marks_settled(role).await;
    }

    async fn send(&self, role: &RoleId, letter: wire::SendRequest) -> Result<Sent, Refusal> {
        let role = role.clone();
        self.carry_out(|link| async move { link.send_mail(&role, letter, None).await }).await
    }
}
