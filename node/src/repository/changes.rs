//! What was changed in a work tree and not committed, in a few lines.

use std::path::Path;

use super::{git, place};

/// The longest such text, in bytes.
const CHANGES_BYTES_MAX: usize = 8 * 1024;

/// Files that were changed since the last commit, as Git counts their lines; and those that it does
/// not know yet. `None`: nothing was changed, or Git does not say.
pub fn changes(directory: &Path) -> Option<String> {
    place::around(directory)?;
    let ask = |arguments: &[&str]| {
        let told = git::ask_of_commit(directory, arguments).ok()?;
        Some(String::from_utf8_lossy(&told).trim_end().to_owned())
    };
    let changed = ask(&["diff", "--stat", "--no-ext-diff", "--no-textconv", "HEAD", "--", "."]);
    let new = ask(&["ls-files", "--others", "--exclude-standard"]);
    let new = new.unwrap_or_default();
    let new = new.lines().map(|name| format!(" {name} (new)"));
    let lines: Vec<String> = changed.filter(|it| !it.is_empty()).into_iter().chain(new).collect();
    let mut text = lines.join("\n");
    if CHANGES_BYTES_MAX < text.len() {
        text.truncate(text.floor_char_boundary(CHANGES_BYTES_MAX));
        text += "\n…";
    }
    (!text.is_empty()).then_some(text)
}
