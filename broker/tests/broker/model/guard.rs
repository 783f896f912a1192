//! The part of the story that is about limits without a person: the rules told a second time, by what
//! was recorded and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tasuki_broker::{
    hash::Hash,
    rules::{
        Event, Record, Workspace,
        guard::{
            self, Budget, Command, Limits, PauseReason, Report, Resume, SetBudget, SetLimits, Usage,
        },
        mailbox, run,
        turn::{self, Actor, LoopPaused, PauseReason as LoopPause},
    },
};
use tasuki_proto::{
    id::{LoopId, RoleId, Timestamp},
    limits::{CYCLE_TIMES, HOPS, ROLE_HUMAN, TURNS_ALONE},
    mail::MessageId,
};

use super::{Call, ROLES, call};

#[derive(Debug, Clone)]
pub(super) enum Step {
    Budget {
        call: Call,
        role: u8,
        calls: Option<u64>,
        tokens: Option<u64>,
        window_ms: u64,
    },
    Report {
        call: Call,
        role: u8,
        tokens: u64,
    },
    /// By a person, or by this role.
    Resume {
        call: Call,
        role: u8,
        by: Option<u8>,
    },
    Hops {
        call: Call,
        hops: u32,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let limit = |most| proptest::option::of(1..most);
    let window = prop_oneof![Just(0u64), 1..200u64];
    prop_oneof![
        3 => (call(), 0..4u8, limit(6u64), limit(60u64), window).prop_map(
            |(call, role, calls, tokens, window_ms)| Step::Budget {
                call, role, calls, tokens, window_ms
            }
        ),
        3 => (call(), 0..4u8, 0..40u64)
            .prop_map(|(call, role, tokens)| Step::Report { call, role, tokens }),
        5 => (call(), 0..4u8, proptest::option::weighted(0.2, 0..4u8))
            .prop_map(|(call, role, by)| Step::Resume { call, role, by }),
        1 => (call(), 1..6u32).prop_map(|(call, hops)| Step::Hops { call, hops }),
    ]
}

pub(super) fn command(step: &Step) -> (&Call, Command) {
    let role_of = |number: u8| ROLES[usize::from(number)].parse::<RoleId>().expect("a role");
    let ann = || Actor::Person("ann".parse().expect("a person"));
    match step {
        Step::Budget { call, role, calls, tokens, window_ms } => {
            let budget = Budget { calls: *calls, tokens: *tokens, window_ms: *window_ms };
            let budget = (calls.is_some() || tokens.is_some()).then_some(budget);
            (call, Command::SetBudget(SetBudget { by: ann(), role: role_of(*role), budget }))
        }
        Step::Report { call, role, tokens } => {
            let usage = Usage { calls: 0, tokens: *tokens };
            (call, Command::Report(Report { role: role_of(*role), usage }))
        }
        Step::Resume { call, role, by } => {
            let by = by.map_or_else(ann, |by| Actor::Role(role_of(by)));
            (call, Command::Resume(Resume { by, role: role_of(*role), reason: String::new() }))
        }
        Step::Hops { call, hops } => {
            let hops = Some(*hops);
            (call, Command::SetLimits(SetLimits { by: ann(), loop_id: None, turns: None, hops }))
        }
    }
}

/// Lets loops go on for so many turns.
pub(super) fn limit_turns(turns: u32) -> Command {
    let by = Actor::Person("ann".parse().expect("a person"));
    Command::SetLimits(SetLimits { by, loop_id: None, turns: Some(turns), hops: None })
}

/// A role with a budget, or one that is paused or was.
#[derive(Debug, Clone, Default, PartialEq)]
struct Role {
    budget: Option<Budget>,
    since: Timestamp,
    calls: u64,
    tokens: u64,
    pause: Option<PauseReason>,
    /// A person resumed it from its letters: its next one begins anew.
    is_fresh: bool,
}

/// A loop, as far as it is about going on without a person.
#[derive(Debug, Clone, Default)]
struct Loop {
    /// What ended since a person acted, oldest first.
    ended: Vec<Ended>,
    pause: Option<LoopPause>,
}

/// A turn that ended: by a reclaim, from whom, to whom, with which words.
type Ended = (bool, RoleId, Option<RoleId>, Hash);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    limits: Limits,
    roles: BTreeMap<RoleId, Role>,
    loops: BTreeMap<LoopId, Loop>,
    /// How far each letter is from a person.
    hops: BTreeMap<(MessageId, u32), u32>,
    /// Threads in the order in which they began.
    begun: Vec<MessageId>,
    /// The letter that each role was handed last.
    handed: BTreeMap<RoleId, (MessageId, u32)>,
}

