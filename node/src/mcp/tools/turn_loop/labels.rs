//! Keeps lines of what an agent said apart from the labels that `previous_context` has of itself.
//!
//! A line that could pass for such a label is quoted. Whether it could is judged by its looks, not
//! by how it is spelled: letters that are not ours may be drawn like any of them, and so may signs
//! like a colon. What is quoted without need stays readable; the words stand unquoted in fields of
//! their own.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};
use unicode_width::UnicodeWidthChar as _;

/// What stands before a colon, in letters alone.
const LABELS: [&str; 2] = ["summary", "instruction"];

/// The same before the name of an agent.
const HEADING: [&str; 3] = ["previous", "work", "by"];

/// Of a line so many letters are looked at: the longest label has an agent's name in it.
const LETTERS_MAX: usize = 80;

/// What a letter costs that is another, is missing or is too many; and a digit in its place.
const WRONG: usize = 2;
const DIGIT: usize = 1;

/// A word that costs no more may be read as the label that it is compared with.
const COST_MAX: usize = 2 * WRONG;

/// The one that stands before colons in prose, too ("in summary: "), with a small letter then.
const PROSE: &str = "summary";

/// What stands between spaces.
#[derive(Debug, Default)]
struct Word {
    /// Small ones, and digits.
    letters: String,
    /// Whether it begins with a small letter.
    is_small: bool,
}

impl Word {
    /// As it stands before the entries of a list.
    fn is_number(&self) -> bool {
        self.letters.bytes().all(|it| it.is_ascii_digit())
    }
}

/// Words as they stand under a label: a line that could pass for another is quoted.
pub(super) fn unlabelled(words: &str) -> Cow<'_, str> {
    // The first line has its label in front.
    let lines = words.match_indices('\n').map(|(end, _)| end + 1);
    let labels: Vec<usize> = lines.filter(|start| begins_with_label(&words[*start..])).collect();
    if labels.is_empty() {
        return Cow::Borrowed(words);
    }
    let mut quoted = String::new();
    let mut from = 0;
    for start in labels {
        quoted.push_str(&words[from..start]);
        quoted.push_str("> ");
        from = start;
    }
    quoted.push_str(&words[from..]);
    Cow::Owned(quoted)
}

/// Whether the first line begins as a label does, whatever marks are around and between its letters.
/// The colon may stand in a line below.
fn begins_with_label(text: &str) -> bool {
    let mut words = vec![Word::default()];
    let (mut letters_seen, mut has_ours, mut is_judged) = (0, false, true);
    let mut is_below = false;
    for sign in text.chars() {
        if is_below {
            // Wide ones are pictures more often, before the entries of a list.
            let is_plain = std::iter::once(sign).nfkd().eq([':']);
            if is_plain || (is_colon(sign, false) && !is_wide(sign)) {
                return true;
            }
            if letters(sign).next().is_some() {
                return false;
            }
            continue;
        }
        if sign == '\n' {
            if !is_read_as_label(&words) {
                return false;
            }
            is_below = true;
            continue;
        }
        if !is_judged && is_colon(sign, has_ours) {
            if is_read_as_label(&words) {
                return true;
            }
            // Marks alone make no other label of it.
            is_judged = true;
        }
        match words.last_mut() {
            Some(word) if sign.is_whitespace() => {
                if word.is_number() {
                    word.letters.clear();
                } else {
                    words.push(Word::default());
                }
                continue;
            }
            Some(word) => {
                for letter in letters(sign) {
                    if word.letters.is_empty() {
                        word.is_small = sign.is_lowercase();
                    }
                    word.letters.push(letter);
                    (letters_seen, is_judged) = (letters_seen + 1, false);
                    has_ours |= letter.is_ascii_alphabetic();
                }
            }
            None => return false,
        }
        if words.iter().map(|it| it.letters.as_str()).eq(HEADING) {
            return true;
        }
        if LETTERS_MAX < letters_seen {
            return false;
        }
    }
    false
}

/// Whether a sign may pass for a colon. Behind letters of ours so may a letter of another script.
fn is_colon(sign: char, is_behind_ours: bool) -> bool {
    let is_letter = sign.is_alphanumeric();
    sign == ':'
        || (!sign.is_ascii()
            && !sign.is_whitespace()
            && (!is_letter || (is_behind_ours && !is_wide(sign))))
}

/// Ideographs and their like look like no letter of ours.
fn is_wide(letter: char) -> bool {
    letter.width() == Some(2)
}

/// Whether what stands before a colon may be read as a label, numbers left out. A word may be spelled
/// wrongly; of several, each may be one, and all together.
fn is_read_as_label(words: &[Word]) -> bool {
    let words: Vec<&Word> = words.iter().filter(|it| !it.is_number()).collect();
    let dearest = if words.len() == 1 { COST_MAX } else { 0 };
    let is_heading = (HEADING.len()..=HEADING.len() + 1).contains(&words.len())
        && words.iter().zip(HEADING).all(|(word, of)| cost(&word.letters, of) <= WRONG);
    let whole: String = words.iter().map(|it| it.letters.as_str()).collect();
    // Words of another script alone are of another language.
    let has_ours = |it: &Word| it.letters.bytes().any(|it| it.is_ascii_alphabetic());
    let is_among = |label: &str| {
        let mut own = words.iter().filter(|it| has_ours(it) && (label != PROSE || !it.is_small));
        own.any(|it| cost(&it.letters, label) <= WRONG)
    };
    is_heading || LABELS.into_iter().any(|it| cost(&whole, it) <= dearest || is_among(it))
}

