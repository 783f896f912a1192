//! How rare words are, as far as one role may know.

use tantivy::{
    Searcher, Term,
    query::{Bm25StatisticsProvider, BooleanQuery, Occur, Query as _, TermQuery},
    schema::{Field, IndexRecordOption},
};
use tasuki_proto::id::RoleId;

use super::IndexError;
use crate::search::schema::Fields;

/// Terms in a text, as ranking assumes: the true average would tell of others' mail.
const TERMS_AVERAGE: u64 = 150;

/// How rare terms are in what one role may read (F2).
pub(super) struct Statistics<'a> {
    searcher: &'a Searcher,
    /// The term of who reads.
    reader: Term,
    pub(super) entries: u64,
    reads_all: bool,
}

impl<'a> Statistics<'a> {
    pub(super) fn new(
        searcher: &'a Searcher,
        fields: &Fields,
        role: &RoleId,
    ) -> Result<Self, IndexError> {
        let reader = Term::from_field_text(fields.reader, role.as_str());
        let entries = searcher.doc_freq(&reader)?;
        let all = searcher.segment_readers().iter().map(|it| u64::from(it.max_doc())).sum::<u64>();
        Ok(Self { searcher, reader, entries, reads_all: entries == all })
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        Ok(self.entries.saturating_mul(TERMS_AVERAGE))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.entries)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let all = self.searcher.doc_freq(term)?;
        if self.reads_all || all == 0 {
            return Ok(all);
        }
        let word = |term: &Term| -> Box<dyn tantivy::query::Query> {
            Box::new(TermQuery::new(term.clone(), IndexRecordOption::Basic))
        };
        let both = [(Occur::Must, word(term)), (Occur::Must, word(&self.reader))];
        let both = BooleanQuery::new(both.into()).count(self.searcher)?;
        Ok((both as u64).min(self.entries))
    }
}
