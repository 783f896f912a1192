//! TOML.

use serde_json::Value as Read;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::{EditError, Keys, LIST, TABLE, Tree, Value};

pub(super) struct Toml {
    document: DocumentMut,
    /// The text as it was found: the library writes its own line ends.
    before: String,
}

impl Toml {
    pub(super) fn parse(text: &str) -> Result<Self, EditError> {
        let document = text.parse::<DocumentMut>().map_err(|why| {
            let before = why.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let why = why.message().replace('\n', ", ");
            EditError::Malformed { line: before.matches('\n').count() + 1, why }
        })?;
        Ok(Self { document, before: text.to_owned() })
    }

    fn find(&self, keys: &Keys) -> Result<Option<&Item>, EditError> {
        let mut item = self.document.as_item();
        for (depth, key) in keys.iter().enumerate() {
            let table =
                item.as_table_like().ok_or_else(|| EditError::wrong_type(&keys[..depth], TABLE))?;
            let Some(next) = table.get(key) else { return Ok(None) };
            item = next;
        }
        Ok(Some(item))
    }

    /// What stands behind the last section: comments, mostly.
    fn end(&self) -> String {
        self.document.trailing().as_str().unwrap_or_default().to_owned()
    }

    /// A section that was put last comes after what stood there, not in between.
    fn keep_the_end_above(&mut self, keys: &Keys) -> Result<(), EditError> {
        let end = self.end();
        let text = self.document.to_string();
        let header = format!("[{}]", keys.join("."));
        let after = text.rsplit_once(&header).map_or("", |(_, after)| after);
        let is_last = !after.lines().any(|line| line.trim_start().starts_with('['));
        if end.trim().is_empty() || !is_last {
            return Ok(());
        }
        let (last, around) = keys.split_last().expect("a section has a key");
        if let Some(section) = self.table(around)?.get_mut(last).and_then(Item::as_table_mut) {
            section.decor_mut().set_prefix(format!("{end}\n"));
            self.document.set_trailing("");
        }
        Ok(())
    }

    fn table(&mut self, keys: &Keys) -> Result<&mut dyn TableLike, EditError> {
        let mut item = self.document.as_item_mut();
        for (depth, key) in keys.iter().enumerate() {
            let is_inline = item.is_inline_table();
            let table = item
                .as_table_like_mut()
                .ok_or_else(|| EditError::wrong_type(&keys[..depth], TABLE))?;
            item = table.entry(key).or_insert_with(|| {
                if is_inline {
                    return toml_edit::value(InlineTable::new());
                }
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
        }
        item.as_table_like_mut().ok_or_else(|| EditError::wrong_type(keys, TABLE))
    }
}

impl Tree for Toml {
    fn get(&self, keys: &Keys) -> Result<Option<Read>, EditError> {
        Ok(self.find(keys)?.map(read))
    }

    fn set(&mut self, keys: &Keys, value: &Value) -> Result<(), EditError> {
        let (last, around) = keys.split_last().expect("a value has a key");
        let is_first = self.document.iter().next().is_none();
        let is_inline = self.find(around)?.is_some_and(Item::is_inline_table);
        let table = self.table(around)?;
        let mut new = item(value, is_inline);
        let is_section = new.is_table() && !table.contains_key(last);
        if let Some(section) = new.as_table_mut()
            && !is_first
        {
            // A blank line before a new section, as people write them.
            section.decor_mut().set_prefix("\n");
        }
        match table.get_mut(last) {
            Some(Item::Value(old)) if new.is_value() => {
                let decor = old.decor().clone();
                if let Item::Value(mut new) = new {
                    *new.decor_mut() = decor;
                    *old = new;
                }
            }
            Some(old) => *old = new,
            None => drop(table.insert(last, new)),
        }
        if is_section {
            self.keep_the_end_above(keys)?;
        }
        Ok(())
    }

    fn insert(&mut self, list: &Keys, index: usize, new: &Value) -> Result<(), EditError> {
        let (last, around) = list.split_last().expect("a list has a key");
        let table = self.table(around)?;
        let items = table.entry(last).or_insert_with(|| toml_edit::value(Array::new()));
        let items = items.as_array_mut().ok_or_else(|| EditError::wrong_type(list, LIST))?;
        if let Item::Value(new) = item(new, true) {
            items.insert(index, new);
        }
        Ok(())
    }

    fn remove(&mut self, keys: &Keys) -> Result<(), EditError> {
        let (last, around) = keys.split_last().expect("a value has a key");
        if self.find(keys)?.is_none() {
            return Ok(());
        }
        if let Some(Item::Table(section)) = self.table(around)?.remove(last) {
            // What people wrote above a section is not the section.
            let above = section.decor().prefix().and_then(|text| text.as_str()).unwrap_or_default();
            if !above.trim().is_empty() {
                let above = above.strip_suffix('\n').unwrap_or(above);
                let end = format!("{above}{}", self.end());
                self.document.set_trailing(end);
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        with_line_ends_of(&self.before, &self.document.to_string())
    }
}

/// `after` with the line ends of `before`: each line above and below what changed with its own,
/// for a text in several lines is a value, and what changed with those of the first line.
fn with_line_ends_of(before: &str, after: &str) -> String {
    let bare = |line: &str| line.replace("\r\n", "\n");
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let same = |(old, new): &(&&str, &&str)| bare(old) == bare(new);
    let above = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[above..], &new[above..]);
    let below = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let changed = new_rest[..new_rest.len() - below].iter().map(|line| bare(line));
    let has_returns = old.first().is_some_and(|line| line.ends_with("\r\n"));
    let changed: String = changed.collect();
    let changed = if has_returns { changed.replace('\n', "\r\n") } else { changed };
    old[..above].concat() + &changed + &old_rest[old_rest.len() - below..].concat()
}

fn item(value: &Value, is_inline: bool) -> Item {
    match value {
        Value::Text(text) => toml_edit::value(text),
        Value::Number(number) => toml_edit::value(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Yes => toml_edit::value(true),
        Value::List(items) => {
            let items = items.iter().filter_map(|it| item(it, true).into_value().ok());
            toml_edit::value(items.collect::<Array>())
        }
        Value::Table(pairs) if is_inline => {
            let values = pairs.iter().filter_map(|(key, value)| {
                Some((key.as_str(), item(value, true).into_value().ok()?))
            });
            toml_edit::value(values.collect::<InlineTable>())
        }
        Value::Table(pairs) => {
            let items = pairs.iter().map(|(key, value)| (key.as_str(), item(value, true)));
            Item::Table(items.collect())
        }
    }
}

fn read(item: &Item) -> Read {
    if let Some(table) = item.as_table_like() {
        let pairs = table.iter().map(|(key, item)| (key.to_owned(), read(item)));
        return Read::Object(pairs.collect());
    }
    if let Some(tables) = item.as_array_of_tables() {
        let one = |table: &Table| read(&Item::Table(table.clone()));
        return Read::Array(tables.iter().map(one).collect());
    }
    item.as_value().map_or(Read::Null, |value| match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(truth) => (*truth.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(list) => {
            list.iter().map(|value| read(&Item::Value(value.clone()))).collect()
        }
        toml_edit::Value::InlineTable(table) => {
            let pairs = table.iter();
            let pairs =
                pairs.map(|(key, value)| (key.to_owned(), read(&Item::Value(value.clone()))));
            Read::Object(pairs.collect())
        }
    })
}
