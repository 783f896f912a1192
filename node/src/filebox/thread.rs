//! Threads put together again from the copies that lie about, with what the original lost repaired.
//!
//! The original overwrites: an answer is built from whichever copy is found first, so that each
//! copy may lack what another has. A thread here has the entries of all its copies, each once, in
//! order of time.
//!
//! **What is one thread.** Copies with one Message ID that share an entry, or the title and the
//! original sender. Another thread under the same id gets an id that its content makes; so does a
//! file without an id.
//!
//! **Which box.** A role has one copy: the one with the newest entry; of equals the one that was
//! moved (done, cancel), then inbox, then outbox. But an entry to the role that none of its copies
//! has, newer than all it wrote itself, never came in: the thread is in its inbox.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::{
    counted::{agreeing, counted},
    id::Timestamp,
    limits::FILE_NAME_BYTES_MAX,
    mail::{BoxKind, MessageId, MessageName},
    visible::{is_visible, shown},
};

use super::{
    document::{Document, Entry},
    layout::FileCopy,
};

/// A whole thread, with names as they are in its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub id: MessageId,
    /// As its files are called; `None`: they are called otherwise than a thread's file.
    pub file_name: Option<String>,
    pub title: String,
    /// The oldest first.
    pub entries: Vec<Entry>,
    /// Where each agent has it.
    pub boxes: BTreeMap<String, BoxKind>,
    /// What was found out of order, in sentences.
    pub notes: Vec<String>,
}

/// What makes an entry the same in two copies.
pub type EntryKey = (Timestamp, String, Vec<String>, String);

/// The same entry has the same key wherever it stands; the order of receivers says nothing.
pub fn entry_key(entry: &Entry) -> EntryKey {
    let mut to = entry.to.clone();
    to.sort_unstable();
    (entry.at, entry.from.clone(), to, entry.text.trim().to_owned())
}

/// An id that the content makes, for a thread that has none of its own: always the same one.
pub fn id_of_content(title: &str, oldest: &Entry) -> MessageId {
    let mut hasher = blake3::Hasher::new_derive_key("tasuki filebox thread without an id");
    let at = oldest.at.as_millis().to_string();
    for part in [title, &at, &oldest.from, &oldest.text] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    MessageId::from_bits(uuid::Builder::from_custom_bytes(bits).into_uuid().as_u128())
}

/// Copies that are one thread.
#[derive(Debug)]
struct Bundle {
    keys: BTreeSet<EntryKey>,
    /// Title and original sender of each copy.
    begins: BTreeSet<(String, String)>,
    copies: Vec<FileCopy>,
}

impl Bundle {
    fn is_same(&self, other: &Self) -> bool {
        !self.begins.is_disjoint(&other.begins) || !self.keys.is_disjoint(&other.keys)
    }

    fn of(copy: FileCopy) -> Self {
        let document = &copy.document;
        let begin = (document.title.clone(), document.original_sender.clone());
        Self {
            keys: document.entries.iter().map(entry_key).collect(),
            begins: BTreeSet::from([begin]),
            copies: vec![copy],
        }
    }

    fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.begins.extend(other.begins);
        self.copies.extend(other.copies);
    }

    fn began(&self) -> Timestamp {
        let all = self.copies.iter().map(|it| it.document.oldest().at);
        all.min().unwrap_or_default()
    }
}

/// Puts threads together, the oldest first.
pub fn gather(copies: Vec<FileCopy>) -> Vec<Thread> {
    let mut by_id: BTreeMap<MessageId, Vec<FileCopy>> = BTreeMap::new();
    for copy in copies {
        let document = &copy.document;
        let made = || id_of_content(&document.title, document.oldest());
        by_id.entry(document.message_id.unwrap_or_else(made)).or_default().push(copy);
    }
    let mut threads: Vec<Thread> = Vec::new();
    for (id, copies) in by_id {
        let mut bundles: Vec<Bundle> = Vec::new();
        for copy in copies {
            let mut bundle = Bundle::of(copy);
            let (same, others) = bundles.into_iter().partition(|it: &Bundle| it.is_same(&bundle));
            bundles = others;
            for other in same {
                bundle.add(other);
            }
            bundles.push(bundle);
        }
        bundles.sort_by_key(Bundle::began);
        threads
            .extend(bundles.into_iter().enumerate().map(|(at, it)| thread(id, at != 0, it.copies)));
    }
    threads.sort_by_key(|it| (it.entries.first().map(|it| it.at), it.id));
    threads
}

