//! The form that an agent's output or a channel of a board is to have, as a JSON Schema.
//!
//! - **SC1** A schema is checked before anything runs: its size and depth are bounded, also with its
//!   references expanded, it refers to nothing outside of itself, and its patterns compile.
//! - **SC2** What is said of an output that does not fit is bounded, and repeats none of its values.
//! - **SC3** An output is checked only once it is known that this ends soon: a schema that refers to
//!   itself may take any time, as may a large pattern in a long text, and nothing can stop a check.
//!
//! Nothing is ever fetched. `format` is a remark, whatever the version of the standard. A check can
//! take seconds, so it belongs on a thread that may block.

mod output;

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ptr,
};

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value};

pub use self::output::{check_output, instruction, parse_output};
use crate::echo::echo;

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
const LOOK_DEPTH_MAX: u32 = 512;

/// Patterns of a schema.
const PATTERNS_MAX: usize = 64;

/// One pattern as text.
const PATTERN_BYTES_MAX: usize = 256;

/// One compiled pattern.
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// A compiled pattern of this size looks at a byte of a text in the time of one look: some 32 states,
/// each of which may be tried there.
const COMPILED_BYTES_PER_LOOK: usize = 1 << 10;

/// Of a text that is only compared, hashed, or counted.
const TEXT_BYTES_PER_LOOK: usize = 256;

/// Of a text that is decoded.
const DECODED_BYTES_PER_LOOK: usize = 16;

/// Items of an array of which each is compared with each other. More are hashed.
const COMPARED_ITEMS_MAX: usize = 15;

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

/// Why a value does not count as one that a schema describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// The schema itself cannot be used; the end of a sentence about it.
    Schema(String),
    TakesTooLong,
    /// The first violations, and where they are.
    Violations(String),
}

/// Checks a value whose JSON text has so many bytes.
pub fn check_value(schema: &Value, value: &Value, bytes: usize) -> Result<(), Mismatch> {
    let (references, validator) = prepare(schema).map_err(Mismatch::Schema)?;
    if !ends_soon(&references, value) {
        return Err(Mismatch::TakesTooLong);
    }
    let Err(first) = validator.validate(value) else { return Ok(()) };
    let (mut violations, mut others) = (vec![describe(&first)], 0);
    if bytes <= LISTED_BYTES_MAX {
        let mut errors = validator.iter_errors(value);
        violations = errors.by_ref().take(VIOLATIONS_MAX).map(|it| describe(&it)).collect();
        others = errors.count();
    }
    let more = if others == 0 { String::new() } else { format!("; and {others} more") };
    let violations = format!("{}{more}", violations.join("; "));
    Err(Mismatch::Violations(cut(&violations, MESSAGE_BYTES_MAX)))
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
    let validator = compile(schema, COMPILED_BYTES_MAX);
    let validator = validator.map_err(|why| format!("is not a valid JSON Schema: {why}"))?;
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

/// What a schema is held against, as the standard calls it.
#[derive(Debug, Clone, Copy)]
enum Instance<'v> {
    Value(&'v Value),
    /// Of a property. It has no parts.
    Name(&'v String),
}

impl<'v> Instance<'v> {
    fn fields(self) -> Option<&'v Map<String, Value>> {
        match self {
            Self::Value(value) => value.as_object(),
            Self::Name(_) => None,
        }
    }

    fn items(self) -> Option<&'v Vec<Value>> {
        match self {
            Self::Value(value) => value.as_array(),
            Self::Name(_) => None,
        }
    }

    /// How long it is as a text; of all else nothing is read.
    fn text_bytes(self) -> Option<usize> {
        match self {
            Self::Value(value) => value.as_str().map(str::len),
            Self::Name(name) => Some(name.len()),
        }
    }
}

