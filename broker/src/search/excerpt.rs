//! The piece of a text that shows why it was found.
//!
//! A slice of the text as it is, and byte offsets into it; nothing is added or taken out, so
//! whoever shows it decides how.

use std::collections::BTreeSet;

use tantivy::tokenizer::TokenStream as _;

use super::{
    query::{Pattern, Query, Test},
    text::{Span, Tokens},
};

/// A piece is about this long, in bytes: a few lines.
const EXCERPT_BYTES: usize = 320;

/// What is left in front of the first match, in bytes.
const LEAD_BYTES: usize = 60;

/// How far an end may move to stand between words, in bytes.
const SNAP_BYTES: usize = 24;

/// Terms that may belong to a match, of one text: a word on every line shows no better place.
const CANDIDATES_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Of the text.
    pub span: Span,
    /// Matches in it, in order, apart from each other; offsets in the piece.
    pub highlights: Vec<Span>,
}

struct Candidate {
    place: usize,
    term: String,
    span: Span,
}

impl Query {
    /// The piece of an entry's text that shows why it was found.
    pub fn excerpt(&self, text: &str) -> Excerpt {
        excerpt(text, &self.wanted().collect::<Vec<_>>())
    }
}

/// Where in `text` the patterns are.
fn excerpt(text: &str, patterns: &[&Pattern]) -> Excerpt {
    let candidates = candidates(text, patterns);
    // Which pattern, and where.
    let mut matches: Vec<(usize, Span)> = Vec::new();
    for (which, pattern) in patterns.iter().enumerate() {
        for row in &pattern.variants {
            matches.extend(found(row, &candidates).map(|span| (which, span)));
        }
    }
    matches.sort_by_key(|(_, span)| (span.start, span.end));
    let span = window(text, &matches);
    let mut highlights: Vec<Span> = Vec::new();
    for (_, it) in matches {
        if it.start < span.start || span.end < it.end {
            continue;
        }
        let it = it.start - span.start..it.end - span.start;
        match highlights.last_mut() {
            Some(last) if it.start <= last.end => last.end = last.end.max(it.end),
            Some(_) | None => highlights.push(it),
        }
    }
    Excerpt { span, highlights }
}

/// The terms of the text that a pattern asks for, in order.
fn candidates(text: &str, patterns: &[&Pattern]) -> Vec<Candidate> {
    let tests = || patterns.iter().flat_map(|it| it.variants.iter().flatten());
    let exact: BTreeSet<&str> =
        tests().filter(|it| !it.is_prefix).map(|it| it.text.as_str()).collect();
    let prefixes: Vec<&Test> = tests().filter(|it| it.is_prefix).collect();
    let mut candidates = Vec::new();
    if exact.is_empty() && prefixes.is_empty() {
        return candidates;
    }
    let mut tokens = Tokens::new(text);
    while candidates.len() < CANDIDATES_MAX && tokens.advance() {
        let token = tokens.token();
        if exact.contains(token.text.as_str()) || prefixes.iter().any(|it| it.matches(&token.text))
        {
            candidates.push(Candidate {
                place: token.position,
                term: token.text.clone(),
                span: token.offset_from..token.offset_to,
            });
        }
    }
    candidates
}

/// Where a row of terms stands, each from the first to the last.
fn found<'a>(row: &'a [Test], candidates: &'a [Candidate]) -> impl Iterator<Item = Span> + 'a {
    let at = |place: usize| {
        let from = candidates.partition_point(|it| it.place < place);
        candidates[from..].iter().take_while(move |it| it.place == place)
    };
    let first = row.first().map_or(0, |it| it.place);
    candidates
        .iter()
        .filter(|it| row.first().is_some_and(|test| test.matches(&it.term)))
        .filter_map(move |start| {
            let mut end = start.span.end;
            for test in &row[1..] {
                let place = start.place + test.place - first;
                end = end.max(at(place).find(|it| test.matches(&it.term))?.span.end);
            }
            Some(start.span.start..end)
        })
}

/// The piece with the most of what was searched for.
fn window(text: &str, matches: &[(usize, Span)]) -> Span {
    let mut best = (0, 0, 0..0);
    for (at, (_, first)) in matches.iter().enumerate() {
        let end = first.start + EXCERPT_BYTES - LEAD_BYTES;
        let inside = matches[at..].iter().take_while(|(_, it)| it.end <= end);
        // A query has fewer patterns than bits.
        let (mut count, mut which) = (0, 0_u64);
        for (it, _) in inside {
            count += 1;
            which |= 1 << (it % 64);
        }
        if (best.0, best.1) < (which.count_ones(), count) {
            best = (which.count_ones(), count, first.clone());
        }
    }
    let from = between(text, best.2.start.saturating_sub(LEAD_BYTES), best.2.start);
    // What matched is shown whole, however long it is.
    let to = (from + EXCERPT_BYTES).max(best.2.end).min(text.len());
    let shortest = best.2.end.max(to.saturating_sub(SNAP_BYTES));
    from..back(text, to, shortest)
}

