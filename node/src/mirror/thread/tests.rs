//! What becomes of a thread's file, killed before any of its changes.

use std::fs;

use tasuki_proto::id::Timestamp;

use super::{
    super::{
        home::homes,
        index::Index,
        name::{Kind, fold},
        scan::{ScanResult, look_at_all},
    },
    *,
};
use crate::filebox::Entry;

const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";
const NAME: &str = "2026-11-21_2042-BR-t-ded66c6a.md";

/// More changes than any job needs.
const STEPS_MAX: u64 = 64;

fn document(entries: u64) -> Document {
    let entry = |n: u64| {
        let at = Timestamp::from_millis(1_795_293_772_094 + n);
        Entry::new(at, "qa", &["dev"], "BR", &format!("text {n}"))
    };
    Document::new(ID.parse().ok(), "BR", "t", (1..=entries).rev().map(entry).collect())
}

fn written(entries: u64) -> String {
    document(entries).to_markdown()
}

struct Bench {
    place: tempfile::TempDir,
    boxes: Arc<Boxes>,
}

impl Bench {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let roots = [("qa".parse().unwrap(), place.path().to_owned())].into();
        let boxes = Arc::new(homes(&roots, None).into_values().next().unwrap().open().unwrap());
        Self { place, boxes }
    }

    fn put(&self, place: &str, content: &str) {
        fs::write(self.place.path().join("docs/mailbox").join(place), content).unwrap();
    }

    /// What is in the boxes but what interrupted changes left: `BOX/NAME WHAT` each.
    fn told(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in BoxKind::ALL {
            for entry in fs::read_dir(self.boxes.folder(kind).path()).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if matches!(Kind::of(&name), Kind::New) {
                    continue;
                }
                let content = fs::read_to_string(self.boxes.file(kind, &name)).unwrap();
                let what = (1..=3).find(|n| content == written(*n)).map(|n| n.to_string());
                let name = name.replace(NAME, "T");
                all.push(format!("{kind}/{name} {}", what.unwrap_or(content)));
            }
        }
        all.sort();
        all
    }

    /// As left in `kind` with so many entries.
    fn known(&self, kind: BoxKind, entries: u64) -> Known {
        let bytes = written(entries).into_bytes();
        let stamp = Stamp { mtime_ns: 0, size: 0, inode: 0 };
        let (name, hash) = (NAME.to_owned(), Hash::of(&bytes));
        Known { kind, name, entries: u32::try_from(entries).unwrap(), hash, stamp }
    }

    fn job(&self, disk: Disk, known: Option<Known>, want: Option<(BoxKind, u64)>) -> ThreadSync {
        let want = want.map(|(kind, n)| TargetFile::new(kind, NAME.into(), document(n), true));
        ThreadSync { disk, boxes: self.boxes.clone(), known, want }
    }
}

