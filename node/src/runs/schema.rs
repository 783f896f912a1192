//! The form that an agent's output is to have, as a JSON Schema.
//!
//! - **SC1** A schema is checked before anything runs: its size and depth are bounded, it refers to
//!   nothing outside of itself, and its patterns compile.
//! - **SC2** What is said of an output that does not fit is bounded, and repeats none of its values.
//!
//! Nothing is ever fetched. `format` is a remark, as the standard has it. A schema can cost more time
//! than its size tells, so the check of an output belongs on a thread that may block.

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;
use tasuki_proto::echo::echo;

/// A schema as text.
pub const SCHEMA_BYTES_MAX: usize = 32 << 10;

/// Values within one another. What reads a step's settings takes no more than 128.
const SCHEMA_DEPTH_MAX: usize = 64;

/// One compiled pattern; there may be a thousand.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Steps back of one match of a pattern that looks around: some milliseconds.
const BACKTRACKS_MAX: usize = 100_000;

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

/// Why something is no schema that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("must be a JSON object")]
    NoObject,
    #[error("has {0} bytes; the limit is {SCHEMA_BYTES_MAX}")]
    TooLong(usize),
    #[error("has more than {SCHEMA_DEPTH_MAX} levels")]
    TooDeep,
    #[error("refers to {0}; only references within the schema work, which begin with `#`")]
    Remote(String),
    #[error("is not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// Checks a schema.
///
/// # Errors
/// With what is wrong, as the end of a sentence.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    if !schema.is_object() {
        return Err(SchemaError::NoObject);
    }
    check_values(schema)?;
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(SchemaError::TooLong(bytes));
    }
    compile(schema).map(drop).map_err(SchemaError::Invalid)
}

/// What an agent is told whose output is to have a form.
pub fn instruction(schema: &Value) -> String {
    format!("Answer with JSON alone that matches this JSON Schema: {schema}")
}

/// Reads an output, and checks that it meets the schema. It may stand in one fence of Markdown.
///
/// # Errors
/// With a sentence that names the first violations and where they are.
pub fn check_output(schema: &Value, output: &str) -> Result<Value, String> {
    let text = without_fence(output);
    let value: Value =
        serde_json::from_str(text).map_err(|why| format!("The output is not JSON: {why}."))?;
    let validator = compile(schema)
        .map_err(|why| cut(&format!("The output schema is not valid: {why}"), MESSAGE_BYTES_MAX))?;
    if validator.is_valid(&value) {
        return Ok(value);
    }
    let mut violations = Vec::new();
    let mut others = 0_usize;
    if text.len() > LISTED_BYTES_MAX {
        violations.extend(validator.validate(&value).err().as_ref().map(describe));
    } else {
        for error in validator.iter_errors(&value) {
            if violations.len() < VIOLATIONS_MAX {
                violations.push(describe(&error));
            } else {
                others += 1;
            }
        }
    }
    let mut message = "The output does not match its JSON Schema".to_owned();
    if !violations.is_empty() {
        message = format!("{message}: {}", violations.join("; "));
    }
    if others > 0 {
        message = format!("{message}; and {others} more");
    }
    Err(cut(&format!("{message}."), MESSAGE_BYTES_MAX))
}

