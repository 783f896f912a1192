//! Parked waits and what ends them.

use std::collections::BTreeSet;

use tasuki_proto::id::{BoardName, LoopId, RoleId};
use tokio::sync::watch;

use super::{
    super::waits::{Answer, Parked, Question, WAITS_MAX, WaitId, WaitOutcome, WaitReply},
    State,
};
use crate::rules::{Caller, Event, Rejection, board, run, turn::TurnStatus};

impl State {
    pub(in crate::workspace) fn park(
        &mut self,
        question: Question,
        caller: Caller,
        id: WaitId,
        hold_ms: u64,
        reply: WaitReply,
    ) {
        let now = self.now();
        self.last_active = now;
        let mut outcome = self.check_and_answer(&question, &caller);
        if let (Ok(_), Some(role)) = (&outcome, question.role()) {
            self.context.presence.role_seen(role, now);
        }
        // Who is refused ends nobody's wait.
        if let (Ok(_), Question::Run(run::Question::Steps(offer))) = (&outcome, &question)
            && let Some(older) = self.waits.offer_of(&offer.node)
            && let Some(parked) = self.waits.take(&older)
        {
            let superseded = self.answer(&older).map(WaitOutcome::superseded);
            self.reply(parked.reply, superseded);
        }
        if let (Ok(_), Question::Board(it)) = (&outcome, &question) {
            self.supersede_board_wait(it);
        }
        if let (Ok(it), Question::Turn { loop_id, .. }) = (&outcome, &question) {
            let is_holder =
                matches!(&it.answer, Answer::Turn(it) if it.standing == TurnStatus::CanStart);
            if is_holder && self.workspace.loops.is_lapsed(loop_id) {
                self.tick();
                outcome = self.answer(&question);
            }
        }
        let is_over = outcome.as_ref().map_or(true, |it| it.answer.is_there() || hold_ms == 0);
        if is_over {
            return self.reply(reply, outcome);
        }
        if WAITS_MAX <= self.waits.len() {
            return self.reply(reply, Err(Rejection::TooManyWaits));
        }
        let deadline = now.plus_millis(hold_ms);
        let older = self.waits.park(question, id, now, deadline, caller, reply);
        let Some(older) = older else { return };
        self.reply(older.reply, outcome.map(WaitOutcome::superseded));
    }

    fn check_and_answer(
        &mut self,
        question: &Question,
        caller: &Caller,
    ) -> Result<WaitOutcome, Rejection> {
        self.workspace.directory.check(caller, question.role())?;
        self.answer(question)
    }

    /// What the state says now, and what follows from saying it.
    fn answer(&mut self, question: &Question) -> Result<WaitOutcome, Rejection> {
        let answer = match question {
            Question::Turn { loop_id, role } => {
                let answer = self.workspace.loops.answer(loop_id, role)?;
                if answer.standing == TurnStatus::CanStart {
                    self.context.told.insert(loop_id.clone(), answer.turn);
                }
                Answer::Turn(answer)
            }
            Question::Mail { role, filter } => {
                Answer::Mail(self.workspace.mail.answer(role, filter))
            }
            Question::Swarm { what, role } => Answer::Swarm(self.answer_swarm(role, what)?),
            Question::Board(question) => Answer::Board(self.workspace.boards.answer(question)),
            Question::Run(question) => Answer::Run(self.answer_run(question)?),
        };
        Ok(WaitOutcome { answer, is_superseded: false, sequence: self.workspace.sequence })
    }

    /// Ends a wait with what its caller makes of the outcome, once that is durable.
    fn reply(&mut self, reply: WaitReply, outcome: Result<WaitOutcome, Rejection>) {
        let release = reply(&self.view(), outcome);
        self.release(release);
    }

