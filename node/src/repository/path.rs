//! What an agent or a person calls a file, made what every machine calls it.
//!
//! Relative to the root of its work tree, `/` in between, Unicode composed, links on the way
//! followed. The last part is not followed: a link is a file of its own.

use std::path::{Path, PathBuf};

use tasuki_broker::rules::swarm::lock::LockKey;
use tasuki_proto::limits::LOCK_PATH_BYTES_MAX;
use unicode_normalization::UnicodeNormalization as _;

use super::{
    No, Repository,
    pattern::{WILDCARDS, literal, without_classes},
    place::{self, Astray},
};

/// Why a choice of names in braces is refused: taken as letters, it would lock nothing that was
/// meant.
const BRACES: &str = "braces choose nothing here: name each file by itself (write `[{]` for a \
                      brace that is part of a name)";

/// All of a repository.
const ALL: &str = "**";

/// How paths are written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Unix,
    Windows,
}

pub(super) const HERE: Style = if cfg!(windows) { Style::Windows } else { Style::Unix };

/// A path with `/` in between.
pub(super) fn slashed(text: &str, style: Style) -> Result<String, No> {
    let strange = |why| Err(No::Strange { path: text.to_owned(), why });
    if text.is_empty() {
        return strange("it is empty; `.` is the whole repository");
    }
    if text.contains('\0') {
        return strange("it has a NUL in it");
    }
    if style == Style::Unix {
        return Ok(text.to_owned());
    }
    let text = text.replace('\\', "/");
    let text = match text.strip_prefix("//?/UNC/").or_else(|| text.strip_prefix("//?/unc/")) {
        Some(rest) => format!("//{rest}"),
        None => text.strip_prefix("//?/").map(str::to_owned).unwrap_or(text),
    };
    if text.starts_with("//./") {
        return strange("it is a device");
    }
    let mut chars = text.chars();
    let (first, second, third) = (chars.next(), chars.next(), chars.next());
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
    match (first, second, third) {
        (_, Some(':'), Some('/')) if is_letter(first) => Ok(text),
        (_, Some(':'), _) if is_letter(first) => {
            strange("it is relative to a drive; write it from the root of the drive")
        }
        // As Git's own shell writes `C:/`.
        (Some('/'), Some(letter), Some('/') | None) if letter.is_ascii_alphabetic() => {
            Ok(format!("{}:/{}", letter.to_ascii_uppercase(), text.get(3..).unwrap_or_default()))
        }
        (..) => Ok(text),
    }
}

/// The part before the first wildcard, as a path, and the segments from there on.
fn split(text: &str) -> (&str, Vec<&str>) {
    let Some(at) = text.find(WILDCARDS) else { return (text, Vec::new()) };
    let start = text[..at].rfind('/').map_or(0, |slash| slash + 1);
    let tail = text[start..].split('/').filter(|it| !matches!(*it, "" | ".")).collect();
    (&text[..start], tail)
}

/// Up to the end of the last segment with a choice of names, as shells have it, `{a,b}` or `{1..3}`.
fn choice(text: &str) -> Option<&str> {
    let mut ends = text.match_indices('{').filter_map(|(open, _)| {
        let close = open + text[open..].find('}')?;
        let inner = &text[open..close];
        let is_range = inner.contains("..") && !inner.contains('/');
        let is_choice = (inner.contains(',') || is_range) && !text[..open].ends_with('[');
        is_choice.then(|| close + text[close..].find('/').unwrap_or(text.len() - close))
    });
    ends.next_back().map(|end| &text[..end])
}

