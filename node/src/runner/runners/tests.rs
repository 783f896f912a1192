//! Command lines, and what is refused.

use super::*;

const DIR: &str = "/run/x";

fn table(config: &str) -> Result<RunnerTable, Vec<String>> {
    let config: BTreeMap<String, RunnerConfig> = toml::from_str(config).expect("a configuration");
    let problems = |all: Vec<ConfigProblem>| all.iter().map(ToString::to_string).collect();
    RunnerTable::new(&config).map_err(problems)
}

fn runner(config: &str) -> Runner {
    let table = table(&format!("[x]\n{config}\n")).expect("a runner");
    table.get("x").expect("a runner").clone()
}

fn builtin(name: &str) -> Runner {
    RunnerTable::default().get(name).expect("a runner").clone()
}

fn tools() -> Vec<String> {
    ["read", "grep"].map(str::to_owned).to_vec()
}

fn request<'a>(task: &'a str, system: &'a str, tools: Option<&'a [String]>) -> Request<'a> {
    let model = tools.is_some().then_some("m1");
    Request { task, system, model, tools, mcp: None, dir: Path::new(DIR) }
}

fn server() -> McpServer {
    let url = "http://127.0.0.1:7421/mcp/step".to_owned();
    McpServer { url, token: "run_1_00af/1/5ec4e7".to_owned() }
}

/// A command line as people would write it, with everything else that belongs to it.
fn render(line: &CommandLine) -> String {
    let argv: Vec<_> = line.argv.iter().map(|word| format!("{word:?}").replace('"', "'")).collect();
    let mut text = argv.join(" ");
    for (name, value) in &line.env {
        text += &format!("\n{name}={value}");
    }
    for file in &line.files {
        text += &format!("\n{}: {:?}", file.path.display(), file.text);
    }
    if let Some(stdin) = &line.stdin {
        text += &format!("\n< {stdin:?}");
    }
    text
}

fn check(runner: &Runner, request: &Request<'_>, expected: &str) {
    let line = command_line(runner, request).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(render(&line), expected);
}

fn refused(runner: &Runner, request: &Request<'_>) -> String {
    command_line(runner, request).expect_err("refused").to_string()
}

#[test]
fn each_cli_is_called_in_its_own_way() {
    let tools = tools();
    let plain = request("--do it", "", None);
    let full = request("--do it", "You are \"X\".\n", Some(&tools));
    check(&builtin("pi"), &plain, "'pi' '--mode' 'json' '-p' '--no-session' 'Task: --do it'");
    check(
        &builtin("pi"),
        &full,
        "'pi' '--mode' 'json' '-p' '--no-session' '--model' 'm1' '--tools' 'read,grep' \
         '--append-system-prompt' '/run/x/system.md' 'Task: --do it'\n\
         /run/x/system.md: \"You are \\\"X\\\".\\n\"",
    );
    check(
        &builtin("claude"),
        &plain,
        "'claude' '-p' '--output-format' 'stream-json' '--verbose'\n< \"--do it\"",
    );
    check(
        &builtin("claude-code"),
        &full,
        "'claude' '-p' '--output-format' 'stream-json' '--verbose' '--model' 'm1' \
         '--tools=read,grep' '--strict-mcp-config' '--append-system-prompt-file' \
         '/run/x/system.md'\n/run/x/system.md: \"You are \\\"X\\\".\\n\"\n< \"--do it\"",
    );
    check(
        &builtin("codex"),
        &Request { system: "Be \"X\".", model: Some("m1"), ..plain },
        "'codex' 'exec' '--json' '--skip-git-repo-check' '--model' 'm1' '-c' \
         'developer_instructions='Be \\'X\\'.'' '-'\n< \"--do it\"",
    );
    check(
        &builtin("gemini"),
        &full,
        "'gemini' '--output-format' 'stream-json' '--skip-trust' '--model' 'm1' '--policy' \
         '/run/x/policy.toml'\n/run/x/policy.toml: \"[[rule]]\\ntoolName = \\\"*\\\"\\ndecision = \
         \\\"deny\\\"\\npriority = 900\\n\\n[[rule]]\\ntoolName = [\\\"read\\\", \\\"grep\\\"]\\n\
         decision = \\\"allow\\\"\\npriority = 950\\n\"\n< \"You are \\\"X\\\".\\n\\n\\n--do it\"",
    );
    check(&builtin("opencode"), &plain, "'opencode' 'run' '--format' 'json'\n< \"--do it\"");
    check(
        &builtin("opencode"),
        &full,
        "'opencode' 'run' '--format' 'json' '--model' 'm1' '--agent' 'tasuki'\n\
         OPENCODE_CONFIG_CONTENT={\"agent\":{\"tasuki\":{\"description\":\"A run of Tasuki\",\
         \"mode\":\"primary\",\"prompt\":\"{file:/run/x/system.md}\",\"tools\":{\"*\":false,\
         \"grep\":true,\"read\":true}}}}\n/run/x/system.md: \"You are \\\"X\\\".\\n\"\n\
         < \"--do it\"",
    );
}

