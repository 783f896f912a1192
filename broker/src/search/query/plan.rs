//! A query as the index takes it.

use std::{ops::Bound, sync::Arc};

use tantivy::{
    SegmentReader, Term,
    query::{
        BooleanQuery, BoostQuery, ConstScoreQuery, InvertedIndexRangeQuery, Occur,
        PhrasePrefixQuery, PhraseQuery, Query as Asked, RangeQuery, TermQuery,
        doc_predicate_query::{DocPredicateQuery, FunctionPredicate},
    },
    schema::{Field, IndexRecordOption},
};
use tasuki_proto::id::{RoleId, Timestamp};

use super::{Clause, Name, Pattern, Place, Query, What, aside::Aside};
use crate::{
    rules::mailbox::ThreadNumber,
    search::schema::{Fields, THREAD, any_case, exactly},
};

/// A word of the subject says more than one of the text.
const SUBJECT_WEIGHT: f32 = 2.5;

/// What the beginning of a word is worth: that of a word which is neither rare nor common. The
/// words that begin so may be anybody's, so how rare they are must not show.
const PREFIX_SCORE: f32 = 2.0;

/// Words that the last one of a phrase may go on as.
const PHRASE_ENDS_MAX: u32 = 10_000;

/// What else must hold of an entry.
#[derive(Debug, Clone, Default)]
pub struct Narrow {
    pub kind: Option<String>,
    pub sender: Option<RoleId>,
    /// Included.
    pub since: Option<Timestamp>,
    /// Excluded.
    pub until: Option<Timestamp>,
    /// In order.
    pub only: Option<Arc<Vec<ThreadNumber>>>,
    /// In order.
    pub without: Option<Arc<Vec<ThreadNumber>>>,
}

type Part = (Occur, Box<dyn Asked>);

/// The query, for what `reader` may read.
pub(in crate::search) fn plan(
    fields: &Fields,
    reader: &RoleId,
    query: &Query,
    narrow: &Narrow,
) -> BooleanQuery {
    let mut parts: Vec<Part> = vec![must(name(fields.reader, reader.as_str()))];
    parts.extend(query.clauses.iter().filter_map(|it| clause(fields, it)));
    if let Some(kind) = &narrow.kind {
        parts.push(must(name(fields.kind, &any_case(kind))));
    }
    if let Some(sender) = &narrow.sender {
        parts.push(must(name(fields.sender, &exactly(sender))));
    }
    if narrow.since.is_some() || narrow.until.is_some() {
        let term = |at: Timestamp| Term::from_field_u64(fields.at, at.as_millis());
        let since = narrow.since.map_or(Bound::Unbounded, |at| Bound::Included(term(at)));
        let until = narrow.until.map_or(Bound::Unbounded, |at| Bound::Excluded(term(at)));
        parts.push(must(unscored(RangeQuery::new(since, until))));
    }
    if let Some(only) = &narrow.only {
        parts.push(must(among(only.clone())));
    }
    if let Some(without) = &narrow.without {
        parts.push(must_not(among(without.clone())));
    }
    BooleanQuery::new(parts)
}

fn must(query: Box<dyn Asked>) -> Part {
    (Occur::Must, query)
}

fn must_not(query: Box<dyn Asked>) -> Part {
    (Occur::MustNot, Box::new(Aside(query)))
}

fn unscored(query: impl Asked) -> Box<dyn Asked> {
    Box::new(ConstScoreQuery::new(Box::new(query), 0.0))
}

fn name(field: Field, term: &str) -> Box<dyn Asked> {
    unscored(TermQuery::new(Term::from_field_text(field, term), IndexRecordOption::Basic))
}

/// Entries of these threads.
fn among(threads: Arc<Vec<ThreadNumber>>) -> Box<dyn Asked> {
    let predicate = FunctionPredicate::from(move |segment: &SegmentReader| {
        let column = segment.fast_fields().u64(THREAD)?.first_or_default_col(u64::MAX);
        let threads = threads.clone();
        Ok(move |doc| {
            let number = u32::try_from(column.get_val(doc)).unwrap_or(u32::MAX);
            threads.binary_search(&ThreadNumber(number)).is_ok()
        })
    });
    unscored(DocPredicateQuery::from(predicate))
}

/// Threads are narrowed down beforehand.
fn clause(fields: &Fields, clause: &Clause) -> Option<Part> {
    let query = match &clause.what {
        What::Words(Place::Anywhere, pattern) => {
            let subject = BoostQuery::new(text(fields.subject, pattern), SUBJECT_WEIGHT);
            any(vec![Box::new(subject), text(fields.body, pattern)])
        }
        What::Words(Place::Subject, pattern) => text(fields.subject, pattern),
        What::Words(Place::Body, pattern) => text(fields.body, pattern),
        What::From(it) => named(fields.sender, it),
        What::To(it) => named(fields.receiver, it),
        What::Kind(it) => named(fields.kind, it),
        What::Thread(_) => return None,
    };
    Some(if clause.is_without { must_not(query) } else { must(query) })
}

fn named(field: Field, it: &Name) -> Box<dyn Asked> {
    let term = any_case(&it.text);
    if it.is_prefix { unscored(beginning(field, &term)) } else { name(field, &term) }
}

/// Terms of the field that begin so.
fn beginning(field: Field, text: &str) -> InvertedIndexRangeQuery {
    // No text sorts behind this character, which none of ours has.
    let end = format!("{text}\u{10ffff}");
    InvertedIndexRangeQuery::new(
        Bound::Included(Term::from_field_text(field, text)),
        Bound::Excluded(Term::from_field_text(field, &end)),
    )
}

fn any(mut queries: Vec<Box<dyn Asked>>) -> Box<dyn Asked> {
    match queries.len() {
        1 => queries.swap_remove(0),
        _ => Box::new(BooleanQuery::union(queries)),
    }
}

fn text(field: Field, pattern: &Pattern) -> Box<dyn Asked> {
    let term = |text: &str| Term::from_field_text(field, text);
    let word = |text: &str| TermQuery::new(term(text), IndexRecordOption::WithFreqs);
    let mut rows: Vec<Box<dyn Asked>> = Vec::new();
    for row in &pattern.variants {
        let terms = || row.iter().map(|it| (it.place, term(&it.text))).collect();
        let has_prefix = row.last().is_some_and(|it| it.is_prefix);
        rows.push(match row.as_slice() {
            [only] if has_prefix => {
                let words = beginning(field, &only.text);
                Box::new(ConstScoreQuery::new(Box::new(words), PREFIX_SCORE))
            }
            [only] => Box::new(word(&only.text)),
            _ if has_prefix => {
                let mut phrase = PhrasePrefixQuery::new_with_offset(terms());
                phrase.set_max_expansions(PHRASE_ENDS_MAX);
                Box::new(ConstScoreQuery::new(Box::new(phrase), PREFIX_SCORE * 2.0))
            }
            _ => Box::new(PhraseQuery::new_with_offset(terms())),
        });
    }
    let rows = any(rows);
    match &pattern.exactly {
        Some(exactly) => {
            Box::new(BooleanQuery::new(vec![must(rows), (Occur::Should, Box::new(word(exactly)))]))
        }
        None => rows,
    }
}
