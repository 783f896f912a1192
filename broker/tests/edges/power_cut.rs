//! Power cuts: the broker runs on a disk that forgets what was not synced, and is killed. A
//! broker on what the disk kept must serve every handover that was acknowledged.
//!
//! The disk is `tests/power_cut/shim.c`.

use std::path::{Path, PathBuf};

use crate::{
    common::Dice,
    support::{Process, arguments, assert_whole, check_all, play_all, players, seed, setting},
};

/// Acknowledgements before a cut, at most.
const ACKS_MAX: u64 = 250;

/// The disk that forgets, built into `dir`.
pub(crate) fn shim(dir: &Path) -> PathBuf {
    let shim = dir.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power_cut/shim.c");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&shim).arg(source).arg("-ldl");
    assert!(cc.status().unwrap().success(), "the shim compiles");
    shim
}

/// One cut after `acks`: what a broker on the image gets wrong, and on what the process saw.
async fn cut(shim: &Path, acks: u64, torn: Option<u64>, flags: &[&str]) -> [Result<(), String>; 2] {
    let base = tempfile::tempdir().unwrap();
    let (seen, image) = (base.path().join("seen"), base.path().join("image"));
    std::fs::create_dir(&seen).unwrap();
    std::fs::create_dir(&image).unwrap();
    let words = [&["serve", "--listen", "127.0.0.1:0"], flags].concat();
    let mut environment = vec![
        ("LD_PRELOAD", shim.into()),
        ("CUT_FROM", seen.clone().into()),
        ("CUT_TO", image.clone().into()),
    ];
    environment.extend(torn.map(|seed| ("CUT_TORN", seed.to_string().into())));
    let mut broker = Process::spawn(&arguments(&words, &seen), &environment);
    let address = broker.address().await.unwrap();
    let mut players = players(&["one", "two"], 3);
    let (kill, killing) = tokio::sync::oneshot::channel();
    let killed = async {
        killing.await.unwrap();
        broker.kill().await
    };
    let play = play_all(address, &mut players, acks, || kill.send(()).unwrap());
    tokio::join!(play, killed);

    let mut found = [Ok(()), Ok(())];
    for (found, dir) in found.iter_mut().zip([&image, &seen]) {
        // The image stands for the same disk, in another folder.
        let mut broker = Process::serve_moved(dir);
        *found = match broker.address().await {
            Some(address) => check_all(address, &players).await,
            None => Err(broker.log()),
        };
        broker.kill().await;
        if found.is_ok() {
            assert_whole(dir).await;
        }
    }
    found
}

/// Holds A3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_power_cut() {
    let base = tempfile::tempdir().unwrap();
    let shim = shim(base.path());
    let seed = seed();
    let mut dice = Dice::new(seed);
    for round in 0..setting("TASUKI_CUTS", 12) {
        let acks = 1 + dice.roll(ACKS_MAX);
        let torn = (round % 2 == 1).then(|| seed + round);
        let found = cut(&shim, acks, torn, &[]).await;
        assert_eq!(found, [Ok(()), Ok(())], "round {round}, {acks} acks, torn {torn:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_sync_a_power_cut_loses_handovers() {
    let base = tempfile::tempdir().unwrap();
    let shim = shim(base.path());
    let [image, seen] = cut(&shim, 60, None, &["--unsynced"]).await;
    assert!(image.is_err(), "the cut must be seen");
    assert_eq!(seen, Ok(()), "without a cut nothing is lost");
}