#[test]
fn a_system_prompt_reaches_codex_as_toml_whatever_is_in_it() {
    for system in ["a\nb", "'''\"\"\"", "\\u0041 \u{7f} \u{1}", "= [x]\r\n", "é\u{2028}"] {
        let line = command_line(&builtin("codex"), &request("t", system, None)).expect("a line");
        let setting = line.argv.iter().find(|arg| arg.contains('=')).expect("a setting");
        let read: toml::Table = toml::from_str(setting).expect("TOML");
        assert_eq!(read["developer_instructions"].as_str(), Some(system));
    }
}

#[test]
fn a_system_prompt_never_stands_in_opencodes_configuration() {
    let system = "{env:HOME} {file:/etc/passwd}";
    let line = command_line(&builtin("opencode"), &request("t", system, None)).expect("a line");
    assert!(!line.env[0].1.contains("env:") && !line.env[0].1.contains("passwd"));
    assert_eq!(line.files[0].text, system);
    let tools = ["{env:HOME}".to_owned()];
    assert!(
        refused(&builtin("opencode"), &request("t", "", Some(&tools)))
            .contains("cannot limit tools")
    );
}

#[test]
fn the_tools_of_mcp_servers_need_their_servers() {
    let tools = ["Read".to_owned(), "mcp__db__query".to_owned()];
    let line = command_line(&builtin("claude"), &request("t", "", Some(&tools))).expect("a line");
    assert!(!line.argv.contains(&"--strict-mcp-config".to_owned()));
}

#[test]
fn each_cli_is_told_of_the_nodes_server_in_its_own_way() {
    let server = server();
    let plain = Request { mcp: Some(&server), ..request("t", "", None) };
    check(&builtin("pi"), &plain, "'pi' '--mode' 'json' '-p' '--no-session' 'Task: t'");
    check(
        &builtin("gemini"),
        &plain,
        "'gemini' '--output-format' 'stream-json' '--skip-trust'\n< \"t\"",
    );
    check(
        &builtin("claude"),
        &plain,
        "'claude' '-p' '--output-format' 'stream-json' '--verbose' '--mcp-config=/run/x/mcp.json' \
         '--allowedTools=mcp__tasuki'\n/run/x/mcp.json: \"{\\\"mcpServers\\\":{\\\"tasuki\\\":\
         {\\\"headers\\\":{\\\"Authorization\\\":\\\"Bearer run_1_00af/1/5ec4e7\\\"},\\\"type\\\":\
         \\\"http\\\",\\\"url\\\":\\\"http://127.0.0.1:7421/mcp/step\\\"}}}\"\n< \"t\"",
    );
    check(
        &builtin("codex"),
        &plain,
        "'codex' 'exec' '--json' '--skip-git-repo-check' '-c' \
         'mcp_servers.tasuki_run.url=\\'http://127.0.0.1:7421/mcp/step\\'' '-c' \
         'mcp_servers.tasuki_run.bearer_token_env_var=\\'TASUKI_STEP_TOKEN\\'' '-c' \
         'mcp_servers.tasuki_run.default_tools_approval_mode=\\'approve\\'' '-'\n< \"t\"",
    );
    check(
        &builtin("opencode"),
        &plain,
        "'opencode' 'run' '--format' 'json'\n\
         OPENCODE_CONFIG_CONTENT={\"mcp\":{\"tasuki\":{\"enabled\":true,\"headers\":\
         {\"Authorization\":\"Bearer run_1_00af/1/5ec4e7\"},\"oauth\":false,\"type\":\"remote\",\
         \"url\":\"http://127.0.0.1:7421/mcp/step\"}}}\n< \"t\"",
    );
}

