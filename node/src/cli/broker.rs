//! The broker as these commands reach it: directly, over gRPC, with what this machine joined with.
//!
//! A command that changes something is sent under one key, again and again until an answer comes
//! or patience ends. Then it says "may or may not have taken effect", never "failed".

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tasuki_proto::{
    id::WorkspaceId,
    net::dial::{Channel, DialError, dial, refused_later},
    reason::Reason,
    rpc::{self, Rpc},
    token::Token,
    wire,
};
use tokio::time::sleep;
use tonic::{Code, Response, Status};

use super::{Failure, keys, text::line};
use crate::{
    client::retry::{self, is_lost},
    config::{Config, Source},
    credentials::{Credentials, keep_spare},
    paths::NodeFile,
};

/// How often one command is sent before its outcome is called unknown.
const ATTEMPTS: u32 = 4;

/// Before the second attempt; doubled before each later one.
const PAUSE: Duration = Duration::from_millis(250);

/// How often one call is sent again because its token was rotated meanwhile.
const TOKENS_MAX: u32 = 3;

/// A broker's address, and who calls.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    pub(crate) url: String,
    workspace: WorkspaceId,
    data: std::path::PathBuf,
    /// The connection of the call before, for the next: an import asks thousands of times.
    kept: Arc<Mutex<Option<Line>>>,
}

/// A connection, and the token that is shown on it.
type Line = (Channel, Option<Token>);

impl Broker {
    pub(crate) fn new(config: &Config) -> Self {
        let told = config.broker.value.clone();
        let data = config.data.value.clone();
        // A node that was killed had a broker, and more likely this one than the usual one.
        let url = told.or_else(|| NodeFile::last(&data).map(|file| file.broker));
        let url = url.unwrap_or_else(|| config.broker_url());
        Self { url, workspace: workspace(config), data, kept: Arc::default() }
    }

    pub(crate) fn caller(&self) -> wire::Caller {
        wire::Caller { workspace: self.workspace.to_string(), node: String::new(), epoch: 0 }
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// What this machine joined the broker with.
    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        Credentials::find(&self.data, &self.url)
            .map_err(|why| Failure::local(format!("{}.", why.to_string().trim_end_matches('.'))))
    }

    pub(crate) async fn connect(&self) -> Result<Channel, Failure> {
        self.open().await.map(|(channel, _)| channel)
    }

    /// A connection, and the token that is shown on it.
    pub(crate) async fn open(&self) -> Result<Line, Failure> {
        let credentials = self.credentials()?;
        let trusting = credentials.trusting();
        let Credentials { token, spare, .. } = &credentials;
        let open = async |token: Option<&Token>| {
            let channel = dial(&self.url, &trusting, token).await;
            channel.map_err(|why| self.no_connection(&why))
        };
        let channel = open(token.as_ref()).await?;
        let Some(spare) = spare else { return Ok((channel, token.clone())) };
        // A rotation is under way or was cut short: only the broker knows which secret is good.
        let known = rpc::send(channel.clone(), wire::WhoAmIRequest {}).await;
        if !known.is_err_and(|status| is_unauthenticated(&status)) {
            return Ok((channel, token.clone()));
        }
        let channel = open(Some(spare)).await?;
        if rpc::send(channel.clone(), wire::WhoAmIRequest {}).await.is_ok()
            && let Err(why) = keep_spare(&self.data, spare)
        {
            tracing::debug!(%why, "both secrets stay on disk");
        }
        Ok((channel, Some(spare.clone())))
    }

    /// The kept connection, and `true`; else one that is opened and kept.
    async fn line(&self) -> Result<(Line, bool), Failure> {
        let kept = self.kept.lock().clone();
        if let Some(line) = kept {
            return Ok((line, true));
        }
        let line = self.open().await?;
        *self.kept.lock() = Some(line.clone());
        Ok((line, false))
    }

    /// What was kept is of no use.
    fn forget(&self) {
        *self.kept.lock() = None;
    }

    /// Whether a call was refused only because its token was rotated after it was read.
    pub(crate) fn is_outdated(&self, status: &Status, shown: Option<&Token>) -> bool {
        is_unauthenticated(status)
            && self
                .credentials()
                .is_ok_and(|now| now.token.is_some() && now.token.as_ref() != shown)
    }

