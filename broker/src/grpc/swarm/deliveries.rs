//! Deliveries: an issue's finished work before the acceptors.

use prost::Message as _;
use tasuki_proto::{
    id::RoleId,
    swarm::{DeliveryId, IssueId},
    wire,
};
use tonic::Status;

use super::{
    super::parse::text,
    super::scan::{Page, Part, SKIPPED_MAX},
    Answer, Endpoint, Later, Rejection, View, WorkspaceSession, optional, parse, render,
    states::Named,
};
use crate::rules::swarm::{
    CommandKind, Delivery, DeliveryState, Reply, ReviewDelivery, Verdict,
    words::{EvidenceWords, VerdictWords},
};

/// Evidence that is told with a delivery, in bytes; of what is beyond only the outcome is told.
const EVIDENCE_BYTES_MAX: usize = 1024 * 1024;

impl Endpoint for wire::SubmitDeliveryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let issue = parse::named("issue_id", &self.issue_id)?;
        let words = Box::new(parse::delivery(self)?);
        let render = move |view: &View<'_>, reply: Option<Reply>| {
            let Some(Reply::Delivered(delivery)) = reply else {
                unreachable!("an issue is delivered or refused")
            };
            response(view, delivery, Some(&role))
        };
        session.ask(CommandKind::SubmitDelivery { issue, words }, render).await
    }
}

impl Endpoint for wire::ClaimDeliveryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let delivery = parse::named("delivery_id", &self.delivery_id)?;
        let extend_ms = parse::lease(self.for_ms)?;
        let claim = CommandKind::ClaimDelivery { delivery, extend_ms };
        ask(session, delivery, claim).await
    }
}

impl Endpoint for wire::RenewDeliveryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let delivery = parse::named("delivery_id", &self.delivery_id)?;
        let (token, extend_ms) = (self.claim_token.into(), parse::lease(self.for_ms)?);
        let renew = CommandKind::RenewDelivery { delivery, token, extend_ms };
        ask(session, delivery, renew).await
    }
}

impl Endpoint for wire::AttachEvidenceRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let delivery = parse::named("delivery_id", &self.delivery_id)?;
        let words = EvidenceWords {
            role: Some(session.role()?),
            node: session.node().cloned(),
            ..parse::evidence(self.evidence)?
        };
        let token = self.claim_token.into();
        let attach = CommandKind::AttachEvidence { delivery, token, words };
        ask(session, delivery, attach).await
    }
}

impl Endpoint for wire::ReviewDeliveryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let delivery = parse::named("delivery_id", &self.delivery_id)?;
        let review = ReviewDelivery {
            delivery,
            token: self.claim_token.into(),
            verdict: if self.is_approved { Verdict::Approved } else { Verdict::Rejected },
            words: VerdictWords {
                feedback: text("feedback", self.feedback)?,
                refs: parse::refs(self.refs)?,
                verification: parse::verification(self.verification)?,
            },
            overridden: parse::overridden(self.r#override)?,
        };
        let review = CommandKind::ReviewDelivery(review);
        ask(session, delivery, review).await
    }
}

impl Endpoint for wire::GetDeliveryRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let delivery = parse::named("delivery_id", &self.delivery_id)?;
        let shown_to = asker.clone();
        session.show(asker.as_ref(), move |view| response(view, delivery, shown_to.as_ref())).await
    }
}

impl Endpoint for wire::ListDeliveriesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let asker = session.asker.clone();
        let (limit, offset) = (parse::limit(self.limit), self.offset as usize);
        let state = DeliveryState::of_wire(self.status());
        let issue: Option<IssueId> = parse::maybe("issue_id", &self.issue_id)?;
        let delivered_by: Option<RoleId> = optional("delivered_by", &self.delivered_by)?;
        let reviewed_by: Option<RoleId> = optional("reviewed_by", &self.reviewed_by)?;
        let claimed_by: Option<RoleId> = optional("claimed_by", &self.claimed_by)?;
        let is_plain = issue.is_none()
            && offset <= SKIPPED_MAX
            && [&delivered_by, &reviewed_by, &claimed_by].into_iter().all(Option::is_none);
        let first = move |view: &View<'_>| {
            let swarm = &view.workspace.swarm;
            let page = swarm.list_deliveries(state, None).skip(offset).take(limit);
            let total = match state {
                Some(state) => swarm.count_deliveries(state),
                None => swarm.deliveries().len(),
            };
            Ok(is_plain.then(|| (page.map(|it| it.id).collect(), total as u64)))
        };
        let part = move |view: &View<'_>, before: Option<DeliveryId>| {
            let fits = |it: &Delivery| {
                let reviewer = it.verdict.as_ref().and_then(|it| it.by.as_ref());
                let fits = issue.is_none_or(|issue| issue == it.issue)
                    && (delivered_by.is_none() || delivered_by == it.role)
                    && (reviewed_by.is_none() || reviewed_by.as_ref() == reviewer)
                    && (claimed_by.is_none()
                        || claimed_by.as_ref() == it.claim.as_ref().map(|it| &it.role));
                fits.then_some(((), it.id))
            };
            let all = view.workspace.swarm.list_deliveries(state, before);
            Ok(Part::of(all, usize::MAX, |it| (it.id, 1), fits))
        };
        let shown_to = asker.clone();
        let render = move |view: &View<'_>, ids: Vec<DeliveryId>| {
            let all = view.workspace.swarm.deliveries();
            let page = ids.iter().filter_map(|id| all.get(id));
            Ok(page.map(|it| render::delivery(it, shown_to.as_ref())).collect())
        };
        let page = Page::new(false, limit, offset);
        let listed = session.list(asker.as_ref(), page, first, part, render).await?;
        let (deliveries, total, now_ms) = listed;
        Ok(wire::ListDeliveriesResponse { deliveries, total, now_ms })
    }
}

/// Executes what a role asks about a delivery.
async fn ask(
    session: &WorkspaceSession,
    delivery: DeliveryId,
    ask: CommandKind,
) -> Result<wire::DeliveryResponse, Status> {
    let role = session.role()?;
    session.ask(ask, move |view, _| response(view, delivery, Some(&role))).await
}

/// The answer of a call about a delivery, as `asker` may see it.
fn response(
    view: &View<'_>,
    id: DeliveryId,
    asker: Option<&RoleId>,
) -> Result<Later<wire::DeliveryResponse>, Rejection> {
    let delivery = with_words(view, id, asker)?;
    Ok(Box::new(move |session| {
        Ok(wire::DeliveryResponse { delivery: Some(delivery(session)?), ..Default::default() })
    }))
}

/// A delivery with all that was said of it.
pub(super) fn with_words(
    view: &View<'_>,
    id: DeliveryId,
    asker: Option<&RoleId>,
) -> Result<Later<wire::Delivery>, Rejection> {
    let it = view.workspace.swarm.delivery(id)?;
    let mut shown = render::delivery(it, asker);
    let (issue, evidence, has_verdict) = (it.issue, it.evidence.clone(), it.verdict.is_some());
    Ok(Box::new(move |session| {
        render::delivered(&mut shown, *session.delivery_words(issue, id)?);
        if has_verdict {
            render::judged(&mut shown, session.verdict_words(issue, id)?);
        }
        let mut bytes = 0;
        for (number, attached) in (1..).zip(evidence) {
            let words = session.evidence_words(issue, id, number)?;
            let mut told = render::evidence(words, attached.is_passed, attached.at);
            bytes += told.encoded_len();
            if EVIDENCE_BYTES_MAX < bytes {
                told.commands.clear();
            }
            shown.evidence.push(told);
        }
        Ok(shown)
    }))
}
