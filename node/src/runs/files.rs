//! Files that sub-agents hand over: read in the project that agents of this node work in, and saved
//! there.
//!
//! What may be read and where it is saved is said in `attached` (Z8).

use std::path::{Component, Path, PathBuf};

use tasuki_proto::{echo::echo, limits::RUN_FILE_BYTES_MAX, reason::Reason, run::StepId, wire};

use super::{client::RunCaller, host::RunsHost};
use crate::{
    attached::{No, Project, media_type, name_of, on_disk},
    refusal::Refusal,
};

/// A file with its content.
#[derive(Debug, Clone, PartialEq)]
pub struct HandedFile {
    pub about: wire::RunFile,
    pub content: Vec<u8>,
}

impl RunsHost {
    /// What the agent of a step hands over: a path in the project, which may be relative to where
    /// the agent works. `private`: what is not read wherever it lies.
    pub(crate) async fn read_file(
        &self,
        step: StepId,
        path: &str,
        private: &[PathBuf],
    ) -> Result<HandedFile, Refusal> {
        let project = self.own.project.clone();
        let directory = self.steps.directory(step).unwrap_or_else(|| project.clone());
        let (from, private) = (seen_from(&directory, Path::new(path)), private.to_vec());
        let read = on_disk(move || {
            let project = Project::of(&project, None, &private);
            let content = project.read_up_to(&from, RUN_FILE_BYTES_MAX as u64)?;
            Ok((content, from))
        });
        let (content, from) = read.await.map_err(|why| not_read(path, &why))?;
        let name = name_of(&from).ok_or_else(|| Refusal {
            reason: Reason::InvalidArgument,
            message: format!(
                "`file` names {}, whose name cannot be shown. Nothing was sent.",
                echo(path)
            ),
        })?;
        let about = wire::RunFile {
            name: name.to_owned(),
            media_type: media_type(&from).to_owned(),
            size: content.len() as u64,
        };
        Ok(HandedFile { about, content: content.into() })
    }

    /// Saves a file where who speaks has its files: a sub-agent where it works, a role in the
    /// project. Returns the path from there.
    pub(crate) async fn save_file(
        &self,
        caller: &RunCaller,
        name: &str,
        content: Vec<u8>,
        private: &[PathBuf],
    ) -> Result<PathBuf, Refusal> {
        let below = match caller {
            RunCaller::Step(key) => self.steps.directory(key.step()),
            RunCaller::Role(_) => None,
        };
        let (root, name, private) = (self.own.project.clone(), name.to_owned(), private.to_vec());
        let save = move || Project::of(&root, below, &private).save(&name, &content);
        on_disk(save).await.map_err(|why| Refusal {
            reason: Reason::Unavailable,
            message: format!("The file cannot be saved: {why}. Nothing was changed."),
        })
    }
}

fn not_read(path: &str, why: &No) -> Refusal {
    let reason = match why {
        No::TooLarge(_) => Reason::TooLarge,
        No::Outside(_) | No::Private(_) | No::Key(_) | No::NoFile(_) | No::Taken | No::Io(_) => {
            Reason::InvalidArgument
        }
    };
    Refusal { reason, message: format!("`file` names {}: {why}. Nothing was sent.", echo(path)) }
}

/// Where a path leads from a directory. Nothing is looked up: no link in it is followed later.
fn seen_from(directory: &Path, path: &Path) -> PathBuf {
    let mut seen = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::ParentDir => _ = seen.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => seen.push(part),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_seen_from_where_the_agent_works() {
        for (path, seen) in [
            ("plan.md", "/p/web/plan.md"),
            ("./a/../plan.md", "/p/web/plan.md"),
            ("../plan.md", "/p/plan.md"),
            ("/p/plan.md", "/p/plan.md"),
            ("../../etc/passwd", "/etc/passwd"),
            ("../../../..", "/"),
        ] {
            assert_eq!(seen_from(Path::new("/p/web"), Path::new(path)), Path::new(seen), "{path}");
        }
    }
}
