//! How loops are opened, and how turns end.
//!
//! A command that a model repeats after a time-out is a new call under a new key, so each of
//! these knows its own intent again and answers as it did the first time.

use tasuki_proto::{
    id::{LoopId, RoleId, Timestamp, Turn},
    limits::{LOOP_DEFAULT, LOOPS_MAX, PARTICIPANTS_MAX},
};

use super::{
    Actor, Command, CreateLoop, Ended, EntryBody, EntryMeta, Event, HandOver, HandedOver, Loop,
    LoopOpened, LoopResumed, Loops, NextTurn, ParticipantsSet, Pause, PauseReason, Reclaim, Reply,
    RoundStarted, StartRound, TurnReclaimed, default_participants, pause::why_pause_for,
};
use crate::rules::{
    Asked, Body, Context, Decision, Rejection, Workspace,
    directory::{Directory, Register},
    guard::is_human,
    rejection::{listed, listed_for},
};

impl Loops {
    pub(in crate::rules) fn decide(
        &self,
        asked: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        let Asked { now, context, workspace, .. } = asked;
        match command {
            Command::CreateLoop(it) => self.decide_create(workspace, it),
            Command::StartRound(it) => self.decide_start(asked, it),
            Command::HandOver(it) => self.decide_hand_over(asked, it),
            Command::Reclaim(it) => self.decide_reclaim(asked, it),
            Command::Mark(it) => self.decide_mark(now, context, it),
            Command::Pause(it) => self.decide_pause(it),
            Command::Resume(it) => self.decide_resume(asked, it),
        }
    }

    fn decide_create(&self, workspace: &Workspace, it: &CreateLoop) -> Result<Decision, Rejection> {
        let reply = Reply::Opened { loop_id: it.loop_id.clone() };
        let Some(existing) = self.by_id.get(&it.loop_id) else {
            if LOOPS_MAX <= self.by_id.len() {
                return Err(Rejection::TooManyLoops);
            }
            it.check_known(workspace)?;
            let opened =
                LoopOpened { loop_id: it.loop_id.clone(), participants: it.participants.clone() };
            return Ok(Decision::new([Event::LoopOpened(opened)], reply));
        };
        if existing.participants == it.participants && !existing.is_open_to_join {
            return Ok(Decision::repeat(reply));
        }
        if existing.is_untouched() || existing.participants == it.participants {
            it.check_known(workspace)?;
            let set = ParticipantsSet {
                loop_id: it.loop_id.clone(),
                participants: it.participants.clone(),
                is_chosen: true,
            };
            return Ok(Decision::new([Event::ParticipantsSet(set)], reply));
        }
        Err(Rejection::LoopExists {
            loop_id: it.loop_id.clone(),
            participants: listed(existing.participants.iter().map(RoleId::as_str)),
        })
    }

    /// Seats the roles of a node in the loop every workspace starts with, as long as nobody
    /// handed over in it: `A` and `B`, unless other roles are given, then those, in order, as many
    /// as a loop may have. Roles on standby give way where there are two others.
    pub(in crate::rules) fn decide_seats(
        &self,
        directory: &Directory,
        it: &Register,
    ) -> Option<Event> {
        let (id, main) = self.by_id.iter().find(|(id, _)| id.as_str() == LOOP_DEFAULT)?;
        if !main.is_open_to_join {
            return None;
        }
        let is_default = |role: &RoleId| matches!(role.as_str(), "A" | "B");
        let joining = it.roles.iter().filter(|spec| spec.has_loop()).map(|spec| &spec.role);
        // Who this node hosted before and does not any more is not coming back through it.
        let before = directory.nodes.get(&it.node);
        let has_left = |role: &RoleId| {
            before.is_some_and(|node| node.roles.iter().any(|spec| spec.role == *role))
                && !it.roles.iter().any(|spec| spec.role == *role)
        };
        let stays = |role: &&RoleId| {
            let has_begun = main.lease.is_some() && main.holder.as_ref() == Some(role);
            !has_left(role) && (!is_default(role) || directory.host(role).is_some() || has_begun)
        };
        let is_standby = |role: &RoleId| {
            let own = it.roles.iter().find(|spec| spec.role == *role);
            let known = own.or_else(|| directory.spec(role));
            let has_begun = main.lease.is_some() && main.holder.as_ref() == Some(role);
            !has_begun && known.is_some_and(|spec| spec.is_standby == Some(true))
        };
        let mut participants: Vec<RoleId> =
            main.participants.iter().filter(stays).cloned().collect();
        let mut has_joined = false;
        for role in joining {
            has_joined = true;
            if participants.len() < PARTICIPANTS_MAX && !participants.contains(role) {
                participants.push(role.clone());
            }
        }
        if !has_joined {
            return None;
        }
        if 1 < participants.iter().filter(|role| !is_standby(role)).count() {
            participants.retain(|role| !is_standby(role));
        }
        if participants.iter().all(is_default) {
            participants = default_participants();
        }
        if participants == main.participants {
            return None;
        }
        Some(Event::ParticipantsSet(ParticipantsSet {
            loop_id: id.clone(),
            participants,
            is_chosen: false,
        }))
    }