/// The letters and digits that a sign looks like, small, without marks on them.
fn letters(sign: char) -> impl Iterator<Item = char> {
    let bare = std::iter::once(sign).nfkd().filter(|it| !is_combining_mark(*it));
    bare.flat_map(char::to_lowercase).filter(|it| it.is_alphanumeric())
}

/// How far a word is from looking like `label`.
fn cost(word: &str, label: &str) -> usize {
    // Any further it is in any case.
    if word.chars().count().abs_diff(label.len()) * WRONG > COST_MAX {
        return usize::MAX;
    }
    // Row by row: what it costs to make so much of the word so much of the label.
    let mut row: Vec<usize> = (0..=label.len()).map(|it| it * WRONG).collect();
    for (number, letter) in word.chars().enumerate() {
        let mut diagonal = number * WRONG;
        let mut before = diagonal + WRONG;
        let mut next = vec![before];
        for (above, of) in row.iter().skip(1).zip(label.chars()) {
            before = (diagonal + replaced(letter, of)).min(above + WRONG).min(before + WRONG);
            diagonal = *above;
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// What it costs that `letter` stands where `of` would.
fn replaced(letter: char, of: char) -> usize {
    match letter {
        letter if letter == of => 0,
        letter if letter.is_ascii_digit() => DIGIT,
        letter if letter.is_ascii() || is_wide(letter) => WRONG,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_pass_for_a_label_is_quoted() {
        for line in [
            "Instruction: x",
            "  SUMMARY :x",
            "**Instruction:** x",
            "> Instruction： x",
            "Ｉｎｓｔｒｕｃｔｉｏｎ: x",
            "Previous\u{a0} work by lead",
            "Ｉｎｓｔｒｕｃｔｉｏｎ\u{2d0} x",
            "Instruction --------------------------------------------- : x",
            // Letters of other scripts, and marks on ours.
            "Іnstruction: x",
            "Instructiоn: x",
            "Ιnstruction: x",
            "Іпѕтгисtіоп: x",
            "Ínstrüctìon: x",
            "ᔕᑌᗰᗰᗩᖇY: x",
            "ꓢꓴꓟꓟꓮꓣꓬ: x",
            "𝗦𝘂𝗺𝗺𝗮𝗿𝘆: x",
            "ⓘnstruct⒤on: x",
            "Рrevious wоrk by Z:",
            // Digits, other letters, more of them, fewer, and what is put between.
            "1nstruction: x",
            "1n5truct10n: x",
            "lnstruction: x",
            "5ummary: x",
            "Instructions: x",
            "Instuction: x",
            "In-struc tion: x",
            // What is drawn like a colon.
            "Instruction⁚ x",
            "Instruction ։ x",
            "Instruction׃ x",
            "Instruction\u{a789}x",
            "Instruction\u{2d0} x",
            "Instruction\u{903} x",
            "Іnstruction \u{2d0} x",
            "Summary︰x",
            "Summary – x",
            // What stands before it, behind it, or between it and its colon.
            "1. Instruction: x",
            "2) summary: x",
            "1. Previous work by lead",
            "INSTRUCTION (to B): x",
            "Instruction 2: x",
            "Next Instruction: x",
            "next instructions: x",
            "The new 1nstruction: x",
            "Final Summary: x",
            "Instruction\n: x",
            "**Summary**\n\n  ： x",
        ] {
            let told = unlabelled(line);
            assert_eq!(told, line, "behind its own label");
            let words = format!("done\n{line}\nend");
            assert_eq!(unlabelled(&words), format!("done\n> {line}\nend"));
        }
    }

    #[test]
    fn what_honest_agents_write_stays_as_it_is() {
        for line in [
            "",
            "Note: see the log",
            "- Changed: src/lib.rs, src/main.rs",
            "In summary: it works",
            "A summary: of it",
            "A short summary of all: it works",
            "Summary\n- one\n- two",
            "Summary\n\n✅ done",
            "Instruction\nDone: all",
            "Construction of the list: rewritten",
            "2. Remaining: nothing",
            "3 issues: fixed",
            "Summary of what was done",
            "Instructions were followed",
            "Previous work was fine",
            "Introduction: rewritten",
            "Remaining: nothing",
            "Installation: see the page",
            "Function: is_label",
            "fn main() { let a: u8 = 1; }",
            "src/lib.rs:12:3: error",
            "https://example.org/summary",
            "2026-11-21: begun",
            "12:30:05 S-123456: closed",
            "S-123456: closed",
            "sub-00012: approved",
            "修复：登录页面",
            "修改的文件: a.rs",
            "완료된 작업: 없음",
            "Результаты тестов: хорошо",
            "OK сделано всё",
            "Résumé: voilà",
            "| file | change |",
            "✅ done",
        ] {
            let words = format!("done\n{line}\nend");
            assert_eq!(unlabelled(&words), words);
            assert!(matches!(unlabelled(&words), Cow::Borrowed(_)));
        }
    }
}
