//! `tasuki loop list`.

use serde_json::json;
use tasuki_proto::wire;

use super::super::{Failure, Output, broker::Broker, loop_view};

pub(super) async fn run(broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let loops = every(broker).await?;
    output.answer(
        || json!({"loops": loops}),
        || match loops.as_slice() {
            [] => "There is no loop; `tasuki loop start` opens one.\n".to_owned(),
            loops => loops.iter().map(loop_view::render_loop).collect::<Vec<_>>().join("\n"),
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