impl Role {
    /// What it used with this, in the window of that moment.
    fn used(&self, now: Timestamp, calls: u64, tokens: u64) -> (Timestamp, u64, u64) {
        let window_ms = self.budget.map_or(0, |it| it.window_ms);
        let is_over = window_ms != 0 && self.since.as_millis() + window_ms <= now.as_millis();
        if is_over {
            return (now, calls, tokens);
        }
        (self.since, self.calls + calls, self.tokens + tokens)
    }

    fn why_pause(&self, now: Timestamp, calls: u64, tokens: u64) -> Option<PauseReason> {
        let budget = self.budget?;
        if self.pause.is_some() {
            return None;
        }
        let (_, calls, tokens) = self.used(now, calls, tokens);
        let window_ms = budget.window_ms;
        match (budget.calls, budget.tokens) {
            (Some(max), _) if max <= calls => Some(PauseReason::Calls { max, window_ms }),
            (_, Some(max)) if max <= tokens => Some(PauseReason::Tokens { max, window_ms }),
            (_, _) => None,
        }
    }
}

impl Loop {
    /// Why it stops once this ended, too.
    fn why_pause(&self, max: u32, last: &Ended) -> Option<LoopPause> {
        let mut all = self.ended.clone();
        all.push(last.clone());
        let turns = u32::try_from(all.len()).expect("few turns");
        if max == 0 {
            return None;
        }
        if max <= turns {
            return Some(LoopPause::Turns { turns });
        }
        // No story is longer than what is looked at for circles.
        let length = (1..=all.len()).find(|length| {
            let parts: Vec<&[Ended]> = all.rchunks_exact(*length).take(CYCLE_TIMES).collect();
            parts.len() == CYCLE_TIMES && parts.iter().all(|part| *part == parts[0])
        })?;
        let number = |it| u32::try_from(it).expect("few turns");
        Some(LoopPause::Cycle { length: number(length), times: number(CYCLE_TIMES) })
    }
}

fn is_human(role: &RoleId) -> bool {
    role.as_str() == ROLE_HUMAN
}

impl Ledger {
    /// Takes in what is about to be applied to this.
    pub(super) fn take(&mut self, before: &Workspace, record: &Record) {
        self.check_began(record);
        self.check_letters(before, record);
        let paused = self.roles_to_pause(before, record);
        let recorded = record.events.iter().filter_map(|event| {
            let Event::Guard(guard::Event::RolePaused(role, why)) = event else { return None };
            Some((role.clone(), *why))
        });
        assert_eq!(recorded.collect::<BTreeMap<_, _>>(), paused, "GD: who is paused, and why");
        self.check_loops(before, record, &paused);
        for event in &record.events {
            self.apply(before, record, event);
        }
        if let Some(role) = record.principal.role.as_ref().filter(|_| !record.events.is_empty()) {
            self.count(role, record.time, 1, 0);
        }
    }

