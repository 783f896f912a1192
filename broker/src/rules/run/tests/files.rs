//! Files that sub-agents hand over.

use std::borrow::Cow;

use bytes::Bytes;
use ed25519_dalek::SigningKey;
use tasuki_proto::{
    limits::STEP_FILES_MAX,
    private::{OwnerKey, Roster},
    run::StepId,
};

use super::{Story, check, file};
use crate::rules::{
    Acting as _, Body, Kept as _, Request,
    privacy::{self, Privacy},
    run::{Bearer, Command, File, MessageKind, Text, Words},
};

#[test]
fn a_file_is_a_report_and_counts_as_one() {
    check(
        "0 A@n1 starts single 1 => run 1
        0 1/1 hands plan.md abc => no: invalid_step_token
        1 n1 claims 1/1 => token 1 until 60001
        2 1/1 tells half => #1
        3 1/1 hands plan.md abc => #2
        4 1/1 awaits 2 => no: unknown_message
        5 A@n1 replies 1 2 thanks => no: unknown_message
        6 1/1 asks which => #3
        7 n1 ends 1/1 well => done, 1/1 Succeeded, 1 is Succeeded
        8 1/1 hands plan.md abc => no: invalid_step_token",
    );
}

#[test]
fn a_step_hands_over_no_more_files_than_the_disk_bears() {
    let mut story = Story::new();
    for line in ["A@n1 starts single 1", "n1 claims 1/1"] {
        story.step(line);
    }
    for number in 1..=STEP_FILES_MAX {
        assert_eq!(story.step("1/1 hands plan.md abc"), format!("#{number}"));
    }
    assert_eq!(story.step("1/1 hands plan.md abc"), "no: budget_spent");
    assert_eq!(story.step("1/1 tells half"), format!("#{}", STEP_FILES_MAX + 1));
}

/// A list of messages reads the words and not the bytes.
#[test]
fn a_file_is_kept_apart_from_its_message() {
    let mut story = Story::new();
    for line in ["A@n1 starts single 1", "n1 claims 1/1"] {
        story.step(line);
    }
    let (by, file) = (story.bearer("1/1"), file("plan.md", "abc"));
    let (kind, text) = (MessageKind::Report, Text::Plain("see there".to_owned()));
    let command =
        Command::Tell { by, kind, text: text.clone(), file: Some(Box::new(file.clone())) };
    let request = Request { caller: story.caller("1/1"), key: None, command: command.into() };
    let decided = story.workspace.decide(story.now, &story.context, &request).unwrap();
    let (run, number) = (story.run("1"), 1);
    let words = [
        Words::Message { run, number, text, file: Some(file.facts) },
        Words::File { run, number, content: file.content },
    ];
    assert_eq!(decided.bodies, words.map(Body::Run));
}

#[test]
fn what_is_told_is_recognised_by_its_file_too() {
    let text = Text::Plain("t".to_owned()).content();
    let all = [file("a", "x"), file("a", "y"), file("b", "x"), file("ax", "")];
    let mut told: Vec<_> = all.iter().map(|file| file.content(text)).collect();
    assert_eq!(all[0].content(text), told[0]);
    assert_ne!(all[0].content(Text::default().content()), told[0]);
    told.push(text);
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), all.len() + 1);
}

/// Holds Y5.
#[test]
fn no_file_comes_into_a_private_workspace_in_the_clear() {
    let owner = SigningKey::from_bytes(&[1; 32]);
    let public = OwnerKey(owner.verifying_key().to_bytes());
    let workspace = "w".parse().unwrap();
    let roster = Roster { workspace, owner: public, number: 1, is_on: true, keys: Vec::new() };
    let roster = Cow::Owned(roster.signed(&owner).unwrap());
    let mut private = Privacy::default();
    private.restore(privacy::SnapshotItem::Roster(roster)).unwrap();
    let sealed = || Text::Sealed { envelope: Bytes::from_static(b"opaque"), same: None };
    let refused = |text: Text, file: Option<File>, privacy: &Privacy| {
        let by = Bearer { step: StepId::default(), secret: [0; 32] };
        let (kind, file) = (MessageKind::Report, file.map(Box::new));
        let checked = Command::Tell { by, kind, text, file }.check_words(privacy);
        checked.err().map(|why| why.reason().as_str())
    };
    assert_eq!(refused(sealed(), None, &private), None);
    for text in [Text::default(), sealed()] {
        let why = refused(text, Some(file("a", "x")), &private);
        assert_eq!(why, Some("private_workspace"));
    }
    assert_eq!(refused(Text::default(), Some(file("a", "x")), &Privacy::default()), None);
}
