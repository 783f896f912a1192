//! Mailboxes on disk over kills, and many threads.

use std::{fs, time::Duration};

use crate::mirror::place::{LOOK_EVERY, Place, until};

const DRAFT: &str = "# BR: Slow!\n\n**Receiver:** dev\n\n===== MESSAGE THREAD =====\n\nIt is.\n";

#[tokio::test]
async fn a_letter_that_was_dropped_is_sent_once_over_kills() {
    let mut place = Place::new("--role qa --role dev").await;
    assert!(until(|| place.path("qa/outbox").is_dir()).await);
    for round in 1..=4_usize {
        let name = format!("qa/outbox/letter-{round}.md");
        place.put(&name, &DRAFT.replace("It is", &format!("round {round}")));
        if round % 2 == 0 {
            // Gone, or about to be: in the middle of it.
            assert!(until(|| !place.path(&name).exists()).await);
        }
        place.up.kill().await;
        place.up.start().await;
        let count = || {
            let files = fs::read_dir(place.path("dev/inbox")).into_iter().flatten();
            // One that begins with a dot is under way.
            let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
            names.filter(|name| !name.starts_with('.')).count()
        };
        assert!(until(|| count() == round).await, "{}\n{}", place.names(), place.up.log());
        assert!(until(|| !place.path(&name).exists()).await);
    }
    let mut texts = place.texts("dev").await;
    texts.sort();
    let expected: Vec<String> = (1..=4).map(|n| format!("qa: round {n}.")).collect();
    assert_eq!(texts, expected);
    assert!(until(|| !place.names().contains("tasuki-")).await, "{}", place.names());
}

/// As many as a token has room for clients, and more: they go out as the role's other mail does.
#[tokio::test]
#[allow(clippy::print_stderr, reason = "its result is for people")]
async fn many_files_are_sent_once_each_over_a_kill() {
    let many: usize = std::env::var("TASUKI_LETTERS").map_or(80, |it| it.parse().unwrap());
    let mut place = Place::new("--role qa --role dev").await;
    let id = place.send("dev", "qa", "", "Which ones?").await;
    place.until("dev/outbox/slow.md qa/inbox/slow.md").await;
    let draft = DRAFT.replace("Slow", "Other");
    for n in 0..many {
        // Every fourth is an answer.
        let begins = draft.replace("It is", &format!("letter {n:05}"));
        let answers = begins.replace("**Receiver", &format!("**Message ID:** {id}\n**Receiver"));
        place.put(&format!("qa/outbox/{n:05}.md"), if n % 4 == 0 { &answers } else { &begins });
    }
    let clock = tokio::time::Instant::now();
    let outbox = place.path("qa/outbox");
    let left = || {
        let names = fs::read_dir(&outbox).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.len() == 8).count()
    };
    assert!(until(|| left() < many).await, "{}", place.up.log());
    place.up.kill().await;
    place.up.start().await;
    let patience = Duration::from_secs(600);
    let sent = async {
        while left() != 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(patience, sent).await.expect("they are sent");
    let took = clock.elapsed();
    let mut texts = place.texts("dev").await;
    texts.retain(|it| it != "dev: Which ones?");
    texts.sort();
    let expected: Vec<String> = (0..many).map(|n| format!("qa: letter {n:05}.")).collect();
    assert_eq!(texts, expected);
    eprintln!("{many} dropped files sent within {took:?}");
}

#[tokio::test]
async fn edits_are_kept_over_a_kill() {
    let mut place = Place::new("--role qa --role dev").await;
    place.send("qa", "dev", "", "It is.").await;
    place.until("dev/inbox/slow.md qa/outbox/slow.md").await;
    let inbox = fs::read_dir(place.path("dev/inbox")).unwrap();
    let file = inbox.map(|it| it.unwrap().path()).next().unwrap();
    place.up.kill().await;
    fs::write(&file, "mine").unwrap();
    fs::remove_dir_all(place.path("qa")).unwrap();
    place.up.start().await;
    place.until("dev/inbox/slow.md dev/inbox/slow.md.edited qa/outbox/slow.md").await;
    assert_eq!(place.files()["dev/inbox/slow.md.edited"], "mine");
    assert!(place.files()["dev/inbox/slow.md"].ends_with("It is."));
    assert!(until(|| place.up.log().contains("a file was put aside")).await);
}

#[tokio::test]
#[allow(clippy::print_stderr, reason = "its result is for people")]
async fn many_threads_come_onto_the_disk() {
    let many: usize = std::env::var("TASUKI_THREADS").map_or(50, |it| it.parse().unwrap());
    let mut place = Place::new("--role qa --role dev").await;
    place.up.kill().await;
    fs::write(place.up.data.join("tasuki.toml"), "").unwrap();
    place.up.start().await;
    for n in 0..many {
        place.send("qa", "dev", "", &format!("text {n}")).await;
    }
    place.up.kill().await;
    fs::write(place.up.data.join("tasuki.toml"), "mirror = true\n").unwrap();
    place.up.start().await;
    let clock = tokio::time::Instant::now();
    let count = || fs::read_dir(place.path("dev/inbox")).map_or(0, Iterator::count);
    let mut slowest = Duration::ZERO;
    while count() < many {
        let one = tokio::time::Instant::now();
        place.send("qa", "dev", "", "meanwhile").await;
        slowest = slowest.max(one.elapsed());
        assert!(clock.elapsed() < Duration::from_secs(600), "{}", count());
    }
    let took = clock.elapsed();
    let peak = place.up.peak_kib();
    eprintln!("{many} threads at two roles in {took:?}; slowest call {slowest:?}; peak {peak} KiB");
}
