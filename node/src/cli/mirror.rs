//! `tasuki mirror`: the mailboxes that the node here keeps as files.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::counted::{agreeing, counted};

use super::{
    Failure, Output, node_address,
    text::{line, time},
};
use crate::{agent_tokens::Bearing, config::Config, mcp::ask, mirror::Report, paths::NodeFile};

/// Show the mailboxes that are kept as files.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Show where they are, their state, and files that were set aside
    ///
    /// A file that somebody edited is set aside as NAME.edited, one that cannot be sent as NAME.rejected
    /// with the reason in NAME.rejected.txt. They stay until somebody removes them.
    Status,
}

pub(crate) async fn run(
    command: Command,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    match command {
        Command::Status => {
            let Some(mailboxes) = mailboxes(config).await else {
                return Err(Failure::local(
                    "No node runs with this data directory; `tasuki up` or `tasuki node` starts \
                     one."
                        .to_owned(),
                ));
            };
            output.answer(|| json!({ "mailboxes": mailboxes }), || lines(&mailboxes))
        }
    }
}

/// Those of the node here; `None`: there is no node.
pub(super) async fn mailboxes(config: &Config) -> Option<Vec<Report>> {
    let node = NodeFile::read(&config.data.value)?;
    let node = node_address::local(node, &config.data.value, &Bearing::Node);
    let mut told = ask::get(&node, "/status").await.ok()?;
    Some(serde_json::from_value(told["mirror"].take()).unwrap_or_default())
}

fn lines(mailboxes: &[Report]) -> String {
    if mailboxes.is_empty() {
        return "No mailboxes are kept as files; `mirror = true` in tasuki.toml has them kept.\n"
            .to_owned();
    }
    mailboxes.iter().map(|it| of_mailbox(it, true)).collect()
}

/// One mailbox; with paths of what was put aside, if they are wanted.
pub(super) fn of_mailbox(of: &Report, with_paths: bool) -> String {
    let folder = line(&of.folder.display().to_string());
    let files = counted(of.files, "file");
    let mut out = format!("  {}  {folder}  {files}", line(&of.role).bold());
    let mut add = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a String takes everything");
    };
    if of.waiting != 0 {
        add(format_args!(", {} to be written", of.waiting));
    }
    if of.unsent != 0 {
        add(format_args!(", {} to be sent", of.unsent));
    }
    match of.synced_ms {
        0 => add(format_args!("  {}", "not in step with the broker yet".yellow())),
        ms => add(format_args!("  {}", format!("in step {}", time(ms)).dimmed())),
    }
    if !of.is_watched {
        add(format_args!("  {}", "looks every 2 s".dimmed()));
    }
    add(format_args!("\n"));
    if let Some(problem) = &of.problem {
        add(format_args!("    {}\n", line(problem).red()));
    }
    if of.before != 0 {
        let (files, are) = (counted(of.before, "file"), agreeing(of.before, "is", "are"));
        let what = format!(
            "{files} lay in its outbox before this node kept it and {are} not sent; change one to \
             send it, `tasuki import filebox` takes old mail over"
        );
        add(format_args!("    {}\n", what.yellow()));
    }
    if with_paths {
        for path in &of.before_paths {
            add(format_args!("      {}\n", line(&path.display().to_string())));
        }
    }
    if of.unread != 0 {
        let how = if with_paths { "" } else { " (`tasuki mirror status`)" };
        let (files, how_left) = (
            counted(of.unread, "file"),
            agreeing(of.unread, "is left as it is", "are left as they are"),
        );
        let what = format!("{files} in its outbox {how_left}{how}");
        add(format_args!("    {}\n", what.yellow()));
    }
    if with_paths {
        for (path, why) in &of.unread_paths {
            add(format_args!("      {} {}\n", line(&path.display().to_string()), line(why)));
        }
    }
    if of.too_large != 0 {
        let what = agreeing(
            of.too_large,
            "thread is too large to be a file; `tasuki mail read` shows it",
            "threads are too large to be files; `tasuki mail read` shows them",
        );
        add(format_args!("    {}\n", format!("{} {what}", of.too_large).yellow()));
    }
    if of.aside != 0 {
        let how = if with_paths { "" } else { " (`tasuki mirror status`)" };
        let (files, were) = (counted(of.aside, "file"), agreeing(of.aside, "was", "were"));
        add(format_args!("    {}\n", format!("{files} {were} put aside{how}").yellow()));
    }
    if with_paths {
        for path in &of.aside_paths {
            add(format_args!("      {}\n", line(&path.display().to_string())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_somebody_is_told() {
        let mut of = Report {
            role: "qa".into(),
            folder: "/p/docs/mailbox".into(),
            files: 7,
            waiting: 0,
            synced_ms: 1_795_305_600_000,
            unsent: 0,
            before: 0,
            before_paths: vec![],
            aside: 0,
            aside_paths: vec![],
            unread: 0,
            unread_paths: vec![],
            too_large: 0,
            is_watched: true,
            problem: None,
        };
        let told = |of: &Report, with_paths| {
            anstream::adapter::strip_str(&of_mailbox(of, with_paths)).to_string()
        };
        let fine = "  qa  /p/docs/mailbox  7 files  in step 2026-11-22 00:00:00Z\n";
        assert_eq!(told(&of, true), fine);
        of.aside = 1;
        of.aside_paths = vec!["/p/docs/mailbox/inbox/x.md.edited".into()];
        of.before_paths = vec!["/p/docs/mailbox/outbox/old.md".into()];
        of.problem = Some("the disk is full\u{1b}[2J".into());
        (of.unread, of.too_large) = (1, 2);
        of.unread_paths = vec![("/p/docs/mailbox/outbox/y.md".into(), "is no plain file".into())];
        (of.waiting, of.unsent, of.before, of.synced_ms, of.is_watched) = (3, 1, 2, 0, false);
        assert_eq!(
            told(&of, true),
            "  qa  /p/docs/mailbox  7 files, 3 to be written, 1 to be sent  not in step with the \
             broker yet  looks every 2 s\n    the disk is full\n    2 files lay in its outbox \
             before this node kept it and are not sent; change one to send it, `tasuki import \
             filebox` takes old mail over\n      /p/docs/mailbox/outbox/old.md\n    1 file in its \
             outbox is left as it is\n      /p/docs/mailbox/outbox/y.md is no plain file\n    2 \
             threads are too large to be files; `tasuki mail read` shows them\n    1 file was \
             put aside\n      /p/docs/mailbox/inbox/x.md.edited\n"
        );
        assert!(told(&of, false).ends_with("1 file was put aside (`tasuki mirror status`)\n"));
    }
}
