//! Commands as others name them, and which of them the operator lets run. Pure.
//!
//! A command is split into words by the rules of a shell's quotes, and that is all there is of a
//! shell: whatever a shell would do beyond that is refused by its name, not done and not taken for
//! letters.

use std::{fmt, str::Chars};

/// The words of one command.
pub const WORDS_MAX: usize = 512;

/// A command that is looked at, in bytes.
pub const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// What ends a pattern that any words may follow.
const REST: &str = "*";

/// Why a text is not one plain command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCommand {
    #[error("it is empty")]
    Empty,
    #[error("it has more than {COMMAND_BYTES_MAX} bytes or {WORDS_MAX} words")]
    TooLong,
    #[error("a quotation mark {0} is not closed")]
    Unclosed(char),
    #[error("it ends with a backslash")]
    Backslash,
    #[error("it has a zero byte")]
    Zero,
    #[error("{0} {1}, and there is no shell: quote it if it is meant as it stands")]
    Shell(String, &'static str),
}

/// The words of a command.
pub fn split(command: &str) -> Result<Vec<String>, NoCommand> {
    if COMMAND_BYTES_MAX < command.len() {
        return Err(NoCommand::TooLong);
    }
    if command.contains('\0') {
        return Err(NoCommand::Zero);
    }
    let mut words = Vec::new();
    let mut letters = command.chars();
    while let Some(word) = next_word(&mut letters, words.is_empty())? {
        words.push(word);
        if WORDS_MAX < words.len() {
            return Err(NoCommand::TooLong);
        }
    }
    if words.first().is_none_or(String::is_empty) {
        return Err(NoCommand::Empty);
    }
    Ok(words)
}

/// The next word; `None`: there is none.
fn next_word(letters: &mut Chars<'_>, is_first: bool) -> Result<Option<String>, NoCommand> {
    while letters.clone().next().is_some_and(|c| matches!(c, ' ' | '\t')) {
        letters.next();
    }
    let mut word = Word::default();
    loop {
        let rest = letters.as_str();
        let Some(c) = letters.next() else { break };
        match c {
            ' ' | '\t' => break,
            '\'' => word.quoted(letters)?,
            '"' => word.double_quoted(letters)?,
            '\\' => match letters.next() {
                None => return Err(NoCommand::Backslash),
                Some('\n') => return Err(shell("\\ and a new line", "continue a line")),
                Some(c) => word.literally(c),
            },
            c => word.bare(c, rest, is_first)?,
        }
    }
    word.end()
}

#[derive(Default)]
struct Word {
    text: String,
    /// Something of it was quoted, so it is a word even if it is empty.
    is_there: bool,
    has_brace: bool,
}

impl Word {
    fn literally(&mut self, c: char) {
        self.text.push(c);
        self.is_there = true;
    }

    fn quoted(&mut self, letters: &mut Chars<'_>) -> Result<(), NoCommand> {
        self.is_there = true;
        for c in letters {
            match c {
                '\'' => return Ok(()),
                c => self.text.push(c),
            }
        }
        Err(NoCommand::Unclosed('\''))
    }

    fn double_quoted(&mut self, letters: &mut Chars<'_>) -> Result<(), NoCommand> {
        self.is_there = true;
        while let Some(c) = letters.next() {
            match c {
                '"' => return Ok(()),
                '$' | '`' => return Err(put_in(c)),
                '\\' => match letters.next() {
                    None => return Err(NoCommand::Unclosed('"')),
                    Some('\n') => return Err(shell("\\ and a new line", "continue a line")),
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.text.push(c),
                    // As shells have it, a backslash before any other letter stays.
                    Some(c) => self.text.extend(['\\', c]),
                },
                c => self.text.push(c),
            }
        }
        Err(NoCommand::Unclosed('"'))
    }

    /// A letter outside of quotes; `rest` begins with it.
    fn bare(&mut self, c: char, rest: &str, is_first: bool) -> Result<(), NoCommand> {
        let is_begin = !self.is_there;
        match c {
            '\n' | '\r' => return Err(shell("a new line", "begins another command")),
            '&' | '|' | ';' => {
                let known = ["&&", "||", "|&", ";;"].into_iter().find(|it| rest.starts_with(it));
                let known = known.map_or_else(|| c.to_string(), str::to_owned);
                return Err(NoCommand::Shell(format!("`{known}`"), "joins commands"));
            }
            '<' | '>' => {
                let known = ["<<<", "<<", "<(", ">>", ">(", ">&"];
                let known = known.into_iter().find(|it| rest.starts_with(it));
                let known = known.map_or_else(|| c.to_string(), str::to_owned);
                return Err(NoCommand::Shell(format!("`{known}`"), "redirects"));
            }
            '(' | ')' => return Err(NoCommand::Shell(format!("`{c}`"), "groups commands")),
            '$' | '`' => return Err(put_in(c)),
            // At the end of a command that is a pattern it is the pattern's own.
            '*' | '?' | '[' => {
                return Err(NoCommand::Shell(format!("`{c}`"), "stands for names of files"));
            }
            '~' if is_begin => return Err(shell("`~`", "stands for a home directory")),
            '#' if is_begin => return Err(shell("`#`", "begins a comment")),
            '!' if is_begin && is_first => return Err(shell("`!`", "turns an outcome around")),
            '=' if is_first && is_name(&self.text) => {
                return Err(shell("`=` in the first word", "sets a variable (`env` does, too)"));
            }
            '{' => self.has_brace = true,
            _ => {}
        }
        self.literally(c);
        Ok(())
    }

