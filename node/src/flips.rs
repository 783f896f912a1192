//! For tests: every bit of a file, flipped one after the other.

use std::{fs, path::Path};

/// Calls `check` with each bit of `file` flipped in turn, and what was flipped; the file is whole
/// again afterwards.
pub(crate) fn each(file: &Path, mut check: impl FnMut(&str)) {
    let whole = fs::read(file).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut spoilt = whole.clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        fs::write(file, &spoilt).unwrap();
        check(&format!("bit {bit}: {}", String::from_utf8_lossy(&spoilt)));
    }
    fs::write(file, whole).unwrap();
}
