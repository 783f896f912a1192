//! Hooks of ours in a coding agent's file of hooks.
//!
//! The file is JSON: a list of hooks for each event. Ours are known by the command that they call;
//! others' stay where they are.

use serde_json::Value as Json;

use super::{
    document::{Document, EditError, Value, keys},
    install_log::{Added, Applied},
};

pub(in crate::cli) const HOOKS: &str = "hooks";
const VERSION: &str = "version";

/// Where a hook stands.
#[derive(Debug, Clone)]
pub(in crate::cli) struct HookPlace {
    /// The event's name in the file.
    pub event: &'static str,
    /// Each item of the event's list is a hook, and the file has a version; else it is a group of
    /// hooks.
    pub is_flat: bool,
    /// Words of this program's command line, any of which a command of ours has.
    pub words: Vec<String>,
}

/// A hook of ours in a document.
struct Own {
    /// The index of its entry in the event's list.
    index: usize,
    /// The entry has no hooks of others.
    is_alone: bool,
    /// What to remove.
    places: Vec<Vec<String>>,
    command: String,
}

impl HookPlace {
    /// The command of our hook in a document.
    pub(in crate::cli) fn command(&self, document: &Document) -> Result<Option<String>, EditError> {
        Ok(self.own(document)?.into_iter().next().map(|own| own.command))
    }

    /// Puts our hook into a document, in the place of the one that is there.
    pub(in crate::cli) fn put(
        &self,
        entry: &Value,
        document: &mut Document,
    ) -> Result<Applied, EditError> {
        let list = self.list();
        let items = document.list(&list)?;
        let old = self.own(document)?.into_iter().next();
        if old.as_ref().is_some_and(|old| items[old.index] == entry.to_json()) {
            return Ok(Applied::default());
        }
        let mut applied = Applied { changed: vec![list.join(".")], ..Applied::default() };
        let version = keys([VERSION]);
        if self.is_flat && document.get(&version)?.is_none() {
            document.set(&version, &Value::Number(1))?;
            applied.added.push(Added::Rule { keys: version });
        }
        let index = match &old {
            None => items.len(),
            Some(old) => {
                remove(document, old)?;
                if old.is_alone { old.index } else { old.index + 1 }
            }
        };
        applied.made = document.insert(&list, index, entry)?;
        Ok(applied)
    }

    /// Takes our hooks out of a document. Returns the keys that changed.
    pub(in crate::cli) fn take(&self, document: &mut Document) -> Result<Vec<String>, EditError> {
        let found = self.own(document)?;
        for own in found.iter().rev() {
            remove(document, own)?;
        }
        Ok(found.iter().map(|_| self.list().join(".")).collect())
    }

    fn is_own(&self, command: &str) -> bool {
        let rest = self.words.iter().find_map(|words| Some(command.split_once(&**words)?.1));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    fn list(&self) -> Vec<String> {
        keys([HOOKS, self.event])
    }

    fn own(&self, document: &Document) -> Result<Vec<Own>, EditError> {
        let list = self.list();
        let inside = |more: &[String]| [&list, more].concat();
        let called = |hook: &Json| {
            let command = hook.get("command")?.as_str()?;
            self.is_own(command).then(|| command.to_owned())
        };
        let mut all = Vec::new();
        for (index, entry) in document.list(&list)?.iter().enumerate() {
            let place = inside(&[index.to_string()]);
            if self.is_flat {
                let own = called(entry);
                all.extend(own.map(|command| Own {
                    index,
                    is_alone: true,
                    places: vec![place],
                    command,
                }));
                continue;
            }
            let Some(hooks) = entry.get(HOOKS).and_then(Json::as_array) else { continue };
            let own = hooks.iter().enumerate().filter_map(|(at, hook)| Some((at, called(hook)?)));
            let (at, commands): (Vec<usize>, Vec<String>) = own.unzip();
            let Some(command) = commands.into_iter().next() else { continue };
            let is_alone = at.len() == hooks.len();
            let hook = |at: usize| inside(&[index.to_string(), HOOKS.to_owned(), at.to_string()]);
            let places = if is_alone { vec![place] } else { at.into_iter().map(hook).collect() };
            all.push(Own { index, is_alone, places, command });
        }
        Ok(all)
    }
}

/// Takes the version away that was added with our hooks, unless others' hooks need it, too.
pub(in crate::cli) fn take_version(
    document: &mut Document,
    added: &[Added],
) -> Result<(), EditError> {
    let version = keys([VERSION]);
    let is_added = added.contains(&Added::Rule { keys: version.clone() });
    let is_bare = |hooks: Json| {
        let lists = hooks.as_object().into_iter().flat_map(|hooks| hooks.values());
        lists.filter_map(Json::as_array).all(Vec::is_empty)
    };
    if is_added && document.get(&keys([HOOKS]))?.is_none_or(is_bare) {
        document.remove(&version)?;
    }
    Ok(())
}

fn remove(document: &mut Document, own: &Own) -> Result<(), EditError> {
    own.places.iter().rev().try_for_each(|place| document.remove(place))
}
