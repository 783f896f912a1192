//! What events do to loops. Cannot refuse.

use tasuki_proto::id::{LoopId, RoleId, Timestamp, Turn};

use super::{
    Ended, EntryKind, EntryMeta, Event, HISTORY_KEPT, HandedOver, Lease, LeaseRenewed, Loop,
    LoopResumed, Loops, NextTurn, ParticipantsSet, Pause, RECENT_MAX, Receipts, RoundStarted,
    TurnReclaimed,
};
use crate::rules::{Principal, guard::is_human};

impl Loops {
    pub(in crate::rules) fn apply(&mut self, now: Timestamp, by: &Principal, event: &Event) {
        let id = event.loop_id();
        if let Event::LoopOpened(it) = event {
            let opened = Loop::opened(it.participants.clone(), now, self.before_first, false);
            self.held.extend(opened.holder.clone().map(|holder| (holder, id.clone())));
            let earlier = self.by_id.insert(it.loop_id.clone(), opened);
            assert!(earlier.is_none(), "T2: loop {id} was opened twice");
            return;
        }
        let state = self.by_id.get_mut(id).expect("events are about loops that are there");
        if let Some(lapses) = state.running_lease() {
            self.leases.remove(&(lapses, id.clone()));
        }
        let holder = state.holder.clone();
        self.lapsed.remove(id);
        self.graced.remove(id);
        match event {
            Event::LoopOpened(_) => unreachable!("handled above"),
            Event::ParticipantsSet(it) => state.set_participants(it),
            Event::HandedOver(it) => state.handed_over(now, by, it),
            Event::TurnReclaimed(it) => state.reclaimed(now, by, it),
            Event::RoundStarted(it) => state.round_started(now, by, it),
            Event::TurnHanded(it) => {
                state.mark(it.turn, |receipts| receipts.handed = Some(now));
            }
            Event::TurnSeen(it) => state.mark(it.turn, |receipts| receipts.seen = Some(now)),
            Event::TurnLapsed(it) => {
                state.mark(it.turn, |receipts| receipts.lapsed = Some(now));
                state.lease.as_mut().expect("a lease lapses").is_lapsed = true;
            }
            Event::LeaseRenewed(it) => state.renewed(now, it),
            Event::HistoryCompacted(it) => {
                assert!(
                    it.through + HISTORY_KEPT <= state.entries,
                    "T3: {it:?} of {}",
                    state.entries
                );
                state.compacted = Some(it.through);
            }
            Event::LoopPaused(it) => {
                state.pause = Some(Pause { at: now, reason: it.reason.clone() });
            }
            Event::LoopResumed(it) => state.resumed(it),
        }
        if state.holder != holder {
            holder.into_iter().for_each(|it| _ = self.held.remove(&(it, id.clone())));
            self.held.extend(state.holder.clone().map(|it| (it, id.clone())));
        }
        if let Some(holder) = &state.holder {
            assert!(state.participants.contains(holder), "T1: {holder} takes no part in {id}");
        }
        if let Some(lapses) = state.running_lease() {
            self.leases.insert((lapses, id.clone()));
        }
        if state.has_lapsed() {
            self.lapsed.insert(id.clone());
        }
        if state.is_graced() {
            self.graced.insert(id.clone());
        }
    }
}

/// Whether a person acts, also as the role that is a person's own.
fn is_by_person(by: &Principal) -> bool {
    by.person.is_some() || by.role.as_ref().is_some_and(is_human)
}

impl Loop {
    fn set_participants(&mut self, it: &ParticipantsSet) {
        assert!(self.entries == 0, "T1: participants of {} change in mid-work", it.loop_id);
        self.participants.clone_from(&it.participants);
        self.is_open_to_join &= !it.is_chosen;
        let is_seated = self.holder.as_ref().is_some_and(|it| self.participants.contains(it));
        if !is_seated || self.lease.is_none() {
            self.holder = self.participants.first().cloned();
            self.lease = None;
        }
    }

    fn handed_over(&mut self, now: Timestamp, by: &Principal, it: &HandedOver) {
        self.end(it.ended, &it.from, it.loop_id.as_str());
        if let Some(latest) = &mut self.latest {
            latest.receipts.acted = Some(now);
        }
        let next = it.next.as_ref().map(|next| (next.turn, next.to.clone()));
        self.note_actor(is_human(&it.from));
        self.remember(Ended {
            turn: it.ended,
            is_reclaim: false,
            from: it.from.clone(),
            next: next.clone(),
            content: it.content,
        });
        let facts = EntryMeta {
            kind: EntryKind::Handover,
            from: Some(it.from.clone()),
            ended: it.ended,
            has_text: true,
            ..self.entry(&it.loop_id, it.entry, next, now, by)
        };
        self.latest = Some(facts);
        match &it.next {
            Some(next) => self.begin(next, now),
            None => {
                self.holder = None;
                self.lease = None;
            }
        }
    }

