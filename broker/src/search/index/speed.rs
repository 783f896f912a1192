//! How long a search takes among very many entries, and what the index costs. Times of searches are
//! those of the processor, so that what else runs on the machine does not count.
//!
//! `cargo test --release -p tasuki-broker --lib search::index::speed -- --ignored --nocapture`;
//! `TASUKI_DOCS` sets how many.

#![expect(clippy::print_stderr, reason = "it measures")]

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use super::*;
use crate::{
    clock::processor_time,
    rules::mailbox::ThreadNumber,
    search::{query::parse, schema::Doc},
};

const NOW: u64 = 1_800_000_000_000;

/// Words of the language that the entries are written in.
const WORDS: u64 = 50_000;

/// A source of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)) % below
    }

    /// Few numbers often, most seldom, as with words.
    fn zipf(&mut self, below: u64) -> u64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a die"
        )]
        let it = (((below as f64).ln() * (self.next(1 << 40) as f64 / (1_u64 << 40) as f64)).exp()
            - 1.0) as u64;
        it.min(below - 1)
    }

    fn word(&mut self) -> String {
        let number = self.zipf(WORDS);
        let mut word = String::new();
        let mut rest = number + 7;
        while rest != 0 {
            let syllables = ["ka", "lo", "mi", "ter", "on", "sta", "re", "ve", "du", "ing", "pro"];
            word.push_str(syllables[usize::try_from(rest % 11).unwrap()]);
            rest /= 11;
        }
        word
    }

    fn signs(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from_u32(0x4e00 + u32::try_from(self.zipf(3000)).unwrap()).unwrap())
            .collect()
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        let is_chinese = self.next(5) == 0;
        while text.len() < 1024 {
            if is_chinese {
                text.push_str(&self.signs(12));
                text.push('，');
            } else {
                text.push_str(&self.word());
                text.push(' ');
            }
        }
        text
    }
}

fn memory_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

fn folder_bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum()
}

#[test]
#[ignore = "needs minutes and a release build"]
fn a_million_entries() {
    let docs: u32 = std::env::var("TASUKI_DOCS").map_or(1_000_000, |it| it.parse().unwrap());
    let folder = TempDir::new().unwrap();
    let index = Index::create(&folder.path().join("w"), Origin { incarnation: [7; 16] }).unwrap();
    let mut numbers = Numbers(1);
    let mut writer = index.writer(true).unwrap();
    let began = Instant::now();
    for number in 0..docs {
        let role = |number: u64| -> RoleId { format!("role-{number}").parse().unwrap() };
        let (sender, receiver) = (role(numbers.next(50)), role(50 + numbers.next(50)));
        writer
            .add(&Doc {
                thread: ThreadNumber(number),
                entry: 1,
                subject: format!("{} {} {}", numbers.word(), numbers.word(), numbers.word()),
                text: numbers.text(),
                kind: "INFO".to_owned(),
                sender: sender.clone(),
                receivers: vec![receiver.clone()],
                readers: vec![sender, receiver, role(1000)],
                at: Timestamp::from_millis(NOW - u64::from(docs - number) * 60_000),
            })
            .unwrap();
    }
    writer.commit(Extent::up_to(Sequence::from(u64::from(docs)))).unwrap();
    eprintln!("added {docs} in {} ms", began.elapsed().as_millis());
    writer.settle().unwrap();
    let mut writer = index.writer(false).unwrap();
    writer.commit(Extent::up_to(Sequence::from(u64::from(docs)))).unwrap();
    drop(writer);
    let bytes = folder_bytes(&folder.path().join("w"));
    eprintln!(
        "settled after {} ms; {} MB, {} bytes an entry, {} pieces; resident {} MiB, of it files {} MiB",
        began.elapsed().as_millis(),
        bytes / 1_000_000,
        bytes / u64::from(docs),
        index.seen().searcher.segment_readers().len(),
        memory_kib("VmRSS") / 1024,
        memory_kib("RssFile") / 1024,
    );
    type Make = fn(&mut Numbers) -> String;
    let kinds: [(&str, Make); 8] = [
        ("one word", |n| n.word()),
        ("two words", |n| format!("{} {}", n.word(), n.word())),
        ("three words", |n| format!("{} {} {}", n.word(), n.word(), n.word())),
        ("a phrase", |n| format!("\"{} {}\"", n.word(), n.word())),
        ("two signs", |n| n.signs(2)),
        ("one sign", |n| n.signs(1)),
        ("four signs", |n| n.signs(4)),
        ("a prefix", |n| format!("{}*", n.word())),
    ];
    for reader in ["role-1000", "role-3"] {
        let mut all = Vec::new();
        for (kind, make) in kinds {
            let mut took = Vec::new();
            let mut hits = 0;
            for _ in 0..200 {
                let query = parse(&make(&mut numbers)).unwrap();
                let (reader, now) = (reader.parse().unwrap(), Timestamp::from_millis(NOW));
                let ask = Ask { reader, query, narrow: Narrow::default(), limit: 20, now };
                let began = processor_time();
                hits += index.search(&ask).unwrap().total;
                took.push(processor_time() - began);
            }
            took.sort_unstable();
            let ms = |it: Duration| it.as_micros() / 10 * 10;
            eprintln!(
                "{reader} {kind}: median {} µs, p99 {} µs, most {} µs; {} hits each",
                ms(took[100]),
                ms(took[197]),
                ms(took[199]),
                hits / 200
            );
            all.extend(took);
        }
        all.sort_unstable();
        eprintln!(
            "{reader} all: median {} µs, p99 {} µs",
            all[800].as_micros(),
            all[1584].as_micros()
        );
    }
    eprintln!(
        "afterwards resident {} MiB, of it files {} MiB",
        memory_kib("VmRSS") / 1024,
        memory_kib("RssFile") / 1024
    );
}
