//! A pipeline's file: TOML with a table for each phase. Pure but for what schemas it is given.
//!
//! Every problem is found in one go, each with its line, but for what is no TOML or has another
//! type: that is the first and only one.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use tasuki_broker::rules::board::{AGENT_STATE, Schema as BoardSchema};
use tasuki_proto::{
    echo::echo,
    host::config::duration,
    limits::PIPELINE_RETRIES,
    pipeline::{Definition, InvalidDefinition},
    wire,
};
use toml::Spanned;

use super::PhaseSpec;
use crate::service_settings::check_tool_name;

/// The pipeline of whoever has no file: plan, code, test and review by services of pm, dev, qa and
/// arch, with retry to code.
pub const DEFAULT: &str = include_str!("default.toml");

/// The shortest time that a phase or an approval may be given.
const TIME_MIN: Duration = Duration::from_secs(1);

/// What a date of TOML is called where it becomes a value.
const DATE: &str = "$__toml_private_datetime";

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

/// Reads a pipeline's file, for a board that may exist: what channels it has is known if the file
/// names a schema.
///
/// # Errors
/// Everything that is wrong with it, by line.
pub fn read(text: &str) -> Result<wire::PipelineDefinition, Vec<Problem>> {
    read_for(text, None)
}

/// Reads a pipeline's file, for a new board.
///
/// # Errors
/// Everything that is wrong with it, by line.
pub fn read_for_new_board(text: &str) -> Result<wire::PipelineDefinition, Vec<Problem>> {
    read_for(text, Some(AGENT_STATE))
}

fn read_for(
    text: &str,
    usual_schema: Option<&str>,
) -> Result<wire::PipelineDefinition, Vec<Problem>> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|why| {
        let at = why.span().map_or(0, |it| it.start);
        let what = why.message().trim_end_matches('.').to_owned();
        vec![Problem { line: line(at), what }]
    })?;
    let mut problems: Vec<Problem> = Vec::new();
    let schema = file.schema_text().unwrap_or_else(|why| {
        problems.push(Problem { line: line(file.schema_start()), what: format!("schema {why}") });
        String::new()
    });
    let named = if schema.is_empty() { usual_schema } else { Some(schema.as_str()) };
    let board = named.and_then(|it| match BoardSchema::new(it) {
        Ok(board) => Some(board),
        Err(why) => {
            let what = format!("schema is {}, which {why}", echo(it));
            problems.push(Problem { line: line(file.schema_start()), what });
            None
        }
    });
    let mut phases = Vec::new();
    for phase in &file.phase {
        let it = phase.get_ref();
        let wrong = |(field, why): (&'static str, String)| {
            let at = it.place(field).unwrap_or_else(|| phase.span().start);
            Problem { line: line(at), what: format!("{field} {why}") }
        };
        let spec = it.spec(&mut |why| problems.push(wrong(why)));
        match spec.action() {
            Ok(action) => {
                let all = board.iter().flat_map(|it| spec.check_channels(&action, it));
                let verdict = spec.check_verdict(it.approves.is_some()).err();
                problems.extend(all.chain(verdict).chain(it.check_service()).map(wrong));
            }
            Err(why) => problems.push(wrong(why)),
        }
        let mut milliseconds = |field: &'static str, text: &Option<Spanned<String>>| {
            let read = text.as_ref().map(|it| milliseconds(it.get_ref())).transpose();
            read.map_err(|why| problems.push(wrong((field, why)))).ok().flatten().unwrap_or(0)
        };
        let approval_ms = milliseconds("approval", &it.approval);
        let timeout_ms = milliseconds("timeout", &it.timeout);
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
    let max_retries = file.max_retries.as_ref().map_or(PIPELINE_RETRIES, |it| *it.get_ref());
    let definition = wire::PipelineDefinition { schema, max_retries, phases };
    if let Err(all) = Definition::read(&definition) {
        problems.extend(all.into_iter().map(|it| {
            let what = match it.phase.and_then(|index| definition.phases.get(index)) {
                // The file has no such field: it is all that a phase says of its work.
                Some(phase) if it.field == "spec" => format!("phase {} {}", phase.name, it.why),
                _ => format!("{} {}", it.field, it.why),
            };
            Problem { line: line(file.place(&it)), what }
        }));
    }
    problems.sort_by_key(|it| it.line);
    if problems.is_empty() { Ok(definition) } else { Err(problems) }
}

