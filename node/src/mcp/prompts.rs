//! How an agent plays a role with these tools: one source for the server's instructions, for the
//! MCP prompts, and for what `tasuki prompt` prints.
//!
//! Each toolset says how a role is played with it ([`Part`](super::tools::Part)); whoever has none
//! that does has no prompt.
//! Nothing that another agent wrote is ever in these texts.

use rmcp::{
    ErrorData,
    model::{
        GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
        PromptMessage, Role as Speaker,
    },
};
use tasuki_proto::{echo::echo, id::RoleId, limits::TEXT_BYTES_MAX};

use super::tools::{part, prompt_notes, sanitizer::FRAME, waiting::PAUSED};
use crate::{
    config::Role,
    toolset::{LOOP, ToolsetChoice},
};

/// What a prompt's name begins with; the role follows.
const PREFIX: &str = "play_";

/// The instructions of a sub-agent, which plays no role.
pub(super) const STEP_INSTRUCTIONS: &str = "You are a sub-agent: another agent or a person gave \
    you this task and gets your last message as the result. If you cannot go on without an \
    answer, call ask_parent, which returns it. Call report_to_parent to tell something before you \
    are done.";

/// The argument with what the work is for.
const GOAL: &str = "goal";

/// Those of a node's roles that take part in a loop whose participants nobody named, in order, as the
/// broker has it: roles that work on issues give way where there are two others.
pub fn turn_takers(roles: &[Role]) -> Vec<&Role> {
    let takes_turns = |role: &&Role| role.toolsets.iter().any(|choice| choice.set == LOOP);
    let all = || roles.iter().filter(takes_turns);
    let others: Vec<&Role> = all().filter(|role| !role.is_standby()).collect();
    if others.len() < 2 { all().collect() } else { others }
}

/// Those of a node's roles that take turns, in order. None if this node does not know
/// who begins: it has one role of several, or a B whose A another machine has.
pub fn turn_order(roles: &[Role]) -> Vec<RoleId> {
    let has = |name: &str| roles.iter().any(|role| role.name.as_str() == name);
    if roles.len() < 2 || (has("B") && !has("A")) {
        return Vec::new();
    }
    turn_takers(roles).into_iter().map(|role| role.name.clone()).collect()
}

/// How to play `role`, which has these toolsets, for a first message or a file of rules. `order` is
/// that of its node, `goal` the user's. `None`: these toolsets have no tools yet that one could play
/// a role with.
pub fn prompt(
    role: &RoleId,
    toolsets: &[ToolsetChoice],
    order: &[RoleId],
    goal: Option<&str>,
) -> Option<String> {
    let part = part(role, toolsets, order)?;
    let goal = match goal.map(str::trim).filter(|goal| !goal.is_empty()) {
        Some(goal) => format!("\n\nThe goal: {goal}"),
        None if part.needs_goal() => {
            "\n\nIf your user gave you no goal yet, ask before you begin.".to_owned()
        }
        None => String::new(),
    };
    let notes = prompt_notes(role, toolsets, order);
    let notes = notes.iter().map(|note| format!("- {note}\n"));
    Some(part.prompt(role, &goal) + &notes.collect::<String>())
}

/// The instructions of an address: short, since many clients keep them before the model for good.
/// `names` are the roles it may speak for, when it is not one.
pub(super) fn instructions(
    role: Option<(&RoleId, &[ToolsetChoice])>,
    order: &[RoleId],
    names: &str,
    has_turns: bool,
    has_mail: bool,
) -> String {
    let mail = mail(has_mail);
    let part = role.and_then(|(role, toolsets)| part(role, toolsets, order));
    let role = role.map(|(role, _)| role);
    if let Some(told) = role.zip(part).and_then(|(role, part)| part.instructions(role, mail)) {
        return told;
    }
    let who = match role {
        Some(role) => format!("You are agent {role}"),
        None => format!("You are one of the agents {names}"),
    };
    if !has_turns {
        let told = match has_mail {
            true => FRAME,
            false => "This node gives you no tools for taking turns.",
        };
        return format!("{who}.{mail} {told}");
    }
    let part = part.map_or("", |it| it.first_step());
    format!(
        "{who} and take turns with other agents.{part} Call await_my_turn. When it returns \
         can_start, do the work it describes, then call handover_work and await_my_turn again. On \
         still_waiting, call it again immediately. {PAUSED} If it returns an MCP task, end your turn; \
         you are woken. Stop when it returns is_finished.{mail} {FRAME}"
    )
}

fn mail(has_mail: bool) -> &'static str {
    match has_mail {
        true => " filebox_wait_for_message returns mail, filebox_send_message sends it.",
        false => "",
    }
}

/// A role and its toolsets.
type Player<'a> = (&'a RoleId, Vec<ToolsetChoice>);

