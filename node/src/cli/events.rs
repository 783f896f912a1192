//! Events as one line each, for people: local times, and titles where they are known.

use owo_colors::OwoColorize as _;
use tasuki_proto::{
    counted::{counted, listed_names},
    mail::BoxKind,
    wire::{
        self, board_event, call_event, directory_event, event::Noun, guard_event, mail_event,
        pipeline_event, privacy_event, run_event, swarm_event, turn_event,
    },
};

use super::{
    labels::{enum_name, spaced},
    text::{fitted, line, time},
    titles::{Titles, id_tail},
};

/// Characters of a reason that fit in a line.
const REASON_CHARS_MAX: usize = 60;

/// One line for each event of a record, each ending in a newline.
pub(crate) fn lines(item: &wire::FeedItem, titles: &Titles) -> String {
    let who = [&item.person, &item.role, &item.node].into_iter().find(|name| !name.is_empty());
    let who =
        who.map_or_else(String::new, |who| format!("  {}", format!("by {}", line(who)).dimmed()));
    let when = time(item.at_ms);
    let head = format!("{} {:>6}", when.dimmed(), item.sequence.dimmed());
    let row = |event| format!("{head}  {}{who}\n", event_text(event, titles));
    item.events.iter().map(row).collect()
}

fn event_text(event: &wire::Event, titles: &Titles) -> String {
    let text = event.noun.as_ref().and_then(|noun| match noun {
        Noun::Directory(it) => it.kind.as_ref().map(directory_text),
        Noun::Turn(it) => it.kind.as_ref().map(turn_text),
        Noun::Mail(it) => it.kind.as_ref().map(|kind| mail_text(kind, titles)),
        Noun::Privacy(it) => it.kind.as_ref().map(privacy_text),
        Noun::Swarm(it) => it.kind.as_ref().map(|kind| swarm_text(kind, titles)),
        Noun::Run(it) => it.kind.as_ref().map(run_text),
        Noun::Guard(it) => it.kind.as_ref().map(guard_text),
        Noun::Call(it) => it.kind.as_ref().map(call_text),
        Noun::Board(it) => it.kind.as_ref().map(board_text),
        Noun::Pipeline(it) => it.kind.as_ref().map(pipeline_text),
    });
    text.unwrap_or_else(|| {
        "something this release does not know; upgrade to see it".dimmed().to_string()
    })
}

fn directory_text(kind: &directory_event::Kind) -> String {
    let directory_event::Kind::NodeRegistered(e) = kind;
    let roles: Vec<String> = e.roles.iter().map(|role| line(&role.role)).collect();
    let what = format!("node {} joined", line(&e.node));
    format!("{} with {} (epoch {})", what.cyan(), listed_names(&roles), e.epoch)
}

fn pipeline_text(kind: &pipeline_event::Kind) -> String {
    use pipeline_event::Kind;
    match kind {
        Kind::PipelineStarted(e) => {
            let what = format!("pipeline {} started", line(&e.board));
            format!("{} with {} by {}", what.green(), line(&e.phase), line(&e.role))
        }
        Kind::PhaseClaimed(e) => {
            let what = format!("pipeline {}, {}", line(&e.board), line(&e.phase));
            format!(
                "{}: attempt {} by {} on {}",
                what.cyan(),
                e.attempt,
                line(&e.role),
                line(&e.node)
            )
        }
        Kind::PipelineChanged(e) => {
            let what = format!("pipeline {}, {}", line(&e.board), line(&e.phase));
            let how = spaced(&enum_name(e.change().as_str_name(), "PIPELINE_CHANGE_"), " ");
            let status = spaced(&enum_name(e.status().as_str_name(), "PIPELINE_STATUS_"), " ");
            format!("{}: {how}; {status} at {}", what.cyan(), line(&e.next_phase))
        }
    }
}

fn board_text(kind: &board_event::Kind) -> String {
    use board_event::Kind;
    match kind {
        Kind::BoardUpdated(e) => {
            let what = format!("board {}, checkpoint {}", line(&e.board), e.checkpoint);
            let channels = match e.channels.is_empty() {
                true => format!("continues from {}", e.parent),
                false => names(&e.channels),
            };
            format!("{}: {channels}", what.green())
        }
        Kind::BoardDeleted(e) => {
            let what = format!("board {} deleted", line(&e.board));
            what.yellow().to_string()
        }
    }
}

