//! A frame of fixed data, at two sizes and within its bounds at all.

use ratatui::{Frame, Terminal, backend::TestBackend, buffer::Buffer, layout::Rect};
use tasuki_proto::wire::{self, DeliveryStatus, Difficulty, IssueStatus, TaskStage};

use super::{
    gather::Stale,
    print,
    state::State,
    view::{FOOT, ansi, view},
};

/// 2026-11-21 23:10:00.
const NOW_MS: u64 = 1_795_302_600_000;

fn issue(tail: &str, subject: &str, counts: [u64; 4]) -> wire::Issue {
    let [open, in_progress, waiting_for_answer, done] = counts;
    wire::Issue {
        issue_id: format!("issue_1700000000000_{tail}"),
        subject: subject.to_owned(),
        lead: "lead".to_owned(),
        status: IssueStatus::InProgress.into(),
        tasks: Some(wire::TaskCounts { open, in_progress, waiting_for_answer, done, canceled: 0 }),
        ..Default::default()
    }
}

fn task(number: u32, stage: TaskStage, subject: &str) -> wire::Task {
    let has = matches!(stage, TaskStage::Working | TaskStage::WaitingForAnswer);
    let worker = format!("w{number}");
    wire::Task {
        issue_id: "issue_1700000000000_00af".to_owned(),
        task_id: format!("task-{number}"),
        subject: subject.to_owned(),
        difficulty: Difficulty::Easy.into(),
        stage: stage.into(),
        claimed_by: if has { worker.clone() } else { String::new() },
        lease_expires_ms: if has { NOW_MS + u64::from(number) * 20_000 } else { 0 },
        reserved_for: worker.clone(),
        reserved_until_ms: NOW_MS + 90_000,
        blocked_by: vec!["task-1".to_owned(), "task-2".to_owned()],
        submission: Some(wire::Submission { worker, ..Default::default() }),
        ..Default::default()
    }
}

fn state() -> State {
    let worker = |name: &str, claims: &[(u32, u64)], quiet_ms| wire::Worker {
        worker: name.to_owned(),
        node: "desk-1".to_owned(),
        quiet_ms,
        claims: claims
            .iter()
            .map(|(task, left_ms)| wire::ClaimedTask {
                issue_id: "issue_1700000000000_00af".to_owned(),
                task_id: format!("task-{task}"),
                lease_expires_ms: NOW_MS + left_ms,
                ..wire::ClaimedTask::default()
            })
            .collect(),
        points: vec![wire::IssuePoints { total_points: 12, ..Default::default() }],
        ..Default::default()
    };
    let lock = |holder: &str, pattern: &str, left_ms| wire::Lock {
        holder: holder.to_owned(),
        expires_ms: NOW_MS + left_ms,
        files: Some(wire::FileSet {
            repository: "github.com/us/it".to_owned(),
            patterns: vec![pattern.to_owned(), "docs/".to_owned()],
            is_case_folded: false,
        }),
        ..Default::default()
    };
    let mut tasks = vec![
        task(3, TaskStage::WaitingForAnswer, "Which \u{1b}[31mformat\u{1b}[0m is it?\u{202e}"),
        task(
            4,
            TaskStage::Submitted,
            "日本語のファイルを読む、とても長い名前の付いた仕事 that goes on",
        ),
        task(5, TaskStage::InReview, "Show it in the list"),
        task(6, TaskStage::Working, "Write the index"),
        task(2, TaskStage::Working, "Parse the format"),
        task(7, TaskStage::Reserved, "Read it back"),
    ];
    tasks.extend((8..20).map(|it| task(it, TaskStage::Ready, "Something that can be done")));
    tasks.extend((20..40).map(|it| task(it, TaskStage::Blocked, "Something that waits")));
    State {
        workspace: "default".to_owned(),
        now_ms: NOW_MS,
        issues: vec![
            issue("00af", "Read the new format", [33, 4, 1, 12]),
            issue(
                "01b2",
                "A subject that is a good deal longer than what a narrow screen takes",
                [0, 0, 0, 3],
            ),
        ],
        issues_total: 2,
        tasks_total: 38,
        tasks,
        workers: vec![
            worker("idle", &[], Some(10)),
            worker("w2", &[(2, 40_000)], Some(200)),
            worker("w6", &[(6, 120_000), (3, 60_000)], Some(700_000)),
            worker("new", &[], None),
        ],
        locks: vec![lock("w2", "src/parse.rs", 30_000), lock("w6", "src/index/**", 119_000)],
        locks_total: 2,
        deliveries: vec![wire::Delivery {
            delivery_id: "delivery_1700000000000_00c1".to_owned(),
            issue_id: "issue_1700000000000_01b2".to_owned(),
            status: DeliveryStatus::InReview.into(),
            delivered_by: "lead".to_owned(),
            claimed_by: "qa".to_owned(),
            lease_expires_ms: NOW_MS + 3_000_000,
            ..Default::default()
        }],
        deliveries_total: 1,
        closed: Vec::new(),
        trouble: String::new(),
    }
}

