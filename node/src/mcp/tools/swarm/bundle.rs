//! All it takes to judge an issue, in one answer: what it is about, its tasks with what was
//! submitted and approved, its newest delivery. It is bounded; what does not fit is named, with
//! how to get it.

use futures::future;
use rmcp::model::CallToolResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tasuki_proto::{counted::counted, limits::SWARM_PAGE_MAX, swarm::IssueId, wire};

use super::{
    super::{field_types::Id, sanitizer::Sanitizer, tool::ToolInfo},
    ACCEPTOR_CORE, SwarmTool,
    answer::answer,
    caller::Caller,
    delivery_views, views,
};
use crate::role::Refusal;

/// The answer's text, in bytes: what a model can read at once with room to work.
const BUNDLE_BYTES_MAX: usize = 192 * 1024;

/// Tasks that are asked for at a time: a few of the calls that a role may have under way.
const TASKS_AT_ONCE: usize = 4;

/// How far the text of a part is from the margin at most, in bytes a line.
const INDENT_BYTES: usize = 6;

#[derive(Debug, Serialize)]
struct Bundle {
    issue: views::Issue,
    /// The newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<delivery_views::Delivery>,
    tasks: Vec<Line>,
    tasks_total: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Serialize)]
struct Line {
    id: String,
    subject: String,
    stage: &'static str,
    difficulty: &'static str,
    points: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    worker_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<views::Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<views::Submission>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct LeftOut {
    what: String,
    how: String,
}

/// What is left of the answer.
#[derive(Debug)]
struct Room {
    bytes: usize,
    left_out: Vec<LeftOut>,
}

impl Room {
    /// Whether this fits, of which `share` bytes may be used.
    fn take(&mut self, share: usize, part: &impl Serialize) -> bool {
        let bytes = size(part);
        let fits = bytes <= share.min(self.bytes);
        if fits {
            self.bytes -= bytes;
        }
        fits
    }

    fn leave_out(&mut self, what: impl Into<String>, how: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), how: how.into() });
    }
}

/// Of a part as it stands in the text.
fn size(part: &impl Serialize) -> usize {
    let text = serde_json::to_string_pretty(part).unwrap_or_default();
    text.len() + (text.lines().count() + 1) * INDENT_BYTES
}

/// Returns what a review of the issue needs: documents, tasks, submissions and delivery.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct GetBundle {
    issue_id: Id<IssueId>,
}

impl SwarmTool for GetBundle {
    const INFO: ToolInfo = ToolInfo::read("getIssueAcceptanceBundle", &[ACCEPTOR_CORE]);

    async fn call(self, caller: &Caller<'_>) -> Result<CallToolResponse, Refusal> {
        let issue_id = self.issue_id.0.to_string();
        let issue = caller
            .query(wire::GetIssueRequest { issue_id: issue_id.clone(), ..Default::default() })
            .await?;
        let newest = wire::ListDeliveriesRequest {
            issue_id: issue_id.clone(),
            limit: 1,
            ..wire::ListDeliveriesRequest::default()
        };
        let newest = caller.query(newest).await?.deliveries.pop();
        let delivery = match newest {
            Some(wire::Delivery { delivery_id, .. }) => {
                let of = wire::GetDeliveryRequest { delivery_id, ..Default::default() };
                caller.query(of).await?.delivery
            }
            None => None,
        };
        let tasks = wire::ListTasksRequest {
            issue_id: issue_id.clone(),
            ascending: true,
            limit: SWARM_PAGE_MAX,
            ..wire::ListTasksRequest::default()
        };
        let tasks = caller.query(tasks).await?;

        let mut others = Sanitizer::default();
        let mut room = Room { bytes: BUNDLE_BYTES_MAX, left_out: Vec::new() };
        let next = delivery_views::next_of(caller.role(), delivery.as_slice());
        let now_ms = issue.now_ms;
        let issue = with_issue(&mut room, issue.issue.unwrap_or_default(), &mut others);
        let delivery = delivery.map(|it| with_delivery(&mut room, it, &mut others));
        let mut lines = short(&mut room, &tasks, &mut others);
        let mut left_out_tasks = Vec::new();
        for chunk in lines.chunks_mut(TASKS_AT_ONCE) {
            let of = |line: &Line| wire::GetTaskRequest {
                issue_id: issue_id.clone(),
                task_id: line.id.clone(),
                ..wire::GetTaskRequest::default()
            };
            // Whatever is said of a task is longer than its subject.
            if room.bytes < INDENT_BYTES {
                left_out_tasks.extend(chunk.iter().map(|it| it.id.clone()));
                continue;
            }
            let asked = chunk.iter().map(|line| caller.query(of(line)));
            let found = future::join_all(asked).await;
            for (line, found) in chunk.iter_mut().zip(found) {
                if !with_words(&mut room, line, found?.task.unwrap_or_default(), &mut others) {
                    left_out_tasks.push(line.id.clone());
                }
            }
        }
        if !left_out_tasks.is_empty() {
            let tasks = counted(left_out_tasks.len(), "task");
            let what =
                format!("the messages and reviews of {tasks}: {}", left_out_tasks.join(", "));
            room.leave_out(what, "getIssueTask with each task_id");
        }
        let bundle = Bundle {
            issue,
            delivery,
            tasks: lines,
            tasks_total: tasks.total,
            left_out: room.left_out,
        };
        let docs = "Read the documents listed in issue.docs with readIssueDoc.".to_owned();
        Ok(answer(bundle, now_ms, &others, vec![docs, next]).into())
    }
}