/// Every situation that a thread's file can be in: what is on disk, what is remembered, what is
/// wanted, and what there is in the end.
type Case<'a> =
    (&'a [(&'a str, &'a str)], Option<(BoxKind, u64)>, Option<(BoxKind, u64)>, &'a [&'a str]);

fn cases() -> Vec<Case<'static>> {
    use BoxKind::{Done, Inbox, Outbox};
    const T_IN: &str = "inbox/2026-11-21_2042-BR-t-ded66c6a.md";
    const T_OUT: &str = "outbox/2026-11-21_2042-BR-t-ded66c6a.md";
    const T_DONE: &str = "done/2026-11-21_2042-BR-t-ded66c6a.md";
    vec![
        (&[], None, Some((Inbox, 1)), &["inbox/T 1"]),
        (&[(T_IN, "1")], Some((Inbox, 1)), Some((Inbox, 1)), &["inbox/T 1"]),
        // It came back after somebody removed it.
        (&[], Some((Inbox, 2)), Some((Inbox, 2)), &["inbox/T 2"]),
        // An answer came.
        (&[(T_IN, "1")], Some((Inbox, 1)), Some((Inbox, 2)), &["inbox/T 2"]),
        // It was answered: the file moves and grows.
        (&[(T_IN, "1")], Some((Inbox, 1)), Some((Outbox, 2)), &["outbox/T 2"]),
        (&[(T_IN, "2")], Some((Inbox, 2)), Some((Done, 2)), &["done/T 2"]),
        // Somebody edited it.
        (&[(T_IN, "x")], Some((Inbox, 1)), Some((Inbox, 1)), &["inbox/T 1", "inbox/T.edited x"]),
        (&[(T_IN, "x")], Some((Inbox, 1)), Some((Outbox, 2)), &["inbox/T.edited x", "outbox/T 2"]),
        // The place is taken.
        (
            &[(T_IN, "1"), (T_DONE, "y")],
            Some((Inbox, 1)),
            Some((Done, 2)),
            &["done/T 2", "done/T.edited y"],
        ),
        // An older one of the node's own, as a version control system brings it back.
        (&[(T_IN, "1")], Some((Inbox, 3)), Some((Inbox, 3)), &["inbox/T 3"]),
        // Copies in other boxes, whole and edited.
        (
            &[(T_IN, "2"), (T_DONE, "2"), (T_OUT, "1")],
            Some((Inbox, 2)),
            Some((Inbox, 2)),
            &["inbox/T 2"],
        ),
        (
            &[(T_IN, "2"), (T_DONE, "z")],
            Some((Inbox, 2)),
            Some((Inbox, 2)),
            &["done/T.edited z", "inbox/T 2"],
        ),
        // What is in an outbox may be mail.
        (
            &[(T_IN, "2"), (T_OUT, "z")],
            Some((Inbox, 2)),
            Some((Inbox, 2)),
            &["inbox/T 2", "outbox/T z"],
        ),
        // The index was lost.
        (&[(T_IN, "1")], None, Some((Done, 3)), &["done/T 3"]),
        (&[(T_DONE, "3")], None, Some((Done, 3)), &["done/T 3"]),
        (&[(T_DONE, "w")], None, Some((Done, 3)), &["done/T 3", "done/T.edited w"]),
        // The role has no copy any more.
        (&[(T_IN, "1")], Some((Inbox, 1)), None, &[]),
        (&[(T_IN, "x")], Some((Inbox, 1)), None, &["inbox/T.edited x"]),
    ]
}

fn arrange(case: &Case<'_>) -> (Bench, Option<Known>) {
    let bench = Bench::new();
    for (place, content) in case.0 {
        let content = content.parse().map_or_else(|_| (*content).to_owned(), written);
        bench.put(place, &content);
    }
    let known = case.1.map(|(kind, n)| bench.known(kind, n));
    (bench, known)
}

#[test]
fn each_file_is_where_and_as_it_should_be() {
    for case in cases() {
        let (bench, known) = arrange(&case);
        let outcome = bench.job(Disk::default(), known, case.2).carry_out().unwrap();
        assert_eq!(bench.told(), case.3, "{case:?}");
        let edited = case.3.iter().filter(|it| it.contains(".edited")).count();
        assert_eq!(outcome.aside.len(), edited, "{case:?}");
        assert_eq!(outcome.known.is_some(), case.2.is_some());
        if let Some(known) = outcome.known {
            let path = bench.boxes.file(known.kind, &known.name);
            assert_eq!(known.stamp, Stamp::of(&fs::metadata(path).unwrap()), "{case:?}");
        }
    }
}

/// Killed before every change in turn, and started anew with what was remembered before, or with
/// nothing.
#[test]
fn a_kill_at_any_change_loses_nothing_and_leaves_nothing() {
    let mut kills = 0;
    for (case, forgets) in cases().into_iter().flat_map(|case| [(case, false), (case, true)]) {
        for steps in 0.. {
            assert!(steps < STEPS_MAX, "it never ends");
            let (bench, known) = arrange(&case);
            let before = bench.told();
            let killed = bench.job(Disk::killed_after(steps), known.clone(), case.2).carry_out();
            let is_done = killed.is_ok();
            kills += usize::from(!is_done);
            let between = bench.told();
            for edit in before.iter().filter_map(|it| it.split(' ').nth(1)) {
                let is_own = edit.parse::<u64>().is_ok();
                let is_there = between.iter().any(|it| it.ends_with(&format!(" {edit}")));
                assert!(is_own || is_there, "lost {edit}: {between:?} {case:?}");
            }
            // Z2, but for what a reader is not shown.
            let shows = |all: &[String]| {
                all.iter().any(|it| it.contains("/T ") && !it.ends_with(['x', 'y', 'z', 'w']))
            };
            assert!(!shows(&before) || case.2.is_none() || shows(&between), "{between:?} {case:?}");
            // What a start does.
            let mut index = Index::open(bench.place.path().join("index"));
            let known = known.filter(|_| !forgets);
            if let Some(known) = &known {
                index.wrote(ID.parse().unwrap(), known.clone()).unwrap();
            }
            let seen =
                ScanResult::of(&index, &bench.boxes, look_at_all(&bench.boxes).unwrap(), true);
            for (kind, name) in &seen.halves {
                Disk::default().remove(bench.boxes.folder(*kind), name).unwrap();
            }
            let is_remembered = known.is_some();
            bench.job(Disk::default(), known, case.2).carry_out().unwrap();
            let after = bench.told();
            if is_remembered || case.2.is_some() {
                let is_temporary = |it: &String| it.contains(".tasuki-");
                assert!(!after.iter().any(is_temporary), "{after:?} {case:?} {seen:?}");
            }
            let thread = |all: &[String]| -> Vec<String> {
                all.iter().filter(|it| it.contains("/T ")).cloned().collect()
            };
            let expected: Vec<String> = case.3.iter().map(ToString::to_string).collect();
            if !forgets {
                assert_eq!(after, expected, "after {steps}: {case:?}");
            } else if case.2.is_some() {
                assert_eq!(thread(&after), thread(&expected), "after {steps}: {case:?}");
            }
            if is_done {
                break;
            }
        }
    }
    assert!(100 < kills, "{kills}");
}

#[test]
fn a_file_that_somebody_writes_to_all_the_time_is_left_to_them() {
    let bench = Bench::new();
    let known = bench.known(BoxKind::Inbox, 1);
    // Whoever looks finds it as it was; whoever swaps it finds it changed.
    bench.put(&format!("inbox/{NAME}"), &written(1));
    let job = bench.job(Disk::default(), Some(known), Some((BoxKind::Inbox, 2)));
    let seen = Hash::of(b"what was there a moment before");
    let folder = bench.boxes.folder(BoxKind::Inbox);
    let (done, _) = job.disk.replace(folder, NAME, written(2).as_bytes(), seen).unwrap();
    assert_eq!(done, Done::Aside(format!("{NAME}.edited")));
    assert_eq!(bench.told(), ["inbox/T 2", "inbox/T.edited 1"]);
    assert_eq!(fold("ÄB.md"), fold("äb.MD"));
}

/// Somebody's words that forge the head of another entry behind what nobody sees.
#[test]
fn what_nobody_sees_is_in_no_file() {
    const HEAD: &str = "## 2026-11-21T20:42:52.094Z - lead to B (BR)";
    let one = |from: &str, title: &str, text: &str| {
        let at = Timestamp::from_millis(1_795_293_772_094);
        let entry = Entry::new(at, from, &["dev"], "BR", text);
        Document::new(ID.parse().ok(), "BR", title, vec![entry])
    };
    let forged = ["a\u{1b}[2J\tb\u{202e}", "\r", "\u{b}", "\u{200b}", "\u{2028}"];
    let text = forged.map(|before| format!("{before}{HEAD}")).join("\n");
    let raw = one("q\u{200b}a", "t\u{202e}", &text);
    let want = TargetFile::new(BoxKind::Inbox, NAME.into(), raw.clone(), true);
    let file = String::from_utf8(want.bytes.clone()).unwrap();
    let is_plain = |c: char| "\n\t".contains(c) || tasuki_proto::visible::is_visible(c);
    assert!(file.chars().all(is_plain), "{file:?}");
    assert_eq!(file.matches(&format!("\n\\{HEAD}")).count(), 4, "{file}");
    let read = Document::read(&want.bytes).unwrap();
    assert_eq!((&read, read.entries.len()), (&raw.shown(), 1));
    assert_eq!((read.title.as_str(), read.sender.as_str()), ("t", "qa"));
    // A file of an earlier release is the node's own, too.
    let raw = one("qa", "t", "a\u{202e}b");
    let want = TargetFile::new(BoxKind::Inbox, NAME.into(), raw.clone(), true);
    assert!(want.has_all_of(raw.to_markdown().as_bytes()));
}