    fn end(self) -> Result<Option<String>, NoCommand> {
        if self.has_brace && (self.text.contains(',') || self.text.contains("..")) {
            return Err(shell("`{`", "stands for several words"));
        }
        Ok(self.is_there.then_some(self.text))
    }
}

fn shell(what: &str, does: &'static str) -> NoCommand {
    NoCommand::Shell(what.to_owned(), does)
}

fn put_in(c: char) -> NoCommand {
    NoCommand::Shell(format!("`{c}`"), "puts in something else")
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(is_letter) && text.starts_with(|c: char| !c.is_ascii_digit())
}

/// Commands that the operator lets run: these words, and any others after them if it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    words: Vec<String>,
    is_open: bool,
}

impl Pattern {
    /// `cargo test` is that alone; `cargo test *` is that with any words, or none, after it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (own, is_open) = match text.trim_end().strip_suffix(REST) {
            Some(own) if own.ends_with([' ', '\t']) => (own, true),
            Some("") => return Err("allows everything; name a program before `*`".to_owned()),
            _ => (text, false),
        };
        let words = split(own).map_err(|why| match &why {
            NoCommand::Shell(what, _) if what == "`*`" => {
                "has a `*` that is not its last word".to_owned()
            }
            NoCommand::Empty
            | NoCommand::TooLong
            | NoCommand::Unclosed(_)
            | NoCommand::Backslash
            | NoCommand::Zero
            | NoCommand::Shell(..) => format!("is no command: {why}"),
        })?;
        Ok(Self { words, is_open })
    }

    pub fn allows(&self, command: &[String]) -> bool {
        match self.is_open {
            true => command.starts_with(&self.words),
            false => command == self.words,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.words))?;
        if self.is_open { f.write_str(" *") } else { Ok(()) }
    }
}

/// Words as one would type them.
pub fn joined(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A command that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    pub command: String,
    /// `None`: the operator allows it nowhere.
    pub why: Option<NoCommand>,
}

