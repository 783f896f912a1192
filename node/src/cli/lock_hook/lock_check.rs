//! Asks the broker which files another role has locked.

use std::{collections::BTreeSet, future::Future, time::Duration};

use tasuki_broker::rules::swarm::lock::LockKey;
use tasuki_proto::{
    echo::{bounded, echo},
    reason::Reason,
    wire,
};

use super::committer::Committer;
use crate::{
    cli::{Failure, broker::Broker, text},
    repository::shown,
};

/// Files of one call: as many as the broker takes.
const QUERY_FILES_MAX: usize = 256;

/// Locks of one page: as many as the broker returns.
const PAGE_LOCKS: u32 = 200;

/// Files that a refusal names; more are not read.
const REPORTED_MAX: usize = 10;

/// Some files of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileQuery {
    pub files: wire::FileSet,
    /// The name of each pattern to whoever asked.
    pub names: Vec<String>,
}

/// A file that another role has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignLock {
    pub file: String,
    pub holder: String,
    /// By the broker's clock.
    pub until_ms: u64,
    pub left_ms: u64,
    /// Which task it is for; empty: none.
    pub task: String,
    /// What was locked, where that is more than the file.
    pub pattern: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LockCheck {
    /// The first locks found.
    pub held: Vec<ForeignLock>,
    /// There are others.
    pub has_more: bool,
    /// Holders that may be the committer, who is unknown.
    pub maybe_own: BTreeSet<String>,
    /// What the broker could not compare with all locks; `None`: everything was compared.
    pub unchecked: Option<Unchecked>,
}

/// A file, or the first of some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unchecked {
    pub file: String,
    pub why: String,
}

impl LockCheck {
    /// Whether the change may be made, as far as was checked.
    pub(super) fn is_clear(&self) -> bool {
        self.held.is_empty() && self.unchecked.is_none()
    }
}

/// What a question about locks comes to.
type Listed = Result<wire::ListLocksResponse, Failure>;

/// Fails work that takes too long as if the broker were unreachable.
pub(super) async fn within<T>(
    budget: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(budget, work).await.unwrap_or_else(|_| {
        let budget = humantime::format_duration(budget);
        let text = format!("No answer within {budget}.");
        Err(Failure::reason(Reason::Unavailable, text))
    })
}

/// Checks all files. What was found counts also if this fails or is cut short.
///
/// The broker compares for so long in one call. Where that is not enough it is asked about half as
/// many files in each from then on; with one that it cannot compare, all is said.
pub(super) async fn check_locks(
    broker: &Broker,
    who: &Committer,
    all: &[FileQuery],
    found: &mut LockCheck,
) -> Result<(), Failure> {
    let list = async |files: wire::FileSet, limit: u32, offset: u32| {
        let files = Some(files);
        broker.call(&wire::ListLocksRequest { files, limit, offset, ..Default::default() }).await
    };
    check_with(&list, who, all, found).await
}

/// The same by whoever lists locks: on these files, so many of them, after the first so many.
async fn check_with(
    list: &impl AsyncFn(wire::FileSet, u32, u32) -> Listed,
    who: &Committer,
    all: &[FileQuery],
    found: &mut LockCheck,
) -> Result<(), Failure> {
    let mut most = QUERY_FILES_MAX;
    for asked in all {
        let is_many = QUERY_FILES_MAX < asked.files.patterns.len();
        if is_many && !is_any_locked(list, &asked.files).await? {
            continue;
        }
        let (mut patterns, mut names) = (&asked.files.patterns[..], &asked.names[..]);
        while !patterns.is_empty() && !found.has_more {
            let count = most.min(patterns.len());
            let (these, later) = patterns.split_at(count);
            let (named, named_later) = names.split_at(count.min(names.len()));
            let files = wire::FileSet {
                repository: asked.files.repository.clone(),
                patterns: these.to_vec(),
                is_case_folded: asked.files.is_case_folded,
            };
            match ask(list, who, &files, named, found).await {
                Err(why) if why.as_reason() == Some(Reason::Overloaded) => {
                    let file = named.first().cloned().unwrap_or_default();
                    found.unchecked = Some(Unchecked { file, why: why.message });
                    most = count / 2;
                    if most == 0 {
                        return Ok(());
                    }
                }
                answered => {
                    answered?;
                    (patterns, names) = (later, named_later);
                }
            }
        }
    }
    // Half of it was compared, and the other half.
    found.unchecked = None;
    Ok(())
}

/// Whether there is any lock in the repository: mostly there is none.
async fn is_any_locked(
    list: &impl AsyncFn(wire::FileSet, u32, u32) -> Listed,
    files: &wire::FileSet,
) -> Result<bool, Failure> {
    let files = wire::FileSet { patterns: Vec::new(), ..files.clone() };
    Ok(list(files, 1, 0).await?.total != 0)
}

