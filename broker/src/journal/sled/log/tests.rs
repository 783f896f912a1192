//! Two files and a database, cut off wherever and however a power cut may: nothing is sampled.

use std::{cell::RefCell, fs, io, rc::Rc};

use bytes::Bytes;

use super::{
    Contents, Log, PART_BYTES, Position, Rows, SECTOR, Segment, frame::Head, read_segment,
};
use crate::journal::{Hash, JournalError};

/// Steps of a story. Each is tried with every one before it.
const STEPS_MAX: usize = 5;

/// A head, and two frames of a sector.
const SMALL_BYTES: usize = 3 * SECTOR;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Of so many sectors.
    Append(usize),
    SyncDatabase,
    Restart,
    /// Killed after a frame was written and before it was synced, and started.
    Killed,
}

const STEPS: [Step; 5] =
    [Step::Append(1), Step::Append(2), Step::SyncDatabase, Step::Restart, Step::Killed];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Write {
        segment: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Sync {
        segment: usize,
    },
    /// A frame was written, acknowledged, and put in the database.
    Written(Position, Bytes),
    Acknowledged(u64),
    /// The database gets it.
    Applied(u64),
    /// The database was synced up to this frame.
    Synced(u64),
}

type Events = Rc<RefCell<Vec<Event>>>;

/// Tells what is done to it.
struct Told {
    segment: usize,
    events: Events,
}

impl Segment for Told {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let at = usize::try_from(at).unwrap();
        let event = Event::Write { segment: self.segment, at, bytes: bytes.to_vec() };
        self.events.borrow_mut().push(event);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.events.borrow_mut().push(Event::Sync { segment: self.segment });
        Ok(())
    }
}

/// What a disk holds, and what it may have of writes that were not synced.
#[derive(Clone)]
struct Disk {
    durable: [Vec<u8>; 2],
    /// Sectors.
    pending: Vec<(usize, usize, Vec<u8>)>,
    frames: Vec<(Position, Bytes)>,
    acknowledged: u64,
    applied: u64,
    synced: u64,
}

fn put(segment: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    segment.resize(segment.len().max(end), 0);
    segment[at..end].copy_from_slice(bytes);
}

impl Disk {
    fn new() -> Self {
        let head = Head { incarnation: [1; 16], secret: [2; 16], before: Position::default() };
        let mut first = head.encode().to_vec();
        first.resize(SMALL_BYTES, 0);
        Self {
            durable: [first, vec![0; SMALL_BYTES]],
            pending: Vec::new(),
            frames: Vec::new(),
            acknowledged: 0,
            applied: 0,
            synced: 0,
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Write { segment, at, bytes } => {
                for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                    self.pending.push((*segment, at + number * SECTOR, sector.to_vec()));
                }
            }
            Event::Sync { segment } => {
                let (synced, pending) =
                    std::mem::take(&mut self.pending).into_iter().partition(|it| it.0 == *segment);
                self.pending = pending;
                let synced: Vec<(usize, usize, Vec<u8>)> = synced;
                for (segment, at, bytes) in synced {
                    put(&mut self.durable[segment], at, &bytes);
                }
            }
            // Known from the start: some of it is on the disk before it is wholly written.
            Event::Written(..) => {}
            Event::Acknowledged(number) => self.acknowledged = *number,
            Event::Applied(number) => self.applied = *number,
            Event::Synced(number) => self.synced = *number,
        }
    }

    /// Everything that may be on it after a power cut.
    fn images(&self) -> impl Iterator<Item = [Vec<u8>; 2]> {
        assert!(self.pending.len() < 12, "so many sectors are not enumerated");
        (0..1_u32 << self.pending.len()).map(|kept| {
            let mut image = self.durable.clone();
            for (number, (segment, at, bytes)) in self.pending.iter().enumerate() {
                if kept & (1 << number) != 0 {
                    put(&mut image[*segment], *at, bytes);
                }
            }
            image
        })
    }

    fn hash(&self, number: u64) -> Hash {
        match number {
            0 => Hash::default(),
            _ => self.frames[usize::try_from(number - 1).unwrap()].0.hash,
        }
    }

    /// What a start finds wrong that a power cut at this moment precedes.
    fn check(&self) -> Result<(), String> {
        for image in self.images() {
            let contents = contents(&image).map_err(|why| why.to_string())?;
            let end = contents.end().number;
            if end < self.acknowledged && self.synced < self.acknowledged {
                return Err(format!("LG1: {} was acknowledged, {end} is kept", self.acknowledged));
            }
            if end < self.applied {
                return Err(format!("LG3: the database got {}, {end} is kept", self.applied));
            }
            // The database may be at any frame that it got since it was synced.
            for number in self.synced..=self.applied {
                let lacks = contents.after(number, self.hash(number));
                let lacks = lacks.map_err(|why| why.to_string())?;
                for frame in lacks {
                    let index = usize::try_from(frame.at.number - 1).unwrap();
                    if self.frames[index] != (frame.at, frame.rows.clone()) {
                        return Err(format!("frame {} is another", frame.at.number));
                    }
                }
            }
        }
        Ok(())
    }
}

