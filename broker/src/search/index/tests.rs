//! An index in a folder of its own, and what is found in it.

use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::{
    rules::mailbox::ThreadNumber,
    search::{query::parse, schema::Doc},
};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const ORIGIN: Origin = Origin { incarnation: [7; 16] };

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

fn up_to(sequence: u64) -> Extent {
    Extent::up_to(Sequence::from(sequence))
}

/// From `qa` to `dev`, an hour ago.
fn doc(thread: u32, subject: &str, text: &str) -> Doc {
    Doc {
        thread: ThreadNumber(thread),
        entry: 1,
        subject: subject.to_owned(),
        text: text.to_owned(),
        kind: "BR".to_owned(),
        sender: role("qa"),
        receivers: vec![role("dev")],
        readers: vec![role("qa"), role("dev")],
        at: NOW.minus_millis(3_600_000),
    }
}

struct Bench {
    folder: TempDir,
    index: Index,
}

impl Bench {
    fn new(docs: &[Doc]) -> Self {
        let folder = TempDir::new().unwrap();
        let index = Index::create(&folder.path().join("w"), ORIGIN).unwrap();
        let mut writer = index.writer(false).unwrap();
        for doc in docs {
            writer.add(doc).unwrap();
        }
        writer.commit(up_to(docs.len() as u64)).unwrap();
        writer.settle().unwrap();
        Self { folder, index }
    }

    fn ask(&self, reader: &str, query: &str, narrow: Narrow) -> Found {
        let query = parse(query).unwrap();
        let ask = SearchRequest { reader: role(reader), query, narrow, limit: 10, now: NOW };
        self.index.search(&ask).unwrap()
    }

    /// The threads that `dev` finds, the best first.
    fn finds(&self, query: &str) -> Vec<u32> {
        let found = self.ask("dev", query, Narrow::default());
        assert_eq!(found.total, found.hits.len() as u64);
        found.hits.iter().map(|it| it.thread.0).collect()
    }

    fn sorted(&self, query: &str) -> Vec<u32> {
        let mut threads = self.finds(query);
        threads.sort_unstable();
        threads
    }
}

#[test]
fn words_are_found_in_every_script() {
    let bench = Bench::new(&[
        doc(1, "Login fails", "parseHttpHeader panics in src/grpc/feed.rs, since v1.2.3"),
        doc(2, "登录问题", "修复登录页面的错误，然后部署 login 服务"),
        doc(3, "ログイン", "サーバーのログイン画面でエラーが出る"),
        doc(4, "서버 장애", "서버가 다운되었습니다"),
        doc(5, "Café", "le résumé de l'école est prêt; naïve snake_case_name"),
        doc(6, "crash", "std::vec::Vec overflows the httpheader"),
    ]);
    for (query, threads) in [
        ("login", vec![1, 2]),
        ("LOGIN fails", vec![1]),
        ("parseHttpHeader", vec![1]),
        ("parsehttpheader", vec![1]),
        ("parse_http_header", vec![1]),
        ("\"http header\"", vec![1]),
        ("header", vec![1]),
        ("httpHeader", vec![1, 6]),
        ("feed.rs", vec![1]),
        ("grpc/feed", vec![1]),
        ("src/gr*", vec![1]),
        ("1.2.3", vec![1]),
        ("v1.2", vec![1]),
        ("1.3", vec![]),
        ("修", vec![2]),
        ("错误", vec![2]),
        ("登录页", vec![2]),
        ("录页面的", vec![2]),
        ("修复页面", vec![]),
        ("部署login服务", vec![2]),
        ("部署 login 服务", vec![2]),
        ("误然", vec![]),
        ("画面", vec![3]),
        ("エラー", vec![3]),
        ("ｴﾗｰ", vec![3]),
        ("ー", vec![3]),
        ("서버", vec![4]),
        ("서", vec![4]),
        ("다운되었", vec![4]),
        ("cafe RESUME ecole", vec![5]),
        ("case_name", vec![5]),
        ("snake name", vec![5]),
        ("\"snake name\"", vec![]),
        ("vec::Vec", vec![6]),
        ("over*", vec![6]),
        ("absent", vec![]),
    ] {
        assert_eq!(bench.sorted(query), threads, "{query}");
    }
}