/// Unicode composed, as every machine can have it.
pub(super) fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// The patterns of one file or pattern, at least one. Looks at the disk.
pub(super) fn patterns(
    repository: &Repository,
    base: &Path,
    text: &str,
) -> Result<Vec<String>, No> {
    let text = &slashed(text, HERE)?;
    // What is there is meant, whatever its name looks like.
    let is_there = text.contains(WILDCARDS) && base.join(text).symlink_metadata().is_ok();
    let (head, tail) = if is_there { (text.as_str(), Vec::new()) } else { split(text) };
    let is_below = text.ends_with('/');
    if choice(text).is_some_and(|it| base.join(it).symlink_metadata().is_err()) {
        return Err(No::Strange { path: text.clone(), why: BRACES });
    }
    let path = base.join(head);
    if HERE == Style::Unix && text.contains('\\') && path.symlink_metadata().is_err() {
        let why = "it has a `\\` in it; write `/` between directories";
        return Err(No::Strange { path: text.clone(), why });
    }
    let is_last_kept = tail.is_empty() && !is_below;
    let below = below(repository, &path, is_last_kept, text)?;
    patterns_below(&below, &tail, is_below, text)
}

/// The pattern that is on this very file, whatever its name looks like. Looks at the disk.
pub(super) fn of_file(repository: &Repository, file: &Path) -> Result<String, No> {
    let text = file.to_string_lossy().into_owned();
    let below = below(repository, file, true, &text)?;
    Ok(if below.is_empty() { ALL.to_owned() } else { literal(&composed(&below)) })
}

/// What a path, which was said as `text`, is called in the repository.
fn below(
    repository: &Repository,
    path: &Path,
    is_last_kept: bool,
    text: &str,
) -> Result<String, No> {
    let outside =
        || No::Outside { path: text.to_owned(), root: repository.root().display().to_string() };
    let real = place::resolved(path, is_last_kept).map_err(|astray| match astray {
        Astray::Above => outside(),
        Astray::Link => No::Strange {
            path: text.to_owned(),
            why: "a link on the way leads nowhere, or round in a circle",
        },
    })?;
    repository.below(&real, is_last_kept, text)?.ok_or_else(outside)
}

/// The same in a repository that is not on this machine, or not known where: `text` is relative to
/// its root.
pub(super) fn patterns_from_root(text: &str, root: &str) -> Result<Vec<String>, No> {
    let text = &slashed(text, HERE)?;
    let (head, tail) = split(text);
    let outside = || No::Outside { path: text.clone(), root: root.to_owned() };
    if head.starts_with('/') || Path::new(head).is_absolute() || text.contains('\\') {
        return Err(outside());
    }
    if choice(text).is_some() {
        return Err(No::Strange { path: text.clone(), why: BRACES });
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in head.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop().ok_or_else(outside)?),
            segment => segments.push(segment),
        }
    }
    patterns_below(&segments.join("/"), &tail, text.ends_with('/'), text)
}

fn patterns_below(
    below: &str,
    tail: &[&str],
    is_below: bool,
    text: &str,
) -> Result<Vec<String>, No> {
    if tail.contains(&"..") {
        let why = "it has a `..` behind a wildcard";
        return Err(No::Strange { path: text.to_owned(), why });
    }
    let below = composed(below);
    // Nobody asks for all files when a name is merely too long.
    if LOCK_PATH_BYTES_MAX < below.len() {
        let why = "it is longer than 1024 bytes";
        return Err(No::Strange { path: text.to_owned(), why });
    }
    if tail.is_empty() {
        let is_all = below.is_empty();
        let mut pattern = if is_all { ALL.to_owned() } else { literal(&below) };
        if is_below && !pattern.ends_with('/') && !is_all {
            pattern.push('/');
        }
        return Ok(vec![pattern]);
    }
    let tail = composed(&tail.join("/"));
    let around = if below.is_empty() { String::new() } else { literal(&below) };
    let with = |tail: &str| match around.trim_end_matches('/') {
        "" => tail.to_owned(),
        around => format!("{around}/{tail}"),
    };
    let end = if is_below { "/" } else { "" };
    // What is to come may be called `[slug]`: a class to us, a name to whoever asks for the file.
    let both = [with(&tail) + end, with(&without_classes(&tail)) + end];
    let is_fit = |pattern: &String| LockKey::new("", pattern, false).map(|_| ());
    match is_fit(&both[0]) {
        Err(_) if is_fit(&both[1]).is_ok() => Ok(vec![both[1].clone()]),
        Err(why) => Err(No::Unfit(why)),
        Ok(()) if !tail.contains('[') || is_fit(&both[1]).is_err() => Ok(vec![both[0].clone()]),
        Ok(()) => Ok(both.to_vec()),
    }
}