fn thread(id: MessageId, is_taken: bool, mut copies: Vec<FileCopy>) -> Thread {
    copies.sort_by(|a, b| a.path.cmp(&b.path));
    let mut notes = Vec::new();
    let entries = union(&copies, &mut notes);
    let fullest = copies.iter().map(|it| it.document.entries.len()).max().unwrap_or_default();
    if fullest < entries.len() {
        let lost = entries.len() - fullest;
        let (all, were) = (entries.len(), agreeing(lost, "was", "were"));
        notes.push(format!("No copy has all {all} entries; {lost} {were} lost in each."));
    }
    // The copy that is most of the thread speaks for it.
    let best = copies.iter().rev().max_by_key(|it| it.document.entries.len());
    let title = best.map(|it| it.document.title.clone()).unwrap_or_default();
    let own = entries.first().map_or(id, |oldest| id_of_content(&title, oldest));
    let paths = || copies.iter().map(|it| it.path.display().to_string()).collect::<Vec<_>>();
    let has_id = copies.iter().any(|it| it.document.message_id.is_some());
    if is_taken {
        notes.push(format!(
            "{} has the id of another thread, {id}; it becomes {own}.",
            paths().join(", ")
        ));
    } else if !has_id {
        notes.push(format!("{} has no Message ID; it becomes {own}.", paths().join(", ")));
    }
    let id = if is_taken { own } else { id };
    let boxes = boxes(&copies, &entries, &mut notes);
    let names = copies.iter().filter_map(|it| it.path.file_name()?.to_str());
    let file_name = names.filter(|name| is_file_of(name, id)).min().map(str::to_owned);
    Thread { id, file_name, title, entries, boxes, notes }
}

fn is_file_of(name: &str, id: MessageId) -> bool {
    name.len() <= FILE_NAME_BYTES_MAX
        // A broker takes none that is not what it is shown as.
        && name.chars().all(is_visible)
        && shown(name).1 == 0
        && matches!(name.parse(), Ok(MessageName::File { short, .. }) if short == id.short())
}

/// Every entry of every copy, once.
fn union(copies: &[FileCopy], notes: &mut Vec<String>) -> Vec<Entry> {
    let mut all: BTreeMap<EntryKey, (Entry, bool)> = BTreeMap::new();
    let mut order: Vec<EntryKey> = Vec::new();
    for copy in copies {
        for (at, entry) in copy.document.entries.iter().enumerate().rev() {
            let key = entry_key(entry);
            // The end of a file is what a write that broke off has lost.
            let is_end = at + 1 == copy.document.entries.len();
            let known = all.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                (entry.clone(), is_end)
            });
            known.1 &= is_end;
        }
    }
    let is_cut = |key: &EntryKey| {
        let is_more = |other: &EntryKey| {
            key != other
                && (key.0, &key.1, &key.2) == (other.0, &other.1, &other.2)
                && other.3.starts_with(&key.3)
        };
        all[key].1
            && all
                .range((key.0, key.1.clone(), key.2.clone(), key.3.clone())..)
                .map(|(other, _)| other)
                .take_while(|other| (other.0, &other.1, &other.2) == (key.0, &key.1, &key.2))
                .any(is_more)
    };
    let (cut, whole): (Vec<EntryKey>, Vec<EntryKey>) = order.into_iter().partition(is_cut);
    for (at, from, ..) in &cut {
        let at = super::line::time_text(*at);
        notes.push(format!(
            "A copy breaks off within the entry of {from} at {at}; another has it whole."
        ));
    }
    let mut entries: Vec<Entry> = whole.iter().map(|key| all[key].0.clone()).collect();
    entries.sort_by_key(|it| it.at);
    entries
}

