//! To whom and since when, as people and agents say it: one reading for commands and tools. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{Timestamp, civil, tz::TimeZone};
use tasuki_proto::{
    id::{InvalidId, RoleId},
    limits::RECEIVERS_MAX,
    wire,
};

/// Why names are no receivers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoReceivers {
    Name {
        name: String,
        why: InvalidId,
    },
    /// A group that has nobody but the sender, or no names at all.
    Nobody,
    /// More than [`RECEIVERS_MAX`].
    TooMany(usize),
    /// A group has the name of a role: whoever wrote the name may mean either.
    Ambiguous(String),
}

/// Whether any of these is a group, so that it matters which roles the workspace has.
pub(crate) fn names_a_group(names: &[String], groups: &BTreeMap<String, Vec<RoleId>>) -> bool {
    names.iter().any(|name| groups.contains_key(name))
}

/// Whom it goes to, each once. A group that the sender is in means the others of it. `known`: the
/// roles of the workspace, for a file that came with a directory may name groups, too.
pub(crate) fn receivers(
    names: &[String],
    groups: &BTreeMap<String, Vec<RoleId>>,
    known: &BTreeSet<String>,
    sender: &RoleId,
) -> Result<Vec<RoleId>, NoReceivers> {
    let mut to: Vec<RoleId> = Vec::new();
    for name in names {
        match groups.get(name) {
            Some(_) if known.contains(name) => {
                return Err(NoReceivers::Ambiguous(name.clone()));
            }
            Some(group) => to.extend(group.iter().filter(|it| *it != sender).cloned()),
            None => {
                let named = name.parse();
                to.push(named.map_err(|why| NoReceivers::Name { name: name.clone(), why })?);
            }
        }
    }
    let mut known = BTreeSet::new();
    to.retain(|role| known.insert(role.clone()));
    match to.len() {
        0 => Err(NoReceivers::Nobody),
        count if RECEIVERS_MAX < count => Err(NoReceivers::TooMany(count)),
        _ => Ok(to),
    }
}

/// Newest entries that are looked at for whom to answer.
pub(crate) const ANSWERED_ENTRIES: u32 = 20;

/// Whom an answer of `me` goes to: whoever wrote the newest entry that is not its own, else those that
/// it wrote to before; all participants, if it is to all. Empty: nobody else takes part.
pub(crate) fn answered(
    thread: &wire::MailThread,
    entries: &[wire::MailEntry],
    me: &RoleId,
    is_to_all: bool,
) -> Vec<RoleId> {
    let others: Vec<&String> = if is_to_all {
        thread.participants.iter().collect()
    } else {
        let newest = entries.iter().rev().map(|it| &it.sender);
        let mut senders = std::iter::once(&thread.latest_sender).chain(newest);
        match senders.find(|it| !it.is_empty() && *it != me.as_str()) {
            Some(sender) => vec![sender],
            None if thread.original_sender != me.as_str() => vec![&thread.original_sender],
            None => thread.latest_receivers.iter().collect(),
        }
    };
    let others = others.into_iter().filter(|it| **it != me.as_str());
    others.filter_map(|it| it.parse().ok()).collect()
}

