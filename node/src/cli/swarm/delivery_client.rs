//! One delivery, and the role that has to do with it: every call about it, for `tasuki delivery` and
//! `tasuki accept` alike.

use owo_colors::OwoColorize as _;
use tasuki_proto::{id::PersonId, wire};

use super::{Failure, labels::delivery_status};
use crate::cli::{labels::spaced, loops, role_args::RoleClient, text::line};

/// A delivery as one role has to do with it.
#[derive(Debug)]
pub(in crate::cli) struct DeliveryClient<'a> {
    pub(in crate::cli) acting: &'a RoleClient,
    pub(in crate::cli) delivery: String,
}

/// What is thought of a delivery.
#[derive(Debug)]
pub(in crate::cli) struct Verdict {
    pub(in crate::cli) is_approved: bool,
    pub(in crate::cli) feedback: String,
    pub(in crate::cli) refs: String,
    pub(in crate::cli) verification: wire::Verification,
    pub(in crate::cli) overriding: Option<wire::Override>,
}

/// A person's word against evidence that failed.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Overriding {
    /// Approve although evidence failed, for this reason; requires the `steer` right
    #[arg(long, visible_alias = "reason", value_name = "REASON", requires = "approve")]
    pub(in crate::cli) despite: Option<String>,
    /// Person who overrides the evidence [default: $USER, else the user's number]
    #[arg(long, visible_alias = "person", value_name = "NAME", requires = "despite")]
    by: Option<PersonId>,
}

impl Overriding {
    pub(in crate::cli) fn read(&self) -> Result<Option<wire::Override>, Failure> {
        let Some(reason) = self.despite.clone() else { return Ok(None) };
        let person = loops::person(self.by.clone())?.to_string();
        Ok(Some(wire::Override { person, reason }))
    }
}

impl DeliveryClient<'_> {
    pub(in crate::cli) async fn get(&self) -> Result<wire::DeliveryResponse, Failure> {
        let request = wire::GetDeliveryRequest {
            role: self.acting.role.clone(),
            delivery_id: self.delivery.clone(),
            ..Default::default()
        };
        self.acting.broker.call(&request).await
    }

    /// Claims it, or goes on with the claim that the role has.
    pub(in crate::cli) async fn claim(&self) -> Result<wire::DeliveryResponse, Failure> {
        let request = wire::ClaimDeliveryRequest {
            role: self.acting.role.clone(),
            delivery_id: self.delivery.clone(),
            for_ms: 0,
            ..Default::default()
        };
        self.acting.broker.call(&request).await
    }

    /// `for_ms` is from now; 0: as the settings say.
    pub(in crate::cli) async fn renew(
        &self,
        claim_token: u64,
        for_ms: u64,
    ) -> Result<wire::DeliveryResponse, Failure> {
        let request = wire::RenewDeliveryRequest {
            role: self.acting.role.clone(),
            delivery_id: self.delivery.clone(),
            claim_token,
            for_ms,
            ..Default::default()
        };
        self.acting.broker.call(&request).await
    }

    pub(in crate::cli) async fn attach(
        &self,
        claim_token: u64,
        evidence: wire::Evidence,
    ) -> Result<wire::DeliveryResponse, Failure> {
        let request = wire::AttachEvidenceRequest {
            role: self.acting.role.clone(),
            delivery_id: self.delivery.clone(),
            claim_token,
            evidence: Some(evidence),
            ..Default::default()
        };
        self.acting.broker.call(&request).await
    }

    pub(in crate::cli) async fn judge(
        &self,
        claim_token: u64,
        verdict: Verdict,
    ) -> Result<wire::DeliveryResponse, Failure> {
        let request = wire::ReviewDeliveryRequest {
            role: self.acting.role.clone(),
            delivery_id: self.delivery.clone(),
            claim_token,
            is_approved: verdict.is_approved,
            feedback: verdict.feedback,
            refs: verdict.refs,
            verification: Some(verdict.verification),
            r#override: verdict.overriding,
            ..Default::default()
        };
        self.acting.broker.call(&request).await
    }
}

/// What a verdict made of a delivery, in a sentence.
pub(in crate::cli) fn judged(of: &wire::Delivery) -> String {
    let by = of.overridden.as_ref().map(|it| {
        format!(", in spite of failed evidence, by {}: {}", line(&it.person), line(&it.reason))
    });
    let ended = Some(&of.ended_because).filter(|why| !why.is_empty());
    let ended = ended.map(|why| format!(" without a verdict: {}", line(why)));
    let status = spaced(&delivery_status(of.status()), " ");
    let how = by.or(ended).unwrap_or_default();
    format!("{} is {}{how}.", line(&of.delivery_id), status.bold())
}
