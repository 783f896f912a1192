//! What comes with a repository, or is done by another user who may write to it.

use super::*;

/// Holds Z9.
#[tokio::test]
async fn what_lay_in_an_outbox_before_it_was_kept_is_not_sent() {
    let mut bench = Bench::new("qa=p");
    let old = "# BR: old\n\n**Message ID:** ded66c6a-58c1-47f4-916e-13787156f665\n\n\
               ===== MESSAGE THREAD =====\n\n## 2026-11-21T20:42:52.094Z - qa to dev (BR)\n\nlong ago";
    let draft = |words: &str| DRAFT.replace("words", words);
    // As a repository may bring it along, in every form that is sent or becomes something that is.
    bench.put("p/docs/mailbox/outbox/old.md", old);
    bench.put("p/docs/mailbox/outbox/readme.md", "# Notes");
    bench.put("p/docs/mailbox/outbox/x.md", &draft("one"));
    bench.put("p/docs/mailbox/outbox/y.md.queued", &draft("two"));
    bench.put(&format!("p/docs/mailbox/outbox/{}", name::old("z.md")), &draft("three"));
    let all = "outbox/.z.md.tasuki-old outbox/old.md outbox/readme.md outbox/x.md \
               outbox/y.md.queued";
    for _ in 0..2 {
        bench.start();
        bench.in_step().await;
        assert!(until(|| bench.report()[0].before == 5).await, "{:?}", bench.report());
        assert_eq!((bench.told("p"), bench.office.texts()), (all.to_owned(), vec![]));
        assert!(bench.report()[0].before_paths[3].ends_with("outbox/x.md"));
        bench.stop().await;
    }
    bench.start();
    bench.in_step().await;
    // Whoever gives one another name, or puts it there once more as Git does, has written nothing.
    let outbox = bench.path("p/docs/mailbox/outbox");
    fs::rename(outbox.join("x.md"), outbox.join("w.md")).unwrap();
    fs::remove_file(outbox.join("old.md")).unwrap();
    bench.put("p/docs/mailbox/outbox/old.md", old);
    bench.put("p/docs/mailbox/outbox/v.md", &draft("other"));
    assert!(until(|| bench.office.texts() == ["other"]).await, "{:?}", bench.report());
    let is_told = || bench.report()[0].before_paths.iter().any(|it| it.ends_with("outbox/w.md"));
    assert!(until(is_told).await, "{:?}", bench.report());
    // Whoever writes to one means it.
    bench.put("p/docs/mailbox/outbox/old.md", &format!("{old}, and now"));
    assert!(until(|| bench.office.texts() == ["other", "long ago, and now"]).await);
    bench.stop().await;
}

/// Which outboxes are kept is known after a restart, by which directory they are; if it is not known,
/// nothing is sent.
#[tokio::test]
async fn what_comes_while_the_node_is_down_is_sent_if_the_folder_was_kept() {
    let mut bench = Bench::new("qa=p");
    let draft = |words: &str| DRAFT.replace("words", words);
    bench.start();
    bench.in_step().await;
    bench.stop().await;
    bench.put("p/docs/mailbox/outbox/x.md", &draft("kept"));
    bench.start();
    assert!(until(|| bench.office.texts() == ["kept"]).await, "{:?}", bench.report());
    bench.in_step().await;
    bench.stop().await;
    // Another directory of that name, as of a repository that is cloned anew.
    let outbox = bench.path("p/docs/mailbox/outbox");
    fs::remove_dir_all(&outbox).unwrap();
    bench.put("p/docs/mailbox/outbox/x.md", &draft("cloned"));
    bench.start();
    bench.in_step().await;
    assert!(until(|| bench.report()[0].before == 1).await, "{:?}", bench.report());
    // And while it runs: the directory is looked up in each round.
    fs::rename(&outbox, bench.path("p/before")).unwrap();
    let other = bench.path("p/after");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("y.md"), draft("swapped")).unwrap();
    fs::rename(&other, &outbox).unwrap();
    bench.mirror.as_ref().unwrap().list_all();
    let is_told = || bench.report()[0].before_paths == [outbox.join("y.md")];
    assert!(until(is_told).await, "{:?}", bench.report());
    bench.stop().await;
    // The index is lost.
    fs::remove_dir_all(bench.path("data")).unwrap();
    bench.put("p/docs/mailbox/outbox/z.md", &draft("lost"));
    bench.start();
    bench.in_step().await;
    assert!(until(|| bench.report()[0].before == 2).await, "{:?}", bench.report());
    assert_eq!(bench.office.texts(), ["kept"]);
    bench.stop().await;
}

