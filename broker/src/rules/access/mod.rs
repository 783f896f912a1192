//! Who may do what: invitations and the tokens made with them.
//!
//! Kept in the reserved workspace [`system`](tasuki_proto::id::WorkspaceId::system) by the same
//! rules as everything else. Secrets and codes are made by whoever asks and come in as hashes, so a
//! command that is sent again is recognised by them and needs no idempotency key. A code names its
//! invitation and a first secret its token: their ids are the first 64 bits of these hashes.
//!
//! - **R1** A code makes at most one token, and none after its invitation expired or was withdrawn.
//! - **R2** A token that was revoked or has expired is never good again.
//! - **R3** Scope and expiry, once granted, do not change: a rotation only changes the secret.
//!
//! The last token that may administer can be revoked like any other: whoever starts the broker
//! can make a new one.
//!
//! Not here: what each call takes (`grpc/auth`), and who is connected (`access`).

mod apply;
mod decide;
mod scope;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use tasuki_proto::{
    id::{InvitationId, PersonId, RoleId, Timestamp, TokenId, WorkspaceId},
    token::SecretHash,
};

use super::{Acting, Kept, Needs, Rejection, privacy::Privacy};

pub use self::scope::{Roles, Scope};

/// Invitations remembered. Past it the one that is over for the longest is forgotten.
pub const INVITATIONS_MAX: usize = 1000;

/// Tokens remembered. Past it the one that is over for the longest is forgotten.
pub const TOKENS_MAX: usize = 10_000;

/// Tokens, and invitations, that one record ends because they expired.
pub const ENDED_AT_ONCE_MAX: usize = 256;

/// Attempts to use a code again that are remembered of one invitation.
pub const MISUSES_MAX: usize = 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub invitations: BTreeMap<InvitationId, Invitation>,
    pub tokens: BTreeMap<TokenId, Token>,
}

/// What a snapshot holds.
#[derive(Debug, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotItem<'a> {
    #[n(0)]
    Invitation(#[n(0)] Cow<'a, InvitationId>, #[n(1)] Cow<'a, Invitation>),
    #[n(1)]
    Token(#[n(0)] Cow<'a, TokenId>, #[n(1)] Cow<'a, Token>),
}

impl Kept for Access {
    type Item<'a> = SnapshotItem<'a>;

    fn items(&self) -> impl Iterator<Item = SnapshotItem<'_>> {
        let invitations = self.invitations.iter();
        let invitations = invitations
            .map(|(id, it)| SnapshotItem::Invitation(Cow::Borrowed(id), Cow::Borrowed(it)));
        let tokens = self.tokens.iter();
        invitations
            .chain(tokens.map(|(id, it)| SnapshotItem::Token(Cow::Borrowed(id), Cow::Borrowed(it))))
    }

    fn restore(&mut self, item: SnapshotItem<'_>) -> Result<(), &'static str> {
        match item {
            SnapshotItem::Invitation(id, it) => {
                self.invitations.insert(id.into_owned(), it.into_owned());
            }
            SnapshotItem::Token(id, it) => _ = self.tokens.insert(id.into_owned(), it.into_owned()),
        }
        Ok(())
    }
}

impl Access {
    /// Workspaces that a token is for, or an invitation that was not withdrawn.
    pub fn workspaces(&self) -> BTreeSet<WorkspaceId> {
        let invited = self.invitations.values().filter(|it| !it.is_withdrawn);
        let tokens = self.tokens.values().map(|it| &it.scope);
        let scopes = invited.map(|it| &it.scope).chain(tokens);
        scopes.filter_map(|scope| scope.workspace.clone()).collect()
    }
}

/// A way for one node to join.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Invitation {
    #[n(0)]
    pub code: SecretHash,
    #[n(1)]
    pub scope: Scope,
    /// For people: whom it is for.
    #[n(2)]
    pub label: String,
    #[n(3)]
    pub opened: Timestamp,
    #[n(4)]
    pub expires: Timestamp,
    /// How long the token made with it lives, in milliseconds; `None`: it does not expire.
    #[n(5)]
    pub token_valid_ms: Option<u64>,
    /// The token made with it, and when.
    #[n(6)]
    pub used: Option<(TokenId, Timestamp)>,
    #[n(7)]
    pub is_withdrawn: bool,
    /// Who tried it after it was used, oldest first; the first [`MISUSES_MAX`].
    #[n(8)]
    pub misuses: Vec<Misuse>,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Misuse {
    #[n(0)]
    pub at: Timestamp,
    #[n(1)]
    pub address: String,
}

/// What a bearer may do, and how to know it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Token {
    #[n(0)]
    pub secret: SecretHash,
    #[n(1)]
    pub scope: Scope,
    /// For people: whose it is.
    #[n(2)]
    pub label: String,
    #[n(3)]
    pub issued: Timestamp,
    /// `None`: it does not expire.
    #[n(4)]
    pub expires: Option<Timestamp>,
    #[n(5)]
    pub invitation: Option<InvitationId>,
    /// The secret before the latest rotation, and until when it is good.
    #[n(6)]
    pub old: Option<(SecretHash, Timestamp)>,
    #[n(7)]
    pub rotated: Option<Timestamp>,
    #[n(8)]
    pub revoked: Option<Timestamp>,
}

