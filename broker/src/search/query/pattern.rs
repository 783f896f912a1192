//! Terms side by side, as a text must have them to be found.
//!
//! A name that is put together is looked for both ways, as one term and part by part: the text
//! may write `parseHeader`, `parse_header` or `parseheader`.

use super::super::text::{Group, Scanner, Span, TERM_BYTES_MAX, fold, parts};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::search) struct Pattern {
    /// Any of these; none is empty.
    pub(in crate::search) variants: Vec<Vec<Test>>,
    /// The name as it was written, joints and all: a text that has it so is the better one.
    pub(in crate::search) exactly: Option<String>,
}

/// What a term must be, and how many places after the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::search) struct Test {
    pub(in crate::search) place: usize,
    pub(in crate::search) text: String,
    /// The term only begins so.
    pub(in crate::search) is_prefix: bool,
}

impl Test {
    pub(in crate::search) fn matches(&self, term: &str) -> bool {
        if self.is_prefix { term.starts_with(&self.text) } else { term == self.text }
    }
}

enum Unit {
    /// And its parts, if it is put together.
    Word(String, Vec<String>),
    /// Of a run of signs, and how many places it is to the next unit.
    Signs(String, usize),
}

impl Pattern {
    /// `None`: nothing in the text can be searched for. With `is_prefix` the last word may go on;
    /// signs may anyway.
    pub(super) fn new(text: &str, is_prefix: bool) -> Option<Self> {
        let (mut units, exactly) = units(text);
        let mut last_is_prefix = false;
        if is_prefix && let Some(Unit::Word(_, parts)) = units.last_mut() {
            parts.clear();
            last_is_prefix = true;
        }
        let row = |is_apart: bool| {
            let mut row: Vec<Test> = Vec::new();
            let mut place = 0;
            for unit in &units {
                match unit {
                    Unit::Word(_, parts) if is_apart && !parts.is_empty() => {
                        for part in parts {
                            row.push(Test { place, text: part.clone(), is_prefix: false });
                            place += 1;
                        }
                    }
                    Unit::Word(whole, _) => {
                        row.push(Test { place, text: whole.clone(), is_prefix: false });
                        place += 1;
                    }
                    Unit::Signs(text, step) => {
                        row.push(Test { place, text: text.clone(), is_prefix: false });
                        place += step;
                    }
                }
            }
            if let Some(last) = row.last_mut() {
                last.is_prefix = last_is_prefix;
            }
            row
        };
        let mut variants = vec![row(true)];
        let whole = row(false);
        if variants[0] != whole {
            variants.push(whole);
        }
        (!units.is_empty()).then_some(Self { variants, exactly: exactly.filter(|_| !is_prefix) })
    }

    /// How many terms are looked for.
    pub(super) fn terms(&self) -> usize {
        self.variants.iter().map(Vec::len).sum()
    }
}

/// What a text is made of, and the text itself if it is one name with joints.
fn units(text: &str) -> (Vec<Unit>, Option<String>) {
    let folded = |span: Span| {
        let mut into = String::new();
        fold(&text[span], TERM_BYTES_MAX, &mut into);
        into
    };
    let mut scanner = Scanner::new(text);
    let (mut spans, mut pieces) = (Vec::new(), Vec::new());
    let (mut units, mut exactly, mut groups) = (Vec::new(), None, 0);
    while let Some(group) = scanner.next(&mut spans) {
        groups += 1;
        match group {
            Group::Name => {
                let all = spans[0].start..spans[spans.len() - 1].end;
                let has_joints = 1 < spans.len() && all.len() <= TERM_BYTES_MAX;
                exactly = has_joints.then(|| folded(all));
                for word in &spans {
                    parts(&text[word.clone()], word.start, &mut pieces);
                    let parts = pieces.drain(..).map(folded).collect();
                    units.push(Unit::Word(folded(word.clone()), parts));
                }
            }
            Group::Run => pairs(&spans, |span, step| units.push(Unit::Signs(folded(span), step))),
        }
    }
    (units, exactly.filter(|_| groups == 1))
}

/// As few pairs as cover a run; of one sign, itself. Each with the places to what comes next.
fn pairs(signs: &[Span], mut each: impl FnMut(Span, usize)) {
    let [only] = signs else {
        let last = signs.len() - 2;
        for at in (0..last).step_by(2).chain([last]) {
            let step = if at == last { 2 } else { (last - at).min(2) };
            each(signs[at].start..signs[at + 1].end, step);
        }
        return;
    };
    each(only.clone(), 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, is_prefix: bool) -> String {
        let Some(pattern) = Pattern::new(text, is_prefix) else { return "nothing".to_owned() };
        let test =
            |it: &Test| format!("{}{}@{}", it.text, if it.is_prefix { "*" } else { "" }, it.place);
        let row = |row: &Vec<Test>| row.iter().map(test).collect::<Vec<_>>().join(" ");
        let rows = pattern.variants.iter().map(row).collect::<Vec<_>>().join(" | ");
        rows + &pattern.exactly.map_or_else(String::new, |it| format!(" = {it}"))
    }

    #[test]
    fn words_and_the_terms_they_ask_for() {
        for (text, same) in [
            ("Café", "cafe@0"),
            ("out of memory", "out@0 of@1 memory@2"),
            ("parseHeader", "parse@0 header@1 | parseheader@0"),
            ("a parseHeader b", "a@0 parse@1 header@2 b@3 | a@0 parseheader@1 b@2"),
            ("foo::bar", "foo@0 bar@1 = foo::bar"),
            ("v1.2", "v@0 1@1 2@2 | v1@0 2@1 = v1.2"),
            ("修", "修@0"),
            ("修复", "修复@0"),
            ("修复登", "修复@0 复登@1"),
            ("修复登录", "修复@0 登录@2"),
            ("修复登录页", "修复@0 登录@2 录页@3"),
            ("修复login页x", "修复@0 login@2 页@3 x@4"),
            ("...", "nothing"),
            ("", "nothing"),
        ] {
            assert_eq!(said(text, false), same, "{text}");
        }
    }

    #[test]
    fn a_prefix_is_of_the_last_word() {
        for (text, same) in [
            ("pars", "pars*@0"),
            ("parseHea", "parsehea*@0"),
            ("src/gr", "src@0 gr*@1"),
            ("parseHeader.fi", "parse@0 header@1 fi*@2 | parseheader@0 fi*@1"),
            ("修复", "修复@0"),
        ] {
            assert_eq!(said(text, true), same, "{text}");
        }
    }
}
