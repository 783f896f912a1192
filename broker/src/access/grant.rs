//! What a call may do, by what it showed.

use std::sync::Arc;

use tasuki_proto::{
    id::{RoleId, TokenId, WorkspaceId},
    reason::Reason,
    rpc::CallKind,
    token::Right,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::ActiveToken;
use crate::{
    connection::Peer,
    rules::access::{Roles, Scope},
};

/// Connections of one token: an eighth of what one address has, since many nodes may share that.
/// A node has one or two; past it the oldest is cut.
pub const CONNECTIONS_PER_TOKEN_MAX: usize = 64;

/// Calls of one token under way: a sixteenth of what one workspace admits. A node has 64 at most.
pub const CALLS_PER_TOKEN_MAX: usize = 256;

/// Streams of one token open at once. A node has up to three; the rest is for people who watch.
pub const STREAMS_PER_TOKEN_MAX: usize = 64;

/// Waits of one token parked at once: a fifth of what one workspace parks.
pub const WAITS_PER_TOKEN_MAX: usize = 4096;

/// Waits of one token that are calls of their own, each with an answer of up to half a MiB that its
/// reader may leave unread. A node parks its waits on one stream instead.
pub const HELD_PER_TOKEN_MAX: usize = 128;

/// Large answers (histories, lists) of one token being made at once: each may be 4 MiB.
pub const PAGES_PER_TOKEN_MAX: usize = 8;

/// Messages of one token's calls that come in, or are on their way to the disk, in KiB: a quarter
/// of what all share.
pub const IN_FLIGHT_PER_TOKEN_KIB_MAX: usize = 64 * 1024;

/// What a call may do. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Grant {
    /// On a broker that asks for none: everything but administration.
    Open,
    /// Nobody looked for a token, because the call takes none: no workspace, role or right.
    Stranger,
    Token(Arc<ActiveToken>),
}

/// A place among what a token has under way, given back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct CallSlot {
    _call: Option<OwnedSemaphorePermit>,
    _page: Option<OwnedSemaphorePermit>,
}

impl Grant {
    pub(crate) fn token(&self) -> Option<&TokenId> {
        match self {
            Self::Open | Self::Stranger => None,
            Self::Token(live) => Some(&live.id),
        }
    }

    pub(crate) fn has_right(&self, right: Right) -> bool {
        match self {
            Self::Open => right != Right::Admin,
            Self::Stranger => false,
            Self::Token(live) => live.scope.has_right(right),
        }
    }

    pub(crate) fn has_role(&self, role: &RoleId) -> bool {
        match self {
            Self::Open => true,
            Self::Stranger => false,
            Self::Token(live) => live.scope.has_role(role),
        }
    }

    pub(crate) fn has_workspace(&self, workspace: &WorkspaceId) -> bool {
        match self {
            Self::Open => true,
            Self::Stranger => false,
            Self::Token(live) => live.scope.has_workspace(workspace),
        }
    }

