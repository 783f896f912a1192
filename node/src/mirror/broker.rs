//! What the mirror asks the broker, over the node's link.
//!
//! It reads without going through what agents last saw, which is kept for them alone.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tasuki_proto::{id::RoleId, mail::MessageId, wire};

use super::source::Source;
use crate::{
    link::{Link, Sent},
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

    async fn roles(&self) -> Result<BTreeSet<String>, Refusal> {
        let all = self.query(wire::ListMailboxesRequest::default()).await?;
        Ok(all.mailboxes.into_iter().map(|it| it.role).collect())
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
