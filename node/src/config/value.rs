//! What the texts of a setting mean.
//!
//! Each function takes the texts of one setting and says in half a sentence, to follow the
//! setting's name, why they will not do.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use http::Uri;
use tasuki_proto::{
    echo::echo,
    host::{config::duration, dashboard::Dashboard},
    id::{InvalidId, RoleId, Toolset},
    limits::{HOLD_MS_MAX, RECEIVERS_MAX, ROLES_MAX, TOOLSETS_MAX},
    net::dial::is_loopback,
};

use crate::toolset::{GATEWAY, SWARM_PREFIX, ToolsetChoice, usual_toolsets};

/// The shortest lease: below it an agent's own thinking would cost it the turn.
const LEASE_MIN: Duration = Duration::from_secs(1);

/// The longest lease: beyond it a person had better reclaim.
const LEASE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A longer name is said back in part, in bytes: none that is in use is as long.
const NAME_BYTES_MAX: usize = 200;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What becomes of a commit or an edit while nobody can say what is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookFail {
    /// It goes on.
    Open,
    /// It is refused.
    Closed,
}

/// A role a node hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub name: RoleId,
    pub toolsets: Vec<ToolsetChoice>,
}

impl Role {
    /// The names of its toolsets, as the broker keeps them.
    pub fn sets(&self) -> Vec<Toolset> {
        let name = |choice: &ToolsetChoice| choice.set.parse().expect("a toolset's name is an id");
        self.toolsets.iter().map(name).collect()
    }

    /// Whether it works on issues, and has `loop` only because every role has it by default.
    pub fn is_standby(&self) -> bool {
        let is_swarm = |it: &ToolsetChoice| it.set.starts_with(SWARM_PREFIX);
        // The tools of other servers come with those.
        let own = self.toolsets.iter().filter(|it| it.set != GATEWAY);
        own.eq(&usual_toolsets(&self.name)) && self.toolsets.iter().any(is_swarm)
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, sets) = match text.split_once('=') {
            None => (text, None),
            Some((name, sets)) => (name, Some(sets)),
        };
        let name = role_id(name)?;
        let toolsets = match sets {
            None => Vec::new(),
            Some(sets) => toolsets(sets.split(','))?,
        };
        Ok(Self { name, toolsets })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sets: Vec<String> = self.toolsets.iter().map(ToString::to_string).collect();
        write!(f, "{}={}", self.name, sets.join(","))
    }
}

pub(super) fn toolsets<'a>(
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<ToolsetChoice>, String> {
    let sets = names.map(str::parse).collect::<Result<Vec<ToolsetChoice>, _>>()?;
    if TOOLSETS_MAX < sets.len() {
        return Err(format!("has {} toolsets; the limit is {TOOLSETS_MAX}", sets.len()));
    }
    Ok(sets)
}

/// A name in a problem: as it is written, but for one that nobody would read to its end.
pub(super) fn name(text: &str) -> String {
    if text.len() <= NAME_BYTES_MAX { text.to_owned() } else { echo(text).to_string() }
}

fn only(texts: &[String]) -> Result<&str, String> {
    match texts {
        [text] => Ok(text),
        _ => Err(format!("takes one value, not {}", texts.len())),
    }
}

pub(super) fn hook_fail(texts: &[String]) -> Result<HookFail, String> {
    match only(texts)? {
        "open" => Ok(HookFail::Open),
        "closed" => Ok(HookFail::Closed),
        other => Err(format!("is {}; it takes open or closed", echo(other))),
    }
}

pub(super) fn path(texts: &[String]) -> Result<PathBuf, String> {
    match only(texts)? {
        "" => Err("is empty; it takes a directory".to_owned()),
        text => Ok(PathBuf::from(text)),
    }
}

pub(super) fn id<T: FromStr<Err = InvalidId>>(texts: &[String]) -> Result<T, String> {
    let text = only(texts)?;
    text.parse().map_err(|why| format!("is {}, which {why}", echo(text)))
}

pub(super) fn dashboard(texts: &[String]) -> Result<Dashboard, String> {
    only(texts)?.parse()
}

pub(super) fn listen(texts: &[String]) -> Result<SocketAddr, String> {
    let text = only(texts)?;
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let wrong = || format!("is {}; it takes ADDRESS:PORT, such as 127.0.0.1:7421", echo(text));
    numeric.parse().map_err(|_| wrong())
}

pub(super) fn yes_or_no(texts: &[String]) -> Result<bool, String> {
    match only(texts)? {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("is {}; it takes yes or no", echo(other))),
    }
}

