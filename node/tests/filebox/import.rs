//! Taking over what FileBox left: repaired, reported, once.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::{
    filebox::mailbox::{Place, file},
    process::soon,
};

/// Two projects after three messages: the third was built from a copy that lacked the second.
async fn after_three_messages() -> Place {
    let place = Place::new().await;
    let name = "2026-11-21_2043-BR-slow-00000001.md";
    for (path, entries) in [
        ("qa/docs/mailbox/outbox", &[3, 1][..]),
        ("dev/docs/mailbox/inbox", &[3, 1]),
        ("dev/docs/mailbox/outbox", &[2, 1]),
    ] {
        place.put(&format!("{path}/{name}"), &file(1, "Slow!", entries));
    }
    place.put("dev/docs/mailbox/done/2026-11-21_2043-BR-old-00000002.md", &file(2, "Old", &[1]));
    place.put("qa/docs/mailbox/outbox/2026-11-21_2043-BR-old-00000002.md", &file(2, "Old", &[1]));
    let agents = json!({"qa": place.path("qa"), "dev": place.path("dev")});
    place.put("qa/.filebox", &json!({"current_agent": "qa", "agents": agents}).to_string());
    place.put("home/.filebox", &json!({"agents": agents}).to_string());
    place
}

fn numbers(report: &Value) -> [u64; 6] {
    ["files", "threads", "new", "extended", "known", "sent"]
        .map(|name| report[name].as_u64().unwrap())
}

#[tokio::test]
async fn a_thread_that_each_copy_lost_a_part_of_is_whole_again() {
    let place = after_three_messages().await;
    let copies = [
        "dev done 00000002: text 1",
        "dev inbox 00000001: text 1, text 2, text 3",
        "qa outbox 00000001: text 1, text 2, text 3",
        "qa outbox 00000002: text 1",
    ];
    let (code, dry) = place.json("import filebox qa --dry-run").await;
    assert_eq!((code, numbers(&dry)), (0, [5, 2, 0, 0, 0, 0]), "{dry}");
    assert_eq!(place.copies("default").await, [""; 0]);

    let (code, first) = place.json("import filebox qa").await;
    assert_eq!((code, numbers(&first)), (0, [5, 2, 2, 0, 0, 4]), "{first}");
    assert_eq!(first["skipped"], json!([]));
    let notes = first["notes"].to_string();
    assert!(notes.contains("No copy has all 3 entries"), "{notes}");
    assert_eq!(place.copies("default").await, copies);
    for again in ["qa", "qa/docs/mailbox dev", "home"] {
        let (code, again) = place.json(&format!("import filebox {again}")).await;
        assert_eq!((code, &numbers(&again)[2..]), (0, &[0, 0, 2, 0][..]), "{again}");
    }
    assert_eq!(place.copies("default").await, copies);
}

#[tokio::test]
async fn what_another_copy_adds_is_sent_later_and_nothing_else() {
    let place = after_three_messages().await;
    let name = "2026-11-21_2043-BR-slow-00000001.md";
    place.put(&format!("one/docs/mailbox/inbox/{name}"), &file(1, "Slow!", &[3, 1]));
    let (_, first) = place.json("import filebox one").await;
    assert_eq!(numbers(&first), [1, 1, 1, 0, 0, 2], "{first}");
    assert_eq!(first["absent"], json!(["qa"]));
    let (_, second) = place.json("import filebox qa").await;
    assert_eq!(numbers(&second), [5, 2, 1, 1, 0, 2], "{second}");
    let found = place.copies("default").await;
    let of_dev = found.iter().find(|it| it.starts_with("dev") && it.contains("00000001"));
    let texts = of_dev.unwrap().split_once(": ").unwrap().1;
    assert_eq!(texts, "text 1, text 3, text 2", "added behind what was there");
}

#[tokio::test]
async fn an_import_that_was_killed_is_ended_by_the_next() {
    let place = Place::new().await;
    for n in 1..=120 {
        let name = format!("2026-11-21_2043-BR-t-{n:08x}.md");
        let content = file(n, &format!("t {n}"), &[2, 1]);
        place.put(&format!("p/docs/mailbox/qa/inbox/{name}"), &content);
        place.put(&format!("p/docs/mailbox/dev/outbox/{name}"), &content);
    }
    let mut watch = place.command("watch --from 1 --json");
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut import = place.command("import filebox p").spawn().unwrap();
    let mut seen = 0;
    while seen < 10 {
        let line = soon(events.next_line()).await.unwrap().unwrap();
        seen += line.matches("mail_imported").count();
    }
    soon(import.kill()).await.unwrap();
    soon(watch.kill()).await.unwrap();
    let (code, rest) = place.json("import filebox p").await;
    let [_, threads, new, extended, known, sent] = numbers(&rest);
    assert_eq!((code, threads, new + known, extended), (0, 120, 120, 0), "{rest}");
    assert!(10 <= known && new < 120 && sent == 2 * new, "{rest}");
    let copies = place.copies("default").await;
    assert_eq!(copies.len(), 240);
    assert!(copies.iter().all(|it| it.ends_with(": text 1, text 2")), "{copies:?}");
}

