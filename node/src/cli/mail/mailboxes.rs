//! `tasuki mail mailboxes`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::wire;

use super::{Failure, Output};
use crate::{
    cli::{
        broker::Broker,
        text::{column, line},
    },
    config::{Config, duration_text},
};

/// Show the mailboxes of the workspace, with counts by box.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(_: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let request = wire::ListMailboxesRequest::default();
    let all = broker.call(&request).await?.mailboxes;
    output.answer(
        || json!({"mailboxes": all}),
        || match all.as_slice() {
            [] => "There is no mailbox yet; the first mail makes some.\n".to_owned(),
            all => head() + &all.iter().map(row).collect::<String>(),
        },
    )
}

fn head() -> String {
    let text = format!(
        "{:<20} {:>6} {:>6} {:>6} {:>6} {:>6} {:>5}  NODE",
        "ROLE", "UNSEEN", "INBOX", "OUTBOX", "DONE", "CANCEL", "DEAD"
    );
    format!("{}\n", text.dimmed())
}

fn row(of: &wire::MailboxState) -> String {
    let node = match (of.node.as_str(), of.quiet_ms) {
        ("", _) => "no node".to_owned(),
        (node, None | Some(0..1000)) => line(node),
        (node, Some(ms)) => {
            let quiet = std::time::Duration::from_secs(ms / 1000);
            format!("{}, quiet for {}", line(node), duration_text(quiet))
        }
    };
    let closed = if of.is_closed { ", closed" } else { "" };
    let role = column(&of.role, 20);
    format!(
        "{} {:>6} {:>6} {:>6} {:>6} {:>6} {:>5}  {node}{closed}\n",
        role.bold(),
        of.unseen,
        of.inbox,
        of.outbox,
        of.done,
        of.cancel,
        of.dead
    )
}