/// A moment in milliseconds since the Unix epoch: a time, a day, which begins where its asker is,
/// or how long ago. `None`: it is none of them, or before that epoch.
pub(crate) fn moment_ms(text: &str, now_ms: u64, here: &TimeZone) -> Option<u64> {
    let of = |at: Timestamp| u64::try_from(at.as_millisecond()).ok();
    if let Ok(at) = text.parse::<Timestamp>() {
        return of(at);
    }
    if let Ok(at) = text.parse::<civil::DateTime>() {
        return of(here.to_zoned(at).ok()?.timestamp());
    }
    let ago: Duration = humantime::parse_duration(text.trim_end_matches(" ago")).ok()?;
    Some(now_ms.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_roles_and_groups_each_once() {
        let role = |name: &str| name.parse::<RoleId>().unwrap();
        let groups =
            BTreeMap::from([("devs".to_owned(), vec![role("d1"), role("qa"), role("d2")])]);
        let to = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|it| (*it).to_owned()).collect();
            let known = BTreeSet::from(["d1".to_owned(), "qa".to_owned()]);
            let to = receivers(&all, &groups, &known, &role("qa"));
            to.map(|it| it.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", "))
        };
        assert_eq!(to(&["d2", "devs", "pm"]).as_deref(), Ok("d2, d1, pm"));
        assert_eq!(to(&["qa"]).as_deref(), Ok("qa"));
        assert!(matches!(to(&["a b"]), Err(NoReceivers::Name { name, .. }) if name == "a b"));
        assert_eq!(to(&[]), Err(NoReceivers::Nobody));
        let many: Vec<String> = (0..33).map(|n| format!("r{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(to(&many), Err(NoReceivers::TooMany(33)));
        let alone = BTreeMap::from([("me".to_owned(), vec![role("qa")])]);
        let me = ["me".to_owned()];
        let nobody = receivers(&me, &alone, &BTreeSet::new(), &role("qa"));
        assert_eq!(nobody, Err(NoReceivers::Nobody));
        let both = receivers(&me, &alone, &BTreeSet::from(me.clone()), &role("pm"));
        assert_eq!(both, Err(NoReceivers::Ambiguous("me".to_owned())));
        assert!(names_a_group(&me, &alone) && !names_a_group(&me, &groups));
    }

    #[test]
    fn an_answer_goes_to_whoever_wrote_last() {
        let entry = |sender: &str| wire::MailEntry { sender: sender.into(), ..Default::default() };
        let thread = |original: &str, latest: &str| wire::MailThread {
            original_sender: original.into(),
            latest_sender: latest.into(),
            participants: ["me", "qa", "pm"].map(Into::into).into(),
            latest_receivers: ["pm", "me"].map(Into::into).into(),
            ..Default::default()
        };
        let to = |original: &str, senders: &[&str], is_to_all| {
            let entries: Vec<_> = senders.iter().map(|it| entry(it)).collect();
            let thread = thread(original, senders.last().unwrap());
            let to = answered(&thread, &entries, &"me".parse().unwrap(), is_to_all);
            to.iter().map(RoleId::as_str).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(to("qa", &["qa", "pm", "me"], false), "pm");
        assert_eq!(to("qa", &["me", "me"], false), "qa");
        assert_eq!(to("me", &["me"], false), "pm");
        assert_eq!(to("me", &["me"], true), "qa, pm");
        // Of a long thread, the newest entries may not be on the page that was read.
        let me = "me".parse().unwrap();
        assert_eq!(
            answered(&thread("qa", "pm"), &[entry("qa")], &me, false),
            ["pm".parse().unwrap()]
        );
    }

    #[test]
    fn when_is_said_as_a_day_a_time_or_how_long_ago() {
        let tokyo = TimeZone::fixed(jiff::tz::offset(9));
        let now = 1_795_293_772_094;
        let hours = 3_600_000;
        for (text, expected) in [
            ("2026-11-21", Some(1_795_186_800_000)),
            ("2026-11-21T09:00:00", Some(1_795_219_200_000)),
            ("2026-11-21T00:00:00Z", Some(1_795_219_200_000)),
            ("2026-11-21T20:42:52.094Z", Some(now)),
            ("2h", Some(now - 2 * hours)),
            ("7 days ago", Some(now - 7 * 24 * hours)),
            ("1d 2h", Some(now - 26 * hours)),
            ("yesterday", None),
            ("2026-13-01", None),
            ("2026", None),
            ("1900-01-01", None),
            ("-1", None),
        ] {
            assert_eq!(moment_ms(text, now, &tokyo), expected, "{text}");
        }
    }
}
