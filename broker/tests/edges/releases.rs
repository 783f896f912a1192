//! The data directory of each release, opened by this one: `tests/data/make-data-directory.sh` made
//! them. Time went on since, so only what no time ends is looked at.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use tasuki_proto::wire::{self, mailbox_client::MailboxClient, swarm_client::SwarmClient};

use crate::{
    backup::{back_up, restored},
    export,
    support::{Process, assert_whole, caller, channel, history, turns},
};

fn archives() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let files = fs::read_dir(data).unwrap().map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "gz")).collect()
}

#[tokio::test]
async fn the_data_directory_of_each_release_is_opened_with_all_that_is_in_it() {
    let archives = archives();
    assert!(!archives.is_empty());
    for archive in archives {
        let name = archive.file_name().unwrap().to_str().unwrap();
        let version = name.strip_prefix("data-").unwrap().strip_suffix(".tar.gz").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("file.backup"));
        fs::create_dir(&data).unwrap();
        let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&data).status();
        assert!(unpacked.unwrap().success());
        assert_whole(&data).await;
        let (broker, address) = Process::served(&data).await;
        check(address, version).await;
        broker.kill().await;
        assert_whole(&data).await;
        // So it is after a detour.
        back_up(&data, &file).await;
        let copy = dir.path().join("copy");
        restored(&file, &copy).await;
        let (broker, address) = Process::served(&copy).await;
        check(address, version).await;
        broker.kill().await;
        // And as lines.
        let (file, imported) = (dir.path().join("file.jsonl"), dir.path().join("imported"));
        export::export(&data, &file).await;
        export::imported(&file, &imported).await;
        let (broker, address) = Process::served(&imported).await;
        check(address, version).await;
        broker.kill().await;
        let (again, copy) = (dir.path().join("again.jsonl"), dir.path().join("again"));
        export::export(&imported, &again).await;
        export::imported(&again, &copy).await;
        let third = dir.path().join("third.jsonl");
        export::export(&copy, &third).await;
        assert_eq!(export::kept(&again), export::kept(&third));
        let texts = |file| export::kept(file).into_iter().filter(|it| it.get("text").is_some());
        assert!(texts(&file).eq(texts(&third)));
    }
}

async fn check(address: SocketAddr, version: &str) {
    let line = ("default".to_owned(), "main".to_owned());
    let entries = history(&mut turns(address), &line).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].summary, "the schema is written");
    assert_eq!(entries[0].instruction, "review it");

    let mut mail = MailboxClient::new(channel(address));
    let asked = wire::ListBoxRequest {
        role: "B".to_owned(),
        r#box: wire::Box::Inbox.into(),
        ..Default::default()
    };
    let listed = mail.list_box(asked).await.unwrap().into_inner().threads;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].subject, "the first letter");
    let asked = wire::ReadThreadRequest {
        role: "B".to_owned(),
        message: listed[0].message_id.clone(),
        ..Default::default()
    };
    let read = mail.read_thread(asked).await.unwrap().into_inner();
    assert_eq!(read.entries[0].text, format!("sent by {version}"));

    let mut swarm = SwarmClient::new(channel(address));
    let asked = wire::ListIssuesRequest { caller: caller("default"), ..Default::default() };
    let issues = swarm.list_issues(asked).await.unwrap().into_inner().issues;
    assert_eq!(issues.len(), 1, "{issues:?}");
    assert_eq!(
        (issues[0].subject.as_str(), issues[0].lead.as_str()),
        ("Build the importer", "lead")
    );
    let issue_id = issues[0].issue_id.clone();
    let asked =
        wire::GetHistoryRequest { caller: caller("default"), issue_id, ..Default::default() };
    let told = swarm.get_history(asked).await.unwrap().into_inner().entries;
    let kinds: Vec<&str> = told.iter().take(4).map(|it| it.r#type.as_str()).collect();
    let expected =
        ["issue_created", "issue_task_created", "issue_task_created", "issue_task_claimed"];
    assert_eq!(kinds, expected);
    let asked = wire::ReadDocRequest {
        caller: caller("default"),
        place: None,
        name: "notes".to_owned(),
        version: 0,
    };
    let doc = swarm.read_doc(asked).await.unwrap().into_inner();
    assert_eq!(doc.content, format!("kept since {version}\n"));
}
