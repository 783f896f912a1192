//! Which characters of somebody else's text may stand in ours.

/// Whether a character neither steers a terminal, ends a line, nor hides or turns around what
/// stands beside it. Joiners stay: scripts need them.
pub fn is_visible(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{061c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_hidden
}
