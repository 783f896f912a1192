//! As which role a command acts, and the broker it asks.

use tasuki_broker::dial::Channel;
use tasuki_proto::{id::RoleId, wire::swarm_client::SwarmClient};

use super::{Failure, Target, known};
use crate::{
    cli::{
        acting::{self, Unsaid},
        broker::Broker,
    },
    config::Config,
};

/// What is said where nothing says as which role to act.
const WHO: Unsaid =
    Unsaid { asked: "as which role to act", shown_by: "`tasuki status` shows which there are" };

#[derive(Debug, clap::Args)]
pub(super) struct Who {
    /// As which role [default: TASUKI_ROLE, else the only role in the settings, else
    /// `current_agent` of `.filebox`, else the only role of the running node]
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    /// Act as it though the workspace knows no such role
    #[arg(long)]
    new_role: bool,
    #[command(flatten)]
    pub(super) target: Target,
}

/// Who looks, where nobody has to say so.
#[derive(Debug, clap::Args)]
pub(super) struct Looker {
    /// As which role: tokens are told to their bearer alone
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    #[command(flatten)]
    pub(super) target: Target,
}

/// A role at the broker.
#[derive(Debug)]
pub(in crate::cli) struct Acting {
    pub(in crate::cli) broker: Broker,
    /// Empty: nobody in particular looks.
    pub(in crate::cli) role: String,
}

impl Who {
    pub(super) async fn acting(&self, config: &Config) -> Result<Acting, Failure> {
        let role = acting::role(self.role.as_ref(), config, WHO)?;
        let acting = Acting { broker: Broker::new(config), role: role.to_string() };
        if !self.new_role {
            known::check(&acting, config).await?;
        }
        Ok(acting)
    }
}

impl Looker {
    pub(super) fn looking(&self, config: &Config) -> Acting {
        let role = self.role.as_ref().map(ToString::to_string).unwrap_or_default();
        Acting { broker: Broker::new(config), role }
    }
}

pub(in crate::cli) fn client(channel: Channel) -> SwarmClient<Channel> {
    SwarmClient::new(channel)
}
