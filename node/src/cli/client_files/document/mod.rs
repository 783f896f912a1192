//! A client's configuration file as text that can be changed in places.
//!
//! **Invariant:** what was not asked to change stays as it was written: comments, order,
//! indentation, line ends, a byte order mark, the end of the file.
//!
//! A file that its client could not read is refused, because a change could make it worse.

mod json;
mod toml;

use std::{fmt, path::Path};

use serde_json::Value as Json;

use crate::cli::Failure;

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Format {
    /// JSON, with comments and trailing commas where somebody wrote them.
    Json,
    Toml,
}

/// Something to write, in the order in which it shall stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Value {
    Text(String),
    Number(u64),
    Yes,
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
}

impl Value {
    pub(in crate::cli) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(in crate::cli) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(Self::text).collect())
    }

    pub(in crate::cli) fn table<'a>(pairs: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Table(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    pub(in crate::cli) fn to_json(&self) -> Json {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Number(number) => (*number).into(),
            Self::Yes => true.into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Table(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (key.clone(), value.to_json()));
                Json::Object(pairs.collect())
            }
        }
    }
}

/// Keys from the outermost table inwards; an item of a list goes by its index.
pub(in crate::cli) type Keys = [String];

/// Owned [`Keys`].
pub(in crate::cli) fn keys<const N: usize>(keys: [&str; N]) -> Vec<String> {
    keys.map(str::to_owned).into()
}

/// Why a file is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum EditError {
    /// Not what the format allows.
    Malformed { line: usize, why: String },
    /// Something else is where a table or a list must be.
    WrongType { keys: String, expected: &'static str },
    /// A key is there more than once; clients differ in which one they take.
    Duplicate { keys: String },
}

impl EditError {
    fn wrong_type(keys: &Keys, expected: &'static str) -> Self {
        Self::WrongType { keys: keys.join("."), expected }
    }

    fn duplicate(keys: &Keys) -> Self {
        Self::Duplicate { keys: keys.join(".") }
    }

    /// As a failure of the command, with the file's path.
    pub(in crate::cli) fn at(&self, path: &Path) -> Failure {
        let path = path.display();
        Failure::local(match self {
            Self::Malformed { line, why } => {
                format!("{path}:{line}: {why}. The file was not changed.")
            }
            Self::WrongType { .. } | Self::Duplicate { .. } => {
                format!("In {path} {self}. The file was not changed.")
            }
        })
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, why } => write!(f, "line {line}: {why}"),
            Self::WrongType { keys, expected } if keys.is_empty() => {
                write!(f, "the top level is not {expected}")
            }
            Self::WrongType { keys, expected } => write!(f, "`{keys}` is not {expected}"),
            Self::Duplicate { keys } => write!(f, "`{keys}` appears twice"),
        }
    }
}

const TABLE: &str = "a table";
const LIST: &str = "a list";

/// What each format implements.
trait Tree {
    fn get(&self, keys: &Keys) -> Result<Option<Json>, EditError>;
    /// Sets a value; the tables around it are made as needed.
    fn set(&mut self, keys: &Keys, value: &Value) -> Result<(), EditError>;
    /// Puts an item into a list, which is made as needed.
    fn insert(&mut self, list: &Keys, index: usize, item: &Value) -> Result<(), EditError>;
    fn remove(&mut self, keys: &Keys) -> Result<(), EditError>;
    fn text(&self) -> String;
}

/// A configuration file's text.
pub(in crate::cli) struct Document {
    tree: Box<dyn Tree>,
    has_bom: bool,
}

/// The byte order mark some editors put first.
const BOM: char = '\u{feff}';

impl Document {
    pub(in crate::cli) fn parse(format: Format, text: &str) -> Result<Self, EditError> {
        let bare = text.strip_prefix(BOM);
        let has_bom = bare.is_some();
        let text = bare.unwrap_or(text);
        let tree: Box<dyn Tree> = match format {
            Format::Json => Box::new(json::Json::parse(text)?),
            Format::Toml => Box::new(toml::Toml::parse(text)?),
        };
        Ok(Self { tree, has_bom })
    }

    pub(in crate::cli) fn get(&self, keys: &Keys) -> Result<Option<Json>, EditError> {
        self.tree.get(keys)
    }

    /// The items of a list; none if it is not there.
    pub(in crate::cli) fn list(&self, keys: &Keys) -> Result<Vec<Json>, EditError> {
        match self.get(keys)? {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => Ok(items),
            Some(_) => Err(EditError::wrong_type(keys, LIST)),
        }
    }

    /// Sets a value. Returns the tables that had to be made around it, the outermost first.
    pub(in crate::cli) fn set(
        &mut self,
        keys: &Keys,
        value: &Value,
    ) -> Result<Vec<Vec<String>>, EditError> {
        let made = self.missing(&keys[..keys.len() - 1])?;
        self.tree.set(keys, value)?;
        Ok(made)
    }

    /// Puts an item into a list. Returns what had to be made for it, the outermost first.
    pub(in crate::cli) fn insert(
        &mut self,
        list: &Keys,
        index: usize,
        item: &Value,
    ) -> Result<Vec<Vec<String>>, EditError> {
        let made = self.missing(list)?;
        self.tree.insert(list, index, item)?;
        Ok(made)
    }

    pub(in crate::cli) fn remove(&mut self, keys: &Keys) -> Result<(), EditError> {
        self.tree.remove(keys)
    }

    /// Whether a table or list is there and has nothing in it.
    pub(in crate::cli) fn is_empty(&self, keys: &Keys) -> bool {
        match self.get(keys) {
            Ok(Some(Json::Object(table))) => table.is_empty(),
            Ok(Some(Json::Array(list))) => list.is_empty(),
            Ok(_) | Err(_) => false,
        }
    }

    pub(in crate::cli) fn text(&self) -> String {
        let text = self.tree.text();
        if self.has_bom { format!("{BOM}{text}") } else { text }
    }

    fn missing(&self, keys: &Keys) -> Result<Vec<Vec<String>>, EditError> {
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
