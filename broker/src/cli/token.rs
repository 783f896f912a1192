//! `tasuki-broker token`: what was let in, and ending it.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use tasuki_proto::{
    host::admin::random_secret,
    id::TokenId,
    reason::Reason,
    token::{Secret, Token},
    wire,
};

use super::{
    administer::{Administer, Answer, Broker, No},
    scope::{
        ScopeArgs, in_json, in_words, ms, short_validity, time, time_in_json, validity, visible,
    },
    table::table,
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List tokens: what each may do, since when, until when, when it was last used
    List(Administer),
    /// Revoke a token; its connections end within a second
    Revoke {
        /// Id, as `token list` shows it
        #[arg(value_name = "ID")]
        id: TokenId,
        #[command(flatten)]
        administer: Administer,
    },
    /// Rotate the secret of a token and print the new token; its rights stay
    ///
    /// The old secret stays valid until the new one is used, at most for the overlap. The new token
    /// is printed once and stored nowhere.
    Rotate {
        /// Id, as `token list` shows it
        #[arg(value_name = "ID")]
        id: TokenId,
        /// How long the old secret stays valid, at most 30d [default: 10m]
        #[arg(long, value_name = "DURATION", value_parser = short_validity)]
        overlap: Option<Duration>,
        #[command(flatten)]
        administer: Administer,
    },
    /// Create a token without an invitation, for gRPC clients, and print it
    ///
    /// It is printed once and stored nowhere. Calls carry it in their metadata, as
    /// `authorization: Bearer TOKEN`.
    New {
        #[command(flatten)]
        scope: ScopeArgs,
        /// How long it is valid [default: until revoked]
        #[arg(long, value_name = "DURATION", value_parser = validity)]
        expires: Option<Duration>,
        /// Label in lists, such as whose it is
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        label: String,
        #[command(flatten)]
        administer: Administer,
    },
}

pub(super) fn run(command: Command) -> u8 {
    match command {
        Command::List(administer) => administer.ask(list),
        Command::Revoke { id, administer } => {
            administer.ask(async |broker| revoke(broker, id).await)
        }
        Command::Rotate { id, overlap, administer } => {
            administer.ask(async |broker| rotate(broker, id, ms(overlap)).await)
        }
        Command::New { scope, expires, label, administer } => administer.ask(async |broker| {
            let scope = scope.scope()?;
            new(broker, scope, ms(expires), label).await
        }),
    }
}

async fn list(broker: Broker) -> Result<Answer, No> {
    let request = wire::ListTokensRequest {};
    let listed = broker.call(async |mut it| it.list_tokens(request).await).await?;
    let value: Vec<Value> = listed.tokens.iter().map(value).collect();
    let rows: Vec<_> = listed.tokens.iter().map(row).collect();
    let lines = table(["TOKEN", "STATE", "USED", "MAY ACT AS", "LABEL"], &rows);
    Ok(Answer { value: json!({ "tokens": value }), lines, notes: String::new() })
}

async fn revoke(broker: Broker, id: TokenId) -> Result<Answer, No> {
    let request = wire::RevokeTokenRequest { token_id: id.to_string() };
    let is_own = id == broker.token.id;
    match broker.call(async |mut it| it.revoke_token(request).await).await {
        Ok(_) => {}
        // It ended before it could be told so.
        Err(no) if is_own && no.is(Reason::Unauthenticated) => {}
        Err(no) => return Err(no),
    }
    let notes = if is_own {
        "It is the token that these commands use: started again, the broker makes another."
    } else {
        ""
    };
    Ok(Answer {
        value: json!({ "revoked": id.as_str() }),
        lines: format!("{id} is revoked; what was connected with it ends within a second."),
        notes: notes.to_owned(),
    })
}

