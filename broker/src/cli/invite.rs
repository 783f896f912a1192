//! `tasuki-broker invite` and `invitations`: letting nodes in, one line each.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tasuki_proto::{
    host::admin::random_secret,
    invitation::{Invitation, Trust},
    wire,
};

use super::{
    administer::{Administer, Answer, Broker, No},
    scope::{
        ScopeArgs, in_json, in_words, ms, short_validity, time, time_in_json, validity, visible,
    },
    table::table,
};

#[derive(Debug, Args)]
pub(super) struct Invite {
    #[command(flatten)]
    scope: ScopeArgs,

    /// How long the invitation is valid, at most 30d [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = short_validity)]
    expires: Option<Duration>,

    /// How long the token of the machine that joins is valid [default: until revoked]
    #[arg(long, value_name = "DURATION", value_parser = validity)]
    token_expires: Option<Duration>,

    /// Label in lists, such as whom it is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    label: String,

    #[command(flatten)]
    administer: Administer,
}

#[derive(Debug, Subcommand)]
pub(super) enum Invitations {
    /// List open, used and withdrawn invitations, newest first, and who tried a used one again
    List(Administer),
    /// Withdraw an invitation that nobody has used yet
    Withdraw {
        /// Id, as `invitations list` shows it
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        administer: Administer,
    },
}

pub(super) fn invite(it: Invite) -> u8 {
    let Invite { scope, expires, token_expires, label, administer } = it;
    let (valid_ms, token_valid_ms) = (ms(expires), ms(token_expires));
    administer.ask(async |broker| {
        let scope = scope.scope()?;
        open(&broker, scope, valid_ms, token_valid_ms, label).await
    })
}

pub(super) fn run(command: Invitations) -> u8 {
    match command {
        Invitations::List(administer) => administer.ask(list),
        Invitations::Withdraw { id, administer } => administer.ask(async |broker| {
            let request = wire::WithdrawInvitationRequest { invitation_id: id.clone() };
            broker.call(async |mut it| it.withdraw_invitation(request).await).await?;
            Ok(Answer {
                value: json!({ "withdrawn": id }),
                lines: format!("{} is withdrawn; nobody can join with it.", visible(&id)),
                notes: String::new(),
            })
        }),
    }
}

async fn open(
    broker: &Broker,
    scope: wire::Scope,
    valid_ms: u64,
    token_valid_ms: u64,
    label: String,
) -> Result<Answer, No> {
    let Some(fingerprint) = &broker.file.fingerprint else {
        return Err(No::usage(format!(
            "The broker at {} is for this machine alone and asks nobody for a token, so there is \
             nothing to join. To serve others: tasuki-broker serve --listen 0.0.0.0:7420",
            broker.file.url
        )));
    };
    let trust = if broker.file.is_vouched_for {
        Trust::Authorities
    } else {
        let damaged = |_| No::unavailable("admin.json is damaged; start the broker again.");
        Trust::Pinned(fingerprint.parse().map_err(damaged)?)
    };
    let no_chance = |why| No::unavailable(format!("The system's random source failed: {why}."));
    let code = random_secret().map_err(no_chance)?;
    let request = wire::InviteRequest {
        code: code.hash().as_bytes().to_vec(),
        scope: Some(scope.clone()),
        valid_ms,
        token_valid_ms,
        label,
    };
    let opened = broker.call(async |mut it| it.invite(request).await).await?;
    let invitation = Invitation { address: broker.file.advertise.clone(), trust, code };
    let command = format!("tasuki join {}", invitation.expose());
    let stays = match token_valid_ms {
        0 => "The token of the machine that joins is valid until it is revoked.".to_owned(),
        ms => format!(
            "The token of the machine that joins is valid for {}.",
            humantime::format_duration(Duration::from_millis(ms))
        ),
    };
    Ok(Answer {
        value: json!({
            "command": command,
            "invitation_id": opened.invitation_id,
            "scope": in_json(Some(&scope)),
            "expires_ms": opened.expires_ms,
        }),
        lines: command,
        notes: format!(
            "Lets one machine join as {}, once, until {}.\n{stays}\nPass the line on like a \
             password: whoever runs it first is in. To end it: tasuki-broker invitations withdraw \
             {}{}",
            in_words(&scope),
            time(opened.expires_ms),
            opened.invitation_id,
            broker.data_flag
        ),
    })
}