fn contents(image: &[Vec<u8>; 2]) -> Result<Contents, JournalError> {
    let segments = image.each_ref().map(|it| Bytes::copy_from_slice(it));
    let contents = Contents::of("log".as_ref(), segments)?;
    contents.check()?;
    Ok(contents)
}

fn rows(number: u64, sectors: usize) -> Bytes {
    let mut rows = Rows::default();
    rows.insert(format!("key {number}"), vec![7; 100 + (sectors - 1) * SECTOR]);
    rows.remove(format!("gone {number}"));
    rows.into_bytes()
}

/// Plays a story, and says what was done by its steps before the last, and by the last.
fn play(story: &[Step]) -> (Vec<Event>, Vec<Event>) {
    let events = Events::default();
    let segments = || [0, 1].map(|segment| Told { segment, events: Rc::clone(&events) });
    let mut disk = Disk::new();
    let mut seen = 0;
    // What was done is on the disk as it is without a cut.
    let mut watch = |disk: &mut Disk| {
        let events = events.borrow();
        for event in &events[seen..] {
            disk.take(event);
        }
        seen = events.len();
    };
    let say = |event| events.borrow_mut().push(event);
    let bytes = [SMALL_BYTES as u64; 2];
    let mut log = Log::after(segments(), bytes, &contents(&disk.durable).unwrap()).unwrap();
    let mut before_last = 0;
    for step in story {
        watch(&mut disk);
        before_last = events.borrow().len();
        match *step {
            Step::Append(sectors) => {
                let number = log.end().number + 1;
                let rows = rows(number, sectors);
                let free = |frame| {
                    let is_needed = disk.synced < frame;
                    is_needed.then(|| say(Event::Synced(frame)));
                    Ok(())
                };
                let commit = (number % 2 == 0).then_some((number / 2, Hash([9; 16])));
                let end = log.append(&rows, commit, free).unwrap();
                say(Event::Written(end, rows));
                log.sync().unwrap();
                say(Event::Acknowledged(number));
                say(Event::Applied(number));
            }
            Step::SyncDatabase => say(Event::Synced(log.end().number)),
            Step::Killed => {
                let number = log.end().number + 1;
                let rows = rows(number, 1);
                let free = |frame| {
                    let is_needed = disk.synced < frame;
                    is_needed.then(|| say(Event::Synced(frame)));
                    Ok(())
                };
                let end = log.append(&rows, None, free).unwrap();
                say(Event::Written(end, rows));
                // The start sees what the system has in memory.
                watch(&mut disk);
                let mut seen = disk.clone();
                (0..2).for_each(|segment| seen.take(&Event::Sync { segment }));
                let contents = contents(&seen.durable).unwrap();
                segments().iter().for_each(|it| it.sync().unwrap());
                say(Event::Applied(contents.end().number));
                say(Event::Synced(contents.end().number));
                let sizes = [0, 1].map(|it| seen.durable[it].len() as u64);
                log = Log::after(segments(), sizes, &contents).unwrap();
            }
            Step::Restart => {
                say(Event::Synced(log.end().number));
                watch(&mut disk);
                let sizes = [0, 1].map(|it| disk.durable[it].len() as u64);
                log = Log::after(segments(), sizes, &contents(&disk.durable).unwrap()).unwrap();
            }
        }
    }
    let all = events.borrow();
    (all[..before_last].to_vec(), all[before_last..].to_vec())
}

fn frames(before: &[Event], last: &[Event]) -> Vec<(Position, Bytes)> {
    let written = |event: &Event| match event {
        Event::Written(at, rows) => Some((*at, rows.clone())),
        Event::Write { .. }
        | Event::Sync { .. }
        | Event::Acknowledged(_)
        | Event::Applied(_)
        | Event::Synced(_) => None,
    };
    before.iter().chain(last).filter_map(written).collect()
}

