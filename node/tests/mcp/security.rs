//! Pages from elsewhere, and names that are not this machine's.

use crate::{http::Http, world::World};

const ENDPOINTS: [&str; 9] = [
    "POST /mcp",
    "POST /mcp/A",
    "GET /mcp/A",
    "GET /sse",
    "GET /sse/A",
    "POST /message?sessionId=x",
    "GET /stdio/A",
    "GET /healthz",
    "GET /nothing",
];

async fn status(world: &World, request: &str, header: (&str, &str)) -> u16 {
    let mut http = Http::connect(world.addr).await;
    http.send(request, &[header], b"").await;
    http.status
}

#[tokio::test]
async fn no_endpoint_speaks_to_pages_from_elsewhere() {
    let world = World::new().await;
    for request in ENDPOINTS {
        for origin in ["http://evil.example", "https://localhost.evil.example", "null"] {
            assert_eq!(status(&world, request, ("Origin", origin)).await, 403, "{request}");
        }
        for origin in ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:80"] {
            assert_ne!(status(&world, request, ("Origin", origin)).await, 403, "{request}");
        }
    }
}

#[tokio::test]
async fn no_endpoint_answers_to_a_rebound_name() {
    let world = World::new().await;
    for request in ENDPOINTS {
        for host in ["evil.example", "evil.example:7421", "127.0.0.1.evil.example", ""] {
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
