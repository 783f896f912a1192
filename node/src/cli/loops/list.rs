//! `tasuki loop list`.

use serde_json::json;
use tasuki_broker::overview;

use super::super::{Failure, Output, broker::Broker, loop_view};

pub(super) async fn run(broker: &Broker, output: &mut Output) -> Result<(), Failure> {
    let loops = overview::every_loop(broker).await?;
    output.answer(
        || json!({"loops": loops}),
        || match loops.as_slice() {
            [] => "There is no loop; `tasuki loop start` opens one.\n".to_owned(),
            loops => loops.iter().map(loop_view::render_loop).collect::<Vec<_>>().join("\n"),
        },
    )
}
