//! What is found in the folders, to the byte but for ids and times.

use std::fs;

use crate::mirror::place::{Place, until};

const ONE: &str = "\
# BR: Slow!

**Format Version:** 1.0
**Message ID:** ID
**Sender:** qa
**Receiver:** dev
**Timestamp:** TIME
**Original Sender:** qa
**Current Owner:** dev

===== MESSAGE THREAD =====

## TIME - qa to dev (BR)

It is.";

const TWO: &str = "\
# BR: Slow!

**Format Version:** 1.0
**Message ID:** ID
**Sender:** dev
**Receiver:** qa
**Timestamp:** TIME
**Original Sender:** qa
**Current Owner:** qa

===== MESSAGE THREAD =====
BAR

## TIME - dev to qa (ACK)

I look.

## TIME - qa to dev (BR)

It is.";

const DRAFT: &str = "# ACK: Yes\n\n**Receiver:** qa\n\n===== MESSAGE THREAD =====\n\nThat, too.\n";

fn two() -> String {
    TWO.replace("BAR", &"━".repeat(102))
}

#[tokio::test]
async fn a_thread_goes_through_the_boxes_of_two_roles() {
    let mut place = Place::new("--role qa --role dev").await;
    let id = place.send("qa", "dev", "", "It is.").await;
    place.until("dev/inbox/slow.md qa/outbox/slow.md").await;
    assert!(place.files().values().all(|it| it == ONE), "{:?}", place.files());
    place.send("dev", "qa", &id, "I look.").await;
    place.until("dev/outbox/slow.md qa/inbox/slow.md").await;
    assert!(until(|| place.files().values().all(|it| *it == two())).await, "{:?}", place.files());
    place.resolve("qa", &id).await;
    place.until("dev/outbox/slow.md qa/done/slow.md").await;
    assert!(place.files().values().all(|it| *it == two()));
    // Whoever answers in a file has seen what the file has.
    let id = place.send("qa", "dev", "", "And this?").await;
    place.until("dev/inbox/slow.md dev/outbox/slow.md qa/done/slow.md qa/outbox/slow.md").await;
    let answer = DRAFT.replace("**Rec", &format!("**Message ID:** {id}\n**Rec"));
    place.put("dev/outbox/answer.md", &answer);
    let one = "dev/outbox/slow.md qa/done/slow.md qa/inbox/slow.md";
    place.until(one).await;
    place.resolve("qa", &id).await;
    assert!(until(|| !place.names().contains("inbox/")).await, "{}", place.names());
    let told = place.status().await;
    assert_eq!((told.len(), &told[0]["role"], &told[0]["files"]), (2, &"dev".into(), &2.into()));
    assert!(place.up.stop().await.success());
    assert_eq!(place.names(), "dev/outbox/slow.md qa/done/slow.md");
}

#[tokio::test]
async fn a_role_alone_has_the_mailbox_of_the_project() {
    let place = Place::new("--role dev").await;
    place.send("A", "dev", "", "It is.").await;
    place.until("inbox/slow.md").await;
    // Sent by nobody here, read by one.
    let draft = "# ER: Slow!\n\n**Receiver:** A\n\n===== MESSAGE THREAD =====\n\nFaster, please.\n";
    place.put("outbox/wish.md", &draft.replace("ER", "BR"));
    place.until("inbox/slow.md outbox/slow.md").await;
    assert_eq!(place.texts("A").await.len(), 2);
    place.put("outbox/wish.md", &draft.replace("A\n", "nobody-knows\n"));
    let rejected = "outbox/wish.md.rejected outbox/wish.md.rejected.txt";
    place.until(&format!("inbox/slow.md outbox/slow.md {rejected}")).await;
    let why = fs::read_to_string(place.path("outbox/wish.md.rejected.txt")).unwrap();
    assert!(why.contains("nobody-knows") && why.contains("unknown_role"), "{why}");
    let told = place.status().await;
    assert_eq!((&told[0]["aside"], &told[0]["unsent"]), (&1.into(), &0.into()), "{told:?}");
}
