//! Mail that is found by its words, by who may read it, and by nobody else; whatever became of the
//! index meanwhile.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tasuki_proto::wire::{self, mailbox_client::MailboxClient};
use tempfile::TempDir;
use tonic::{Status, transport::Channel};

use crate::support::{Process, caller, channel, key, reason, run, soon};

struct Mail {
    client: MailboxClient<Channel>,
    counter: u64,
}

impl Mail {
    fn at(address: SocketAddr, counter: u64) -> Self {
        Self { client: MailboxClient::new(channel(address)), counter }
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        key("searcher", self.counter)
    }

    async fn open(&mut self, roles: &[&str]) {
        for role in roles {
            let request = wire::OpenMailboxRequest {
                caller: caller("default"),
                key: self.key(),
                role: (*role).to_owned(),
            };
            self.client.open_mailbox(request).await.unwrap();
        }
    }

    async fn send(
        &mut self,
        from: &str,
        to: &str,
        subject: &str,
        text: &str,
    ) -> wire::SendResponse {
        self.send_as(wire::SendRequest {
            role: from.to_owned(),
            to: vec![to.to_owned()],
            r#type: "INFO".to_owned(),
            subject: subject.to_owned(),
            text: text.to_owned(),
            ..wire::SendRequest::default()
        })
        .await
    }

    async fn answer(&mut self, thread: &str, from: &str, to: &[&str], text: &str) -> u64 {
        let sent = self.send_as(wire::SendRequest {
            role: from.to_owned(),
            to: to.iter().map(|it| (*it).to_owned()).collect(),
            r#type: "ACK".to_owned(),
            text: text.to_owned(),
            in_reply_to: thread.to_owned(),
            ..wire::SendRequest::default()
        });
        sent.await.sequence
    }

    async fn send_as(&mut self, request: wire::SendRequest) -> wire::SendResponse {
        let request = wire::SendRequest { caller: caller("default"), key: self.key(), ..request };
        self.client.send(request).await.unwrap().into_inner()
    }

    async fn ask(
        &mut self,
        request: wire::SearchMailRequest,
    ) -> Result<wire::SearchMailResponse, Status> {
        let request = wire::SearchMailRequest { caller: caller("default"), ..request };
        Ok(self.client.search_mail(request).await?.into_inner())
    }

    /// Asks until there is an index.
    async fn found(&mut self, request: wire::SearchMailRequest) -> wire::SearchMailResponse {
        let searching = async {
            loop {
                match self.ask(request.clone()).await {
                    Ok(found) => return found,
                    // Each attempt waits by itself.
                    Err(status) => assert_eq!(reason(&status), "unavailable", "{status:?}"),
                }
            }
        };
        soon("an index", searching).await
    }

    /// What `role` finds in an index that has the record `include`: thread, entry, excerpt.
    async fn finds(&mut self, role: &str, query: &str, include: u64) -> Vec<(String, u32, String)> {
        let found = self.found(search(role, query, include)).await;
        assert!(include <= found.through_sequence);
        assert_eq!(found.total, found.hits.len() as u64);
        let mut hits: Vec<_> = found
            .hits
            .into_iter()
            .map(|it| (it.thread.unwrap().message_id, it.entry, it.excerpt))
            .collect();
        hits.sort();
        hits
    }

    async fn counts(&mut self, role: &str, query: &str, include: u64) -> u64 {
        self.found(search(role, query, include)).await.total
    }
}

fn search(role: &str, query: &str, include: u64) -> wire::SearchMailRequest {
    wire::SearchMailRequest {
        role: role.to_owned(),
        query: query.to_owned(),
        include_sequence: include,
        ..wire::SearchMailRequest::default()
    }
}

fn index_of(data: &Path) -> PathBuf {
    data.join("broker").join("search").join("default")
}

