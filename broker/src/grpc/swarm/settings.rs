//! How long things last in a workspace, and what happened to an issue.

use prost::Message as _;
use tasuki_proto::{limits::SWARM_PAGE_MAX, swarm::IssueId, wire};

use super::{
    super::{parse::limit, status::invalid},
    Actor, Answer, Endpoint, View, WorkspaceSession, at_once, id, parse, render,
};
use crate::rules::swarm::{CommandKind, Settings};

/// Entries of a history that are told at once, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

impl Endpoint for wire::GetSettingsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        session.query(None, |view| Ok(render::settings(&view.workspace.swarm.settings))).await
    }
}

impl Endpoint for wire::SetSettingsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let person = Actor::Person(id("person", &self.person)?);
        let it = self.settings.ok_or_else(|| invalid("settings", &"are required, all of them"))?;
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
        let render =
            |view: &View<'_>, _| Ok(at_once(render::settings(&view.workspace.swarm.settings)));
        session.ask_as(person, CommandKind::SetSettings(settings), render).await
    }
}

impl Endpoint for wire::GetHistoryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue: IssueId = parse::named("issue_id", &self.issue_id)?;
        let limit = limit(self.limit, SWARM_PAGE_MAX, SWARM_PAGE_MAX) as u64;
        let total = session.query(None, move |view| Ok(view.workspace.swarm.issue(issue)?.audit));
        let total = total.await?;
        let (first, last) = (self.after.saturating_add(1), self.after.saturating_add(limit));
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for number in first..=last.min(total) {
            let entry = session.audited(issue, number)?;
            let refs = session.refs(&entry)?;
            let entry = render::history_entry(entry, refs);
            bytes += entry.encoded_len();
            if PAGE_BYTES_MAX < bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(wire::GetHistoryResponse { entries, total })
    }
}
