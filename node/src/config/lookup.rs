//! Which files are read, and which of them has the word where only one can.

use std::path::{Path, PathBuf};

use tasuki_proto::host::config::{self as broker, FileError, Found};

use super::{CONFIG_VARIABLE, Environment, Key, Layer, Problem, Raw, Source, Sourced, file};
use crate::filebox;

/// The agents of the nearest `.filebox`, as roles. It is looked for only where nobody gave any.
pub(super) fn filebox_layer(around: &Environment, problems: &mut Vec<Problem>) -> Option<Layer> {
    match filebox::Settings::find(&around.directory, around.home.as_deref()) {
        Ok(found) => {
            let found = found?;
            let texts: Vec<String> = found.roles().iter().map(ToString::to_string).collect();
            let source = Source::Filebox(found.path);
            (!texts.is_empty()).then(|| Layer::from([(Key::Roles, Raw { source, texts })]))
        }
        Err(bad) => {
            problems.push(Problem { at: Source::Filebox(bad.path), message: bad.why });
            None
        }
    }
}

/// The file that holds, and what is in it.
pub(super) fn find_file(
    named: Option<&Path>,
    around: &Environment,
    data: Option<&Path>,
) -> Result<Option<Found>, Problem> {
    let variable = around.env.get(CONFIG_VARIABLE).filter(|text| !text.is_empty());
    let named = named.map(Path::to_owned).or_else(|| variable.map(PathBuf::from));
    broker::find(named.as_deref(), &around.directory, data, &around.trusted).map_err(|why| {
        let (path, message) = match why {
            FileError::Unreadable { path, source } => (path, format!("cannot be read: {source}")),
            FileError::Wrong { path, message } => (path, message),
        };
        Problem { at: Source::File { path, line: 0 }, message }
    })
}

/// The operator's own files, where another file holds.
pub(super) fn files_beside(
    data: Option<&Path>,
    around: &Environment,
    problems: &mut Vec<Problem>,
) -> Vec<file::Contents> {
    let found = broker::beside(&around.directory, data, &around.trusted).ok().flatten();
    let all = found.iter().flat_map(Found::and_below);
    all.map(|it| file::of_operator(it, around.home.as_deref(), problems)).collect()
}

/// The first that counts of what these say, or, where they are silent, those beside them; and why
/// another one does not.
pub(super) fn first_that_counts<T>(
    files: &mut [file::Contents],
    beside: &mut [file::Contents],
    take: impl Fn(&mut file::Contents) -> Option<file::Counted<T>>,
) -> (Option<Sourced<T>>, Option<Problem>) {
    let mut said: Vec<_> = files.iter_mut().filter_map(&take).collect();
    if said.is_empty() {
        said = beside.iter_mut().filter_map(take).collect();
    }
    let mut passed_over = None;
    for one in said {
        match one {
            Ok(settings) => return (Some(settings), passed_over),
            Err(why) => passed_over = Some(why),
        }
    }
    (None, passed_over)
}
