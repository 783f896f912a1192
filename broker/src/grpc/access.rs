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
    wire::{self, access_server::Access},
};
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use super::{Service, auth, parse, render, session::Admitted, status};
use crate::{
    access::Grant,
    connection::Peer,
    rules::{
        Rejection, Reply,
        access::{self, Command, Invitation, Roles, Scope, Token},
    },
    workspace::{ExecuteError, Executed},
};

#[tonic::async_trait]
impl Access for Service {
    async fn join(
        &self,
        request: Request<wire::JoinRequest>,
    ) -> Result<Response<wire::JoinResponse>, Status> {
        let peer = request.extensions().get::<Arc<Peer>>().cloned();
        let (admitted, it) = Admitted::open(request)?;
        let code = it.code.try_into().map_err(|_| invalid_secret("code"))?;
        let code: [u8; SECRET_BYTES] = code;
        let join = access::Join {
            code: SecretHash::of(&code),
            secret: secret("secret", &it.secret)?,
            label: parse::label("label", &it.label)?,
        };
        let joined =
            self.services.tokens().execute(Command::Join(join), None, admitted.bytes).await;
        let (reply, is_repeat) = match joined {
            Ok(Executed { reply, is_repeat, .. }) => (reply, is_repeat),
            Err(error) => {
                self.report(&error, peer.as_ref()).await;
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
        Ok(Response::new(wire::JoinResponse {
            token_id: token.to_string(),
            scope: Some(scope_message(&scope)),
            expires_ms: render::ms(expires),
        }))
    }

    async fn who_am_i(
        &self,
        request: Request<wire::WhoAmIRequest>,
    ) -> Result<Response<wire::WhoAmIResponse>, Status> {
        let response = match Admitted::stream(&request)?.grant {
            // Nobody gets here as a stranger: this takes a token where the broker asks for one.
            Grant::Stranger => wire::WhoAmIResponse::default(),
            Grant::Open => {
                let mut scope = Scope::all();
                scope.rights.remove(&Right::Admin);
                wire::WhoAmIResponse {
                    scope: Some(scope_message(&scope)),
                    ..wire::WhoAmIResponse::default()
                }
            }
            Grant::Token(live) => wire::WhoAmIResponse {
                token_id: live.id.to_string(),
                scope: Some(scope_message(&live.scope)),
                expires_ms: render::ms(live.expires),
                label: live.label.clone(),
            },
        };
        Ok(Response::new(response))
    }

    async fn invite(
        &self,
        request: Request<wire::InviteRequest>,
    ) -> Result<Response<wire::InviteResponse>, Status> {
        let (admitted, it) = Admitted::open(request)?;
        let scope = scope(it.scope)?;
        may_give(&admitted.grant, &scope)?;
        let invite = access::Invite {
            code: secret("code", &it.code)?,
            scope,
            valid_ms: if it.valid_ms == 0 { INVITATION_MS } else { it.valid_ms },
            token_valid_ms: (it.token_valid_ms != 0).then_some(it.token_valid_ms),
            label: parse::label("label", &it.label)?,
        };
        let Reply::Access(access::Reply::Invited { invitation, expires }) =
            self.administrate(&admitted, Command::Invite(invite)).await?
        else {
            unreachable!("an invitation is opened or refused")
        };
        Ok(Response::new(wire::InviteResponse {
            invitation_id: invitation.to_string(),
            expires_ms: expires.as_millis(),
        }))
    }

    async fn list_invitations(
        &self,
        request: Request<wire::ListInvitationsRequest>,
    ) -> Result<Response<wire::ListInvitationsResponse>, Status> {
        let Admitted { grant, .. } = Admitted::stream(&request)?;
        let access = self.services.tokens().look().await.map_err(status::executing)?;
        let seen = access.invitations.iter().filter(|(_, it)| grant.covers(&it.scope));
        let mut seen: Vec<_> = seen.collect();
        seen.sort_by_key(|(id, it)| (std::cmp::Reverse(it.opened), *id));
        let now = self.services.tokens().now();
        let message = |(id, it)| invitation_message(id, it, now);
        let invitations = seen.into_iter().map(message).collect();
        Ok(Response::new(wire::ListInvitationsResponse { invitations }))
    }

    async fn withdraw_invitation(
        &self,
        request: Request<wire::WithdrawInvitationRequest>,
    ) -> Result<Response<wire::WithdrawInvitationResponse>, Status> {
        let (admitted, it) = Admitted::open(request)?;
        let invitation: InvitationId = parse::id("invitation_id", &it.invitation_id)?;
        let access = self.services.tokens().look().await.map_err(status::executing)?;
        let found = access.invitations.get(&invitation);
        if found.is_none_or(|it| !admitted.grant.covers(&it.scope)) {
            return Err(status::rejected(&Rejection::UnknownInvitation));
        }
        self.administrate(&admitted, Command::Withdraw { invitation }).await?;
        Ok(Response::new(wire::WithdrawInvitationResponse {}))
    }

    async fn issue_token(
        &self,
        request: Request<wire::IssueTokenRequest>,
    ) -> Result<Response<wire::IssueTokenResponse>, Status> {
        let (admitted, it) = Admitted::open(request)?;
        let scope = scope(it.scope)?;
        may_give(&admitted.grant, &scope)?;
        let issue = access::Issue {
            secret: secret("secret", &it.secret)?,
            scope,
            valid_ms: (it.valid_ms != 0).then_some(it.valid_ms),
            label: parse::label("label", &it.label)?,
        };
        let Reply::Access(access::Reply::Issued { token, expires, .. }) =
            self.administrate(&admitted, Command::Issue(issue)).await?
        else {
            unreachable!("a token is issued or refused")
        };
        Ok(Response::new(wire::IssueTokenResponse {
            token_id: token.to_string(),
            expires_ms: render::ms(expires),
        }))
    }

    async fn list_tokens(
        &self,
        request: Request<wire::ListTokensRequest>,
    ) -> Result<Response<wire::ListTokensResponse>, Status> {
        let Admitted { grant, .. } = Admitted::stream(&request)?;
        let access = self.services.tokens().look().await.map_err(status::executing)?;
        let seen = access.tokens.iter().filter(|(_, it)| grant.covers(&it.scope));
        let mut seen: Vec<_> = seen.collect();
        seen.sort_by_key(|(id, it)| (it.issued, *id));
        let tokens = seen.into_iter().map(|(id, it)| self.token_message(id, it)).collect();
        Ok(Response::new(wire::ListTokensResponse { tokens }))
    }

    async fn revoke_token(
        &self,
        request: Request<wire::RevokeTokenRequest>,
    ) -> Result<Response<wire::RevokeTokenResponse>, Status> {
        let (admitted, it) = Admitted::open(request)?;
        let token: TokenId = parse::id("token_id", &it.token_id)?;
        self.may_see(&admitted.grant, &token)?;
        self.administrate(&admitted, Command::Revoke { token: token.clone() }).await?;
        info!(%token, "a token was revoked");
        Ok(Response::new(wire::RevokeTokenResponse {}))
    }

    async fn rotate_token(
        &self,
        request: Request<wire::RotateTokenRequest>,
    ) -> Result<Response<wire::RotateTokenResponse>, Status> {
        let (admitted, it) = Admitted::open(request)?;
        let own = admitted.grant.token().cloned();
        let named = parse::optional("token_id", &it.token_id)?;
        let Some(token) = named.or_else(|| own.clone()) else {
            return Err(status::invalid("token_id", &"is missing"));
        };
        if own.as_ref() != Some(&token) {
            if !admitted.grant.has_right(Right::Admin) {
                return Err(auth::lacks(Right::Admin));
            }
            self.may_see(&admitted.grant, &token)?;
        }
        let rotate = access::Rotate {
            token,
            secret: secret("secret", &it.secret)?,
            overlap_ms: if it.overlap_ms == 0 { OVERLAP_MS } else { it.overlap_ms },
        };
        let Reply::Access(access::Reply::Rotated { token, old_until }) =
            self.administrate(&admitted, Command::Rotate(rotate)).await?
        else {
            unreachable!("a token is rotated or refused")
        };
        Ok(Response::new(wire::RotateTokenResponse {
            token_id: token.to_string(),
            old_until_ms: old_until.as_millis(),
        }))
    }
}

impl Service {
    async fn administrate(&self, admitted: &Admitted, command: Command) -> Result<Reply, Status> {
        let Admitted { grant, bytes, .. } = admitted;
        let executed =
            self.services.tokens().execute(command, grant.token().cloned(), *bytes).await;
        Ok(executed.map_err(status::executing)?.reply)
    }

    /// A token beyond the caller's scope is as if it were not there.
    fn may_see(&self, grant: &Grant, token: &TokenId) -> Result<(), Status> {
        let live = self.services.tokens().get(token);
        if live.is_some_and(|live| grant.covers(&live.scope)) {
            return Ok(());
        }
        Err(status::rejected(&Rejection::UnknownToken { token: token.clone() }))
    }

    /// A code that does not work is a failed authentication; one that was used is told to the
    /// host.
    async fn report(&self, error: &ExecuteError, peer: Option<&Arc<Peer>>) {
        let ExecuteError::Rejected(rejection) = error else { return };
        if let Rejection::InvitationSpent { invitation, token } = rejection {
            let address = peer.map_or_else(String::new, |peer| peer.address.ip().to_string());
            warn!(%invitation, %token, address, "the code of a used invitation was tried again");
            let report = Command::ReportMisuse { invitation: invitation.clone(), address };
            if let Err(error) = self.services.tokens().execute(report, None, 0).await {
                warn!(%error, "and that is only in this log");
            }
        }
        let is_guess =
            matches!(rejection, Rejection::InvitationSpent { .. } | Rejection::UnknownInvitation);
        if let Some(peer) = peer.filter(|_| is_guess) {
            auth::penalise(self.services.tokens(), peer).await;
        }
    }

    fn token_message(&self, id: &TokenId, it: &Token) -> wire::Token {
        let live = self.services.tokens().get(id);
        let open = live.as_ref().map_or(0, |live| live.open_calls());
        wire::Token {
            token_id: id.to_string(),
            scope: Some(scope_message(&it.scope)),
            label: it.label.clone(),
            issued_ms: it.issued.as_millis(),
            expires_ms: render::ms(it.expires),
            revoked_ms: render::ms(it.revoked.filter(|at| it.expires.is_none_or(|end| *at < end))),
            invitation_id: render::text(it.invitation.as_ref()),
            rotated_ms: render::ms(it.rotated),
            last_used_ms: live.map_or(0, |live| live.used_ms()),
            open_calls: u32::try_from(open).unwrap_or(u32::MAX),
        }
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

fn scope_message(it: &Scope) -> wire::Scope {
    let (roles, is_any_role) = match &it.roles {
        Roles::Any => (Vec::new(), true),
        Roles::Only(roles) => (roles.iter().map(ToString::to_string).collect(), false),
    };
    wire::Scope {
        workspace: render::text(it.workspace.as_ref()),
        roles,
        is_any_role,
        rights: it.rights.iter().map(ToString::to_string).collect(),
    }
}

/// One that was withdrawn in time, and one that expired, are told apart until both would be over.
fn invitation_message(id: &InvitationId, it: &Invitation, now: Timestamp) -> wire::Invitation {
    let misuse = |it: &access::Misuse| wire::Misuse {
        at_ms: it.at.as_millis(),
        address: it.address.clone(),
    };
    wire::Invitation {
        invitation_id: id.to_string(),
        scope: Some(scope_message(&it.scope)),
        label: it.label.clone(),
        issued_ms: it.opened.as_millis(),
        expires_ms: it.expires.as_millis(),
        token_id: render::text(it.used.as_ref().map(|(token, _)| token)),
        used_ms: it.used.as_ref().map_or(0, |(_, at)| Timestamp::as_millis(*at)),
        is_withdrawn: it.is_withdrawn && now < it.expires,
        misuses: it.misuses.iter().map(misuse).collect(),
    }
}
