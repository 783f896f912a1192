//! `tasuki doc …`.

use std::{
    fs::File,
    io::{self, Read, Write as _},
    path::PathBuf,
};

use serde_json::json;
use tasuki_proto::{counted::counted, limits::DOC_BYTES_MAX, reason::Reason, swarm::DocName, wire};

use super::{Failure, IDS, Output, names::DocOwner, pages};
use crate::{
    cli::{
        role_args::{OptionalRoleArgs, RoleArgs, RoleClient},
        subcommands::subcommands,
        text::{block, line},
    },
    config::Config,
};

subcommands! {
    /// Read and write documents: of a workspace, an issue or a task.
    #[derive(Debug, clap::Subcommand)]
    #[command(after_help = IDS)]
    pub enum Command {
        Read(ReadArgs) => read,
        Write(WriteArgs) => write,
        List(ListArgs) => list,
    }
}

/// Print a document.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ReadArgs {
    /// Name of the document
    #[arg(value_name = "NAME")]
    name: DocName,
    /// Issue or task that has the document [default: the workspace]
    #[arg(long, value_name = "ISSUE[/TASK]")]
    of: Option<DocOwner>,
    /// Version to print [default: the newest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// Save it, byte for byte, as a new file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

/// Write a document, as a new version if it exists.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// Name of the document
    #[arg(value_name = "NAME")]
    name: DocName,
    /// File to read, byte for byte; - is standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Issue or task that has the document [default: the workspace]
    #[arg(long, value_name = "ISSUE[/TASK]")]
    of: Option<DocOwner>,
    #[command(flatten)]
    role: RoleArgs,
}

/// List documents.
///
/// With --json each document is one line.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Issue or task whose documents to list [default: the workspace]
    #[arg(value_name = "ISSUE[/TASK]")]
    whose: Option<DocOwner>,
    /// The same, as for `tasuki doc read`
    #[arg(long, value_name = "ISSUE[/TASK]", conflicts_with = "whose")]
    of: Option<DocOwner>,
    #[command(flatten)]
    role: OptionalRoleArgs,
}

async fn place(acting: &RoleClient, of: Option<&DocOwner>) -> Result<wire::DocPlace, Failure> {
    match of {
        None => Ok(wire::DocPlace::default()),
        Some(DocOwner::Issue(issue)) => {
            Ok(wire::DocPlace { issue_id: issue.find(acting).await?, task_id: String::new() })
        }
        Some(DocOwner::Task(task)) => {
            let ids = task.find(acting).await?;
            Ok(wire::DocPlace { issue_id: ids.issue, task_id: ids.task })
        }
    }
}

/// All that is to be read there, byte for byte, if it is no more than a document may be.
pub(super) fn content(flag: &str, place: &str, from: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(DOC_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| Failure::usage(format!("{flag}: {place} cannot be read: {why}.")))?;
    if DOC_BYTES_MAX < bytes.len() {
        let text = format!(
            "{flag}: {place} is over the limit of {DOC_BYTES_MAX} bytes; nothing was sent."
        );
        return Err(Failure::reason(Reason::TooLarge, text));
    }
    String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        Failure::usage(format!("{flag}: {place} is not UTF-8 at byte {at}; nothing was sent."))
    })
}

async fn read(args: ReadArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let request = wire::ReadDocRequest {
        place: Some(place(&acting, args.of.as_ref()).await?),
        name: args.name.to_string(),
        version: args.version.unwrap_or(0),
        ..Default::default()
    };
    let of = acting.broker.call(&request).await?;
    let Some(path) = &args.save else {
        return output.answer(
            || json!(of),
            || {
                let text = block(&of.content);
                let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
                format!("{text}{end}")
            },
        );
    };
    let cannot =
        |why: io::Error| Failure::local(format!("{} cannot be written: {why}.", path.display()));
    // What is there already is somebody's.
    let mut file = File::create_new(path).map_err(cannot)?;
    file.write_all(of.content.as_bytes()).map_err(cannot)?;
    let mut value = json!(of);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("content");
        fields.insert("saved".to_owned(), path.display().to_string().into());
    }
    output.answer(
        || value,
        || {
            let (name, version) = (line(&of.name), of.version);
            format!("{name}, version {version}, is in {}.\n", line(&path.display().to_string()))
        },
    )
}

async fn write(args: WriteArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config).await?;
    let from = args.from.display().to_string();
    let content = if from == "-" {
        content("FILE", "standard input", io::stdin().lock())?
    } else {
        let file = File::open(&args.from)
            .map_err(|why| Failure::usage(format!("FILE: {from} cannot be opened: {why}.")))?;
        content("FILE", &from, file)?
    };
    let request = wire::WriteDocRequest {
        role: acting.role.clone(),
        place: Some(place(&acting, args.of.as_ref()).await?),
        name: args.name.to_string(),
        content,
        ..Default::default()
    };
    let of = acting.broker.call(&request).await?;
    output.answer(
        || json!(of),
        || {
            let (name, version, size) = (line(&of.name), of.version, of.size);
            let same = if of.repeated { " It says what it said before." } else { "" };
            let size = counted(size, "byte");
            format!("{name} is written: version {version}, {size}.{same}\n")
        },
    )
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.role.client(config);
    let request = wire::ListDocsRequest {
        place: Some(place(&acting, args.of.or(args.whose).as_ref()).await?),
        ..Default::default()
    };
    let docs = acting.broker.call(&request).await?.docs;
    pages::print_all(&docs, 0, "No documents.", output)
}
