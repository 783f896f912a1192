//! Large issues, and what is set for a workspace.

use tasuki_proto::limits::LASTING_MS_MAX;

use super::*;

/// What a claim and the first page of a list look at does not grow with the issue. Counted, not
/// timed: the page is of the newest, and what is ready is found without a search.
#[test]
fn a_large_issue_is_listed_and_claimed_from_its_ends() {
    let mut story = Story::new();
    story.step(1, "L opens s");
    for ms in 0..25 {
        // Not the same again.
        let task = format!("easy {}", 1 + ms);
        story.step(2 + ms, &format!("L plans {}", vec![task; 200].join("; ")));
        let number = u32::try_from(ms * 200 + 1).unwrap();
        story.step(2 + ms, &format!("W{ms} registers"));
        story.step(2 + ms, &format!("W{ms} claims {number}"));
    }
    let issue = story.issue();
    assert_eq!(issue.counts().tasks, [4975, 25, 0, 0, 0]);
    let newest: Vec<u32> =
        issue.list(&ListFilter::default()).take(3).map(|task| task.number.0).collect();
    assert_eq!(newest, [5000, 4999, 4998]);
    let claimed = ListFilter { task_state: Some(TaskState::InProgress), ..ListFilter::default() };
    let claimed: Vec<u32> = issue.list(&claimed).take(2).map(|task| task.number.0).collect();
    assert_eq!(claimed, [4801, 4601]);
    let of_one = ListFilter { claimed_by: Some(role("W3")), ..ListFilter::default() };
    assert_eq!(issue.list(&of_one).map(|task| task.number.0).collect::<Vec<_>>(), [601]);
    assert_eq!(issue.ready().next(), Some(TaskNumber(2)));
    story.step(99, "restart");
}

#[test]
fn what_is_set_counts_for_what_is_open() {
    let mut story = Story::new();
    story.step(1, "L opens s");
    let set = |story: &mut Story, ms: u64, settings: Settings| {
        let command =
            Command { by: Actor::Role(role("L")), ask: CommandKind::SetSettings(settings) };
        story.execute(Timestamp::from_millis(ms), AnyCommand::Swarm(command))
    };
    assert_eq!(story.swarm().next_deadline(), Some(Timestamp::from_millis(7_200_001)));
    let forever = Settings { issue_ttl_ms: 0, max_task_count: 1, ..Settings::default() };
    assert_eq!(set(&mut story, 2, forever.clone()), "done");
    assert_eq!(set(&mut story, 3, forever), "done (as before)");
    assert_eq!(story.swarm().next_deadline(), None, "for ever");
    story.step(4, "L plans easy 1; easy 1");
    story.step(5, "L plans easy 1001");
    story.step(6, "L plans easy 1");
    story.step(7, "L plans easy 1");
    let told: Vec<&str> = story.told.lines().skip(1).map(str::trim).collect();
    assert_eq!(
        told,
        [
            "4 L plans easy 1; easy 1: no: overloaded",
            "5 L plans easy 1001: no: points are at most 1000",
            "6 L plans easy 1: 1 from task-1 | 1 ready",
            "7 L plans easy 1: 1 from task-1 (as before) | 1 ready",
        ]
    );
    let hour = Settings { issue_ttl_ms: 3_600_000, ..Settings::default() };
    set(&mut story, 8, hour);
    assert_eq!(story.swarm().next_deadline(), Some(Timestamp::from_millis(3_600_008)));
    let short = Settings { lock_ms: 10, ..Settings::default() };
    assert!(set(&mut story, 9, short).starts_with("no: lock_ms is 10"));
    for issue_ttl_ms in [LASTING_MS_MAX + 1, u64::MAX] {
        let beyond = Settings { issue_ttl_ms, ..Settings::default() };
        assert!(set(&mut story, 10, beyond).starts_with("no: issue_ttl_ms is 0 for ever"));
    }
    let century = Settings { issue_ttl_ms: LASTING_MS_MAX, ..Settings::default() };
    assert_eq!(set(&mut story, 11, century), "done");
}

