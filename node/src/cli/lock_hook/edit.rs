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
    committer::{Who, who},
    lock_check::{Asked, Found, held, within},
};
use crate::{
    cli::{Exit, Failure, Output, broker::Broker, text},
    config::{Config, HookFail},
    edit_guard::{self, Answer, Client, Edit, SAID_BYTES_MAX},
    repository::{No, Repositories},
};

/// For all of it, unless told otherwise: an agent waits for this before every edit.
const BUDGET: Duration = Duration::from_secs(1);

/// What agents take for a refusal.
const REFUSED: Exit = Exit::Usage;

pub(super) async fn run(
    args: &EditArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let (client, fail) = (args.client, args.called.fail(config));
    let told = said().await.and_then(|said| {
        let who = who(&args.called, config)?;
        Ok((who, edit_guard::read(&said).map_err(|why| why.to_string())?))
    });
    let (who, edit) = match told {
        Ok(told) => told,
        Err(why) => return unknown(client, fail, &why, output),
    };
    if edit.files.is_empty() {
        return print(edit_guard::allow(client, None), output);
    }
    let mut found = Found::default();
    let looking = Box::pin(look(edit, &who, config, &mut found));
    let looked = within(args.called.within.unwrap_or(BUDGET), looking).await;
    match looked {
        Err(why) if found.is_clear() => unknown(client, fail, &why.message, output),
        Ok(()) | Err(_) => answer(client, &who, &found, output),
    }
}

async fn said() -> Result<Vec<u8>, String> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut said = Vec::new();
        std::io::stdin().take(SAID_BYTES_MAX + 1).read_to_end(&mut said).map(|_| said)
    });
    let said = reading.await.map_err(|why| why.to_string())?;
    let said = said.map_err(|why| format!("what the agent says cannot be read: {why}"))?;
    if SAID_BYTES_MAX < said.len() as u64 {
        return Err(format!("the agent says more than {SAID_BYTES_MAX} bytes"));
    }
    Ok(said)
}

async fn look(edit: Edit, who: &Who, config: &Config, found: &mut Found) -> Result<(), Failure> {
    let asked = tokio::task::spawn_blocking(move || asked(&edit));
    let asked = asked.await.map_err(|why| Failure::local(format!("{why}.")))?;
    let asked = asked.map_err(|why| Failure::local(format!("{why}.")))?;
    held(&Broker::new(config), who, &asked, found).await
}

/// The files of an edit by repository; of a link the file it leads to as well, for that is what is
/// written.
fn asked(edit: &Edit) -> Result<Vec<Asked>, No> {
    let here = |why| No::Io { path: ".".to_owned(), why };
    let directory = match &edit.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(here)?,
    };
    let repositories = Repositories::default();
    let mut all: BTreeMap<(String, bool), Asked> = BTreeMap::new();
    for file in &edit.files {
        for path in meant(&directory.join(file)) {
            for set in repositories.names_of(&path)? {
                let place = (set.repository.clone(), set.is_case_folded);
                let asked = all.entry(place).or_insert_with(|| Asked {
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

fn meant(path: &Path) -> Vec<PathBuf> {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let target = is_link.then(|| path.canonicalize().ok()).flatten();
    std::iter::once(path.to_owned()).chain(target).collect()
}

fn answer(client: Client, who: &Who, found: &Found, output: &mut Output) -> Result<(), Failure> {
    if found.is_clear() {
        let warning = match (who, found.maybe_own.is_empty()) {
            (Who::Unsaid(_), false) => Some(
                "tasuki: roles of this machine have this locked, and nothing says which one edits; \
                 set TASUKI_ROLE, or install the hook with --as ROLE.",
            ),
            (Who::Unsaid(_) | Who::Role(_), _) => None,
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
        && let Some(unjudged) = &found.unjudged
    {
        let why = format!("tasuki: {} Nothing was changed. Tell your user.", unjudged.words());
        return print(edit_guard::refuse(client, &why), output);
    }
    why += "Nothing was changed. Work on other files meanwhile, or ask who has the lock to unlock; \
            do not get round it another way.";
    print(edit_guard::refuse(client, &why), output)
}

/// What becomes of an edit of which nobody can say what is locked.
pub(super) fn unknown(
    client: Client,
    fail: HookFail,
    why: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let why = unknown_words(why);
    match fail {
        HookFail::Open => print(edit_guard::allow(client, Some(&why)), output),
        HookFail::Closed => {
            let why = format!("{why} Nothing was changed, as `hook_fail` says. Tell your user.");
            print(edit_guard::refuse(client, &why), output)
        }
    }
}

/// What the agent said may be said back in `why`, however long it is.
fn unknown_words(why: &str) -> String {
    let why = bounded(&text::line(why));
    format!("tasuki: nobody can say whether this is locked: {}.", why.trim_end_matches('.'))
}

fn print(answer: Answer, output: &mut Output) -> Result<(), Failure> {
    if !answer.words.is_empty() {
        output.note(&answer.words);
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
    fn what_is_said_back_is_cut() {
        let words =
            unknown_words(&format!("{} cannot be named: it is too long.", "x".repeat(1 << 20)));
        assert!(words.len() < REFUSAL_BYTES_MAX + 100, "{} bytes", words.len());
        assert!(words.ends_with("cannot be named: it is too long."), "{words}");
    }
}
