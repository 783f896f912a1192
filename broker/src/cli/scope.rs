//! What an invitation or a token allows: as flags, and in words.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use serde_json::{Value, json};
use tasuki_proto::{
    host::config::duration,
    id::{RoleId, WorkspaceId},
    limits::{INVITATION_MS_MAX, WORKSPACE_DEFAULT},
    token::Right,
    visible::is_visible,
    wire,
};

use super::administer::No;

/// The last moment that has a date of four digits, in milliseconds.
const DATE_MS_MAX: u64 = 253_402_300_799_999;

/// Where its bearer may do what, as which roles.
#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
    /// Workspace [default: default]
    #[arg(long, value_name = "NAME")]
    workspace: Option<WorkspaceId>,

    /// Allow every workspace, as for a program that reads the dashboard
    #[arg(long, conflicts_with = "workspace")]
    all_workspaces: bool,

    /// Role that the token may act as; repeatable
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<RoleId>,

    /// Allow every role
    #[arg(long, conflicts_with = "roles")]
    any_role: bool,

    #[arg(long = "right", value_name = "RIGHT", help = rights_help())]
    rights: Vec<Right>,
}

fn rights_help() -> String {
    let (all, default) = (Right::names(Right::ALL), Right::names(Right::OF_A_NODE));
    format!("Right, one of {all}; repeatable [default: those that a node needs: {default}]")
}

impl ScopeArgs {
    /// # Errors
    /// When nobody could act with it.
    pub(super) fn scope(self) -> Result<wire::Scope, No> {
        let rights = if self.rights.is_empty() { Right::OF_A_NODE.to_vec() } else { self.rights };
        let rights: BTreeSet<Right> = rights.into_iter().collect();
        let acts = [Right::Host, Right::Send, Right::Claim, Right::Review];
        let needs_role = acts.iter().any(|right| rights.contains(right));
        if needs_role && self.roles.is_empty() && !self.any_role {
            return Err(No::usage("Specify the roles: --role NAME, once for each, or --any-role."));
        }
        let roles: BTreeSet<&str> = self.roles.iter().map(RoleId::as_str).collect();
        let workspace = match &self.workspace {
            Some(workspace) => workspace.as_str(),
            None if self.all_workspaces => "",
            None => WORKSPACE_DEFAULT,
        };
        Ok(wire::Scope {
            workspace: workspace.to_owned(),
            roles: roles.into_iter().map(str::to_owned).collect(),
            is_any_role: self.any_role,
            rights: rights.into_iter().map(|right| right.as_str().to_owned()).collect(),
        })
    }
}

/// A time of validity: `1h`, `90d`; never 0, which would mean something else on the wire.
pub(super) fn validity(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("is 0; it takes a time such as 1h or 90d".to_owned()),
        validity => Ok(validity),
    }
}

/// The same where the broker allows 30 days at most.
pub(super) fn short_validity(text: &str) -> Result<Duration, String> {
    let validity = validity(text)?;
    if u128::from(INVITATION_MS_MAX) < validity.as_millis() {
        return Err("is more than 30d, the limit".to_owned());
    }
    Ok(validity)
}

/// 0 where none was said.
pub(super) fn ms(validity: Option<Duration>) -> u64 {
    validity.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// Half a sentence: as whom, where, what.
pub(super) fn in_words(scope: &wire::Scope) -> String {
    let roles = if scope.is_any_role { "every role".to_owned() } else { scope.roles.join(", ") };
    let roles = if roles.is_empty() { "no role".to_owned() } else { roles };
    let place = match scope.workspace.as_str() {
        "" => "in every workspace".to_owned(),
        name => format!("in workspace {name}"),
    };
    visible(&format!("{roles} {place} ({})", scope.rights.join(", ")))
}

pub(super) fn in_json(scope: Option<&wire::Scope>) -> Value {
    let Some(scope) = scope else { return Value::Null };
    json!({
        "workspace": (!scope.workspace.is_empty()).then_some(&scope.workspace),
        "roles": scope.roles,
        "is_any_role": scope.is_any_role,
        "rights": scope.rights,
    })
}

/// A time of the broker's clock, in UTC.
pub(super) fn time(ms: u64) -> String {
    if DATE_MS_MAX < ms {
        return "the year 9999 and later".to_owned();
    }
    let at = std::time::UNIX_EPOCH + Duration::from_millis(ms);
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ")
}

/// `null` for never.
pub(super) fn time_in_json(ms: u64) -> Value {
    if ms == 0 { Value::Null } else { ms.into() }
}

/// Somebody else's text, on one line of ours.
pub(super) fn visible(text: &str) -> String {
    let bare = anstream::adapter::strip_str(text).to_string();
    let shown = bare.chars().map(|c| if c.is_whitespace() { ' ' } else { c });
    shown.filter(|c| is_visible(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(roles: &[&str], rights: &[Right]) -> ScopeArgs {
        ScopeArgs {
            workspace: None,
            all_workspaces: false,
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            any_role: false,
            rights: rights.to_vec(),
        }
    }

    #[test]
    fn the_help_names_every_right() {
        let command = ScopeArgs::augment_args(clap::Command::new("invite"));
        let mut arguments = command.get_arguments();
        let rights = arguments.find(|it| it.get_long() == Some("right")).unwrap();
        let help = rights.get_help().unwrap().to_string();
        let words: Vec<&str> = help.split(|it: char| !it.is_alphabetic()).collect();
        for right in Right::ALL {
            assert!(words.contains(&right.as_str()), "{right}: {help}");
        }
    }

    #[test]
    fn a_scope_in_which_nobody_can_act_is_refused() {
        assert!(args(&[], &[]).scope().is_err());
        assert!(args(&[], &[Right::Read, Right::Send]).scope().is_err());
        for right in [Right::Read, Right::Steer, Right::Admin] {
            assert_eq!(args(&[], &[right]).scope().unwrap().rights, [right.as_str()]);
        }
    }

    #[test]
    fn a_scope_is_for_one_workspace_unless_it_is_for_all() {
        let reader = || args(&[], &[Right::Read]);
        assert_eq!(reader().scope().unwrap().workspace, WORKSPACE_DEFAULT);
        let all = ScopeArgs { all_workspaces: true, ..reader() };
        assert_eq!(all.scope().unwrap().workspace, "");
    }

    #[test]
    fn a_node_gets_what_it_needs_and_each_name_once() {
        let scope = args(&["qa", "dev", "qa"], &[]).scope().unwrap();
        assert_eq!(scope.roles, ["dev", "qa"]);
        assert_eq!(scope.rights, ["read", "host", "send", "claim", "review"]);
        assert_eq!(
            in_words(&scope),
            "dev, qa in workspace default (read, host, send, claim, review)"
        );
    }

    #[test]
    fn what_stands_for_30_days_at_most_is_not_cut_in_silence() {
        assert_eq!(short_validity("30d"), Ok(Duration::from_millis(INVITATION_MS_MAX)));
        assert_eq!(short_validity("721h"), Err("is more than 30d, the limit".to_owned()));
        assert!(short_validity("0s").is_err() && validity("721h").is_ok());
    }

    #[test]
    fn times_and_labels_are_for_people() {
        assert_eq!(time(1_795_302_600_999), "2026-11-21 23:10:00Z");
        assert_eq!(time(u64::MAX), "the year 9999 and later");
        assert_eq!(visible("a\u{1b}[31m b\u{202e}\n\tc"), "a b  c");
    }
}
