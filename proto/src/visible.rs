//! Which characters of somebody else's text may stand in ours.

use std::borrow::Cow;

/// Whether a character neither steers a terminal, ends a line, nor hides or turns around what
/// stands beside it. Joiners and selectors of variants pass, since scripts need them: what is shown
/// goes through [`shown`], which looks at what they stand beside.
pub fn is_visible(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e00ff}'
            | '\u{e01f0}'..='\u{e0fff}'
    );
    !c.is_control() && !is_hidden
}

/// A text as a model may be shown it, and how many characters of it were taken out: those that are
/// not [visible](is_visible), but for tabs and the ends of lines, and joiners and selectors where
/// no script needs them. One that stands behind another can spell out a message nobody sees.
pub fn shown(text: &str) -> (Cow<'_, str>, usize) {
    if text.is_ascii() && !text.bytes().any(|it| it.is_ascii_control() && !b"\t\n".contains(&it)) {
        return (Cow::Borrowed(text), 0);
    }
    let mut shown = String::with_capacity(text.len());
    let mut stripped = 0;
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied();
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => after == Some('\n'),
            c if is_joiner(c) => {
                before.zip(after).is_some_and(|(before, after)| may_join(before, c, after))
            }
            c if is_selector(c) => before.is_some_and(|before| may_select(before, c)),
            c => is_visible(c),
        };
        if stays {
            shown.push(c);
        } else {
            stripped += 1;
        }
        // What was taken out stands between all the same: of two joiners neither is written by a
        // script.
        before = Some(c);
    }
    if stripped == 0 { (Cow::Borrowed(text), 0) } else { (Cow::Owned(shown), stripped) }
}

/// Whether a name, or what stands for one, is a line that is shown just as it is.
pub fn is_line(text: &str) -> bool {
    text.chars().all(is_visible) && shown(text).1 == 0
}

/// Two letters meet in it, or are kept apart.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Says how the character before it is drawn.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a joiner has something to join, or to keep apart: letters of a script whose letters
/// join, or signs that are drawn as one. Between others it could only carry what nobody sees.
fn may_join(before: char, joiner: char, after: char) -> bool {
    let is_drawn = |it: char| is_sign(it) || matches!(it, '\u{fe0e}' | '\u{fe0f}');
    (joins(before) && joins(after)) || (joiner == '\u{200d}' && is_drawn(before) && is_sign(after))
}

/// Letters and marks of scripts that write joiners.
fn joins(c: char) -> bool {
    matches!(
        c,
        '\u{620}'..='\u{8ff}'
            | '\u{900}'..='\u{109f}'
            | '\u{1780}'..='\u{18af}'
            | '\u{1a20}'..='\u{1aaf}'
            | '\u{1b00}'..='\u{1c4f}'
            | '\u{a800}'..='\u{aaff}'
            | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}'
            | '\u{11000}'..='\u{11fff}'
    ) && is_visible(c)
}

/// Signs that have a coloured form, and what they are put together with.
fn is_sign(c: char) -> bool {
    let is_letter =
        matches!(c, '\u{2139}' | '\u{24c2}' | '\u{3297}' | '\u{3299}' | '\u{1f100}'..='\u{1f2ff}');
    let is_other = !c.is_alphanumeric() && !c.is_whitespace() && !is_joiner(c) && !is_selector(c);
    !c.is_ascii() && is_visible(c) && (is_letter || is_other)
}

/// Whether a selector is one of those that what is before it has.
fn may_select(before: char, selector: char) -> bool {
    let is_ideograph = matches!(
        before,
        '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
    );
    match selector {
        '\u{fe0e}' | '\u{fe0f}' => {
            is_sign(before) || before.is_ascii_digit() || matches!(before, '#' | '*')
        }
        '\u{fe00}'..='\u{fe02}' => {
            is_ideograph
                || matches!(
                    before,
                    '\u{1000}'..='\u{109f}'
                        | '\u{2200}'..='\u{22ff}'
                        | '\u{2a00}'..='\u{2aff}'
                        | '\u{3001}'..='\u{3002}'
                        | '\u{a840}'..='\u{a877}'
                )
        }
        '\u{180b}'..='\u{180f}' => matches!(before, '\u{1820}'..='\u{18aa}'),
        // Variants of ideographs that are registered end long before the last selector.
        '\u{e0100}'..='\u{e011f}' => is_ideograph,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_it_is_shown_as() {
        for good in ["", "BR", "déjà vu", "修复 2", "❤\u{fe0f} 👩\u{200d}💻.png"] {
            assert!(is_line(good), "{good:?}");
        }
        for bad in
            ["a\nb", "a\tb", "a\u{1b}[2J", "a\u{202e}b", "a\u{200b}", "a\u{200d}b", "\u{e0041}"]
        {
            assert!(!is_line(bad), "{bad:?}");
        }
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in [
            "",
            "plain\n\ttext",
            "with\r\nends of lines",
            "修复登录页面 – déjà vu",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} 葛\u{e0100}",
            "שלום عالم",
        ] {
            assert_eq!(shown(text), (Cow::Borrowed(text), 0), "{text:?}");
        }
    }

    #[test]
    fn what_hides_or_steers_is_taken_out_and_counted() {
        for (text, expected, stripped) in [
            ("a\u{1b}[2Jb\u{7}\0\u{9b}", "a[2Jb", 4),
            ("over\rwritten\u{85}", "overwritten", 2),
            ("a\u{202e}b\u{2066}c\u{2028}d\u{200f}", "abcd", 4),
            ("a\u{200b}\u{feff}\u{2060}\u{ad}b", "ab", 4),
            ("hi\u{e0001}\u{e0068}\u{e0069}\u{e007f}", "hi", 4),
            ("zero\u{200c}\u{200d}\u{200c}width", "zerowidth", 3),
            ("é\u{200d}\u{200c}\u{200d}é", "éé", 3),
            ("ب\u{200c}\u{200d}ب", "بب", 2),
            ("\u{200d}👩\u{200d}", "👩", 2),
            ("x\u{fe00}\u{fe01}\u{e0123}y", "xy", 3),
            // A byte behind each letter spells what nobody sees.
            ("h\u{e0169}i\u{e016e}!\u{fe0f}", "hi!", 3),
            ("葛\u{e01ef}葛\u{e0100}\u{e0100}", "葛葛\u{e0100}", 2),
            ("I\u{fe0f}nstruction: x", "Instruction: x", 1),
            (" \u{fe0f}\u{3164}\u{115f}", " ", 3),
        ] {
            assert_eq!(shown(text), (Cow::Owned(expected.to_owned()), stripped), "{text:?}");
        }
    }
}
