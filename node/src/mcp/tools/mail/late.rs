//! Letters that the broker refused when they had waited for it: their sender is told with the
//! answer to its next call about mail, and once that is written, no more.

use std::sync::Arc;

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tasuki_proto::mail::BoxKind;

use super::{
    super::{Call, arguments::Arguments, result::add},
    caller::Caller,
};
use crate::{
    mcp::transport::handed::Mark,
    outbox::{Failed, Summarised, Summary},
};

/// Told at once: an answer is read whole. The others are told with the next one.
const TOLD_MAX: usize = 20;

pub(super) async fn tell(call: &Call<'_>, arguments: Arguments<'_>, result: &mut CallToolResult) {
    let Ok(caller) = Caller::of(call, arguments) else { return };
    // Whoever only looks is not whom it is for.
    if !call.host.instances.looked(caller.role(), &call.who) {
        return;
    }
    let Ok(untold) = caller.mail().untold(TOLD_MAX).await else { return };
    let untold: Vec<_> = untold.iter().filter_map(|it| Some((it, it.failed.as_ref()?))).collect();
    if untold.is_empty() {
        return;
    }
    let lines: Vec<_> = untold.iter().map(|(it, failed)| line(it, failed)).collect();
    add(
        result,
        format!(
            "Queued earlier, and refused by the broker; not carried out:\n{}",
            lines.join("\n")
        ),
    );
    if let Some(Value::Object(facts)) = &mut result.structured_content {
        let failed: Vec<_> = untold.iter().map(|(it, failed)| self::facts(it, failed)).collect();
        facts.insert("failed".to_owned(), failed.into());
    }
    if let Some(probe) = &call.probe {
        let numbers = untold.iter().map(|(it, _)| it.number).collect();
        probe.when_written(Mark::Told { actions: Arc::clone(&caller.actions), numbers });
    }
}

fn line(it: &Summary, failed: &Failed) -> String {
    let what = match &it.what {
        Summarised::Send { to, kind, message, .. } => {
            format!("{kind} to {}, message {message}", to.join(", "))
        }
        Summarised::Move { messages, to } => {
            let to = BoxKind::of_wire(*to).map_or("nowhere", BoxKind::as_str);
            format!("{} to {to}", messages.join(", "))
        }
    };
    format!("number {} ({what}): {}: {}", it.number, failed.reason, failed.message)
}

fn facts(it: &Summary, failed: &Failed) -> Value {
    json!({ "queued": it.number, "reason": failed.reason, "message": failed.message })
}
