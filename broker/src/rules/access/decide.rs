//! What a command would do, or why not.

use tasuki_proto::{
    id::{InvitationId, Timestamp, TokenId},
    limits::{INVITATION_MS_MAX, LASTING_MS_MAX, ROLES_MAX},
    token::SecretHash,
};

use super::{
    Access, Command, ENDED_AT_ONCE_MAX, Event, INVITATIONS_MAX, Invitation, InvitationOpened,
    Invite, Issue, Join, MISUSES_MAX, Reply, Roles, Rotate, Scope, TOKENS_MAX, Token, TokenIssued,
};
use crate::rules::{self, Asked, Decision, Rejection};

impl Access {
    pub(in crate::rules) fn decide(
        &self,
        Asked { now, .. }: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, Rejection> {
        match command {
            Command::Invite(it) => self.decide_invite(now, it),
            Command::Withdraw { invitation } => self.decide_withdraw(invitation),
            Command::Join(it) => self.decide_join(now, it),
            Command::ReportMisuse { invitation, address } => {
                Ok(self.decide_misuse(invitation, address))
            }
            Command::Issue(it) => self.decide_issue(now, it),
            Command::Rotate(it) => self.decide_rotate(now, it),
            Command::EndOldSecret { token, used } => {
                let is_due =
                    self.tokens.get(token).is_some_and(|it| it.old.is_some() && it.secret == *used);
                let event = is_due.then(|| Event::OldSecretEnded { token: token.clone() });
                Ok(done(event))
            }
            Command::Revoke { token } => {
                let is_revoked = self.token(token)?.revoked.is_some();
                let event = (!is_revoked).then(|| Event::TokenRevoked { token: token.clone() });
                Ok(done(event))
            }
            Command::EndExpired => Ok(done(self.expired(now))),
        }
    }

    /// What time ended and nobody else.
    fn expired(&self, now: Timestamp) -> impl Iterator<Item = Event> {
        let is_over = move |expires: Timestamp| expires <= now;
        let tokens = self
            .tokens
            .iter()
            .filter(move |(_, it)| it.revoked.is_none() && it.expires.is_some_and(is_over));
        let invitations = self
            .invitations
            .iter()
            .filter(move |(_, it)| it.used.is_none() && !it.is_withdrawn && is_over(it.expires));
        let tokens = tokens.map(|(id, _)| Event::TokenRevoked { token: id.clone() });
        let invitations =
            invitations.map(|(id, _)| Event::InvitationWithdrawn { invitation: id.clone() });
        tokens.take(ENDED_AT_ONCE_MAX).chain(invitations.take(ENDED_AT_ONCE_MAX))
    }

    fn decide_invite(&self, now: Timestamp, it: &Invite) -> Result<Decision, Rejection> {
        let invitation: InvitationId = it.code.short().parse().expect("hexadecimal is an id");
        if let Some(open) = self.invitations.get(&invitation) {
            let is_same = open.code == it.code
                && open.scope == it.scope
                && open.label == it.label
                && open.expires == open.opened.plus_millis(it.valid_ms.min(INVITATION_MS_MAX))
                && open.token_valid_ms == it.token_valid_ms;
            return if is_same {
                Ok(Decision::repeat(Reply::Invited { invitation, expires: open.expires }))
            } else {
                Err(Rejection::Invalid("code was used for another invitation".to_owned()))
            };
        }
        check_scope(&it.scope)?;
        if it.token_valid_ms == Some(0) {
            let why = "token_valid_ms is 0; leave it out for a token that does not expire";
            return Err(Rejection::Invalid(why.to_owned()));
        }
        check_valid("token_valid_ms", it.token_valid_ms)?;
        if INVITATIONS_MAX <= self.invitations.len() && self.forgettable_invitation(now).is_none() {
            return Err(Rejection::TooManyInvitations);
        }
        let expires = now.plus_millis(it.valid_ms.min(INVITATION_MS_MAX));
        let opened = InvitationOpened {
            invitation: invitation.clone(),
            code: it.code,
            scope: it.scope.clone(),
            expires,
            token_valid_ms: it.token_valid_ms,
            label: it.label.clone(),
        };
        let event = Event::InvitationOpened(opened);
        Ok(Decision::new([event], Reply::Invited { invitation, expires }))
    }

    fn decide_withdraw(&self, id: &InvitationId) -> Result<Decision, Rejection> {
        let it = self.invitations.get(id).ok_or(Rejection::UnknownInvitation)?;
        if let Some((token, _)) = &it.used {
            return Err(Rejection::InvitationSpent {
                invitation: id.clone(),
                token: token.clone(),
            });
        }
        let withdrawn = || Event::InvitationWithdrawn { invitation: id.clone() };
        Ok(done((!it.is_withdrawn).then(withdrawn)))
    }

    /// R1. Whoever joined may ask again with the same secret, until the token is over.
    fn decide_join(&self, now: Timestamp, it: &Join) -> Result<Decision, Rejection> {
        let id: InvitationId = it.code.short().parse().expect("hexadecimal is an id");
        let found = self.invitations.get(&id).filter(|open| open.code == it.code);
        let invitation = found.ok_or(Rejection::UnknownInvitation)?;
        if let Some((token, _)) = &invitation.used {
            let issued = self.tokens.get(token);
            let own = issued.filter(|issued| issued.is_good(now) && issued.knows(&it.secret, now));
            return match own {
                Some(own) => Ok(Decision::repeat(issued_reply(token, own))),
                None => Err(Rejection::InvitationSpent { invitation: id, token: token.clone() }),
            };
        }
        if invitation.is_over(now) {
            return Err(Rejection::UnknownInvitation);
        }
        self.issue(
            now,
            &it.secret,
            &invitation.scope,
            invitation.token_valid_ms,
            if it.label.is_empty() { &invitation.label } else { &it.label },
            Some(&id),
        )
    }

    /// Never refused: whoever reports has nobody to tell.
    fn decide_misuse(&self, id: &InvitationId, address: &str) -> Decision {
        let is_kept = self
            .invitations
            .get(id)
            .is_some_and(|it| it.used.is_some() && it.misuses.len() < MISUSES_MAX);
        let misused =
            || Event::InvitationMisused { invitation: id.clone(), address: address.to_owned() };
        done(is_kept.then(misused))
    }

    fn decide_issue(&self, now: Timestamp, it: &Issue) -> Result<Decision, Rejection> {
        check_scope(&it.scope)?;
        let token: TokenId = it.secret.short().parse().expect("hexadecimal is an id");
        if let Some(issued) = self.tokens.get(&token)
            && issued.secret == it.secret
            && issued.is_good(now)
            && issued.scope == it.scope
            && issued.label == it.label
            && issued.invitation.is_none()
            && issued.expires == it.valid_ms.map(|ms| issued.issued.plus_millis(ms))
        {
            return Ok(Decision::repeat(issued_reply(&token, issued)));
        }
        check_valid("valid_ms", it.valid_ms)?;
        self.issue(now, &it.secret, &it.scope, it.valid_ms, &it.label, None)
    }

    fn issue(
        &self,
        now: Timestamp,
        secret: &SecretHash,
        scope: &Scope,
        valid_ms: Option<u64>,
        label: &str,
        invitation: Option<&InvitationId>,
    ) -> Result<Decision, Rejection> {
        let token: TokenId = secret.short().parse().expect("hexadecimal is an id");
        if self.tokens.contains_key(&token) {
            return Err(Rejection::Invalid(format!(
                "secret was used for token {token} already; make another"
            )));
        }
        if TOKENS_MAX <= self.tokens.len() && self.forgettable_token(now).is_none() {
            return Err(Rejection::TooManyTokens);
        }
        let expires = valid_ms.map(|ms| now.plus_millis(ms));
        let issued = TokenIssued {
            token: token.clone(),
            secret: *secret,
            scope: scope.clone(),
            expires,
            label: label.to_owned(),
            invitation: invitation.cloned(),
        };
        let reply = Reply::Issued { token, expires, scope: scope.clone() };
        Ok(Decision::new([Event::TokenIssued(issued)], reply))
    }

    /// R3. A secret that the token had before is refused: an old call that arrives late must not
    /// undo a newer rotation.
    fn decide_rotate(&self, now: Timestamp, it: &Rotate) -> Result<Decision, Rejection> {
        let token = self.token(&it.token)?;
        if !token.is_good(now) {
            return Err(Rejection::UnknownToken { token: it.token.clone() });
        }
        if token.secret == it.secret && token.rotated.is_some() {
            let old_until = token.old.as_ref().map_or(now, |(_, until)| *until);
            let reply = Reply::Rotated { token: it.token.clone(), old_until };
            return Ok(Decision::repeat(reply));
        }
        let is_old = token.old.as_ref().is_some_and(|(old, _)| *old == it.secret);
        if is_old || it.secret.short() == it.token.as_str() {
            return Err(Rejection::Invalid(format!(
                "secret was one of token {} before; make another",
                it.token
            )));
        }
        let old_until = now.plus_millis(it.overlap_ms.min(INVITATION_MS_MAX));
        let (token, secret) = (it.token.clone(), it.secret);
        let rotated = Event::TokenRotated { token: token.clone(), secret, old_until };
        Ok(Decision::new([rotated], Reply::Rotated { token, old_until }))
    }

    fn token(&self, id: &TokenId) -> Result<&Token, Rejection> {
        let unknown = || Rejection::UnknownToken { token: id.clone() };
        self.tokens.get(id).ok_or_else(unknown)
    }

    /// Of the invitations that are over, the one that is for the longest.
    pub(super) fn forgettable_invitation(&self, now: Timestamp) -> Option<&InvitationId> {
        let over = self.invitations.iter().filter(|(_, it)| it.used.is_some() || it.is_over(now));
        over.min_by_key(|(id, it)| (it.over_since(), *id)).map(|(id, _)| id)
    }

    /// Of the tokens that are over, the one that is for the longest.
    pub(super) fn forgettable_token(&self, now: Timestamp) -> Option<&TokenId> {
        let over = self.tokens.iter().filter(|(_, it)| !it.is_good(now));
        over.min_by_key(|(id, it)| (it.over_since(), *id)).map(|(id, _)| id)
    }
}

impl Invitation {
    /// Whether nobody can join with it any more, used or not (R1).
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.is_withdrawn || self.expires <= now
    }

