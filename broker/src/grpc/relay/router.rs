//! Which node answers for which tool, and the calls that are under way. Nothing of it is kept: a
//! node that comes back says anew what its roles export.
//!
//! Every queue is bounded, for each node on its own: one that does not read, or does not answer, is
//! in nobody else's way.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::Stream;
use parking_lot::Mutex;
use tasuki_proto::{
    id::{Epoch, NodeId, RoleId, Timestamp, WorkspaceId},
    pattern::matches_any,
    wire,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep,
};
use tonic::Status;

/// Orders that one node was sent and has not taken yet.
const UNTAKEN_MAX: usize = 16;

/// Calls of one node's tools that are under way.
pub(super) const CALLS_OF_NODE_MAX: usize = 64;

/// The same of one workspace.
pub(super) const CALLS_MAX: usize = 512;

/// Progress of one call that its caller has not taken. What is more is left out: the next one says
/// more.
const PROGRESS_MAX: usize = 64;

/// Between two looks at what changed.
const GATHERED_WITHIN: Duration = Duration::from_millis(100);

/// A node of a workspace.
pub(super) type Place = (WorkspaceId, NodeId);

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::grpc) struct ToolRouter(Arc<Mutex<Routes>>);

#[derive(Debug, Default)]
struct Routes {
    nodes: BTreeMap<Place, Node>,
    roles: BTreeMap<(WorkspaceId, RoleId), Exports>,
    calls: BTreeMap<u64, PendingCall>,
    /// Told of each change of what roles export.
    changes: BTreeMap<WorkspaceId, watch::Sender<u64>>,
    /// When the first call of a workspace came since this broker started.
    started: BTreeMap<WorkspaceId, Timestamp>,
    /// Of streams, calls and changes alike: none comes again.
    last_number: u64,
}

#[derive(Debug)]
struct Node {
    stream: u64,
    /// Of the registration that it was opened by.
    epoch: Epoch,
    orders: mpsc::Sender<Result<wire::ToolOrder, Status>>,
    /// Calls that it took and that nobody waits for any more.
    cancel: mpsc::Sender<u64>,
}

#[derive(Debug)]
struct Exports {
    stream: u64,
    place: Place,
    change: u64,
    tools: Arc<Vec<wire::ExportedTool>>,
}

#[derive(Debug)]
struct PendingCall {
    workspace: WorkspaceId,
    stream: u64,
    progress: mpsc::Sender<String>,
    /// `None`: it was answered.
    answer: Option<oneshot::Sender<wire::ToolResult>>,
    /// Its node was told of it.
    is_delivered: bool,
}

/// Why a call goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteError {
    /// The role exports no such tool, or not to whoever calls.
    Unknown,
    /// Its node is not connected, or does not take anything.
    Away,
    TooMany,
}

impl Routes {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Forgets what rests on a stream: whoever waits for an answer on it has none.
    fn end(&mut self, workspace: &WorkspaceId, stream: u64) {
        for call in self.calls.values_mut().filter(|it| it.stream == stream) {
            call.answer = None;
        }
        let roles = self.roles.len();
        self.roles.retain(|_, it| it.stream != stream);
        if self.roles.len() != roles {
            self.changed(workspace);
        }
    }

    fn changed(&mut self, workspace: &WorkspaceId) {
        let number = self.next_number();
        if let Some(changes) = self.changes.get(workspace)
            && changes.send(number).is_err()
        {
            // Nobody watches any more.
            self.changes.remove(workspace);
        }
    }
}

impl ToolRouter {
    /// Orders for a node from here on. They end when it is served anew. `None`: a newer
    /// registration of it is served already.
    pub(super) fn serve(&self, place: Place, epoch: Epoch) -> Option<OrderStream> {
        let (orders, told) = mpsc::channel(UNTAKEN_MAX);
        let (cancel, cancels) = mpsc::channel(CALLS_OF_NODE_MAX);
        let mut routes = self.0.lock();
        if routes.nodes.get(&place).is_some_and(|it| epoch < it.epoch) {
            return None;
        }
        let stream = routes.next_number();
        let node = Node { stream, epoch, orders, cancel };
        if let Some(former) = routes.nodes.insert(place.clone(), node) {
            routes.end(&place.0, former.stream);
        }
        drop(routes);
        Some(OrderStream { router: self.clone(), place, stream, told, cancels })
    }

