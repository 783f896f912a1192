//! `tasuki issue create`.

use std::fs::File;

use tasuki_proto::{swarm::DocName, wire};

use super::report_issue;
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        role_args::RoleArgs,
        swarm::{Failure, Output, doc::content, files},
        titles::id_tail,
    },
    config::Config,
};

/// Create an issue; the role that creates it is its lead.
///
/// The lead must be a role that the workspace knows: it is the one that is told what happens to the
/// issue.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Subject, one line
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// What the issue asks for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Document of the issue, read from a file; repeatable
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    doc: Vec<(String, String)>,
    #[command(flatten)]
    before: Docs,
    #[command(flatten)]
    role: RoleArgs,
}

/// Documents to read before work on an issue begins.
#[derive(Debug, clap::Args)]
pub(super) struct Docs {
    /// Document of the workspace to read first; repeatable
    #[arg(long, value_name = "NAME", value_parser = doc_name)]
    pub(super) shared_doc: Vec<String>,
    /// File of the project to read first, relative to this directory; repeatable
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
    let acting = args.role.client(config).await?;
    let mut words = TextArgs::default();
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
        role: acting.role.clone(),
        subject: args.subject,
        description,
        shared_doc_paths: args.before.shared_doc,
        project_doc_paths,
        docs,
        ..Default::default()
    };
    let done = acting.broker.call(&request).await?;
    report_issue(&done, "is open", output)?;
    let short = id_tail(&done.issue.unwrap_or_default().issue_id);
    output.guide(|| {
        format!("For short: {short}. Next: tasuki task create {short} SUBJECT --acceptance TEXT\n")
    })
}
