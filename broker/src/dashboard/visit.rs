//! One request of a person: where they are, who they are, and the only way from there to the API.

use std::{
    any::Any,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::{self, FromRequestParts, RawPathParams},
    response::{IntoResponse, Redirect, Response},
};
use http::{
    HeaderValue, Method,
    header::{AUTHORIZATION, SET_COOKIE},
    request::Parts,
};
use serde::de::DeserializeOwned;
use tasuki_proto::{
    id::WorkspaceId,
    rpc::{self, Rpc},
    token::Right,
    wire,
};
use tokio::time::{Instant, timeout};
use tonic::{Status, body::Body};
use tower::Service;

use super::{App, HUMAN, form::Form, login, session::Login, view};
use crate::{connection::Peer, grpc::Carrier, overview::Calls};

/// For one answer: a person waits no longer, and then tries again.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Somebody looks at a page, or does something there.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) app: Arc<App>,
    pub(super) workspace: WorkspaceId,
    /// `None`: no token is asked for.
    pub(super) login: Option<Arc<Login>>,
    /// What the token allows that calls are made with: the visitor's, or that of whoever serves the
    /// pages.
    pub(super) scope: Arc<wire::Scope>,
    /// Of the browser.
    pub(super) name: String,
    /// Gives the browser its name, where it had none.
    cookie: Option<HeaderValue>,
    peer: Option<Arc<Peer>>,
}

impl Visit {
    /// What the visitor may do, as far as that is known before asking.
    pub(super) fn may(&self, right: Right) -> bool {
        self.scope.rights.iter().any(|it| *it == right.to_string())
    }

    /// Whether the visitor may act as the role of people.
    pub(super) fn may_act(&self, right: Right) -> bool {
        let has_role = self.scope.is_any_role || self.scope.roles.iter().any(|it| it == HUMAN);
        has_role && self.may(right)
    }

    /// The name that people see for whoever acts.
    pub(super) fn person(&self) -> String {
        let label = self.login.as_ref().map(|login| login.token.label.as_str());
        let label = label.unwrap_or_default();
        let letters = label.chars().filter(|it| it.is_ascii_alphanumeric() || "_.-".contains(*it));
        let label: String = letters.take(tasuki_proto::limits::ID_BYTES_MAX).collect();
        let is_name = label.starts_with(|first: char| first.is_ascii_alphanumeric());
        if is_name { label } else { HUMAN.to_owned() }
    }

    /// The address of a page of this workspace: `path` begins with a slash.
    pub(super) fn link(&self, path: &str) -> String {
        format!("/w/{}{path}", self.workspace)
    }

    /// What a form of this visitor's must carry.
    pub(super) fn form_token(&self) -> String {
        self.app.sessions.form_token(&self.name)
    }

    pub(super) fn channel(&self) -> Bearing {
        Bearing {
            carrier: self.app.settings.carrier.clone(),
            authorization: self.login.as_ref().map(|login| login.authorization.clone()),
            peer: self.peer.clone(),
        }
    }

    pub(super) fn caller(&self) -> wire::Caller {
        wire::Caller { workspace: self.workspace.to_string(), ..wire::Caller::default() }
    }

    /// Gives a command under the key of the form that it was sent with.
    pub(super) async fn command<R: Rpc>(
        &self,
        form: &Form,
        mut request: R,
    ) -> Result<R::Response, Status> {
        request.set_key(Some(self.app.keys.of_form(form.key())));
        self.call(&request).await
    }

    /// The same of the second and later commands of one form.
    pub(super) async fn command_after<R: Rpc>(
        &self,
        form: &Form,
        step: &str,
        mut request: R,
    ) -> Result<R::Response, Status> {
        request.set_key(Some(self.app.keys.of_form(&format!("{}/{step}", form.key()))));
        self.call(&request).await
    }

    /// What time it is by the broker's clock: pages say how long ago things were.
    pub(super) async fn now_ms(&self) -> Result<u64, Status> {
        let request = wire::ListLocksRequest { limit: 1, ..Default::default() };
        Ok(self.call(&request).await?.now_ms)
    }

    /// The role as which it looks; empty: as nobody in particular.
    pub(super) fn looks_as(&self) -> String {
        let role = if self.may_act(Right::Read) { HUMAN } else { "" };
        role.to_owned()
    }

    /// An answer that gives the browser its name where it has none.
    pub(super) fn named(&self, mut response: Response) -> Response {
        if let Some(cookie) = &self.cookie {
            response.headers_mut().append(SET_COOKIE, cookie.clone());
        }
        response
    }
}

impl Calls for Visit {
    type Error = Status;