    fn decide_start(
        &self,
        Asked { now, context, workspace, .. }: Asked<'_>,
        it: &StartRound,
    ) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        if let Actor::Role(role) = &it.by
            && !it.by.is_person()
        {
            state.check_participant(&it.loop_id, role)?;
        }
        if let Some(holder) = &state.holder {
            return Err(Rejection::LoopActive {
                loop_id: it.loop_id.clone(),
                holder: holder.clone(),
                turn: state.turn,
            });
        }
        let first = state.participants.first().expect("a loop has participants");
        let to = it.to.as_ref().unwrap_or(first);
        state.check_participant(&it.loop_id, to)?;
        let next = state.next_turn(to, now, context);
        let entry = state.entries + 1;
        let round = state.round + 1;
        let has_text = !(it.summary.is_empty() && it.instruction.is_empty());
        let reply = Reply::Started { round, turn: next.turn, holder: to.clone() };
        let reason = match workspace.guard.turns_of(&it.loop_id) {
            Some(max) if !it.by.is_person() && max <= state.turns_alone() => {
                Some(PauseReason::Turns { turns: state.turns_alone() })
            }
            Some(_) | None => why_pause_for(workspace, to),
        };
        let stays_paused = state.pause.is_some() && !it.by.is_person();
        let reason = reason.filter(|_| !stays_paused);
        let paused = reason.map(|reason| Loop::paused(&it.loop_id, &next, reason));
        // A person who asks for another round wants it to go on.
        let resumed = state.pause.as_ref().filter(|_| it.by.is_person()).map(|_| {
            let (loop_id, reason) = (it.loop_id.clone(), String::new());
            Event::LoopResumed(LoopResumed { loop_id, turn: state.turn, lapses: None, reason })
        });
        let started = RoundStarted {
            loop_id: it.loop_id.clone(),
            round,
            entry,
            content: it.content(),
            has_text,
            next,
        };
        let started = [Event::RoundStarted(started)];
        let events = resumed.into_iter().chain(started).chain(paused);
        let mut decision = Decision::new(events, reply);
        decision.bodies.push(Body::Entry(EntryBody {
            loop_id: it.loop_id.clone(),
            number: entry,
            summary: it.summary.clone(),
            instruction: it.instruction.clone(),
            before: state.latest.clone(),
        }));
        Ok(decision)
    }

    fn decide_hand_over(
        &self,
        Asked { now, context, workspace, .. }: Asked<'_>,
        it: &HandOver,
    ) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        state.check_participant(&it.loop_id, &it.role)?;
        if let Some(to) = &it.to {
            state.check_participant(&it.loop_id, to)?;
        }
        if let Some(turn) = it.turn
            && state.turn < turn
        {
            return Err(state.not_begun(&it.loop_id, turn));
        }
        let holds = state.holder.as_ref() == Some(&it.role);
        if !holds || it.turn.is_some_and(|turn| turn != state.turn) {
            return state.repeated_handover(it);
        }
        if it.turn.is_none()
            && !state.was_told(&it.loop_id, context)
            && let Some(ended) = state.newest_of(&it.role)
            && ended.is_same(it)
        {
            // The turn came back before its holder heard of it: these are the old words again.
            return Ok(state.again(ended));
        }

        let content = it.content();
        let next = (!it.is_task_complete).then(|| {
            let to = it.to.as_ref().unwrap_or_else(|| state.after(&it.role));
            state.next_turn(to, now, context)
        });
        let told = next.as_ref().map(|next| (next.turn, next.to.clone()));
        let (turn, from) = (state.turn, it.role.clone());
        let ended = Ended { turn, is_reclaim: false, from, next: told, content };
        let open = next.as_ref().filter(|_| state.pause.is_none());
        let reason = open.and_then(|next| {
            let why = match is_human(&it.role) {
                true => why_pause_for(workspace, &next.to),
                false => state.why_pause(workspace, &it.loop_id, &ended, next),
            };
            Some((next, why?))
        });
        let pause = reason.as_ref().map(|(_, reason)| Pause { at: now, reason: reason.clone() });
        let pause = state.pause.clone().or(pause);
        let reply = Reply::Handed { ended: turn, next: ended.next.clone(), pause };
        let paused = reason.map(|(next, reason)| Loop::paused(&it.loop_id, next, reason));
        let handed = HandedOver {
            loop_id: it.loop_id.clone(),
            round: state.round,
            entry: state.entries + 1,
            ended: state.turn,
            from: it.role.clone(),
            content,
            next,
        };
        let events = [Event::HandedOver(handed)].into_iter().chain(paused);
        let mut decision = Decision::new(events, reply);
        decision.bodies.push(Body::Entry(EntryBody {
            loop_id: it.loop_id.clone(),
            number: state.entries + 1,
            summary: it.summary.clone(),
            instruction: it.instruction.clone(),
            before: state.latest_acted(now),
        }));
        Ok(decision)
    }

    fn decide_reclaim(
        &self,
        Asked { now, context, workspace, .. }: Asked<'_>,
        it: &Reclaim,
    ) -> Result<Decision, Rejection> {
        let state = self.get(&it.loop_id)?;
        let to = match (&it.to, &it.by) {
            (Some(to), _) => to,
            (None, Actor::Role(role)) => role,
            (None, Actor::Person(_)) => {
                let text = "name the role that gets the turn: a person holds none (--to ROLE)";
                return Err(Rejection::Invalid(text.to_owned()));
            }
        };
        state.check_participant(&it.loop_id, to)?;
        if let Actor::Role(role) = &it.by
            && !it.by.is_person()
        {
            state.check_participant(&it.loop_id, role)?;
        }
        if let Some(repeat) = state.repeated_reclaim(it) {
            return Ok(repeat);
        }
        if let Some(turn) = it.turn
            && turn != state.turn
        {
            if state.turn < turn {
                return Err(state.not_begun(&it.loop_id, turn));
            }
            return Err(state.stale(&it.loop_id, turn));
        }
        let Some(holder) = &state.holder else {
            return Err(state.completed(&it.loop_id));
        };
        let is_lapsed = state.timed_lease().is_some_and(|lease| lease.is_lapsed);
        if !it.by.is_person() && !is_lapsed {
            return Err(Rejection::TurnHeld {
                loop_id: it.loop_id.clone(),
                holder: holder.clone(),
                turn: state.turn,
            });
        }
        let next = state.next_turn(to, now, context);
        let reply = Reply::Reclaimed {
            ended: state.turn,
            turn: next.turn,
            from: holder.clone(),
            to: to.clone(),
        };
        let turns = state.turns_alone().saturating_add(1);
        let max = workspace.guard.turns_of(&it.loop_id).filter(|_| !it.by.is_person());
        let reason = match max {
            Some(max) if max <= turns => Some(PauseReason::Turns { turns }),
            Some(_) | None => why_pause_for(workspace, to),
        };
        let reason = reason.filter(|_| state.pause.is_none());
        let paused = reason.map(|reason| Loop::paused(&it.loop_id, &next, reason));
        let reclaimed = TurnReclaimed {
            loop_id: it.loop_id.clone(),
            entry: state.entries + 1,
            ended: state.turn,
            from: holder.clone(),
            reason: it.reason.clone(),
            content: it.content(),
            next,
        };
        let events = [Event::TurnReclaimed(reclaimed)].into_iter().chain(paused);
        let mut decision = Decision::new(events, reply);
        decision.bodies.push(Body::Entry(EntryBody {
            loop_id: it.loop_id.clone(),
            number: state.entries + 1,
            summary: String::new(),
            instruction: String::new(),
            before: state.latest_failed(now),
        }));
        Ok(decision)
    }
}

