//! Whether a workspace knows the role that a command acts as: under a name mistyped, work would be
//! done that nobody ever hears of.

use std::collections::BTreeSet;

use tasuki_proto::wire;

use super::{
    Failure,
    pages::{PAGE, offset},
    who::{Acting, client},
};
use crate::{cli::acting, config::Config, paths::NodeFile};

/// Whether the role is one of this machine's node's, or that mail knows, or works on issues, has
/// locked files, leads an issue or has claimed a delivery: who acts as a new role once, goes on
/// with what it has.
pub(in crate::cli) async fn check(acting: &Acting, config: &Config) -> Result<(), Failure> {
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
    let caller = || broker.caller();
    let workers = wire::ListWorkersRequest { caller: caller(), ..Default::default() };
    let ask = async |channel| client(channel).list_workers(workers.clone()).await;
    known.extend(broker.ask(ask).await?.workers.into_iter().map(|it| it.worker));
    let holder = role.clone();
    let locks = wire::ListLocksRequest { caller: caller(), holder, limit: 1, ..Default::default() };
    let ask = async |channel| client(channel).list_locks(locks.clone()).await;
    known.extend(broker.ask(ask).await?.locks.into_iter().map(|it| it.holder));
    let leads = async |limit, offset| {
        let caller = caller();
        let page = wire::ListIssuesRequest { caller, limit, offset, ..Default::default() };
        let ask = async |channel| client(channel).list_issues(page.clone()).await;
        let listed = broker.ask(ask).await?;
        Ok((listed.issues.into_iter().map(|it| it.lead).collect(), listed.total))
    };
    find(role, &mut known, leads).await?;
    let acceptors = async |limit, offset| {
        let caller = caller();
        let page = wire::ListDeliveriesRequest { caller, limit, offset, ..Default::default() };
        let ask = async |channel| client(channel).list_deliveries(page.clone()).await;
        let listed = broker.ask(ask).await?;
        Ok((listed.deliveries.into_iter().map(|it| it.claimed_by).collect(), listed.total))
    };
    find(role, &mut known, acceptors).await?;
    known.remove("");
    if known.contains(role) {
        return Ok(());
    }
    let not = "it has no mailbox, no node hosts it, no loop names it, and it has no part in any \
               issue. Nothing was done";
    Err(acting::unknown(broker, role, &known, not, "act as it with --new-role"))
}

/// Adds the roles that a list names to those that are known, page by page until it names this one.
async fn find(
    role: &str,
    known: &mut BTreeSet<String>,
    page: impl AsyncFn(u32, u32) -> Result<(Vec<String>, u64), Failure>,
) -> Result<(), Failure> {
    let mut at = 0;
    while !known.contains(role) {
        let (names, total) = page(PAGE, offset(at)).await?;
        at += names.len() as u64;
        let is_last = names.is_empty() || total <= at;
        known.extend(names);
        if is_last {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_role_is_found_however_long_the_list_is() {
        let all: Vec<String> = (0..500).map(|it| format!("lead{it}")).collect();
        let asked = std::cell::Cell::new(0);
        let page = async |limit: u32, offset: u32| {
            asked.set(asked.get() + 1);
            let rest = all.iter().skip(offset as usize).take(limit as usize);
            Ok((rest.cloned().collect(), all.len() as u64))
        };
        for (role, is_known, pages) in
            [("lead0", true, 1), ("lead200", true, 2), ("lead499", true, 3), ("laed", false, 3)]
        {
            let mut known = BTreeSet::new();
            asked.set(0);
            find(role, &mut known, page).await.unwrap();
            assert_eq!((known.contains(role), asked.get()), (is_known, pages), "{role}");
        }
    }
}
