//! `tasuki broker-token`: the token that this machine shows its broker, and another secret for it.
//!
//! **Invariant:** a new secret is on disk before the broker hears of it. A rotation that was cut
//! short leaves both on disk; the one that the broker takes is kept, by whoever finds out first.

use std::{
    io::{IsTerminal as _, Read as _},
    path::Path,
    time::Duration,
};

use serde_json::json;
use tasuki_proto::{
    host::{admin::random_secret, config::duration},
    invitation::Fingerprint,
    limits::INVITATION_MS_MAX,
    net::tls::Trusting,
    reason::Reason,
    rpc,
    token::Token,
    wire,
};

use super::{
    Failure, Output,
    access::{joined_in_json, may_in_words, trust_in_words},
    broker_url,
    join::{TrustArgs, absolute, lock, open, refused, whoami},
    text::time,
};
use crate::{
    client::retry::is_lost,
    config::Config,
    credentials::{FILE, Joined},
};

/// More than any token has, in bytes.
const INPUT_BYTES_MAX: u64 = 4096;

/// Manage this machine's broker token.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show the rights, the broker and the expiry of this machine's token, never its secret
    Show,
    /// Set this machine's token to one read from standard input
    ///
    /// A token that was rotated at the broker (`tasuki-broker token rotate`) needs no flags. A
    /// running node uses it by itself.
    Set(SetArgs),
    /// Rotate the secret of this machine's token; its rights stay
    ///
    /// A running node uses the new secret by itself, and no call fails. If the command is
    /// interrupted, run it again.
    Rotate {
        /// How long the old secret stays valid if the new one is not used, at most 30d
        /// [default: 10m]
        #[arg(long, value_name = "DURATION", value_parser = parse_overlap)]
        overlap: Option<Duration>,
    },
}

/// For a token of a broker that this machine has not joined.
#[derive(Debug, clap::Args)]
#[command(arg(broker_url("the one that was joined")))]
pub struct SetArgs {
    /// SHA-256 of the broker's certificate, as the broker prints it at its start
    /// [default: authorities vouch for it]
    #[arg(long, value_name = "SHA256", conflicts_with = "ca")]
    fingerprint: Option<Fingerprint>,
    #[command(flatten)]
    trust: TrustArgs,
}

pub(crate) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let data = &config.root;
    match command {
        Command::Show => show(data, output),
        Command::Set(args) => set(args, config, output).await,
        Command::Rotate { overlap } => rotate(data, overlap, output).await,
    }
}

/// What was joined.
fn joined(data: &Path) -> Result<Joined, Failure> {
    let read = Joined::read(data).map_err(|why| Failure::local(format!("{why}.")))?;
    read.ok_or_else(|| {
        Failure::local(format!(
            "Nothing was joined with data in {}. Run the line `tasuki join …` that \
             `tasuki-broker invite` prints where the broker runs.",
            data.display()
        ))
    })
}

fn show(data: &Path, output: &mut Output) -> Result<(), Failure> {
    let joined = joined(data)?;
    let id = joined.token().map(|token| token.id.to_string()).unwrap_or_default();
    output.answer(
        || joined_in_json(&joined),
        || {
            format!(
                "token {id} at {}{}\n{}\n",
                joined.broker,
                trust_in_words(&joined),
                may_in_words(Some(&joined.scope()), joined.expires_ms)
            )
        },
    )
}

async fn set(args: SetArgs, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let data = &config.root;
    let token = tokio::task::spawn_blocking(read_token).await;
    let token = token.map_err(|why| Failure::local(format!("{why}.")))??;
    let _lock = lock(data)?;
    let before = Joined::read(data).map_err(|why| Failure::local(format!("{why}.")))?;
    let mut joined = target(args, config, before)?;
    let trusting = trusting(&joined);
    let said = whoami(&joined.broker, &trusting, &token).await?;
    if joined.token().is_some_and(|old| old.id != token.id) {
        joined.invitation = String::new();
    }
    joined.token = token.expose();
    joined.set_scope(said.scope.unwrap_or_default(), said.expires_ms);
    joined.end_rotation(data, &token).map_err(|why| unwritable(data, &why))?;
    output.answer(
        || joined_in_json(&joined),
        || {
            format!(
                "Token {} of {} is kept; it {}.\n",
                token.id,
                joined.broker,
                may_in_words(Some(&joined.scope()), joined.expires_ms)
            )
        },
    )
}