/// What is wrong after a cut in the last step of a story.
fn cut(story: &[Step], is_synced: bool) -> Result<(), String> {
    let (before, last) = play(story);
    let mut disk = Disk::new();
    disk.frames = frames(&before, &last);
    let is_done = |event: &&Event| is_synced || !matches!(event, Event::Sync { .. });
    before.iter().for_each(|event| disk.take(event));
    for event in last.iter().filter(is_done) {
        disk.take(event);
        disk.check().map_err(|why| format!("{story:?}, at {event:?}: {why}"))?;
    }
    Ok(())
}

fn stories(steps: usize) -> impl Iterator<Item = Vec<Step>> {
    (0..STEPS.len().pow(u32::try_from(steps).unwrap())).map(move |mut number| {
        let mut story = Vec::new();
        for _ in 0..steps {
            story.push(STEPS[number % STEPS.len()]);
            number /= STEPS.len();
        }
        story
    })
}

/// Holds LG1, LG2 and LG3.
#[test]
fn whatever_a_power_cut_leaves_is_what_was_acknowledged() {
    for story in (1..=STEPS_MAX).flat_map(stories) {
        assert_eq!(cut(&story, true), Ok(()));
    }
}

#[test]
fn without_its_syncs_the_model_finds_losses() {
    let found = cut(&[Step::Append(1)], false).unwrap_err();
    assert!(found.contains("LG1: 1 was acknowledged, 0 is kept"), "{found}");
}

/// The disk after a story, and nothing of it is open.
fn after(story: &[Step]) -> Disk {
    let (before, last) = play(story);
    let mut disk = Disk::new();
    disk.frames = frames(&before, &last);
    before.iter().chain(&last).for_each(|event| disk.take(event));
    disk
}