#[test]
fn every_clause_must_hold() {
    let mut reply = doc(2, "disk", "the log is full");
    reply.kind = "ACK".to_owned();
    reply.sender = role("Dev");
    reply.receivers = vec![role("qa"), role("ops-1")];
    let bench = Bench::new(&[doc(1, "disk full", "the log says so"), reply, doc(3, "x", "disk")]);
    for (query, threads) in [
        ("disk", vec![1, 2, 3]),
        ("disk full", vec![1, 2]),
        ("\"disk full\"", vec![1]),
        ("disk -full", vec![3]),
        ("disk -\"disk full\"", vec![2, 3]),
        ("subject:disk", vec![1, 2]),
        ("body:disk", vec![3]),
        ("subject:disk body:full", vec![2]),
        ("type:ack", vec![2]),
        ("-type:ACK", vec![1, 3]),
        ("from:dev", vec![2]),
        ("from:q* disk", vec![1, 3]),
        ("to:ops*", vec![2]),
        ("to:dev from:qa log", vec![1]),
    ] {
        assert_eq!(bench.sorted(query), threads, "{query}");
    }
}

#[test]
fn filters_narrow_down() {
    let mut old = doc(2, "disk", "full");
    old.at = NOW.minus_millis(DAY_MS);
    old.sender = role("QA");
    let bench = Bench::new(&[doc(1, "disk", "full"), old, doc(3, "disk", "full")]);
    let finds = |narrow: Narrow| {
        let mut threads: Vec<_> =
            bench.ask("dev", "disk", narrow).hits.iter().map(|it| it.thread.0).collect();
        threads.sort_unstable();
        threads
    };
    let hour = Some(NOW.minus_millis(3_600_000));
    let some =
        |numbers: &[u32]| Some(Arc::new(numbers.iter().map(|it| ThreadNumber(*it)).collect()));
    assert_eq!(finds(Narrow { since: hour, ..Narrow::default() }), [1, 3]);
    assert_eq!(finds(Narrow { until: hour, ..Narrow::default() }), [2]);
    assert_eq!(finds(Narrow { sender: Some(role("QA")), ..Narrow::default() }), [2]);
    assert_eq!(finds(Narrow { sender: Some(role("qa")), ..Narrow::default() }), [1, 3]);
    assert_eq!(finds(Narrow { kind: Some("BR".to_owned()), ..Narrow::default() }), [1, 2, 3]);
    assert!(finds(Narrow { kind: Some("ER".to_owned()), ..Narrow::default() }).is_empty());
    assert_eq!(finds(Narrow { only: some(&[2, 3, 9]), ..Narrow::default() }), [2, 3]);
    assert_eq!(finds(Narrow { without: some(&[2, 3, 9]), ..Narrow::default() }), [1]);
}

#[test]
fn subjects_and_newer_entries_go_first() {
    let mut old = doc(3, "note", "about the disk");
    old.at = NOW.minus_millis(300 * DAY_MS);
    let exact = doc(4, "note", "call foo::bar");
    let apart = doc(5, "note", "foo bar is the best");
    let bench = Bench::new(&[
        old,
        doc(1, "note", "about the disk"),
        doc(2, "the disk", "about a note"),
        apart,
        exact,
    ]);
    assert_eq!(bench.finds("disk"), [2, 1, 3]);
    assert_eq!(bench.finds("foo::bar"), [4, 5]);
}

/// F2.
#[test]
fn others_mail_shows_in_nothing() {
    let mut own: Vec<Doc> = (1..=3).map(|it| doc(it, "own", "secret plans and plans")).collect();
    own[2].text = "plain words".to_owned();
    let alone = Bench::new(&own);
    let mut all = own.clone();
    for number in 10..60 {
        let mut other = doc(number, "secret", "secret secretary plans");
        other.readers = vec![role("ceo"), role("cfo")];
        all.push(other);
    }
    let shared = Bench::new(&all);
    for query in
        ["secret", "plans", "secret plans", "plain", "se*", "\"secret plans\"", "-plain se*"]
    {
        let (a, b) = (
            alone.ask("dev", query, Narrow::default()),
            shared.ask("dev", query, Narrow::default()),
        );
        let told = |it: &Found| {
            let mut hits: Vec<_> =
                it.hits.iter().map(|it| (it.thread.0, it.score.to_bits())).collect();
            hits.sort_unstable();
            (it.total, hits)
        };
        assert_eq!(told(&a), told(&b), "{query}");
    }
    assert_eq!(shared.ask("nobody", "secret", Narrow::default()).total, 0);
    assert_eq!(shared.ask("ceo", "secret", Narrow::default()).total, 50);
}

