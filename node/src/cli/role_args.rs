//! The role that a command acts as, given or not, and the broker as that role reaches it.

use std::collections::BTreeSet;

use tasuki_proto::{
    id::RoleId,
    limits::{ROLE_HUMAN, SWARM_PAGE_MAX},
    nearest::did_you_mean,
    reason::Reason,
    wire,
};

use super::{
    Failure,
    broker::{self, Broker},
    text::line,
};
use crate::{
    config::{Config, Environment, ROLE_VARIABLE, Source},
    filebox,
    paths::NodeFile,
};

/// Names of other roles that a refusal lists; more are not read.
const NAMES_MAX: usize = 20;

/// How to see which roles there are.
const ROLES_HINT: &str = "`tasuki status` shows the roles of the workspace";

/// Which role a command acts as.
#[derive(Debug, clap::Args)]
pub(super) struct RoleArgs {
    /// Role to act as [default: TASUKI_ROLE, else the only role in the settings, else
    /// `current_agent` of `.filebox`, else the only role of the running node]
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
    /// Allow a role that the workspace does not know yet
    #[arg(long)]
    new_role: bool,
}

/// Which role a command asks as, where none has to be named.
#[derive(Debug, clap::Args)]
pub(super) struct OptionalRoleArgs {
    /// Role to act as; claim tokens are shown only to their holder
    #[arg(long, visible_alias = "as", value_name = "ROLE")]
    role: Option<RoleId>,
}

/// A role at the broker.
#[derive(Debug)]
pub(super) struct RoleClient {
    pub(super) broker: Broker,
    /// Empty: no role asks.
    pub(super) role: String,
}

impl RoleArgs {
    /// Fails for a role that the workspace does not know, unless that is allowed.
    pub(super) async fn client(&self, config: &Config) -> Result<RoleClient, Failure> {
        let role = role(self.role.as_ref(), config, ROLES_HINT)?;
        let client = RoleClient { broker: Broker::new(config), role: role.to_string() };
        if !self.new_role {
            client.check_role(config).await?;
        }
        Ok(client)
    }

    /// The role as it was given, if it was; not checked.
    pub(super) fn optional_client(&self, config: &Config) -> RoleClient {
        RoleClient::optional(self.role.as_ref(), config)
    }
}

impl OptionalRoleArgs {
    pub(super) fn client(&self, config: &Config) -> RoleClient {
        RoleClient::optional(self.role.as_ref(), config)
    }
}

impl RoleClient {
    /// No role asks.
    pub(super) fn anonymous(config: &Config) -> Self {
        Self::optional(None, config)
    }

    fn optional(role: Option<&RoleId>, config: &Config) -> Self {
        let role = role.map(ToString::to_string).unwrap_or_default();
        Self { broker: Broker::new(config), role }
    }

    /// Whether the workspace knows the role: work under a mistyped name would be seen by nobody.
    ///
    /// It is one of this machine's node's, or mail knows it, or it works on issues, has locked
    /// files, leads an issue or has claimed a delivery: who acts as a new role once, goes on with
    /// what it has.
    async fn check_role(&self, config: &Config) -> Result<(), Failure> {
        let Self { broker, role } = self;
        // The broker hears of a node's roles a moment after it began.
        let is_here = |it: &NodeFile| broker.has(it) && it.roles.contains(role);
        if NodeFile::read(&config.data.value).is_some_and(|it| is_here(&it)) {
            return Ok(());
        }
        let Some(mut known) = known_roles(broker).await? else { return Ok(()) };
        if known.contains(role) || role == ROLE_HUMAN {
            return Ok(());
        }
        let (workers, _) = every_worker(broker, wire::ListWorkersRequest::default()).await?;
        known.extend(workers.into_iter().map(|it| it.worker));
        // Its own, then the newest of all, for their names.
        for (lead, limit) in [(role.clone(), 1), (String::new(), SWARM_PAGE_MAX)] {
            let issues = wire::ListIssuesRequest { lead, limit, ..Default::default() };
            known.extend(broker.call(&issues).await?.issues.into_iter().map(|it| it.lead));
        }
        for (claimed_by, limit) in [(role.clone(), 1), (String::new(), SWARM_PAGE_MAX)] {
            let deliveries =
                wire::ListDeliveriesRequest { claimed_by, limit, ..Default::default() };
            known.extend(
                broker.call(&deliveries).await?.deliveries.into_iter().map(|it| it.claimed_by),
            );
        }
        let holder = role.clone();
        let locks = wire::ListLocksRequest { holder, limit: 1, ..Default::default() };
        known.extend(broker.call(&locks).await?.locks.into_iter().map(|it| it.holder));
        known.remove("");
        if known.contains(role) {
            return Ok(());
        }
        let not = "it has no mailbox, no node hosts it, no loop names it, and it has no part in any \
                   issue. Nothing was done";
        Err(unknown_role(broker, role, &known, not, "act as it with --new-role"))
    }
}

