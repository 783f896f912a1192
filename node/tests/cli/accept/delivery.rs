//! A delivery from the run to the verdict.

use std::fs;

use serde_json::json;
use tasuki_proto::wire::DeliveryStatus;

use super::Office;

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_passed_is_attached_and_can_be_approved() {
    let mut office = Office::open().await;
    let commit = office.repository.commit(&[("hello.sh", "echo hello; echo err >&2; cat README")]);
    let commands = ["sh hello.sh", "true"];
    let id = office.deliver(&commit, &commands).await;
    let told = office.json(0, &[&id]).await;
    assert_eq!((&told["passed"], &told["commit"]), (&json!(true), &json!(commit)));
    assert_eq!(told["commands"][0]["output_tail"], "hello\nerr\nread me");
    let delivery = office.delivery(&id).await;
    assert_eq!(
        (delivery.claimed_by.as_str(), delivery.status()),
        ("acceptor", DeliveryStatus::InReview)
    );
    let evidence = &delivery.evidence[0];
    assert!(evidence.has_passed && evidence.by == "acceptor" && evidence.commit == commit);
    let first = &evidence.commands[0];
    assert_eq!((first.command.as_str(), first.exit_code), ("sh hello.sh", 0));
    assert_eq!(first.output_hash, blake3::hash(b"hello\nerr\nread me").as_bytes());
    assert_eq!((first.output_bytes, first.output_tail.as_str()), (17, "hello\nerr\nread me"));
    assert_eq!(first.sandbox, "landlock+seccomp");
    office.check_clean();

    let said = office.run(&[&id, "--no-run", "--approve", "--feedback", "good"]).await;
    assert_eq!((said.code, said.out), (0, format!("{id} is approved.\n")));
    let delivery = office.delivery(&id).await;
    let verification = delivery.verification.as_ref().unwrap();
    assert_eq!((delivery.status(), delivery.feedback.as_str()), (DeliveryStatus::Approved, "good"));
    assert!(verification.doc_passed && verification.doc_results.len() == 2);
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn what_failed_is_approved_by_a_person_by_name_and_reason_alone() {
    let mut office = Office::open().await;
    let commit = office.repository.commit(&[("fail.sh", "echo broken; exit 3")]);
    let id = office.deliver(&commit, &["true", "sh fail.sh"]).await;
    let said = office.run(&[&id, "--approve", "--feedback", "good"]).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("sh fail.sh failed with exit code 3"), "{said:?}");
    assert!(said.out.contains("  | broken\n1 of 2 commands failed."), "{said:?}");
    assert!(said.err.contains("evidence_failed"), "{said:?}");
    let delivery = office.delivery(&id).await;
    assert_eq!(delivery.status(), DeliveryStatus::InReview);
    let evidence = &delivery.evidence[0];
    assert!(!evidence.has_passed && evidence.commands[1].exit_code == 3);

    let by_hand = ["--no-run", "--approve", "--feedback", "x", "--by-hand", "read it"];
    let said = office.run(&[&[id.as_str()][..], &by_hand].concat()).await;
    assert!(said.code == 1 && said.err.contains("evidence_failed"), "{said:?}");

    let person = ["--no-run", "--approve", "--feedback", "known", "--person", "alice", "--reason"];
    let said = office.run(&[&[id.as_str()][..], &person, &["flaky disk"]].concat()).await;
    let words = format!("{id} is approved, in spite of failed evidence, by alice: flaky disk.\n");
    assert_eq!((said.code, said.out), (0, words));
    let overridden = office.delivery(&id).await.overridden.unwrap();
    assert_eq!((overridden.person.as_str(), overridden.reason.as_str()), ("alice", "flaky disk"));
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn a_verdict_may_come_with_the_run() {
    let mut office = Office::open().await;
    let id = office.deliver(&office.repository.head(), &["false"]).await;
    let told = office.json(8, &[&id, "--reject", "--feedback", "it fails"]).await;
    assert_eq!((&told["passed"], &told["verdict"]), (&json!(false), &json!("rejected")));
    assert_eq!(office.delivery(&id).await.status(), DeliveryStatus::Rejected);
}

#[tokio::test]
async fn what_may_not_run_is_refused_before_anything_happens() {
    let mut office = Office::open().await;
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let marker = office.path("marker");
    let commands = ["true", "rm -r x", "sh a.sh && sh b.sh"];
    let id = office.deliver(commit, &commands).await;
    let said = office.run(&[&id]).await;
    assert_eq!(said.code, 2, "{said:?}");
    for words in [
        "Nothing was run and nothing was claimed, because of\n",
        "  rm -r x\n    is not allowed on this machine\n",
        "  sh a.sh && sh b.sh\n    `&&` joins commands, and there is no shell",
        "tasuki.toml:1:\n  [accept] allow = [\"rm -r x\"]",
    ] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert!(!said.err.contains("  true\n"), "{}", said.err);
    assert_eq!(office.delivery(&id).await.claimed_by, "");

    // A file that came with a repository allows nothing, and takes nothing of the operator's away.
    office.operator("timeout_sec = 1");
    let theirs = "[accept]\nallow = [\"true\", \"rm *\", \"sh *\"]\nread = [\"/\"]\n";
    fs::write(office.path("tasuki.toml"), theirs).unwrap();
    let said = office.run(&[&id]).await;
    assert!(said.code == 2 && said.err.contains("is not taken from a file that"), "{said:?}");
    assert!(said.err.contains("  true\n    is not allowed on this machine"), "{said:?}");
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_delivery_that_names_nothing_to_run_again_is_refused() {
    let mut office = Office::open().await;
    let said = |said: super::Said, words: &str| {
        assert!(said.code == 2 && said.err.contains(words), "{words}: {said:?}");
    };
    let task = format!("{}/task-1", office.issue);
    for (commit, commands, words) in [
        ("", &["true"][..], "No commit was named"),
        ("0123456789abcdef0123456789abcdef01234567", &[], "No command was named"),
    ] {
        office.submit(commit, commands).await;
        said(office.run(&["--task", &task]).await, words);
    }
    // The broker takes no other names.
    for commit in ["main", "--upload-pack=touch x", "HEAD^{commit}", "0123456"] {
        let why = office.submitted(commit, &["true"]).await.unwrap_err();
        assert!(why.message().contains("is no commit's full hash"), "{why}");
    }
    let id = office.deliver("", &[]).await;
    said(office.run(&[&id]).await, "No commit was named");
    let args = [&id, "--no-run", "--approve", "--feedback", "read it"];
    assert_eq!(office.run(&args).await.code, 0, "there was no step to be run");
}

#[tokio::test]
async fn steps_that_nobody_ran_are_not_approved_by_silence() {
    let mut office = Office::open().await;
    let id = office.deliver("", &["make"]).await;
    let said = office.run(&[&id, "--no-run", "--approve", "--feedback", "x"]).await;
    assert!(said.code == 2 && said.err.contains("nobody ran make again"), "{said:?}");
    let by_hand = ["--no-run", "--approve", "--feedback", "x", "--by-hand", "ran it myself"];
    let said = office.run(&[&[id.as_str()][..], &by_hand].concat()).await;
    assert_eq!(said.code, 0, "{said:?}");
    let verification = office.delivery(&id).await.verification.unwrap();
    assert_eq!(verification.doc_results[0].output, "ran it myself");
    let again = office.run(&[&id, "--no-run", "--approve", "--feedback", "x"]).await;
    assert!(again.code == 1 && again.err.contains("is already approved"), "{again:?}");
}

#[tokio::test]
#[ignore = "needs git and landlock"]
async fn the_command_that_a_run_prints_gives_the_verdict() {
    let mut office = Office::open().await;
    let commit = office.repository.head();
    let id = office.deliver_steps(&commit, &["true"], &["true", "click around"]).await;
    let said = office.run(&[&id]).await;
    let printed = said.out.lines().last().unwrap();
    let words = "--no-run --approve --feedback TEXT --by-hand TEXT";
    assert_eq!(printed, format!("tasuki accept {id} {words}"), "{said:?}");
    let args: Vec<&str> = printed.split(' ').skip(2).collect();
    let said = office.run(&args).await;
    assert_eq!((said.code, said.out), (0, format!("{id} is approved.\n")), "{}", said.err);
}