/// Looks at every value, without recursion: nothing is known of the depth yet.
fn check_values(schema: &Value) -> Result<(), SchemaError> {
    let mut rest = vec![(schema, 1)];
    while let Some((value, depth)) = rest.pop() {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(SchemaError::TooDeep);
        }
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let reference = value.as_str().filter(|_| REFERENCES.contains(&key.as_str()));
                    if let Some(place) = reference.filter(|place| !place.starts_with('#')) {
                        return Err(SchemaError::Remote(echo(place).to_string()));
                    }
                    rest.push((value, depth + 1));
                }
            }
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns =
        PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX).size_limit(PATTERN_BYTES_MAX);
    let built = jsonschema::options().with_pattern_options(patterns).build(schema);
    built.map_err(|why| {
        let what = format!("{}{why}", place(&why));
        cut(&what, VIOLATION_BYTES_MAX)
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
mod tests {
    use serde_json::json;

    use super::*;

    fn person() -> Value {
        json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn an_output_that_fits_is_read_in_a_fence_or_without_one() {
        let ada = json!({"name": "Ada", "age": 36});
        for output in [
            r#"{"name":"Ada","age":36}"#,
            "\n {\"name\":\"Ada\",\n\"age\":36}\n",
            "```json\n{\"name\":\"Ada\",\"age\":36}\n```",
            "```JSON \r\n{\"name\":\"Ada\",\"age\":36}```\n",
            "```\n{\"name\":\"Ada\",\"age\":36}\n```",
        ] {
            assert_eq!(check_output(&person(), output), Ok(ada.clone()), "{output}");
        }
        let fence = json!("```\nx\n```");
        assert_eq!(check_output(&json!({}), &fence.to_string()), Ok(fence));
    }

    #[test]
    fn an_output_that_is_not_json_alone_is_none() {
        for output in [
            "",
            "Here it is: {\"name\":\"Ada\"}",
            "{\"name\":\"Ada\"} Done.",
            "```json\n{\"name\":\"Ada\"}\n```\nDone.",
            "```python\n{\"name\":\"Ada\"}\n```",
            "```json\n{\"name\":\"Ada\"}\n```\n```json\n{\"name\":\"Bob\"}\n```",
        ] {
            let why = check_output(&person(), output).unwrap_err();
            assert!(why.starts_with("The output is not JSON: "), "{output}: {why}");
        }
    }

    #[test]
    fn violations_are_named_with_their_places_and_without_values() {
        for (output, said) in [
            (json!({"name": "Ada", "age": "s3cret"}), ["/age: ", "integer"]),
            (json!({"age": 3}), ["\"name\"", "required"]),
            (json!({"name": "Ada", "age": -5}), ["/age: ", "minimum"]),
            (json!({"name": "Ada", "more": "s3cret"}), ["more", "not allowed"]),
            (json!("s3cret"), ["object", "."]),
        ] {
            let why = check_output(&person(), &output.to_string()).unwrap_err();
            assert!(said.iter().all(|it| why.contains(it)), "{output}: {why}");
            assert!(!why.contains("s3cret"), "{output}: {why}");
        }
    }

    #[test]
    fn what_is_said_is_bounded() {
        let schema = json!({"type": "array", "items": {"enum": ["x".repeat(500)]}});
        let few = check_output(&schema, &json!(vec!["é".repeat(500); 9]).to_string()).unwrap_err();
        assert!(few.contains("/0: ") && few.ends_with("; and 5 more."), "{few}");
        assert!(few.len() <= MESSAGE_BYTES_MAX, "{}", few.len());
        let many = check_output(&schema, &json!(vec![1; LISTED_BYTES_MAX]).to_string());
        assert!(many.is_err_and(|why| why.contains("/0: ") && why.len() <= MESSAGE_BYTES_MAX));
        let key = format!("{{\"{}\":1}}", "a".repeat(5000));
        let long = check_output(&person(), &key).unwrap_err();
        assert!(long.len() <= MESSAGE_BYTES_MAX, "{}", long.len());
    }

    #[test]
    fn a_schema_is_checked_before_anything_runs() {
        let deep = (0..SCHEMA_DEPTH_MAX).fold(json!({}), |inner, _| json!({"not": inner}));
        for (schema, said) in [
            (json!(true), "must be a JSON object"),
            (json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}), "the limit is 32768"),
            (deep, "more than 64 levels"),
            (json!({"items": {"$ref": "https://example.com/a.json"}}), "\"https://example.com/a"),
            (json!({"$ref": "file:///etc/passwd"}), "only references within the schema"),
            (json!({"$ref": "#/$defs/none"}), "is not a valid JSON Schema: "),
            (json!({"type": "strin"}), "is not a valid JSON Schema: /type: "),
            (json!({"pattern": "("}), "is not a valid JSON Schema: "),
            (json!({"$schema": "https://example.com/own"}), "is not a valid JSON Schema: "),
        ] {
            let why = check_schema(&schema).unwrap_err().to_string();
            assert!(why.contains(said) && why.len() < 400, "{why}");
        }
        let list = json!({
            "$defs": {"list": {"properties": {"$ref": {}, "next": {"$ref": "#/$defs/list"}}}},
            "$ref": "#/$defs/list",
        });
        for schema in [json!({}), person(), list] {
            assert_eq!(check_schema(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let circle = json!({
            "$defs": {
                "a": {"allOf": [{"$ref": "#/$defs/b"}]},
                "b": {"allOf": [{"$ref": "#/$defs/a"}]},
            },
            "$ref": "#/$defs/a",
        });
        for schema in [json!({"$ref": "#"}), circle] {
            drop(check_output(&schema, "[1]"));
        }
    }

    #[test]
    fn a_pattern_that_would_take_forever_is_given_up() {
        let schema = json!({"pattern": r"^((a+)+)\2b$"});
        let checked = check_output(&schema, &json!("a".repeat(50)).to_string());
        assert!(checked.is_err(), "{checked:?}");
    }

    #[test]
    fn an_agent_is_told_the_schema_in_one_line() {
        assert_eq!(
            instruction(&json!({"type": "object"})),
            r#"Answer with JSON alone that matches this JSON Schema: {"type":"object"}"#
        );
    }
}