/// Up to which record an index says that it goes; `None`: it is not made yet.
fn indexed_through(data: &Path) -> Option<u64> {
    let meta = fs::read(index_of(data).join("meta.json")).ok()?;
    let meta: serde_json::Value = serde_json::from_slice(&meta).ok()?;
    meta["payload"].as_str()?.split(' ').nth(2)?.parse().ok()
}

async fn until_indexed(data: &Path, through: u64) {
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    let indexing = async {
        while indexed_through(data).is_none_or(|it| it < through) {
            pause.tick().await;
        }
    };
    soon("an index on the disk", indexing).await;
}

async fn stop(broker: Process) {
    broker.terminate();
    let ended = broker.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

#[tokio::test]
async fn mail_is_found_by_those_who_have_a_copy() {
    let data = TempDir::new().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev", "ops"]).await;
    let bug = mail.send("qa", "dev", "Login fails", "parseHttpHeader 修复登录页面的错误 now").await;
    let other = mail.send("qa", "ops", "Disk", "the disk is full of parse errors").await;
    let last = other.sequence;
    let thread = bug.message_id.clone();
    let text = "parseHttpHeader 修复登录页面的错误 now".to_owned();
    for query in ["login", "http_header", "登录页", "错", "\"parse http\"", "type:info -disk"] {
        let hit = (thread.clone(), 1, text.clone());
        assert_eq!(mail.finds("dev", query, last).await, [hit], "{query}");
    }
    assert_eq!(mail.counts("qa", "parse", last).await, 2);
    assert_eq!(mail.counts("dev", "disk", last).await, 0);
    assert_eq!(mail.counts("nobody", "login", last).await, 0);

    // What matched, to the byte.
    let found = mail.found(search("dev", "登录页", last)).await;
    let hit = &found.hits[0];
    let [from, to] = hit.highlights[..] else { panic!("{hit:?}") };
    assert_eq!(&hit.excerpt[from as usize..to as usize], "登录页");
    assert_eq!((hit.sender.as_str(), hit.r#type.as_str()), ("qa", "INFO"));

    // An answer is found at once by who sent it, and who joins finds all there was.
    let sequence = mail.answer(&thread, "dev", &["qa"], "fixed the regression").await;
    let hit = (thread.clone(), 2, "fixed the regression".to_owned());
    assert_eq!(mail.finds("qa", "regression", sequence).await, [hit]);
    assert_eq!(mail.counts("ops", "login", sequence).await, 0);
    let sequence = mail.answer(&thread, "qa", &["dev", "ops"], "please deploy").await;
    assert_eq!(mail.counts("ops", "subject:login", sequence).await, 3);
    assert_eq!(mail.counts("dev", "subject:login", sequence).await, 3);
    stop(broker).await;
}

#[tokio::test]
async fn a_search_is_narrowed_down_and_refused_with_words() {
    let data = TempDir::new().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev"]).await;
    let first = mail.send("qa", "dev", "one", "same words").await;
    let second = mail.send("dev", "qa", "two", "same words").await;
    let last = second.sequence;
    let narrowed = |change: fn(&mut wire::SearchMailRequest)| {
        let mut request = search("dev", "same", last);
        change(&mut request);
        request
    };
    for (request, total) in [
        (narrowed(|_| {}), 2),
        (narrowed(|it| it.set_box(wire::Box::Inbox)), 1),
        (narrowed(|it| it.set_box(wire::Box::Done)), 0),
        (narrowed(|it| it.sender = "qa".to_owned()), 1),
        (narrowed(|it| it.r#type = "INFO".to_owned()), 2),
        (narrowed(|it| it.r#type = "BR".to_owned()), 0),
        (narrowed(|it| it.since_ms = u64::MAX), 0),
        (narrowed(|it| it.until_ms = 1), 0),
        (search("dev", &format!("thread:{}", &first.message_id[..8]), last), 1),
        (search("dev", &format!("same -thread:{}", first.message_id), last), 1),
        // A sequence of another journal is not waited for.
        (search("dev", "same", u64::MAX), 2),
    ] {
        let found = mail.found(request.clone()).await;
        assert_eq!(found.total, total, "{request:?}");
        assert_eq!(found.hits.len() as u64, total, "{request:?}");
    }
    let moving = wire::MoveRequest {
        caller: caller("default"),
        key: mail.key(),
        role: "dev".to_owned(),
        messages: vec![first.message_id.clone()],
        to: wire::Box::Done.into(),
    };
    mail.client.r#move(moving).await.unwrap();
    assert_eq!(mail.found(narrowed(|it| it.set_box(wire::Box::Done))).await.total, 1);
    for (query, why) in [
        ("", "query \"\" has nothing that can be searched for"),
        ("a*", "query has \"a*\", which begins too many words"),
        ("thread:x", "query has thread:x, which begins no message id"),
    ] {
        let status = mail.ask(search("dev", query, 0)).await.unwrap_err();
        assert_eq!(reason(&status), "invalid_argument");
        assert!(status.message().starts_with(why), "{}", status.message());
    }
    stop(broker).await;
}

/// The index is made from the first mail on, and a broker that was killed goes on with it.
#[tokio::test]
async fn mail_that_nobody_searches_is_indexed_all_the_same() {
    let data = TempDir::new().unwrap();
    let (mut broker, mut address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev"]).await;
    let first = mail.send("qa", "dev", "one", "needle").await;
    until_indexed(data.path(), first.sequence).await;
    let mut last = 0;
    for life in 0..3 {
        for number in 0..200 {
            last = mail.send("qa", "dev", &format!("{life} {number}"), "needle").await.sequence;
        }
        let counter = mail.counter;
        broker.kill().await;
        // One dies while it makes the index.
        if life == 1 {
            fs::remove_dir_all(index_of(data.path())).unwrap();
            let (begun, _) = Process::served(data.path()).await;
            let mut pause = tokio::time::interval(Duration::from_millis(1));
            let beginning = async {
                while !index_of(data.path()).join("meta.json").exists() {
                    pause.tick().await;
                }
            };
            soon("an index that is begun", beginning).await;
            begun.kill().await;
        }
        (broker, address) = Process::served(data.path()).await;
        // Nobody calls it.
        until_indexed(data.path(), last).await;
        mail = Mail::at(address, counter);
    }
    // The first search of all finds everything at once.
    assert_eq!(mail.ask(search("dev", "needle", last)).await.unwrap().total, 601);
    stop(broker).await;
}

/// Whatever became of the index while nobody looked: what is found is what is there.
#[tokio::test]
async fn an_index_that_is_old_damaged_or_gone_is_no_loss() {
    let data = TempDir::new().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev"]).await;
    let sent = mail.send("qa", "dev", "one", "needle").await;
    assert_eq!(mail.counts("dev", "needle", sent.sequence).await, 1);
    assert!(index_of(data.path()).join("meta.json").exists());
    let mut counter = mail.counter;
    let mut broker = broker;
    let mut threads = 1;
    let files = |data: &Path| -> Vec<PathBuf> {
        let mut all: Vec<_> =
            fs::read_dir(index_of(data)).unwrap().map(|it| it.unwrap().path()).collect();
        all.sort();
        all
    };
    type Harm<'a> = &'a dyn Fn(&Path);
    let whats: [(&str, Harm<'_>); 6] = [
        ("killed", &|_| {}),
        ("gone", &|data| fs::remove_dir_all(index_of(data)).unwrap()),
        ("cut off", &|data| {
            for file in files(data) {
                let half = fs::metadata(&file).unwrap().len() / 2;
                fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(half).unwrap();
            }
        }),
        ("flipped", &|data| {
            for file in
                files(data).iter().filter(|it| it.extension().is_some_and(|it| it != "json"))
            {
                let mut bytes = fs::read(file).unwrap();
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 0x10;
                }
                fs::write(file, bytes).unwrap();
            }
        }),
        ("a file", &|data| {
            fs::remove_dir_all(index_of(data)).unwrap();
            fs::write(index_of(data), "in the way").unwrap();
        }),
        ("without its pieces", &|data| {
            for file in
                files(data).iter().filter(|it| it.extension().is_some_and(|it| it == "term"))
            {
                fs::remove_file(file).unwrap();
            }
        }),
    ];
    for (what, harm) in whats {
        // The last one the index never saw, perhaps.
        let sent = mail.send("qa", "dev", what, "another needle").await;
        threads += 1;
        counter = mail.counter.max(counter);
        broker.kill().await;
        harm(data.path());
        let (started, address) = Process::served(data.path()).await;
        broker = started;
        mail = Mail::at(address, counter);
        assert_eq!(mail.counts("dev", "needle", sent.sequence).await, threads, "{what}");
        assert_eq!(mail.counts("nobody", "needle", sent.sequence).await, 0, "{what}");
    }
    stop(broker).await;
}

/// Where no index can be, searching says so, and mail goes on.
#[tokio::test]
async fn without_a_place_for_the_index_mail_goes_on() {
    let data = TempDir::new().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let folder = data.path().join("broker").join("search");
    fs::write(&folder, "in the way").unwrap();
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev"]).await;
    mail.send("qa", "dev", "one", "needle").await;
    let status = mail.ask(search("dev", "needle", 0)).await.unwrap_err();
    assert_eq!(reason(&status), "unavailable");
    assert!(status.message().starts_with("mail cannot be searched: "), "{}", status.message());
    let sent = mail.send("qa", "dev", "two", "needle").await;
    fs::remove_file(&folder).unwrap();
    assert_eq!(mail.counts("dev", "needle", sent.sequence).await, 2);
    stop(broker).await;
}

#[tokio::test]
async fn reindex_makes_it_anew() {
    let data = TempDir::new().unwrap();
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, 0);
    mail.open(&["qa", "dev"]).await;

    // Not below a running broker.
    let refused = run(&["reindex"], data.path()).await;
    assert_eq!(refused.code, Some(69), "{}", refused.log);
    assert!(refused.log.contains("is in use by another broker"), "{}", refused.log);
    stop(broker).await;

    // There is no mail yet.
    let none = run(&["reindex"], data.path()).await;
    assert_eq!((none.code, none.out.as_str()), (Some(0), "no workspace has an index\n"));
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = Mail::at(address, mail.counter);
    let sent = mail.send("qa", "dev", "one", "needle").await;
    stop(broker).await;
    let made = run(&["reindex", "--workspace", "default"], data.path()).await;
    assert_eq!((made.code, made.out.as_str()), (Some(0), "default: 1 entries\n"), "{}", made.log);
    let unknown = run(&["reindex", "--workspace", "x"], data.path()).await;
    assert_eq!(unknown.code, Some(2), "{}", unknown.log);
    assert!(unknown.log.contains("there is no workspace x"), "{}", unknown.log);
    let folder = index_of(data.path());
    let breaks: [(&str, &dyn Fn()); 4] = [
        ("no index", &|| fs::write(folder.join("meta.json"), "{}").unwrap()),
        ("half an index", &|| fs::remove_file(folder.join("meta.json")).unwrap()),
        ("half gone", &|| fs::rename(&folder, folder.with_added_extension("~gone")).unwrap()),
        ("a file", &|| {
            fs::remove_dir_all(&folder).unwrap();
            fs::write(&folder, "in the way").unwrap();
        }),
    ];
    for (what, breaks) in breaks {
        breaks();
        let again = run(&["reindex"], data.path()).await;
        let said = (again.code, again.out.as_str());
        assert_eq!(said, (Some(0), "default: 1 entries\n"), "{what}: {}", again.log);
    }

    let (broker, address) = Process::served(data.path()).await;
    let counter = mail.counter;
    let mut mail = Mail::at(address, counter);
    assert_eq!(mail.counts("dev", "needle", sent.sequence).await, 1);
    assert!(!broker.log().contains("made anew"), "{}", broker.log());
    stop(broker).await;
}
