//! What is exported is what was there, in each form.

use std::fs;

use serde_json::Value;

use crate::filebox::mailbox::{Place, file, tree};

/// Files that FileBox could have written, in both layouts; the last quotes a whole other file.
fn fill(place: &Place) {
    let answered = file(1, "Slow 慢!", &[2, 1]);
    let done = file(2, "", &[3, 2, 1]);
    let quoting = file(3, "  --Quote__this--  ", &[1]).replace("text 1", "see\n\\## x\n\n> y");
    for (agent, place_of, name, content) in [
        ("qa", "inbox", "2026-11-21_2143-BR-slow--00000001.md", &answered),
        ("dev", "outbox", "2026-11-21_2143-BR-slow--00000001.md", &answered),
        ("dev", "cancel", "2026-11-21_2143-BR--00000002.md", &done),
        ("qa", "done", "2026-11-21_2143-BR--00000002.md", &done),
        ("qa", "outbox", "2026-11-21_2143-BR--quotethis--00000003.md", &quoting),
        ("dev", "inbox", "2026-11-21_2143-BR--quotethis--00000003.md", &quoting),
    ] {
        place.put(&format!("p/docs/mailbox/{agent}/{place_of}/{name}"), content);
    }
}

#[tokio::test]
async fn files_come_out_as_they_went_in() {
    let place = Place::new().await;
    fill(&place);
    place.text("import filebox p").await;
    let said = place.text("export --format markdown --out all").await;
    assert_eq!(said, "6 threads, 12 entries: all\n");
    let before = tree(&place.path("p/docs/mailbox"));
    assert_eq!(tree(&place.path("all")), before);
    place.up.make_workspace("w").await;
    place.text("import filebox all --workspace w").await;
    place.text("export --format markdown --out again --workspace w").await;
    assert_eq!(tree(&place.path("again")), before);

    place.text("export --format markdown --role qa --box done --out one").await;
    let names: Vec<String> = tree(&place.path("one")).into_keys().collect();
    assert_eq!(names, ["done/2026-11-21_2143-BR--00000002.md"]);
    for (line, why) in [
        ("export --format markdown", "specify --out DIR"),
        ("export --format markdown --out all", "is not empty"),
        ("export --format mbox --out p/docs/mailbox/qa", "is there already"),
    ] {
        let (code, output) = place.run(line).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code == 2 && said.contains(why), "{code} {said}");
    }
}

#[tokio::test]
async fn mail_and_lines_have_every_entry() {
    let place = Place::new().await;
    fill(&place);
    place.text("import filebox p").await;
    let (code, said) = place.json("export --role dev --format mbox --out dev.mbox").await;
    assert_eq!((code, &said["threads"], &said["entries"]), (0, &3.into(), &6.into()), "{said}");
    let mbox = fs::read_to_string(place.path("dev.mbox")).unwrap();
    assert_eq!(mbox.lines().filter(|it| it.starts_with("From ")).count(), 6);
    assert_eq!(mbox.matches("In-Reply-To: <00000002-").count(), 2);
    assert!(!place.path("dev.mbox.part").exists());
    assert_eq!(place.text("export --role dev --format mbox").await, mbox);

    let lines = place.text("export --role qa --format jsonl").await;
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let told: Vec<String> = lines
        .iter()
        .map(|it| {
            let (entry, entries) = (&it["entry"], &it["thread"]["entries"]);
            format!("{} {}/{entries} {}", it["box"], entry["number"], entry["text"])
        })
        .collect();
    let expected = [
        "\"inbox\" 1/2 \"text 1\"",
        "\"inbox\" 2/2 \"text 2\"",
        "\"outbox\" 1/1 \"see\\n\\\\## x\\n\\n> y\"",
        "\"done\" 1/3 \"text 1\"",
        "\"done\" 2/3 \"text 2\"",
        "\"done\" 3/3 \"text 3\"",
    ];
    assert_eq!(told, expected);
    let imported = |it: &Value| it["is_imported"] == true && it["written_ms"].as_u64() > Some(0);
    assert!(lines.iter().all(|it| imported(&it["entry"])), "{lines:?}");
    assert!(lines.iter().all(|it| it["entry"]["receipts"].is_array()), "{lines:?}");

    // Looking marks nothing as seen: what came into the inbox is still unseen.
    let said = place.text("export --role qa --box inbox --format jsonl").await;
    assert!(said.contains("\"seen_ms\":0"), "{said}");
}
