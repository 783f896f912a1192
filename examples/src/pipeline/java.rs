//! Whether a class in Java can be parsed, and has a method for each procedure of the module that it
//! was made of.
//!
//! The answer is what a phase of a pipeline writes to its board: `artifacts` where nothing is wrong,
//! else `last_error`.
//!
//! Not here: types, imports and all else that a compiler checks.

use serde::Deserialize;
use serde_json::{Value, json};
use tree_sitter::{Node, Parser, Tree};

/// A class, in bytes.
pub const JAVA_BYTES_MAX: usize = 1024 * 1024;

/// Procedures of a module.
pub const PROCEDURES_MAX: usize = 10_000;

/// What is wrong, of which this much is told: a missing bracket can be followed by hundreds.
const TOLD_MAX: usize = 20;

/// Of code that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 40;

/// A procedure of VB6, which is to have a method.
#[derive(Debug, Clone, Deserialize)]
pub struct Procedure {
    pub name: String,
    /// `sub`, `function`, `property get`, `property let` or `property set`.
    pub kind: String,
}

/// Checks a class.
///
/// # Errors
/// A sentence that says why it cannot be checked.
pub fn check(java: &str, class: &str, procedures: &[Procedure]) -> Result<Value, String> {
    if JAVA_BYTES_MAX < java.len() || PROCEDURES_MAX < procedures.len() {
        return Err(format!(
            "The class has {} bytes and the module {} procedures; the limits are {JAVA_BYTES_MAX} \
             and {PROCEDURES_MAX}.",
            java.len(),
            procedures.len()
        ));
    }
    let tree = parse(java)?;
    let found = Found::read(&tree, java);
    let file = format!("{class}.java");
    let (mut wrong, mut more) = (found.errors, found.more);
    // What a broken class lacks is not known.
    if wrong.is_empty() {
        if !found.types.iter().any(|it| it == class) {
            wrong.push(format!("1:1: there is no class {class}"));
        }
        let lacking = procedures.iter().filter(|it| !has_method(&found.methods, it));
        wrong.extend(lacking.map(|it| {
            format!("1:1: {} {} has no method {}", it.kind, it.name, methods(it).join(" or "))
        }));
    }
    if wrong.is_empty() {
        let count = procedures.len();
        let text = format!("{file} can be parsed and has a method for each of {count} procedures.");
        return Ok(json!({ "artifacts": { "check": text } }));
    }
    more += wrong.len().saturating_sub(TOLD_MAX);
    let told = wrong.iter().take(TOLD_MAX).map(|it| format!("{file}:{it}"));
    let mut told: Vec<String> = told.collect();
    if 0 < more {
        told.push(format!("{more} more"));
    }
    Ok(json!({ "last_error": told.join("\n") }))
}

fn parse(java: &str) -> Result<Tree, String> {
    let mut parser = Parser::new();
    let language = tree_sitter_java::LANGUAGE.into();
    parser.set_language(&language).map_err(|why| format!("The parser: {why}."))?;
    parser.parse(java, None).ok_or_else(|| "The class could not be parsed.".to_owned())
}

/// What a class has.
#[derive(Debug, Default)]
struct Found {
    /// The first of them, with line and column, from 1.
    errors: Vec<String>,
    /// Errors beside those.
    more: usize,
    types: Vec<String>,
    /// In lower case: VB6 does not tell case apart.
    methods: Vec<String>,
}

impl Found {
    fn read(tree: &Tree, java: &str) -> Self {
        let mut found = Self::default();
        let mut cursor = tree.walk();
        loop {
            let node = cursor.node();
            found.add(node, java);
            // What is within an error is part of it.
            if !node.is_error() && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return found;
                }
            }
        }
    }

    fn add(&mut self, node: Node<'_>, java: &str) {
        let place = || {
            let at = node.start_position();
            let line = java.lines().nth(at.row).unwrap_or_default();
            let column = line.get(..at.column).map_or(at.column, |it| it.chars().count());
            format!("{}:{}", at.row + 1, column + 1)
        };
        let text = |node: Node<'_>| java.get(node.byte_range()).unwrap_or_default();
        let name = || node.child_by_field_name("name").map(text);
        if node.is_missing() || node.is_error() {
            if self.errors.len() == TOLD_MAX {
                self.more += 1;
            } else if node.is_missing() {
                self.errors.push(format!("{}: {} is missing", place(), node.kind()));
            } else {
                let shown = text(node).lines().next().unwrap_or_default();
                let shown: String = shown.chars().take(SHOWN_CHARS_MAX).collect();
                self.errors.push(format!("{}: unexpected {shown}", place()));
            }
        } else if node.kind() == "method_declaration" {
            self.methods.extend(name().map(str::to_lowercase));
        } else if node.kind() == "class_declaration" {
            self.types.extend(name().map(str::to_owned));
        }
    }
}

