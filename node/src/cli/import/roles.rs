//! Which role each agent becomes.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use tasuki_proto::id::RoleId;

use super::Failure;
use crate::filebox::{FileCopy, role_of};

/// `OLD=NEW`, as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Renaming {
    pub(super) old: String,
    pub(super) new: RoleId,
}

impl FromStr for Renaming {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (old, new) = text.rsplit_once('=').ok_or("takes OLD=NEW")?;
        let new = new.parse().map_err(|why| format!("names the role {new:?}, which {why}"))?;
        Ok(Self { old: old.to_owned(), new })
    }
}

/// The role of every name there is.
#[derive(Debug)]
pub(super) struct Roles(BTreeMap<String, RoleId>);

impl Roles {
    /// Two agents become one role only if somebody said so.
    pub(super) fn of(copies: &[FileCopy], given: &[Renaming]) -> Result<Self, Failure> {
        let names: BTreeSet<&str> = copies.iter().flat_map(names).collect();
        let unknown = given.iter().find(|it| !names.contains(it.old.as_str()));
        if let Some(Renaming { old, .. }) = unknown {
            let names: Vec<&str> = names.into_iter().collect();
            return Err(Failure::usage(format!(
                "--role renames {old:?}, and there is no such agent; there are {}.",
                names.join(", ")
            )));
        }
        let mut roles = BTreeMap::new();
        let mut taken: BTreeMap<RoleId, &str> = BTreeMap::new();
        for name in names {
            let said = given.iter().rfind(|it| it.old == name);
            let role = said.map_or_else(|| role_of(name), |it| it.new.clone());
            if said.is_none()
                && let Some(other) = taken.insert(role.clone(), name)
            {
                return Err(Failure::usage(format!(
                    "The agents {other:?} and {name:?} would both be the role {role}: say which is \
                     what with --role {name:?}=NEW."
                )));
            }
            roles.insert(name.to_owned(), role);
        }
        Ok(Self(roles))
    }

    /// Puts roles where the agents' names are.
    pub(super) fn rename(&self, copy: &mut FileCopy) {
        let fit = |name: &mut String| *name = self.0[name.as_str()].to_string();
        let document = &mut copy.document;
        fit(&mut document.original_sender);
        copy.agents.iter_mut().for_each(fit);
        for entry in &mut document.entries {
            fit(&mut entry.from);
            entry.to.iter_mut().for_each(fit);
            // Two that became one are told once.
            let mut known = BTreeSet::new();
            entry.to.retain(|it| known.insert(it.clone()));
        }
    }

    /// Those that are called otherwise than before.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&str, &RoleId)> {
        let all = self.0.iter().map(|(name, role)| (name.as_str(), role));
        all.filter(|(name, role)| *name != role.as_str())
    }
}

fn names(copy: &FileCopy) -> impl Iterator<Item = &str> {
    let document = &copy.document;
    let entries = &document.entries;
    let of_entries = entries.iter().flat_map(|it| it.to.iter().chain([&it.from]));
    let all = copy.agents.iter().chain([&document.original_sender]).chain(of_entries);
    all.map(String::as_str)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::mail::BoxKind;

    use super::*;
    use crate::filebox::{Document, Entry};

    fn copy(from: &str, to: &[&str]) -> FileCopy {
        let entry = Entry::new(Default::default(), from, to, "BR", "x");
        let document = Document::new(None, "BR", "t", vec![entry]);
        let agents = vec![to[0].to_owned()];
        FileCopy { path: "/x.md".into(), place: BoxKind::Inbox, agents, document }
    }

    fn given(all: &[&str]) -> Vec<Renaming> {
        all.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn two_agents_are_one_role_only_if_somebody_says_so() {
        let copies = [copy("qa agent", &["qa-agent", "dev"])];
        let said = Roles::of(&copies, &[]).unwrap_err().message;
        assert!(said.contains("\"qa agent\" and \"qa-agent\" would both be"), "{said}");
        let roles = Roles::of(&copies, &given(&["qa agent=dev"])).unwrap();
        let mut it = copies[0].clone();
        roles.rename(&mut it);
        assert_eq!(it.document.entries[0].from, "dev");
        assert_eq!(it.document.entries[0].to, ["qa-agent", "dev"]);
        let changed: Vec<String> = roles.changed().map(|(a, b)| format!("{a}={b}")).collect();
        assert_eq!(changed, ["qa agent=dev"]);
        let said = Roles::of(&copies, &given(&["ops=x"])).unwrap_err().message;
        assert!(said.contains("no such agent; there are dev, qa agent, qa-agent."), "{said}");
        assert!("x".parse::<Renaming>().is_err() && "x=a b".parse::<Renaming>().is_err());
    }
}
