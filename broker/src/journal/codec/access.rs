//! Invitations and tokens.

use bytes::Bytes;
use tasuki_proto::{
    id::{InvitationId, Timestamp, TokenId},
    stored::{self, event::Kind, snapshot},
    token::SecretHash,
};

use super::{CodecError, id, ids, optional, text};
use crate::rules::access::{
    Access, Event, Invitation, InvitationOpened, Misuse, Roles, Scope, Token, TokenIssued,
};

pub(super) fn encode_event(event: &Event) -> Kind {
    match event {
        Event::InvitationOpened(it) => Kind::InvitationOpened(encode_opened(it)),
        Event::InvitationWithdrawn { invitation } => {
            let invitation_id = invitation.to_string();
            Kind::InvitationWithdrawn(stored::InvitationWithdrawn { invitation_id })
        }
        Event::InvitationMisused { invitation, address } => {
            Kind::InvitationMisused(stored::InvitationMisused {
                invitation_id: invitation.to_string(),
                address: address.clone(),
            })
        }
        Event::TokenIssued(it) => Kind::TokenIssued(encode_issued(it)),
        Event::TokenRotated { token, secret, old_until } => {
            Kind::TokenRotated(stored::TokenRotated {
                token_id: token.to_string(),
                secret: encode_hash(secret),
                old_until_ms: old_until.as_millis(),
            })
        }
        Event::OldSecretEnded { token } => {
            Kind::OldSecretEnded(stored::OldSecretEnded { token_id: token.to_string() })
        }
        Event::TokenRevoked { token } => {
            Kind::TokenRevoked(stored::TokenRevoked { token_id: token.to_string() })
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "whoever calls chose the kind")]
pub(super) fn decode_event(kind: Kind) -> Result<Event, CodecError> {
    Ok(match kind {
        Kind::InvitationOpened(it) => Event::InvitationOpened(decode_opened(it)?),
        Kind::InvitationWithdrawn(it) => {
            Event::InvitationWithdrawn { invitation: id("invitation_id", &it.invitation_id)? }
        }
        Kind::InvitationMisused(it) => Event::InvitationMisused {
            invitation: id("invitation_id", &it.invitation_id)?,
            address: it.address,
        },
        Kind::TokenIssued(it) => Event::TokenIssued(decode_issued(it)?),
        Kind::TokenRotated(it) => Event::TokenRotated {
            token: id("token_id", &it.token_id)?,
            secret: decode_hash("secret", &it.secret)?,
            old_until: Timestamp::from_millis(it.old_until_ms),
        },
        Kind::OldSecretEnded(it) => Event::OldSecretEnded { token: id("token_id", &it.token_id)? },
        Kind::TokenRevoked(it) => Event::TokenRevoked { token: id("token_id", &it.token_id)? },
        _ => return Err(CodecError::Unknown("event of access")),
    })
}

fn encode_opened(it: &InvitationOpened) -> stored::InvitationOpened {
    stored::InvitationOpened {
        invitation_id: it.invitation.to_string(),
        code: encode_hash(&it.code),
        scope: Some(encode_scope(&it.scope)),
        expires_ms: it.expires.as_millis(),
        token_valid_ms: it.token_valid_ms.unwrap_or(0),
        label: it.label.clone(),
    }
}

fn decode_opened(it: stored::InvitationOpened) -> Result<InvitationOpened, CodecError> {
    Ok(InvitationOpened {
        invitation: id("invitation_id", &it.invitation_id)?,
        code: decode_hash("code", &it.code)?,
        scope: decode_scope(it.scope)?,
        expires: Timestamp::from_millis(it.expires_ms),
        token_valid_ms: (it.token_valid_ms != 0).then_some(it.token_valid_ms),
        label: it.label,
    })
}

fn encode_issued(it: &TokenIssued) -> stored::TokenIssued {
    stored::TokenIssued {
        token_id: it.token.to_string(),
        secret: encode_hash(&it.secret),
        scope: Some(encode_scope(&it.scope)),
        expires_ms: ms(it.expires),
        label: it.label.clone(),
        invitation_id: text(it.invitation.as_ref()),
    }
}

fn decode_issued(it: stored::TokenIssued) -> Result<TokenIssued, CodecError> {
    Ok(TokenIssued {
        token: id("token_id", &it.token_id)?,
        secret: decode_hash("secret", &it.secret)?,
        scope: decode_scope(it.scope)?,
        expires: at(it.expires_ms),
        label: it.label,
        invitation: optional("invitation_id", &it.invitation_id)?,
    })
}

pub(super) fn encode_scope(it: &Scope) -> stored::Scope {
    let (roles, is_any_role) = match &it.roles {
        Roles::Any => (Vec::new(), true),
        Roles::Only(roles) => (roles.iter().map(ToString::to_string).collect(), false),
    };
    stored::Scope {
        workspace: text(it.workspace.as_ref()),
        roles,
        is_any_role,
        rights: it.rights.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn decode_scope(it: Option<stored::Scope>) -> Result<Scope, CodecError> {
    let it = it.ok_or(CodecError::Unknown("scope"))?;
    let roles = if it.is_any_role {
        Roles::Any
    } else {
        Roles::Only(ids("role", &it.roles)?.into_iter().collect())
    };
    let rights = ids("right", &it.rights)?.into_iter().collect();
    Ok(Scope { workspace: optional("workspace", &it.workspace)?, roles, rights })
}

pub(super) fn encode_invitation((id, it): (&InvitationId, &Invitation)) -> snapshot::Invitation {
    let opened = InvitationOpened {
        invitation: id.clone(),
        code: it.code,
        scope: it.scope.clone(),
        expires: it.expires,
        token_valid_ms: it.token_valid_ms,
        label: it.label.clone(),
    };
    let misuse =
        |it: &Misuse| snapshot::Misuse { at_ms: it.at.as_millis(), address: it.address.clone() };
    snapshot::Invitation {
        opened: Some(encode_opened(&opened)),
        opened_ms: it.opened.as_millis(),
        token_id: text(it.used.as_ref().map(|(token, _)| token)),
        used_ms: ms(it.used.as_ref().map(|(_, at)| *at)),
        is_withdrawn: it.is_withdrawn,
        misuses: it.misuses.iter().map(misuse).collect(),
    }
}

fn decode_invitation(it: snapshot::Invitation) -> Result<(InvitationId, Invitation), CodecError> {
    let opened = decode_opened(it.opened.ok_or(CodecError::Unknown("invitation"))?)?;
    let used = optional("token_id", &it.token_id)?;
    let misuse =
        |it: snapshot::Misuse| Misuse { at: Timestamp::from_millis(it.at_ms), address: it.address };
    let invitation = Invitation {
        code: opened.code,
        scope: opened.scope,
        label: opened.label,
        opened: Timestamp::from_millis(it.opened_ms),
        expires: opened.expires,
        token_valid_ms: opened.token_valid_ms,
        used: used.map(|token| (token, Timestamp::from_millis(it.used_ms))),
        is_withdrawn: it.is_withdrawn,
        misuses: it.misuses.into_iter().map(misuse).collect(),
    };
    Ok((opened.invitation, invitation))
}

pub(super) fn encode_token((id, it): (&TokenId, &Token)) -> snapshot::Token {
    let issued = TokenIssued {
        token: id.clone(),
        secret: it.secret,
        scope: it.scope.clone(),
        expires: it.expires,
        label: it.label.clone(),
        invitation: it.invitation.clone(),
    };
    let old = it.old.as_ref();
    snapshot::Token {
        issued: Some(encode_issued(&issued)),
        issued_ms: it.issued.as_millis(),
        old_secret: old.map_or_else(Bytes::new, |(old, _)| encode_hash(old)),
        old_until_ms: ms(old.map(|(_, until)| *until)),
        rotated_ms: ms(it.rotated),
        revoked_ms: ms(it.revoked),
    }
}

fn decode_token(it: snapshot::Token) -> Result<(TokenId, Token), CodecError> {
    let issued = decode_issued(it.issued.ok_or(CodecError::Unknown("token"))?)?;
    let old = if it.old_secret.is_empty() {
        None
    } else {
        let until = Timestamp::from_millis(it.old_until_ms);
        Some((decode_hash("old_secret", &it.old_secret)?, until))
    };
    let token = Token {
        secret: issued.secret,
        scope: issued.scope,
        label: issued.label,
        issued: Timestamp::from_millis(it.issued_ms),
        expires: issued.expires,
        invitation: issued.invitation,
        old,
        rotated: at(it.rotated_ms),
        revoked: at(it.revoked_ms),
    };
    Ok((issued.token, token))
}

pub(super) fn decode_access(
    invitations: Vec<snapshot::Invitation>,
    tokens: Vec<snapshot::Token>,
) -> Result<Access, CodecError> {
    Ok(Access {
        invitations: invitations.into_iter().map(decode_invitation).collect::<Result<_, _>>()?,
        tokens: tokens.into_iter().map(decode_token).collect::<Result<_, _>>()?,
    })
}

fn encode_hash(hash: &SecretHash) -> Bytes {
    Bytes::copy_from_slice(hash.as_bytes())
}

fn decode_hash(field: &'static str, bytes: &[u8]) -> Result<SecretHash, CodecError> {
    let invalid = |_| CodecError::Invalid { field, value: format!("{} bytes", bytes.len()) };
    Ok(SecretHash::from_bytes(bytes.try_into().map_err(invalid)?))
}

/// 0 stands for none.
pub(super) fn ms(at: Option<Timestamp>) -> u64 {
    at.map_or(0, Timestamp::as_millis)
}

pub(super) fn at(ms: u64) -> Option<Timestamp> {
    (ms != 0).then(|| Timestamp::from_millis(ms))
}