    /// Why there is none, and the exit code that says so.
    pub(crate) fn no_connection(&self, why: &DialError) -> Failure {
        tracing::debug!(why = why as &dyn std::error::Error, "no connection");
        no_connection(why).unwrap_or_else(|| self.unreachable())
    }

    pub(crate) fn unreachable(&self) -> Failure {
        let next = if self.url.starts_with("http://") {
            "Start one with `tasuki up`, or say where it is with --broker URL."
        } else {
            "Is it running, and does this network let you reach it?"
        };
        let text = format!("No broker answers at {}. {next}", self.url);
        Failure::reason(Reason::Unavailable, text)
    }

    /// Sends a request. One that has room for a key is sent under one of its own until it is
    /// answered; any other is lost without harm.
    pub(crate) async fn call<R: Rpc>(&self, request: &R) -> Result<R::Response, Failure> {
        if R::CALL.has_key {
            let told = self.call_under(keys::next(&self.data)?, request).await;
            // Nothing of this was sent before: the key, or a name in the command, means something
            // else.
            if told.as_ref().is_err_and(|why| why.as_reason() == Some(Reason::KeyReused)) {
                return Box::pin(self.call_under(keys::alone()?.next(), request)).await;
            }
            return told;
        }
        let request = self.addressed(request, None);
        self.ask(move |channel| rpc::send(channel, request.clone())).await
    }

    /// The same under a key that names nothing else.
    pub(crate) async fn call_under<R: Rpc>(
        &self,
        key: wire::IdempotencyKey,
        request: &R,
    ) -> Result<R::Response, Failure> {
        let request = self.addressed(request, Some(&key));
        self.tell_under(&key, move |channel| rpc::send(channel, request.clone())).await
    }

    fn addressed<R: Rpc>(&self, request: &R, key: Option<&wire::IdempotencyKey>) -> R {
        let mut request = request.clone();
        request.set_caller(self.caller());
        request.set_key(key.cloned());
        request
    }

