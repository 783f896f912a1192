//! The form that an agent's output is to have, as a JSON Schema.
//!
//! - **SC1** A schema is checked before anything runs: its size and depth are bounded, also with its
//!   references expanded, it refers to nothing outside of itself, and its patterns compile.
//! - **SC2** What is said of an output that does not fit is bounded, and repeats none of its values.
//! - **SC3** An output is checked only once it is known that this ends soon: a schema that refers to
//!   itself may take any time, and nothing can stop a check.
//!
//! Nothing is ever fetched. `format` is a remark, as the standard has it. A check can take seconds, so
//! it belongs on a thread that may block.

use std::{
    collections::{BTreeMap, HashMap},
    ptr,
};

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};
use tasuki_proto::echo::echo;

/// A schema as text.
pub const SCHEMA_BYTES_MAX: usize = 32 << 10;

/// Values within one another. What reads a step's settings takes no more than 128.
const SCHEMA_DEPTH_MAX: usize = 64;

/// The same with references expanded: as deep as whatever reads it has to go.
const EXPANDED_DEPTH_MAX: usize = 256;

/// Objects of a schema, with references expanded.
const EXPANDED_MAX: u64 = 10_000;

/// Keywords and values that are looked at for one output: seconds.
const LOOKS_MAX: u64 = 5_000_000;

/// Schemas within one another that one value of an output leads to: each takes room on the stack.
const LOOK_DEPTH_MAX: usize = 512;

/// Patterns of a schema.
const PATTERNS_MAX: usize = 64;

/// One pattern as text.
const PATTERN_BYTES_MAX: usize = 256;

/// One compiled pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// All that is said of an output that does not fit.
const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// Of one violation.
const VIOLATION_BYTES_MAX: usize = 200;

/// Violations that are named.
const VIOLATIONS_MAX: usize = 4;

/// In a longer output only the first violation is looked for: each takes some hundred bytes, and
/// there may be one for every two bytes.
const LISTED_BYTES_MAX: usize = 64 << 10;

/// Keywords whose text says where another schema is.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that name a schema for references.
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// Keywords that look at the schemas beside them once more.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// The version that writes `$id` without the sign.
const OLD_DRAFT: &str = "draft-04";

/// Checks a schema. An error is the end of a sentence.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    prepare(schema).map(drop)
}

/// What an agent is told whose output is to have a form.
pub fn instruction(schema: &Value) -> String {
    format!("Answer with JSON alone that matches this JSON Schema: {schema}")
}

/// Checks that an output meets the schema. It may stand in one fence of Markdown. An error is a
/// sentence that names the first violations and where they are.
pub fn check_output(schema: &Value, output: &str) -> Result<(), String> {
    let text = without_fence(output);
    let value: Value =
        serde_json::from_str(text).map_err(|why| format!("The output is not JSON: {why}."))?;
    let (references, validator) = prepare(schema)
        .map_err(|why| cut(&format!("The output schema {why}."), MESSAGE_BYTES_MAX))?;
    if !ends_soon(&references, &value) {
        return Err(
            "The output cannot be checked: with its JSON Schema that takes too long. Make the \
             schema simpler, above all where it refers to itself."
                .to_owned(),
        );
    }
    let Err(first) = validator.validate(&value) else { return Ok(()) };
    let (mut violations, mut others) = (vec![describe(&first)], 0);
    if text.len() <= LISTED_BYTES_MAX {
        let mut errors = validator.iter_errors(&value);
        violations = errors.by_ref().take(VIOLATIONS_MAX).map(|it| describe(&it)).collect();
        others = errors.count();
    }
    let more = if others == 0 { String::new() } else { format!("; and {others} more") };
    let violations = violations.join("; ");
    let message = format!("The output does not match its JSON Schema: {violations}{more}.");
    Err(cut(&message, MESSAGE_BYTES_MAX))
}

fn prepare(schema: &Value) -> Result<(References<'_>, Validator), String> {
    if !schema.is_object() {
        return Err("must be a JSON object".to_owned());
    }
    let references = check_values(schema)?;
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!("has {bytes} bytes; the limit is {SCHEMA_BYTES_MAX}"));
    }
    let size = Expanding { references: &references, known: HashMap::new() }.size(schema, 1)?;
    if size.objects > EXPANDED_MAX {
        return Err(format!(
            "has more than {EXPANDED_MAX} subschemas with its references expanded"
        ));
    }
    let validator = compile(schema).map_err(|why| format!("is not a valid JSON Schema: {why}"))?;
    Ok((references, validator))
}

