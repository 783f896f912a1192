//! The rest of a long output, read from the node that ran the step, at a real broker.

use tasuki_proto::{
    limits::OUTPUT_READ_BYTES_MAX,
    wire::{self, RunMode},
};
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

use super::{Node, office};
use crate::support::{Process, caller, reason, soon};

const ALL: u64 = 3_000_000;

/// What is asked of a step that ended, from there on.
pub(super) fn part(node: &Node, step: &wire::StepRef, offset: u64) -> wire::ReadOutputRequest {
    let (caller, run_id) = (node.caller(), step.run_id.clone());
    wire::ReadOutputRequest { caller, run_id, step: step.step, offset, limit: 5 }
}

pub(super) async fn read(
    node: &mut Node,
    request: wire::ReadOutputRequest,
) -> Result<wire::ReadOutputResponse, Status> {
    Ok(soon("a part", node.runs.read_output(request)).await?.into_inner())
}

async fn watch(node: &mut Node) -> Result<Streaming<wire::OutputRead>, Status> {
    let request = wire::WatchReadsRequest { caller: node.caller() };
    Ok(soon("a stream", node.runs.watch_reads(request)).await?.into_inner())
}

async fn answer(node: &mut Node, number: u64, content: &str) -> Result<(), Status> {
    let (caller, content) = (node.caller(), content.into());
    let request = wire::AnswerReadRequest { caller, number, is_kept: true, content };
    soon("it answers", node.runs.answer_read(request)).await.map(drop)
}

/// A step of the second node that wrote more than the broker keeps.
async fn long(asker: &mut Node, runner: &mut Node) -> wire::StepRef {
    asker.start(RunMode::Single, "n2", &["one"]).await;
    let (step, claimed) = runner.take().await;
    let request = part(asker, &step, 0);
    let none = read(asker, request).await.unwrap();
    assert!(!none.is_kept && none.content.is_empty(), "it has not ended");
    let mut end = Node::ending(&step, claimed.claim_token, "begins");
    end.output_bytes = ALL;
    runner.end_step(end).await.unwrap();
    step
}

/// A read that the node at `reads` was told of.
async fn asking(
    asker: &Node,
    step: &wire::StepRef,
    reads: &mut Streaming<wire::OutputRead>,
) -> (wire::OutputRead, JoinHandle<Result<wire::ReadOutputResponse, Status>>) {
    let (mut asker, request) = (asker.clone(), part(asker, step, 2_000_000));
    let asking = tokio::spawn(async move { read(&mut asker, request).await });
    (soon("a read", reads.message()).await.unwrap().unwrap(), asking)
}

#[tokio::test]
async fn the_rest_of_an_output_is_read_from_the_node_that_ran_the_step() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let step = long(&mut asker, &mut runner).await;
    let request = part(&asker, &step, 6);
    assert!(read(&mut asker, request).await.unwrap().is_away);

    let mut reads = watch(&mut runner).await.unwrap();
    let _others = watch(&mut asker).await.unwrap();
    let (told, asked) = asking(&asker, &step, &mut reads).await;
    assert_eq!((&told.run_id, told.step), (&step.run_id, 1));
    assert_eq!((told.offset, told.limit), (2_000_000, 5));
    answer(&mut asker, told.number, "forged").await.unwrap();
    answer(&mut runner, told.number + 1, "another").await.unwrap();
    answer(&mut runner, told.number, "there and more").await.unwrap();
    let got = asked.await.unwrap().unwrap();
    assert!(got.is_kept && got.now_ms != 0);
    assert_eq!(got.content, b"there", "no more than was asked for");
    answer(&mut runner, told.number, "again").await.unwrap();

    let (told, asked) = asking(&asker, &step, &mut reads).await;
    let request = wire::AnswerReadRequest {
        caller: runner.caller(),
        number: told.number,
        ..Default::default()
    };
    soon("it answers", runner.runs.answer_read(request)).await.unwrap();
    assert!(!asked.await.unwrap().unwrap().is_kept, "it has it no more");
}

#[tokio::test]
async fn a_stream_that_ends_or_is_of_an_earlier_life_reads_nothing() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let step = long(&mut asker, &mut runner).await;
    let mut former = watch(&mut runner).await.unwrap();
    let (_, asked) = asking(&asker, &step, &mut former).await;
    let mut reads = watch(&mut runner).await.unwrap();
    assert!(asked.await.unwrap().unwrap().is_away);
    assert!(soon("it ends", former.message()).await.unwrap().is_none());
    let (told, asked) = asking(&asker, &step, &mut reads).await;
    answer(&mut runner, told.number, "there").await.unwrap();
    assert_eq!(asked.await.unwrap().unwrap().content, b"there");

    let mut old = runner.clone();
    runner.register().await;
    let request = part(&asker, &step, 6);
    assert!(read(&mut asker, request).await.unwrap().is_away);
    assert_eq!(reason(&watch(&mut old).await.unwrap_err()), "stale_epoch");
    assert_eq!(reason(&answer(&mut old, 1, "late").await.unwrap_err()), "stale_epoch");

    let mut reads = watch(&mut runner).await.unwrap();
    let (_, asked) = asking(&asker, &step, &mut reads).await;
    drop(reads);
    assert!(asked.await.unwrap().unwrap().is_away);
}

#[tokio::test]
async fn a_read_has_bounds_and_a_node_answers_for_itself() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let step = long(&mut asker, &mut runner).await;
    for limit in [0, OUTPUT_READ_BYTES_MAX + 1] {
        let request = wire::ReadOutputRequest { limit, ..part(&asker, &step, 0) };
        assert_eq!(reason(&read(&mut asker, request).await.unwrap_err()), "invalid_argument");
    }
    let request = wire::ReadOutputRequest { step: 2, ..part(&asker, &step, 0) };
    assert_eq!(reason(&read(&mut asker, request).await.unwrap_err()), "unknown_step");
    let over = "x".repeat(OUTPUT_READ_BYTES_MAX as usize + 1);
    assert_eq!(reason(&answer(&mut runner, 1, &over).await.unwrap_err()), "too_large");
    // Whoever is no node has no outputs.
    let request = wire::WatchReadsRequest { caller: caller("default") };
    let refused = runner.runs.watch_reads(request).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
    let request = wire::AnswerReadRequest { caller: caller("default"), ..Default::default() };
    let refused = runner.runs.answer_read(request).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_argument");
}

#[tokio::test]
async fn a_broker_that_stops_waits_for_no_read() {
    let data = tempfile::tempdir().unwrap();
    let (broker, mut asker, mut runner): (Process, _, _) = office(data.path()).await;
    let step = long(&mut asker, &mut runner).await;
    let mut reads = watch(&mut runner).await.unwrap();
    let (_, asked) = asking(&asker, &step, &mut reads).await;
    broker.terminate();
    assert!(asked.await.unwrap().is_err());
    let ended = broker.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    drop(reads);
}
