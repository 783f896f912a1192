//! Checks that a workspace knows the role that a command acts as: work under a mistyped name would be
//! seen by nobody.

use tasuki_proto::wire;

use super::{Failure, pages::PAGE, who::Acting};
use crate::{cli::role_arg, config::Config, paths::NodeFile};

/// Whether the role is one of this machine's node's, or that mail knows, or works on issues, has
/// locked files, leads an issue or has claimed a delivery: who acts as a new role once, goes on with
/// what it has.
pub(in crate::cli) async fn check_role(acting: &Acting, config: &Config) -> Result<(), Failure> {
    let Acting { broker, role } = acting;
    // The broker hears of a node's roles a moment after it began.
    let is_here = |it: &NodeFile| {
        it.is_at(&broker.url)
            && it.workspace == broker.workspace().as_str()
            && it.roles.contains(role)
    };
    if NodeFile::read(&config.data.value).is_some_and(|it| is_here(&it)) {
        return Ok(());
    }
    let Some(mut known) = role_arg::known_roles(broker).await? else { return Ok(()) };
    if known.contains(role) {
        return Ok(());
    }
    let workers = wire::ListWorkersRequest::default();
    known.extend(broker.call(&workers).await?.workers.into_iter().map(|it| it.worker));
    // Its own, then the newest of all, for their names.
    for (lead, limit) in [(role.clone(), 1), (String::new(), PAGE)] {
        let issues = wire::ListIssuesRequest { lead, limit, ..Default::default() };
        known.extend(broker.call(&issues).await?.issues.into_iter().map(|it| it.lead));
    }
    for (claimed_by, limit) in [(role.clone(), 1), (String::new(), PAGE)] {
        let deliveries = wire::ListDeliveriesRequest { claimed_by, limit, ..Default::default() };
        known
            .extend(broker.call(&deliveries).await?.deliveries.into_iter().map(|it| it.claimed_by));
    }
    let holder = role.clone();
    let locks = wire::ListLocksRequest { holder, limit: 1, ..Default::default() };
    known.extend(broker.call(&locks).await?.locks.into_iter().map(|it| it.holder));
    known.remove("");
    if known.contains(role) {
        return Ok(());
    }
    let not = "it has no mailbox, no node hosts it, no loop names it, and it has no part in any \
               issue. Nothing was done";
    Err(role_arg::unknown_role(broker, role, &known, not, "act as it with --new-role"))
}
