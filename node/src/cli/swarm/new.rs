//! `tasuki swarm new`.

use std::fs::File;

use serde_json::json;
use tasuki_proto::wire;

use super::{
    Failure, Output, again,
    doc::content,
    json as as_json, known,
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
/// The lead is a role that the workspace knows, since nobody else would ever hear of what happens
/// to the issue.
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
    /// Open it though the workspace knows no such role
    #[arg(long)]
    new_role: bool,
    #[command(flatten)]
    pub(super) who: Who,
}

/// What is to be read first.
#[derive(Debug, clap::Args)]
pub(super) struct Docs {
    /// A document that all issues share, to be read first; repeat for each
    #[arg(long, value_name = "NAME")]
    pub(super) shared_doc: Vec<String>,
    /// A file of the project, to be read first; repeat for each
    #[arg(long, value_name = "PATH")]
    pub(super) project_doc: Vec<String>,
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
    let acting = args.who.acting(config)?;
    let mut words = Words::default();
    let description = words.read_if("--description", args.description.as_deref())?;
    let mut docs = Vec::new();
    for (name, path) in &args.doc {
        let file = File::open(path)
            .map_err(|why| Failure::usage(format!("--doc: {path} cannot be opened: {why}.")))?;
        let content = content("--doc", path, file)?;
        docs.push(wire::NewDoc { name: name.clone(), content });
    }
    let request = wire::CreateIssueRequest {
        caller: acting.broker.caller(),
        key: None,
        role: acting.role.clone(),
        subject: args.subject,
        description,
        shared_doc_paths: args.before.shared_doc,
        project_doc_paths: args.before.project_doc,
        docs,
    };
    if !args.new_role {
        known::check(&acting, config).await?;
    }
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