/// Whether a check of this output ends soon (SC3): counts what it looks at, in any order of the
/// keywords and as if each had to be looked at.
fn ends_soon<'v>(references: &References<'v>, output: &'v Value) -> bool {
    let mut counter = LookCounter { references, weights: HashMap::new() };
    let (mut left, mut next) = (LOOKS_MAX, Vec::new());
    let mut rest = vec![(references.root, Instance::Value(output), 1_u32, 1_u32)];
    while let Some((schema, instance, depth, times)) = rest.pop() {
        let Value::Object(keywords) = schema else { continue };
        if depth > LOOK_DEPTH_MAX {
            return false;
        }
        let is_twice = UNEVALUATED.iter().any(|keyword| keywords.contains_key(*keyword));
        for keyword in keywords.keys() {
            let mut looked = counter.count_looks(keywords, keyword, instance, &mut next);
            if is_twice {
                looked = looked.saturating_mul(2);
                if !is_of_parts(keyword) {
                    next.extend_from_within(..);
                }
            }
            let looked = (looked.saturating_add(next.len()) as u64).saturating_mul(times.into());
            let Some(after) = left.checked_sub(looked) else { return false };
            left = after;
            // Where none fits, all are looked at once more for what is wrong with them.
            let times = times + u32::from(matches!(keyword.as_str(), "anyOf" | "oneOf"));
            rest.extend(
                next.drain(..).map(|(schema, instance)| (schema, instance, depth + 1, times)),
            );
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

#[derive(Debug)]
struct LookCounter<'r, 'v> {
    references: &'r References<'v>,
    /// Of the patterns that were met.
    weights: HashMap<&'v str, usize>,
}

impl<'v> LookCounter<'_, 'v> {
    /// What a keyword looks at beyond this goes to `next`. Returns how much was looked at here.
    fn count_looks(
        &mut self,
        keywords: &'v Map<String, Value>,
        keyword: &str,
        instance: Instance<'v>,
        next: &mut Vec<(&'v Value, Instance<'v>)>,
    ) -> usize {
        let Some(inner) = keywords.get(keyword) else { return 0 };
        let (fields, items) = (instance.fields(), instance.items());
        let listed = inner.as_array().map_or(0, Vec::len) + inner.as_object().map_or(0, Map::len);
        let schemas = inner.as_array().into_iter().flatten();
        let by_name = inner.as_object().into_iter().flatten();
        let values = fields.into_iter().flat_map(Map::values).map(Instance::Value);
        let text_bytes = instance.text_bytes().unwrap_or_default();
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                let meant = inner.as_str().and_then(|place| self.references.resolve(place));
                next.extend(meant.map(|meant| (meant, instance)));
            }
            "allOf" | "anyOf" | "oneOf" => next.extend(schemas.map(|it| (it, instance))),
            "not" | "if" | "then" | "else" => next.push((inner, instance)),
            "dependentSchemas" => next.extend(by_name.map(|(_, it)| (it, instance))),
            "dependentRequired" | "dependencies" => {
                let names = by_name.clone().filter_map(|(_, it)| it.as_array()).map(Vec::len);
                let named: usize = names.sum();
                next.extend(by_name.map(|(_, it)| (it, instance)));
                return 1 + listed + named;
            }
            "properties" => {
                let found = by_name
                    .filter_map(|(name, it)| Some((it, Instance::Value(fields?.get(name)?))));
                next.extend(found);
            }
            "patternProperties" => {
                for (_, it) in by_name {
                    next.extend(values.clone().map(|value| (it, value)));
                }
                return 1 + listed + self.names(inner, fields);
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let named = keywords.get("properties").and_then(Value::as_object);
                let is_other = |name: &str| named.is_none_or(|it| !it.contains_key(name));
                let others = fields.into_iter().flatten().filter(|(name, _)| is_other(name));
                next.extend(others.map(|(_, value)| (inner, Instance::Value(value))));
                let patterns = keywords.get("patternProperties");
                let named = patterns.map_or(0, |patterns| self.names(patterns, fields));
                return 1 + fields.map_or(0, Map::len) + named;
            }
            "propertyNames" => {
                let names = fields.into_iter().flat_map(Map::keys);
                next.extend(names.clone().map(|name| (inner, Instance::Name(name))));
                return 1 + names.map(String::len).sum::<usize>();
            }
            "items" | "prefixItems" if inner.is_array() => {
                next.extend(schemas.zip(items.into_iter().flatten().map(Instance::Value)));
            }
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
                let items = items.into_iter().flatten().map(Instance::Value);
                next.extend(items.map(|value| (inner, value)));
            }
            "pattern" => {
                let (Some(pattern), Some(bytes)) = (inner.as_str(), instance.text_bytes()) else {
                    return 1;
                };
                return self.weight(pattern).saturating_mul(1 + bytes);
            }
            "enum" | "const" => return 1 + extent(inner),
            "minLength" | "maxLength" => return 1 + text_bytes / TEXT_BYTES_PER_LOOK,
            "contentEncoding" | "contentMediaType" => {
                return 1 + text_bytes / DECODED_BYTES_PER_LOOK;
            }
            "uniqueItems" => return 1 + items.map_or(0, |items| comparisons(items)),
            _ => {}
        }
        1 + listed
    }

    /// How much these patterns look at the names of these fields.
    fn names(&mut self, patterns: &'v Value, fields: Option<&Map<String, Value>>) -> usize {
        let bytes: usize = fields.into_iter().flat_map(Map::keys).map(|name| 1 + name.len()).sum();
        let patterns = patterns.as_object().into_iter().flat_map(Map::keys);
        let weights = patterns.map(|pattern| self.weight(pattern));
        weights.fold(0, usize::saturating_add).saturating_mul(bytes)
    }

    /// How much a pattern looks at each byte.
    fn weight(&mut self, pattern: &'v str) -> usize {
        *self.weights.entry(pattern).or_insert_with(|| weigh(pattern))
    }
}

