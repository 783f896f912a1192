//! What hooks ask the broker, over the one connection there is.
//!
//! It is asked without a registration, so nothing of it speaks for an agent.

use std::time::Duration;

use async_trait::async_trait;
use tasuki_proto::{id::RoleId, reason::Reason, rpc, wire};
use tokio::time;
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

use super::{Link, channel::ATTEMPT_MS_MAX, retry::Failure};
use crate::{
    hooks::{
        document::Read,
        source::{Ended, Items, Part, Source, Unanswered},
    },
    role::Refusal,
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        self.connected().await;
    }

    async fn newest(&self, role: &RoleId) -> Result<u64, Unanswered> {
        let request = wire::ListBoxRequest {
            caller: Some(self.shared.stranger()),
            role: role.to_string(),
            r#box: wire::Box::Inbox.into(),
            limit: 1,
            ..Default::default()
        };
        let answer = answered(rpc::send(self.shared.channel.clone(), request)).await?;
        answer.map(|list| list.sequence).map_err(|refusal| Unanswered(refusal.message))
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        self.subscribe(from, ended).await
    }

    async fn read(&self, role: &RoleId, message: &str, part: Part) -> Result<Read, Unanswered> {
        let (from, last) = match part {
            Part::Newest(count) => (0, count),
            Part::From(first) => (first, 0),
        };
        let request = wire::ReadThreadRequest {
            caller: Some(self.shared.stranger()),
            role: role.to_string(),
            message: message.to_owned(),
            r#box: wire::Box::Unspecified.into(),
            from,
            last,
            mark: wire::MailMark::None.into(),
        };
        answered(rpc::send(self.shared.channel.clone(), request)).await
    }

    async fn open(&self, read: Read) -> Read {
        match read {
            Ok(read) => Ok(self.opened_thread(read).await),
            Err(refusal) => Err(refusal),
        }
    }
}

/// One attempt. A refusal is an answer; a broker that will not have this node for the moment, or is
/// not there, gave none.
async fn answered<T>(
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Result<T, Refusal>, Unanswered> {
    let answer = time::timeout(Duration::from_millis(ATTEMPT_MS_MAX), call).await;
    let status = match answer {
        Ok(Ok(answer)) => return Ok(Ok(answer.into_inner())),
        Ok(Err(status)) => status,
        Err(_) => return Err(Unanswered(format!("no answer within {ATTEMPT_MS_MAX} ms"))),
    };
    match Failure::of(&status) {
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

fn ended(status: &Status) -> Ended {
    let oldest = || {
        let info = status.get_details_error_info()?;
        info.metadata.get("oldest")?.parse().ok()
    };
    match Reason::of(status) {
        Some(Reason::Compacted) if let Some(oldest) = oldest() => Ended::Compacted { oldest },
        Some(_) | None => Ended::Broken(status.message().to_owned()),
    }
}