    /// Ends the waits that the state answers after this happened. A record may have many events
    /// that reach the same waits: each is looked at once.
    pub(in crate::workspace) fn wake_for(&mut self, events: &[Event]) {
        let mut loops: BTreeSet<&LoopId> = BTreeSet::new();
        let mut mail: BTreeSet<&RoleId> = BTreeSet::new();
        let mut boards: BTreeSet<&BoardName> = BTreeSet::new();
        for event in events {
            if let Event::Turn(event) = event {
                loops.insert(event.loop_id());
            }
            if let Event::Mail(event) = event {
                mail.extend(event.reaches());
            }
            if let Event::Swarm(event) = event {
                self.note_for_swarm(event);
            }
            if let Event::Board(board::Event::Updated(it)) = event {
                boards.insert(&it.board);
            }
        }
        loops.into_iter().for_each(|loop_id| self.wake(loop_id));
        mail.into_iter().for_each(|role| self.wake_for_mail(role));
        boards.into_iter().for_each(|board| self.wake_for_board(board));
        self.wake_for_swarm(events);
        self.wake_for_runs(events);
        // Who hosts a role is what a node is told of, too.
        let is_of_phases = |it: &Event| matches!(it, Event::Pipeline(_) | Event::Directory(_));
        if events.iter().any(is_of_phases) {
            self.phases_changed.send_replace(());
        }
    }

    /// Says when what nodes have to do for pipelines may have changed. Ends with this actor.
    pub(in crate::workspace) fn watch_phases(&self) -> watch::Receiver<()> {
        self.phases_changed.subscribe()
    }

    fn wake_for_board(&mut self, board: &BoardName) {
        let asked = self.waits.about_board(board);
        let answered = asked.filter(|it| self.workspace.boards.answer(it).is_there);
        for question in answered.cloned().collect::<Vec<_>>() {
            self.end(&Question::Board(question));
        }
    }

    /// Whichever checkpoint the older wait of a role knew of.
    fn supersede_board_wait(&mut self, newer: &board::Question) {
        let is_older = |it: &&board::Question| {
            it.role == newer.role && it.channels == newer.channels && it.after != newer.after
        };
        let Some(older) = self.waits.about_board(&newer.board).find(is_older).cloned() else {
            return;
        };
        let older = Question::Board(older);
        if let Some(parked) = self.waits.take(&older) {
            let superseded = self.answer(&older).map(WaitOutcome::superseded);
            self.reply(parked.reply, superseded);
        }
    }

    fn wake_for_mail(&mut self, role: &RoleId) {
        let asked: Vec<Question> = self.waits.mail_of(role).cloned().collect();
        for question in asked {
            let Question::Mail { filter, .. } = &question else { continue };
            if self.workspace.mail.answer(role, filter).mail.is_some() {
                self.end(&question);
            }
        }
    }

    /// Ends the waits of a loop that its state now answers.
    fn wake(&mut self, loop_id: &LoopId) {
        let Some(state) = self.workspace.loops.by_id.get(loop_id) else { return };
        if state.holder.is_some() && state.pause.is_some() {
            // Nobody can start: whoever waits hears of it when the loop goes on.
            return;
        }
        let roles: Vec<RoleId> = match &state.holder {
            Some(holder) => vec![holder.clone()],
            None => self.waits.roles(loop_id).cloned().collect(),
        };
        for role in roles {
            self.end(&Question::Turn { loop_id: loop_id.clone(), role });
        }
    }

    pub(in crate::workspace) fn end_wait(&mut self, question: &Question, parked: Parked) {
        let outcome = self.answer(question);
        self.end_with(question.role(), parked, outcome);
    }

    pub(super) fn end_with(
        &mut self,
        role: Option<&RoleId>,
        parked: Parked,
        outcome: Result<WaitOutcome, Rejection>,
    ) {
        if let Some(role) = role {
            let now = self.now();
            self.context.presence.role_seen(role, now);
        }
        self.reply(parked.reply, outcome);
    }

    pub(in crate::workspace) fn end_waits(&mut self) {
        let questions: Vec<Question> = self.waits.questions().cloned().collect();
        questions.iter().for_each(|question| self.end(question));
    }

    /// Ends the wait of this question, if there is one, with what the state says.
    pub(super) fn end(&mut self, question: &Question) {
        if let Some(parked) = self.waits.take(question) {
            self.end_wait(question, parked);
        }
    }

    /// Ends the waits of whom a registration took the right to ask: of roles that another node
    /// hosts from then on, and of an older life of the same node. They would pass for signs of
    /// life, and tell two agents that they can start.
    pub(in crate::workspace) fn end_fenced_waits(&mut self) {
        let directory = &self.workspace.directory;
        let fenced = self.waits.callers().filter_map(|(question, caller)| {
            let why = directory.check(caller, question.role()).err()?;
            Some((question.clone(), why))
        });
        for (question, why) in fenced.collect::<Vec<_>>() {
            let Some(parked) = self.waits.take(&question) else { continue };
            self.reply(parked.reply, Err(why));
        }
    }
}
