//! What was seen, as rows of the tables in `docs/clients.md`, one for each play.
//!
//! A table stands between two marks and is all of the page that a run writes. A run replaces
//! the rows of what it ran and keeps the others, each with its own date.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    client::{Client, Transport},
    gateway, hooking, launching,
    play::{Play, Seen, Way, Woken},
    waking,
};
use crate::Result;

const END: &str = "<!-- end of table -->";

/// One of the page's tables.
struct Table {
    begin: &'static str,
    head: &'static [&'static str],
}

const TURNS: Table = Table {
    begin: "<!-- table: written by `make clients` -->",
    head: &[
        "client",
        "reached by",
        "version, date",
        "works",
        "gives up by itself after",
        "longest wait tried",
        "model calls meanwhile",
        "how it is woken",
        "killed while it waits",
    ],
};

const WORK: Table = Table {
    begin: "<!-- table of workers: written by `make clients` -->",
    head: &[
        "client",
        "reached by",
        "version, date",
        "works",
        "gives up by itself after",
        "longest wait for a verdict",
        "model calls meanwhile",
        "how it is woken",
        "killed while it waits for a task",
    ],
};

const WAKE: Table = Table {
    begin: "<!-- table of wakes: written by `make clients` -->",
    head: &["client", "run as", "version, date", "works", "woken by", "a new turn begins after"],
};

const GATEWAY: Table = Table {
    begin: "<!-- table of gateways: written by `make clients` -->",
    head: &["client", "reached by", "version, date", "works", "tools called, by its names"],
};

const LAUNCH: Table = Table {
    begin: "<!-- table of launches: written by `make clients` -->",
    head: &[
        "client",
        "run as",
        "version, date",
        "works",
        "connected",
        "told its role in",
        "how it says that its quota is used up",
        "then",
    ],
};

const HOOKS: Table = Table {
    begin: "<!-- table of hooks: written by `make clients` -->",
    head: &[
        "client",
        "run as",
        "version, date",
        "works",
        "card read at start",
        "urgent mail after a tool call",
        "went on at end of turn",
        "card read after compaction",
        "quota used up: turn given back",
        "session ended: turn given back",
    ],
};

impl Play {
    const fn table(self) -> &'static Table {
        match self {
            Self::Turns => &TURNS,
            Self::Work => &WORK,
        }
    }
}

/// So many cells say which row it is.
const KEY_CELLS: usize = 2;

type Row = Vec<String>;

/// One row.
pub fn row(seen: &Seen) -> Row {
    let plan = &seen.plan;
    let client = match plan.way {
        Way::Alone => plan.client.title().to_owned(),
        Way::Terminal => format!("{} in a terminal", plan.client.title()),
    };
    let date = date(seen.date);
    let reached = match plan.transport {
        Transport::Http => "Streamable HTTP",
        Transport::Stdio => "stdio",
    };
    let works = match (&seen.failure, seen.errors.len()) {
        (None, 0) => "yes".to_owned(),
        (None, errors) => format!("yes, with {errors} failed calls"),
        (Some(why), _) => format!("**no**: {}", cell(why)),
    };
    let nothing = || "–".to_owned();
    vec![
        client,
        reached.to_owned(),
        format!("{}, {date}", seen.version),
        works,
        limit(plan.client, plan.transport),
        seen.wait.map_or_else(nothing, |it| minutes(it.lasted)),
        seen.wait.map_or_else(nothing, |it| it.model_calls.to_string()),
        seen.wait.map_or_else(nothing, |it| {
            let how = match it.how {
                Woken::ByItsCall => "its call returns",
                Woken::ByCallInBackground => "its call in the background begins a new turn",
                Woken::ByTask => "the end of an MCP task begins a new turn",
            };
            format!("{how}, after {} ms", it.woken_after.as_millis())
        }),
        match plan.play {
            Play::Turns if seen.is_resumed => "gets its turn when started again".to_owned(),
            Play::Work if seen.is_resumed => "gets its task when started again".to_owned(),
            Play::Turns | Play::Work => nothing(),
        },
    ]
}

