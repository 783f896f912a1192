//! `Access`: invitations and tokens.
//!
//! Whoever administrates gives away no more than they have: invitations and tokens beyond the
//! caller's own scope are refused, and those of others are not shown.

use std::sync::Arc;

use tasuki_proto::{
    id::{InvitationId, Timestamp, TokenId},
    limits::{INVITATION_MS, OVERLAP_MS},
    reason::Reason,
    token::{Right, SECRET_BYTES, SecretHash},
    wire,
};
use tonic::Status;
use tracing::{info, warn};

use super::{
    Answer, Endpoint, WorkspaceSession, auth, parse,
    render::{ms, text},
    status,
};
use crate::{
    access::{Grant, Tokens},
    connection::Peer,
    rules::{
        Rejection, Reply,
        access::{self, Command, Invitation, Roles, Scope, Token},
    },
    workspace::{ExecuteError, Executed},
};

impl Endpoint for wire::JoinRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let code = self.code.try_into().map_err(|_| invalid_secret("code"))?;
        let code: [u8; SECRET_BYTES] = code;
        let join = access::Join {
            code: SecretHash::of(&code),
            secret: secret("secret", &self.secret)?,
            label: parse::label("label", &self.label)?,
        };
        let (tokens, peer) = (&session.services.tokens, session.admitted.peer.as_ref());
        let joined = tokens.execute(Command::Join(join), None, session.admitted.bytes).await;
        let Executed { reply, is_repeat, .. } = match joined {
            Ok(executed) => executed,
            Err(error) => {
                report(tokens, &error, peer).await;
                return Err(status::executing(error));
            }
        };
        let Reply::Access(access::Reply::Issued { token, expires, scope }) = reply else {
            unreachable!("who joins gets a token or is refused")
        };
        if !is_repeat {
            let address = peer.map(|peer| peer.address);
            info!(%token, ?address, "a node joined");
        }
        Ok(wire::JoinResponse {
            token_id: token.to_string(),
            scope: Some(render_scope(&scope)),
            expires_ms: ms(expires),
        })
    }
}

impl Endpoint for wire::WhoAmIRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        Ok(match &session.admitted.grant {
            // Nobody gets here as a stranger: this takes a token where the broker asks for one.
            Grant::Stranger => wire::WhoAmIResponse::default(),
            Grant::Open => {
                let mut scope = Scope::all();
                scope.rights.remove(&Right::Admin);
                let scope = Some(render_scope(&scope));
                wire::WhoAmIResponse { scope, ..Default::default() }
            }
            Grant::Token(live) => wire::WhoAmIResponse {
                token_id: live.id.to_string(),
                scope: Some(render_scope(&live.scope)),
                expires_ms: ms(live.expires),
                label: live.label.clone(),
            },
        })
    }
}

impl Endpoint for wire::ListWorkspacesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let grant = &session.admitted.grant;
        let names = session.services.names().into_iter().filter(|it| grant.has_workspace(it));
        Ok(wire::ListWorkspacesResponse { workspaces: names.map(|it| it.to_string()).collect() })
    }
}

impl Endpoint for wire::InviteRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let scope = scope(self.scope)?;
        may_give(&session.admitted.grant, &scope)?;
        let invite = access::Invite {
            code: secret("code", &self.code)?,
            scope,
            valid_ms: if self.valid_ms == 0 { INVITATION_MS } else { self.valid_ms },
            token_valid_ms: (self.token_valid_ms != 0).then_some(self.token_valid_ms),
            label: parse::label("label", &self.label)?,
        };
        let reply = administrate(session, Command::Invite(invite)).await?;
        let Reply::Access(access::Reply::Invited { invitation, expires }) = reply else {
            unreachable!("an invitation is opened or refused")
        };
        let (invitation_id, expires_ms) = (invitation.to_string(), expires.as_millis());
        Ok(wire::InviteResponse { invitation_id, expires_ms })
    }
}

impl Endpoint for wire::ListInvitationsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let grant = session.admitted.grant.clone();
        let seen = session.query(None, move |view| {
            let seen = view.workspace.access.invitations.iter();
            let mut seen: Vec<_> = seen.filter(|(_, it)| grant.covers(&it.scope)).collect();
            seen.sort_by_key(|(id, it)| (std::cmp::Reverse(it.opened), *id));
            Ok(seen.into_iter().map(|(id, it)| render_invitation(id, it, view.now)).collect())
        });
        Ok(wire::ListInvitationsResponse { invitations: seen.await? })
    }
}

