//! What a sub-agent says to whoever started it.
//!
//! A question is asked first and waited for then. It has a number, under which a later call waits
//! on: asked in the same words it would be another question once the first has its reply.

use rmcp::model::{CallToolResponse, CallToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tasuki_proto::{counted::counted, limits::REPORT_BYTES_MAX, wire};

use super::{
    super::{
        arguments::{invalid, missing},
        field_types::{Name, Text},
        result::text_result,
        sanitizer::Sanitizer,
        tool::{Tool, ToolInfo},
        waiting::{Held, STILL_WAITING, SUPERSEDED, held_with, longest, signs_of_life},
    },
    OF_STEP,
    args::Timeout,
    caller::Asker,
    messages::cut,
    views::framed,
};
use crate::{
    mcp::{
        intent,
        steps::{Reply, ReplyStatus},
    },
    role::Refusal,
    runs::client::RunCaller,
};

/// Asks whoever started you, and waits for the answer. Use it when you cannot go on without one.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AskParent {
    question: Option<Text>,
    /// Instead: the number of a question that you asked, to wait on for its answer.
    #[schemars(range(min = 1))]
    message: Option<u32>,
    timeout_sec: Option<Timeout>,
}

impl Tool for AskParent {
    const INFO: ToolInfo = ToolInfo::write("ask_parent", OF_STEP);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let message = match (self.question, self.message) {
            (Some(Text(question)), None) => {
                let key = intent::of(&asker.call.context.meta);
                asker.client.ask_parent(&question, key).await?.message
            }
            (None, Some(message)) => message,
            (None, None) => return Err(invalid("question", &"is missing: say what you ask")),
            (Some(_), Some(_)) => {
                return Err(invalid("message", &"is of another question; omit one of the two"));
            }
        };
        let hold = longest(asker.call, self.timeout_sec.map(|Timeout(it)| it.0));
        let signs = signs_of_life(asker.call, "waiting for the answer");
        let waiting = asker.client.wait_reply(message, hold);
        let answer = match held_with(asker.call, None, hold, signs, waiting).await {
            Held::Answered(answer) => answer.map_err(|why| Refusal {
                message: format!("It is asked, as question {message}. {}", why.message),
                ..why
            })?,
            Held::Lost | Held::Over => wire::RunAnswer::default(),
        };
        Ok(answered(message, &answer).into())
    }
}

/// What came of a question.
fn answered(message: u32, answer: &wire::RunAnswer) -> CallToolResult {
    let told = |status: &str, words: &str| {
        text_result(words, json!({ "message": message, "status": status, "hint": words }))
    };
    let Reply { status, reply } = Reply::from(answer);
    match status {
        ReplyStatus::There => {
            let mut others = Sanitizer::default();
            let mut text = others.text(&reply.unwrap_or_default());
            let mut facts = json!({ "message": message, "status": "answered" });
            let mut more = Vec::new();
            let omitted = cut(&mut text);
            if omitted != 0 {
                facts["omitted_bytes"] = omitted.into();
                more.push(format!("{} left out. Ask for the rest.", counted(omitted, "byte")));
            }
            facts["answer"] = text.as_str().into();
            framed(text, more, facts, &others)
        }
        ReplyStatus::Over => told("over", "There will be no answer."),
        ReplyStatus::Superseded => {
            told(SUPERSEDED, "Superseded: another call waits for this answer. Do not call again.")
        }
        ReplyStatus::StillWaiting => told(
            STILL_WAITING,
            &format!(
                "No answer yet. Call ask_parent again immediately with message {message} and no \
                 question."
            ),
        ),
    }
}

/// Tells whoever started you something before you are done.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ReportToParent {
    text: Option<Text<REPORT_BYTES_MAX>>,
    /// File to hand over, in the project.
    file: Option<Name>,
}

impl Tool for ReportToParent {
    const INFO: ToolInfo = ToolInfo::write("report_to_parent", OF_STEP);

    type Caller<'a> = Asker<'a>;

    async fn call(self, asker: Self::Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let (text, path) = (self.text.map(|Text(text)| text), self.file.map(|Name(path)| path));
        if text.is_none() && path.is_none() {
            return Err(missing("text", "say what you report, or name a file to hand over"));
        }
        let key = intent::of(&asker.call.context.meta);
        let file = match (path, asker.client.caller()) {
            (Some(path), RunCaller::Step(step)) => {
                let private = &asker.call.host.private;
                Some(asker.runs.read_file(step.step(), &path, private).await?)
            }
            // A role has no parent, and is refused.
            (Some(_) | None, RunCaller::Step(_) | RunCaller::Role(_)) => None,
        };
        let told = asker.client.report(&text.unwrap_or_default(), file, key).await?;
        Ok(text_result("Reported.", json!({ "message": told.message })).into())
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::wire::{self, run_answer::Standing};

    use super::{super::super::sanitizer::FRAME, answered};
    use crate::runs::convert::text;

    fn answer(standing: Standing, reply: Option<&str>, is_over: bool) -> wire::RunAnswer {
        let reply = reply.map(text);
        let message =
            wire::RunMessage { number: 3, is_question: true, reply, is_over, ..Default::default() };
        wire::RunAnswer { standing: standing.into(), messages: vec![message], ..Default::default() }
    }

    #[test]
    fn a_question_is_answered_or_over_or_waited_on_by_its_number() {
        for (told, status, said) in [
            (answer(Standing::There, Some("a\u{202e}b"), false), "answered", "ab"),
            (answer(Standing::There, Some(""), false), "answered", ""),
            (answer(Standing::There, None, true), "over", "There will be no answer."),
            (answer(Standing::StillWaiting, None, false), "still_waiting", "No answer yet."),
            (wire::RunAnswer::default(), "still_waiting", "No answer yet."),
            (answer(Standing::Superseded, None, false), "superseded", "Superseded:"),
        ] {
            let result = answered(3, &told);
            let words = serde_json::to_string(&result.content).unwrap();
            assert!(words.contains(said), "{words}");
            assert_eq!(words.contains(FRAME), status == "answered", "{words}");
            let facts = result.structured_content.unwrap();
            assert_eq!((&facts["status"], &facts["message"]), (&status.into(), &3.into()));
        }
    }
}
