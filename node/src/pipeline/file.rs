//! A pipeline's file: TOML with a table for each phase. Pure but for what schemas it is given.
//!
//! Every problem is found in one go, each with its line, but for what is no TOML or has another
//! type: that is the first and only one.

use serde::Deserialize;
use serde_json::{Map, Value};
use tasuki_proto::{
    host::config::duration,
    limits::PIPELINE_RETRIES,
    pipeline::{Definition, InvalidDefinition},
    wire,
};
use toml::Spanned;

use super::PhaseSpec;

/// The pipeline of whoever has no file: plan, code, test and review by services of pm, dev, qa and
/// arch, with retry to code.
pub const DEFAULT: &str = include_str!("default.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    max_retries: Option<Spanned<u32>>,
    schema: Option<Spanned<Schema>>,
    #[serde(default)]
    phase: Vec<Spanned<Phase>>,
}

/// A built-in schema by its name, or one's own.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Schema {
    Named(String),
    Own(Map<String, Value>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Phase {
    name: Spanned<String>,
    role: Spanned<String>,
    service: Option<Spanned<String>>,
    arguments: Option<Spanned<Map<String, Value>>>,
    agent: Option<Spanned<String>>,
    prompt: Option<Spanned<String>>,
    runner: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    output: Option<Spanned<Value>>,
    into: Option<Spanned<String>>,
    next: Option<Spanned<String>>,
    on_failure: Option<Spanned<String>>,
    approves: Option<Spanned<String>>,
    approval: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
}

/// Something that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// A sentence without its full stop.
    pub what: String,
}

/// Reads a pipeline's file.
///
/// # Errors
/// Everything that is wrong with it, by line.
pub fn read(text: &str) -> Result<wire::PipelineDefinition, Vec<Problem>> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|why| {
        let at = why.span().map_or(0, |it| it.start);
        let what = why.message().trim_end_matches('.').to_owned();
        vec![Problem { line: line(at), what }]
    })?;
    let mut problems: Vec<Problem> = Vec::new();
    let mut phases = Vec::new();
    for phase in &file.phase {
        let it = phase.get_ref();
        let mut wrong = |field: &str, why: String| {
            let at = it.place(field).unwrap_or_else(|| phase.span().start);
            problems.push(Problem { line: line(at), what: format!("{field} {why}") });
        };
        let spec = it.spec();
        if let Err((field, why)) = spec.action() {
            wrong(field, why);
        }
        let mut milliseconds = |field: &str, text: Option<&Spanned<String>>| {
            let Some(text) = text else { return 0 };
            match duration(text.get_ref()) {
                Ok(it) if !it.is_zero() => u64::try_from(it.as_millis()).unwrap_or(u64::MAX),
                Ok(_) => {
                    wrong(field, "is 0; leave it out, or write a time such as 30m".to_owned());
                    0
                }
                Err(why) => {
                    wrong(field, why);
                    0
                }
            }
        };
        let approval_ms = milliseconds("approval", it.approval.as_ref());
        let timeout_ms = milliseconds("timeout", it.timeout.as_ref());
        let text = |it: &Option<Spanned<String>>| {
            it.as_ref().map(|it| it.get_ref().clone()).unwrap_or_default()
        };
        phases.push(wire::PipelinePhase {
            name: it.name.get_ref().clone(),
            role: it.role.get_ref().clone(),
            spec: serde_json::to_string(&spec).unwrap_or_default(),
            next: text(&it.next),
            on_failure: text(&it.on_failure),
            approves: text(&it.approves),
            approval_ms,
            timeout_ms,
        });
    }
    let definition = wire::PipelineDefinition {
        schema: match file.schema.as_ref().map(Spanned::get_ref) {
            None => String::new(),
            Some(Schema::Named(name)) => name.clone(),
            Some(Schema::Own(schema)) => Value::Object(schema.clone()).to_string(),
        },
        max_retries: file.max_retries.as_ref().map_or(PIPELINE_RETRIES, |it| *it.get_ref()),
        phases,
    };
    if let Err(all) = Definition::read(&definition) {
        problems.extend(all.into_iter().map(|it| {
            let at = file.place(&it);
            Problem { line: line(at), what: format!("{} {}", it.field, it.why) }
        }));
    }
    problems.sort_by_key(|it| it.line);
    if problems.is_empty() { Ok(definition) } else { Err(problems) }
}