/// In every form that is sent or becomes something that is.
#[tokio::test]
#[ignore = "needs git"]
async fn what_a_pull_brings_into_a_kept_outbox_is_not_sent() {
    let mut bench = Bench::new("qa=p");
    let git = |directory: PathBuf, arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=T", "-c", "user.email=t@t"]).args(arguments);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let done = command.current_dir(directory).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let draft = |words: &str| DRAFT.replace("words", words);
    let old = name::old("z.md");
    for (name, words) in [("x.md", "one"), ("y.md.queued", "two"), (old.as_str(), "three")] {
        bench.put(&format!("origin/docs/mailbox/outbox/{name}"), &draft(words));
    }
    git(bench.path("origin"), &["init", "-q"]);
    git(bench.path("origin"), &["add", "-A"]);
    git(bench.path("origin"), &["commit", "-q", "-m", "x"]);
    bench.start();
    bench.in_step().await;
    git(bench.path("p"), &["init", "-q"]);
    git(bench.path("p"), &["pull", "-q", "../origin", "HEAD"]);
    bench.mirror.as_ref().unwrap().list_all();
    assert!(until(|| bench.report()[0].unread == 3).await, "{:?}", bench.report());
    let (path, why) = bench.report()[0].unread_paths[1].clone();
    assert!(path.ends_with("outbox/x.md") && why.starts_with("is tracked by Git"), "{why}");
    // What somebody here writes is sent, and not while Git is writing: its index comes last.
    fs::write(bench.path("p/.git/index.lock"), "").unwrap();
    bench.put("p/docs/mailbox/outbox/v.md", &draft("own"));
    assert!(until(|| bench.report()[0].unsent != 0).await, "{:?}", bench.report());
    assert_eq!(bench.office.texts(), Vec::<String>::new());
    fs::remove_file(bench.path("p/.git/index.lock")).unwrap();
    assert!(until(|| bench.office.texts() == ["own"]).await, "{:?}", bench.report());
    bench.stop().await;
    bench.start();
    bench.in_step().await;
    assert!(until(|| bench.report()[0].unread == 3).await, "{:?}", bench.report());
    assert_eq!(bench.office.texts(), ["own"]);
    bench.stop().await;
    // They leave Git's index and stay as they are, as a stash that is taken out again leaves them.
    git(bench.path("p"), &["rm", "-q", "-r", "--cached", "docs"]);
    for _ in 0..2 {
        bench.start();
        bench.in_step().await;
        let is_told = || {
            let told = &bench.report()[0].unread_paths;
            3 == told.iter().filter(|(_, why)| why.starts_with("holds what")).count()
        };
        assert!(until(is_told).await, "{:?}", bench.report());
        assert_eq!(bench.office.texts(), ["own"]);
        bench.stop().await;
    }
    // Whoever writes to one means it.
    bench.start();
    bench.in_step().await;
    bench.put("p/docs/mailbox/outbox/x.md", &draft("changed"));
    assert!(until(|| bench.office.texts() == ["own", "changed"]).await, "{:?}", bench.report());
    bench.stop().await;
}

#[tokio::test]
async fn a_file_with_a_second_name_is_not_sent() {
    let mut bench = Bench::new("qa=p dev=q");
    bench.start();
    bench.in_step().await;
    bench.put("secret.md", DRAFT);
    let letter = bench.path("p/docs/mailbox/outbox/x.md");
    fs::hard_link(bench.path("secret.md"), &letter).unwrap();
    let of_qa = || bench.report().remove(1);
    assert!(until(|| of_qa().unread == 1).await, "{:?}", of_qa());
    let (path, why) = of_qa().unread_paths.remove(0);
    assert!(path == letter && why.contains("(a hard link)") && why.contains("use a copy"), "{why}");
    assert_eq!(bench.office.texts(), Vec::<String>::new());
    fs::remove_file(&letter).unwrap();
    fs::copy(bench.path("secret.md"), &letter).unwrap();
    assert!(until(|| bench.office.texts() == ["words"]).await, "{:?}", of_qa());
    bench.stop().await;
}

/// Somebody who may write to the mailbox swaps a folder for a link that leads elsewhere.
/// Holds Z3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_elsewhere_while_a_folder_is_swapped_for_a_link() {
    const LETTERS: usize = 300;
    let mut bench = Bench::new("dev=q");
    bench.start();
    bench.in_step().await;
    let outside = bench.path("outside");
    fs::create_dir(&outside).unwrap();
    let (inbox, link) =
        (bench.path("q/docs/mailbox/inbox"), bench.path("q/docs/mailbox/elsewhere"));
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (is_over, inbox) = (is_over.clone(), inbox.clone());
        move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let swap = || renameat_with(CWD, &inbox, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                swap();
            }
            if inbox.symlink_metadata().unwrap().is_symlink() {
                swap();
            }
        }
    });
    for n in 0..LETTERS {
        bench.office.send("qa", "dev", &format!("t{n}"));
    }
    // Each was asked for once, at least; its file was written, or could not be.
    assert!(until(|| LETTERS <= bench.office.reads()).await, "{:?}", bench.report());
    is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    swapping.join().unwrap();
    let count = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().starts_with('.')).count()
    };
    assert!(until(|| count(&inbox) == LETTERS).await, "{} {:?}", count(&inbox), bench.report());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    bench.stop().await;
}