async fn rotate(mut broker: Broker, id: TokenId, overlap_ms: u64) -> Result<Answer, No> {
    let new = Token { id: id.clone(), secret: random()? };
    let is_own = id == broker.token.id;
    if is_own {
        // On disk before the broker hears of it; whichever of the two is good is used.
        broker.file.token = broker.token.expose();
        broker.file.next_token = Some(new.expose());
        keep(&broker)?;
    }
    let request = wire::RotateTokenRequest {
        token_id: id.to_string(),
        secret: new.secret.hash().as_bytes().to_vec(),
        overlap_ms,
    };
    let rotated = broker.call(async |mut it| it.rotate_token(request).await).await?;
    let until = time(rotated.old_until_ms);
    if is_own {
        broker.file.token = new.expose();
        broker.file.next_token = None;
        keep(&broker)?;
        return Ok(Answer {
            value: json!({
                "token_id": id.as_str(), "token": null, "old_until_ms": rotated.old_until_ms,
            }),
            lines: format!(
                "{id} has another secret, which is in admin.json. The old one is good until the \
                 new one is used, {until} at the latest."
            ),
            notes: String::new(),
        });
    }
    Ok(Answer {
        value: json!({
            "token_id": id.as_str(), "token": new.expose(), "old_until_ms": rotated.old_until_ms,
        }),
        lines: new.expose(),
        notes: format!(
            "This is shown once. On the node, run `tasuki broker-token set` and paste it; it reads \
             its standard input, and a running node goes on by itself. The old secret is good until \
             the new one is used, {until} at the latest."
        ),
    })
}

async fn new(
    broker: Broker,
    scope: wire::Scope,
    valid_ms: u64,
    label: String,
) -> Result<Answer, No> {
    let secret = random()?;
    let request = wire::IssueTokenRequest {
        secret: secret.hash().as_bytes().to_vec(),
        scope: Some(scope.clone()),
        valid_ms,
        label,
    };
    let issued = broker.call(async |mut it| it.issue_token(request).await).await?;
    let odd = |_| No::unavailable("The broker's answer names no token.");
    let token = Token { id: issued.token_id.parse().map_err(odd)?, secret };
    let until = match issued.expires_ms {
        0 => "until it is revoked".to_owned(),
        ms => format!("until {}", time(ms)),
    };
    Ok(Answer {
        value: json!({
            "token_id": token.id.as_str(),
            "token": token.expose(),
            "scope": in_json(Some(&scope)),
            "expires_ms": time_in_json(issued.expires_ms),
        }),
        lines: token.expose(),
        notes: format!(
            "This is shown once. Good for {}, {until}. Calls carry it as `authorization: Bearer \
             TOKEN`.",
            in_words(&scope)
        ),
    })
}

fn random() -> Result<Secret, No> {
    random_secret()
        .map_err(|why| No::unavailable(format!("The system's random source failed: {why}.")))
}

fn keep(broker: &Broker) -> Result<(), No> {
    let written = broker.file.write(&broker.directory);
    written.map_err(|why| No::unavailable(format!("admin.json cannot be written: {why}.")))
}

fn value(it: &wire::Token) -> Value {
    json!({
        "token_id": it.token_id,
        "scope": in_json(it.scope.as_ref()),
        "label": it.label,
        "issued_ms": it.issued_ms,
        "expires_ms": time_in_json(it.expires_ms),
        "revoked_ms": time_in_json(it.revoked_ms),
        "rotated_ms": time_in_json(it.rotated_ms),
        "invitation_id": (!it.invitation_id.is_empty()).then_some(&it.invitation_id),
        "last_used_ms": time_in_json(it.last_used_ms),
        "open_calls": it.open_calls,
    })
}

/// One token for people.
fn row(it: &wire::Token) -> ([String; 5], String) {
    let state = match (it.revoked_ms, it.expires_ms) {
        (0, 0) => format!("since {}", time(it.issued_ms)),
        (0, until) => format!("until {}", time(until)),
        (revoked, _) => format!("revoked {}", time(revoked)),
    };
    let used = match (it.open_calls, it.last_used_ms) {
        (0, 0) => "not used since the broker started".to_owned(),
        (0, last) => format!("last used {}", time(last)),
        (1, _) => "1 call open".to_owned(),
        (open, _) => format!("{open} calls open"),
    };
    let scope = it.scope.as_ref().map(in_words).unwrap_or_default();
    ([visible(&it.token_id), state, used, scope, visible(&it.label)], String::new())
}
