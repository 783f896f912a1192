//! What was typed: words, "phrases", -without, begin*, and fields: subject: body: type: from: to:
//! thread:

use super::{Clause, Name, Pattern, Place, Query, What};

/// What may be typed, in bytes. It is a question, not a document to compare with.
pub(super) const QUERY_BYTES_MAX: usize = 1024;

/// Terms that are looked for at once. Each costs a pass through its entries.
pub(super) const QUERY_TERMS_MAX: usize = 64;

/// Letters of the beginning of a word: one begins a tenth of all words.
pub(super) const PREFIX_LETTERS_MIN: usize = 2;

/// What cannot be searched for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error(
        "{0:?} has nothing that can be searched for; give words, \"phrases\", begin*, -without, or \
         subject: body: type: from: to: thread:"
    )]
    Nothing(String),
    #[error("is {0} bytes long; the limit is {QUERY_BYTES_MAX}")]
    TooLong(usize),
    #[error("has {0} terms, counting the parts of names; the limit is {QUERY_TERMS_MAX}")]
    TooManyTerms(usize),
    #[error(
        "has {0:?}, which begins too many words; give at least {PREFIX_LETTERS_MIN} letters before \
         the *"
    )]
    ShortPrefix(String),
    #[error("has thread:{0}, which begins no message id: those are hexadecimal digits and dashes")]
    NoThread(String),
}

const FIELDS: [(&str, Field); 7] = [
    ("subject:", Field::Words(Place::Subject)),
    ("body:", Field::Words(Place::Body)),
    ("type:", Field::Kind),
    ("from:", Field::From),
    ("sender:", Field::From),
    ("to:", Field::To),
    ("thread:", Field::Thread),
];

#[derive(Debug, Clone, Copy)]
enum Field {
    Words(Place),
    Kind,
    From,
    To,
    Thread,
}

/// Reads a query.
///
/// # Errors
/// Says what cannot be searched for.
pub fn parse(typed: &str) -> Result<Query, QueryError> {
    if QUERY_BYTES_MAX < typed.len() {
        return Err(QueryError::TooLong(typed.len()));
    }
    let mut clauses = Vec::new();
    let mut rest = typed.trim_start();
    while !rest.is_empty() {
        let (clause, after) = clause(rest)?;
        clauses.extend(clause);
        rest = after.trim_start();
    }
    if clauses.is_empty() {
        return Err(QueryError::Nothing(typed.chars().take(80).collect()));
    }
    let terms = clauses.iter().map(|it| match &it.what {
        What::Words(_, pattern) => pattern.terms(),
        What::From(_) | What::To(_) | What::Kind(_) | What::Thread(_) => 1,
    });
    let terms = terms.sum();
    if QUERY_TERMS_MAX < terms {
        return Err(QueryError::TooManyTerms(terms));
    }
    Ok(Query { clauses })
}

/// The first clause of a text, if it says anything, and what is behind it.
fn clause(text: &str) -> Result<(Option<Clause>, &str), QueryError> {
    let (is_without, text) = match text.strip_prefix('-') {
        Some(after) if !after.starts_with(['-', ' ']) => (true, after),
        Some(_) | None => (false, text),
    };
    let (field, text) = field(text);
    let (value, is_quoted, rest) = value(text);
    let (value, is_prefix) = match value.strip_suffix('*') {
        Some(before) if !is_quoted => (before, true),
        Some(_) | None => (value, false),
    };
    let name = || Name { text: value.to_owned(), is_prefix };
    let what = match field {
        Field::Words(place) => words(place, value, is_prefix)?,
        Field::Kind => Some(What::Kind(name())),
        Field::From => Some(What::From(name())),
        Field::To => Some(What::To(name())),
        Field::Thread => Some(What::Thread(thread(value)?)),
    };
    Ok((what.map(|what| Clause { is_without, what }), rest))
}

/// The field that a text names, with something behind it.
fn field(text: &str) -> (Field, &str) {
    for (name, field) in FIELDS {
        let head = text.get(..name.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(name)) {
            let after = &text[name.len()..];
            if after.starts_with(|c: char| !c.is_whitespace() && c != '*') {
                return (field, after);
            }
        }
    }
    (Field::Words(Place::Anywhere), text)
}

const fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„')
}

