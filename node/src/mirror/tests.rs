//! What people find in their folders, with an office that keeps the mail.

mod office;
mod untrusted;

use std::{fs, path::Path, time::Duration};

use tasuki_proto::mail::MessageId;
use tokio::sync::watch;

use self::office::Office;
use super::*;

/// What may take long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(3);

/// More changes on disk than any story here needs.
const STEPS_MAX: u64 = 200;

/// Two projects, and a mirror of them.
struct Bench {
    place: tempfile::TempDir,
    office: Arc<Office>,
    roots: watch::Sender<Roots>,
    mirror: Option<Mirror>,
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

impl Bench {
    /// Of roles and the projects they have, as `qa=p dev=q`.
    fn new(roles: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let (roots, _) = watch::channel(Roots::new());
        let bench = Self { place, office: Office::new(), roots, mirror: None };
        bench.have(roles);
        bench
    }

    fn have(&self, roles: &str) {
        let roots = roles.split(' ').map(|it| {
            let (name, project) = it.split_once('=').unwrap();
            let root = self.place.path().join(project);
            fs::create_dir_all(&root).unwrap();
            (role(name), root)
        });
        self.roots.send_replace(roots.collect());
    }

    fn start(&mut self) {
        self.mirror = Some(Mirror::start(Settings {
            data: self.place.path().join("data"),
            workspace: "w".parse().unwrap(),
            roots: self.roots.subscribe(),
            within: None,
            source: self.office.clone(),
            groups: Groups::from([
                ("crew".to_owned(), vec![role("dev"), role("qa")]),
                ("alone".to_owned(), vec![role("qa")]),
            ]),
        }));
    }

