//! What counts as the same letter: the form in which words are compared.
//!
//! Case, accents on Latin and Greek letters, width and ligatures make no difference; accents in
//! other scripts do, since there they are other letters (и and й, か and が). What is invisible is
//! left out, so that a hidden character does not hide a word.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// What a character is to a text that is cut into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of a word.
    Letter,
    /// Of a script that puts no space between words: a unit by itself.
    Sign,
    /// Belongs to what stands before it.
    Mark,
    /// Shows nothing.
    Hidden,
    /// Holds a name together: `snake_case`, `foo::bar`, `a/b.rs`.
    Joint,
    Gap,
}

pub(super) fn kind(c: char) -> Kind {
    match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Kind::Letter,
        '_' | '-' | '.' | '/' | '\\' | ':' | '@' => Kind::Joint,
        '\0'..='\u{7f}' => Kind::Gap,
        // Voicing marks of half-width kana are no combining marks to Unicode.
        '\u{ff9e}' | '\u{ff9f}' => Kind::Mark,
        // Soft hyphen, zero-width and bidirectional controls, tags.
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{180b}'..='\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}' => Kind::Hidden,
        // Vowels and final consonants of Hangul that is written letter by letter.
        '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}' => Kind::Mark,
        c if is_combining_mark(c) => Kind::Mark,
        c if is_sign(c) => Kind::Sign,
        c if c.is_alphanumeric() => Kind::Letter,
        _ => Kind::Gap,
    }
}

/// Han, kana, Hangul, bopomofo; Thai, Lao, Burmese, Khmer.
fn is_sign(c: char) -> bool {
    matches!(c,
        '\u{0e01}'..='\u{0e46}'
        | '\u{0e81}'..='\u{0edf}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17d3}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3031}'..='\u{3035}'
        | '\u{303b}'
        | '\u{3041}'..='\u{3096}'
        | '\u{309d}'..='\u{309f}'
        | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}'..='\u{30ff}'
        | '\u{3105}'..='\u{318e}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97c}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Appends the form of `text` that is compared, at most `bytes_max` of it.
pub(in crate::search) fn fold(text: &str, bytes_max: usize, into: &mut String) {
    let end = into.len() + bytes_max;
    if text.is_ascii() {
        let kept = &text[..text.len().min(bytes_max)];
        into.extend(kept.chars().map(|c| c.to_ascii_lowercase()));
        return;
    }
    let visible = text.chars().filter(|c| kind(*c) != Kind::Hidden);
    // Marks that follow a letter which goes without.
    let mut is_bare = false;
    let lower = visible.nfkd().flat_map(char::to_lowercase);
    let bare = lower.filter(move |c| {
        if is_combining_mark(*c) {
            return !is_bare;
        }
        is_bare = is_latin_or_greek(*c);
        true
    });
    for c in bare.nfc() {
        let plain = plain(c);
        let piece = plain.unwrap_or("");
        let bytes = if plain.is_some() { piece.len() } else { c.len_utf8() };
        if end < into.len() + bytes {
            return;
        }
        match plain {
            Some(piece) => into.push_str(piece),
            None => into.push(c),
        }
    }
}

fn is_latin_or_greek(c: char) -> bool {
    matches!(c, '\0'..='\u{24f}' | '\u{250}'..='\u{2af}' | '\u{370}'..='\u{3ff}'
        | '\u{1e00}'..='\u{1fff}')
}

/// Letters whose stroke or form Unicode does not take apart.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'ı' => "i",
        'ł' => "l",
        'ŧ' => "t",
        'þ' => "th",
        // At the end of a word it is written otherwise, and is the same letter.
        'ς' => "σ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        let mut into = String::new();
        fold(text, 100, &mut into);
        into
    }

    #[test]
    fn case_accents_width_and_ligatures_make_no_difference() {
        for (text, same) in [
            ("Straße", "strasse"),
            ("ÉCOLE", "ecole"),
            ("e\u{301}cole", "ecole"),
            ("Łódź", "lodz"),
            ("đường", "duong"),
            ("İstanbul", "istanbul"),
            ("ﬁle", "file"),
            ("Ｔａｓｕｋｉ２", "tasuki2"),
            ("Ώρα", "ωρα"),
            ("ΛΌΓΟΣ", "λογοσ"),
            ("λόγος", "λογοσ"),
            ("pass\u{200b}word", "password"),
            ("soft\u{ad}ware", "software"),
            ("ⅷ", "viii"),
        ] {
            assert_eq!(folded(text), same, "{text}");
        }
    }

    #[test]
    fn marks_that_make_another_letter_stay() {
        for (text, same) in [
            ("Йод", "йод"),
            ("が", "が"),
            ("か\u{3099}", "が"),
            ("ｶﾞ", "ガ"),
            ("हिन्दी", "हिन्दी"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
        ] {
            assert_eq!(folded(text), same, "{text}");
        }
    }

    #[test]
    fn a_long_word_is_cut_between_letters() {
        let mut into = "x".to_owned();
        fold("ééé漢字", 6, &mut into);
        assert_eq!(into, "xeee漢");
        into.clear();
        fold("abcdef", 4, &mut into);
        assert_eq!(into, "abcd");
    }
}
