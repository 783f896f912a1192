//! What this machine may do at its broker, and how it knows the broker: in words, for programs,
//! and asked before a node starts.

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::{invitation::Trust, reason::Reason, token::Right, wire};

use super::{
    Failure,
    broker::Broker,
    text::{line, time},
};
use crate::{
    clock,
    config::Config,
    credentials::{Credentials, Joined, TOKEN_VARIABLE},
};

/// Before a token's end this long it is pointed out, in milliseconds: a week, for somebody has to
/// ask somebody.
pub(super) const WARN_BEFORE_MS: u64 = 7 * 24 * 3600 * 1000;

/// What the broker says of this machine, and how it is known.
pub(super) struct Access {
    trust: Option<Trust>,
    said: wire::WhoAmIResponse,
}

impl Access {
    /// `None` for a broker on this machine that asks nobody for a token.
    pub(super) async fn look(broker: &Broker) -> Result<Option<Self>, Failure> {
        let Credentials { trust, token, .. } = broker.credentials()?;
        let is_encrypted = broker.url.starts_with("https:");
        if !is_encrypted && token.is_none() {
            return Ok(None);
        }
        let request = wire::WhoAmIRequest {};
        let said = broker.call(&request).await?;
        Ok(Some(Self { trust: is_encrypted.then_some(trust), said }))
    }

    /// When the token ends, by the broker's clock; 0: never, or there is none.
    pub(super) const fn expires_ms(&self) -> u64 {
        self.said.expires_ms
    }

    pub(super) fn value(&self) -> Value {
        let wire::WhoAmIResponse { token_id, scope, expires_ms, label } = &self.said;
        let mut value = scope_in_json(scope.as_ref(), *expires_ms);
        value["token_id"] = (!token_id.is_empty()).then_some(token_id.as_str()).into();
        value["label"] = label.as_str().into();
        value["fingerprint"] = match self.trust {
            Some(Trust::Pinned(fingerprint)) => fingerprint.to_string().into(),
            Some(Trust::Authorities) | None => Value::Null,
        };
        value
    }

    pub(super) fn lines(&self) -> String {
        let wire::WhoAmIResponse { token_id, scope, expires_ms, .. } = &self.said;
        let mut out = match self.trust {
            Some(Trust::Pinned(fingerprint)) => {
                format!("  known by its certificate {fingerprint}\n")
            }
            Some(Trust::Authorities) => "  vouched for by an authority\n".to_owned(),
            None => String::new(),
        };
        let may = may_in_words(scope.as_ref(), *expires_ms);
        let may = if token_id.is_empty() {
            "no token".to_owned()
        } else {
            format!("token {}: {may}", line(token_id))
        };
        out += &format!("  {}\n", may.dimmed());
        let left = expires_ms.saturating_sub(clock::wall_ms());
        if *expires_ms != 0 && left < WARN_BEFORE_MS {
            let warning = format!(
                "the token ends {}; ask for an invitation and join again",
                time(*expires_ms)
            );
            out += &format!("  {}\n", warning.yellow());
        }
        out
    }
}

/// What a token is for, without its secret.
pub(super) fn joined_in_json(joined: &Joined) -> Value {
    let mut value = scope_in_json(Some(&joined.scope()), joined.expires_ms);
    value["broker"] = joined.broker.as_str().into();
    value["fingerprint"] = joined.fingerprint.clone().into();
    value["token_id"] = joined.token().map(|token| token.id.to_string()).into();
    value
}

fn scope_in_json(scope: Option<&wire::Scope>, expires_ms: u64) -> Value {
    let wire::Scope { workspace, roles, is_any_role, rights } = scope.cloned().unwrap_or_default();
    json!({
        "workspace": (!workspace.is_empty()).then_some(workspace),
        "roles": roles,
        "is_any_role": is_any_role,
        "rights": rights,
        "expires_ms": (expires_ms != 0).then_some(expires_ms),
    })
}

/// What its bearer may do, until when.
pub(super) fn may_in_words(scope: Option<&wire::Scope>, expires_ms: u64) -> String {
    let wire::Scope { workspace, roles, is_any_role, rights } = scope.cloned().unwrap_or_default();
    let roles = match roles.as_slice() {
        _ if is_any_role => "every role".to_owned(),
        [] => "no role".to_owned(),
        roles => roles.join(", "),
    };
    let place = match workspace.as_str() {
        "" => "every workspace".to_owned(),
        name => format!("workspace {name}"),
    };
    let until = match expires_ms {
        0 => "until it is revoked".to_owned(),
        ms => format!("until {}", time(ms)),
    };
    line(&format!("may act as {roles} in {place} ({}), {until}", rights.join(", ")))
}

/// How the broker is known, to follow its address.
pub(super) fn trust_in_words(joined: &Joined) -> String {
    match (&joined.fingerprint, &joined.ca) {
        (Some(fingerprint), _) => format!(", known by its certificate {fingerprint}"),
        (None, Some(ca)) => format!(", vouched for by the authorities in {}", ca.display()),
        (None, None) => ", vouched for by an authority that this machine trusts".to_owned(),
    }
}

/// Whether a node with this configuration is one that its token allows, as far as is known here.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    // The variable's token is another, and what that may do only the broker knows.
    if std::env::var(TOKEN_VARIABLE).is_ok_and(|text| !text.trim().is_empty()) {
        return Ok(());
    }
    let joined = Joined::read(&config.root);
    let joined = joined.map_err(|why| Failure::local(format!("{why}.")))?;
    let Some(joined) = joined.filter(|joined| joined.is_of(&config.broker_url())) else {
        return Ok(());
    };
    let may = format!(
        "The token this machine joined with {}",
        may_in_words(Some(&joined.scope()), joined.expires_ms)
    );
    let workspace = &config.workspace;
    if !joined.workspace.is_empty() && workspace.value.as_str() != joined.workspace {
        return Err(Failure::reason(
            Reason::UnknownWorkspace,
            format!("{may}; `workspace` is {} by {}.", workspace.value, workspace.source),
        ));
    }
    if let Some(stray) = roles_not_allowed(config, &joined) {
        return Err(Failure::reason(
            Reason::RoleForbidden,
            format!(
                "{may}; `roles` has {} by {}. Leave that out, or ask for an invitation that \
                 allows it and join again.",
                stray.join(", "),
                config.roles.source
            ),
        ));
    }
    if !joined.has_right(Right::Host) {
        return Err(Failure::reason(
            Reason::RightForbidden,
            format!("{may}; a node takes the right `host`. Ask for an invitation that has it."),
        ));
    }
    Ok(())
}

/// Roles of a configuration that a token does not allow.
pub(super) fn roles_not_allowed<'a>(config: &'a Config, joined: &Joined) -> Option<Vec<&'a str>> {
    let roles = config.roles.value.iter().map(|role| &role.name);
    let stray: Vec<&str> =
        roles.filter(|role| !joined.has_role(role)).map(|role| role.as_str()).collect();
    (!stray.is_empty()).then_some(stray)
}
