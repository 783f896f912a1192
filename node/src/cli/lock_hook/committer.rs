//! The role that commits or edits, whose own locks do not refuse it.

use tasuki_proto::id::RoleId;

use super::CalledArgs;
use crate::{
    cli::role_args::LocalRoles,
    config::{Config, Environment},
};

/// Who commits or edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Committer {
    Role(RoleId),
    /// One of these roles of this machine, or a person. None of their locks refuses: it may be the
    /// committer's own.
    Unknown(Vec<RoleId>),
}

impl Committer {
    pub(super) fn is_own(&self, holder: &str) -> bool {
        match self {
            Self::Role(role) => role.as_str() == holder,
            Self::Unknown(roles) => roles.iter().any(|role| role.as_str() == holder),
        }
    }
}

/// Fails with why, if something was given that is no role.
pub(super) fn who(args: &CalledArgs, config: &Config) -> Result<Committer, String> {
    match &args.role {
        Some(role) => Ok(Committer::Role(role.clone())),
        None => Ok(from_local(&LocalRoles::read(config, &Environment::of_process())?)),
    }
}

/// What runs here counts before the settings: a commit may be by any of the roles that are here, and
/// refusing it for one's own lock would be wrong.
fn from_local(here: &LocalRoles) -> Committer {
    match (&here.variable, here.all()) {
        (Some(role), _) | (None, [role]) => Committer::Role(role.clone()),
        (None, many) => Committer::Unknown(many.to_vec()),
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
            (Some(&b), &both[..], Committer::Role(b.clone())),
            (None, &both[..1], Committer::Role(a.clone())),
            (None, &both, Committer::Unknown(both.to_vec())),
            (None, &[], Committer::Unknown(Vec::new())),
        ] {
            assert_eq!(from_local(&LocalRoles::hosting(told.cloned(), here)), expected);
        }
        assert!(Committer::Unknown(both.to_vec()).is_own("B") && !Committer::Role(a).is_own("B"));
    }
}
