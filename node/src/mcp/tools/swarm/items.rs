//! What a lead is shown of its issue, one item at a time: a submission, a question, a note, the
//! verdict on its delivery, a task whose claim lapsed. What it is about is there in whole, so that
//! it can be answered without asking for more.

use rmcp::model::CallToolResult;
use serde::Serialize;
use tasuki_proto::{
    id::RoleId,
    swarm::IssueId,
    wire::{self, SwarmAnswer, swarm_answer::Standing},
};

use super::{
    super::{
        sanitizer::Sanitizer,
        view::view,
        waiting::{PauseView, STILL_WAITING, SUPERSEDED, role_paused, superseded},
    },
    answer::answer,
    delivery_views,
    views::{self, Time},
};

#[derive(Debug, Serialize)]
struct Shown {
    status: &'static str,
    issue_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<Item>,
    /// How many others wait.
    more: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    ended_because: String,
    #[serde(flatten)]
    pause: PauseView,
}

view! {
    Item(it: wire::Item, others) {
        /// Its number in the issue's history.
        number: u64 = it.number,
        r#type: String = it.kind.clone(),
        task_id: String = it.task_id.clone() => if_any,
        sender_id: String = it.sender.clone() => if_any,
        at: Time = Time(it.at_ms),
        submission: Option<views::Submission> =
            it.submission.as_ref().map(|it| views::Submission::new(it, others)) => if_any,
        message: Option<views::Message> =
            it.message.as_ref().map(|it| views::Message::new(it, others)) => if_any,
        delivery: Option<delivery_views::Delivery> =
            it.delivery.as_ref().map(|it| delivery_views::Delivery::judged(it, others)) => if_any,
    }
}

/// The answer to the wait of a lead for what it has to answer.
pub(super) fn wait_result(role: &RoleId, issue: IssueId, it: &SwarmAnswer) -> CallToolResult {
    let mut others = Sanitizer::default();
    let standing = it.standing();
    let is_there = standing == Standing::There;
    let item = it.item.as_ref().filter(|_| is_there);
    let shown = Shown {
        status: status(standing, item.is_some()),
        issue_id: issue.to_string(),
        item: item.map(|it| Item::new(it, &mut others)),
        more: it.more_items,
        ended_because: others.text(&it.ended_because),
        pause: PauseView::of_role(role, it.pause.as_ref(), &mut others),
    };
    let next = role_paused(role, it.pause.as_ref()).unwrap_or_else(|| next(role, standing, item));
    answer(shown, it.now_ms, &others, vec![next])
}

/// How a wait stands: `ended` is without what was waited for, which will not come.
pub(super) const fn status(standing: Standing, is_something: bool) -> &'static str {
    match standing {
        Standing::There if is_something => "there",
        Standing::There => "ended",
        Standing::Unspecified | Standing::StillWaiting => STILL_WAITING,
        Standing::Superseded => SUPERSEDED,
    }
}

fn next(role: &RoleId, standing: Standing, item: Option<&wire::Item>) -> String {
    let item = match (standing, item) {
        (Standing::There, Some(item)) => item,
        (Standing::There, None) => {
            return "The issue is over. Stop waiting and report the outcome to your user."
                .to_owned();
        }
        (Standing::Superseded, _) => return superseded(role),
        (Standing::Unspecified | Standing::StillWaiting, _) => {
            return "Nothing yet. Call waitIssueTaskEvents again immediately. When listIssueTasks \
                    shows no unfinished task, follow its next_actions instead."
                .to_owned();
        }
    };
    let task = &item.task_id;
    match item.kind.as_str() {
        "submission" => format!(
            "Check it against {task} (getIssueTask): read the changes and run the tests. To \
             approve: getNextStepToken with worker_id {worker}, then reviewIssueTask. To reject: \
             reviewIssueTask only.",
            worker = item.sender
        ),
        "question" | "blocker" => format!(
            "Answer with replyIssueTaskMessage: task_id {task}, message_id {message}. The worker \
             is waiting for an answer.",
            message = item.message.as_ref().map_or("", |it| &it.message_id)
        ),
        "task_lapsed" => format!(
            "The claim of {worker} on {task} expired and the task is open again. No action is \
             needed. Call waitIssueTaskEvents again.",
            worker = item.sender
        ),
        "delivery_result" => delivery_views::after_verdict(item.delivery.as_ref()).to_owned(),
        _ => "No answer is needed. Call waitIssueTaskEvents again.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> SwarmAnswer {
        let item = wire::Item {
            number: 7,
            kind: kind.to_owned(),
            task_id: "task-2".to_owned(),
            sender: "w".to_owned(),
            message: Some(wire::TaskMessage {
                message_id: "msg_1_0000".to_owned(),
                content: "which?\u{202e}".to_owned(),
                ..wire::TaskMessage::default()
            }),
            ..wire::Item::default()
        };
        SwarmAnswer {
            standing: Standing::There.into(),
            item: Some(item),
            more_items: 3,
            ..SwarmAnswer::default()
        }
    }

    fn shown(answer: &SwarmAnswer) -> serde_json::Value {
        let result = wait_result(&"lead".parse().unwrap(), "issue_1_0000".parse().unwrap(), answer);
        result.structured_content.unwrap()
    }

    #[test]
    fn each_kind_says_how_it_is_answered() {
        for (kind, words) in [
            ("submission", "getNextStepToken with worker_id w"),
            ("question", "message_id msg_1_0000"),
            ("blocker", "replyIssueTaskMessage"),
            ("note", "No answer"),
            ("task_lapsed", "open again"),
        ] {
            let told = shown(&of(kind));
            assert_eq!((told["status"].as_str(), told["more"].as_u64()), (Some("there"), Some(3)));
            assert_eq!(told["item"]["type"], kind);
            assert!(told["next_actions"][0].as_str().unwrap().contains(words), "{told}");
        }
    }

    #[test]
    fn words_are_shown_without_what_hides() {
        let told = shown(&of("question"));
        assert_eq!(told["item"]["message"]["content"], "which?");
        assert_eq!(told["stripped"], 1);
        assert!(told["note"].as_str().unwrap().contains("untrusted data"));
    }

    #[test]
    fn an_issue_that_is_over_ends_the_wait() {
        let over = SwarmAnswer {
            standing: Standing::There.into(),
            ended_because: "the issue was closed".to_owned(),
            ..SwarmAnswer::default()
        };
        let told = shown(&over);
        assert_eq!((told["status"].as_str(), told.get("item")), (Some("ended"), None));
        assert!(told["next_actions"][0].as_str().unwrap().contains("Stop waiting"));
        let waiting =
            SwarmAnswer { standing: Standing::StillWaiting.into(), ..SwarmAnswer::default() };
        assert_eq!(shown(&waiting)["status"], "still_waiting");
    }
}
