//! ARCHITECTURE.md, the decisions and the ids of invariants, held against the source.
//!
//! An id is defined where it stands in bold at the beginning of a statement: in the header of the
//! module that keeps it, or in ARCHITECTURE.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// An overview that is longer is not read before the first change.
const PAGE_BYTES_MAX: usize = 12 * 1024;

/// Half a page, with room for one that merges several.
const DECISION_BYTES_MAX: usize = 3 * 1024;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn page() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// The part of a page below a heading, up to the next one of the same level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let heading = format!("\n## {heading}\n");
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("no{heading}"));
    rest.split("\n## ").next().unwrap()
}

/// What stands in backticks, code blocks aside.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// The sources of all crates.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["proto/src", "broker/src", "node/src", "broker/tests", "node/tests"] {
        super::tidy::sources(&root().join(folder), &mut found);
    }
    found
}

/// Whether a word is the id of an invariant: one to three capitals, then a number.
fn is_id(word: &str) -> bool {
    let number = word.trim_start_matches(|letter: char| letter.is_ascii_uppercase());
    let letters = word.len() - number.len();
    (1..=3).contains(&letters)
        && !number.is_empty()
        && number.bytes().all(|digit| digit.is_ascii_digit())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| is_id(word))
}

/// The id that a line defines, if it does, in a header or in Markdown: `//! - **ID** …`.
fn defined(line: &str) -> Option<&str> {
    let text = line.trim_start().trim_start_matches("//!").trim_start_matches("///");
    let text = text.trim_start().trim_start_matches("- ").strip_prefix("**")?;
    text.split_once("**").map(|(id, _)| id).filter(|id| is_id(id))
}

/// The ids that tests name in a comment, and assertions in their message.
fn named(path: &Path, text: &str, found: &mut BTreeSet<String>) {
    let is_test = path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|stem| stem == "tests" || stem == "goldens");
    let (code, tests) = match text.find("#[cfg(test)]\nmod tests {") {
        _ if is_test => ("", text),
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let comments = tests.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
    found.extend(comments.flat_map(words).map(str::to_owned));
    for text in [code, tests] {
        let messages = text.split('"').skip(1);
        let ids = messages.filter_map(|message| message.split([':', '"']).next());
        found.extend(ids.filter(|id| is_id(id)).map(str::to_owned));
    }
}

#[test]
fn the_overview_is_short() {
    let length = page().len();
    assert!(length <= PAGE_BYTES_MAX, "ARCHITECTURE.md has {length} bytes");
}

#[test]
fn each_path_of_the_overview_exists() {
    let page = page();
    let map = section(&page, "Code map");
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `")).collect::<Vec<_>>();
    assert!(30 < rows.len(), "{}", rows.len());
    let mapped = rows.iter().map(|row| row.split('`').next().unwrap());
    let is_path = |span: &&str| {
        let tops = ["proto/", "broker/", "node/", "examples/", "docs/", "scripts/"];
        tops.iter().any(|top| span.starts_with(top)) && !span.contains("NOUN")
    };
    let named = spans(&page).filter(is_path);
    for path in mapped.chain(named) {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}");
    }
}

/// A folder that is not in the code map is one that a newcomer finds by accident.
#[test]
fn each_folder_of_a_crate_is_in_the_code_map() {
    let page = page();
    let map = section(&page, "Code map");
    for parent in ["broker/src", "node/src"] {
        for entry in fs::read_dir(root().join(parent)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let row = format!("| `{parent}/{name}`");
            assert!(!path.is_dir() || map.contains(&row), "the code map has no {parent}/{name}");
        }
    }
}

#[test]
fn each_invariant_is_defined_once_and_held_by_a_test_or_an_assertion() {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut held = BTreeSet::new();
    let mut pages = vec![(root().join("ARCHITECTURE.md"), page())];
    pages.extend(sources().into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    }));
    for (path, text) in &pages {
        for (number, line) in text.lines().enumerate() {
            if let Some(id) = defined(line) {
                let place = format!("{}:{}", path.display(), number + 1);
                all.entry(id.to_owned()).or_default().push(place);
            }
        }
        if path.extension().is_some_and(|it| it == "rs") {
            named(path, text, &mut held);
        }
    }
    assert!(100 < all.len(), "{}", all.len());
    let twice: Vec<_> = all.iter().filter(|(_, places)| places.len() != 1).collect();
    assert!(twice.is_empty(), "defined more than once: {twice:#?}");
    let loose: Vec<_> = all.iter().filter(|(id, _)| !held.contains(*id)).collect();
    assert!(loose.is_empty(), "no test or assertion names: {loose:#?}");

    let page = page();
    let cited: BTreeSet<&str> = words(section(&page, "Invariants")).collect();
    let unknown: Vec<_> = cited.iter().filter(|id| !all.contains_key(**id)).collect();
    assert!(unknown.is_empty(), "ARCHITECTURE.md names {unknown:?}, which nothing defines");
}

#[test]
fn each_decision_says_why_what_and_at_which_cost() {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(root().join("docs/decisions")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let (number, _) = name.split_once('-').unwrap();
        assert!(numbers.insert(number.to_owned()), "two decisions have the number {number}");
        assert!(number.len() == 3 && number.parse::<u16>().is_ok(), "{name}");
        assert!(text.starts_with("# "), "{name} has no title");
        for part in ["**Context.**", "**Decision.**", "**Cost.**"] {
            assert!(text.contains(&format!("\n{part}")), "{name} lacks {part}");
        }
        assert!(text.len() <= DECISION_BYTES_MAX, "{name} has {} bytes", text.len());
    }
    assert!(20 < numbers.len(), "{}", numbers.len());
}