/// A host name or an address, without a port; none, where it is empty.
pub(super) fn host(texts: &[String]) -> Result<Option<String>, String> {
    let text = only(texts)?.trim_matches(['[', ']']);
    let is_host = text.parse::<std::net::IpAddr>().is_ok()
        || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if !is_host {
        let is = echo(text);
        return Err(format!("is {is}; it takes a host name or an address, without a port"));
    }
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// A file; none, where it is empty.
pub(super) fn file(texts: &[String]) -> Result<Option<PathBuf>, String> {
    Ok(Some(only(texts)?).filter(|text| !text.is_empty()).map(PathBuf::from))
}

pub(super) fn url(texts: &[String]) -> Result<Option<String>, String> {
    let text = only(texts)?.trim_end_matches('/');
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || format!("is {}; it takes a URL such as http://127.0.0.1:7420", echo(text));
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else { return Err(wrong()) };
    if !["http", "https"].contains(&scheme) {
        let (is, scheme) = (echo(text), name(scheme));
        return Err(format!("is {is}, whose scheme is {scheme}; it takes https:// or http://"));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(wrong());
    }
    if scheme == "http" && !is_loopback(host) {
        return Err(format!(
            "is {}: what is not on this machine is reached over https:// alone, so that \
             nobody on the way reads or changes what is said; join that broker to get its address",
            name(text)
        ));
    }
    Ok(Some(text.to_owned()))
}

pub(super) fn lease(texts: &[String]) -> Result<Duration, String> {
    let lease = duration(only(texts)?)?;
    if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Err(format!(
            "is {}; it takes {} to {}",
            duration_text(lease),
            duration_text(LEASE_MIN),
            duration_text(LEASE_MAX)
        ));
    }
    Ok(lease)
}

pub(super) fn hold(texts: &[String]) -> Result<Option<Duration>, String> {
    let text = only(texts)?;
    if text.is_empty() {
        return Ok(None);
    }
    let hold = duration(text)?;
    if hold.is_zero() {
        return Err("is 0, with which no call would wait; leave it out to go by the client".into());
    }
    let longest = Duration::from_millis(HOLD_MS_MAX);
    if longest < hold {
        return Err(format!(
            "is {}; the longest is {}",
            duration_text(hold),
            duration_text(longest)
        ));
    }
    Ok(Some(hold))
}

pub(super) fn roles(texts: &[String]) -> Result<Vec<Role>, String> {
    let roles = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Role>, _>>()?;
    if roles.is_empty() {
        return Err("is empty; name at least one role".into());
    }
    if ROLES_MAX < roles.len() {
        return Err(format!("has {} roles; the limit is {ROLES_MAX}", roles.len()));
    }
    check_each_once(roles.iter().map(|role| &role.name).collect())?;
    Ok(roles)
}

/// Some of the roles, each once.
pub(super) fn names(texts: &[String]) -> Result<Vec<RoleId>, String> {
    if ROLES_MAX < texts.len() {
        return Err(format!("has {} roles; the limit is {ROLES_MAX}", texts.len()));
    }
    let roles = role_ids(texts)?;
    check_each_once(roles.iter().collect())?;
    Ok(roles)
}

fn check_each_once(mut names: Vec<&RoleId>) -> Result<(), String> {
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("names the role {} twice", pair[0])),
        None => Ok(()),
    }
}

/// Any number of roles' names.
fn role_ids(texts: &[String]) -> Result<Vec<RoleId>, String> {
    texts.iter().map(|text| role_id(text)).collect()
}

fn role_id(text: &str) -> Result<RoleId, String> {
    text.parse().map_err(|why: InvalidId| format!("names the role {}, which {why}", echo(text)))
}

/// The roles of a group: some, each once, as many as one message can go to.
pub(super) fn group(name: &str, texts: &[String]) -> Result<Vec<RoleId>, String> {
    let is_name: Result<RoleId, InvalidId> = name.parse();
    is_name.map_err(|why| format!("is no name for a group: it {why}"))?;
    let mut roles = role_ids(texts)?;
    if !(1..=RECEIVERS_MAX).contains(&roles.len()) {
        return Err(format!("has {} roles; it takes 1 to {RECEIVERS_MAX}", roles.len()));
    }
    roles.sort_unstable();
    check_each_once(roles.iter().collect())?;
    Ok(roles)
}

pub(super) fn log_format(texts: &[String]) -> Result<LogFormat, String> {
    match only(texts)? {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("is {}; it takes text or json", echo(other))),
    }
}

/// In the largest unit that says it exactly.
pub fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit_ms, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")] {
        if ms != 0 && ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}
