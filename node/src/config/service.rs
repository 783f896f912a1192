//! `[[service]]`: tools that roles of this node offer, each an agent that runs, a tool that is called,
//! or several of these.
//!
//! It starts agents on behalf of others, so it is the operator's to say, as `[gateway]` is.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value};
use tasuki_proto::{
    echo::echo,
    host::config::{duration, read_settings},
    id::{NodeLabel, RoleId},
    limits::TOOL_CALLERS_MAX,
    schema::check_schema,
};
use toml::{Spanned, de::DeValue};

use super::{
    Config, Problem, Source, Sourced,
    accept::{items, parse_table},
    file::{Wrong, text},
    gateway::pattern,
    launch::directory_from,
    value::duration_text,
};
use crate::{
    gateway::names::{self, NAME_BYTES_MAX, SEPARATOR, ServerName, respelled},
    runner::runners::RunnerTable,
    service_settings::{
        ATTEMPT_KEY, Action, AgentStep, DESCRIPTION_BYTES_MAX, INPUT, PREVIOUS, SERVICE_STEPS_MAX,
        SERVICE_TIMEOUT, SERVICE_TIMEOUT_MAX, SERVICES_MAX, Service, Step, check_service_name,
        check_tool_name,
    },
    template::{Arguments, Template, is_name},
};

/// The table.
pub(super) const SERVICE: &str = "service";

/// What each may say.
const FIELDS: [&str; 15] = [
    "role",
    "name",
    "description",
    "input",
    "output",
    "timeout",
    "callers",
    "agent",
    "prompt",
    "runner",
    "model",
    "on",
    "tool",
    "arguments",
    "steps",
];

/// What each of its steps may say.
const STEP_FIELDS: [&str; 9] =
    ["as", "output", "agent", "prompt", "runner", "model", "on", "tool", "arguments"];

/// The steps of one, for messages.
const STEPS: &str = "service.steps";

/// The shortest that one may be given.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Values within one another in what is turned into JSON.
const DEPTH_MAX: usize = 64;

/// Parses them. `file` is where a relative path begins, `home` is what `~` stands for, `at` says where
/// an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    file: &Path,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Vec<Sourced<Service>> {
    let mut services: Vec<Sourced<Service>> = Vec::new();
    let Some(all) = item.get_ref().as_array().filter(|all| all.len() <= SERVICES_MAX) else {
        let message = format!(
            "`{SERVICE}` takes tables, at most {SERVICES_MAX}: write [[{SERVICE}]] above each"
        );
        problems.push(Problem { at: at(item.span().start), message });
        return services;
    };
    for item in all {
        let reader = Reader { file, home, at };
        let Some(service) = reader.service(item, problems) else { continue };
        let is_same = |it: &Sourced<Service>| {
            it.value.role == service.role && respelled(&it.value.name) == respelled(&service.name)
        };
        let source = at(item.span().start);
        if services.iter().any(is_same) {
            let (role, name) = (&service.role, &service.name);
            let message = format!("`{SERVICE}` {role}{SEPARATOR}{name} is there twice");
            problems.push(Problem { at: source, message });
        } else {
            services.push(Sourced { value: service, source });
        }
    }
    services
}

/// What is wrong with them beside what else is configured. Those of roles that the node does not host
/// are left out, unless the same file says which roles there are: a file may be of several nodes.
pub(super) fn check(config: &mut Config, problems: &mut Vec<Problem>) {
    let roles = &config.roles;
    let is_hosted = |role: &RoleId| roles.value.iter().any(|it| it.name == *role);
    let servers = config.gateway.iter().flat_map(|it| &it.value.servers).map(|it| &it.name);
    let servers: Vec<&ServerName> = servers.collect();
    let builtin = RunnerTable::default();
    let table = config.runners.as_ref().map_or(&builtin, |it| &it.value);
    for Sourced { value: service, source } in &config.services {
        let Service { role, name, .. } = service;
        let mut say = |why: String| {
            let message = format!("`{SERVICE}` {role}{SEPARATOR}{name} {why}");
            problems.push(Problem { at: source.clone(), message });
        };
        if !is_hosted(role) && is_one_file(&roles.source, source) {
            let roles: Vec<&str> = roles.value.iter().map(|it| it.name.as_str()).collect();
            say(format!("is of {role}, which is not among the roles: {}", roles.join(", ")));
        }
        for runner in service.steps.iter().filter_map(runner_here) {
            if table.get(runner).is_none() {
                let names: Vec<&str> = table.iter().map(|it| it.name.as_str()).collect();
                let (is, names) = (echo(runner), names.join(", "));
                say(format!("has `runner`, which is {is}; there are {names}"));
            }
        }
        let own = role.as_str().parse::<ServerName>();
        if own.is_ok_and(|own| servers.iter().any(|it| it.is_confusable(&own))) {
            say(format!("would be called like a tool of the server {role}; rename one of them"));
        }
    }
    let (hosted, idle) = std::mem::take(&mut config.services)
        .into_iter()
        .partition(|it| config.roles.value.iter().any(|role| role.name == it.value.role));
    (config.services, config.idle_services) = (hosted, idle);
}

