//! What stands around a client in one run: broker and node, and the scripted model.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{
    client::{Client, Transport},
    connect::connect,
    home::Home,
    model::{Asked, Model},
    running::Running,
    script::{Call, Heard, Move, Part, WAITING},
};
use crate::{
    Result,
    mcp::{self, Agent},
    process::Process,
};

/// For a client to start and make its first call: some compile themselves first, several at once.
pub const START_WITHIN: Duration = Duration::from_secs(240);

/// For a client to do something once it was told of it.
pub const DONE_WITHIN: Duration = Duration::from_secs(120);

/// Between two looks at the same state.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Broker and node, before anybody works there.
#[derive(Debug)]
pub struct Ground {
    pub home: Home,
    node: Process,
    /// Where the node serves MCP.
    mcp: String,
}

impl Ground {
    /// Starts them in this home, for these roles.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn lay(home: Home, roles: &[&str]) -> Result<Self> {
        let mut up = home.tasuki()?;
        // The only leases of turns here are those of agents that wait for hours.
        up.args(["up", "--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
        up.args(["--lease", "8h"]).args(roles.iter().flat_map(|role| ["--role", role]));
        up.env("RUST_LOG", "info").stderr(home.log("node.log")?);
        let node = Process::start(up, "broker gRPC").await?;
        let mcp = node.url_of("MCP").ok_or("`tasuki up` did not say where it serves MCP")?;
        Ok(Self { mcp: mcp.to_owned(), home, node })
    }

    /// Somebody who works from here.
    ///
    /// # Errors
    /// When the node has no such role.
    pub async fn agent(&self, role: &str) -> Result<Agent> {
        Agent::connect(&format!("{}/mcp/{role}", self.mcp), "example").await
    }

    /// Of the broker.
    pub fn broker(&self) -> &str {
        self.node.url()
    }
}

#[derive(Debug)]
pub struct Stage {
    pub ground: Ground,
    pub model: Model,
    /// That the client plays.
    role: &'static str,
}

impl Stage {
    /// Connects the client, whose model plays this part as this role.
    ///
    /// # Errors
    /// When the client cannot be set up or connected.
    pub async fn set(
        ground: Ground,
        client: Client,
        transport: Transport,
        role: &'static str,
        part: Box<dyn Part>,
    ) -> Result<Self> {
        let home = &ground.home;
        let model = Model::start(&home.folder.join("model"), part).await?;
        client.settle(home, model.url())?;
        if let Some(command) = client.settling(home, model.url()) {
            let mut settling = Running::start(command, home)?;
            match settling.ended_within(START_WITHIN).await? {
                Some(status) if status.success() => {}
                ended => return Err(format!("it could not be set up: {ended:?}").into()),
            }
        }
        connect(client, transport, role, home).await?;
        Ok(Self { ground, model, role })
    }

    /// Until the client has made this call, and it is held.
    ///
    /// # Errors
    /// When it ends before, or does not call.
    pub async fn waits(&self, running: &mut Running, call: Call) -> Result<()> {
        let until = Instant::now() + START_WITHIN;
        let call = Move::Call(call);
        while Instant::now() < until {
            if let Some(status) = running.ended_within(LOOK_EVERY).await? {
                let asked = self.model.asked();
                let is_early = asked.borrow().last().is_some_and(|it| it.heard == Heard::Early);
                let why = if is_early { ": it had none of our tools" } else { "" };
                return Err(format!("it ended with {status} before it waited{why}").into());
            }
            let asked = self.model.asked();
            let is_called = asked.borrow().last().is_some_and(|it| it.answered == call);
            if is_called && self.is_held().await? {
                return Ok(());
            }
        }
        Err(format!("it did not make the call that waits within {START_WITHIN:?}").into())
    }

    /// Whether the node holds a call of the client's role.
    async fn is_held(&self) -> Result<bool> {
        let status = mcp::get(&format!("{}/status", self.ground.mcp)).await?;
        let roles = status["roles"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(roles.iter().any(|it| it["role"] == self.role && it["waits"] != 0))
    }

    /// Until the model was asked something that is so.
    ///
    /// # Errors
    /// When it is not within this time.
    pub async fn model_is_asked(
        &self,
        within: Duration,
        what: &str,
        is_so: impl Fn(&Asked) -> bool,
    ) -> Result<Asked> {
        let mut asked = self.model.asked();
        let came = timeout(within, asked.wait_for(|asked| asked.iter().any(&is_so))).await;
        let came =
            came.map_err(|_| format!("the model was not told {what} within {within:?}"))??;
        Ok(came.iter().find(|it| is_so(it)).ok_or("it is there")?.clone())
    }

    /// Until the model has ended its turn for the so-many-th time because its call goes on
    /// without it.
    ///
    /// # Errors
    /// When it does not within this time.
    pub async fn falls_idle(&self, times: usize, within: Duration) -> Result<()> {
        let is_idle = |it: &&Asked| it.answered == Move::Say(WAITING);
        let mut asked = self.model.asked();
        let came = asked.wait_for(|asked| times <= asked.iter().filter(is_idle).count());
        let came = timeout(within, came).await;
        came.map_err(|_| format!("the client did not let its model rest within {within:?}"))??;
        Ok(())
    }

    /// Ends broker and node in good order.
    ///
    /// # Errors
    /// When they do not end well.
    pub async fn strike(self) -> Result<()> {
        self.ground.node.stop().await
    }
}
