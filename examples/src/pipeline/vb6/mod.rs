//! What a module of VB6 uses: modules, procedures, globals and types of others, and the APIs of
//! libraries that are declared with `Declare`.
//!
//! `lex` makes statements of text, `module` reads what one module declares and names, `uses` holds
//! the names against the other modules of the project.
//!
//! Not here: members after `With`, and calls whose name is only known at run time (`CallByName`).

mod lex;
mod module;
mod uses;

use std::{
    fs,
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use serde_json::{Value, json};

use self::module::Module;

/// A module's text, in bytes.
pub const MODULE_BYTES_MAX: usize = 1024 * 1024;

/// Modules of one project.
pub const MODULES_MAX: usize = 1000;

/// Names in a project's directories that are looked at.
const ENTRIES_MAX: usize = 20_000;

/// Directories within one another.
const DEPTH_MAX: usize = 16;

/// How the names of modules end.
const EXTENSIONS: [&str; 3] = ["bas", "cls", "frm"];

/// A directory with the modules of a project.
#[derive(Debug, Clone)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of a module, by its path below the root.
    ///
    /// # Errors
    /// A sentence that says why it cannot be read.
    pub fn source(&self, path: &str) -> Result<String, String> {
        let is_inside = Path::new(path).components().all(|it| matches!(it, Component::Normal(_)));
        let is_module = Path::new(path).extension().is_some_and(is_module);
        if !is_inside || !is_module {
            return Err(format!(
                "{path:?} is no path of a module: a .bas, .cls or .frm file below the directory."
            ));
        }
        let cannot = |why: &dyn std::fmt::Display| format!("{path} cannot be read: {why}.");
        let root = fs::canonicalize(&self.root).map_err(|why| cannot(&why))?;
        let file = fs::canonicalize(root.join(path)).map_err(|why| cannot(&why))?;
        if !file.starts_with(&root) {
            return Err(cannot(&"it leads out of the directory"));
        }
        read(&file).map_err(|why| cannot(&why))
    }

    /// What a module has and uses, by its path below the root.
    ///
    /// # Errors
    /// A sentence that says why it could not be read.
    pub fn dependencies_of(&self, path: &str) -> Result<Value, String> {
        self.list(&parse(&self.source(path)?, Path::new(path)))
    }

    /// What a module has and uses, of which this is the text.
    ///
    /// # Errors
    /// A sentence that says why it could not be read.
    pub fn dependencies(&self, text: &str) -> Result<Value, String> {
        if MODULE_BYTES_MAX < text.len() {
            let bytes = text.len();
            return Err(format!("The module has {bytes} bytes; the limit is {MODULE_BYTES_MAX}."));
        }
        self.list(&Module::parse(text))
    }

    fn list(&self, module: &Module) -> Result<Value, String> {
        let others = self.modules()?;
        let others = others.iter().filter(|it| !it.name.eq_ignore_ascii_case(&module.name));
        let uses = uses::find(module, &others.collect::<Vec<_>>());
        let procedures = module.procedures.iter().map(|it| {
            json!({
                "name": it.name,
                "kind": it.kind.as_str(),
                "line": it.line,
                "is_public": it.is_public,
            })
        });
        Ok(json!({
            "module": module.name,
            "kind": if module.is_class { "class" } else { "module" },
            "procedures": procedures.collect::<Vec<_>>(),
            "globals": module.globals.iter().map(|it| &it.name).collect::<Vec<_>>(),
            "uses": uses.to_json(),
        }))
    }

    /// All modules below the root, by path. Links are not followed.
    fn modules(&self) -> Result<Vec<Module>, String> {
        let (mut paths, mut seen) = (Vec::new(), 0);
        let mut open = vec![(self.root.clone(), 1)];
        while let Some((directory, depth)) = open.pop() {
            let cannot = |why| format!("{} cannot be read: {why}.", directory.display());
            for entry in fs::read_dir(&directory).map_err(cannot)? {
                let entry = entry.map_err(cannot)?;
                let kind = entry.file_type().map_err(cannot)?;
                let path = entry.path();
                seen += 1;
                if ENTRIES_MAX < seen || MODULES_MAX < paths.len() {
                    return Err(format!(
                        "The project has more than {MODULES_MAX} modules or {ENTRIES_MAX} files, \
                         which is the limit."
                    ));
                }
                if kind.is_dir() && depth < DEPTH_MAX {
                    open.push((path, depth + 1));
                } else if kind.is_file() && path.extension().is_some_and(is_module) {
                    paths.push(path);
                }
            }
        }
        paths.sort();
        let module = |path: &PathBuf| match read(path) {
            Ok(text) => Ok(parse(&text, path)),
            Err(why) => Err(format!("{} cannot be read: {why}.", path.display())),
        };
        paths.iter().map(module).collect()
    }
}

/// A module that does not say its name is called like its file.
fn parse(text: &str, path: &Path) -> Module {
    let mut module = Module::parse(text);
    if module.name.is_empty() {
        module.name = path.file_stem().map(|it| it.to_string_lossy().into()).unwrap_or_default();
    }
    module
}

fn is_module(extension: &std::ffi::OsStr) -> bool {
    extension.to_str().is_some_and(|it| EXTENSIONS.iter().any(|one| it.eq_ignore_ascii_case(one)))
}

/// A file's text. VB6 wrote them in the code page of its machine: what is not UTF-8 is read as
/// Latin-1.
fn read(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|why| why.to_string())?;
    let mut bytes = Vec::new();
    let limit = MODULE_BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    if MODULE_BYTES_MAX < bytes.len() {
        return Err(format!("it has more than {MODULE_BYTES_MAX} bytes, which is the limit"));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(other) => other.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    })
}

#[cfg(test)]
mod tests;
