//! The broker as these commands reach it: directly, over gRPC, with what this machine joined with.
//!
//! A command that changes something is sent under one key, again and again until an answer comes
//! or patience ends. Then it says "may or may not have taken effect", never "failed".

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tasuki_broker::overview::Calls;
use tasuki_proto::{
    id::WorkspaceId,
    limits::WORKSPACE_DEFAULT,
    net::{
        dial::{DialError, refused_later},
        tls::ConnectError,
    },
    reason::Reason,
    rpc::{self, Rpc},
    wire,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Response, Status, Streaming};

use super::{Failure, keys, text::line};
use crate::{
    client::{
        Client, OpenError,
        channel::{BadAddress, Channel},
        retry::{self, Attempts, Next, chance, is_lost},
    },
    config::{Config, Source},
    credentials::Credentials,
    paths::NodeFile,
    projects,
};

/// For one answer. A durable write on a slow disk takes a second; a person waits ten.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How often one call is sent again because its token was rotated meanwhile.
const TOKENS_MAX: u32 = 3;

/// A broker's address, and who calls.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    pub(crate) url: String,
    /// Whether it was said where it is.
    is_named: bool,
    /// Whether it is a command's, and ends with it.
    is_brief: bool,
    workspace: WorkspaceId,
    /// The node as which it is called, with its epoch; `None`: no node calls.
    node: Option<(String, u64)>,
    data: PathBuf,
    /// Made for the first call.
    client: Arc<OnceLock<Client>>,
}

impl Broker {
    pub(crate) fn new(config: &Config) -> Self {
        let told = config.broker.value.clone();
        let data = config.data.value.clone();
        let is_named = told.is_some();
        // A node that was killed had a broker, and more likely this one than the usual one.
        let last = || projects::running(&data).or_else(|| NodeFile::last(&data));
        let last = if is_named { None } else { last() };
        let is_brief = last.as_ref().is_some_and(|file| file.has_brief_broker);
        let url = told.or_else(|| last.map(|file| file.broker));
        let url = url.unwrap_or_else(|| config.broker_url());
        let (workspace, client) = (workspace(config), Arc::default());
        Self { url, is_named, is_brief, workspace, node: None, data, client }
    }

    /// Looks where the broker is now, unless that was said: one that was started since may listen
    /// elsewhere. `false`: it was a command's, which has ended, and there is no other.
    pub(crate) fn find_again(&mut self) -> bool {
        if self.is_named {
            return true;
        }
        let Some(node) = projects::running(&self.data) else { return !self.is_brief };
        self.is_brief = node.has_brief_broker;
        if !node.is_at(&self.url) {
            (self.url, self.node, self.client) = (node.broker, None, Arc::default());
        }
        true
    }

    /// The same for what is to be this machine's node's own.
    pub(crate) fn as_node(&self, node: &wire::Node) -> Self {
        Self { node: Some((node.node.clone(), node.epoch)), ..self.clone() }
    }

    /// Whether a node is in this workspace of this broker.
    pub(crate) fn has(&self, node: &NodeFile) -> bool {
        node.is_at(&self.url) && node.workspace == self.workspace.as_str()
    }

