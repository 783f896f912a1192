//! Disks that are full or cannot be written to, on the laptop.

use crate::join::world::{Home, Host};

/// One page for each file, and one for the file that replaces it.
const TIGHT: &str = "size=4k";

#[tokio::test]
#[ignore = "needs small disks: it mounts one"]
async fn a_disk_that_fills_up_while_joining_is_no_loss() {
    let place = tempfile::tempdir().unwrap();
    let host = Host::new(place.path(), "host").await;
    let laptop = Home::new(place.path(), "laptop");
    let data = laptop.data();
    std::fs::create_dir_all(&data).unwrap();
    let line = host.invite("--role dev").await;
    let disk = format!("mount -t tmpfs -o {TIGHT},mode=700 tmpfs {}", data.display());
    let remount = |how: &str| format!("mount -o remount,{how} {}", data.display());
    let tasuki = env!("CARGO_BIN_EXE_tasuki");
    let join = line.replacen("tasuki", tasuki, 1);
    let script = format!(
        "set -e\n{disk}\n\
         {}\n{join} && exit 10 || test $? = 5\n{}\n\
         {join} && exit 11 || test $? = 5\n{}\n\
         {join}\n{tasuki} status\n{tasuki} broker-token show",
        remount("ro"),
        remount("rw"),
        remount("size=1m"),
    );
    let environment: Vec<_> = laptop
        .command("tasuki")
        .as_std()
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(&laptop.path).env_clear();
    let output = crate::join::world::soon(command.envs(environment).output()).await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    assert!(said.contains("Nothing was sent") && said.contains("Read-only file system"), "{said}");
    assert!(said.contains("it cannot be kept in") && said.contains("No space left"), "{said}");
    let story = host.invitation(&line).await;
    assert!(story["token_id"].is_string() && story["misuses"] == serde_json::json!([]), "{story}");
    assert_eq!(host.tokens().await.len(), 2);
}
