//! Statements of VB6, as tokens: without comments, with lines joined that end in ` _`, and apart
//! where a colon stands between them.

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword, without the sign of its type (`Left$`).
    Name(String),
    /// A name after a point or an exclamation mark.
    Member(String),
    /// A text, without its quotation marks.
    Text(String),
    Number,
    Other(char),
}

impl Token {
    /// Whether it is this name; case does not count.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Name(own) if own.eq_ignore_ascii_case(name))
    }

    pub(super) fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }

    pub(super) fn member(&self) -> Option<&str> {
        if let Self::Member(name) = self { Some(name) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A statement, and the line that it begins in, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) tokens: Vec<Token>,
}

/// All statements of a module. Directives (`#If`) are left out, what stands between them is not.
pub(super) fn statements(text: &str) -> Vec<Statement> {
    let mut all = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let mut whole = line.trim_end().to_owned();
        while let Some(begin) = continued(&whole) {
            let next = lines.next().map_or("", |(_, line)| line);
            whole = format!("{begin} {}", next.trim_end());
        }
        if !whole.trim_start().starts_with('#') {
            Lexer { rest: &whole, line: number + 1, tokens: Vec::new(), all: &mut all }.run();
        }
    }
    all
}

/// A line without the ` _` that joins it with the next one.
fn continued(line: &str) -> Option<&str> {
    let begin = line.strip_suffix('_')?;
    begin.ends_with([' ', '\t']).then(|| begin.trim_end())
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    /// Of the statement that is being read.
    tokens: Vec<Token>,
    all: &'a mut Vec<Statement>,
}

impl Lexer<'_> {
    fn run(mut self) {
        while let Some(first) = self.rest.chars().next() {
            match first {
                '\'' => break,
                '"' => self.text(),
                ':' => self.colon(),
                '[' => self.bracketed(),
                '.' | '!' if self.rest[1..].starts_with(is_first) => {
                    self.skip(1);
                    let name = self.word();
                    self.tokens.push(Token::Member(name));
                }
                '&' if self.rest[1..].starts_with(['H', 'h', 'O', 'o']) => self.number(),
                '#' => self.date(),
                _ if first.is_ascii_digit() => self.number(),
                _ if is_first(first) => {
                    let name = self.word();
                    if self.tokens.is_empty() && name.eq_ignore_ascii_case("rem") {
                        break;
                    }
                    self.tokens.push(Token::Name(name));
                }
                _ => {
                    self.skip(first.len_utf8());
                    if !first.is_whitespace() {
                        self.tokens.push(Token::Other(first));
                    }
                }
            }
        }
        self.end();
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// Ends the statement that is being read.
    fn end(&mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        if !tokens.is_empty() {
            self.all.push(Statement { line: self.line, tokens });
        }
    }

    /// A name, without the sign of its type.
    fn word(&mut self) -> String {
        let end = self.rest.find(|it: char| !is_letter(it)).unwrap_or(self.rest.len());
        let name = self.rest[..end].to_owned();
        self.skip(end);
        let mut after = self.rest.chars();
        let sign = after.next().filter(|it| "$%@#&!".contains(*it));
        // `rs!Field` and `a&b` are no signs.
        let is_sign = !after.next().is_some_and(is_letter);
        if let Some(sign) = sign.filter(|_| is_sign) {
            self.skip(sign.len_utf8());
        }
        name
    }

    /// A text. Two quotation marks in it stand for one.
    fn text(&mut self) {
        let mut text = String::new();
        self.skip(1);
        loop {
            let Some(end) = self.rest.find('"') else {
                text.push_str(self.rest);
                self.rest = "";
                break;
            };
            text.push_str(&self.rest[..end]);
            self.skip(end + 1);
            if !self.rest.starts_with('"') {
                break;
            }
            text.push('"');
            self.skip(1);
        }
        self.tokens.push(Token::Text(text));
    }

    /// A name that would be none without its brackets.
    fn bracketed(&mut self) {
        let end = self.rest.find(']').unwrap_or(self.rest.len());
        let name = self.rest[1..end].trim().to_owned();
        self.skip((end + 1).min(self.rest.len()));
        self.tokens.push(Token::Name(name));
    }

    fn number(&mut self) {
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '.';
        let end = self.rest[1..].find(|it| !is_part(it)).map_or(self.rest.len(), |at| at + 1);
        self.skip(end);
        self.tokens.push(Token::Number);
    }

    /// Ends a statement, unless it gives an argument its name (`Name:=value`).
    fn colon(&mut self) {
        if self.rest.starts_with(":=") {
            self.skip(2);
            self.tokens.pop();
            return;
        }
        self.skip(1);
        self.end();
    }

    /// A date between two signs, or the sign alone, as before the number of a file.
    fn date(&mut self) {
        let inner = self.rest[1..].split_once('#').map(|(inner, _)| inner);
        let is_date = |it: &&str| {
            it.contains(['/', ':', '-'])
                && it.starts_with(|it: char| it.is_ascii_alphanumeric())
                && it.ends_with(|it: char| it.is_ascii_alphanumeric())
                && it.chars().all(|it| it.is_ascii_alphanumeric() || " /:-,".contains(it))
        };
        match inner.filter(is_date) {
            Some(inner) => {
                self.skip(inner.len() + 2);
                self.tokens.push(Token::Number);
            }
            None => {
                self.skip(1);
                self.tokens.push(Token::Other('#'));
            }
        }
    }
}

fn is_first(letter: char) -> bool {
    letter.is_alphabetic()
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}
