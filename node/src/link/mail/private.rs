//! Private mail on its way through the link: sealed as it leaves, opened as it comes in, so that
//! nobody further in has to know of it.

use async_trait::async_trait;
use tasuki_proto::wire::{self, privacy_client::PrivacyClient};

use super::super::{Link, channel};
use crate::{
    private::{Ask, Fresh, Sealer, Unsealable},
    role::Refusal,
};

impl Link {
    pub(super) fn sealer(&self) -> &Sealer {
        &self.shared.sealer
    }

    /// Whether what cannot be sealed may leave this node.
    pub(super) async fn may_leave_plain(&self, what: Unsealable) -> Result<(), Refusal> {
        self.sealer().check_plain(self, what, Fresh::IfPrivate).await
    }

    pub(super) async fn opened_box(&self, mut it: wire::ListBoxResponse) -> wire::ListBoxResponse {
        self.sealer().open_threads(self, &mut it.threads).await;
        it
    }

    pub(in crate::link) async fn opened_thread(
        &self,
        mut it: wire::ReadThreadResponse,
    ) -> wire::ReadThreadResponse {
        if let Some(thread) = &mut it.thread {
            self.sealer().open_thread(self, thread, &mut it.entries).await;
        }
        it
    }

    pub(super) async fn opened_answer(&self, mut it: wire::MailAnswer) -> wire::MailAnswer {
        if let Some(thread) = &mut it.thread {
            self.sealer().open_thread(self, thread, &mut it.entries).await;
        }
        it
    }

    pub(super) async fn opened_dead_letters(
        &self,
        mut it: wire::ListDeadLettersResponse,
    ) -> wire::ListDeadLettersResponse {
        self.sealer().open_threads(self, &mut it.threads).await;
        it
    }
}

#[async_trait]
impl Ask for Link {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        let call = |channel, caller| {
            let request = wire::GetRosterRequest { caller: Some(caller) };
            async move { PrivacyClient::new(channel).get_roster(request).await }
        };
        self.ask(call).await
    }

    async fn thread(&self, role: &str, message: &str) -> Result<wire::MailThread, Refusal> {
        let call = |channel, caller| {
            let request = wire::ReadThreadRequest {
                caller: Some(caller),
                role: role.to_owned(),
                message: message.to_owned(),
                last: 1,
                mark: wire::MailMark::None.into(),
                ..wire::ReadThreadRequest::default()
            };
            async move { channel::mailbox(channel).read_thread(request).await }
        };
        Ok(self.ask(call).await?.thread.unwrap_or_default())
    }
}
