//! Names that are swapped for links while they are used.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::Place;

/// Calls while names are swapped.
const CALLS: usize = 400;

/// Swaps, at least.
const SWAPS_MIN: u64 = 100_000;

/// Swaps two names over and over.
struct Flipper {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flipper {
    fn new(one: PathBuf, other: PathBuf) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) || counted.load(Ordering::Relaxed) < SWAPS_MIN {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, count, thread: Some(thread) }
    }

    fn ended(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.count.load(Ordering::Relaxed)
    }
}

/// Holds FS1.
#[tokio::test]
async fn a_directory_that_becomes_a_link_leads_nowhere() {
    let place = Place::new("").await;
    let root = place.path("root");
    fs::create_dir(root.join("flip")).unwrap();
    fs::write(root.join("flip/kept"), "inside\n").unwrap();
    symlink(place.path("outside"), root.join("flip-link")).unwrap();
    let flipper = Flipper::new(root.join("flip"), root.join("flip-link"));
    let (mut read, mut refused) = (0, 0);
    for number in 0..CALLS {
        let told = place.call("fs_read", json!({ "path": "flip/kept" })).await;
        match told["structuredContent"]["content"].as_str() {
            Some(content) => {
                assert!(content != "secret\n", "call {number} read what is outside");
                read += 1;
            }
            None => refused += 1,
        }
        let path = if number % 2 == 0 { "flip/kept" } else { "flip/deep/new" };
        place.call("fs_write", json!({ "path": path, "content": format!("{number}\n") })).await;
        let told = place.call("fs_list", json!({ "path": "flip", "depth": 2 })).await;
        assert!(!told.to_string().contains("socket"), "call {number} listed what is outside");
    }
    let swaps = flipper.ended();
    assert!(
        0 < read && 0 < refused && SWAPS_MIN <= swaps,
        "{read} read, {refused} refused, {swaps}"
    );
    assert_eq!(fs::read_to_string(place.path("outside/kept")).unwrap(), "secret\n");
    assert_eq!(fs::read_dir(place.path("outside")).unwrap().count(), 2);
}

/// Holds FS1, FS3.
#[tokio::test]
async fn a_file_that_becomes_a_link_is_not_written_through() {
    let place = Place::new("").await;
    let root = place.path("root");
    fs::write(root.join("flip-a"), "inside\n").unwrap();
    symlink(place.path("outside/kept"), root.join("flip-b")).unwrap();
    let (one, other, stop) =
        (root.join("flip-a"), root.join("flip-b"), Arc::new(AtomicBool::new(false)));
    let (stopped, secret) = (Arc::clone(&stop), place.path("outside/kept"));
    // Writes may replace the link, so it is made anew.
    let flipping = std::thread::spawn(move || {
        let mut swaps = 0_u64;
        while !stopped.load(Ordering::Relaxed) || swaps < SWAPS_MIN {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
            if swaps.is_multiple_of(16) && !one.is_symlink() && !other.is_symlink() {
                let made = one.with_extension("new");
                symlink(&secret, &made).unwrap();
                fs::rename(&made, &other).unwrap();
            }
        }
    });
    for number in 0..CALLS {
        let told = place.call("fs_read", json!({ "path": "flip-a" })).await;
        assert!(!told.to_string().contains("secret"), "call {number} read what is outside");
        for mode in ["overwrite", "append"] {
            let asked = json!({ "path": "flip-a", "content": "inside\n", "mode": mode });
            place.call("fs_write", asked).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    flipping.join().unwrap();
    assert_eq!(fs::read_to_string(place.path("outside/kept")).unwrap(), "secret\n");
}
