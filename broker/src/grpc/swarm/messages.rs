//! What workers ask and tell their lead, and the replies.

use tasuki_proto::{id::RoleId, swarm::IssueId, wire};

use super::{
    super::status::invalid, Answer, Endpoint, Later, Rejection, View, WorkspaceSession, parse,
    render, tasks,
};
use crate::rules::swarm::{
    CommandKind, Message, MessageKind, PostMessage, Reply, ReplyMessage, Task,
};

impl Endpoint for wire::PostMessageRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let (issue, task) = tasks::of(&self.issue_id, &self.task_id)?;
        let kind = MessageKind::parse(&self.kind).ok_or_else(|| {
            let known = MessageKind::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>();
            invalid("kind", &format!("is none there is; say one of {}", known.join(", ")))
        })?;
        let words = parse::message(self.content, self.refs)?;
        let post = PostMessage { issue, task, token: self.claim_token.into(), kind, words };
        let post = CommandKind::PostMessage(post);
        session.ask(post, move |view, reply| response(view, reply, &role)).await
    }
}

impl Endpoint for wire::ReplyMessageRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let role = session.role()?;
        let (issue, task) = tasks::of(&self.issue_id, &self.task_id)?;
        let message = parse::maybe("message_id", &self.message_id)?;
        let words = parse::message(self.content, self.refs)?;
        let reply = ReplyMessage { issue, task, message, words };
        let reply = CommandKind::ReplyMessage(reply);
        session.ask(reply, move |view, reply| response(view, reply, &role)).await
    }
}

fn response(
    view: &View<'_>,
    reply: Option<Reply>,
    asker: &RoleId,
) -> Result<Later<wire::MessageResponse>, Rejection> {
    let Some(Reply::Message(message)) = reply else {
        unreachable!("a message is taken or refused")
    };
    let (state, task, found) = view.workspace.swarm.message(message)?;
    let message = with_words(state.id, task, found);
    let task = Some(render::task(state, task, Some(asker)));
    Ok(Box::new(move |session| {
        let message = Some(message(session)?);
        Ok(wire::MessageResponse { message, task, ..Default::default() })
    }))
}

/// A message with what was asked or told, and the reply.
pub(super) fn with_words(issue: IssueId, task: &Task, it: &Message) -> Later<wire::TaskMessage> {
    let (mut shown, id, has_reply) = (render::message(task, it), it.id, it.reply.is_some());
    Box::new(move |session| {
        let words = session.message_words(issue, id)?;
        (shown.content, shown.refs) = (words.content, words.refs);
        if has_reply {
            let reply = session.reply_words(issue, id)?;
            (shown.reply, shown.reply_refs) = (reply.content, reply.refs);
        }
        Ok(shown)
    })
}