    /// Asks once; a question may be lost without harm.
    pub(crate) async fn ask<T, F>(&self, send: F) -> Result<T, Failure>
    where
        F: AsyncFn(Channel) -> Result<Response<T>, Status>,
    {
        let mut tokens_left = TOKENS_MAX;
        let mut was_lost = false;
        loop {
            let ((channel, shown), was_kept) = self.line().await?;
            match send(channel).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) if is_lost(&status) => {
                    self.forget();
                    // It may have broken long before this question.
                    if !was_kept || was_lost {
                        return Err(self.lost(&status));
                    }
                    was_lost = true;
                }
                Err(status) if 0 < tokens_left && self.is_outdated(&status, shown.as_ref()) => {
                    self.forget();
                    tokens_left -= 1;
                }
                Err(status) => return Err(self.refused(&status)),
            }
        }
    }

    /// No answer came; sometimes the reason did.
    fn lost(&self, status: &Status) -> Failure {
        if let Some(why) = refused_later(&self.url, status) {
            return Failure::untrusted(format!("{why}."));
        }
        let code = status.code();
        if matches!(
            code,
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded
        ) {
            return self.unreachable();
        }
        let (url, said) = (&self.url, line(status.message()));
        let text = format!("What answers at {url} did not answer as a broker ({code:?}: {said}).");
        Failure::reason(Reason::Unavailable, text)
    }

    fn refused(&self, status: &Status) -> Failure {
        let has_token = || self.credentials().is_ok_and(|it| it.token.is_some());
        if is_unauthenticated(status) && !has_token() {
            return Failure::reason(
                Reason::Unauthenticated,
                format!(
                    "The broker at {} asks for a token, and {} has none for it. Run the line \
                     `tasuki join …` that `tasuki-broker invite` prints where the broker runs.",
                    self.url,
                    self.data.display()
                ),
            );
        }
        Failure::of_status(status)
    }

    /// Sends a command again and again, until it is answered or patience ends. Once an attempt may
    /// have reached the broker, it alone says by a judgement of this command that nothing happened.
    async fn tell_under<T, F>(&self, key: &wire::IdempotencyKey, send: F) -> Result<T, Failure>
    where
        F: AsyncFn(Channel) -> Result<Response<T>, Status>,
    {
        let mut was_sent = false;
        // Why the broker itself did not know what became of it.
        let mut unsure = None;
        let mut pause = PAUSE;
        let mut tokens_left = TOKENS_MAX;
        let mut attempts = 0;
        loop {
            let failure = match self.line().await {
                Err(failure) => failure,
                Ok(((channel, shown), _)) => match send(channel).await {
                    Ok(response) => return Ok(response.into_inner()),
                    Err(status) if is_lost(&status) => {
                        self.forget();
                        let failure = self.lost(&status);
                        // Who wants another certificate has read nothing of it.
                        was_sent |= failure.as_reason() == Some(Reason::Unavailable);
                        failure
                    }
                    Err(status) if 0 < tokens_left && self.is_outdated(&status, shown.as_ref()) => {
                        self.forget();
                        tokens_left -= 1;
                        continue;
                    }
                    Err(status) => self.refused(&status),
                },
            };
            was_sent |= failure.is_maybe_applied();
            let reason = failure.as_reason();
            if reason == Some(Reason::OutcomeUnknown) {
                unsure = Some(failure.message.clone());
            }
            let again = matches!(reason, Some(Reason::Unavailable | Reason::OutcomeUnknown))
                || (was_sent && reason == Some(Reason::Overloaded));
            // Nothing was ever sent and nobody is there: waiting would only annoy.
            let is_hopeless = !was_sent && failure == self.unreachable();
            if !again || is_hopeless {
                let is_end = !was_sent || is_judged(&failure);
                return Err(if is_end {
                    failure
                } else {
                    self.unknown(key, unsure, Some(&failure))
                });
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(if was_sent { self.unknown(key, unsure, None) } else { failure });
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// `last`: why it was not sent once more.
    fn unknown(
        &self,
        key: &wire::IdempotencyKey,
        unsure: Option<String>,
        last: Option<&Failure>,
    ) -> Failure {
        let unsure = unsure.map(|why| format!("the broker said: {why}"));
        let last = last.map(|why| format!("then: {}", why.message.trim_end_matches('.')));
        let said: Vec<String> = unsure.into_iter().chain(last).collect();
        let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join("; ")) };
        Failure::reason(
            Reason::OutcomeUnknown,
            format!(
                "The command was sent to {} and no answer came{said}: it may or may not have \
                 taken effect. Look before doing it again: `tasuki loop status`, \
                 `tasuki mail list outbox`, `tasuki task show`. \
                 (key {}/{})",
                self.url, key.client_id, key.counter
            ),
        )
    }
}

/// The workspace that a command means: the one that was named, else that of the node whose broker
/// is asked, which may have been killed.
pub(super) fn workspace(config: &Config) -> WorkspaceId {
    let (told, broker) = (&config.workspace, config.broker.value.as_deref());
    let node = match &told.source {
        Source::Default => NodeFile::last(&config.data.value),
        Source::File { .. } | Source::Env(_) | Source::Filebox(_) | Source::Flag(_) => None,
    };
    let node = node.filter(|node| broker.is_none_or(|url| node.is_at(url)));
    node.and_then(|node| node.workspace.parse().ok()).unwrap_or_else(|| told.value.clone())
}

/// Why a broker is not spoken to; `None`: nobody is there, or it is not a matter of trust.
pub(super) fn no_connection(why: &DialError) -> Option<Failure> {
    let text = format!("{}.", why.to_string().trim_end_matches('.'));
    match why {
        DialError::Url(_) => Some(Failure::usage(text)),
        DialError::Plain(_) => Some(Failure::untrusted(text)),
        DialError::Files(_) => Some(Failure::local(text)),
        DialError::Tls(why) if why.is_final() => Some(Failure::untrusted(text)),
        DialError::Tls(_) | DialError::Name { .. } => {
            Some(Failure::reason(Reason::Unavailable, text))
        }
        DialError::Unreachable { .. } | DialError::Http { .. } => None,
    }
}

fn is_unauthenticated(status: &Status) -> bool {
    Reason::of(status) == Some(Reason::Unauthenticated)
}

