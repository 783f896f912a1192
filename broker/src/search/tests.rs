//! Random mail, random kills: what an index finds is always what roles have.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tasuki_proto::{
    id::{RoleId, Timestamp},
    mail::{BoxKind, MessageId, MessageType},
};
use tempfile::TempDir;

use super::*;
use crate::{
    clock::Clock,
    journal::memory::MemoryJournal,
    rules::{
        Caller, Command, Request,
        mailbox::{self, Subject, ThreadTarget},
    },
    workspace::Settings,
};

const ROLES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Every entry has the first, and one of the others by its number.
const WORDS: [&str; 4] = ["every", "red", "green", "blue"];

const NOW: u64 = 1_800_000_000_000;

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

struct Mail {
    workspaces: Workspaces,
    id: WorkspaceId,
    /// Of each thread: who has a copy, and each entry's words.
    threads: BTreeMap<MessageId, (BTreeSet<&'static str>, Vec<String>)>,
    /// The newest record with mail.
    last: Sequence,
    numbers: u64,
    clock: Arc<AtomicU64>,
}

impl Mail {
    async fn start(seed: u64) -> Self {
        let settings = Settings { lease_ms: 900_000, idle_ms: 60_000 };
        let now = Arc::new(AtomicU64::new(NOW));
        let clock = Clock::Manual(now.clone());
        let fatal = Arc::new(|why: &str| panic!("{why}"));
        let journal = Arc::new(MemoryJournal::default());
        let mut mail = Self {
            workspaces: Workspaces::start(journal, clock, settings, fatal).await,
            id: "w".parse().unwrap(),
            threads: BTreeMap::new(),
            last: Sequence::NONE,
            numbers: seed,
            clock: now,
        };
        for name in ROLES {
            mail.execute(mailbox::Command::Open(role(name))).await;
        }
        mail
    }

    fn dice(&mut self, below: usize) -> usize {
        // An LCG's upper bits.
        self.numbers = self.numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.numbers >> 33).unwrap() % below
    }

    /// Goes on in another workspace.
    async fn move_to(&mut self, id: WorkspaceId) {
        (self.id, self.threads) = (id, BTreeMap::new());
        for name in ROLES {
            self.execute(mailbox::Command::Open(role(name))).await;
        }
    }

    async fn fall_asleep(&self) {
        until("asleep", || {
            self.clock.fetch_add(120_000, Ordering::SeqCst);
            self.workspaces.tick(&self.id);
            !self.workspaces.is_awake(&self.id)
        })
        .await;
    }

    /// How far the index on disk goes.
    fn noted(&self, search: &Search, id: &WorkspaceId) -> Option<Sequence> {
        let incarnation = self.workspaces.journal().incarnation();
        let extent = index::peek(&search.folder_of(id), index::Origin { incarnation });
        extent.map(|it| it.through)
    }

    async fn execute(&mut self, command: mailbox::Command) {
        let command = Command::Mail(command);
        let request = Request { caller: Caller::default(), key: None, command };
        let executed =
            self.workspaces.execute(&self.id, request, 0, |_, executed| executed).await.unwrap();
        self.last = executed.sequence;
    }

    fn words(&mut self) -> String {
        format!("{} {}", WORDS[0], WORDS[1 + self.dice(WORDS.len() - 1)])
    }

    async fn step(&mut self) {
        let at = self.dice(self.threads.len().max(1));
        let thread = self.threads.keys().nth(at).copied();
        let to = ROLES[self.dice(ROLES.len())];
        let words = self.words();
        match (thread, self.dice(4)) {
            (Some(thread), 0..=1) => {
                let readers: Vec<_> = self.threads[&thread].0.iter().copied().collect();
                let from = readers[self.dice(readers.len())];
                self.send(from, to, ThreadTarget::Answer(thread), &words).await;
                let (readers, entries) = self.threads.get_mut(&thread).unwrap();
                readers.insert(to);
                entries.push(words);
            }
            (Some(thread), 2) => {
                let newcomer = ROLES[self.dice(ROLES.len())];
                let entry = mailbox::ImportedEntry {
                    sender: role(to),
                    to: vec![role(to)],
                    kind: "OLD".to_owned(),
                    written: Timestamp::from_millis(1),
                    text: words.clone(),
                };
                self.execute(mailbox::Command::Import(mailbox::Import {
                    thread,
                    subject: "subject".to_owned(),
                    file_name: None,
                    entries: vec![entry],
                    copies: vec![(role(newcomer), BoxKind::Done)],
                }))
                .await;
                let (readers, entries) = self.threads.get_mut(&thread).unwrap();
                readers.extend([to, newcomer]);
                entries.push(words);
            }
            (_, _) => {
                let from = ROLES[self.dice(ROLES.len())];
                let thread = MessageId::from_bits(u128::from(self.numbers) << 64);
                let subject = Subject { thread, subject: "subject".to_owned(), utc_offset_s: 0 };
                self.send(from, to, ThreadTarget::Begin(subject), &words).await;
                self.threads.insert(thread, (BTreeSet::from([from, to]), vec![words]));
            }
        }
    }

