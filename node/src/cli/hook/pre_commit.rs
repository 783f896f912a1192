//! What Git calls before a commit.

use std::time::Duration;

use tasuki_proto::echo::bounded;

use super::{
    CalledArgs,
    asking::{Asked, Found, held, within},
    who::{Who, who},
};
use crate::{
    cli::{Exit, Failure, Output, broker::Broker, text},
    config::{Config, HookFail},
    repository::Repository,
};

/// For all of it, unless told otherwise: a commit of ten thousand files is forty questions.
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
    match within(args.within.unwrap_or(BUDGET), Box::pin(look(&who, config))).await {
        Ok(found) => answer(&who, &found, output),
        Err(why) => unknown(fail, &why, output),
    }
}

async fn look(who: &Who, config: &Config) -> Result<Found, Failure> {
    let staged = tokio::task::spawn_blocking(|| {
        let repository = Repository::find(std::path::Path::new("."))?;
        let staged = repository.staged()?;
        let names = staged.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let names = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let files = repository.file_set(Repository::named_by_git(&staged));
        Ok::<_, crate::repository::No>(Asked { files, names })
    });
    let staged = staged.await.map_err(|why| Failure::local(format!("{why}.")))?;
    let asked = staged.map_err(|why| Failure::local(format!("{why}.")))?;
    if asked.names.is_empty() {
        return Ok(Found::default());
    }
    held(&Broker::new(config), who, &[asked]).await
}

fn answer(who: &Who, found: &Found, output: &mut Output) -> Result<(), Failure> {
    if let (Who::Unsaid(_), false) = (who, found.maybe_own.is_empty()) {
        let holders: Vec<String> = found.maybe_own.iter().map(|it| text::line(it)).collect();
        output.note(&format!(
            "tasuki: files of this commit are locked by {}, of this machine, which may be you; \
             nothing says as whom you commit (TASUKI_ROLE, or `tasuki hook install --as ROLE`).",
            holders.join(", ")
        ));
    }
    if found.held.is_empty() {
        return Ok(());
    }
    output.note("tasuki: others have locked files of this commit; nothing was committed.");
    for held in &found.held {
        output.note(&format!("- {}: {}", text::line(&held.file), held.words()));
    }
    if found.has_more {
        output.note("- and others");
    }
    output.note(
        "Wait until then, ask who has the lock to unlock, or leave those files out with `git \
         restore --staged FILE`. `git commit --no-verify` commits all the same.",
    );
    Err(Failure::told(Exit::Refused))
}

/// What becomes of a commit of which nobody can say what is locked.
pub(super) fn unknown(fail: HookFail, why: &Failure, output: &mut Output) -> Result<(), Failure> {
    let why = bounded(&why.message);
    output.note(&format!("tasuki: nobody can say whether files of this commit are locked: {why}"));
    match fail {
        HookFail::Open => {
            output.note("The commit goes on; with `hook_fail = \"closed\"` it would not.");
            Ok(())
        }
        HookFail::Closed => {
            output.note(
                "Nothing was committed, as `hook_fail` says. `git commit --no-verify` commits all \
                 the same.",
            );
            Err(Failure::told(Exit::Refused))
        }
    }
}
