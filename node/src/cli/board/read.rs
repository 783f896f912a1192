//! `tasuki board list`, `show`, `history` and `diff`.

use serde_json::{Value, json};
use tasuki_proto::{
    board::ChannelName, counted::counted, id::BoardName, limits::BOARDS_PAGE_MAX, wire,
};

use super::checkpoint_line;
use crate::{
    cli::{
        Failure, Output,
        broker::Broker,
        labels::author,
        text::{block, line, time},
    },
    config::Config,
};

/// List boards, by name.
///
/// With --json each board is one line.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ListArgs {
    /// Only boards whose names begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
}

/// Show the values of a board.
///
/// With --json the answer has each value as JSON in a text, `value_json`.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct ShowArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Channels to show [default: all]
    #[arg(value_name = "CHANNEL")]
    channels: Vec<ChannelName>,
    /// Checkpoint to show [default: the newest]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: Option<u64>,
}

/// List the checkpoints of a board, newest first.
///
/// With --json each checkpoint is one line.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct HistoryArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// Most checkpoints to show [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Show what differs between two checkpoints of a board.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub struct DiffArgs {
    /// Name of the board
    #[arg(value_name = "BOARD")]
    board: BoardName,
    /// The earlier checkpoint; 0: before the first
    #[arg(value_name = "FROM")]
    from: u64,
    /// The later one [default: the newest]
    #[arg(value_name = "TO", value_parser = clap::value_parser!(u64).range(1..))]
    to: Option<u64>,
    /// Only this channel; may be repeated
    #[arg(long = "channel", value_name = "CHANNEL")]
    channels: Vec<ChannelName>,
}

pub(super) async fn list(
    args: ListArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut request = wire::ListBoardsRequest {
        prefix: args.prefix,
        limit: BOARDS_PAGE_MAX,
        ..Default::default()
    };
    let mut is_first = true;
    loop {
        let page = broker.call(&request).await?;
        if is_first && page.boards.is_empty() {
            return output.guide(|| "No boards.\n".to_owned());
        }
        is_first = false;
        for it in &page.boards {
            output.answer(|| json!(it), || board_lines(it))?;
        }
        if page.next.is_empty() {
            return Ok(());
        }
        request.after = page.next;
    }
}

/// A board with what each channel does.
fn board_lines(it: &wire::BoardSummary) -> String {
    let by = author(&it.by_role, &it.by_person);
    let count = counted(it.checkpoints, "checkpoint");
    let from = match it.from_board.as_str() {
        "" => String::new(),
        from => format!(", from {} at {}", line(from), it.from_checkpoint),
    };
    let mut lines = format!(
        "{}  checkpoint {} by {by} at {} ({count}{from})\n",
        line(&it.board),
        it.checkpoint,
        time(it.at_ms),
    );
    for channel in &it.channels {
        lines += &format!("  {:<20} {}\n", line(&channel.channel), line(&channel.reducer));
    }
    lines
}

pub(super) async fn show(
    args: ShowArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::ReadBoardRequest {
        board: args.board.to_string(),
        checkpoint: args.checkpoint.unwrap_or_default(),
        channels: args.channels.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    let answer = Broker::new(config).call(&request).await?;
    output.answer(
        || json!(answer),
        || {
            let at = answer.checkpoint.clone().unwrap_or_default();
            let newest = answer.board.as_ref().map_or(0, |it| it.checkpoint);
            let by = author(&at.by_role, &at.by_person);
            let newer = match newest == at.checkpoint {
                true => String::new(),
                false => format!("; the newest is {newest}"),
            };
            let mut text = format!(
                "{}  checkpoint {} by {by} at {}{newer}\n",
                args.board,
                at.checkpoint,
                time(at.at_ms)
            );
            for it in &answer.channels {
                text += &format!("\n{}\n{}", line(&it.channel), value_lines(&it.value_json));
            }
            text
        },
    )
}

/// A value as it is read: a text as it is, anything else as indented JSON.
fn value_lines(json: &str) -> String {
    let text = match serde_json::from_str::<Value>(json) {
        Ok(Value::String(text)) => text,
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_owned()),
        Err(_) => json.to_owned(),
    };
    // Spaces of a value are its own.
    let lines: String = block(&text).lines().map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() { "\n".to_owned() } else { lines }
}

pub(super) async fn history(
    args: HistoryArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let broker = Broker::new(config);
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut request = wire::ListCheckpointsRequest {
        board: args.board.to_string(),
        limit: u32::try_from(left).unwrap_or(u32::MAX).min(BOARDS_PAGE_MAX),
        ..Default::default()
    };
    loop {
        let page = broker.call(&request).await?;
        for it in &page.checkpoints {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            output.answer(|| json!(it), || checkpoint_line(it))?;
        }
        if page.next == 0 || left == 0 {
            return Ok(());
        }
        request.before = page.next;
    }
}

pub(super) async fn diff(
    args: DiffArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let request = wire::DiffBoardRequest {
        board: args.board.to_string(),
        from: args.from,
        to: args.to.unwrap_or_default(),
        channels: args.channels.iter().map(ToString::to_string).collect(),
        ..Default::default()
    };
    let answer = Broker::new(config).call(&request).await?;
    output.answer(
        || json!(answer),
        || {
            let mut text = format!("{}  {} → {}\n", args.board, answer.from, answer.to);
            for it in &answer.channels {
                text += &format!("\n{}\n{}", line(&it.channel), diff_lines(it));
            }
            if answer.channels.is_empty() {
                text += "No differences.\n";
            }
            text
        },
    )
}

/// A channel's lines before and after: those that went, and those that came.
fn diff_lines(it: &wire::ChannelDiff) -> String {
    let (before, after) = (lines_of(&it.before_json), lines_of(&it.after_json));
    // What both begin and end with is left out.
    let same_start = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let (before, after) = (&before[same_start..], &after[same_start..]);
    let ends = before.iter().rev().zip(after.iter().rev());
    let same_end = ends.take_while(|(one, other)| one == other).count();
    let gone = before[..before.len() - same_end].iter().map(|it| format!("- {it}\n"));
    let come = after[..after.len() - same_end].iter().map(|it| format!("+ {it}\n"));
    gone.chain(come).collect()
}

fn lines_of(json: &str) -> Vec<String> {
    if json.is_empty() {
        return Vec::new();
    }
    value_lines(json).lines().map(|it| it.strip_prefix("  ").unwrap_or(it).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(before: &str, after: &str) -> String {
        let (before_json, after_json) = (before.to_owned(), after.to_owned());
        diff_lines(&wire::ChannelDiff { before_json, after_json, ..Default::default() })
    }

    #[test]
    fn spaces_of_a_value_are_kept() {
        assert_eq!(value_lines(r#""if a  b\n    c""#), "  if a  b\n      c\n");
        assert_eq!(value_lines(r#"{"x":"a  b"}"#), "  {\n    \"x\": \"a  b\"\n  }\n");
        assert_eq!(value_lines(r#""""#), "\n");
    }

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(diff(r#""plan""#, r#""code""#), "- plan\n+ code\n");
        assert_eq!(diff("", "3"), "+ 3\n");
        assert_eq!(diff(r#"["a"]"#, r#"["a","b"]"#), "-   \"a\"\n+   \"a\",\n+   \"b\"\n");
        assert_eq!(diff(r#"{"x":1,"y":2}"#, r#"{"x":1,"y":3}"#), "-   \"y\": 2\n+   \"y\": 3\n");
    }
}
