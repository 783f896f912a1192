//! Pages for people: how soon a browser paints them, and what open ones cost whoever works.
//!
//! Callers keep to a pace that leaves the machine room, in turns without open pages and with them.
//! Where no Chromium is installed, pages are read only.

use std::time::Duration;

use axum::{Router, response::Html, routing::get};
use fantoccini::Client;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    Figure, Quantity, Sizes, Target,
    calls::{Agent, Calling, channels},
    mail::Writer,
    median, micros, number,
    swarm::desk::Desk,
};
use crate::{Result, browser::Driver, process::Process};

/// Where it all is: the workspace that pages begin with.
const WORKSPACE: &str = "default";

/// One letter, in bytes.
const TEXT_BYTES: usize = 430;

/// Who fills the workspace, and works while pages are open: so many hand over, and as many write.
const PAIRS: usize = 8;

/// Between two calls of each: all together make 160 commands a second.
const PACE: Duration = Duration::from_millis(100);

/// Tasks on the page of tasks.
const TASKS: usize = 100;

/// A page paints within it, in milliseconds.
const PAINT_MS_MAX: f64 = 100.0;

/// What the first load of a page may weigh, in bytes.
const PAGE_BYTES_MAX: f64 = 150_000.0;

/// What open pages may change of the callers' times.
const CHANGE: f64 = 0.1;

/// For a page to be painted.
const PAINT_WITHIN: Duration = Duration::from_secs(120);

/// Pages that are open, one after the other, and how many parts the time has.
const PARTS: usize = 10;

/// Pages that are loaded.
const PAGES: [(&str, &str); 4] =
    [("Now", "now"), ("Timeline", "timeline"), ("Mail", "mail"), ("Tasks", "tasks")];

/// # Errors
/// When a call fails.
pub async fn pages(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker_with_pages(data.path()).await?;
    let pages = broker.url_of("dashboard").ok_or("the broker serves no pages")?.to_owned();
    let mut workers = workers(&broker).await?;
    fill(&mut workers, sizes.events).await?;
    Desk::open(&broker, WORKSPACE).await?.fill(TASKS).await?;
    let driver = Driver::start()?;
    let mut figures = Vec::new();
    if let Some(driver) = &driver {
        let bare = bare_page().await?;
        let bare = loads(driver, &bare, sizes.paints).await?;
        for (name, path) in PAGES {
            let url = format!("{pages}/w/{WORKSPACE}/{path}");
            let loads = loads(driver, &url, sizes.paints).await?;
            figures.extend(paint(name, &loads, &bare));
        }
    }
    figures.extend(watched(sizes, &broker, &pages, driver.as_ref(), workers).await?);
    drop(driver);
    let used = broker.memory_bytes()?;
    broker.stop().await?;
    let alone = unwatched(sizes).await?;
    figures.push(Figure {
        name: "memory after all of it".into(),
        value: Quantity::Bytes(bytes(used)),
        limit: Some(("the same work, no page open".into(), Quantity::Bytes(bytes(alone)))),
        score: bytes(used) / bytes(alone),
        target: Target::AtMost(1.0 + CHANGE),
    });
    Ok(figures)
}

/// What a broker takes, in bytes, after work as long as that beside pages, where nobody looks.
async fn unwatched(sizes: &Sizes) -> Result<u64> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker_with_pages(data.path()).await?;
    let mut workers = workers(&broker).await?;
    fill(&mut workers, sizes.events).await?;
    Desk::open(&broker, WORKSPACE).await?.fill(TASKS).await?;
    let part = sizes.watched / u32::try_from(PARTS)?;
    work(&mut workers, part / 4 + u32::try_from(PARTS)? * (part / 2 + part)).await?;
    let used = broker.memory_bytes()?;
    broker.stop().await?;
    Ok(used)
}

/// Whoever works: an agent with a loop of its own, or a writer.
enum Worker {
    Agent(Agent),
    Writer(Writer),
}

