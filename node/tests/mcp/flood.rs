//! Thousands of connections that say nothing.

use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::{http::Client, world::World};

/// These tests share the files that one process may open, so they take turns.
static FILES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// As many as the system lets one process open, both ends of each counted.
fn how_many() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = usize::try_from(limit.unwrap_or(20_000)).unwrap();
    (limit.saturating_sub(200) / 2).min(5_200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed_and_do_not_crowd_out_callers() {
    let _files = FILES.lock().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_never_end_are_closed_and_do_not_crowd_out_callers() {
    let _files = FILES.lock().await;
    let world = World::new().await;
    let a = Client::new(world.addr, "/mcp/A").await;
    let head = b"POST /mcp/A HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Content-Length: 9\r\n\r\n{";
    let mut endless = Vec::new();
    for _ in 0..how_many() {
        let mut stream = TcpStream::connect(world.addr).await.unwrap();
        stream.write_all(head).await.ok();
        endless.push(stream);
    }
    timeout(Duration::from_secs(5), a.call("loop_status", json!({}))).await.unwrap();
    let mut answer = Vec::new();
    let last = endless.last_mut().unwrap();
    timeout(Duration::from_secs(15), last.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

/// Runs in a process of its own, which is short of files.
#[test]
fn a_server_that_runs_out_of_files_goes_on() {
    const IS_CHILD: &str = "TASUKI_TEST_FEW_FILES";
    if std::env::var_os(IS_CHILD).is_none() {
        let name = "flood::a_server_that_runs_out_of_files_goes_on";
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(IS_CHILD, "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let mut few = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    few.current = Some(128);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        // The server's task does not run meanwhile, so all files are gone when it does.
        let mut silent = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect(world.addr) {
            silent.push(stream);
        }
        assert!(20 < silent.len(), "{}", silent.len());
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        drop(silent);
        Client::new(world.addr, "/mcp/A").await.call("loop_status", json!({})).await;
    });
}
