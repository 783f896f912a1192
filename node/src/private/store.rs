//! The files of private mail: for this user alone, whole or not at all, one writer at a time.

use std::{io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Serialize, de::DeserializeOwned};
use tasuki_proto::host::{
    checked,
    files::{self, SecretFileError},
};

/// Held by whoever changes one of the files, for the moment that takes.
const LOCK: &str = "private-mail.lock";

/// Why what is needed for private mail cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[error("{file} in {data} cannot be used: {source}")]
    Io { file: &'static str, data: String, source: io::Error },
    #[error("the system's random source failed: {0}")]
    Random(#[from] getrandom::Error),
    #[error("{0} keys are kept already, which is the limit")]
    Full(usize),
}

/// What a file holds; nothing yet, if it is not there.
pub(super) fn read<T: DeserializeOwned + Default>(
    data: &Path,
    file: &'static str,
) -> Result<T, StoreError> {
    let path = data.join(file);
    let Some(bytes) = files::read_secret(&path)? else { return Ok(T::default()) };
    checked::from_slice(&bytes).map_err(|why| damaged(data, file, &why))
}

/// Changes what a file holds; it is durable once this returns. One that holds nothing any more is
/// taken away. Blocks on the disk.
pub(super) fn change<T, R>(
    data: &Path,
    file: &'static str,
    change: impl FnOnce(&mut T) -> Result<R, StoreError>,
) -> Result<R, StoreError>
where
    T: DeserializeOwned + Serialize + Default + Clone + PartialEq,
{
    let failed = |source| StoreError::Io { file, data: data.display().to_string(), source };
    files::private_directory(data).map_err(failed)?;
    let lock = files::private(&data.join(LOCK)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let before: T = read(data, file)?;
    let mut after = before.clone();
    let result = change(&mut after)?;
    if after != before && after == T::default() {
        std::fs::remove_file(data.join(file)).map_err(failed)?;
    } else if after != before {
        let bytes = checked::to_vec(&after).map_err(|why| failed(why.into()))?;
        files::replace(&data.join(file), &bytes).map_err(failed)?;
    }
    Ok(result)
}

pub(super) fn damaged(data: &Path, file: &'static str, what: &dyn std::fmt::Display) -> StoreError {
    let path = data.join(file);
    StoreError::Secret(SecretFileError::Damaged { path, what: what.to_string() })
}

pub(super) fn to_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn to_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// Bytes that nobody can guess.
pub(super) fn chance<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
