//! `Swarm`: issues, tasks, reviews, deliveries, documents, locks.
//!
//! One file per noun. `parse` reads what callers say, `render` says what the state holds, `bodies`
//! reads from the journal what was said. A command is answered with what holds right after it, so
//! the same key may be answered with more than the first time. Fencing tokens and the
//! tokens of next steps are told to their bearers alone.

mod bodies;
mod deliveries;
mod docs;
mod import;
mod issues;
mod items;
mod locks;
mod messages;
mod parse;
mod render;
mod reviews;
mod settings;
mod states;
mod tasks;
mod waits;
mod workers;

use tasuki_proto::rpc::RpcResponse;
use tonic::Status;

pub(super) use self::{
    render::event,
    waits::{outcome, question},
};
use super::{
    Answer, Endpoint, Later, WorkspaceSession, at_once, default_response,
    parse::{id, optional},
    status,
};
use crate::{
    rules::{
        self, Rejection,
        swarm::{self, CommandKind, Reply},
        turn::Actor,
    },
    workspace::View,
};

impl WorkspaceSession {
    /// Executes what the role asks for, and answers with what `render` makes of it.
    async fn ask<T: RpcResponse>(
        &self,
        ask: CommandKind,
        render: impl FnOnce(&View<'_>, Option<Reply>) -> Result<Later<T>, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        self.ask_as(Actor::Role(self.role()?), ask, render).await
    }

    async fn ask_as<T: RpcResponse>(
        &self,
        by: Actor,
        ask: CommandKind,
        render: impl FnOnce(&View<'_>, Option<Reply>) -> Result<Later<T>, Rejection> + Send + 'static,
    ) -> Result<T, Status> {
        let render = |view: &View<'_>, reply| {
            // Without one there is nothing to say but that it took effect.
            let reply = if let rules::Reply::Swarm(reply) = reply { Some(reply) } else { None };
            render(view, reply)
        };
        self.execute(swarm::Command { by, ask }, render).await
    }
}
