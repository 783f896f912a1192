//! `tasuki swarm renew`.

use std::time::Duration;

use serde_json::json;
use tasuki_broker::config::duration;
use tasuki_proto::{limits::SWARM_LEASE_MS_MAX, wire};

use super::{
    Failure, Output,
    at::At,
    json as as_json,
    names::What,
    who::{Who, client},
    words::has_left,
};
use crate::{
    cli::text::{line, time},
    config::Config,
};

/// Hold a claim or a lock for longer, or keep an issue from lapsing.
///
/// The time counts from now. What would last longer anyway is not cut short.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which one
    #[arg(value_name = "ISSUE[/TASK]|DELIVERY|LOCK")]
    what: What,
    /// For how long [default: as the settings say]
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    lasts: Option<Duration>,
    /// The token of the claim or lock: refused if it is not the present one
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    token: u64,
    #[command(flatten)]
    pub(super) who: Who,
}

/// What a length of time is on the wire; 0 is as the settings say.
pub(super) fn asked_ms(lasts: Option<Duration>) -> u64 {
    lasts.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// A time for which something is held.
pub(super) fn lasting(text: &str) -> Result<Duration, String> {
    let lasts = duration(text)?;
    // What is over at once would be said to be had.
    if lasts.is_zero() {
        return Err(format!("is {text:?}; it takes a time that is not over at once, such as 2m"));
    }
    if Duration::from_millis(SWARM_LEASE_MS_MAX) < lasts {
        return Err(format!("is {text:?}; nothing is held for longer than 24h at a time"));
    }
    Ok(lasts)
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = args.who.acting(config).await?;
    let (caller, role, for_ms) =
        (acting.broker.caller(), acting.role.clone(), asked_ms(args.lasts));
    let (what, value, until_ms, now_ms) = match &args.what {
        What::Issue(issue) => {
            let issue_id = issue.find(&acting).await?;
            let request = wire::ExtendIssueRequest { caller, key: None, role, issue_id, for_ms };
            let done = acting
                .broker
                .tell(async |channel, key| {
                    let request = wire::ExtendIssueRequest { key: Some(key), ..request.clone() };
                    client(channel).extend_issue(request).await
                })
                .await?;
            let of = done.issue.unwrap_or_default();
            let value = json!({"issue": as_json::issue(&of), "sequence": done.sequence});
            (of.issue_id, value, of.lease_expires_ms, done.now_ms)
        }
        What::Task(task) => {
            let ids = task.find(&acting).await?;
            let (issue_id, task_id, claim_token) = (ids.issue, ids.task, args.token);
            let request = wire::RenewClaimRequest {
                caller,
                key: None,
                role,
                issue_id,
                task_id,
                claim_token,
                for_ms,
            };
            let done = acting
                .broker
                .tell(async |channel, key| {
                    let request = wire::RenewClaimRequest { key: Some(key), ..request.clone() };
                    client(channel).renew_claim(request).await
                })
                .await?;
            let of = done.task.unwrap_or_default();
            let value = json!({"task": as_json::task(&of), "sequence": done.sequence});
            let what = format!("{} of {}", of.task_id, of.issue_id);
            (what, value, of.lease_expires_ms, done.now_ms)
        }
        What::Delivery(id) => {
            let at = At { acting: &acting, delivery: id.to_string() };
            let done = at.renew(args.token, for_ms).await?;
            let of = done.delivery.unwrap_or_default();
            let value = json!({"delivery": as_json::delivery(&of), "sequence": done.sequence});
            (of.delivery_id, value, of.lease_expires_ms, done.now_ms)
        }
        What::Lock(id) => {
            let (lease_id, lock_token) = (id.to_string(), args.token);
            let request =
                wire::RenewLockRequest { caller, key: None, role, lease_id, lock_token, for_ms };
            let done = acting
                .broker
                .tell(async |channel, key| {
                    let request = wire::RenewLockRequest { key: Some(key), ..request.clone() };
                    client(channel).renew_lock(request).await
                })
                .await?;
            let of = done.lock.unwrap_or_default();
            let value = json!({"lock": as_json::lock(&of), "sequence": done.sequence});
            (of.lease_id, value, of.expires_ms, done.now_ms)
        }
    };
    output.answer(
        || as_json::at(value, now_ms),
        || match until_ms {
            0 => format!("{} does not lapse.\n", line(&what)),
            ms => {
                format!("{} is kept until {} ({}).\n", line(&what), time(ms), has_left(ms, now_ms))
            }
        },
    )
}
