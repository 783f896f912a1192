//! A project whose mailboxes are files, and a broker to send mail with.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::wire::{self, mailbox_client::MailboxClient};
use tokio::time;
use tonic::transport::Channel;

use crate::process::{PATIENCE, Process};

/// Between two looks at what is waited for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Place {
    pub(crate) root: tempfile::TempDir,
    pub(crate) up: Process,
    counter: AtomicU64,
}

impl Place {
    /// With these roles, `--role qa --role dev`.
    pub(crate) async fn new(roles: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("tasuki.toml"), "mirror = true\n").unwrap();
        let up = Process::up(&data, roles).await;
        let place = Self { root, up, counter: AtomicU64::new(0) };
        place.until_hosted(roles.split("--role ").skip(1).count()).await;
        place
    }

    /// Until the node has registered so many roles: before, nobody can write to them.
    async fn until_hosted(&self, roles: usize) {
        let mut office = self.office().await;
        let registering = async {
            loop {
                let request = wire::ListMailboxesRequest { caller: Some(caller()) };
                let all = office.list_mailboxes(request).await.unwrap().into_inner().mailboxes;
                if roles <= all.iter().filter(|it| !it.node.is_empty()).count() {
                    break;
                }
                time::sleep(LOOK_EVERY).await;
            }
        };
        time::timeout(PATIENCE, registering).await.expect("the node registers");
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join("docs/mailbox").join(path)
    }

    async fn office(&self) -> MailboxClient<Channel> {
        MailboxClient::connect(format!("http://{}", self.up.broker.unwrap())).await.unwrap()
    }

    fn key(&self) -> Option<wire::IdempotencyKey> {
        let counter = 1 + self.counter.fetch_add(1, Ordering::Relaxed);
        Some(wire::IdempotencyKey { client_id: "somebody".into(), counter })
    }

    /// A letter; its thread. Who answers has read what is answered.
    pub(crate) async fn send(&self, from: &str, to: &str, answers: &str, text: &str) -> String {
        if !answers.is_empty() {
            let request = wire::ReadThreadRequest {
                caller: Some(caller()),
                role: from.into(),
                message: answers.into(),
                ..Default::default()
            };
            self.office().await.read_thread(request).await.unwrap();
        }
        let request = wire::SendRequest {
            caller: Some(caller()),
            key: self.key(),
            role: from.into(),
            to: vec![to.into()],
            r#type: if answers.is_empty() { "BR" } else { "ACK" }.into(),
            subject: if answers.is_empty() { "Slow!".into() } else { String::new() },
            text: text.into(),
            in_reply_to: answers.into(),
            ..Default::default()
        };
        self.office().await.send(request).await.unwrap().into_inner().message_id
    }

    pub(crate) async fn resolve(&self, role: &str, message: &str) {
        let request = wire::MoveRequest {
            caller: Some(caller()),
            key: self.key(),
            role: role.into(),
            messages: vec![message.into()],
            to: wire::Box::Done.into(),
        };
        let moved = self.office().await.r#move(request).await.unwrap().into_inner().moved;
        assert_eq!(moved[0].refusal, None);
    }

    /// All entries that a role has, as `SENDER: TEXT`.
    pub(crate) async fn texts(&self, role: &str) -> Vec<String> {
        let mut office = self.office().await;
        let mut all = Vec::new();
        let mut threads = Vec::new();
        for kind in [wire::Box::Inbox, wire::Box::Outbox, wire::Box::Done] {
            let mut request = wire::ListBoxRequest {
                caller: Some(caller()),
                role: role.into(),
                r#box: kind.into(),
                ..Default::default()
            };
            loop {
                let page = office.list_box(request.clone()).await.unwrap().into_inner();
                threads.extend(page.threads.into_iter().map(|it| it.message_id));
                if page.next.is_empty() {
                    break;
                }
                request.after = page.next;
            }
        }
        for message in threads {
            let mut request = wire::ReadThreadRequest {
                caller: Some(caller()),
                role: role.into(),
                message,
                from: 1,
                mark: wire::MailMark::None.into(),
                ..Default::default()
            };
            while request.from != 0 {
                let page = office.read_thread(request.clone()).await.unwrap().into_inner();
                all.extend(page.entries.iter().map(|it| format!("{}: {}", it.sender, it.text)));
                request.from = page.next;
            }
        }
        all
    }

    pub(crate) fn put(&self, path: &str, content: &str) {
        fs::write(self.path(path), content).unwrap();
    }

    /// Every file by its path, with ids and times replaced; those of threads are called by their
    /// titles.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        collect(&self.path(""), "", &mut all);
        all
    }

    pub(crate) fn names(&self) -> String {
        self.files().into_keys().collect::<Vec<_>>().join(" ")
    }

    pub(crate) async fn until(&self, expected: &str) {
        let is_so = || self.names() == expected;
        let log = self.up.log();
        assert!(until(is_so).await, "{} instead of {expected}\n{log}", self.names());
    }

    /// What is told of each mailbox.
    pub(crate) async fn status(&self) -> Vec<Value> {
        let told = self.up.json("mirror status").await;
        told[0]["mailboxes"].as_array().unwrap().clone()
    }
}

fn caller() -> wire::Caller {
    wire::Caller { workspace: "default".into(), ..Default::default() }
}

pub(crate) async fn until(is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !is_so() {
            time::sleep(LOOK_EVERY).await;
        }
    };
    time::timeout(PATIENCE, waiting).await.is_ok()
}

fn collect(folder: &Path, before: &str, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, &format!("{before}{name}/"), all);
        } else if let Ok(content) = fs::read_to_string(&path) {
            all.insert(format!("{before}{}", plain(&name)), masked(&content));
        }
    }
}

/// `2026-11-22_0937-BR-slow-ded66c6a.md` is `slow.md`.
fn plain(name: &str) -> String {
    if name.starts_with('.') {
        // Of a change that is under way.
        return name.to_owned();
    }
    let Some((_, rest)) = name.split_once("-BR-") else { return name.to_owned() };
    let (title, rest) = rest.rsplit_once('-').unwrap();
    format!("{title}{}", &rest[8..])
}

fn masked(content: &str) -> String {
    let lines = content.split('\n').map(|line| match line.split_once(":** ") {
        Some(("**Message ID", _)) => "**Message ID:** ID".to_owned(),
        Some(("**Timestamp", _)) => "**Timestamp:** TIME".to_owned(),
        _ => match line.strip_prefix("## ").and_then(|it| it.split_once(" - ")) {
            Some((_, rest)) => format!("## TIME - {rest}"),
            None => line.to_owned(),
        },
    });
    lines.collect::<Vec<_>>().join("\n")
}