    /// Who is paused begins nothing; who wrote too far writes nothing.
    fn check_began(&self, record: &Record) {
        let Some(role) = &record.principal.role else { return };
        let Some(why) = self.roles.get(role).and_then(|it| it.pause) else { return };
        for event in &record.events {
            let began = if let Event::Mail(mailbox::Event::Sent(it)) = event {
                it.entry == 1 || matches!(why, PauseReason::Hops { .. })
            } else {
                matches!(
                    event,
                    Event::Turn(turn::Event::RoundStarted(_) | turn::Event::TurnReclaimed(_))
                        | Event::Run(run::Event::Started(_))
                )
            };
            assert!(!began, "{role} is paused ({why:?}) and began {event:?}");
        }
    }

    /// How far a letter is from a person.
    fn check_letters(&self, before: &Workspace, record: &Record) {
        for event in &record.events {
            let Event::Mail(mailbox::Event::Sent(it)) = event else { continue };
            let hops_of = |letter: (MessageId, u32)| self.hops.get(&letter).copied();
            let from = if it.entry == 1 {
                // The newest turn that the sender has begun, else the letter it was handed last.
                let held = before.loops.held_by(&it.sender).filter(|(_, it)| it.has_begun());
                match held.max_by_key(|(_, it)| it.began) {
                    Some((id, _)) => {
                        let ended = self.loops.get(id).map_or(0, |it| it.ended.len());
                        Some(u32::try_from(ended).expect("few turns"))
                    }
                    None => self.handed.get(&it.sender).and_then(|letter| hops_of(*letter)),
                }
            } else {
                hops_of((it.thread, it.acted.max(1)))
            };
            let is_new = is_human(&it.sender)
                || self.roles.get(&it.sender).is_some_and(|role| role.is_fresh);
            let expected = from.filter(|_| !is_new).map(|hops| hops + 1);
            assert_eq!(it.hops, expected, "hops of {} of {}", it.entry, it.thread);
        }
    }

    fn roles_to_pause(&self, before: &Workspace, record: &Record) -> BTreeMap<RoleId, PauseReason> {
        let mut used: BTreeMap<&RoleId, (u64, u64)> = BTreeMap::new();
        for event in &record.events {
            let (role, calls, tokens) = if let Event::Run(run::Event::StepEnded(it)) = event {
                let Some(role) = before.runs.role_of(it.step.run) else { continue };
                (role, 0, it.usage.tokens())
            } else if let Event::Guard(guard::Event::UsageReported(role, it)) = event {
                (role, it.calls, it.tokens)
            } else {
                continue;
            };
            let all = used.entry(role).or_default();
            *all = (all.0 + calls, all.1 + tokens);
        }
        if let Some(role) = record.principal.role.as_ref().filter(|_| !record.events.is_empty()) {
            used.entry(role).or_default().0 += 1;
        }
        let mut paused: BTreeMap<RoleId, PauseReason> = BTreeMap::new();
        for (role, (calls, tokens)) in used {
            let why = self.roles.get(role).and_then(|it| it.why_pause(record.time, calls, tokens));
            paused.extend(why.map(|why| (role.clone(), why)));
        }
        let max = self.limits.hops.unwrap_or(HOPS);
        for event in &record.events {
            let Event::Mail(mailbox::Event::Sent(it)) = event else { continue };
            let is_paused = self.roles.get(&it.sender).is_some_and(|it| it.pause.is_some());
            if let Some(hops) = it.hops
                && max != 0
                && max <= hops
                && !is_paused
            {
                paused.entry(it.sender.clone()).or_insert(PauseReason::Hops { hops });
            }
        }
        paused
    }