    /// One that was withdrawn counts until it would have expired: a call to open it that arrives
    /// late must find it.
    fn over_since(&self) -> Timestamp {
        self.used.as_ref().map_or(self.expires, |(_, at)| *at)
    }
}

impl Token {
    fn over_since(&self) -> Option<Timestamp> {
        [self.revoked, self.expires].into_iter().flatten().min()
    }
}

/// How long a token is to be valid.
fn check_valid(field: &str, valid_ms: Option<u64>) -> Result<(), Rejection> {
    match valid_ms {
        Some(ms) if LASTING_MS_MAX < ms => Err(Rejection::Invalid(format!(
            "{field} is {ms}; at most {LASTING_MS_MAX} (100 years), or leave it out for a token \
             that does not expire"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn check_scope(scope: &Scope) -> Result<(), Rejection> {
    if scope.rights.is_empty() {
        return Err(Rejection::Invalid("rights are empty; name at least one".to_owned()));
    }
    match &scope.roles {
        Roles::Only(roles) if ROLES_MAX < roles.len() => Err(Rejection::Invalid(format!(
            "roles has {} entries; at most {ROLES_MAX}",
            roles.len()
        ))),
        Roles::Any | Roles::Only(_) => Ok(()),
    }
}

fn issued_reply(id: &TokenId, it: &Token) -> Reply {
    Reply::Issued { token: id.clone(), expires: it.expires, scope: it.scope.clone() }
}

/// A command that asks for what may be so already.
fn done(events: impl IntoIterator<Item = Event>) -> Decision {
    Decision::new(events, rules::Reply::Done)
}
