//! As which role a command acts, and the broker it asks.

use tasuki_proto::id::RoleId;

use super::{Failure, role_check};
use crate::{
    cli::{broker::Broker, role_arg},
    config::Config,
};

/// How to see which roles there are.
const ROLES_HINT: &str = "`tasuki status` shows the roles of the workspace";

#[derive(Debug, clap::Args)]
pub(super) struct Who {
    /// Role to act as [default: TASUKI_ROLE, else the only role in the settings, else
    /// `current_agent` of `.filebox`, else the only role of the running node]
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    /// Allow a role that the workspace does not know yet
    #[arg(long)]
    new_role: bool,
}

/// Who looks, where nobody has to say so.
#[derive(Debug, clap::Args)]
pub(super) struct Looker {
    /// Role to act as; claim tokens are shown only to their holder
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
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
        let role = role_arg::role(self.role.as_ref(), config, ROLES_HINT)?;
        let acting = Acting { broker: Broker::new(config), role: role.to_string() };
        if !self.new_role {
            role_check::check_role(&acting, config).await?;
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