fn limit(client: Client, transport: Transport) -> String {
    let limit = minutes(Duration::from_secs(client.own_limit_secs(transport)));
    let of_what = if client.is_kept_by_progress() { " of silence" } else { "" };
    format!("{limit}{of_what}")
}

fn minutes(time: Duration) -> String {
    let secs = time.as_secs();
    match (secs / 60, secs % 60) {
        (0, secs) => format!("{secs} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, secs) => format!("{minutes} min {secs} s"),
    }
}

/// Text that stays within its cell.
fn cell(text: &str) -> String {
    /// Of an error, in characters.
    const CHARS_MAX: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
    line.chars().take(CHARS_MAX).collect()
}

/// Puts what was seen of a wake into the page at `path`.
///
/// # Errors
/// When there is no such page, or it has no marks.
pub fn write_wake(path: &Path, seen: &waking::Seen) -> Result<()> {
    let nothing = || "–".to_owned();
    let run_as = if seen.client == Client::Opencode { "server" } else { "terminal" };
    let row = vec![
        seen.client.title().to_owned(),
        run_as.to_owned(),
        format!("{}, {}", seen.version, date(seen.date)),
        works(seen.failure.as_deref()),
        if seen.by.is_empty() { nothing() } else { seen.by.clone() },
        seen.woken_after.map_or_else(nothing, |after| format!("{:.1} s", after.as_secs_f32())),
    ];
    let page = fs::read_to_string(path)?;
    Ok(fs::write(path, WAKE.put(&page, &[row])?)?)
}

/// Puts what was seen of a gateway into the page at `path`.
///
/// # Errors
/// When there is no such page, or it has no marks.
pub fn write_gateway(path: &Path, seen: &gateway::Seen) -> Result<()> {
    let row = vec![
        seen.client.title().to_owned(),
        "Streamable HTTP".to_owned(),
        format!("{}, {}", seen.version, date(seen.date)),
        works(seen.failure.as_deref()),
        seen.called.join(", "),
    ];
    let page = fs::read_to_string(path)?;
    Ok(fs::write(path, GATEWAY.put(&page, &[row])?)?)
}

/// One row of those that were launched.
pub fn launch_row(seen: &launching::Seen) -> Row {
    let nothing = || "–".to_owned();
    // `connected after 3 s: codex 1 (codex-1a)`
    let connected = seen.connected.as_deref().and_then(|it| it.split(':').next());
    vec![
        seen.client.title().to_owned(),
        "terminal".to_owned(),
        format!("{}, {}", seen.version, date(seen.date)),
        works(seen.failure.as_deref()),
        connected.map_or_else(nothing, |it| it.trim_start_matches("connected ").to_owned()),
        seen.told_in.map_or_else(nothing, str::to_owned),
        seen.words.as_deref().map_or_else(nothing, cell),
        seen.follows.map_or_else(nothing, str::to_owned),
    ]
}

/// Puts what was seen of a launch into the page at `path`.
///
/// # Errors
/// When there is no such page, or it has no marks.
pub fn write_launch(path: &Path, seen: &launching::Seen) -> Result<()> {
    let page = fs::read_to_string(path)?;
    Ok(fs::write(path, LAUNCH.put(&page, &[launch_row(seen)])?)?)
}

/// One row of those whose hooks were tried.
pub fn hooks_row(seen: &hooking::Seen) -> Row {
    let yes = |is_so: bool| if is_so { "yes" } else { "–" }.to_owned();
    let after = |it: Option<Duration>| {
        it.map_or_else(|| "–".to_owned(), |after| format!("after {:.1} s", after.as_secs_f32()))
    };
    vec![
        seen.client.title().to_owned(),
        "terminal".to_owned(),
        format!("{}, {}", seen.version, date(seen.date)),
        works(seen.failure.as_deref()),
        yes(seen.has_card),
        after(seen.urgent_after),
        yes(seen.goes_on),
        yes(seen.has_card_again),
        after(seen.quota_after),
        after(seen.end_after),
    ]
}

/// Puts what was seen of hooks into the page at `path`.
///
/// # Errors
/// When there is no such page, or it has no marks.
pub fn write_hooks(path: &Path, seen: &hooking::Seen) -> Result<()> {
    let page = fs::read_to_string(path)?;
    Ok(fs::write(path, HOOKS.put(&page, &[hooks_row(seen)])?)?)
}

fn works(failure: Option<&str>) -> String {
    failure.map_or_else(|| "yes".to_owned(), |why| format!("**no**: {}", cell(why)))
}

fn date(at: SystemTime) -> String {
    let date = humantime::format_rfc3339_seconds(at).to_string();
    date.split('T').next().unwrap_or_default().to_owned()
}

/// Puts what was seen into the page at `path`.
///
/// # Errors
/// When there is no such page, or it has no marks.
pub fn write(path: &Path, seen: &Seen) -> Result<()> {
    let page = fs::read_to_string(path)?;
    Ok(fs::write(path, seen.plan.play.table().put(&page, &[row(seen)])?)?)
}

impl Table {
    fn put(&self, page: &str, rows: &[Row]) -> Result<String> {
        let parts = page.split_once(self.begin).and_then(|(before, rest)| {
            let (old, after) = rest.split_once(END)?;
            Some((before, old, after))
        });
        let (before, old, after) = parts.ok_or("the page has no marks for the table")?;
        let mut all: Vec<Row> = old.lines().filter_map(|line| self.parse(line)).collect();
        for row in rows {
            match all.iter_mut().find(|it| it[..KEY_CELLS] == row[..KEY_CELLS]) {
                Some(old) => old.clone_from(row),
                None => all.push(row.clone()),
            }
        }
        // Runs end in any order.
        all.sort();
        let head: Row = self.head.iter().map(ToString::to_string).collect();
        let rule: Row = self.head.iter().map(|_| "---".to_owned()).collect();
        let lines: Vec<String> = [head, rule].iter().chain(&all).map(|row| line(row)).collect();
        Ok(format!("{before}{}\n{}\n{END}{after}", self.begin, lines.join("\n")))
    }

    /// A row of ours; not the head, nor the rule below it.
    fn parse(&self, line: &str) -> Option<Row> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let row: Row = inner.split(" | ").map(str::to_owned).collect();
        let is_row = row.len() == self.head.len() && row[0] != self.head[0] && row[0] != "---";
        is_row.then_some(row)
    }
}

