//! `tasuki-broker export` and `import`: what is kept as JSON lines, and a data directory made of them.
//!
//! An export is read from a backup that is made on the way, so it is of one commit, too.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tasuki_broker::backup::{self, BackupError, Exported, Restored};
use tasuki_proto::id::WorkspaceId;
use tokio::time::Instant;

use super::{
    Data,
    administer::{Administer, Answer, No, print},
    backup::{is_standard, make_data, plural, take},
    scope::time,
};

#[derive(Debug, Args)]
pub(super) struct Export {
    /// File to write; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Workspace; tokens are in none [default: all, and tokens]
    #[arg(long, value_name = "NAME")]
    workspace: Option<WorkspaceId>,

    #[command(flatten)]
    administer: Administer,
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// File that `export` wrote; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Workspace; tokens are in none [default: all, and tokens]
    #[arg(long, value_name = "NAME")]
    workspace: Option<WorkspaceId>,

    #[command(flatten)]
    data: Data,
}

pub(super) fn export(it: Export) -> u8 {
    let Export { file, workspace, administer } = it;
    administer.run(async |administer| write(file, workspace, administer).await)
}

async fn write(
    file: PathBuf,
    workspace: Option<WorkspaceId>,
    administer: Administer,
) -> Result<Answer, No> {
    let began = Instant::now();
    let exported = take(&file, administer, "exporting", move |backup, out| {
        backup::export(backup, workspace.as_ref(), |line| out.write_all(line))
    });
    Ok(describe(&exported.await?, &file, began.elapsed().as_secs_f64()))
}

fn describe(it: &Exported, file: &Path, seconds: f64) -> Answer {
    let made = it.backup.made.as_millis();
    let text = format!(
        "{}: {} lines, {} bytes, as of commit {}, {}; made in {seconds:.1} s",
        file.display(),
        it.lines,
        it.bytes,
        it.backup.commit,
        time(made)
    );
    let secret =
        "It holds what agents and people wrote, and hashes of tokens: keep it for yourself.";
    let value = json!({
        "file": file.display().to_string(),
        "bytes": it.bytes,
        "lines": it.lines,
        "commit": it.backup.commit,
        "made_ms": made,
        "seconds": seconds,
    });
    match is_standard(file) {
        true => Answer { value, lines: String::new(), notes: format!("{text}\n{secret}") },
        false => Answer { value, lines: text, notes: secret.to_owned() },
    }
}

pub(super) fn import(it: &Import) -> u8 {
    print(read(it), it.data.json)
}

fn read(it: &Import) -> Result<Answer, No> {
    let began = Instant::now();
    let import = |input, data: &Path, now| -> Result<Restored, BackupError> {
        backup::import(input, it.workspace.as_ref(), data, now)
    };
    let (imported, data) = make_data(&it.file, &it.data, "importing", import)?;
    let (place, seconds) = (data.display(), began.elapsed().as_secs_f64());
    let texts = imported.backup.bodies;
    let lines = format!(
        "imported {} and {} into {place}, in {seconds:.1} s",
        plural(imported.backup.workspaces, "workspace"),
        plural(texts, "text")
    );
    let notes = format!(
        "Work since {} is not in it.\n\
         Nothing that was granted before holds: held turns, claims and locks have new numbers, \
         steps that ran are lost, nodes register again.\n\
         Tokens are as they were: {} are good and {} invitations are open. The broker makes a new \
         certificate, so nodes that joined the other one join this one anew: `tasuki-broker invite`.\n\
         Start it with `tasuki-broker serve --data {place}`.",
        time(imported.backup.made.as_millis()),
        imported.tokens,
        imported.invitations
    );
    let value = json!({
        "data": data.display().to_string(),
        "export_ms": imported.backup.made.as_millis(),
        "workspaces": imported.workspaces.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "bodies": texts,
        "tokens": imported.tokens,
        "invitations": imported.invitations,
        "seconds": seconds,
    });
    Ok(Answer { value, lines, notes })
}