fn is_one_file(one: &Source, other: &Source) -> bool {
    match (one, other) {
        (Source::File { path: one, .. }, Source::File { path: other, .. }) => one == other,
        (
            Source::Default
            | Source::File { .. }
            | Source::Env(_)
            | Source::Filebox(_)
            | Source::Flag(_),
            _,
        ) => false,
    }
}

/// The runner that a step names for this node.
fn runner_here(step: &Step) -> Option<&str> {
    match &step.action {
        Action::Agent { agent, .. } if agent.on.is_empty() => agent.runner.as_deref(),
        Action::Agent { .. } | Action::Tool { .. } => None,
    }
}

struct Reader<'a> {
    file: &'a Path,
    home: Option<&'a Path>,
    at: &'a dyn Fn(usize) -> Source,
}

/// What was said of one step, and where the text with its places is.
#[derive(Default)]
struct Said {
    name: Option<String>,
    output: Option<Value>,
    agent: Option<String>,
    prompt: Option<Template>,
    runner: Option<String>,
    model: Option<String>,
    on: Option<String>,
    tool: Option<String>,
    arguments: Option<Arguments>,
    offset: Option<usize>,
}

impl Reader<'_> {
    /// `None`: something is wrong with it, which was said.
    fn service(&self, item: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) -> Option<Service> {
        let before = problems.len();
        let (mut role, mut name, mut description) = (None, None, String::new());
        let (mut input, mut timeout, mut callers) = (None, SERVICE_TIMEOUT, Vec::new());
        let (mut said, mut steps, mut inner) = (Said::default(), None, Vec::new());
        let set = |field: &str, item: &Spanned<DeValue<'_>>| {
            match field {
                "role" => {
                    let is = text(item)?;
                    let wrong = |_| (None, format!("is {}, which is no name of a role", echo(is)));
                    role = Some(is.parse::<RoleId>().map_err(wrong)?);
                }
                "name" => {
                    let is = text(item)?;
                    check_service_name(is).map_err(|why| (None, why))?;
                    name = Some(is.to_owned());
                }
                "description" => description = described(text(item)?)?,
                "input" => input = Some(self.input(item)?),
                "timeout" => timeout = within(text(item)?)?,
                "callers" => {
                    callers = items(item)?;
                    callers.iter().try_for_each(|it| pattern(it))?;
                    if callers.is_empty() || TOOL_CALLERS_MAX < callers.len() {
                        let why =
                            format!("takes 1 to {TOOL_CALLERS_MAX} names; leave it out for all");
                        return Err((None, why));
                    }
                }
                "steps" => steps = Some(self.steps(item, &mut inner)?),
                _ => self.set(&mut said, field, item)?,
            }
            Ok(())
        };
        parse_table(SERVICE, &FIELDS, item, self.at, problems, set);
        problems.append(&mut inner);
        let start = item.span().start;
        let (of, wrong) = (describe(role.as_ref(), name.as_deref()), problems.len() != before);
        let mut say = |offset: usize, why: String| {
            problems.push(Problem { at: (self.at)(offset), message: format!("{of} {why}") });
        };
        let (role, name) = match (role, name) {
            (Some(role), Some(name)) => (role, name),
            (role, _) => {
                if !wrong {
                    let lacks = if role.is_none() { "role" } else { "name" };
                    say(start, format!("lacks `{lacks}`"));
                }
                return None;
            }
        };
        let whole = format!("{role}{SEPARATOR}{name}");
        if let Err(why) = check_tool_name(&role, &name) {
            say(start, why);
        }
        let output = said.output.take();
        let (mut steps, places) = match steps {
            Some(_) if said.says_action() => {
                say(start, "has `steps` beside `agent` or `tool`; it takes one of them".to_owned());
                return None;
            }
            Some(steps) => steps,
            // What is wrong with one that is there was said.
            None if wrong => return None,
            None => match said.step() {
                Ok((step, offset)) => (vec![step], vec![offset.unwrap_or(start)]),
                Err(why) => {
                    say(start, why.to_owned());
                    return None;
                }
            },
        };
        let last = steps.last_mut()?;
        if last.output.is_some() {
            let why = "has `output` in its last step; write it beside `steps`";
            say(places.last().copied().unwrap_or(start), why.to_owned());
        }
        last.output.clone_from(&output);
        let mut fields = input.unwrap_or_default();
        fields.entry("type").or_insert_with(|| "object".into());
        let service =
            Service { role, name, description, input: fields, output, timeout, callers, steps };
        for (number, why) in service.check() {
            let offset = places.get(number).copied().unwrap_or(start);
            say(offset, format!("{}{why}", of_step(number, service.steps.len())));
        }
        let calls_itself =
            |step: &Step| matches!(&step.action, Action::Tool { tool, .. } if *tool == whole);
        if service.steps.iter().any(calls_itself) {
            say(start, "calls itself".to_owned());
        }
        (problems.len() == before).then_some(service)
    }

    /// The steps, and where the text of each is.
    fn steps(
        &self,
        item: &Spanned<DeValue<'_>>,
        problems: &mut Vec<Problem>,
    ) -> Result<(Vec<Step>, Vec<usize>), Wrong> {
        let all = item.get_ref().as_array();
        let all =
            all.filter(|it| (1..=SERVICE_STEPS_MAX).contains(&it.len())).ok_or_else(|| {
                (None, format!("takes a list of 1 to {SERVICE_STEPS_MAX} tables, a step each"))
            })?;
        let (mut steps, mut places) = (Vec::new(), Vec::new());
        for item in all {
            let before = problems.len();
            let (mut said, start) = (Said::default(), item.span().start);
            let set = |field: &str, item: &Spanned<DeValue<'_>>| self.set(&mut said, field, item);
            parse_table(STEPS, &STEP_FIELDS, item, self.at, problems, set);
            match said.step() {
                Ok((step, offset)) => {
                    steps.push(step);
                    places.push(offset.unwrap_or(start));
                }
                Err(why) if problems.len() == before => {
                    let message = format!("`{STEPS}` {why}");
                    problems.push(Problem { at: (self.at)(start), message });
                }
                Err(_) => {}
            }
        }
        Ok((steps, places))
    }

    fn set(&self, said: &mut Said, field: &str, item: &Spanned<DeValue<'_>>) -> Result<(), Wrong> {
        let start = item.span().start;
        let wrong = |why: String| (Some(start), why);
        let named = || -> Result<Option<String>, Wrong> {
            let text = text(item)?;
            let is_there = !text.trim().is_empty();
            is_there.then(|| Some(text.to_owned())).ok_or_else(|| (None, "is empty".to_owned()))
        };
        match field {
            "as" => {
                let name = text(item)?;
                if !is_name(name) || [INPUT, ATTEMPT_KEY, PREVIOUS].contains(&name) {
                    let why = "takes a name of letters, digits, `-` and `_` that is not `input`, \
                               `previous` or `attempt_key`";
                    return Err((None, format!("is {}; it {why}", echo(name))));
                }
                said.name = Some(name.to_owned());
            }
            "output" => said.output = Some(self.schema(item)?),
            "agent" => said.agent = named()?,
            "prompt" => {
                said.prompt = Some(Template::parse(text(item)?).map_err(wrong)?);
                said.offset = Some(start);
            }
            "runner" => said.runner = named()?,
            "model" => said.model = named()?,
            "on" => {
                let is = text(item)?;
                let wrong = |why| (None, format!("is {}, which {why}", echo(is)));
                said.on = Some(is.parse::<NodeLabel>().map_err(wrong)?.to_string());
            }
            "tool" => {
                let name = text(item)?;
                if names::split(name).is_none() || NAME_BYTES_MAX < name.len() {
                    let why = "takes a name as `tasuki gateway tools` lists it: server__tool";
                    return Err((None, format!("is {}; it {why}", echo(name))));
                }
                said.tool = Some(name.to_owned());
            }
            "arguments" => {
                let Value::Object(fields) = json(item.get_ref(), 1).map_err(wrong)? else {
                    return Err((None, "takes a table".to_owned()));
                };
                said.arguments = Some(Arguments::parse(fields).map_err(wrong)?);
                said.offset = Some(start);
            }
            _ => unreachable!("FIELDS and STEP_FIELDS have no other"),
        }
        Ok(())
    }

    fn input(&self, item: &Spanned<DeValue<'_>>) -> Result<Map<String, Value>, Wrong> {
        let wrong = || (None, "describes no object; its `type` is \"object\"".to_owned());
        let Value::Object(fields) = self.schema(item)? else { return Err(wrong()) };
        let is_object = fields.get("type").is_none_or(|is| is == "object");
        is_object.then_some(fields).ok_or_else(wrong)
    }

    /// A JSON Schema: a table, or the name of a file that has one.
    fn schema(&self, item: &Spanned<DeValue<'_>>) -> Result<Value, Wrong> {
        let start = item.span().start;
        let schema = match item.get_ref().as_str() {
            None => json(item.get_ref(), 1).map_err(|why| (Some(start), why))?,
            Some(named) => {
                let path = directory_from(named, self.file, self.home)?;
                let bad = |why: String| (None, format!("names {}, which {why}", echo(named)));
                let (bytes, _) =
                    read_settings(&path).map_err(|why| bad(format!("cannot be read: {why}")))?;
                serde_json::from_slice(&bytes).map_err(|why| bad(format!("is not JSON: {why}")))?
            }
        };
        check_schema(&schema).map_err(|why| (None, format!("is a JSON Schema that {why}")))?;
        Ok(schema)
    }
}

