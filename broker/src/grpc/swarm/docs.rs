//! Documents: shared ones, those of an issue, those of a task.

use tasuki_proto::{
    id::RoleId,
    limits::DOC_VERSIONS_MAX,
    swarm::{DocName, IssueId, TaskNumber},
    token::Right,
    wire,
};
use tonic::Status;

use super::{super::render::text, super::status::invalid, View, WorkspaceSession, id, parse};
use crate::rules::{
    Rejection,
    swarm::{self, CommandKind, Doc, DocPlace, Reply},
};

pub(super) async fn write(
    session: &WorkspaceSession,
    mut it: wire::WriteDocRequest,
) -> Result<wire::Doc, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let place = parse::place(it.place)?;
    let name: DocName = parse::named("name", &it.name)?;
    let content = parse::content(it.content)?;
    let size = content.len() as u64;
    // With `claim` alone one writes about the task that one has claimed.
    let as_claimant = !session.has_right(Right::Send);
    let ask = CommandKind::WriteDoc { place, name: name.clone(), content, as_claimant };
    let done = session.ask(role, Some(key), ask).await?;
    let Some(Reply::Doc { version }) = done.reply else {
        unreachable!("a document is written or refused")
    };
    let mut doc = session.doc(place, &name).await?;
    if doc.version != version {
        // A newer one was written meanwhile.
        doc = wire::Doc { version, size, place: doc.place, name: doc.name, ..wire::Doc::default() };
    }
    Ok(wire::Doc { repeated: done.is_repeat, ..doc })
}

pub(super) async fn read(
    session: &WorkspaceSession,
    it: wire::ReadDocRequest,
) -> Result<wire::Doc, Status> {
    let place = parse::place(it.place)?;
    let name: DocName = parse::named("name", &it.name)?;
    let newest = session.doc(place, &name).await?;
    let version = if it.version == 0 { newest.version } else { it.version };
    if newest.version < version || DOC_VERSIONS_MAX < version {
        let why = format!("{version} is not there; the newest is {}", newest.version);
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

pub(super) async fn list(
    session: &WorkspaceSession,
    it: wire::ListDocsRequest,
) -> Result<wire::ListDocsResponse, Status> {
    let place = parse::place(it.place)?;
    let look = move |view: &View<'_>| {
        let docs = view.workspace.swarm.docs(place)?;
        let docs = docs.by_name.iter().map(|(name, doc)| shown(place, name, doc)).collect();
        Ok(wire::ListDocsResponse { docs })
    };
    session.look_for(None, look).await
}

impl WorkspaceSession {
    /// The newest version of a document, without its words.
    async fn doc(&self, place: DocPlace, name: &DocName) -> Result<wire::Doc, Status> {
        let name = name.clone();
        let look = move |view: &View<'_>| {
            let docs: Result<_, swarm::Rejection> = view.workspace.swarm.docs(place);
            let doc = docs.and_then(|docs| docs.get(&name)).map_err(Rejection::Swarm)?;
            Ok(shown(place, &name, doc))
        };
        self.look_for(None, look).await
    }
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
