//! Who may act right now: the tokens that are good, and what each has under way.
//!
//! The truth is in the system workspace (`rules::access`); this is what is made of it for the
//! sake of speed, brought up to date before an access command is answered.
//!
//! - **E1** Once a revocation is answered, its token is refused; what it had open ends within
//!   [`END_MS_MAX`].
//! - **E2** What one token has under way is bounded, so that it cannot use up what all share.
//! - **E3** Who shows no token, or a wrong one, learns only that; and the more often, the slower.
//!
//! Not here: what each call takes (`grpc/auth`), and what a scope is (`rules::access`).

mod active_token;
mod grant;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::{RwLock, RwLockReadGuard};
use tasuki_proto::{
    id::{Sequence, Timestamp, TokenId, WorkspaceId},
    net::auth_backoff::AuthBackoff,
    token::{SecretHash, Token as Presented},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::active_token::ActiveToken;
pub use self::grant::{
    CALLS_PER_TOKEN_MAX, CONNECTIONS_PER_TOKEN_MAX, Ended, Grant, HELD_PER_TOKEN_MAX,
    IN_FLIGHT_PER_TOKEN_KIB_MAX, PAGES_PER_TOKEN_MAX, STREAMS_PER_TOKEN_MAX, WAITS_PER_TOKEN_MAX,
};
pub(crate) use self::grant::{CallSlot, reserve_kib};
use crate::{
    clock::Clock,
    rules::{Caller, Command, Reply, Request, access},
    workspace::{ExecuteError, Executed, Workspaces},
};

/// From a revocation to the end of what the token had open, in milliseconds: streams are told why
/// first, then connections are cut.
pub const END_MS_MAX: u64 = 1000;

/// Between two looks for tokens that expired, in milliseconds.
const SWEEP_MS: u64 = 250;

/// Between two records of what expired, in milliseconds: a broker that ends in between and starts
/// with a clock that was set back takes up where its latest record was.
const END_EXPIRED_MS: u64 = 2_000;

/// Why a call is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("this broker asks for a token: metadata `authorization: Bearer tasuki_…`")]
    Missing,
    #[error("this is not a token that this broker gave")]
    Unknown,
    #[error("the token has expired; ask for an invitation and join again")]
    Expired,
    #[error("the token was revoked; ask for an invitation and join again")]
    Revoked,
}

/// All tokens of a broker. Cheap to clone.
#[derive(Clone)]
pub struct Tokens {
    shared: Arc<Shared>,
}

struct Shared {
    workspaces: Workspaces,
    clock: Clock,
    is_guarded: bool,
    table: RwLock<Table>,
    backoff: AuthBackoff,
}

#[derive(Default)]
struct Table {
    /// Of the system workspace, that this was made of.
    sequence: Sequence,
    /// What the system workspace's time is ahead of the clock, in milliseconds.
    ahead_ms: u64,
    live: BTreeMap<TokenId, Arc<ActiveToken>>,
    /// That tokens and invitations are for.
    workspaces: BTreeSet<WorkspaceId>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("is_guarded", &self.shared.is_guarded)
            .finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads what tokens there are. `is_guarded`: every call must show one.
    ///
    /// # Errors
    /// When the system workspace cannot be read.
    pub async fn start(
        workspaces: &Workspaces,
        clock: Clock,
        is_guarded: bool,
        stopping: CancellationToken,
    ) -> Result<Self, ExecuteError> {
        let shared = Arc::new(Shared {
            workspaces: workspaces.clone(),
            clock,
            is_guarded,
            table: RwLock::default(),
            backoff: AuthBackoff::new(0),
        });
        let tokens = Self { shared };
        tokens.refresh().await?;
        let sweeping = tokens.clone();
        let stopped = stopping.clone();
        tokio::spawn(stopped.run_until_cancelled_owned(async move { sweeping.sweep().await }));
        if is_guarded {
            let ending = tokens.clone();
            tokio::spawn(stopping.run_until_cancelled_owned(async move { ending.end().await }));
        }
        Ok(tokens)
    }

    /// Whether every call must show a token.
    pub fn is_guarded(&self) -> bool {
        self.shared.is_guarded
    }

    /// Who calls, by what the call shows.
    pub(crate) fn authenticate(&self, shown: Option<&str>) -> Result<Grant, Denied> {
        let Some(shown) = shown else {
            return if self.is_guarded() { Err(Denied::Missing) } else { Ok(Grant::Open) };
        };
        let shown: Presented = shown.parse().map_err(|_| Denied::Unknown)?;
        let live = self.get(&shown.id).ok_or(Denied::Unknown)?;
        let now = self.now();
        let used = shown.secret.hash();
        let is_newest = live.recognise(&used, now).ok_or(Denied::Unknown)?;
        live.check(now)?;
        live.used(now);
        if is_newest && live.takes_old() {
            let tokens = self.clone();
            let (token, ending) = (shown.id, Arc::clone(&live));
            tokio::spawn(async move {
                let end = access::Command::EndOldSecret { token, used };
                let ended = tokens.execute(end, None, 0).await;
                if let Err(error) = ended {
                    warn!(%error, "the old secret of a rotated token is ended at its next use");
                    ending.keeps_old();
                }
            });
        }
        Ok(Grant::Token(live))
    }

