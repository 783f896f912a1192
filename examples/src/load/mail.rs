//! Mail: one caller, many at once, and from one MCP client to another that waits.

use serde_json::json;
use tasuki_proto::wire::{
    Caller, IdempotencyKey, ListRolesRequest, OpenMailboxRequest, SendRequest,
    directory_client::DirectoryClient, mailbox_client::MailboxClient,
};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{
    Figure, Quantity, Sizes, Target,
    calls::{Calling, WORKSPACES, agents, channels, hammer, lift_limits, registration},
    limits::{self, Disk},
    median, micros,
    relay::too_early,
};
use crate::{
    Result,
    process::Process,
    relay::{ROLES, Relay},
};

/// What is said in a message, in bytes: with its frame it makes a request of 512.
const TEXT_BYTES: usize = 430;

/// Writes again and again to one that never reads.
pub(super) struct Writer {
    directory: DirectoryClient<Channel>,
    mail: MailboxClient<Channel>,
    caller: Caller,
    from: String,
    to: String,
    text: String,
    counter: u64,
}

impl Writer {
    pub(super) fn new(channel: Channel, workspace: &str, number: usize, bytes: usize) -> Self {
        Self {
            directory: DirectoryClient::new(channel.clone()),
            mail: MailboxClient::new(channel),
            caller: Caller { workspace: workspace.to_owned(), ..Caller::default() },
            from: format!("from-{number}"),
            to: format!("to-{number}"),
            text: "t".repeat(bytes),
            counter: 0,
        }
    }

    fn key(&mut self) -> Option<IdempotencyKey> {
        self.counter += 1;
        Some(IdempotencyKey { client_id: self.from.clone(), counter: self.counter })
    }

    /// Whom the mail is for from here on.
    pub(super) fn writes_to(&mut self, role: &str) {
        role.clone_into(&mut self.to);
    }

    /// What it says from here on.
    pub(super) fn says(&mut self, text: String) {
        self.text = text;
    }

    /// Opens the mailbox it writes to.
    pub(super) async fn open(&mut self) -> Result<()> {
        self.directory.register(registration(&self.caller, &self.from)).await?;
        let request = OpenMailboxRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            role: self.to.clone(),
        };
        self.mail.open_mailbox(request).await?;
        Ok(())
    }
}

impl Calling for Writer {
    async fn call(&mut self) -> Result<()> {
        let request = SendRequest {
            caller: Some(self.caller.clone()),
            key: self.key(),
            role: self.from.clone(),
            to: vec![self.to.clone()],
            r#type: "INFO".to_owned(),
            subject: "a subject".to_owned(),
            text: self.text.clone(),
            ..SendRequest::default()
        };
        self.mail.send(request).await?;
        Ok(())
    }
}

/// # Errors
/// When a call fails.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    Ok(vec![one(sizes).await?, many(sizes).await?, relayed(sizes).await?])
}

async fn writers(broker: &Process, count: usize) -> Result<Vec<Writer>> {
    let mut writers = Vec::new();
    for (number, channel) in channels(broker, count).await?.into_iter().enumerate() {
        let workspace = format!("w{}", number % WORKSPACES);
        let mut writer = Writer::new(channel, &workspace, number, TEXT_BYTES);
        writer.open().await?;
        writers.push(writer);
    }
    Ok(writers)
}

