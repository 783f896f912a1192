//! Schemas, and outputs that are to have their form.

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
    for output in [
        r#"{"name":"Ada","age":36}"#,
        "\n {\"name\":\"Ada\",\n\"age\":36}\n",
        "```json\n{\"name\":\"Ada\",\"age\":36}\n```",
        "```JSON \r\n{\"name\":\"Ada\",\"age\":36}```\n",
        "```\n{\"name\":\"Ada\",\"age\":36}\n```",
    ] {
        assert_eq!(check_output(&person(), output), Ok(()), "{output}");
    }
    let fence = json!("```\nx\n```");
    let same = json!({ "const": fence });
    assert_eq!(check_output(&same, &fence.to_string()), Ok(()));
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

/// Holds SC2.
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

/// Holds SC1.
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
        let why = check_schema(&schema).unwrap_err();
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
        assert!(check_output(&schema, "[1]").is_err(), "{schema}");
    }
}

#[test]
fn no_pattern_takes_forever() {
    for pattern in [r"^((a+)+)\2b$", "^(?=a)"] {
        let why = check_schema(&json!({ "pattern": pattern })).unwrap_err();
        assert!(why.contains("look-around"), "{why}");
    }
    let schema = json!({"pattern": "^(a+)+b$"});
    assert_eq!(check_schema(&schema), Ok(()));
    let checked = check_output(&schema, &json!("a".repeat(50_000)).to_string());
    assert!(checked.is_err(), "{checked:?}");
    let many: Map<_, _> = (0..=PATTERNS_MAX).map(|it| (it.to_string(), json!({}))).collect();
    for (schema, said) in [
        (json!({"pattern": "a".repeat(PATTERN_BYTES_MAX + 1)}), "a pattern of 257 bytes"),
        (json!({ "patternProperties": many }), "more than 64 patterns"),
    ] {
        let why = check_schema(&schema).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
}

#[test]
fn a_schema_that_grows_with_its_references_is_refused() {
    let place = |at: usize| format!("#/$defs/d{at}");
    let defs = |levels: usize, last: Value, inner: &dyn Fn(Value) -> Value| {
        let mut defs = Map::new();
        for at in 0..levels {
            defs.insert(format!("d{at}"), inner(json!({"$ref": place(at + 1)})));
        }
        defs.insert(format!("d{levels}"), last);
        json!({"$defs": defs, "$ref": "#/$defs/d0"})
    };
    let twice = |it: Value| json!({"allOf": [it, it]});
    let doubling = defs(40, json!({}), &twice);
    let in_circle = defs(40, json!({"$ref": "#/$defs/d0"}), &twice);
    let once_more = (0..30)
        .fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}));
    for (schema, said) in [
        (doubling, "more than 10000 subschemas"),
        (in_circle, "more than 10000 subschemas"),
        (once_more, "more than 10000 subschemas"),
        (defs(300, json!({}), &|it| it), "more than 256 levels"),
        (json!({"items": {"$id": "https://example.com/a"}}), "has `$id` in a subschema"),
    ] {
        let why = check_schema(&schema).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    assert_eq!(check_schema(&defs(6, json!({}), &twice)), Ok(()));
}

/// Holds SC3.
#[test]
fn a_schema_that_refers_to_itself_checks_what_ends_soon() {
    let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "next": inner }));
    let list = json!({"properties": {"next": {"$ref": "#"}}});
    let once_more = json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [
        {"properties": {"next": {"$ref": "#/$defs/a"}}},
        {"properties": {"next": {"$ref": "#/$defs/a"}}},
    ]}}});
    for schema in [&list, &once_more] {
        assert_eq!(check_schema(schema), Ok(()));
        assert_eq!(check_output(schema, &nested(8).to_string()), Ok(()));
    }
    assert_eq!(check_output(&list, &nested(100).to_string()), Ok(()));
    let why = check_output(&once_more, &nested(100).to_string()).unwrap_err();
    assert!(why.contains("takes too long"), "{why}");
}