impl File {
    /// Where in the file something is wrong.
    fn place(&self, it: &InvalidDefinition) -> usize {
        let retries = || self.max_retries.as_ref().map_or(0, |it| it.span().start);
        match it.phase.and_then(|index| self.phase.get(index)) {
            Some(phase) => phase.get_ref().place(it.field).unwrap_or_else(|| phase.span().start),
            None if it.field == "max_retries" => retries(),
            None => 0,
        }
    }
}

impl Phase {
    /// Where a field is, if it is there.
    fn place(&self, field: &str) -> Option<usize> {
        let start = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.span().start);
        match field {
            "name" => Some(self.name.span().start),
            "role" => Some(self.role.span().start),
            "service" => start(&self.service),
            "agent" => start(&self.agent),
            "prompt" => start(&self.prompt),
            "runner" => start(&self.runner),
            "model" => start(&self.model),
            "into" => start(&self.into),
            "next" => start(&self.next),
            "on_failure" => start(&self.on_failure),
            "approves" => start(&self.approves),
            "approval" => start(&self.approval),
            "timeout" => start(&self.timeout),
            "arguments" => self.arguments.as_ref().map(|it| it.span().start),
            "output" => self.output.as_ref().map(|it| it.span().start),
            _ => None,
        }
    }

    fn spec(&self) -> PhaseSpec {
        let text = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.get_ref().clone());
        PhaseSpec {
            service: text(&self.service),
            arguments: self.arguments.as_ref().map(|it| it.get_ref().clone()),
            agent: text(&self.agent),
            prompt: text(&self.prompt),
            runner: text(&self.runner),
            model: text(&self.model),
            output: self.output.as_ref().map(|it| it.get_ref().clone()),
            into: text(&self.into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipeline_without_a_file_is_plan_code_test_and_review() {
        let read = read(DEFAULT).unwrap();
        let definition = Definition::read(&read).unwrap();
        let names: Vec<&str> = definition.phases.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["plan", "code", "test", "review"]);
        let back: Vec<_> = definition.phases.iter().map(|it| it.on_failure).collect();
        assert_eq!(back, [Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!((definition.phases[3].approves, definition.max_retries), (Some(1), 3));
        assert_eq!(read.phases[0].spec, r#"{"service":"plan_task"}"#);
    }

    #[test]
    fn what_is_wrong_is_said_by_line() {
        let phase = "[[phase]]\nname = \"a\"\nrole = \"dev\"\nservice = \"s\"\n";
        for (text, wanted) in [
            ("", "1: phase has 0 phases; 1 to 32 are possible"),
            ("max_retries = 1\nretries = 2\n", "2: unknown field `retries`"),
            ("[[phase]]\nname = \"a\"\n", "1: missing field `role`"),
            (&format!("{phase}timeout = \"soon\"\n"), "5: timeout"),
            (&format!("{phase}approval = \"31d\"\n"), "5: approval is 2678400000 ms"),
            (&format!("{phase}agent = \"x\"\n"), "5: agent is there beside `service`"),
            (&format!("{phase}prompt = \"x\"\n"), "5: prompt belongs to `agent`"),
            (&format!("{phase}into = \"x.\"\n"), "5: into ends with a point"),
            (
                &format!("{phase}next = \"b\"\n"),
                "5: next is \"b\", which is no phase; there are a, end",
            ),
            (&format!("{phase}{phase}"), "6: name is a of two phases"),
            ("[[phase]]\nname = \"a\"\nrole = \"dev\"\n", "1: service is missing"),
            (
                "[[phase]]\nname = \"a\"\nrole = \"dev\"\nagent = \"x\"\nprompt = \"{x\"\n",
                "1: into is missing; an answer without `output`",
            ),
            (&format!("{phase}arguments = 3\n"), "5: invalid type: integer `3`, expected a map"),
            ("max_retries = 1000\n", "1: max_retries is 1000; the limit is 100"),
            ("x = [", "1: "),
        ] {
            let problems = read(text).unwrap_err();
            let said = format!("{}: {}", problems[0].line, problems[0].what);
            assert!(said.starts_with(wanted), "{text}: {problems:?}");
        }
    }
}