fn with_issue(room: &mut Room, mut it: wire::Issue, others: &mut Sanitizer) -> views::Issue {
    let whole = views::Issue::new(&it, others);
    if room.take(BUNDLE_BYTES_MAX / 4, &whole) {
        return whole;
    }
    room.leave_out("the issue's description, summary and paths", "getIssue");
    (it.description, it.summary) = (String::new(), String::new());
    (it.shared_doc_paths, it.project_doc_paths) = (Vec::new(), Vec::new());
    let mut brief = views::Issue::new(&it, others);
    if !room.take(BUNDLE_BYTES_MAX / 4, &brief) {
        room.leave_out("the names of the issue's documents", "listIssueDocs");
        brief.docs = Vec::new();
        room.take(BUNDLE_BYTES_MAX, &brief);
    }
    brief
}

fn with_delivery(
    room: &mut Room,
    it: wire::Delivery,
    others: &mut Sanitizer,
) -> delivery_views::Delivery {
    let whole = delivery_views::Delivery::new(&it, others);
    if room.take(BUNDLE_BYTES_MAX / 4, &whole) {
        return whole;
    }
    let how = format!("getDelivery {}", it.delivery_id);
    room.leave_out("the delivery's messages and evidence", how);
    let brief = wire::Delivery {
        summary: String::new(),
        refs: String::new(),
        artifacts: None,
        test_evidence: None,
        verification: None,
        feedback: String::new(),
        review_refs: String::new(),
        evidence: Vec::new(),
        overridden: None,
        ..it
    };
    let brief = delivery_views::Delivery::new(&brief, others);
    room.take(BUNDLE_BYTES_MAX, &brief);
    brief
}

/// A line for each task, and for those that no room is left for one line in all.
fn short(room: &mut Room, it: &wire::ListTasksResponse, others: &mut Sanitizer) -> Vec<Line> {
    let mut lines = Vec::new();
    for task in &it.tasks {
        let approved = task.submission.as_ref().filter(|it| it.completion_score != 0);
        let line = Line {
            id: task.task_id.clone(),
            subject: others.line(&task.subject),
            stage: views::stage(task.stage()),
            difficulty: views::difficulty(task.difficulty()),
            points: task.points,
            worker_id: task.claimed_by.clone(),
            words: None,
            submission: approved.map(|it| views::Submission::new(it, others)),
        };
        if !room.take(BUNDLE_BYTES_MAX, &line) {
            break;
        }
        lines.push(line);
    }
    if (lines.len() as u64) < it.total {
        let others = it.total - lines.len() as u64;
        let how = format!("listIssueTasks with sort_order asc and offset {}", lines.len());
        room.leave_out(counted(others, "more task"), how);
    }
    lines
}

