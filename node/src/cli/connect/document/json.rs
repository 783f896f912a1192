//! JSON as editors' settings have it: comments and trailing commas are kept.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value as Read;

use super::{Keys, LIST, TABLE, Tree, Unfit, Value, dotted};

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
    pub(super) fn parse(text: &str) -> Result<Self, Unfit> {
        let root = CstRootNode::parse(text, &OPTIONS).map_err(|why| Unfit::Malformed {
            line: why.line_display(),
            why: why.kind().to_string(),
        })?;
        let is_new = root.value().is_none();
        Ok(Self { root, is_new })
    }

    fn whole(&self) -> Result<Option<CstObject>, Unfit> {
        match self.root.value() {
            None => Ok(None),
            Some(_) => self.root.object_value().map(Some).ok_or_else(|| taken(&[], TABLE)),
        }
    }

    fn find(&self, keys: &Keys) -> Result<Option<CstNode>, Unfit> {
        let Some(mut table) = self.whole()? else { return Ok(None) };
        let Some((last, around)) = keys.split_last() else { return Ok(Some(table.into())) };
        for (depth, key) in around.iter().enumerate() {
            let here = &keys[..=depth];
            let Some(node) = property(&table, key, here)? else { return Ok(None) };
            table = node.as_object().ok_or_else(|| taken(here, TABLE))?;
        }
        property(&table, last, keys)
    }

    fn table(&self, keys: &Keys) -> Result<CstObject, Unfit> {
        let whole = self.root.object_value_or_create();
        let mut table = whole.ok_or_else(|| taken(&[], TABLE))?;
        for key in keys {
            let next = table.object_value_or_create(key);
            table = next.ok_or_else(|| taken(keys, TABLE))?;
        }
        Ok(table)
    }
}

impl Tree for Json {
    fn get(&self, keys: &Keys) -> Result<Option<Read>, Unfit> {
        self.find(keys)?.map(|node| read(&node, keys)).transpose()
    }

    fn set(&mut self, keys: &Keys, value: &Value) -> Result<(), Unfit> {
        let (last, around) = keys.split_last().expect("a value has a key");
        self.find(keys)?;
        let table = self.table(around)?;
        match table.get(last) {
            Some(property) => property.set_value(input(value)),
            None => drop(table.append(last, input(value))),
        }
        Ok(())
    }

    fn include(&mut self, keys: &Keys, item: &str) -> Result<(), Unfit> {
        let (last, around) = keys.split_last().expect("a list has a key");
        self.find(keys)?;
        let list = self.table(around)?.array_value_or_create(last);
        let list = list.ok_or_else(|| taken(keys, LIST))?;
        if position(&list, item).is_none() {
            list.append(item.into());
        }
        Ok(())
    }

    fn exclude(&mut self, keys: &Keys, item: &str) -> Result<(), Unfit> {
        let Some(node) = self.find(keys)? else { return Ok(()) };
        let list = node.as_array().ok_or_else(|| taken(keys, LIST))?;
        if let Some(found) = position(&list, item) {
            found.remove();
        }
        Ok(())
    }

    fn remove(&mut self, keys: &Keys) -> Result<(), Unfit> {
        let (last, around) = keys.split_last().expect("a value has a key");
        if self.find(keys)?.is_some()
            && let Some(property) = self.table(around)?.get(last)
        {
            property.remove();
        }
        Ok(())
    }

    fn text(&self) -> String {
        let text = self.root.to_string();
        if self.is_new && !text.ends_with('\n') { text + "\n" } else { text }
    }
}

fn taken(keys: &Keys, expected: &'static str) -> Unfit {
    Unfit::Taken { keys: dotted(keys), expected }
}

fn property(table: &CstObject, key: &str, keys: &Keys) -> Result<Option<CstNode>, Unfit> {
    let named = |property: &_| decoded(property).as_deref() == Some(key);
    let mut found = table.properties().into_iter().filter(named);
    let first = found.next();
    if found.next().is_some() {
        return Err(Unfit::Twice { keys: dotted(keys) });
    }
    Ok(first.and_then(|property| property.value()))
}

fn decoded(property: &jsonc_parser::cst::CstObjectProp) -> Option<String> {
    property.decoded_name()
}

fn position(list: &CstArray, item: &str) -> Option<CstNode> {
    let is_it = |node: &CstNode| {
        node.as_string_lit().and_then(|text| text.decoded_value().ok()).as_deref() == Some(item)
    };
    list.elements().into_iter().find(is_it)
}

fn read(node: &CstNode, keys: &Keys) -> Result<Read, Unfit> {
    if let Some(table) = node.as_object() {
        let mut out = serde_json::Map::new();
        for of in table.properties() {
            if let (Some(name), Some(value)) = (of.decoded_name(), of.value()) {
                let value = read(&value, keys)?;
                if out.insert(name.clone(), value).is_some() {
                    let keys = [keys, &[name]].concat();
                    return Err(Unfit::Twice { keys: dotted(&keys) });
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
        Value::Texts(texts) => {
            CstInputValue::Array(texts.iter().cloned().map(CstInputValue::String).collect())
        }
        Value::Table(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key.clone(), input(value)));
            CstInputValue::Object(pairs.collect())
        }
    }
}
