//! Thousands of connections that say nothing.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{http::Client, world::World};

/// As many as the system lets one process open, both ends of each counted.
fn how_many() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = usize::try_from(limit.unwrap_or(20_000)).unwrap();
    (limit.saturating_sub(200) / 2).min(5_200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed_and_do_not_crowd_out_callers() {
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let began = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..how_many() {
        silent.push(TcpStream::connect(world.addr).await.unwrap());
    }
    timeout(Duration::from_secs(5), a.call("loop_status", json!({}))).await.unwrap();
    for mut stream in silent {
        let closed = timeout(Duration::from_secs(15), stream.read(&mut [0; 512])).await;
        assert!(closed.is_ok(), "open after {:?}", began.elapsed());
    }
    a.call("loop_status", json!({})).await;
}