/// Holds LG4.
#[test]
fn damage_is_refused_by_its_frame_or_changes_nothing() {
    let story = [Step::Append(1), Step::Append(1), Step::Append(2), Step::Append(1)];
    let disk = after(&story);
    let last = disk.applied;
    let (mut refused, mut harmless, mut at_end) = (0, 0, 0);
    for segment in 0..2 {
        for at in 0..disk.durable[segment].len() {
            for bit in [1, 0x80] {
                let mut image = disk.durable.clone();
                image[segment][at] ^= bit;
                for number in disk.synced..=last {
                    let contents = contents(&image);
                    let lacks = contents
                        .as_ref()
                        .map_err(Clone::clone)
                        .and_then(|it| it.after(number, disk.hash(number)));
                    match lacks {
                        Err(JournalError::Damaged { .. }) => refused += 1,
                        Err(why) => panic!("{why}"),
                        Ok(lacks) => {
                            let found = number + lacks.len() as u64;
                            for frame in lacks {
                                let index = usize::try_from(frame.at.number - 1).unwrap();
                                let expected = &disk.frames[index];
                                assert_eq!((&frame.at, &frame.rows), (&expected.0, &expected.1));
                            }
                            match last - found {
                                0 => harmless += 1,
                                // As if it had been torn.
                                1 if number < last => at_end += 1,
                                _ => panic!("{segment}, byte {at}: {found} of {last} are found"),
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(0 < refused && 0 < harmless && 0 < at_end, "{refused}, {harmless}, {at_end}");
}

/// Whether a frame is there, whole.
fn is_there(image: &[Vec<u8>; 2], number: u64) -> bool {
    image.iter().any(|segment| {
        let bytes = Bytes::copy_from_slice(segment);
        let mut sectors = (0..bytes.len()).step_by(SECTOR);
        sectors.any(|at| {
            super::frame::decode(&[2; 16], &bytes.slice(at..))
                .is_some_and(|it| it.at.number == number)
        })
    })
}

/// Whatever is spoilt, a repair keeps each frame that follows the database without a gap.
#[test]
fn a_repair_keeps_all_that_follows_the_database() {
    let story = [Step::Append(1), Step::Append(1), Step::Append(2), Step::Append(1)];
    let disk = after(&story);
    let last = disk.applied;
    let mut kept_behind_damage = 0;
    for segment in 0..2 {
        for at in 0..disk.durable[segment].len() {
            let mut image = disk.durable.clone();
            image[segment][at] ^= 1;
            let segments = image.each_ref().map(|it| Bytes::copy_from_slice(it));
            let spoilt = Contents::of("log".as_ref(), segments).unwrap();
            for number in disk.synced..=last {
                let (frames, _) = spoilt.intact_after(number, disk.hash(number));
                for (at, frame) in (number..).zip(&frames) {
                    let expected = &disk.frames[usize::try_from(at).unwrap()];
                    assert_eq!((&frame.at, &frame.rows), (&expected.0, &expected.1));
                }
                let kept = number + frames.len() as u64;
                let expected = (number + 1..=last).take_while(|it| is_there(&image, *it)).last();
                assert_eq!(kept, expected.unwrap_or(number), "{segment}, byte {at}");
                let is_refused = spoilt.after(number, disk.hash(number)).is_err();
                kept_behind_damage += u32::from(is_refused && number < kept);
            }
        }
    }
    assert!(0 < kept_behind_damage);
}

/// The database may be far behind, in a long segment, and the other one be short.
#[test]
fn a_repair_goes_from_a_long_segment_on_to_a_short_one() {
    let frame = |before: &Position| {
        let (bytes, at) = super::frame::encode(&[2; 16], before, None, b"");
        (bytes.to_vec(), at)
    };
    let head = |before| Head { incarnation: [1; 16], secret: [2; 16], before }.encode().to_vec();
    let mut segments = [head(Position::default()), Vec::new()];
    let mut end = Position::default();
    for number in 1..=1_000 {
        if number == 998 {
            segments[1] = head(end);
        }
        let (bytes, at) = frame(&end);
        segments[usize::from(998 <= number)].extend(bytes);
        end = at;
    }
    // The head of the long one is spoilt.
    segments[0][20] ^= 1;
    let contents = Contents::of("log".as_ref(), segments.map(Bytes::from)).unwrap();
    assert!(contents.after(0, Hash::default()).is_err());
    assert_eq!(contents.intact_after(0, Hash::default()).0.len(), 1_000);
}

#[test]
fn frames_that_are_gone_are_missed() {
    let mut disk = after(&[Step::Append(1), Step::Append(1), Step::Restart, Step::Append(1)]);
    let whole = contents(&disk.durable).unwrap();
    assert_eq!(whole.after(0, Hash::default()).unwrap().len(), 3);
    // A database that never was of this log.
    let refused = |it: &Contents, number, hash| it.after(number, hash).unwrap_err().to_string();
    assert!(refused(&whole, 2, Hash([5; 16])).contains("as the hash of frame 2"));
    assert!(refused(&whole, 4, Hash::default()).contains("frame 4, which the database has"));
    // The older segment is gone: only a database that needs it is refused.
    let newest = whole.newest;
    disk.durable[1 - newest].fill(0);
    let rest = contents(&disk.durable).unwrap();
    assert_eq!(rest.after(2, disk.hash(2)).unwrap().len(), 1);
    assert!(refused(&rest, 1, disk.hash(1)).contains("expected frame 2 of the log in it"));
    disk.durable[newest].fill(0);
    let none = contents(&disk.durable).unwrap_err().to_string();
    assert!(none.contains("expected the head of a segment"), "{none}");
}

/// Somebody who writes what looks like a frame does not know its checksum.
#[test]
fn a_text_passes_for_no_frame() {
    let (secret, guessed) = ([2; 16], [0; 16]);
    let forged = |secret: &[u8; 16]| {
        let before = Position { number: 8, ..Position::default() };
        Bytes::from(super::frame::encode(secret, &before, None, b"").0)
    };
    assert!(super::frame::decode(&secret, &forged(&secret)).is_some());
    assert_eq!(super::frame::decode(&secret, &forged(&guessed)), None);
}

#[test]
fn a_frame_that_is_larger_than_a_segment_makes_it_larger() {
    let disk = after(&[Step::Append(1), Step::Append(9), Step::Append(1)]);
    assert_eq!(contents(&disk.durable).unwrap().end().number, 3);
    assert!(disk.durable.iter().any(|it| SMALL_BYTES < it.len()));
}

#[test]
fn only_zeroes_at_the_end_of_a_segment_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0");
    let mut stored = vec![0; 9 * PART_BYTES + 17];
    (stored[3], stored[5 * PART_BYTES]) = (1, 1);
    fs::write(&path, &stored).unwrap();
    assert_eq!(read_segment(&path).unwrap(), stored[..7 * PART_BYTES]);
    stored.truncate(6 * PART_BYTES + 17);
    fs::write(&path, &stored).unwrap();
    assert_eq!(read_segment(&path).unwrap(), stored);
}
