//! Pages of browsers, and names that are not this machine's.

use serde_json::{Value, json};

use crate::{
    http::{BOTH, Client, Http, JSON, initialize},
    world::World,
};

const ENDPOINTS: [&str; 16] = [
    "POST /mcp",
    "POST /mcp/A",
    "GET /mcp/A",
    "DELETE /mcp/A",
    "OPTIONS /mcp/A",
    "GET /sse",
    "GET /sse/A",
    "POST /message?sessionId=x",
    "GET /stdio",
    "GET /stdio/A",
    "GET /status",
    "GET /tools/A",
    "POST /take-over/A?as=x",
    "POST /outbox/1/drop",
    "GET /healthz",
    "GET /nothing",
];

async fn status(world: &World, request: &str, header: (&str, &str)) -> u16 {
    let mut http = Http::connect(world.addr).await;
    http.send(request, &[header], b"").await;
    http.status
}

/// Holds C1.
#[tokio::test]
async fn no_endpoint_speaks_to_pages() {
    let world = World::new().await;
    let own = format!("http://localhost:{}", world.addr.port());
    for request in ENDPOINTS {
        for origin in [
            "http://evil.example",
            "https://localhost.evil.example",
            "null",
            "http://localhost:3000",
            "http://127.0.0.1",
            &own,
        ] {
            assert_eq!(status(&world, request, ("Origin", origin)).await, 403, "{request}");
        }
        for site in ["cross-site", "same-site"] {
            let site = ("Sec-Fetch-Site", site);
            assert_eq!(status(&world, request, site).await, 403, "{request} {site:?}");
        }
        assert_ne!(status(&world, request, ("Sec-Fetch-Site", "none")).await, 403, "{request}");
        assert_ne!(status(&world, request, ("Origin", "http://localhost")).await, 403, "{request}");
    }
}

/// Holds C1.
#[tokio::test]
async fn what_a_page_sends_without_asking_changes_nothing() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A?as=good").await;
    a.call("await_my_turn", json!({})).await;
    let hello = initialize("2025-06-18", "page").to_string();
    for request in ENDPOINTS.into_iter().filter(|it| it.starts_with("POST")) {
        for kind in [
            None,
            Some("text/plain"),
            Some("text/plain;application/json"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=application/json"),
        ] {
            let kind = kind.map(|kind| ("Content-Type", kind));
            let headers: Vec<_> = kind.into_iter().chain([BOTH]).collect();
            let mut http = Http::connect(world.addr).await;
            http.send(request, &headers, hello.as_bytes()).await;
            assert_eq!(http.status, 415, "{request} {kind:?}");
            assert!(http.text().await.contains("Content-Type: application/json"));
        }
    }
    assert_eq!(a.call("await_my_turn", json!({})).await["structuredContent"]["turn"], 1);
    let mut http = Http::connect(world.addr).await;
    http.send("POST /take-over/A?as=other", &[JSON], b"").await;
    let told: Value = serde_json::from_str(&http.text().await).unwrap();
    assert_eq!((http.status, &told["from"]["instance"]), (200, &json!("good")));
}

/// Holds C1.
#[tokio::test]
async fn no_endpoint_answers_to_a_rebound_name() {
    let world = World::new().await;
    for request in ENDPOINTS {
        for host in [
            "evil.example",
            "evil.example:7421",
            "127.0.0.1.evil.example",
            "127.0.0.1:7421.evil.example",
            "[::1].evil.example",
            "",
        ] {
            assert_eq!(status(&world, request, ("Host", host)).await, 403, "{request} {host}");
        }
        let own = world.addr.to_string();
        assert_ne!(status(&world, request, ("Host", &own)).await, 403, "{request}");
    }
}

#[tokio::test]
async fn only_loopback_is_served() {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let settings = tasuki_node::mcp::Settings::default();
    let refused = tasuki_node::mcp::serve(listener, Vec::new(), settings, stop).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}