/// Looks at every value, without recursion: nothing is known of the depth yet.
fn check_values(schema: &Value) -> Result<References<'_>, String> {
    let mut references = References { root: schema, anchors: BTreeMap::new() };
    let (mut rest, mut patterns) = (vec![(schema, 1)], 0);
    let draft = schema.get("$schema").and_then(Value::as_str);
    let is_old = draft.is_some_and(|it| it.contains(OLD_DRAFT));
    while let Some((value, depth)) = rest.pop() {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("has more than {SCHEMA_DEPTH_MAX} levels"));
        }
        match value {
            Value::Object(fields) => {
                patterns += check_patterns(fields)?;
                for (key, inner) in fields {
                    rest.push((inner, depth + 1));
                    let Some(text) = inner.as_str() else { continue };
                    let key = key.as_str();
                    if REFERENCES.contains(&key) && !text.starts_with('#') {
                        return Err(format!(
                            "refers to {}; only references within the schema work, which begin \
                             with `#`",
                            echo(text)
                        ));
                    }
                    // References below it would not begin at the whole.
                    let is_base = matches!(key, "$id" | "$schema") || is_old && key == "id";
                    if is_base && depth > 1 {
                        return Err(format!("has `{key}` in a subschema; only the whole may"));
                    }
                    if ANCHORS.contains(&key) && references.anchors.insert(text, value).is_some() {
                        return Err(format!("has the anchor {} twice", echo(text)));
                    }
                }
            }
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if patterns > PATTERNS_MAX {
            return Err(format!("has more than {PATTERNS_MAX} patterns"));
        }
    }
    Ok(references)
}

/// How many patterns a schema has, but for its subschemas.
fn check_patterns(schema: &Map<String, Value>) -> Result<usize, String> {
    let of_names = schema.get("patternProperties").and_then(Value::as_object);
    let of_names = of_names.into_iter().flat_map(Map::keys).map(String::as_str);
    let all = schema.get("pattern").and_then(Value::as_str).into_iter().chain(of_names);
    let mut count = 0;
    for pattern in all {
        let bytes = pattern.len();
        if bytes > PATTERN_BYTES_MAX {
            return Err(format!(
                "has a pattern of {bytes} bytes; the limit is {PATTERN_BYTES_MAX}"
            ));
        }
        count += 1;
    }
    Ok(count)
}

/// What references within a schema mean.
#[derive(Debug)]
struct References<'s> {
    root: &'s Value,
    anchors: BTreeMap<&'s str, &'s Value>,
}

impl<'s> References<'s> {
    fn resolve(&self, place: &str) -> Option<&'s Value> {
        let place = place.strip_prefix('#')?;
        let is_pointer = place.is_empty() || place.starts_with('/');
        if is_pointer { self.root.pointer(place) } else { self.anchors.get(place).copied() }
    }
}

/// How large a part of a schema is with its references expanded.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    objects: u64,
    levels: usize,
}

impl Size {
    fn include(&mut self, inner: Self) {
        self.objects = self.objects.saturating_add(inner.objects);
        self.levels = self.levels.max(inner.levels);
    }
}

#[derive(Debug)]
struct Expanding<'r, 's> {
    references: &'r References<'s>,
    /// By address. What is being expanded is there already, as nothing more than itself.
    known: HashMap<*const Value, Size>,
}

impl Expanding<'_, '_> {
    fn size(&mut self, schema: &Value, depth: usize) -> Result<Size, String> {
        if let Some(known) = self.known.get(&ptr::from_ref(schema)) {
            return check_levels(*known, depth - 1);
        }
        let mut size = check_levels(Size::default(), depth)?;
        match schema {
            Value::Object(fields) => {
                self.known.insert(ptr::from_ref(schema), Size { objects: 1, levels: 1 });
                for (keyword, inner) in fields {
                    size.include(self.size(inner, depth + 1)?);
                    let place = inner.as_str().filter(|_| REFERENCES.contains(&keyword.as_str()));
                    let Some(place) = place else { continue };
                    let meant = self.references.resolve(place).ok_or_else(|| {
                        format!("is not a valid JSON Schema: {} is not in it", echo(place))
                    })?;
                    size.include(self.size(meant, depth + 1)?);
                }
                if UNEVALUATED.iter().any(|keyword| fields.contains_key(*keyword)) {
                    size.objects = size.objects.saturating_mul(2);
                }
                size.objects = size.objects.saturating_add(1);
            }
            Value::Array(items) => {
                for item in items {
                    size.include(self.size(item, depth + 1)?);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Ok(Size { objects: 0, levels: 1 });
            }
        }
        size.levels += 1;
        self.known.insert(ptr::from_ref(schema), size);
        check_levels(size, depth - 1)
    }
}

/// `above` levels are above what has this size.
fn check_levels(size: Size, above: usize) -> Result<Size, String> {
    if size.levels.saturating_add(above) > EXPANDED_DEPTH_MAX {
        return Err(format!(
            "has more than {EXPANDED_DEPTH_MAX} levels with its references expanded"
        ));
    }
    Ok(size)
}

/// Whether a check of this output ends soon (SC3): counts what it looks at, in any order of the
/// keywords and as if each had to be looked at.
fn ends_soon<'v>(references: &References<'v>, output: &'v Value) -> bool {
    let (mut left, mut next) = (LOOKS_MAX, Vec::new());
    let mut rest = vec![(references.root, output, 1)];
    while let Some((schema, value, depth)) = rest.pop() {
        let Value::Object(keywords) = schema else { continue };
        if depth > LOOK_DEPTH_MAX {
            return false;
        }
        let is_twice = UNEVALUATED.iter().any(|keyword| keywords.contains_key(*keyword));
        for keyword in keywords.keys() {
            let looked = look(references, keywords, keyword, value, &mut next);
            if is_twice && !is_of_parts(keyword) {
                next.extend_from_within(..);
            }
            let Some(after) = left.checked_sub((looked + next.len()) as u64) else { return false };
            left = after;
            rest.extend(next.drain(..).map(|(schema, value)| (schema, value, depth + 1)));
        }
    }
    true
}

