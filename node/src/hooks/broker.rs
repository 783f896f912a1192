//! What hooks ask the broker, over the node's link.
//!
//! It is asked without a registration, so nothing of it speaks for an agent.

use async_trait::async_trait;
use tasuki_proto::{id::RoleId, reason::Reason, rpc::Rpc, wire};

use super::{
    document::Read,
    source::{Part, Source, Unanswered},
};
use crate::{
    client::{
        feed::{Ended, Items},
        retry::Failure,
    },
    link::Link,
    refusal::Refusal,
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        self.connected().await;
    }

    async fn newest(&self, role: &RoleId) -> Result<u64, Unanswered> {
        let request = wire::ListBoxRequest {
            role: role.to_string(),
            r#box: wire::Box::Inbox.into(),
            limit: 1,
            ..Default::default()
        };
        let answer = answered(self, request).await?;
        answer.map(|list| list.sequence).map_err(|refusal| Unanswered(refusal.message))
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        self.subscribe(from).await
    }

    async fn read(&self, role: &RoleId, message: &str, part: Part) -> Result<Read, Unanswered> {
        let (from, last) = match part {
            Part::Newest(count) => (0, count),
            Part::From(first) => (first, 0),
        };
        let request = wire::ReadThreadRequest {
            role: role.to_string(),
            message: message.to_owned(),
            r#box: wire::Box::Unspecified.into(),
            from,
            last,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        answered(self, request).await
    }

    async fn open(&self, read: Read) -> Read {
        match read {
            Ok(mut read) => {
                self.open_entries(read.thread.as_mut(), &mut read.entries).await;
                Ok(read)
            }
            Err(refusal) => Err(refusal),
        }
    }
}

/// One attempt. A refusal is an answer; a broker that will not have this node for the moment, or is
/// not there, gave none.
async fn answered<R: Rpc>(
    link: &Link,
    request: R,
) -> Result<Result<R::Response, Refusal>, Unanswered> {
    let failure = match link.ask_once(request).await {
        Ok(answer) => return Ok(Ok(answer)),
        Err(failure) => failure,
    };
    match failure {
        Failure::Refused(refusal) if refusal.reason != Reason::Unavailable => Ok(Err(refusal)),
        Failure::TurnedAway(refusal) if refusal.reason != Reason::Unauthenticated => {
            Ok(Err(refusal))
        }
        Failure::Refused(refusal) | Failure::TurnedAway(refusal) | Failure::NotTaken(refusal) => {
            Err(Unanswered(refusal.message))
        }
        Failure::Lost(why) | Failure::Unsure(why) | Failure::StaleEpoch(why) => {
            Err(Unanswered(why))
        }
    }
}
