//! What the node shows its broker and by what it knows it, as of this moment.
//!
//! They may change while the node runs: `tasuki join` and `tasuki broker-token rotate` write new
//! ones. They are read again when those in use were of no help.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tasuki_proto::{
    net::tls::{ALPN_H2, TlsError, Trusting},
    token::Token,
    trace::{self, TRACEPARENT, TRACESTATE},
};
use tokio_rustls::TlsConnector;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
};

use crate::credentials::{Credentials, CredentialsError, keep_spare};

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientAuthError {
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct ClientAuth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    data: PathBuf,
    broker: String,
    now: Mutex<Now>,
}

struct Now {
    found: Credentials,
    /// The spare token is shown, and nobody knows yet whether it is good.
    is_spare: bool,
    shown: Option<MetadataValue<Ascii>>,
    /// `None`: the broker is on this machine and speaks in the open.
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Now").field("found", &self.found).finish_non_exhaustive()
    }
}

impl Now {
    fn new(found: Credentials, broker: &str) -> Result<Self, ClientAuthError> {
        let trusting = || Trusting {
            trust: found.trust,
            authorities: found.authorities.clone(),
            client: found.client.clone(),
        };
        let is_https = broker.get(..8).is_some_and(|it| it.eq_ignore_ascii_case("https://"));
        let tls = is_https.then(|| trusting().connector(&[ALPN_H2])).transpose()?;
        let shown = found.token.as_ref().and_then(shown);
        Ok(Self { found, is_spare: false, shown, tls })
    }
}

/// A token as it goes with a call. Logs do not show it.
fn shown(token: &Token) -> Option<MetadataValue<Ascii>> {
    // A token is made of characters that fit.
    let mut shown: MetadataValue<_> = format!("Bearer {}", token.expose()).parse().ok()?;
    shown.set_sensitive(true);
    Some(shown)
}

impl ClientAuth {
    pub fn find(data: &Path, broker: &str) -> Result<Self, ClientAuthError> {
        let now = Now::new(Credentials::find(data, broker)?, broker)?;
        let (data, broker) = (data.to_owned(), broker.to_owned());
        Ok(Self(Arc::new(Shared { data, broker, now: Mutex::new(now) })))
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock()
    }

    pub fn tls(&self) -> Option<TlsConnector> {
        self.now().tls.clone()
    }

    /// Takes over what was written since; says whether anything was.
    pub fn read_again(&self) -> bool {
        let Shared { data, broker, .. } = &*self.0;
        let read = Credentials::find(data, broker).map_err(ClientAuthError::from);
        let mut now = self.now();
        let read = read
            .and_then(|found| (found != now.found).then(|| Now::new(found, broker)).transpose());
        match read {
            Ok(Some(newer)) => {
                *now = newer;
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%error, "what this machine joined with cannot be read");
                false
            }
        }
    }

    /// The broker did not know the token; says whether there is another to show.
    pub fn turned_away(&self) -> bool {
        if self.read_again() {
            return true;
        }
        let mut now = self.now();
        let Some(spare) = now.found.spare.clone() else { return false };
        now.is_spare = !now.is_spare;
        now.shown =
            if now.is_spare { shown(&spare) } else { now.found.token.as_ref().and_then(shown) };
        now.is_spare
    }

    /// The broker knows the token.
    pub fn taken(&self) {
        let spare = self.now().found.spare.clone();
        let is_spare = std::mem::take(&mut self.now().is_spare);
        if let Some(spare) = spare.filter(|_| is_spare) {
            if let Err(error) = keep_spare(&self.0.data, &spare) {
                tracing::warn!(%error, "the token that is good cannot be kept");
                return;
            }
            self.read_again();
        }
    }
}

