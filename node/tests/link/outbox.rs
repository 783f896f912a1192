//! Letters while the broker is away: kept, in order, once, and no word too much.

use tasuki_node::{
    link::{Moving, Sent},
    node::Node,
    outbox::{self, Summary, Untold},
    role::Settling,
};
use tasuki_proto::{
    id::IdempotencyKey,
    reason::Reason,
    wire::{self, MailMark},
};

use super::{Bench, Fake, SOON, connected, fake::World, mail::letter, settings, start, until};

impl Bench {
    /// Without a word, as a crash would end it.
    fn crash_node(self) -> (Fake, tempfile::TempDir) {
        let Self { fake, node, data } = self;
        drop(node);
        (fake, data)
    }

    async fn queue(&self, role: &str, text: &str) -> (String, u64) {
        let sent = self.role(role).send(letter(text), None).await.expect("kept");
        let Sent::Queued { message, number } = sent else { panic!("{sent:?}") };
        (message, number)
    }

    fn outbox(&self, role: &str) -> Vec<Summary> {
        let all = self.node.overview().outbox();
        all.into_iter().filter(|it| it.role.as_str() == role).collect()
    }

    async fn sent(&self, texts: &[&str]) -> World {
        self.fake.until("sent", |world| world.mail.texts() == texts).await
    }

