//! An agent that calls again what was not answered, and may be killed at any call.

use std::{net::SocketAddr, path::PathBuf};

use serde_json::Value;
use tokio::sync::watch;

use super::Game;
use crate::{
    agents::Transport,
    chance::Chance,
    crash::accepted,
    process::{Process, soon},
    storm::connection::Wire,
};

/// Of so many calls one is taken back.
const CANCELLED_EACH: u64 = 25;

/// How long after it was made, at most, in turns of the scheduler.
const CANCEL_YIELDS_MAX: u64 = 60;

/// Why a call brought nothing.
#[derive(Debug)]
pub(super) enum Not {
    /// The code of a refusal, and its words.
    Refused(String, String),
    /// Its agent was killed.
    Dead,
}

pub(super) type Told = Result<Value, Not>;

pub(super) struct Player {
    pub(super) role: String,
    pub(super) chance: Chance,
    pub(super) game: Game,
    transport: Transport,
    mcp: SocketAddr,
    data: PathBuf,
    up: watch::Receiver<bool>,
    deaths: watch::Receiver<u64>,
    wire: Option<Wire>,
    ids: u64,
    /// Numbers its words, over all its lives.
    said: u64,
}

impl Player {
    pub(super) fn new(
        role: &str,
        transport: Transport,
        node: &Process,
        up: watch::Receiver<bool>,
        deaths: watch::Receiver<u64>,
        chance: Chance,
        game: Game,
    ) -> Self {
        Self {
            role: role.to_owned(),
            chance,
            game,
            transport,
            mcp: node.mcp,
            data: node.data.clone(),
            up,
            deaths,
            wire: None,
            ids: 0,
            said: 0,
        }
    }

    /// Words that it never said before.
    pub(super) fn words(&mut self) -> String {
        self.said += 1;
        format!("{} of {}", self.said, self.role)
    }

    /// As often as chance has it.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.chance.below(times) == 0
    }

    pub(super) fn note(&self, line: String) {
        self.game.change(|it| it.note(&self.role, line));
    }

    /// The answer to a call, which is made as often as it takes.
    pub(super) async fn call(&mut self, tool: &str, arguments: &Value) -> Told {
        loop {
            let mut deaths = self.deaths.clone();
            tokio::select! {
                answered = self.try_call(tool, arguments) => match answered {
                    Some(Err(Not::Refused(code, text))) => {
                        self.game.change(|it| {
                            *it.refused.entry(code.clone()).or_default() += 1;
                            it.note(&self.role, format!("{tool} {arguments}: {text}"));
                        });
                        return Err(Not::Refused(code, text));
                    }
                    Some(told) => return told,
                    None => {}
                },
                dead = deaths.changed() => {
                    dead.unwrap();
                    self.deaths = deaths;
                    self.wire = None;
                    self.game.change(|it| {
                        it.deaths += 1;
                        it.note(&self.role, format!("killed while it called {tool} {arguments}"));
                    });
                    return Err(Not::Dead);
                }
            }
        }
    }

    /// `None`: no answer came.
    async fn try_call(&mut self, tool: &str, arguments: &Value) -> Option<Told> {
        soon(self.up.wait_for(|is_up| *is_up)).await.unwrap();
        if self.wire.as_ref().is_none_or(Wire::is_over) {
            let opened = Wire::open(self.transport, &self.role, self.mcp, self.data.clone()).await;
            match opened {
                Ok(wire) => self.wire = Some(wire),
                Err(why) => return self.again(tool, &why.0).await,
            }
        }
        let wire = self.wire.clone()?;
        self.ids += 1;
        let id = self.ids;
        let asking = wire.ask(id, tool, arguments.clone());
        let answer = if self.once_in(CANCELLED_EACH) {
            // It thinks better of it, and then of that.
            let pause = self.chance.below(CANCEL_YIELDS_MAX);
            let cancelling = async {
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
                soon(wire.cancel(id)).await
            };
            tokio::select! {
                biased;
                answer = soon(asking) => answer,
                cancelled = cancelling => {
                    let why = cancelled.err().map_or_else(|| "cancelled".to_owned(), |it| it.0);
                    self.game.change(|it| it.cancelled += 1);
                    return self.again(tool, &why).await;
                }
            }
        } else {
            soon(asking).await
        };
        let error = answer.as_ref().ok().map(|it| it["structuredContent"]["error"].clone());
        match accepted(answer) {
            Ok(told) => Some(Ok(told)),
            Err(why) if why.is_refusal => {
                let error = error.unwrap_or_default();
                let code = error["code"].as_str().unwrap_or_else(|| panic!("{why}")).to_owned();
                // Somebody who was killed has its place a while longer.
                if code == "role_in_use" {
                    return self.again(tool, &why.to_string()).await;
                }
                Some(Err(Not::Refused(code, error["message"].to_string())))
            }
            Err(why) => self.again(tool, &why.to_string()).await,
        }
    }

    async fn again(&mut self, tool: &str, why: &str) -> Option<Told> {
        self.game.change(|it| {
            it.again += 1;
            it.latest = format!("{tool} by {}: {why}", self.role);
        });
        tokio::task::yield_now().await;
        None
    }
}
