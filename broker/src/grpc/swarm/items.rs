//! What a lead is to look at.

use tasuki_proto::{id::RoleId, limits::SWARM_PAGE_MAX, swarm::IssueId, wire};
use tonic::Status;

use super::{
    super::status::invalid,
    View, WorkspaceSession, id, parse,
    render::{self, Submitted},
};
use crate::rules::swarm::{CommandKind, Item, ItemKind, MessageKind};

pub(super) async fn mark(
    session: &WorkspaceSession,
    it: wire::MarkItemsRequest,
) -> Result<wire::MarkItemsResponse, Status> {
    let role: RoleId = id("role", &it.role)?;
    let issue = parse::named("issue_id", &it.issue_id)?;
    if (SWARM_PAGE_MAX as usize) < it.numbers.len() {
        let why = format!("are {}; at most {SWARM_PAGE_MAX} are possible", it.numbers.len());
        return Err(invalid("numbers", &why));
    }
    session.ask(role, None, CommandKind::MarkItems { issue, items: it.numbers }).await?;
    Ok(wire::MarkItemsResponse {})
}

impl WorkspaceSession {
    /// An item with all that it is about.
    pub(super) async fn item(
        &self,
        issue: IssueId,
        number: u64,
        item: &Item,
        asker: &RoleId,
    ) -> Result<wire::Item, Status> {
        let entry = self.audited(issue, number)?;
        let mut shown = wire::Item { number, at_ms: entry.at.as_millis(), ..wire::Item::default() };
        match item.kind {
            ItemKind::Submission(task, submission) => {
                let asker = asker.clone();
                let look = move |view: &View<'_>| {
                    let (state, _, found) = view.workspace.swarm.submission(submission)?;
                    let shown = render::submission(state, found, Some(&asker));
                    Ok((shown, Submitted::of(found)))
                };
                let (mut found, submitted) = self.look_for(None, look).await?;
                self.add_submission_words(&mut found, issue, submitted)?;
                shown.kind = "submission".to_owned();
                shown.task_id = task.to_string();
                shown.sender.clone_from(&found.worker);
                shown.submission = Some(found);
            }
            ItemKind::Message(task, message) => {
                let (found, _) = self.message(message).await?;
                shown.kind = match MessageKind::parse(&found.kind) {
                    Some(kind) if kind.is_blocking() => found.kind.clone(),
                    Some(_) | None => "note".to_owned(),
                };
                shown.task_id = task.to_string();
                shown.sender.clone_from(&found.sender);
                shown.message = Some(found);
            }
            ItemKind::DeliveryReviewed(delivery) => {
                let found = self.delivery(Some(asker.clone()), delivery).await?.0;
                shown.kind = "delivery_result".to_owned();
                shown.sender.clone_from(&found.reviewed_by);
                shown.delivery = Some(found);
            }
            ItemKind::ClaimLapsed(task) => {
                shown.kind = "task_lapsed".to_owned();
                shown.task_id = task.to_string();
                shown.sender = entry.worker.map_or_else(String::new, |it| it.to_string());
            }
        }
        Ok(shown)
    }
}