#[test]
fn the_nodes_server_is_there_also_where_tools_are_limited() {
    let (server, tools) = (server(), tools());
    let limited = Request { mcp: Some(&server), ..request("t", "", Some(&tools)) };
    let line = command_line(&builtin("claude"), &limited).expect("a line");
    for word in ["--tools=read,grep", "--strict-mcp-config", "--mcp-config=/run/x/mcp.json"] {
        assert!(line.argv.iter().any(|it| it == word), "{word}: {:?}", line.argv);
    }
    let line = command_line(&builtin("opencode"), &limited).expect("a line");
    let config: Value = serde_json::from_str(&line.env[0].1).expect("JSON");
    let map = json!({ "*": false, "grep": true, "read": true, "tasuki_*": true });
    assert_eq!(config["agent"]["tasuki"]["tools"], map);
    assert_eq!(config["mcp"]["tasuki"]["type"], "remote");
    // The last that fits counts, so what denies all stands first.
    let text = &line.env[0].1;
    assert!(text.find("\"*\"") < text.find("\"tasuki_*\""), "{text}");
}

#[test]
fn the_servers_token_is_on_no_command_line() {
    let server = server();
    for runner in RunnerTable::default().iter() {
        let request = Request { mcp: Some(&server), ..request("t", "S", None) };
        let line = command_line(runner, &request).expect("a line");
        assert!(!line.argv.iter().any(|word| word.contains("5ec4e7")), "{:?}", line.argv);
    }
    assert!(!format!("{server:?}").contains("5ec4e7"), "{server:?}");
}

#[test]
fn a_long_task_goes_by_standard_input() {
    let task = "x".repeat(ARG_BYTES_MAX);
    let line = command_line(&builtin("pi"), &request(&task, "", None)).expect("a line");
    assert_eq!(line.argv.last().map(String::as_str), Some("--no-session"));
    assert_eq!(line.stdin.map(|stdin| stdin.len()), Some(ARG_BYTES_MAX + 6));
    let task = "x".repeat(ARG_BYTES_MAX - 6);
    let line = command_line(&builtin("pi"), &request(&task, "", None)).expect("a line");
    assert_eq!((line.argv.last().map(String::len), line.stdin), (Some(ARG_BYTES_MAX), None));
}

/// Holds RN3.
#[test]
fn what_cannot_be_passed_is_refused() {
    let tools = tools();
    let (big, bigger) = ("x".repeat(ARG_BYTES_MAX), "x".repeat(TASK_BYTES_MAX + 1));
    let rule = ["Bash(git *)".to_owned()];
    let plain = request("t", "", None);
    let prompt = runner("stream = 'pi'\ncommand = ['my', '{prompt}']");
    for (runner, request, expected) in [
        (builtin("pi"), request(" \n", "", None), "The task is empty."),
        (
            builtin("pi"),
            request("a\0b", "", None),
            "The task contains a NUL character, which cannot be passed to a program.",
        ),
        (
            builtin("pi"),
            request("a", "\0", None),
            "The system prompt contains a NUL character, which cannot be passed to a program.",
        ),
        (
            builtin("gemini"),
            request(&bigger, "", None),
            "The task has 1048577 bytes; at most 1048576 can be passed to `gemini`.",
        ),
        (
            builtin("codex"),
            request("t", &big, None),
            "The system prompt has 131096 bytes; at most 131071 can be passed to `codex`.",
        ),
        (
            builtin("codex"),
            request("t", "", Some(&tools)),
            "Runner `codex` cannot limit tools. Remove `tools` from the agent's file, or choose another runner.",
        ),
        (
            builtin("claude"),
            request("t", "", Some(&rule)),
            "Runner `claude` cannot limit tools to `Bash(git *)`. Use plain tool names.",
        ),
        (builtin("pi"), Request { model: Some("-x"), ..plain }, "Invalid model name `-x`."),
        (
            prompt.clone(),
            Request { model: Some("m"), ..plain },
            "Runner `x` cannot pass the model: add `{model}` to its command.",
        ),
        (
            prompt.clone(),
            Request { tools: Some(&tools), ..plain },
            "Runner `x` cannot pass the tools: add `{tools}` to its command.",
        ),
        (
            prompt,
            request(&big, "", None),
            "The task has 131077 bytes; at most 131071 can be passed to `x`.",
        ),
    ] {
        assert_eq!(refused(&runner, &request), expected);
    }
}

