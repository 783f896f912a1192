//! Codex: a message in the queue of its conversation. Its terminal takes it up when it is idle.

use std::{ffi::OsStr, path::Path};

use super::run;

pub(super) async fn queue(
    program: &Path,
    home: Option<&Path>,
    thread: &str,
    sentence: &str,
) -> Result<(), String> {
    if !is_thread(thread) {
        return Err("its conversation has no usable id".to_owned());
    }
    let words = ["queue", "--thread", thread, "--message", sentence].map(OsStr::new);
    let home = home.map(|home| ("CODEX_HOME", home.as_os_str()));
    run(program, &words, home.as_slice()).await.map(drop)
}

/// A client names its conversation as it likes; what is no id would be an option or a name.
fn is_thread(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-';
    (8..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_is_put_on_the_command_line() {
        assert!(is_thread("019ac0de-1111-7222-8333-444455556666"));
        for bad in
            ["", "--resume", "-019ac0de-1111", "my thread", "019ac0de;rm", "x".repeat(9).as_str()]
        {
            assert!(!is_thread(bad), "{bad}");
        }
    }
}
