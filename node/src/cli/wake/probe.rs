//! `tasuki wake test`: a letter to a role, and how far it got in which time.

use std::time::Duration;

use serde_json::{Value, json};
use tasuki_broker::overview::every_role;
use tasuki_proto::{host::config::duration, id::RoleId, mail::MessageType, wire};
use tokio::time::sleep;

use super::status::{reports, way};
use crate::{
    cli::{Exit, Failure, Output, broker::Broker, mail_crypto::Asking, text::line},
    clock,
    config::Config,
    private::{Fresh, Sealer},
    wake::service::RoleReport,
};

/// Whom test letters are from. It is no agent: nobody answers there.
const SENDER: &str = "tasuki-wake";

/// Between two looks at how far the letter got.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How much longer than it is waited for the letter may be seen.
const LAPSES_AFTER: Duration = Duration::from_secs(60);

/// The longest wait.
const WITHIN_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Role to wake
    #[arg(value_name = "ROLE")]
    role: RoleId,
    /// How long to wait for it
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = within)]
    within: Duration,
    /// Send it as urgent mail
    #[arg(long)]
    urgent: bool,
}

fn within(text: &str) -> Result<Duration, String> {
    let within = duration(text)?;
    if within.is_zero() || WITHIN_MAX < within {
        return Err(format!("is {text:?}; it takes 1ms to {} s", WITHIN_MAX.as_secs()));
    }
    Ok(within)
}

/// How far the letter got, each with the milliseconds that it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reached {
    handed: Option<u64>,
    seen: Option<u64>,
}

pub(super) async fn run(args: &Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let sent = send(args, config, &broker).await?;
    output.note(&format!("Sent {} to {}; waiting until it is seen.", sent.message_id, args.role));
    let began = clock::now();
    let mut reached = Reached::default();
    while reached.seen.is_none() && clock::now().since(began) < args.within {
        sleep(LOOK_EVERY).await;
        reached = look(&broker, &args.role, &sent.message_id).await?;
    }
    let client = client(&broker, &args.role).await;
    // A role of another node's is told of without how it was woken.
    let here = reports(config).await.unwrap_or_default();
    let here = here.into_iter().find(|it| it.role == args.role.as_str());
    let text = sentence(args, reached, &client, here.as_ref());
    output.answer(
        || value(args, &sent.message_id, reached, &client, here.as_ref()),
        || format!("{text}\n"),
    )?;
    if reached.seen.is_some() { Ok(()) } else { Err(Failure::told(Exit::Nothing)) }
}

async fn send(
    args: &Args,
    config: &Config,
    broker: &Broker,
) -> Result<wire::SendResponse, Failure> {
    let kind = if args.urgent { MessageType::Urgent } else { MessageType::Info };
    let lapses = u64::try_from((args.within + LAPSES_AFTER).as_millis()).unwrap_or(u64::MAX);
    let request = wire::SendRequest {
        role: SENDER.to_owned(),
        to: vec![args.role.to_string()],
        r#type: kind.to_string(),
        subject: "Wake test".to_owned(),
        text: "This message tests whether you are woken. Resolve it; there is nothing else to do."
            .to_owned(),
        client_ref: format!("wake-{}", clock::wall_ms()),
        expires_in_ms: lapses,
        utc_offset_s: clock::utc_offset_s(),
        ..Default::default()
    };
    let asking = Asking::new(broker);
    let sealer = Sealer::new(&config.data.value, broker.workspace());
    let sealed = sealer.seal(&asking, request, Fresh::Always).await;
    broker.call(&sealed.map_err(|refusal| asking.failure(refusal))?).await
}

async fn look(broker: &Broker, role: &RoleId, message: &str) -> Result<Reached, Failure> {
    let request = wire::ReadThreadRequest {
        role: SENDER.to_owned(),
        message: message.to_owned(),
        from: 1,
        mark: wire::MailMark::None.into(),
        ..Default::default()
    };
    let read = broker.call(&request).await?;
    let receipt = read
        .entries
        .first()
        .and_then(|entry| entry.receipts.iter().find(|it| it.role == role.as_str()));
    Ok(receipt.map(reached).unwrap_or_default())
}

fn reached(receipt: &wire::MailReceipt) -> Reached {
    let took = |ms: u64| (ms != 0).then(|| ms.saturating_sub(receipt.stored_ms));
    let seen = if receipt.seen_ms == 0 { receipt.acted_ms } else { receipt.seen_ms };
    Reached { handed: took(receipt.handed_ms), seen: took(seen) }
}

/// The program that plays the role; empty: none does, or nobody says.
async fn client(broker: &Broker, role: &RoleId) -> String {
    let roles = every_role(broker).await.unwrap_or_default();
    let found = roles.into_iter().find(|it| it.role == role.as_str());
    found.map(|it| it.client).unwrap_or_default()
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", f64::from(u32::try_from(ms).unwrap_or(u32::MAX)) / 1000.0)
}

fn sentence(args: &Args, reached: Reached, client: &str, here: Option<&RoleReport>) -> String {
    let within = humantime::format_duration(args.within);
    let woken = here.and_then(|it| it.last.as_ref()).filter(|it| it.why.is_none());
    let woken = woken.map(|it| format!(", woken by {}", line(&it.by))).unwrap_or_default();
    let next = match here {
        None => format!(
            "Run `tasuki wake status {}` on the machine whose node hosts it; `tasuki status` shows \
             which that is.",
            args.role
        ),
        Some(it) => format!("How it is woken: {}.", way(it)),
    };
    match reached {
        Reached { seen: Some(ms), .. } => {
            let by = if client.is_empty() { "an agent".to_owned() } else { line(client) };
            format!("seen after {} by {by}{woken}", seconds(ms))
        }
        Reached { handed: Some(ms), .. } => {
            format!("handed after {}, not seen within {within}. {next}", seconds(ms))
        }
        Reached { handed: None, .. } => format!("not handed within {within}. {next}"),
    }
}

fn value(
    args: &Args,
    message: &str,
    reached: Reached,
    client: &str,
    here: Option<&RoleReport>,
) -> Value {
    json!({
        "role": args.role.as_str(), "message_id": message, "seen": reached.seen.is_some(),
        "handed_after_ms": reached.handed, "seen_after_ms": reached.seen, "client": client,
        "woken": here,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_letter_got_is_said_in_seconds() {
        let args =
            Args { role: "B".parse().unwrap(), within: Duration::from_secs(60), urgent: false };
        let receipt = |handed_ms, seen_ms, acted_ms| wire::MailReceipt {
            stored_ms: 1_000,
            handed_ms,
            seen_ms,
            acted_ms,
            ..Default::default()
        };
        for (receipt, expected) in [
            (receipt(2_000, 4_200, 0), "seen after 3.2 s by claude-code 2"),
            (receipt(2_000, 0, 1_900), "seen after 0.9 s by claude-code 2"),
            (receipt(1_800, 0, 0), "handed after 0.8 s, not seen within 1m. Run `tasuki wake"),
            (receipt(0, 0, 0), "not handed within 1m. Run `tasuki wake status B` on"),
        ] {
            let text = sentence(&args, reached(&receipt), "claude-code 2", None);
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