    /// Whether the token with this id may still act.
    pub(crate) fn is_good(&self, token: &TokenId) -> bool {
        self.get(token).is_some_and(|live| live.check(self.now()).is_ok())
    }

    /// A token by its id, as long as it is remembered.
    pub(crate) fn get(&self, token: &TokenId) -> Option<Arc<ActiveToken>> {
        self.table().live.get(token).cloned()
    }

    /// Workspaces that tokens and invitations are for: whoever made those made them too.
    pub(crate) fn workspaces(&self) -> BTreeSet<WorkspaceId> {
        self.table().workspaces.clone()
    }

    /// Whether a workspace is one of them.
    pub(crate) fn names(&self, workspace: &WorkspaceId) -> bool {
        self.table().workspaces.contains(workspace)
    }

    /// Executes an access command and updates this table, even if its caller leaves meanwhile.
    /// `bytes`: the encoded size of the command.
    pub(crate) async fn execute(
        &self,
        command: access::Command,
        by: Option<TokenId>,
        bytes: usize,
    ) -> Result<Executed, ExecuteError> {
        let tokens = self.clone();
        let done = tokio::spawn(async move {
            let caller = Caller { node: None, token: by };
            let request = Request { caller, key: None, command: Command::Access(command) };
            let workspaces = &tokens.shared.workspaces;
            let executed = workspaces
                .execute(&WorkspaceId::system(), request, bytes, |_, executed| executed)
                .await;
            // What changed nothing makes no work: strangers could ask for it again and again.
            let is_known = match &executed {
                Ok(executed) => executed.sequence <= tokens.table().sequence,
                Err(error) => matches!(error, ExecuteError::Rejected(_)),
            };
            if !is_known {
                tokens.refresh().await?;
            }
            executed
        });
        done.await.unwrap_or(Err(ExecuteError::OutcomeUnknown))
    }

    /// Whether this token may do everything.
    pub fn administrates(&self, token: &Presented) -> bool {
        let grant = self.authenticate(Some(&token.expose()));
        grant.is_ok_and(|grant| grant.covers(&access::Scope::all()))
    }

    /// Makes a token that may do everything, in place of those that were made so before: whoever
    /// needs another has lost them, or let others read them.
    ///
    /// # Errors
    /// When the system workspace does not answer.
    pub async fn issue_administrator(
        &self,
        secret: SecretHash,
        label: &str,
    ) -> Result<TokenId, ExecuteError> {
        let system = WorkspaceId::system();
        let known = self.shared.workspaces.query(&system, |view| view.workspace.access.clone());
        let earlier = known.await?.tokens.into_iter().filter(|(_, it)| {
            let is_made_here = it.invitation.is_none() && it.label == label;
            is_made_here && it.scope == access::Scope::all() && it.revoked.is_none()
        });
        for (token, _) in earlier {
            info!(%token, "revoked a token for administration that is no longer in use");
            self.execute(access::Command::Revoke { token }, None, 0).await?;
        }
        let issue = access::Issue {
            secret,
            scope: access::Scope::all(),
            valid_ms: None,
            label: label.to_owned(),
        };
        let executed = self.execute(access::Command::Issue(issue), None, 0).await?;
        let Reply::Access(access::Reply::Issued { token, .. }) = executed.reply else {
            unreachable!("a token is issued or refused")
        };
        info!(%token, "made a token for administration");
        Ok(token)
    }

    pub(crate) fn backoff(&self) -> &AuthBackoff {
        &self.shared.backoff
    }

    /// The system workspace's time.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead_ms = self.table().ahead_ms;
        self.shared.clock.now().plus_millis(ahead_ms)
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.shared.table.read()
    }

    async fn refresh(&self) -> Result<(), ExecuteError> {
        let system = WorkspaceId::system();
        let clock = self.shared.clock.clone();
        let seen = self.shared.workspaces.query(&system, move |view| {
            let ahead_ms = view.now.millis_since(clock.now());
            let access = &view.workspace.access;
            (view.workspace.sequence, ahead_ms, access.tokens.clone(), access.workspaces())
        });
        let (sequence, ahead_ms, tokens, workspaces) = seen.await?;
        let mut table = self.shared.table.write();
        if sequence < table.sequence {
            return Ok(());
        }
        table.sequence = sequence;
        table.ahead_ms = ahead_ms;
        table.workspaces = workspaces;
        table.live.retain(|id, live| {
            let is_kept = tokens.contains_key(id);
            if !is_kept {
                live.end();
            }
            is_kept
        });
        for (id, token) in tokens {
            match table.live.get(&id) {
                Some(live) => live.update(&token),
                None => {
                    table.live.insert(id.clone(), Arc::new(ActiveToken::new(id, &token)));
                }
            }
        }
        Ok(())
    }

    /// Has written down what expired (R2). It also keeps the system workspace awake, and with it
    /// the time that was.
    async fn end(&self) {
        let mut every = tokio::time::interval(Duration::from_millis(END_EXPIRED_MS));
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if let Err(error) = self.execute(access::Command::EndExpired, None, 0).await {
                warn!(%error, "what expired is written down later");
            }
        }
    }

    /// Ends what tokens that expired have open.
    async fn sweep(&self) {
        let mut every = tokio::time::interval(Duration::from_millis(SWEEP_MS));
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let now = self.now();
            for live in self.table().live.values() {
                if live.check(now).is_err() {
                    live.end();
                }
            }
        }
    }
}