impl Access {
    /// How many tokens are good, and how many invitations are open.
    pub fn count_open(&self, now: Timestamp) -> (u64, u64) {
        let tokens = self.tokens.values().filter(|it| it.is_good(now)).count();
        let is_open = |it: &&Invitation| it.used.is_none() && !it.is_over(now);
        (tokens as u64, self.invitations.values().filter(is_open).count() as u64)
    }
}

impl Token {
    /// Whether its bearer may still act (R2).
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether `secret` is one of its secrets, however good the token is.
    pub fn knows(&self, secret: &SecretHash, now: Timestamp) -> bool {
        // Both are compared, whatever the first one says.
        let is_old = self.old.as_ref().is_some_and(|(old, until)| old == secret && now < *until);
        (self.secret == *secret) | is_old
    }
}

/// What can be asked of the system workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Invite(Invite),
    Withdraw {
        invitation: InvitationId,
    },
    Join(Join),
    /// Somebody tried a code that had been used.
    ReportMisuse {
        invitation: InvitationId,
        address: String,
    },
    Issue(Issue),
    Rotate(Rotate),
    /// A secret was used: if it is the newest, the one before ends.
    EndOldSecret {
        token: TokenId,
        used: SecretHash,
    },
    Revoke {
        token: TokenId,
    },
    /// Time passed. What it ended is written down, so that it stays over when a broker starts
    /// again with a clock that was set back.
    EndExpired,
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        None
    }

    fn person(&self) -> Option<&PersonId> {
        None
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    fn check_words(&self, _: &Privacy) -> Result<(), Rejection> {
        Ok(())
    }

    fn is_for_paused(&self) -> bool {
        true
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    pub code: SecretHash,
    pub scope: Scope,
    pub valid_ms: u64,
    pub token_valid_ms: Option<u64>,
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    pub code: SecretHash,
    pub secret: SecretHash,
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub secret: SecretHash,
    pub scope: Scope,
    pub valid_ms: Option<u64>,
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotate {
    pub token: TokenId,
    pub secret: SecretHash,
    pub overlap_ms: u64,
}

/// What happened. Times are the record's unless said.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(flat)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    #[n(0)]
    InvitationOpened(#[n(0)] InvitationOpened),
    #[n(1)]
    InvitationWithdrawn {
        #[n(0)]
        invitation: InvitationId,
    },
    #[n(2)]
    InvitationMisused {
        #[n(0)]
        invitation: InvitationId,
        #[n(1)]
        address: String,
    },
    #[n(3)]
    TokenIssued(#[n(0)] TokenIssued),
    #[n(4)]
    TokenRotated {
        #[n(0)]
        token: TokenId,
        #[n(1)]
        secret: SecretHash,
        #[n(2)]
        old_until: Timestamp,
    },
    #[n(5)]
    OldSecretEnded {
        #[n(0)]
        token: TokenId,
    },
    #[n(6)]
    TokenRevoked {
        #[n(0)]
        token: TokenId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(flat)]
pub enum Reply {
    #[n(0)]
    Invited {
        #[n(0)]
        invitation: InvitationId,
        #[n(1)]
        expires: Timestamp,
    },
    #[n(1)]
    Issued {
        #[n(0)]
        token: TokenId,
        #[n(1)]
        expires: Option<Timestamp>,
        #[n(2)]
        scope: Scope,
    },
    #[n(2)]
    Rotated {
        #[n(0)]
        token: TokenId,
        #[n(1)]
        old_until: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct InvitationOpened {
    #[n(0)]
    pub invitation: InvitationId,
    #[n(1)]
    pub code: SecretHash,
    #[n(2)]
    pub scope: Scope,
    #[n(3)]
    pub expires: Timestamp,
    #[n(4)]
    pub token_valid_ms: Option<u64>,
    #[n(5)]
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct TokenIssued {
    #[n(0)]
    pub token: TokenId,
    #[n(1)]
    pub secret: SecretHash,
    #[n(2)]
    pub scope: Scope,
    #[n(3)]
    pub expires: Option<Timestamp>,
    #[n(4)]
    pub label: String,
    /// The invitation it was made with.
    #[n(5)]
    pub invitation: Option<InvitationId>,
}

#[cfg(test)]
mod tests;
