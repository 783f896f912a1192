//! The lines of `tasuki status`: one screen for the usual few roles. Pure.

use owo_colors::OwoColorize as _;
use tasuki_broker::overview::{
    problems::Problem,
    role::{Held, RoleStatus, State},
};
use tasuki_proto::{
    counted::{counted, listed_names},
    wire::{self, LoopStatus},
};
use tonic_health::pb::health_check_response::ServingStatus;

use super::{
    super::{
        access::Access,
        labels::long,
        loop_view, mirror,
        text::{line, short, time},
    },
    gather::{Gathered, Tools},
};
use crate::hooks::Report;

/// Problems, nodes and loops that are shown: of more it is said how many there are.
const PROBLEMS_SHOWN_MAX: usize = 6;
const NODES_SHOWN_MAX: usize = 6;
const LOOPS_SHOWN_MAX: usize = 6;

/// Roles that are shown unless all are asked for.
const ROLES_SHOWN_MAX: usize = 20;

/// Of so many roles at most everything is shown: they fit on a screen.
const ROLES_WHOLE_MAX: usize = 4;

/// Things that are shown of what one role holds.
const HELD_SHOWN_MAX: usize = 3;

/// The names of what is held, in cells.
const NAME_CELLS_MAX: usize = 40;

pub(super) fn lines(it: &Gathered, problems: &[Problem], is_all: bool) -> String {
    let mut out = String::new();
    if !problems.is_empty() {
        out += &format!("{}\n", "needs attention".red().bold());
    }
    for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        out += &format!("  {}\n    {}\n", problem.what, problem.mend.dimmed());
    }
    out += &more(problems.len(), PROBLEMS_SHOWN_MAX, "problems; --json shows all");
    if !problems.is_empty() {
        out.push('\n');
    }
    out += &broker_lines(it);
    out += &format!("workspace {}\n", line(&it.workspace));
    out += &node_lines(it);
    out += &role_lines(it, is_all);
    out += &loop_lines(it);
    if !it.hooks.is_empty() {
        out += &format!("\n{}\n", "hooks of the node here".bold());
    }
    out.extend(it.hooks.iter().map(hook_lines));
    out += &it.outbox.lines();
    if !it.mailboxes.is_empty() {
        out += &format!("\n{}\n", "mailboxes kept as files by the node here".bold());
    }
    out.extend(it.mailboxes.iter().map(|of| mirror::of_mailbox(of, false)));
    out
}

/// `  … and 3 more roles`, where there are more than are shown.
fn more(count: usize, shown: usize, what: &str) -> String {
    match count.saturating_sub(shown) {
        0 => String::new(),
        more => format!("  {}\n", format!("… and {more} more {what}").dimmed()),
    }
}

fn broker_lines(it: &Gathered) -> String {
    let health = match it.health {
        ServingStatus::Serving => "healthy".green().to_string(),
        ServingStatus::NotServing => {
            "not healthy: no durable write succeeded lately".red().to_string()
        }
        ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            "does not say how it is".yellow().to_string()
        }
    };
    let software = match it.overview.software.as_str() {
        "" => String::new(),
        software => format!("  {}", line(software).dimmed()),
    };
    let access = it.access.as_ref().map(Access::lines).unwrap_or_default();
    format!("broker {} {health}{software}\n{access}", it.url)
}

fn node_lines(it: &Gathered) -> String {
    let mut out = format!("\n{}\n", "nodes".bold());
    if it.overview.nodes.is_empty() {
        out += "  none; `tasuki up` or `tasuki node` starts one\n";
    }
    // Those that host something first: a restart with another data directory leaves others behind.
    let mut nodes: Vec<_> = it.overview.nodes.iter().collect();
    nodes.sort_by_key(|node| (node.roles.is_empty(), !node.is_present));
    for node in nodes.iter().take(NODES_SHOWN_MAX) {
        let there = match (node.is_present, node.last_seen_ms) {
            (true, _) => "present".green().to_string(),
            // A node tells of itself every few seconds, and a broker that starts anew asks nobody.
            (false, 0) => "not heard of since the broker started".dimmed().to_string(),
            (false, ms) => format!("away since {}", time(ms)).yellow().to_string(),
        };
        let here = if it.here.as_ref() == Some(&node.node) { "  here" } else { "" };
        let (name, roles) = (line(&node.node), line(&listed_names(&node.roles)));
        out += &format!("  {name}  {there}  {roles}  {}{here}\n", line(&node.software).dimmed());
    }
    out + &more(it.overview.nodes.len(), NODES_SHOWN_MAX, "nodes; --json shows all")
}

