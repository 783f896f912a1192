//! What hooks ask the broker, over the node's link.
//!
//! It is asked without a registration, so nothing of it speaks for an agent.

use async_trait::async_trait;
use tasuki_proto::{id::RoleId, reason::Reason, rpc::Rpc, wire};

use super::{
    details::Details,
    document::Read,
    source::{Part, Source, Unanswered},
    spec::Party,
    work_event::{Subject, WorkEvent},
};
use crate::{
    client::{
        feed::{Ended, Items},
        retry::Failure,
    },
    link::Link,
    refusal::Refusal,
};

#[async_trait]
impl Source for Link {
    async fn ready(&self) {
        self.connected().await;
    }

    async fn newest(&self, role: &RoleId) -> Result<u64, Unanswered> {
        let request = wire::ListBoxRequest {
            role: role.to_string(),
            r#box: wire::Box::Inbox.into(),
            limit: 1,
            ..Default::default()
        };
        let answer = answered(self, request).await?;
        answer.map(|list| list.sequence).map_err(|refusal| Unanswered(refusal.message))
    }

    async fn follow(&self, from: u64) -> Result<Items, Ended> {
        self.subscribe(from).await
    }

    async fn read(&self, role: &RoleId, message: &str, part: Part) -> Result<Read, Unanswered> {
        let (from, last) = match part {
            Part::Newest(count) => (0, count),
            Part::From(first) => (first, 0),
        };
        let request = wire::ReadThreadRequest {
            role: role.to_string(),
            message: message.to_owned(),
            r#box: wire::Box::Unspecified.into(),
            from,
            last,
            mark: wire::MailMark::None.into(),
            ..Default::default()
        };
        answered(self, request).await
    }

    async fn open(&self, read: Read) -> Read {
        match read {
            Ok(mut read) => {
                self.open_entries(read.thread.as_mut(), &mut read.entries).await;
                Ok(read)
            }
            Err(refusal) => Err(refusal),
        }
    }

    async fn details(&self, event: &WorkEvent) -> Result<Result<Details, Refusal>, Unanswered> {
        match read_details(self, event).await {
            Ok(details) => Ok(Ok(details)),
            Err(ReadError::Refused(refusal)) => Ok(Err(refusal)),
            Err(ReadError::Unanswered(unanswered)) => Err(unanswered),
        }
    }
}

/// Entries of an issue's history that are read at once.
const HISTORY_READ: u64 = 200;

enum ReadError {
    Refused(Refusal),
    Unanswered(Unanswered),
}

async fn ask<R: Rpc>(link: &Link, request: R) -> Result<R::Response, ReadError> {
    answered(link, request).await.map_err(ReadError::Unanswered)?.map_err(ReadError::Refused)
}

async fn read_details(link: &Link, event: &WorkEvent) -> Result<Details, ReadError> {
    let mut details = Details::default();
    match &event.subject {
        Subject::Loop { name, turn, entry } => {
            let r#loop = name.clone();
            let read = match *entry {
                0 => None,
                from => {
                    let request =
                        wire::HistoryRequest { r#loop, from, limit: 1, ..Default::default() };
                    ask(link, request).await?.entries.pop()
                }
            };
            let is_needed = read.is_none() || event.lacking.contains(&Party::Participants);
            let state = if is_needed {
                let request = wire::GetLoopRequest { r#loop: name.clone(), ..Default::default() };
                ask(link, request).await?.r#loop
            } else {
                None
            };
            details.put_turn(name, *turn, read.as_ref(), state.as_ref());
        }
        Subject::Issue { id } => read_issue(link, id, &mut details).await?,
        Subject::Task { issue, task, number, message } => {
            let (issue_id, task_id) = (issue.clone(), task.clone());
            let request = wire::GetTaskRequest { issue_id, task_id, ..Default::default() };
            details.put_task(ask(link, request).await?.task.unwrap_or_default(), message);
            read_issue(link, issue, &mut details).await?;
            if event.lacking.contains(&Party::Worker) {
                details.put_worker(&last_claimant(link, issue, task, *number).await?);
            }
        }
        Subject::Delivery { issue, id } => {
            let delivery_id = id.clone();
            let request = wire::GetDeliveryRequest { delivery_id, ..Default::default() };
            details.put_delivery(&ask(link, request).await?.delivery.unwrap_or_default());
            read_issue(link, issue, &mut details).await?;
        }
        Subject::Run { id, message } => {
            let run_id = id.clone();
            let request = wire::GetRunRequest { run_id, ..Default::default() };
            let run = ask(link, request).await?.run.unwrap_or_default();
            let question = match message.checked_sub(1) {
                None => None,
                Some(after) => {
                    let run_id = id.clone();
                    let request =
                        wire::ListRunMessagesRequest { run_id, after, ..Default::default() };
                    ask(link, request).await?.messages.into_iter().next()
                }
            };
            details.put_run(&run, question.as_ref());
        }
    }
    Ok(details)
}

async fn read_issue(link: &Link, id: &str, details: &mut Details) -> Result<(), ReadError> {
    let request = wire::GetIssueRequest { issue_id: id.to_owned(), ..Default::default() };
    details.put_issue(&ask(link, request).await?.issue.unwrap_or_default());
    Ok(())
}

/// Who had a task's claim before an entry of its issue's history; empty: nobody. A task that ended
/// otherwise than by its worker does not say whose it was.
async fn last_claimant(
    link: &Link,
    issue: &str,
    task: &str,
    before: u64,
) -> Result<String, ReadError> {
    let mut end = before;
    while 1 < end {
        let start = end.saturating_sub(HISTORY_READ).max(1);
        let (mut after, mut found) = (start - 1, None);
        while after + 1 < end {
            let limit = u32::try_from(end - 1 - after).unwrap_or(u32::MAX);
            let issue_id = issue.to_owned();
            let request = wire::GetHistoryRequest { issue_id, after, limit, ..Default::default() };
            let entries = ask(link, request).await?.entries;
            let Some(last) = entries.last() else { break };
            after = last.number;
            for entry in entries.into_iter().filter(|it| it.task_id == task) {
                match entry.r#type.as_str() {
                    "issue_task_claimed" => found = Some(entry.role),
                    "issue_task_expired" | "issue_task_reset" => found = Some(String::new()),
                    _ => {}
                }
            }
        }
        if let Some(found) = found {
            return Ok(found);
        }
        end = start;
    }
    Ok(String::new())
}

/// One attempt. A refusal is an answer; a broker that will not have this node for the moment, or is
/// not there, gave none.
async fn answered<R: Rpc>(
    link: &Link,
    request: R,
) -> Result<Result<R::Response, Refusal>, Unanswered> {
    let failure = match link.ask_once(request).await {
        Ok(answer) => return Ok(Ok(answer)),
        Err(failure) => failure,
    };
    match failure {
        Failure::Refused(refusal) if refusal.reason != Reason::Unavailable => Ok(Err(refusal)),
        Failure::TurnedAway(refusal) if refusal.reason != Reason::Unauthenticated => {
            Ok(Err(refusal))
        }
        Failure::Refused(refusal) | Failure::TurnedAway(refusal) | Failure::NotTaken(refusal) => {
            Err(Unanswered(refusal.message))
        }
        Failure::Lost(why) | Failure::Unsure(why) | Failure::StaleEpoch(why) => {
            Err(Unanswered(why))
        }
    }
}
