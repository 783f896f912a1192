//! What people call issues, tasks, deliveries and locks on a command line.
//!
//! An id is as the broker gives it. An issue may be named by the last part of its id alone, a task
//! by its number alone: `00af/3` is `issue_1700000000000_00af/task-3`.

use std::str::FromStr;

use tasuki_proto::{
    reason::Reason,
    swarm::{IssueId, TaskNumber},
    wire,
};

use super::{
    Failure,
    pages::{PAGE, offset},
};
use crate::cli::role_args::RoleClient;

/// Issues among which the last part of an id is looked for, the newest first: ten pages.
const LOOKED_AT_MAX: u32 = 2000;

/// Characters of the last part of an id.
const SHORT_CHARS_MIN: usize = 4;
const SHORT_CHARS_MAX: usize = 8;

/// An issue as it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IssueName {
    Whole(IssueId),
    /// The last part of its id.
    Short(String),
}

/// A task as it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct TaskName {
    pub(super) issue: IssueName,
    pub(super) task: TaskNumber,
}

/// What has documents of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocOwner {
    Issue(IssueName),
    Task(TaskName),
}

/// A task, by the ids the broker knows.
#[derive(Debug, Clone)]
pub(in crate::cli) struct TaskIds {
    pub(in crate::cli) issue: String,
    pub(in crate::cli) task: String,
}

/// Whether a text can be the last part of an id.
pub(in crate::cli) fn is_id_end(text: &str) -> bool {
    let is_hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    (SHORT_CHARS_MIN..=SHORT_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_hex)
}

impl FromStr for IssueName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Whole(id));
        }
        if is_id_end(text) {
            return Ok(Self::Short(text.to_owned()));
        }
        Err("an issue is like issue_1700000000000_00af, or the last part of that: 00af".to_owned())
    }
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (issue, task) = text
            .split_once('/')
            .ok_or("a task is like ISSUE/task-3 or ISSUE/3; no / was found in it")?;
        let issue = issue.parse()?;
        let number = task.strip_prefix("task-").unwrap_or(task);
        let task = format!("task-{number}").parse();
        Ok(Self { issue, task: task.map_err(|_| "a task is like ISSUE/task-3 or ISSUE/3")? })
    }
}

impl FromStr for DocOwner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Task);
        }
        text.parse().map(Self::Issue)
    }
}

impl IssueName {
    /// The id that is meant.
    pub(super) async fn find(&self, acting: &RoleClient) -> Result<String, Failure> {
        let short = match self {
            Self::Whole(id) => return Ok(id.to_string()),
            Self::Short(short) => short,
        };
        let (mut found, mut looked_at): (Vec<String>, u64) = (Vec::new(), 0);
        loop {
            let request = wire::ListIssuesRequest {
                limit: PAGE,
                offset: offset(looked_at),
                ..Default::default()
            };
            let page = acting.broker.call(&request).await?;
            let ids = page.issues.iter().map(|it| &it.issue_id);
            let fit = ids.filter(|id| id.rsplit('_').next() == Some(short));
            for id in fit {
                if !found.contains(id) {
                    found.push(id.clone());
                }
            }
            looked_at += page.issues.len() as u64;
            let is_last = page.issues.is_empty() || page.total <= looked_at;
            if is_last || u64::from(LOOKED_AT_MAX) <= looked_at {
                break;
            }
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] if looked_at == 0 => Err(Failure::reason(
                Reason::UnknownIssue,
                "There is no issue; `tasuki issue create SUBJECT` creates one. Nothing changed.",
            )),
            [] => Err(Failure::reason(
                Reason::UnknownIssue,
                format!(
                    "None of the {looked_at} newest issues has an id that ends with _{short}; \
                     `tasuki issue list` shows them. Nothing changed."
                ),
            )),
            several => Err(Failure::reason(
                Reason::UnknownIssue,
                format!(
                    "Several issues end with _{short}: {}. Give the whole id; nothing changed.",
                    several.join(", ")
                ),
            )),
        }
    }
}

impl TaskName {
    pub(in crate::cli) async fn find(&self, acting: &RoleClient) -> Result<TaskIds, Failure> {
        let issue = self.issue.find(acting).await?;
        Ok(TaskIds { issue, task: self.task.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use tasuki_proto::swarm::{DeliveryId, LockId};

    use super::*;

    #[test]
    fn things_are_known_by_how_they_are_called() {
        let said = |text: &str| match text.parse::<DocOwner>() {
            Ok(DocOwner::Issue(IssueName::Whole(id))) => format!("issue {id}"),
            Ok(DocOwner::Issue(IssueName::Short(short))) => format!("issue …{short}"),
            Ok(DocOwner::Task(TaskName { issue: IssueName::Short(short), task })) => {
                format!("…{short} {task}")
            }
            Ok(DocOwner::Task(TaskName { issue: IssueName::Whole(id), task })) => {
                format!("{id} {task}")
            }
            Err(why) => format!("no: {why}"),
        };
        for (text, expected) in [
            ("issue_1700000000000_00af", "issue issue_1700000000000_00af"),
            ("00af", "issue …00af"),
            ("1a2b3", "issue …1a2b3"),
            ("00af/3", "…00af task-3"),
            ("00af/task-12", "…00af task-12"),
            ("issue_1700000000000_00af/3", "issue_1700000000000_00af task-3"),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
        // A delivery and a lock are called by their whole ids alone, and by nothing else's.
        let (delivery, lock) = ("delivery_1700000000000_00af", "l_1700000000000_00af");
        assert_eq!(delivery.parse::<DeliveryId>().unwrap().to_string(), delivery);
        assert_eq!(lock.parse::<LockId>().unwrap().to_string(), lock);
        for text in [delivery, lock] {
            assert!(said(text).starts_with("no: "), "{text}: {}", said(text));
        }
        assert!(lock.parse::<DeliveryId>().is_err() && delivery.parse::<LockId>().is_err());
        for text in ["", "af", "00ag", "issue_1", "00af/", "00af/0", "00af/x", "/3", "delivery_x"] {
            assert!(said(text).starts_with("no: "), "{text}: {}", said(text));
        }
    }
}
