//! Who asks again without saying so is known by what it asked for last.

use super::*;

#[test]
fn what_others_made_meanwhile_doubles_nothing() {
    check(
        &[
            (1, "L opens s"),
            (2, "M opens t"),
            (3, "L opens s"),
            (4, "M opens t"),
            (5, "L opens t"),
            (6, "L opens s"),
            (7, "L opens s"),
        ],
        "  1 L opens s: an issue
           2 M opens t: an issue
           3 L opens s: an issue (as before)
           4 M opens t: an issue (as before)
           5 L opens t: an issue
           6 L opens s: an issue (as before)
           7 L opens s: an issue (as before)",
    );
    // A lead that began anew and knows nothing of it goes on with what it has.
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1"),
            (3, "L opens s"),
            (4, "restart"),
            (5, "L opens s"),
            (6, "L cancels 1: enough"),
            (7, "L closes: enough"),
            (8, "L opens s"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1: 1 from task-1 | 1 ready
           3 L opens s: an issue (as before) | 1 ready
           4 restart: so | 1 ready
           5 L opens s: an issue (as before) | 1 ready
           6 L cancels 1: enough: done | 1 canceled
           7 L closes: enough: an issue | done | 1 canceled
           8 L opens s: an issue",
    );
    check(
        &[
            (1, "L opens s"),
            (2, "L plans easy 1; easy 2"),
            (3, "M plans easy 3"),
            (4, "ann plans easy 4"),
            (5, "L plans easy 1; easy 2"),
            (6, "restart"),
            (7, "L plans easy 1; easy 2"),
            (8, "M plans easy 3"),
            (9, "ann plans easy 4"),
            (10, "M plans easy 1; easy 2"),
            (11, "M plans easy 3"),
            (12, "W registers"),
            (13, "W claims 2"),
            (14, "L plans easy 1; easy 2"),
            (15, "L cancels 1: done by hand"),
            (16, "L plans easy 1; easy 2"),
        ],
        "  1 L opens s: an issue
           2 L plans easy 1; easy 2: 2 from task-1 | 1 ready 2 ready
           3 M plans easy 3: 1 from task-3 | 1 ready 2 ready 3 ready
           4 ann plans easy 4: 1 from task-4 | 1 ready 2 ready 3 ready 4 ready
           5 L plans easy 1; easy 2: 2 from task-1 (as before) | 1 ready 2 ready 3 ready 4 ready
           6 restart: so | 1 ready 2 ready 3 ready 4 ready
           7 L plans easy 1; easy 2: 2 from task-1 (as before) | 1 ready 2 ready 3 ready 4 ready
           8 M plans easy 3: 1 from task-3 (as before) | 1 ready 2 ready 3 ready 4 ready
           9 ann plans easy 4: 1 from task-4 (as before) | 1 ready 2 ready 3 ready 4 ready
          10 M plans easy 1; easy 2: 2 from task-5 | 1 ready 2 ready 3 ready 4 ready 5 ready 6 ready
          11 M plans easy 3: 1 from task-7 | 1 ready 2 ready 3 ready 4 ready 5 ready 6 ready 7 ready
          12 W registers: done | 1 ready 2 ready 3 ready 4 ready 5 ready 6 ready 7 ready
          13 W claims 2: token 1 until 3600013 | 1 ready 2 in_progress:W 3 ready 4 ready 5 ready 6 ready 7 ready
          14 L plans easy 1; easy 2: 2 from task-1 (as before) | 1 ready 2 in_progress:W 3 ready 4 ready 5 ready 6 ready 7 ready
          15 L cancels 1: done by hand: done | 1 canceled 2 in_progress:W 3 ready 4 ready 5 ready 6 ready 7 ready
          16 L plans easy 1; easy 2: 2 from task-8 | 1 canceled 2 in_progress:W 3 ready 4 ready 5 ready 6 ready 7 ready 8 ready 9 ready",
    );
}
