//! Texts and arguments with places for values: `Plan this: {input.task}`. Pure.
//!
//! A place is a name in braces, with parts of its value after points. Anything else in braces stands
//! as it is, and so does `{name}` where it is written `{{name}}`. What is filled in is not looked
//! through again, so no value can name another.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use tasuki_proto::{echo::echo, limits::TOOL_ARGUMENTS_BYTES_MAX};

/// One template as text.
pub const TEMPLATE_BYTES_MAX: usize = 64 * 1024;

/// Places of one template.
const PLACES_MAX: usize = 256;

/// Values within one another in the arguments of a tool.
const DEPTH_MAX: usize = 32;

/// What a template or arguments may become: a short text can name a long value many times.
pub const FILLED_BYTES_MAX: usize = TOOL_ARGUMENTS_BYTES_MAX;

/// A value by its name, or a part of it: `input.task`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    pub path: Vec<String>,
}

impl Reference {
    /// As it is written, without braces.
    pub fn text(&self) -> String {
        let parts = std::iter::once(&self.name).chain(&self.path);
        parts.map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Reference),
}

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

impl Template {
    /// An error is the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if TEMPLATE_BYTES_MAX < text.len() {
            let bytes = text.len();
            return Err(format!("has {bytes} bytes; the limit is {TEMPLATE_BYTES_MAX}"));
        }
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('{') {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some((_, after)) = rest.strip_prefix('{').and_then(place)
                && let Some(left) = after.strip_prefix('}')
            {
                plain.push_str(&rest[1..rest.len() - after.len()]);
                rest = left;
            } else if let Some((reference, after)) = place(rest) {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(reference));
                rest = after;
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        let places = parts.iter().filter(|part| matches!(part, Part::Value(_))).count();
        if PLACES_MAX < places {
            return Err(format!("has {places} places for values; the limit is {PLACES_MAX}"));
        }
        Ok(Self(parts))
    }

    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value(reference) => Some(reference),
        })
    }

    /// The text with its values: texts as they are, others as JSON. An error is a sentence.
    pub fn fill(&self, values: &Values) -> Result<String, String> {
        let mut filled = String::new();
        for part in &self.0 {
            let text = match part {
                Part::Text(text) => Cow::Borrowed(text.as_str()),
                Part::Value(reference) => match values.find(reference)? {
                    Value::String(text) => Cow::Borrowed(text.as_str()),
                    other @ (Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Array(_)
                    | Value::Object(_)) => Cow::Owned(other.to_string()),
                },
            };
            if FILLED_BYTES_MAX < filled.len() + text.len() {
                return Err(too_long());
            }
            filled.push_str(&text);
        }
        Ok(filled)
    }

    /// The value itself, where the text is one place and nothing else.
    fn fill_value(&self, values: &Values) -> Result<Value, String> {
        match self.0.as_slice() {
            [Part::Value(reference)] => values.find(reference).cloned(),
            _ => self.fill(values).map(Value::String),
        }
    }
}

fn too_long() -> String {
    format!("With its values it has more than {FILLED_BYTES_MAX} bytes, which is the limit.")
}

/// The place that a text begins with, and what follows it.
fn place(text: &str) -> Option<(Reference, &str)> {
    let (inner, after) = text.strip_prefix('{')?.split_once('}')?;
    let mut parts = inner.split('.');
    let name = parts.next().filter(|it| is_name(it))?;
    let path: Vec<String> = parts.map(str::to_owned).collect();
    let is_part = |part: &String| !part.is_empty() && part.chars().all(is_letter);
    path.iter().all(is_part).then(|| (Reference { name: name.to_owned(), path }, after))
}

/// Whether a value can be called so.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_letter)
}

const fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The arguments of a tool, with places in their texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments(BTreeMap<String, Argument>);

#[derive(Debug, Clone, PartialEq)]
enum Argument {
    Text(Template),
    List(Vec<Self>),
    Table(BTreeMap<String, Self>),
    Other(Value),
}

impl Arguments {
    /// An error is the end of a sentence.
    pub fn parse(arguments: Map<String, Value>) -> Result<Self, String> {
        let bytes = Value::Object(arguments.clone()).to_string().len();
        if TEMPLATE_BYTES_MAX < bytes {
            return Err(format!("has {bytes} bytes of JSON; the limit is {TEMPLATE_BYTES_MAX}"));
        }
        table(arguments, 1).map(Self)
    }

    pub fn references(&self) -> Vec<&Reference> {
        let (mut all, mut open) = (Vec::new(), self.0.values().collect::<Vec<_>>());
        while let Some(argument) = open.pop() {
            match argument {
                Argument::Text(template) => all.extend(template.references()),
                Argument::List(items) => open.extend(items),
                Argument::Table(fields) => open.extend(fields.values()),
                Argument::Other(_) => {}
            }
        }
        all
    }

