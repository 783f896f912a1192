//! Mail: one caller, many at once, and from one MCP client to another that waits.

use std::time::Duration;

use serde_json::{Value, json};
use tasuki_proto::wire::{
    Caller, IdempotencyKey, ListRolesRequest, OpenMailboxRequest, Role, SendRequest,
    directory_client::DirectoryClient, mailbox_client::MailboxClient,
};
use tokio::time::Instant;
use tonic::transport::Channel;

use super::{
    Figure, Quantity, Runs, Sizes, Target,
    calls::{Calling, WORKSPACES, agents, channels, hammer, lift_limits, registration},
    limits::{self, Disk},
    median, micros,
    relay::too_early,
};
use crate::{
    Result,
    mcp::Agent,
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
        target: Target::AtMost(1.2),
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
    let mut bare = Agent::connect(&format!("{}/mcp", echo.url()), "load").await?;
    let mut disk = Disk::new(&sizes.dir)?;
    let relay = Relay::start_in(&sizes.dir).await?;
    lift_limits(&relay.broker, "").await?;
    let mut pair =
        Pair::new(relay.agent(0).await?, relay.agent(1).await?, relay.broker.url()).await?;
    let mut runs = Runs::default();
    for run in 0..=sizes.runs {
        let (mut calls, mut appends, mut sends) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..sizes.handovers {
            let began = Instant::now();
            bare.call("echo", letter(number)).await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            sends.push(pair.wake(Duration::ZERO).await?);
        }
        // The first warms up.
        if 0 < run {
            runs.add(2.0 * median(&mut calls) + median(&mut appends), median(&mut sends));
        }
    }
    drop(pair);
    relay.stop().await?;
    let name = "mail to woken waiter, MCP to MCP".into();
    Ok(runs.figure(name, "2 bare calls + append", Target::AtMost(1.5)))
}

/// What is sent through MCP, to the second of the [roles](ROLES).
pub(super) fn letter(number: usize) -> Value {
    json!({
        "receiver_id": ROLES[1],
        "msg_type": "INFO",
        "title": "a subject",
        "content": format!("{number} {}", "t".repeat(380)),
    })
}

/// Sends a letter, and returns the microseconds until it is durable.
pub(super) async fn send(agent: &mut Agent, number: usize) -> Result<f64> {
    let letter = letter(number);
    let began = Instant::now();
    let sent = agent.call("filebox_send_message", letter).await?;
    let took = micros(began.elapsed());
    if sent.is_error { Err(sent.text.into()) } else { Ok(took) }
}

/// An agent that sends, and one that waits for it.
pub(super) struct Pair {
    giver: Agent,
    /// Not there while it waits.
    taker: Option<Agent>,
    roles: DirectoryClient<Channel>,
    /// What the taker was told last.
    last: Option<String>,
    sent: usize,
}

impl Pair {
    pub(super) async fn new(giver: Agent, taker: Agent, broker: &str) -> Result<Self> {
        let roles = DirectoryClient::connect(broker.to_owned()).await?;
        Ok(Self { giver, taker: Some(taker), roles, last: None, sent: 0 })
    }

    /// Microseconds from a send until the waiter has it, which has waited for `pause` then.
    pub(super) async fn wake(&mut self, pause: Duration) -> Result<f64> {
        let mut taker = self.taker.take().ok_or("nobody waits")?;
        // What was shown before is done with.
        let wait = self.last.take().map_or_else(|| json!({}), |id| json!({ "after": id }));
        let waits = tokio::spawn(async move {
            let said = taker.call("filebox_wait_for_message", wait).await;
            (said, Instant::now(), taker)
        });
        while !waiting(&mut self.roles).await?.iter().any(|it| it == ROLES[1]) {
            if waits.is_finished() {
                return Err(too_early(&waits.await?.0?));
            }
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(pause).await;
        self.sent += 1;
        let began = Instant::now();
        send(&mut self.giver, self.sent).await?;
        let (said, woken, taker) = waits.await?;
        self.taker = Some(taker);
        let told = said?.json()?;
        let id = told["message_id"].as_str().ok_or_else(|| format!("told {told}"))?;
        self.last = Some(id.to_owned());
        Ok(micros(woken.duration_since(began)))
    }
}

/// The roles that wait for mail.
pub(super) async fn waiting(roles: &mut DirectoryClient<Channel>) -> Result<Vec<String>> {
    let listed = roles.list_roles(ListRolesRequest::default()).await?;
    let waits = |it: &Role| it.waits.iter().any(|it| it == "mail");
    let waiting = listed.into_inner().roles.into_iter().filter(waits);
    Ok(waiting.map(|it| it.role).collect())
}
