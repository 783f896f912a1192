//! Deliveries: an issue's finished work before the acceptors.

use prost::Message as _;
use tasuki_proto::{
    id::{RoleId, Sequence},
    swarm::{DeliveryId, IssueId},
    wire,
};
use tonic::Status;

use super::{
    super::parse::text,
    super::scan::{Page, Part, SKIPPED_MAX},
    View, WorkspaceSession, id, optional, parse, render, token,
};
use crate::rules::swarm::{
    Attached, CommandKind, Delivery, DeliveryState, Reply, ReviewDelivery, Verdict,
    words::{EvidenceWords, VerdictWords},
};

/// Evidence that is told with a delivery, in bytes; of what is beyond only the outcome is told.
const EVIDENCE_BYTES_MAX: usize = 1024 * 1024;

pub(super) async fn submit(
    session: &WorkspaceSession,
    mut it: wire::SubmitDeliveryRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let issue = parse::named("issue_id", &it.issue_id)?;
    let words = Box::new(parse::delivery(it)?);
    let ask = CommandKind::SubmitDelivery { issue, words };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    let Some(Reply::Delivered(delivery)) = done.reply else {
        unreachable!("an issue is delivered or refused")
    };
    session.delivery_response(Some(role), delivery, done.is_repeat, done.sequence).await
}

pub(super) async fn claim(
    session: &WorkspaceSession,
    mut it: wire::ClaimDeliveryRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    let ask = CommandKind::ClaimDelivery { delivery, extend_ms: parse::lease(it.for_ms)? };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.delivery_response(Some(role), delivery, done.is_repeat, done.sequence).await
}

pub(super) async fn renew(
    session: &WorkspaceSession,
    mut it: wire::RenewDeliveryRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    let ask = CommandKind::RenewDelivery { delivery, token, extend_ms: parse::lease(it.for_ms)? };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.delivery_response(Some(role), delivery, done.is_repeat, done.sequence).await
}

pub(super) async fn attach(
    session: &WorkspaceSession,
    mut it: wire::AttachEvidenceRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    let words = EvidenceWords {
        role: Some(role.clone()),
        node: session.node().cloned(),
        ..parse::evidence(it.evidence)?
    };
    let ask = CommandKind::AttachEvidence { delivery, token, words };
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.delivery_response(Some(role), delivery, done.is_repeat, done.sequence).await
}

