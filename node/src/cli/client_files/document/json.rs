//! JSON as editors' settings have it: comments and trailing commas are kept.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value as Read;

use super::{EditError, Keys, LIST, TABLE, Tree, Value};

pub(super) struct Json {
    root: CstRootNode,
    /// There was nothing in the file, not even a table.
    is_new: bool,
}

/// Comments and trailing commas are usual in settings; anything else clients do not read.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

impl Json {
    pub(super) fn parse(text: &str) -> Result<Self, EditError> {
        let root = CstRootNode::parse(text, &OPTIONS).map_err(|why| EditError::Malformed {
            line: why.line_display(),
            why: why.kind().to_string(),
        })?;
        let is_new = root.value().is_none();
        Ok(Self { root, is_new })
    }

    fn find(&self, keys: &Keys) -> Result<Option<CstNode>, EditError> {
        let Some(mut node) = self.root.value() else { return Ok(None) };
        if node.as_object().is_none() {
            return Err(EditError::wrong_type(&[], TABLE));
        }
        for (depth, key) in keys.iter().enumerate() {
            let item = node.as_array().zip(key.parse::<usize>().ok());
            let inner = match item {
                Some((list, index)) => list.elements().into_iter().nth(index),
                None => {
                    let table = node.as_object();
                    let table =
                        table.ok_or_else(|| EditError::wrong_type(&keys[..depth], TABLE))?;
                    property(&table, key, &keys[..=depth])?
                }
            };
            let Some(inner) = inner else { return Ok(None) };
            node = inner;
        }
        Ok(Some(node))
    }

    fn table(&self, keys: &Keys) -> Result<CstObject, EditError> {
        let whole = self.root.object_value_or_create();
        let mut table = whole.ok_or_else(|| EditError::wrong_type(&[], TABLE))?;
        for key in keys {
            let next = table.object_value_or_create(key);
            table = next.ok_or_else(|| EditError::wrong_type(keys, TABLE))?;
        }
        Ok(table)
    }
}

impl Tree for Json {
    fn get(&self, keys: &Keys) -> Result<Option<Read>, EditError> {
        self.find(keys)?.map(|node| read(&node, keys)).transpose()
    }

    fn set(&mut self, keys: &Keys, value: &Value) -> Result<(), EditError> {
        let (last, around) = keys.split_last().expect("a value has a key");
        self.find(keys)?;
        let table = self.table(around)?;
        match table.get(last) {
            Some(property) => property.set_value(input(value)),
            None => drop(table.append(last, input(value))),
        }
        Ok(())
    }

    fn insert(&mut self, list: &Keys, index: usize, item: &Value) -> Result<(), EditError> {
        let (last, around) = list.split_last().expect("a list has a key");
        self.find(list)?;
        let items = self.table(around)?.array_value_or_create(last);
        let items = items.ok_or_else(|| EditError::wrong_type(list, LIST))?;
        items.insert(index, input(item));
        Ok(())
    }

    fn remove(&mut self, keys: &Keys) -> Result<(), EditError> {
        let (last, around) = keys.split_last().expect("a value has a key");
        let Some(found) = self.find(keys)? else { return Ok(()) };
        match self.find(around)?.and_then(|table| table.as_object()?.get(last)) {
            Some(property) => property.remove(),
            None => found.remove(),
        }
        Ok(())
    }

    fn text(&self) -> String {
        let text = self.root.to_string();
        if self.is_new && !text.ends_with('\n') { text + "\n" } else { text }
    }
}

fn property(table: &CstObject, key: &str, keys: &Keys) -> Result<Option<CstNode>, EditError> {
    let properties = table.properties().into_iter();
    let mut found = properties.filter(|it| it.decoded_name().as_deref() == Some(key));
    let first = found.next();
    if found.next().is_some() {
        return Err(EditError::duplicate(keys));
    }
    Ok(first.and_then(|property| property.value()))
}

fn read(node: &CstNode, keys: &Keys) -> Result<Read, EditError> {
    if let Some(table) = node.as_object() {
        let mut out = serde_json::Map::new();
        for of in table.properties() {
            if let (Some(name), Some(value)) = (of.decoded_name(), of.value()) {
                let value = read(&value, keys)?;
                if out.insert(name.clone(), value).is_some() {
                    let keys = [keys, &[name]].concat();
                    return Err(EditError::duplicate(&keys));
                }
            }
        }
        return Ok(Read::Object(out));
    }
    if let Some(list) = node.as_array() {
        let items = list.elements().iter().map(|item| read(item, keys)).collect::<Result<_, _>>();
        return items.map(Read::Array);
    }
    if let Some(text) = node.as_string_lit() {
        return Ok(text.decoded_value().map_or(Read::Null, Read::String));
    }
    // Numbers, truth values and null are written as JSON writes them.
    Ok(serde_json::from_str(&node.to_string()).unwrap_or(Read::Null))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::Yes => CstInputValue::Bool(true),
        Value::List(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Table(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(pairs.collect())
        }
    }
}
