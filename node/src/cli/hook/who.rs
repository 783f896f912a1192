//! Whose locks are one's own.

use tasuki_proto::id::RoleId;

use super::CalledArgs;
use crate::{
    config::{Config, ROLE_VARIABLE, Source},
    paths::NodeFile,
};

/// Who commits or edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Who {
    Role(RoleId),
    /// One of this machine's, or a person; nothing says which. None of their locks refuses: it may
    /// be one's own.
    Unsaid(Vec<RoleId>),
}

impl Who {
    pub(super) fn is_own(&self, holder: &str) -> bool {
        match self {
            Self::Role(role) => role.as_str() == holder,
            Self::Unsaid(roles) => roles.iter().any(|role| role.as_str() == holder),
        }
    }
}

/// Says why it cannot be told, where somebody said something that is no role.
pub(super) fn who(args: &CalledArgs, config: &Config) -> Result<Who, String> {
    let told = std::env::var(ROLE_VARIABLE).ok();
    of(args.role.as_ref(), told.as_deref(), &here(config))
}

/// The roles of this machine: those of the running node, else those in its settings.
fn here(config: &Config) -> Vec<RoleId> {
    let running = NodeFile::read(&config.data.value);
    if let Some(node) = running.filter(|it| it.workspace == config.workspace.value.as_str()) {
        return node.roles.iter().filter_map(|it| it.parse().ok()).collect();
    }
    match config.roles.source {
        Source::Default => Vec::new(),
        Source::Filebox(_) | Source::File { .. } | Source::Env(_) | Source::Flag(_) => {
            config.roles.value.iter().map(|role| role.name.clone()).collect()
        }
    }
}

fn of(flag: Option<&RoleId>, variable: Option<&str>, here: &[RoleId]) -> Result<Who, String> {
    if let Some(role) = flag {
        return Ok(Who::Role(role.clone()));
    }
    if let Some(name) = variable.filter(|it| !it.is_empty()) {
        let role = name.parse().map_err(|why| format!("{ROLE_VARIABLE} is {name:?}, which {why}"));
        return role.map(Who::Role);
    }
    Ok(match here {
        [one] => Who::Role(one.clone()),
        many => Who::Unsaid(many.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_counts_before_what_is_here() {
        let role = |name: &str| name.parse::<RoleId>().unwrap();
        let (a, b) = (role("A"), role("B"));
        let both = [a.clone(), b.clone()];
        for (flag, variable, here, expected) in [
            (Some(&a), Some("B"), &both[..], Who::Role(a.clone())),
            (None, Some("B"), &both, Who::Role(b)),
            (None, Some(""), &both[..1], Who::Role(a.clone())),
            (None, None, &both[..1], Who::Role(a.clone())),
            (None, None, &both, Who::Unsaid(both.to_vec())),
            (None, None, &[], Who::Unsaid(Vec::new())),
        ] {
            assert_eq!(of(flag, variable, here).unwrap(), expected);
        }
        assert!(of(None, Some("no role"), &both).unwrap_err().starts_with("TASUKI_ROLE is "));
        assert!(Who::Unsaid(both.to_vec()).is_own("B") && !Who::Role(a).is_own("B"));
    }
}
