//! `tasuki import swarm`.
//!
//! **Invariant:** an issue is taken over whole, in one call, as it was read once: what is at the
//! broker is not sent again, and another reading of it is not mixed into it. Documents that the call
//! has no room for follow, as far as they are not there. So the command may be killed and run again
//! at any time.

mod fields;
mod files;
mod fit;
mod history;
mod issue;
mod names;
mod report;
mod submissions;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tasuki_proto::{
    host::progress::{Progress, Unit},
    id::PersonId,
    limits::DOCS_MAX,
    reason::Reason,
    wire,
};

use self::{fields::Fields, files::Reading, issue::ReadIssue, names::Names, report::Report};
use super::{
    super::{
        broker::Broker,
        keys::{self, Alone},
        loops,
    },
    Failure, Output,
    roles::Renaming,
};
use crate::{
    clock,
    dir::{Dir, Kind},
};

/// Where the original keeps its files below a home, unless told otherwise.
const FOLDER: &str = ".swarm-mcp";

/// Words of the documents of one call, in bytes.
const CALL_BYTES_MAX: usize = 1536 * 1024;

/// Import issues, tasks, deliveries and documents from Swarm MCP.
///
/// DIR is its directory of files (`SWARM_MCP_ROOT`), or one with a `.swarm-mcp` in it. Issues keep
/// their ids and times; their log becomes the document `history`, their workers become roles.
/// Claims, locks and next steps are not imported: a claimed task is open again, and a question
/// without a reply is over. The files stay as they are. Files that cannot be read are listed with
/// the reason, and make the exit code 5; run it again at any time: an issue that was imported is
/// not sent again, and one that changed since is reported and left as it is.
///
/// Requires the `steer` right.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of Swarm MCP's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Give a worker's role another name; repeatable
    #[arg(long = "role", value_name = "OLD=NEW")]
    roles: Vec<Renaming>,
    /// Read the files and report what would be imported; calls no broker
    #[arg(long)]
    dry_run: bool,
    /// Person who imports them [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

pub(super) async fn run(args: Args, broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let root = root(&args.directory)?;
    let mut reading = Reading::new(root.clone());
    let mut names = Names::new(args.roles, clock::wall_ms());
    let root = root.path();
    let mut report = Report::new(args.dry_run);
    let workers = workers(root, &mut names, &mut reading);
    let docs = issue::docs(&root.join("docs").join("shared"), DOCS_MAX, &mut reading);
    let deliveries = reading.objects(&root.join("deliveries"));
    (report.workers, report.shared_docs) = (workers.len(), docs.len());
    let mut sender = match args.dry_run {
        true => None,
        false => Some(Sender {
            broker,
            keys: keys::alone()?,
            person: loops::person(args.by)?.to_string(),
        }),
    };
    if let Some(sender) = &mut sender {
        sender.shared(docs, workers, &mut report).await?;
    }
    // One issue at a time: some are as large as the machine's patience.
    let folders = reading.names(&root.join("issues"));
    let progress = Progress::start("importing issues", Unit::Items, output.is_json());
    progress.set_total(folders.len() as u64);
    for folder in folders {
        progress.advance(1);
        let folder = root.join("issues").join(folder);
        let read = issue::read(&folder, &deliveries, &mut names, &mut reading);
        let Some(read) = read else { continue };
        report.add(&read);
        if let Some(sender) = &mut sender {
            let id = read.id().to_owned();
            let outcome = sender.issue(read).await;
            report.count(id, outcome)?;
        }
    }
    progress.finish();
    report.merged = names.merged();
    report.changed = names.changed;
    report.skipped = reading.skipped;
    output.answer(|| json!(report), || report.to_string())?;
    report.failure().map_or(Ok(()), Err)
}

/// Where the issues are. What a person named may be a link; what is in there belongs to whoever made
/// the directory.
fn root(directory: &Path) -> Result<Dir, Failure> {
    let has_issues = |dir: &Dir| dir.kind("issues") == Some(Kind::Directory);
    let named = Dir::open(directory).map_err(|why| {
        Failure::usage(format!("{} cannot be opened: {why}.", directory.display()))
    })?;
    if has_issues(&named) {
        return Ok(named);
    }
    if matches!(named.kind(FOLDER), Some(Kind::Directory | Kind::Link)) {
        let inner = named.enter(FOLDER).map_err(|why| {
            Failure::usage(format!("{why}, or name the directory with the issues itself."))
        })?;
        if has_issues(&inner) {
            return Ok(inner);
        }
    }
    Err(Failure::usage(format!(
        "{} has no issues: say which directory holds `issues/`, `deliveries/` and `workers/`.",
        directory.display()
    )))
}