impl Said {
    const fn says_action(&self) -> bool {
        self.agent.is_some()
            || self.prompt.is_some()
            || self.runner.is_some()
            || self.model.is_some()
            || self.on.is_some()
            || self.tool.is_some()
            || self.arguments.is_some()
    }

    /// The step, and where its text is. An error is the end of a sentence.
    fn step(self) -> Result<(Step, Option<usize>), &'static str> {
        let Self { name, output, agent, prompt, runner, model, on, tool, arguments, offset } = self;
        let action = match (agent, tool) {
            (Some(_), Some(_)) => return Err("has both `agent` and `tool`; it takes one of them"),
            (None, None) => return Err("says nothing to do; it takes `agent`, `tool` or `steps`"),
            (Some(agent), None) => {
                if arguments.is_some() {
                    return Err("has `arguments`, which belong to `tool`");
                }
                let Some(prompt) = prompt else {
                    return Err("has `agent` without `prompt`, which says what the agent is to do");
                };
                let agent = AgentStep { agent, runner, model, on: on.unwrap_or_default() };
                Action::Agent { agent, prompt }
            }
            (None, Some(tool)) => {
                if prompt.is_some() || runner.is_some() || model.is_some() || on.is_some() {
                    return Err("has `prompt`, `runner`, `model` or `on`, which belong to `agent`");
                }
                let none = || Arguments::parse(Map::new()).expect("nothing is small");
                Action::Tool { tool, arguments: arguments.unwrap_or_else(none) }
            }
        };
        Ok((Step { name, action, output }, offset))
    }
}