/// What says which roles are here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LocalRoles {
    /// As the variable has it, which is for one agent's shell.
    pub(super) variable: Option<RoleId>,
    /// In the settings.
    set: Vec<RoleId>,
    /// Of the running node. `None`: there is none in this workspace.
    hosted: Option<Vec<RoleId>>,
}

impl LocalRoles {
    /// Fails with why, if the variable holds no role.
    pub(super) fn read(config: &Config, around: &Environment) -> Result<Self, String> {
        let running = NodeFile::read(&config.data.value);
        Self::with(config, around, running)
    }

    fn with(
        config: &Config,
        around: &Environment,
        running: Option<NodeFile>,
    ) -> Result<Self, String> {
        let variable = around.env.get(ROLE_VARIABLE).filter(|it| !it.is_empty());
        let variable = variable.map(|name| {
            name.parse().map_err(|why| format!("{ROLE_VARIABLE} is {name:?}, which {why}"))
        });
        let set = match config.roles.source {
            Source::Default => Vec::new(),
            Source::Filebox(_) | Source::File { .. } | Source::Env(_) | Source::Flag(_) => {
                config.roles.value.iter().map(|role| role.name.clone()).collect()
            }
        };
        let workspace = broker::workspace(config);
        let hosted = running.filter(|it| it.workspace == workspace.as_str());
        let hosted = hosted.map(|it| it.roles.iter().filter_map(|it| it.parse().ok()).collect());
        Ok(Self { variable: variable.transpose()?, set, hosted })
    }

    #[cfg(test)]
    pub(super) fn hosting(variable: Option<RoleId>, hosted: &[RoleId]) -> Self {
        Self { variable, set: Vec::new(), hosted: Some(hosted.to_vec()) }
    }

    /// The roles of this machine: those of the running node, else those in the settings.
    pub(super) fn all(&self) -> &[RoleId] {
        self.hosted.as_ref().unwrap_or(&self.set)
    }
}

/// The role that was given, else the usual one of this place. `hint` says how to see the roles.
pub(super) fn role(given: Option<&RoleId>, config: &Config, hint: &str) -> Result<RoleId, Failure> {
    if let Some(role) = given {
        return Ok(role.clone());
    }
    let around = Environment::of_process();
    let here =
        LocalRoles::read(config, &around).map_err(|why| Failure::usage(format!("{why}.")))?;
    default_role(here, &around, hint)
}

/// The roles that have a mailbox, that a node hosts or that a loop names. `None`: whoever asks may
/// not see them, and is judged by what else is asked for.
pub(super) async fn known_roles(broker: &Broker) -> Result<Option<BTreeSet<String>>, Failure> {
    let request = wire::ListMailboxesRequest::default();
    match broker.call(&request).await {
        Ok(all) => Ok(Some(all.mailboxes.into_iter().map(|it| it.role).collect())),
        Err(why) if why.as_reason() == Some(Reason::RightForbidden) => Ok(None),
        Err(why) => Err(why),
    }
}

/// All workers that a request asks for, page by page, and the broker's time.
pub(super) async fn every_worker(
    broker: &Broker,
    mut request: wire::ListWorkersRequest,
) -> Result<(Vec<wire::Worker>, u64), Failure> {
    let mut workers = Vec::new();
    loop {
        let page = broker.call(&request).await?;
        workers.extend(page.workers);
        if page.next.is_empty() {
            return Ok((workers, page.now_ms));
        }
        request.after = page.next;
    }
}