    async fn stop(&mut self) {
        if let Some(mirror) = self.mirror.take() {
            mirror.shutdown().await;
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Every file of a project's mailbox, ids of threads replaced by what their title is.
    fn told(&self, project: &str) -> String {
        let mut all = Vec::new();
        files(&self.path(project).join("docs/mailbox"), "", &mut all);
        all.sort();
        all.join(" ")
    }

    async fn until(&self, project: &str, expected: &str) {
        let is_so = || self.told(project) == expected;
        let waited = until(is_so).await;
        assert!(waited, "{} instead of {expected}; {:?}", self.told(project), self.report());
    }

    fn report(&self) -> Vec<Report> {
        self.mirror.as_ref().map(Mirror::report).unwrap_or_default()
    }

    async fn in_step(&self) {
        let is_so = || {
            let all = self.report();
            !all.is_empty() && all.iter().all(|it| it.synced_ms != 0 && it.waiting == 0)
        };
        assert!(until(is_so).await, "{:?}", self.report());
    }
}

async fn until(is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.is_ok()
}

fn files(folder: &Path, before: &str, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            files(&entry.path(), &format!("{before}{name}/"), all);
        } else {
            // 1970-01-01_0000-BR-TITLE-00000007.md
            let short = match name.split_once("-BR-") {
                Some((_, rest)) => match rest.split_once("-0000") {
                    Some((title, rest)) => format!("{title}{}", &rest[4..]),
                    None => rest.to_owned(),
                },
                None => name,
            };
            all.push(format!("{before}{short}"));
        }
    }
}

const DRAFT: &str = "# BR: new\n\n**Receiver:** dev\n\n===== MESSAGE THREAD =====\n\nwords\n";

#[tokio::test]
async fn files_follow_the_mail() {
    let mut bench = Bench::new("qa=p dev=q");
    let first = bench.office.send("qa", "dev", "one");
    bench.start();
    bench.until("p", "outbox/one.md").await;
    bench.until("q", "inbox/one.md").await;
    bench.office.answer(first, "dev", "qa");
    bench.until("p", "inbox/one.md").await;
    bench.until("q", "outbox/one.md").await;
    bench.office.resolve(first, "qa");
    bench.until("p", "done/one.md").await;
    let content =
        fs::read_to_string(bench.path("p/docs/mailbox/done").join(bench.office.file(first)));
    assert_eq!(content.unwrap(), bench.office.markdown(first, "qa"));
    bench.stop().await;
    // What happens meanwhile is made up for.
    let second = bench.office.send("dev", "qa", "two");
    bench.office.answer(second, "qa", "dev");
    bench.start();
    bench.until("p", "done/one.md outbox/two.md").await;
    bench.until("q", "inbox/two.md outbox/one.md").await;
    bench.stop().await;
}

#[tokio::test]
async fn what_a_person_changes_is_put_aside_or_comes_back() {
    let mut bench = Bench::new("dev=q");
    let one = bench.office.send("qa", "dev", "one");
    bench.office.send("qa", "dev", "two");
    bench.start();
    bench.until("q", "inbox/one.md inbox/two.md").await;
    let path = format!("q/docs/mailbox/inbox/{}", bench.office.file(one));
    bench.put(&path, "mine");
    bench.until("q", "inbox/one.md inbox/one.md.edited inbox/two.md").await;
    assert_eq!(fs::read_to_string(bench.path(&path)).unwrap(), bench.office.markdown(one, "dev"));
    assert_eq!(fs::read_to_string(bench.path(&format!("{path}.edited"))).unwrap(), "mine");
    bench.put(&path, "mine too");
    bench.until("q", "inbox/one.md inbox/one.md.edited inbox/one.md.edited.2 inbox/two.md").await;
    fs::remove_file(bench.path(&path)).unwrap();
    bench.put("q/docs/mailbox/inbox/notes.md", "mine");
    bench.put("q/docs/mailbox/inbox/list.txt", "mine");
    let all = "inbox/list.txt inbox/notes.md inbox/one.md inbox/one.md.edited \
               inbox/one.md.edited.2 inbox/two.md";
    bench.until("q", all).await;
    assert!(until(|| bench.report()[0].aside == 2).await, "{:?}", bench.report());
    // All of it gone at once: a removal file by file would meet what comes back.
    fs::rename(bench.path("q/docs"), bench.path("gone")).unwrap();
    bench.until("q", "inbox/one.md inbox/two.md").await;
    bench.stop().await;
    // Edited while nobody looked.
    bench.put(&path, "mine again");
    bench.office.answer(one, "qa", "dev");
    bench.start();
    bench.until("q", "inbox/one.md inbox/one.md.edited inbox/two.md").await;
    bench.stop().await;
}

#[tokio::test]
async fn a_file_that_is_dropped_into_an_outbox_is_sent_once() {
    let mut bench = Bench::new("qa=p dev=q");
    bench.start();
    bench.in_step().await;
    bench.put("p/docs/mailbox/outbox/x.md", DRAFT);
    bench.until("p", "outbox/new.md").await;
    bench.until("q", "inbox/new.md").await;
    let id = bench.office.ids()[0];
    // An answer: the file that came, with one more entry on top.
    let answer = format!(
        "# BR: new\n\n**Message ID:** {id}\n**Receiver:** qa\n\n===== MESSAGE THREAD =====\n\nyes\n"
    );
    bench.put("q/docs/mailbox/outbox/answer.md", &answer);
    bench.until("q", "outbox/new.md").await;
    bench.until("p", "inbox/new.md").await;
    assert_eq!(bench.office.texts(), ["words", "yes"]);
    // A copy of what is there has nothing new, and one under its own name is none at all.
    let mirrored = bench.path("p/docs/mailbox/inbox").join(bench.office.file(id));
    fs::copy(&mirrored, bench.path("p/docs/mailbox/outbox/copy.md")).unwrap();
    let beside = "inbox/new.md outbox/copy.md.rejected outbox/copy.md.rejected.txt";
    bench.until("p", beside).await;
    bench.put("p/docs/mailbox/outbox/bad.md", "# BR: x\n\nwords");
    let all =
        format!("inbox/new.md outbox/bad.md.rejected outbox/bad.md.rejected.txt {}", &beside[13..]);
    bench.until("p", &all).await;
    let why = bench.path("p/docs/mailbox/outbox/bad.md.rejected.txt");
    let why = fs::read_to_string(why).unwrap();
    assert!(why.starts_with("This was not sent. It is no message: it has neither"), "{why}");
    bench.put("p/docs/mailbox/outbox/no.md", &DRAFT.replace("dev", "nobody"));
    let all = format!("{all} outbox/no.md.rejected outbox/no.md.rejected.txt");
    bench.until("p", &all).await;
    // A link is nobody's letter, whatever it leads to.
    bench.put("secret", DRAFT);
    std::os::unix::fs::symlink(bench.path("secret"), bench.path("p/docs/mailbox/outbox/link.md"))
        .unwrap();
    bench.put("p/docs/mailbox/outbox/y.md", &DRAFT.replace("new", "last"));
    assert!(until(|| bench.office.texts().len() == 3).await);
    assert!(until(|| bench.told("p").contains("outbox/last.md outbox/link.md ")).await);
    assert_eq!(bench.office.texts(), ["words", "yes", "words"]);
    bench.stop().await;
}

#[tokio::test]
async fn a_file_may_name_a_group() {
    let mut bench = Bench::new("qa=p dev=q");
    bench.start();
    bench.in_step().await;
    bench.put("p/docs/mailbox/outbox/x.md", &DRAFT.replace("dev", "crew"));
    bench.until("p", "outbox/new.md").await;
    bench.until("q", "inbox/new.md").await;
    bench.put("p/docs/mailbox/outbox/alone.md", &DRAFT.replace("dev", "alone"));
    bench.until("p", "outbox/alone.md.rejected outbox/alone.md.rejected.txt outbox/new.md").await;
    let why = bench.path("p/docs/mailbox/outbox/alone.md.rejected.txt");
    let why = fs::read_to_string(why).unwrap();
    assert!(why.contains("a group with nobody else in it"), "{why}");
    // The receiver is ambiguous, and while the broker is away nobody knows whether both exist.
    bench.office.know("crew");
    bench.office.be_away(true);
    bench.put("p/docs/mailbox/outbox/either.md", &DRAFT.replace("dev", "crew"));
    assert!(until(|| bench.report()[1].unsent == 1).await, "{:?}", bench.report());
    bench.office.be_away(false);
    let why = bench.path("p/docs/mailbox/outbox/either.md.rejected.txt");
    assert!(until(|| why.exists()).await, "{:?}", bench.report());
    let why = fs::read_to_string(why).unwrap();
    assert!(why.contains("crew, which is both a group"), "{why}");
    bench.stop().await;
}

#[tokio::test]
async fn a_letter_waits_while_the_broker_is_away() {
    let mut bench = Bench::new("qa=p");
    bench.start();
    bench.in_step().await;
    bench.office.be_away(true);
    bench.put("p/docs/mailbox/outbox/x.md", DRAFT);
    bench.until("p", "outbox/x.md.queued").await;
    bench.stop().await;
    bench.start();
    bench.office.be_away(false);
    bench.until("p", "outbox/new.md").await;
    assert_eq!(bench.office.texts(), ["words"]);
    bench.stop().await;
}

#[tokio::test]
async fn a_role_that_gets_company_takes_its_files_along() {
    let mut bench = Bench::new("dev=q");
    bench.office.send("qa", "dev", "one");
    bench.start();
    bench.until("q", "inbox/one.md").await;
    bench.put("q/docs/mailbox/inbox/one.txt", "mine");
    bench.have("dev=q qa=q");
    bench.until("q", "dev/inbox/one.md dev/inbox/one.txt qa/outbox/one.md").await;
    bench.have("dev=q");
    // Else the other role may still be there, and keep the letter, too.
    assert!(until(|| bench.report().len() == 1).await, "{:?}", bench.report());
    bench.in_step().await;
    bench.office.send("qa", "dev", "two");
    let all = "dev/inbox/one.md dev/inbox/one.txt dev/inbox/two.md qa/outbox/one.md";
    bench.until("q", all).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_lost_index_costs_reading_and_nothing_else() {
    let mut bench = Bench::new("dev=q");
    let ids: Vec<MessageId> =
        (0..40).map(|n| bench.office.send("qa", "dev", &format!("t{n}"))).collect();
    bench.start();
    bench.in_step().await;
    assert_eq!(bench.office.reads(), 40);
    bench.stop().await;
    let files = || -> Vec<_> {
        let inbox = bench.path("q/docs/mailbox/inbox");
        let path = |id: &MessageId| inbox.join(bench.office.file(*id));
        ids.iter().map(|id| disk::Stamp::of(&fs::metadata(path(id)).unwrap())).collect()
    };
    let before = files();
    bench.start();
    bench.in_step().await;
    assert_eq!(bench.office.reads(), 40, "nothing changed");
    bench.stop().await;
    fs::remove_dir_all(bench.path("data")).unwrap();
    bench.office.answer(ids[7], "qa", "dev");
    bench.start();
    bench.in_step().await;
    let after = {
        let inbox = bench.path("q/docs/mailbox/inbox");
        let path = |id: &MessageId| inbox.join(bench.office.file(*id));
        let all = ids.iter().map(|id| disk::Stamp::of(&fs::metadata(path(id)).unwrap()));
        all.collect::<Vec<_>>()
    };
    let changed = before.iter().zip(&after).filter(|(one, other)| one != other).count();
    assert_eq!((bench.office.reads(), changed, bench.report()[0].aside), (80, 1, 0));
    bench.stop().await;
}

#[tokio::test]
async fn a_project_that_is_not_there_holds_nobody_up() {
    let mut bench = Bench::new("dev=q qa=p");
    fs::remove_dir(bench.path("q")).unwrap();
    bench.office.send("qa", "dev", "one");
    bench.start();
    bench.until("p", "outbox/one.md").await;
    assert!(until(|| bench.report()[0].problem.is_some()).await);
    assert!(!bench.path("q").exists(), "a project is not made");
    fs::create_dir(bench.path("q")).unwrap();
    bench.until("q", "inbox/one.md").await;
    assert!(until(|| bench.report()[0].problem.is_none()).await);
    bench.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_holds_nothing_up() {
    let mut bench = Bench::new("qa=p dev=q");
    bench.start();
    bench.in_step().await;
    let outbox = bench.path("p/docs/mailbox/outbox");
    fs::create_dir(outbox.join("a-folder.md")).unwrap();
    std::os::unix::fs::symlink("b-loop.md", outbox.join("b-loop.md")).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, outbox.join("c-pipe.md"), fifo, mode, 0).unwrap();
    fs::write(outbox.join("d-bytes.md"), b"# BR: \xff\n").unwrap();
    // A folder with the name of an interrupted change.
    fs::create_dir(outbox.join(name::new("e.md"))).unwrap();
    bench.put("p/docs/mailbox/outbox/x.md", DRAFT);
    let rest = "outbox/b-loop.md outbox/c-pipe.md outbox/d-bytes.md.rejected \
                outbox/d-bytes.md.rejected.txt outbox/new.md";
    bench.until("p", rest).await;
    bench.until("q", "inbox/new.md").await;
    let of_qa = || bench.report().remove(1);
    assert!(until(|| of_qa().unread == 3 && of_qa().unsent == 0).await, "{:?}", of_qa());
    let told: Vec<String> = of_qa()
        .unread_paths
        .iter()
        .map(|(path, why)| format!("{} {why}", path.file_name().unwrap().display()))
        .collect();
    let expected = ["a-folder.md", "b-loop.md", "c-pipe.md"];
    assert_eq!(told, expected.map(|name| format!("{name} is no plain file")));
    assert_eq!(of_qa().problem, None);
    let why = fs::read_to_string(outbox.join("d-bytes.md.rejected.txt")).unwrap();
    assert!(why.contains("not UTF-8 at byte 6"), "{why}");
    // Put right, it is mail.
    fs::remove_file(outbox.join("c-pipe.md")).unwrap();
    bench.put("p/docs/mailbox/outbox/c-pipe.md", &DRAFT.replace("words", "more words"));
    assert!(until(|| bench.office.texts() == ["words", "more words"]).await);
    fs::remove_dir(outbox.join("a-folder.md")).unwrap();
    fs::remove_file(outbox.join("b-loop.md")).unwrap();
    assert!(until(|| of_qa().unread == 0).await, "{:?}", of_qa());
    bench.stop().await;
}

#[tokio::test]
async fn what_fails_is_tried_again_after_a_pause() {
    let bench = Bench::new("dev=q");
    bench.office.send("qa", "dev", "one");
    let stop = CancellationToken::new();
    let home = homes(&bench.roots.borrow(), None).into_values().next().unwrap();
    let source: Arc<dyn Source> = bench.office.clone();
    let index = bench.path("index");
    let disk = Disk::killed_after(0);
    let shared = Arc::new(Shared::new(role("dev"), home, index, source, stop.clone(), disk));
    let clock = tokio::time::Instant::now();
    let work = tokio::spawn(Keeper::new(shared.clone()).run());
    // The first two follow each other: what there is to do was told twice.
    assert!(until(|| 4 <= bench.office.reads()).await);
    let pauses = 2 * keeper::RETRY_MS_MIN / 2;
    assert!(Duration::from_millis(pauses) <= clock.elapsed(), "{:?}", clock.elapsed());
    assert!(shared.status().problem.as_ref().is_some_and(|it| it.ends_with(".md: killed")));
    stop.cancel();
    work.await.unwrap();
}

#[tokio::test]
async fn a_thread_that_is_too_large_has_no_file_and_is_told_of() {
    let mut bench = Bench::new("dev=q");
    let one = bench.office.send("qa", "dev", "one");
    bench.start();
    bench.until("q", "inbox/one.md").await;
    bench.office.say(one, "qa", "dev", &"x".repeat(shared::THREAD_BYTES_MAX));
    bench.office.send("qa", "dev", "two");
    bench.until("q", "inbox/two.md").await;
    assert!(until(|| bench.report()[0].too_large == 1).await, "{:?}", bench.report());
    // Behind everything that was told of it.
    bench.office.send("qa", "dev", "three");
    bench.until("q", "inbox/three.md inbox/two.md").await;
    bench.in_step().await;
    let reads = bench.office.reads_of(one);
    bench.mirror.as_ref().unwrap().list_all();
    bench.office.send("qa", "dev", "four");
    bench.until("q", "inbox/four.md inbox/three.md inbox/two.md").await;
    bench.in_step().await;
    assert_eq!(bench.office.reads_of(one), reads, "it is not read again and again");
    bench.stop().await;
}

#[tokio::test]
async fn answers_that_were_dropped_while_the_broker_was_away_go_out_once() {
    let mut bench = Bench::new("qa=p");
    let one = bench.office.send("dev", "qa", "one");
    bench.start();
    bench.until("p", "inbox/one.md").await;
    bench.in_step().await;
    bench.office.be_away(true);
    let count = letters::QUEUED_MAX + 10;
    for n in 0..count {
        let answer = format!(
            "# BR: one\n\n**Message ID:** {one}\n**Receiver:** dev\n\n\
             ===== MESSAGE THREAD =====\n\nanswer {n:03}\n"
        );
        bench.put(&format!("p/docs/mailbox/outbox/{n:03}.md"), &answer);
    }
    let queued = || bench.told("p").split(' ').filter(|it| it.ends_with(".queued")).count();
    assert!(until(|| queued() == letters::QUEUED_MAX).await, "{}", queued());
    assert_eq!(bench.report()[0].unsent, count);
    bench.stop().await;
    bench.start();
    bench.office.be_away(false);
    bench.until("p", "outbox/one.md").await;
    let mut texts = bench.office.texts();
    texts.sort();
    assert_eq!(texts, (0..count).map(|n| format!("answer {n:03}")).collect::<Vec<_>>());
    bench.stop().await;
}

/// A story with everything in it, killed before every change on disk in turn.
#[tokio::test]
async fn a_kill_at_any_change_neither_doubles_nor_loses() {
    let mut kills = 0;
    for steps in 0.. {
        assert!(steps < STEPS_MAX, "it never ends");
        let mut bench = Bench::new("qa=p");
        // The outbox is kept before anything lies in it.
        bench.start();
        bench.in_step().await;
        bench.stop().await;
        let one = bench.office.send("dev", "qa", "one");
        let two = bench.office.send("dev", "qa", "two");
        bench.put(&format!("p/docs/mailbox/inbox/{}", bench.office.file(two)), "mine");
        bench.put("p/docs/mailbox/outbox/x.md", DRAFT);
        bench.put("p/docs/mailbox/outbox/bad.md", &DRAFT.replace("dev", "nobody"));
        let named = |id: MessageId, text: &str| {
            let draft = DRAFT.replace("new", "named").replace("words", text);
            draft.replace("**Rec", &format!("**Message ID:** {id}\n**Rec"))
        };
        bench.put("p/docs/mailbox/outbox/answer.md", &named(one, "yes"));
        bench.put("p/docs/mailbox/outbox/n.md", &named(MessageId::from_bits(7), "begins"));
        let all = "inbox/two.md inbox/two.md.edited outbox/bad.md.rejected \
                   outbox/bad.md.rejected.txt outbox/named.md outbox/new.md outbox/one.md";
        let disk = Disk::killed_after(steps);
        let stop = CancellationToken::new();
        let home = homes(&bench.roots.borrow(), None).into_values().next().unwrap();
        let index = index::path(&bench.path("data"), &"w".parse().unwrap(), &role("qa"));
        let source: Arc<dyn Source> = bench.office.clone();
        let shared = Shared::new(role("qa"), home, index, source, stop.clone(), disk);
        let shared = Arc::new(shared);
        let work = tokio::spawn(Keeper::new(shared.clone()).run());
        let is_killed = || shared.status().problem.is_some();
        let is_there = |name: &str| bench.told("p").contains(name);
        assert!(until(|| is_killed() || is_there("box/one.md")).await);
        bench.office.answer(one, "qa", "dev");
        shared.dirty.thread(one, true);
        assert!(until(|| is_killed() || bench.told("p") == all).await, "{}", bench.told("p"));
        let is_done = !is_killed();
        stop.cancel();
        work.await.unwrap();
        kills += usize::from(!is_done);
        bench.start();
        bench.until("p", all).await;
        let mut texts = bench.office.texts();
        texts.sort();
        assert_eq!(texts, ["an answer", "begins", "words", "yes"], "{steps}");
        bench.stop().await;
        if is_done {
            break;
        }
    }
    assert!(20 < kills, "{kills}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "its result is for people")]
async fn many_threads_come_onto_the_disk() {
    let many: usize =
        std::env::var("TASUKI_THREADS").map_or(200, |it| it.parse().expect("a number"));
    let mut bench = Bench::new("dev=q");
    for n in 0..many {
        bench.office.send("qa", "dev", &format!("t{n}"));
    }
    let clock = tokio::time::Instant::now();
    bench.start();
    bench.in_step().await;
    let first = clock.elapsed();
    bench.stop().await;
    let clock = tokio::time::Instant::now();
    bench.start();
    bench.in_step().await;
    let again = clock.elapsed();
    let clock = tokio::time::Instant::now();
    bench.office.send("qa", "dev", "last");
    assert!(until(|| bench.report()[0].files == many + 1).await);
    let one = clock.elapsed();
    eprintln!("{many} threads in {first:?}; at the next start {again:?}; one more in {one:?}");
    bench.stop().await;
}