#[tokio::test]
async fn what_cannot_be_taken_over_is_named_and_the_rest_is() {
    let place = after_three_messages().await;
    place.put("qa/docs/mailbox/inbox/broken.md", "# Notes");
    place.put("qa/docs/mailbox/inbox/notes.txt", "x");
    let large = file(3, "Large", &[1]).replace("text 1", &"x".repeat(256 * 1024 + 1));
    place.put("qa/docs/mailbox/outbox/large.md", &large);
    let long = file(4, &"long ".repeat(300), &[1]);
    place.put("qa/docs/mailbox/outbox/2026-11-21_2043-BR-long-00000004.md", &long);
    let named = file(5, "Spaces", &[1]).replace("dev", "Dev team");
    place.put("qa/docs/mailbox/outbox/2026-11-21_2043-BR-spaces-00000005.md", &named);
    let (code, report) = place.json("import filebox qa").await;
    assert_eq!(code, 5, "{report}");
    assert_eq!(numbers(&report), [8, 5, 4, 0, 0, 6], "{report}");
    assert_eq!(report["roles"], json!({"Dev team": "Dev-team"}));
    let skipped = report["skipped"].as_array().unwrap();
    let why = |name: &str| {
        let path = |it: &&Value| it["path"].as_str().unwrap().ends_with(name);
        let it = skipped.iter().find(path).unwrap_or_else(|| panic!("{report}"));
        (it["why"].as_str().unwrap().to_owned(), it["is_loss"].as_bool().unwrap())
    };
    assert!(why("broken.md").0.starts_with("is no message"), "{report}");
    assert_eq!(why("notes.txt"), ("is no .md file".to_owned(), false));
    assert_eq!(report["left_out"][0]["bytes"], 256 * 1024 + 1);
    assert!(report["notes"].to_string().contains("1500 bytes and is cut to 1024"), "{report}");
    let (code, output) = place.run("import filebox qa").await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("4 there already; 0 entries sent."), "{text}");
    assert!(text.contains("Not read:\n") && text.contains("/inbox/broken.md is no"), "{text}");

    let line = "import filebox qa --role qa=Q --role dev=D --workspace w";
    let (code, output) = place.run(line).await;
    assert_eq!(code, 1, "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no workspace w"));
    place.up.make_workspace("w").await;
    let (code, _) = place.run(line).await;
    assert_eq!(code, 5);
    let roles: Vec<String> =
        place.copies("w").await.iter().map(|it| it[..it.find(' ').unwrap()].to_owned()).collect();
    assert_eq!(roles, ["D", "D", "D", "Dev-team", "Q", "Q", "Q", "Q"].map(String::from).to_vec());
    for (line, why) in [
        ("import filebox nowhere", "is no mailbox"),
        ("import filebox qa --role ghost=x", "there is no such agent"),
    ] {
        let (code, output) = place.run(line).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code == 2 && said.contains(why), "{code} {said}");
    }
}

#[tokio::test]
async fn a_thread_whose_id_is_anothers_here_gets_one_of_its_own() {
    let place = after_three_messages().await;
    let other = file(1, "Other", &[1]).replace("text 1", "mine");
    place.put(
        "o/docs/mailbox/outbox/2026-11-21_2043-BR-other-00000001.md",
        &other.replace("qa", "ops"),
    );
    place.json("import filebox qa").await;
    let before = place.copies("default").await;
    for new in [1, 0] {
        let (code, report) = place.json("import filebox o").await;
        assert_eq!((code, numbers(&report)[2]), (0, new), "{report}");
        assert!(report["notes"].to_string().contains("another thread with this id"), "{report}");
    }
    let after = place.copies("default").await;
    assert!(before.iter().all(|it| after.contains(it)), "{after:?}");
    assert_eq!(after.len(), before.len() + 2, "{after:?}");
}