impl Calling for Worker {
    async fn call(&mut self) -> Result<()> {
        match self {
            Self::Agent(it) => it.call().await,
            Self::Writer(it) => it.call().await,
        }
    }
}

async fn workers(broker: &Process) -> Result<Vec<Worker>> {
    let mut workers = Vec::new();
    let ways = channels(broker, 2 * PAIRS).await?;
    for (number, channel) in ways.into_iter().enumerate() {
        workers.push(if number < PAIRS {
            let mut agent = Agent::of_workspace(channel, WORKSPACE.to_owned(), number);
            agent.open().await?;
            Worker::Agent(agent)
        } else {
            let mut writer = Writer::new(channel, WORKSPACE, number, TEXT_BYTES);
            writer.open().await?;
            Worker::Writer(writer)
        });
    }
    Ok(workers)
}

/// All together until so much has happened.
async fn fill(workers: &mut Vec<Worker>, events: usize) -> Result<()> {
    let each = events.div_ceil(workers.len());
    let mut calls: JoinSet<Result<Worker>> = JoinSet::new();
    for mut worker in workers.drain(..) {
        calls.spawn(async move {
            for _ in 0..each {
                worker.call().await?;
            }
            Ok(worker)
        });
    }
    while let Some(done) = calls.join_next().await {
        workers.push(done??);
    }
    Ok(())
}

/// What a browser says of one load.
struct Load {
    paint_ms: f64,
    first_byte_ms: f64,
    bytes: f64,
    nodes: f64,
}

/// The limit of what can be reached: a line of text from a server that does nothing else.
async fn bare_page() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let page = get(|| async { Html("<!doctype html><title>Bare</title><p>Nothing.") });
    tokio::spawn(axum::serve(listener, Router::new().route("/", page)).into_future());
    Ok(url)
}

/// Loads of a page in a browser that has nothing of it.
async fn loads(driver: &Driver, url: &str, count: usize) -> Result<Vec<Load>> {
    let mut all = Vec::new();
    for _ in 0..count {
        // A window of its own keeps nothing of the one before.
        let browser = driver.open(1280, 900, &[]).await?;
        let seen = load_page(&browser, url).await;
        browser.close().await?;
        all.push(seen?);
    }
    Ok(all)
}

fn paint(name: &str, loads: &[Load], bare: &[Load]) -> [Figure; 4] {
    let of = |loads: &[Load], value: fn(&Load) -> f64| {
        median(&mut loads.iter().map(value).collect::<Vec<f64>>())
    };
    let paint_ms = |loads| of(loads, |it| it.paint_ms);
    let (bytes, nodes) = (of(loads, |it| it.bytes), of(loads, |it| it.nodes));
    let first_byte_ms = of(loads, |it| it.first_byte_ms);
    [
        Figure {
            name: format!("{name}: first paint"),
            value: Quantity::Micros(paint_ms(loads) * 1e3),
            limit: Some(("a bare page".into(), Quantity::Micros(paint_ms(bare) * 1e3))),
            score: paint_ms(loads),
            target: Target::AtMost(PAINT_MS_MAX),
        },
        Figure {
            name: format!("{name}: first byte"),
            value: Quantity::Micros(first_byte_ms * 1e3),
            limit: None,
            score: first_byte_ms,
            target: Target::None,
        },
        Figure {
            name: format!("{name}: bytes of the first load"),
            value: Quantity::Bytes(bytes),
            limit: None,
            score: bytes,
            target: Target::AtMost(PAGE_BYTES_MAX),
        },
        Figure {
            name: format!("{name}: elements"),
            value: Quantity::Count(nodes),
            limit: None,
            score: nodes,
            target: Target::None,
        },
    ]
}

