//! Steps that ran when a backup was made.

use tasuki_proto::wire::{self, RunStatus};

use super::{Node, office};
use crate::{
    backup::{back_up, restored},
    support::{Process, reason},
};

#[tokio::test]
async fn a_step_that_ran_is_lost_with_a_restore_and_its_node_has_to_register_again() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("file.backup"));
    let (broker, mut asker, mut runner) = office(&data).await;
    let run = asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let (step, claimed) = runner.take().await;
    back_up(&data, &file).await;
    broker.kill().await;

    let target = dir.path().join("restored");
    restored(&file, &target).await;
    let (broker, address) = Process::served(&target).await;
    let mut former: Node = runner.clone();
    former.moved(address);
    former.counter += 1000;
    let token = claimed.claim_token;
    assert_eq!(reason(&former.end(&step, token, "late").await.unwrap_err()), "stale_epoch");
    for node in [&mut asker, &mut runner] {
        node.moved(address);
        node.counter += 2000;
        node.register().await;
        assert!(former.epoch < node.epoch, "D1");
    }
    assert_eq!(reason(&runner.end(&step, token, "late").await.unwrap_err()), "lease_lost");
    let over = asker.hear(&run, 0).await.run.unwrap();
    assert_eq!(over.status(), RunStatus::Lost);
    broker.kill().await;
}