    fn reclaimed(&mut self, now: Timestamp, by: &Principal, it: &TurnReclaimed) {
        self.end(it.ended, &it.from, it.loop_id.as_str());
        if let Some(latest) = &mut self.latest {
            latest.receipts.failed = Some(now);
        }
        let next = Some((it.next.turn, it.next.to.clone()));
        self.note_actor(is_by_person(by));
        self.remember(Ended {
            turn: it.ended,
            is_reclaim: true,
            from: it.from.clone(),
            next: next.clone(),
            content: it.content,
        });
        let facts = EntryMeta {
            kind: EntryKind::Reclaim,
            from: Some(it.from.clone()),
            ended: it.ended,
            reason: it.reason.clone(),
            ..self.entry(&it.loop_id, it.entry, next, now, by)
        };
        self.latest = Some(facts);
        self.begin(&it.next, now);
    }

    fn round_started(&mut self, now: Timestamp, by: &Principal, it: &RoundStarted) {
        assert!(self.holder.is_none(), "T1: a round of {} began in mid-turn", it.loop_id);
        self.round = it.round;
        if is_by_person(by) {
            self.alone = None;
        }
        let next = Some((it.next.turn, it.next.to.clone()));
        let facts = EntryMeta {
            kind: EntryKind::RoundStart,
            has_text: it.has_text,
            ..self.entry(&it.loop_id, it.entry, next, now, by)
        };
        self.latest = Some(facts);
        self.begin(&it.next, now);
    }

    fn renewed(&mut self, now: Timestamp, it: &LeaseRenewed) {
        if self.lease.is_none() {
            // The first turn of a loop begins when its holder is told of it.
            self.began = now;
        }
        // Whoever renews was heard of: the next standstill may give a grace again.
        let had_grace = it.is_grace;
        self.lease = Some(Lease { lapses: it.lapses, is_lapsed: false, had_grace });
    }

    fn resumed(&mut self, it: &LoopResumed) {
        assert!(self.pause.is_some(), "T5: {} goes on, and was not paused", it.loop_id);
        self.pause = None;
        self.alone = None;
        let lapses = it.lapses.filter(|_| self.holder.is_some());
        self.lease = lapses.map(|lapses| Lease { lapses, is_lapsed: false, had_grace: false });
    }

    fn mark(&mut self, turn: Turn, mark: impl FnOnce(&mut Receipts)) {
        if let Some(latest) = &mut self.latest
            && latest.next.as_ref().is_some_and(|(began, _)| *began == turn)
        {
            mark(&mut latest.receipts);
        }
    }

    fn end(&mut self, turn: Turn, from: &RoleId, id: &str) {
        assert!(
            self.turn == turn && self.holder.as_ref() == Some(from),
            "T4: turn {turn} of {id} ends for {from}, but {} is with {:?}",
            self.turn,
            self.holder
        );
        self.is_open_to_join = false;
    }

    fn begin(&mut self, next: &NextTurn, now: Timestamp) {
        assert!(next.turn == self.turn.next(), "T2: turn {} after {}", next.turn, self.turn);
        self.turn = next.turn;
        self.holder = Some(next.to.clone());
        self.began = now;
        self.lease = Some(Lease { lapses: next.lapses, is_lapsed: false, had_grace: false });
    }

    /// The next entry, with what all kinds share.
    fn entry(
        &mut self,
        loop_id: &LoopId,
        number: u64,
        next: Option<(Turn, RoleId)>,
        now: Timestamp,
        by: &Principal,
    ) -> EntryMeta {
        assert!(number == self.entries + 1, "T3: entry {number} after {}", self.entries);
        self.entries = number;
        EntryMeta {
            loop_id: loop_id.clone(),
            number,
            kind: EntryKind::Handover,
            round: self.round,
            ended: Turn::NONE,
            next,
            from: None,
            reason: String::new(),
            person: by.person.clone(),
            node: by.node.clone(),
            token: by.token.clone(),
            receipts: Receipts { stored: Some(now), ..Receipts::default() },
            has_text: false,
            hops: self.alone,
        }
    }

    /// Counts the turn that ended, unless a person ended it.
    fn note_actor(&mut self, is_person: bool) {
        self.alone = (!is_person).then(|| self.turns_alone().saturating_add(1));
    }

    fn remember(&mut self, ended: Ended) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(ended);
    }
}