    /// What a role exports, by its node.
    pub(super) fn export(
        &self,
        place: &Place,
        stream: u64,
        role: RoleId,
        tools: Vec<wire::ExportedTool>,
    ) {
        let mut routes = self.0.lock();
        if routes.nodes.get(place).is_none_or(|it| it.stream != stream) {
            return;
        }
        let key = (place.0.clone(), role);
        if tools.is_empty() {
            // Another node may play the role by now, and exports for itself.
            if routes.roles.get(&key).is_none_or(|it| it.stream != stream) {
                return;
            }
            routes.roles.remove(&key);
        } else {
            let change = routes.next_number();
            let exports = Exports { stream, place: place.clone(), change, tools: Arc::new(tools) };
            routes.roles.insert(key, exports);
        }
        routes.changed(&place.0);
    }

    /// Has a node's stream end with a refusal.
    pub(super) fn refuse(&self, place: &Place, stream: u64, why: Status) {
        let routes = self.0.lock();
        if let Some(node) = routes.nodes.get(place).filter(|it| it.stream == stream) {
            // One that takes nothing hears nothing.
            node.orders.try_send(Err(why)).ok();
        }
    }

    /// What roles of a workspace export, or one of them; listings only of one.
    pub(super) fn list(
        &self,
        workspace: &WorkspaceId,
        of: Option<&RoleId>,
    ) -> Vec<wire::RoleTools> {
        let routes = self.0.lock();
        let own = routes
            .roles
            .iter()
            .filter(|((its, role), _)| its == workspace && of.is_none_or(|of| of == role));
        let tools = own.map(|((_, role), exports)| {
            let tools = exports.tools.iter().map(|it| wire::ExportedTool {
                name: it.name.clone(),
                listing: of.map_or_else(String::new, |_| it.listing.clone()),
                callers: it.callers.clone(),
                record: it.record,
            });
            wire::RoleTools { role: role.to_string(), tools: tools.collect() }
        });
        tools.collect()
    }

    pub(super) fn watch(&self, workspace: WorkspaceId) -> ToolWatch {
        let mut routes = self.0.lock();
        let changes = routes.changes.entry(workspace.clone()).or_default().subscribe();
        drop(routes);
        ToolWatch {
            router: self.clone(),
            workspace,
            changes,
            sent: BTreeMap::new(),
            next: VecDeque::new(),
            is_synced: false,
        }
    }

    /// When the first call of a workspace came since this broker started; else that is now.
    pub(super) fn started(&self, workspace: &WorkspaceId, now: Timestamp) -> Timestamp {
        *self.0.lock().started.entry(workspace.clone()).or_insert(now)
    }

    /// A place for a call of a tool. `host` is the node that plays the role, as it is registered.
    pub(super) fn begin(
        &self,
        workspace: &WorkspaceId,
        (caller, target, tool): (&RoleId, &RoleId, &str),
        host: Option<(NodeId, Epoch)>,
    ) -> Result<RoutedCall, RouteError> {
        let mut routes = self.0.lock();
        let exports = routes.roles.get(&(workspace.clone(), target.clone()));
        let Some(exports) = exports else {
            // One that is served exports nothing; of one that is not nobody knows.
            let is_served = host.is_some_and(|(node, epoch)| {
                let place = (workspace.clone(), node);
                routes.nodes.get(&place).is_some_and(|it| it.epoch == epoch)
            });
            return Err(if is_served { RouteError::Unknown } else { RouteError::Away });
        };
        let exported = exports.tools.iter().find(|it| it.name == tool);
        let exported = exported.filter(|it| matches_any(&it.callers, caller.as_str()));
        let is_recorded = exported.ok_or(RouteError::Unknown)?.record;
        let (place, stream) = (exports.place.clone(), exports.stream);
        let host = host.filter(|(node, _)| *node == place.1).ok_or(RouteError::Away)?;
        let node = routes.nodes.get(&place).filter(|it| it.stream == stream && it.epoch == host.1);
        let node = node.ok_or(RouteError::Away)?;
        let own = routes.calls.values().filter(|it| it.workspace == *workspace);
        let (all, of_node) = own.fold((0, 0), |(all, of_node), it| {
            (all + 1, of_node + usize::from(it.stream == stream))
        });
        if CALLS_OF_NODE_MAX <= of_node || CALLS_MAX <= all {
            return Err(RouteError::TooMany);
        }
        let orders = node.orders.clone();
        let (progress, told) = mpsc::channel(PROGRESS_MAX);
        let (answer, answered) = oneshot::channel();
        let number = routes.next_number();
        let (workspace, answer) = (workspace.clone(), Some(answer));
        let call = PendingCall { workspace, stream, progress, answer, is_delivered: false };
        routes.calls.insert(number, call);
        drop(routes);
        let router = self.clone();
        Ok(RoutedCall { router, number, orders, progress: told, answered, is_recorded })
    }

