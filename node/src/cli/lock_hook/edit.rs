//! What a coding agent calls before an edit.

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::{echo::bounded, wire};

use super::{
    EditArgs,
    committer::{Committer, who},
    lock_check::{FileQuery, LockCheck, check_locks, within},
};
use crate::{
    cli::{Exit, Failure, Output, broker::Broker, text},
    config::{Config, HookFail},
    edit_guard::{self, Answer, Client, Edit, INPUT_BYTES_MAX},
    repository::{No, Repositories},
};

/// The usual time limit of one check: an agent waits for it before every edit.
const BUDGET: Duration = Duration::from_secs(1);

/// The exit code that agents take for a refusal.
const REFUSED: Exit = Exit::Usage;

pub(super) async fn run(
    args: &EditArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let (client, fail) = (args.client, args.called.fail(config));
    let asked = read_input().await.and_then(|input| {
        let who = who(&args.called, config)?;
        Ok((who, edit_guard::read(&input).map_err(|why| why.to_string())?))
    });
    let (who, edit) = match asked {
        Ok(asked) => asked,
        Err(why) => return unknown(client, fail, &why, output),
    };
    if edit.files.is_empty() {
        return print(edit_guard::allow(client, None), output);
    }
    let mut found = LockCheck::default();
    let checking = Box::pin(check(edit, &who, config, &mut found));
    let checked = within(args.called.within.unwrap_or(BUDGET), checking).await;
    match checked {
        Err(why) if found.is_clear() => unknown(client, fail, &why.message, output),
        Ok(()) | Err(_) => answer(client, &who, &found, output),
    }
}

async fn read_input() -> Result<Vec<u8>, String> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut input = Vec::new();
        std::io::stdin().take(INPUT_BYTES_MAX + 1).read_to_end(&mut input).map(|_| input)
    });
    let input = reading.await.map_err(|why| why.to_string())?;
    let input = input.map_err(|why| format!("the agent's input cannot be read: {why}"))?;
    if INPUT_BYTES_MAX < input.len() as u64 {
        return Err(format!("the agent's input has more than {INPUT_BYTES_MAX} bytes"));
    }
    Ok(input)
}

async fn check(
    edit: Edit,
    who: &Committer,
    config: &Config,
    found: &mut LockCheck,
) -> Result<(), Failure> {
    let asked = tokio::task::spawn_blocking(move || file_queries(&edit));
    let asked = asked.await.map_err(|why| Failure::local(format!("{why}.")))?;
    let asked = asked.map_err(|why| Failure::local(format!("{why}.")))?;
    check_locks(&Broker::new(config), who, &asked, found).await
}

/// The files of an edit by repository; of a link the file it leads to as well, for that is what is
/// written.
fn file_queries(edit: &Edit) -> Result<Vec<FileQuery>, No> {
    let here = |why| No::Io { path: ".".to_owned(), why };
    let directory = match &edit.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(here)?,
    };
    let repositories = Repositories::default();
    let mut all: BTreeMap<(String, bool), FileQuery> = BTreeMap::new();
    for file in &edit.files {
        for path in with_link_target(&directory.join(file)) {
            for set in repositories.names_of(&path)? {
                let place = (set.repository.clone(), set.is_case_folded);
                let asked = all.entry(place).or_insert_with(|| FileQuery {
                    files: wire::FileSet { patterns: Vec::new(), ..set.clone() },
                    names: Vec::new(),
                });
                let names = set.patterns.iter().map(|_| file.display().to_string());
                asked.names.extend(names);
                asked.files.patterns.extend(set.patterns);
            }
        }
    }
    Ok(all.into_values().collect())
}

fn with_link_target(path: &Path) -> Vec<PathBuf> {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let target = is_link.then(|| path.canonicalize().ok()).flatten();
    std::iter::once(path.to_owned()).chain(target).collect()
}

fn answer(
    client: Client,
    who: &Committer,
    found: &LockCheck,
    output: &mut Output,
) -> Result<(), Failure> {
    if found.is_clear() {
        let warning = match (who, found.maybe_own.is_empty()) {
            (Committer::Unknown(_), false) => Some(
                "tasuki: a role of this machine has this locked, and it is unknown which role edits. Set \
                 TASUKI_ROLE, or install the hook with --as ROLE.",
            ),
            (Committer::Unknown(_) | Committer::Role(_), _) => None,
        };
        return print(edit_guard::allow(client, warning), output);
    }
    let mut why = String::new();
    for held in &found.held {
        why += &format!("{} is {}. ", text::line(&held.file), held.words());
    }
    if found.has_more {
        why += "There are others. ";
    }
    if found.held.is_empty()
        && let Some(unchecked) = &found.unchecked
    {
        let why = format!("tasuki: {} Nothing was changed. Tell your user.", unchecked.words());
        return print(edit_guard::refuse(client, &why), output);
    }
    why += "Nothing was changed. Work on other files, or ask the lock's holder to unlock them; do not \
            work around the lock.";
    print(edit_guard::refuse(client, &why), output)
}

/// Answers for an edit whose locks could not be checked.
pub(super) fn unknown(
    client: Client,
    fail: HookFail,
    why: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let why = unchecked_message(why);
    match fail {
        HookFail::Open => print(edit_guard::allow(client, Some(&why)), output),
        HookFail::Closed => {
            let why = format!("{why} Nothing was changed, as `hook_fail` says. Tell your user.");
            print(edit_guard::refuse(client, &why), output)
        }
    }
}

/// `why` may quote the agent's input, however long that is.
fn unchecked_message(why: &str) -> String {
    let why = bounded(&text::line(why));
    format!("tasuki: cannot check whether this is locked: {}.", why.trim_end_matches('.'))
}

fn print(answer: Answer, output: &mut Output) -> Result<(), Failure> {
    if !answer.message.is_empty() {
        output.note(&answer.message);
    }
    if !answer.out.is_empty() {
        output.raw(&answer.out)?;
    }
    if answer.is_refused { Err(Failure::told(REFUSED)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::echo::REFUSAL_BYTES_MAX;

    use super::*;

    #[test]
    fn a_long_reason_is_cut() {
        let words =
            unchecked_message(&format!("{} cannot be named: it is too long.", "x".repeat(1 << 20)));
        assert!(words.len() < REFUSAL_BYTES_MAX + 100, "{} bytes", words.len());
        assert!(words.ends_with("cannot be named: it is too long."), "{words}");
    }
}