    /// Which loops stop and which go on.
    fn check_loops(
        &self,
        before: &Workspace,
        record: &Record,
        paused: &BTreeMap<RoleId, PauseReason>,
    ) {
        let mut stopped: BTreeMap<LoopId, LoopPause> = BTreeMap::new();
        let mut resumed: BTreeSet<&LoopId> = BTreeSet::new();
        // Who has the turn then; `None`: nobody, or the loop stands.
        let mut moved: BTreeMap<&LoopId, Option<&RoleId>> = BTreeMap::new();
        let is_person = record.principal.person.is_some();
        let of_role = |role: &RoleId| {
            let reason = self.roles.get(role)?.pause?;
            Some(LoopPause::Role { role: role.clone(), reason })
        };
        for event in &record.events {
            let Event::Turn(event) = event else { continue };
            let id = event.loop_id();
            let max = before.guard.loops.get(id).copied();
            let max = max.or(self.limits.turns).unwrap_or(TURNS_ALONE);
            let known = self.loops.get(id).cloned().unwrap_or_default();
            let was_open = known.pause.is_none();
            let why = match event {
                turn::Event::HandedOver(it) => it.next.as_ref().and_then(|next| {
                    let last = (false, it.from.clone(), Some(next.to.clone()), it.content);
                    let of_loop = known.why_pause(max, &last).filter(|_| !is_human(&it.from));
                    of_loop.or_else(|| of_role(&next.to)).filter(|_| was_open)
                }),
                turn::Event::TurnReclaimed(it) => {
                    let turns = u32::try_from(known.ended.len() + 1).expect("few turns");
                    let is_last = !is_person && max != 0 && max <= turns;
                    let of_loop = is_last.then_some(LoopPause::Turns { turns });
                    of_loop.or_else(|| of_role(&it.next.to)).filter(|_| was_open)
                }
                turn::Event::RoundStarted(it) => {
                    let turns = u32::try_from(known.ended.len()).expect("few turns");
                    let is_last = !is_person && max != 0 && max <= turns;
                    let of_loop = is_last.then_some(LoopPause::Turns { turns });
                    of_loop.or_else(|| of_role(&it.next.to)).filter(|_| was_open || is_person)
                }
                turn::Event::LoopPaused(LoopPaused { reason, .. }) => {
                    let LoopPause::Asked { .. } = reason else { continue };
                    assert!(was_open, "T5: {id} was paused");
                    Some(reason.clone())
                }
                turn::Event::LoopResumed(_) => {
                    assert!(!was_open, "T5: {id} went on");
                    assert!(is_person || record.principal.role.as_ref().is_some_and(is_human));
                    resumed.insert(id);
                    continue;
                }
                turn::Event::LoopOpened(_)
                | turn::Event::ParticipantsSet(_)
                | turn::Event::TurnHanded(_)
                | turn::Event::TurnSeen(_)
                | turn::Event::TurnLapsed(_)
                | turn::Event::LeaseRenewed(_)
                | turn::Event::HistoryCompacted(_) => continue,
            };
            let to = if let turn::Event::HandedOver(it) = event {
                it.next.as_ref().map(|it| &it.to)
            } else if let turn::Event::TurnReclaimed(it) = event {
                Some(&it.next.to)
            } else if let turn::Event::RoundStarted(it) = event {
                resumed.remove(id);
                Some(&it.next.to)
            } else {
                None
            };
            moved.insert(id, to.filter(|_| was_open && why.is_none()));
            stopped.extend(why.map(|why| (id.clone(), why)));
        }
        for (role, reason) in paused {
            let held = before.loops.held_by(role);
            let stays = held.filter(|(id, it)| it.pause.is_none() && !moved.contains_key(id));
            let moved = moved.iter().filter(|(_, to)| **to == Some(role)).map(|(id, _)| *id);
            for id in stays.map(|(id, _)| id).chain(moved) {
                let why = LoopPause::Role { role: role.clone(), reason: *reason };
                stopped.insert(id.clone(), why);
            }
        }
        // A loop does not go on with a role that does not.
        let going_on = record.events.iter().filter_map(|event| {
            let Event::Guard(guard::Event::RoleResumed(role, _)) = event else { return None };
            Some(role)
        });
        let going_on: BTreeSet<&RoleId> = going_on.collect();
        for id in resumed {
            let holder = before.loops.by_id[id].holder.as_ref();
            let why = holder.filter(|it| !going_on.contains(it)).and_then(of_role);
            stopped.extend(why.map(|why| (id.clone(), why)));
        }
        let recorded = record.events.iter().filter_map(|event| {
            let Event::Turn(turn::Event::LoopPaused(it)) = event else { return None };
            Some((it.loop_id.clone(), it.reason.clone()))
        });
        assert_eq!(recorded.collect::<BTreeMap<_, _>>(), stopped, "T6: which loops stop, and why");
        self.check_resumed(record);
    }

