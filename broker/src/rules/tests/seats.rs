//! Who takes part in the loop that every workspace starts with.

use tasuki_proto::id::RoleId;

use super::Story;

#[test]
fn roles_on_standby_take_turns_only_where_fewer_than_two_others_do() {
    let seats = |lines: &[&str]| {
        let mut story = Story::new(0);
        for line in lines {
            story.step(1, line);
        }
        let main = &story.workspace.loops.by_id[&"main".parse().unwrap()];
        main.participants.iter().map(RoleId::as_str).collect::<Vec<_>>().join(" ")
    };
    for (lines, expected) in [
        (&["n1 registers dev qa lead?"][..], "dev qa"),
        (&["n1 registers lead? dev worker1?"], "lead dev worker1"),
        (&["n1 registers lead? worker1? acceptor?"], "lead worker1 acceptor"),
        (&["n1 registers A B worker1?"], "A B"),
        // Whichever node comes first.
        (&["n1 registers worker1?", "n2 registers A B"], "A B"),
        (&["n1 registers A B", "n2 registers worker1?"], "A B"),
        (&["n1 registers dev lead?", "n2 registers qa"], "dev qa"),
        // Those that were given turns by name are no different from others.
        (&["n1 registers dev qa", "n2 registers worker1"], "dev qa worker1"),
    ] {
        assert_eq!(seats(lines), expected, "{lines:?}");
    }
}
