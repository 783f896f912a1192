//! A file that a sub-agent handed over: `run_output` of its message, and `run_save_file`.

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tasuki_proto::{counted::counted, reason::Reason, run::RunId, wire};

use super::{
    super::{
        field_types::Id,
        result::text_result,
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
    },
    QUIET,
    caller::Asker,
    manage::{part_result, part_within},
    views::frame,
};
use crate::role::Refusal;

/// Returns a part of it.
pub(super) async fn show(
    asker: &Asker<'_>,
    run: RunId,
    message: u32,
    offset: u64,
    limit: u64,
) -> Result<CallToolResponse, Refusal> {
    let told = asker.client.run_file(run, message).await.map_err(with_status)?;
    let about = told.file.unwrap_or_default();
    Ok(shown((run, message), &about, &told.content, offset, limit).into())
}

/// A refusal of a message that is not there, with the tool that lists those there are.
fn with_status(why: Refusal) -> Refusal {
    if why.reason != Reason::UnknownMessage {
        return why;
    }
    let said = why.message.trim_end_matches('.');
    Refusal { message: format!("{said}. run_status shows its messages and files."), ..why }
}

/// Saves a file that a sub-agent handed over to your project. Returns its path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunSaveFile {
    run: Id<RunId>,
    /// The number of its message.
    #[schemars(range(min = 1))]
    message: u32,
}

impl Tool for RunSaveFile {
    const INFO: ToolInfo = ToolInfo::write("run_save_file", QUIET);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let _playing = asker.enter()?;
        let Self { run: Id(run), message } = self;
        asker.get(run).await?;
        let told = asker.client.run_file(run, message).await.map_err(with_status)?;
        let (about, private) = (told.file.unwrap_or_default(), &asker.call.host.private);
        let caller = asker.client.caller();
        let saved = asker.runs.save_file(caller, &about.name, told.content, private).await?;
        let mut others = Sanitizer::default();
        let mut facts = facts_of((run, message), &about, &mut others);
        let text = format!("Saved as {}", saved.display());
        facts["path"] = saved.to_string_lossy().into();
        frame(&mut facts, &others);
        Ok(text_result(text, facts).into())
    }
}

fn shown(
    of: (RunId, u32),
    about: &wire::RunFile,
    content: &[u8],
    offset: u64,
    limit: u64,
) -> CallToolResult {
    let mut others = Sanitizer::default();
    let mut facts = facts_of(of, about, &mut others);
    facts["offset"] = offset.into();
    let (message, total) = (of.1, content.len() as u64);
    let part = str::from_utf8(content).is_ok().then(|| part_within(content, offset, limit));
    let words = match part {
        Some(Some(part)) => {
            let of = format!("message {message} and ");
            return part_result(part, total, &of, facts, others);
        }
        Some(None) => format!("The file has {total} bytes; there is nothing from {offset} on."),
        None => format!(
            "The file is no text; it has {}. run_save_file saves it.",
            counted(total, "byte")
        ),
    };
    facts["hint"] = words.as_str().into();
    frame(&mut facts, &others);
    text_result(words, facts)
}

fn facts_of(of: (RunId, u32), about: &wire::RunFile, others: &mut Sanitizer) -> Value {
    let (run, message) = of;
    json!({
        "run": run.to_string(),
        "run_id": run.to_string(),
        "message": message,
        "name": others.line(&about.name),
        "media_type": others.line(&about.media_type),
        "size": about.size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_in_parts_and_other_bytes_are_named() {
        let about = wire::RunFile {
            name: "a\u{202e}b.md".to_owned(),
            media_type: "text/markdown".to_owned(),
            size: 5,
        };
        let run: RunId = "run_1700000000000_00af".parse().unwrap();
        let facts = |content: &[u8], offset, limit| {
            let result = shown((run, 2), &about, content, offset, limit);
            let text = serde_json::to_string(&result.content).unwrap();
            (result.structured_content.unwrap(), text)
        };
        let (first, text) = facts("héllo".as_bytes(), 0, 4);
        assert_eq!((&first["output"], &first["next_offset"]), (&"hél".into(), &4.into()));
        assert_eq!((&first["name"], &first["stripped"]), (&"ab.md".into(), &1.into()));
        assert!(text.contains("run_output with message 2 and offset 4"), "{text}");
        let (rest, _) = facts("héllo".as_bytes(), 4, 100);
        assert_eq!((&rest["output"], rest.get("next_offset")), (&"lo".into(), None));
        for (content, offset, hint) in [
            (&b"hello"[..], 5, "The file has 5 bytes; there is nothing from 5 on."),
            (b"", 0, "The file has 0 bytes; there is nothing from 0 on."),
            (b"\x89PNG\xff", 0, "The file is no text; it has 5 bytes."),
        ] {
            let (facts, _) = facts(content, offset, 100);
            let said = facts["hint"].as_str().unwrap();
            assert!(said.starts_with(hint) && facts.get("output").is_none(), "{facts}");
        }
    }
}