/// What the token on standard input is for.
fn target(args: SetArgs, config: &Config, before: Option<Joined>) -> Result<Joined, Failure> {
    let SetArgs { fingerprint, trust: TrustArgs { ca, client_cert, client_key } } = args;
    let told = config.broker.value.clone();
    let is_same = |joined: &Joined| told.as_deref().is_none_or(|url| joined.is_of(url));
    let says_trust = fingerprint.is_some() || ca.is_some() || client_cert.is_some();
    if let Some(joined) = before.filter(|joined| is_same(joined) && !says_trust) {
        return Ok(joined);
    }
    let broker = told.ok_or_else(|| {
        Failure::usage("Specify the token's broker: --broker URL, and --fingerprint or --ca.")
    })?;
    Ok(Joined {
        broker,
        fingerprint: fingerprint.map(|it| it.to_string()),
        ca: ca.as_deref().map(absolute),
        client_cert: client_cert.as_deref().map(absolute),
        client_key: client_key.as_deref().map(absolute),
        token: String::new(),
        workspace: String::new(),
        roles: Vec::new(),
        is_any_role: false,
        rights: Vec::new(),
        expires_ms: 0,
        invitation: String::new(),
    })
}

fn read_token() -> Result<Token, Failure> {
    let input = std::io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage(
            "The token is read from standard input, so that no history of commands keeps it: \
             tasuki broker-token set < FILE",
        ));
    }
    let mut text = String::new();
    let read = input.lock().take(INPUT_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|why| Failure::local(format!("Standard input cannot be read: {why}.")))?;
    text.trim().parse().map_err(|why| Failure::usage(format!("What was read {why}.")))
}

async fn rotate(
    data: &Path,
    overlap: Option<Duration>,
    output: &mut Output,
) -> Result<(), Failure> {
    let _lock = lock(data)?;
    let mut joined = joined(data)?;
    let old = joined.token().ok_or_else(|| Failure::local("joined.json holds no token."))?;
    let trusting = trusting(&joined);
    let begun = Joined::rotating(data).map_err(|why| Failure::local(format!("{why}.")))?;
    let begun = begun.filter(|begun| begun.id == old.id);
    // What was begun before may have got through.
    let is_first = begun.is_none();
    let unchanged = |why: Failure| {
        if is_first { why.if_unreached("The token is unchanged.") } else { why }
    };
    let new = match begun {
        Some(begun) => begun,
        None => {
            let no_chance =
                |why| Failure::local(format!("The system's random source failed: {why}."));
            // Reached first, so that nothing is begun with a broker that is not there.
            whoami(&joined.broker, &trusting, &old).await.map_err(unchanged)?;
            let new = Token { id: old.id.clone(), secret: random_secret().map_err(no_chance)? };
            Joined::begin_rotation(data, &new).map_err(|why| unwritable(data, &why))?;
            new
        }
    };
    let request = wire::RotateTokenRequest {
        token_id: String::new(),
        secret: new.secret.hash().as_bytes().to_vec(),
        overlap_ms: overlap.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    };
    // The old secret ends when the new one is used: then the new one asks, and nothing changes.
    let mut answer = Err(Failure::local("joined.json holds no token."));
    for token in [&old, &new] {
        let channel = open(&joined.broker, &trusting, Some(token)).await.map_err(unchanged)?;
        answer = match rpc::send(channel, request.clone()).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) if is_lost(&status) => return Err(unknown(&joined.broker)),
            Err(status) => Err(refused(&joined.broker, &status)),
        };
        let is_unknown =
            answer.as_ref().is_err_and(|why| why.as_reason() == Some(Reason::Unauthenticated));
        if !is_unknown {
            break;
        }
    }
    let answer = answer?;
    let (broker, id) = (joined.broker.clone(), new.id.clone());
    joined.end_rotation(data, &new).map_err(|why| unwritable(data, &why))?;
    output.answer(
        || json!({ "token_id": id.as_str(), "old_until_ms": answer.old_until_ms }),
        || {
            format!(
                "Token {id} of {broker} has another secret. The old one is good until the new \
                 one is used, {} at the latest.\n",
                time(answer.old_until_ms)
            )
        },
    )
}

/// How long two secrets of a token are good.
fn parse_overlap(text: &str) -> Result<Duration, String> {
    let overlap = duration(text)?;
    if u128::from(INVITATION_MS_MAX) < overlap.as_millis() {
        return Err("is more than 30d, the limit".to_owned());
    }
    Ok(overlap)
}

fn unknown(broker: &str) -> Failure {
    Failure::reason(
        Reason::OutcomeUnknown,
        format!(
            "No answer came from {broker}: the secret may or may not have changed. Both are kept, \
             and whichever the broker takes is used. Run the same command again to end it."
        ),
    )
}

fn unwritable(data: &Path, why: &std::io::Error) -> Failure {
    let path = data.join(FILE);
    Failure::local(format!(
        "{} cannot be written: {why}. Run the same command again once it can.",
        path.display()
    ))
}

fn trusting(joined: &Joined) -> Trusting {
    Trusting {
        trust: joined.trust(),
        authorities: joined.ca.clone(),
        client: joined.client_cert.clone().zip(joined.client_key.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_secrets_are_good_for_30_days_at_most() {
        assert_eq!(parse_overlap("30d"), Ok(Duration::from_millis(INVITATION_MS_MAX)));
        assert!(parse_overlap("721h").is_err() && parse_overlap("x").is_err());
    }
}