/// The methods of which one is to be there.
fn methods(procedure: &Procedure) -> Vec<String> {
    let name = &procedure.name;
    let mut letters = name.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    let own = format!("{first}{}", letters.as_str());
    match procedure.kind.as_str() {
        "property get" => vec![own, format!("get{name}"), format!("is{name}")],
        "property let" | "property set" => vec![own, format!("set{name}")],
        _ => vec![own],
    }
}

fn has_method(found: &[String], procedure: &Procedure) -> bool {
    methods(procedure).iter().any(|it| found.contains(&it.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn procedure(kind: &str, name: &str) -> Procedure {
        Procedure { name: name.to_owned(), kind: kind.to_owned() }
    }

    /// Checks a class `A` and says what is wrong, or nothing.
    fn wrong(java: &str, procedures: &[Procedure]) -> String {
        let answer = check(java, "A", procedures).unwrap();
        let error = answer.get("last_error").and_then(Value::as_str);
        assert_eq!(error.is_none(), answer.get("artifacts").is_some(), "{answer}");
        error.unwrap_or_default().to_owned()
    }

    #[test]
    fn errors_are_told_with_line_and_column() {
        for (java, wanted) in [
            ("class A { int x; }", ""),
            ("class A {\n    int x\n}\n", "A.java:2:10: ; is missing"),
            ("class A {\n    /* é */ int x\n}\n", "A.java:2:18: ; is missing"),
            ("class A {\n    void f() {\n        g(;\n    }\n}\n", "A.java:3:"),
            ("class A {\n", "A.java:"),
            ("Sub A()\nEnd Sub\n", "A.java:"),
            ("", "A.java:1:1: there is no class A"),
            ("class B { }", "A.java:1:1: there is no class A"),
        ] {
            let said = wrong(java, &[]);
            let is_right =
                if wanted.is_empty() { said.is_empty() } else { said.starts_with(wanted) };
            assert!(is_right, "{java}: {said}");
        }
    }

    #[test]
    fn each_procedure_has_its_method() {
        let java = "public class A { void addLine() {} int getCount() { return 0; } void count(int \
                    it) {} }";
        for (kind, name, wanted) in [
            ("sub", "AddLine", ""),
            ("sub", "Addline", ""),
            ("property get", "Count", ""),
            ("property let", "Count", ""),
            ("function", "Total", "A.java:1:1: function Total has no method total"),
            (
                "property get",
                "Name",
                "A.java:1:1: property get Name has no method name or getName or isName",
            ),
        ] {
            assert_eq!(wrong(java, &[procedure(kind, name)]), wanted);
        }
    }

    #[test]
    fn many_errors_are_counted_and_what_is_too_long_is_refused() {
        let procedures: Vec<Procedure> =
            (0..25).map(|number| procedure("sub", &format!("P{number}"))).collect();
        let said = wrong("class A { }", &procedures);
        assert_eq!(said.lines().count(), TOLD_MAX + 1, "{said}");
        assert!(said.ends_with("\n5 more"), "{said}");
        let broken = format!("class A {{\n{}}}", "int x\n".repeat(25));
        let said = wrong(&broken, &[]);
        assert_eq!(said.lines().count(), TOLD_MAX + 1, "{said}");
        assert!(said.ends_with(" more"), "{said}");
        let refused = check(&" ".repeat(JAVA_BYTES_MAX + 1), "A", &[]).unwrap_err();
        assert!(refused.contains("the limits are"), "{refused}");
    }
}
