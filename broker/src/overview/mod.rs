//! How the work of a workspace stands: who plays each role, what it holds and has not seen, what is
//! wrong. One look for `tasuki status` and the dashboard.
//!
//! [`role`] and [`problems`] are pure; this module asks for what they are made of, in few calls
//! however many roles there are. What only one machine knows is not here.

pub mod problems;
pub mod role;

use std::collections::BTreeMap;

use tasuki_proto::{rpc::Rpc, wire};

use self::role::RoleStatus;

/// Locks, deliveries and runs that are asked for; of more it is said how many there are.
const LISTED_MAX: u32 = 200;

/// Mailboxes whose oldest unseen thread is looked for: a call each.
const MAILBOXES_LOOKED_AT_MAX: usize = 16;

/// Threads that are looked at for it.
const THREADS_LOOKED_AT_MAX: u32 = 100;

/// Whoever makes calls inside one workspace.
pub trait Calls: Sync {
    type Error;

    /// # Errors
    /// The refusal, or that the broker was not reached.
    fn call<R: Rpc>(
        &self,
        request: &R,
    ) -> impl Future<Output = Result<R::Response, Self::Error>> + Send;
}

/// How the work of a workspace stands at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    pub nodes: Vec<wire::Node>,
    /// Program and version of the broker; empty: it does not say.
    pub software: String,
    pub roles: Vec<RoleStatus>,
    pub loops: Vec<wire::Loop>,
    /// What the roles hold.
    pub holdings: Holdings,
    /// Of those, as many are not listed.
    pub unlisted: Unlisted,
    /// Roles that have a budget or are paused.
    pub guarded: Vec<wire::RoleGuard>,
    /// By the broker's clock; 0: it does not say.
    pub now_ms: u64,
}

/// How many there are beside those that were listed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unlisted {
    pub locks: u64,
    pub deliveries: u64,
    pub has_more_runs: bool,
}

/// What roles hold and have not seen.
#[derive(Debug, Clone, Default)]
pub struct Holdings {
    pub workers: Vec<wire::Worker>,
    pub deliveries: Vec<wire::Delivery>,
    pub locks: Vec<wire::Lock>,
    pub runs: Vec<wire::Run>,
    pub mailboxes: BTreeMap<String, wire::MailboxState>,
    /// When the oldest thread came that a role has not seen.
    pub unseen_since_ms: BTreeMap<String, u64>,
}

/// Asks for everything.
///
/// # Errors
/// Those of the first call that has one.
pub async fn gather<C: Calls>(broker: &C) -> Result<Overview, C::Error> {
    let (nodes, software) = every_node(broker).await?;
    let roles = every_role(broker).await?;
    let loops = every_loop(broker).await?;
    let (holdings, unlisted, now_ms) = holdings(broker).await?;
    let roles = roles.into_iter().map(|role| RoleStatus::new(role, &nodes, &loops, &holdings));
    let roles = roles.collect();
    // A broker of an earlier release knows of none.
    let guarded = broker.call(&wire::GetGuardRequest::default()).await;
    let guarded = guarded.map(|it| it.roles).unwrap_or_default();
    Ok(Overview { nodes, software, roles, loops, holdings, unlisted, guarded, now_ms })
}

/// All loops of the workspace, page by page.
///
/// # Errors
/// Those of the first call that has one.
pub async fn every_loop<C: Calls>(broker: &C) -> Result<Vec<wire::Loop>, C::Error> {
    let (mut loops, mut request) = (Vec::new(), wire::ListLoopsRequest::default());
    loop {
        let page = broker.call(&request).await?;
        loops.extend(page.loops);
        if page.next.is_empty() {
            return Ok(loops);
        }
        request.after = page.next;
    }
}

/// All nodes of the workspace, page by page, and the broker's program and version.
///
/// # Errors
/// Those of the first call that has one.
pub async fn every_node<C: Calls>(broker: &C) -> Result<(Vec<wire::Node>, String), C::Error> {
    let (mut nodes, mut request) = (Vec::new(), wire::ListNodesRequest::default());
    loop {
        let page = broker.call(&request).await?;
        nodes.extend(page.nodes);
        if page.next.is_empty() {
            return Ok((nodes, page.software));
        }
        request.after = page.next;
    }
}

/// All roles of the workspace, page by page.
///
/// # Errors
/// Those of the first call that has one.
pub async fn every_role<C: Calls>(broker: &C) -> Result<Vec<wire::Role>, C::Error> {
    let (mut roles, mut request) = (Vec::new(), wire::ListRolesRequest::default());
    loop {
        let page = broker.call(&request).await?;
        roles.extend(page.roles);
        if page.next.is_empty() {
            return Ok(roles);
        }
        request.after = page.next;
    }
}

/// All workers, page by page.
async fn every_worker<C: Calls>(broker: &C) -> Result<Vec<wire::Worker>, C::Error> {
    let (mut workers, mut request) = (Vec::new(), wire::ListWorkersRequest::default());
    loop {
        let page = broker.call(&request).await?;
        workers.extend(page.workers);
        if page.next.is_empty() {
            return Ok(workers);
        }
        request.after = page.next;
    }
}

async fn holdings<C: Calls>(broker: &C) -> Result<(Holdings, Unlisted, u64), C::Error> {
    let workers = every_worker(broker).await?;
    let mut request = wire::ListDeliveriesRequest { limit: LISTED_MAX, ..Default::default() };
    request.set_status(wire::DeliveryStatus::InReview);
    let deliveries = broker.call(&request).await?;
    let request = wire::ListLocksRequest { limit: LISTED_MAX, ..Default::default() };
    let locks = broker.call(&request).await?;
    let request =
        wire::ListRunsRequest { only_open: true, limit: LISTED_MAX, ..Default::default() };
    let runs = broker.call(&request).await?;
    let mailboxes = broker.call(&wire::ListMailboxesRequest::default()).await?.mailboxes;
    let beside = |total: u64, listed: usize| total.saturating_sub(listed as u64);
    let unlisted = Unlisted {
        locks: beside(locks.total, locks.locks.len()),
        deliveries: beside(deliveries.total, deliveries.deliveries.len()),
        has_more_runs: runs.has_more,
    };
    let unseen = mailboxes.iter().filter(|it| it.unseen != 0).take(MAILBOXES_LOOKED_AT_MAX);
    let mut unseen_since_ms = BTreeMap::new();
    for mailbox in unseen {
        if let Some(ms) = oldest_unseen(broker, &mailbox.role).await {
            unseen_since_ms.insert(mailbox.role.clone(), ms);
        }
    }
    let holdings = Holdings {
        workers,
        deliveries: deliveries.deliveries,
        locks: locks.locks,
        runs: runs.runs,
        mailboxes: mailboxes.into_iter().map(|it| (it.role.clone(), it)).collect(),
        unseen_since_ms,
    };
    Ok((holdings, unlisted, locks.now_ms))
}

/// When the oldest thread of an inbox got its newest letter, of those that its role has not seen.
/// Who may not read the box does not learn it.
async fn oldest_unseen<C: Calls>(broker: &C, role: &str) -> Option<u64> {
    let limit = THREADS_LOOKED_AT_MAX;
    let mut request =
        wire::ListBoxRequest { role: role.to_owned(), limit, ..wire::ListBoxRequest::default() };
    request.set_box(wire::Box::Inbox);
    let threads = broker.call(&request).await.ok()?.threads;
    threads.iter().filter(|it| it.unseen != 0).map(|it| it.latest_ms).min()
}
