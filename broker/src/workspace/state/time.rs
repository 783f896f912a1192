//! What time brings: signs of life, leases, holds that are over, and falling asleep.

use std::{sync::atomic::Ordering, time::Duration};

use ractor::ActorRef;
use tasuki_proto::id::{NodeId, RoleId};
use tracing::info;

use super::{
    super::{actor::Msg, handle::IN_FLIGHT_MAX},
    State,
};
use crate::rules::{Caller, Command, Request};

/// Between two looks at whether a workspace that something keeps awake has become idle, in
/// milliseconds.
const IDLE_CHECK_MS_MIN: u64 = 10_000;

impl State {
    /// Takes a node's word for the roles it hosts: what else it names is not kept.
    pub(in crate::workspace) fn seen(&mut self, node: &NodeId, roles: &[(RoleId, u64, String)]) {
        let now = self.now();
        self.last_active = now;
        let Some(registered) = self.workspace.directory.nodes.get(node) else { return };
        self.context.presence.node_seen(node, now);
        for (role, quiet_ms, client) in roles {
            if !registered.roles.iter().any(|spec| spec.role == *role) {
                continue;
            }
            let at = now.minus_millis(*quiet_ms);
            self.context.presence.role_seen(role, at, Some(client));
        }
        if self.workspace.loops.has_lapsed() {
            self.tick();
        }
    }

    /// What the passing of time brings: holds that are over, renewals, lapses.
    pub(in crate::workspace) fn tick(&mut self) {
        let now = self.now();
        for role in self.waits.waiting() {
            self.context.presence.role_seen(role, now, None);
        }
        for (question, parked) in self.waits.take_due(now) {
            self.end_wait(&question, parked);
        }
        let request = Request { caller: Caller::default(), key: None, command: Command::Tick };
        if let Err(rejection) = self.carry_out(now, &request) {
            unreachable!("a tick is never refused: {rejection}");
        }
        self.wake_by_time(now);
    }

    pub(in crate::workspace) fn is_idle(&self) -> bool {
        let quiet_ms = self.now().millis_since(self.last_active);
        self.arguments.settings.idle_ms <= quiet_ms
            && self.waits.is_empty()
            && self.pending.is_empty()
            && !self.workspace.must_stay_awake(self.now(), self.context.lease_ms)
            && self.arguments.feed.receiver_count()
                <= self.arguments.idle_followers.load(Ordering::Acquire)
    }

    /// Leaves memory. Whoever holds a handle is told to ask again by its closed admission.
    pub(in crate::workspace) fn fall_asleep(&mut self, myself: &ActorRef<Msg>) {
        let all = u32::try_from(IN_FLIGHT_MAX).expect("a small number");
        let Ok(_everything) = self.arguments.admission.clone().try_acquire_many_owned(all) else {
            return self.set_alarm(myself);
        };
        // What is awake is in memory anyway, so it waits for its snapshot, which says so.
        if self.snapshot.at < self.workspace.sequence
            && self.snapshot.failed != Some(self.workspace.sequence)
        {
            self.take_snapshot();
            return self.set_alarm(myself);
        }
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
            Some(idle.max(now.plus_millis(IDLE_CHECK_MS_MIN))),
        ];
        let Some(next) = deadlines.into_iter().flatten().min() else { return };
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
