//! What is wrong, and what to do about it. Pure.

use serde::Serialize;
use tasuki_proto::{
    counted::{counted, listed_names, long},
    limits::ROLE_HUMAN,
    wire::{self, LoopStatus},
};

use super::{
    Overview,
    role::{RoleStatus, State},
};

/// One thing that somebody has to see to.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub what: String,
    /// The loop that it is about; empty: none.
    #[serde(skip)]
    pub of_loop: String,
    /// The next command to type, or what else helps.
    pub mend: String,
}

/// What is wrong with loops, nodes and roles. Names in it are ids; how far another broker keeps to
/// that is for whoever shows them.
pub fn problems(it: &Overview) -> Vec<Problem> {
    let mut found = Vec::new();
    for of in &it.loops {
        let holder = it.roles.iter().find(|role| role.role.role == of.holder);
        if let Some((what, mend)) = loop_problem(of, holder, it.now_ms) {
            found.push(Problem { what, of_loop: of.r#loop.clone(), mend });
        }
    }
    let mut add = |what, mend| found.push(Problem { what, of_loop: String::new(), mend });
    for of in &it.guarded {
        let Some(pause) = &of.pause else { continue };
        let name = &of.role;
        add(
            format!("{name} is paused: it {}.", pause.reason),
            format!("`tasuki budget resume {name}` lets it go on."),
        );
    }
    for node in it.nodes.iter().filter(|node| !node.is_present && !node.roles.is_empty()) {
        let (name, roles) = (&node.node, listed_names(&node.roles));
        let away = ago(it.now_ms, node.last_seen_ms);
        add(
            format!("Node {name} of {roles} is away{away}."),
            "Start it again there: `tasuki node`, or `tasuki up` beside the broker.".to_owned(),
        );
    }
    for role in &it.roles {
        let name = &role.role.role;
        let has_work = role.holds.iter().any(|held| matches!(held.kind, "task" | "delivery"));
        if has_work
            && name != ROLE_HUMAN
            && !role.state.is_played()
            && role.state != State::NodeAway
        {
            let held = role.holds.iter().filter(|held| matches!(held.kind, "task" | "delivery"));
            let held: Vec<_> = held.map(|held| held.name.as_str()).collect();
            add(
                format!("{name} holds {} and {}.", held.join(", "), absent(role, it.now_ms)),
                "Start its agent again. Its claims go back when they lapse; `tasuki task reset` takes a \
                 task from it now."
                    .to_owned(),
            );
        }
        if role.mail.dead_letters != 0 {
            let letters = counted(role.mail.dead_letters, "dead letter");
            let what = format!("{name} has {letters}: handed again and again, and never seen.");
            add(what, format!("`tasuki mail dead --role {name}` shows them."));
        }
    }
    found
}

/// Why a loop does not move, if it does not.
fn loop_problem(
    of: &wire::Loop,
    holder: Option<&RoleStatus>,
    now_ms: u64,
) -> Option<(String, String)> {
    let (name, role, turn) = (&of.r#loop, &of.holder, of.turn);
    let reclaim =
        format!("`tasuki loop reclaim {name} --to ROLE --reason TEXT` gives it to another");
    match of.status() {
        LoopStatus::Stalled => Some((
            format!("{name} is stalled: the lease of {role} on turn {turn} lapsed."),
            format!("{reclaim}."),
        )),
        LoopStatus::Paused => {
            let why = of.pause.as_ref().map_or("", |it| &it.reason);
            Some((
                format!("{name} is paused: {}.", why.trim_end_matches('.')),
                format!("`tasuki loop resume {name}` lets {role} have turn {turn}."),
            ))
        }
        LoopStatus::Idle | LoopStatus::Working if role == ROLE_HUMAN => Some((
            format!("{name} waits for a person: {role} has turn {turn}."),
            format!(
                "`tasuki loop handover {name} --as {role} --summary TEXT --instruction TEXT` hands \
                 it on."
            ),
        )),
        LoopStatus::Idle | LoopStatus::Working => {
            let holder = holder?;
            match holder.state {
                // That its node is away is said of the node.
                State::Working | State::Waiting | State::Present | State::NodeAway => None,
                State::Never => Some((
                    format!("{role} has turn {turn} of {name}, and no agent plays {role}."),
                    format!(
                        "`tasuki connect CLIENT --role {role}` sets one up; tell it first what \
                         `tasuki prompt {role}` prints."
                    ),
                )),
                State::NoNode => Some((
                    format!("{role} has turn {turn} of {name}, and no node hosts {role}."),
                    format!("`tasuki node --role {role}` hosts it; {reclaim}."),
                )),
                State::Gone | State::Silent => Some((
                    format!("{role} has turn {turn} of {name} and {}.", absent(holder, now_ms)),
                    format!("Start its agent again, or {reclaim}."),
                )),
            }
        }
        LoopStatus::Completed | LoopStatus::Unspecified => None,
    }
}

/// How it is that nobody plays a role.
fn absent(of: &RoleStatus, now_ms: u64) -> String {
    let seen = ago(now_ms, of.role.last_seen_ms);
    match of.state {
        State::Gone => format!("its agent left{seen}"),
        State::NoNode => "no node hosts it".to_owned(),
        State::Never => "no agent plays it".to_owned(),
        State::NodeAway => "its node is away".to_owned(),
        State::Silent | State::Working | State::Waiting | State::Present => {
            format!("its agent was last heard of{seen}")
        }
    }
}

/// ` 3m 05s ago`; nothing of a time that is not known.
fn ago(now_ms: u64, at_ms: u64) -> String {
    if at_ms == 0 {
        return String::new();
    }
    format!(" {} ago", long(now_ms.saturating_sub(at_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::Holdings;

    fn holder(has_left: bool, last_seen_ms: u64, node: &str) -> RoleStatus {
        let role = wire::Role {
            role: "B".to_owned(),
            node: node.to_owned(),
            has_left,
            last_seen_ms,
            is_present: !has_left && last_seen_ms != 0,
            ..wire::Role::default()
        };
        RoleStatus::new(role, &[], &[], &Holdings::default())
    }

    /// What is said of a loop whose turn 7 is B's, and the command that helps.
    fn check(status: LoopStatus, holder: Option<&RoleStatus>, what: &str, mend: &str) {
        let mut of = wire::Loop {
            r#loop: "main".to_owned(),
            holder: "B".to_owned(),
            turn: 7,
            ..wire::Loop::default()
        };
        of.set_status(status);
        let reason = "ann paused it: lunch".to_owned();
        of.pause = Some(wire::Pause { reason, ..wire::Pause::default() });
        let told = loop_problem(&of, holder, 65_000).unwrap_or_default();
        assert_eq!(told.0, what);
        assert!(told.1.contains(mend) && told.1.is_empty() == mend.is_empty(), "{}", told.1);
    }

    #[test]
    fn a_loop_that_does_not_move_says_why_and_what_helps() {
        use LoopStatus::{Completed, Idle, Paused, Stalled, Working};
        let (there, left) = (holder(false, 5_000, "n"), holder(true, 5_000, "n"));
        check(Working, Some(&there), "", "");
        check(Completed, Some(&left), "", "");
        let stalled = "main is stalled: the lease of B on turn 7 lapsed.";
        check(Stalled, Some(&there), stalled, "`tasuki loop reclaim main --to ROLE");
        let paused = "main is paused: ann paused it: lunch.";
        check(Paused, Some(&there), paused, "`tasuki loop resume main` lets B have turn 7");
        let gone = "B has turn 7 of main and its agent left 1m 00s ago.";
        check(Working, Some(&left), gone, "Start its agent again, or `tasuki loop reclaim main");
        let never = "B has turn 7 of main, and no agent plays B.";
        check(Idle, Some(&holder(false, 0, "n")), never, "`tasuki connect CLIENT --role B`");
        let unhosted = "B has turn 7 of main, and no node hosts B.";
        check(Idle, Some(&holder(false, 0, "")), unhosted, "`tasuki node --role B`");
        check(Idle, None, "", "");
    }
}
