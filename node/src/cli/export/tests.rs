//! What an export says, read back.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::Value;
use tasuki_proto::{mail::BoxKind, wire};

use super::{Format, RoleThread, destination::Destination, jsonl, markdown, mbox};
use crate::{dir::Dir, filebox::Document};

const ID: &str = "ded66c6a-58c1-47f4-916e-13787156f665";

fn entry(number: u32, sender: &str, to: &[&str], text: &str) -> wire::MailEntry {
    wire::MailEntry {
        number,
        sender: sender.into(),
        receivers: to.iter().map(ToString::to_string).collect(),
        r#type: "BR".into(),
        at_ms: 1_795_293_772_094 + u64::from(number) * 1000,
        text: text.into(),
        receipts: vec![wire::MailReceipt {
            role: to[0].into(),
            stored_ms: 7,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn found(subject: &str, entries: Vec<wire::MailEntry>) -> RoleThread {
    let thread = wire::MailThread {
        message_id: ID.into(),
        file_name: "2026-11-21_2042-BR-t-ded66c6a.md".into(),
        subject: subject.into(),
        r#type: "BR".into(),
        original_sender: "qa".into(),
        ..Default::default()
    };
    RoleThread { role: "dev".parse().unwrap(), place: BoxKind::Inbox, thread, entries }
}

fn mail(found: &RoleThread) -> String {
    mbox::thread(found, &"default".parse().unwrap())
}

#[test]
fn an_entry_is_a_mail() {
    let mut first = entry(1, "qa", &["dev", "a..b"], "It is slow.\n\nFrom here on:\n>From there");
    first.attachments.push(wire::Attachment {
        name: "日志.txt".into(),
        media_type: "text/plain".into(),
        size: 3,
        hash: "00ff".into(),
    });
    let second = entry(2, "dev", &["qa"], "Fixed.");
    assert_eq!(
        mail(&found("API 性能", vec![first, second])),
        "From qa@tasuki.invalid Sat Nov 21 20:42:53 2026\n\
         From: qa@tasuki.invalid\n\
         To: dev@tasuki.invalid,\n \"a..b\"@tasuki.invalid\n\
         Date: Sat, 21 Nov 2026 20:42:53 +0000\n\
         Subject: =?utf-8?B?QVBJIOaAp+iDvQ==?=\n\
         Message-ID: <ded66c6a-58c1-47f4-916e-13787156f665.1@tasuki.invalid>\n\
         X-Tasuki-Workspace: default\n\
         X-Tasuki-Role: dev\n\
         X-Tasuki-Box: inbox\n\
         X-Tasuki-Type: BR\n\
         X-Tasuki-File: 2026-11-21_2042-BR-t-ded66c6a.md\n\
         X-Tasuki-Receipt: dev stored=7 handed=0 seen=0 acted=0 lapsed=0 dead=0\n\
         X-Tasuki-Attachment: =?utf-8?B?MDBmZiAzIOaXpeW/ly50eHQ=?=\n\
         MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: quoted-printable\n\
         \n\
         It is slow.\n\n=46rom here on:\n=3EFrom there\n\
         \n\
         From dev@tasuki.invalid Sat Nov 21 20:42:54 2026\n\
         From: dev@tasuki.invalid\n\
         To: qa@tasuki.invalid\n\
         Date: Sat, 21 Nov 2026 20:42:54 +0000\n\
         Subject: =?utf-8?B?UmU6IEFQSSDmgKfog70=?=\n\
         Message-ID: <ded66c6a-58c1-47f4-916e-13787156f665.2@tasuki.invalid>\n\
         In-Reply-To: <ded66c6a-58c1-47f4-916e-13787156f665.1@tasuki.invalid>\n\
         References: <ded66c6a-58c1-47f4-916e-13787156f665.1@tasuki.invalid>\n\
         X-Tasuki-Workspace: default\n\
         X-Tasuki-Role: dev\n\
         X-Tasuki-Box: inbox\n\
         X-Tasuki-Type: BR\n\
         X-Tasuki-File: 2026-11-21_2042-BR-t-ded66c6a.md\n\
         X-Tasuki-Receipt: qa stored=7 handed=0 seen=0 acted=0 lapsed=0 dead=0\n\
         MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 7bit\n\
         \n\
         Fixed.\n\
         \n"
    );
}

#[test]
fn what_is_ascii_is_written_as_it_is_however_long() {
    let mut entry = entry(1, "qa", &["dev"], "x");
    entry.receipts = vec![wire::MailReceipt {
        role: "dev".into(),
        stored_ms: 1_795_293_772_094,
        handed_ms: 1_795_293_772_095,
        seen_ms: 1_795_293_772_096,
        acted_ms: 1_795_293_772_097,
        ..Default::default()
    }];
    let file = mail(&found("words ".repeat(30).trim_end(), vec![entry]));
    assert!(
        file.contains(
            "X-Tasuki-Receipt: dev stored=1795293772094 handed=1795293772095\n \
             seen=1795293772096 acted=1795293772097 lapsed=0 dead=0\n"
        ),
        "{file}"
    );
    assert!(!file.contains("=?"), "{file}");
    let headers = &read_mbox(&file)[0].0;
    assert_eq!(headers["Subject"], "words ".repeat(30).trim_end());
    assert!(headers["X-Tasuki-Receipt"].ends_with("acted=1795293772097 lapsed=0 dead=0"));
}

/// Headers and text of each mail, as a mail program has them.
fn read_mbox(file: &str) -> Vec<(BTreeMap<String, String>, String)> {
    let mut mails: Vec<Vec<&str>> = Vec::new();
    for line in file.split('\n') {
        if line.starts_with("From ") {
            mails.push(Vec::new());
        } else if let Some(mail) = mails.last_mut() {
            mail.push(line);
        }
    }
    mails.iter().map(|lines| read_mail(lines)).collect()
}

fn read_mail(lines: &[&str]) -> (BTreeMap<String, String>, String) {
    let end = lines.iter().position(|it| it.is_empty()).unwrap();
    let head = lines[..end].join("\n").replace("\n ", " ");
    let headers = head.lines().map(|line| line.split_once(": ").unwrap());
    let headers: BTreeMap<_, _> =
        headers.map(|(name, value)| (name.to_owned(), unworded(value))).collect();
    let body = &lines[end + 1..lines.len() - 1];
    let text = match headers["Content-Transfer-Encoding"].as_str() {
        "7bit" => body.join("\n"),
        "base64" => String::from_utf8(STANDARD.decode(body.concat()).unwrap()).unwrap() + "\n",
        "quoted-printable" => unquoted(&body.join("\n")),
        other => panic!("{other}"),
    };
    (headers, text)
}

fn unworded(value: &str) -> String {
    if !value.starts_with("=?") {
        return value.to_owned();
    }
    let word = |it: &str| {
        assert!(it.len() <= 75, "{it}");
        let code = it.strip_prefix("=?utf-8?B?").and_then(|it| it.strip_suffix("?=")).unwrap();
        String::from_utf8(STANDARD.decode(code).unwrap()).unwrap()
    };
    value.split(' ').map(word).collect()
}

fn unquoted(body: &str) -> String {
    let mut bytes = Vec::new();
    let joined = body.replace("=\n", "");
    let mut rest = joined.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'=' {
            let (digits, after) = rest.split_at(2);
            bytes.push(u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap());
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Texts that mail is known to do harm to.
fn words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[ -~]{0,90}",
        2 => "\\PC{0,30}",
        2 => Just("\n".to_owned()),
        2 => Just("\nFrom x".to_owned()),
        1 => Just("\n>>From x".to_owned()),
        1 => Just("\r\n.\r\n".to_owned()),
        1 => Just("=\n=3D \n".to_owned()),
        1 => Just("\u{1b}[31m\0".to_owned()),
        1 => Just("x".repeat(1100)),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn mail_programs_read_what_was_written(texts in proptest::collection::vec(words(), 1..4), subject in words()) {
        let entries = (1..).zip(&texts).map(|(n, text)| entry(n, "qa", &["dev"], text)).collect();
        let file = mail(&found(&subject, entries));
        prop_assert!(file.bytes().all(|it| it == b'\n' || it == b'\t' || (b' '..=b'~').contains(&it)));
        prop_assert!(file.lines().all(|it| it.len() <= 998));
        let mails = read_mbox(&file);
        prop_assert_eq!(mails.len(), texts.len());
        for (at, ((headers, text), sent)) in mails.iter().zip(&texts).enumerate() {
            let expected = if sent.is_empty() || sent.ends_with('\n') { sent.clone() } else { format!("{sent}\n") };
            // Base64 has the text to the byte, and the line end of the mail behind it.
            prop_assert_eq!(text.trim_end_matches('\n'), expected.trim_end_matches('\n'));
            let re = if at == 0 { "" } else { "Re: " };
            prop_assert_eq!(&headers["Subject"], &format!("{re}{subject}"));
        }
    }

    #[test]
    fn a_line_of_json_has_all_and_nothing_a_terminal_acts_on(text in words()) {
        let found = found("t", vec![entry(1, "qa", &["dev"], &text)]);
        let file = jsonl::thread(&found, &"default".parse().unwrap());
        let line = file.strip_suffix('\n').unwrap();
        prop_assert!(line.chars().all(tasuki_proto::visible::is_visible));
        let value: Value = serde_json::from_str(line).unwrap();
        prop_assert_eq!(value["entry"]["text"].as_str(), Some(text.as_str()));
        prop_assert_eq!(&value["entry"]["receipts"][0]["stored_ms"], 7);
        prop_assert_eq!(&value["box"], "inbox");
    }
}

#[test]
fn a_file_stays_in_its_folder_and_takes_no_others_place() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("inbox");
    let mut one = found("t", vec![entry(1, "qa", &["dev"], "one")]);
    for name in [
        "2026-11-21_2042-BR-t-ded66c6a.md",
        "2026-11-21_2042-BR-t-ded66c6a.md",
        "../x-ded66c6a.md",
        ".x-ded66c6a.md",
    ] {
        one.thread.file_name = name.into();
        if name.starts_with('.') {
            one.thread.subject = format!("other {}", name.len());
        }
        let dir = Dir::open(place.path()).unwrap().enter_or_make("inbox").unwrap();
        markdown::write(&one, &dir).unwrap();
    }
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            &format!("2026-11-21_2042-BR-{ID}-t-ded66c6a.md"),
            "2026-11-21_2042-BR-other-14-ded66c6a.md",
            "2026-11-21_2042-BR-other-16-ded66c6a.md",
            "2026-11-21_2042-BR-t-ded66c6a.md",
        ]
    );
    let read = std::fs::read(folder.join(&names[3])).unwrap();
    assert_eq!(Document::read(&read).unwrap().entries[0].text, "one");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn nothing_is_written_over_or_through_a_link() {
    let place = tempfile::tempdir().unwrap();
    let (out, part) = (place.path().join("all.mbox"), place.path().join("all.mbox.part"));
    let open = || Destination::open(Format::Mbox, Some(out.clone()), false);
    let elsewhere = place.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &part).unwrap();
    assert_eq!(open().map(drop).map_err(|why| why.code()), Err("usage"));
    assert!(!elsewhere.exists());
    std::fs::remove_file(&part).unwrap();
    let begun = open().unwrap();
    std::fs::write(&out, "somebody's").unwrap();
    assert!(begun.close(true).is_err(), "it came meanwhile");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "somebody's");
}