/// How large a pattern is once it is compiled, in [`COMPILED_BYTES_PER_LOOK`]: nothing tells, but
/// within which bound it can be compiled.
fn weigh(pattern: &str) -> usize {
    let alone = Map::from_iter([("pattern".to_owned(), Value::from(pattern))]);
    let (alone, mut bytes) = (Value::Object(alone), COMPILED_BYTES_PER_LOOK);
    while bytes < COMPILED_BYTES_MAX && compile(&alone, bytes).is_err() {
        bytes *= 2;
    }
    bytes / COMPILED_BYTES_PER_LOOK
}

/// How much there is to compare in a value.
fn extent(value: &Value) -> usize {
    let of_text = |text: &str| 1 + text.len() / TEXT_BYTES_PER_LOOK;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => of_text(text),
        Value::Array(items) => 1 + items.iter().map(extent).sum::<usize>(),
        Value::Object(fields) => {
            let parts = fields.iter().map(|(name, inner)| of_text(name) + extent(inner));
            1 + parts.sum::<usize>()
        }
    }
}

/// How much is looked at to find out whether all items differ.
fn comparisons(items: &[Value]) -> usize {
    if items.len() <= COMPARED_ITEMS_MAX {
        return items.len() * items.iter().map(extent).sum::<usize>();
    }
    let mut alike: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for item in items {
        let mut hasher = DefaultHasher::new();
        hash(item, &mut hasher);
        let (count, size) = alike.entry(hasher.finish()).or_default();
        *count += 1;
        *size += extent(item);
    }
    alike.values().map(|(count, size)| count.saturating_mul(*size)).fold(0, usize::saturating_add)
}

/// As the check does, which tells nothing of where an array ends, nor large numbers apart: what has
/// one hash is compared with each other.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(is_true) => is_true.hash(hasher),
        Value::Number(number) => {
            hasher.write_u64(number.as_f64().unwrap_or_default().to_bits());
        }
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => items.iter().for_each(|item| hash(item, hasher)),
        Value::Object(fields) => {
            let mut all = 0;
            for (name, inner) in fields {
                let mut own = DefaultHasher::new();
                name.hash(&mut own);
                hash(inner, &mut own);
                all ^= own.finish();
            }
            hasher.write_u64(all);
        }
    }
}

fn compile(schema: &Value, pattern_bytes_max: usize) -> Result<Validator, String> {
    // It takes time in proportion to the text and to its own size, whatever the pattern.
    let patterns = PatternOptions::regex().size_limit(pattern_bytes_max);
    let options = jsonschema::options().with_pattern_options(patterns);
    let built = options.should_validate_formats(false).build(schema);
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

#[cfg(test)]
mod tests;
