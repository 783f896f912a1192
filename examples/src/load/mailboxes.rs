//! A workspace with a million messages: is anything slower there, and what does a message cost in
//! memory?

use std::time::Duration;

use tasuki_proto::{
    reason::Reason,
    wire::{self, ListBoxRequest, SearchMailRequest, mailbox_client::MailboxClient},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::transport::Channel;

use super::{
    Figure, Quantity, Sizes, Target,
    calls::{Calling, channels},
    mail::Writer,
    median, micros, number,
};
use crate::{Result, process::Process};

/// Where it all is.
const WORKSPACE: &str = "full";

/// One message, in bytes.
const TEXT_BYTES: usize = 1024;

/// Messages there when few are there.
const FEW: usize = 1_000;

/// Writers that fill it.
const WRITERS: usize = 256;

/// Queries of one run.
const QUERIES: usize = 200;

/// For the index of all of it to be made, and between two looks whether it is.
const INDEX_WITHIN: Duration = Duration::from_secs(1800);
const INDEX_PAUSE: Duration = Duration::from_secs(1);

/// # Errors
/// When a call fails.
pub async fn full(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut ways = channels(&broker, WRITERS + 1).await?;
    let own = ways.pop().ok_or("no channel")?;
    let mut alone = Writer::new(own.clone(), WORKSPACE, WRITERS, TEXT_BYTES);
    alone.open().await?;
    let mut writers = Vec::new();
    for (number, channel) in ways.into_iter().enumerate() {
        let mut writer = Writer::new(channel, WORKSPACE, number, TEXT_BYTES);
        writer.open().await?;
        writers.push(writer);
    }
    let mut stored = 0;
    stored += fill(&mut writers, FEW, stored).await?;
    let few = sends(&mut alone, sizes).await?;
    let half = sizes.messages / 2;
    stored += fill(&mut writers, half.saturating_sub(stored), stored).await?;
    let at_half = (stored, broker.memory_bytes()?);
    stored += fill(&mut writers, sizes.messages.saturating_sub(stored), stored).await?;
    let at_end = (stored, broker.memory_bytes()?);
    let many = sends(&mut alone, sizes).await?;
    let grown = at_end.1.saturating_sub(at_half.1);
    let per_message = bytes(grown) / number((at_end.0 - at_half.0).max(1));

    // One inbox to be listed.
    for writer in &mut writers {
        writer.writes_to("to-0");
    }
    fill(&mut writers, sizes.listed, stored).await?;
    let mut mail = MailboxClient::new(own);
    let page = listed(&mut mail, sizes).await?;
    let (first, mut found) = searched(&mut mail, sizes).await?;
    let (median_search, p99) = (median(&mut found), found[found.len() * 99 / 100]);
    broker.stop().await?;
    let messages = sizes.messages;
    let figure =
        |name: String, value, score, target| Figure { name, value, limit: None, score, target };
    Ok(vec![
        Figure {
            name: format!("durable mail beside {messages} messages"),
            value: Quantity::Micros(many),
            limit: Some((format!("beside {FEW}"), Quantity::Micros(few))),
            score: many / few,
            target: Target::AtMost(1.2),
        },
        figure(
            format!("memory of one more of {messages} messages"),
            Quantity::Bytes(per_message),
            per_message,
            Target::AtMost(200.0),
        ),
        figure(
            format!("first page of an inbox of {}", sizes.listed),
            Quantity::Micros(page),
            page / 1000.0,
            Target::AtMost(10.0),
        ),
        figure(
            format!("first search, after {messages} messages at once"),
            Quantity::Seconds(first),
            first,
            Target::None,
        ),
        figure(
            format!("search among {messages} messages, median"),
            Quantity::Micros(median_search),
            median_search / 1000.0,
            Target::AtMost(20.0),
        ),
        figure(
            format!("search among {messages} messages, 99th of 100"),
            Quantity::Micros(p99),
            p99 / 1000.0,
            Target::AtMost(50.0),
        ),
    ])
}

/// A text in which a word of many is found in few.
fn text(number: usize) -> String {
    let mut text = format!("message {number} about topic{} and part{} ", number % 997, number % 31);
    while text.len() < TEXT_BYTES {
        text.push_str("the quick brown fox jumps over the lazy dog ");
    }
    text.truncate(TEXT_BYTES);
    text
}

/// Sends so many more messages, by all writers at once.
async fn fill(writers: &mut Vec<Writer>, count: usize, from: usize) -> Result<usize> {
    let mut sending: JoinSet<Result<Writer>> = JoinSet::new();
    let each = writers.len();
    for (first, mut writer) in writers.drain(..).enumerate() {
        sending.spawn(async move {
            for number in (first..count).step_by(each) {
                writer.says(text(from + number));
                writer.call().await?;
            }
            Ok(writer)
        });
    }
    while let Some(sent) = sending.join_next().await {
        writers.push(sent??);
    }
    Ok(count)
}

/// What one message takes one caller.
async fn sends(writer: &mut Writer, sizes: &Sizes) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..sizes.calls * sizes.runs {
        let began = Instant::now();
        writer.call().await?;
        times.push(micros(began.elapsed()));
    }
    Ok(median(&mut times))
}

fn caller() -> Option<wire::Caller> {
    Some(wire::Caller { workspace: WORKSPACE.to_owned(), ..wire::Caller::default() })
}

async fn listed(mail: &mut MailboxClient<Channel>, sizes: &Sizes) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..sizes.runs * 10 {
        let request = ListBoxRequest {
            caller: caller(),
            role: "to-0".to_owned(),
            r#box: wire::Box::Inbox.into(),
            ..ListBoxRequest::default()
        };
        let began = Instant::now();
        let page = mail.list_box(request).await?.into_inner();
        times.push(micros(began.elapsed()));
        if page.threads.is_empty() || page.total < sizes.listed as u64 {
            return Err(format!("{} of {} threads", page.threads.len(), page.total).into());
        }
    }
    Ok(median(&mut times))
}

/// Seconds until the first is answered, and microseconds of each after it.
async fn searched(mail: &mut MailboxClient<Channel>, sizes: &Sizes) -> Result<(f64, Vec<f64>)> {
    let request = |query: usize| SearchMailRequest {
        caller: caller(),
        role: "to-0".to_owned(),
        query: format!("topic{} fox", query * 7 % 997),
        ..SearchMailRequest::default()
    };
    // The first search has the index catch up with what came in last.
    let began = Instant::now();
    while let Err(status) = mail.search_mail(request(0)).await {
        if Reason::of(&status) != Some(Reason::Unavailable) || INDEX_WITHIN < began.elapsed() {
            return Err(status.into());
        }
        sleep(INDEX_PAUSE).await;
    }
    let first = began.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for query in 1..=QUERIES.min(sizes.calls * 10) {
        let began = Instant::now();
        mail.search_mail(request(query)).await?;
        times.push(micros(began.elapsed()));
    }
    Ok((first, times))
}

/// Exact up to 9 PB.
pub(super) fn bytes(count: u64) -> f64 {
    number(usize::try_from(count / 1024).unwrap_or(usize::MAX)) * 1024.0
}
