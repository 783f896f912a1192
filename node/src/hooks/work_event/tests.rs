//! Which events of the feed concern whom, as a table; and that docs name every event.

use tasuki_proto::wire::IssueChanged;

use super::*;

fn roles(names: &str) -> BTreeSet<RoleId> {
    names.split_whitespace().map(|name| name.parse().unwrap()).collect()
}

fn turn(kind: turn_event::Kind) -> Said {
    Said::Turn(wire::TurnEvent { kind: Some(kind) })
}

fn run(kind: run_event::Kind) -> Said {
    Said::Run(wire::RunEvent { kind: Some(kind) })
}

fn changed(r#type: &str, rest: IssueChanged) -> Said {
    let it = IssueChanged { issue_id: "i".into(), r#type: r#type.into(), ..rest };
    Said::Swarm(wire::SwarmEvent { kind: Some(swarm_event::Kind::IssueChanged(it)) })
}

fn task(r#type: &str, worker: &str) -> Said {
    let (task_id, worker) = ("task-1".into(), worker.into());
    changed(r#type, IssueChanged { task_id, worker, ..Default::default() })
}

fn delivery(r#type: &str, worker: &str) -> Said {
    let (delivery_id, worker) = ("d".into(), worker.into());
    changed(r#type, IssueChanged { delivery_id, worker, ..Default::default() })
}

fn all() -> BTreeSet<Kind> {
    Kind::ALL.iter().copied().collect()
}

fn item(said: Said) -> wire::FeedItem {
    let events = vec![wire::Event { noun: Some(said) }];
    wire::FeedItem { sequence: 7, events, ..Default::default() }
}

/// `event role`, where L leads, W worked, D delivered, P takes part and S started a run. The node
/// hosts all of them, V with the worker's tools and Q with the acceptor's.
fn told(said: Said, is_not: &[Kind]) -> Vec<String> {
    let names = [
        (Party::Lead, "L"),
        (Party::Worker, "W"),
        (Party::Deliverer, "D"),
        (Party::Participants, "P"),
        (Party::Starter, "S"),
    ];
    let parties = names.map(|(party, role)| (party, role.to_owned())).into();
    let is_not = is_not.iter().copied().collect();
    let details = Details { parties, is_not, ..Default::default() };
    let hosted =
        Hosted { roles: roles("A B D L P Q S V W X"), workers: roles("V"), acceptors: roles("Q") };
    let mut found = Vec::new();
    for event in of_item(&item(said), &all()) {
        for role in event.concerned(Some(&details), &hosted, &"n".parse().unwrap()) {
            found.push(format!("{} {}", event.kind, role.unwrap()));
        }
    }
    found
}

/// Holds Q1.
#[test]
fn what_happened_at_which_role() {
    use run_event::Kind as OfRun;
    use turn_event::Kind as OfTurn;
    let handed = |to: &str| {
        let (from, to, is_task_complete) = ("A".into(), to.to_owned(), to.is_empty());
        turn(OfTurn::HandedOver(wire::HandedOver {
            from,
            to,
            is_task_complete,
            ..Default::default()
        }))
    };
    let opened = wire::LoopOpened { r#loop: "main".into(), participants: vec!["A".into()] };
    let round = wire::RoundStarted { to: "B".into(), ..Default::default() };
    let (from, to) = ("A".into(), "B".into());
    let reclaimed = wire::TurnReclaimed { from, to, ..Default::default() };
    let set = wire::ParticipantsSet { participants: vec!["A".into()], ..Default::default() };
    let told_parent = |is_question| {
        run(OfRun::ParentTold(wire::ParentTold { message: 1, is_question, ..Default::default() }))
    };
    let unjudged =
        changed("issue_closed", IssueChanged { delivery_id: "d".into(), ..Default::default() });
    for (said, expected) in [
        // Of the feed, and of what was read.
        (turn(OfTurn::LoopOpened(opened)), "loop_started A, turn_received A"),
        (turn(OfTurn::RoundStarted(round)), "loop_started P, turn_received B"),
        (handed("B"), "turn_handed_over A, turn_received B"),
        (handed("A"), "turn_handed_over A, turn_received A"),
        (handed("elsewhere"), "turn_handed_over A"),
        (handed(""), "loop_completed P"),
        (turn(OfTurn::TurnReclaimed(reclaimed)), "turn_reclaimed A, turn_received B"),
        (turn(OfTurn::TurnLapsed(Default::default())), "turn_lapsed P"),
        (turn(OfTurn::LoopPaused(Default::default())), "loop_paused P"),
        (turn(OfTurn::LoopResumed(Default::default())), "loop_resumed P"),
        (turn(OfTurn::ParticipantsSet(set)), ""),
        (turn(OfTurn::LeaseRenewed(Default::default())), ""),
        (changed("issue_created", Default::default()), "issue_created L"),
        (changed("issue_closed", Default::default()), "issue_closed L"),
        (unjudged, "issue_closed L"),
        (changed("issue_reopened", Default::default()), "issue_reopened L"),
        (changed("issue_expired", Default::default()), "issue_lapsed L"),
        (changed("issue_updated", Default::default()), ""),
        (changed("imported", Default::default()), ""),
        (task("issue_task_created", ""), "task_created V"),
        (task("issue_task_claimed", "X"), "task_claimed L"),
        (task("submission_created", "X"), "task_submitted L"),
        (task("issue_task_resolved", ""), "task_approved W"),
        (task("issue_task_reviewed", ""), "task_rejected W"),
        (task("issue_task_message", "X"), "task_asked L"),
        (task("issue_task_replied", ""), "task_answered W"),
        (task("issue_task_reset", ""), "task_reset W"),
        (task("issue_task_canceled", ""), "task_canceled W"),
        (task("issue_task_reserved", "X"), ""),
        (task("doc_written", ""), ""),
        (delivery("delivery_created", ""), "delivery_submitted Q"),
        (delivery("delivery_claimed", "Q"), "delivery_claimed D"),
        (delivery("delivery_expired", "Q"), "delivery_lapsed D, delivery_lapsed Q"),
        (delivery("evidence_attached", ""), ""),
        (run(OfRun::RunStarted(Default::default())), "run_started S"),
        (run(OfRun::RunEnded(Default::default())), "run_ended S"),
        (told_parent(true), "run_question S"),
        (told_parent(false), ""),
        (run(OfRun::StepEnded(Default::default())), ""),
        (Said::Mail(Default::default()), ""),
    ] {
        assert_eq!(told(said.clone(), &[]).join(", "), expected, "{said:?}");
    }
}

#[test]
fn what_an_event_turned_out_not_to_be_is_none() {
    for (said, is_not, expected) in [
        (task("issue_task_message", "W"), Kind::TaskAsked, ""),
        (delivery("delivery_reviewed", ""), Kind::DeliveryRejected, "delivery_accepted D"),
        (delivery("delivery_reviewed", ""), Kind::DeliveryAccepted, "delivery_rejected D"),
    ] {
        assert_eq!(told(said.clone(), &[is_not]).join(", "), expected, "{said:?}");
    }
}

#[test]
fn a_lapsed_claim_concerns_whoever_had_it_and_who_is_read_is_asked_for() {
    let found = of_item(&item(task("issue_task_expired", "X")), &all());
    assert_eq!(found[0].lacking, [Party::Lead].into());
    let found = of_item(&item(task("issue_task_resolved", "")), &all());
    assert_eq!(found[0].lacking, [Party::Worker].into());
}

#[test]
fn a_run_that_no_role_started_concerns_the_node_where_it_was_started() {
    let found = of_item(&item(run(run_event::Kind::RunEnded(Default::default()))), &all());
    let hosted = Hosted { roles: roles("A"), ..Default::default() };
    let mut details = Details { started_at: Some("here".into()), ..Default::default() };
    let at = |details: &Details, node: &str| {
        found[0].concerned(Some(details), &hosted, &node.parse().unwrap())
    };
    assert_eq!(at(&details, "here"), [None].into());
    assert_eq!(at(&details, "there"), BTreeSet::new());
    details.started_at = Some(String::new());
    assert_eq!(at(&details, "here"), BTreeSet::new(), "nobody knows where");
}

#[test]
fn each_role_has_a_place_of_its_own_whoever_else_is_concerned() {
    let handed = wire::HandedOver { from: "A".into(), to: "A".into(), ..Default::default() };
    let found = of_item(&item(turn(turn_event::Kind::HandedOver(handed.clone()))), &all());
    let (a, b) = ("A".parse().unwrap(), "B".parse().unwrap());
    let places = [
        found[0].place(Some(&a)),
        found[0].place(Some(&b)),
        found[0].place(None),
        found[1].place(Some(&a)),
    ];
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len());
    assert!(places[0] < places[3], "in the order in which they happened");
    let alone = [Kind::TurnReceived].into();
    let again = of_item(&item(turn(turn_event::Kind::HandedOver(handed))), &alone);
    assert_eq!(again[0].place(Some(&a)), places[3], "whatever else is wanted");
}

#[test]
fn what_can_concern_nobody_here_is_not_read() {
    let handed = |to: &str| {
        let it = wire::HandedOver { from: "A".into(), to: to.into(), ..Default::default() };
        turn(turn_event::Kind::HandedOver(it))
    };
    let hosted = Hosted { roles: roles("B V"), workers: roles("V"), ..Default::default() };
    for (said, kind, is_read) in [
        (handed("B"), Kind::TurnReceived, true),
        (handed("C"), Kind::TurnReceived, false),
        (handed("B"), Kind::TurnHandedOver, false),
        (task("issue_task_created", ""), Kind::TaskCreated, true),
        (task("issue_task_claimed", "X"), Kind::TaskClaimed, true),
        (delivery("delivery_created", ""), Kind::DeliverySubmitted, false),
    ] {
        let found = of_item(&item(said), &[kind].into());
        assert_eq!(found[0].may_concern(&hosted), is_read, "{kind}");
    }
}

#[test]
fn nothing_is_looked_at_that_no_hook_names() {
    let said = || item(run(run_event::Kind::RunEnded(Default::default())));
    for (wanted, count) in [(Kind::RunEnded, 1), (Kind::RunStarted, 0), (Kind::Received, 0)] {
        assert_eq!(of_item(&said(), &[wanted].into()).len(), count, "{wanted}");
    }
}

/// The table in the docs is this one.
#[test]
fn docs_name_every_event() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hooks.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let section = docs.split("\n## Events\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let firsts = rows.filter_map(|row| row.split('|').nth(1));
    let mut named: Vec<&str> = firsts.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    named.sort_unstable();
    // `dead` has a row for each of its two sides.
    named.dedup();
    let mut known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    known.sort_unstable();
    assert_eq!(named, known);
}
