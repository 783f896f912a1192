//! What Git calls before a commit.

use std::time::Duration;

use tasuki_proto::echo::bounded;

use super::{
    CalledArgs,
    committer::{Committer, who},
    lock_check::{FileQuery, LockCheck, check_locks, within},
};
use crate::{
    cli::{Exit, Failure, Output, broker::Broker, text},
    config::{Config, HookFail},
    repository::Repository,
};

/// The usual time limit of one check: a commit of ten thousand files takes forty calls.
const BUDGET: Duration = Duration::from_secs(10);

pub(super) async fn run(
    args: &CalledArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let fail = args.fail(config);
    let who = match who(args, config) {
        Ok(who) => who,
        Err(why) => return unknown(fail, &Failure::usage(why + "."), output),
    };
    let mut found = LockCheck::default();
    let checking = Box::pin(check(&who, config, &mut found));
    let checked = within(args.within.unwrap_or(BUDGET), checking).await;
    match checked {
        Err(why) if found.is_clear() => unknown(fail, &why, output),
        Ok(()) | Err(_) => answer(&who, &found, output),
    }
}

async fn check(who: &Committer, config: &Config, found: &mut LockCheck) -> Result<(), Failure> {
    let staged = tokio::task::spawn_blocking(|| {
        let repository = Repository::find(std::path::Path::new("."))?;
        let staged = repository.staged()?;
        let names = staged.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let files = repository.file_set(Repository::named_by_git(&staged));
        Ok::<_, crate::repository::No>(FileQuery { files, names })
    });
    let staged = staged.await.map_err(|why| Failure::local(format!("{why}.")))?;
    let asked = staged.map_err(|why| Failure::local(format!("{why}.")))?;
    if asked.names.is_empty() {
        return Ok(());
    }
    check_locks(&Broker::new(config), who, &[asked], found).await
}

fn answer(who: &Committer, found: &LockCheck, output: &mut Output) -> Result<(), Failure> {
    if let (Committer::Unknown(_), false) = (who, found.maybe_own.is_empty()) {
        let holders: Vec<String> = found.maybe_own.iter().map(|it| text::line(it)).collect();
        output.note(&format!(
            "tasuki: files of this commit are locked by {}, of this machine, which may be you. Say which \
             role commits with TASUKI_ROLE or `tasuki lock-hook install --as ROLE`.",
            holders.join(", ")
        ));
    }
    if found.is_clear() {
        return Ok(());
    }
    if found.held.is_empty()
        && let Some(unchecked) = &found.unchecked
    {
        output.note(&format!("tasuki: {}", unchecked.words()));
        output.note(
            "Nothing was committed. `tasuki lock list` shows what is locked; `git commit \
             --no-verify` commits anyway.",
        );
        return Err(Failure::told(Exit::Refused));
    }
    output.note("tasuki: other roles have locked files of this commit; nothing was committed.");
    for held in &found.held {
        output.note(&format!("- {}: {}", text::line(&held.file), held.words()));
    }
    if found.has_more {
        output.note("- and others");
    }
    output.note(
        "Wait, ask the lock's holder to unlock them, or leave those files out with `git restore \
         --staged FILE`. `git commit --no-verify` commits anyway.",
    );
    Err(Failure::told(Exit::Refused))
}

/// Answers for a commit whose locks could not be checked.
pub(super) fn unknown(fail: HookFail, why: &Failure, output: &mut Output) -> Result<(), Failure> {
    let why = bounded(&why.message);
    output.note(&format!("tasuki: cannot check whether files of this commit are locked: {why}"));
    match fail {
        HookFail::Open => {
            output.note("The commit continues; with `hook_fail = \"closed\"` it would be refused.");
            Ok(())
        }
        HookFail::Closed => {
            output.note(
                "Nothing was committed, as `hook_fail` says. `git commit --no-verify` commits anyway.",
            );
            Err(Failure::told(Exit::Refused))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::lock_check::Unchecked, *};

    /// Holds HK1.
    #[test]
    fn what_nobody_can_compare_is_not_committed() {
        let who = Committer::Role("A".parse().unwrap());
        let mut output = Output::of_process(false);
        assert_eq!(answer(&who, &LockCheck::default(), &mut output), Ok(()));
        let unchecked = Unchecked { file: "a".to_owned(), why: "It takes too long.".to_owned() };
        let found = LockCheck { unchecked: Some(unchecked), ..LockCheck::default() };
        let refused = answer(&who, &found, &mut output).unwrap_err();
        assert_eq!(refused, Failure::told(Exit::Refused));
    }
}
