//! Tasks of a plan and what they are blocked by, as a lead says it: by the id of a task that is
//! there, or by the subject or name of another one of the plan.

use std::collections::BTreeMap;

use tasuki_proto::{reason::Reason, swarm::TaskNumber, wire};

use crate::role::Refusal;

/// Puts places in the plan where `blocked_by` names others of it.
pub(super) fn connect(tasks: &mut [wire::NewTask]) -> Result<(), Refusal> {
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, task) in tasks.iter().enumerate() {
        let mut names = vec![named(&task.subject)];
        names.extend(task.words.iter().flat_map(|it| &it.spec).map(|it| named(&it.name)));
        names.dedup();
        for name in names {
            places.entry(name).or_default().push(place);
        }
    }
    for (place, task) in tasks.iter_mut().enumerate() {
        let mut known = Vec::new();
        for said in std::mem::take(&mut task.blocked_by) {
            let refused = |why: String| refusal(place, &task.subject, &why);
            let name = named(&said);
            let is_id = name.parse::<TaskNumber>().is_ok();
            match (places.get(&name).map(Vec::as_slice), is_id) {
                (None, true) => known.push(name),
                (Some([other]), false) => {
                    let other = u32::try_from(*other).unwrap_or(u32::MAX);
                    task.blocked_by_new.push(other);
                }
                (Some(_), true) => {
                    return Err(refused(format!(
                        "{name:?} is both a task id and the name of a task in this plan; rename \
                         the task in the plan"
                    )));
                }
                (Some(_), false) => {
                    return Err(refused(format!(
                        "{name:?} is the name of several tasks in this plan"
                    )));
                }
                (None, false) => {
                    return Err(refused(format!(
                        "{name:?} is neither an id, such as task-1, nor the subject or name of a \
                         task in this plan"
                    )));
                }
            }
        }
        task.blocked_by = known;
    }
    let blockers: Vec<&[u32]> = tasks.iter().map(|it| &it.blocked_by_new[..]).collect();
    let Some(circle) = circle(&blockers) else { return Ok(()) };
    let names: Vec<String> = circle.iter().map(|it| shown(&tasks[*it].subject)).collect();
    Err(Refusal {
        reason: Reason::BlockedInACircle,
        message: format!(
            "dependency cycle: {}. No task was created. Remove one of these from `blocked_by`.",
            names.join(" ← ")
        ),
    })
}

/// A subject as refusals name it.
fn shown(subject: &str) -> String {
    /// In characters.
    const SHOWN_MAX: usize = 60;
    let start: String = subject.chars().take(SHOWN_MAX).collect();
    format!("{start:?}")
}

/// As names are compared.
fn named(text: &str) -> String {
    text.trim().to_owned()
}

fn refusal(place: usize, subject: &str, why: &str) -> Refusal {
    Refusal {
        reason: Reason::InvalidArgument,
        message: format!(
            "tasks[{place}] ({}): `blocked_by` {why}. No task was created. Fix the argument and \
             retry.",
            shown(subject)
        ),
    }
}

/// Places that block each other, the first again at the end.
fn circle(blockers: &[&[u32]]) -> Option<Vec<usize>> {
    // Takes away, again and again, what is blocked by nothing that is left.
    let mut is_left = vec![true; blockers.len()];
    let onward = |is_left: &[bool], place: usize| {
        let mut of = blockers[place].iter().map(|it| *it as usize);
        of.find(|it| is_left.get(*it).is_some_and(|it| *it))
    };
    loop {
        let free = (0..blockers.len()).filter(|it| is_left[*it]);
        let free: Vec<usize> = free.filter(|it| onward(&is_left, *it).is_none()).collect();
        if free.is_empty() {
            break;
        }
        for place in free {
            is_left[place] = false;
        }
    }
    // Whatever is left is blocked by something that is left: following that comes round.
    let mut path = vec![is_left.iter().position(|it| *it)?];
    loop {
        let next = onward(&is_left, *path.last()?)?;
        if let Some(from) = path.iter().position(|it| *it == next) {
            path.push(next);
            return Some(path.split_off(from));
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tasks: &[(&str, &str, &[&str])]) -> Vec<wire::NewTask> {
        let task = |(subject, name, blocked_by): &(&str, &str, &[&str])| wire::NewTask {
            subject: (*subject).to_owned(),
            words: Some(wire::TaskWords {
                spec: Some(wire::TaskSpec { name: (*name).to_owned(), ..Default::default() }),
                ..wire::TaskWords::default()
            }),
            blocked_by: blocked_by.iter().map(|it| (*it).to_owned()).collect(),
            ..wire::NewTask::default()
        };
        tasks.iter().map(task).collect()
    }

    fn refused(tasks: &[(&str, &str, &[&str])]) -> String {
        connect(&mut plan(tasks)).unwrap_err().message
    }

    #[test]
    fn others_are_named_by_id_subject_or_name() {
        let mut tasks = plan(&[
            ("Parse it", "parser", &["task-7"]),
            ("Print it", "printer", &["parser", "task-1"]),
            ("Ship it", "Ship it", &[" Parse it ", "printer"]),
        ]);
        connect(&mut tasks).unwrap();
        let told: Vec<_> =
            tasks.iter().map(|it| (&it.blocked_by[..], &it.blocked_by_new[..])).collect();
        let ids = |ids: &[&str]| ids.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(told[0], (&ids(&["task-7"])[..], &[][..]));
        assert_eq!(told[1], (&ids(&["task-1"])[..], &[0][..]));
        assert_eq!(told[2], (&[][..], &[0, 1][..]));
    }

    #[test]
    fn a_name_that_leads_nowhere_or_to_several_is_refused_where_it_stands() {
        let why = refused(&[("a", "", &[]), ("b", "", &["c"])]);
        assert!(why.starts_with("tasks[1] (\"b\"): `blocked_by` \"c\" is neither"), "{why}");
        let why = refused(&[("a", "x", &[]), ("b", "x", &[]), ("c", "", &["x"])]);
        assert!(why.contains("tasks[2]") && why.contains("several"), "{why}");
        let why = refused(&[("task-1", "", &[]), ("b", "", &["task-1"])]);
        assert!(why.contains("rename the task in the plan"), "{why}");
    }

    #[test]
    fn a_circle_is_refused_by_the_names_in_it() {
        let why = refused(&[
            ("a", "", &[]),
            ("b", "", &["a", "d"]),
            ("c", "", &["b"]),
            ("d", "", &["c"]),
        ]);
        assert!(why.contains(r#"cycle: "b" ← "d" ← "c" ← "b"."#), "{why}");
        let why = refused(&[("a", "", &["a"])]);
        assert!(why.contains(r#""a" ← "a""#), "{why}");
    }

    #[test]
    fn a_long_chain_is_none() {
        let names: Vec<String> = (0..200).map(|it| format!("t{it}")).collect();
        let mut tasks = plan(&names.iter().map(|it| (&it[..], "", &[][..])).collect::<Vec<_>>());
        for place in 1..tasks.len() {
            tasks[place].blocked_by = vec![names[place - 1].clone()];
        }
        connect(&mut tasks).unwrap();
        assert_eq!(tasks[199].blocked_by_new, [198]);
    }
}
