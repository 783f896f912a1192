//! An agent CLI that follows a script: it writes pi's JSON stream and asks no model.
//!
//! It answers by what it is asked for. The first Java that it writes lacks a semicolon; told of that
//! error it writes the Java without it.

use anstream::println;
use serde_json::{Value, json};
use tasuki_examples::Result;

/// The Java that it ends with.
const JAVA: &str = include_str!("scripted/Invoice.java");

const PLAN: &str = "Class Invoice. Each procedure becomes a method; Currency becomes BigDecimal. \
                    Tax.RateFor, Tax.RoundMoney and DefaultCountry become the interface Tax, which \
                    the constructor takes. GetTickCount becomes System.nanoTime.";

const COMMENT: &str = "subtotal: BigDecimal keeps every place until Tax.roundMoney, where Currency \
                       kept four. The sums are the same to a cent.";

/// Answers the task that is the last argument.
///
/// # Errors
/// When it is no task of the example.
pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let task = arguments.last().ok_or("there is no task")?;
    let text = answer(task.strip_prefix("Task: ").unwrap_or(task))?.to_string();
    let usage = json!({
        "input": task.len() / 4,
        "output": text.len() / 4,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": (task.len() + text.len()) / 4,
        "cost": { "total": 0 },
    });
    let message = json!({
        "role": "assistant",
        "content": [{ "type": "text", "text": text }],
        "provider": "script",
        "model": "one",
        "usage": usage,
        "stopReason": "stop",
    });
    for line in [
        json!({ "type": "session", "version": 3, "id": "script" }),
        json!({ "type": "agent_start" }),
        json!({ "type": "message_end", "message": message }),
        json!({ "type": "agent_end", "messages": [] }),
    ] {
        println!("{line}");
    }
    Ok(())
}

fn answer(task: &str) -> Result<Value> {
    if task.starts_with("Plan ") {
        Ok(json!({ "artifacts": { "plan": PLAN } }))
    } else if task.starts_with("Write ") {
        let is_told = task.contains("Invoice.java:") && task.contains("is missing");
        let java = if is_told { JAVA.to_owned() } else { JAVA.replace("size();\n", "size()\n") };
        Ok(json!({ "artifacts": { "java": java } }))
    } else if task.starts_with("Review ") {
        Ok(json!({ "is_approved": true, "review_comments": [COMMENT] }))
    } else {
        Err("the script has no answer to this task".into())
    }
}
