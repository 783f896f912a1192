//! What happened, put into the state.

use tasuki_proto::id::Timestamp;

use super::{Access, Event, INVITATIONS_MAX, Invitation, MISUSES_MAX, Misuse, TOKENS_MAX, Token};
use crate::rules::Principal;

impl Access {
    pub(in crate::rules) fn apply(&mut self, now: Timestamp, _: &Principal, event: &Event) {
        match event {
            Event::InvitationOpened(it) => {
                if INVITATIONS_MAX <= self.invitations.len()
                    && let Some(over) = self.forgettable_invitation(now).cloned()
                {
                    self.invitations.remove(&over);
                }
                let invitation = Invitation {
                    code: it.code,
                    scope: it.scope.clone(),
                    label: it.label.clone(),
                    opened: now,
                    expires: it.expires,
                    token_valid_ms: it.token_valid_ms,
                    used: None,
                    is_withdrawn: false,
                    misuses: Vec::new(),
                };
                self.invitations.insert(it.invitation.clone(), invitation);
            }
            Event::InvitationWithdrawn { invitation } => {
                if let Some(it) = self.invitations.get_mut(invitation) {
                    it.is_withdrawn = true;
                }
            }
            Event::InvitationMisused { invitation, address } => {
                if let Some(it) = self.invitations.get_mut(invitation)
                    && it.misuses.len() < MISUSES_MAX
                {
                    it.misuses.push(Misuse { at: now, address: address.clone() });
                }
            }
            Event::TokenIssued(it) => {
                if TOKENS_MAX <= self.tokens.len()
                    && let Some(over) = self.forgettable_token(now).cloned()
                {
                    self.tokens.remove(&over);
                }
                if let Some(id) = &it.invitation
                    && let Some(invitation) = self.invitations.get_mut(id)
                {
                    assert!(!invitation.is_over(now), "R1: {id} was over when {} came", it.token);
                    assert!(invitation.scope == it.scope, "R3: {id} granted less to {}", it.token);
                    let earlier = invitation.used.replace((it.token.clone(), now));
                    assert!(earlier.is_none(), "R1: {id} made {earlier:?} and {}", it.token);
                }
                let token = Token {
                    secret: it.secret,
                    scope: it.scope.clone(),
                    label: it.label.clone(),
                    issued: now,
                    expires: it.expires,
                    invitation: it.invitation.clone(),
                    old: None,
                    rotated: None,
                    revoked: None,
                };
                let earlier = self.tokens.insert(it.token.clone(), token);
                assert!(earlier.is_none(), "R3: {} was issued before: {earlier:?}", it.token);
            }
            Event::TokenRotated { token, secret, old_until } => {
                if let Some(it) = self.tokens.get_mut(token) {
                    assert!(it.is_good(now), "R2: {token} was rotated after its end");
                    it.old = Some((it.secret, *old_until));
                    it.secret = *secret;
                    it.rotated = Some(now);
                }
            }
            Event::OldSecretEnded { token } => {
                if let Some(it) = self.tokens.get_mut(token) {
                    it.old = None;
                }
            }
            Event::TokenRevoked { token } => {
                if let Some(it) = self.tokens.get_mut(token) {
                    it.revoked = it.revoked.or(Some(now));
                }
            }
        }
    }
}
