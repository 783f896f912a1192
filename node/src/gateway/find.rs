//! Finds tools by words: of their names, their descriptions and their arguments.
//!
//! The index is in memory and made anew when what there is has changed: that is rare, and small.

use std::fmt;

use rmcp::model::Tool;
use tantivy::{
    Index, IndexReader, TantivyDocument, Term,
    collector::TopDocs,
    doc,
    query::{BooleanQuery, BoostQuery, FuzzyTermQuery, Occur, Query, TermQuery},
    schema::{FAST, Field, IndexRecordOption, STORED, Schema, TEXT, Value as _},
};

/// Memory for making an index, in bytes: the least that tantivy takes.
const WRITER_BYTES: usize = 15_000_000;

/// Words of one question that count.
const WORDS_MAX: usize = 32;

/// What a word is worth where it is found.
const NAME_BOOST: f32 = 3.0;
const ARGUMENT_BOOST: f32 = 0.5;

/// A word that only begins like the one that is looked for, against the word itself.
const PREFIX_BOOST: f32 = 0.5;

/// From so many letters on a word may also be the begin of another.
const PREFIX_LETTERS: usize = 3;

impl fmt::Debug for ToolIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolIndex").finish_non_exhaustive()
    }
}

pub(super) struct ToolIndex {
    reader: IndexReader,
    fields: Fields,
}

#[derive(Clone, Copy)]
struct Fields {
    place: Field,
    name: Field,
    description: Field,
    arguments: Field,
}

impl ToolIndex {
    /// Over these, which are found by their place. Takes some milliseconds for thousands.
    pub(super) fn new<'a>(tools: impl Iterator<Item = &'a Tool>) -> tantivy::Result<Self> {
        let mut schema = Schema::builder();
        let fields = Fields {
            place: schema.add_u64_field("place", FAST | STORED),
            name: schema.add_text_field("name", TEXT),
            description: schema.add_text_field("description", TEXT),
            arguments: schema.add_text_field("arguments", TEXT),
        };
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, WRITER_BYTES)?;
        for (place, tool) in tools.enumerate() {
            writer.add_document(doc!(
                fields.place => u64::try_from(place).unwrap_or(u64::MAX),
                fields.name => words(&tool.name),
                fields.description => words(tool.description.as_deref().unwrap_or_default()),
                fields.arguments => arguments(tool),
            ))?;
        }
        writer.commit()?;
        writer.wait_merging_threads()?;
        Ok(Self { reader: index.reader()?, fields })
    }

    /// The places of what fits best, the best first.
    pub(super) fn find(&self, question: &str, limit: usize) -> tantivy::Result<Vec<usize>> {
        let Fields { place, name, description, arguments } = self.fields;
        let mut parts: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for word in words(question).split(' ').filter(|it| !it.is_empty()).take(WORDS_MAX) {
            let boosts = [(name, NAME_BOOST), (description, 1.0), (arguments, ARGUMENT_BOOST)];
            for (field, boost) in boosts {
                let term = Term::from_field_text(field, word);
                let exact = TermQuery::new(term.clone(), IndexRecordOption::WithFreqs);
                parts.push((Occur::Should, Box::new(BoostQuery::new(Box::new(exact), boost))));
                if PREFIX_LETTERS <= word.chars().count() {
                    let begin = FuzzyTermQuery::new_prefix(term, 0, true);
                    let boost = boost * PREFIX_BOOST;
                    parts.push((Occur::Should, Box::new(BoostQuery::new(Box::new(begin), boost))));
                }
            }
        }
        let searcher = self.reader.searcher();
        let query = BooleanQuery::new(parts);
        let found = searcher.search(&query, &TopDocs::with_limit(limit.max(1)).order_by_score())?;
        let mut places = Vec::new();
        for (_, address) in found {
            let document: TantivyDocument = searcher.doc(address)?;
            let place = document.get_first(place).and_then(|it| it.as_u64());
            places.extend(place.and_then(|it| usize::try_from(it).ok()));
        }
        Ok(places)
    }
}

/// Words in small letters, also those that are written together: `readFile` and `read_file` are two.
fn words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut was_small = false;
    for c in text.chars() {
        if c.is_uppercase() && was_small {
            words.push(' ');
        }
        was_small = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        } else if !words.ends_with(' ') {
            words.push(' ');
        }
    }
    words
}

/// Names and descriptions of what it takes.
fn arguments(tool: &Tool) -> String {
    let properties = tool.input_schema.get("properties").and_then(|it| it.as_object());
    let mut text = String::new();
    for (name, schema) in properties.into_iter().flatten() {
        text.push_str(&words(name));
        text.push(' ');
        text.push_str(&words(
            schema.get("description").and_then(|it| it.as_str()).unwrap_or_default(),
        ));
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<Tool> {
        let tool = |name: &str, description: &str, argument: &str| {
            let schema =
                json!({ "type": "object", "properties": { argument: { "type": "string" } } });
            Tool::new(name.to_owned(), description.to_owned(), schema.as_object().unwrap().clone())
        };
        vec![
            tool("files__read_text_file", "Read a file as text.", "path"),
            tool("files__writeFile", "Create or overwrite a file.", "path"),
            tool("memory__search_nodes", "Look for nodes of the knowledge graph.", "query"),
            tool("git__log", "Show the history of commits. Reads nothing else.", "revision"),
        ]
    }

    #[test]
    fn what_fits_best_comes_first() {
        let tools = tools();
        let index = ToolIndex::new(tools.iter()).unwrap();
        let found = |question: &str| -> Vec<&str> {
            let places = index.find(question, 10).unwrap();
            places.into_iter().map(|place| &*tools[place].name).collect()
        };
        assert_eq!(found("read file").first(), Some(&"files__read_text_file"));
        assert_eq!(found("overwrite")[..], ["files__writeFile"]);
        assert_eq!(found("write_file").first(), Some(&"files__writeFile"));
        assert_eq!(found("knowledge graph")[..], ["memory__search_nodes"]);
        assert_eq!(found("commit")[..], ["git__log"], "the begin of a word");
        assert_eq!(found("revision")[..], ["git__log"], "an argument");
        assert_eq!(found("memory")[..], ["memory__search_nodes"], "a server");
        assert!(found("").is_empty() && found("+-(:\"").is_empty() && found("zebra").is_empty());
    }

    #[test]
    fn words_written_together_are_apart() {
        assert_eq!(words("readFile2Text_ofALL--x"), "read file2 text of all x");
        assert!(ToolIndex::new(std::iter::empty()).unwrap().find("a", 3).unwrap().is_empty());
    }
}