    /// With their values; one that is a single place has the type of its value. An error is a
    /// sentence.
    pub fn fill(&self, values: &Values) -> Result<Map<String, Value>, String> {
        let mut room = FILLED_BYTES_MAX;
        fill_table(&self.0, values, &mut room)
    }
}

fn table(fields: Map<String, Value>, depth: usize) -> Result<BTreeMap<String, Argument>, String> {
    fields.into_iter().map(|(name, value)| Ok((name, argument(value, depth + 1)?))).collect()
}

fn argument(value: Value, depth: usize) -> Result<Argument, String> {
    if DEPTH_MAX < depth {
        return Err(format!("has more than {DEPTH_MAX} values within one another"));
    }
    Ok(match value {
        Value::String(text) => Argument::Text(Template::parse(&text)?),
        Value::Array(items) => Argument::List(
            items.into_iter().map(|it| argument(it, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Value::Object(fields) => Argument::Table(table(fields, depth)?),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Argument::Other(other),
    })
}

fn fill_table(
    fields: &BTreeMap<String, Argument>,
    values: &Values,
    room: &mut usize,
) -> Result<Map<String, Value>, String> {
    let filled = fields.iter().map(|(name, it)| Ok((name.clone(), fill(it, values, room)?)));
    filled.collect()
}

fn fill(argument: &Argument, values: &Values, room: &mut usize) -> Result<Value, String> {
    Ok(match argument {
        Argument::Text(template) => {
            let value = template.fill_value(values)?;
            let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
            *room = room.checked_sub(bytes).ok_or_else(too_long)?;
            value
        }
        Argument::List(items) => {
            Value::Array(items.iter().map(|it| fill(it, values, room)).collect::<Result<_, _>>()?)
        }
        Argument::Table(fields) => Value::Object(fill_table(fields, values, room)?),
        Argument::Other(value) => value.clone(),
    })
}

/// What places are filled with, by name. `None` is an empty text, and so is each part of it.
#[derive(Debug, Default)]
pub struct Values(BTreeMap<String, Option<Value>>);

/// In the place of what is empty.
static EMPTY: Value = Value::String(String::new());

impl Values {
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), Some(value));
    }

    /// A value that is not there yet: whatever part of it is named is an empty text.
    pub fn set_empty(&mut self, name: &str) {
        self.0.insert(name.to_owned(), None);
    }

    /// An error is a sentence.
    fn find(&self, reference: &Reference) -> Result<&Value, String> {
        let wanted = reference.text();
        let unknown = || format!("There is no value {}.", echo(&wanted));
        let Some(mut value) = self.0.get(&reference.name).ok_or_else(unknown)?.as_ref() else {
            return Ok(&EMPTY);
        };
        for (depth, part) in reference.path.iter().enumerate() {
            let found = match value {
                Value::Object(fields) => fields.get(part),
                Value::Array(items) => part.parse().ok().and_then(|at: usize| items.get(at)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            value = found.ok_or_else(|| {
                let path = reference.path[..depth].to_vec();
                let of = Reference { name: reference.name.clone(), path }.text();
                let is = match value {
                    Value::Object(_) => "has no such field",
                    Value::Array(_) => "has no such item",
                    Value::String(_) => "is a text, which has no parts",
                    Value::Null | Value::Bool(_) | Value::Number(_) => "has no parts",
                };
                format!("{{{wanted}}} cannot be filled in: {of} {is} here.")
            })?;
        }
        Ok(value)
    }
}

/// Keywords beside which nothing can be told of a value's fields from `properties` alone.
const OPEN: [&str; 14] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "unevaluatedProperties",
];

/// Whether a value of this schema can have the part that a reference names, as far as the schema
/// tells. A schema that lists fields means those, unless it says `additionalProperties`. An error is
/// the end of a sentence.
pub fn check_path(schema: &Value, path: &[String]) -> Result<(), String> {
    let mut at = schema;
    for part in path {
        let Some(fields) =
            at.as_object().filter(|it| !OPEN.iter().any(|word| it.contains_key(*word)))
        else {
            return Ok(());
        };
        let properties = fields.get("properties").and_then(Value::as_object);
        match fields.get("type").and_then(Value::as_str) {
            Some("array") => {
                if part.parse::<usize>().is_err() {
                    return Err(format!("names {} of a list; it takes numbers from 0", echo(part)));
                }
                let Some(items) = fields.get("items") else { return Ok(()) };
                at = items;
            }
            Some("string" | "number" | "integer" | "boolean" | "null") => {
                return Err(format!("names {} of a value that has no parts", echo(part)));
            }
            Some("object") | None if properties.is_some() => {
                let known = properties.into_iter().flatten();
                let more = fields.get("additionalProperties");
                if let Some((_, field)) = known.clone().find(|(name, _)| *name == part) {
                    at = field;
                } else if let Some(more) = more.filter(|it| **it != Value::Bool(false)) {
                    at = more;
                } else {
                    let names: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
                    let names = names.join(", ");
                    return Err(format!(
                        "names {}, which the schema does not have; there are {names}",
                        echo(part)
                    ));
                }
            }
            Some(_) | None => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values() -> Values {
        let mut values = Values::default();
        values.set("input", json!({ "task": "a {input.n} b", "n": 3, "list": [{ "x": null }] }));
        values.set("previous", json!("text"));
        values
    }

    #[test]
    fn a_text_is_filled_with_its_values() {
        for (text, filled) in [
            ("", Ok("")),
            (
                "no places: {} { } {a b} {1} {\"a\": 1} }",
                Ok("no places: {} { } {a b} {1} {\"a\": 1} }"),
            ),
            ("Plan {input.task}.", Ok("Plan a {input.n} b.")),
            ("{input.n}{input.list}", Ok("3[{\"x\":null}]")),
            ("{input.list.0.x}", Ok("null")),
            ("{{input.n}} {{{input.n}}}", Ok("{input.n} {{input.n}}")),
            ("{previous}", Ok("text")),
            ("{{", Ok("{{")),
            ("ä{", Ok("ä{")),
            ("{plan}", Err("There is no value \"plan\".")),
            ("{input.no}", Err("{input.no} cannot be filled in: input has no such field here.")),
            (
                "{input.list.1}",
                Err("{input.list.1} cannot be filled in: input.list has no such item here."),
            ),
            (
                "{previous.x}",
                Err(
                    "{previous.x} cannot be filled in: previous is a text, which has no parts here.",
                ),
            ),
            ("{input.n.x}", Err("{input.n.x} cannot be filled in: input.n has no parts here.")),
        ] {
            let template = Template::parse(text).unwrap();
            let expected = filled.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(template.fill(&values()), expected, "{text}");
        }
        let whole = Template::parse("{input}").unwrap().fill(&values()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&whole).unwrap()["n"], 3);
    }

    #[test]
    fn arguments_keep_the_type_of_a_single_place() {
        let all = json!({ "n": "{input.n}", "text": "n={input.n}", "deep": [{ "a": "{input.list}" }],
            "flag": true, "{input.n}": 1 });
        let arguments = Arguments::parse(all.as_object().unwrap().clone()).unwrap();
        assert_eq!(arguments.references().len(), 3);
        let filled = Value::Object(arguments.fill(&values()).unwrap());
        let expected = json!({ "n": 3, "text": "n=3", "deep": [{ "a": [{ "x": null }] }],
            "flag": true, "{input.n}": 1 });
        assert_eq!(filled, expected);
    }

    #[test]
    fn what_grows_too_large_is_refused() {
        let mut values = Values::default();
        values.set("input", json!("x".repeat(FILLED_BYTES_MAX / 2)));
        assert!(Template::parse("{input}{input}").unwrap().fill(&values).is_ok());
        assert_eq!(Template::parse("{input}{input}.").unwrap().fill(&values), Err(too_long()));
        let all = json!({ "a": ["{input}", "{input}"], "b": "." });
        let arguments = Arguments::parse(all.as_object().unwrap().clone()).unwrap();
        assert_eq!(arguments.fill(&values), Err(too_long()));
        let why = Template::parse(&"{input}".repeat(PLACES_MAX + 1)).unwrap_err();
        assert_eq!(why, "has 257 places for values; the limit is 256");
        assert!(Template::parse(&"x".repeat(TEMPLATE_BYTES_MAX + 1)).is_err());
        let mut deep = json!("x");
        for _ in 0..DEPTH_MAX {
            deep = json!([deep]);
        }
        assert!(Arguments::parse(json!({ "a": deep }).as_object().unwrap().clone()).is_err());
    }

    #[test]
    fn a_path_is_checked_as_far_as_the_schema_tells() {
        let open = json!({ "type": "object" });
        let closed = json!({ "type": "object", "properties": {
            "task": { "type": "string" },
            "list": { "type": "array", "items": { "properties": { "x": {} } } },
            "any": {},
            "more": { "type": "object", "properties": { "a": {} },
                "additionalProperties": { "type": "number" } },
            "either": { "anyOf": [{ "properties": { "a": {} } }], "properties": {} },
        } });
        for (schema, path, why) in [
            (&open, "anything.at.all", ""),
            (&json!(true), "x", ""),
            (&closed, "task", ""),
            (
                &closed,
                "tsak",
                "names \"tsak\", which the schema does not have; there are any, either, list, more, task",
            ),
            (&closed, "task.x", "names \"x\" of a value that has no parts"),
            (&closed, "list.0.x", ""),
            (&closed, "list.0.y", "names \"y\", which the schema does not have; there are x"),
            (&closed, "list.x", "names \"x\" of a list; it takes numbers from 0"),
            (&closed, "any.x.y", ""),
            (&closed, "more.b", ""),
            (&closed, "more.b.c", "names \"c\" of a value that has no parts"),
            (&closed, "either.z", ""),
        ] {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            let expected = if why.is_empty() { Ok(()) } else { Err(why.to_owned()) };
            assert_eq!(check_path(schema, &path), expected, "{path:?}");
        }
    }
}
