//! What breaks, when and for how long: a seed decides.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    chance::Chance,
    net::{Place, Trouble, Way},
    process::Process,
    world::World,
};

/// Troubles at a time, at most.
const AT_A_TIME_MAX: u64 = 2;

/// How long most last, in milliseconds, and how long some: longer than a peer takes to be missed.
const SHORT_MS_MAX: u64 = 3_000;
const LONG_MS_MAX: u64 = 17_000;

#[derive(Debug, Clone, Copy)]
enum What {
    Network(Way, Trouble),
    Unplugged,
    Killed,
}

/// 0 is the host, then come the desks.
type Whom = usize;

/// What was done so far; told when a test fails.
#[derive(Debug)]
pub(super) struct Diary {
    began: Instant,
    lines: Mutex<Vec<String>>,
}

impl Diary {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), lines: Mutex::default() }
    }

    pub(super) fn say(&self, what: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(format!("{at:7.2} s  {what}"));
    }
}

impl Drop for Diary {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            anstream::println!("{}", lines.join("\n"));
        }
    }
}

/// A spell of bad weather.
#[derive(Debug)]
pub(super) struct Spell {
    what: BTreeMap<Whom, What>,
    pub(super) lasts: Duration,
}

impl Spell {
    pub(super) fn new(chance: &mut Chance, desks: usize) -> Self {
        let count = 1 + chance.below(AT_A_TIME_MAX);
        let what = (0..count).map(|_| {
            let whom = usize::try_from(chance.below(desks as u64 + 1)).unwrap();
            (whom, What::new(chance, whom))
        });
        // One trouble each.
        let what = what.collect();
        let most = if chance.below(4) == 0 { LONG_MS_MAX } else { SHORT_MS_MAX };
        Self { what, lasts: Duration::from_millis(chance.below(most)) }
    }

    pub(super) async fn begin(&self, world: &mut World, diary: &Diary) {
        for (whom, what) in &self.what {
            diary.say(&format!("{whom}: {what:?} for {:?}", self.lasts));
            match what {
                What::Network(way, trouble) => {
                    world.net.trouble(place(world, *whom), *way, *trouble).await;
                }
                What::Unplugged => place(world, *whom).link(false).await,
                What::Killed => process(world, *whom).kill().await,
            }
        }
    }

    pub(super) async fn end(&self, world: &mut World, diary: &Diary) {
        world.net.heal_all().await;
        for (whom, what) in &self.what {
            match what {
                What::Network(..) => {}
                What::Unplugged => place(world, *whom).link(true).await,
                What::Killed => process(world, *whom).start().await,
            }
        }
        diary.say("healed");
    }
}

impl What {
    fn new(chance: &mut Chance, whom: Whom) -> Self {
        let way = [Way::Both, Way::In, Way::Out][usize::try_from(chance.below(3)).unwrap()];
        match chance.below(8) {
            0..3 => Self::Network(way, Trouble::Silence),
            3 => Self::Network(way, Trouble::Reset),
            4 => Self::Network(Way::Both, Trouble::Loss(30)),
            // A host has no reason to lose its network's plug.
            5 if whom != 0 => Self::Unplugged,
            _ => Self::Killed,
        }
    }
}

fn place(world: &World, whom: Whom) -> &Place {
    if whom == 0 { world.host() } else { world.place(whom - 1) }
}

fn process(world: &mut World, whom: Whom) -> &mut Process {
    if whom == 0 { &mut world.broker } else { &mut world.nodes[whom - 1] }
}