fn role_lines(it: &Gathered, is_all: bool) -> String {
    let mut out = format!("\n{}\n", "roles".bold());
    if it.overview.roles.is_empty() {
        out += "  none\n";
    }
    let mut roles: Vec<&RoleStatus> = it.overview.roles.iter().collect();
    let shown = if is_all { roles.len() } else { ROLES_SHOWN_MAX };
    if shown < roles.len() {
        // Those that something is going on with.
        roles.sort_by_key(|of| (of.holds.is_empty(), of.state));
    }
    let is_whole = roles.len() <= ROLES_WHOLE_MAX;
    out.extend(roles.iter().take(shown).map(|of| {
        let tools = it.tools.get(&of.role.role).copied().unwrap_or_default();
        role_line(of, if is_whole { tools } else { Tools::default() }, it.overview.now_ms)
    }));
    out += &more(roles.len(), shown, "roles; --role NAME or --all shows them");
    let unlisted = it.overview.unlisted;
    for (count, what) in [
        (unlisted.locks, "locks; `tasuki lock list`"),
        (unlisted.deliveries, "deliveries in review; `tasuki delivery list`"),
    ] {
        out += &more(usize::try_from(count).unwrap_or(usize::MAX), 0, what);
    }
    if unlisted.has_more_runs {
        out += &format!("  {}\n", "… and more runs; `tasuki runs list`".dimmed());
    }
    out
}

