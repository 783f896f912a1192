//! What a module uses: its names, held against what the others declare for all.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::module::{Module, Reference};

/// By name, each once.
#[derive(Debug, Default)]
pub(super) struct Uses {
    modules: BTreeSet<String>,
    /// Of other modules: `Tax.RateFor`.
    procedures: BTreeSet<String>,
    globals: BTreeSet<String>,
    types: BTreeSet<String>,
    /// Name, library, the library's own name, and the module that declares it.
    apis: BTreeSet<(String, String, Option<String>, String)>,
    objects: BTreeSet<String>,
}

impl Uses {
    pub(super) fn to_json(&self) -> Value {
        let apis = self.apis.iter().map(|(name, library, alias, module)| {
            json!({ "name": name, "library": library, "alias": alias, "declared_in": module })
        });
        json!({
            "modules": self.modules,
            "procedures": self.procedures,
            "globals": self.globals,
            "types": self.types,
            "apis": apis.collect::<Vec<_>>(),
            "objects": self.objects,
        })
    }

    fn add_api(&mut self, module: &Module, name: &str) -> bool {
        let Some(api) = module.apis.iter().find(|it| is_same(&it.name, name)) else {
            return false;
        };
        let (library, alias) = (api.library.clone(), api.alias.clone());
        self.apis.insert((api.name.clone(), library, alias, module.name.clone()));
        true
    }

    /// Adds what a module offers under a name, if it does.
    fn add_member(&mut self, module: &Module, name: &str) -> bool {
        let full = |own: &str| format!("{}.{own}", module.name);
        let procedure = module.procedures.iter().find(|it| it.is_public && is_same(&it.name, name));
        let global = module.globals.iter().find(|it| it.is_public && is_same(&it.name, name));
        let is_api = module.apis.iter().any(|it| it.is_public && is_same(&it.name, name));
        if let Some(procedure) = procedure {
            self.procedures.insert(full(&procedure.name));
        } else if let Some(global) = global {
            self.globals.insert(full(&global.name));
        } else if !is_api || !self.add_api(module, name) {
            return false;
        }
        self.modules.insert(module.name.clone());
        true
    }

    /// Adds a type that another module offers: a class is one, too.
    fn add_type(&mut self, others: &[&Module], of: Option<&str>, name: &str) {
        for module in others {
            if of.is_some_and(|of| !is_same(&module.name, of)) {
                continue;
            }
            let found = module.types.iter().find(|it| it.is_public && is_same(&it.name, name));
            if let Some(found) = found {
                self.types.insert(format!("{}.{}", module.name, found.name));
            } else if !(module.is_class && is_same(&module.name, name)) {
                continue;
            }
            self.modules.insert(module.name.clone());
        }
    }
}

/// What `module` uses of `others` and of libraries.
pub(super) fn find(module: &Module, others: &[&Module]) -> Uses {
    let mut uses = Uses::default();
    let other = |name: &str| others.iter().find(|it| is_same(&it.name, name)).copied();
    for reference in &module.references {
        match reference {
            Reference::Object(name) => {
                uses.objects.insert(name.clone());
            }
            Reference::Type { of, name } => {
                if !module.types.iter().any(|it| is_same(&it.name, name)) {
                    uses.add_type(others, of.as_deref(), name);
                }
            }
            Reference::MemberOfType { of, member } => {
                if let Some(class) = other(of).filter(|it| it.is_class) {
                    uses.add_member(class, member);
                }
            }
            Reference::Value { name, member } => {
                if uses.add_api(module, name) {
                    continue;
                }
                if let Some(own) = module.globals.iter().find(|it| is_same(&it.name, name)) {
                    let class = own.of.as_deref().and_then(other).filter(|it| it.is_class);
                    if let (Some(class), Some(member)) = (class, member) {
                        uses.add_member(class, member);
                    }
                    continue;
                }
                if let (true, Some(member)) = (is_same(&module.name, name), member) {
                    uses.add_api(module, member);
                    continue;
                }
                if module.procedures.iter().any(|it| is_same(&it.name, name)) {
                    continue;
                }
                match (other(name), member) {
                    (Some(named), Some(member)) => {
                        uses.modules.insert(named.name.clone());
                        uses.add_member(named, member);
                    }
                    // A class offers nothing without an object.
                    (_, _) => {
                        for module in others.iter().filter(|it| !it.is_class) {
                            uses.add_member(module, name);
                        }
                    }
                }
            }
        }
    }
    uses
}

/// Case does not count.
fn is_same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}