#[test]
fn a_thread_can_be_indexed_again_with_more_readers() {
    let bench = Bench::new(&[doc(1, "a", "word"), doc(2, "b", "word")]);
    let mut writer = bench.index.writer(false).unwrap();
    writer.remove(ThreadNumber(1));
    let mut more = doc(1, "a", "word");
    more.readers.push(role("new"));
    writer.add(&more).unwrap();
    more.entry = 2;
    writer.add(&more).unwrap();
    writer.commit(up_to(3)).unwrap();
    let found = bench.ask("new", "word", Narrow::default());
    let mut entries: Vec<_> = found.hits.iter().map(|it| (it.thread.0, it.entry)).collect();
    entries.sort_unstable();
    assert_eq!((found.through, entries), (Sequence::from(3), vec![(1, 1), (1, 2)]));
    assert_eq!(bench.ask("dev", "word", Narrow::default()).total, 3);
}

/// F1.
#[test]
fn what_was_committed_is_there_after_opening() {
    let bench = Bench::new(&[doc(1, "a", "word")]);
    let folder = bench.folder.path().join("w");
    let mut writer = bench.index.writer(false).unwrap();
    writer.add(&doc(2, "b", "word")).unwrap();
    drop(writer);
    drop(bench.index);
    let index = Index::open(&folder, ORIGIN).unwrap();
    assert_eq!((index.extent(), index.entries()), (up_to(1), 1));
}

#[test]
fn an_index_of_something_else_is_unfit() {
    let bench = Bench::new(&[doc(1, "a", "word")]);
    let folder = bench.folder.path().join("w");
    let why = |origin| Index::open(&folder, origin).unwrap_err().to_string();
    assert_eq!(why(Origin { incarnation: [8; 16] }), "the index is of another journal");
    let meta = folder.join("meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    let newer = Payload { version: 2, origin: ORIGIN, extent: Some(up_to(1)) };
    let payload = Payload { version: 1, ..newer };
    fs::write(&meta, text.replace(&payload.to_string(), &newer.to_string())).unwrap();
    assert_eq!(why(ORIGIN), "the index is of version 2, not 1");
    for (it, other) in [("\"1 07", "\"07"), (" 1 1 ", " 3 3 ")] {
        fs::write(&meta, text.replace(it, other)).unwrap();
        assert_eq!(why(ORIGIN), "the index does not say what it is of");
    }
}

/// One flipped bit anywhere, a file cut off or gone: noticed, or harmless.
#[test]
fn damage_is_noticed_when_opening() {
    let bench = Bench::new(&[doc(1, "a", "word"), doc(2, "b", "other")]);
    let folder = bench.folder.path().join("w");
    drop(bench.index);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let is_piece = |it: &&PathBuf| !it.file_name().unwrap().to_string_lossy().starts_with('.');
    let mut noticed = 0;
    for file in files.iter().filter(is_piece) {
        let whole = fs::read(file).unwrap();
        let is_sane = || std::panic::catch_unwind(|| Index::open(&folder, ORIGIN).is_ok());
        for at in (0..whole.len()).step_by(7) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(file, flipped).unwrap();
            noticed += usize::from(!is_sane().unwrap_or(false));
        }
        fs::write(file, &whole[..whole.len() / 2]).unwrap();
        assert!(!is_sane().unwrap_or(false), "{} cut off", file.display());
        fs::remove_file(file).unwrap();
        assert!(!is_sane().unwrap_or(false), "{} gone", file.display());
        fs::write(file, whole).unwrap();
    }
    assert!(20 < noticed, "{noticed}");
    assert!(Index::open(&folder, ORIGIN).is_ok());
}
