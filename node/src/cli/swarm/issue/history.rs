//! `tasuki issue history`.
//!
//! The audit of an issue is numbered without gaps, so following it means to ask for what is behind
//! the last number shown, whenever the feed tells that something happened there or may have been
//! missed.

use owo_colors::OwoColorize as _;
use serde_json::json;
use tasuki_proto::{
    counted::counted,
    wire::{self, event::Noun, swarm_event::Kind},
};

use crate::{
    cli::{
        following::{Following, Told},
        role_args::RoleClient,
        stopped,
        swarm::{Failure, Output, names::IssueName, pages::PAGE},
        text::{fitted, line, time},
        titles::{TitleClient, Titles},
    },
    config::Config,
};

/// Characters of what is told with an entry.
const DETAIL_CHARS_MAX: usize = 200;

/// Show what happened to an issue, oldest first.
///
/// With --json each entry is one line. Entries never change.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Issue to show
    #[arg(value_name = "ISSUE")]
    issue: IssueName,
    /// Number of the first entry to show
    #[arg(long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// Keep printing new entries until Ctrl-C
    #[arg(long)]
    follow: bool,
}

pub(super) async fn run(args: Args, config: &Config, output: &mut Output) -> Result<(), Failure> {
    let acting = RoleClient::anonymous(config);
    let issue = args.issue.find(&acting).await?;
    let mut printer = HistoryPrinter {
        titles: TitleClient::new(&acting.broker, config),
        acting,
        issue,
        after: args.from - 1,
    };
    if args.follow {
        return tokio::select! {
            result = printer.follow(output) => result,
            () = stopped() => Ok(()),
        };
    }
    let total = printer.show(output).await?;
    if total < args.from {
        let issue = line(&printer.issue);
        let entries = counted(total, "entry");
        output.guide(|| format!("The history of {issue} has {entries}.\n"))?;
    }
    Ok(())
}

/// A history as far as it was printed.
#[derive(Debug)]
struct HistoryPrinter {
    acting: RoleClient,
    titles: TitleClient,
    issue: String,
    /// The number of the last entry that was printed.
    after: u64,
}

impl HistoryPrinter {
    async fn follow(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut feed = Following::new(&self.acting.broker, 0).await?;
        loop {
            let is_news = match feed.next(&mut |note| output.note(note)).await? {
                // What was missed meanwhile is in the history.
                Told::Joined { .. } => true,
                Told::Item(item) => item.events.iter().any(|it| is_of(it, &self.issue)),
            };
            if !is_news {
                continue;
            }
            match self.show(output).await {
                // The feed says when the broker is there again.
                Err(failure) if failure.is_retryable() => output.note(&failure.message),
                told => drop(told?),
            }
        }
    }

    /// Shows what is behind `after`, and says how much there is in all.
    async fn show(&mut self, output: &mut Output) -> Result<u64, Failure> {
        loop {
            let request = wire::GetHistoryRequest {
                issue_id: self.issue.clone(),
                after: self.after,
                limit: PAGE,
                ..Default::default()
            };
            let page = self.acting.broker.call(&request).await?;
            for entry in &page.entries {
                if !output.is_json() && !entry.task_id.is_empty() {
                    self.titles.learn_task(&self.issue, &entry.task_id).await;
                }
                output.answer(|| json!(entry), || row(entry, &self.issue, &self.titles.titles))?;
            }
            match page.entries.last() {
                Some(last) if self.after < last.number => self.after = last.number,
                // A page that leads nowhere would be asked for for ever.
                Some(_) | None => return Ok(page.total),
            }
            if page.total <= self.after {
                return Ok(page.total);
            }
        }
    }
}

fn is_of(event: &wire::Event, issue: &str) -> bool {
    let Some(Noun::Swarm(event)) = &event.noun else { return false };
    matches!(&event.kind, Some(Kind::IssueChanged(it)) if it.issue_id == issue)
}

fn row(of: &wire::HistoryEntry, issue: &str, titles: &Titles) -> String {
    let task = match of.task_id.as_str() {
        "" => String::new(),
        task => titles.task(issue, task),
    };
    let about = [line(&of.kind), task, line(&of.about)].into_iter().filter(|it| !it.is_empty());
    let kind = line(&of.r#type).cyan().to_string();
    let what: Vec<String> = [kind].into_iter().chain(about).collect();
    let who = [&of.person, &of.role].into_iter().find(|it| !it.is_empty());
    let who = who.map_or_else(String::new, |it| format!("by {}", line(it)));
    let node = if of.node.is_empty() { String::new() } else { format!(" on {}", line(&of.node)) };
    let token =
        if of.token.is_empty() { String::new() } else { format!(", token {}", line(&of.token)) };
    let who = format!("{who}{node}{token}");
    let detail = match of.detail.as_str() {
        "" => String::new(),
        detail => format!(": {}", fitted(detail, DETAIL_CHARS_MAX)),
    };
    let (number, at) = (format!("{:>4}", of.number), time(of.at_ms));
    format!("{} {}  {}{detail}  {}\n", number.bold(), at.dimmed(), what.join(" "), who.dimmed())
}
