//! Whose locks are one's own.

use tasuki_proto::id::RoleId;

use super::CalledArgs;
use crate::{
    cli::acting::Here,
    config::{Config, Environment},
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
    match &args.role {
        Some(role) => Ok(Who::Role(role.clone())),
        None => Ok(of(&Here::look(config, &Environment::of_process())?)),
    }
}

/// What runs here counts before the settings: a commit may be by any of the roles that are here, and
/// refusing it for one's own lock would be wrong.
fn of(here: &Here) -> Who {
    match (&here.told, here.all()) {
        (Some(role), _) | (None, [role]) => Who::Role(role.clone()),
        (None, many) => Who::Unsaid(many.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_counts_before_what_is_here() {
        let role = |name: &str| name.parse::<RoleId>().unwrap();
        let (a, b) = (role("A"), role("B"));
        let both = [a.clone(), b.clone()];
        for (told, here, expected) in [
            (Some(&b), &both[..], Who::Role(b.clone())),
            (None, &both[..1], Who::Role(a.clone())),
            (None, &both, Who::Unsaid(both.to_vec())),
            (None, &[], Who::Unsaid(Vec::new())),
        ] {
            assert_eq!(of(&Here::hosting(told.cloned(), here)), expected);
        }
        assert!(Who::Unsaid(both.to_vec()).is_own("B") && !Who::Role(a).is_own("B"));
    }
}
