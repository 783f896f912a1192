//! Writing in the editor that somebody chose.
//!
//! **Invariant:** what was written is in a file until it was sent or nothing was written.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use tasuki_proto::host::files::private_directory;

use super::Failure;
use crate::{
    cli::{loops::text_args::bounded, text::word},
    paths,
};

/// The folder of drafts in the data directory.
const FOLDER: &str = "drafts";

/// What a line begins with that is not sent. No Markdown begins so.
const NOTE: &str = "//~";

/// Bytes of chance in a draft's name.
const CHANCE_BYTES: usize = 8;

/// A text that somebody is writing.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
}

impl Draft {
    /// Begins with `text`; `notes` follow it.
    pub(super) fn open(data: &Path, text: &str, notes: &str) -> Result<Self, Failure> {
        let folder = data.join(FOLDER);
        let mut chance = [0; CHANCE_BYTES];
        let path = getrandom::fill(&mut chance).map_err(io::Error::other).and_then(|()| {
            private_directory(data)?;
            private_directory(&folder)?;
            let name = format!("mail-{:016x}.md", u64::from_le_bytes(chance));
            Ok(folder.join(name))
        });
        let cannot = |why: io::Error| {
            let folder = folder.display();
            Failure::local(format!("A draft cannot be kept in {folder}: {why}."))
        };
        let path = path.map_err(cannot)?;
        let mut content = format!("{text}\n\n{NOTE} Lines that begin with {NOTE} are not sent.\n");
        for line in notes.lines() {
            content.push_str(format!("{NOTE} {line}").trim_end());
            content.push('\n');
        }
        paths::replace(&path, content.as_bytes()).map_err(cannot)?;
        Ok(Self { path })
    }

    /// Lets somebody write, and reads what is there then.
    pub(super) fn write(&self) -> Result<String, Failure> {
        let Some(editor) = chosen() else {
            fs::remove_file(&self.path).unwrap_or_default();
            return Err(Failure::usage(
                "No editor is set: set VISUAL or EDITOR, or give the text as an argument, with \
                 --file, or through a pipe.",
            ));
        };
        // People put arguments into these variables, and quotes around them.
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(&self.path);
        let ended = command.status();
        let status = ended.map_err(|why| {
            self.kept(Failure::local(format!("{editor} cannot be started: {why}.")))
        })?;
        if !status.success() {
            let failure =
                Failure::local(format!("{editor} ended with {status}; nothing was sent."));
            return Err(self.kept(failure));
        }
        let place = self.path.display().to_string();
        let file = fs::File::open(&self.path).map_err(|why| {
            Failure::local(format!("{place} cannot be read: {why}. Nothing was sent."))
        })?;
        let written = bounded("The text", &place, file).map_err(|failure| self.kept(failure))?;
        let text = said(&written);
        // What is kept is what was to be sent.
        paths::replace(&self.path, text.as_bytes()).map_err(|why| {
            self.kept(Failure::local(format!("{place} cannot be written: {why}.")))
        })?;
        Ok(text)
    }

    /// Says where the text is.
    pub(super) fn kept(&self, mut failure: Failure) -> Failure {
        let path = word(&self.path.to_string_lossy());
        failure.message += &format!(" The text is kept: --file {path}");
        failure
    }

    /// The text was sent, or there is none.
    pub(super) fn done(self) {
        if let Err(why) = fs::remove_file(&self.path) {
            tracing::debug!(%why, "a draft stays");
        }
    }
}

fn chosen() -> Option<String> {
    let said = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| env::var(name).ok());
    said.map(|it| it.trim().to_owned()).find(|it| !it.is_empty())
}

/// What is sent of a draft.
fn said(draft: &str) -> String {
    let lines: Vec<&str> = draft.lines().filter(|line| !line.starts_with(NOTE)).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_not_sent_and_markdown_is() {
        let data = tempfile::tempdir().unwrap();
        let draft = Draft::open(data.path(), "# Head\nbody", "To B\n\n> #1 quoted").unwrap();
        let content = fs::read_to_string(&draft.path).unwrap();
        assert_eq!(
            content,
            "# Head\nbody\n\n//~ Lines that begin with //~ are not sent.\n//~ To B\n//~\n//~ > #1 quoted\n"
        );
        assert_eq!(said(&content), "# Head\nbody");
        assert_eq!(said("//~ only\n//~ notes\n\n"), "");
        draft.done();
        assert_eq!(fs::read_dir(data.path().join(FOLDER)).unwrap().count(), 0);
    }
}