    /// Nothing is left, or only what failed.
    pub(crate) async fn is_empty_but(&self, failed: usize) {
        let left = async {
            loop {
                let left = self.outbox("A");
                let (done, waiting): (Vec<_>, Vec<_>) =
                    left.into_iter().partition(|it| it.failed.is_some());
                if waiting.is_empty() && done.len() == failed {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, left).await.expect("it is emptied");
    }
}

async fn restarted((fake, data): (Fake, tempfile::TempDir)) -> Bench {
    let started = async {
        loop {
            // What the old node had begun may hold the directory for a moment more.
            match Node::start(settings(&fake, data.path())).await {
                Ok(node) => return node,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let node = tokio::time::timeout(SOON, started).await.expect("the directory is free");
    Bench { fake, node, data }
}

/// Holds O3.
#[tokio::test]
async fn letters_outlive_the_node_and_arrive_once_and_in_order() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let (thread, first) = bench.queue("A", "one").await;
    assert_eq!(first, 1);
    let answer = wire::SendRequest { in_reply_to: thread.clone(), ..letter("two") };
    let sent = bench.role("A").send(answer, None).await.expect("kept");
    assert_eq!(sent, Sent::Queued { message: thread.clone(), number: 2 });
    assert_eq!(outbox::read(bench.data.path()).expect("readable").entries.len(), 2);
    let mut bench = restarted(bench.crash_node()).await;
    until(&bench.node, "down", |phase| matches!(phase, super::Phase::Down(_))).await;
    let (_, third) = bench.queue("A", "three").await;
    assert_eq!(third, 3);
    bench.fake.serve();
    let world = bench.sent(&["one", "two", "three"]).await;
    assert_eq!(world.mail.letters[0].message_id, thread, "as the agent was told");
    assert_eq!(world.mail.letters[1].in_reply_to, thread);
    bench.is_empty_but(0).await;
    let sent = bench.role("A").send(letter("four"), None).await.expect("stored");
    assert!(matches!(sent, Sent::Stored(_)), "{sent:?}");
    assert_eq!(outbox::read(bench.data.path()).expect("readable").entries, []);
}

/// Holds L7 and O3.
#[tokio::test]
async fn nothing_newer_of_a_role_goes_past_what_waits() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let texts: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    for text in &texts {
        bench.queue("A", text).await;
    }
    bench.fake.serve();
    connected(&bench.node).await;
    let sent = bench.role("A").send(letter("last"), None).await.expect("taken");
    let other = bench.role("B").send(letter("other"), None).await.expect("stored");
    assert!(matches!(other, Sent::Stored(_)), "it waits for nobody: {other:?}");
    bench.fake.until("all there", |world| world.mail.letters.len() == 22).await;
    let mail = bench.fake.world.borrow().mail.clone();
    let of_a: Vec<_> = mail.letters.iter().filter(|it| it.role == "A").collect();
    let expected = texts.iter().map(String::as_str).chain(["last"]);
    assert!(of_a.iter().map(|it| it.text.as_str()).eq(expected), "{sent:?}: {of_a:?}");
    bench.is_empty_but(0).await;
}

/// Holds O2.
#[tokio::test]
async fn a_letter_whose_outcome_is_unknown_waits_under_the_key_it_had() {
    let mut bench = start(Fake::new()).await;
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let sending = tokio::spawn(async move { role.send(letter("one"), None).await });
    bench.sent(&["one"]).await;
    bench.fake.kill().await;
    // Whoever comes back is not let in: what became of the letter nobody says.
    bench.fake.change(|world| (world.is_mute, world.token) = (false, Some("t".to_owned())));
    bench.fake.serve();
    let sent = sending.await.expect("ran").expect("kept");
    assert!(matches!(sent, Sent::Queued { number: 1, .. }), "{sent:?}");
    bench.fake.change(|world| world.token = None);
    bench.is_empty_but(0).await;
    let mail = bench.fake.world.borrow().mail.clone();
    assert_eq!(mail.texts(), ["one"], "once");
    assert!(2 <= mail.asked.len() && mail.asked.iter().all(|asked| *asked == mail.asked[0]));
}

#[tokio::test]
async fn what_is_refused_late_is_kept_with_its_reason_and_goes_out_when_a_person_says_so() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    for text in ["one", "two"] {
        bench.queue("A", text).await;
    }
    let ghost = wire::SendRequest { to: vec!["ghost".to_owned()], ..letter("to nobody") };
    bench.role("A").send(ghost.clone(), None).await.expect("kept");
    bench.role("A").send(ghost, None).await.expect("kept");
    bench.queue("A", "last").await;
    bench.fake.change(|world| {
        world.mail.refused = Some(("ghost".to_owned(), Reason::UnknownRole));
    });
    bench.fake.serve();
    bench.sent(&["one", "two", "last"]).await;
    bench.is_empty_but(2).await;
    let role = bench.role("A");
    let failed = bench.outbox("A");
    assert_eq!(failed.iter().map(|it| it.number).collect::<Vec<_>>(), [3, 4]);
    let why = failed[0].failed.clone().expect("failed");
    assert_eq!((why.reason.as_str(), why.is_told), ("unknown_role", false));
    assert!(why.message.contains("ghost"), "{why:?}");
    assert_eq!(bench.outbox("B"), [], "another role's");
    let only = |number: u64| failed.iter().filter(|it| it.number == number).cloned().collect();
    role.mark_told(Untold::of(only(3)));
    bench.role("B").mark_told(Untold::of(only(4)));
    let told = async {
        while !bench.outbox("A")[0].failed.as_ref().expect("f").is_told {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, told).await.expect("it is noted");
    let bench = restarted(bench.crash_node()).await;
    connected(&bench.node).await;
    let failed = bench.outbox("A");
    let told: Vec<_> =
        failed.iter().map(|it| (it.number, it.failed.as_ref().expect("f").is_told)).collect();
    assert_eq!(told, [(3, true), (4, false)], "also after a restart");
    bench.fake.change(|world| world.mail.refused = None);
    let overview = bench.node.overview();
    assert!(overview.settle(3, Settling::Retry).await.expect("done"));
    assert!(overview.settle(4, Settling::Drop).await.expect("done"));
    assert!(!overview.settle(4, Settling::Drop).await.expect("done"), "it is gone");
    assert!(!overview.settle(1, Settling::Retry).await.expect("done"), "it was sent");
    bench.sent(&["one", "two", "last", "to nobody"]).await;
    bench.is_empty_but(0).await;
}

#[tokio::test]
async fn of_moves_that_are_refused_late_only_those_are_left() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let messages = ["ded6", "unseen1", "beef", "unseen2"].map(str::to_owned).to_vec();
    let request =
        wire::MoveRequest { messages, to: wire::Box::Done.into(), ..wire::MoveRequest::default() };
    let role = bench.role("A");
    let moving = role.move_mail(request, None).await.expect("kept");
    assert_eq!(moving, Moving::Queued { number: 1 });
    bench.fake.serve();
    bench.is_empty_but(1).await;
    let failed = bench.outbox("A").remove(0);
    let outbox::Summarised::Move { messages, .. } = failed.what else { panic!("{failed:?}") };
    assert_eq!(messages, ["unseen1", "unseen2"]);
    assert_eq!(failed.failed.expect("failed").reason, "unseen_entries");
    assert_eq!(bench.fake.world.borrow().mail.moves.len(), 1);
}

#[tokio::test]
async fn an_intent_that_waits_is_the_same_however_often_it_is_said() {
    let mut bench = start(Fake::new()).await;
    let key = IdempotencyKey { client: "agent-1".parse().expect("an id"), counter: 7 };
    let role = bench.role("A");
    let say = || role.send(letter("one"), Some(key.clone()));
    bench.kill().await;
    let first = say().await.expect("kept");
    assert_eq!(say().await.expect("kept"), first);
    let Sent::Queued { message, number: 1 } = first else { panic!("{first:?}") };
    bench.fake.serve();
    bench.is_empty_but(0).await;
    let Sent::Stored(stored) = say().await.expect("stored") else { panic!("it is sent") };
    assert_eq!(stored.message_id, message);
    let mail = bench.fake.world.borrow().mail.clone();
    assert_eq!((mail.texts(), mail.asked[0].key.clone()), (vec!["one"], ("agent-1".into(), 7)));
}

#[tokio::test]
async fn a_letter_whose_name_the_broker_would_refuse_does_not_wait() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    for name in ["x".repeat(2_000), "a\u{202e}b".to_owned()] {
        let named = wire::SendRequest { client_ref: name, ..letter("one") };
        let refusal = bench.role("A").send(named, None).await.expect_err("no name");
        assert_eq!(refusal.reason, Reason::InvalidArgument);
    }
    assert!(bench.outbox("A").is_empty());
}

/// The node was killed before the agent heard that its letter waits.
#[tokio::test]
async fn words_that_wait_are_one_letter_when_they_are_said_again_after_a_crash() {
    let mut bench = start(Fake::new()).await;
    let folding = |text: &str| wire::SendRequest { fold: true, ..letter(text) };
    let named = |text: &str| wire::SendRequest { client_ref: "build".to_owned(), ..letter(text) };
    let say = async |bench: &Bench, letter| bench.role("A").send(letter, None).await;
    bench.kill().await;
    let first = say(&bench, named("named")).await.expect("kept");
    let last = say(&bench, folding("last")).await.expect("kept");
    let mut bench = restarted(bench.crash_node()).await;
    until(&bench.node, "down", |phase| matches!(phase, super::Phase::Down(_))).await;
    assert_eq!(say(&bench, folding("last")).await.expect("kept"), last);
    assert_eq!(say(&bench, named("named")).await.expect("kept"), first);
    let refusal = say(&bench, named("other")).await.expect_err("another letter has the name");
    assert_eq!(refusal.reason, Reason::KeyReused);
    // Something else was said since.
    say(&bench, folding("between")).await.expect("kept");
    let anew = say(&bench, folding("last")).await.expect("kept");
    assert!(matches!(anew, Sent::Queued { number: 4, .. }) && anew != last, "{anew:?}");
    bench.fake.serve();
    bench.sent(&["named", "last", "between", "last"]).await;
    bench.is_empty_but(0).await;
}

/// The broker has it, and the node was killed before the answer came.
#[tokio::test]
async fn a_letter_with_a_name_has_one_id_whatever_was_lost() {
    let mut bench = start(Fake::new()).await;
    let named = || wire::SendRequest { client_ref: "build".to_owned(), ..letter("one") };
    bench.fake.change(|world| world.is_mute = true);
    let role = bench.role("A");
    let sending = tokio::spawn(async move { role.send(named(), None).await });
    let first = bench.sent(&["one"]).await.mail.letters[0].message_id.clone();
    sending.abort();
    bench.kill().await;
    let bench = restarted(bench.crash_node()).await;
    bench.fake.change(|world| world.is_mute = false);
    let sent = bench.role("A").send(named(), None).await.expect("kept");
    assert_eq!(sent, Sent::Queued { message: first, number: 1 });
}

#[tokio::test]
async fn a_letter_has_the_time_that_was_left_when_it_was_tried_first() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let within = |text: &str, expires_in_ms| wire::SendRequest { expires_in_ms, ..letter(text) };
    let role = bench.role("A");
    role.send(within("too late", 1), None).await.expect("kept");
    role.send(within("in time", 3_600_000), None).await.expect("kept");
    // Its millisecond is over before the broker is there.
    let said = tokio::time::Instant::now();
    while said.elapsed().as_millis() < 5 {
        tokio::task::yield_now().await;
    }
    bench.fake.serve();
    bench.sent(&["in time"]).await;
    bench.is_empty_but(1).await;
    let left = bench.fake.world.borrow().mail.letters[0].expires_in_ms;
    assert!((1..3_600_000).contains(&left), "{left}");
    let failed = bench.outbox("A").remove(0).failed.expect("failed");
    assert_eq!(failed.reason, "lapsed");
}