/// The refusal of a role that is none of those. `not` says what it is not and what was not done,
/// `next` what to do if the name is right.
pub(super) fn unknown_role(
    broker: &Broker,
    role: &str,
    known: &BTreeSet<String>,
    not: &str,
    next: &str,
) -> Failure {
    let workspace = broker.workspace();
    let near = did_you_mean(role, known.iter().map(String::as_str));
    let mut names: Vec<_> = known.iter().take(NAMES_MAX).map(|it| line(it)).collect();
    if NAMES_MAX < known.len() {
        names.push(format!("and {} more", known.len() - NAMES_MAX));
    }
    let known = match names.as_slice() {
        [] => "It knows none yet".to_owned(),
        names => format!("It knows {}", names.join(", ")),
    };
    let known = line(&(known + &near));
    Failure::reason(
        Reason::UnknownRole,
        format!(
            "Workspace {workspace} knows no role {role}: {not}. {known}. If the name is right, \
             start a node with that role, or {next}."
        ),
    )
}

/// What was said counts before what was set, that before what surrounds the command, and that
/// before what happens to run.
fn default_role(here: LocalRoles, around: &Environment, hint: &str) -> Result<RoleId, Failure> {
    if let Some(role) = here.variable {
        return Ok(role);
    }
    if let [one] = here.set.as_slice() {
        return Ok(one.clone());
    }
    let found = filebox::current_agent(&around.directory, around.home.as_deref());
    if let Some(role) = found.map_err(|why| Failure::usage(why.to_string()))? {
        return Ok(role);
    }
    let names: Vec<&str> = match here.all() {
        [one] => return Ok(one.clone()),
        all => all.iter().map(RoleId::as_str).collect(),
    };
    let choice = match names.as_slice() {
        [] => hint.to_owned(),
        names => format!("Available: {}", names.join(", ")),
    };
    let text = format!("Specify --role. {choice}.");
    Err(Failure::reason(Reason::RoleRequired, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Key, Layer, Raw};

    #[test]
    fn who_one_is_follows_from_settings_then_place_then_node() {
        let place = tempfile::tempdir().unwrap();
        let mut around = Environment::within(place.path());
        let said_in = |around: &Environment, roles: &str, hosted: &[&str]| {
            let mut layer = Layer::new();
            if !roles.is_empty() {
                let texts = roles.split(' ').map(str::to_owned).collect();
                layer.insert(Key::Roles, Raw { source: Source::Env("TASUKI_ROLES"), texts });
            }
            let config = Config::load(layer, None, around).unwrap();
            let node = NodeFile {
                roles: hosted.iter().map(|it| (*it).to_owned()).collect(),
                ..NodeFile::example("default")
            };
            let running = (!hosted.is_empty()).then_some(node);
            let here = LocalRoles::with(&config, around, running);
            let here = here.map_err(|why| Failure::usage(format!("{why}.")));
            match here.and_then(|here| default_role(here, around, "`x` shows them")) {
                Ok(role) => role.to_string(),
                Err(failure) => format!("{}: {}", failure.code(), failure.message),
            }
        };
        let said = |roles: &str, hosted: &[&str]| said_in(&around, roles, hosted);
        let no = "role_required: Specify --role. ";
        assert_eq!(said("qa", &["x"]), "qa");
        assert_eq!(said("", &["x"]), "x");
        assert_eq!(said("qa dev", &["x"]), "x");
        assert_eq!(said("", &["x", "y"]), format!("{no}Available: x, y."));
        assert_eq!(said("qa dev", &[]), format!("{no}Available: qa, dev."));
        assert_eq!(said("", &[]), format!("{no}`x` shows them."));
        let filebox = r#"{"current_agent": "pm", "agents": {"pm": ".", "qa": "q"}}"#;
        std::fs::write(place.path().join(".filebox"), filebox).unwrap();
        assert_eq!(said("", &["x"]), "pm");
        assert_eq!(said("qa dev", &["x", "y"]), "pm");
        assert_eq!(said("qa", &["x"]), "qa");
        for (variable, expected) in [("dev", "dev"), ("", "qa")] {
            around.env.insert(ROLE_VARIABLE.to_owned(), variable.to_owned());
            assert_eq!(said_in(&around, "qa", &["x"]), expected);
        }
        around.env.insert(ROLE_VARIABLE.to_owned(), "no role".to_owned());
        assert!(said_in(&around, "qa", &[]).starts_with("usage: TASUKI_ROLE is \"no role\", "));
    }
}
