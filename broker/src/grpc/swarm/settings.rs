//! How long things last in a workspace, and what happened to an issue.

use tasuki_proto::{limits::SWARM_PAGE_MAX, wire};
use tonic::Status;

use super::{super::status::invalid, Actor, View, WorkspaceSession, id, parse, render};
use crate::rules::swarm::{CommandKind, Settings};

/// Entries of a history that are told at once, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

pub(super) async fn get(
    session: &WorkspaceSession,
    _: wire::GetSettingsRequest,
) -> Result<wire::SwarmSettings, Status> {
    session.look(|view: &View<'_>| render::settings(&view.workspace.swarm.settings)).await
}

pub(super) async fn set(
    session: &WorkspaceSession,
    mut it: wire::SetSettingsRequest,
) -> Result<wire::SwarmSettings, Status> {
    let key = session.key(it.key.take(), &it)?;
    let person = id("person", &it.person)?;
    let it = it.settings.ok_or_else(|| invalid("settings", &"are required, all of them"))?;
    let settings = Settings {
        issue_ttl_ms: it.issue_ttl_ms,
        task_claim_ms: it.task_claim_ms,
        delivery_claim_ms: it.delivery_claim_ms,
        reservation_ms: it.reservation_ms,
        lock_ms: it.lock_ms,
        heartbeat_ms: it.heartbeat_ms,
        item_again_ms: it.item_again_ms,
        max_task_count: it.max_task_count,
    };
    session.ask_as(Actor::Person(person), Some(key), CommandKind::SetSettings(settings)).await?;
    get(session, wire::GetSettingsRequest::default()).await
}

pub(super) async fn history(
    session: &WorkspaceSession,
    it: wire::GetHistoryRequest,
) -> Result<wire::GetHistoryResponse, Status> {
    use prost::Message as _;
    let issue = parse::named("issue_id", &it.issue_id)?;
    let limit = if it.limit == 0 { SWARM_PAGE_MAX } else { it.limit.min(SWARM_PAGE_MAX) };
    let look = move |view: &View<'_>| Ok(view.workspace.swarm.issue(issue)?.audit);
    let total = session.look_for(None, look).await?;
    let (first, last) = (it.after.saturating_add(1), it.after.saturating_add(limit.into()));
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for number in first..=last.min(total) {
        let entry = session.audited(issue, number)?;
        let entry = match entry.recalled {
            Some(_) => render::history_entry(entry),
            None => {
                let refs = session.refs(&entry)?;
                wire::HistoryEntry { refs, ..render::history_entry(entry) }
            }
        };
        bytes += entry.encoded_len();
        if PAGE_BYTES_MAX < bytes && !entries.is_empty() {
            break;
        }
        entries.push(entry);
    }
    Ok(wire::GetHistoryResponse { entries, total })
}
