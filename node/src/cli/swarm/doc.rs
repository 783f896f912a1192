//! `tasuki swarm doc …`.

use std::{
    fs::File,
    io::{self, Read, Write as _},
    path::PathBuf,
};

use serde_json::json;
use tasuki_proto::{limits::DOC_BYTES_MAX, reason::Reason, swarm::DocName, wire};

use super::{
    Failure, Output, Target, json as as_json,
    names::What,
    rows,
    who::{Acting, Looker, Who, client},
};
use crate::{
    cli::text::{block, line},
    config::Config,
    counted::counted,
};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Read(ReadArgs),
    Write(WriteArgs),
    List(ListArgs),
}

/// Print a document.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ReadArgs {
    /// What it is called
    #[arg(value_name = "NAME")]
    name: DocName,
    /// Whose it is [default: of all issues]
    #[arg(long, value_name = "ISSUE[/TASK]")]
    of: Option<What>,
    /// Which version [default: the newest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    /// Write it, byte for byte, into a file that is not there yet
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    who: Looker,
}

/// Write a document: a new version of it, if there is one of that name.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// What it is called
    #[arg(value_name = "NAME")]
    name: DocName,
    /// The file it is read from, byte for byte; - is standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Whose it is [default: of all issues]
    #[arg(long, value_name = "ISSUE[/TASK]")]
    of: Option<What>,
    #[command(flatten)]
    who: Who,
}

/// Show which documents there are.
///
/// With --json each document is a line of its own.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Whose they are [default: of all issues]
    #[arg(value_name = "ISSUE[/TASK]")]
    whose: Option<What>,
    /// The same, as `read` and `write` take it
    #[arg(long, value_name = "ISSUE[/TASK]", conflicts_with = "whose")]
    of: Option<What>,
    #[command(flatten)]
    who: Looker,
}

impl Command {
    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Read(args) => &args.who.target,
            Self::Write(args) => &args.who.target,
            Self::List(args) => &args.who.target,
        }
    }
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Read(args) => read(args, config, output).await,
        Command::Write(args) => write(args, config, output).await,
        Command::List(args) => list(args, config, output).await,
    }
}

async fn place(acting: &Acting, of: Option<&What>) -> Result<wire::DocPlace, Failure> {
    match of {
        None => Ok(wire::DocPlace::default()),
        Some(What::Issue(issue)) => {
            Ok(wire::DocPlace { issue_id: issue.find(acting).await?, task_id: String::new() })
        }
        Some(What::Task(task)) => {
            let ids = task.find(acting).await?;
            Ok(wire::DocPlace { issue_id: ids.issue, task_id: ids.task })
        }
        Some(What::Delivery(_) | What::Lock(_)) => Err(Failure::usage(
            "Documents are of issues and tasks, or of all issues. Nothing was read or written.",
        )),
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
    let acting = args.who.looking(config);
    let request = wire::ReadDocRequest {
        caller: acting.broker.caller(),
        place: Some(place(&acting, args.of.as_ref()).await?),
        name: args.name.to_string(),
        version: args.version.unwrap_or(0),
    };
    let of =
        acting.broker.ask(async |channel| client(channel).read_doc(request.clone()).await).await?;
    let mut value = as_json::doc(&of);
    let Some(path) = &args.save else {
        value["content"] = json!(of.content);
        return output.answer(
            || value,
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
    value["saved"] = json!(path.display().to_string());
    output.answer(
        || value,
        || {
            let (name, version) = (line(&of.name), of.version);
            format!("{name}, version {version}, is in {}.\n", line(&path.display().to_string()))
        },
    )
}

async fn write(args: WriteArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let from = args.from.display().to_string();
    let content = if from == "-" {
        content("FILE", "standard input", io::stdin().lock())?
    } else {
        let file = File::open(&args.from)
            .map_err(|why| Failure::usage(format!("FILE: {from} cannot be opened: {why}.")))?;
        content("FILE", &from, file)?
    };
    let request = wire::WriteDocRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        place: Some(place(&acting, args.of.as_ref()).await?),
        name: args.name.to_string(),
        content,
    };
    let of = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::WriteDocRequest { key: Some(key), ..request.clone() };
            client(channel).write_doc(request).await
        })
        .await?;
    output.answer(
        || {
            let mut value = as_json::doc(&of);
            value["repeated"] = json!(of.repeated);
            value
        },
        || {
            let (name, version, size) = (line(&of.name), of.version, of.size);
            let same = if of.repeated { " It says what it said before." } else { "" };
            let size = counted(size, "byte");
            format!("{name} is written: version {version}, {size}.{same}\n")
        },
    )
}

async fn list(args: ListArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.looking(config);
    let request = wire::ListDocsRequest {
        caller: acting.broker.caller(),
        place: Some(place(&acting, args.of.or(args.whose).as_ref()).await?),
    };
    let docs = acting
        .broker
        .ask(async |channel| client(channel).list_docs(request.clone()).await)
        .await?
        .docs;
    if docs.is_empty() {
        return output.guide(|| "There is no document.\n".to_owned());
    }
    output.guide(rows::doc_head)?;
    for it in &docs {
        output.answer(|| as_json::doc(it), || rows::doc(it))?;
    }
    Ok(())
}