#[tokio::test]
async fn a_key_that_expired_while_its_letter_waited_is_replaced_and_one_that_was_used_is_not() {
    let mut bench = start(Fake::new()).await;
    let key = |counter| IdempotencyKey { client: "agent-1".parse().expect("an id"), counter };
    let role = bench.role("A");
    bench.kill().await;
    role.send(letter("kept back"), Some(key(1))).await.expect("kept");
    bench.fake.change(|world| world.mail.expired = Some("agent-1".to_owned()));
    bench.fake.serve();
    bench.sent(&["kept back"]).await;
    bench.is_empty_but(0).await;
    // This one may have been carried out before: under another key it could be so twice.
    bench.fake.change(|world| (world.is_mute, world.mail.expired) = (true, None));
    let sending = {
        let role = bench.role("A");
        tokio::spawn(async move { role.send(letter("lost"), Some(key(2))).await })
    };
    bench.sent(&["kept back", "lost"]).await;
    bench.fake.kill().await;
    bench.fake.change(|world| (world.is_mute, world.token) = (false, Some("t".to_owned())));
    bench.fake.serve();
    sending.await.expect("ran").expect("kept");
    bench.fake.change(|world| {
        world.token = None;
        world.mail.expired = Some("agent-1".to_owned());
    });
    bench.is_empty_but(1).await;
    let failed = bench.outbox("A").remove(0);
    let why = failed.failed.expect("failed");
    assert_eq!(why.reason, "outcome_unknown", "nobody knows whether it was sent: {why:?}");
    assert_eq!(bench.fake.world.borrow().mail.texts(), ["kept back", "lost"]);
}

#[tokio::test]
async fn what_can_be_known_here_is_refused_at_once_and_marks_are_not_kept() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    let long = letter(&"x".repeat(256 * 1024 + 1));
    let refusal = bench.role("A").send(long, None).await.expect_err("too long");
    assert_eq!(refusal.reason, Reason::TooLarge);
    let id = "ded66c6a-58c1-47f4-916e-13787156f665".parse().expect("an id");
    bench.role("A").mark_mail(id, 1, MailMark::Seen);
    assert_eq!(outbox::read(bench.data.path()).expect("readable").entries, []);
    assert_eq!(bench.node.overview().at_a_glance().outbox, outbox::Counts::default());
}

#[tokio::test]
async fn a_node_that_stops_takes_nothing_more_and_keeps_what_waits() {
    let mut bench = start(Fake::new()).await;
    bench.kill().await;
    bench.queue("A", "one").await;
    let role = bench.role("A");
    let Bench { fake, node, data } = bench;
    node.shutdown(SOON).await;
    let refusal = role.send(letter("two"), None).await.expect_err("stopped");
    assert_eq!(refusal.reason, Reason::Unavailable);
    let mut bench = restarted((fake, data)).await;
    bench.fake.serve();
    bench.sent(&["one"]).await;
}
