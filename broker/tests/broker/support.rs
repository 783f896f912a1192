//! A real broker on a real directory, and a client that numbers its intents.

use std::path::Path;

use tasuki_broker::server::{Broker, Settings};
use tasuki_proto::{
    reason::Reason,
    wire::{
        self, directory_client::DirectoryClient, feed_client::FeedClient,
        guard_client::GuardClient, mailbox_client::MailboxClient, turn_loop_client::TurnLoopClient,
        waits_client::WaitsClient,
    },
};
use tonic::{Status, transport::Channel};

pub(crate) async fn start(data: &Path) -> Broker {
    let settings = Settings::new(data.to_owned(), "127.0.0.1:0".parse().unwrap());
    Broker::start(settings).await.unwrap()
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) turns: TurnLoopClient<Channel>,
    pub(crate) directory: DirectoryClient<Channel>,
    pub(crate) waits: WaitsClient<Channel>,
    pub(crate) feed: FeedClient<Channel>,
    pub(crate) mail: MailboxClient<Channel>,
    pub(crate) guard: GuardClient<Channel>,
    pub(crate) id: String,
    pub(crate) counter: u64,
}

pub(crate) async fn connect(broker: &Broker, id: &str) -> Client {
    let channel = Channel::from_shared(format!("http://{}", broker.address())).unwrap();
    let channel = channel.connect().await.unwrap();
    Client {
        turns: TurnLoopClient::new(channel.clone()),
        directory: DirectoryClient::new(channel.clone()),
        waits: WaitsClient::new(channel.clone()),
        feed: FeedClient::new(channel.clone()),
        guard: GuardClient::new(channel.clone()),
        mail: MailboxClient::new(channel),
        id: id.to_owned(),
        counter: 0,
    }
}

impl Client {
    pub(crate) fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        Some(wire::IdempotencyKey { client_id: self.id.clone(), counter: self.counter })
    }

    pub(crate) fn handover(&mut self, role: &str, summary: &str) -> wire::HandOverRequest {
        wire::HandOverRequest {
            key: self.key(),
            role: role.to_owned(),
            summary: summary.to_owned(),
            instruction: "go on".to_owned(),
            ..wire::HandOverRequest::default()
        }
    }

    pub(crate) async fn hand_over(
        &mut self,
        role: &str,
        summary: &str,
    ) -> Result<wire::HandOverResponse, Status> {
        let request = self.handover(role, summary);
        Ok(self.turns.hand_over(request).await?.into_inner())
    }

    pub(crate) async fn ask(&mut self, role: &str, hold_ms: u64) -> wire::TurnAnswer {
        let request = wire::AwaitTurnRequest {
            role: role.to_owned(),
            hold_ms,
            ..wire::AwaitTurnRequest::default()
        };
        self.turns.await_turn(request).await.unwrap().into_inner().answer.unwrap()
    }

    pub(crate) async fn state(&mut self) -> wire::GetLoopResponse {
        self.turns.get_loop(wire::GetLoopRequest::default()).await.unwrap().into_inner()
    }
}

pub(crate) fn reason(status: &Status) -> &'static str {
    Reason::of(status).map_or("none", Reason::as_str)
}
