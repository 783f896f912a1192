//! The front matter of a Markdown file: `---`, a YAML mapping, `---`, then the body.
//!
//! Values are texts, or lists of texts; what is deeper is there, and nothing that a reader here
//! wants. Anchors and aliases are refused, so that nothing is larger than its file.
//!
//! Descriptions written for Claude Code often have a `: ` in a plain scalar, which YAML forbids and
//! which other programs take. So if the whole is no YAML, the values of `name` and `description`
//! are taken as they stand on their lines.
//!
//! The YAML is read by `saphyr-parser`: pure Rust, no `unsafe`, small (it brings `arraydeque` alone),
//! kept up to date, and its events carry the line that a problem is reported with. `serde-saphyr`
//! would bring a dozen crates to read one flat mapping, the forks of `serde_yaml` a translated C
//! library or no line.
//!
//! Not here: what the keys mean.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// A text that is wrong, with the line where; lines count from 1, in the whole file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct Problem {
    pub line: usize,
    pub text: String,
}

impl Problem {
    pub(super) fn new(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

/// What stands behind a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing, or `null`.
    Null,
    Text(String),
    List(Vec<String>),
    /// A mapping, or a list of something else than texts.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A file in its two parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) fields: Vec<Field>,
    pub(super) body: &'a str,
}

/// What front matter begins and ends with.
const FENCE: &str = "---";

/// The keys whose values may be no YAML.
const LOOSE_KEYS: [&str; 2] = ["name", "description"];

/// Values within values.
const DEPTH_MAX: usize = 16;

pub(super) fn parse(text: &str) -> Result<Document<'_>, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or("");
    if first.trim_end() != FENCE {
        return Err(Problem::new(1, "the file does not start with front matter (`---`)"));
    }
    let start = first.len();
    let mut end = start;
    for line in lines {
        if line.trim_end() == FENCE {
            let (yaml, body) = (&text[start..end], &text[end + line.len()..]);
            let fields = read(yaml).or_else(|problem| read(&loosen(yaml)).map_err(|_| problem))?;
            return Ok(Document { fields, body });
        }
        end += line.len();
    }
    Err(Problem::new(1, "the front matter has no closing `---`"))
}

/// Quotes the plain values of [`LOOSE_KEYS`], line by line.
fn loosen(yaml: &str) -> String {
    let quote = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        let value = value.trim();
        let is_plain = !value.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!']);
        if !LOOSE_KEYS.contains(&key) || !is_plain {
            return None;
        }
        // A string of JSON is one of YAML.
        Some(format!("{key}: {}\n", serde_json::to_string(value).ok()?))
    };
    yaml.split_inclusive('\n').map(|line| quote(line).unwrap_or_else(|| line.to_owned())).collect()
}

/// The line of the file's first line of YAML, less 1.
const LINES_BEFORE: usize = 1;

fn read(yaml: &str) -> Result<Vec<Field>, Problem> {
    let mut fields = Vec::new();
    let mut reader = Items { parser: Parser::new_from_str(yaml), line: 1 };
    match reader.next()? {
        Item::End => return Ok(fields),
        Item::Mapping => {}
        Item::Text(..) | Item::List | Item::ListEnd | Item::MappingEnd | Item::Alias => {
            return Err(reader.problem("the front matter is not a mapping"));
        }
    }
    loop {
        let key = match reader.next()? {
            Item::MappingEnd => return Ok(fields),
            Item::Text(key, _) => key.into_owned(),
            Item::List | Item::Mapping | Item::Alias => {
                return Err(reader.problem("keys must be strings"));
            }
            Item::ListEnd | Item::End => return Err(reader.cut_off()),
        };
        let line = reader.line + LINES_BEFORE;
        if fields.iter().any(|field: &Field| field.key == key) {
            return Err(reader.problem(format!("duplicate key `{key}`")));
        }
        let value = reader.value()?;
        fields.push(Field { key, line, value });
    }
}

/// An event of YAML that means something here.
enum Item<'a> {
    Text(Cow<'a, str>, ScalarStyle),
    List,
    ListEnd,
    Mapping,
    MappingEnd,
    Alias,
    /// The document is over.
    End,
}

struct Items<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Of the latest event, in the YAML.
    line: usize,
}

impl<'a> Items<'a> {
    fn problem(&self, text: impl Into<String>) -> Problem {
        Problem::new(self.line + LINES_BEFORE, text)
    }

    fn alias(&self) -> Problem {
        self.problem("aliases are not supported")
    }

    fn cut_off(&self) -> Problem {
        self.problem("unexpected end of the YAML")
    }

    fn next(&mut self) -> Result<Item<'a>, Problem> {
        loop {
            let (event, span) = match self.parser.next() {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    let line = error.marker().line() + LINES_BEFORE;
                    return Err(Problem::new(line, format!("invalid YAML: {}", error.info())));
                }
                None => return Ok(Item::End),
            };
            self.line = span.start.line();
            return Ok(match event {
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
                Event::DocumentEnd | Event::StreamEnd => Item::End,
                Event::Scalar(text, style, ..) => Item::Text(text, style),
                Event::SequenceStart(..) => Item::List,
                Event::SequenceEnd => Item::ListEnd,
                Event::MappingStart(..) => Item::Mapping,
                Event::MappingEnd => Item::MappingEnd,
                Event::Alias(_) => Item::Alias,
            });
        }
    }

    fn value(&mut self) -> Result<Value, Problem> {
        match self.next()? {
            Item::Text(text, style) => Ok(scalar(&text, style)),
            Item::List => self.list(),
            Item::Mapping => {
                self.skip()?;
                Ok(Value::Other)
            }
            Item::Alias => Err(self.alias()),
            Item::ListEnd | Item::MappingEnd | Item::End => Err(self.cut_off()),
        }
    }

    fn list(&mut self) -> Result<Value, Problem> {
        let (mut texts, mut is_texts) = (Vec::new(), true);
        loop {
            match self.next()? {
                Item::ListEnd if is_texts => return Ok(Value::List(texts)),
                Item::ListEnd => return Ok(Value::Other),
                Item::Text(text, style) => match scalar(&text, style) {
                    Value::Text(text) => texts.push(text),
                    Value::Null | Value::List(_) | Value::Other => is_texts = false,
                },
                Item::List | Item::Mapping => {
                    is_texts = false;
                    self.skip()?;
                }
                Item::Alias => return Err(self.alias()),
                Item::MappingEnd | Item::End => return Err(self.cut_off()),
            }
        }
    }

    /// Passes over a list or a mapping that has begun.
    fn skip(&mut self) -> Result<(), Problem> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Item::List | Item::Mapping => depth += 1,
                Item::ListEnd | Item::MappingEnd => depth -= 1,
                Item::Text(..) => {}
                Item::Alias => return Err(self.alias()),
                Item::End => return Err(self.cut_off()),
            }
            if depth > DEPTH_MAX {
                return Err(self.problem("the YAML is nested too deeply"));
            }
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match style {
        ScalarStyle::Plain if matches!(text, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        ScalarStyle::Plain
        | ScalarStyle::SingleQuoted
        | ScalarStyle::DoubleQuoted
        | ScalarStyle::Literal
        | ScalarStyle::Folded => Value::Text(text.to_owned()),
    }
}
