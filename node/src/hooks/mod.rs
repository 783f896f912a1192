//! Runs programs and posts to addresses when something happens at the roles of this node: to mail,
//! turns, issues, tasks, deliveries and runs.
//!
//! ```text
//! broker's feed ──▶ follow ──▶ waiting calls on disk ──▶ a line of each hook ──▶ program, address
//!                   (what happened: event, work_event; the words: document, details)
//!                                                               └──▶ dead letters on disk
//! ```
//!
//! What is promised: *a hook is called at least once for each thing that happened after the broker
//! was first reached with it*, in the order it happened, unless the broker no longer keeps the
//! record, which is said. A call that was under way when the node was killed is made again, with
//! the same id.
//!
//! Nothing is ever held up: all of this reads what the broker has already told others, and what
//! fails here is told by `tasuki status`, `tasuki hook` and the log.
//!
//! - [`spec`]: what an operator wants, and the table of events. [`event`]: what happened to mail, and
//!   who wants it. [`work_event`]: the same of all else. [`document`], [`details`]: what is told of
//!   it. [`attempt`]: when a call is made again. All pure.
//! - [`store`]: calls on disk. `follow`: the feed. `line`: one hook at work.
//! - [`command`], [`webhook`]: one call. [`source`]: the seam to the broker.
//!
//! Where mail is private, programs are told what this node can open. What goes to an address leaves
//! the machine: it says that an entry is sealed, and no words of it.

pub mod attempt;
mod broker;
pub mod command;
pub mod details;
pub mod document;
pub mod event;
mod follow;
mod line;
mod report;
pub mod source;
pub mod spec;
pub mod store;
#[cfg(test)]
mod tests;
pub mod webhook;
pub mod work_event;

use std::{collections::BTreeSet, fmt, io, path::Path, sync::Arc};

use tokio_util::task::TaskTracker;

pub use self::report::{LastFailure, Report};
use self::{
    document::Writer,
    follow::{Follower, Marks},
    line::{Common, Line, Means},
    source::Source,
    spec::{Action, Hook},
    store::Store,
    work_event::Hosted,
};

/// The hooks of a running node. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Hooks(Arc<Inner>);

struct Inner {
    common: Common,
    lines: Vec<Arc<Line>>,
    /// With why.
    unusable: Vec<(Hook, String)>,
    marks: Marks,
    tasks: TaskTracker,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("lines", &self.0.lines).finish_non_exhaustive()
    }
}

/// Says in half a sentence why a hook cannot be called as this machine is; else what is run, if it
/// is a program.
///
/// # Errors
/// When its program or its secret cannot be used.
pub fn look(hook: &Hook) -> Result<Option<String>, String> {
    match Means::find(&hook.action)? {
        Means::Program(program) => Ok(Some(program.path().display().to_string())),
        Means::Address(_) => Ok(None),
    }
}

impl Hooks {
    /// Begins in the background. A hook that cannot be called is told of, and keeps its place in
    /// the feed for the next start.
    ///
    /// # Errors
    /// When the data directory cannot be read.
    pub fn start(
        hooks: Vec<Hook>,
        data: &Path,
        hosted: Hosted,
        writer: Writer,
        source: Arc<dyn Source>,
    ) -> io::Result<Self> {
        let common = Common::new(Store::of(data));
        let marks = Marks::default();
        if let Some(places) = common.store.places(&writer.workspace)? {
            let place =
                |hook: &Hook| Some((hook.name.clone(), *places.hooks.get(hook.name.as_str())?));
            marks.get().extend(hooks.iter().filter_map(place));
        }
        let (mut lines, mut unusable) = (Vec::new(), Vec::new());
        for hook in hooks {
            match Means::find(&hook.action) {
                Ok(means) => lines.push(Arc::new(Line::new(hook, means))),
                Err(why) => {
                    tracing::error!(hook = %hook.name, why, "a hook cannot be called");
                    unusable.push((hook, why));
                }
            }
        }
        let tasks = TaskTracker::new();
        for line in &lines {
            tasks.spawn(line.clone().run(common.clone()));
        }
        if !lines.is_empty() {
            let follower = Follower {
                source,
                common: common.clone(),
                wanted: lines.iter().flat_map(|line| line.hook.on.iter().copied()).collect(),
                lines: lines.clone(),
                hosted,
                writer,
                marks: marks.clone(),
                behind: BTreeSet::new(),
                kept: 0,
            };
            tasks.spawn(follower.run());
        }
        tasks.close();
        Ok(Self(Arc::new(Inner { common, lines, unusable, marks, tasks })))
    }

    /// How each does. Looks at the disk for what waits.
    pub fn report(&self) -> Vec<Report> {
        let Inner { common, lines, unusable, marks, .. } = &*self.0;
        let marks = marks.get().clone();
        let of = |hook: &Hook| Report {
            hook: hook.name.to_string(),
            unusable: None,
            made: 0,
            failed: 0,
            waiting: common.store.waiting(&hook.name).unwrap_or(0),
            dead_letters: common.store.dead(&hook.name).unwrap_or(0),
            sequence: marks.get(&hook.name).map_or(0, |taken| taken.sequence),
            last_failure: None,
            missed: None,
            deaf: common.deaf().clone(),
        };
        let usable = lines.iter().map(|line| {
            let tally = line.tally().clone();
            Report {
                made: tally.made,
                failed: tally.failed,
                last_failure: tally.last_failure,
                missed: tally.missed,
                ..of(&line.hook)
            }
        });
        let unusable =
            unusable.iter().map(|(hook, why)| Report { unusable: Some(why.clone()), ..of(hook) });
        usable.chain(unusable).collect()
    }

    /// Begins nothing new. Calls under way have a moment to end; what did not end is made again
    /// after the next start.
    pub async fn shutdown(&self) {
        self.0.common.stop.cancel();
        self.0.tasks.wait().await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.common.stop.cancel();
    }
}

impl Action {
    /// For people: the command line, or where is posted to.
    pub fn text(&self) -> String {
        match self {
            Self::Command(command) => {
                let words = std::iter::once(&command.program).chain(&command.arguments);
                words.map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ")
            }
            Self::Webhook(webhook) => {
                let is_signed = webhook.secret_file.is_some();
                let signed = if is_signed { "signed" } else { "not signed" };
                format!("{} ({signed})", webhook.origin())
            }
        }
    }
}