async fn load_page(browser: &Client, url: &str) -> Result<Load> {
    const SCRIPT: &str = "
        const paint = performance.getEntriesByName('first-contentful-paint')[0];
        const [page] = performance.getEntriesByType('navigation');
        if (!paint || !page?.loadEventEnd) return null;
        const parts = performance.getEntriesByType('resource').map((it) => it.transferSize);
        return {
            paint: paint.startTime,
            first: page.responseStart,
            bytes: page.transferSize + parts.reduce((all, it) => all + it, 0),
            nodes: document.querySelectorAll('*').length,
        };";
    browser.goto(url).await?;
    let until = Instant::now() + PAINT_WITHIN;
    loop {
        let said = browser.execute(SCRIPT, Vec::new()).await?;
        let number = |field: &str| said[field].as_f64().ok_or_else(|| format!("{said}"));
        if said != Value::Null {
            return Ok(Load {
                paint_ms: number("paint")?,
                first_byte_ms: number("first")?,
                bytes: number("bytes")?,
                nodes: number("nodes")?,
            });
        }
        if until < Instant::now() {
            return Err(format!("{url} was not painted within {PAINT_WITHIN:?}").into());
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Times of the calls of one part, sorted, in microseconds.
type Times = Vec<f64>;

/// All work at their pace for `time`.
async fn work(workers: &mut Vec<Worker>, time: Duration) -> Result<Times> {
    let until = Instant::now() + time;
    let mut calls: JoinSet<Result<(Worker, Times)>> = JoinSet::new();
    let count = workers.len();
    for (place, mut worker) in workers.drain(..).enumerate() {
        calls.spawn(async move {
            // One after the other, so that no moment is busier than another.
            sleep(PACE.mul_f64(number(place) / number(count))).await;
            let mut ticks = interval(PACE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut times = Vec::new();
            // At least one, however busy the machine is.
            loop {
                ticks.tick().await;
                let began = Instant::now();
                worker.call().await?;
                times.push(micros(began.elapsed()));
                if until <= Instant::now() {
                    return Ok((worker, times));
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(done) = calls.join_next().await {
        let (worker, times) = done??;
        workers.push(worker);
        all.extend(times);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// Of times that are sorted, the one that so many of a hundred are below.
fn percentile(times: &[f64], percent: usize) -> f64 {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// Streams of what happens, as open pages have them. They end when this is dropped.
struct Readers(JoinSet<Result<()>>);

impl Readers {
    async fn open(pages: &str, count: usize) -> Result<Self> {
        let address = pages.trim_start_matches("http://").to_owned();
        let mut readers = JoinSet::new();
        for _ in 0..count {
            let mut stream = BufReader::new(TcpStream::connect(&address).await?);
            let asked = format!(
                "GET /w/{WORKSPACE}/events HTTP/1.1\r\nHost: {address}\r\nAccept: \
                 text/event-stream\r\n\r\n"
            );
            stream.write_all(asked.as_bytes()).await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if !line.contains(" 200 ") {
                return Err(format!("the stream of events began with {line}").into());
            }
            readers.spawn(async move {
                loop {
                    line.clear();
                    if stream.read_line(&mut line).await? == 0 {
                        return Err("a stream of events ended".into());
                    }
                }
            });
        }
        Ok(Self(readers))
    }

    /// That none of them broke meanwhile.
    fn check(&mut self) -> Result<()> {
        match self.0.try_join_next() {
            Some(ended) => ended?,
            None => Ok(()),
        }
    }
}

/// What callers took, beside so many open pages and without them.
struct Compared {
    name: &'static str,
    alone: Times,
    beside: Times,
    /// Of each part by itself: what else the machine does is alike in both.
    median_ratios: Vec<f64>,
    p99_ratios: Vec<f64>,
}

impl Compared {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            alone: Vec::new(),
            beside: Vec::new(),
            median_ratios: Vec::new(),
            p99_ratios: Vec::new(),
        }
    }

    fn add(&mut self, alone: Times, beside: Times) {
        self.median_ratios.push(percentile(&beside, 50) / percentile(&alone, 50));
        self.p99_ratios.push(percentile(&beside, 99) / percentile(&alone, 99));
        self.alone.extend(alone);
        self.beside.extend(beside);
    }

    fn figures(mut self) -> [Figure; 2] {
        self.alone.sort_by(f64::total_cmp);
        self.beside.sort_by(f64::total_cmp);
        let ratios = (median(&mut self.median_ratios), median(&mut self.p99_ratios));
        let Self { name, alone, beside, .. } = &self;
        let figure = |what: &str, percent: usize, score| Figure {
            name: format!("callers' {what}, {name}"),
            value: Quantity::Micros(percentile(beside, percent)),
            limit: Some(("no page open".into(), Quantity::Micros(percentile(alone, percent)))),
            score,
            target: Target::Between(1.0 - CHANGE, 1.0 + CHANGE),
        };
        [figure("median", 50, ratios.0), figure("p99", 99, ratios.1)]
    }
}

async fn watched(
    sizes: &Sizes,
    broker: &Process,
    pages: &str,
    driver: Option<&Driver>,
    mut workers: Vec<Worker>,
) -> Result<Vec<Figure>> {
    let part = sizes.watched / u32::try_from(PARTS)?;
    // It warms up.
    work(&mut workers, part / 4).await?;
    let mut kinds = [
        Compared::new(if driver.is_some() { "49 streams and Now" } else { "49 streams" }),
        Compared::new(if driver.is_some() {
            "49 streams and Timeline"
        } else {
            "49 streams again"
        }),
    ];
    let browser = match driver {
        Some(driver) => Some(driver.open(1280, 900, &[]).await?),
        None => None,
    };
    let mut memory = vec![broker.memory_bytes()?];
    let (mut commands, mut grown_alone, mut grown_beside) = ((0, 0), 0_i64, 0_i64);
    for turn in 0..PARTS {
        let before = broker.memory_bytes()?;
        let alone = work(&mut workers, part / 2).await?;
        let between = broker.memory_bytes()?;
        let mut readers = Readers::open(pages, sizes.readers).await?;
        if let Some(browser) = &browser {
            browser.goto(&format!("{pages}/w/{WORKSPACE}/{}", PAGES[turn % 2].1)).await?;
        }
        let beside = work(&mut workers, part).await?;
        readers.check()?;
        memory.push(broker.memory_bytes()?);
        if let Some(browser) = &browser {
            browser.goto("about:blank").await?;
        }
        drop(readers);
        commands = (commands.0 + alone.len(), commands.1 + beside.len());
        grown_alone += difference(before, between);
        grown_beside += difference(between, broker.memory_bytes()?);
        kinds[turn % 2].add(alone, beside);
    }
    if let Some(browser) = browser {
        browser.close().await?;
    }
    let mut figures: Vec<Figure> = kinds.into_iter().flat_map(Compared::figures).collect();
    let start = bytes(memory[0]);
    for (place, used) in memory.iter().enumerate() {
        let secs = part.as_secs_f64() * number(place);
        figures.push(Figure {
            name: format!("memory after {secs:.0} s of open pages"),
            value: Quantity::Bytes(bytes(*used)),
            limit: Some(("at the start".into(), Quantity::Bytes(start))),
            score: bytes(*used) / start,
            target: Target::None,
        });
    }
    let each = |grown: i64, commands: usize| grown as f64 / number(commands.max(1));
    let (alone, beside) = (each(grown_alone, commands.0), each(grown_beside, commands.1));
    figures.push(Figure {
        name: "memory of one more command, pages open".into(),
        value: Quantity::Bytes(beside),
        limit: Some(("no page open".into(), Quantity::Bytes(alone))),
        score: beside - alone,
        target: Target::None,
    });
    Ok(figures)
}

fn difference(from: u64, to: u64) -> i64 {
    i64::try_from(to).unwrap_or(i64::MAX) - i64::try_from(from).unwrap_or(i64::MAX)
}

fn bytes(count: u64) -> f64 {
    count as f64
}