fn turn_text(kind: &turn_event::Kind) -> String {
    use turn_event::Kind;
    match kind {
        Kind::LoopOpened(e) => {
            let what = format!("loop {} opened", line(&e.r#loop));
            format!("{} for {}", what.green(), names(&e.participants))
        }
        Kind::ParticipantsSet(e) => {
            let what = format!("loop {} is now for", line(&e.r#loop));
            format!("{} {}", what.green(), names(&e.participants))
        }
        Kind::HandedOver(e) if e.is_task_complete => {
            let what = format!("{} completed {}", line(&e.from), line(&e.r#loop));
            format!("{} in round {}, turn {}", what.green().bold(), e.round, e.ended_turn)
        }
        Kind::HandedOver(e) => {
            let what = format!("{} → {}", line(&e.from), line(&e.to));
            format!("{} in {}, turn {}", what.green().bold(), line(&e.r#loop), e.turn)
        }
        Kind::TurnReclaimed(e) => {
            let what = format!("{} → {}", line(&e.from), line(&e.to));
            let why = fitted(&e.reason, REASON_CHARS_MAX);
            let what = what.yellow();
            format!("{what} reclaimed in {}, turn {}: {why}", line(&e.r#loop), e.turn)
        }
        Kind::RoundStarted(e) => {
            let what = format!("round {} of {} started", e.round, line(&e.r#loop));
            format!("{} with {}, turn {}", what.green(), line(&e.to), e.turn)
        }
        Kind::TurnMarked(e) => {
            let what = format!("turn {} of {} {}", e.turn, line(&e.r#loop), line(&e.receipt));
            what.dimmed().to_string()
        }
        Kind::TurnLapsed(e) => {
            let what = format!("{} stalled", line(&e.r#loop));
            format!("{}: the lease of turn {} lapsed", what.red(), e.turn)
        }
        Kind::LoopPaused(e) => {
            let (what, why) = (format!("{} paused", line(&e.r#loop)), line(&e.reason));
            let on = format!("`tasuki loop resume {}` goes on", line(&e.r#loop));
            format!("{}: {why}; {on}", what.red().bold())
        }
        Kind::LoopResumed(e) => {
            let what = format!("{} goes on", line(&e.r#loop)).green().to_string();
            match fitted(&e.reason, REASON_CHARS_MAX).as_str() {
                "" => what,
                why => format!("{what}: {why}"),
            }
        }
        Kind::LeaseRenewed(e) => {
            let why = if e.is_grace { ", a grace after the broker was down" } else { "" };
            let lapses = time(e.lapses_ms);
            let what =
                format!("lease of turn {} of {} until {lapses}{why}", e.turn, line(&e.r#loop));
            what.dimmed().to_string()
        }
    }
}

fn mail_text(kind: &mail_event::Kind, titles: &Titles) -> String {
    use mail_event::Kind;
    let mail = |id: &String| titles.mail(id);
    match kind {
        Kind::MailSent(e) => {
            let what = format!("{} → {}", line(&e.sender), names(&e.receivers));
            let (kind, mail) = (line(&e.r#type), mail(&e.message_id));
            format!("{} {kind} mail {mail}, entry {}", what.green(), e.entry)
        }
        Kind::MailMoved(e) => {
            let what = format!("mail {} is in {}", mail(&e.message_id), box_of(e.r#box()));
            format!("{} of {}", what.cyan(), line(&e.role))
        }
        Kind::MailMarked(e) => {
            let (mail, receipt) = (mail(&e.message_id), line(&e.receipt));
            let what = format!("mail {mail} {receipt} at {} to {}", line(&e.role), e.through);
            what.dimmed().to_string()
        }
        Kind::MailLapsed(e) => {
            let what = format!("mail {} lapsed", mail(&e.message_id));
            format!("{} at {}, entry {}", what.yellow(), names(&e.roles), e.entry)
        }
        Kind::MailDied(e) if e.is_revived => {
            let what = format!("mail {} is handed again", mail(&e.message_id));
            format!("{} to {}", what.cyan(), line(&e.role))
        }
        Kind::MailDied(e) => {
            let what = format!("mail {} is a dead letter", mail(&e.message_id));
            format!("{} of {}: handed again and again, never seen", what.red(), line(&e.role))
        }
        Kind::MailImported(e) => {
            let what = format!("mail {} imported", mail(&e.message_id));
            let entries = counted(e.entries, "entry");
            format!("{} for {}, {entries}", what.cyan(), names(&e.participants))
        }
        Kind::MailboxOpened(e) => format!("mailbox of {} opened", line(&e.role)),
        Kind::MailboxClosed(e) => format!("mailbox of {} closed", line(&e.role)),
    }
}

fn privacy_text(kind: &privacy_event::Kind) -> String {
    use privacy_event::Kind;
    match kind {
        Kind::RosterSet(e) if e.is_on => {
            format!("{}, roster {}", "mail is private".cyan(), e.number)
        }
        Kind::RosterSet(e) => format!("{}, roster {}", "mail is not private".cyan(), e.number),
        Kind::KeyPublished(e) => format!("{} made its key known", line(&e.node)),
    }
}

fn swarm_text(kind: &swarm_event::Kind, titles: &Titles) -> String {
    use swarm_event::Kind;
    match kind {
        Kind::IssueChanged(e) => {
            let about = match e.task_id.as_str() {
                "" => titles.issue(&e.issue_id),
                task => titles.task(&e.issue_id, task),
            };
            // The task, named next, is of the issue anyway.
            let kind = line(&e.r#type).replacen("issue_task", "task", 1);
            let beside = [&e.submission_id, &e.message_id, &e.delivery_id].into_iter();
            let beside = beside.filter(|id| !id.is_empty()).map(|id| id_tail(id));
            let worker = Some(line(&e.worker)).filter(|worker| !worker.is_empty());
            let all: Vec<String> = [about].into_iter().chain(worker).chain(beside).collect();
            format!("{}: {}", spaced(&kind, " ").cyan(), all.join(", "))
        }
        Kind::ItemsHanded(e) => {
            let items = counted(e.numbers.len(), "item");
            format!("{items} of {} given to the lead", titles.issue(&e.issue_id))
        }
        Kind::WorkerRegistered(e) => format!("{} is a worker", line(&e.worker)),
        Kind::SharedDocWritten(e) => {
            format!("shared document {} written, version {}", line(&e.name), e.version)
        }
        Kind::FilesLocked(e) => {
            let purpose = match (e.issue_id.as_str(), e.task_id.as_str()) {
                ("", _) => String::new(),
                (issue, "") => format!(" for {}", titles.issue(issue)),
                (issue, task) => format!(" for {}", titles.task(issue, task)),
            };
            format!("{} locked {}{purpose}", line(&e.holder), counted(e.files, "file"))
        }
        Kind::FilesUnlocked(e) => {
            format!("lock {} ended: {}", id_tail(&e.lease_id), spaced(&line(&e.why), " "))
        }
        Kind::SwarmSettingsSet(_) => "settings of issues and leases changed".to_owned(),
    }
}

fn run_text(kind: &run_event::Kind) -> String {
    use run_event::Kind;
    match kind {
        Kind::RunStarted(e) => {
            let what = format!("{} started", line(&e.run_id));
            format!("{} with {}", what.cyan(), names(&e.agents))
        }
        Kind::StepStarted(e) => {
            format!("step {} of {} runs on {}", e.step, line(&e.run_id), line(&e.node))
        }
        Kind::StepEnded(e) => {
            let status = enum_name(e.status().as_str_name(), "STEP_STATUS_");
            format!("step {} of {} {status}", e.step, line(&e.run_id))
        }
        Kind::RunStopped(e) => format!("{} is being stopped", line(&e.run_id)),
        Kind::RunEnded(e) => {
            let status = spaced(&enum_name(e.status().as_str_name(), "RUN_STATUS_"), " ");
            format!("{} {status}", line(&e.run_id).cyan())
        }
        Kind::ParentTold(e) => {
            let verb = if e.is_question { "asks" } else { "reports" };
            format!("step {} of {} {verb}, message {}", e.step, line(&e.run_id), e.message)
        }
        Kind::RunReplied(e) => format!("message {} of {} answered", e.message, line(&e.run_id)),
        Kind::RunsForgotten(e) => format!("{} forgotten", counted(e.run_ids.len(), "run")),
    }
}

fn call_text(kind: &call_event::Kind) -> String {
    use call_event::Kind;
    match kind {
        Kind::ToolCalled(e) => {
            let what = format!("{} of {} called", line(&e.tool), line(&e.target));
            format!("{what} by {}", line(&e.role))
        }
        Kind::ToolCallEnded(e) => {
            let what = format!("{} of {}", line(&e.tool), line(&e.target));
            format!(
                "{what}, called by {}: {}",
                line(&e.role),
                spaced(&enum_name(e.outcome().as_str_name(), "CALL_OUTCOME_"), " ")
            )
        }
    }
}

fn guard_text(kind: &guard_event::Kind) -> String {
    use guard_event::Kind;
    match kind {
        Kind::LimitsSet(e) if e.r#loop.is_empty() => "limits without a person changed".to_owned(),
        Kind::LimitsSet(e) => format!("limit of {} without a person changed", line(&e.r#loop)),
        Kind::BudgetSet(e) if e.budget.is_none() => format!("{} has no budget", line(&e.role)),
        Kind::BudgetSet(e) => format!("{} has a budget", line(&e.role)),
        Kind::UsageReported(e) => {
            let used = [counted(e.calls, "call"), counted(e.tokens, "token")].join(", ");
            format!("{} used {used}", line(&e.role)).dimmed().to_string()
        }
        Kind::RolePaused(e) => {
            let role = line(&e.role);
            let what = format!("{role} paused").red().bold().to_string();
            format!("{what}: it {}; `tasuki budget resume {role}` goes on", line(&e.reason))
        }
        Kind::RoleResumed(e) => {
            let what = format!("{} goes on", line(&e.role)).green().to_string();
            match fitted(&e.reason, REASON_CHARS_MAX).as_str() {
                "" => what,
                why => format!("{what}: {why}"),
            }
        }
    }
}

fn box_of(wire: wire::Box) -> &'static str {
    BoxKind::of_wire(wire).map_or("another box", BoxKind::as_str)
}

fn names(names: &[String]) -> String {
    line(&names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(noun: Option<Noun>) -> String {
        let item = wire::FeedItem {
            sequence: 7,
            at_ms: 1_795_302_600_000,
            role: "A".into(),
            events: vec![wire::Event { noun }],
            ..Default::default()
        };
        let titles = Titles::of(&[
            ("ded66c6a-58c1-47f4-916e-13787156f665", "API slow"),
            ("issue_1700000000000_00af/task-3", "Mend it"),
        ]);
        anstream::adapter::strip_str(&lines(&item, &titles)).to_string()
    }

    #[test]
    fn what_has_a_title_is_called_by_it() {
        let sent = wire::MailSent {
            message_id: "ded66c6a-58c1-47f4-916e-13787156f665".into(),
            entry: 1,
            sender: "qa".into(),
            receivers: vec!["dev".into()],
            r#type: "BR".into(),
            ..Default::default()
        };
        let mail = wire::MailEvent { kind: Some(mail_event::Kind::MailSent(sent)) };
        let said = shown(Some(Noun::Mail(mail)));
        assert!(said.contains("qa → dev BR mail ded66c6a “API slow”, entry 1"), "{said}");
        let changed = wire::IssueChanged {
            issue_id: "issue_1700000000000_00af".into(),
            r#type: "issue_task_claimed".into(),
            task_id: "task-3".into(),
            worker: "worker1".into(),
            ..Default::default()
        };
        let swarm = wire::SwarmEvent { kind: Some(swarm_event::Kind::IssueChanged(changed)) };
        let said = shown(Some(Noun::Swarm(swarm)));
        assert!(said.contains("task claimed: 00af/3 “Mend it”, worker1"), "{said}");
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let reclaimed = wire::TurnReclaimed {
            r#loop: "main".into(),
            turn: 4,
            from: "A".into(),
            to: "B".into(),
            reason: "gone\n\u{1b}[2Jfake line".into(),
            ..Default::default()
        };
        let kind = Some(turn_event::Kind::TurnReclaimed(reclaimed));
        assert_eq!(
            shown(Some(Noun::Turn(wire::TurnEvent { kind }))),
            "2026-11-21 23:10:00Z      7  A → B reclaimed in main, turn 4: gone fake line  by A\n"
        );
        assert!(shown(None).contains("upgrade"));
        assert!(shown(Some(Noun::Turn(Default::default()))).contains("upgrade"));
    }
}
