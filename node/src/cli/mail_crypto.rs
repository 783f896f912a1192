//! Private mail for commands that ask the broker themselves: sealed and opened with the keys of the
//! node whose data directory they use.

use async_trait::async_trait;
use parking_lot::Mutex;
use tasuki_proto::{
    id::RoleId,
    mail::{BoxKind, MessageId},
    reason::Reason,
    wire::{self, MailMark},
};

use super::{Failure, broker::Broker};
use crate::{
    private::{
        Ask, Sealer,
        finding::{Ended, Items, Mail, box_page},
    },
    refusal::Refusal,
};

/// What sealing and opening ask the broker for, asked when they do. A sealer remembers the answer,
/// so with one sealer a command that lists and reads many pages asks once.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    broker: &'a Broker,
    failed: Mutex<Option<Failure>>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(broker: &'a Broker) -> Self {
        Self { broker, failed: Mutex::default() }
    }

    /// Why the broker could not be asked, if that is what a refusal is about: it knows more.
    pub(crate) fn failure(self, refusal: Refusal) -> Failure {
        let failed = self.failed.into_inner();
        failed.unwrap_or_else(|| Failure::reason(refusal.reason, refusal.message))
    }

    async fn list(&self, request: wire::ListBoxRequest) -> Result<wire::ListBoxResponse, Refusal> {
        self.told(self.broker.call(&request).await)
    }

    async fn read(
        &self,
        request: wire::ReadThreadRequest,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        let mark = MailMark::None.into();
        let request = wire::ReadThreadRequest { mark, ..request };
        self.told(self.broker.call(&request).await)
    }

    fn told<T>(&self, asked: Result<T, Failure>) -> Result<T, Refusal> {
        asked.map_err(|failure| {
            let reason = failure.as_reason().unwrap_or(Reason::Unavailable);
            let message = failure.message.clone();
            *self.failed.lock() = Some(failure);
            Refusal { reason, message }
        })
    }
}

#[async_trait]
impl Ask for Asking<'_> {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        let request = wire::GetRosterRequest::default();
        self.told(self.broker.call(&request).await)
    }

    async fn thread(&self, role: &str, message: &str) -> Result<wire::MailThread, Refusal> {
        let request = wire::ReadThreadRequest {
            role: role.to_owned(),
            message: message.to_owned(),
            last: 1,
            ..Default::default()
        };
        Ok(self.read(request).await?.thread.unwrap_or_default())
    }
}

/// Mail as this machine can open it, to be looked through once.
pub(crate) struct Opening<'a> {
    pub(crate) asking: &'a Asking<'a>,
    pub(crate) sealer: &'a Sealer,
}

#[async_trait]
impl Mail for Opening<'_> {
    async fn sequence(&self, role: &RoleId) -> Result<u64, Refusal> {
        let of = wire::Box::Inbox.into();
        let role = role.to_string();
        let request = wire::ListBoxRequest { role, r#box: of, limit: 1, ..Default::default() };
        Ok(self.asking.list(request).await?.sequence)
    }

    async fn list(
        &self,
        role: &RoleId,
        kind: BoxKind,
        after: &str,
    ) -> Result<wire::ListBoxResponse, Refusal> {
        self.asking.list(box_page(role, kind, after)).await
    }

    async fn read(
        &self,
        role: &RoleId,
        id: MessageId,
        from: u32,
    ) -> Result<wire::ReadThreadResponse, Refusal> {
        let (role, message) = (role.to_string(), id.to_string());
        let request = wire::ReadThreadRequest { role, message, from, ..Default::default() };
        let mut read = self.asking.read(request).await?;
        if let Some(thread) = &mut read.thread {
            self.sealer.open_thread(self.asking, thread, &mut read.entries).await;
        }
        Ok(read)
    }

    async fn follow(&self, _from: u64) -> Result<Items, Ended> {
        Err(Ended::Lost("a command looks once".to_owned()))
    }
}
