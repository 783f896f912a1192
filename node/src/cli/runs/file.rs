//! `tasuki runs output --message`: a file that a sub-agent handed over.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use serde_json::json;
use tasuki_proto::{counted::counted, wire};

use super::{Failure, Output, output::print};
use crate::cli::{
    broker::Broker,
    text::{is_terminal, line},
};

/// Prints a file, or writes it to a new one. Programs and files get it as it is, a terminal what
/// cannot harm it.
pub(super) async fn hand_out(
    broker: &Broker,
    run_id: &str,
    message: u32,
    to: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let run_id = run_id.to_owned();
    let request = wire::GetRunFileRequest { run_id, message, ..Default::default() };
    let told = broker.call(&request).await?;
    let (about, content) = (told.file.unwrap_or_default(), told.content);
    if let Some(path) = to {
        create(path, &content)?;
    }
    let text = str::from_utf8(&content);
    if to.is_some() || output.is_json() {
        let path = to.map(|path| path.to_string_lossy().into_owned());
        let value = || {
            json!({
                "run_id": request.run_id,
                "message": message,
                "file": about,
                // Of a file that is saved, and of one that is no text, it is not told.
                "text": text.ok().filter(|_| path.is_none()),
                "saved_as": path,
            })
        };
        let saved = || format!("Saved as {}.\n", line(path.as_deref().unwrap_or_default()));
        return output.answer(value, saved);
    }
    if !is_terminal() {
        return output.bytes(&content);
    }
    let Ok(text) = text else {
        return Err(Failure::usage(format!(
            "The file {} is no text; it has {}. Redirect standard output, or give --out FILE.",
            line(&about.name),
            counted(about.size, "byte")
        )));
    };
    print(text.as_bytes(), output).map(drop)
}

/// Writes a file that was not there.
fn create(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let shown = line(&path.to_string_lossy());
    let failed = |why: io::Error| {
        if why.kind() == io::ErrorKind::AlreadyExists {
            return Failure::usage(format!(
                "--out: {shown} is there already; nothing was written. Name another file."
            ));
        }
        Failure::local(format!("--out: {shown} cannot be written: {why}."))
    };
    let mut file = File::create_new(path).map_err(&failed)?;
    file.write_all(content).map_err(|why| {
        drop(fs::remove_file(path));
        failed(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("plan.bin");
        create(&path, b"\x1b[31m\xff").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"\x1b[31m\xff");
        let why = create(&path, b"other").unwrap_err();
        assert!(why.code() == "usage" && why.message.contains("is there already"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), b"\x1b[31m\xff");
        let why = create(&place.path().join("none/plan.bin"), b"x").unwrap_err();
        assert!(why.message.contains("cannot be written"), "{why}");
    }
}
