//! What a command would do: which noun decides it, and what is decided in a line or two.

use tasuki_proto::{
    limits::{LASTING_MS_MAX, SWARM_LEASE_MS_MAX},
    swarm::IssueId,
};

use super::{
    Command, CommandKind, Event, Rejection, Reply, Settings, Swarm, check::DecisionBuilder,
};
use crate::rules::{Asked, Body, Decision};

impl Swarm {
    /// Says what `it` would do at `now`. Changes nothing.
    ///
    /// # Errors
    /// A [`Rejection`] says why it would do nothing.
    pub(in crate::rules) fn decide(
        &self,
        Asked { now, caller, .. }: Asked<'_>,
        it: &Command,
    ) -> Result<Decision, crate::rules::Rejection> {
        let mut draft = DecisionBuilder::new(now, &it.by, self);
        let reply = self.decide_ask(&mut draft, &it.ask)?;
        let DecisionBuilder { mut events, bodies, is_repeat, .. } = draft;
        let audit = self.number(now, caller, Some(&it.by), &mut events);
        let reply = reply.map_or(crate::rules::Reply::Done, Into::into);
        let bodies = bodies.into_iter().chain(audit).map(Body::Swarm).collect();
        Ok(Decision { bodies, is_repeat, ..Decision::new(events, reply) })
    }

    fn decide_ask(
        &self,
        draft: &mut DecisionBuilder<'_>,
        ask: &CommandKind,
    ) -> Result<Option<Reply>, Rejection> {
        let reply = match ask {
            CommandKind::CreateIssue(it) => self.decide_create_issue(draft, it)?,
            CommandKind::SetDocPaths { issue, paths, replaces } => {
                self.decide_paths(draft, *issue, paths, *replaces)?
            }
            CommandKind::CloseIssue { issue, reason } => {
                self.decide_close(draft, *issue, reason)?
            }
            CommandKind::ReopenIssue { issue, reason } => {
                self.decide_reopen(draft, *issue, reason)?
            }
            CommandKind::ExtendIssue { issue, extend_ms } => {
                self.decide_extend(draft, *issue, *extend_ms)?
            }
            CommandKind::CreateTasks(it) => self.decide_create_tasks(draft, it)?,
            CommandKind::ClaimTask { issue, task, next_step } => {
                self.decide_claim(draft, *issue, *task, *next_step)?
            }
            CommandKind::RenewClaim { issue, task, token, extend_ms } => {
                self.decide_renew_claim(draft, *issue, *task, *token, *extend_ms)?
            }
            CommandKind::SubmitTask(it) => self.decide_submit(draft, it)?,
            CommandKind::MintNextStep(it) => self.decide_mint(draft, it)?,
            CommandKind::ReviewTask(it) => self.decide_review(draft, it)?,
            CommandKind::PostMessage(it) => self.decide_message(draft, it)?,
            CommandKind::ReplyMessage(it) => self.decide_reply(draft, it)?,
            CommandKind::SubmitDelivery { issue, words } => {
                self.decide_deliver(draft, *issue, words)?
            }
            CommandKind::ClaimDelivery { delivery, extend_ms } => {
                self.decide_claim_delivery(draft, *delivery, *extend_ms)?
            }
            CommandKind::RenewDelivery { delivery, token, extend_ms } => {
                self.decide_renew_delivery(draft, *delivery, *token, *extend_ms)?
            }
            CommandKind::AttachEvidence { delivery, token, words } => {
                self.decide_evidence(draft, *delivery, *token, words)?
            }
            CommandKind::ReviewDelivery(it) => self.decide_verdict(draft, it)?,
            CommandKind::WriteDoc { place, name, content, as_claimant } => {
                self.decide_doc(draft, *place, (name, content), *as_claimant)?
            }
            CommandKind::LockFiles(it) => self.decide_lock(draft, it)?,
            CommandKind::RenewLock { lock, token, extend_ms } => {
                self.decide_renew_lock(draft, *lock, *token, *extend_ms)?
            }
            CommandKind::Unlock { lock, token } => {
                self.decide_unlock(draft, *lock, *token)?;
                return Ok(None);
            }
            CommandKind::ForceUnlock { lock, reason } => {
                self.decide_force_unlock(draft, *lock, reason)?;
                return Ok(None);
            }
            CommandKind::ResetTask { issue, task, reason } => {
                self.decide_reset(draft, *issue, *task, reason)?;
                return Ok(None);
            }
            CommandKind::CancelTask { issue, task, reason } => {
                self.decide_cancel(draft, *issue, *task, reason)?;
                return Ok(None);
            }
            CommandKind::MarkItems { issue, items } => {
                self.decide_items(draft, *issue, items)?;
                return Ok(None);
            }
            CommandKind::RegisterWorker => {
                self.decide_worker(draft)?;
                return Ok(None);
            }
            CommandKind::ImportIssue(it) => self.decide_import(draft, it)?,
            CommandKind::ImportShared { docs, workers } => {
                self.decide_import_shared(draft, docs, workers)?;
                return Ok(None);
            }
            CommandKind::SetSettings(it) => {
                self.decide_settings(draft, it)?;
                return Ok(None);
            }
        };
        Ok(Some(reply))
    }

    fn decide_items(
        &self,
        draft: &mut DecisionBuilder<'_>,
        issue: IssueId,
        items: &[u64],
    ) -> Result<(), Rejection> {
        let there = &self.issue(issue)?.items;
        let mut items: Vec<u64> =
            items.iter().copied().filter(|it| there.contains_key(it)).collect();
        items.sort_unstable();
        items.dedup();
        if !items.is_empty() {
            draft.push(Event::ItemsHanded { issue, items });
        }
        Ok(())
    }

    fn decide_settings(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &Settings,
    ) -> Result<(), Rejection> {
        it.check()?;
        if *it == self.settings {
            draft.is_repeat = true;
        } else {
            draft.push(Event::SettingsSet(it.clone()));
        }
        Ok(())
    }
}

impl Settings {
    /// The shortest lease, in milliseconds: what lapses sooner than a renewal can arrive is no
    /// lease.
    const LEASE_MS_MIN: u64 = 1000;

    fn check(&self) -> Result<(), Rejection> {
        let leases = [
            ("task_claim_ms", self.task_claim_ms),
            ("delivery_claim_ms", self.delivery_claim_ms),
            ("reservation_ms", self.reservation_ms),
            ("lock_ms", self.lock_ms),
            ("heartbeat_ms", self.heartbeat_ms),
            ("item_again_ms", self.item_again_ms),
        ];
        let range = Self::LEASE_MS_MIN..=SWARM_LEASE_MS_MAX;
        if let Some((name, ms)) = leases.into_iter().find(|(_, ms)| !range.contains(ms)) {
            let text = format!("{name} is {ms}; it is from 1 s to 24 h, nothing was set");
            return Err(Rejection::Invalid(text));
        }
        let lasting = Self::LEASE_MS_MIN..=LASTING_MS_MAX;
        if self.issue_ttl_ms != 0 && !lasting.contains(&self.issue_ttl_ms) {
            let text = "issue_ttl_ms is 0 for ever, or from 1 s to 100 years; nothing was set";
            return Err(Rejection::Invalid(text.to_owned()));
        }
        Ok(())
    }
}