fn describe(role: Option<&RoleId>, name: Option<&str>) -> String {
    match (role, name) {
        (Some(role), Some(name)) => format!("`{SERVICE}` {role}{SEPARATOR}{name}"),
        (None, Some(name)) => format!("`{SERVICE}` {name}"),
        (_, None) => format!("`{SERVICE}`"),
    }
}

fn of_step(at: usize, total: usize) -> String {
    if total == 1 { String::new() } else { format!("has step {}, which ", at + 1) }
}

fn described(text: &str) -> Result<String, Wrong> {
    if DESCRIPTION_BYTES_MAX < text.len() {
        let bytes = text.len();
        return Err((None, format!("has {bytes} bytes; the limit is {DESCRIPTION_BYTES_MAX}")));
    }
    Ok(text.to_owned())
}

fn within(text: &str) -> Result<Duration, Wrong> {
    let timeout = duration(text).map_err(|why| (None, why))?;
    if (TIMEOUT_MIN..=SERVICE_TIMEOUT_MAX).contains(&timeout) {
        return Ok(timeout);
    }
    let [is, least, most] = [timeout, TIMEOUT_MIN, SERVICE_TIMEOUT_MAX].map(duration_text);
    Err((None, format!("is {is}; it takes {least} to {most}")))
}

/// What TOML says, as JSON. An error is the end of a sentence.
fn json(value: &DeValue<'_>, depth: usize) -> Result<Value, String> {
    if DEPTH_MAX < depth {
        return Err(format!("has more than {DEPTH_MAX} values within one another"));
    }
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(is) => Value::Bool(*is),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed
                .map_err(|_| format!("has a number that is too large: {}", number.as_str()))?
                .into()
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse::<f64>().ok();
            let number = parsed.and_then(serde_json::Number::from_f64);
            number.map(Value::Number).ok_or("has a number that JSON does not know")?
        }
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => Value::Array(
            items.iter().map(|it| json(it.get_ref(), depth + 1)).collect::<Result<_, _>>()?,
        ),
        DeValue::Table(fields) => {
            let field = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                Ok::<_, String>((name.to_string(), json(value.get_ref(), depth + 1)?))
            };
            Value::Object(fields.iter().map(field).collect::<Result<_, _>>()?)
        }
    })
}
