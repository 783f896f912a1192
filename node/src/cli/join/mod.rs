//! `tasuki join`: trades an invitation for a token of this machine's own.
//!
//! **Invariant:** run again after it was cut short at any step, the same line ends where it would
//! have ended. The secret is on disk before the broker hears of it, and the broker gives the same
//! answer to the same code with the same secret.
//!
//! Not here: what is kept (`credentials`), `tasuki.toml` (`settings`), how TLS is spoken.

mod pending;
mod settings;

use std::{
    fs::TryLockError,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tasuki_proto::{
    host::files::{self, Locked},
    invitation::{Invitation, Trust},
    net::{
        dial::{DialError, dial, refused_later},
        tls::Trusting,
    },
    reason::Reason,
    rpc,
    token::Token,
    wire,
};
use tokio::time::sleep;
use tonic::Status;

use self::pending::Pending;
use super::{
    Failure, Look, Output,
    access::{joined_in_json, may_in_words, trust_in_words},
    broker::no_connection,
    hosting::data_flag,
    text::line,
};
use crate::{client::retry::is_lost, config::Config, credentials::Joined, paths, paths::NodeFile};

/// How often the broker is asked before its answer is called lost.
const ATTEMPTS: u32 = 4;

/// Before the second attempt; doubled before each later one.
const PAUSE: Duration = Duration::from_millis(250);

/// Beside what was joined with: one command at a time changes it.
const LOCK: &str = "joined.lock";

/// Join a broker elsewhere with the line of an invitation.
///
/// `tasuki-broker invite` prints the line on the broker's machine; it works once. This command checks
/// that it reaches that very broker, gets a token for this machine, stores it where only you can read
/// it, and writes the broker, the workspace and the roles to tasuki.toml in the data directory. After
/// that `tasuki node` needs no flags.
///
/// If it is interrupted, run the same line again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Invitation: tasuki://HOST:PORT/…
    #[arg(value_name = "INVITATION")]
    invitation: String,
    /// Label of this machine at the broker [default: its host name]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

/// Certificates for the connection to the broker.
#[derive(Debug, clap::Args)]
pub(super) struct TrustArgs {
    /// Certificates of the authorities that vouch for the broker, if its own is not pinned
    /// [default: those this machine trusts]
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// This machine's own certificate, if the broker requires one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(super) client_cert: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(super) client_key: Option<PathBuf>,
}

/// `look` reads the configuration again, as the next command will.
pub(crate) async fn run(
    args: Args,
    config: &Config,
    look: &Look<'_>,
    output: &mut Output,
) -> Result<(), Failure> {
    let data = &config.root;
    let invitation: Invitation = args
        .invitation
        .parse()
        .map_err(|why| Failure::usage(format!("This is not a whole invitation: {why}.")))?;
    if args.trust.ca.is_some() && invitation.trust != Trust::Authorities {
        return Err(Failure::usage(
            "The line pins the broker's certificate, so no authority is asked: leave --ca out.",
        ));
    }
    let trusting = Trusting {
        trust: invitation.trust,
        authorities: args.trust.ca.as_deref().map(absolute),
        client: args
            .trust
            .client_cert
            .as_deref()
            .map(absolute)
            .zip(args.trust.client_key.as_deref().map(absolute)),
    };
    let broker = format!("https://{}", invitation.address);
    let _lock = lock(data)?;
    settings::check(data)?;
    let before = Joined::read(data).unwrap_or_else(|why| {
        output.note(&format!("{why}. It is replaced."));
        None
    });
    // Reached first, so that nothing is written for a broker that is not there or not it.
    drop(open(&broker, &trusting, None).await.map_err(unused)?);
    let secret = Pending::secret(data, &broker, &invitation.code, before.as_ref(), output)?;
    let request = wire::JoinRequest {
        code: invitation.code.expose_bytes().to_vec(),
        secret: secret.hash().as_bytes().to_vec(),
        label: args.label.unwrap_or_else(own_label),
    };
    let answer = ask(&broker, &trusting, &request).await.inspect_err(|failure| {
        // What this secret could get, it never will.
        if let Some(Reason::InvitationSpent | Reason::UnknownInvitation) = failure.as_reason() {
            Pending::remove(data);
        }
    })?;
    let odd = |_| Failure::local("The broker's answer names no token.");
    let token = Token { id: answer.token_id.parse().map_err(odd)?, secret };
    let mut joined = Joined {
        broker: broker.clone(),
        fingerprint: match invitation.trust {
            Trust::Pinned(fingerprint) => Some(fingerprint.to_string()),
            Trust::Authorities => None,
        },
        ca: trusting.authorities.clone(),
        client_cert: trusting.client.as_ref().map(|(cert, _)| cert.clone()),
        client_key: trusting.client.as_ref().map(|(_, key)| key.clone()),
        token: token.expose(),
        workspace: String::new(),
        roles: Vec::new(),
        is_any_role: false,
        rights: Vec::new(),
        expires_ms: 0,
        invitation: invitation.code.hash().short(),
    };
    joined.set_scope(answer.scope.unwrap_or_default(), answer.expires_ms);
    // An invitation that was used here before is answered though its token ended since.
    whoami(&broker, &trusting, &token).await?;
    joined.write(data).map_err(|why| {
        Failure::local(format!(
            "The broker gave this machine its token, but it cannot be kept in {}: {why}. Run the \
             same line again once it can; here it still works.",
            data.display()
        ))
    })?;
    let settings = settings::write(data, &joined)?;
    Pending::remove(data);
    tell(config, look, before.as_ref(), &joined, &settings, output)
}

/// One command at a time changes what this machine joined with.
pub(super) fn lock(data: &Path) -> Result<Locked, Failure> {
    let unusable = |why: std::io::Error| {
        Failure::local(format!(
            "Nothing was sent: {} cannot be written to: {why}. Use --data DIR for another \
             directory.",
            data.display()
        ))
    };
    files::private_directory(data).map_err(unusable)?;
    let file = paths::private(&data.join(LOCK)).map_err(unusable)?;
    Locked::take(file).map_err(|why| match why {
        TryLockError::WouldBlock => Failure::local(format!(
            "Another `tasuki join` or `tasuki broker-token` is running in {}; wait for it to end.",
            data.display()
        )),
        TryLockError::Error(why) => unusable(why),
    })
}

/// Connects, with words for whoever joins.
pub(super) async fn open(
    broker: &str,
    trusting: &Trusting,
    token: Option<&Token>,
) -> Result<tasuki_proto::net::dial::Channel, Failure> {
    dial(broker, trusting, token).await.map_err(|why| {
        no_connection(&why).unwrap_or_else(|| {
            let what = match &why {
                DialError::Http { .. } => "",
                DialError::Url(_)
                | DialError::Plain(_)
                | DialError::Files(_)
                | DialError::Name { .. }
                | DialError::Unreachable { .. }
                | DialError::Tls(_) => " Is the broker running, and may this network reach it?",
            };
            Failure::reason(Reason::Unavailable, format!("{}.{what}", line(&why.to_string())))
        })
    })
}

/// What the broker says of a token.
pub(super) async fn whoami(
    broker: &str,
    trusting: &Trusting,
    token: &Token,
) -> Result<wire::WhoAmIResponse, Failure> {
    let channel = open(broker, trusting, Some(token)).await?;
    let asked = rpc::send(channel, wire::WhoAmIRequest {}).await;
    asked.map(tonic::Response::into_inner).map_err(|status| refused(broker, &status))
}

/// Asks until an answer comes: to the same request the broker gives the same one.
async fn ask(
    broker: &str,
    trusting: &Trusting,
    request: &wire::JoinRequest,
) -> Result<wire::JoinResponse, Failure> {
    let mut pause = PAUSE;
    let mut was_sent = false;
    for attempt in 1.. {
        let failure = match open(broker, trusting, None).await {
            Err(failure) => unused(failure),
            Ok(channel) => match rpc::send(channel, request.clone()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => {
                    was_sent |= is_lost(&status);
                    refused(broker, &status)
                }
            },
        };
        let is_over = !matches!(
            failure.as_reason(),
            Some(Reason::Unavailable | Reason::OutcomeUnknown | Reason::Overloaded)
        );
        if is_over {
            return Err(failure);
        }
        if attempt == ATTEMPTS {
            return Err(if was_sent { unknown(broker) } else { failure });
        }
        sleep(pause).await;
        pause *= 2;
    }
    unreachable!("the loop ends by returning")
}

fn unused(failure: Failure) -> Failure {
    failure.if_unreached("Nothing was used up.")
}

fn unknown(broker: &str) -> Failure {
    Failure::reason(
        Reason::OutcomeUnknown,
        format!(
            "{broker} was asked {ATTEMPTS} times and no answer came. Run the same line again: if \
             it was used up, then by this machine, for which it still works."
        ),
    )
}

/// What a status says to whoever joins.
pub(super) fn refused(broker: &str, status: &Status) -> Failure {
    if let Some(why) = refused_later(broker, status) {
        return Failure::untrusted(format!(
            "{why}. Name one with --client-cert FILE --client-key FILE."
        ));
    }
    if is_lost(status) {
        let text = format!("The connection to {broker} broke: {}.", line(status.message()));
        return Failure::reason(Reason::Unavailable, text);
    }
    match Reason::of(status) {
        Some(Reason::InvitationSpent) => Failure::reason(
            Reason::InvitationSpent,
            "Somebody has joined with this line already, so it is of no more use; the broker's \
             administrator can see that it was tried again. If that was not you, tell them: they \
             can revoke what was joined with it. Ask for a new line.",
        ),
        Some(Reason::UnknownInvitation) => Failure::reason(
            Reason::UnknownInvitation,
            "The broker has no open invitation with this code: it has expired, was withdrawn, or \
             the line is not the latest. Ask for a new one.",
        ),
        Some(_) => Failure::of_status(status),
        None => Failure::reason(
            Reason::Unavailable,
            format!("What answers at {broker} is no Tasuki broker, or one of another release."),
        ),
    }
}

fn tell(
    config: &Config,
    look: &Look<'_>,
    before: Option<&Joined>,
    joined: &Joined,
    settings: &settings::Written,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut notes = Vec::new();
    if let Some(before) =
        before.filter(|it| it.token().map(|it| it.id) != joined.token().map(|it| it.id))
    {
        let id = before.token().map(|token| token.id.to_string()).unwrap_or_default();
        notes.push(format!(
            "This replaces what was joined before, {} with token {id}; that token stays good \
             there until it is revoked.",
            before.broker
        ));
    }
    if NodeFile::read(&config.data.value).is_some() {
        notes.push("A node runs with this data: stop it and start it again.".to_owned());
    }
    notes.extend(settings.notes.iter().cloned());
    let (next, problems) = look();
    notes.extend(problems.iter().map(ToString::to_string));
    notes.extend(settings::contradictions(&next, joined));
    for note in &notes {
        output.note(note);
    }
    let is_again = before.is_some_and(|before| before.invitation == joined.invitation);
    let did = if is_again { "Had joined with this line already:" } else { "Joined" };
    output.answer(
        || {
            let mut value = value(joined, &settings.path, &notes);
            let kept = absolute(&config.root.join(crate::credentials::FILE));
            value["joined"]["credentials"] = kept.to_string_lossy().into();
            value
        },
        || {
            format!(
                "{did} {}{}.\nThis machine {}.\n\nThe token is in {}, for you alone to read; settings are in \
                 {}.\nNext: tasuki{} node\n",
                joined.broker,
                trust_in_words(joined),
                may_in_words(Some(&joined.scope()), joined.expires_ms),
                absolute(&config.root.join(crate::credentials::FILE)).display(),
                absolute(&settings.path).display(),
                data_flag(config),
            )
        },
    )
}

fn value(joined: &Joined, settings: &Path, notes: &[String]) -> Value {
    let mut value = joined_in_json(joined);
    value["settings"] = settings.to_string_lossy().into();
    value["notes"] = notes.into();
    json!({ "joined": value })
}

fn own_label() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}, tasuki {}", line(&name), env!("CARGO_PKG_VERSION"))
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
