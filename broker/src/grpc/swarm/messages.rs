//! What workers ask and tell their lead, and the replies.

use tasuki_proto::{
    id::{RoleId, Sequence},
    swarm::{IssueId, TaskMessageId},
    wire,
};
use tonic::Status;

use super::{
    super::status::invalid,
    Done, View, WorkspaceSession, id, parse,
    render::{self, Posted},
    tasks, token,
};
use crate::rules::swarm::{CommandKind, MessageKind, PostMessage, Reply, ReplyMessage};

pub(super) async fn post(
    session: &WorkspaceSession,
    mut it: wire::PostMessageRequest,
) -> Result<wire::MessageResponse, Status> {
    let token = token(&mut it.claim_token);
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = tasks::of(&it.issue_id, &it.task_id)?;
    let kind = MessageKind::parse(&it.kind).ok_or_else(|| {
        let known = MessageKind::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ");
        invalid("kind", &format!("is none there is; say one of {known}"))
    })?;
    let words = parse::message(it.content, it.refs)?;
    let ask = CommandKind::PostMessage(PostMessage { issue, task, token, kind, words });
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.message_response(role, issue, done).await
}

pub(super) async fn reply(
    session: &WorkspaceSession,
    mut it: wire::ReplyMessageRequest,
) -> Result<wire::MessageResponse, Status> {
    let key = session.key(it.key.take(), &it)?;
    let role: RoleId = id("role", &it.role)?;
    let (issue, task) = tasks::of(&it.issue_id, &it.task_id)?;
    let message = parse::maybe("message_id", &it.message_id)?;
    let words = parse::message(it.content, it.refs)?;
    let ask = CommandKind::ReplyMessage(ReplyMessage { issue, task, message, words });
    let done = session.ask(role.clone(), Some(key), ask).await?;
    session.message_response(role, issue, done).await
}

impl WorkspaceSession {
    async fn message_response(
        &self,
        asker: RoleId,
        issue: IssueId,
        done: Done,
    ) -> Result<wire::MessageResponse, Status> {
        let Done { reply: Some(Reply::Message(message)), is_repeat, sequence } = done else {
            unreachable!("a message is taken or refused")
        };
        let look = move |view: &View<'_>| {
            let (state, task, found) = view.workspace.swarm.message(message)?;
            let shown = (render::message(task, found), Posted::of(found));
            Ok((shown, render::task(state, task, Some(&asker)), view.now.as_millis()))
        };
        let ((mut shown, posted), task, now_ms) = self.look_for(None, look).await?;
        self.add_message_words(&mut shown, issue, posted)?;
        Ok(wire::MessageResponse {
            message: Some(shown),
            task: Some(task),
            repeated: is_repeat,
            sequence: sequence.get(),
            now_ms,
        })
    }

    /// A message as it stands, with its words.
    pub(super) async fn message(
        &self,
        message: TaskMessageId,
    ) -> Result<(wire::TaskMessage, Sequence), Status> {
        let look = move |view: &View<'_>| {
            let (issue, task, found) = view.workspace.swarm.message(message)?;
            let shown = (render::message(task, found), Posted::of(found));
            Ok((issue.id, shown, view.workspace.sequence))
        };
        let (issue, (mut shown, posted), sequence) = self.look_for(None, look).await?;
        self.add_message_words(&mut shown, issue, posted)?;
        Ok((shown, sequence))
    }

    /// Adds what was asked or told, and the reply.
    pub(super) fn add_message_words(
        &self,
        to: &mut wire::TaskMessage,
        issue: IssueId,
        it: Posted,
    ) -> Result<(), Status> {
        let words = self.message_words(issue, it.id)?;
        (to.content, to.refs) = (words.content, words.refs);
        if it.has_reply {
            let reply = self.reply_words(issue, it.id)?;
            (to.reply, to.reply_refs) = (reply.content, reply.refs);
        }
        Ok(())
    }
}
