//! What time brings: signs of life, leases, holds that are over, and falling asleep.
//!
//! Every deadline goes through one alarm, and the alarm has a floor: a deadline that stays where it
//! is though its tick came does not make the actor spin.

use std::{sync::atomic::Ordering, time::Duration};

use ractor::ActorRef;
use tasuki_proto::id::{NodeId, RoleId, Timestamp};
use tracing::info;

use super::{
    super::{actor::Msg, handle::IN_FLIGHT_MAX},
    State,
};
use crate::rules::{Caller, Command, Request, presence::RoleReport};

/// Between two looks at whether a workspace that something keeps awake has become idle, in
/// milliseconds.
const IDLE_CHECK_MS_MIN: u64 = 10_000;

/// Between two ticks, in milliseconds, whatever any rule calls its next deadline.
const TICK_MS_MIN: u64 = 20;

/// Between two looks at whether holders were heard of whose leases run on a grace, in
/// milliseconds: a restart meanwhile would take what they hold.
const GRACED_CHECK_MS: u64 = 1000;

impl State {
    /// Takes a node's word for the roles it hosts: what else it names is not kept.
    pub(in crate::workspace) fn seen(&mut self, node: &NodeId, roles: &[(RoleId, RoleReport)]) {
        let now = self.now();
        self.last_active = now;
        if !self.workspace.directory.nodes.contains_key(node) {
            return;
        }
        self.context.presence.node_seen(node, now);
        for (role, told) in roles {
            if self.workspace.directory.host(role) != Some(node) {
                continue;
            }
            let sign = self.context.presence.role_told(role, now, told);
            self.arguments.last_seen.note(&self.arguments.id, role, sign);
        }
        if self.workspace.loops.has_lapsed() {
            self.tick();
        }
    }

    /// Notices that the broker stood still, before anything is judged by the time that it is.
    pub(in crate::workspace) fn listen(&mut self) {
        let since = self.arguments.pulse.since();
        self.context.presence.listens_since(since.plus_millis(self.behind_ms));
    }

    /// What the passing of time brings: holds that are over, renewals, lapses.
    pub(in crate::workspace) fn tick(&mut self) {
        let now = self.now();
        self.ticked = now;
        for role in self.waits.waiting() {
            self.context.presence.role_seen(role, now);
        }
        for (question, parked) in self.waits.take_due(now) {
            self.end_wait(&question, parked);
        }
        let request = Request { caller: Caller::default(), key: None, command: Command::Tick };
        if let Err(rejection) = self.commit_command(now, &request) {
            unreachable!("a tick is never refused: {rejection}");
        }
        self.wake_by_time(now);
    }

    pub(in crate::workspace) fn is_idle(&self) -> bool {
        let quiet_ms = self.now().millis_since(self.last_active);
        self.arguments.settings.idle_ms <= quiet_ms
            && self.waits.is_empty()
            && !self.is_watched()
            && self.pending.is_empty()
            && !self.workspace.must_stay_awake(self.now(), self.context.lease_ms)
            && self.arguments.feed.receiver_count()
                <= self.arguments.idle_followers.load(Ordering::Acquire)
    }

    /// Leaves memory. Whoever holds a handle is told to ask again by its closed admission.
    pub(in crate::workspace) fn fall_asleep(&mut self, myself: &ActorRef<Msg>) {
        // What is awake is in memory anyway, so it waits for its snapshot, which says so. Whoever
        // asks meanwhile is let in.
        if self.snapshot.at < self.workspace.sequence
            && self.snapshot.failed != Some(self.workspace.sequence)
        {
            self.take_snapshot();
            return self.set_alarm(myself);
        }
        let all = u32::try_from(IN_FLIGHT_MAX).expect("a small number");
        let Ok(_everything) = self.arguments.admission.clone().try_acquire_many_owned(all) else {
            return self.set_alarm(myself);
        };
        self.arguments.admission.close();
        info!(workspace = %self.arguments.id, sequence = %self.workspace.sequence, "asleep");
        myself.stop(Some("idle".to_owned()));
    }

    /// Sends this actor a tick at the next moment that needs one.
    pub(in crate::workspace) fn set_alarm(&mut self, myself: &ActorRef<Msg>) {
        let now = self.now();
        let idle = self.last_active.plus_millis(self.arguments.settings.idle_ms);
        let deadlines = [
            self.waits.next_deadline(),
            self.next_answer(),
            self.workspace.next_deadline(now, self.context.lease_ms),
            self.workspace.has_graced().then_some(self.ticked.plus_millis(GRACED_CHECK_MS)),
            Some(idle.max(now.plus_millis(IDLE_CHECK_MS_MIN))),
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else { return };
        let next = alarm_at(next, self.ticked);
        if let Some((set, alarm)) = &self.alarm {
            if *set <= next {
                return;
            }
            alarm.abort();
        }
        let wait = Duration::from_millis(next.millis_since(now));
        let timer = myself.send_after(wait, || Msg::Tick);
        self.alarm = Some((next, timer.abort_handle()));
    }
}

/// When the next tick comes, for a deadline and after the last one.
fn alarm_at(deadline: Timestamp, ticked: Timestamp) -> Timestamp {
    deadline.max(ticked.plus_millis(TICK_MS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a workspace ticks within a second, by what it takes for its next deadline.
    fn ticks(deadline: impl Fn(Timestamp) -> Timestamp) -> usize {
        let end = Timestamp::from_millis(1_001_000);
        let mut ticked = Timestamp::from_millis(1_000_000);
        let next = |ticked: &mut Timestamp| {
            *ticked = alarm_at(deadline(*ticked), *ticked).max(*ticked);
            (*ticked < end).then_some(*ticked)
        };
        std::iter::from_fn(|| next(&mut ticked)).take(10_000).count()
    }

    #[test]
    fn a_deadline_that_stays_in_the_past_makes_nothing_spin() {
        let stale = Timestamp::from_millis(5);
        assert_eq!(ticks(|_| stale), 49, "of something that is gone");
        assert_eq!(ticks(|now| now), 49, "of something that is always due");
        assert_eq!(ticks(|now| now.plus_millis(300)), 3, "others come on time");
    }
}
