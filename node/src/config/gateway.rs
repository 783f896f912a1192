//! `[[gateway.server]]`: the MCP servers whose tools this node offers.
//!
//! It names programs and what they are given, so it is the operator's to say, as `[accept]` is.

use std::{collections::BTreeMap, path::Path, time::Duration};

use rmcp::model::ProtocolVersion;
use tasuki_proto::echo::echo;
use toml::{Spanned, de::DeValue};

use super::{
    Problem, Source, VARIABLE_PREFIX,
    accept::{at_home, is_variable, items, parse_table, path, variable},
    file::{Wrong, text},
    hooks::{UrlHints, number, url},
    launch::{directory_from, words},
};
use crate::gateway::{
    names::ServerName,
    settings::{
        Access, CALL_TIMEOUT, CALL_TIMEOUT_MAX, GatewaySettings, Rule, SERVERS_MAX, ServerSettings,
        ServerTransport,
    },
};

/// The table.
pub(super) const GATEWAY: &str = "gateway";

/// One of its servers, for messages.
const SERVER: &str = "gateway.server";

/// What each may say.
const FIELDS: [&str; 11] = [
    "name",
    "command",
    "env",
    "directory",
    "url",
    "token_env",
    "protocol",
    "timeout_sec",
    "timeouts",
    "allow",
    "deny",
];

const HINTS: UrlHints = UrlHints { secret: "use `token_env`", plain: "use https://" };

/// Parses it. `file` is where a relative directory begins, `home` is what `~` stands for, `at` says
/// where an offset is.
pub(super) fn parse(
    item: &Spanned<DeValue<'_>>,
    file: &Path,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> GatewaySettings {
    let mut servers: Vec<ServerSettings> = Vec::new();
    let mut inner = Vec::new();
    let set = |_: &str, item: &Spanned<DeValue<'_>>| {
        let Some(all) = item.get_ref().as_array().filter(|all| all.len() <= SERVERS_MAX) else {
            let why = format!("takes tables, at most {SERVERS_MAX}: write [[{SERVER}]] above each");
            return Err((None, why));
        };
        for item in all {
            let Some(server) = server(item, file, home, at, &mut inner) else { continue };
            let is_same = |it: &ServerSettings| it.name.is_confusable(&server.name);
            if let Some(other) = servers.iter().find(|it| is_same(it)) {
                let message = format!(
                    "`{SERVER}`: the names {} and {} are too similar: some disks do not tell cases \
                     apart, and some clients write `_` for `-`",
                    other.name, server.name
                );
                inner.push(Problem { at: at(item.span().start), message });
            } else {
                servers.push(server);
            }
        }
        Ok(())
    };
    parse_table(GATEWAY, &["server"], item, at, problems, set);
    problems.append(&mut inner);
    GatewaySettings { servers, exports: Vec::new() }
}