    /// Takes progress of the node that was asked; any other is none.
    pub(super) fn progress(&self, stream: u64, said: wire::ToolProgress) {
        if let Some(call) = self.0.lock().calls.get(&said.number).filter(|it| it.stream == stream) {
            call.progress.try_send(said.progress).ok();
        }
    }

    /// The same of an answer.
    pub(super) fn answer(&self, stream: u64, said: wire::ToolAnswer) {
        let mut routes = self.0.lock();
        let call = routes.calls.get_mut(&said.number).filter(|it| it.stream == stream);
        if let Some(answer) = call.and_then(|it| it.answer.take()) {
            // Who asked may be gone.
            let _ = answer.send(said.result.unwrap_or_default());
        }
    }
}

/// A call that has a place. When it is dropped before its answer came, its node is told that nobody
/// waits for it.
#[derive(Debug)]
pub(super) struct RoutedCall {
    router: ToolRouter,
    number: u64,
    orders: mpsc::Sender<Result<wire::ToolOrder, Status>>,
    pub(super) progress: mpsc::Receiver<String>,
    pub(super) answered: oneshot::Receiver<wire::ToolResult>,
    /// What is said in it is recorded.
    pub(super) is_recorded: bool,
}

impl RoutedCall {
    pub(super) fn send(&mut self, call: wire::ToolCall) -> Result<(), RouteError> {
        let order = wire::ToolOrder { number: self.number, call: Some(call) };
        // One that takes nothing is as good as away.
        self.orders.try_send(Ok(order)).map_err(|_| RouteError::Away)
    }
}

impl Drop for RoutedCall {
    fn drop(&mut self) {
        let mut routes = self.router.0.lock();
        let Some(call) = routes.calls.remove(&self.number) else { return };
        // What its node did not take it never will.
        if call.answer.is_some() && call.is_delivered {
            let node = routes.nodes.values().find(|it| it.stream == call.stream);
            // It has room for all that a node took: no more are taken while none are told.
            node.map(|it| it.cancel.try_send(self.number).ok());
        }
    }
}

/// What a node is told. Its calls have no answer once this is dropped.
#[derive(Debug)]
pub(super) struct OrderStream {
    router: ToolRouter,
    place: Place,
    pub(super) stream: u64,
    told: mpsc::Receiver<Result<wire::ToolOrder, Status>>,
    cancels: mpsc::Receiver<u64>,
}

impl Stream for OrderStream {
    type Item = Result<wire::ToolOrder, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(Some(number)) = self.cancels.poll_recv(cx) {
            return Poll::Ready(Some(Ok(wire::ToolOrder { number, call: None })));
        }
        loop {
            let next = std::task::ready!(self.told.poll_recv(cx));
            let mut routes = self.router.0.lock();
            if routes.nodes.get(&self.place).is_none_or(|it| it.stream != self.stream) {
                return Poll::Ready(None);
            }
            let Some(Ok(order)) = &next else { return Poll::Ready(next) };
            if let Some(call) = routes.calls.get_mut(&order.number) {
                call.is_delivered = true;
                return Poll::Ready(next);
            }
            // It was taken back before it was told.
        }
    }
}

impl Drop for OrderStream {
    fn drop(&mut self) {
        let mut routes = self.router.0.lock();
        if routes.nodes.get(&self.place).is_some_and(|it| it.stream == self.stream) {
            routes.nodes.remove(&self.place);
        }
        routes.end(&self.place.0, self.stream);
    }
}

/// What the roles of a workspace export, as it changes.
#[derive(Debug)]
pub(super) struct ToolWatch {
    router: ToolRouter,
    workspace: WorkspaceId,
    changes: watch::Receiver<u64>,
    /// The change of each role that was told.
    sent: BTreeMap<RoleId, u64>,
    next: VecDeque<RoleId>,
    /// It was told that all there is was told.
    is_synced: bool,
}

