//! `tasuki mail search`.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    id::RoleId,
    limits::{HITS, HITS_MAX},
    mail::{BoxKind, MessageType},
    visible::is_visible,
    wire,
};

use super::{Failure, Output, json as as_json, kinds, mail_client::MailboxArgs, places, show};
use crate::{
    cli::text::{ended, line, time},
    clock,
    config::Config,
    mail_terms::moment_ms,
};

/// Find entries by their words, in the threads that a role takes part in.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A query is words, \"phrases\" and -words that must not be there; subject: body: type: from: to:
before one looks only there. --since and --until take a time such as 2026-11-21 or
2026-11-21T20:42:00Z, or how long ago, such as 2h.")]
pub struct Args {
    /// Query
    #[arg(value_name = "QUERY", required = true, allow_hyphen_values = true)]
    query: String,
    /// Only in this box
    #[arg(long = "box", value_name = "BOX", value_parser = places(), ignore_case = true)]
    place: Option<BoxKind>,
    /// Only entries of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = kinds(), ignore_case = true)]
    kind: Option<MessageType>,
    /// Only entries from this role
    #[arg(long, value_name = "ROLE")]
    from: Option<RoleId>,
    /// Only entries since this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<u64>,
    /// Only entries until this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<u64>,
    /// Most hits to show
    #[arg(long, value_name = "COUNT", default_value_t = HITS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(HITS_MAX)))]
    limit: u32,
    #[command(flatten)]
    mailbox: MailboxArgs,
}

/// Milliseconds since the Unix epoch.
fn moment(text: &str) -> Result<u64, String> {
    moment_ms(text, clock::wall_ms(), &clock::zone()).ok_or_else(|| {
        format!("is {text:?}; it takes a time such as 2026-11-21, or how long ago, such as 2h")
    })
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let mail = args.mailbox.known_client(config).await?;
    let request = wire::SearchMailRequest {
        role: mail.role.to_string(),
        query: args.query.clone(),
        r#box: args.place.map_or(wire::Box::Unspecified, BoxKind::to_wire).into(),
        r#type: args.kind.map(|it| it.to_string()).unwrap_or_default(),
        sender: args.from.as_ref().map(ToString::to_string).unwrap_or_default(),
        since_ms: args.since.unwrap_or(0),
        until_ms: args.until.unwrap_or(0),
        limit: args.limit,
        // All that there is by now.
        include_sequence: u64::MAX,
        ..Default::default()
    };
    let found = if mail.has_sealed().await? {
        mail.search_sealed(&request).await?
    } else {
        mail.broker.call(&request).await?
    };
    output.answer(
        || {
            json!({
                "hits": found.hits.iter().map(as_json::hit).collect::<Vec<_>>(),
                "total": found.total,
                "through_sequence": found.through_sequence,
                "left_out": found.left_out,
            })
        },
        || {
            let mut out: String = match found.hits.as_slice() {
                [] => "Nothing was found.\n".to_owned(),
                hits => hits.iter().map(hit).collect(),
            };
            if (found.hits.len() as u64) < found.total {
                out += &format!("{} of {} are shown.\n", found.hits.len(), found.total);
            }
            if !found.left_out.is_empty() {
                out += &format!("{}\n", line(&found.left_out));
            }
            out
        },
    )
}

fn hit(of: &wire::MailHit) -> String {
    let thread = of.thread.clone().unwrap_or_default();
    let (id, number) = (show::short_id(&thread.message_id), format!("#{}", of.entry));
    let (kind, sender) = (line(&of.r#type), line(&of.sender));
    let (id, kind, when) = (id.bold(), kind.green(), time(of.at_ms));
    let head = format!("{id} {number} {kind} {sender} {} ", when.dimmed());
    // The excerpt stays whole: what was looked for may be at its end.
    let excerpt = highlighted(&of.excerpt, &of.highlights);
    format!("{}    {excerpt}\n", ended(&head, &thread.subject))
}

/// The excerpt in one line, with what matched set off. Offsets that fit no text are passed over.
fn highlighted(text: &str, highlights: &[u32]) -> String {
    let mut out = String::new();
    let mut done = 0;
    for pair in highlights.chunks_exact(2) {
        let (from, to) = (pair[0] as usize, pair[1] as usize);
        let Some(found) = text.get(from..to).filter(|_| done <= from && from < to) else {
            continue;
        };
        out += &harmless(text.get(done..from).unwrap_or_default());
        out += &harmless(found).bold().yellow().to_string();
        done = to;
    }
    out + &harmless(text.get(done..).unwrap_or_default())
}

/// One line; its ends stay, since others follow.
fn harmless(piece: &str) -> String {
    let flat = piece.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    flat.filter(|c| is_visible(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matched_is_set_off_and_nothing_steers() {
        let bold = |text: &str| text.bold().yellow().to_string();
        let text = "a \u{1b}[2Jfox\nor ä";
        assert_eq!(highlighted(text, &[6, 9]), format!("a [2J{} or ä", bold("fox")));
        // Overlapping, backwards, beyond the end, inside of a character, half a pair.
        for odd in
            [&[6_u32, 9, 7, 8][..], &[6, 9, 9, 6], &[6, 9, 90, 99], &[6, 9, 14, 99], &[6, 9, 1]]
        {
            assert_eq!(highlighted(text, odd), format!("a [2J{} or ä", bold("fox")), "{odd:?}");
        }
    }
}
