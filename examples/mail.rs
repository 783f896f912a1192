//! Two agents write to each other: a bug report, a question back, the answer, and how far each got.
//!
//! A broker and two nodes run as processes of their own. The agents follow a script; everything
//! else is as with real ones: they speak MCP to the node beside them, with the tools that they know
//! from FileBox. Run it, after `cargo build --workspace`:
//! `cargo run -p tasuki-examples --example mail`.

use anstream::println;
use serde_json::{Value, json};
use tasuki_examples::{
    Result,
    mcp::{Agent, Said},
    relay::{ROLES, Relay},
};

/// Who finds the bug, and who has to see to it.
const QA: &str = ROLES[0];
const DEV: &str = ROLES[1];

#[tokio::main]
async fn main() -> Result<()> {
    let relay = Relay::start().await?;
    let mut qa = relay.agent(0).await?;
    let mut dev = relay.agent(1).await?;

    // DEV has nothing to do, and waits. A wait costs nothing: it is woken, it does not ask again.
    let waiting = tokio::spawn(async move {
        let mail = next_mail(&mut dev).await;
        (dev, mail)
    });

    let sent = call(
        &mut qa,
        "filebox_send_message",
        json!({
            "receiver_id": DEV,
            "msg_type": "BR",
            "title": "Login fails after an hour",
            "content": "The session cookie outlives the session: 401 on every call.",
        }),
    )
    .await?;
    let thread = text(&sent.structured, "message_id")?;
    println!("{QA} reported a bug: {}", text(&sent.structured, "file_name")?);

    let (mut dev, mail) = waiting.await?;
    let mail = mail?;
    assert_eq!(text(&mail, "message_id")?, thread, "it is what was sent");
    println!("{DEV} was woken by it");
    answer(&mut dev, QA, &thread, "Which browser?").await?;

    // An answer adds to the thread. Nothing that was said is ever written over.
    next_mail(&mut qa).await?;
    answer(&mut qa, DEV, &thread, "All of them; the clock of the server is UTC+1.").await?;
    next_mail(&mut dev).await?;
    answer(&mut dev, QA, &thread, "Fixed: expiry is compared in UTC.").await?;

    next_mail(&mut qa).await?;
    call(&mut qa, "filebox_resolve_message", json!({ "filename": thread })).await?;
    println!("{QA} is content\n");

    let told = call(&mut dev, "filebox_thread", json!({ "message_id": thread })).await?;
    let entries = told.structured["entries"].as_array().ok_or("a thread has entries")?;
    for entry in entries {
        let (from, body) = (text(entry, "from")?, text(entry, "text")?);
        println!("{} {from}: {body}", entry["number"]);
        for (role, receipt) in entry["receipts"].as_object().into_iter().flatten() {
            println!("    {role}: {}", receipt.as_str().unwrap_or_default());
            assert_eq!(receipt, "acted", "it was answered, or settled");
        }
    }
    assert_eq!(entries.len(), 4, "every word is there, once");
    println!("\n4 entries, every one acted on");
    relay.stop().await
}

/// What an agent is told to do in its prompt: wait until there is mail.
async fn next_mail(agent: &mut Agent) -> Result<Value> {
    loop {
        let told = call(agent, "filebox_wait_for_message", json!({})).await?;
        if told.structured["has_mail"] == true {
            return Ok(told.structured);
        }
        // The hold is over, the wait is not: ask again.
    }
}

async fn answer(agent: &mut Agent, to: &str, thread: &str, content: &str) -> Result<()> {
    let answer = json!({
        "receiver_id": to,
        "msg_type": "ACK",
        "title": "",
        "content": content,
        "original_message_id": thread,
    });
    call(agent, "filebox_send_message", answer).await?;
    println!("answer to {to}: {content}");
    Ok(())
}

async fn call(agent: &mut Agent, tool: &str, arguments: Value) -> Result<Said> {
    let said = agent.call(tool, arguments).await?;
    if said.is_error { Err(said.text.into()) } else { Ok(said) }
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str().ok_or_else(|| format!("no {name} in {value}"))?;
    Ok(text.to_owned())
}