#[test]
fn nodes_are_to_speak_three_times_in_the_shortest_lease() {
    let usual = Settings::default();
    for (settings, expected) in [
        (usual.clone(), 10_000),
        (Settings { heartbeat_ms: 4_000, ..usual.clone() }, 4_000),
        (Settings { lock_ms: 6_000, ..usual.clone() }, 2_000),
        (Settings { task_claim_ms: 3_000, heartbeat_ms: 4_000, ..usual.clone() }, 1_000),
        (Settings { delivery_claim_ms: 1_000, ..usual.clone() }, 333),
        // Kept for somebody, and for nobody's presence.
        (Settings { reservation_ms: 1_000, issue_ttl_ms: 1_000, ..usual }, 10_000),
    ] {
        assert_eq!(settings.sign_every_ms(), expected, "{settings:?}");
    }
}

/// And as long as it takes to hear three times of whoever holds it.
#[test]
fn a_lease_lasts_as_long_as_it_was_granted_for() {
    check(
        &[
            (0, "W is there"),
            (1, "W locks a +ttl=45000"),
            (2, "W keeps"),
            (2, "V locks b +ttl=1000"),
            (3, "V is there"),
            (20_000, "W is there"),
            (45_002, "time"),
            (45_002, "X locks b"),
            (65_001, "time"),
            (65_002, "X locks a"),
        ],
        "  0 W is there: so
           1 W locks a +ttl=45000: locked, token 1 until 45001
           2 W keeps: locked, token 1 until 45002
           2 V locks b +ttl=1000: locked, token 2 until 1002
           3 V is there: so
         20000 W is there: so
         45002 time: done
         45002 X locks b: locked, token 3 until 165002
         65001 time: done
         65002 X locks a: locked, token 4 until 185002",
    );
    let mut story = Story::new();
    let set = |story: &mut Story, ms, task_claim_ms| {
        let settings = Settings { task_claim_ms, ..Settings::default() };
        let command =
            Command { by: Actor::Role(role("L")), ask: CommandKind::SetSettings(settings) };
        story.execute(Timestamp::from_millis(ms), AnyCommand::Swarm(command));
    };
    set(&mut story, 1, 60_000);
    for line in ["L opens s", "L plans easy 1", "W registers", "W claims 1", "restart"] {
        story.step(2, line);
    }
    set(&mut story, 3, 3_600_000);
    story.told.clear();
    for (ms, line) in
        [(40_000, "W is there"), (60_002, "time"), (99_999, "time"), (100_000, "time")]
    {
        story.step(ms, line);
    }
    let told: Vec<&str> = story.told.lines().map(str::trim).collect();
    assert_eq!(
        told,
        [
            "40000 W is there: so | 1 in_progress:W",
            "60002 time: done | 1 in_progress:W",
            "99999 time: done | 1 in_progress:W",
            "100000 time: done | 1 ready",
        ]
    );
}

/// Which files it changed is kept, and not how they are called.
#[test]
fn a_submission_of_many_files_keeps_little_of_them() {
    let mut story = Story::new();
    for (ms, line) in (1..).zip(["L opens s", "L plans easy 1", "W registers", "W claims 1"]) {
        story.step(ms, line);
    }
    let changed_files = (0..4096).map(|at| format!("{at:f>62}")).collect();
    let ask = CommandKind::SubmitTask(SubmitTask {
        issue: story.issue().id,
        task: TaskNumber(1),
        token: FencingToken::NONE,
        words: Artifacts { changed_files, ..Artifacts::default() },
        files: Vec::new(),
    });
    let by = Actor::Role(role("W"));
    story.execute(Timestamp::from_millis(9), AnyCommand::Swarm(Command { by, ask }));
    assert_eq!(story.issue().tasks[0].submissions[0].files.len(), 4096);
    let mut bytes = 0;
    let count = |piece: bytes::Bytes| -> Result<(), CodecError> {
        bytes += piece.len();
        Ok(())
    };
    encode_snapshot(&story.workspace, count).unwrap();
    assert!(bytes < 37 * 1024, "{bytes} bytes, of which names would take 256 KiB");
}