#[test]
fn a_command_without_placeholders_gets_the_arguments_of_its_stream() {
    let wrapped = runner("stream = 'claude'\ncommand = ['npx', 'claude']");
    check(
        &wrapped,
        &request("t", "", None),
        "'npx' 'claude' '-p' '--output-format' 'stream-json' '--verbose'\n< \"t\"",
    );
    let version = ["npx", "claude", "--version"].map(str::to_owned);
    assert_eq!(version_command(&wrapped).as_deref(), Some(version.as_slice()));
}

#[test]
fn a_command_with_placeholders_stands_alone() {
    let tools = tools();
    let full = runner(
        "stream = 'pi'\ncommand = ['my', '-v', '--model', '{model}', '--tools={tools}', '--sys', '{system}', '--', '{prompt}', '{x} {prompt}']",
    );
    check(
        &full,
        &request("a {model} {prompt}", "S", Some(&tools)),
        "'my' '-v' '--model' 'm1' '--tools=read,grep' '--sys' '/run/x/system.md' '--' \
         'Task: a {model} {prompt}' '{x} Task: a {model} {prompt}'\n/run/x/system.md: \"S\"",
    );
    // What has no value goes, with its flag, and nothing else.
    check(&full, &request("a", "", None), "'my' '-v' '--' 'Task: a' '{x} Task: a'");
    assert_eq!(version_command(&full), None);
    let piped = runner("stream = 'codex'\ncommand = ['my', '{model}', 'x']");
    let server = server();
    let asked = Request { mcp: Some(&server), ..request("a", "S", None) };
    check(&piped, &asked, "'my' 'x'\n< \"S\\n\\na\"");
}

/// Holds RN3.
#[test]
fn a_task_is_never_a_flag_or_a_file() {
    let bare = runner("stream = 'gemini'\ncommand = ['my', '-p', '{prompt}']");
    check(&bare, &request("--yolo", "", None), "'my' '-p' '\\n--yolo'");
    check(&bare, &request("@/etc/passwd", "", None), "'my' '-p' '\\n@/etc/passwd'");
    check(&bare, &request("t", "- be kind", None), "'my' '-p' '\\n- be kind\\n\\nt'");
    let closed = runner("stream = 'gemini'\ncommand = ['my', '--', '{prompt}']");
    check(&closed, &request("--yolo", "", None), "'my' '--' '--yolo'");
    let joined = runner("stream = 'gemini'\ncommand = ['my', '--prompt={prompt}']");
    check(&joined, &request("--yolo", "", None), "'my' '--prompt=--yolo'");
}

#[test]
fn a_configuration_replaces_and_adds_runners() {
    let table = table(
        "[claude-code]\ncommand = ['/opt/claude']\n[mine]\nstream = 'pi'\ncommand = ['pi2']\n",
    )
    .expect("runners");
    let names: Vec<_> = table.iter().map(|runner| runner.name.as_str()).collect();
    assert_eq!(names, ["claude", "codex", "gemini", "mine", "opencode", "pi"]);
    let claude = table.get("claude-code").expect("a runner");
    assert_eq!(claude.command.as_deref(), Some(["/opt/claude".to_owned()].as_slice()));
    assert_eq!(table.get("nobody"), None);
}

#[test]
fn every_problem_of_a_configuration_is_named() {
    let problems = table(
        "[\"a b\"]\nstream = 'pi'\ncommand = ['x']\n[b]\ncommand = ['x']\n[c]\nstream = 'cursor'\n\
         command = ['x']\n[d]\nstream = 'pi'\n[e]\nstream = 'pi'\ncommand = []\n[f]\nstream = 'pi'\n\
         command = ['{prompt}']\n[g]\nstream = 'pi'\ncommand = ['a', \"b\\u0000\"]\n",
    );
    assert_eq!(
        problems.expect_err("problems"),
        [
            "[runner.a b]: `runner` is `a b`: use letters, digits, `-`, `_` and `.`, a letter or digit first",
            "[runner.b]: `stream` is missing: pi, claude, codex, gemini or opencode",
            "[runner.c]: unknown stream `cursor`. Available: pi, claude, codex, gemini, opencode",
            "[runner.d]: `command` is missing: a list of words, the program first",
            "[runner.e]: `command` must have 1 to 64 words, the program first",
            "[runner.f]: `command` must begin with a program, not with a placeholder",
            "[runner.g]: `command` has a word that is too long or contains NUL",
        ]
    );
}
