//! `tasuki disconnect`: undoes `tasuki connect`.

use std::path::Path;

use tasuki_proto::id::RoleId;

use super::{
    EntryArgs, config_paths, config_paths::ConfigPaths, entry, owner, plan, refused, report,
    request,
};
use crate::{
    cli::{
        Failure, Output,
        client_files::{
            Installer, Part, Target,
            document::{Document, Format, keys},
            file_io::NewMode,
            install_log::Added,
        },
    },
    config::Config,
};

/// Disconnect a coding agent: undo `tasuki connect`.
///
/// Everything else in the client's files stays. Does nothing if there is nothing to undo.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    entry: EntryArgs,
    /// Only if it plays this role [default: whichever it plays]
    #[arg(long, value_name = "ROLE")]
    role: Option<RoleId>,
}

/// What may be ours in one file.
struct EntryPart<'a> {
    /// Where the entry is, in a file that has servers.
    keys: Option<Vec<String>>,
    args: &'a Args,
}

impl Part for EntryPart<'_> {
    fn is_in(&self, document: &Document) -> bool {
        let Some(keys) = &self.keys else { return false };
        !document.get(keys).is_ok_and(|there| there.as_ref().and_then(entry::ours).is_none())
    }

    fn withdraw(
        &self,
        path: &Path,
        document: &mut Document,
        added: &[Added],
    ) -> Result<Vec<String>, Failure> {
        if let (Some(keys), Some(role)) = (&self.keys, &self.args.role) {
            let there = document.get(keys).map_err(|why| why.at(path))?;
            if let Some(ours) = there.as_ref().and_then(entry::ours)
                && ours.role != role.as_str()
            {
                return Err(Failure::local(format!(
                    "`{}` in {} connects role {}, not {role}. Say which entry with --name.",
                    keys.join("."),
                    path.display(),
                    ours.role
                )));
            }
        }
        plan::withdraw(document, self.keys.as_deref(), added)
            .map_err(|why| refused(path, &why, &self.args.entry.name))
    }
}

pub(crate) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let paths = config_paths()?;
    let EntryArgs { client, scope, name } = &args.entry;
    request::check_name(name)?;
    request::check_scope(*client, *scope)?;
    let targets = targets(&args, &paths);
    if targets.is_empty() {
        return report::by_hand(*client, name, output);
    }
    let mut installer = Installer::open(&config.data.value, owner(name)).await?;
    // What is refused is refused before the first file is changed.
    for (target, part) in &targets {
        installer.check_removal(target, part)?;
    }
    let mut all = Vec::new();
    for (target, part) in &targets {
        all.extend(installer.uninstall(target, part).await?);
    }
    report::disconnected(*client, name, &all, output)
}

fn targets<'a>(args: &'a Args, paths: &ConfigPaths) -> Vec<(Target, EntryPart<'a>)> {
    let EntryArgs { client, scope, name } = &args.entry;
    let row = client.row();
    let target = |path, format| Target { path, format, mode: NewMode::Usual };
    let others = paths.other_servers(*client, *scope);
    let servers = paths.servers(*client, *scope).into_iter().chain(others).map(|path| {
        let keys = Some(keys([row.table, name]));
        (target(path, row.format), EntryPart { keys, args })
    });
    let permissions = paths
        .permissions(*client, *scope)
        .map(|path| (target(path, Format::Json), EntryPart { keys: None, args }));
    servers.chain(permissions).collect()
}
