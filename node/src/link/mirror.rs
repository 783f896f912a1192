//! What the mirror asks the broker, over the one connection there is.
//!
//! It reads without going through what agents last saw, which is kept for them alone.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tasuki_proto::{
    id::RoleId,
    limits::BOX_PAGE_MAX,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};
use tokio::sync::oneshot;
use tonic::Status;

use super::{Link, stopping};
use crate::{
    mirror::source::{Ended, Items, Source},
    role::{Refusal, mail::Sent},
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        self.connected().await;
    }

    fn is_ready(&self) -> bool {
        self.shared.state.borrow().is_connected()
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        self.subscribe(from, ended).await
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
        let request = wire::ListBoxRequest {
            role: role.to_string(),
            r#box: kind.to_wire().into(),
            limit: BOX_PAGE_MAX,
            after: after.to_owned(),
            ..Default::default()
        };
        self.query(request).await
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        let request = wire::ReadThreadRequest {
            role: role.to_string(),
            message: id.to_string(),
            from,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        Ok(self.opened_thread(self.query(request).await?).await)
    }

    async fn saw(&self, role: &RoleId, id: MessageId, through: u32) {
        self.mark_mail(role, id, through, wire::MailMark::Seen);
        self.mail_marks_settled(role).await;
    }

    async fn send(&self, role: &RoleId, letter: wire::SendRequest) -> Result<Sent, Refusal> {
        let (link, role) = (self.clone(), role.clone());
        let (answer, answered) = oneshot::channel();
        self.spawn(async move {
            drop(answer.send(link.send_mail(&role, letter, None).await));
        });
        answered.await.unwrap_or_else(|_| Err(stopping()))
    }
}

fn ended(status: &Status) -> Ended {
    let why = status.message().to_owned();
    match Reason::of(status) {
        Some(Reason::Compacted) => Ended::Lost(why),
        Some(_) | None => Ended::Broken(why),
    }
}
