//! Who is let in as a sub-agent, and for how long.

use std::collections::BTreeSet;

use axum::{
    Router,
    body::{Body, to_bytes},
    middleware::from_fn_with_state,
    response::IntoResponse as _,
    routing::any,
};
use http::header::WWW_AUTHENTICATE;
use rmcp::ServerHandler;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::*;
use crate::role::Connected;

/// More than any body here has, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
    "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

#[derive(Debug, Clone)]
struct Silent;

impl ServerHandler for Silent {}

impl McpService for Silent {
    type Handler = Self;

    fn of_requests(&self) -> Self {
        Self
    }

    fn of_connection(&self, _: &http::request::Parts) -> Self {
        Self
    }

    fn connected(&self, _: &http::request::Parts, _: &str) -> Option<Connected> {
        None
    }
}

/// The steps that run.
type Live = watch::Sender<BTreeSet<StepKey>>;

struct Fake(Arc<Live>);

#[async_trait]
impl StepService for Fake {
    type Mcp = Silent;

    fn is_live(&self, key: &StepKey) -> bool {
        self.0.borrow().contains(key)
    }

    async fn ended(&self, step: StepId) {
        let mut live = self.0.subscribe();
        let is_gone = |live: &BTreeSet<StepKey>| live.iter().all(|key| key.step() != step);
        drop(live.wait_for(is_gone).await.unwrap());
    }

    fn mcp(&self, _: &StepKey) -> Silent {
        Silent
    }

    async fn call(&self, key: &StepKey, name: &str, body: Bytes) -> Response {
        format!("{name} by {}: {} bytes", key.step().number, body.len()).into_response()
    }
}

fn key(number: u32) -> StepKey {
    StepKey::new(StepId { run: "run_1700000000000_00af".parse().unwrap(), number }).unwrap()
}

/// A server with these steps, beside a role of this name.
fn server(role: &str, keys: &[&StepKey]) -> (Router, Arc<Live>) {
    let live = Arc::new(watch::Sender::new(keys.iter().copied().cloned().collect()));
    let life = Life::new(CancellationToken::new());
    let role: RoleId = role.parse().unwrap();
    let access = StepAccess::new(Fake(Arc::clone(&live)), life, [&role].into_iter());
    let app = Router::new()
        .route("/mcp/{role}", any(|| async { "a role" }))
        .layer(from_fn_with_state(Arc::new(access), of_steps::<Fake>));
    (app, live)
}

async fn ask(app: &Router, request: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let (method, path) = request.split_once(' ').unwrap();
    let mut all = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        all = all.header(*name, *value);
    }
    app.clone().oneshot(all.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
}

async fn text(response: Response) -> String {
    let body = to_bytes(response.into_body(), BODY_BYTES_MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

fn bearer(key: &StepKey) -> String {
    format!("Bearer {key}")
}

fn mcp(authorization: &str) -> [(&'static str, &str); 4] {
    [
        ("host", "127.0.0.1:7421"),
        ("authorization", authorization),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ]
}

/// Begins a session; its id.
async fn begin(app: &Router, key: &StepKey) -> String {
    let response = ask(app, "POST /mcp/step", &mcp(&bearer(key)), INITIALIZE).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

/// The stream of a session, asked for with this key.
async fn stream(app: &Router, key: &StepKey, session: &str) -> Response {
    let authorization = bearer(key);
    let headers = [&mcp(&authorization)[..], &[("mcp-session-id", session)][..]].concat();
    ask(app, "GET /mcp/step", &headers, "").await
}

/// Holds SA2.
#[tokio::test]
async fn only_the_key_of_a_running_step_is_let_in() {
    let (one, two, ended) = (key(1), key(2), key(3));
    let (app, _live) = server("A", &[&one, &two]);
    let (whole, second) = (bearer(&one), bearer(&two));
    // The step of one with the secret of another.
    let secret = second.rsplit('/').next().unwrap();
    let mixed = format!("{}/{secret}", whole.rsplit_once('/').unwrap().0);
    let cut = &whole[..whole.len() - 1];
    let mut told = BTreeSet::new();
    for request in ["POST /mcp/step", "GET /mcp/step", "DELETE /mcp/step", "POST /step/ask"] {
        for bad in [
            cut,
            &bearer(&key(1)),
            &bearer(&ended),
            &mixed,
            &whole[7..],
            "Bearer",
            "Bearer x",
            "Bearer tasuki_1_2",
            "Basic QTpB",
        ] {
            let response = ask(&app, request, &mcp(bad), INITIALIZE).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{request} {bad}");
            told.insert(text(response).await);
        }
        let twice = [("authorization", &whole[..]), ("authorization", &second)];
        assert_eq!(ask(&app, request, &twice, "").await.status(), StatusCode::UNAUTHORIZED);
        let response = ask(&app, request, &[], "").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{request}");
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer", "{request}");
        assert!(text(response).await.contains("TASUKI_STEP_TOKEN"), "{request}");
    }
    assert_eq!(told.len(), 1, "{told:?}");
    begin(&app, &one).await;
}

#[tokio::test]
async fn a_role_of_that_name_keeps_its_address() {
    let one = key(1);
    let (app, live) = server("step", &[&one]);
    for headers in [&[][..], &mcp("Bearer tasuki_1_2")] {
        assert_eq!(text(ask(&app, "POST /mcp/step", headers, "").await).await, "a role");
    }
    begin(&app, &one).await;
    live.send_modify(BTreeSet::clear);
    let response = ask(&app, "POST /mcp/step", &mcp(&bearer(&one)), INITIALIZE).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "a key is never taken for a role's");
}

/// Holds SA3.
#[tokio::test]
async fn a_session_is_its_steps_alone() {
    let (one, two) = (key(1), key(2));
    let (app, _live) = server("A", &[&one, &two]);
    let session = begin(&app, &one).await;
    assert_eq!(stream(&app, &two, &session).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(stream(&app, &one, &session).await.status(), StatusCode::OK);
}

/// Holds SA1.
#[tokio::test]
async fn what_a_key_opened_ends_with_its_step() {
    let (one, two) = (key(1), key(2));
    let (app, live) = server("A", &[&one, &two]);
    let (session, others) = (begin(&app, &one).await, begin(&app, &two).await);
    let open = stream(&app, &one, &session).await;
    assert_eq!(open.status(), StatusCode::OK);
    live.send_modify(|live| {
        live.remove(&one);
    });
    to_bytes(open.into_body(), BODY_BYTES_MAX).await.expect_err("it breaks off");
    assert_eq!(stream(&app, &one, &session).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(stream(&app, &two, &others).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn calls_are_posted_under_their_names() {
    let two = key(2);
    let (app, _live) = server("A", &[&two]);
    let authorization = bearer(&two);
    let headers = [("authorization", authorization.as_str())];
    let response = ask(&app, "POST /step/ask", &headers, "{}").await;
    assert_eq!(text(response).await, "ask by 2: 2 bytes");
    let response = ask(&app, "GET /step/ask", &headers, "").await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    let response = ask(&app, "POST /mcp/step?hold=soon", &mcp(&authorization), INITIALIZE).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}