    pub(crate) fn caller(&self) -> wire::Caller {
        let (node, epoch) = self.node.clone().unwrap_or_default();
        wire::Caller { workspace: self.workspace.to_string(), node, epoch }
    }

    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// What this machine joined the broker with.
    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        Credentials::find(&self.data, &self.url)
            .map_err(|why| Failure::local(format!("{}.", why.to_string().trim_end_matches('.'))))
    }

    pub(crate) fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(&self.url, &self.data).map_err(|why| {
            let text = format!("{}.", why.to_string().trim_end_matches('.'));
            match why {
                OpenError::Address(BadAddress::Malformed { .. }) => Failure::usage(text),
                OpenError::Address(BadAddress::Plain(_)) => Failure::untrusted(text),
                OpenError::ClientAuth(_) => Failure::local(text),
            }
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Whether there is another token to show than the one that a call was refused with.
    pub(crate) fn shows_another(&self, status: &Status) -> bool {
        let another = |client: &Client| client.auth().turned_away();
        is_unauthenticated(status) && self.client.get().is_some_and(another)
    }

    pub(crate) fn unreachable(&self) -> Failure {
        let next = if self.url.starts_with("http://") {
            "Start one with `tasuki up`, or say where it is with --broker URL."
        } else {
            "Is it running, and does this network let you reach it? `tasuki doctor` looks closer."
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

    /// Sends something once, and again with another token if the one that was shown is not good.
    async fn attempt<T, F>(&self, client: &Client, send: &F) -> Result<T, Status>
    where
        F: AsyncFn(Channel) -> Result<Response<T>, Status>,
    {
        let mut tokens_left = TOKENS_MAX;
        loop {
            let answer = timeout(ANSWER_WITHIN, send(client.channel())).await;
            let late = |_| Err(Status::deadline_exceeded("no answer came in time"));
            match answer.unwrap_or_else(late) {
                Ok(response) => {
                    client.auth().taken();
                    return Ok(response.into_inner());
                }
                Err(status) if 0 < tokens_left && self.shows_another(&status) => tokens_left -= 1,
                Err(status) => return Err(status),
            }
        }
    }

    /// Asks once; a question may be lost without harm.
    pub(crate) async fn ask<T, F>(&self, send: F) -> Result<T, Failure>
    where
        F: AsyncFn(Channel) -> Result<Response<T>, Status>,
    {
        let client = self.client()?;
        let was_connected = client.connections().is_open();
        let answer = match self.attempt(client, &send).await {
            // The connection may have broken long before this question.
            Err(status) if is_lost(&status) && was_connected => self.attempt(client, &send).await,
            answer => answer,
        };
        answer.map_err(|status| self.failure(&status))
    }

    /// Opens a stream.
    pub(crate) async fn open<T, F>(&self, call: F) -> Result<Result<Streaming<T>, Status>, Failure>
    where
        F: AsyncFnOnce(Channel, wire::Caller) -> Result<Response<Streaming<T>>, Status>,
    {
        let call = call(self.client()?.channel(), self.caller());
        let late = |_| Err(Status::deadline_exceeded("no answer came in time"));
        let opened = timeout(ANSWER_WITHIN, call).await.unwrap_or_else(late);
        Ok(opened.map(Response::into_inner))
    }

    /// Why a call was not answered, or was refused.
    pub(crate) fn failure(&self, status: &Status) -> Failure {
        if is_lost(status) { self.lost(status) } else { self.refused(status) }
    }

    /// No answer came; sometimes the reason did.
    fn lost(&self, status: &Status) -> Failure {
        tracing::debug!(why = status as &dyn std::error::Error, "no answer");
        if let Some(why) = tls_failure(status) {
            return tls_untrusted(why);
        }
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
        let client = self.client()?;
        let (began, mut attempts) = (Instant::now(), Attempts::default());
        loop {
            let status = match self.attempt(client, &send).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            let failure = retry::Failure::of(&status);
            let is_unreached = matches!(failure, retry::Failure::NotTaken(_)) && is_lost(&status);
            // Who wants another certificate has read nothing of it.
            let is_untrusted = is_lost(&status) && self.lost(&status).as_reason().is_none();
            // Nothing was ever sent and nobody is there: waiting would only annoy.
            if !attempts.may_have_reached() && (is_unreached || is_untrusted) {
                return Err(self.lost(&status));
            }
            match attempts.next(began.elapsed(), chance(), failure) {
                Next::Again(pause) => sleep(pause).await,
                Next::Give(refusal) if refusal.reason == Reason::OutcomeUnknown => {
                    return Err(self.unknown(key, attempts.unsure(), &self.failure(&status)));
                }
                Next::Give(_) | Next::Renew(_) => return Err(self.failure(&status)),
            }
        }
    }

    /// `unsure`: what the broker said of it; `last`: why it was not sent once more.
    fn unknown(&self, key: &wire::IdempotencyKey, unsure: Option<&str>, last: &Failure) -> Failure {
        let is_known =
            matches!(last.as_reason(), Some(Reason::Unavailable | Reason::OutcomeUnknown));
        let unsure = unsure.map(|why| format!("the broker said: {why}"));
        let last = (!is_known).then(|| format!("then: {}", last.message.trim_end_matches('.')));
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
    if let Some(workspace) = node.and_then(|node| node.workspace.parse().ok()) {
        return workspace;
    }
    // Of another broker's workspaces nothing is known here.
    if told.source == Source::Default && broker.is_some() {
        return WORKSPACE_DEFAULT.parse().expect("the default is an id");
    }
    told.value.clone()
}

/// Why a broker is not spoken to; `None`: nobody is there, or it is not a matter of trust.
pub(super) fn no_connection(why: &DialError) -> Option<Failure> {
    let text = format!("{}.", why.to_string().trim_end_matches('.'));
    match why {
        DialError::Url(_) => Some(Failure::usage(text)),
        DialError::Plain(_) => Some(Failure::untrusted(text)),
        DialError::Files(_) => Some(Failure::local(text)),
        DialError::Tls(why) => Some(tls_untrusted(why)),
        DialError::Name { .. } => Some(Failure::reason(Reason::Unavailable, text)),
        DialError::Unreachable { .. } | DialError::Http { .. } => None,
    }
}

fn tls_untrusted(why: &ConnectError) -> Failure {
    let text = format!("{}.", why.to_string().trim_end_matches('.'));
    if why.is_final() {
        Failure::untrusted(text)
    } else {
        Failure::reason(Reason::Unavailable, text)
    }
}

/// Why no TLS connection came about, if that is why a call failed.
fn tls_failure(status: &Status) -> Option<&ConnectError> {
    let first = std::error::Error::source(status);
    let mut causes = std::iter::successors(first, |why| (*why).source());
    causes.find_map(|why| why.downcast_ref())
}

fn is_unauthenticated(status: &Status) -> bool {
    Reason::of(status) == Some(Reason::Unauthenticated)
}

impl Calls for Broker {
    type Error = Failure;

    async fn call<R: Rpc>(&self, request: &R) -> Result<R::Response, Failure> {
        Self::call(self, request).await
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::token::{SECRET_BYTES, Secret, Token};

    use super::*;
    use crate::{
        config::{Environment, Key, Layer, Raw},
        credentials::Joined,
    };

    #[test]
    fn a_command_is_about_the_workspace_of_the_node_whose_broker_it_asks() {
        let place = tempfile::tempdir().unwrap();
        let around = Environment::within(place.path());
        let meant = |told: &[(Key, &'static str)]| {
            let raw = |text: &str| Raw { source: Source::Flag("-"), texts: vec![text.to_owned()] };
            let layer: Layer = told.iter().map(|(key, text)| (*key, raw(text))).collect();
            Broker::new(&Config::load(layer, None, &around).unwrap()).workspace.to_string()
        };
        assert_eq!(meant(&[]), "default");
        let node = NodeFile {
            pid: std::process::id(),
            broker: "http://127.0.0.1:1".into(),
            ..NodeFile::example("project")
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

    #[test]
    fn a_broker_that_nobody_named_is_found_where_it_is_now() {
        let place = tempfile::tempdir().unwrap();
        let around = Environment::within(place.path());
        let broker = |told: &[(Key, &'static str)]| {
            let raw = |text: &str| Raw { source: Source::Flag("-"), texts: vec![text.to_owned()] };
            let layer: Layer = told.iter().map(|(key, text)| (*key, raw(text))).collect();
            Broker::new(&Config::load(layer, None, &around).unwrap())
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let write = |pid: u32, port: u16, has_brief_broker: bool| {
            let node = NodeFile {
                pid,
                broker: format!("http://127.0.0.1:{port}"),
                has_brief_broker,
                ..NodeFile::example("default")
            };
            node.write(place.path()).unwrap();
        };
        let (gone, here) = (child.id(), std::process::id());
        // One that was killed may be started again; one that a command had will not be.
        write(gone, 1, false);
        assert!(broker(&[]).find_again());
        write(gone, 1, true);
        let (mut found, mut named) = (broker(&[]), broker(&[(Key::Broker, "http://127.0.0.1:1")]));
        assert!(!found.find_again());
        assert_eq!(found.url, "http://127.0.0.1:1");
        write(here, 2, false);
        assert!(found.find_again());
        assert_eq!((found.url.as_str(), found.is_brief), ("http://127.0.0.1:2", false));
        assert!(named.find_again());
        assert_eq!(named.url, "http://127.0.0.1:1");
    }

    fn token(fill: u8) -> Token {
        Token { id: "0011".parse().unwrap(), secret: Secret::new([fill; SECRET_BYTES]) }
    }

    /// The broker does not know the new token either.
    #[tokio::test]
    async fn a_token_that_is_rotated_meanwhile_is_no_reason_to_go_on_for_ever() {
        let data = tempfile::tempdir().unwrap();
        let url = "http://127.0.0.1:9".to_owned();
        let broker = Broker {
            url: url.clone(),
            is_named: true,
            is_brief: false,
            workspace: "default".parse().unwrap(),
            node: None,
            data: data.path().to_owned(),
            client: Arc::default(),
        };
        let sent = std::cell::Cell::new(0);
        let send = async |_| -> Result<Response<()>, Status> {
            sent.set(sent.get() + 1);
            if sent.get() == 1 {
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
        assert!(failure.message.contains("the broker said: the disk failed; then: "), "{failure}");
        assert_eq!(sent.get(), 3, "once more with the token that was written");
    }
}