async fn one(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut disk = Disk::new(&sizes.dir)?;
    let mut echoed = agents(&echo, 1).await?.remove(0);
    let mut writer = writers(&broker, 1).await?.remove(0);
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut sends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.calls {
            let began = Instant::now();
            echoed.call().await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            let began = Instant::now();
            writer.call().await?;
            sends.push(micros(began.elapsed()));
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let limit = median(&mut calls) + median(&mut appends);
        let value = median(&mut sends);
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    broker.stop().await?;
    Ok(Figure {
        name: "1 caller: durable mail".into(),
        value: Quantity::Micros(median(&mut values)),
        limit: Some(("echo + append".into(), Quantity::Micros(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::AtMost(1.3),
    })
}

async fn many(sizes: &Sizes) -> Result<Figure> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut echoed = agents(&echo, sizes.callers).await?;
    let mut durable = writers(&broker, sizes.callers).await?;
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first of each warms up.
    hammer(&mut echoed, sizes.run / 4).await?;
    hammer(&mut durable, sizes.run / 4).await?;
    for _ in 0..sizes.runs {
        let limit = hammer(&mut echoed, sizes.run).await?;
        let value = hammer(&mut durable, sizes.run).await?;
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    broker.stop().await?;
    Ok(Figure {
        name: format!("{} callers: durable mail", sizes.callers),
        value: Quantity::PerSecond(median(&mut values)),
        limit: Some(("echo".into(), Quantity::PerSecond(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::AtLeast(0.4),
    })
}

/// From an agent that sends at one node to the agent that waits at the other.
async fn relayed(sizes: &Sizes) -> Result<Figure> {
    let echo = limits::start("mcp-echo").await?;
    let mut bare = crate::mcp::Agent::connect(&format!("{}/mcp", echo.url()), "load").await?;
    let mut disk = Disk::new(&sizes.dir)?;
    let relay = Relay::start_in(&sizes.dir).await?;
    lift_limits(&relay.broker, "").await?;
    let mut giver = relay.agent(0).await?;
    let mut taker = relay.agent(1).await?;
    let mut roles = DirectoryClient::connect(relay.broker.url().to_owned()).await?;
    let (mut limits, mut values, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut number = 0_u64;
    let mut last = None;
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut sends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..sizes.handovers {
            number += 1;
            let letter = json!({
                "receiver_id": ROLES[1],
                "msg_type": "INFO",
                "title": "a subject",
                "content": format!("{number} {}", "t".repeat(380)),
            });
            let began = Instant::now();
            bare.call("echo", letter.clone()).await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            let after = last.take();
            let waits = tokio::spawn(async move {
                // What was shown before is done with.
                let wait = after.map_or_else(|| json!({}), |id: String| json!({ "after": id }));
                let said = taker.call("filebox_wait_for_message", wait).await;
                (said, Instant::now(), taker)
            });
            while !is_waiting(&mut roles).await? {
                if waits.is_finished() {
                    return Err(too_early(&waits.await?.0?));
                }
                tokio::task::yield_now().await;
            }
            let began = Instant::now();
            let sent = giver.call("filebox_send_message", letter).await?;
            if sent.is_error {
                return Err(sent.text.into());
            }
            let (said, woken, back) = waits.await?;
            taker = back;
            let told = said?.json()?;
            let id = told["message_id"].as_str().ok_or_else(|| format!("told {told}"))?;
            last = Some(id.to_owned());
            sends.push(micros(woken.duration_since(began)));
        }
        if run == 0 {
            continue;
        }
        let limit = 2.0 * median(&mut calls) + median(&mut appends);
        let value = median(&mut sends);
        limits.push(limit);
        values.push(value);
        ratios.push(value / limit);
    }
    drop((giver, taker));
    relay.stop().await?;
    Ok(Figure {
        name: "mail to woken waiter, MCP to MCP".into(),
        value: Quantity::Micros(median(&mut values)),
        limit: Some(("2 bare calls + append".into(), Quantity::Micros(median(&mut limits)))),
        score: median(&mut ratios),
        target: Target::AtMost(1.5),
    })
}

async fn is_waiting(roles: &mut DirectoryClient<Channel>) -> Result<bool> {
    let listed = roles.list_roles(ListRolesRequest::default()).await?;
    let mut roles = listed.into_inner().roles.into_iter();
    Ok(roles.any(|it| it.role == ROLES[1] && it.waits.iter().any(|it| it == "mail")))
}
