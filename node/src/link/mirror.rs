//! What the mirror asks the broker, over the one connection there is.
//!
//! It reads without going through what agents last saw, which is kept for them alone.

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use tasuki_proto::{
    id::{IdempotencyKey, RoleId},
    limits::BOX_PAGE_MAX,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire,
};
use tokio::{sync::oneshot, time};
use tonic::Status;

use super::{
    Link, LinkState,
    channel::{self, ATTEMPT_MS_MAX},
    stopping,
};
use crate::{
    mirror::source::{Ended, Items, Source},
    role::{Refusal, mail::Sent},
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        let mut state = self.shared.state.subscribe();
        if state.wait_for(LinkState::is_connected).await.is_err() {
            std::future::pending().await
        }
    }

    fn is_ready(&self) -> bool {
        self.shared.state.borrow().is_connected()
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        let caller = Some(self.shared.stranger());
        let request = wire::SubscribeRequest { caller, from_sequence: from };
        let mut client = channel::feed(self.shared.channel.clone());
        let opening = client.subscribe(request);
        match time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), opening).await {
            Ok(Ok(items)) => {
                let items = items.into_inner();
                Ok(items.map(|item| item.map_err(|status| ended(&status))).boxed())
            }
            Ok(Err(status)) => Err(ended(&status)),
            Err(_) => Err(Ended::Broken(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
        }
    }

    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        let call = |channel, caller| {
            let request = wire::ListBoxRequest {
                caller: Some(caller),
                role: role.to_string(),
                r#box: kind.to_wire().into(),
                limit: BOX_PAGE_MAX,
                after: after.to_owned(),
                ..wire::ListBoxRequest::default()
            };
            async move { channel::mailbox(channel).list_box(request).await }
        };
        self.ask(call).await
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        let call = |channel, caller| {
            let request = wire::ReadThreadRequest {
                caller: Some(caller),
                role: role.to_string(),
                message: id.to_string(),
                from,
                mark: wire::MailMark::None.into(),
                ..wire::ReadThreadRequest::default()
            };
            async move { channel::mailbox(channel).read_thread(request).await }
        };
        Ok(self.opened_thread(self.ask(call).await?).await)
    }

    async fn send(
        &self,
        role: &RoleId,
        letter: wire::SendRequest,
        key: IdempotencyKey,
    ) -> Result<Sent, Refusal> {
        let (link, role) = (self.clone(), role.clone());
        let (answer, answered) = oneshot::channel();
        self.spawn(async move {
            drop(answer.send(link.send_mail(&role, letter, Some(key)).await));
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