async fn ask(
    list: &impl AsyncFn(wire::FileSet, u32, u32) -> Listed,
    who: &Committer,
    files: &wire::FileSet,
    names: &[String],
    found: &mut LockCheck,
) -> Result<(), Failure> {
    let mut offset = 0;
    loop {
        let answer = list(files.clone(), PAGE_LOCKS, offset).await?;
        for lock in &answer.locks {
            if !who.is_own(&lock.holder) {
                take(lock, files, names, answer.now_ms, found);
            } else if matches!(who, Committer::Unknown(_)) {
                found.maybe_own.insert(lock.holder.clone());
            }
        }
        offset += u32::try_from(answer.locks.len()).unwrap_or(u32::MAX);
        if answer.locks.is_empty() || answer.total <= u64::from(offset) || found.has_more {
            return Ok(());
        }
    }
}

/// Notes which files a lock is on. That it is on any was the broker's to say; which, is for words.
fn take(
    lock: &wire::Lock,
    files: &wire::FileSet,
    names: &[String],
    now_ms: u64,
    found: &mut LockCheck,
) {
    let locked = lock.files.clone().unwrap_or_default();
    let key = |pattern: &str, is_folded: bool| LockKey::new("", pattern, is_folded).ok();
    let keys: Vec<LockKey> =
        locked.patterns.iter().filter_map(|it| key(it, locked.is_case_folded)).collect();
    let mut is_named = false;
    let tell = |file: &str, pattern: String, found: &mut LockCheck| {
        if found.held.iter().any(|it| it.file == file && it.holder == lock.holder) {
            return;
        }
        if REPORTED_MAX <= found.held.len() {
            found.has_more = true;
            return;
        }
        let task = match (lock.issue_id.as_str(), lock.task_id.as_str()) {
            ("", task) | (_, task @ "") => task.to_owned(),
            (issue, task) => format!("{issue}/{task}"),
        };
        found.held.push(ForeignLock {
            file: file.to_owned(),
            holder: lock.holder.clone(),
            until_ms: lock.expires_ms,
            left_ms: lock.expires_ms.saturating_sub(now_ms),
            task,
            pattern,
        });
    };
    for (pattern, name) in files.patterns.iter().zip(names) {
        let Some(asked) = key(pattern, files.is_case_folded) else { continue };
        let Some(on) = keys.iter().find(|it| meet(it, &asked)) else { continue };
        is_named = true;
        let is_same = on.path() == asked.path();
        let pattern = if is_same { String::new() } else { shown(on.path()).into_owned() };
        tell(name, pattern, found);
        if found.has_more {
            return;
        }
    }
    if !is_named {
        // It is on one of them all the same.
        tell(names.first().map_or("", String::as_str), String::new(), found);
    }
}

