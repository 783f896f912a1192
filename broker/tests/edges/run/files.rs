//! Files that sub-agents hand over, at a real broker.

use tasuki_proto::{
    limits::{REPORT_BYTES_MAX, RUN_FILE_BYTES_MAX},
    wire,
};
use tonic::Status;

use super::{Node, office, step_key, text};
use crate::support::{Process, assert_whole, reason, soon};

/// No text, and bytes of each value.
fn report(step: &wire::StepRef, bytes: usize) -> wire::ReportToParentRequest {
    let content: Vec<u8> = (0..=u8::MAX).cycle().take(bytes).collect();
    let (name, media_type) = ("plan.bin".to_owned(), "application/octet-stream".to_owned());
    let file = Some(wire::RunFile { name, media_type, size: bytes as u64 });
    wire::ReportToParentRequest { step: step_key(step), file, content, ..Default::default() }
}

async fn get(
    node: &mut Node,
    run: &wire::Run,
    message: u32,
) -> Result<wire::GetRunFileResponse, Status> {
    let (caller, run_id) = (node.caller(), run.run_id.clone());
    let request = wire::GetRunFileRequest { caller, run_id, message };
    Ok(soon("a file", node.runs.get_run_file(request)).await?.into_inner())
}

async fn messages(node: &mut Node, run: &wire::Run) -> Vec<wire::RunMessage> {
    let (caller, run_id) = (node.caller(), run.run_id.clone());
    let request = wire::ListRunMessagesRequest { caller, run_id, after: 0 };
    soon("messages", node.runs.list_run_messages(request)).await.unwrap().into_inner().messages
}

#[tokio::test]
async fn a_file_is_there_as_it_was_handed_over_also_after_the_broker_was_killed() {
    let data = tempfile::tempdir().unwrap();
    let (mut broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let (step, _) = runner.take().await;
    let mut sent = report(&step, RUN_FILE_BYTES_MAX);
    // With all that goes with it.
    sent.text = text(&"x".repeat(REPORT_BYTES_MAX));
    sent.key = runner.key();
    let number = runner.report_to_parent(sent.clone()).await.unwrap().message;
    let heard = asker.hear(&run, 0).await;
    assert_eq!(heard.messages[0].file, sent.file);
    let got = get(&mut asker, &run, number).await.unwrap();
    assert_eq!(got.file, sent.file);
    assert!(got.content == sent.content, "{} bytes", got.content.len());
    broker.kill().await;
    let (started, address) = Process::served(data.path()).await;
    broker = started;
    asker.moved(address);
    runner.moved(address);
    let got = get(&mut asker, &run, number).await.unwrap();
    assert!(got.content == sent.content, "{} bytes", got.content.len());
    let again = runner.report_to_parent(sent).await.unwrap();
    assert_eq!(again.message, number, "the answer that was kept");
    assert_eq!(messages(&mut asker, &run).await.len(), 1);
    broker.kill().await;
    assert_whole(data.path()).await;
}

#[tokio::test]
async fn what_is_no_file_of_a_report_is_refused_and_nothing_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let (step, _) = runner.take().await;
    let mut path = report(&step, 3);
    path.file.as_mut().unwrap().name = "../plan.bin".to_owned();
    let mut short = report(&step, 3);
    short.content.pop();
    for (sent, why) in [
        (report(&step, RUN_FILE_BYTES_MAX + 1), "too_large"),
        (path, "invalid_argument"),
        (short, "invalid_argument"),
        (wire::ReportToParentRequest { file: None, ..report(&step, 3) }, "invalid_argument"),
    ] {
        let refused = runner.report_to_parent(sent).await.unwrap_err();
        assert_eq!(reason(&refused), why, "{refused}");
    }
    assert!(messages(&mut asker, &run).await.is_empty());
    let told = wire::ReportToParentRequest {
        step: step_key(&step),
        text: text("half done"),
        ..Default::default()
    };
    let told = runner.report_to_parent(told).await.unwrap().message;
    let ask =
        wire::AskParentRequest { step: step_key(&step), text: text("?"), ..Default::default() };
    let asked = runner.ask_parent(ask).await.unwrap().message;
    for number in [0, told, asked, asked + 1, u32::MAX] {
        let refused = get(&mut asker, &run, number).await.unwrap_err();
        assert_eq!(reason(&refused), "unknown_message", "{number}");
    }
}
