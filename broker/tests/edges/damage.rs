//! Damage: whatever happens to a byte on disk, the broker refuses by name, or it serves exactly
//! what was written. Never something else, never a hang.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tasuki_proto::{
    host::config::FOLDER,
    wire::{self, turn_loop_client::TurnLoopClient},
};
use tonic::{Status, transport::Channel};

use crate::{
    common::{self, Dice},
    support::{
        Line, Player, Process, caller, history, play_all, players, reason, run, seed, setting,
        soon, turns,
    },
};

/// Handovers of the first workspace: enough for a snapshot under load.
const HANDOVERS: u64 = 4300;

/// What a loop is, as its callers see it.
type Told = (Vec<wire::Entry>, Option<wire::TurnAnswer>);

/// Asks everything there is to ask.
async fn ask(turns: &mut TurnLoopClient<Channel>, line: &Line) -> Result<Told, Status> {
    let entries = history(turns, line).await?;
    let role = Player::role(entries.len() as u64 + 1).to_owned();
    let (caller, name) = (caller(&line.0), line.1.clone());
    let request = wire::AwaitTurnRequest { caller, r#loop: name, role, hold_ms: 0 };
    let answer = turns.await_turn(request).await?.into_inner().answer;
    Ok((entries, answer))
}

/// A data directory with snapshots, dropped commits and bodies of many parts.
async fn write(dir: &Path) -> BTreeMap<Line, Player> {
    let mut many = players(&["many"], 24);
    let mut few = players(&["few"], 3);
    for (is_many, acks) in [(false, 60), (true, HANDOVERS), (false, 60)] {
        let players = if is_many { &mut many } else { &mut few };
        let mut broker = Process::serve(dir);
        let address = broker.address().await.unwrap();
        play_all(address, players, acks, || broker.terminate()).await;
        assert_eq!(broker.ended().await.code, Some(0));
    }
    many.append(&mut few);
    many
}

/// Spoils one file in `dir` and says how.
fn spoil(dir: &Path, dice: &mut Dice) -> String {
    let dir = &dir.join(FOLDER);
    let mut roll = |limit: usize| usize::try_from(dice.roll(limit as u64)).unwrap();
    let path = match roll(8) {
        0 => dir.join("log/0"),
        3 => dir.join("log/1"),
        1 => dir.join("db/conf"),
        2 => page_table(dir).unwrap_or_else(|| dir.join("db/db")),
        _ => dir.join("db/db"),
    };
    let mut bytes = std::fs::read(&path).unwrap();
    let anywhere = roll(5) == 0;
    let mut at = roll(bytes.len());
    // Mostly where something is.
    while !anywhere && bytes[at] == 0 {
        at = roll(bytes.len());
    }
    let how = match roll(4) {
        0 => {
            bytes.truncate(at);
            "cut off".to_owned()
        }
        1 => {
            let to = bytes.len().min(at + [1, 512, 4096][roll(3)]);
            bytes[at..to].fill(0);
            format!("zero up to {to}")
        }
        _ => {
            let bit = roll(8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} flipped")
        }
    };
    std::fs::write(&path, bytes).unwrap();
    format!("{} at {at}: {how}", path.strip_prefix(dir).unwrap_or(&path).display())
}

fn page_table(dir: &Path) -> Option<PathBuf> {
    let paths = dir.join("db").read_dir().unwrap().map(|it| it.unwrap().path());
    let is_it = |it: &PathBuf| it.file_name().unwrap().to_string_lossy().starts_with("snap.");
    paths.into_iter().find(is_it)
}

/// Whether a process that ended said by name what is damaged. A panic on the way there is sled's
/// manner of noticing.
fn is_named(code: Option<i32>, log: &str) -> bool {
    let names = ["damaged at", "newer release"];
    code == Some(65) && names.iter().any(|it| log.contains(it))
}

#[derive(Debug, Default)]
struct Tally {
    refused: u64,
    refused_reads: u64,
    harmless: u64,
}

/// What is wrong with how a spoilt directory is served.
async fn serve(
    dir: &Path,
    whole: &BTreeMap<Line, Told>,
    verified: bool,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut broker = Process::serve_moved(dir);
    let Some(address) = broker.address().await else {
        let ended = broker.ended().await;
        tally.refused += 1;
        return match is_named(ended.code, &ended.log) {
            true => Ok(()),
            false => Err(format!("serve ended with {:?}: {}", ended.code, ended.log)),
        };
    };
    let mut turns = turns(address);
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for (line, told) in whole {
        match soon("an answer", ask(&mut turns, line)).await {
            Ok(it) if it == *told => {}
            Ok(it) => wrong.push(format!("{line:?} is told {it:?}")),
            Err(status) if reason(&status) == "damaged" => refused += 1,
            Err(status) => wrong.push(format!("{line:?}: {status:?}")),
        }
    }
    broker.kill().await;
    match refused {
        0 => tally.harmless += 1,
        _ => tally.refused_reads += 1,
    }
    if verified && refused != 0 {
        wrong.push(format!("verify finds it whole, {refused} loops are refused"));
    }
    wrong.into_iter().next().map_or(Ok(()), Err)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_refused_by_name_or_harmless() {
    let base = tempfile::tempdir().unwrap();
    let players = write(base.path()).await;
    let verified = run(&["verify", "--json"], base.path()).await;
    assert_eq!(verified.code, Some(0), "{}", verified.log);
    let mut whole = BTreeMap::new();
    let mut broker = Process::serve(base.path());
    let mut turns = turns(broker.address().await.unwrap());
    for (line, player) in &players {
        player.check(&mut turns).await.unwrap();
        whole.insert(line.clone(), ask(&mut turns, line).await.unwrap());
    }
    broker.kill().await;

    let mut dice = Dice::new(seed());
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for trial in 0..setting("TASUKI_TRIALS", 100) {
        let dir = tempfile::tempdir().unwrap();
        common::copy(base.path(), dir.path());
        let damage = spoil(dir.path(), &mut dice);
        let found = run(&["verify", "--json"], dir.path()).await;
        let is_whole = found.code == Some(0);
        if is_whole && found.out != verified.out {
            wrong.push(format!("{trial}, {damage}: verify says {}", found.out));
        }
        if !is_whole && !is_named(found.code, &found.log) {
            wrong.push(format!("{trial}, {damage}: verify {:?}: {}", found.code, found.log));
        }
        if let Err(what) = serve(dir.path(), &whole, is_whole, &mut tally).await {
            wrong.push(format!("{trial}, {damage}: {what}"));
        }
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} wrong, {tally:?}:\n{}", wrong.join("\n"));
    // Each must happen, or the trials try nothing.
    assert!(0 < tally.refused && 0 < tally.harmless, "{tally:?}");
}
