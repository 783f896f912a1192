//! A file of tasks: what is to be made, and what has to be done before what.
//!
//! TOML or JSON of the same shape. Tasks name each other by `name` and tasks that are there already
//! by id; that nothing waits for itself is seen here, where the names are known.

use std::collections::BTreeMap;

use serde::Deserialize;
use tasuki_proto::{limits::TASKS_PER_CALL_MAX, reason::Reason, swarm::TaskNumber, wire};

use crate::cli::swarm::Failure;

/// How such a file looks, for `--help`.
pub(super) const HELP: &str = r#"The file is TOML, or JSON of the same shape:

  [[tasks]]
  name = "parser"                  # optional: how other tasks of the file refer to it
  subject = "Parse the new format"
  difficulty = "medium"            # easy, medium or focus; default: medium
  points = 3                       # default: 1
  goal = "Every file of the corpus is read"
  acceptance = "`make corpus` passes"
  blocked_by = ["task-2"]          # names of this file, or tasks of the issue

  [[tasks]]
  subject = "Show it in the list"
  difficulty = "easy"
  blocked_by = ["parser"]

Also: description, rules, constraints, conventions, impact_scope, split_from, split_reason, labels,
suggested_files, doc_paths, context (tasks), required_issue_docs, required_task_docs."#;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    tasks: Vec<Entry>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Easy,
    #[default]
    Medium,
    Focus,
}

/// A task as somebody wrote it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    name: String,
    subject: String,
    #[serde(default)]
    difficulty: Level,
    #[serde(default = "one")]
    points: u32,
    #[serde(default)]
    blocked_by: Vec<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    goal: String,
    #[serde(default)]
    rules: String,
    #[serde(default)]
    constraints: String,
    #[serde(default)]
    conventions: String,
    #[serde(default)]
    acceptance: String,
    #[serde(default)]
    impact_scope: String,
    #[serde(default)]
    split_from: String,
    #[serde(default)]
    split_reason: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    suggested_files: Vec<String>,
    #[serde(default)]
    doc_paths: Vec<String>,
    #[serde(default)]
    context: Vec<String>,
    #[serde(default)]
    required_issue_docs: Vec<String>,
    #[serde(default)]
    required_task_docs: Vec<String>,
}

const fn one() -> u32 {
    1
}

/// The tasks that a file asks for. `place` is where the text is from.
pub(super) fn read(place: &str, text: &str) -> Result<Vec<wire::NewTask>, Failure> {
    let no = |why: &str| Failure::usage(format!("{place}: {why}. No task was made."));
    // No TOML begins so.
    let plan: Plan = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|why| no(&why.to_string()))?
    } else {
        toml::from_str(text).map_err(|why| no(why.to_string().trim_end()))?
    };
    match plan.tasks.len() {
        0 => return Err(no("it names no task")),
        count if TASKS_PER_CALL_MAX < count => {
            return Err(no(&format!(
                "it names {count} tasks; at most {TASKS_PER_CALL_MAX} are made together. Split \
                 it, and name what is there already by id in blocked_by"
            )));
        }
        _ => {}
    }
    let places = named(&plan.tasks).map_err(|why| no(&why))?;
    let mut after: Vec<Vec<usize>> = Vec::new();
    let mut tasks = Vec::new();
    for entry in &plan.tasks {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for blocker in &entry.blocked_by {
            if let Some(at) = places.get(blocker.as_str()) {
                new.push(*at);
            } else if blocker.parse::<TaskNumber>().is_ok() {
                known.push(blocker.clone());
            } else {
                let names: Vec<&str> = places.keys().copied().collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let who = called(entry);
                return Err(no(&format!(
                    "{who} waits for {blocker:?}, which is neither a task like task-2 nor a name \
                     of this file, which has {names}"
                )));
            }
        }
        let places = new.iter().map(|at| u32::try_from(*at).unwrap_or(u32::MAX)).collect();
        after.push(new);
        tasks.push(of(entry, known, places));
    }
    if let Some(circle) = circle(&after) {
        let names: Vec<String> = circle.iter().map(|at| called(&plan.tasks[*at])).collect();
        let text = format!(
            "{place}: tasks would wait for each other in a circle: {}. No task was made.",
            names.join(" → ")
        );
        return Err(Failure::reason(Reason::BlockedInACircle, text));
    }
    Ok(tasks)
}

/// Where the tasks with names are.
fn named(tasks: &[Entry]) -> Result<BTreeMap<&str, usize>, String> {
    let mut places = BTreeMap::new();
    for (at, entry) in tasks.iter().enumerate().filter(|(_, it)| !it.name.is_empty()) {
        if entry.name.parse::<TaskNumber>().is_ok() {
            return Err(format!(
                "{:?} is how tasks are called that are there already; take another name",
                entry.name
            ));
        }
        if places.insert(entry.name.as_str(), at).is_some() {
            return Err(format!("two tasks are called {:?}", entry.name));
        }
    }
    Ok(places)
}

/// What an entry is called where it is spoken of.
fn called(entry: &Entry) -> String {
    if entry.name.is_empty() { format!("{:?}", entry.subject) } else { entry.name.clone() }
}

/// Tasks that wait for each other: from one around to itself.
fn circle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::No; after.len()];
    for start in 0..after.len() {
        // Each with how many of those it waits for were gone through.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((at, gone)) = way.last_mut() {
            let at = *at;
            if *gone == 0 && seen[at] == Seen::Done {
                way.pop();
                continue;
            }
            seen[at] = Seen::OnTheWay;
            let Some(next) = after[at].get(*gone).copied() else {
                seen[at] = Seen::Done;
                way.pop();
                continue;
            };
            *gone += 1;
            match seen[next] {
                Seen::Done => {}
                Seen::No => way.push((next, 0)),
                Seen::OnTheWay => {
                    let begins = way.iter().position(|(it, _)| *it == next).unwrap_or(0);
                    let around = way[begins..].iter().map(|(it, _)| *it);
                    return Some(around.chain([next]).collect());
                }
            }
        }
    }
    None
}