/// Adds what a task asks for and what was submitted, as much as there is room for.
fn with_words(room: &mut Room, line: &mut Line, it: wire::Task, others: &mut Sanitizer) -> bool {
    let words = it.words.as_ref().map(|it| views::Words::new(it, others));
    let submission = it.submission.filter(|it| it.completion_score != 0);
    let mut details = TaskDetails {
        words,
        submission: submission.as_ref().map(|it| views::Submission::new(it, others)),
    };
    let is_whole = room.take(BUNDLE_BYTES_MAX, &details);
    if !is_whole {
        let artifacts = details.submission.as_mut().and_then(|it| it.artifacts.as_mut());
        if let Some(artifacts) = artifacts {
            (artifacts.diff, artifacts.test_output) = (String::new(), String::new());
        }
        if !room.take(BUNDLE_BYTES_MAX, &details) {
            return false;
        }
    }
    line.words = details.words;
    line.submission = details.submission.or_else(|| line.submission.take());
    is_whole
}

#[derive(Debug, Serialize)]
struct TaskDetails {
    words: Option<views::Words>,
    submission: Option<views::Submission>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: usize) -> Room {
        Room { bytes, left_out: Vec::new() }
    }

    #[test]
    fn an_issue_that_is_too_long_comes_without_its_words() {
        let long = wire::Issue {
            subject: "s".to_owned(),
            description: "x".repeat(BUNDLE_BYTES_MAX),
            docs: vec!["a.md".to_owned()],
            ..wire::Issue::default()
        };
        let mut room = room(BUNDLE_BYTES_MAX);
        let told = with_issue(&mut room, long, &mut Sanitizer::default());
        assert_eq!((&told.subject[..], &told.description[..]), ("s", ""));
        assert_eq!(told.docs, ["a.md"]);
        assert_eq!(room.left_out[0].how, "getIssue");
        assert!(room.bytes < BUNDLE_BYTES_MAX);
    }

    #[test]
    fn tasks_for_which_no_room_is_left_are_counted() {
        let task = |number: u32| wire::Task {
            task_id: format!("task-{number}"),
            subject: "s".repeat(1024),
            ..wire::Task::default()
        };
        let tasks = (1..=200).map(task).collect();
        let found = wire::ListTasksResponse { tasks, total: 1_000, now_ms: 1 };
        let mut room = room(BUNDLE_BYTES_MAX / 2);
        let lines = short(&mut room, &found, &mut Sanitizer::default());
        assert!((50..150).contains(&lines.len()), "{}", lines.len());
        let left_out = &room.left_out[0];
        assert_eq!(left_out.what, format!("{} more tasks", 1_000 - lines.len()));
        assert!(left_out.how.contains(&format!("offset {}", lines.len())));
    }

    #[test]
    fn a_long_diff_is_left_out_before_the_task_is() {
        let submission = wire::Submission {
            completion_score: 5,
            words: Some(wire::SubmissionWords {
                summary: "did it".to_owned(),
                diff: "+".repeat(10_000),
                ..wire::SubmissionWords::default()
            }),
            ..wire::Submission::default()
        };
        let task = wire::Task { submission: Some(submission), ..wire::Task::default() };
        let found = wire::ListTasksResponse {
            tasks: vec![wire::Task { task_id: "task-1".to_owned(), ..wire::Task::default() }],
            total: 1,
            now_ms: 1,
        };
        let mut others = Sanitizer::default();
        let mut room = room(5_000);
        let mut line = short(&mut room, &found, &mut others).remove(0);
        assert!(!with_words(&mut room, &mut line, task.clone(), &mut others));
        let artifacts = line.submission.unwrap().artifacts.unwrap();
        assert_eq!((&artifacts.summary[..], &artifacts.diff[..]), ("did it", ""));
        room.bytes = 20_000;
        let mut line = short(&mut room, &found, &mut others).remove(0);
        assert!(with_words(&mut room, &mut line, task, &mut others));
        assert_eq!(line.submission.unwrap().artifacts.unwrap().diff.len(), 10_000);
    }
}
