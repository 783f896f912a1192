//! The programs that can be launched: coding agents in a terminal, and editors.
//!
//! Where each reads its prompt is from its documentation; Claude Code, Codex and opencode were run.

use std::path::Path;

/// How a program is told its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prompting {
    /// Claude Code: `--append-system-prompt TEXT`, and the first message as an argument.
    AppendSystemPrompt,
    /// Codex: `-c developer_instructions=TEXT`, and the first message as an argument.
    DeveloperInstructions,
    /// The whole prompt is the first message, behind this option.
    FirstMessage(&'static str),
    /// By the instructions of the MCP server alone: an editor takes no message.
    Instructions,
}

/// A program that can be launched.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// As one types it.
    pub name: &'static str,
    /// Whose configuration connects it: a client of `tasuki connect`.
    pub client: &'static str,
    pub command: &'static str,
    prompting: Prompting,
}

const fn program(
    name: &'static str,
    client: &'static str,
    command: &'static str,
    prompting: Prompting,
) -> Program {
    Program { name, client, command, prompting }
}

const PROGRAMS: [Program; 12] = [
    program("claude-code", "claude-code", "claude", Prompting::AppendSystemPrompt),
    program("codex", "codex", "codex", Prompting::DeveloperInstructions),
    program("gemini", "gemini", "gemini", Prompting::FirstMessage("-i")),
    program("opencode", "opencode", "opencode", Prompting::FirstMessage("--prompt")),
    program("cline", "cline", "cline", Prompting::FirstMessage("-i")),
    program("idea", "jetbrains", "idea", Prompting::Instructions),
    program("jetbrains", "jetbrains", "idea", Prompting::Instructions),
    program("junie", "junie", "idea", Prompting::Instructions),
    program("code", "vscode", "code", Prompting::Instructions),
    program("vscode", "vscode", "code", Prompting::Instructions),
    program("cursor", "cursor", "cursor", Prompting::Instructions),
    program("zed", "zed", "zed", Prompting::Instructions),
];

/// What a program is started with.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// In place of the usual command, with its arguments; empty: the usual one.
    pub command: &'a [String],
    /// Arguments beside those that tell it its role.
    pub args: &'a [String],
    pub project: &'a Path,
    /// How to play the role.
    pub prompt: &'a str,
    /// What to begin with.
    pub first: &'a str,
    /// Servers of other roles in the same client's configuration, which it leaves alone.
    pub others: &'a [String],
}

impl Program {
    /// `None`: there is no such program.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|it| it.name == name)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        PROGRAMS.iter().map(|it| it.name)
    }

    /// Whether it runs in a terminal.
    pub fn is_terminal(&self) -> bool {
        self.prompting != Prompting::Instructions
    }

    /// Where it is told its role, for people.
    pub fn prompt_place(&self) -> &'static str {
        match self.prompting {
            Prompting::AppendSystemPrompt => "--append-system-prompt",
            Prompting::DeveloperInstructions => "-c developer_instructions",
            Prompting::FirstMessage(_) => "its first message, and the instructions of MCP",
            Prompting::Instructions => "the instructions of MCP",
        }
    }

    /// Program and arguments. Nothing of it goes through a shell.
    pub fn argv(&self, start: &Start<'_>) -> Vec<String> {
        let mut argv = match start.command {
            [] => vec![self.command.to_owned()],
            command => command.to_vec(),
        };
        argv.extend_from_slice(start.args);
        let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
        match self.prompting {
            Prompting::AppendSystemPrompt => {
                add(&["--append-system-prompt", start.prompt]);
                if !start.others.is_empty() {
                    let others = start.others.iter().map(|name| format!("mcp__{name}"));
                    add(&["--disallowedTools", &others.collect::<Vec<_>>().join(",")]);
                }
                // The option before it takes as many values as there are.
                add(&["--", start.first]);
            }
            Prompting::DeveloperInstructions => {
                for name in start.others {
                    add(&["-c", &format!("mcp_servers.{name}.enabled=false")]);
                }
                let text = toml::Value::String(start.prompt.to_owned());
                add(&["-c", &format!("developer_instructions={text}"), "--", start.first]);
            }
            Prompting::FirstMessage(option) => {
                add(&[option, &format!("{}\n\n{}", start.prompt, start.first)]);
            }
            Prompting::Instructions => add(&[&start.project.to_string_lossy()]),
        }
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(name: &str, command: &[&str], args: &[&str], others: &[&str]) -> Vec<String> {
        let owned = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (command, args, others) = (owned(command), owned(args), owned(others));
        let start = Start {
            command: &command,
            args: &args,
            project: Path::new("/p"),
            prompt: "You are \"A\".",
            first: "Begin.",
            others: &others,
        };
        Program::find(name).unwrap().argv(&start)
    }

    #[test]
    fn each_program_is_told_its_role_where_it_reads_it() {
        let whole = "You are \"A\".\n\nBegin.";
        let codex = "developer_instructions='You are \"A\".'";
        for (name, expected) in [
            (
                "claude-code",
                vec!["claude", "--append-system-prompt", "You are \"A\".", "--", "Begin."],
            ),
            ("codex", vec!["codex", "-c", codex, "--", "Begin."]),
            ("gemini", vec!["gemini", "-i", whole]),
            ("opencode", vec!["opencode", "--prompt", whole]),
            ("cline", vec!["cline", "-i", whole]),
            ("idea", vec!["idea", "/p"]),
            ("code", vec!["code", "/p"]),
            ("zed", vec!["zed", "/p"]),
        ] {
            assert_eq!(argv(name, &[], &[], &[]), expected, "{name}");
        }
    }

    #[test]
    fn a_session_leaves_the_servers_of_other_roles_alone() {
        let claude = argv("claude-code", &["/b/claude"], &["--model", "m"], &["tasuki-B"]);
        assert_eq!(claude[..3], ["/b/claude", "--model", "m"]);
        assert_eq!(claude[5..], ["--disallowedTools", "mcp__tasuki-B", "--", "Begin."]);
        let codex = argv("codex", &[], &[], &["tasuki-B"]);
        assert_eq!(codex[1..3], ["-c", "mcp_servers.tasuki-B.enabled=false"]);
    }

    #[test]
    fn a_text_of_several_lines_is_one_setting_of_codex() {
        let start = Start {
            command: &[],
            args: &[],
            project: Path::new("/p"),
            prompt: "one\n'two' \"three\"\\",
            first: "x",
            others: &[],
        };
        let argv = Program::find("codex").unwrap().argv(&start);
        let read: toml::Table = argv[2].parse().unwrap();
        assert_eq!(read["developer_instructions"].as_str(), Some(start.prompt));
    }
}
