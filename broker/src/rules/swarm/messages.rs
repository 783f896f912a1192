//! What a worker asks and tells the lead about its task, and the replies.

use tasuki_proto::{id::RoleId, limits::TASK_MESSAGES_MAX, swarm::TaskMessageId};

use super::{
    IssueEventKind, Message, MessageKind, MessagePosted, MessageState, PostMessage, Rejection,
    Reply, ReplyMessage, Swarm, Task, Words, check::DecisionBuilder, words::MessageWords,
};
use crate::{hash::Hash, rules::rejection::listed};

impl Swarm {
    pub(super) fn decide_message(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &PostMessage,
    ) -> Result<Reply, Rejection> {
        let role = draft.role()?;
        let (_, task) = self.open_task(it.issue, it.task)?;
        task.claim_of(role, it.token)?;
        let content = it.words.content();
        if let Some(same) = task.said_before(role, it.kind, content) {
            return Ok(draft.repeat(Reply::Message(same.id)));
        }
        if TASK_MESSAGES_MAX <= task.messages.len() {
            return Err(Rejection::TooManyMessages);
        }
        let message = TaskMessageId(draft.make.stamp());
        let (sender, kind) = (role.clone(), it.kind);
        let posted = MessagePosted { task: it.task, message, sender, kind, content };
        draft.keep(Words::Message { issue: it.issue, message, words: it.words.clone() });
        draft.happened(it.issue, IssueEventKind::MessagePosted(posted));
        Ok(Reply::Message(message))
    }

    pub(super) fn decide_reply(
        &self,
        draft: &mut DecisionBuilder<'_>,
        it: &ReplyMessage,
    ) -> Result<Reply, Rejection> {
        let (_, task) = self.task(it.issue, it.task)?;
        let content = it.words.content();
        let message = task.to_reply(it.message, content)?;
        let id = message.id;
        if message.reply == Some(content) {
            return Ok(draft.repeat(Reply::Message(id)));
        }
        self.open_issue(it.issue)?;
        if message.state != MessageState::Open {
            let state = message.state.as_str();
            return Err(Rejection::AlreadyReplied { message: id, state });
        }
        draft.keep(Words::Reply { issue: it.issue, message: id, words: it.words.clone() });
        draft.happened(it.issue, IssueEventKind::Replied { task: it.task, message: id, content });
        Ok(Reply::Message(id))
    }
}

impl Task {
    /// What a worker says again: a question by the same words, also once it was answered, since a
    /// model that calls again has not seen the reply; a note only while nothing was said after it.
    fn said_before(&self, role: &RoleId, kind: MessageKind, content: Hash) -> Option<&Message> {
        let mut said = self.messages.iter().rev();
        let is_same = |it: &Message| {
            let is_own = it.sender == *role && it.kind == kind && it.content == content;
            is_own && it.state != MessageState::Resolved
        };
        match kind.is_blocking() {
            true => said.find(|it| is_same(it)),
            false => said.next().filter(|it| is_same(it)),
        }
    }

    /// The message that is meant: the named one, the only open question, or, with none open, the
    /// newest question that was answered so.
    fn to_reply(&self, id: Option<TaskMessageId>, content: Hash) -> Result<&Message, Rejection> {
        if let Some(id) = id {
            let found = self.messages.iter().find(|own| own.id == id);
            return found.ok_or(Rejection::UnknownMessage { message: id });
        }
        let mut open = self.open_questions();
        let task = self.number;
        match (open.next(), open.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                let all: Vec<String> = self.open_questions().map(|it| it.id.to_string()).collect();
                let open = listed(all.iter().map(String::as_str));
                Err(Rejection::AmbiguousMessage { task, open })
            }
            (None, _) => {
                let mut questions = self.messages.iter().rev().filter(|it| it.kind.is_blocking());
                let newest = questions.next().filter(|it| it.reply == Some(content));
                newest.ok_or(Rejection::NoOpenMessage { task })
            }
        }
    }
}

impl MessageWords {
    pub fn content(&self) -> Hash {
        Hash::of_fields([self.content.as_str(), &self.refs])
    }
}