impl Endpoint for wire::WithdrawInvitationRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let invitation: InvitationId = parse::id("invitation_id", &self.invitation_id)?;
        let (grant, wanted) = (session.admitted.grant.clone(), invitation.clone());
        let known = session.query(None, move |view| {
            let found = view.workspace.access.invitations.get(&wanted);
            let found = found.filter(|it| grant.covers(&it.scope));
            found.map(drop).ok_or(Rejection::UnknownInvitation)
        });
        known.await?;
        administrate(session, Command::Withdraw { invitation }).await?;
        Ok(wire::WithdrawInvitationResponse {})
    }
}

impl Endpoint for wire::IssueTokenRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let scope = scope(self.scope)?;
        may_give(&session.admitted.grant, &scope)?;
        let issue = access::Issue {
            secret: secret("secret", &self.secret)?,
            scope,
            valid_ms: (self.valid_ms != 0).then_some(self.valid_ms),
            label: parse::label("label", &self.label)?,
        };
        let reply = administrate(session, Command::Issue(issue)).await?;
        let Reply::Access(access::Reply::Issued { token, expires, .. }) = reply else {
            unreachable!("a token is issued or refused")
        };
        Ok(wire::IssueTokenResponse { token_id: token.to_string(), expires_ms: ms(expires) })
    }
}

impl Endpoint for wire::ListTokensRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (grant, tokens) = (session.admitted.grant.clone(), session.services.tokens.clone());
        let seen = session.query(None, move |view| {
            let seen = view.workspace.access.tokens.iter();
            let mut seen: Vec<_> = seen.filter(|(_, it)| grant.covers(&it.scope)).collect();
            seen.sort_by_key(|(id, it)| (it.issued, *id));
            Ok(seen.into_iter().map(|(id, it)| render_token(&tokens, id, it)).collect())
        });
        Ok(wire::ListTokensResponse { tokens: seen.await? })
    }
}

impl Endpoint for wire::RevokeTokenRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let token: TokenId = parse::id("token_id", &self.token_id)?;
        may_see(session, &token)?;
        administrate(session, Command::Revoke { token: token.clone() }).await?;
        info!(%token, "a token was revoked");
        Ok(wire::RevokeTokenResponse {})
    }
}

impl Endpoint for wire::RotateTokenRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let own = session.caller.token.clone();
        let named = parse::optional("token_id", &self.token_id)?;
        let Some(token) = named.or_else(|| own.clone()) else {
            return Err(status::invalid("token_id", &"is missing"));
        };
        if own.as_ref() != Some(&token) {
            session.check_right(Right::Admin)?;
            may_see(session, &token)?;
        }
        let rotate = access::Rotate {
            token,
            secret: secret("secret", &self.secret)?,
            overlap_ms: if self.overlap_ms == 0 { OVERLAP_MS } else { self.overlap_ms },
        };
        let reply = administrate(session, Command::Rotate(rotate)).await?;
        let Reply::Access(access::Reply::Rotated { token, old_until }) = reply else {
            unreachable!("a token is rotated or refused")
        };
        let (token_id, old_until_ms) = (token.to_string(), old_until.as_millis());
        Ok(wire::RotateTokenResponse { token_id, old_until_ms })
    }
}

async fn administrate(session: &WorkspaceSession, command: Command) -> Result<Reply, Status> {
    let (tokens, bytes) = (&session.services.tokens, session.admitted.bytes);
    let executed = tokens.execute(command, session.caller.token.clone(), bytes).await;
    Ok(executed.map_err(status::executing)?.reply)
}

/// A token beyond the caller's scope is as if it were not there.
fn may_see(session: &WorkspaceSession, token: &TokenId) -> Result<(), Status> {
    let live = session.services.tokens.get(token);
    if live.is_some_and(|live| session.admitted.grant.covers(&live.scope)) {
        return Ok(());
    }
    Err(status::rejected(&Rejection::UnknownToken { token: token.clone() }))
}

