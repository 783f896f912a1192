//! What was found, and how it is shown. Pure.

use std::collections::BTreeSet;

use owo_colors::OwoColorize as _;
use serde::Serialize;
use serde_json::{Value, json};
use tasuki_proto::counted::counted;

use crate::cli::text::line;

/// What is looked at, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Area {
    Program,
    Configuration,
    Data,
    Node,
    Broker,
    Clients,
    Work,
    Delivery,
}

impl Area {
    const fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Configuration => "configuration",
            Self::Data => "data",
            Self::Node => "node",
            Self::Broker => "broker",
            Self::Clients => "clients",
            Self::Work => "work",
            Self::Delivery => "delivery",
        }
    }
}

/// How bad it is. What is worse comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    /// It could not be looked at, for a reason that is no fault.
    Skipped,
    /// Something works less well, or soon will not.
    Warning,
    /// Something does not work.
    Error,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub area: Area,
    pub level: Level,
    pub what: String,
    /// The next command to type, or what else helps; empty where nothing has to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

impl Finding {
    pub(super) fn ok(area: Area, what: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, what: what.into(), mend: String::new() }
    }

    pub(super) fn skipped(area: Area, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { area, level: Level::Skipped, what: what.into(), mend: mend.into() }
    }

    pub(super) fn warning(area: Area, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { area, level: Level::Warning, what: what.into(), mend: mend.into() }
    }

    pub(super) fn error(area: Area, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { area, level: Level::Error, what: what.into(), mend: mend.into() }
    }
}

/// `found`, or that all is well where nothing is wrong.
pub(super) fn or_ok(mut found: Vec<Finding>, area: Area, ok: impl Into<String>) -> Vec<Finding> {
    if !found.iter().any(|it| it.area == area) {
        found.push(Finding::ok(area, ok));
    }
    found
}

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Report {
    findings: Vec<Finding>,
    /// How long a letter took from one agent to another.
    pub delivery_ms: Option<u64>,
}

impl Report {
    /// An area is well only where nothing of it is wrong, whoever looked at it.
    pub(super) fn new(mut findings: Vec<Finding>, delivery_ms: Option<u64>) -> Self {
        findings.sort_by_key(|it| it.area);
        let wrong = findings.iter().filter(|it| Level::Skipped < it.level);
        let wrong: BTreeSet<Area> = wrong.map(|it| it.area).collect();
        findings.retain(|it| it.level != Level::Ok || !wrong.contains(&it.area));
        Self { findings, delivery_ms }
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|it| it.level == level).count()
    }

    pub(super) fn has_errors(&self) -> bool {
        0 < self.count(Level::Error)
    }

    pub(super) fn value(&self) -> Value {
        json!({
            "findings": self.findings,
            "errors": self.count(Level::Error),
            "warnings": self.count(Level::Warning),
            "delivery_ms": self.delivery_ms,
        })
    }

    pub(super) fn lines(&self) -> String {
        let width = "configuration".len() + 2;
        let mut out = String::new();
        for Finding { area, level, what, mend } in &self.findings {
            let what = line(what);
            let what = match level {
                Level::Ok => format!("{}: {what}", "ok".green()),
                Level::Skipped => format!("-: {what}").dimmed().to_string(),
                Level::Warning => format!("{}: {what}", "warning".yellow()),
                Level::Error => format!("{}: {what}", "error".red().bold()),
            };
            out += &format!("{:<width$}{what}\n", area.name());
            if !mend.is_empty() {
                out += &format!("{:width$}{}\n", "", line(mend));
            }
        }
        let (errors, warnings) = (self.count(Level::Error), self.count(Level::Warning));
        out += &match (errors, warnings) {
            (0, 0) => "\nNo problems found.\n".to_owned(),
            (0, _) => format!("\n{}.\n", counted(warnings as u64, "warning")),
            (_, 0) => format!("\n{}.\n", counted(errors as u64, "error")),
            (_, _) => format!(
                "\n{}, {}.\n",
                counted(errors as u64, "error"),
                counted(warnings as u64, "warning")
            ),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(findings: &[Finding]) -> String {
        let report = Report::new(findings.to_vec(), None);
        anstream::adapter::strip_str(&report.lines()).to_string()
    }

    #[test]
    fn a_healthy_set_up_is_a_line_for_each_area() {
        let fine = [Finding::ok(Area::Node, "pid 7"), Finding::ok(Area::Program, "tasuki 1")];
        let expected = "program        ok: tasuki 1\nnode           ok: pid 7\n\n\
                        No problems found.\n";
        assert_eq!(shown(&fine), expected);
    }

    #[test]
    fn what_is_wrong_has_its_mend_below_it_and_is_counted() {
        let found = [
            Finding::error(Area::Broker, "gone\u{1b}[31m", "`tasuki up`"),
            Finding::warning(Area::Data, "full", "free some"),
            Finding::skipped(Area::Delivery, "no node", ""),
        ];
        assert_eq!(
            shown(&found),
            "data           warning: full\n               free some\n\
             broker         error: gone\n               `tasuki up`\n\
             delivery       -: no node\n\n1 error, 1 warning.\n"
        );
        assert!(Report::new(found.to_vec(), None).has_errors());
        assert!(!Report::new(found[1..].to_vec(), None).has_errors());
        assert!(shown(&found[1..]).ends_with("\n1 warning.\n"));
    }

    #[test]
    fn an_area_is_well_only_where_nothing_of_it_was_found() {
        let wrong = Finding::error(Area::Data, "x", "y");
        let found = or_ok(or_ok(vec![wrong.clone()], Area::Data, "fine"), Area::Node, "fine");
        let expected = [wrong, Finding::ok(Area::Node, "fine")];
        assert_eq!(found, expected);
        // Somebody else looked at the same and found nothing.
        let twice = found.into_iter().chain([Finding::ok(Area::Data, "fine")]);
        assert_eq!(Report::new(twice.collect(), None).findings, expected);
    }
}