impl Interceptor for ClientAuth {
    /// Shows who calls, with every call of every client, and what the call belongs to: here and
    /// nowhere else.
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(shown) = &self.now().shown {
            request.metadata_mut().insert("authorization", shown.clone());
        }
        if let Some(trace) = trace::current() {
            let parent = Some((TRACEPARENT, trace.parent()));
            let state = trace.state().map(|state| (TRACESTATE, state.to_owned()));
            for (name, value) in parent.into_iter().chain(state) {
                // It is of characters that fit.
                if let Ok(value) = value.parse::<MetadataValue<Ascii>>() {
                    request.metadata_mut().insert(name, value);
                }
            }
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::{
        token::{SECRET_BYTES, Secret},
        trace::TraceContext,
    };

    use super::*;
    use crate::credentials::Joined;

    const URL: &str = "https://host:7420";

    fn token(fill: u8) -> Token {
        Token { id: "0011".parse().expect("an id"), secret: Secret::new([fill; SECRET_BYTES]) }
    }

    fn joined(fill: u8) -> Joined {
        Joined {
            broker: URL.to_owned(),
            fingerprint: Some(tasuki_proto::invitation::Fingerprint([9; 32]).to_string()),
            ca: None,
            client_cert: None,
            client_key: None,
            invitation: String::new(),
            token: token(fill).expose(),
            workspace: "default".to_owned(),
            roles: Vec::new(),
            is_any_role: true,
            rights: Vec::new(),
            expires_ms: 0,
        }
    }

    fn shows(auth: &ClientAuth) -> Option<u8> {
        let request = auth.clone().call(Request::new(())).expect("let through");
        let shown = request.metadata().get("authorization")?.clone();
        (0..9).find(|fill| shown == format!("Bearer {}", token(*fill).expose()))
    }

    #[test]
    fn a_token_goes_with_every_call_and_is_not_logged() {
        let data = tempfile::tempdir().expect("a directory");
        joined(1).write(data.path()).expect("written");
        let auth = ClientAuth::find(data.path(), URL).expect("found");
        assert_eq!((shows(&auth), auth.tls().is_some()), (Some(1), true));
        let request = auth.clone().call(Request::new(())).expect("let through");
        let logged = format!("{auth:?} {request:?}");
        assert!(!logged.contains(&token(1).secret.expose()), "{logged}");
        let other = ClientAuth::find(data.path(), "http://127.0.0.1:1").expect("found");
        assert_eq!((shows(&other), other.tls().is_some()), (None, false));
    }

    #[tokio::test]
    async fn a_call_names_the_trace_that_it_belongs_to() {
        const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let data = tempfile::tempdir().expect("a directory");
        let auth = ClientAuth::find(data.path(), "http://127.0.0.1:1").expect("found");
        let named = || {
            let request = auth.clone().call(Request::new(())).expect("let through");
            let names = [TRACEPARENT, TRACESTATE].map(|name| request.metadata().get(name).cloned());
            names.map(|value| value.and_then(|value| value.to_str().ok().map(str::to_owned)))
        };
        assert_eq!(named(), [None, None]);
        let trace = TraceContext::parse(PARENT, Some("a=1,b=2")).expect("well formed");
        let named = trace.scope(async { named() }).await;
        assert_eq!(named, [Some(PARENT.to_owned()), Some("a=1,b=2".to_owned())]);
    }

    #[test]
    fn what_is_written_later_is_noticed_when_it_is_needed() {
        let data = tempfile::tempdir().expect("a directory");
        joined(1).write(data.path()).expect("written");
        let auth = ClientAuth::find(data.path(), URL).expect("found");
        assert!(!auth.turned_away(), "nothing else to show");
        joined(2).write(data.path()).expect("written");
        assert!(auth.turned_away());
        assert_eq!(shows(&auth), Some(2));

        Joined::begin_rotation(data.path(), &token(3)).expect("written");
        assert!(auth.turned_away(), "read again");
        assert_eq!(shows(&auth), Some(2));
        let both: Vec<_> = (0..3).map(|_| (auth.turned_away(), shows(&auth))).collect();
        assert_eq!(both, [(true, Some(3)), (false, Some(2)), (true, Some(3))]);
        auth.taken();
        assert!(!auth.turned_away() && shows(&auth) == Some(3), "the spare is the token");
    }
}
