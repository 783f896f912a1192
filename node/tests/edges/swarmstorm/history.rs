//! What everybody was told.
//!
//! - A worker that was given a task, or files, has them until the time it was told, unless it gave
//!   them back or its lead took them: nobody else is given them in between.
//! - A result that was acknowledged is there; an approval is told to whoever did the task.

use std::collections::{BTreeMap, BTreeSet};

/// Lines of a role that a failure shows.
const LINES_SHOWN: usize = 40;

/// An issue and a task of it.
pub(super) type Task = (String, String);

/// Something that one role alone has for a while, by the broker's clock.
#[derive(Debug, Clone)]
struct Had {
    by: String,
    from: u64,
    until: u64,
    of: Task,
}

#[derive(Debug, Default)]
pub(super) struct History {
    lines: BTreeMap<String, Vec<String>>,
    /// A task by its name, or a file: who has it.
    had: BTreeMap<String, Vec<Had>>,
    /// Claims that were told.
    pub(super) claimed: BTreeSet<(Task, String)>,
    /// Results that were acknowledged, by their words, which nobody says twice.
    pub(super) submitted: BTreeMap<String, (Task, String)>,
    /// Who was told that its result was approved, and which.
    pub(super) approved: BTreeMap<Task, (String, String)>,
    /// What the lead was told it approved.
    pub(super) reviewed: BTreeMap<Task, String>,
    /// Either of them: whoever is killed is not told.
    pub(super) done: BTreeSet<Task>,
    pub(super) rejected: u64,
    pub(super) lapsed: u64,
    /// Tasks that the lead took from whoever had them, perhaps twice where no answer came: what
    /// anybody was told of those may be over at any time.
    pub(super) reset: BTreeSet<Task>,
    pub(super) refused: BTreeMap<String, u64>,
    /// Questions whose answers came.
    pub(super) answered: u64,
    pub(super) locked: u64,
    pub(super) deaths: u64,
    pub(super) again: u64,
    pub(super) cancelled: u64,
    pub(super) latest: String,
    /// Issues in the order they were opened.
    pub(super) issues: Vec<String>,
    pub(super) closed: BTreeSet<String>,
}

impl History {
    pub(super) fn note(&mut self, role: &str, line: String) {
        self.lines.entry(role.to_owned()).or_default().push(line);
    }

    /// `what` is `by`'s from then until then.
    pub(super) fn has(&mut self, what: &str, by: &str, from: u64, until: u64, of: &Task) {
        if self.reset.contains(of) {
            return;
        }
        let had = self.had.entry(what.to_owned()).or_default();
        let other = had.iter().find(|it| it.by != by && it.from < until && from < it.until);
        if let Some(other) = other {
            let other = other.clone();
            let roles = [by, &other.by];
            let told = self.of_roles(&roles);
            panic!("{what} is {by}'s from {from} until {until}, and {other:?}\n{told}");
        }
        had.retain(|it| it.by != by || it.of != *of);
        had.push(Had { by: by.to_owned(), from, until, of: of.clone() });
    }

    /// What was had for a task is given back.
    pub(super) fn ends(&mut self, by: &str, of: &Task) {
        for had in self.had.values_mut() {
            had.retain(|it| it.of != *of || it.by != by);
        }
        self.had.retain(|_, had| !had.is_empty());
    }

    /// The lead takes a task from whoever has it.
    pub(super) fn resets(&mut self, of: &Task) {
        self.reset.insert(of.clone());
        for had in self.had.values_mut() {
            had.retain(|it| it.of != *of);
        }
    }

    /// Files are given back.
    pub(super) fn ends_files(&mut self, by: &str, of: &Task) {
        for (what, had) in &mut self.had {
            had.retain(|it| it.of != *of || it.by != by || !what.starts_with("src/"));
        }
    }

    /// Until when a task is surely somebody's.
    pub(super) fn claimed_until(&self, by: &str, of: &Task) -> u64 {
        let had = self.had.get(&format!("{}/{}", of.0, of.1));
        had.and_then(|had| had.iter().find(|it| it.by == by)).map_or(0, |it| it.until)
    }

    /// Tasks that anybody knows to be done, and issues that are closed.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.done.len(), self.closed.len())
    }

    pub(super) fn approves(&mut self, of: &Task, by: &str, submission: &str) {
        self.done.insert(of.clone());
        let told = (by.to_owned(), submission.to_owned());
        let before = self.approved.entry(of.clone()).or_insert_with(|| told.clone());
        assert_eq!(*before, told, "{of:?} was approved twice");
    }

    /// What these roles did last.
    pub(super) fn of_roles(&self, roles: &[&str]) -> String {
        let mut out = String::new();
        for role in roles {
            let lines = self.lines.get(*role).map_or(&[][..], Vec::as_slice);
            let from = lines.len().saturating_sub(LINES_SHOWN);
            out += &format!("--- {role}\n{}\n", lines[from..].join("\n"));
        }
        out
    }

    /// Who did anything about a task.
    pub(super) fn about(&self, of: &Task) -> String {
        let word = format!("{} {} ", of.0, of.1);
        let is_about = |lines: &Vec<String>| lines.iter().any(|it| it.contains(&word));
        let roles: Vec<&str> =
            self.lines.iter().filter(|it| is_about(it.1)).map(|it| it.0.as_str()).collect();
        self.of_roles(&roles)
    }

    pub(super) fn summary(&self) -> String {
        let (approved, submitted) = (self.approved.len(), self.submitted.len());
        let resets = self.reset.len();
        let Self { rejected, lapsed, answered, locked, deaths, again, cancelled, latest, .. } =
            self;
        format!(
            "{approved} approved to their workers of {submitted} submitted, {rejected} rejected, \
             {lapsed} claims lapsed, {resets} reset, {locked} locks, {answered} answers, {deaths} \
             deaths, {again} calls again ({latest}), {cancelled} taken back, refused: {:?}",
            self.refused
        )
    }
}
