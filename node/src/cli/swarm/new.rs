//! `tasuki swarm new`.

use std::fs::File;

use serde_json::json;
use tasuki_proto::{swarm::DocName, wire};

use super::{
    Failure, Output, again,
    doc::content,
    files, json as as_json,
    who::{Who, client},
};
use crate::{
    cli::{
        loops::words::{HELP, Words},
        text::line,
    },
    config::Config,
};

/// Open an issue; whoever opens it is its lead.
///
/// The lead is a role that the workspace knows: nobody else would ever hear of what happens to the
/// issue.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// What it is about, in a line
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// What is wanted
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// A document of the issue, read from a file; repeat for each
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    doc: Vec<(String, String)>,
    #[command(flatten)]
    before: Docs,
    #[command(flatten)]
    pub(super) who: Who,
}

/// What is to be read first.
#[derive(Debug, clap::Args)]
pub(super) struct Docs {
    /// A document that all issues share, to be read first; repeat for each
    #[arg(long, value_name = "NAME", value_parser = doc_name)]
    pub(super) shared_doc: Vec<String>,
    /// A file of the project, to be read first, relative to the directory; repeat for each
    #[arg(long, value_name = "PATH")]
    project_doc: Vec<String>,
}

impl Docs {
    /// The files, as they are called from the root of the repository.
    pub(super) fn of_project(&self) -> Result<Vec<String>, Failure> {
        files::from_root(&self.project_doc)
    }
}

/// As it was typed: `plan` and `plan.md` are names of one document.
fn doc_name(text: &str) -> Result<String, String> {
    text.parse::<DocName>().map(|_| text.to_owned()).map_err(|why| why.to_string())
}

fn named_file(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.to_owned()))
        }
        _ => Err("a document is given as NAME=FILE".to_owned()),
    }
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let mut words = Words::default();
    let description = words.read_if("--description", args.description.as_deref())?;
    let mut docs = Vec::new();
    for (name, path) in &args.doc {
        let file = File::open(path)
            .map_err(|why| Failure::usage(format!("--doc: {path} cannot be opened: {why}.")))?;
        let content = content("--doc", path, file)?;
        docs.push(wire::NewDoc { name: name.clone(), content });
    }
    let project_doc_paths = args.before.of_project()?;
    let request = wire::CreateIssueRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        subject: args.subject,
        description,
        shared_doc_paths: args.before.shared_doc,
        project_doc_paths,
        docs,
    };
    let done = acting
        .broker
        .tell(async |channel, key| {
            let request = wire::CreateIssueRequest { key: Some(key), ..request.clone() };
            client(channel).create_issue(request).await
        })
        .await?;
    told(&done, "is open", output)
}

/// What an issue came to.
pub(super) fn told(
    done: &wire::IssueResponse,
    how: &str,
    output: &mut Output,
) -> Result<(), Failure> {
    let of = done.issue.clone().unwrap_or_default();
    output.answer(
        || {
            json!({
                "issue": as_json::issue(&of),
                "repeated": done.repeated,
                "sequence": done.sequence,
            })
        },
        || {
            let (id, subject) = (line(&of.issue_id), line(&of.subject));
            format!("{id} {how}: {subject}.{}\n", again(done.repeated))
        },
    )
}
