//! The path of this program, for a client that is to start it.
//!
//! As it was called, if that can be told: package managers put links in the search path that stay
//! where they are, to a place that the next release leaves.

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use tasuki_proto::limits::WORKSPACE_DEFAULT;

use crate::{
    cli::{Failure, broker},
    config::{Config, Source},
};

/// The program and its arguments with which another program calls this one with `words`, about the
/// data, broker and workspace that are meant here.
pub(in crate::cli) fn command(config: &Config, words: &[&str]) -> Result<Vec<String>, Failure> {
    let here = std::env::current_dir().map_err(|why| Failure::local(format!("{why}.")))?;
    let program = path(&here)?;
    let text = |path: &Path| here.join(path).to_string_lossy().into_owned();
    let mut command = vec![text(&program)];
    if config.data.source != Source::Default {
        command.extend(["--data".to_owned(), text(&config.root)]);
    }
    command.extend(words.iter().map(|it| (*it).to_owned()));
    let is_given = |source: &Source| matches!(source, Source::Flag(_) | Source::Env(_));
    if let (Some(url), true) = (&config.broker.value, is_given(&config.broker.source)) {
        command.extend(["--broker".to_owned(), url.clone()]);
    }
    // The node may have ended, or be another one, by the time that it is called.
    let workspace = broker::workspace(config);
    let source = &config.workspace.source;
    let is_of_node = *source == Source::Default && workspace.as_str() != WORKSPACE_DEFAULT;
    if is_given(source) || is_of_node {
        command.extend(["--workspace".to_owned(), workspace.to_string()]);
    }
    Ok(command)
}

pub(in crate::cli) fn path(directory: &Path) -> Result<PathBuf, Failure> {
    let real = std::env::current_exe()
        .map_err(|why| Failure::local(format!("Cannot find this program's own path: {why}.")))?;
    let called = std::env::args_os().next();
    let search = std::env::var_os("PATH").unwrap_or_default();
    Ok(called.and_then(|called| find(&called, &search, directory, &real)).unwrap_or(real))
}

/// The path under which a shell found it; `None`: it was called otherwise.
fn find(called: &OsStr, search: &OsStr, directory: &Path, real: &Path) -> Option<PathBuf> {
    let real = real.canonicalize().ok()?;
    let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == real);
    if 1 < Path::new(called).components().count() {
        let path: PathBuf = directory.join(called).components().collect();
        let is_plain = !path.components().any(|part| part == Component::ParentDir);
        return Some(path).filter(|path| is_plain && is_it(path));
    }
    std::env::split_paths(search).map(|at| directory.join(at).join(called)).find(is_it)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_by_which_it_was_called_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["bin", "0.1", "other"] {
            std::fs::create_dir(at(directory)).unwrap();
        }
        let real = at("0.1/tasuki-linux");
        for file in [&real, &at("other/tasuki")] {
            std::fs::write(file, "").unwrap();
        }
        std::os::unix::fs::symlink(&real, at("bin/tasuki")).unwrap();
        let search = std::env::join_paths([at("none"), at("other"), at("bin")]).unwrap();
        let find = |called: &str| find(called.as_ref(), &search, &at("0.1"), &real);
        assert_eq!(find("tasuki"), Some(at("bin/tasuki")));
        assert_eq!(find("./tasuki-linux"), Some(at("0.1/tasuki-linux")));
        assert_eq!(find(at("bin/tasuki").to_str().unwrap()), Some(at("bin/tasuki")));
        for other in ["../bin/tasuki", "tasuki-linux", "../other/tasuki", "", "/none/tasuki"] {
            assert_eq!(find(other), None, "{other}");
        }
    }
}
