//! A client's configuration file as text that can be changed in places.
//!
//! **Invariant:** what was not asked to change stays as it was written: comments, order,
//! indentation, line ends, a byte order mark, the end of the file.
//!
//! A file is refused when it is not what its client could read, because a change could then make
//! it worse.

mod json;
mod toml;

use std::fmt;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with comments and trailing commas where somebody wrote them.
    Json,
    Toml,
}

/// Something to write, in the order in which it shall stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Yes,
    Texts(Vec<String>),
    Table(Vec<(String, Self)>),
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The same as programs read it.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::Yes => true.into(),
            Self::Texts(texts) => texts.as_slice().into(),
            Self::Table(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key.clone(), value.to_json()));
                serde_json::Value::Object(pairs.collect())
            }
        }
    }
}

/// Keys from the outermost to the innermost table.
pub(super) type Keys = [String];

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Not what the format allows.
    Malformed { line: usize, why: String },
    /// Something else stands where a table or a list must be.
    Taken { keys: String, expected: &'static str },
    /// A key stands there more than once; clients differ in which one they take.
    Twice { keys: String },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, why } => write!(f, "line {line}: {why}"),
            Self::Taken { keys, expected } if keys.is_empty() => {
                write!(f, "the whole file is something else than {expected}")
            }
            Self::Taken { keys, expected } => {
                write!(f, "`{keys}` is something else than {expected}")
            }
            Self::Twice { keys } => write!(f, "`{keys}` stands there twice"),
        }
    }
}

fn dotted(keys: &Keys) -> String {
    keys.join(".")
}

const TABLE: &str = "a table of settings";
const LIST: &str = "a list";

/// What a format does.
trait Tree {
    fn get(&self, keys: &Keys) -> Result<Option<serde_json::Value>, Unfit>;
    /// Sets a value; the tables around it are made as needed.
    fn set(&mut self, keys: &Keys, value: &Value) -> Result<(), Unfit>;
    /// Adds an item to a list, which is made as needed.
    fn include(&mut self, keys: &Keys, item: &str) -> Result<(), Unfit>;
    fn exclude(&mut self, keys: &Keys, item: &str) -> Result<(), Unfit>;
    fn remove(&mut self, keys: &Keys) -> Result<(), Unfit>;
    fn text(&self) -> String;
}

/// A configuration file's text.
pub(super) struct Document {
    tree: Box<dyn Tree>,
    has_mark: bool,
}

/// The byte order mark some editors put first.
const MARK: char = '\u{feff}';

impl Document {
    pub(super) fn parse(format: Format, text: &str) -> Result<Self, Unfit> {
        let bare = text.strip_prefix(MARK);
        let has_mark = bare.is_some();
        let text = bare.unwrap_or(text);
        let tree: Box<dyn Tree> = match format {
            Format::Json => Box::new(json::Json::parse(text)?),
            Format::Toml => Box::new(toml::Toml::parse(text)?),
        };
        Ok(Self { tree, has_mark })
    }

    pub(super) fn get(&self, keys: &Keys) -> Result<Option<serde_json::Value>, Unfit> {
        self.tree.get(keys)
    }

    /// Sets a value. Gives the tables that had to be made around it, the outermost first.
    pub(super) fn set(&mut self, keys: &Keys, value: &Value) -> Result<Vec<Vec<String>>, Unfit> {
        let made = self.missing(&keys[..keys.len() - 1])?;
        self.tree.set(keys, value)?;
        Ok(made)
    }

    /// Adds an item to a list. Gives what had to be made for it, the outermost first.
    pub(super) fn include(&mut self, keys: &Keys, item: &str) -> Result<Vec<Vec<String>>, Unfit> {
        let made = self.missing(keys)?;
        self.tree.include(keys, item)?;
        Ok(made)
    }

    pub(super) fn exclude(&mut self, keys: &Keys, item: &str) -> Result<(), Unfit> {
        self.tree.exclude(keys, item)
    }

    pub(super) fn remove(&mut self, keys: &Keys) -> Result<(), Unfit> {
        self.tree.remove(keys)
    }

    /// Whether a table or list is there and has nothing in it.
    pub(super) fn is_empty(&self, keys: &Keys) -> bool {
        match self.get(keys) {
            Ok(Some(serde_json::Value::Object(table))) => table.is_empty(),
            Ok(Some(serde_json::Value::Array(list))) => list.is_empty(),
            Ok(_) | Err(_) => false,
        }
    }

    pub(super) fn text(&self) -> String {
        let text = self.tree.text();
        if self.has_mark { format!("{MARK}{text}") } else { text }
    }

    fn missing(&self, keys: &Keys) -> Result<Vec<Vec<String>>, Unfit> {
        let mut missing = Vec::new();
        for depth in 1..=keys.len() {
            if self.get(&keys[..depth])?.is_none() {
                missing.push(keys[..depth].to_vec());
            }
        }
        Ok(missing)
    }
}

#[cfg(test)]
mod tests;