/// `None`: something is wrong with it, which was said.
fn server(
    item: &Spanned<DeValue<'_>>,
    file: &Path,
    home: Option<&Path>,
    at: &dyn Fn(usize) -> Source,
    problems: &mut Vec<Problem>,
) -> Option<ServerSettings> {
    let before = problems.len();
    let (mut name, mut words, mut target) = (None, None, None);
    let (mut env, mut token_env, mut directory, mut protocol) = (None, None, None, None);
    let (mut timeout, mut timeouts, mut access) =
        (CALL_TIMEOUT, BTreeMap::new(), Access::default());
    let set = |field: &str, item: &Spanned<DeValue<'_>>| {
        match field {
            "name" => {
                let wrong =
                    |why| format!("is {}; a name {why}", echo(text(item).unwrap_or_default()));
                name = Some(text(item)?.parse::<ServerName>().map_err(|why| (None, wrong(why)))?);
            }
            "command" => words = Some(command(item, home)?),
            "env" => {
                let all = items(item)?;
                let all: Vec<_> =
                    all.iter().map(|it| variable(it, home)).collect::<Result<_, _>>()?;
                // Some of them are tokens, and none of them is a server's business.
                if let Some((own, _)) = all.iter().find(|it| it.0.starts_with(VARIABLE_PREFIX)) {
                    return Err((None, format!("names {own}, which is Tasuki's own")));
                }
                env = Some(all);
            }
            "directory" => directory = Some(directory_from(text(item)?, file, home)?),
            "url" => target = Some(url(text(item)?, false, &HINTS)?.to_string()),
            "token_env" => {
                let named = text(item)?;
                if !is_variable(named) || named.starts_with(VARIABLE_PREFIX) {
                    let why = "takes the name of a variable of the node that has the token";
                    return Err((None, why.to_owned()));
                }
                token_env = Some(named.to_owned());
            }
            "protocol" => protocol = Some(version(item)?),
            "timeout_sec" => timeout = secs(item)?,
            "timeouts" => {
                let table = item
                    .get_ref()
                    .as_table()
                    .ok_or_else(|| (None, "takes a table of tools and seconds".to_owned()))?;
                for (tool, item) in table {
                    let tool: &str = tool.get_ref();
                    timeouts.insert(tool.to_owned(), secs(item)?);
                }
            }
            "allow" => access.allow = Some(rules(item)?),
            "deny" => access.deny = rules(item)?,
            _ => unreachable!("FIELDS has no other"),
        }
        Ok(())
    };
    parse_table(SERVER, &FIELDS, item, at, problems, set);
    let mut say = |message: String| problems.push(Problem { at: at(item.span().start), message });
    let of = name.as_ref().map_or_else(|| format!("`{SERVER}`"), |it| format!("`{SERVER}` {it}"));
    let transport = match (words, target) {
        (Some(words), None) => {
            if token_env.is_some() {
                say(format!("{of} has `token_env`, which belongs to `url`"));
            }
            let directory = directory.or_else(|| directory_from(".", file, home).ok());
            let env = env.unwrap_or_default();
            Some(ServerTransport::Stdio { words, env, directory: directory.unwrap_or_default() })
        }
        (None, Some(url)) => {
            if env.is_some() || directory.is_some() {
                say(format!("{of} has `env` or `directory`, which belong to `command`"));
            }
            Some(ServerTransport::Http { url, token_env })
        }
        (Some(_), Some(_)) => {
            say(format!("{of} has both `command` and `url`; each is a server"));
            None
        }
        (None, None) => None,
    };
    match (name, transport) {
        (Some(name), Some(transport)) => {
            Some(ServerSettings { name, transport, protocol, timeout, timeouts, access })
        }
        (name, _) => {
            // What is wrong with one that is there was said.
            if problems.len() == before {
                let lacks = if name.is_none() { "`name`" } else { "`command` or `url`" };
                let message = format!("{of} lacks {lacks}");
                problems.push(Problem { at: at(item.span().start), message });
            }
            None
        }
    }
}

fn command(item: &Spanned<DeValue<'_>>, home: Option<&Path>) -> Result<Vec<String>, Wrong> {
    let words = words(item)?;
    let Some(program) = words.first().filter(|it| !it.is_empty()) else {
        return Err((None, "takes a program and its arguments".to_owned()));
    };
    if program.contains(['/', '\\']) {
        path(program, home)?;
    }
    Ok(words.iter().map(|word| at_home(word, home)).collect())
}

fn secs(item: &Spanned<DeValue<'_>>) -> Result<Duration, Wrong> {
    Ok(Duration::from_secs(number(item, 1, CALL_TIMEOUT_MAX.as_secs())?))
}

/// A version of MCP.
fn version(item: &Spanned<DeValue<'_>>) -> Result<ProtocolVersion, Wrong> {
    let text = text(item)?;
    let known = ProtocolVersion::KNOWN_VERSIONS;
    known.iter().find(|it| it.as_str() == text).cloned().ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(ProtocolVersion::as_str).collect();
        (None, format!("is {}; it takes {}", echo(text), known.join(", ")))
    })
}

/// A list of tools for every role, or a table of roles with tools for each.
fn rules(item: &Spanned<DeValue<'_>>) -> Result<Vec<Rule>, Wrong> {
    let of = |roles: &str, item: &Spanned<DeValue<'_>>| -> Result<Vec<Rule>, Wrong> {
        let rule = |tools: &String| {
            pattern(tools)?;
            Ok(Rule { roles: roles.to_owned(), tools: tools.clone() })
        };
        items(item)?.iter().map(rule).collect()
    };
    match item.get_ref().as_table() {
        None => of("*", item),
        Some(table) => {
            let mut all = Vec::new();
            for (roles, item) in table {
                let roles: &str = roles.get_ref();
                pattern(roles)?;
                all.extend(of(roles, item)?);
            }
            Ok(all)
        }
    }
}

pub(super) fn pattern(text: &str) -> Result<(), Wrong> {
    let begin = text.strip_suffix('*').unwrap_or(text);
    if text.is_empty() || begin.contains('*') {
        let why = format!("has {}; it takes a name, or the begin of one and `*`", echo(text));
        return Err((None, why));
    }
    Ok(())
}