async fn list(broker: Broker) -> Result<Answer, No> {
    let request = wire::ListInvitationsRequest {};
    let listed = broker.call(async |mut it| it.list_invitations(request).await).await?;
    let value: Vec<Value> = listed.invitations.iter().map(value).collect();
    let rows: Vec<_> = listed.invitations.iter().map(row).collect();
    let lines = match rows.as_slice() {
        [] => {
            "There are no invitations. To create one: tasuki-broker invite --role NAME".to_owned()
        }
        rows => table(HEAD, rows),
    };
    Ok(Answer { value: json!({ "invitations": value }), lines, notes: String::new() })
}

fn value(it: &wire::Invitation) -> Value {
    let misuses = it.misuses.iter().map(|it| json!({ "at_ms": it.at_ms, "address": it.address }));
    json!({
        "invitation_id": it.invitation_id,
        "scope": in_json(it.scope.as_ref()),
        "label": it.label,
        "issued_ms": it.issued_ms,
        "expires_ms": it.expires_ms,
        "used_ms": time_in_json(it.used_ms),
        "token_id": (!it.token_id.is_empty()).then_some(&it.token_id),
        "is_withdrawn": it.is_withdrawn,
        "misuses": misuses.collect::<Vec<_>>(),
    })
}

const HEAD: [&str; 4] = ["INVITATION", "STATE", "FOR", "LABEL"];

/// One invitation for people, and below it who tried to use it again.
fn row(it: &wire::Invitation) -> ([String; 4], String) {
    let state = if it.is_withdrawn {
        "withdrawn".to_owned()
    } else if !it.token_id.is_empty() {
        format!("used {} by token {}", time(it.used_ms), visible(&it.token_id))
    } else {
        format!("unused, until {}", time(it.expires_ms))
    };
    let scope = it.scope.as_ref().map(in_words).unwrap_or_default();
    let misuse = |it: &wire::Misuse| {
        format!("  tried again {} from {}\n", time(it.at_ms), visible(&it.address))
    };
    let misuses = it.misuses.iter().map(misuse).collect();
    ([visible(&it.invitation_id), state, scope, visible(&it.label)], misuses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_tells_its_story_in_a_line() {
        let scope = wire::Scope {
            workspace: "w".to_owned(),
            roles: vec!["dev".to_owned()],
            is_any_role: false,
            rights: vec!["read".to_owned()],
        };
        let open = wire::Invitation {
            invitation_id: "0a".to_owned(),
            scope: Some(scope),
            label: "Eve's \u{1b}[2Klaptop".to_owned(),
            issued_ms: 0,
            expires_ms: 60_000,
            token_id: String::new(),
            used_ms: 0,
            is_withdrawn: false,
            misuses: Vec::new(),
        };
        let open_row = row(&open);
        let misuses = vec![wire::Misuse { at_ms: 9000, address: "10.0.0.7:1".to_owned() }];
        let used = wire::Invitation {
            token_id: "0b".to_owned(),
            used_ms: 5000,
            label: String::new(),
            misuses,
            ..open
        };
        assert_eq!(
            table(HEAD, &[open_row, row(&used)]),
            "INVITATION  STATE                                  FOR                        LABEL\n\
             0a          unused, until 1970-01-01 00:01:00Z     dev in workspace w (read)  Eve's laptop\n\
             0a          used 1970-01-01 00:00:05Z by token 0b  dev in workspace w (read)\n  tried \
             again 1970-01-01 00:00:09Z from 10.0.0.7:1\n"
        );
    }
}
