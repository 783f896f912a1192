//! What must not match, asked in a way that may ask for an entry before the first match.
//!
//! The engine leaves out by `seek_danger`, with targets that may lie before where a phrase begins to
//! match; phrases take that for a mistake and panic in builds that check. The default of the trait,
//! which this falls back to, answers for any target and leaves nothing half moved.

use tantivy::{
    DocId, DocSet, Score, SegmentReader, Term,
    query::{EnableScoring, Explanation, Query, Scorer, Weight},
};

/// To be used as `MustNot` alone.
#[derive(Debug)]
pub(super) struct Aside(pub(super) Box<dyn Query>);

impl Clone for Aside {
    fn clone(&self) -> Self {
        Self(self.0.box_clone())
    }
}

impl Query for Aside {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(AsideWeight(self.0.weight(scoring)?)))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.0.query_terms(visitor);
    }
}

struct AsideWeight(Box<dyn Weight>);

impl Weight for AsideWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(AsideScorer(self.0.scorer(segment, boost)?)))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.0.explain(segment, doc)
    }
}

struct AsideScorer(Box<dyn Scorer>);

/// All but `seek_danger`, which stays the trait's own.
impl DocSet for AsideScorer {
    fn advance(&mut self) -> DocId {
        self.0.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.0.seek(target)
    }

    fn doc(&self) -> DocId {
        self.0.doc()
    }

    fn size_hint(&self) -> u32 {
        self.0.size_hint()
    }
}

impl Scorer for AsideScorer {
    fn score(&mut self) -> Score {
        self.0.score()
    }
}