fn of(entry: &Entry, blocked_by: Vec<String>, blocked_by_new: Vec<u32>) -> wire::NewTask {
    let difficulty = match entry.difficulty {
        Level::Easy => wire::Difficulty::Easy,
        Level::Medium => wire::Difficulty::Medium,
        Level::Focus => wire::Difficulty::Focus,
    };
    let words = wire::TaskWords {
        description: entry.description.clone(),
        context_task_ids: entry.context.clone(),
        suggested_files: entry.suggested_files.clone(),
        labels: entry.labels.clone(),
        doc_paths: entry.doc_paths.clone(),
        spec: Some(wire::TaskSpec {
            name: entry.name.clone(),
            split_from: entry.split_from.clone(),
            split_reason: entry.split_reason.clone(),
            impact_scope: entry.impact_scope.clone(),
            context_task_ids: Vec::new(),
            goal: entry.goal.clone(),
            rules: entry.rules.clone(),
            constraints: entry.constraints.clone(),
            conventions: entry.conventions.clone(),
            acceptance: entry.acceptance.clone(),
        }),
        required_issue_docs: entry.required_issue_docs.clone(),
        required_task_docs: entry.required_task_docs.clone(),
    };
    wire::NewTask {
        subject: entry.subject.clone(),
        difficulty: difficulty.into(),
        points: entry.points,
        words: Some(words),
        blocked_by,
        blocked_by_new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match read("f", text) {
            Ok(tasks) => tasks
                .iter()
                .map(|it| {
                    let level = it.difficulty().as_str_name().to_lowercase();
                    let (points, after) = (it.points, &it.blocked_by);
                    format!("{} {level} {points} {after:?} {:?}; ", it.subject, it.blocked_by_new)
                })
                .collect(),
            Err(failure) => format!("{}: {}", failure.code(), failure.message),
        }
    }

    /// Tasks by their names and what they wait for: `a=b,c d`.
    fn plan(line: &str) -> String {
        let entry = |it: &str| {
            let (name, after) = it.split_once('=').unwrap_or((it, ""));
            let after: Vec<&str> = after.split(',').filter(|it| !it.is_empty()).collect();
            format!(
                "[[tasks]]\nname = {name:?}\nsubject = \"S{name}\"\ndifficulty = \"easy\"\nblocked_by = {after:?}\n"
            )
        };
        line.split(' ').map(entry).collect()
    }

    #[test]
    fn a_task_is_of_medium_difficulty_and_one_point_unless_it_says_otherwise() {
        let tasks = read("f", "[[tasks]]\nsubject = \"Parse\"\n").unwrap();
        assert_eq!((tasks[0].difficulty(), tasks[0].points), (wire::Difficulty::Medium, 1));
    }

    #[test]
    fn a_file_names_tasks_and_what_they_wait_for() {
        let toml = "[[tasks]]\nname = \"p\"\nsubject = \"Parse\"\ndifficulty = \"focus\"\n\
                    points = 5\n[[tasks]]\nsubject = \"Show\"\ndifficulty = \"easy\"\n\
                    blocked_by = [\"p\", \"task-2\"]\n";
        let expected = "Parse difficulty_focus 5 [] []; Show difficulty_easy 1 [\"task-2\"] [0]; ";
        assert_eq!(said(toml), expected);
        let json = r#" {"tasks": [
            {"name": "p", "subject": "Parse", "difficulty": "focus", "points": 5},
            {"subject": "Show", "difficulty": "easy", "blocked_by": ["p", "task-2"]}]}"#;
        assert_eq!(said(json), expected);
    }

    #[test]
    fn tasks_that_wait_for_each_other_are_named() {
        for (line, circle) in [
            ("a=a", Some("a → a")),
            ("a=b b=a", Some("a → b → a")),
            ("x a=b b=c c=d d=b", Some("b → c → d → b")),
            ("a=b,c b=d c=d d", None),
            ("a b=a c=b,a d=a,b,c", None),
        ] {
            let told = said(&plan(line));
            match circle {
                None => assert!(told.starts_with("Sa "), "{line}: {told}"),
                Some(circle) => {
                    let expected = format!(
                        "blocked_in_a_circle: f: tasks would wait for each other in a circle: \
                         {circle}. No task was made."
                    );
                    assert_eq!(told, expected, "{line}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_made_is_said_before_anything_is() {
        let many: Vec<String> = (0..=TASKS_PER_CALL_MAX).map(|it| format!("t{it}")).collect();
        for (text, why) in [
            ("".to_owned(), "missing field `tasks`"),
            ("tasks = []".to_owned(), "it names no task"),
            ("{".to_owned(), "EOF while parsing"),
            (plan("a a"), "two tasks are called \"a\""),
            (plan("a task-3"), "take another name"),
            (plan("a=b"), "a waits for \"b\", which is neither a task like task-2 nor a name"),
            (plan(&many.join(" ")), "it names 201 tasks; at most 200"),
            (plan("a").replace("easy", "hard"), "unknown variant `hard`"),
            (plan("a") + "depends = []\n", "unknown field `depends`"),
        ] {
            let told = said(&text);
            assert!(told.starts_with("usage: f: ") && told.contains(why), "{why}: {told}");
        }
    }
}