impl Repository {
    /// A path from the root, `/` in between; `None`: it is outside.
    fn below(&self, real: &Path, is_last_kept: bool, text: &str) -> Result<Option<String>, No> {
        let is_root = |place: &place::Place| Some(&place.common) == self.common();
        let whole = place::at(real).filter(is_root);
        let directory = match (&whole, is_last_kept) {
            (None, true) => real.parent().unwrap_or(real),
            (Some(_), _) | (None, false) => real,
        };
        let root: PathBuf = match whole.or_else(|| place::around(directory)) {
            Some(found) if Some(&found.common) == self.common() => found.root,
            // What is around the whole of it does not matter where there is no repository.
            Some(found) if self.common().is_some() || found.root.starts_with(self.root()) => {
                let (path, root) = (text.to_owned(), found.root.display().to_string());
                return Err(No::Elsewhere { path, root });
            }
            Some(_) | None if self.common().is_some() => return Ok(None),
            Some(_) | None => self.root().to_owned(),
        };
        let Ok(below) = real.strip_prefix(&root) else { return Ok(None) };
        let parts = below.components().map(|part| part.as_os_str().to_string_lossy());
        Ok(Some(parts.collect::<Vec<_>>().join("/")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_windows_are_read_as_they_are_meant() {
        for (text, expected) in [
            ("src\\main.rs", Some("src/main.rs")),
            ("src\\sub/main.rs", Some("src/sub/main.rs")),
            (".\\a", Some("./a")),
            ("..\\a\\", Some("../a/")),
            ("C:\\code\\a.rs", Some("C:/code/a.rs")),
            ("C:/code/a.rs", Some("C:/code/a.rs")),
            ("\\\\?\\C:\\code\\a.rs", Some("C:/code/a.rs")),
            ("\\\\server\\share\\a", Some("//server/share/a")),
            ("\\\\?\\UNC\\server\\share\\a", Some("//server/share/a")),
            ("/c/code/a.rs", Some("C:/code/a.rs")),
            ("/c", Some("C:/")),
            ("/cc/code", Some("/cc/code")),
            ("src\\*.rs", Some("src/*.rs")),
            ("日本\\é", Some("日本/é")),
            ("C:a.rs", None),
            ("C:", None),
            ("\\\\.\\COM1", None),
            ("", None),
            ("a\0", None),
        ] {
            let found = slashed(text, Style::Windows).ok();
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        assert_eq!(slashed("a\\b", Style::Unix).unwrap(), "a\\b");
    }

    #[test]
    fn without_a_disk_paths_are_read_from_the_root() {
        for (text, expected) in [
            ("a/b.rs", Ok("a/b.rs")),
            ("./a//b/../c", Ok("a/c")),
            ("a/", Ok("a/")),
            (".", Ok("**")),
            ("./", Ok("**")),
            ("a/..", Ok("**")),
            ("*.rs", Ok("*.rs")),
            ("./a/./**/*.rs", Ok("a/**/*.rs")),
            ("a/*/", Ok("a/*/")),
            ("[ab]c", Ok("[ab]c [[]ab]c")),
            ("[slug", Ok("[[]slug")),
            ("e\u{301}/e\u{301}?", Ok("é/é?")),
            ("..", Err("outside")),
            ("a/../../b", Err("outside")),
            ("/a", Err("outside")),
            ("a/*/../b", Err("behind a wildcard")),
            ("*******************a?????????", Err("wildcards")),
            ("a/{b,c}.rs", Err("braces choose nothing")),
            ("a/{{b}}.rs", Ok("a/{{b}}.rs")),
        ] {
            let found = patterns_from_root(text, "the repository").map(|it| it.join(" "));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(why), Err(expected)) => {
                    assert!(why.to_string().contains(expected), "{text}: {why}");
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }
}