/// An error is the end of a sentence.
fn milliseconds(text: &str) -> Result<u64, String> {
    let time = duration(text)?;
    if time < TIME_MIN {
        return Err(format!("is {}; write at least 1s, or leave it out", echo(text)));
    }
    Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// What TOML says, as JSON. An error is the end of a sentence.
fn json(value: &Value) -> Result<Value, String> {
    Ok(match value {
        // TOML has no null: it was a number that is none, or has no end.
        Value::Null => return Err("has a number that JSON does not know".to_owned()),
        Value::Array(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        Value::Object(fields) => match fields.get(DATE) {
            Some(date) => date.clone(),
            None => Value::Object(table(fields)?),
        },
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    })
}

fn table(fields: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    fields.iter().map(|(name, value)| Ok((name.clone(), json(value)?))).collect()
}

impl File {
    /// A built-in schema's name, or JSON; empty where none is named.
    fn schema_text(&self) -> Result<String, String> {
        match self.schema.as_ref().map(Spanned::get_ref) {
            None => Ok(String::new()),
            Some(Schema::Named(name)) => Ok(name.clone()),
            Some(Schema::Own(schema)) => Ok(Value::Object(table(schema)?).to_string()),
        }
    }

    fn schema_start(&self) -> usize {
        self.schema.as_ref().map_or(0, |it| it.span().start)
    }

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

    /// `wrong` is told of a field that cannot be written as JSON, which is left out.
    fn spec(&self, wrong: &mut dyn FnMut((&'static str, String))) -> PhaseSpec {
        let text = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.get_ref().clone());
        let arguments = self.arguments.as_ref().map(|it| table(it.get_ref())).transpose();
        let output = self.output.as_ref().map(|it| json(it.get_ref())).transpose();
        PhaseSpec {
            service: text(&self.service),
            arguments: arguments.unwrap_or_else(|why| {
                wrong(("arguments", why));
                None
            }),
            agent: text(&self.agent),
            prompt: text(&self.prompt),
            runner: text(&self.runner),
            model: text(&self.model),
            output: output.unwrap_or_else(|why| {
                wrong(("output", why));
                None
            }),
            into: text(&self.into),
        }
    }

    /// Whether its role can have such a service. One whose role is none is told of elsewhere.
    fn check_service(&self) -> Option<(&'static str, String)> {
        let role = self.role.get_ref().parse().ok()?;
        let why = check_tool_name(&role, self.service.as_ref()?.get_ref()).err()?;
        Some(("service", why))
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
            (
                &format!("{phase}timeout = \"999ms\"\n"),
                "5: timeout is \"999ms\"; write at least 1s",
            ),
            (&format!("{phase}approval = \"0\"\n"), "5: approval is \"0\"; write at least 1s"),
            (
                &format!("schema = \"nope\"\n{phase}"),
                "1: schema is \"nope\", which is neither agent_state nor any nor a JSON Schema",
            ),
            (
                &format!("{phase}arguments = {{ a = \"{{nochannel}}\" }}\n"),
                "5: arguments has the place {nochannel}, which is no channel of the board; there",
            ),
            (
                &format!("{phase}arguments = {{ a = \"{{requirements.x}}\" }}\n"),
                "5: arguments has the place {requirements.x}, which names \"x\" of a value",
            ),
            (
                &format!("{phase}into = \"artefacts.plan\"\n"),
                "5: into names \"artefacts\", which is no channel of the board; there",
            ),
            (
                &phase.replace("\"s\"", "\"no such service; rm -rf\""),
                "4: service is \"no such service; rm -rf\"; it takes letters",
            ),
            (
                &phase.replace("\"s\"", &format!("\"{}\"", "s".repeat(49))),
                "4: service has 49 bytes; with its role it has at most 48",
            ),
            (
                &phase.replace("\"s\"", &format!("\"{}\"", "s".repeat(46))),
                "4: service cannot be called dev__sss",
            ),
            (&format!("{phase}into = \"is_approved\"\n"), "5: into is is_approved, which only a"),
            (
                &format!("{phase}arguments = {{ a = [nan] }}\n"),
                "5: arguments has a number that JSON does not know",
            ),
            (
                &format!("{phase}arguments = {{ a = {{ b = -inf }} }}\n"),
                "5: arguments has a number that JSON does not know",
            ),
            (
                &format!("{phase}arguments = {{ a = \"{}\" }}\n", "x".repeat(32 * 1024)),
                "1: phase a is 32804 bytes long; the limit is 32768",
            ),
            (&format!("{phase}next = \"a\"\n"), "5: next is a, so that `end` is never reached"),
            ("x = [", "1: "),
        ] {
            let problems = read_for_new_board(text).unwrap_err();
            let said = format!("{}: {}", problems[0].line, problems[0].what);
            assert!(said.starts_with(wanted), "{text}: {problems:?}");
        }
    }

    #[test]
    fn a_gate_can_write_its_verdict() {
        let gate = |lines: &str| {
            let code = "[[phase]]\nname = \"code\"\nrole = \"dev\"\nservice = \"s\"\n";
            let review = "[[phase]]\nname = \"r\"\nrole = \"arch\"\napproves = \"code\"\n";
            read(&format!("{code}{review}{lines}\n"))
        };
        let agent = "agent = \"x\"\nprompt = \"p\"\n";
        let object = "output = { type = \"object\", properties = { is_approved = {} } }";
        for works in [
            "service = \"s\"".to_owned(),
            format!("{agent}{object}"),
            format!("{agent}output = {{ type = \"object\" }}"),
            format!("{agent}output = {{ type = \"boolean\" }}\ninto = \"is_approved\""),
        ] {
            assert!(gate(&works).is_ok(), "{works}: {:?}", gate(&works));
        }
        for (lines, wanted) in [
            (
                format!("{agent}output = {{ properties = {{ approved = {{}} }} }}"),
                "11: output does not have what a gate writes: an object with",
            ),
            (
                format!("{agent}into = \"is_approved\""),
                "5: output is missing; the answer of a gate is an object with the boolean",
            ),
            (
                "service = \"s\"\ninto = \"artifacts.review\"".to_owned(),
                "10: into is \"artifacts.review\"; a gate writes is_approved",
            ),
        ] {
            let problems = gate(&lines).unwrap_err();
            let said = format!("{}: {}", problems[0].line, problems[0].what);
            assert!(said.starts_with(wanted), "{lines}: {problems:?}");
        }
    }

    #[test]
    fn a_file_without_a_schema_works_on_a_board_of_any() {
        let phase = "[[phase]]\nname = \"a\"\nrole = \"dev\"\nservice = \"s\"\n";
        let own = format!("{phase}arguments = {{ a = \"{{own}}\" }}\ninto = \"x\"\n");
        assert!(read(&own).is_ok(), "the board may have been made with another schema");
        assert!(read_for_new_board(&own).is_err());
        for (schema, works) in [
            ("\"any\"", true),
            ("{ properties = { own = {}, x = {} }, additionalProperties = false }", true),
            ("{ properties = { own = {} }, additionalProperties = false }", false),
        ] {
            let text = format!("schema = {schema}\n{own}");
            assert_eq!(read(&text).is_ok(), works, "{schema}: {:?}", read(&text));
        }
    }

    #[test]
    fn a_date_is_a_text_as_in_services() {
        let text = "[[phase]]\nname = \"a\"\nrole = \"dev\"\nservice = \"s\"\narguments = { a = \
                    [2026-01-31] }\n";
        let spec = &read(text).unwrap().phases[0].spec;
        assert_eq!(spec, r#"{"service":"s","arguments":{"a":["2026-01-31"]}}"#);
    }
}
