//! `tasuki settings`.

use std::time::Duration;

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{host::config::duration, id::PersonId, wire};

use super::{Failure, Output};
use crate::{
    cli::{broker::Broker, loops},
    config::{Config, duration_text},
};

/// Show or change the lease lengths and limits of a workspace.
///
/// Changing them requires the `steer` right. Leases granted before keep their length; a shorter
/// issue-ttl applies to an open issue from the next change to it.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example: tasuki settings task-claim 2h issue-ttl never")]
pub struct Args {
    /// Settings to change, each with its new value
    #[arg(value_name = "NAME VALUE", num_args = 2..)]
    changes: Vec<String>,
    /// Person who changes them [default: $USER, else the user's number]
    #[arg(long, value_name = "NAME")]
    by: Option<PersonId>,
}

/// A time of the settings.
struct Length {
    name: &'static str,
    /// What 0 means, where it means something.
    never: Option<&'static str>,
    what: &'static str,
    of: fn(&mut wire::SwarmSettings) -> &mut u64,
}

/// Of a workspace; the number of tasks aside.
const LENGTHS: [Length; 7] = [
    Length {
        name: "issue-ttl",
        never: Some("never"),
        what: "time until an idle issue expires",
        of: |it| &mut it.issue_ttl_ms,
    },
    Length {
        name: "task-claim",
        never: None,
        what: "lease of a worker's claim of a task",
        of: |it| &mut it.task_claim_ms,
    },
    Length {
        name: "delivery-claim",
        never: None,
        what: "lease of an acceptor's claim of a delivery",
        of: |it| &mut it.delivery_claim_ms,
    },
    Length {
        name: "reservation",
        never: None,
        what: "lease of a worker's reserved next task",
        of: |it| &mut it.reservation_ms,
    },
    Length { name: "lock", never: None, what: "lease of a lock", of: |it| &mut it.lock_ms },
    Length {
        name: "heartbeat",
        never: None,
        what: "longest time between a node's signs of life",
        of: |it| &mut it.heartbeat_ms,
    },
    Length {
        name: "item-again",
        never: None,
        what: "time until a lead is notified again of an unhandled item",
        of: |it| &mut it.item_again_ms,
    },
];

/// The one setting that is a number.
const COUNT: &str = "max-task-count";

/// What it says where there is no bound but the broker's.
const NO_COUNT: &str = "none";

pub(in crate::cli) async fn run(
    args: Args,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let request = wire::GetSettingsRequest::default();
    let mut settings = broker.call(&request).await?;
    if !args.changes.is_empty() {
        change(&mut settings, &args.changes)
            .map_err(|why| Failure::usage(format!("{why} No setting was changed.")))?;
        let request = wire::SetSettingsRequest {
            person: loops::person(args.by)?.to_string(),
            settings: Some(settings),
            ..Default::default()
        };
        settings = broker.call(&request).await?;
    }
    output.answer(|| json!(settings), || shown(&settings))
}

fn change(settings: &mut wire::SwarmSettings, changes: &[String]) -> Result<(), String> {
    for pair in changes.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} has no value; give NAME VALUE.", pair[0]));
        };
        let wrong = |why: &str| format!("{name} {why}.");
        if name == COUNT {
            settings.max_task_count = match value.as_str() {
                NO_COUNT => 0,
                number => number.parse().map_err(|_| wrong("takes a number, or none"))?,
            };
            continue;
        }
        let Some(it) = LENGTHS.iter().find(|it| it.name == name) else {
            let names: Vec<&str> = LENGTHS.iter().map(|it| it.name).chain([COUNT]).collect();
            return Err(format!("No setting is called {name:?}; there are {}.", names.join(", ")));
        };
        let lasts = match it.never {
            Some(never) if value == never => Duration::ZERO,
            _ => duration(value).map_err(|why| wrong(&why))?,
        };
        if lasts.is_zero() && it.never.is_none() {
            return Err(wrong("is 0, with which nothing would ever be had"));
        }
        *(it.of)(settings) = u64::try_from(lasts.as_millis()).map_err(|_| wrong("is too long"))?;
    }
    Ok(())
}

fn shown(settings: &wire::SwarmSettings) -> String {
    let mut settings = *settings;
    let row = |name: &str, value: &str, what: &str| {
        format!("{} {value:<8} {}\n", format!("{name:<15}").bold(), what.dimmed())
    };
    let mut out = String::new();
    for it in &LENGTHS {
        let value = match (*(it.of)(&mut settings), it.never) {
            (0, Some(never)) => never.to_owned(),
            (ms, _) => duration_text(Duration::from_millis(ms)),
        };
        out += &row(it.name, &value, it.what);
    }
    let count = match settings.max_task_count {
        0 => NO_COUNT.to_owned(),
        count => count.to_string(),
    };
    out + &row(COUNT, &count, "most tasks of an issue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_said_and_read_in_the_same_words() {
        let mut settings = wire::SwarmSettings { lock_ms: 1, ..Default::default() };
        let line = "issue-ttl never task-claim 2h delivery-claim 90m reservation 120 lock 5m \
                    heartbeat 30s item-again 1d max-task-count 7";
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        change(&mut settings, &words).unwrap();
        let told: Vec<String> = anstream::adapter::strip_str(&shown(&settings))
            .to_string()
            .lines()
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            told.join(" "),
            "issue-ttl never task-claim 2h delivery-claim 90m reservation 2m lock 5m heartbeat \
             30s item-again 1d max-task-count 7"
        );
        let mut said = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            change(&mut settings, &words).unwrap_err()
        };
        assert_eq!(said("lock"), "lock has no value; give NAME VALUE.");
        assert!(
            said("locks 5m").starts_with("No setting is called \"locks\"; there are issue-ttl")
        );
        assert_eq!(said("lock 0"), "lock is 0, with which nothing would ever be had.");
        assert_eq!(said("max-task-count x"), "max-task-count takes a number, or none.");
        assert!(said("lock soon").contains("it takes a duration"));
    }
}