/// Whether a keyword is about the values within a value.
fn is_of_parts(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties"
            | "patternProperties"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "items"
            | "prefixItems"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
    )
}

static NO_PARTS: Value = Value::Null;

/// What a keyword looks at beyond this goes to `next`. Returns how much was looked at here.
fn look<'v>(
    references: &References<'v>,
    keywords: &'v Map<String, Value>,
    keyword: &str,
    value: &'v Value,
    next: &mut Vec<(&'v Value, &'v Value)>,
) -> usize {
    let Some(inner) = keywords.get(keyword) else { return 0 };
    let (fields, items) = (value.as_object(), value.as_array());
    let listed = inner.as_array().map_or(0, Vec::len) + inner.as_object().map_or(0, Map::len);
    let schemas = inner.as_array().into_iter().flatten();
    let by_name = inner.as_object().into_iter().flatten();
    let values = fields.into_iter().flat_map(Map::values);
    match keyword {
        "$ref" | "$dynamicRef" | "$recursiveRef" => {
            let meant = inner.as_str().and_then(|place| references.resolve(place));
            next.extend(meant.map(|meant| (meant, value)));
        }
        "allOf" | "anyOf" | "oneOf" => next.extend(schemas.map(|it| (it, value))),
        "not" | "if" | "then" | "else" => next.push((inner, value)),
        "dependentSchemas" | "dependencies" => next.extend(by_name.map(|(_, it)| (it, value))),
        "properties" => {
            let found = by_name.filter_map(|(name, it)| Some((it, fields?.get(name)?)));
            next.extend(found);
        }
        "patternProperties" => {
            for (_, it) in by_name {
                next.extend(values.clone().map(|value| (it, value)));
            }
            let names: usize = fields.into_iter().flat_map(Map::keys).map(String::len).sum();
            return listed.saturating_mul(1 + names);
        }
        "additionalProperties" | "unevaluatedProperties" => {
            let named = keywords.get("properties").and_then(Value::as_object);
            let is_other = |name: &str| named.is_none_or(|it| !it.contains_key(name));
            let others = fields.into_iter().flatten().filter(|(name, _)| is_other(name));
            next.extend(others.map(|(_, value)| (inner, value)));
            return 1 + fields.map_or(0, Map::len);
        }
        // A name has no parts, but a length.
        "propertyNames" => {
            next.extend(values.map(|_| (inner, &NO_PARTS)));
            return 1 + fields.into_iter().flat_map(Map::keys).map(String::len).sum::<usize>();
        }
        "items" | "prefixItems" if inner.is_array() => {
            next.extend(schemas.zip(items.into_iter().flatten()));
        }
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
            next.extend(items.into_iter().flatten().map(|value| (inner, value)));
        }
        "pattern" => return 1 + value.as_str().map_or(0, str::len),
        "uniqueItems" => return 1 + items.map_or(0, Vec::len),
        _ => {}
    }
    1 + listed
}

fn compile(schema: &Value) -> Result<Validator, String> {
    // It takes time in proportion to the text, whatever the pattern.
    let patterns = PatternOptions::regex().size_limit(COMPILED_BYTES_MAX);
    let built = jsonschema::options().with_pattern_options(patterns).build(schema);
    built.map_err(|why| {
        let is_of_pattern =
            matches!(why.kind(), ValidationErrorKind::Format { format } if format == "regex");
        let hint = if is_of_pattern { " (without look-around and back-references)" } else { "" };
        let what = format!("{}{why}", place(&why));
        format!("{}{hint}", cut(&what, VIOLATION_BYTES_MAX))
    })
}

/// One violation, with its place and without the value that is there.
fn describe(error: &ValidationError<'_>) -> String {
    cut(&format!("{}{}", place(error), error.masked()), VIOLATION_BYTES_MAX)
}

/// Where something is wrong, as a JSON pointer.
fn place(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().to_string();
    if pointer.is_empty() { String::new() } else { format!("{}: ", pointer.escape_debug()) }
}

fn cut(text: &str, bytes_max: usize) -> String {
    const END: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(END.len()));
    format!("{}{END}", &text[..end])
}

/// What stands in a fence, if all of the text is one.
fn without_fence(text: &str) -> &str {
    const FENCE: &str = "```";
    let text = text.trim();
    let inner = text.strip_prefix(FENCE).and_then(|inner| inner.strip_suffix(FENCE));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((language, body)) if is_json(language.trim()) => body,
        Some(_) | None => text,
    }
}

fn is_json(language: &str) -> bool {
    language.is_empty() || language.eq_ignore_ascii_case("json")
}

#[cfg(test)]
mod tests;
