//! Private mail for commands that ask the broker themselves: sealed and opened with the keys of the
//! node whose data directory they use.

use async_trait::async_trait;
use tasuki_proto::wire::{self, privacy_client::PrivacyClient};

use super::{Failure, broker::Broker};
use crate::{private::Ask, role::Refusal};

/// What sealing and opening ask the broker for, asked ahead.
#[derive(Debug)]
pub(crate) struct Ahead {
    roster: wire::GetRosterResponse,
    /// That is answered, if one is.
    pub(crate) thread: wire::MailThread,
}

impl Broker {
    pub(crate) async fn ahead(&self) -> Result<Ahead, Failure> {
        let request = wire::GetRosterRequest { caller: self.caller() };
        let asked =
            self.ask(async |channel| PrivacyClient::new(channel).get_roster(request.clone()).await);
        Ok(Ahead { roster: asked.await?, thread: wire::MailThread::default() })
    }
}

#[async_trait]
impl Ask for Ahead {
    async fn roster(&self) -> Result<wire::GetRosterResponse, Refusal> {
        Ok(self.roster.clone())
    }

    async fn thread(&self, _role: &str, _message: &str) -> Result<wire::MailThread, Refusal> {
        Ok(self.thread.clone())
    }
}
