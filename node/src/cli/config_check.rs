//! `tasuki config check`: what holds, who said so, and what is wrong.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use owo_colors::OwoColorize as _;
use serde_json::{Map, Value, json};
use tasuki_proto::id::RoleId;

use super::{Failure, Output};
use crate::config::{Config, FILE, Key, Problem, Source, Surroundings, duration_text};

/// See to the configuration.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Print every setting, where it came from, and every problem with its line
    Check,
}

pub(crate) fn run(
    config: &Config,
    problems: &[Problem],
    around: &Surroundings,
    output: &mut Output,
) -> Result<(), Failure> {
    let rows = Key::ALL.map(|key| (key, setting(config, key)));
    let strangers = around.strangers();
    output.answer(
        || value(config, &rows, &strangers),
        || {
            let mut out = heading(config.file.as_deref(), problems) + &lines(&rows);
            for (name, roles) in &config.groups {
                let roles: Vec<&str> = roles.iter().map(RoleId::as_str).collect();
                let of = format!("group {name}");
                out += &format!("{:<14} {}\n", of.bold(), roles.join(" "));
            }
            for name in &strangers {
                out += &format!("\nwarning: {name} is not a setting; it is ignored.\n");
            }
            out
        },
    )?;
    if problems.is_empty() { Ok(()) } else { Err(Failure::configuration(problems)) }
}

type Row = (Key, (Vec<String>, Source));

/// One setting as it would be written, and where it came from.
fn setting(config: &Config, key: Key) -> (Vec<String>, Source) {
    let one = |text: String, source: &Source| (vec![text], source.clone());
    match key {
        Key::Data => one(config.data.value.display().to_string(), &config.data.source),
        Key::Workspace => one(config.workspace.value.to_string(), &config.workspace.source),
        Key::Listen => one(config.listen.value.to_string(), &config.listen.source),
        Key::BrokerListen => {
            one(config.broker_listen.value.to_string(), &config.broker_listen.source)
        }
        Key::Broker => one(config.broker.value.clone().unwrap_or_default(), &config.broker.source),
        Key::Lease => one(duration_text(config.lease.value), &config.lease.source),
        Key::Hold => {
            let hold = config.hold.value.map(duration_text).unwrap_or_default();
            one(hold, &config.hold.source)
        }
        Key::Roles => {
            let roles = config.roles.value.iter().map(ToString::to_string).collect();
            (roles, config.roles.source.clone())
        }
        Key::Shared => {
            let shared = config.shared.value.iter().map(ToString::to_string).collect();
            (shared, config.shared.source.clone())
        }
        Key::Secure => {
            let secure = if config.secure.value { "yes" } else { "no" };
            one(secure.to_owned(), &config.secure.source)
        }
        Key::Advertise => {
            one(config.advertise.value.clone().unwrap_or_default(), &config.advertise.source)
        }
        Key::TlsCert => one(path(&config.tls_cert.value), &config.tls_cert.source),
        Key::TlsKey => one(path(&config.tls_key.value), &config.tls_key.source),
        Key::LogFormat => {
            let format = format!("{:?}", config.log_format.value).to_lowercase();
            one(format, &config.log_format.source)
        }
    }
}

fn value(config: &Config, rows: &[Row], strangers: &[&str]) -> Value {
    let mut settings = Map::new();
    for (key, (texts, source)) in rows {
        let value = if key.is_list() { json!(texts) } else { json!(texts.concat()) };
        let row = json!({"value": value, "from": source.to_string(), "variable": key.env()});
        settings.insert(key.name().to_owned(), row);
    }
    let name = |roles: &Vec<RoleId>| roles.iter().map(ToString::to_string).collect::<Vec<_>>();
    let groups: BTreeMap<_, _> = config.groups.iter().map(|(it, of)| (it, name(of))).collect();
    json!({
        "file": config.file, "settings": settings, "groups": groups,
        "unknown_variables": strangers,
    })
}

fn path(path: &Option<PathBuf>) -> String {
    path.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
}

fn heading(file: Option<&Path>, problems: &[Problem]) -> String {
    match file {
        _ if !problems.is_empty() => {
            "Where there is a problem, this shows what would hold without it.\n\n".to_owned()
        }
        Some(file) => format!("{} is in order.\n\n", file.display()),
        None => format!("There is no {FILE}; these are the defaults and what overrides them.\n\n"),
    }
}

fn lines(rows: &[Row]) -> String {
    let mut out = String::new();
    for (key, (texts, source)) in rows {
        let value = texts.join(" ");
        let value = if value.is_empty() { "(none)" } else { &value };
        let from = format!("from {source}");
        writeln!(out, "{:<14} {}  {}", key.name().bold(), value, from.dimmed())
            .and_then(|()| {
                writeln!(
                    out,
                    "{:<14} {}",
                    "",
                    format!("{} ({})", key.meaning(), key.env()).dimmed()
                )
            })
            .expect("a String takes everything");
    }
    out
}