    /// One command goes on: a role and every loop that stands because of it do together.
    fn check_resumed(&self, record: &Record) {
        let events = record.events.iter();
        let resumed: BTreeSet<&LoopId> = events
            .filter_map(|event| {
                let Event::Turn(turn::Event::LoopResumed(it)) = event else { return None };
                Some(&it.loop_id)
            })
            .collect();
        for event in &record.events {
            let Event::Guard(guard::Event::RoleResumed(role, _)) = event else { continue };
            let by = &record.principal;
            assert!(by.person.is_some() || by.role.as_ref().is_some_and(is_human), "GD2: {by:?}");
            for (id, it) in &self.loops {
                if matches!(&it.pause, Some(LoopPause::Role { role: of, .. }) if of == role) {
                    assert!(resumed.contains(id), "{role} goes on, and {id} does not");
                }
            }
        }
    }

    fn apply(&mut self, before: &Workspace, record: &Record, event: &Event) {
        let now = record.time;
        match event {
            Event::Guard(event) => self.apply_guard(now, event),
            Event::Run(event) => {
                if let run::Event::StepEnded(it) = event
                    && let Some(role) = before.runs.role_of(it.step.run)
                {
                    self.count(role, now, 0, it.usage.tokens());
                }
            }
            Event::Mail(event) => self.apply_mail(event),
            Event::Turn(event) => self.apply_turn(record, event),
            Event::Directory(_)
            | Event::Privacy(_)
            | Event::Swarm(_)
            | Event::Call(_)
            | Event::Board(_)
            | Event::Pipeline(_)
            | Event::Access(_) => {}
        }
    }

    fn apply_guard(&mut self, now: Timestamp, event: &guard::Event) {
        match event {
            guard::Event::LimitsSet(limits) => self.limits = *limits,
            guard::Event::LoopLimitSet(..) => unreachable!("no story sets one"),
            guard::Event::BudgetSet(role, budget) => {
                let it = self.roles.entry(role.clone()).or_default();
                if it.budget.is_none() {
                    (it.since, it.calls, it.tokens) = (now, 0, 0);
                }
                it.budget = *budget;
            }
            guard::Event::UsageReported(role, usage) => {
                self.count(role, now, usage.calls, usage.tokens);
            }
            guard::Event::RolePaused(role, why) => {
                self.roles.entry(role.clone()).or_default().pause = Some(*why);
            }
            guard::Event::RoleResumed(role, _) => {
                let it = self.roles.get_mut(role).expect("it was paused");
                let why = it.pause.take().expect("it was paused");
                it.is_fresh = matches!(why, PauseReason::Hops { .. });
                (it.since, it.calls, it.tokens) = (now, 0, 0);
            }
        }
    }

    fn begin(&mut self, thread: MessageId) {
        if !self.hops.contains_key(&(thread, 1)) {
            self.begun.push(thread);
        }
    }

    fn apply_mail(&mut self, event: &mailbox::Event) {
        match event {
            mailbox::Event::Sent(it) => {
                self.begin(it.thread);
                self.hops.insert((it.thread, it.entry), it.hops.unwrap_or_default());
                if let Some(role) = self.roles.get_mut(&it.sender) {
                    role.is_fresh = false;
                }
            }
            mailbox::Event::Imported(it) => {
                self.begin(it.thread);
                let numbers = (it.first..).zip(&it.entries).map(|(number, _)| number);
                self.hops.extend(numbers.map(|number| ((it.thread, number), 0)));
            }
            mailbox::Event::Handed(it) => {
                self.handed.insert(it.role.clone(), (it.thread, it.through));
            }
            mailbox::Event::Compacted(threads) => {
                // Nothing is known of what was removed.
                let gone = threads.iter().map(|number| self.begun[number.0 as usize]);
                let gone: BTreeSet<MessageId> = gone.collect();
                self.hops.retain(|(thread, _), _| !gone.contains(thread));
            }
            mailbox::Event::Moved(_)
            | mailbox::Event::Seen(_)
            | mailbox::Event::Lapsed(_)
            | mailbox::Event::Revived(_)
            | mailbox::Event::Opened(_)
            | mailbox::Event::Closed(_)
            | mailbox::Event::Kept(_) => {}
        }
    }

