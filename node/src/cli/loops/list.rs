//! `tasuki loop list`.

use serde_json::json;
use tasuki_proto::wire;

use super::super::{Failure, Output, Target, broker::Broker, show};

/// Show all loops of the workspace.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) target: Target,
}

pub(super) async fn run(broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let loops = every(broker).await?;
    output.answer(
        || json!({"loops": loops}),
        || match loops.as_slice() {
            [] => "There is no loop; `tasuki loop start` opens one.\n".to_owned(),
            loops => loops.iter().map(show::of_loop).collect::<Vec<_>>().join("\n"),
        },
    )
}

/// All loops of the workspace, page by page.
pub(in crate::cli) async fn every(broker: &Broker) -> Result<Vec<wire::Loop>, Failure> {
    let mut loops = Vec::new();
    let mut request = wire::ListLoopsRequest::default();
    loop {
        let page = broker.call(&request).await?;
        loops.extend(page.loops);
        if page.next.is_empty() {
            return Ok(loops);
        }
        request.after = page.next;
    }
}