impl ToolWatch {
    /// The next role whose tools are others than those that were told.
    pub(super) async fn next(&mut self) -> Option<wire::RoleTools> {
        loop {
            if let Some(role) = self.next.pop_front() {
                return Some(self.told(role));
            }
            self.changes.mark_unchanged();
            self.gather();
            if !self.next.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut self.is_synced, true) {
                return Some(wire::RoleTools::default());
            }
            self.changes.changed().await.ok()?;
            // What changes all the time is told now and then.
            sleep(GATHERED_WITHIN).await;
        }
    }

    fn gather(&mut self) {
        let routes = self.router.0.lock();
        let mut there = BTreeMap::new();
        for ((workspace, role), exports) in &routes.roles {
            if *workspace != self.workspace {
                continue;
            }
            there.insert(role.clone(), exports.change);
            if self.sent.get(role) != Some(&exports.change) {
                self.next.push_back(role.clone());
            }
        }
        drop(routes);
        let gone = self.sent.keys().filter(|role| !there.contains_key(*role));
        self.next.extend(gone.cloned());
        self.sent = there;
    }

    /// What a role exports now; nothing, if it does not any more.
    fn told(&self, role: RoleId) -> wire::RoleTools {
        let name = role.to_string();
        let routes = self.router.0.lock();
        let tools =
            routes.roles.get(&(self.workspace.clone(), role)).map(|it| Arc::clone(&it.tools));
        drop(routes);
        let tools = tools.map(|it| (*it).clone()).unwrap_or_default();
        wire::RoleTools { role: name, tools }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn place(node: &str) -> Place {
        ("w".parse().unwrap(), node.parse().unwrap())
    }

    fn role(name: &str) -> RoleId {
        name.parse().unwrap()
    }

    fn tool(name: &str, callers: &[&str]) -> wire::ExportedTool {
        let callers = callers.iter().map(|it| (*it).to_owned()).collect();
        wire::ExportedTool {
            name: name.to_owned(),
            listing: "{}".to_owned(),
            callers,
            ..Default::default()
        }
    }

    /// A node `n1` whose role `qa` exports two tools.
    fn served(router: &ToolRouter) -> OrderStream {
        let orders = router.serve(place("n1"), 1.into()).unwrap();
        let tools = vec![tool("test", &[]), tool("drop", &["dev*", "lead"])];
        router.export(&place("n1"), orders.stream, role("qa"), tools);
        orders
    }

    fn begin(router: &ToolRouter, caller: &str, tool: &str) -> Result<RoutedCall, RouteError> {
        let host = Some((place("n1").1, 1.into()));
        router.begin(&place("n1").0, (&role(caller), &role("qa"), tool), host)
    }

    fn ordered(orders: &mut OrderStream) -> wire::ToolOrder {
        orders.next().now_or_never().expect("an order").unwrap().unwrap()
    }

    fn answer(number: u64, result: &str) -> wire::ToolAnswer {
        let result = wire::ToolResult { result: result.to_owned(), ..Default::default() };
        wire::ToolAnswer { number, result: Some(result) }
    }

    #[tokio::test]
    async fn a_call_is_answered_by_the_node_that_was_asked_and_once() {
        let router = ToolRouter::default();
        let mut orders = served(&router);
        let other = router.serve(place("n2"), 1.into()).unwrap();
        let mut call = begin(&router, "dev", "test").unwrap();
        call.send(wire::ToolCall::default()).unwrap();
        let number = ordered(&mut orders).number;
        router.progress(other.stream, wire::ToolProgress { number, progress: "forged".into() });
        router.answer(other.stream, answer(number, "forged"));
        router.progress(orders.stream, wire::ToolProgress { number, progress: "half".into() });
        router.answer(orders.stream, answer(number, "first"));
        router.answer(orders.stream, answer(number, "again"));
        assert_eq!(call.progress.recv().await.as_deref(), Some("half"));
        assert_eq!((&mut call.answered).await.unwrap().result, "first");
        drop(call);
        assert!(orders.next().now_or_never().is_none(), "an answered call is not taken back");
        assert!(router.0.lock().calls.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_exported_to_a_role_is_not_there_for_it() {
        let router = ToolRouter::default();
        let orders = served(&router);
        for (caller, tool, expected) in [
            ("dev1", "drop", None),
            ("lead", "drop", None),
            ("leads", "drop", Some(RouteError::Unknown)),
            ("ops", "drop", Some(RouteError::Unknown)),
            ("ops", "test", None),
            ("ops", "other", Some(RouteError::Unknown)),
        ] {
            assert_eq!(begin(&router, caller, tool).err(), expected, "{caller} {tool}");
        }
        let asked = (&role("dev"), &role("qa"), "test");
        let workspace = place("n1").0;
        for host in [None, Some((place("n1").1, 2.into())), Some((place("n2").1, 1.into()))] {
            assert_eq!(router.begin(&workspace, asked, host).err(), Some(RouteError::Away));
        }
        drop(orders);
        assert_eq!(begin(&router, "dev", "test").err(), Some(RouteError::Away), "it is not served");
        let _orders = router.serve(place("n1"), 1.into());
        assert_eq!(begin(&router, "dev", "test").err(), Some(RouteError::Unknown), "of nothing");
    }

    #[tokio::test]
    async fn calls_end_with_their_stream_and_are_taken_back_with_their_caller() {
        let router = ToolRouter::default();
        let mut orders = served(&router);
        let mut lost = begin(&router, "dev", "test").unwrap();
        lost.send(wire::ToolCall::default()).unwrap();
        let mut left = begin(&router, "dev", "test").unwrap();
        left.send(wire::ToolCall::default()).unwrap();
        assert!(ordered(&mut orders).call.is_some() && ordered(&mut orders).call.is_some());
        drop(left);
        assert!(ordered(&mut orders).call.is_none());
        let mut early = begin(&router, "dev", "test").unwrap();
        early.send(wire::ToolCall::default()).unwrap();
        drop(early);
        assert!(orders.next().now_or_never().is_none(), "what was not taken is never told");
        assert!(router.serve(place("n1"), 0.into()).is_none(), "a former registration");
        let newer = router.serve(place("n1"), 2.into()).unwrap();
        assert!((&mut lost.answered).await.is_err());
        drop(lost);
        assert!(orders.next().await.is_none());
        drop((orders, newer));
        let routes = router.0.lock();
        assert!(routes.nodes.is_empty() && routes.roles.is_empty() && routes.calls.is_empty());
    }

    #[tokio::test]
    async fn calls_of_one_node_are_bounded() {
        let router = ToolRouter::default();
        let mut orders = served(&router);
        let mut calls = Vec::new();
        for _ in 0..UNTAKEN_MAX {
            let mut call = begin(&router, "dev", "test").unwrap();
            call.send(wire::ToolCall::default()).unwrap();
            calls.push(call);
        }
        let mut call = begin(&router, "dev", "test").unwrap();
        assert_eq!(call.send(wire::ToolCall::default()), Err(RouteError::Away), "it takes nothing");
        ordered(&mut orders);
        call.send(wire::ToolCall::default()).unwrap();
        calls.push(call);
        while calls.len() < CALLS_OF_NODE_MAX {
            calls.push(begin(&router, "dev", "test").unwrap());
        }
        assert_eq!(begin(&router, "dev", "test").err(), Some(RouteError::TooMany));
        calls.pop();
        assert!(begin(&router, "dev", "test").is_ok());
    }

    #[tokio::test]
    async fn whoever_watches_is_told_what_there_is_and_what_changes() {
        let router = ToolRouter::default();
        let orders = served(&router);
        let mut watch = router.watch(place("n1").0);
        let told = async |watch: &mut ToolWatch| {
            let it = watch.next().await.unwrap();
            (it.role, it.tools.len())
        };
        assert_eq!(told(&mut watch).await, ("qa".to_owned(), 2));
        assert_eq!(told(&mut watch).await, (String::new(), 0), "that was all");
        assert!(watch.next().now_or_never().is_none());
        let elsewhere = router.serve(("v".parse().unwrap(), place("n1").1), 1.into()).unwrap();
        router.export(&elsewhere.place, elsewhere.stream, role("qa"), vec![tool("x", &[])]);
        assert!(watch.next().now_or_never().is_none(), "of another workspace");
        router.export(&place("n1"), orders.stream, role("qa"), vec![tool("test", &[])]);
        assert_eq!(told(&mut watch).await, ("qa".to_owned(), 1));
        let other = router.serve(place("n2"), 1.into()).unwrap();
        router.export(&place("n2"), other.stream, role("qa"), Vec::new());
        assert!(watch.next().now_or_never().is_none(), "of a node that does not play the role");
        router.export(&place("n1"), orders.stream + 99, role("qa"), Vec::new());
        assert!(watch.next().now_or_never().is_none(), "of a stream that is over");
        drop(orders);
        assert_eq!(told(&mut watch).await, ("qa".to_owned(), 0));
    }
}