fn boxes(
    copies: &[FileCopy],
    entries: &[Entry],
    notes: &mut Vec<String>,
) -> BTreeMap<String, BoxKind> {
    let mut of_agent: BTreeMap<&str, Vec<&FileCopy>> = BTreeMap::new();
    for copy in copies {
        for agent in &copy.agents {
            of_agent.entry(agent).or_default().push(copy);
        }
    }
    let mut boxes = BTreeMap::new();
    for (agent, theirs) in of_agent {
        let rank = |place| match place {
            BoxKind::Outbox => 0,
            BoxKind::Inbox => 1,
            BoxKind::Cancel => 2,
            BoxKind::Done => 3,
        };
        let newest = |document: &Document| document.entries.iter().map(|it| it.at).max();
        let best = theirs.iter().max_by_key(|it| (newest(&it.document), rank(it.place)));
        let Some(mut place) = best.map(|it| it.place) else { continue };
        let places: BTreeSet<BoxKind> = theirs.iter().map(|it| it.place).collect();
        if 1 < places.len() {
            let places: Vec<&str> = places.iter().map(|it| it.as_str()).collect();
            let places = places.join(" and ");
            notes.push(format!("{agent} has it in {places}; the newest is in {place}."));
        }
        let has: BTreeSet<EntryKey> =
            theirs.iter().flat_map(|it| it.document.entries.iter().map(entry_key)).collect();
        let wrote = entries.iter().filter(|it| it.from == agent).map(|it| it.at).max();
        let is_lost = |it: &&Entry| {
            it.to.iter().any(|to| to == agent)
                && it.from != agent
                && wrote < Some(it.at)
                && !has.contains(&entry_key(it))
        };
        let lost = entries.iter().filter(is_lost).count();
        if lost != 0 && place != BoxKind::Inbox {
            notes.push(format!(
                "{} to {agent} {} in none of its copies; the thread is in its inbox.",
                counted(lost, "entry"),
                agreeing(lost, "is", "are")
            ));
            place = BoxKind::Inbox;
        }
        boxes.insert(agent.to_owned(), place);
    }
    boxes
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";
    const NAME: &str = "2026-11-21_2042-BR-t-ded66c6a.md";

    /// Entry `n`: odd ones from qa to dev, even ones back.
    fn letter(n: u64) -> Entry {
        let (from, to) = if n % 2 == 1 { ("qa", "dev") } else { ("dev", "qa") };
        Entry::new(Timestamp::from_millis(n * 1000), from, &[to], "BR", &format!("text {n}"))
    }

    /// A copy as `dev/inbox`, with these entries, the newest first.
    fn copy(place: &str, entries: &[u64]) -> FileCopy {
        let entries = entries.iter().map(|n| letter(*n)).collect();
        file(place, Document::new(ID.parse().ok(), "BR", "t", entries))
    }

    fn file(place: &str, document: Document) -> FileCopy {
        let (agent, name) = place.split_once('/').unwrap();
        let path = ["/", agent, name, NAME].iter().collect();
        FileCopy { path, place: name.parse().unwrap(), agents: vec![agent.to_owned()], document }
    }

    fn check(copies: Vec<FileCopy>, expected: &str) {
        let told = |thread: Thread| {
            let texts: Vec<&str> = thread.entries.iter().map(|it| it.text.as_str()).collect();
            let boxes: Vec<String> = thread.boxes.iter().map(|(a, b)| format!("{a} {b}")).collect();
            let notes: String = thread.notes.iter().map(|it| format!("  {it}\n")).collect();
            let name = thread.file_name.as_deref().unwrap_or("-");
            let head = format!("{} {name}\n  {}\n", &thread.id.to_string()[..8], texts.join(", "));
            format!("{head}  {}\n{notes}", boxes.join(", "))
        };
        let said: String = gather(copies).into_iter().map(told).collect();
        assert_eq!(said.trim_end(), expected, "{said}");
    }

    #[test]
    fn a_file_with_a_name_that_hides_something_gives_none() {
        let named = |name: &str| is_file_of(name, ID.parse().unwrap());
        assert!(named(NAME) && named("é-ded66c6a.md"));
        for hidden in ["\u{200b}", "\u{202e}", "\u{200d}", "\n"] {
            assert!(!named(&format!("x{hidden}y-ded66c6a.md")), "{hidden:?}");
        }
    }

    #[test]
    fn a_thread_in_order_has_no_notes() {
        check(
            vec![copy("qa/inbox", &[2, 1]), copy("dev/outbox", &[2, 1])],
            "ded66c6a 2026-11-21_2042-BR-t-ded66c6a.md\n  text 1, text 2\n  dev outbox, qa inbox",
        );
    }

    /// The original builds an answer from a stale copy: four messages later the second is gone.
    #[test]
    fn an_entry_that_newer_copies_lost_comes_back() {
        check(
            vec![
                copy("dev/outbox", &[2, 1]),
                copy("dev/inbox", &[3, 1]),
                copy("qa/inbox", &[4, 3, 1]),
                copy("qa/outbox", &[3, 1]),
                copy("dev/done", &[4, 3, 1]),
            ],
            "ded66c6a 2026-11-21_2042-BR-t-ded66c6a.md\n  text 1, text 2, text 3, text 4\n  \
             dev done, qa inbox\n  \
             No copy has all 4 entries; 1 was lost in each.\n  \
             dev has it in inbox and outbox and done; the newest is in done.\n  \
             qa has it in inbox and outbox; the newest is in inbox.",
        );
    }

    /// Three answer at once; one file survives in the receiver's inbox, which it then resolves.
    #[test]
    fn an_answer_that_never_came_in_is_in_the_inbox() {
        check(
            vec![
                copy("dev/outbox", &[2, 1]),
                copy("dev2/outbox", &[4, 1]),
                copy("qa/done", &[4, 1]),
            ],
            "ded66c6a 2026-11-21_2042-BR-t-ded66c6a.md\n  text 1, text 2, text 4\n  \
             dev outbox, dev2 outbox, qa inbox\n  \
             No copy has all 3 entries; 1 was lost in each.\n  \
             1 entry to qa is in none of its copies; the thread is in its inbox.",
        );
    }

    #[test]
    fn a_file_that_was_half_written_takes_nothing_away() {
        let mut cut = copy("dev/inbox", &[2, 1]);
        cut.document.entries[1].text = "tex".into();
        check(
            vec![cut, copy("qa/outbox", &[2, 1])],
            "ded66c6a 2026-11-21_2042-BR-t-ded66c6a.md\n  text 1, text 2\n  \
             dev inbox, qa outbox\n  \
             A copy breaks off within the entry of qa at 1970-01-01T00:00:01.000Z; another has it \
             whole.",
        );
    }

    #[test]
    fn two_threads_under_one_id_stay_two() {
        let other = Entry::new(Timestamp::from_millis(9000), "ops", &["qa"], "ER", "mine");
        let other = Document::new(ID.parse().ok(), "ER", "other", vec![other]);
        check(
            vec![file("ops/outbox", other), copy("qa/inbox", &[1])],
            "ded66c6a 2026-11-21_2042-BR-t-ded66c6a.md\n  text 1\n  qa inbox\n\
             b7b8064d -\n  mine\n  ops outbox\n  \
             /ops/outbox/2026-11-21_2042-BR-t-ded66c6a.md has the id of another thread, \
             ded66c6a-58c1-47f4-916e-13787156f665; it becomes b7b8064d-dca5-88d6-a073-12dda0e26b8e.",
        );
    }

    #[test]
    fn a_thread_without_an_id_gets_the_same_one_from_each_copy() {
        let bare = |place| {
            let mut copy = copy(place, &[1]);
            copy.document.message_id = None;
            copy
        };
        let found = gather(vec![bare("qa/outbox"), bare("dev/inbox")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].boxes.len(), 2);
        assert_eq!(found[0].id, gather(vec![bare("dev/inbox")])[0].id);
        assert_eq!(found[0].id.to_string().as_bytes()[14], b'8');
    }
}
