//! What nodes, askers and sub-agents wait for, and what they are answered.

use prost::Message as _;
use tasuki_proto::{
    id::NodeId,
    run::RunId,
    wire::{self, park_response::Outcome, run_answer::Standing, run_question::Ask},
};
use tonic::Status;

use super::{
    super::{
        Answer, Endpoint, Later, WorkspaceSession, at_once,
        parse::id,
        status::{self, invalid},
    },
    parse, render,
};
use crate::{
    rules::{
        Rejection,
        run::{self, Message, MessageKind, MessageState, Run, Text, Waiter, Words},
    },
    workspace::{Question, View},
};

/// Texts of the messages in one answer, in bytes.
const MESSAGES_BYTES_MAX: usize = 1024 * 1024;

/// Messages in one answer.
const MESSAGES_MAX: usize = 100;

impl Endpoint for wire::RunQuestion {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let question = question(&self, session.node())?;
        let Outcome::Run(answer) = session.wait(question, self.hold_ms).await? else {
            unreachable!("a question about runs is answered with one")
        };
        Ok(answer)
    }
}

/// What is asked by a node, where one calls.
pub(in crate::grpc) fn question(
    it: &wire::RunQuestion,
    node: Option<&NodeId>,
) -> Result<Question, Status> {
    let bearer = it.step.as_ref().map(|step| parse::bearer("step", step)).transpose()?;
    Ok(Question::Run(match (&it.ask, bearer) {
        (None, _) => return Err(invalid("ask", &"is missing; say what is waited for")),
        (Some(Ask::Offer(offer)), _) => {
            let why = "is missing: only a node waits for steps";
            let node = node.ok_or_else(|| invalid("caller.node", &why))?;
            run::Question::Steps(Box::new(parse::offer(node.clone(), offer)?))
        }
        (Some(Ask::Run(of)), bearer) => {
            let by = match bearer {
                Some(bearer) => Waiter::Step(bearer),
                None => Waiter::Role(id("role", &it.role)?),
            };
            run::Question::Run { run: parse::run("run_id", &of.run_id)?, after: of.after, by }
        }
        (Some(Ask::Message(number)), Some(by)) => run::Question::Reply { by, number: *number },
        (Some(Ask::Message(_)), None) => {
            return Err(invalid("step", &"is missing: who asked waits for the reply"));
        }
    }))
}

/// What a wait about runs ended with.
pub(in crate::grpc) fn outcome(
    view: &View<'_>,
    it: run::Answer,
    is_superseded: bool,
    sequence: u64,
) -> Result<Later<wire::RunAnswer>, Rejection> {
    let now_ms = view.now.as_millis();
    let mut answer = wire::RunAnswer { sequence, now_ms, ..Default::default() };
    answer.set_standing(match it.is_there() {
        _ if is_superseded => Standing::Superseded,
        true => Standing::There,
        false => Standing::StillWaiting,
    });
    Ok(match it {
        run::Answer::Steps { ready, stop } => {
            answer.ready = ready.map(render::step_ref);
            answer.stop = stop.into_iter().map(render::step_ref).collect();
            at_once(answer)
        }
        run::Answer::Run { run: id, after, .. } => {
            let state = view.workspace.runs.get(id)?;
            answer.run = Some(render::run(view, state));
            let messages = messages(state, state.news(after));
            Box::new(move |session| {
                (answer.messages, _) = messages(session)?;
                Ok(answer)
            })
        }
        run::Answer::Reply { run: id, number, .. } => {
            let messages = messages(view.workspace.runs.get(id)?, [number].into_iter());
            Box::new(move |session| {
                (answer.messages, _) = messages(session)?;
                Ok(answer)
            })
        }
    })
}

/// Messages of a run with their texts, as many as fit, and whether there are more.
pub(super) fn messages(
    run: &Run,
    numbers: impl Iterator<Item = u32>,
) -> Later<(Vec<wire::RunMessage>, bool)> {
    let id = run.id;
    let mut numbers = numbers.peekable();
    let found = numbers.by_ref().take(MESSAGES_MAX).filter_map(|number| {
        let at = (number as usize).checked_sub(1)?;
        Some((number, run.messages.get(at)?.clone()))
    });
    let found: Vec<(u32, Message)> = found.collect();
    let mut has_more = numbers.peek().is_some();
    Box::new(move |session| {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for (number, it) in found {
            let message = session.run_message(id, number, &it)?;
            bytes += message.encoded_len();
            if MESSAGES_BYTES_MAX < bytes && !messages.is_empty() {
                has_more = true;
                break;
            }
            messages.push(message);
        }
        Ok((messages, has_more))
    })
}

impl WorkspaceSession {
    fn run_message(
        &self,
        run: RunId,
        number: u32,
        it: &Message,
    ) -> Result<wire::RunMessage, Status> {
        let reply = match it.state {
            MessageState::Replied(_) => {
                let place = Words::Reply { run, number, text: Text::default() };
                let Words::Reply { text, .. } = self.run_words(place)? else {
                    unreachable!("{OTHER_KIND}")
                };
                render::text(text)
            }
            MessageState::Open | MessageState::Over => None,
        };
        let place = Words::Message { run, number, text: Text::default(), file: None };
        let Words::Message { text, file, .. } = self.run_words(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok(wire::RunMessage {
            number,
            step: it.step,
            is_question: it.kind == MessageKind::Question,
            text: render::text(text),
            reply,
            is_over: it.state == MessageState::Over,
            at_ms: it.at.as_millis(),
            file: file.map(render::file),
        })
    }

    /// The words that are kept where `place` is; what is said in it does not count.
    pub(super) fn run_words(&self, place: Words) -> Result<Words, Status> {
        self.bodies().run_words(place).map_err(|e| status::reading(&e))
    }
}

/// Bytes of another kind are damage, and an error before.
pub(super) const OTHER_KIND: &str = "words are read as what they were asked for";