/// Holds SC3.
#[test]
fn what_would_take_too_long_is_refused_before_it_is_checked() {
    let random: String = (0_u32..1_000_000)
        .map(|at| if at.wrapping_mul(0x9e37_79b9) & 0x0040_0000 == 0 { '0' } else { '1' })
        .collect();
    let large = json!({"type": "string", "pattern": "^[01]*1[01]{2000}$"});
    let patterns: Vec<_> = (0..30).map(|it| json!({"pattern": format!("[a-c]*x{it}$")})).collect();
    let of_names = json!({"type": "object", "propertyNames": { "allOf": patterns }});
    let long_name = json!({ "a".repeat(1_000_000): 1 });
    let named = json!({"patternProperties": {"^[01]*1[01]{2000}$": {}}});
    let others = json!({"patternProperties": {"a{500}": {}}, "additionalProperties": {}});
    let unique = json!({"allOf": vec![json!({"items": {"uniqueItems": true}}); 100]});
    let nested = |at: usize| (0..at % 50).fold(json!([]), |inner, _| json!([inner]));
    let alike: Vec<_> = (0..5000).map(nested).collect();
    let lengths: Vec<_> = (0..2000).map(|_| json!({"maxLength": 9})).collect();
    let enums = json!({"items": {"enum": vec![json!(vec![0; 100]); 100]}});
    let anys = (0..30).fold(json!({"pattern": "[a-c]*x$"}), |inner, _| json!({"anyOf": [inner]}));
    for (schema, output) in [
        (large, json!(random)),
        (of_names, long_name.clone()),
        (named, json!({ random.as_str(): 1 })),
        (others, long_name),
        (unique, json!([(0..100_000).collect::<Vec<_>>()])),
        (json!({"uniqueItems": true}), json!(alike)),
        (json!({ "allOf": lengths }), json!(random)),
        (enums, json!(vec![json!(vec![0; 99]); 1000])),
        (anys, json!(random)),
    ] {
        assert_eq!(check_schema(&schema), Ok(()));
        let why = check_output(&schema, &output.to_string()).unwrap_err();
        assert!(why.contains("takes too long"), "{why}");
    }
}

#[test]
fn ordinary_schemas_check_what_agents_write() {
    let date = r"^\d{4}-\d{2}-\d{2}$";
    let mail = r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$";
    let record = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$"},
            "on": {"type": "string", "pattern": date},
            "of": {"type": "string", "pattern": mail, "maxLength": 200},
            "kind": {"enum": ["bug", "idea"]},
            "text": {"type": "string", "pattern": "^.{1,100}$"},
        },
        "propertyNames": {"pattern": "^[a-z]+$"},
        "additionalProperties": false,
    });
    let one = |at: usize| {
        json!({
            "id": format!("finding-{at}"), "on": "2025-01-31", "of": "ada@example.com",
            "kind": "bug", "text": "The lock is held while the disk is written.",
        })
    };
    let records: Vec<_> = (0..100).map(one).collect();
    let list = json!({"type": "array", "items": record, "uniqueItems": true});
    assert_eq!(check_output(&list, &json!(records).to_string()), Ok(()));
    let words: Vec<_> = (0..10_000).map(|at| format!("word {at}")).collect();
    let unique = json!({"items": {"type": "string"}, "uniqueItems": true});
    assert_eq!(check_output(&unique, &json!(words).to_string()), Ok(()));
    let simple = json!({"type": "string", "pattern": "^[a-z ]+$", "minLength": 1});
    assert_eq!(check_output(&simple, &json!("a word ".repeat(150_000)).to_string()), Ok(()));
}

#[test]
fn a_format_is_a_remark_in_each_version() {
    for version in
        ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"]
    {
        let schema = json!({"$schema": version, "format": "date"});
        assert_eq!(check_output(&schema, "\"soon\""), Ok(()), "{version}");
    }
}

#[test]
fn an_agent_is_told_the_schema_in_one_line() {
    assert_eq!(
        instruction(&json!({"type": "object"})),
        r#"Answer with JSON alone that matches this JSON Schema: {"type":"object"}"#
    );
}
