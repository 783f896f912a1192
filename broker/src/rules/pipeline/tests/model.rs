//! Random stories hold the invariants, and a crash anywhere changes no end.

use proptest::prelude::*;

use super::*;

/// What can be asked at any time.
const LINES: [&str; 23] = [
    "ann starts",
    "pm on n1 claims",
    "pm on n1 ends well",
    "pm on n2 ends well",
    "pm on n1 ends badly",
    "pm on n1 ends approving",
    "dev on n1 claims",
    "dev on n1 ends well",
    "dev on n1 ends badly",
    "qa on n3 claims",
    "qa on n3 ends well",
    "qa on n3 ends badly",
    "arch on n3 claims",
    "arch on n3 ends approving",
    "arch on n3 ends rejecting",
    "ann approves",
    "ann rejects",
    "ann cancels",
    "ann resumes",
    "n1 registers pm dev",
    "n2 registers pm",
    "the broker restarts",
    "tick",
];

fn passed(story: &Story, phase: &str) -> usize {
    let Some(pipeline) = story.pipeline() else { return 0 };
    let is_it = |it: &&Attempt| {
        let end = it.end.as_ref().is_some_and(|end| end.how == Change::Passed);
        end && pipeline.definition.phase(it.phase).name.as_str() == phase
    };
    pipeline.attempts.iter().filter(is_it).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Holds PL5. Whatever is asked in whichever order: nothing is completed that was not planned, approved,
    /// coded, tested and reviewed, and what an attempt wrote is there once.
    #[test]
    fn no_phase_is_passed_over(
        asked in prop::collection::vec((0..LINES.len(), 0..3u8), 0..120),
    ) {
        let mut story = Story::new();
        for (line, pause) in asked {
            story.now = story.now.plus_millis([1, 1_000, 70_000][usize::from(pause)]);
            if pause < 2 {
                story.step("n1 is there");
                story.step("n3 is there");
            }
            story.step(LINES[line]);
            let Some(pipeline) = story.pipeline() else { continue };
            let board = story.workspace.boards.find(&"plan".parse().unwrap()).unwrap();
            let written = pipeline.attempts.iter().filter_map(|it| Some(it.end.as_ref()?.written));
            let mut written: Vec<_> = written.filter(|it| it.get() != 0).collect();
            let count = written.len();
            written.sort_unstable();
            written.dedup();
            prop_assert_eq!(written.len(), count, "PL5: two attempts wrote one checkpoint");
            prop_assert!(written.iter().all(|it| board.checkpoints.contains_key(it)));
            let open = pipeline.attempts.iter().filter(|it| it.end.is_none()).count();
            prop_assert!(open <= 1, "PL1: {open} attempts are open");
            let is_approved = pipeline.decisions.iter().any(|it| it.is_approved);
            for phase in ["code", "test", "review"] {
                let name = |it: &Attempt| pipeline.definition.phase(it.phase).name.to_string();
                if pipeline.attempts.iter().any(|it| name(it) == phase) {
                    prop_assert!(is_approved, "PL4: {phase} began and nobody approved");
                }
            }
            if matches!(pipeline.status, Status::Ended(_, Outcome::Completed, _)) {
                for phase in ["plan", "code", "test", "review"] {
                    prop_assert!(0 < passed(&story, phase), "{phase} was not passed");
                }
            }
        }
    }

    /// A crash after any record: what goes on from there ends alike.
    #[test]
    fn a_crash_anywhere_comes_to_the_same_end(crashed in 0..14usize) {
        let lines = [
            "ann starts", "pm on n1 claims", "pm on n1 ends well", "ann approves",
            "dev on n1 claims", "dev on n1 ends well", "qa on n3 claims", "qa on n3 ends badly",
            "dev on n1 claims", "dev on n1 ends well", "qa on n3 claims", "qa on n3 ends well",
            "arch on n3 claims", "arch on n3 ends approving",
        ];
        let mut story = Story::new();
        for (index, line) in lines.iter().enumerate() {
            story.now = story.now.plus_millis(1);
            story.step(line);
            if index == crashed {
                story.step("the broker restarts");
                story.step("n1 registers pm dev");
                story.step("n3 registers qa arch");
                // What was claimed is lost with its node, and claimed again.
                if let Some(claim) = line.strip_suffix("claims") {
                    story.step(&format!("{claim}claims"));
                }
            }
        }
        prop_assert_eq!(story.told(), "completed");
        let outcomes = story.pipeline().unwrap().attempts.iter().filter_map(|it| {
            Some(it.end.as_ref()?.how)
        });
        let ended: Vec<_> = outcomes.filter(|it| *it != Change::Lost).collect();
        let wanted = [true, true, false, true, true, true];
        prop_assert_eq!(
            ended.iter().map(|it| *it == Change::Passed).collect::<Vec<_>>(),
            wanted
        );
    }
}
