//! Parked waits and what ends them.

use tasuki_proto::id::{LoopId, NodeId, RoleId};

use super::{
    super::waits::{Parked, Question, Sink, Told, WAITS_MAX, WaitId},
    State,
};
use crate::rules::{Event, Rejection, turn::Standing};

impl State {
    pub(in crate::workspace) fn park(
        &mut self,
        question: Question,
        id: WaitId,
        hold_ms: u64,
        sink: Sink,
    ) {
        let now = self.now();
        self.last_active = now;
        let mut told = self.tell(&question);
        if let Ok(it) = &told {
            self.context.presence.role_seen(&question.role, now, None);
            let is_holder = it.answer.standing == Standing::CanStart;
            if is_holder && self.workspace.loops.is_lapsed(&question.loop_id) {
                self.tick();
                told = self.tell(&question);
            }
        }
        let is_over = match &told {
            Err(_) => true,
            Ok(told) => told.answer.standing != Standing::NotYet || hold_ms == 0,
        };
        if is_over {
            return self.release(Box::new(move || sink(told)));
        }
        if WAITS_MAX <= self.waits.len() {
            return self.release(Box::new(move || sink(Err(Rejection::TooManyWaits))));
        }
        let deadline = now.plus_millis(hold_ms);
        let Some(older) = self.waits.park(question, id, deadline, sink) else { return };
        let told = told.map(|told| Told { is_superseded: true, ..told });
        self.release(Box::new(move || (older.sink)(told)));
    }

    pub(in crate::workspace) fn tell(&mut self, question: &Question) -> Result<Told, Rejection> {
        let answer = self.workspace.loops.answer(&question.loop_id, &question.role)?;
        if answer.standing == Standing::CanStart {
            self.context.told.insert(question.loop_id.clone(), answer.turn);
        }
        Ok(Told { answer, is_superseded: false, sequence: self.workspace.sequence })
    }

    /// Ends the waits of a loop that its state now answers.
    pub(in crate::workspace) fn wake(&mut self, loop_id: &LoopId) {
        let Some(state) = self.workspace.loops.by_id.get(loop_id) else { return };
        let roles: Vec<RoleId> = match &state.holder {
            Some(holder) => vec![holder.clone()],
            None => self.waits.roles(loop_id).cloned().collect(),
        };
        for role in roles {
            let question = Question { loop_id: loop_id.clone(), role };
            if let Some(parked) = self.waits.take(&question) {
                self.end_wait(&question, parked);
            }
        }
    }

    pub(in crate::workspace) fn end_wait(&mut self, question: &Question, parked: Parked) {
        let now = self.now();
        self.context.presence.role_seen(&question.role, now, None);
        let told = self.tell(question);
        self.release(Box::new(move || (parked.sink)(told)));
    }

    pub(in crate::workspace) fn end_waits(&mut self) {
        let questions: Vec<Question> = self.waits.questions().cloned().collect();
        for question in questions {
            if let Some(parked) = self.waits.take(&question) {
                self.end_wait(&question, parked);
            }
        }
    }

    /// Roles that these events take from a node, and from which.
    pub(in crate::workspace) fn moved_roles(&self, events: &[Event]) -> Vec<(RoleId, NodeId)> {
        let mut moved = Vec::new();
        for event in events {
            let Event::NodeRegistered(it) = event else { continue };
            for spec in &it.roles {
                let host = self.workspace.directory.host(&spec.role);
                if let Some(host) = host.filter(|host| **host != it.node) {
                    moved.push((spec.role.clone(), host.clone()));
                }
            }
        }
        moved
    }

    /// Ends the waits of a role that another node took from `node`: they would pass for signs of
    /// life, and tell two nodes that they can start.
    pub(in crate::workspace) fn end_waits_of(&mut self, role: &RoleId, node: &NodeId) {
        if !self.waits.is_waiting(role) {
            return;
        }
        let of_role = self.waits.questions().filter(|question| question.role == *role);
        for question in of_role.cloned().collect::<Vec<_>>() {
            let Some(parked) = self.waits.take(&question) else { continue };
            let why = Rejection::RoleForbidden { node: node.clone(), role: role.clone() };
            self.release(Box::new(move || (parked.sink)(Err(why))));
        }
    }
}
