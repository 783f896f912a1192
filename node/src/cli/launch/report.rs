//! What a launch did, line by line as it happens for people, and as a whole for programs.

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::cli::{Failure, Output, text::line};

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Done,
    /// It would be done.
    Would,
    Failed,
    /// There was nothing to do.
    Unneeded,
}

impl Went {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Would => "would",
            Self::Failed => "failed",
            Self::Unneeded => "unneeded",
        }
    }
}

/// Cells of the column with the name of a step.
const STEP_CELLS: usize = 8;

#[derive(Debug)]
pub(super) struct Report<'a> {
    output: &'a mut Output,
    is_dry: bool,
    steps: Vec<Value>,
}

impl<'a> Report<'a> {
    pub(super) fn new(output: &'a mut Output, is_dry: bool) -> Self {
        Self { output, is_dry, steps: Vec::new() }
    }

    /// What doing something is called.
    pub(super) const fn doing(&self) -> Went {
        if self.is_dry { Went::Would } else { Went::Done }
    }

    /// The beginning of a role's steps, or a line between them.
    pub(super) fn head(&mut self, text: &str) -> Result<(), Failure> {
        self.output.guide(|| format!("{}\n", line(text).bold()))
    }

    /// One step, of a role or of all.
    pub(super) fn step(
        &mut self,
        role: Option<&str>,
        step: &str,
        went: Went,
        text: &str,
    ) -> Result<(), Failure> {
        let (result, text) = (went.as_str(), line(text));
        self.steps.push(json!({"role": role, "step": step, "result": result, "text": text}));
        self.output.guide(|| {
            let indent = if role.is_some() { "  " } else { "" };
            let text = match went {
                Went::Failed => text.red().to_string(),
                Went::Done | Went::Would | Went::Unneeded => text,
            };
            format!("{indent}{step:STEP_CELLS$} {text}\n")
        })
    }

    /// Lines that explain the step before.
    pub(super) fn more(&mut self, lines: &[String]) -> Result<(), Failure> {
        let lines: Vec<String> = lines.iter().map(|it| line(it)).collect();
        if let Some(step) = self.steps.last_mut() {
            step["lines"] = json!(lines);
        }
        self.output.guide(|| lines.iter().map(|it| format!("    {it}\n")).collect())
    }

    /// The end, with how it went for each role, and how a person gets to their terminals.
    pub(super) fn end(self, agents: &[Value], attach: Option<&str>) -> Result<(), Failure> {
        let Self { output, is_dry, steps } = self;
        output.answer(
            || json!({"dry_run": is_dry, "steps": steps, "agents": agents, "attach": attach}),
            || attach.map_or_else(String::new, |attach| format!("{attach}\n")),
        )
    }
}