    async fn call<R: Rpc>(&self, request: &R) -> Result<R::Response, Status> {
        let mut request = request.clone();
        request.set_caller(self.caller());
        let answer = timeout(ANSWER_WITHIN, rpc::send(self.channel(), request)).await;
        let late = |_| Err(Status::deadline_exceeded("the broker did not answer in time"));
        let answer = answer.unwrap_or_else(late)?.into_inner();
        let Some(words) = &self.app.settings.words else { return Ok(answer) };
        let mut answer: Box<dyn Any + Send> = Box::new(answer);
        words.open(&mut answer).await;
        Ok(*answer.downcast().expect("the response stays what it was"))
    }
}

/// A channel on which every call shows the visitor's token (WD1).
#[derive(Clone)]
pub(super) struct Bearing {
    carrier: Carrier,
    authorization: Option<HeaderValue>,
    peer: Option<Arc<Peer>>,
}

impl Bearing {
    pub(super) fn new(
        carrier: Carrier,
        authorization: Option<HeaderValue>,
        peer: Option<Arc<Peer>>,
    ) -> Self {
        Self { carrier, authorization, peer }
    }
}

impl Service<http::Request<Body>> for Bearing {
    type Response = http::Response<Body>;
    type Error = tower::BoxError;
    type Future = <Carrier as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.carrier.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(Arc::clone(peer));
        }
        self.carrier.call(request)
    }
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Trouble> {
        // Where only forms are sent, there is nothing to come back to.
        let here = parts.uri.path_and_query().filter(|_| parts.method == Method::GET);
        let here = here.map_or("/", |it| it.as_str()).to_owned();
        let shown = app.sessions.name(&parts.headers);
        let login = shown.as_deref().and_then(|name| app.sessions.login(name, Instant::now()));
        if app.settings.asks_for_token && login.is_none() {
            return Err(Trouble::LogIn { next: here });
        }
        let workspace = match RawPathParams::from_request_parts(parts, app).await {
            Ok(params) => {
                params.iter().find(|(name, _)| *name == "workspace").map(|it| it.1.to_owned())
            }
            Err(_) => None,
        };
        let workspace = match workspace {
            Some(name) => name.parse().map_err(|_| Trouble::NotFound)?,
            None => app.settings.home.clone(),
        };
        let (name, cookie) = match shown {
            Some(name) => (name, None),
            None => {
                let (name, cookie) = app.sessions.begin();
                (name, Some(cookie))
            }
        };
        let peer = parts.extensions.get::<Arc<Peer>>().cloned();
        let scope = match &login {
            Some(login) => Arc::new(login.token.scope.clone().unwrap_or_default()),
            None => app.own_scope.get(app.settings.carrier.clone(), peer.clone()).await,
        };
        Ok(Self { app: Arc::clone(app), workspace, login, scope, name, cookie, peer })
    }
}

/// What the address of a page says of it.
pub(super) struct Query<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Trouble> {
        let read = extract::Query::try_from_uri(&parts.uri);
        let not = |_| Trouble::Invalid("This address is not one of a page's links.".to_owned());
        read.map(|it| Self(it.0)).map_err(not)
    }
}

/// Why there is no page, or why nothing was done.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nobody is logged in; this is where they wanted to go.
    LogIn {
        next: String,
    },
    NotFound,
    /// The address of a form was opened as a page.
    OnlyForms,
    /// What a form said is not usable.
    Invalid(String),
    /// The form is not one of this browser's.
    Forged,
    Refused(Status),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        use http::StatusCode;
        let (code, text) = match self {
            Self::LogIn { next } => return Redirect::to(&login::address(&next)).into_response(),
            Self::NotFound => (StatusCode::NOT_FOUND, "There is no such page.".to_owned()),
            Self::OnlyForms => {
                let text = "This is where a form is sent to, and no page.";
                (StatusCode::METHOD_NOT_ALLOWED, text.to_owned())
            }
            Self::Invalid(text) => (StatusCode::UNPROCESSABLE_ENTITY, text),
            Self::Forged => (
                StatusCode::FORBIDDEN,
                "This form was made for another session and is not taken any more. Reload the \
                 page, look whether it was done before, and send it again if not."
                    .to_owned(),
            ),
            Self::Refused(status) => {
                let code = tonic::Code::Unauthenticated;
                if status.code() == code {
                    return Redirect::to(&login::address("/")).into_response();
                }
                let (code, why) = (http_code(status.code()), status.message());
                let text = if code == StatusCode::SERVICE_UNAVAILABLE {
                    format!("The broker does not answer. Look again in a moment. ({why})")
                } else {
                    why.to_owned()
                };
                (code, text)
            }
        };
        (code, view::bare(code, &text)).into_response()
    }
}

const fn http_code(code: tonic::Code) -> http::StatusCode {
    use http::StatusCode;
    use tonic::Code;
    match code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::UNPROCESSABLE_ENTITY,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded | Code::Cancelled => StatusCode::GATEWAY_TIMEOUT,
        Code::Ok
        | Code::Unknown
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss
        | Code::Unauthenticated => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
