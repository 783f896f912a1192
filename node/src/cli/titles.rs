//! What mail, issues and tasks are called: events and histories carry their ids alone.
//!
//! A title is asked for once, when something first happens to what it names, and kept: subjects
//! never change. What cannot be read, or not by this token, is shown by its id.

use std::collections::{BTreeMap, BTreeSet};

use tasuki_proto::wire::{self, MailMark, event::Noun, mail_event, swarm_event};

use super::{
    broker::Broker,
    mail_crypto::Asking,
    text::{fitted, line},
};
use crate::{config::Config, private::Sealer};

/// Titles that are kept at once; past it all are forgotten and asked for again.
const KEPT_MAX: usize = 4096;

/// Characters of a title that fit in a line.
const TITLE_CHARS_MAX: usize = 60;

/// What has a title.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// A thread, as this role has it.
    Mail {
        id: String,
        role: String,
    },
    Issue(String),
    Task {
        issue: String,
        task: String,
    },
}

/// Titles by ids; a task's id stands behind its issue's.
#[derive(Debug, Default)]
pub(crate) struct Titles(BTreeMap<String, String>);

impl Titles {
    /// A thread as people read it.
    pub(crate) fn mail(&self, id: &str) -> String {
        self.with_title(id, line(id).chars().take(8).collect())
    }

    pub(crate) fn issue(&self, id: &str) -> String {
        self.with_title(id, id_tail(id))
    }

    pub(crate) fn task(&self, issue: &str, task: &str) -> String {
        self.with_title(&task_key(issue, task), task_name(issue, task))
    }

    /// The short id, and the title where it is known.
    fn with_title(&self, key: &str, short: String) -> String {
        match self.0.get(key).map(|title| fitted(title, TITLE_CHARS_MAX)) {
            Some(title) if !title.is_empty() => format!("{short} “{title}”"),
            Some(_) | None => short,
        }
    }

    #[cfg(test)]
    pub(crate) fn of(titles: &[(&str, &str)]) -> Self {
        Self(titles.iter().map(|(id, title)| ((*id).to_owned(), (*title).to_owned())).collect())
    }
}

/// The last part of an id, which names it to people.
pub(crate) fn id_tail(id: &str) -> String {
    line(id.rsplit('_').next().unwrap_or(id))
}

/// A task by the last part of its issue's id and its number.
pub(crate) fn task_name(issue: &str, task: &str) -> String {
    format!("{}/{}", id_tail(issue), line(task.trim_start_matches("task-")))
}

fn task_key(issue: &str, task: &str) -> String {
    format!("{issue}/{task}")
}

/// Asks a broker for titles.
#[derive(Debug)]
pub(crate) struct TitleClient {
    broker: Broker,
    sealer: Sealer,
    /// Those that were asked for and not told.
    unknown: BTreeSet<String>,
    pub(crate) titles: Titles,
}

impl TitleClient {
    pub(crate) fn new(broker: &Broker, config: &Config) -> Self {
        let sealer = Sealer::new(&config.data.value, broker.workspace());
        let (unknown, titles) = (BTreeSet::new(), Titles::default());
        Self { broker: broker.clone(), sealer, unknown, titles }
    }

    /// Learns what the things are called that these events are about.
    pub(crate) async fn learn(&mut self, events: &[wire::Event]) {
        for named in events.iter().flat_map(named) {
            self.ask_once(named).await;
        }
    }

    pub(crate) async fn learn_task(&mut self, issue: &str, task: &str) {
        self.ask_once(Named::Task { issue: issue.to_owned(), task: task.to_owned() }).await;
    }

    async fn ask_once(&mut self, named: Named) {
        let key = match &named {
            Named::Mail { id, .. } | Named::Issue(id) => id.clone(),
            Named::Task { issue, task } => task_key(issue, task),
        };
        if self.titles.0.contains_key(&key) || self.unknown.contains(&key) {
            return;
        }
        if KEPT_MAX <= self.titles.0.len() + self.unknown.len() {
            self.titles.0.clear();
            self.unknown.clear();
        }
        match self.ask(named).await {
            Some(title) => drop(self.titles.0.insert(key, title)),
            None => drop(self.unknown.insert(key)),
        }
    }

    async fn ask(&self, named: Named) -> Option<String> {
        match named {
            Named::Mail { id, role } => {
                let request = wire::ReadThreadRequest {
                    role,
                    message: id,
                    from: 1,
                    last: 1,
                    mark: MailMark::None.into(),
                    ..Default::default()
                };
                let mut read = self.broker.call(&request).await.ok()?;
                let mut thread = read.thread?;
                let asking = Asking::new(&self.broker);
                self.sealer.open_thread(&asking, &mut thread, &mut read.entries).await;
                Some(thread.subject)
            }
            Named::Issue(issue_id) => {
                let request = wire::GetIssueRequest { issue_id, ..Default::default() };
                Some(self.broker.call(&request).await.ok()?.issue?.subject)
            }
            Named::Task { issue, task } => {
                let request =
                    wire::GetTaskRequest { issue_id: issue, task_id: task, ..Default::default() };
                Some(self.broker.call(&request).await.ok()?.task?.subject)
            }
        }
    }
}