    /// Whether it is for every workspace there is.
    pub(crate) fn has_all_workspaces(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Stranger => false,
            Self::Token(live) => live.scope.workspace.is_none(),
        }
    }

    /// Notes that its token was shown on a connection, which ends with it.
    pub(crate) fn shown_on(&self, peer: &Arc<Peer>) {
        if let Self::Token(live) = self {
            live.shown_on(peer);
        }
    }

    /// The only workspace it is for.
    pub(crate) fn workspace(&self) -> Option<&WorkspaceId> {
        match self {
            Self::Open | Self::Stranger => None,
            Self::Token(live) => live.scope.workspace.as_ref(),
        }
    }

    /// Whether whoever has this may give `scope` away.
    pub fn covers(&self, scope: &Scope) -> bool {
        let Self::Token(live) = self else { return false };
        let own = &live.scope;
        let workspaces = match (&own.workspace, &scope.workspace) {
            (None, _) => true,
            (Some(own), Some(wanted)) => own == wanted,
            (Some(_), None) => false,
        };
        let roles = match (&own.roles, &scope.roles) {
            (Roles::Any, _) => true,
            (Roles::Only(own), Roles::Only(wanted)) => wanted.is_subset(own),
            (Roles::Only(_), Roles::Any) => false,
        };
        own.has_right(Right::Admin) && workspaces && roles && scope.rights.is_subset(&own.rights)
    }

    /// Takes a place among what the token has under way (E2).
    pub(crate) fn enter(&self, kind: CallKind) -> Result<CallSlot, Status> {
        let Self::Token(live) = self else { return Ok(CallSlot::default()) };
        let take = |what: &str, of: &Arc<Semaphore>, limit: usize| {
            of.clone().try_acquire_owned().map_err(|_| overloaded(limit, what))
        };
        let call = || take("calls", &live.calls, CALLS_PER_TOKEN_MAX);
        Ok(match kind {
            CallKind::Command | CallKind::Query => CallSlot { _call: Some(call()?), _page: None },
            CallKind::Page => {
                let page = take("large reads", &live.pages, PAGES_PER_TOKEN_MAX)?;
                CallSlot { _call: Some(call()?), _page: Some(page) }
            }
            CallKind::Stream => {
                let stream = take("streams", &live.streams, STREAMS_PER_TOKEN_MAX)?;
                CallSlot { _call: Some(stream), _page: None }
            }
            CallKind::Wait => {
                let held = take("held calls", &live.held, HELD_PER_TOKEN_MAX)?;
                CallSlot { _call: self.wait()?, _page: Some(held) }
            }
        })
    }

    /// A place for one parked wait; `None` where there is no bound of its own.
    pub(crate) fn wait(&self) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let Self::Token(live) = self else { return Ok(None) };
        let place = live.waits.clone().try_acquire_owned();
        place.map(Some).map_err(|_| overloaded(WAITS_PER_TOKEN_MAX, "waits"))
    }

    /// A place for so many bytes among those that the token has in flight.
    pub(crate) fn reserve_bytes(
        &self,
        bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let Self::Token(live) = self else { return Ok(None) };
        reserve_kib(&live.in_flight_kib, bytes.div_ceil(1024)).map(Some)
    }

    /// Resolves once the token is no longer good.
    pub(crate) fn ended(&self) -> Ended {
        match self {
            Self::Open | Self::Stranger => Box::pin(std::future::pending()),
            Self::Token(live) => Box::pin(live.ended.clone().cancelled_owned()),
        }
    }
}

/// The same, in KiB.
pub(crate) fn reserve_kib(
    in_flight_kib: &Arc<Semaphore>,
    kib: usize,
) -> Result<OwnedSemaphorePermit, Status> {
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    let place = in_flight_kib.clone().try_acquire_many_owned(kib);
    place.map_err(|_| overloaded(IN_FLIGHT_PER_TOKEN_KIB_MAX, "KiB of messages"))
}

/// The end of a grant.
pub type Ended = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn overloaded(limit: usize, what: &str) -> Status {
    Reason::Overloaded.status(format!(
        "{limit} {what} of this token are under way already, which is its limit; try again shortly"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::access::Token;

    #[test]
    fn a_stranger_may_do_nothing() {
        let (workspace, role) = ("w".parse().unwrap(), "A".parse().unwrap());
        assert!(Right::ALL.iter().all(|right| !Grant::Stranger.has_right(*right)));
        assert!(!Grant::Stranger.has_workspace(&workspace) && !Grant::Stranger.has_role(&role));
        assert!(!Grant::Stranger.covers(&Scope::all()) && Grant::Stranger.token().is_none());
    }

    #[test]
    fn bytes_of_one_token_in_flight_are_bounded_and_given_back() {
        let secret = tasuki_proto::token::Secret::new([7; 32]).hash();
        let token = Token {
            secret,
            scope: Scope::all(),
            label: String::new(),
            issued: tasuki_proto::id::Timestamp::from_millis(1),
            expires: None,
            invitation: None,
            old: None,
            rotated: None,
            revoked: None,
        };
        let grant = Grant::Token(Arc::new(ActiveToken::new("0011".parse().unwrap(), &token)));
        let most = IN_FLIGHT_PER_TOKEN_KIB_MAX * 1024 - 512 * 1024;
        let held = grant.reserve_bytes(most).unwrap();
        let largest = grant.reserve_bytes(512 * 1024).unwrap();
        let refused = grant.reserve_bytes(1).unwrap_err();
        assert_eq!(Reason::of(&refused), Some(Reason::Overloaded));
        drop(largest);
        assert!(grant.reserve_bytes(1).unwrap().is_some() && held.is_some());
        assert!(Grant::Open.reserve_bytes(usize::MAX).unwrap().is_none());
    }
}
