//! All of it as an ordinary user: where tests run as root, the others here hold for root alone.

use std::{fs, os::unix::fs::chown, time::Duration};

use rustix::process::getuid;
use tokio::{process::Command, time::timeout};

/// Whom files of nobody belong to, on every system.
const NOBODY: u32 = 65534;

/// For all of the others on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
#[ignore = "needs root, git, landlock, perl and pgrep: it runs the others as another user"]
async fn it_holds_and_works_for_an_ordinary_user() {
    assert!(getuid().is_root(), "only root becomes another user");
    let place = tempfile::tempdir().unwrap();
    chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let log = place.path().join("log");
    let file = fs::File::create(&log).unwrap();
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(["accept::", "--include-ignored", "--skip", "an_ordinary_user"]);
    // That user may not see root's toolchain.
    tests.args(["--skip", "a_crate_is_built"]);
    tests.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("RUST_BACKTRACE", "0");
    tests.env("HOME", place.path()).env("TMPDIR", place.path());
    // Whose groups root was in goes with it.
    tests.uid(NOBODY).gid(NOBODY).stdout(file.try_clone().unwrap()).stderr(file);
    let ended = timeout(PATIENCE, tests.kill_on_drop(true).status()).await;
    let said = fs::read_to_string(&log).unwrap();
    assert!(ended.expect("it ends in time").unwrap().success(), "{said}");
    assert!(
        said.contains("what_loses_its_keeper_is_ended_and_never_called_passed ... ok"),
        "{said}"
    );
}
