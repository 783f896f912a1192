//! Whether a workspace knows who is to lead an issue: a name mistyped is a lead who never hears of
//! it.

use tasuki_proto::wire;

use super::{
    Failure,
    pages::PAGE,
    who::{Acting, client},
};
use crate::{cli::acting, config::Config, paths::NodeFile};

/// Whether the role is one of this machine's node's, or that mail knows, or works on issues or leads
/// one of the newest.
pub(super) async fn check(acting: &Acting, config: &Config) -> Result<(), Failure> {
    let Acting { broker, role } = acting;
    // The broker hears of a node's roles a moment after it began.
    let is_here = |it: &NodeFile| {
        it.broker == broker.url
            && it.workspace == broker.workspace().as_str()
            && it.roles.contains(role)
    };
    if NodeFile::read(&config.data.value).is_some_and(|it| is_here(&it)) {
        return Ok(());
    }
    let Some(mut known) = acting::known(broker).await? else { return Ok(()) };
    if known.contains(role) {
        return Ok(());
    }
    let workers = wire::ListWorkersRequest { caller: broker.caller(), ..Default::default() };
    let ask = async |channel| client(channel).list_workers(workers.clone()).await;
    known.extend(broker.ask(ask).await?.workers.into_iter().map(|it| it.worker));
    let issues =
        wire::ListIssuesRequest { caller: broker.caller(), limit: PAGE, ..Default::default() };
    let ask = async |channel| client(channel).list_issues(issues.clone()).await;
    known.extend(broker.ask(ask).await?.issues.into_iter().map(|it| it.lead));
    if known.contains(role) {
        return Ok(());
    }
    let not = "it has no mailbox, no node hosts it, no loop names it, and it neither works on an \
               issue nor leads one. No issue was opened";
    Err(acting::unknown(broker, role, &known, not, "open it with --new-role"))
}