impl CreateLoop {
    fn check_known(&self, workspace: &Workspace) -> Result<(), Rejection> {
        if self.allow_new_roles {
            return Ok(());
        }
        let known = workspace.known_roles();
        let unknown: Vec<&str> = self
            .participants
            .iter()
            .filter(|role| !known.contains(role) && !is_human(role))
            .map(RoleId::as_str)
            .collect();
        let Some(first) = unknown.first() else { return Ok(()) };
        Err(Rejection::UnknownParticipants {
            unknown: unknown.join(", "),
            known: listed_for(first, known.iter().map(|it| it.as_str())),
        })
    }
}

impl Ended {
    fn is_same(&self, it: &HandOver) -> bool {
        !self.is_reclaim && self.from == it.role && self.content == it.content()
    }
}

impl Loop {
    /// Whether nothing happened in it yet.
    fn is_untouched(&self) -> bool {
        self.entries == 0 && self.lease.is_none()
    }

    fn next_turn(&self, to: &RoleId, now: Timestamp, context: &Context) -> NextTurn {
        let lapses = now.plus_millis(context.lease_ms);
        NextTurn { turn: self.turn.next(), to: to.clone(), lapses }
    }

    /// The answer to a handover that is said again.
    fn again(&self, ended: &Ended) -> Decision {
        let (next, pause) = (ended.next.clone(), self.pause.clone());
        Decision::repeat(Reply::Handed { ended: ended.turn, next, pause })
    }