/// What an event is about that has a title.
fn named(event: &wire::Event) -> Vec<Named> {
    let mail = |id: &String, role: Option<&String>| {
        let role = role.cloned();
        role.map(|role| Named::Mail { id: id.clone(), role }).into_iter().collect()
    };
    let of_issue = |issue: &String, task: &str| match (issue.as_str(), task) {
        ("", _) => Vec::new(),
        (_, "") => vec![Named::Issue(issue.clone())],
        (_, task) => vec![Named::Task { issue: issue.clone(), task: task.to_owned() }],
    };
    match &event.noun {
        Some(Noun::Mail(wire::MailEvent { kind: Some(kind) })) => {
            use mail_event::Kind;
            match kind {
                Kind::MailSent(e) => mail(&e.message_id, Some(&e.sender)),
                Kind::MailMoved(e) => mail(&e.message_id, Some(&e.role)),
                Kind::MailMarked(e) => mail(&e.message_id, Some(&e.role)),
                Kind::MailLapsed(e) => mail(&e.message_id, e.roles.first()),
                Kind::MailDied(e) => mail(&e.message_id, Some(&e.role)),
                Kind::MailImported(e) => mail(&e.message_id, e.participants.first()),
                Kind::MailboxOpened(_) | Kind::MailboxClosed(_) => Vec::new(),
            }
        }
        Some(Noun::Swarm(wire::SwarmEvent { kind: Some(kind) })) => {
            use swarm_event::Kind;
            match kind {
                Kind::IssueChanged(e) => of_issue(&e.issue_id, &e.task_id),
                Kind::ItemsHanded(e) => of_issue(&e.issue_id, ""),
                Kind::FilesLocked(e) => of_issue(&e.issue_id, &e.task_id),
                Kind::WorkerRegistered(_)
                | Kind::SharedDocWritten(_)
                | Kind::FilesUnlocked(_)
                | Kind::SwarmSettingsSet(_) => Vec::new(),
            }
        }
        Some(
            Noun::Directory(_)
            | Noun::Turn(_)
            | Noun::Privacy(_)
            | Noun::Run(_)
            | Noun::Guard(_)
            | Noun::Call(_)
            | Noun::Board(_)
            | Noun::Pipeline(_)
            | Noun::Mail(wire::MailEvent { kind: None })
            | Noun::Swarm(wire::SwarmEvent { kind: None }),
        )
        | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_called_by_its_title_where_it_is_known() {
        let long = "x".repeat(200);
        let whole = format!("00af/3 “{long}”");
        let titles = Titles::of(&[
            ("ded66c6a-58c1-47f4-916e-13787156f665", "API \u{1b}[31mslow\nagain"),
            ("issue_1700000000000_00af", "Mend it"),
            ("issue_1700000000000_00af/task-3", &long),
            ("issue_1700000000000_00b0", ""),
        ]);
        for (said, expected) in [
            (titles.mail("ded66c6a-58c1-47f4-916e-13787156f665"), "ded66c6a “API slow again”"),
            (titles.mail("00000000-58c1-47f4-916e-13787156f665"), "00000000"),
            (titles.issue("issue_1700000000000_00af"), "00af “Mend it”"),
            (titles.issue("issue_1700000000000_00b0"), "00b0"),
            (titles.task("issue_1700000000000_00af", "task-3"), whole.as_str()),
            (titles.task("issue_1700000000000_00af", "task-4"), "00af/4"),
        ] {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn an_event_names_what_it_is_about() {
        let sent = wire::MailSent {
            message_id: "m".into(),
            sender: "A".into(),
            receivers: vec!["B".into()],
            ..Default::default()
        };
        let changed = wire::IssueChanged {
            issue_id: "i".into(),
            task_id: "task-1".into(),
            ..Default::default()
        };
        let mail = Noun::Mail(wire::MailEvent { kind: Some(mail_event::Kind::MailSent(sent)) });
        let swarm =
            |e| Noun::Swarm(wire::SwarmEvent { kind: Some(swarm_event::Kind::IssueChanged(e)) });
        let bare = wire::IssueChanged { task_id: String::new(), ..changed.clone() };
        for (noun, expected) in [
            (Some(mail), vec![Named::Mail { id: "m".into(), role: "A".into() }]),
            (Some(swarm(changed)), vec![Named::Task { issue: "i".into(), task: "task-1".into() }]),
            (Some(swarm(bare)), vec![Named::Issue("i".into())]),
            (Some(Noun::Turn(Default::default())), vec![]),
            (None, vec![]),
        ] {
            assert_eq!(named(&wire::Event { noun }), expected);
        }
    }
}
