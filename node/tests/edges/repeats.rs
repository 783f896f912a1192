//! Letters that are said again by whoever heard no answer, where many agents write as one role.

use std::collections::BTreeMap;

use serde_json::json;
use tasuki_proto::wire::{self, mailbox_client::MailboxClient};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    agents::post,
    http::{Client, call},
    process::{Process, soon},
};

/// Connections that share a role, without a name for what they say.
const AGENTS: usize = 16;

const ROUNDS: usize = 10;

/// Whether it was heard that this is said.
async fn say(agent: &Client, said: &str) -> bool {
    let letter = json!({ "receiver_id": "B", "msg_type": "BR", "title": said, "content": said });
    let asked = call(7, "filebox_send_message", letter);
    let Ok(answer) = post(agent, &asked, &mut 0).await else { return false };
    answer["result"].is_object() && answer["result"]["isError"] != true
}

/// How often each is in B's inbox.
async fn stored(up: &Process) -> BTreeMap<String, usize> {
    let broker = format!("http://{}", up.broker.unwrap());
    let mut mail = MailboxClient::connect(broker).await.unwrap();
    let mut request = wire::ListBoxRequest {
        role: "B".to_owned(),
        r#box: wire::Box::Inbox.into(),
        limit: 1000,
        ..wire::ListBoxRequest::default()
    };
    let mut found = BTreeMap::new();
    loop {
        let page = soon(mail.list_box(request.clone())).await.unwrap().into_inner();
        for it in page.threads {
            *found.entry(it.subject).or_default() += 1;
        }
        if page.next.is_empty() {
            return found;
        }
        request.after = page.next;
    }
}

#[tokio::test]
async fn what_agents_of_one_role_say_again_after_a_kill_is_there_once() {
    let place = tempfile::tempdir().unwrap();
    let mut up = Process::up(&place.path().join("up"), "--role A --role B --shared A").await;
    for round in 0..ROUNDS {
        let mut agents = Vec::new();
        for _ in 0..AGENTS {
            agents.push(Client::new(up.mcp, "/mcp/A").await);
        }
        let (heard, mut count) = watch::channel(0);
        let mut saying = JoinSet::new();
        for (number, agent) in agents.into_iter().enumerate() {
            let heard = heard.clone();
            saying.spawn(async move {
                let said = format!("{round}-{number}");
                let is_heard = say(&agent, &said).await;
                heard.send_modify(|count| *count += usize::from(is_heard));
                (!is_heard).then_some((agent, said))
            });
        }
        drop(heard);
        // Each time at another moment of the burst.
        soon(count.wait_for(|count| round % 4 < *count)).await.unwrap();
        up.kill().await;
        let unheard: Vec<_> = soon(saying.join_all()).await.into_iter().flatten().collect();
        up.start().await;
        let again = unheard.into_iter().map(async |(agent, said)| {
            while !say(&agent, &said).await {
                tokio::task::yield_now().await;
            }
        });
        soon(futures::future::join_all(again)).await;
    }
    let stored = stored(&up).await;
    let doubled: Vec<_> = stored.iter().filter(|(_, count)| **count != 1).collect();
    assert!(doubled.is_empty(), "{} of {}: {doubled:?}", doubled.len(), stored.len());
    assert_eq!(stored.len(), AGENTS * ROUNDS);
}
