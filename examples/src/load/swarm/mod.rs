//! Issues and tasks: one caller, a thousand workers that wait for one task, and an issue of a
//! hundred thousand tasks.
//!
//! - `desk`: the calls of leads and workers. `crowd`: workers that wait.

mod crowd;
pub(super) mod desk;

use tokio::time::Instant;

use self::{crowd::Crowd, desk::Desk};
use super::{
    Figure, Runs, Sizes, Target,
    calls::{Calling as _, agents},
    limits::{self, Disk},
    median, micros,
};
use crate::{Result, process::Process};

/// Who claims, where one does.
const WORKER: &str = "worker";

/// How good each submission is.
const SCORE: u32 = 5;

/// How many workers are few, and how many tasks.
const FEW_WORKERS: usize = 10;
const FEW_TASKS: usize = 100;

/// Tasks of a page, unless said otherwise.
const PAGE: usize = 50;

/// # Errors
/// When a call fails.
pub async fn all(sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut figures = one(sizes).await?;
    figures.extend(waiting(sizes).await?);
    figures.extend(beside(sizes).await?);
    Ok(figures)
}

/// A worker that does one task after the other, always the one that its review leads to.
async fn one(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut disk = Disk::new(&sizes.dir)?;
    let mut echoed = agents(&echo, 1).await?.remove(0);
    let mut desk = Desk::open(&broker, "one").await?;
    desk.register(WORKER).await?;
    desk.fill(sizes.calls * (sizes.runs + 1) + 1).await?;
    let (mut task, mut next_step) = ("task-1".to_owned(), String::new());
    let mut all = [(); 3].map(|()| Runs::default());
    for run in 0..=sizes.runs {
        let (mut calls, mut appends) = (Vec::new(), Vec::new());
        let mut times = [(); 3].map(|()| Vec::new());
        for _ in 0..sizes.calls {
            let began = Instant::now();
            echoed.call().await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            let began = Instant::now();
            desk.claim(WORKER, &task, &next_step).await?;
            times[0].push(micros(began.elapsed()));
            let began = Instant::now();
            desk.submit(WORKER, &task).await?;
            times[1].push(micros(began.elapsed()));
            let step = desk.mint(WORKER, &task, SCORE).await?;
            let began = Instant::now();
            desk.approve(&task, SCORE, &step).await?;
            times[2].push(micros(began.elapsed()));
            (task, next_step) = (step.task_id, step.token);
        }
        if run == 0 {
            // It warmed up.
            continue;
        }
        let limit = median(&mut calls) + median(&mut appends);
        for (runs, times) in all.iter_mut().zip(&mut times) {
            runs.add(limit, median(times));
        }
    }
    broker.stop().await?;
    let named = ["claim", "submit", "review"].into_iter().zip(all);
    let figure = |(what, runs): (&str, Runs)| {
        runs.figure(format!("1 caller: {what} a task"), "echo + append", Target::AtMost(1.2))
    };
    Ok(named.map(figure).collect())
}

/// From the call that makes a task to the one worker that is told of it.
async fn waiting(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let (echo, broker) = (limits::start("echo").await?, Process::broker(data.path()).await?);
    let mut disk = Disk::new(&sizes.dir)?;
    let mut echoed = agents(&echo, 1).await?.remove(0);
    let workers = sizes.workers;
    let mut few = Crowd::gather(&broker, "few", FEW_WORKERS).await?;
    let mut many = Crowd::gather(&broker, "many", workers).await?;
    let (mut beside_echo, mut beside_few) = (Runs::default(), Runs::default());
    for run in 0..=sizes.runs {
        let (mut calls, mut appends) = (Vec::new(), Vec::new());
        let (mut with_few, mut with_many) = (Vec::new(), Vec::new());
        for _ in 0..sizes.handovers {
            let began = Instant::now();
            echoed.call().await?;
            calls.push(micros(began.elapsed()));
            appends.push(micros(tokio::task::block_in_place(|| disk.append())?));
            with_few.push(few.wake().await?);
            with_many.push(many.wake().await?);
        }
        if run == 0 {
            continue;
        }
        let value = median(&mut with_many);
        beside_echo.add(2.0 * median(&mut calls) + median(&mut appends), value);
        beside_few.add(median(&mut with_few), value);
    }
    drop((few, many));
    broker.stop().await?;
    let name = |of: &str| format!("{workers} workers wait: waking one{of}");
    let with_few = format!("with {FEW_WORKERS}");
    Ok(vec![
        beside_echo.figure(name(""), "2 echoes + append", Target::AtMost(1.5)),
        beside_few.figure(name(", beside few"), &with_few, Target::AtMost(1.1)),
    ])
}

/// An issue of many tasks beside one of few, in turns.
async fn beside(sizes: &Sizes) -> Result<Vec<Figure>> {
    let data = tempfile::tempdir_in(&sizes.dir)?;
    let broker = Process::broker(data.path()).await?;
    let mut desks = Vec::new();
    for (workspace, tasks) in [("few", FEW_TASKS), ("many", sizes.tasks)] {
        let mut desk = Desk::open(&broker, workspace).await?;
        desk.register(WORKER).await?;
        desk.fill(tasks).await?;
        desks.push(desk);
    }
    let (mut claims, mut pages, mut steps) = (Runs::default(), Runs::default(), Runs::default());
    for run in 0..=sizes.runs {
        let mut claimed = [Vec::new(), Vec::new()];
        let mut listed = [Vec::new(), Vec::new()];
        for it in 0..sizes.calls {
            for (at, desk) in desks.iter_mut().enumerate() {
                let task = format!("task-{}", it * 7919 % desk.planned + 1);
                let began = Instant::now();
                desk.claim(WORKER, &task, "").await?;
                claimed[at].push(micros(began.elapsed()));
                desk.reset(&task).await?;
                let began = Instant::now();
                let page = desk.first_page().await?;
                listed[at].push(micros(began.elapsed()));
                if page.tasks.len() != PAGE || page.total != desk.planned as u64 {
                    return Err(format!("{} of {} tasks", page.tasks.len(), page.total).into());
                }
            }
        }
        if run == 0 {
            continue;
        }
        let [few, many] = &mut claimed;
        claims.add(median(few), median(many));
        let [few, many] = &mut listed;
        pages.add(median(few), median(many));
    }
    // Last, since what a next step keeps cannot be claimed. Another score is another next step.
    for desk in &mut desks {
        desk.claim(WORKER, "task-1", "").await?;
        desk.submit(WORKER, "task-1").await?;
    }
    for run in 0..=sizes.runs {
        let mut minted = [Vec::new(), Vec::new()];
        for it in 0..sizes.calls {
            for (at, desk) in desks.iter_mut().enumerate() {
                let began = Instant::now();
                desk.mint(WORKER, "task-1", if it % 2 == 0 { SCORE } else { 2 }).await?;
                minted[at].push(micros(began.elapsed()));
            }
        }
        if run == 0 {
            continue;
        }
        let [few, many] = &mut minted;
        steps.add(median(few), median(many));
    }
    broker.stop().await?;
    let named = [("claim", claims), ("first page", pages), ("next step", steps)];
    let (limit, target) = (format!("of {FEW_TASKS}"), Target::Between(0.8, 1.2));
    let figure = |(what, runs): (&str, Runs)| {
        runs.figure(format!("{what} of {} tasks", sizes.tasks), &limit, target)
    };
    Ok(named.into_iter().map(figure).collect())
}