/// A role, with what it holds and has not seen; with its tools where everything is shown.
fn role_line(of: &RoleStatus, tools: Tools, now_ms: u64) -> String {
    let name = line(&of.role.role);
    let mut out = format!("  {}  {}", name.bold(), state(of, now_ms));
    let player = player(of, now_ms);
    if !player.is_empty() {
        out += &format!("  {}", player.dimmed());
    }
    out.push('\n');
    for held in of.holds.iter().take(HELD_SHOWN_MAX) {
        out += &format!("    {}\n", held_line(held, now_ms));
    }
    if HELD_SHOWN_MAX < of.holds.len() {
        out += &format!("    … and {} more\n", of.holds.len() - HELD_SHOWN_MAX);
    }
    for it in &of.handovers {
        let how = if it.handed_ms == 0 { "not handed to it" } else { "handed to it, not seen" };
        let age = long(now_ms.saturating_sub(it.stored_ms));
        let what = format!("handover of turn {} of {}: {age} ago", it.turn, line(&it.r#loop));
        out += &format!("    {}\n", format!("{what}, {how} yet").yellow());
    }
    if of.mail.threads != 0 {
        let unseen = counted(of.mail.threads, "thread");
        let oldest = match of.mail.oldest_ms {
            0 => String::new(),
            ms => format!(", the oldest for {}", long(now_ms.saturating_sub(ms))),
        };
        out += &format!("    unseen mail: {unseen}{oldest}\n");
    }
    if tools != Tools::default() {
        let Tools { count, bytes } = tools;
        let (counted, tokens) = (counted(count as u64, "tool"), tools.tokens());
        let size = bytes as f64 / 1024.0;
        let tools = format!("{counted} listed, {size:.1} KiB, about {tokens} tokens");
        out += &format!("    {}\n", tools.dimmed());
    }
    out
}

/// What a role's agent does, since when.
fn state(of: &RoleStatus, now_ms: u64) -> String {
    let role = &of.role;
    let quiet = || long(now_ms.saturating_sub(role.last_seen_ms));
    match of.state {
        State::Waiting => {
            let since = role.waits_since_ms.iter().copied().chain(std::iter::repeat(0));
            let waits = role.waits.iter().zip(since).map(|(what, since_ms)| match since_ms {
                0 => line(what),
                ms => format!("{} ({})", line(what), long(now_ms.saturating_sub(ms))),
            });
            format!("waits for {}", waits.collect::<Vec<_>>().join(", ")).green().to_string()
        }
        State::Working => format!("working, last heard of {} ago", quiet()).green().to_string(),
        State::Present => format!("present, last heard of {} ago", quiet()).green().to_string(),
        State::Silent => format!("silent for {}", quiet()).yellow().to_string(),
        State::Gone => format!("gone since {}", time(role.last_seen_ms)).yellow().to_string(),
        State::NodeAway if of.node_seen_ms == 0 => "its node is away".yellow().to_string(),
        State::NodeAway => {
            format!("its node is away since {}", time(of.node_seen_ms)).yellow().to_string()
        }
        State::NoNode => "no node hosts it".dimmed().to_string(),
        State::Never => "no agent has called yet".dimmed().to_string(),
    }
}

/// Who plays or played it, how it is told from others, since when.
fn player(of: &RoleStatus, now_ms: u64) -> String {
    if of.role.client.is_empty() {
        return String::new();
    }
    let told_apart = match of.role.instance.as_str() {
        "" => "by name only".to_owned(),
        id => format!("instance {}", line(id)),
    };
    let since = match of.role.since_ms {
        ms if ms != 0 && of.state.is_played() => {
            format!(", for {}", long(now_ms.saturating_sub(ms)))
        }
        _ => String::new(),
    };
    format!("{}, {told_apart}{since}", line(of.client()))
}

fn held_line(of: &Held, now_ms: u64) -> String {
    let name = short(&of.name, NAME_CELLS_MAX);
    let place = match (of.kind, of.of.as_str()) {
        (_, "") | ("lock", _) => String::new(),
        (_, place) => format!(" of {}", line(place)),
    };
    let since = match of.since_ms {
        0 => String::new(),
        ms => format!(" for {}", long(now_ms.saturating_sub(ms))),
    };
    let lapses = match of.lapses_ms {
        0 => String::new(),
        ms if ms <= now_ms => format!(", {}", "its lease lapsed".yellow()),
        ms => format!(", its lease ends in {}", long(ms - now_ms)),
    };
    format!("holds {} {name}{place}{since}{lapses}", of.kind)
}

fn loop_lines(it: &Gathered) -> String {
    let mut out = format!("\n{}\n", "loops".bold());
    if it.overview.loops.is_empty() {
        out += "  none; `tasuki loop start` opens one\n";
    }
    let mut loops: Vec<_> = it.overview.loops.iter().collect();
    loops.sort_by_key(|of| of.status() == LoopStatus::Completed);
    out.extend(loops.iter().take(LOOPS_SHOWN_MAX).map(|of| loop_line(of, it.overview.now_ms)));
    out + &more(it.overview.loops.len(), LOOPS_SHOWN_MAX, "loops; `tasuki loop list` shows all")
}

fn loop_line(of: &wire::Loop, now_ms: u64) -> String {
    let (name, holder) = (line(&of.r#loop), line(&of.holder));
    let turn = of.turn;
    let began = match of.turn_began_ms {
        0 => String::new(),
        ms => format!(" for {}", long(now_ms.saturating_sub(ms))),
    };
    let state = match of.status() {
        LoopStatus::Idle => format!("{} has turn {turn}, not begun", holder.bold()),
        LoopStatus::Working => format!("{} has turn {turn}{began}", holder.bold()),
        LoopStatus::Stalled => {
            format!("{}: the lease of {holder} on turn {turn} lapsed", "stalled".red())
        }
        LoopStatus::Paused => {
            format!("{}: {} has turn {turn}", "paused".red().bold(), holder.bold())
        }
        LoopStatus::Completed => "completed".green().to_string(),
        LoopStatus::Unspecified => "in a state this release does not know".to_owned(),
    };
    let (participants, entries) =
        (line(&of.participants.join(", ")), loop_view::entries(of.entries));
    let about = format!("{participants}, {entries}");
    format!("  {} round {}: {state}  {}\n", name.bold(), of.round, about.dimmed())
}

fn hook_lines(of: &Report) -> String {
    let mut out = format!("  {}  {} made", line(&of.hook).bold(), of.made);
    let mut add = |count: u64, what: &str| {
        if count != 0 {
            out += &format!(", {count} {what}");
        }
    };
    add(of.failed, "failed");
    add(of.waiting as u64, "waiting");
    add(of.dead_letters as u64, "dead letters (`tasuki hook list`)");
    let unusable = of.unusable.iter().map(|why| format!("is not called: {}", line(why)));
    let deaf = of.deaf.iter().map(|why| format!("hears of no events: {}", line(why)));
    let missed = of.missed.iter().map(|what| format!("missed {}", line(what)));
    let failure = of.last_failure.iter();
    let failure = failure.map(|it| format!("failed last {}: {}", time(it.at_ms), line(&it.why)));
    for said in unusable.chain(deaf).chain(missed).chain(failure) {
        out += &format!("\n    {}", said.yellow());
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::outbox::Waiting;
    use tasuki_broker::overview::{Holdings, Overview, Unlisted};

    const NOW_MS: u64 = 10_000_000;

    fn role(name: &str, client: &str, instance: &str) -> wire::Role {
        wire::Role {
            role: name.to_owned(),
            node: "desk".to_owned(),
            client: client.to_owned(),
            instance: instance.to_owned(),
            is_present: true,
            last_seen_ms: NOW_MS - 5_000,
            since_ms: NOW_MS - 3_780_000,
            ..wire::Role::default()
        }
    }

    fn gathered(roles: Vec<wire::Role>, loops: Vec<wire::Loop>, holdings: &Holdings) -> Gathered {
        let nodes = vec![wire::Node {
            node: "desk".to_owned(),
            roles: vec!["A".to_owned(), "B".to_owned()],
            is_present: true,
            software: "tasuki 1".to_owned(),
            ..wire::Node::default()
        }];
        let tools = Tools { count: 3, bytes: 2_560 };
        let roles = roles.into_iter();
        let roles = roles.map(|role| RoleStatus::new(role, &nodes, &loops, holdings));
        Gathered {
            url: "http://127.0.0.1:7420".to_owned(),
            health: ServingStatus::Serving,
            tools: ["A", "B"].map(|role| (role.to_owned(), tools)).into(),
            overview: Overview {
                software: "tasuki-broker 1".to_owned(),
                roles: roles.collect(),
                nodes,
                loops,
                holdings: Holdings::default(),
                unlisted: Unlisted::default(),
                guarded: Vec::new(),
                now_ms: NOW_MS,
            },
            access: None,
            workspace: "default".to_owned(),
            here: Some("desk".to_owned()),
            unlinked: None,
            hooks: Vec::new(),
            outbox: Waiting::default(),
            mailboxes: Vec::new(),
        }
    }

    fn shown(it: &Gathered, is_all: bool) -> String {
        let problems = super::super::problems(it);
        anstream::adapter::strip_str(&lines(it, &problems, is_all)).to_string()
    }

    fn main_loop() -> wire::Loop {
        let mut of = wire::Loop {
            r#loop: "main".to_owned(),
            participants: vec!["A".to_owned(), "B".to_owned()],
            round: 1,
            turn: 7,
            holder: "B".to_owned(),
            turn_began_ms: NOW_MS - 185_000,
            lease_lapses_ms: NOW_MS + 715_000,
            entries: 7,
            receipts: Some(wire::Receipts { stored_ms: NOW_MS - 185_000, ..Default::default() }),
            ..wire::Loop::default()
        };
        of.set_status(LoopStatus::Working);
        of
    }

    #[test]
    fn two_roles_are_one_screen_and_say_who_does_what() {
        let a = wire::Role {
            waits: vec!["turn of main".to_owned()],
            waits_since_ms: vec![NOW_MS - 62_000],
            ..role("A", "claude-code 2 as x", "x")
        };
        let b = role("B", "codex 1", "");
        let mailbox = wire::MailboxState { role: "B".into(), unseen: 2, ..Default::default() };
        let holdings = Holdings {
            mailboxes: [("B".to_owned(), mailbox)].into(),
            unseen_since_ms: [("B".to_owned(), NOW_MS - 300_000)].into(),
            ..Holdings::default()
        };
        let told = shown(&gathered(vec![a, b], vec![main_loop()], &holdings), false);
        assert_eq!(
            told,
            "broker http://127.0.0.1:7420 healthy  tasuki-broker 1
workspace default

nodes
  desk  present  A, B  tasuki 1  here

roles
  A  waits for turn of main (1m 02s)  claude-code 2, instance x, for 1h 03m
    3 tools listed, 2.5 KiB, about 640 tokens
  B  working, last heard of 5s ago  codex 1, by name only, for 1h 03m
    holds turn 7 of main for 3m 05s, its lease ends in 11m 55s
    handover of turn 7 of main: 3m 05s ago, not handed to it yet
    unseen mail: 2 threads, the oldest for 5m 00s
    3 tools listed, 2.5 KiB, about 640 tokens

loops
  main round 1: B has turn 7 for 3m 05s  A, B, 7 entries
"
        );
        assert!(told.lines().count() <= 24 && told.lines().all(|line| line.len() <= 80), "{told}");
    }

    #[test]
    fn what_is_wrong_comes_first() {
        let left = wire::Role { is_present: false, has_left: true, ..role("B", "codex 1", "") };
        let told = shown(&gathered(vec![left], vec![main_loop()], &Holdings::default()), false);
        let first =
            "needs attention\n  B has turn 7 of main and its agent left 5s ago.\n    Start its";
        assert!(told.starts_with(first), "{told}");
        assert!(told.contains("  B  gone since 1970-") && !told.contains("B  present"), "{told}");
    }

    #[test]
    fn of_many_roles_a_screenful_is_shown_those_with_something_to_say_first() {
        let mut roles: Vec<_> = (0..200).map(|i| role(&format!("r{i:03}"), "c", "")).collect();
        roles.push(role("zz", "c", ""));
        let of = wire::Loop { holder: "zz".to_owned(), ..main_loop() };
        let it = gathered(roles, vec![of], &Holdings::default());
        let told = shown(&it, false);
        assert!(told.contains("… and 181 more roles; --role NAME or --all shows them"), "{told}");
        assert!(told.contains("  zz  working") && told.lines().count() < 40, "{told}");
        let all = shown(&it, true);
        assert!(all.contains("  r199  ") && !all.contains("more roles"), "{all}");
    }

    #[test]
    fn a_role_that_nobody_played_says_so() {
        let none = |node: &str, tools: Tools| {
            let (role, node) = ("B".to_owned(), node.to_owned());
            let role = wire::Role { role, node, ..wire::Role::default() };
            let of = RoleStatus::new(role, &[], &[], &Holdings::default());
            anstream::adapter::strip_str(&role_line(&of, tools, NOW_MS)).to_string()
        };
        let tools = "    1 tool listed, 2.5 KiB, about 640 tokens\n";
        let one = Tools { count: 1, bytes: 2_560 };
        assert_eq!(none("desk", one), format!("  B  no agent has called yet\n{tools}"));
        assert_eq!(none("", Tools::default()), "  B  no node hosts it\n");
    }

    #[test]
    fn a_hook_that_fails_says_so() {
        let shown = |told: Value| {
            let report: Report = serde_json::from_value(told).expect("a report");
            anstream::adapter::strip_str(&hook_lines(&report)).to_string()
        };
        let fine = json!({
            "hook": "notify", "made": 7, "failed": 0, "waiting": 0, "dead_letters": 0,
            "sequence": 40,
        });
        assert_eq!(shown(fine), "  notify  7 made\n");
        let failing = json!({
            "hook": "post", "made": 0, "failed": 2, "waiting": 1, "dead_letters": 2,
            "sequence": 40, "missed": "events 3 to 9", "deaf": "no answer",
            "last_failure": {
                "at_ms": 1_795_305_600_000_u64, "id": "00ff", "why": "answered 500: \u{1b}[2Jx",
            },
        });
        assert_eq!(
            shown(failing),
            format!(
                "  post  0 made, 2 failed, 1 waiting, 2 dead letters (`tasuki hook list`)\n    \
                 hears of no events: no answer\n    missed events 3 to 9\n    failed last {}: \
                 answered 500: x\n",
                time(1_795_305_600_000)
            )
        );
    }
}