    fn apply_turn(&mut self, record: &Record, event: &turn::Event) {
        let it = self.loops.entry(event.loop_id().clone()).or_default();
        let is_person = record.principal.person.is_some()
            || record.principal.role.as_ref().is_some_and(is_human);
        let ended = match event {
            turn::Event::HandedOver(of) => {
                let to = of.next.as_ref().map(|next| next.to.clone());
                Some(((false, of.from.clone(), to, of.content), is_human(&of.from)))
            }
            turn::Event::TurnReclaimed(of) => {
                Some(((true, of.from.clone(), Some(of.next.to.clone()), of.content), is_person))
            }
            turn::Event::RoundStarted(_) => {
                if is_person {
                    it.ended.clear();
                }
                None
            }
            turn::Event::LoopPaused(of) => {
                it.pause = Some(of.reason.clone());
                None
            }
            turn::Event::LoopResumed(_) => {
                it.pause = None;
                it.ended.clear();
                None
            }
            turn::Event::LoopOpened(_)
            | turn::Event::ParticipantsSet(_)
            | turn::Event::TurnHanded(_)
            | turn::Event::TurnSeen(_)
            | turn::Event::TurnLapsed(_)
            | turn::Event::LeaseRenewed(_)
            | turn::Event::HistoryCompacted(_) => None,
        };
        match ended {
            Some((_, true)) => it.ended.clear(),
            Some((ended, false)) => it.ended.push(ended),
            None => {}
        }
    }

    fn count(&mut self, role: &RoleId, now: Timestamp, calls: u64, tokens: u64) {
        if let Some(it) = self.roles.get_mut(role) {
            (it.since, it.calls, it.tokens) = it.used(now, calls, tokens);
        }
    }

    /// What must hold of the state after each step.
    pub(super) fn check(&self, workspace: &Workspace) {
        let kept = |it: &&Role| it.budget.is_some() || it.pause.is_some() || it.is_fresh;
        let expected: BTreeMap<&RoleId, &Role> =
            self.roles.iter().filter(|(_, it)| kept(it)).collect();
        let found = &workspace.guard.roles;
        assert!(found.keys().eq(expected.keys().copied()), "GD1: {found:?}, not {expected:?}");
        for (role, it) in expected {
            let found = &found[role];
            let pause = found.pause.map(|it| it.reason);
            assert_eq!((found.budget, pause), (it.budget, it.pause), "GD1: {role}");
            assert_eq!(found.is_fresh, it.is_fresh, "{role}");
            if it.budget.is_some() {
                let used = (found.since, found.used.calls, found.used.tokens);
                assert_eq!(used, (it.since, it.calls, it.tokens), "GD1: what {role} used");
            }
        }
        for (id, found) in &workspace.loops.by_id {
            let it = self.loops.get(id).cloned().unwrap_or_default();
            assert_eq!(found.pause.as_ref().map(|it| &it.reason), it.pause.as_ref(), "{id}");
            assert_eq!(found.turns_alone() as usize, it.ended.len(), "T6: turns in {id}");
            let of_holder = found.holder.as_ref().and_then(|it| workspace.guard.pause_of(it));
            let is_stuck = of_holder.is_some() && found.pause.is_none() && found.entries != 0;
            assert!(!is_stuck, "{id} goes on with {:?}, who does not", found.holder);
        }
    }
}