    /// A handover by a role that does not hold the turn it names: said before, or refused.
    fn repeated_handover(&self, it: &HandOver) -> Result<Decision, Rejection> {
        if let Some(turn) = it.turn {
            if let Some(holder) = self.holder.as_ref().filter(|_| turn == self.turn) {
                return Err(self.not_your_turn(&it.loop_id, holder));
            }
            return match self.recent.iter().find(|ended| ended.turn == turn) {
                Some(ended) if ended.is_same(it) => Ok(self.again(ended)),
                Some(_) | None => Err(self.stale(&it.loop_id, turn)),
            };
        }
        match self.newest_of(&it.role) {
            Some(ended) if ended.is_same(it) => return Ok(self.again(ended)),
            Some(ended) if ended.is_reclaim => return Err(self.stale(&it.loop_id, ended.turn)),
            Some(_) | None => {}
        }
        match &self.holder {
            None => Err(self.completed(&it.loop_id)),
            Some(holder) => Err(self.not_your_turn(&it.loop_id, holder)),
        }
    }

    /// How the newest turn that this role held ended.
    fn newest_of(&self, role: &RoleId) -> Option<&Ended> {
        self.recent.iter().rev().find(|ended| ended.from == *role)
    }

    /// Whether the holder heard of its turn.
    fn was_told(&self, id: &LoopId, context: &Context) -> bool {
        let receipts = self.latest.as_ref().map(|latest| latest.receipts).unwrap_or_default();
        context.told.get(id) == Some(&self.turn)
            || receipts.handed.is_some()
            || receipts.seen.is_some()
    }

    fn repeated_reclaim(&self, it: &Reclaim) -> Option<Decision> {
        let ended = match it.turn {
            Some(turn) => self.recent.iter().find(|ended| ended.turn == turn)?,
            // The turn that it gave has lapsed since: the same words mean this one.
            None if self.lease.is_some_and(|lease| lease.is_lapsed) => return None,
            None => self.recent.back()?,
        };
        let (turn, to) = ended.next.clone()?;
        let is_same = ended.is_reclaim && ended.content == it.content();
        is_same.then(|| {
            Decision::repeat(Reply::Reclaimed {
                ended: ended.turn,
                turn,
                from: ended.from.clone(),
                to,
            })
        })
    }

    fn latest_acted(&self, now: Timestamp) -> Option<EntryMeta> {
        let mut facts = self.latest.clone()?;
        facts.receipts.acted = Some(now);
        Some(facts)
    }

    fn latest_failed(&self, now: Timestamp) -> Option<EntryMeta> {
        let mut facts = self.latest.clone()?;
        facts.receipts.failed = Some(now);
        Some(facts)
    }

    fn not_your_turn(&self, loop_id: &LoopId, holder: &RoleId) -> Rejection {
        let (loop_id, holder) = (loop_id.clone(), holder.clone());
        Rejection::NotYourTurn { loop_id, holder, turn: self.turn }
    }

    fn stale(&self, loop_id: &LoopId, presented: Turn) -> Rejection {
        Rejection::StaleTurn { loop_id: loop_id.clone(), presented, current: self.turn }
    }

    pub(super) fn completed(&self, loop_id: &LoopId) -> Rejection {
        Rejection::LoopCompleted { loop_id: loop_id.clone(), turn: self.turn }
    }

    fn not_begun(&self, loop_id: &LoopId, turn: Turn) -> Rejection {
        Rejection::Invalid(format!(
            "turn {turn} of loop {loop_id} has not begun; the latest is turn {}",
            self.turn
        ))
    }
}
