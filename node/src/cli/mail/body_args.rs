//! The text of a mail: from the command line, a file, a pipe, or an editor.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use super::{Failure, editor::Draft};
use crate::{
    cli::loops::text_args::{bounded, open},
    config::Config,
};

/// How to give them, for `--help`.
pub(super) const HELP: &str = "\
The text is the argument; else --file; else standard input if it is a pipe; else what you write in
$VISUAL or $EDITOR, where an empty text sends nothing. If a text from the editor cannot be sent, it
is kept in a file that is named. Texts are Markdown, UTF-8 and at most 256 KiB.";

#[derive(Debug, clap::Args)]
pub(super) struct BodyArgs {
    /// Text to send; - reads standard input [default: a pipe, else an editor]
    #[arg(value_name = "TEXT")]
    text: Option<String>,
    /// Read the text from a file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Edit the text in an editor, starting with what was given
    #[arg(long)]
    edit: bool,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) text: String,
    /// Where it was written.
    draft: Option<Draft>,
}

impl BodyArgs {
    /// Whether an editor will be opened, which shows notes.
    pub(super) fn is_edited(&self) -> bool {
        self.edit || (self.text.is_none() && self.file.is_none() && io::stdin().is_terminal())
    }

    /// `notes` are lines for whoever writes in an editor.
    pub(super) fn read(&self, notes: &str, config: &Config) -> Result<Body, Failure> {
        let is_edited = self.is_edited();
        let given = match (&self.text, &self.file) {
            (Some(text), _) if text != "-" => text.clone(),
            (None, Some(path)) if path.as_os_str() != "-" => {
                let place = path.display().to_string();
                bounded("--file", &place, open("--file", path, "sent")?)?
            }
            (None, None) if is_edited => String::new(),
            (Some(_) | None, _) => bounded("TEXT", "standard input", io::stdin().lock())?,
        };
        let (text, draft) = if is_edited {
            let draft = Draft::open(&config.data.value, &given, notes)?;
            let text = draft.write()?;
            (text, Some(draft))
        } else {
            (given, None)
        };
        if text.trim().is_empty() {
            if let Some(draft) = draft {
                draft.done();
            }
            return Err(Failure::usage("The text is empty; nothing was sent."));
        }
        Ok(Body { text, draft })
    }
}

impl Body {
    /// Removes the draft, or says where it is.
    pub(super) fn settle<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match (result, self.draft) {
            (Ok(done), Some(draft)) => {
                draft.done();
                Ok(done)
            }
            (Err(failure), Some(draft)) => Err(draft.kept(failure)),
            (result, None) => result,
        }
    }
}
