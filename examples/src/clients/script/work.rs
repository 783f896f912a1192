//! A worker of an issue: it waits for a task, locks the file that the task names, submits what it
//! did, and goes by the verdict until the issue is closed.
//!
//! A task's subject is the name of a file to write.

use serde_json::{Value, json};

use super::{Call, DONE, Move, Part, Said};

/// The role that the model plays.
pub const ROLE: &str = "worker";

const SUBMIT: &str = "submitIssueTask";

/// Of what it submits: more than any of the clients shows of a result.
const DIFF_LINES: usize = 5_000;

#[derive(Debug)]
pub struct Work {
    /// The issue that it works on.
    pub issue: String,
}

impl Part for Work {
    fn begin(&self) -> Call {
        Call::new("registerWorker", json!({}))
    }

    fn next(&self, said: &Said<'_>) -> Option<Move> {
        let facts = &said.facts;
        let call = if facts.says("status", "still_waiting") {
            // What is submitted again with the same words is submitted once.
            match said.to {
                Some(call) if call.is_of(SUBMIT) => Call::new(SUBMIT, call.arguments.clone()),
                Some(_) | None => self.wait(),
            }
        } else if let Some([task, ..]) =
            facts.get("tasks").and_then(Value::as_array).map(Vec::as_slice)
        {
            self.claim(text(task, "id"), task["reserved_token"].as_str())
        } else if facts.says("claimed_by", ROLE) {
            self.lock(facts.text("id")?, facts.text("subject")?)
        } else if let Some(submission) = facts.get("submission") {
            self.after_verdict(submission, said.to)?
        } else if facts.get("ended_because").is_some() {
            return Some(Move::Say(DONE));
        } else if facts.get("lease_id").is_some() {
            let file = facts.get("files")?.get(0)?.as_str()?;
            self.submit(facts.text("task_id")?, file, &wrote(file))
        } else if facts.get("joined_at").is_some() {
            self.wait()
        } else {
            return None;
        };
        Some(Move::Call(call))
    }
}

impl Work {
    pub fn wait(&self) -> Call {
        Call::new("waitIssueTasks", json!({ "issue_id": self.issue }))
    }

    pub fn claim(&self, task: &str, next_step_token: Option<&str>) -> Call {
        let mut call = Call::new("claimIssueTask", self.of(task));
        if let Some(token) = next_step_token {
            call.arguments["next_step_token"] = token.into();
        }
        call
    }

    fn lock(&self, task: &str, file: &str) -> Call {
        let mut call = Call::new("lockFiles", self.of(task));
        call.arguments["files"] = json!([file]);
        call
    }

    fn submit(&self, task: &str, file: &str, summary: &str) -> Call {
        let mut call = Call::new(SUBMIT, self.of(task));
        call.arguments["artifacts"] = json!({
            "summary": summary,
            "changed_files": [file],
            "test_cases": ["it is there"],
            "test_result": "passed",
            "test_output": "ok",
            "diff": format!("+ a line of {file}\n").repeat(DIFF_LINES),
        });
        call
    }

    fn of(&self, task: &str) -> Value {
        json!({ "issue_id": self.issue, "task_id": task, "worker_id": ROLE })
    }

    /// `to`: what was submitted, as the client keeps it.
    fn after_verdict(&self, submission: &Value, to: Option<&Call>) -> Option<Call> {
        let next = &submission["next"];
        Some(match submission["verdict"].as_str() {
            Some("rejected") => {
                let mut again = to.filter(|it| it.is_of(SUBMIT))?.arguments.clone();
                let before = text(&again["artifacts"], "summary");
                let summary = put_right(before, text(&submission["review"], "feedback"));
                again["artifacts"]["summary"] = summary.into();
                Call::new(SUBMIT, again)
            }
            Some(_) if next["next_step"]["type"] == "claim_task" => {
                let task = text(&next["next_step"], "task_id");
                self.claim(task, next["next_step_token"].as_str())
            }
            Some(_) | None => self.wait(),
        })
    }
}

/// The worker's summary of a task.
pub fn wrote(file: &str) -> String {
    format!("wrote {file}")
}

/// The same after a verdict that asked for something.
pub fn put_right(summary: &str, feedback: &str) -> String {
    format!("{summary}; {feedback}")
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Heard, WAITING, tests::check},
        *,
    };

    #[test]
    fn it_does_each_task_once_and_what_the_verdict_asks_for() {
        let it = Work { issue: "issue_1_aa".to_owned() };
        let submit = |words: &str| it.submit("task-1", "a.md", words);
        let (first, second) = (submit("wrote a.md"), submit("wrote a.md; add a title"));
        let as_client = |call: &Call| Call {
            tool: format!("mcp__tasuki__{}", call.tool),
            arguments: call.arguments.clone(),
        };
        let task = json!({ "id": "task-1", "subject": "a.md", "status": "open", "stage": "ready" });
        let mut kept = task.clone();
        kept["reserved_token"] = "ns_1".into();
        let mut claimed = task.clone();
        claimed["claimed_by"] = ROLE.into();
        let judged = |verdict: &str, next: Value| {
            json!({ "status": "there", "submission": { "id": "s", "status": verdict,
                "verdict": verdict, "review": { "feedback": "add a title" }, "next": next } })
        };
        let next = |kind: &str| json!({ "next_step_token": "ns_1", "next_step": { "type": kind, "task_id": "task-2" } });
        let begins = it.begin();
        let waits = it.wait();
        for (to, said, expected) in [
            (&begins, json!({ "worker_id": ROLE, "joined_at": "now" }), it.wait()),
            (&waits, json!({ "status": "still_waiting" }), it.wait()),
            (&waits, json!({ "status": "there", "tasks": [task] }), it.claim("task-1", None)),
            (
                &waits,
                json!({ "status": "there", "tasks": [kept] }),
                it.claim("task-1", Some("ns_1")),
            ),
            (&it.claim("task-1", None), claimed, it.lock("task-1", "a.md")),
            (
                &it.lock("task-1", "a.md"),
                json!({ "lease_id": "l", "files": ["a.md"], "task_id": "task-1" }),
                first.clone(),
            ),
            (&first, json!({ "status": "still_waiting" }), first.clone()),
            (&first, judged("approved", next("claim_task")), it.claim("task-2", Some("ns_1"))),
            (&first, judged("approved", next("end")), it.wait()),
            (&first, judged("rejected", Value::Null), second.clone()),
            (&second, json!({ "status": "still_waiting" }), second.clone()),
            (&first, json!({ "status": "there", "submission": { "status": "reset" } }), it.wait()),
        ] {
            for text in [said.to_string(), json!({ "output": said.to_string() }).to_string()] {
                let heard = Heard::Result(text, Some(as_client(to)));
                check(&it, &heard, &Move::Call(expected.clone()));
            }
        }
        let closed = json!({ "status": "ended", "ended_because": "the issue was closed" });
        let heard = Heard::Result(closed.to_string(), Some(waits));
        check(&it, &heard, &Move::Say(DONE));
        check(&it, &Heard::Prompt, &Move::Call(begins));
        let aside = Heard::Result("It was moved to the background.".to_owned(), Some(first));
        check(&it, &aside, &Move::Say(WAITING));
    }
}
