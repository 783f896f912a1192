//! A full disk: the broker ends rather than claim what it cannot keep, and nothing of what it said
//! is lost.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use tasuki_proto::wire::{self, mailbox_client::MailboxClient, put_attachment_request::Part};
use tokio_stream::StreamExt as _;
use tonic::{Status, transport::Channel};

use crate::support::{
    Process, assert_whole, channel, check_all, key, play_all, players, reason, soon,
};

/// A small disk; unmounted when dropped.
pub(crate) struct SmallDisk(tempfile::TempDir);

fn run(command: &str, arguments: &[&str], dir: &Path) -> Result<(), String> {
    let output = Command::new(command).args(arguments).arg(dir).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl SmallDisk {
    pub(crate) fn mount(mib: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m,mode=700");
        run("mount", &["-t", "tmpfs", "-o", &size, "tasuki-test"], dir.path()).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Fills it, but for so many bytes.
    pub(crate) fn fill_but(&self, bytes: u64) {
        let disk = rustix::fs::statvfs(self.0.path()).unwrap();
        let fill = disk.f_bavail * disk.f_frsize - bytes;
        let fill = vec![1; usize::try_from(fill).unwrap()];
        std::fs::write(self.0.path().join("fill"), fill).unwrap();
    }

    pub(crate) fn grow(&self) {
        run("mount", &["-o", "remount,size=200m"], self.0.path()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run("umount", &["-l"], self.0.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs small disks: it mounts one"]
async fn a_full_disk_ends_the_broker_and_loses_nothing() {
    let disk = SmallDisk::mount(20);
    let data = disk.path().join("data");
    let mut players = players(&["one", "two"], 4);
    let (broker, address) = Process::served(&data).await;
    play_all(address, &mut players, u64::MAX, || ()).await;
    let ended = broker.ended().await;
    assert_eq!(ended.code, Some(74), "{}", ended.log);
    assert!(ended.log.contains("No space left"), "{}", ended.log);
    assert!(players.values().map(|it| it.acknowledged).sum::<u64>() > 100, "{players:?}");

    // It does not pretend to start, either.
    let again = Process::serve(&data).ended_or_listening().await;
    disk.grow();
    if let Some(ended) = again {
        assert_eq!(ended.code, Some(69), "{}", ended.log);
    }
    let (broker, address) = Process::served(&data).await;
    check_all(address, &players).await.unwrap();
    broker.kill().await;
    assert_whole(&data).await;
}

/// Each letter of the test below has a file of so many bytes attached.
const FILE_BYTES: usize = 1024 * 1024;

/// Somebody who sends letters with files, and knows which were stored.
struct Sender {
    mail: MailboxClient<Channel>,
    counter: u64,
    /// Threads by the number of their letter.
    stored: BTreeMap<u64, String>,
}

/// Of a letter: no two are alike, and none can be made shorter.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn hash(number: u64) -> String {
    blake3::hash(&content(number)).to_hex().to_string()
}

impl Sender {
    fn at(address: SocketAddr) -> Self {
        Self { mail: MailboxClient::new(channel(address)), counter: 0, stored: BTreeMap::new() }
    }

    async fn put(&mut self, number: u64) -> Result<(), Status> {
        let head = wire::PutAttachmentHead {
            role: "A".to_owned(),
            size: FILE_BYTES as u64,
            hash: hash(number),
            ..Default::default()
        };
        let chunks: Vec<Vec<u8>> = content(number).chunks(200_000).map(<[u8]>::to_vec).collect();
        let parts = [Part::Head(head)].into_iter().chain(chunks.into_iter().map(Part::Chunk));
        let parts = parts.map(|it| wire::PutAttachmentRequest { part: Some(it) });
        let parts = tokio_stream::iter(parts.collect::<Vec<_>>());
        self.mail.put_attachment(parts).await.map(|_| ())
    }

    /// A letter under the key that its number is.
    async fn send(&mut self, number: u64) -> Result<(), Status> {
        self.put(number).await?;
        let attachment = wire::Attachment {
            name: "core.dump".to_owned(),
            media_type: "application/octet-stream".to_owned(),
            size: FILE_BYTES as u64,
            hash: hash(number),
        };
        let letter = wire::SendRequest {
            key: key("sender", number),
            role: "A".to_owned(),
            to: vec!["B".to_owned()],
            r#type: "BR".to_owned(),
            subject: format!("letter {number}"),
            text: "see the file".to_owned(),
            attachments: vec![attachment],
            ..wire::SendRequest::default()
        };
        let sent = self.mail.send(letter).await?.into_inner();
        self.stored.insert(number, sent.message_id);
        Ok(())
    }

    /// The numbers of the letters that are there, and each with its file.
    async fn check(&mut self) -> Vec<u64> {
        let request = wire::ListBoxRequest {
            role: "B".to_owned(),
            r#box: wire::Box::Inbox.into(),
            ..Default::default()
        };
        let listed = self.mail.list_box(request).await.unwrap().into_inner();
        let mut numbers = Vec::new();
        for thread in listed.threads {
            let number: u64 = thread.subject.strip_prefix("letter ").unwrap().parse().unwrap();
            let told = self.stored.get(&number);
            assert!(told.is_none_or(|id| *id == thread.message_id), "{thread:?}");
            let get = wire::GetAttachmentRequest {
                role: "B".to_owned(),
                message: thread.message_id,
                hash: hash(number),
                ..Default::default()
            };
            let mut chunks = self.mail.get_attachment(get).await.unwrap().into_inner();
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.next().await {
                bytes.extend(chunk.unwrap().chunk);
            }
            assert!(bytes == content(number), "the file of letter {number} is another");
            numbers.push(number);
        }
        numbers
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs small disks: it mounts one"]
async fn mail_with_files_fills_the_disk_and_what_was_stored_is_there_when_there_is_room() {
    let disk = SmallDisk::mount(32);
    let data = disk.path().join("data");
    let (broker, address) = Process::served(&data).await;
    let mut sender = Sender::at(address);
    let filling = async {
        loop {
            sender.counter += 1;
            if let Err(why) = sender.send(sender.counter).await {
                return why;
            }
        }
    };
    let why = soon("a full disk", filling).await;
    // Nobody is told that it was stored, nor that it certainly was not; but at once, and why.
    assert_eq!(reason(&why), "outcome_unknown", "{why:?}");
    let words = why.message();
    assert!(words.contains("No space left") && words.contains("is unknown"), "{words}");
    let ended = broker.ended().await;
    assert_eq!(ended.code, Some(74), "{}", ended.log);
    assert!(ended.log.contains("No space left"), "{}", ended.log);
    let acknowledged: Vec<u64> = sender.stored.keys().copied().collect();
    assert!(2 < acknowledged.len(), "{acknowledged:?}");

    disk.grow();
    let (broker, address) = Process::served(&data).await;
    sender.mail = MailboxClient::new(channel(address));
    let numbers = sender.check().await;
    let at_most_one_more: Vec<u64> = (1..=sender.counter).collect();
    assert!(numbers == acknowledged || numbers == at_most_one_more, "{numbers:?}");
    // The one of which nobody knew is said again under its key, and all goes on.
    for number in [sender.counter, sender.counter + 1] {
        sender.send(number).await.unwrap();
    }
    assert_eq!(sender.check().await, (1..=sender.counter + 1).collect::<Vec<_>>());
    broker.kill().await;
    assert_whole(&data).await;
}

/// A broker whose log has no room does not begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs small disks: it mounts one"]
async fn a_disk_without_room_for_the_log_is_refused_with_what_it_needs() {
    let disk = SmallDisk::mount(7);
    let data = disk.path().join("data");
    let ended = Process::serve(&data).ended().await;
    assert_eq!(ended.code, Some(69), "{}", ended.log);
    let needs = "it needs 8 MiB: free some space on that disk and try again";
    assert!(ended.log.contains(needs), "{}", ended.log);
    disk.grow();
    let (broker, _) = Process::served(&data).await;
    broker.kill().await;
}

/// The index has a disk of its own that is full: what is searched may be behind, mail is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs small disks: it mounts one"]
async fn a_full_disk_under_the_index_stops_no_mail() {
    const LETTERS: u64 = 300;
    let disk = SmallDisk::mount(1);
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("broker").join("search");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(disk.path(), &folder).unwrap();
    // No byte is left on it.
    let fill = std::fs::write(disk.path().join("fill"), vec![1; 2 * 1024 * 1024]);
    assert!(fill.is_err());
    let (broker, address) = Process::served(data.path()).await;
    let mut mail = MailboxClient::new(channel(address));
    let search = || wire::SearchMailRequest {
        role: "B".to_owned(),
        query: "needle".to_owned(),
        ..Default::default()
    };
    for number in 1..=LETTERS {
        let letter = wire::SendRequest {
            key: key("sender", number),
            role: "A".to_owned(),
            to: vec!["B".to_owned()],
            r#type: "BR".to_owned(),
            subject: format!("letter {number}"),
            text: "a needle".to_owned(),
            ..wire::SendRequest::default()
        };
        mail.send(letter).await.unwrap();
        if number % 100 == 1 {
            let why = mail.search_mail(search()).await.unwrap_err();
            assert_eq!(reason(&why), "unavailable", "{why:?}");
            assert!(why.message().contains("mail cannot be searched"), "{}", why.message());
        }
    }
    std::fs::remove_file(disk.path().join("fill")).unwrap();
    disk.grow();
    let finding = async {
        loop {
            match mail.search_mail(search()).await {
                Ok(found) if found.get_ref().total == LETTERS => return,
                Ok(_) => {}
                Err(why) => assert_eq!(reason(&why), "unavailable", "{why:?}"),
            }
        }
    };
    soon("an index of all", finding).await;
    broker.kill().await;
}
