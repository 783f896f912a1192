//! Tells a keeper which files somebody touched.

use std::{path::Path, sync::Arc};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tasuki_proto::mail::BoxKind;

use super::{dirty_set::DirtySet, home::Boxes};

/// Lasts until it is dropped. `Err`: the system does not tell, for this reason.
pub(super) fn watch(
    boxes: &Arc<Boxes>,
    dirty: &Arc<DirtySet>,
) -> Result<RecommendedWatcher, String> {
    let (of, told) = (boxes.clone(), dirty.clone());
    let handler = move |event: notify::Result<Event>| match event {
        Ok(event) => tell(&of, &told, &event),
        Err(error) => {
            tracing::debug!(%error, "the system lost track of a mailbox");
            told.all_files();
        }
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(|why| why.to_string())?;
    for kind in BoxKind::ALL {
        let folder = boxes.folder(kind).path();
        watcher
            .watch(folder, RecursiveMode::NonRecursive)
            .map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    Ok(watcher)
}

fn tell(boxes: &Boxes, dirty: &DirtySet, event: &Event) {
    if event.need_rescan() {
        return dirty.all_files();
    }
    if event.kind.is_access() {
        return;
    }
    for path in &event.paths {
        if boxes.kind_of(path).is_some() {
            dirty.all_files();
        } else if let Some((kind, name)) = place(boxes, path)
            && !name.starts_with('.')
        {
            dirty.file(kind, name);
        }
    }
}

fn place(boxes: &Boxes, path: &Path) -> Option<(BoxKind, String)> {
    let kind = boxes.kind_of(path.parent()?)?;
    Some((kind, path.file_name()?.to_str()?.to_owned()))
}