fn line(row: &[String]) -> String {
    format!("| {} |", row.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_row(client: &str, works: &str) -> Row {
        let mut row = vec!["x".to_owned(); TURNS.head.len()];
        (row[0], row[3]) = (client.to_owned(), works.to_owned());
        row
    }

    #[test]
    fn a_run_replaces_its_rows_and_keeps_the_others() {
        let of = |table: &Table, text: &str| format!("{}\n{text}{END}\n\nMore.\n", table.begin);
        let empty = format!("# Clients\n\n{}\n{}", of(&TURNS, ""), of(&WORK, ""));
        let first = WORK.put(&empty, &[a_row("two", "yes"), a_row("one", "yes")]).unwrap();
        let second = WORK.put(&first, &[a_row("two", "no"), a_row("three", "yes")]).unwrap();
        let before = empty.split(WORK.begin).next().unwrap();
        assert!(second.starts_with(before) && second.ends_with("\n\nMore.\n"), "{second}");
        let rows: Vec<Row> = second.lines().filter_map(|line| WORK.parse(line)).collect();
        assert_eq!(rows, [a_row("one", "yes"), a_row("three", "yes"), a_row("two", "no")]);
        assert_eq!(WORK.put(&second, &[]).unwrap(), second);
    }

    #[test]
    fn an_error_stays_within_its_cell() {
        assert_eq!(cell("a | b\n  c"), "a / b c");
    }

    #[test]
    fn a_page_without_marks_is_left_alone() {
        assert!(TURNS.put("# Clients", &[]).is_err());
    }
}
