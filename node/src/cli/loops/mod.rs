//! `tasuki loop …`: one file per command.

mod handover;
mod history;
mod list;
mod pause;
mod reclaim;
mod resume;
mod start;
mod status;
pub(super) mod text_args;

use tasuki_proto::{
    id::{InvalidId, LoopId, PersonId},
    limits::LOOP_DEFAULT,
};

use super::{Failure, Output, broker::Broker};
use crate::config::Config;

/// Start and steer loops: who has the turn, what was handed over.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(status::Args),
    Start(start::Args),
    Handover(handover::Args),
    Reclaim(reclaim::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    History(history::Args),
    /// List all loops of the workspace
    List,
}

/// Which loop.
#[derive(Debug, clap::Args)]
pub(super) struct Which {
    /// Loop
    #[arg(value_name = "LOOP", default_value = LOOP_DEFAULT)]
    r#loop: LoopId,
}

pub(super) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    match command {
        Command::Status(args) => status::run(args, &broker, output).await,
        Command::Start(args) => start::run(args, &broker, config, output).await,
        Command::Handover(args) => handover::run(args, &broker, output).await,
        Command::Reclaim(args) => reclaim::run(args, &broker, output).await,
        Command::Pause(args) => pause::run(args, &broker, output).await,
        Command::Resume(args) => resume::run(args, &broker, output).await,
        Command::History(args) => history::run(args, &broker, output).await,
        Command::List => list::run(&broker, output).await,
    }
}

/// The person who acts: `named`, else the logged-in user.
pub(super) fn person(named: Option<PersonId>) -> Result<PersonId, Failure> {
    if let Some(named) = named {
        return Ok(named);
    }
    let variables = ["USER", "LOGNAME", "USERNAME"].iter().filter_map(|it| std::env::var(it).ok());
    if let Some(person) = variables.filter_map(|name| as_person(&name).ok()).next() {
        return Ok(person);
    }
    // A service or a container often has no such variable, and sometimes no name at all.
    let user = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = name_of(user, &users).and_then(|name| as_person(name).ok());
    name.map_or_else(|| as_person(&format!("uid-{user}")), Ok)
        .map_err(|why| Failure::usage(format!("Specify --by NAME: $USER {why}.")))
}

/// The name of a user in `/etc/passwd`.
fn name_of(user: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(user)).then_some(name)
    })
}

/// A user's name with what an id may not hold replaced.
fn as_person(user: &str) -> Result<PersonId, InvalidId> {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let name: String = user.chars().map(fit).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    name[..name.len().min(tasuki_proto::limits::ID_BYTES_MAX)].parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_name_becomes_a_persons_id() {
        let name = |user: &str| as_person(user).map(|person| person.to_string());
        assert_eq!(name("alice").as_deref(), Ok("alice"));
        assert_eq!(name("CORP\\Bob Smith").as_deref(), Ok("CORP-Bob-Smith"));
        assert_eq!(name("_www").as_deref(), Ok("www"));
        assert_eq!(name(&"x".repeat(80)).map(|name| name.len()), Ok(64));
        assert!(name("").is_err());
        assert!(name("ÄÖ").is_err());
    }

    #[test]
    fn whoever_has_no_variable_is_called_as_the_system_calls_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\nodd\nalice:x:1000:1000::/home/alice:\n";
        for (user, expected) in [(0, Some("root")), (1000, Some("alice")), (7, None)] {
            assert_eq!(name_of(user, users), expected, "{user}");
        }
    }
}