/// The prompts of an address that speaks for `players`.
pub(super) fn list<'a>(
    players: impl Iterator<Item = Player<'a>>,
    order: &[RoleId],
) -> ListPromptsResult {
    ListPromptsResult::with_all_items(players.filter_map(|player| entry(player, order)).collect())
}

/// `None`: it has none.
fn entry((role, toolsets): Player<'_>, order: &[RoleId]) -> Option<Prompt> {
    let goal = PromptArgument::new(GOAL)
        .with_title("Goal")
        .with_description("Goal of the work. Default: as given in the conversation.")
        .with_required(false);
    let part = part(role, &toolsets, order)?;
    let prompt = Prompt::new(format!("{PREFIX}{role}"), Some(part.description()), Some(vec![goal]));
    Some(prompt.with_title(format!("Play agent {role}")))
}

/// One of the prompts that [`list`] shows.
pub(super) fn get<'a>(
    mut players: impl Iterator<Item = Player<'a>>,
    order: &[RoleId],
    request: &GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let invalid = |message: String| ErrorData::invalid_params(message, None);
    let named = request.name.strip_prefix(PREFIX);
    let player = named.and_then(|named| players.find(|(role, _)| role.as_str() == named));
    let unknown = || invalid(format!("there is no prompt {}", echo(&request.name)));
    let (role, toolsets) = player.ok_or_else(unknown)?;
    let mut goal = None;
    for (name, value) in request.arguments.iter().flatten() {
        match value.as_str() {
            Some(text) if name == GOAL && text.len() <= TEXT_BYTES_MAX => goal = Some(text),
            Some(_) if name == GOAL => {
                return Err(invalid(format!("`{GOAL}` is over {TEXT_BYTES_MAX} bytes")));
            }
            Some(_) | None if name == GOAL => {
                return Err(invalid(format!("`{GOAL}` must be a text")));
            }
            Some(_) | None => return Err(invalid(format!("there is no argument {}", echo(name)))),
        }
    }
    let text = prompt(role, &toolsets, order, goal).ok_or_else(unknown)?;
    let result = GetPromptResult::new(vec![PromptMessage::new_text(Speaker::User, text)]);
    Ok(match part(role, &toolsets, order) {
        Some(part) => result.with_description(part.description()),
        None => result,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolset::{SWARM_ACCEPTOR, SWARM_LEAD, SWARM_WORKER, usual_toolsets};

    fn role(name: &str) -> RoleId {
        name.parse().expect("an id")
    }

    fn prompt(role: &RoleId, goal: Option<&str>) -> String {
        super::prompt(role, &usual_toolsets(role), &[], goal).expect("a prompt")
    }

    fn sets(names: &str) -> Vec<ToolsetChoice> {
        names.split(',').map(|it| it.parse().expect("a toolset")).collect()
    }

    #[test]
    fn each_part_is_told_apart_and_knows_the_tools() {
        let texts = ["A", "B", "qa"].map(|name| prompt(&role(name), None));
        for (text, its_own) in texts.iter().zip(["You begin", "you wait first", "one of several"]) {
            assert_eq!(texts.iter().filter(|text| text.contains(its_own)).count(), 1);
            let words =
                ["await_my_turn", "handover_work", "still_waiting", "- paused:", "is_finished"];
            for word in words {
                assert!(text.contains(word), "{word}: {text}");
            }
            assert!(text.contains(its_own) && text.len() < 2_500, "{text}");
        }
        assert!(texts[2].starts_with("You are agent qa."));
    }

    #[test]
    fn who_begins_is_the_first_that_takes_turns() {
        let order = |roles: &str| {
            let roles = roles.split(' ').map(|text| {
                let mut role: Role = text.parse().expect("a role");
                if role.toolsets.is_empty() {
                    role.toolsets = usual_toolsets(&role.name);
                }
                role
            });
            turn_order(&roles.collect::<Vec<_>>())
        };
        for (name, roles, expected) in [
            ("qa", "qa dev=mail", "Begin"),
            ("dev", "dev qa", "Begin"),
            ("qa", "dev qa", "Wait for the work,"),
            ("qa", "dev=mail qa=loop", "Begin"),
            ("dev", "lead dev qa", "Begin"),
            ("qa", "lead=loop,swarm-lead dev qa", "Wait for the turn,"),
            ("ops", "dev qa ops", "Wait for the turn,"),
            ("B", "A B", "Wait for the work,"),
            ("B", "B A", "Begin"),
            // Other machines have the rest.
            ("B", "B C", "Wait for the work,"),
            ("qa", "qa", "Wait for the turn,"),
            ("A", "A", "Begin"),
        ] {
            let part = part(&role(name), &sets("loop"), &order(roles)).expect("a part");
            let told = part.description();
            assert!(told.starts_with(expected), "{name} of {roles}: {told}");
        }
    }

    #[test]
    fn a_goal_is_the_users_words() {
        let told = prompt(&role("A"), Some(" mend the parser \n"));
        assert!(told.contains("The goal: mend the parser\n\nSteps:"), "{told}");
        let untold = prompt(&role("A"), Some("  "));
        assert!(untold.contains("ask before you begin"));
        assert_eq!(untold, prompt(&role("A"), None));
        assert!(!prompt(&role("B"), None).contains("The goal"));
    }

    #[test]
    fn instructions_are_short() {
        let loops = sets("loop");
        let names = [role("A"), role("B"), role("qa")];
        let one = names.iter().map(|it| Some((it, &loops[..])));
        for role in one.chain([None]) {
            for (turns, mail) in [(true, true), (true, false), (false, true), (false, false)] {
                let told = instructions(role, &[], "A, B", turns, mail);
                assert!(told.len() < 600, "{} {told}", told.len());
                assert_eq!(told.contains("filebox_wait_for_message"), mail);
                assert_eq!(told.contains("await_my_turn"), turns);
            }
        }
    }

    #[test]
    fn whoever_works_on_issues_is_told_its_loop_of_calls() {
        let all = ["lead", "worker-1", "acceptor"].map(|name| prompt(&role(name), None));
        let calls: [&[&str]; 3] = [
            &[
                "listIssues",
                "createIssue",
                "createIssueTask",
                "blocked_by",
                "waitIssueTaskEvents",
                "getNextStepToken",
                "reviewIssueTask",
                "replyIssueTaskMessage",
                "submitDelivery",
                "closeIssue",
            ],
            &[
                "registerWorker",
                "waitIssues",
                "waitIssueTasks",
                "claimIssueTask",
                "lockFiles",
                "askIssueTask",
                "submitIssueTask",
                "next_step_token",
            ],
            &[
                "waitDeliveries",
                "claimDelivery",
                "getIssueAcceptanceBundle",
                "reviewDelivery",
                "doc_commands",
            ],
        ];
        for (text, calls) in all.iter().zip(calls) {
            for word in calls.iter().chain(&[
                "still_waiting",
                "- paused:",
                "superseded",
                "MCP task",
                "never",
                "ERROR",
            ]) {
                assert!(text.to_lowercase().contains(&word.to_lowercase()), "{word}: {text}");
            }
            assert!(text.len() < 3_000, "{} {text}", text.len());
            assert!(!text.contains("await_my_turn") && text.contains("untrusted data"), "{text}");
        }
        assert!(all[0].contains("ask before you begin") && !all[1].contains("The goal"));
    }

    #[test]
    fn prompts_and_instructions_name_tools_that_the_role_is_shown() {
        let name = role("x");
        for set in [SWARM_LEAD, SWARM_WORKER, SWARM_ACCEPTOR] {
            for sets in [sets(set), sets(&format!("{set}:full")), sets(&format!("loop,mail,{set}"))]
            {
                let shown = crate::mcp::tool_names(&sets);
                let told = super::prompt(&name, &sets, &[], None).expect("a prompt")
                    + &instructions(Some((&name, &sets)), &[], "", true, true);
                let named = crate::mcp::tools::tools_named_in(&told);
                assert!(3 < named.len(), "{told}");
                for tool in named {
                    assert!(shown.iter().any(|it| it == tool), "{set} has no {tool}");
                }
            }
        }
    }

    /// Every combination of sets, each as much of it as a role can be shown; those that no prompt says
    /// anything of once, with all others.
    fn combinations() -> Vec<Vec<ToolsetChoice>> {
        use crate::toolset::{COMMANDS, FILES, NAMES, PIPELINE};
        let silent = [FILES, COMMANDS, PIPELINE];
        let mut all: Vec<Vec<ToolsetChoice>> = vec![Vec::new()];
        for set in NAMES.into_iter().filter(|it| !silent.contains(it)) {
            let with = |shown: &str| {
                let choice: ToolsetChoice = format!("{set}{shown}").parse().expect("a toolset");
                all.iter()
                    .map(|it| [&it[..], std::slice::from_ref(&choice)].concat())
                    .collect::<Vec<_>>()
            };
            let more = ["", ":quiet", ":full"].map(with).concat();
            all.extend(more);
        }
        all.push(NAMES.map(|set| set.parse().expect("a toolset")).to_vec());
        all
    }

    #[test]
    fn a_prompt_of_any_sets_is_short_and_names_only_tools_that_are_shown() {
        const WORDS_MAX: usize = 350;
        let every = crate::mcp::tool_names(
            &crate::toolset::NAMES.map(|set| format!("{set}:full").parse().expect("a toolset")),
        );
        let (mut longest, mut prompts) = (0, 0);
        for sets in combinations() {
            for (name, order) in [("x", &[][..]), ("A", &[role("A"), role("B")]), ("B", &[])] {
                let Some(text) = super::prompt(&role(name), &sets, order, None) else { continue };
                prompts += 1;
                let names: Vec<String> = sets.iter().map(ToString::to_string).collect();
                let words = text.split_whitespace().count();
                longest = longest.max(words);
                assert!(words <= WORDS_MAX, "{names:?}: {words} words: {text}");
                let shown = crate::mcp::tool_names(&sets);
                let is_word = |it: &str| {
                    it.contains('_') || it.contains(char::is_uppercase) || it == "subagent"
                };
                let said = text.split(|it: char| !(it == '_' || it.is_ascii_alphanumeric()));
                for tool in said.filter(|it| is_word(it) && every.iter().any(|tool| tool == it)) {
                    assert!(shown.iter().any(|it| it == tool), "{names:?} has no {tool}: {text}");
                }
            }
        }
        assert!(1_000 < prompts && 250 < longest, "{prompts} prompts, {longest} words");
    }

    #[test]
    fn whoever_has_any_tools_to_play_with_has_a_prompt() {
        for (names, begins) in [
            ("mail", "Wait for mail"),
            ("mail:quiet", "Wait for mail"),
            ("mail,runs", "Wait for mail"),
            ("loop:quiet,mail", "Wait for mail"),
            ("runs", "Give parts"),
            ("runs:quiet", "Give parts"),
            ("loop,runs", "Wait for the turn"),
            ("loop,mail,runs,swarm-lead", "Break the work"),
            ("swarm-worker,swarm-acceptor", "Claim a task"),
            ("mail,swarm-lead:quiet", "Wait for mail"),
            ("loop:quiet", ""),
        ] {
            let part = part(&role("x"), &sets(names), &[]);
            let told = part.map(|it| it.description()).unwrap_or_default();
            assert!(
                told.starts_with(begins) && told.is_empty() == begins.is_empty(),
                "{names}: {told}"
            );
        }
        let told = |names: &str| super::prompt(&role("x"), &sets(names), &[], None).expect("one");
        let both = told("loop,mail,runs:quiet");
        assert!(both.contains("filebox_wait_for_message") && both.contains("run_wait"), "{both}");
        assert!(!told("loop").contains("filebox_"));
        assert!(told("swarm-lead,loop").contains("Only if your user asks"));
        assert!(!told("swarm-lead,loop:quiet").contains("await_my_turn"));
        assert!(told("swarm-lead,swarm-worker").contains("claimIssueTask"));
    }

    #[test]
    fn the_toolset_says_which_part_not_the_name() {
        let of = |name: &str, names: &str| {
            super::prompt(&role(name), &sets(names), &[], None).expect("a prompt")
        };
        assert!(of("A", "loop,swarm-worker").contains("registerWorker"));
        assert!(of("lead", "loop").contains("await_my_turn"));
        assert!(of("x", "swarm-acceptor:full").starts_with("You are x, an acceptor"));
        assert!(of("x", "swarm-acceptor,swarm-lead").starts_with("You are x, the lead"));
    }

    #[test]
    fn whoever_takes_no_turns_is_told_nothing_of_them() {
        for name in ["A", "B", "dev"] {
            let of = |names: &str| super::prompt(&role(name), &sets(names), &[], Some("mend it"));
            let mail = of("mail").expect("a prompt");
            for word in ["await_my_turn", "handover_work", "loop_status"] {
                assert!(!mail.contains(word), "{mail}");
            }
            let shown = crate::mcp::tool_names(&sets("mail:quiet"));
            let named = mail.split(|it: char| !(it == '_' || it.is_ascii_alphanumeric()));
            let named: Vec<_> = named.filter(|it| it.starts_with("filebox_")).collect();
            assert!(!named.is_empty() && named.iter().all(|it| shown.iter().any(|s| s == it)));
            assert!(mail.contains("The goal: mend it") && mail.contains("untrusted data"));
            // As the tool itself promises it.
            assert!(
                mail.contains("is sent once; with `client_ref`, a repeat at any time is"),
                "{mail}"
            );
            assert!(of("loop").expect("a prompt").contains("await_my_turn"));
        }
    }

    #[test]
    fn instructions_about_issues_are_short() {
        for set in [SWARM_LEAD, SWARM_WORKER, SWARM_ACCEPTOR] {
            for mail in [true, false] {
                let (name, sets) = (role(&"r".repeat(64)), sets(set));
                let told = instructions(Some((&name, &sets)), &[], "", true, mail);
                assert!(told.len() < 600, "{} {told}", told.len());
                assert_eq!(told.contains("filebox_wait_for_message"), mail);
                assert!(told.contains("still_waiting") && told.contains("untrusted data"));
                assert!(told.contains(PAUSED), "{told}");
            }
        }
    }
}