fn workers(root: &Path, names: &mut Names, reading: &mut Reading) -> Vec<String> {
    let role = |(stem, json): (String, Value)| {
        let id = Fields(&json).text(&["id"]);
        names.role(if id.is_empty() { &stem } else { &id })
    };
    reading.objects(&root.join("workers")).into_iter().map(role).collect()
}

/// What became of an issue.
#[derive(Debug)]
enum Outcome {
    New,
    Known,
    /// Another reading of it is there, or it was opened there.
    Differs,
    Refused(Failure),
}

struct Sender<'a> {
    broker: &'a Broker,
    keys: Alone,
    person: String,
}

impl Sender<'_> {
    /// Shared documents that the broker has not, and workers.
    async fn shared(
        &self,
        docs: Vec<(String, String)>,
        mut workers: Vec<String>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let mut missing: Vec<wire::NewDoc> = Vec::new();
        for (name, content) in docs {
            let request = wire::ReadDocRequest { name: name.clone(), ..Default::default() };
            let known = self.broker.call(&request);
            match known.await {
                Ok(known) if known.content == content => {}
                Ok(_) => report.other_docs.push(name),
                Err(why) if why.as_reason() == Some(Reason::UnknownDoc) => {
                    missing.push(wire::NewDoc { name, content });
                }
                Err(why) => return Err(why),
            }
        }
        while !missing.is_empty() || !workers.is_empty() {
            let mut bytes = 0;
            let fits = |it: &&wire::NewDoc| {
                bytes += it.content.len();
                bytes <= CALL_BYTES_MAX
            };
            let count = missing.iter().take_while(fits).count();
            let request = wire::ImportSharedRequest {
                person: self.person.clone(),
                docs: missing.drain(..count).collect(),
                workers: std::mem::take(&mut workers),
                ..Default::default()
            };
            self.broker.call_under(self.keys.next(), &request).await?;
        }
        Ok(())
    }

    async fn issue(&self, read: ReadIssue) -> Outcome {
        match self.try_issue(read).await {
            Ok(outcome) => outcome,
            Err(why) if why.as_reason() == Some(Reason::IssueExists) => Outcome::Differs,
            Err(why) => Outcome::Refused(why),
        }
    }

    async fn try_issue(&self, read: ReadIssue) -> Result<Outcome, Failure> {
        let issue_id = read.id().to_owned();
        let place = Some(wire::DocPlace { issue_id, ..Default::default() });
        let ReadIssue { request, later, history, .. } = read;
        // As it was when it was imported, whoever wrote another version since.
        let known =
            wire::ReadDocRequest { place, name: history.name, version: 1, ..Default::default() };
        match self.broker.call(&known).await {
            Ok(known) if known.content.lines().next() == Some(history.head.as_str()) => {
                self.later_docs(later).await?;
                return Ok(Outcome::Known);
            }
            Ok(_) => return Ok(Outcome::Differs),
            Err(why) if why.as_reason() == Some(Reason::UnknownDoc) => return Ok(Outcome::Differs),
            Err(why) if why.as_reason() == Some(Reason::UnknownIssue) => {}
            Err(why) => return Err(why),
        }
        let request = wire::ImportIssueRequest { person: self.person.clone(), ..request };
        self.broker.call_under(self.keys.next(), &request).await?;
        self.later_docs(later).await?;
        Ok(Outcome::New)
    }

    /// Documents of an issue that its call had no room for, as far as they are not there.
    async fn later_docs(&self, mut missing: Vec<wire::Doc>) -> Result<(), Failure> {
        let places = missing.iter().filter_map(|it| it.place.clone());
        let places: BTreeMap<String, wire::DocPlace> =
            places.map(|it| (it.task_id.clone(), it)).collect();
        // Of a task, or of the issue.
        let mut known: BTreeSet<(String, String)> = BTreeSet::new();
        for (task_id, place) in places {
            let list = wire::ListDocsRequest { place: Some(place), ..Default::default() };
            let docs = self.broker.call(&list).await?.docs;
            known.extend(docs.into_iter().map(|it| (task_id.clone(), it.name)));
        }
        missing.retain(|it| {
            let task_id = it.place.as_ref().map_or_else(String::new, |it| it.task_id.clone());
            !known.contains(&(task_id, it.name.clone()))
        });
        while !missing.is_empty() {
            let mut bytes = 0;
            let fits = |it: &&wire::Doc| {
                bytes += it.content.len();
                bytes <= CALL_BYTES_MAX
            };
            let count = missing.iter().take(DOCS_MAX).take_while(fits).count();
            let request = wire::ImportSharedRequest {
                person: self.person.clone(),
                issue_docs: missing.drain(..count).collect(),
                ..Default::default()
            };
            self.broker.call_under(self.keys.next(), &request).await?;
        }
        Ok(())
    }
}
