//! Which files a patch changes, in the form that Codex's tool takes.
//!
//! Headers stand by themselves on a line; what a patch puts into files has a sign before it. A line
//! that it leaves as it is and that looks like a header counts as one: rather a file too many is
//! looked up than one too few.

/// Each is followed by a path.
const HEADERS: [&str; 4] =
    ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// What is added, changed, removed, and what it is called afterwards.
pub(super) fn files(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let path = HEADERS.iter().find_map(|header| line.trim_start().strip_prefix(header))?;
        Some(path.trim().to_owned())
    })
}