pub(super) async fn review(
    session: &WorkspaceSession,
    mut it: wire::ReviewDeliveryRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    let review = ReviewDelivery {
        delivery,
        token,
        verdict: if it.is_approved { Verdict::Approved } else { Verdict::Rejected },
        words: VerdictWords {
            feedback: text("feedback", it.feedback)?,
            refs: parse::refs(it.refs)?,
            verification: parse::verification(it.verification)?,
        },
        overridden: parse::overridden(it.r#override)?,
    };
    let done = session.ask(role.clone(), Some(key), CommandKind::ReviewDelivery(review)).await?;
    session.delivery_response(Some(role), delivery, done.is_repeat, done.sequence).await
}

pub(super) async fn get(
    session: &WorkspaceSession,
    it: wire::GetDeliveryRequest,
) -> Result<wire::DeliveryResponse, Status> {
    let asker = optional("role", &it.role)?;
    let delivery = parse::named("delivery_id", &it.delivery_id)?;
    if let Some(role) = &asker {
        // Its token is told.
        session.look_as(role, |_| Ok(())).await?;
    }
    session.delivery_response(asker, delivery, false, Sequence::default()).await
}

pub(super) async fn list(
    session: &WorkspaceSession,
    it: wire::ListDeliveriesRequest,
) -> Result<wire::ListDeliveriesResponse, Status> {
    let asker: Option<RoleId> = optional("role", &it.role)?;
    let (limit, offset) = (parse::limit(it.limit), it.offset as usize);
    let state = match it.status() {
        wire::DeliveryStatus::Unspecified => None,
        wire::DeliveryStatus::Open => Some(DeliveryState::Open),
        wire::DeliveryStatus::InReview => Some(DeliveryState::InReview),
        wire::DeliveryStatus::Approved => Some(DeliveryState::Approved),
        wire::DeliveryStatus::Rejected => Some(DeliveryState::Rejected),
    };
    let issue: Option<IssueId> = parse::maybe("issue_id", &it.issue_id)?;
    let delivered_by: Option<RoleId> = optional("delivered_by", &it.delivered_by)?;
    let reviewed_by: Option<RoleId> = optional("reviewed_by", &it.reviewed_by)?;
    let claimed_by: Option<RoleId> = optional("claimed_by", &it.claimed_by)?;
    let shown_to = asker.clone();
    let is_plain = issue.is_none()
        && offset <= SKIPPED_MAX
        && [&delivered_by, &reviewed_by, &claimed_by].into_iter().all(Option::is_none);
    if is_plain {
        // A page costs what is before its end.
        let look = move |view: &View<'_>| {
            let swarm = &view.workspace.swarm;
            let page = swarm.list_deliveries(state, None).skip(offset).take(limit);
            let total = match state {
                Some(state) => swarm.count_deliveries(state),
                None => swarm.deliveries().len(),
            };
            Ok(wire::ListDeliveriesResponse {
                deliveries: page.map(|it| render::delivery(it, shown_to.as_ref())).collect(),
                total: total as u64,
                now_ms: view.now.as_millis(),
            })
        };
        return session.look_for(asker.as_ref(), look).await;
    }
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
    let (ids, total) = session.page(Page::new(false, limit, offset), part).await?;
    let look = move |view: &View<'_>| {
        let all = view.workspace.swarm.deliveries();
        let page = ids.iter().filter_map(|id| all.get(id));
        let deliveries = page.map(|it| render::delivery(it, shown_to.as_ref())).collect();
        Ok(wire::ListDeliveriesResponse { deliveries, total, now_ms: view.now.as_millis() })
    };
    session.look_for(asker.as_ref(), look).await
}

impl WorkspaceSession {
    async fn delivery_response(
        &self,
        asker: Option<RoleId>,
        id: DeliveryId,
        repeated: bool,
        sequence: Sequence,
    ) -> Result<wire::DeliveryResponse, Status> {
        let (delivery, now_ms, seen) = self.delivery(asker, id).await?;
        let sequence = if sequence == Sequence::default() { seen } else { sequence }.get();
        Ok(wire::DeliveryResponse { delivery: Some(delivery), repeated, sequence, now_ms })
    }

    /// A delivery with all that was said of it, as `asker`, whom somebody looked at before, may
    /// see it.
    pub(super) async fn delivery(
        &self,
        asker: Option<RoleId>,
        id: DeliveryId,
    ) -> Result<(wire::Delivery, u64, Sequence), Status> {
        let look = move |view: &View<'_>| {
            let it = view.workspace.swarm.delivery(id)?;
            let seen = (view.now.as_millis(), view.workspace.sequence);
            let evidence: Vec<Attached> = it.evidence.clone();
            let has_verdict = it.verdict.is_some();
            Ok((render::delivery(it, asker.as_ref()), it.issue, evidence, has_verdict, seen))
        };
        let (mut shown, issue, evidence, has_verdict, (now_ms, sequence)) =
            self.look_for(None, look).await?;
        render::delivered(&mut shown, self.delivery_words(issue, id)?);
        if has_verdict {
            render::judged(&mut shown, self.verdict_words(issue, id)?);
        }
        let mut bytes = 0;
        for (number, attached) in (1..).zip(evidence) {
            let words = self.evidence_words(issue, id, number)?;
            let mut told = render::evidence(words, attached.is_passed, attached.at);
            bytes += told.encoded_len();
            if EVIDENCE_BYTES_MAX < bytes {
                told.commands.clear();
            }
            shown.evidence.push(told);
        }
        Ok((shown, now_ms, sequence))
    }
}
