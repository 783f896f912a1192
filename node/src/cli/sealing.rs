//! Private mail for commands that ask the broker themselves: sealed and opened with the keys of the
//! node whose data directory they use.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tasuki_proto::{
    reason::Reason,
    wire::{self, MailMark, mailbox_client::MailboxClient, privacy_client::PrivacyClient},
};

use super::{Failure, broker::Broker};
use crate::{private::Ask, role::Refusal};

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
        let failed = self.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.unwrap_or_else(|| Failure::reason(refusal.reason, refusal.message))
    }

    fn told<T>(&self, asked: Result<T, Failure>) -> Result<T, Refusal> {
        asked.map_err(|failure| {
            let reason = failure.as_reason().unwrap_or(Reason::Unavailable);
            let message = failure.message.clone();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            Refusal { reason, message }
        })
    }
}

#[async_trait]
impl Ask for Asking<'_> {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        let request = wire::GetRosterRequest { caller: self.broker.caller() };
        let ask = move |channel| {
            let request = request.clone();
            async move { PrivacyClient::new(channel).get_roster(request).await }
        };
        self.told(self.broker.ask(ask).await)
    }

    async fn thread(&self, role: &str, message: &str) -> Result<wire::MailThread, Refusal> {
        let request = wire::ReadThreadRequest {
            caller: self.broker.caller(),
            role: role.to_owned(),
            message: message.to_owned(),
            last: 1,
            mark: MailMark::None.into(),
            ..Default::default()
        };
        let ask = move |channel| {
            let request = request.clone();
            async move { MailboxClient::new(channel).read_thread(request).await }
        };
        let read = self.told(self.broker.ask(ask).await)?;
        Ok(read.thread.unwrap_or_default())
    }
}
