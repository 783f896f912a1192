//! Documents: shared ones, those of an issue, those of a task.

use tasuki_proto::{
    limits::DOC_VERSIONS_MAX,
    swarm::{DocName, IssueId, TaskNumber},
    token::Right,
    wire,
};

use super::{
    super::{render::text, status::invalid},
    Answer, Endpoint, Rejection, View, WorkspaceSession, at_once, parse,
};
use crate::rules::swarm::{CommandKind, Doc, DocPlace, Reply};

impl Endpoint for wire::WriteDocRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let place = parse::place(self.place)?;
        let name: DocName = parse::named("name", &self.name)?;
        let content = parse::content(self.content)?;
        let size = content.len() as u64;
        // With `claim` alone one writes about the task that one has claimed.
        let as_claimant = !session.has_right(Right::Send);
        let write = CommandKind::WriteDoc { place, name: name.clone(), content, as_claimant };
        let render = move |view: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::Doc { version }) = reply else {
                unreachable!("a document is written or refused")
            };
            let doc = newest(view, place, &name)?;
            Ok(at_once(match doc.version == version {
                true => doc,
                // A newer one was written since.
                false => {
                    let (place, name) = (doc.place, doc.name);
                    wire::Doc { version, size, place, name, ..Default::default() }
                }
            }))
        };
        session.ask(write, render).await
    }
}

impl Endpoint for wire::ReadDocRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let place = parse::place(self.place)?;
        let name: DocName = parse::named("name", &self.name)?;
        let wanted = name.clone();
        let found = session.query(None, move |view| {
            let oldest = view.workspace.swarm.docs(place)?.get(&wanted)?.oldest();
            Ok((newest(view, place, &wanted)?, oldest))
        });
        let (newest, oldest) = found.await?;
        let version = if self.version == 0 { newest.version } else { self.version };
        if newest.version < version || DOC_VERSIONS_MAX < version {
            let why = format!("{version} is not there; the newest is {}", newest.version);
            return Err(invalid("version", &why));
        }
        if version < oldest {
            let why = format!("{version} was removed by a compaction; the oldest is {oldest}");
            return Err(invalid("version", &why));
        }
        let (content, at, by) = session.doc_words(place, name, version)?;
        if version == newest.version {
            return Ok(wire::Doc { content, ..newest });
        }
        let size = content.len() as u64;
        let (written_ms, written_by) = (at.as_millis(), text(by.as_ref()));
        Ok(wire::Doc { version, size, content, written_ms, written_by, ..newest })
    }
}

impl Endpoint for wire::ListDocsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let place = parse::place(self.place)?;
        let list = move |view: &View<'_>| {
            let docs = view.workspace.swarm.docs(place)?.by_name.iter();
            let docs = docs.map(|(name, doc)| shown(place, name, doc)).collect();
            Ok(wire::ListDocsResponse { docs })
        };
        session.query(None, list).await
    }
}

/// The newest version of a document, without its words.
fn newest(view: &View<'_>, place: DocPlace, name: &DocName) -> Result<wire::Doc, Rejection> {
    Ok(shown(place, name, view.workspace.swarm.docs(place)?.get(name)?))
}

fn shown(place: DocPlace, name: &DocName, doc: &Doc) -> wire::Doc {
    let (issue, task): (Option<IssueId>, Option<TaskNumber>) = match place {
        DocPlace::Shared => (None, None),
        DocPlace::Issue(issue) => (Some(issue), None),
        DocPlace::Task(issue, task) => (Some(issue), Some(task)),
    };
    let (issue_id, task_id) = (text(issue.as_ref()), text(task.as_ref()));
    wire::Doc {
        place: Some(wire::DocPlace { issue_id, task_id }),
        name: name.to_string(),
        version: doc.version,
        size: doc.bytes.into(),
        written_ms: doc.at.as_millis(),
        written_by: text(doc.by.as_ref()),
        content: String::new(),
        repeated: false,
    }
}
