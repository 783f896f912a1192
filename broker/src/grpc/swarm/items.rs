//! What a lead is to look at.

use tasuki_proto::{id::RoleId, limits::SWARM_PAGE_MAX, swarm::IssueId, wire};

use super::{
    super::{parse::check_count, render::text},
    Answer, Endpoint, Later, Rejection, View, WorkspaceSession, default_response, deliveries,
    messages, parse, reviews,
};
use crate::rules::swarm::{CommandKind, Item, ItemKind, MessageKind};

impl Endpoint for wire::MarkItemsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let issue = parse::named("issue_id", &self.issue_id)?;
        check_count("numbers", self.numbers.len(), 0..=SWARM_PAGE_MAX as usize)?;
        session.ask(CommandKind::MarkItems { issue, items: self.numbers }, default_response).await
    }
}

/// An item with all that it is about, as `asker` may see it.
pub(super) fn with_words(
    view: &View<'_>,
    issue: IssueId,
    number: u64,
    item: &Item,
    asker: &RoleId,
) -> Result<Later<wire::Item>, Rejection> {
    let swarm = &view.workspace.swarm;
    let about: Later<wire::Item> = match item.kind {
        ItemKind::Submission(task, submission) => {
            let (state, _, found) = swarm.submission(submission)?;
            let found = reviews::with_words(state, found, Some(asker));
            Box::new(move |session| {
                let (kind, task_id) = ("submission".to_owned(), task.to_string());
                let submission = found(session)?;
                let (sender, submission) = (submission.worker.clone(), Some(submission));
                Ok(wire::Item { kind, task_id, sender, submission, ..Default::default() })
            })
        }
        ItemKind::Message(task, message) => {
            let (state, of, found) = swarm.message(message)?;
            let found = messages::with_words(state.id, of, found);
            Box::new(move |session| {
                let message = found(session)?;
                let kind = match MessageKind::parse(&message.kind) {
                    Some(kind) if kind.is_blocking() => message.kind.clone(),
                    Some(_) | None => "note".to_owned(),
                };
                let (sender, task_id) = (message.sender.clone(), task.to_string());
                let message = Some(message);
                Ok(wire::Item { kind, task_id, sender, message, ..Default::default() })
            })
        }
        ItemKind::DeliveryReviewed(delivery) => {
            let found = deliveries::with_words(view, delivery, Some(asker))?;
            Box::new(move |session| {
                let delivery = found(session)?;
                let kind = "delivery_result".to_owned();
                let (sender, delivery) = (delivery.reviewed_by.clone(), Some(delivery));
                Ok(wire::Item { kind, sender, delivery, ..Default::default() })
            })
        }
        ItemKind::ClaimLapsed(task) => Box::new(move |session| {
            let (kind, task_id) = ("task_lapsed".to_owned(), task.to_string());
            let sender = text(session.audited(issue, number)?.worker.as_ref());
            Ok(wire::Item { kind, task_id, sender, ..Default::default() })
        }),
    };
    Ok(Box::new(move |session| {
        let at_ms = session.audited(issue, number)?.at.as_millis();
        Ok(wire::Item { number, at_ms, ..about(session)? })
    }))
}