/// What stands on a terminal of this size, without colours.
fn drawn(state: &State, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut Frame<'_>| {
        view(state, state.now_ms, 0, frame.area(), frame.buffer_mut());
    };
    terminal.draw(draw).unwrap();
    bare(&ansi(terminal.backend().buffer()))
}

#[test]
fn what_does_not_fit_is_scrolled_to() {
    let area = Rect::new(0, 0, 80, 24);
    let at = |scroll: usize| {
        let mut frame = Buffer::empty(area);
        let hidden = view(&state(), NOW_MS, scroll, area, &mut frame);
        (hidden, bare(&ansi(&frame)))
    };
    let (hidden, top) = at(0);
    assert!(top.contains("  00af/3 ") && top.contains("  … and 31 more\n"), "{top}");
    let (_, one) = at(1);
    assert!(!one.contains("  00af/3 ") && one.contains("  … 1 above, 30 more\n"), "{one}");
    let (same, last) = at(1_000);
    assert!(last.contains("  00af/39 ") && last.contains("  … 31 above\n"), "{last}");
    assert_eq!((hidden, same), (31, 31));
    // What fits stands where it stood.
    assert!(last.contains("LOCKS 2\n  w2 ") && last.contains("ISSUES 2  open\n  00af "), "{last}");
}

#[test]
fn a_closed_issue_stands_behind_the_open_ones() {
    let mut gone = issue("0c03", "What was done", [0, 0, 0, 2]);
    gone.status = IssueStatus::Done.into();
    let told = drawn(&State { closed: vec![gone], ..state() }, (80, 24));
    assert!(told.contains("ISSUES 3  2 open · 1 closed\n"), "{told}");
    let rows: Vec<&str> = told.lines().skip(2).take(3).collect();
    assert!(rows[2].starts_with("  0c03") && rows[2].contains("done      What was done"), "{told}");
}

fn bare(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn a_frame_looks_like_this() {
    let goldens = [
        ((40, 24), include_str!("view-40x24.golden.txt")),
        ((80, 24), include_str!("view-80x24.golden.txt")),
        ((200, 60), include_str!("view-200x60.golden.txt")),
    ];
    let drawn = goldens.map(|(size, golden)| (drawn(&state(), size), golden));
    let differ: Vec<&str> =
        drawn.iter().filter(|(drawn, golden)| drawn != golden).map(|(it, _)| it.as_str()).collect();
    assert!(differ.is_empty(), "drawn otherwise:\n{}", differ.join("----\n"));
}

#[test]
fn a_frame_that_is_printed_ends_with_what_it_shows() {
    let drawn = drawn(&state(), (200, 60));
    let shown = drawn.strip_suffix(&format!("{FOOT}\n")).expect("a foot").trim_end();
    assert_eq!(bare(&print(&state(), (200, 60))).trim_end(), shown);
    for (state, most) in [(state(), 23), (State::default(), 23)] {
        let told = bare(&print(&state, (80, 24)));
        assert!(!told.contains(FOOT) && told.lines().count() <= most, "{told}");
        assert_eq!(told.trim_end().lines().count(), told.lines().count(), "{told}");
    }
}

#[test]
fn a_frame_that_is_printed_has_the_colours_that_are_drawn() {
    let told = print(&state(), (80, 24));
    for (text, coloured) in
        [("ISSUES", "\u{1b}[1mISSUES\u{1b}[0m"), ("40s", "\u{1b}[38;5;3m40s\u{1b}[39m")]
    {
        assert!(told.contains(coloured), "{text}: {told:?}");
    }
}

#[test]
fn a_frame_of_any_size_shows_its_head_and_foot() {
    let (full, empty) = (state(), State::default());
    for state in [&full, &empty] {
        for (width, height) in [0, 1, 2, 7, 24, 39, 80, 139, 140, 210]
            .into_iter()
            .flat_map(|width| [1, 2, 3, 7, 24, 32, 60].map(|height| (width, height)))
        {
            let drawn = drawn(state, (width, height));
            let lines: Vec<&str> = drawn.lines().collect();
            assert_eq!(lines.len(), usize::from(height), "{width}x{height}");
            if 24 <= width {
                assert!(
                    lines[0].starts_with("tasuki task top") || lines[0].ends_with('Z'),
                    "{drawn}"
                );
                let has_foot = lines.last().unwrap().starts_with("connected");
                assert_eq!(has_foot, 1 < height, "{drawn}");
            }
        }
    }
    assert!(drawn(&full, (80, 0)).is_empty());
}

#[test]
fn a_frame_says_why_it_may_be_old() {
    let old = State { trouble: "No broker\u{1b}[2J answers".to_owned(), ..state() };
    assert!(drawn(&old, (80, 24)).ends_with("\nNo broker answers\n"));
}

#[test]
fn what_is_stale_adds_up() {
    let of = |names: &[&str]| Stale::Of(names.iter().map(|it| (*it).to_owned()).collect());
    let mut stale = Stale::default();
    assert!(!stale.is_any());
    stale.add(of(&["a"]));
    stale.add(of(&["b"]));
    stale.add(Stale::Nothing);
    assert!(matches!(&stale, Stale::Of(names) if names.len() == 2));
    stale.add(Stale::All);
    stale.add(of(&["c"]));
    assert!(matches!(stale, Stale::All));
}