/// Whether the broker judged the command itself, and not who said it, when, or under which key: the
/// attempt before may have used that.
fn is_judged(failure: &Failure) -> bool {
    failure.as_reason().is_some_and(|reason| {
        let of_reason = retry::Failure::of_refusal(reason, String::new());
        reason != Reason::KeyReused && matches!(of_reason, retry::Failure::Refused(_))
    })
}

#[cfg(test)]
mod tests {
    use tasuki_proto::{
        host::trust::TrustStore,
        net::dial::Bearer,
        token::{SECRET_BYTES, Secret},
    };
    use tonic::{service::interceptor::InterceptedService, transport::Endpoint};

    use super::*;
    use crate::{
        config::{Environment, Key, Layer, Raw},
        credentials::Joined,
    };

    #[test]
    fn a_command_is_about_the_workspace_of_the_node_whose_broker_it_asks() {
        let place = tempfile::tempdir().unwrap();
        let env = [("TASUKI_DATA".to_owned(), place.path().display().to_string())];
        let around = Environment {
            env: env.into(),
            directory: place.path().to_owned(),
            home: None,
            trusted: TrustStore::within(place.path()),
        };
        let meant = |told: &[(Key, &'static str)]| {
            let raw = |text: &str| Raw { source: Source::Flag("-"), texts: vec![text.to_owned()] };
            let layer: Layer = told.iter().map(|(key, text)| (*key, raw(text))).collect();
            Broker::new(&Config::load(layer, None, &around).unwrap()).workspace.to_string()
        };
        assert_eq!(meant(&[]), "default");
        let node = NodeFile {
            pid: std::process::id(),
            mcp: String::new(),
            fingerprint: None,
            vouched: None,
            broker: "http://127.0.0.1:1".into(),
            workspace: "project".into(),
            roles: Vec::new(),
            toolsets: Default::default(),
        };
        node.write(place.path()).unwrap();
        assert_eq!(meant(&[]), "project");
        assert_eq!(meant(&[(Key::Broker, "http://127.0.0.1:1")]), "project");
        for same in ["http://127.0.0.1:1/", "HTTP://127.0.0.1:1", "http://LocalHost:1"] {
            assert_eq!(meant(&[(Key::Broker, same)]), "project", "{same}");
        }
        assert_eq!(meant(&[(Key::Broker, "http://127.0.0.1:2")]), "default");
        for told in ["default", "other"] {
            assert_eq!(meant(&[(Key::Workspace, told)]), told);
        }
    }

    fn token(fill: u8) -> Token {
        Token { id: "0011".parse().unwrap(), secret: Secret::new([fill; SECRET_BYTES]) }
    }

    /// The broker is gone once the token was rotated.
    #[tokio::test]
    async fn a_token_that_is_rotated_at_the_last_attempt_is_no_reason_to_go_on_for_ever() {
        let data = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{free}");
        let lazy = Endpoint::from_shared(url.clone()).unwrap().connect_lazy();
        let shown = token(1);
        let channel = InterceptedService::new(lazy, Bearer::new(Some(&shown)));
        let broker = Broker {
            url: url.clone(),
            workspace: "default".parse().unwrap(),
            data: data.path().to_owned(),
            kept: Arc::new(Mutex::new(Some((channel, Some(shown))))),
        };
        let sent = std::cell::Cell::new(0);
        let send = async |_| -> Result<Response<()>, Status> {
            sent.set(sent.get() + 1);
            if sent.get() < ATTEMPTS {
                return Err(Reason::OutcomeUnknown.status("the disk failed"));
            }
            let joined = Joined {
                broker: url.clone(),
                fingerprint: None,
                ca: None,
                client_cert: None,
                client_key: None,
                token: token(2).expose(),
                workspace: String::new(),
                roles: Vec::new(),
                is_any_role: true,
                rights: Vec::new(),
                expires_ms: 0,
                invitation: String::new(),
            };
            joined.write(data.path()).unwrap();
            Err(Reason::Unauthenticated.status("not a token"))
        };
        let key = wire::IdempotencyKey { client_id: "cli".to_owned(), counter: 1 };
        let failure = broker.tell_under(&key, send).await.unwrap_err();
        assert_eq!(failure.as_reason(), Some(Reason::OutcomeUnknown), "{failure:?}");
        assert_eq!(sent.get(), ATTEMPTS);
    }
}
