//! Texts given on the command line: as they are, from a file, or from standard input.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use tasuki_proto::{limits::TEXT_BYTES_MAX, reason::Reason};

use super::super::Failure;

/// How to give one, for `--help`.
pub(in crate::cli) const HELP: &str = "\
- as a text reads standard input, @FILE reads that file; start a text with @@ for a literal @. Texts
are UTF-8 and at most 256 KiB each.";

/// Standard input, which can be read once.
#[derive(Debug, Default)]
pub(in crate::cli) struct TextArgs {
    is_stdin_taken: bool,
}

impl TextArgs {
    /// What `given` stands for. `name` is the flag it was given with.
    pub(in crate::cli) fn read(&mut self, name: &str, given: &str) -> Result<String, Failure> {
        if given == "-" {
            if self.is_stdin_taken {
                return Err(Failure::usage("Only one text can be read from standard input."));
            }
            self.is_stdin_taken = true;
            return bounded(name, "standard input", io::stdin().lock());
        }
        match given.strip_prefix('@') {
            Some(literal) if literal.starts_with('@') => checked(name, literal.to_owned()),
            Some(path) => bounded(name, path, open(name, Path::new(path), "sent")?),
            None => checked(name, given.to_owned()),
        }
    }

    /// The same for a text that may be left out.
    pub(in crate::cli) fn read_if(
        &mut self,
        name: &str,
        given: Option<&str>,
    ) -> Result<String, Failure> {
        given.map_or_else(|| Ok(String::new()), |given| self.read(name, given))
    }
}

/// Opens a file that `name` names, for what is to be `done` with it, in one word. What is none, such as
/// a pipe, might be waited for without end.
pub(in crate::cli) fn open(name: &str, path: &Path, done: &str) -> Result<File, Failure> {
    let shown = path.display();
    let unopened =
        |why: io::Error| Failure::usage(format!("{name}: {shown} cannot be opened: {why}."));
    if !fs::metadata(path).map_err(unopened)?.is_file() {
        let text =
            format!("{name}: {shown} is no file; nothing was {done}. `-` reads from a pipe.");
        return Err(Failure::usage(text));
    }
    File::open(path).map_err(unopened)
}

/// All that is to be read there, if it is no more than a text may be.
pub(in crate::cli) fn bounded(name: &str, place: &str, from: impl Read) -> Result<String, Failure> {
    bounded_to(TEXT_BYTES_MAX, name, place, from)
}

/// The same of what holds several texts, and may be this long.
pub(in crate::cli) fn bounded_to(
    bytes_max: usize,
    name: &str,
    place: &str,
    from: impl Read,
) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| Failure::usage(format!("{name}: {place} cannot be read: {why}.")))?;
    if bytes_max < bytes.len() {
        return Err(too_large(name, bytes_max));
    }
    let text = String::from_utf8(bytes).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        Failure::usage(format!("{name}: {place} is not UTF-8 at byte {at}; nothing was sent."))
    })?;
    // What an editor or `echo` puts at the end is not meant.
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

fn checked(name: &str, text: String) -> Result<String, Failure> {
    if TEXT_BYTES_MAX < text.len() { Err(too_large(name, TEXT_BYTES_MAX)) } else { Ok(text) }
}

fn too_large(name: &str, bytes_max: usize) -> Failure {
    let message = format!(
        "{name} is over the limit of {bytes_max} bytes; nothing was sent. Put the long part \
         in a file and name it in the text."
    );
    Failure::reason(Reason::TooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &str) -> Result<String, &'static str> {
        TextArgs::default().read("--summary", given).map_err(|failure| failure.code())
    }

    #[test]
    fn a_text_is_itself_or_a_files() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("text");
        let at = format!("@{}", path.display());
        fs::write(&path, "über\nzwei\n").unwrap();
        assert_eq!(read("done").as_deref(), Ok("done"));
        assert_eq!(read("@@me").as_deref(), Ok("@me"));
        assert_eq!(read(&at).as_deref(), Ok("über\nzwei"));
        assert_eq!(read("@/no/such/file"), Err("usage"));
        assert_eq!(read(&format!("@{}", place.path().display())), Err("usage"));
        fs::write(&path, [b'a', 0xff]).unwrap();
        assert_eq!(read(&at), Err("usage"));
        fs::write(&path, "x".repeat(TEXT_BYTES_MAX + 1)).unwrap();
        assert_eq!(read(&at), Err("too_large"));
        assert_eq!(read(&"x".repeat(TEXT_BYTES_MAX)).map(|text| text.len()), Ok(TEXT_BYTES_MAX));
        assert_eq!(read(&"x".repeat(TEXT_BYTES_MAX + 1)), Err("too_large"));
    }
}
