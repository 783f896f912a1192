//! Agents as people write them, and all that can be wrong with one.

use super::*;

fn parse(text: &str) -> Agent {
    Agent::parse(text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

fn with(lines: &str) -> String {
    format!("---\nname: scout\ndescription: finds things\n{lines}\n---\nBody.\n")
}

fn refused(text: &str) -> String {
    Agent::parse(text).expect_err(text).to_string()
}

#[test]
fn an_agent_of_the_original_is_read() {
    let agent = parse(
        "---\nname: scout\ndescription: Fast codebase recon that returns compressed context\n\
         tools: read, grep, find, ls, bash\nmodel: claude-haiku-4-5\n---\n\nYou are a scout.\n\n## Output\n",
    );
    assert_eq!(agent.name, "scout");
    assert_eq!(agent.description, "Fast codebase recon that returns compressed context");
    let tools = ["read", "grep", "find", "ls", "bash"].map(str::to_owned);
    assert_eq!(agent.tools.as_deref(), Some(tools.as_slice()));
    assert_eq!(agent.model.as_deref(), Some("claude-haiku-4-5"));
    assert_eq!(agent.system_prompt, "You are a scout.\n\n## Output");
    assert_eq!((agent.runner, agent.cwd, agent.timeout), (None, None, None));
    assert_eq!((agent.env, agent.sandbox), (None, false));
}

#[test]
fn every_key_is_read_and_others_are_left_alone() {
    let agent = parse(
        "\u{feff}---\r\nname: \"a.b-c_1\"\r\n# a comment\r\ndescription: >\r\n  two\r\n  lines\r\n\
         tools:\r\n  - Read\r\n  - Bash(git add:*, git commit:*)\r\nmodel: inherit\r\nrunner: codex\r\n\
         cwd: sub/dir\r\ntimeout: 10m\r\nenv: [PATH_X, A, A]\r\nsandbox: true\r\ncolor: blue\r\n\
         hooks:\r\n  Stop: [{a: {b: c}}]\r\n---\r\nBody\r\n",
    );
    assert_eq!((agent.name.as_str(), agent.description.as_str()), ("a.b-c_1", "two lines"));
    let tools = ["Read", "Bash(git add:*, git commit:*)"].map(str::to_owned);
    assert_eq!(agent.tools.as_deref(), Some(tools.as_slice()));
    assert_eq!((agent.model.as_deref(), agent.runner.as_deref()), (None, Some("codex")));
    assert_eq!(agent.cwd.as_deref(), Some("sub/dir"));
    assert_eq!(agent.timeout, Some(Duration::from_secs(600)));
    assert_eq!((agent.env, agent.sandbox), (Some(vec!["A".to_owned(), "PATH_X".to_owned()]), true));
    assert_eq!(agent.system_prompt, "Body");
}

#[test]
fn a_description_that_is_no_yaml_is_taken_as_it_stands() {
    let agent = parse(
        "---\nname: reviewer\ndescription: Use when: code changed. Examples: \"a\" # b\ntools: Read, Grep\n---\nx",
    );
    assert_eq!(agent.description, "Use when: code changed. Examples: \"a\" # b");
    assert_eq!(agent.tools.map(|tools| tools.len()), Some(2));
    // What is wrong elsewhere is told of the file as it was written.
    assert!(refused("---\nname: a\ndescription: b\nmodel: c: d\n---\n").starts_with("line 4: "));
}

#[test]
fn an_empty_list_of_variables_is_a_list() {
    for (line, expected) in [
        ("env: A", Some(vec!["A".to_owned()])),
        ("env: []", Some(vec![])),
        ("env: ''", Some(vec![])),
        ("env:", None),
        ("model: x", None),
    ] {
        assert_eq!(parse(&with(line)).env, expected, "{line}");
    }
}

#[test]
fn tools_are_divided_at_commas_outside_of_parentheses() {
    for (line, expected) in [
        ("tools: Read", Some(vec!["Read"])),
        ("tools: ' Read ,, Bash(a, (b, c)), x '", Some(vec!["Read", "Bash(a, (b, c))", "x"])),
        ("tools: a), b", Some(vec!["a)", "b"])),
        ("tools:", None),
        ("model: x", None),
    ] {
        let tools = parse(&with(line)).tools;
        let tools = tools.as_ref().map(|tools| tools.iter().map(String::as_str).collect());
        assert_eq!(tools, expected, "{line}");
    }
}

#[test]
fn times_have_units_and_bounds() {
    for (text, secs) in
        [("90", 90), ("90s", 90), ("2 min", 120), ("10m", 600), ("1h", 3600), ("24h", 86_400)]
    {
        let agent = parse(&with(&format!("timeout: {text}")));
        assert_eq!(agent.timeout, Some(Duration::from_secs(secs)), "{text}");
    }
    for text in ["0", "25h", "-1", "1.5h", "ten", "5d", "99999999999999999999h", "\"\u{663}\""] {
        let said = refused(&with(&format!("timeout: {text}")));
        assert!(said.starts_with("line 4: `timeout` must be 1 s to 24 h"), "{text}: {said}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let long = "x".repeat(5000);
    let many = "a,".repeat(200);
    for (text, expected) in [
        ("", "line 1: the file does not start with front matter (`---`)"),
        ("# Scout\n", "line 1: the file does not start with front matter (`---`)"),
        ("---\nname: a\n", "line 1: the front matter has no closing `---`"),
        ("---\n---\n", "line 1: `name` is missing"),
        ("---\nname: a\n---\n", "line 1: `description` is missing"),
        ("---\nname:\ndescription: b\n---\n", "line 2: `name` is empty"),
        ("---\nname: a\ndescription: '  '\n---\n", "line 3: `description` is empty"),
        ("---\nname: [a]\ndescription: b\n---\n", "line 2: `name` must be a string"),
        ("---\nname: a\nname: b\n---\n", "line 3: duplicate key `name`"),
        ("---\njust words\n---\n", "line 2: the front matter is not a mapping"),
        ("---\n- a\n---\n", "line 2: the front matter is not a mapping"),
        ("---\n? [a]\n: b\n---\n", "line 2: keys must be strings"),
        (
            "---\nname: a b\ndescription: c\n---\n",
            "line 2: `name` is `a b`: use letters, digits, `-`, `_` and `.`, a letter or digit first",
        ),
        (
            "---\nname: --help\ndescription: c\n---\n",
            "line 2: `name` is `--help`: use letters, digits, `-`, `_` and `.`, a letter or digit first",
        ),
        (
            "---\nname: \"../x\\n\"\ndescription: c\n---\n",
            "line 2: `name` is `../x`: use letters, digits, `-`, `_` and `.`, a letter or digit first",
        ),
        (&with("tools: []"), "line 4: `tools` is empty; remove it to allow all tools"),
        (&with("tools: ' , '"), "line 4: `tools` is empty; remove it to allow all tools"),
        (
            &with("tools: {a: b}"),
            "line 4: `tools` must be a list of strings or a comma-separated string",
        ),
        (
            &with("tools: [a, [b]]"),
            "line 4: `tools` must be a list of strings or a comma-separated string",
        ),
        (&with("tools: a, -x"), "line 4: invalid tool name `-x`"),
        (&with(&format!("tools: {many}")), "line 4: `tools` names more than 128 tools"),
        (&with(&format!("model: {long}")), "line 4: `model` is longer than 4 KiB"),
        (
            &with("env: A=secret"),
            "line 4: invalid variable name `A` in `env`; list names without values",
        ),
        (
            &with("env: [1A]"),
            "line 4: invalid variable name `1A` in `env`; list names without values",
        ),
        (&with("sandbox: perhaps"), "line 4: `sandbox` must be true or false"),
        (
            &with("runner: a/b"),
            "line 4: `runner` is `a/b`: use letters, digits, `-`, `_` and `.`, a letter or digit first",
        ),
        (&with("a: &x [b]\nc: *x"), "line 5: aliases are not supported"),
        (&with("x: \0"), "line 4: contains a NUL character"),
        (&with(&format!("x: {}", "[".repeat(40))), "line 4: the YAML is nested too deeply"),
        (&"x".repeat(AGENT_FILE_BYTES_MAX + 1), "line 1: larger than 128 KiB"),
    ] {
        assert_eq!(refused(text), expected, "{}", &text[..text.len().min(200)]);
    }
    let said = refused("---\nname: a\ndescription: [b\n---\n");
    assert!(said.starts_with("line ") && said.contains(": invalid YAML: "), "{said}");
}

#[test]
fn random_damage_is_survived() {
    const ROUNDS: usize = 3000;
    let whole = with(
        "tools: [Read, \"Bash(a, b)\"]\nmodel: 'x'\nenv: A, B\ntimeout: 10m\nx: &a {b: [c, *a]}\ny: |\n  z",
    );
    let joints = [
        "\n", ": ", "- ", "---\n", "[", "]", "{", "}", "\"", "'", "|", "&a ", "*a", "\t", "#", "é",
        "? ",
    ];
    let mut seed = 0x5eed_u64;
    let mut below = |limit: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % limit.max(1) as u64).expect("below a size")
    };
    let mut read = 0;
    for _ in 0..ROUNDS {
        let mut text: Vec<char> = whole.chars().collect();
        for _ in 0..=below(4) {
            let at = below(text.len());
            if below(2) == 0 {
                drop(text.splice(at..at, joints[below(joints.len())].chars()));
            } else {
                let end = (at + below(12)).min(text.len());
                drop(text.drain(at..end));
            }
        }
        let text: String = text.into_iter().collect();
        match Agent::parse(&text) {
            Ok(agent) => {
                read += 1;
                assert!(agent.tools.is_none_or(|tools| !tools.is_empty()));
                assert_eq!(checked_name(&agent.name, "name").as_ref(), Ok(&agent.name));
            }
            Err(problem) => {
                assert!((1..=text.lines().count() + 1).contains(&problem.line), "{problem}\n{text}")
            }
        }
    }
    assert!(read > 0 && read < ROUNDS, "{read} of {ROUNDS} were agents");
}
