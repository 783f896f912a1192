//! Which events concern whom, and which hooks want them, as tables.

use std::{path::PathBuf, time::Duration};

use super::{super::spec, *};

fn roles(names: &str) -> BTreeSet<RoleId> {
    names.split_whitespace().map(|name| name.parse().unwrap()).collect()
}

fn item(said: Vec<Said>) -> wire::FeedItem {
    let mail = |kind| Noun::Mail(wire::MailEvent { kind: Some(kind) });
    let events = said.into_iter().map(|kind| wire::Event { noun: Some(mail(kind)) }).collect();
    wire::FeedItem { sequence: 7, events, ..Default::default() }
}

fn sent(sender: &str, receivers: &str) -> Said {
    Said::MailSent(wire::MailSent {
        message_id: "m".into(),
        entry: 3,
        sender: sender.into(),
        receivers: receivers.split_whitespace().map(Into::into).collect(),
        r#type: "BR".into(),
        ..Default::default()
    })
}

fn moved(role: &str, to: wire::Box) -> Said {
    let message_id = "m".into();
    Said::MailMoved(wire::MailMoved { message_id, role: role.into(), r#box: to.into() })
}

fn marked(role: &str, receipt: &str) -> Said {
    let (message_id, role, receipt) = ("m".into(), role.into(), receipt.into());
    Said::MailMarked(wire::MailMarked { message_id, role, through: 2, receipt })
}

fn died(role: &str, is_revived: bool) -> Said {
    let of = |sender: &str, entry| wire::MailUnseen { sender: sender.into(), entry };
    let unseen = if is_revived { vec![] } else { vec![of("A", 2), of("B", 3), of("D", 4)] };
    let (message_id, role) = ("m".into(), role.into());
    Said::MailDied(wire::MailDied { message_id, role, is_revived, unseen })
}

/// `kind role entry event.part`, one line each.
fn told(said: Vec<Said>, hosted: &str) -> Vec<String> {
    let found = of_item(&item(said), &roles(hosted));
    let line = |it: &Happening| {
        assert_eq!((it.place.sequence, it.message.as_str()), (7, "m"));
        let by = it.unseen_by.iter().map(|role| format!(" unseen by {role}"));
        let by: String = by.collect();
        format!("{} {} {} {}.{}{by}", it.kind, it.role, it.entry, it.place.event, it.place.part)
    };
    found.iter().map(line).collect()
}

/// Holds Q1.
#[test]
fn what_happened_at_which_role() {
    let lapsed = || {
        let (message_id, roles) = ("m".into(), vec!["B".into(), "C".into()]);
        Said::MailLapsed(wire::MailLapsed { message_id, roles, entry: 4, sender: "B".into() })
    };
    let imported = || {
        Said::MailImported(wire::MailImported {
            message_id: "m".into(),
            entries: 9,
            participants: vec!["A".into(), "B".into()],
        })
    };
    for (said, hosted, expected) in [
        (
            vec![sent("A", "B C")],
            "A B C",
            &["sent A 3 0.0", "received B 3 0.1", "received C 3 0.2"][..],
        ),
        (vec![sent("A", "B C")], "C", &["received C 3 0.2"]),
        (vec![sent("A", "A")], "A", &["sent A 3 0.0", "received A 3 0.1"]),
        (vec![sent("A", "B")], "D", &[]),
        (vec![moved("B", wire::Box::Done)], "A B", &["resolved B 0 0.0"]),
        (vec![moved("B", wire::Box::Cancel)], "B", &["rejected B 0 0.0"]),
        (vec![moved("B", wire::Box::Inbox), moved("B", wire::Box::Outbox)], "B", &[]),
        (vec![marked("B", "seen"), marked("B", "handed")], "B", &["seen B 2 0.0"]),
        (vec![marked("B", "seen")], "A", &[]),
        (vec![lapsed()], "C D", &["lapsed C 4 0.1"]),
        (vec![lapsed()], "B", &["lapsed B 4 0.0", "lapsed B 4 0.2 unseen by C"]),
        (vec![died("B", false), died("B", true)], "B", &["dead B 0 0.0"]),
        (
            vec![died("B", false), died("B", true)],
            "A D",
            &["dead A 2 0.1 unseen by B", "dead D 4 0.3 unseen by B"],
        ),
        (vec![imported(), sent("A", "B")], "B", &["received B 3 1.1"]),
    ] {
        assert_eq!(told(said.clone(), hosted), expected, "{said:?} at {hosted}");
    }
}

fn hook(on: &str, role: &str, types: &str, sender: &str, receiver: &str) -> Hook {
    let on = on.split_whitespace().map(|name| Kind::parse(name).unwrap()).collect();
    let types = types.split_whitespace().map(|name| name.parse().unwrap()).collect();
    let (program, directory) = ("/bin/true".into(), PathBuf::from("/"));
    let command = spec::Command { program, arguments: Vec::new(), directory };
    Hook {
        name: "h".parse().unwrap(),
        on,
        roles: roles(role),
        types,
        senders: roles(sender),
        receivers: roles(receiver),
        action: spec::Action::Command(command),
        limit: Duration::from_secs(1),
        retries: 0,
    }
}

#[test]
fn filters_are_each_a_list_of_which_one_fits() {
    // A BR of A to B and C, received by B.
    let found = of_item(&item(vec![sent("A", "B C")]), &roles("B"));
    for (on, role, types, sender, receiver, is_wanted) in [
        ("received", "", "", "", "", true),
        ("sent resolved", "", "", "", "", false),
        ("received sent", "B D", "", "", "", true),
        ("received", "C", "", "", "", false),
        ("received", "", "BR URGENT", "", "", true),
        ("received", "", "INFO", "", "", false),
        ("received", "", "", "A", "", true),
        ("received", "", "", "B", "", false),
        ("received", "", "", "", "C", true),
        ("received", "", "", "", "D", false),
        ("received", "B", "BR", "A", "B", true),
        ("received", "B", "BR", "A", "D", false),
    ] {
        let hook = hook(on, role, types, sender, receiver);
        let said = (on, role, types, sender, receiver);
        assert_eq!(hook.may_want(&found[0]), is_wanted, "{said:?}");
        if is_wanted {
            assert!(hook.wants(found[0].facts.as_ref()), "{said:?}");
        }
    }
}

#[test]
fn what_is_not_known_before_the_thread_is_read_is_asked_then() {
    let found = of_item(&item(vec![moved("B", wire::Box::Done)]), &roles("B"));
    let facts = |kind: &str| {
        Some(Facts { kind: kind.into(), sender: "A".into(), receivers: vec!["B".into()] })
    };
    let picky = hook("resolved", "", "BR", "A", "B");
    assert!(picky.may_want(&found[0]));
    assert!(picky.wants(facts("BR").as_ref()) && !picky.wants(facts("ER").as_ref()));
    assert!(!picky.wants(None), "a filter that cannot be asked is not passed");
    assert!(hook("resolved", "B", "", "", "").wants(None));
}

#[test]
fn which_entry_is_meant() {
    let entry = |number, sender: &str, receiver: &str| wire::MailEntry {
        number,
        sender: sender.into(),
        receivers: vec![receiver.into()],
        ..Default::default()
    };
    let thread = [entry(1, "A", "B"), entry(2, "C", "B"), entry(3, "B", "A"), entry(4, "A", "C")];
    let of = |said: Said, read: &[wire::MailEntry]| {
        let found = of_item(&item(vec![said]), &roles("A B"));
        found[0].entry_of(read).map(|entry| entry.number)
    };
    assert_eq!(of(sent("A", "B"), &thread), Some(3), "the one it names");
    assert_eq!(of(sent("A", "B"), &thread[3..]), None);
    assert_eq!(of(moved("B", wire::Box::Done), &thread), Some(2), "the newest for the role");
    assert_eq!(of(moved("B", wire::Box::Done), &thread[2..]), Some(4), "else the newest");
    assert_eq!(of(marked("B", "seen"), &thread), Some(2), "none after what was seen");
    assert_eq!(of(marked("A", "seen"), &thread), Some(2), "nothing was for A until then");
    assert_eq!(of(died("A", false), &thread), Some(3));
}
