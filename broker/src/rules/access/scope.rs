//! What a token is good for, and where.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{RoleId, WorkspaceId},
    token::Right,
};

/// What a bearer may do.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Scope {
    /// `None`: in every workspace there is.
    #[n(0)]
    pub workspace: Option<WorkspaceId>,
    #[n(1)]
    pub roles: Roles,
    #[n(2)]
    pub rights: BTreeSet<Right>,
}

/// As which roles a bearer may act.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Roles {
    #[n(0)]
    Any,
    #[n(1)]
    Only(#[n(0)] BTreeSet<RoleId>),
}

impl Scope {
    /// Everything, everywhere.
    pub fn all() -> Self {
        let rights = Right::ALL.iter().copied().collect();
        Self { workspace: None, roles: Roles::Any, rights }
    }

    pub fn has_workspace(&self, workspace: &WorkspaceId) -> bool {
        self.workspace.as_ref().is_none_or(|own| own == workspace)
    }

    pub fn has_role(&self, role: &RoleId) -> bool {
        match &self.roles {
            Roles::Any => true,
            Roles::Only(roles) => roles.contains(role),
        }
    }

    pub fn has_right(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }
}