/// The words of all commands; refused if there is one that may not run.
pub fn check(commands: &[String], allowed: &[Pattern]) -> Result<Vec<Vec<String>>, Vec<Denied>> {
    let mut denied = Vec::new();
    let mut all = Vec::with_capacity(commands.len());
    for command in commands {
        let mut deny = |why| denied.push(Denied { command: command.clone(), why });
        match split(command) {
            Ok(words) if allowed.iter().any(|it| it.allows(&words)) => all.push(words),
            Ok(_) => deny(None),
            Err(why) => deny(Some(why)),
        }
    }
    if denied.is_empty() { Ok(all) } else { Err(denied) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_splits_it() {
        for (command, words) in [
            ("cargo test", &["cargo", "test"][..]),
            ("  cargo \t test  ", &["cargo", "test"]),
            ("a 'b  c' \"d e\"", &["a", "b  c", "d e"]),
            ("a '' \"\"", &["a", "", ""]),
            ("a b'c'\"d\"e", &["a", "bcde"]),
            (r"a b\ c \'d", &["a", "b c", "'d"]),
            (r#"a "b\"c\\d\e""#, &["a", "b\"c\\d\\e"]),
            ("a '&&' \"|\" \\;", &["a", "&&", "|", ";"]),
            ("a 'x*' \"[y]\" \\~ '$HOME' \"\\$x\"", &["a", "x*", "[y]", "~", "$HOME", "$x"]),
            ("find . -exec {} +", &["find", ".", "-exec", "{}", "+"]),
            ("a b~ c#d e=f !", &["a", "b~", "c#d", "e=f", "!"]),
            ("./run.sh --x=1,2", &["./run.sh", "--x=1,2"]),
            ("日本 語", &["日本", "語"]),
            ("a -- --b", &["a", "--", "--b"]),
        ] {
            assert_eq!(split(command).unwrap(), words, "{command}");
        }
    }

    #[test]
    fn what_only_a_shell_does_is_refused_by_its_name() {
        for (command, why) in [
            ("a && b", "`&&` joins commands"),
            ("a || b", "`||` joins commands"),
            ("a; b", "`;` joins commands"),
            ("a|b", "`|` joins commands"),
            ("a &", "`&` joins commands"),
            ("a\nb", "a new line begins another command"),
            ("a > b", "`>` redirects"),
            ("a 2>&1", "`>&` redirects"),
            ("a <<< b", "`<<<` redirects"),
            ("a <(b)", "`<(` redirects"),
            ("(a)", "`(` groups commands"),
            ("a $(b)", "`$` puts in something else"),
            ("a $HOME", "`$` puts in something else"),
            ("a \"$(b)\"", "`$` puts in something else"),
            ("a `b`", "``` puts in something else"),
            ("a \"`b`\"", "``` puts in something else"),
            ("a *.rs", "`*` stands for names of files"),
            ("a b?", "`?` stands for names of files"),
            ("a [bc]", "`[` stands for names of files"),
            ("a {b,c}", "`{` stands for several words"),
            ("a {1..9}", "`{` stands for several words"),
            ("a ~/b", "`~` stands for a home directory"),
            ("a # b", "`#` begins a comment"),
            ("! a", "`!` turns an outcome around"),
            ("A=1 b", "`=` in the first word sets a variable (`env` does, too)"),
            ("a \\\nb", "\\ and a new line continue a line"),
        ] {
            let rest = ", and there is no shell: quote it if it is meant as it stands";
            assert_eq!(
                split(command).unwrap_err().to_string(),
                format!("{why}{rest}"),
                "{command}"
            );
        }
        for (command, why) in [
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("'' a", "it is empty"),
            ("a 'b", "a quotation mark ' is not closed"),
            ("a \"b", "a quotation mark \" is not closed"),
            ("a \"b\\", "a quotation mark \" is not closed"),
            ("a \\", "it ends with a backslash"),
            ("a\0b", "it has a zero byte"),
        ] {
            assert_eq!(split(command).unwrap_err().to_string(), why, "{command:?}");
        }
        assert_eq!(split(&"a ".repeat(WORDS_MAX + 1)), Err(NoCommand::TooLong));
        assert_eq!(split(&"a".repeat(COMMAND_BYTES_MAX + 1)), Err(NoCommand::TooLong));
        assert!(split(&"a ".repeat(WORDS_MAX)).is_ok());
    }

    #[test]
    fn a_pattern_allows_its_words_and_any_after_it_only_if_it_is_open() {
        for (pattern, command, is_allowed) in [
            ("cargo test", "cargo test", true),
            ("cargo test", "cargo  'test'", true),
            ("cargo test", "cargo test --all", false),
            ("cargo test", "cargo", false),
            ("cargo test", "cargo testing", false),
            ("cargo test", "/tmp/cargo test", false),
            ("cargo test *", "cargo test", true),
            ("cargo test *", "cargo test --all -- x", true),
            ("cargo test *", "cargo testing", false),
            ("cargo test *", "cargo run", false),
            ("cargo test *", "cargo 'test '", false),
            ("sh -c 'make test'", "sh -c \"make test\"", true),
            ("sh -c 'make test'", "sh -c make test", false),
            ("ls '*'", "ls '*'", true),
            ("ls '*'", "ls x", false),
        ] {
            let allows = Pattern::parse(pattern).unwrap().allows(&split(command).unwrap());
            assert_eq!(allows, is_allowed, "{pattern} and {command}");
        }
        for (pattern, why) in [
            ("*", "allows everything; name a program before `*`"),
            ("cargo * test", "has a `*` that is not its last word"),
            ("cargo te*", "has a `*` that is not its last word"),
            ("", "is no command: it is empty"),
            (" *", "is no command: it is empty"),
            (
                "a; b *",
                "is no command: `;` joins commands, and there is no shell: quote it if it \
                        is meant as it stands",
            ),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap_err(), why, "{pattern}");
        }
        for same in ["cargo test", "cargo test *", "sh -c 'make test' *", "ls '*'"] {
            assert_eq!(Pattern::parse(same).unwrap().to_string(), same);
        }
    }

    /// Holds AC1.
    #[test]
    fn one_command_that_may_not_run_keeps_all_from_running() {
        let allowed = [Pattern::parse("make *").unwrap()];
        let commands = ["make test", "rm -r x", "make a && make b"].map(str::to_owned);
        let denied = check(&commands, &allowed).unwrap_err();
        let said: Vec<(&str, bool)> =
            denied.iter().map(|it| (it.command.as_str(), it.why.is_some())).collect();
        assert_eq!(said, [("rm -r x", false), ("make a && make b", true)]);
        assert_eq!(check(&commands[..1], &allowed).unwrap(), [["make", "test"]]);
    }
}
