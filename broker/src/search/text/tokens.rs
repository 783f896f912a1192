//! The terms of a text, in order, each with its place and where it stands.

use std::collections::VecDeque;

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use super::{Group, Scanner, Span, TERM_BYTES_MAX, fold, parts};

/// Cuts text for the index. The same text gives the same terms, in any release that writes the
/// same index version.
#[derive(Debug, Clone, Default)]
pub(in crate::search) struct TextTokenizer;

impl Tokenizer for TextTokenizer {
    type TokenStream<'a> = Tokens<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Tokens<'a> {
        Tokens::new(text)
    }
}

#[derive(Debug)]
pub(in crate::search) struct Tokens<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    /// Found and not yet told: span, place, places it takes.
    pending: VecDeque<(Span, usize, usize)>,
    /// The next place.
    place: usize,
    token: Token,
    spans: Vec<Span>,
    parts: Vec<Span>,
}

impl<'a> Tokens<'a> {
    pub(in crate::search) fn new(text: &'a str) -> Self {
        Self {
            text,
            scanner: Scanner::new(text),
            pending: VecDeque::new(),
            place: 0,
            token: Token::default(),
            spans: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn name(&mut self) {
        let first = self.place;
        let whole =
            self.spans.first().map_or(0, |it| it.start)..self.spans.last().map_or(0, |it| it.end);
        let is_put_together = 1 < self.spans.len() && whole.len() <= TERM_BYTES_MAX;
        if is_put_together {
            self.pending.push_back((whole, first, 1));
        }
        for word in &self.spans {
            parts(&self.text[word.clone()], word.start, &mut self.parts);
            self.pending.push_back((word.clone(), self.place, self.parts.len().max(1)));
            let places = self.parts.len().max(1);
            for (offset, part) in self.parts.drain(..).enumerate() {
                self.pending.push_back((part, self.place + offset, 1));
            }
            self.place += places;
        }
        if is_put_together && let Some(first_token) = self.pending.front_mut() {
            first_token.2 = self.place - first;
        }
    }

    fn run(&mut self) {
        for (at, sign) in self.spans.iter().enumerate() {
            self.pending.push_back((sign.clone(), self.place, 1));
            if let Some(next) = self.spans.get(at + 1) {
                self.pending.push_back((sign.start..next.end, self.place, 2));
            }
            self.place += 1;
        }
    }
}

impl TokenStream for Tokens<'_> {
    fn advance(&mut self) -> bool {
        while self.pending.is_empty() {
            match self.scanner.next(&mut self.spans) {
                Some(Group::Name) => self.name(),
                Some(Group::Run) => self.run(),
                None => return false,
            }
        }
        let Some((span, place, length)) = self.pending.pop_front() else { return false };
        self.token.text.clear();
        fold(&self.text[span.clone()], TERM_BYTES_MAX, &mut self.token.text);
        self.token.offset_from = span.start;
        self.token.offset_to = span.end;
        self.token.position = place;
        self.token.position_length = length;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str) -> String {
        let mut tokens = Tokens::new(text);
        let mut said = Vec::new();
        while tokens.advance() {
            let token = tokens.token();
            said.push(format!("{} {}", token.text, token.position));
        }
        said.join(", ")
    }

    #[test]
    fn texts_and_their_terms() {
        for (text, same) in [
            ("The Café", "the 0, cafe 1"),
            ("parseHttpHeader x", "parsehttpheader 0, parse 0, http 1, header 2, x 3"),
            ("foo::bar", "foo::bar 0, foo 0, bar 1"),
            ("snake_case_name", "snake_case_name 0, snake 0, case 1, name 2"),
            ("v1.2.3", "v1.2.3 0, v1 0, v 0, 1 1, 2 2, 3 3"),
            ("src/lib.rs!", "src/lib.rs 0, src 0, lib 1, rs 2"),
            ("修复登录", "修 0, 修复 0, 复 1, 复登 1, 登 2, 登录 2, 录 3"),
            ("修复login页面", "修 0, 修复 0, 复 1, login 2, 页 3, 页面 3, 面 4"),
            ("サーバー", "サ 0, サー 0, ー 1, ーバ 1, バ 2, バー 2, ー 3"),
            ("ｶﾞｲﾄﾞ", "ガ 0, ガイ 0, イ 1, イド 1, ド 2"),
            ("서버가 다운", "서 0, 서버 0, 버 1, 버가 1, 가 2, 다 3, 다운 3, 운 4"),
            ("我", "我 0"),
            ("", ""),
        ] {
            assert_eq!(terms(text), same, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_text_offsets_are_in_it_and_places_go_forward(text in "\\PC{0,60}|(?s).{0,60}") {
            let mut tokens = Tokens::new(&text);
            let mut place = 0;
            while tokens.advance() {
                let token = tokens.token();
                prop_assert!(text.get(token.offset_from..token.offset_to).is_some());
                prop_assert!(token.text.len() <= TERM_BYTES_MAX);
                prop_assert!(place <= token.position);
                place = token.position;
            }
        }
    }
}