/// A code that does not work is a failed authentication; one that was used is told to the host.
async fn report(tokens: &Tokens, error: &ExecuteError, peer: Option<&Arc<Peer>>) {
    let ExecuteError::Rejected(rejection) = error else { return };
    if let Rejection::InvitationSpent { invitation, token } = rejection {
        let address = peer.map_or_else(String::new, |peer| peer.address.ip().to_string());
        warn!(%invitation, %token, address, "the code of a used invitation was tried again");
        let report = Command::ReportMisuse { invitation: invitation.clone(), address };
        if let Err(error) = tokens.execute(report, None, 0).await {
            warn!(%error, "and that is only in this log");
        }
    }
    let is_guess =
        matches!(rejection, Rejection::InvitationSpent { .. } | Rejection::UnknownInvitation);
    if let Some(peer) = peer.filter(|_| is_guess) {
        auth::penalise(tokens, peer).await;
    }
}

fn may_give(grant: &Grant, scope: &Scope) -> Result<(), Status> {
    if grant.covers(scope) {
        return Ok(());
    }
    Err(Reason::RightForbidden.status("your own token does not have all of what this would give"))
}

fn secret(field: &str, bytes: &[u8]) -> Result<SecretHash, Status> {
    bytes.try_into().map(SecretHash::from_bytes).map_err(|_| invalid_secret(field))
}

fn invalid_secret(field: &str) -> Status {
    status::invalid(field, &format!("is not {SECRET_BYTES} bytes long"))
}

fn scope(it: Option<wire::Scope>) -> Result<Scope, Status> {
    let it = it.ok_or_else(|| status::invalid("scope", &"is missing"))?;
    let roles = it.roles.iter().map(|role| parse::id("scope.roles", role));
    let roles =
        if it.is_any_role { Roles::Any } else { Roles::Only(roles.collect::<Result<_, _>>()?) };
    let right = |name: &String| {
        name.parse::<Right>().map_err(|why| status::invalid("scope.rights", &format!("{why}")))
    };
    Ok(Scope {
        workspace: parse::optional("scope.workspace", &it.workspace)?,
        roles,
        rights: it.rights.iter().map(right).collect::<Result<_, _>>()?,
    })
}

fn render_scope(it: &Scope) -> wire::Scope {
    let (roles, is_any_role) = match &it.roles {
        Roles::Any => (Vec::new(), true),
        Roles::Only(roles) => (roles.iter().map(ToString::to_string).collect(), false),
    };
    wire::Scope {
        workspace: text(it.workspace.as_ref()),
        roles,
        is_any_role,
        rights: it.rights.iter().map(ToString::to_string).collect(),
    }
}

fn render_token(tokens: &Tokens, id: &TokenId, it: &Token) -> wire::Token {
    let live = tokens.get(id);
    let open = live.as_ref().map_or(0, |live| live.open_calls());
    wire::Token {
        token_id: id.to_string(),
        scope: Some(render_scope(&it.scope)),
        label: it.label.clone(),
        issued_ms: it.issued.as_millis(),
        expires_ms: ms(it.expires),
        revoked_ms: ms(it.revoked.filter(|at| it.expires.is_none_or(|end| *at < end))),
        invitation_id: text(it.invitation.as_ref()),
        rotated_ms: ms(it.rotated),
        last_used_ms: live.map_or(0, |live| live.used_ms()),
        open_calls: u32::try_from(open).unwrap_or(u32::MAX),
    }
}

/// One that was withdrawn in time, and one that expired, are told apart until both would be over.
fn render_invitation(id: &InvitationId, it: &Invitation, now: Timestamp) -> wire::Invitation {
    let misuse = |it: &access::Misuse| wire::Misuse {
        at_ms: it.at.as_millis(),
        address: it.address.clone(),
    };
    wire::Invitation {
        invitation_id: id.to_string(),
        scope: Some(render_scope(&it.scope)),
        label: it.label.clone(),
        issued_ms: it.opened.as_millis(),
        expires_ms: it.expires.as_millis(),
        token_id: text(it.used.as_ref().map(|(token, _)| token)),
        used_ms: it.used.as_ref().map_or(0, |(_, at)| Timestamp::as_millis(*at)),
        is_withdrawn: it.is_withdrawn && now < it.expires,
        misuses: it.misuses.iter().map(misuse).collect(),
    }
}
