//! The prompt of a role in a project's AGENTS.md: a block between two marks, which is replaced as a
//! whole and taken out as a whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::cli::Failure;

const FILE: &str = "AGENTS.md";
const BEGIN: &str = "<!-- tasuki launch: begin -->";
const END: &str = "<!-- tasuki launch: end -->";

pub(super) fn path(project: &Path) -> PathBuf {
    project.join(FILE)
}

/// Puts a prompt in. `false`: it was there.
pub(super) fn put(project: &Path, prompt: &str) -> Result<bool, Failure> {
    edit(project, Some(prompt))
}

/// Takes it out. `false`: there was none.
pub(super) fn remove(project: &Path) -> Result<bool, Failure> {
    edit(project, None)
}

fn edit(project: &Path, prompt: Option<&str>) -> Result<bool, Failure> {
    let path = path(project);
    let unusable = |why: &io::Error| Failure::local(format!("{}: {why}.", path.display()));
    // A link in a repository may lead anywhere.
    let is_link = fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_symlink());
    if is_link {
        let text = format!("{} is a link, so nothing is written there.", path.display());
        return Err(Failure::local(text));
    }
    let before = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(unusable(&why)),
    };
    let Some(after) = with(&before, prompt) else {
        let text = format!("{} has one mark of a prompt and not the other.", path.display());
        return Err(Failure::local(text));
    };
    if after == before {
        return Ok(false);
    }
    let written = match after.is_empty() {
        true => fs::remove_file(&path),
        false => fs::write(&path, after),
    };
    written.map_err(|why| unusable(&why))?;
    Ok(true)
}

/// The text with this block in the place of the one that is there; `None`: its marks are no pair.
fn with(text: &str, prompt: Option<&str>) -> Option<String> {
    let block = prompt.map(|prompt| format!("{BEGIN}\n{}\n{END}\n", prompt.trim_end()));
    let block = block.unwrap_or_default();
    match (text.find(BEGIN), text.find(END)) {
        (None, None) if block.is_empty() => Some(text.to_owned()),
        (None, None) => {
            let gap = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Some(format!("{text}{end}{gap}{block}"))
        }
        (Some(begin), Some(end)) if begin < end => {
            let (before, after) = (&text[..begin], &text[end + END.len()..]);
            let after = after.strip_prefix('\n').unwrap_or(after);
            // With the block goes the empty line that came with it.
            let is_last = block.is_empty() && after.is_empty();
            let before = if is_last { before.strip_suffix('\n').unwrap_or(before) } else { before };
            Some(format!("{before}{block}{after}"))
        }
        (Some(_), _) | (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_put_in_once_and_taken_out_again() {
        for before in ["", "# Rules\n", "# Rules\n\nBe kind.\n"] {
            let once = with(before, Some("You are A.\n")).unwrap();
            assert!(once.ends_with(&format!("{BEGIN}\nYou are A.\n{END}\n")), "{once}");
            assert_eq!(with(&once, Some("You are A.")).as_ref(), Some(&once));
            let other = with(&once, Some("You are B.")).unwrap();
            assert!(other.contains("B.") && !other.contains("A."), "{other}");
            assert_eq!(with(&other, None).as_deref(), Some(before));
        }
        assert_eq!(with("x\n", None).as_deref(), Some("x\n"));
        assert_eq!(with(&format!("a\n{BEGIN}\np\n{END}\nb\n"), None).as_deref(), Some("a\nb\n"));
    }

    #[test]
    fn a_file_with_half_a_block_is_left_alone() {
        for text in [BEGIN, END, &format!("{END}\n{BEGIN}\n")] {
            assert_eq!(with(text, Some("p")), None, "{text}");
        }
    }

    #[test]
    fn a_link_is_not_written_through() {
        let project = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        assert!(put(project.path(), "p").unwrap() && !put(project.path(), "p").unwrap());
        assert!(remove(project.path()).unwrap() && !path(project.path()).exists());
        #[cfg(unix)]
        {
            let target = outside.path().join("x");
            std::os::unix::fs::symlink(&target, path(project.path())).unwrap();
            assert!(put(project.path(), "p").unwrap_err().message.contains("is a link"));
            assert!(!target.exists());
        }
    }
}
