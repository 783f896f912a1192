//! Long outputs of steps that ran here, read by others: the broker says what is wanted, and is
//! answered with a part of the file.

use std::path::Path;

use futures::{FutureExt as _, TryStreamExt as _};
use tasuki_proto::{limits::OUTPUT_READ_BYTES_MAX, run::StepId, wire};
use tokio::task;

use super::{files::read_output, step::Context};
use crate::link::reopen::Reopening;

/// Reads that are answered at once: each takes a thread and up to [`OUTPUT_READ_BYTES_MAX`].
const READS_MAX: usize = 4;

/// Answers what is asked while this node is connected. Does not end.
pub(super) async fn answer(context: &Context) {
    let link = &context.link;
    let mut reopening = Reopening::new();
    loop {
        link.connected().await;
        match link.watch_reads().await {
            Ok(reads) => {
                reopening.opened();
                let answering = reads.try_for_each_concurrent(READS_MAX, |read| {
                    reopening.received();
                    answer_one(context, read).map(Ok)
                });
                let ended = answering.await;
                tracing::debug!(?ended, "what others want to read is to be asked for again");
                reopening.after_end(link).await;
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "others cannot read outputs of this node");
                reopening.after_refusal(link).await;
            }
        }
    }
}

async fn answer_one(context: &Context, read: wire::OutputRead) {
    let (directory, number) = (context.settings.directory.clone(), read.number);
    let found = task::spawn_blocking(move || find(&directory, &read)).await.ok().flatten();
    let (is_kept, content) = (found.is_some(), found.unwrap_or_default());
    let answer = wire::AnswerReadRequest { caller: None, number, is_kept, content };
    if let Err(refusal) = context.link.answer_read(answer).await {
        tracing::debug!(%refusal, "a part of an output was not handed on");
    }
}

/// What is wanted, where it is there. Nothing but a step is a part of a path.
fn find(directory: &Path, read: &wire::OutputRead) -> Option<Vec<u8>> {
    let step = StepId { run: read.run_id.parse().ok()?, number: read.step };
    read_output(directory, step, read.offset, read.limit.min(OUTPUT_READ_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::runs::worker::output_file;

    #[test]
    fn nothing_is_read_but_outputs_and_no_more_than_may_be() {
        let place = tempfile::tempdir().unwrap();
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 2 };
        let file = output_file(place.path(), step);
        fs::create_dir(file.parent().unwrap()).unwrap();
        let most = OUTPUT_READ_BYTES_MAX as usize;
        fs::write(&file, vec![b'x'; most + 1]).unwrap();
        let read = |run_id: &str, step, limit| {
            let read =
                wire::OutputRead { run_id: run_id.to_owned(), step, limit, ..Default::default() };
            find(place.path(), &read).map(|found| found.len())
        };
        assert_eq!(read(&step.run.to_string(), 2, 7), Some(7));
        assert_eq!(read(&step.run.to_string(), 2, u32::MAX), Some(most));
        assert_eq!(read(&step.run.to_string(), 1, 7), None);
        for path in ["", ".", "run_1700000000000_00af.2/../run_1700000000000_00af", "/etc"] {
            assert_eq!(read(path, 2, 7), None, "{path}");
        }
    }
}