    async fn send(&mut self, from: &str, to: &str, target: ThreadTarget, text: &str) {
        self.execute(mailbox::Command::Send(mailbox::Send {
            role: role(from),
            to: vec![role(to)],
            kind: MessageType::Info,
            target,
            text: text.to_owned(),
            sealed: bytes::Bytes::new(),
            same: bytes::Bytes::new(),
            client_ref: None,
            fold: false,
            earlier: mailbox::Earlier::Unknown,
            expires_in_ms: None,
            attachments: Vec::new(),
        }))
        .await;
    }

    /// What each role finds is what it has.
    async fn check(&mut self, search: &Search) {
        let other = WORDS[1 + self.dice(WORDS.len() - 1)];
        for name in ROLES {
            for word in [WORDS[0], other] {
                let mut have: Vec<(MessageId, u32)> = Vec::new();
                for (thread, (readers, entries)) in &self.threads {
                    if readers.contains(name) {
                        let found = (1..).zip(entries).filter(|(_, it)| it.contains(word));
                        have.extend(found.map(|(number, _)| (*thread, number)));
                    }
                }
                let ask = SearchRequest {
                    reader: role(name),
                    query: parse(word).unwrap(),
                    narrow: Narrow::default(),
                    limit: 10_000,
                    now: Timestamp::from_millis(NOW),
                };
                let found = loop {
                    match search.search(&self.id, ask.clone(), self.last).await {
                        Ok(found) => break found,
                        // It waits by itself.
                        Err(why) => assert!(why.to_string().contains("try again"), "{why}"),
                    }
                };
                assert_eq!(found.total, have.len() as u64, "{name} {word}");
                let hits = found.hits;
                let mut got = self
                    .workspaces
                    .query(&self.id, move |view| {
                        let threads = view.workspace.mail.threads();
                        hits.iter()
                            .map(|it| (threads.get(it.thread).id, it.entry))
                            .collect::<Vec<_>>()
                    })
                    .await
                    .unwrap();
                got.sort_unstable();
                assert_eq!(got, have, "{name} {word}");
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    index::remove(to).unwrap();
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn what_is_found_is_what_roles_have() {
    for seed in 1..=2 {
        let data = TempDir::new().unwrap();
        let (index, before) = (data.path().join(FOLDER).join("w"), data.path().join("before"));
        let mut mail = Mail::start(seed).await;
        for life in 0..8 {
            for _ in 0..mail.dice(30) {
                mail.step().await;
            }
            let stopping = CancellationToken::new();
            let search = Search::start(data.path(), &mail.workspaces, stopping.clone());
            search.keep(&mail.id);
            // While it is made or opened, and later.
            for _ in 0..mail.dice(60) {
                mail.step().await;
            }
            if life != 3 {
                mail.check(&search).await;
            }
            for _ in 0..mail.dice(60) {
                mail.step().await;
            }
            if life != 4 {
                mail.check(&search).await;
            }
            stopping.cancel();
            search.gone().await;
            match life {
                // Another life begins with what an older one left.
                1 | 4 => copy(&index, &before),
                2 | 6 => copy(&before, &index),
                5 => index::remove(&index).unwrap(),
                _ => {}
            }
        }
    }
}

/// Yields to the runtime until `is_so` holds.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn a_workspace_with_an_index_falls_asleep_and_the_index_goes_on_when_it_wakes() {
    let data = TempDir::new().unwrap();
    let mut mail = Mail::start(3).await;
    for _ in 0..20 {
        mail.step().await;
    }
    let stopping = CancellationToken::new();
    let search = Search::start(data.path(), &mail.workspaces, stopping.clone());
    mail.check(&search).await;
    let id = mail.id.clone();
    let kept = || search.shared.kept.lock().get(&id).cloned();
    for _ in 0..3 {
        mail.fall_asleep().await;
        until("let go", || kept().is_none()).await;
        assert!(!mail.workspaces.is_awake(&id), "its indexer woke it");
        // It need not read again what may be dropped.
        assert_eq!(mail.noted(&search, &id), Some(mail.last));

        // Nobody searched. More would be another batch, if the first was written between them.
        mail.step().await;
        let last = mail.last;
        until("up to date", || kept().is_some_and(|it| *it.through.borrow() == last)).await;
        for _ in 0..4 {
            mail.step().await;
        }
        mail.check(&search).await;
    }
    stopping.cancel();
    search.gone().await;
}

#[tokio::test]
async fn workspaces_with_new_mail_take_turns_and_leave_nothing_open() {
    let data = TempDir::new().unwrap();
    let mut mail = Mail::start(7).await;
    let stopping = CancellationToken::new();
    let search = Search::start(data.path(), &mail.workspaces, stopping.clone());
    let mut all = Vec::new();
    for number in 0..5 * BATCHES_MAX {
        mail.move_to(format!("w{number}").parse().unwrap()).await;
        // More would be another batch, if the first was written between them.
        mail.step().await;
        all.push((mail.id.clone(), mail.last));
    }
    until("all indexed", || all.iter().all(|(id, last)| mail.noted(&search, id) == Some(*last)))
        .await;
    let kept = |id| search.shared.kept.lock().get(id).cloned();
    let is_closed = |id| kept(id).is_none_or(|it| matches!(*it.state.borrow(), State::Resting));
    until("all closed", || all.iter().all(|(id, _)| is_closed(id))).await;
    let limits = &search.shared.limits;
    let free = (limits.batches.available_permits(), limits.writers.available_permits());
    assert_eq!(free, (BATCHES_MAX, WRITERS_MAX));
    mail.check(&search).await;
    stopping.cancel();
    search.gone().await;
}

#[tokio::test]
async fn a_start_wakes_the_workspaces_whose_index_is_behind_and_no_others() {
    let data = TempDir::new().unwrap();
    let mut mail = Mail::start(9).await;
    // One without mail.
    mail.move_to("empty".parse().unwrap()).await;
    mail.fall_asleep().await;
    mail.move_to("w".parse().unwrap()).await;
    for _ in 0..20 {
        mail.step().await;
    }
    mail.fall_asleep().await;
    for is_behind in [true, false] {
        let stopping = CancellationToken::new();
        let search = Search::start(data.path(), &mail.workspaces, stopping.clone());
        search.catch_up();
        let (id, last) = (mail.id.clone(), mail.last);
        until("up to date", || mail.noted(&search, &id) == Some(last)).await;
        if is_behind {
            mail.fall_asleep().await;
        }
        until("at rest", || search.shared.indexers.is_empty()).await;
        until("all asleep", || mail.workspaces.awake() == 0).await;
        stopping.cancel();
        search.gone().await;
    }
}

#[tokio::test]
async fn a_query_that_the_engine_gives_up_over_fails_alone() {
    let data = TempDir::new().unwrap();
    let mut mail = Mail::start(1).await;
    for _ in 0..20 {
        mail.step().await;
    }
    let stopping = CancellationToken::new();
    let search = Search::start(data.path(), &mail.workspaces, stopping.clone());
    mail.check(&search).await;
    let mut states = search.keep(&mail.id).state;
    states.mark_unchanged();
    for _ in 0..3 {
        let looked = search.looked(&mail.id, Sequence::NONE, |_| panic!("an assertion"));
        assert_eq!(looked.await, Err(SearchError::Unanswerable));
    }
    mail.check(&search).await;
    assert!(!states.has_changed().unwrap(), "{:?}", *states.borrow());

    // What it met on disk concerns everybody.
    let index = data.path().join(FOLDER).join("w");
    let looked = search.looked(&mail.id, Sequence::NONE, move |_| {
        let stores = fs::read_dir(&index).unwrap().map(|it| it.unwrap().path());
        for store in stores.filter(|it| it.extension().is_some_and(|it| it == "store")) {
            let mut bytes = fs::read(&store).unwrap();
            bytes[0] ^= 1;
            fs::write(&store, bytes).unwrap();
        }
        panic!("an assertion")
    });
    let why = looked.await.unwrap_err().to_string();
    assert!(why.contains("is made anew: the index is damaged in"), "{why}");
    states.changed().await.unwrap();
    stopping.cancel();
    search.gone().await;
}

#[test]
fn a_pass_writes_only_what_changed_since_the_one_before() {
    use super::source::{Filled, Page, Todo};
    use crate::rules::mailbox::ThreadNumber;

    let thread = |number: u32, to: u32, readers: &[&str]| Todo {
        id: MessageId::from_bits(u128::from(number) + 1),
        thread: ThreadNumber(number),
        readers: readers.iter().map(|it| role(it)).collect(),
        from: 1,
        to,
        is_again: false,
    };
    let page = |todos: &[Todo], next| Page {
        todos: todos.to_vec(),
        next,
        end: next,
        sequence: Sequence::NONE,
    };
    let mut filled = Filled::default();
    let first = [thread(10, 1, &["a"]), thread(12, 2, &["a", "b"]), thread(13, 1, &["b"])];
    assert_eq!(filled.lacks(&page(&first, 14), 10), first);
    assert_eq!(filled.lacks(&page(&first, 14), 10), []);
    // One got an entry, one a reader, one is gone, and one is new.
    let second = [thread(10, 2, &["a"]), thread(12, 2, &["a", "b", "c"]), thread(14, 1, &["a"])];
    let again = |it: &Todo| Todo { is_again: true, ..it.clone() };
    let gone = Todo::removal(ThreadNumber(13));
    let lacks = [again(&second[0]), again(&second[1]), gone, second[2].clone()];
    assert_eq!(filled.lacks(&page(&second, 15), 10), lacks);
    assert_eq!(filled.lacks(&page(&second, 15), 10), []);
}