/// The first place between words at or after `at`, at most `most`.
fn between(text: &str, at: usize, most: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let at = text.ceil_char_boundary(at).min(most);
    let near = text.floor_char_boundary((at + SNAP_BYTES).min(most));
    let gap = text[at..near].char_indices().find(|(_, c)| c.is_whitespace());
    gap.map_or(at, |(skip, c)| at + skip + c.len_utf8())
}

/// The last place between words at or before `at`, at least `least`.
fn back(text: &str, at: usize, least: usize) -> usize {
    if at == text.len() {
        return at;
    }
    let at = text.floor_char_boundary(at).max(least);
    let least = text.ceil_char_boundary(least).min(at);
    text[least..at].rfind(char::is_whitespace).map_or(at, |gap| least + gap)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::query::parse;
    use super::*;

    fn shown(text: &str, query: &Query) -> (String, Vec<String>) {
        let excerpt = query.excerpt(text);
        let piece = &text[excerpt.span];
        let lit = excerpt.highlights.iter().map(|it| piece[it.clone()].to_owned()).collect();
        (piece.to_owned(), lit)
    }

    #[test]
    fn what_matched_is_lit() {
        for (text, query, lit) in [
            ("The login page fails.", "login", vec!["login"]),
            ("LOGIN and login, blogin", "login", vec!["LOGIN", "login"]),
            ("call parseHttpHeader(x)", "header", vec!["Header"]),
            ("call parseHttpHeader(x)", "http_header", vec!["HttpHeader"]),
            ("call parseHttpHeader(x)", "parsehttpheader", vec!["parseHttpHeader"]),
            ("we ran out of memory: out", "\"out of memory\"", vec!["out of memory"]),
            ("use std::foo::bar;", "foo::bar", vec!["foo::bar"]),
            ("请修复登录页面的问题", "修复登录", vec!["修复登录"]),
            ("请修复登录页面的问题", "录页面", vec!["录页面"]),
            ("请修复登录页面的问题", "问", vec!["问"]),
            ("서버가 다운되었다", "서버", vec!["서버"]),
            ("ログイン画面のエラー", "画面 エラー", vec!["画面", "エラー"]),
            ("Le café est fermé", "cafe ferme", vec!["café", "fermé"]),
            ("parsing parsers", "pars*", vec!["parsing", "parsers"]),
            ("a subject matter", "subject:matter", vec![]),
            ("nothing here", "absent", vec![]),
        ] {
            assert_eq!(shown(text, &parse(query).unwrap()).1, lit, "{query} in {text}");
        }
    }

    #[test]
    fn the_piece_is_where_most_of_it_is() {
        let filler = "lorem ipsum dolor ".repeat(60);
        let text = format!("alpha {filler} then alpha beta gamma {filler}");
        let (piece, lit) = shown(&text, &parse("alpha beta gamma").unwrap());
        assert_eq!(lit, ["alpha", "beta", "gamma"]);
        assert!(piece.len() <= EXCERPT_BYTES && piece.ends_with(char::is_alphanumeric), "{piece}");
        assert!(piece.starts_with(char::is_alphanumeric), "{piece}");
    }

    #[test]
    fn without_a_match_it_is_the_beginning() {
        let text = "漢字".repeat(200);
        let (piece, lit) = shown(&text, &parse("absent").unwrap());
        assert!(lit.is_empty() && text.starts_with(&piece));
        assert!((EXCERPT_BYTES - 3..=EXCERPT_BYTES).contains(&piece.len()));
        assert_eq!(shown("short", &parse("absent").unwrap()).0, "short");
    }

    proptest! {
        #[test]
        fn whatever_the_text_offsets_fit(
            text in "(?s)(.{0,30}|[abAB 修复éか゛_:.]{0,400}){0,4}",
            query in "[abAB 修复é\"*_:-]{1,20}",
        ) {
            if let Ok(query) = parse(&query) {
                let excerpt = query.excerpt(&text);
                let piece = text.get(excerpt.span).expect("at letters' ends");
                let mut end = 0;
                for it in excerpt.highlights {
                    prop_assert!(end <= it.start && it.start < it.end);
                    prop_assert!(piece.get(it.clone()).is_some());
                    end = it.end;
                }
            }
        }
    }
}
