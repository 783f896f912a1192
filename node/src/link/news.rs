//! What changed at the broker, as far as this node was told, for whoever shows it.
//!
//! A change is a number, not a message: each follower compares what its client was told with what
//! there is. So a burst costs a slow follower one look, no follower waits for another, and none
//! that is gone leaves anything behind.
//!
//! - **N1** A follower learns of every change after the edition it names; perhaps of several at
//!   once, perhaps of one that was none, but of all.
//!
//! What the changes are is not here: whoever shows a loop asks the broker for it.

use std::{collections::BTreeMap, str::FromStr, sync::Arc, time::Duration};

use tasuki_proto::{
    id::{LoopId, RoleId},
    run::RunId,
    wire::{self, event::Noun, run_event, turn_event::Kind},
};
use tokio::sync::watch;

/// Things of each kind whose latest change is kept. Beyond it all of the kind count as changed.
const KEPT_MAX: usize = 4_096;

/// How far a follower's client was told. The default is before all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition(u64);

/// When the node began.
const BORN: Edition = Edition(1);

/// When each of one kind last changed.
#[derive(Debug)]
struct Latest<K> {
    each: BTreeMap<K, Edition>,
    /// Any of them may have changed then.
    all: Edition,
}

impl<K> Default for Latest<K> {
    fn default() -> Self {
        Self { each: BTreeMap::new(), all: BORN }
    }
}

impl<K: Ord> Latest<K> {
    fn of(&self, key: &K) -> Edition {
        self.each.get(key).copied().unwrap_or_default().max(self.all)
    }

    fn change(&mut self, key: K, edition: Edition) {
        if self.each.len() == KEPT_MAX && !self.each.contains_key(&key) {
            self.change_all(edition);
        }
        self.each.insert(key, edition);
    }

    fn change_all(&mut self, edition: Edition) {
        self.each.clear();
        self.all = edition;
    }
}

/// What changes of another MCP server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerPart {
    Tools,
    Prompts,
    /// The list of them.
    Resources,
    /// One of them, by the server's own address for it.
    Resource(String),
}

/// When each thing last changed.
#[derive(Debug)]
pub struct Changes {
    newest: Edition,
    tools: Edition,
    /// Whether the broker tells of changes as they happen.
    is_live: bool,
    loops: Latest<LoopId>,
    /// Which loops a role takes part in.
    lists: Latest<RoleId>,
    runs: Latest<RunId>,
    /// Of other MCP servers, by name.
    servers: Latest<(String, ServerPart)>,
}

impl Default for Changes {
    fn default() -> Self {
        let (loops, lists, runs, servers) = Default::default();
        Self { newest: BORN, tools: BORN, is_live: false, loops, lists, runs, servers }
    }
}

impl Changes {
    pub const fn newest(&self) -> Edition {
        self.newest
    }

    pub fn of_loop(&self, loop_id: &LoopId) -> Edition {
        self.loops.of(loop_id)
    }

    /// When the loops that `role` takes part in last became others.
    pub fn of_list(&self, role: &RoleId) -> Edition {
        self.lists.of(role)
    }

    pub fn of_run(&self, run: RunId) -> Edition {
        self.runs.of(&run)
    }

    pub fn of_server(&self, server: &str, part: ServerPart) -> Edition {
        self.servers.of(&(server.to_owned(), part))
    }

    /// When tools, prompts and resources of other MCP servers last became others: those of the node
    /// itself stay as they are.
    pub const fn of_tools(&self) -> Edition {
        self.tools
    }

    /// Takes in what the broker told.
    pub fn take(&mut self, item: &wire::FeedItem) {
        for event in &item.events {
            match &event.noun {
                Some(Noun::Turn(wire::TurnEvent { kind: Some(kind) })) => self.take_turn(kind),
                Some(Noun::Run(wire::RunEvent { kind: Some(kind) })) => self.take_run(kind),
                // No resource shows anything else.
                Some(
                    Noun::Directory(_)
                    | Noun::Mail(_)
                    | Noun::Privacy(_)
                    | Noun::Swarm(_)
                    | Noun::Guard(_)
                    | Noun::Call(_)
                    | Noun::Board(_)
                    | Noun::Pipeline(_),
                ) => {}
                // Of a newer broker.
                Some(
                    Noun::Turn(wire::TurnEvent { kind: None })
                    | Noun::Run(wire::RunEvent { kind: None }),
                )
                | None => self.miss(),
            }
        }
    }