/// As the broker compares, quickly where neither has a wildcard.
fn meet(one: &LockKey, other: &LockKey) -> bool {
    if one.has_wildcards() || other.has_wildcards() {
        return one.overlaps(other);
    }
    let is_folded = one.is_case_folded() || other.is_case_folded();
    let fold = |key: &LockKey| -> String {
        let path = key.path();
        if is_folded { path.chars().flat_map(char::to_lowercase).collect() } else { path.into() }
    };
    let (one, other) = (fold(one), fold(other));
    let is_above = |one: &str, other: &str| {
        other.strip_prefix(one).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_above(&one, &other) || is_above(&other, &one)
}

impl Unchecked {
    pub(super) fn words(&self) -> String {
        let (file, why) = (echo(&self.file), bounded(&text::line(&self.why)));
        format!("the broker cannot say whether {file} is locked: {}.", why.trim_end_matches('.'))
    }
}

impl ForeignLock {
    /// Who holds the lock, until when and for what, without the file.
    pub(super) fn words(&self) -> String {
        let holder = text::line(&self.holder);
        let left = Duration::from_secs(self.left_ms.div_ceil(1000));
        let left = humantime::format_duration(left);
        let mut words =
            format!("locked by {holder} until {} (another {left})", text::time(self.until_ms));
        if !self.task.is_empty() {
            words += &format!(", for task {}", text::line(&self.task));
        }
        if !self.pattern.is_empty() {
            words += &format!(", with {}", text::line(&self.pattern));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(patterns: &[&str]) -> wire::FileSet {
        let patterns = patterns.iter().map(|it| (*it).to_owned()).collect();
        wire::FileSet { repository: "r".into(), patterns, is_case_folded: false }
    }

    fn lock(holder: &str, patterns: &[&str]) -> wire::Lock {
        wire::Lock {
            holder: holder.into(),
            files: Some(files(patterns)),
            issue_id: "i-1".into(),
            task_id: "task-2".into(),
            expires_ms: 95_000,
            ..wire::Lock::default()
        }
    }

    #[test]
    fn files_are_named_with_the_lock_that_is_on_them() {
        let mut found = LockCheck::default();
        let names = ["./a".to_owned(), "b/c".to_owned(), "d".to_owned()];
        let asked = files(&["a", "b/c", "d"]);
        take(&lock("B", &["a", "b/**"]), &asked, &names, 5_000, &mut found);
        let said: Vec<String> =
            found.held.iter().map(|it| format!("{} {}", it.file, it.words())).collect();
        let until = "locked by B until 1970-01-01 00:01:35Z (another 1m 30s), for task i-1/task-2";
        assert_eq!(said, [format!("./a {until}"), format!("b/c {until}, with b/**")]);
        // The same file by two locks of one role is told once, by two roles twice.
        take(&lock("B", &["a"]), &asked, &names, 0, &mut found);
        take(&lock("C", &["a"]), &asked, &names, 0, &mut found);
        assert_eq!(found.held.len(), 3);
        // One that the broker found and we do not.
        take(&lock("D", &["elsewhere"]), &asked, &names, 0, &mut found);
        assert_eq!((&*found.held[3].file, &*found.held[3].holder), ("./a", "D"));
    }

    #[test]
    fn no_more_are_told_than_anybody_reads() {
        let names: Vec<String> = (0..99).map(|n| format!("f{n}")).collect();
        let patterns: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut found = LockCheck::default();
        take(&lock("B", &["**"]), &files(&patterns), &names, 0, &mut found);
        assert!(found.held.len() == REPORTED_MAX && found.has_more);
    }

    #[test]
    fn files_meet_as_at_the_broker() {
        let paths = ["a", "a/b", "a/bc", "A/b", "b", "*", "a/*", "**"];
        for (one, other) in paths.iter().flat_map(|one| paths.map(|other| (one, other))) {
            for is_folded in [false, true] {
                let key = |path: &str| LockKey::new("", path, is_folded).unwrap();
                let (one, other) = (key(one), key(other));
                assert_eq!(meet(&one, &other), one.overlaps(&other), "{one:?} {other:?}");
            }
        }
    }

    /// What is found among files `f0`, `f1`… of which B has locked `f700`, and how many questions
    /// that takes, where the broker can compare so many in one.
    async fn found(comparable: usize, all: usize) -> (LockCheck, usize) {
        let asked = std::cell::Cell::new(0);
        let list = async |files: wire::FileSet, _: u32, offset: u32| {
            asked.set(asked.get() + 1);
            if comparable < files.patterns.len() {
                return Err(Failure::reason(Reason::Overloaded, "It takes too long."));
            }
            let is_on = files.patterns.is_empty() || files.patterns.iter().any(|it| it == "f700");
            let locks: Vec<wire::Lock> =
                (is_on && offset == 0).then(|| lock("B", &["f700"])).into_iter().collect();
            Ok(wire::ListLocksResponse { total: u64::from(is_on), locks, now_ms: 0 })
        };
        let names: Vec<String> = (0..all).map(|number| format!("f{number}")).collect();
        let patterns: Vec<&str> = names.iter().map(String::as_str).collect();
        let all = [FileQuery { files: files(&patterns), names }];
        let mut found = LockCheck::default();
        let who = Committer::Role("A".parse().unwrap());
        check_with(&list, &who, &all, &mut found).await.unwrap();
        (found, asked.get())
    }

    /// Holds HK1.
    #[tokio::test]
    async fn what_takes_too_long_to_compare_is_asked_in_parts() {
        for comparable in [1_000, 256, 100, 7, 1] {
            let (found, questions) = found(comparable, 1_000).await;
            let held: Vec<&str> = found.held.iter().map(|it| &*it.file).collect();
            assert_eq!(held, ["f700"], "{comparable} at a time");
            assert_eq!(found.unchecked, None, "{comparable} at a time");
            assert!(questions <= 1 + 9 + 1_000 * 2 / comparable.min(256), "{questions}");
        }
        let (free, _) = found(7, 700).await;
        assert!(free.is_clear(), "{free:?}");
        // Nothing passes of which it cannot say.
        let (found, questions) = found(0, 100).await;
        assert!(!found.is_clear() && questions < 10, "{questions}: {found:?}");
        let words = found.unchecked.unwrap().words();
        let expected = "the broker cannot say whether \"f0\" is locked: It takes too long.";
        assert_eq!(words, expected);
    }

    /// Holds HK3.
    #[tokio::test]
    async fn who_does_not_answer_is_away() {
        let never = std::future::pending::<Result<(), Failure>>();
        let why = within(Duration::ZERO, never).await.unwrap_err();
        assert_eq!(why.message, "No answer within 0s.");
    }
}
