//! The lines that stories are told in, as commands.

use tasuki_proto::id::{IdempotencyKey, Turn};

use super::{actor, role};
use crate::{
    hash::Hash,
    rules::{
        Caller, Command, ReceiptKind, Request,
        directory::{self, Register, RoleSpec},
        guard::{self, Budget, SetBudget, SetLimits},
        turn::{self, CreateLoop, HandOver, MarkTurn, PauseLoop, Reclaim, ResumeLoop, StartRound},
    },
};

/// The command a line stands for. `!` completes, takes over, or opens a loop for new roles, `@N` names the turn, `>R` the next role,
/// `#client/counter` gives an idempotency key, `$t` the token it came with, `%n/1` the node and its
/// epoch, `~t` a token that is no longer good, `R?` a role on standby.
pub(super) fn command(line: &str) -> Request {
    let (mut turn, mut to, mut key, mut is_task_complete) = (None, None, None, false);
    let (mut caller, mut orphan_of) = (Caller::default(), None);
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        if let Some(number) = word.strip_prefix('@') {
            turn = Some(Turn::from(number.parse::<u64>().unwrap()));
        } else if let Some(name) = word.strip_prefix('>') {
            to = Some(role(name));
        } else if let Some(text) = word.strip_prefix('#') {
            let (client, counter) = text.split_once('/').unwrap();
            let counter = counter.parse().unwrap();
            key = Some(IdempotencyKey { client: client.parse().unwrap(), counter });
        } else if let Some(token) = word.strip_prefix('$') {
            caller.token = Some(token.parse().unwrap());
        } else if let Some(text) = word.strip_prefix('%') {
            let (node, epoch) = text.split_once('/').unwrap();
            caller.node = Some((node.parse().unwrap(), epoch.parse::<u64>().unwrap().into()));
        } else if let Some(token) = word.strip_prefix('~') {
            orphan_of = Some(token.parse().unwrap());
        } else if word == "!" {
            is_task_complete = true;
        } else {
            words.push(word);
        }
    }
    let loop_id = || "main".parse().unwrap();
    let command = match words[..] {
        ["tick"] => Command::Tick,
        ["opens", id, ref participants @ ..] => {
            Command::Turn(turn::Command::CreateLoop(CreateLoop {
                loop_id: id.parse().unwrap(),
                participants: participants.iter().map(|name| role(name)).collect(),
                allow_new_roles: is_task_complete,
            }))
        }
        [node, "registers", ref roles @ ..] => {
            Command::Directory(directory::Command::Register(Register {
                node: node.parse().unwrap(),
                roles: roles
                    .iter()
                    .map(|name| RoleSpec {
                        role: role(name.trim_end_matches('?')),
                        toolsets: Vec::new(),
                        is_standby: name.ends_with('?').then_some(true),
                    })
                    .collect(),
                take_over: is_task_complete,
                software: String::new(),
                orphan_of,
            }))
        }
        [who, "hands", "over", summary] => Command::Turn(turn::Command::HandOver(HandOver {
            loop_id: loop_id(),
            role: role(who),
            summary: summary.to_owned(),
            instruction: "go".to_owned(),
            is_task_complete,
            to,
            turn,
        })),
        [who, "reclaims", "because", reason] => Command::Turn(turn::Command::Reclaim(Reclaim {
            loop_id: loop_id(),
            by: actor(who),
            to,
            reason: reason.to_owned(),
            turn,
        })),
        [who, "starts", "a", "round"] => Command::Turn(turn::Command::StartRound(StartRound {
            loop_id: loop_id(),
            by: actor(who),
            to,
            summary: String::new(),
            instruction: String::new(),
        })),
        [who, "pauses", "because", reason] => Command::Turn(turn::Command::Pause(PauseLoop {
            loop_id: loop_id(),
            by: actor(who),
            reason: reason.to_owned(),
        })),
        [who, "resumes"] => Command::Turn(turn::Command::Resume(ResumeLoop {
            loop_id: loop_id(),
            by: actor(who),
            reason: String::new(),
        })),
        [who, "limits", "turns", turns] => Command::Guard(guard::Command::SetLimits(SetLimits {
            by: actor(who),
            loop_id: None,
            turns: Some(turns.parse().unwrap()),
            hops: None,
        })),
        [who, "limits", id, "turns", turns] => {
            Command::Guard(guard::Command::SetLimits(SetLimits {
                by: actor(who),
                loop_id: Some(id.parse().unwrap()),
                turns: turns.parse().ok(),
                hops: None,
            }))
        }
        [who, "gives", name, calls, "calls", "in", window_ms] => {
            let calls = Some(calls.parse().unwrap());
            let window_ms = window_ms.parse().unwrap();
            let budget = Some(Budget { calls, tokens: None, window_ms });
            let set = SetBudget { by: actor(who), role: role(name), budget };
            Command::Guard(guard::Command::SetBudget(set))
        }
        [who, "resumes", name] => Command::Guard(guard::Command::Resume(guard::Resume {
            by: actor(who),
            role: role(name),
            reason: String::new(),
        })),
        [who, "marks", mark] => Command::Turn(turn::Command::Mark(MarkTurn::new(
            loop_id(),
            role(who),
            turn.unwrap(),
            if mark == "handed" { ReceiptKind::Handed } else { ReceiptKind::Seen },
        ))),
        ref other => panic!("no such command: {other:?}"),
    };
    let key = key.map(|key| (key, Hash::of(words.join(" ").as_bytes())));
    Request { caller, key, command }
}