    fn take_turn(&mut self, kind: &Kind) {
        match kind {
            Kind::LoopOpened(it) => {
                self.loop_changed(&it.r#loop);
                it.participants.iter().for_each(|role| self.list_changed(role));
            }
            Kind::ParticipantsSet(it) => {
                self.loop_changed(&it.r#loop);
                // Who left is not said.
                let edition = self.next();
                self.lists.change_all(edition);
            }
            Kind::HandedOver(it) => self.loop_changed(&it.r#loop),
            Kind::TurnReclaimed(it) => self.loop_changed(&it.r#loop),
            Kind::RoundStarted(it) => self.loop_changed(&it.r#loop),
            Kind::TurnMarked(it) => self.loop_changed(&it.r#loop),
            Kind::TurnLapsed(it) => self.loop_changed(&it.r#loop),
            Kind::LoopPaused(it) => self.loop_changed(&it.r#loop),
            Kind::LoopResumed(it) => self.loop_changed(&it.r#loop),
            // A lease that goes on is no news to anybody.
            Kind::LeaseRenewed(_) => {}
        }
    }

    fn take_run(&mut self, kind: &run_event::Kind) {
        use run_event::Kind;
        match kind {
            Kind::RunStarted(it) => self.run_changed(&it.run_id),
            Kind::StepStarted(it) => self.run_changed(&it.run_id),
            Kind::StepEnded(it) => self.run_changed(&it.run_id),
            Kind::RunStopped(it) => self.run_changed(&it.run_id),
            Kind::RunEnded(it) => self.run_changed(&it.run_id),
            Kind::ParentTold(it) => self.run_changed(&it.run_id),
            Kind::RunReplied(it) => self.run_changed(&it.run_id),
            Kind::RunsForgotten(it) => it.run_ids.iter().for_each(|run| self.run_changed(run)),
        }
    }

    /// Something happened that this node was not told.
    pub fn miss(&mut self) {
        let edition = self.next();
        self.loops.change_all(edition);
        self.lists.change_all(edition);
        self.runs.change_all(edition);
    }

    const fn next(&mut self) -> Edition {
        self.newest = Edition(self.newest.0 + 1);
        self.newest
    }

    fn loop_changed(&mut self, name: &str) {
        self.changed(name, |it| &mut it.loops);
    }

    fn list_changed(&mut self, role: &str) {
        self.changed(role, |it| &mut it.lists);
    }

    fn run_changed(&mut self, run: &str) {
        self.changed(run, |it| &mut it.runs);
    }

    fn changed<K: FromStr + Ord>(&mut self, name: &str, kind: fn(&mut Self) -> &mut Latest<K>) {
        let edition = self.next();
        match name.parse() {
            Ok(key) => kind(self).change(key, edition),
            Err(_) => self.miss(),
        }
    }
}

/// Where changes are told and followed. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct News(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    changes: watch::Sender<Changes>,
    /// Records so far that may give a role something to do, or take it away.
    work: watch::Sender<u64>,
    followers: watch::Sender<usize>,
}

/// Whether a record may give a role something to do, or take it away.
fn is_work(item: &wire::FeedItem) -> bool {
    item.events.iter().any(|event| match &event.noun {
        // A lease that goes on is no news to anybody.
        Some(Noun::Turn(wire::TurnEvent { kind: Some(Kind::LeaseRenewed(_)) })) => false,
        Some(
            Noun::Directory(_)
            | Noun::Privacy(_)
            | Noun::Call(_)
            | Noun::Board(_)
            | Noun::Pipeline(_),
        ) => false,
        // A role that was paused goes on.
        Some(Noun::Turn(_) | Noun::Mail(_) | Noun::Swarm(_) | Noun::Run(_) | Noun::Guard(_))
        | None => true,
    })
}

impl News {
    /// Whoever follows keeps the node listening to the broker.
    pub fn follow(&self) -> Follower {
        Follower { changes: self.0.changes.subscribe(), _counted: self.counted() }
    }

    /// The same for whoever asks the broker again whenever there may be something to do.
    pub fn follow_work(&self) -> WorkFollower {
        WorkFollower { work: self.0.work.subscribe(), _counted: self.counted() }
    }

    fn counted(&self) -> Counted {
        self.0.followers.send_modify(|count| *count += 1);
        Counted(self.clone())
    }

    pub fn newest(&self) -> Edition {
        self.0.changes.borrow().newest()
    }

    /// Followers at the moment, and as they come and go.
    pub fn followers(&self) -> watch::Receiver<usize> {
        self.0.followers.subscribe()
    }

    /// Takes in what the broker told.
    pub fn take(&self, item: &wire::FeedItem) {
        self.0.changes.send_if_modified(|changes| {
            let before = changes.newest;
            changes.take(item);
            changes.newest != before
        });
        if is_work(item) {
            self.0.work.send_modify(|count| *count += 1);
        }
    }

    /// A sub-agent of a run said something, which the feed does not tell.
    pub fn run_changed(&self, run: RunId) {
        self.0.changes.send_modify(|changes| {
            let edition = changes.next();
            changes.runs.change(run, edition);
        });
    }

    /// Other MCP servers offer something else than before.
    pub fn tools_changed(&self) {
        self.0.changes.send_modify(|changes| changes.tools = changes.next());
    }

    /// A server said that a part of it changed.
    pub fn server_changed(&self, server: &str, part: ServerPart) {
        self.0.changes.send_modify(|changes| {
            let edition = changes.next();
            changes.servers.change((server.to_owned(), part), edition);
        });
    }

    /// The broker tells of changes from now on; `is_gapless` when none was missed since it last
    /// did.
    pub fn begin(&self, is_gapless: bool) {
        self.0.changes.send_modify(|changes| {
            changes.is_live = true;
            if !is_gapless {
                changes.miss();
            }
        });
        if !is_gapless {
            self.0.work.send_modify(|count| *count += 1);
        }
    }

    /// The broker tells nothing any more.
    pub fn end(&self) {
        self.0.changes.send_modify(|changes| changes.is_live = false);
    }
}

/// One that follows, until dropped.
#[derive(Debug)]
pub struct Follower {
    changes: watch::Receiver<Changes>,
    _counted: Counted,
}

/// One that follows what there is to do, until dropped.
#[derive(Debug)]
pub struct WorkFollower {
    work: watch::Receiver<u64>,
    _counted: Counted,
}

impl WorkFollower {
    /// Resolves when there may be more to do, or less, than at the last time.
    pub async fn changed(&mut self) {
        if self.work.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[derive(Debug)]
struct Counted(News);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.followers.send_modify(|count| *count -= 1);
    }
}

impl Follower {
    /// What changed so far.
    pub fn look<T>(&mut self, look: impl FnOnce(&Changes) -> T) -> T {
        look(&self.changes.borrow_and_update())
    }

    /// Resolves when there is more to see than at the last look.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits, not longer than this, until the broker tells of changes.
    pub async fn live(&self, within: Duration) {
        let mut changes = self.changes.clone();
        let live = changes.wait_for(|changes| changes.is_live);
        // Later is soon enough: what may be missed until then is told as missed.
        drop(tokio::time::timeout(within, live).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loop_id(name: &str) -> LoopId {
        name.parse().expect("an id")
    }

    fn role(name: &str) -> RoleId {
        name.parse().expect("an id")
    }

    fn item(noun: Option<Noun>) -> wire::FeedItem {
        wire::FeedItem { events: vec![wire::Event { noun }], ..Default::default() }
    }

    fn turn(kind: Option<Kind>) -> wire::FeedItem {
        item(Some(Noun::Turn(wire::TurnEvent { kind })))
    }

    fn opened(name: &str, participants: &[&str]) -> wire::FeedItem {
        turn(Some(Kind::LoopOpened(wire::LoopOpened {
            r#loop: name.into(),
            participants: participants.iter().map(ToString::to_string).collect(),
        })))
    }

    fn handed(name: &str) -> wire::FeedItem {
        let kind = wire::HandedOver { r#loop: name.into(), ..Default::default() };
        turn(Some(Kind::HandedOver(kind)))
    }

    /// Which of loops `main` and `side` and lists of A and C are newer after `items`.
    fn news(items: &[wire::FeedItem]) -> String {
        let mut changes = Changes::default();
        let before = changes.newest();
        items.iter().for_each(|item| changes.take(item));
        let of_loop =
            ["main", "side"].into_iter().filter(|it| before < changes.of_loop(&loop_id(it)));
        let of_list = ["A", "C"].into_iter().filter(|it| before < changes.of_list(&role(it)));
        of_loop.chain(of_list).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_each_event_changes() {
        let renewed = wire::LeaseRenewed { r#loop: "main".into(), ..Default::default() };
        let set = wire::ParticipantsSet { r#loop: "main".into(), participants: vec!["A".into()] };
        for (items, expected) in [
            (vec![], ""),
            (vec![handed("main")], "main"),
            (vec![handed("other")], ""),
            (vec![handed("main"), handed("side")], "main side"),
            (vec![opened("side", &["C", "D"])], "side C"),
            (vec![turn(Some(Kind::ParticipantsSet(set)))], "main A C"),
            (vec![turn(Some(Kind::LeaseRenewed(renewed)))], ""),
            (vec![item(Some(Noun::Directory(Default::default())))], ""),
            (vec![item(Some(Noun::Mail(Default::default())))], ""),
            (vec![item(None)], "main side A C"),
            (vec![turn(None)], "main side A C"),
            (vec![handed("not a name")], "main side A C"),
        ] {
            assert_eq!(news(&items), expected, "{items:?}");
        }
    }

    #[test]
    fn each_run_changes_by_itself_and_none_is_missed() {
        let run = |number: usize| -> RunId {
            format!("run_1700000000000_{number:04x}").parse().expect("an id")
        };
        let ended = |number| {
            let ended = wire::RunEnded { run_id: run(number).to_string(), ..Default::default() };
            let kind = Some(run_event::Kind::RunEnded(ended));
            item(Some(Noun::Run(wire::RunEvent { kind })))
        };
        let mut changes = Changes::default();
        let before = changes.newest();
        changes.take(&ended(1));
        assert!(before < changes.of_run(run(1)) && changes.of_run(run(2)) <= before);
        assert!(changes.of_loop(&loop_id("main")) <= before, "no loop has to do with it");
        for number in 0..2 * KEPT_MAX {
            changes.take(&ended(number));
            assert!(changes.runs.each.len() <= KEPT_MAX);
        }
        for number in [0, 1, KEPT_MAX, 2 * KEPT_MAX - 1] {
            assert!(before < changes.of_run(run(number)), "{number}");
        }
        let told = changes.newest();
        changes.take(&item(Some(Noun::Run(wire::RunEvent { kind: None }))));
        assert!(told < changes.of_run(run(1)), "of a newer broker");
    }

    #[test]
    fn what_is_kept_is_bounded_and_nothing_is_missed() {
        let mut changes = Changes::default();
        let before = changes.newest();
        for number in 0..2 * KEPT_MAX {
            let name = format!("l{number}");
            changes.take(&opened(&name, &[&format!("r{number}")]));
            assert!(changes.loops.each.len() <= KEPT_MAX);
            assert!(changes.lists.each.len() <= KEPT_MAX);
        }
        for number in [0, 1, KEPT_MAX, 2 * KEPT_MAX - 1] {
            assert!(before < changes.of_loop(&loop_id(&format!("l{number}"))));
            assert!(before < changes.of_list(&role(&format!("r{number}"))));
        }
    }

    #[tokio::test]
    async fn whoever_looks_for_work_hears_of_mail_and_of_what_was_missed() {
        let news = News::default();
        let mut work = news.follow_work();
        let renewed = wire::LeaseRenewed { r#loop: "main".into(), ..Default::default() };
        let mail = item(Some(Noun::Mail(Default::default())));
        for (tell, is_work) in [
            (item(Some(Noun::Directory(Default::default()))), false),
            (turn(Some(Kind::LeaseRenewed(renewed))), false),
            (mail, true),
            (handed("main"), true),
            (item(None), true),
        ] {
            news.take(&tell);
            assert_eq!(work.work.has_changed().ok(), Some(is_work), "{tell:?}");
            work.work.mark_unchanged();
        }
        news.begin(true);
        assert_eq!(work.work.has_changed().ok(), Some(false));
        news.begin(false);
        work.changed().await;
    }

    /// Holds N1.
    #[tokio::test]
    async fn followers_are_counted_and_what_was_missed_is_told() {
        let news = News::default();
        let count = news.followers();
        let (mut first, second) = (news.follow(), news.follow());
        assert_eq!(*count.borrow(), 2);
        drop(second);
        assert_eq!(*count.borrow(), 1);
        news.begin(true);
        first.live(Duration::from_secs(5)).await;
        let told = news.newest();
        news.end();
        news.begin(true);
        assert!(first.look(|it| it.of_loop(&loop_id("main"))) <= told);
        news.begin(false);
        first.changed().await;
        assert!(told < first.look(|it| it.of_loop(&loop_id("main"))));
        drop(first);
        assert_eq!(*count.borrow(), 0);
    }
}