/// Up to the end of the quotes, or of the word; whether it is in quotes; and what is behind it.
fn value(text: &str) -> (&str, bool, &str) {
    let mut chars = text.chars();
    if chars.next().is_some_and(is_quote) {
        let inside = chars.as_str();
        return match inside.find(is_quote) {
            Some(end) => {
                let mut after = inside[end..].chars();
                after.next();
                (&inside[..end], true, after.as_str())
            }
            None => (inside, true, ""),
        };
    }
    let end = text.find(|c: char| c.is_whitespace() || is_quote(c)).unwrap_or(text.len());
    (&text[..end], false, &text[end..])
}

fn words(place: Place, text: &str, is_prefix: bool) -> Result<Option<What>, QueryError> {
    let Some(pattern) = Pattern::new(text, is_prefix) else { return Ok(None) };
    let last = pattern.variants.iter().filter_map(|it| it.last()).find(|it| it.is_prefix);
    if last.is_some_and(|it| it.text.chars().count() < PREFIX_LETTERS_MIN) {
        return Err(QueryError::ShortPrefix(format!("{text}*")));
    }
    Ok(Some(What::Words(place, pattern)))
}

fn thread(text: &str) -> Result<String, QueryError> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_some = (1..=32).contains(&digits.len());
    if !is_some || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(QueryError::NoThread(text.chars().take(40).collect()));
    }
    Ok(digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(typed: &str) -> String {
        let query = match parse(typed) {
            Ok(query) => query,
            Err(error) => return format!("no: {error}"),
        };
        let name = |it: &Name| format!("{}{}", it.text, if it.is_prefix { "*" } else { "" });
        let clause = |it: &Clause| {
            let what = match &it.what {
                What::Words(place, pattern) => {
                    let row = pattern.variants.last().unwrap();
                    let terms: Vec<_> = row
                        .iter()
                        .map(|it| format!("{}{}", it.text, if it.is_prefix { "*" } else { "" }))
                        .collect();
                    let place = match place {
                        Place::Anywhere => "",
                        Place::Subject => "subject:",
                        Place::Body => "body:",
                    };
                    format!("{place}{}", terms.join("+"))
                }
                What::From(it) => format!("from {}", name(it)),
                What::To(it) => format!("to {}", name(it)),
                What::Kind(it) => format!("type {}", name(it)),
                What::Thread(digits) => format!("thread {digits}"),
            };
            format!("{}{what}", if it.is_without { "not " } else { "" })
        };
        query.clauses.iter().map(clause).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn queries_as_people_and_models_type_them() {
        for (typed, same) in [
            ("out of memory", "out, of, memory"),
            ("\"out of memory\" leak", "out+of+memory, leak"),
            ("“out of” leak", "out+of, leak"),
            ("login -test", "login, not test"),
            ("-\"out of\" x", "not out+of, x"),
            ("pars*", "pars*"),
            ("subject:login body:\"stack trace\"", "subject:login, body:stack+trace"),
            ("type:BR from:qa_agent TO:dev*", "type BR, from qa_agent, to dev*"),
            ("sender:qa -from:B", "from qa, not from B"),
            ("thread:DED66c6a-58", "thread ded66c6a58"),
            ("修复 登录", "修复, 登录"),
            ("修复　登录", "修复, 登录"),
            ("std::vec", "std+vec"),
            // Taken as text.
            ("\"never ends", "never+ends"),
            ("a\"b c\"d", "a, b+c, d"),
            ("subject: login", "subject, login"),
            ("unknown:field", "unknown+field"),
            ("AND (x) OR", "and, x, or"),
            ("--flag", "flag"),
            ("- x", "x"),
            (
                "*",
                "no: \"*\" has nothing that can be searched for; give words, \"phrases\", begin*, \
                 -without, or subject: body: type: from: to: thread:",
            ),
            (
                "a*",
                "no: has \"a*\", which begins too many words; give at least 2 letters before the *",
            ),
            (
                "thread:xyz",
                "no: has thread:xyz, which begins no message id: those are hexadecimal digits and \
                 dashes",
            ),
        ] {
            assert_eq!(said(typed), same, "{typed}");
        }
        assert!(said("🚀 !!! \"\"").contains("has nothing that can be searched for"));
        assert!(said(&"x".repeat(1025)).starts_with("no: is 1025 bytes"));
        assert!(said(&"x ".repeat(65)).starts_with("no: has 65 terms"));
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_makes_it_stumble(typed in "(?s).{0,80}|[-\"*: a修:tofromsubject]{0,40}") {
            if let Ok(query) = parse(&typed) {
                prop_assert!(!query.clauses.is_empty());
            }
        }
    }
}
