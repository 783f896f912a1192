//! `tasuki hook`: calls of hooks that wait, and those that failed for good.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tasuki_proto::id::HookName;

use super::{
    Failure, Output,
    text::{line, time},
};
use crate::{
    config::{Config, Problem},
    hooks::store::{Call, Store},
};

/// Of an id, at least so many of its digits name a call.
const PREFIX_DIGITS_MIN: usize = 4;

/// List, retry and drop calls of hooks: of programs and addresses
///
/// A node calls them on mail, turns, issues, tasks, deliveries and runs. Hooks of Git and of coding
/// agents, about locked files, are `tasuki lock-hook`.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// List calls that wait, and dead letters: calls that failed for good, and why
    List,
    /// Retry dead letters
    ///
    /// Each keeps its id, so that its receiver can recognise a repeat. The running node retries them
    /// within two seconds; without one, the next node does.
    Retry(Which),
    /// Drop dead letters, or waiting calls by their ids
    Drop(Which),
}

/// Calls of hooks.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Ids, or the first digits of them
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All dead letters of one hook
    #[arg(long, value_name = "NAME")]
    hook: Option<HookName>,
    /// All dead letters
    #[arg(long)]
    all: bool,
}

/// What is kept of one hook.
struct Kept {
    hook: HookName,
    is_configured: bool,
    waiting: Vec<Call>,
    dead: Vec<Call>,
}

pub(crate) fn run(command: Command, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let store = Store::of(&config.data.value);
    let kept = read_kept(&store, config).map_err(|why| {
        Failure::local(format!("What hooks keep in the data directory cannot be read: {why}."))
    })?;
    match command {
        Command::List => {
            let refused = refused(config);
            output.answer(|| value(&kept, refused), || lines(&kept, refused))
        }
        Command::Retry(which) => {
            let done = act(&kept, &which, &|hook, call| match call.failed {
                Some(_) => store.revive(hook, call),
                None => Ok(()),
            })?;
            print_done(output, &done, "to be retried")
        }
        Command::Drop(which) => {
            let done = act(&kept, &which, &|hook, call| store.drop(hook, call))?;
            print_done(output, &done, "dropped")
        }
    }
}

/// Why the hooks of the configuration do not count.
fn refused(config: &Config) -> Option<&Problem> {
    config.distrust.as_ref().filter(|it| it.message.starts_with("`hooks`"))
}

fn read_kept(store: &Store, config: &Config) -> std::io::Result<Vec<Kept>> {
    let configured = config.hooks.iter().map(|hook| hook.value.name.clone());
    let mut names = store.hooks()?;
    names.extend(configured.clone());
    names.sort_unstable();
    names.dedup();
    let of = |hook: HookName| {
        Ok(Kept {
            is_configured: configured.clone().any(|name| name == hook),
            waiting: store.list_waiting(&hook)?,
            dead: store.list_dead(&hook)?,
            hook,
        })
    };
    names.into_iter().map(of).collect()
}

/// Does something with each that is meant; all are found before anything is done.
fn act<'a>(
    kept: &'a [Kept],
    which: &Which,
    work: &dyn Fn(&HookName, &Call) -> std::io::Result<()>,
) -> Result<Vec<String>, Failure> {
    let mut meant: Vec<(&'a HookName, &'a Call)> = Vec::new();
    if which.ids.is_empty() {
        let is_meant = |kept: &&Kept| which.hook.as_ref().is_none_or(|name| *name == kept.hook);
        let dead = |kept: &'a Kept| kept.dead.iter().map(|call| (&kept.hook, call));
        meant.extend(kept.iter().filter(is_meant).flat_map(dead));
    }
    for id in &which.ids {
        meant.push(find(kept, id)?);
    }
    let mut done = Vec::new();
    for (hook, call) in meant {
        work(hook, call).map_err(|why| {
            let before = done.len();
            Failure::local(format!("After {before} of them the disk failed: {why}."))
        })?;
        done.push(call.id.clone());
    }
    Ok(done)
}

fn find<'a>(kept: &'a [Kept], id: &str) -> Result<(&'a HookName, &'a Call), Failure> {
    let calls = kept.iter().flat_map(|kept| {
        // One that was called again and failed again is the dead letter.
        kept.dead.iter().chain(&kept.waiting).map(|call| (&kept.hook, call))
    });
    let mut found: Vec<_> = calls.filter(|(_, call)| call.id.starts_with(id)).collect();
    found.dedup_by(|one, other| one.1.id == other.1.id);
    match found.as_slice() {
        [one] if PREFIX_DIGITS_MIN <= id.len() => Ok(*one),
        [] => Err(Failure::usage(format!("No call has the id {}.", line(id)))),
        [_] => Err(Failure::usage(format!(
            "{} is short; give at least {PREFIX_DIGITS_MIN} digits of an id.",
            line(id)
        ))),
        many => Err(Failure::usage(format!("{} have ids that begin with {id}.", many.len()))),
    }
}

fn print_done(output: &mut Output, ids: &[String], what: &str) -> Result<(), Failure> {
    output.answer(|| json!({ "ids": ids }), || format!("{} {what}.\n", ids.len()))
}

fn value(kept: &[Kept], refused: Option<&Problem>) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let call = |call: &Call| {
        let failed = call.failed.as_ref();
        json!({
            "id": call.id, "event": call.event, "role": text(&call.role),
            "message_id": text(&call.message_id), "about": text(&call.about), "at_ms": call.at_ms,
            "failed_ms": failed.map(|it| it.at_ms), "attempts": failed.map(|it| it.attempts),
            "why": failed.map(|it| it.why.as_str()),
        })
    };
    let hook = |kept: &Kept| {
        json!({
            "hook": kept.hook.as_str(), "configured": kept.is_configured,
            "waiting": kept.waiting.iter().map(call).collect::<Vec<_>>(),
            "dead_letters": kept.dead.iter().map(call).collect::<Vec<_>>(),
        })
    };
    let refused = refused.map(ToString::to_string);
    json!({ "hooks": kept.iter().map(hook).collect::<Vec<_>>(), "refused": refused })
}

fn lines(kept: &[Kept], refused: Option<&Problem>) -> String {
    let mut out = String::new();
    let mut write = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    if let Some(why) = refused {
        write(format_args!("Hooks are refused: {}.\n", line(&why.to_string()).yellow()));
    } else if kept.is_empty() {
        write(format_args!("There are no hooks; [[hooks]] in the configuration makes them.\n"));
    }
    for Kept { hook, is_configured, waiting, dead } in kept {
        let note = if *is_configured { "" } else { "  no longer configured" };
        let (waits, fails) = (waiting.len(), dead.len());
        let counts = format!("{waits} waiting, {fails} dead letters");
        write(format_args!("{}  {counts}{}\n", hook.bold(), note.yellow()));
        for call in waiting.iter().chain(dead) {
            let Call { id, event, role, message_id, about, at_ms, .. } = call;
            let role = if role.is_empty() { "this node" } else { role };
            let about = if about.is_empty() { message_id } else { about };
            let (event, role, about) = (line(event), line(role), line(about));
            let at = time(*at_ms);
            write(format_args!("  {}  {at}  {event} at {role}: {about}\n", line(id)));
            if let Some(failed) = &call.failed {
                let (why, attempts) = (line(&failed.why), failed.attempts);
                let why = format!("failed {} after {attempts}: {why}", time(failed.at_ms));
                write(format_args!("    {}\n", why.yellow()));
            }
        }
    }
    out
}
