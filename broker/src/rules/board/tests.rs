//! Stories of boards.

mod results;
mod stories;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tasuki_proto::{
    board::{ChannelName, Reducer},
    id::{BoardName, CheckpointNumber, RoleId, Timestamp},
};

use super::*;
use crate::{
    hash::Hash,
    rules::{
        Body, Caller, Context, Decision, Kept as _, Principal, Rejection as AnyRejection,
        Reply as AnyReply, Request, Workspace, presence::Presence, turn::Actor,
    },
};

fn board() -> BoardName {
    "plan".parse().unwrap()
}

fn channel(name: &str) -> ChannelName {
    name.parse().unwrap()
}

fn role(name: &str) -> RoleId {
    name.parse().unwrap()
}

/// A workspace with what its boards keep beside it.
#[derive(Debug, Default)]
struct Story {
    workspace: Workspace,
    values: BTreeMap<(BoardId, CheckpointNumber, ChannelIndex, bool), String>,
    results: BTreeMap<(BoardId, CheckpointNumber, u32), String>,
    time: u64,
}

impl Story {
    fn decide(&mut self, command: Command) -> Result<Decision, AnyRejection> {
        self.time += 1;
        let now = Timestamp::from_millis(self.time);
        let request = Request { caller: Caller::default(), key: None, command: command.into() };
        self.workspace.decide(now, &Context::new(Presence::new(now), 1000), &request)
    }

    fn execute(&mut self, command: Command) -> Result<AnyReply, AnyRejection> {
        let role = crate::rules::Acting::role(&command).cloned();
        let decision = self.decide(command)?;
        for body in &decision.bodies {
            let before = if let Body::BoardResult(ResultValue { place, json }) = body {
                let place = (place.board, place.checkpoint, place.number);
                self.results.insert(place, json.clone())
            } else {
                let Body::Board(Value { place, json }) = body else { panic!("{body:?}") };
                let place = (place.board, place.checkpoint, place.channel, place.is_whole);
                self.values.insert(place, json.clone())
            };
            assert_eq!(before, None, "BD2: {body:?} was written before");
        }
        let by = Principal { role, ..Principal::default() };
        for event in &decision.events {
            self.workspace.apply_event(Timestamp::from_millis(self.time), &by, event);
        }
        Ok(decision.reply)
    }

    fn update(&mut self, it: Update) -> Result<CheckpointNumber, String> {
        match self.execute(Command::Update(it)) {
            Ok(AnyReply::Board(Reply::Updated(number))) => Ok(number),
            Ok(other) => panic!("{other:?}"),
            Err(why) => Err(why.to_string()),
        }
    }

    fn read(&self, name: &BoardName, at: CheckpointNumber) -> BTreeMap<String, Json> {
        let (board, at) = self.workspace.boards.checkpoint(name, Some(at)).unwrap();
        let value = |parts: &ValueParts| {
            let read = |at: CheckpointNumber, is_whole| {
                self.values[&(board.id, at, parts.index, is_whole)].clone()
            };
            let whole = parts.whole.map(|at| read(at, true));
            let mut value = Folding::new(parts.reducer, whole).unwrap();
            parts.updates.iter().for_each(|at| value.add(read(*at, false)).unwrap());
            value.finish().unwrap()
        };
        let parts = board.value_parts(at, None);
        let named = parts.iter().map(|parts| {
            let json: Json = serde_json::from_str(&value(parts)).unwrap();
            (parts.channel.to_string(), json)
        });
        named.collect()
    }

    fn fold(&mut self, name: &BoardName, at: CheckpointNumber) {
        let (board, at) = self.workspace.boards.checkpoint(name, Some(at)).unwrap();
        let (id, values) = (board.id, self.read(name, at));
        let values = values.iter().map(|(name, it)| {
            (board.channel(&channel(name)).unwrap(), serde_json::to_string(it).unwrap())
        });
        let values = values.collect();
        self.execute(Command::Fold(Fold { board: id, checkpoint: at, values })).unwrap();
    }

    fn store(
        &mut self,
        at: u64,
        results: &[(&str, Json)],
        is_replacing: bool,
    ) -> Result<(u32, Vec<String>), String> {
        let (names, count) = (results, results.len());
        let results = results.iter().map(|(name, it)| (name.parse().unwrap(), it.to_string()));
        let (by, results) = (Actor::Role(role("dev")), results.collect());
        let (board, checkpoint) = (board(), at.into());
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let asked = StoreResults { by, board, checkpoint, results, is_replacing };
        match self.execute(Command::StoreResults(asked)) {
            Ok(AnyReply::Board(Reply::ResultsStored(kept))) => {
                let names = names.iter().enumerate();
                let is_kept = |(index, _): &(usize, &&str)| kept & (1 << index) != 0;
                let kept_names: Vec<_> = names.filter(is_kept).map(|it| it.1.to_string()).collect();
                Ok((u32::try_from(count).unwrap() - kept.count_ones(), kept_names))
            }
            Ok(other) => panic!("{other:?}"),
            Err(why) => Err(why.to_string()),
        }
    }

    fn results_at(&self, at: u64) -> BTreeMap<String, Json> {
        let (board, at) = self.workspace.boards.checkpoint(&board(), Some(at.into())).unwrap();
        let read = |number| serde_json::from_str(&self.results[&(board.id, at, number)]).unwrap();
        board.results_at(at).map(|(name, it)| (name.to_string(), read(it.number))).collect()
    }

    /// As the broker does it, and a compaction after it. The oldest checkpoint that remains.
    fn prune(&mut self, keep: usize) -> Result<u64, String> {
        let it = self.workspace.boards.get(&board()).map_err(|why| why.to_string())?;
        let (id, oldest) = (it.id, it.oldest_of(keep));
        let roots = it.parts_of_roots(&board(), oldest).map_err(|why| why.to_string())?;
        for (root, parts) in roots {
            let all = self.read(&board(), root);
            let values = parts.iter().map(|it| (it.index, all[it.channel.as_str()].to_string()));
            let fold = Fold { board: id, checkpoint: root, values: values.collect() };
            self.execute(Command::Fold(fold)).unwrap();
        }
        let prune = Prune { by: Actor::Role(role("dev")), board: board(), id, oldest };
        self.execute(Command::Prune(prune)).map_err(|why| why.to_string())?;
        let boards = &self.workspace.boards;
        self.values.retain(|(board, checkpoint, ..), _| boards.has(*board, *checkpoint));
        self.results.retain(|(board, checkpoint, number), _| {
            let (board, checkpoint, number) = (*board, *checkpoint, *number);
            boards.has_result(&ResultPlace { board, checkpoint, number })
        });
        Ok(oldest.get())
    }

    /// The same from its snapshot.
    fn restart(&mut self) {
        let mut boards = Boards::default();
        self.workspace.boards.items().for_each(|it| boards.restore(it).unwrap());
        boards.settle().unwrap();
        assert_eq!(boards, self.workspace.boards);
        self.workspace.boards = boards;
    }
}

/// `messages` changes of JSON that was parsed.
fn change(schema: &Schema, name: &str, value: &Json) -> ChannelUpdate {
    let channel = channel(name);
    let json = value.to_string();
    let (json, messages) = match schema.channel(&channel).unwrap().reducer {
        Reducer::AddMessages => parse_messages(&json, || unreachable!("each has an id")).unwrap(),
        Reducer::LastValue | Reducer::Append | Reducer::Merge => (json, Vec::new()),
    };
    ChannelUpdate { channel, json, messages }
}

fn update(schema: &Schema, values: &Json) -> Update {
    let values = values.as_object().unwrap();
    Update {
        by: Actor::Role(role("dev")),
        board: board(),
        updates: values.iter().map(|(name, it)| change(schema, name, it)).collect(),
        schema: schema.clone(),
        expected: None,
        is_fork: false,
        newest: None,
        write_key: None,
        content: Hash::of(values.keys().cloned().collect::<String>().as_bytes()),
    }
}

fn at(number: u64) -> CheckpointNumber {
    number.into()
}

/// Holds BD3.
#[test]
fn a_stale_writer_is_refused_with_what_changed() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    let phase = |phase: &str| update(&schema, &json!({ "current_phase": phase }));
    let expecting = |it: Update, expected| Update { expected: Some(at(expected)), ..it };
    let refused = story.update(expecting(phase("plan"), 3)).unwrap_err();
    assert!(refused.starts_with("board plan does not exist, and the update expects"), "{refused}");
    assert_eq!(story.update(expecting(phase("plan"), 0)), Ok(at(1)));
    assert_eq!(story.update(expecting(phase("code"), 1)), Ok(at(2)));
    let added = update(&schema, &json!({ "review_comments": ["x"], "is_approved": true }));
    assert_eq!(story.update(added), Ok(at(3)));
    let refused = story.update(expecting(phase("test"), 1)).unwrap_err();
    assert_eq!(
        refused,
        "board plan is at checkpoint 3, by dev, and not at 1; nothing was written. Since then \
         current_phase, is_approved, review_comments changed. Read it and update again with \
         expected_checkpoint 3"
    );
    let refused = story.update(expecting(phase("test"), 0)).unwrap_err();
    assert!(refused.starts_with("board plan is at checkpoint 3"), "{refused}");
    // Who says so goes on from there.
    let forked = Update { is_fork: true, ..expecting(phase("test"), 1) };
    let behind = Update { newest: Some(at(2)), ..forked.clone() };
    let refused = story.update(behind).unwrap_err();
    assert!(
        refused.starts_with("board plan is at checkpoint 3, by dev, and not at 2"),
        "{refused}"
    );
    let forked = Update { newest: Some(at(3)), ..forked };
    assert_eq!(story.update(forked), Ok(at(4)));
    assert_eq!(
        story.read(&board(), at(4)),
        BTreeMap::from([("current_phase".to_owned(), json!("test"))])
    );
    assert_eq!(story.read(&board(), at(3)).len(), 3);
    assert_eq!(
        story.update(expecting(phase("test"), u64::MAX)).unwrap_err(),
        format!("board plan has no checkpoint {}; the newest is 4", u64::MAX)
    );
    let unknown = Update { is_fork: true, ..expecting(phase("test"), 9) };
    assert_eq!(
        story.update(unknown).unwrap_err(),
        "board plan has no checkpoint 9; the newest is 4"
    );
}

/// Holds BD4.
#[test]
fn a_write_key_makes_retries_one() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    let keyed =
        |values: Json| Update { write_key: Some("k".to_owned()), ..update(&schema, &values) };
    assert_eq!(story.update(keyed(json!({ "retry_count": 1 }))), Ok(at(1)));
    assert_eq!(story.update(update(&schema, &json!({ "retry_count": 2 }))), Ok(at(2)));
    // Also for whoever expects what was there before the first.
    let again = Update { expected: Some(at(0)), ..keyed(json!({ "retry_count": 1 })) };
    assert_eq!(story.update(again), Ok(at(1)));
    let refused = story.update(keyed(json!({ "is_approved": true }))).unwrap_err();
    assert!(refused.starts_with("write key \"k\" named another update of board plan"), "{refused}");
    story.restart();
    assert_eq!(story.update(keyed(json!({ "retry_count": 1 }))), Ok(at(1)));
}

#[test]
fn a_fork_begins_with_what_its_source_had_and_is_made_once() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    let message = |id: &str| json!({ "id": id, "role": "user", "content": id });
    let one = json!({ "messages": [message("a")], "artifacts": { "x": "1" } });
    story.update(update(&schema, &one)).unwrap();
    story.update(update(&schema, &json!({ "messages": [message("b")] }))).unwrap();
    let values = story.read(&board(), at(1));
    let copied = Copied {
        board: 1,
        checkpoint: at(1),
        values: vec![
            (channel("artifacts"), Reducer::Merge, values["artifacts"].to_string(), Vec::new()),
            (
                channel("messages"),
                Reducer::AddMessages,
                values["messages"].to_string(),
                vec!["a".to_owned()],
            ),
        ],
    };
    let to: BoardName = "other".parse().unwrap();
    let fork = |by: &str| {
        let (by, copied) = (Actor::Role(role(by)), Some(copied.clone()));
        let (board, to) = (board(), Some(to.clone()));
        Command::Fork(Fork { by, board, checkpoint: Some(at(1)), to, copied })
    };
    let made = AnyReply::Board(Reply::Updated(at(1)));
    assert_eq!(story.execute(fork("dev")), Ok(made.clone()));
    assert_eq!(story.execute(fork("dev")), Ok(made));
    assert!(matches!(
        story.execute(fork("qa")),
        Err(AnyRejection::Board(Rejection::BoardExists { .. }))
    ));
    assert_eq!(story.read(&to, at(1)), values);
    // Or the same board goes on from there.
    let (by, board_) = (Actor::Role(role("dev")), board());
    let back = Fork { by, board: board_, checkpoint: Some(at(1)), to: None, copied: None };
    let made = AnyReply::Board(Reply::Updated(at(3)));
    assert_eq!(story.execute(Command::Fork(back)), Ok(made));
    assert_eq!(story.read(&board(), at(3)), values);
    // What a fork does, its source does not.
    let remove = json!({ "messages": [{ "type": "remove", "id": "a" }] });
    let removed = Update { board: to.clone(), ..update(&schema, &remove) };
    story.update(removed.clone()).unwrap();
    assert_eq!(story.read(&to, at(2))["messages"], json!([]));
    assert_eq!(story.read(&board(), at(2))["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        story.update(removed).unwrap_err(),
        "channel messages of board other has no message \"a\" to remove; nothing was written"
    );
}

#[test]
fn a_board_of_the_same_name_has_nothing_of_the_one_before() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    story.update(update(&schema, &json!({ "retry_count": 1 }))).unwrap();
    let by = "ann".parse().unwrap();
    story.execute(Command::Delete { by, board: board() }).unwrap();
    assert!(!story.workspace.boards.has(1, at(1)));
    story.restart();
    story.update(update(&schema, &json!({ "is_approved": true }))).unwrap();
    // Nor does a number mean two checkpoints of one name.
    assert_eq!(story.read(&board(), at(2)).keys().collect::<Vec<_>>(), ["is_approved"]);
    assert!(story.workspace.boards.has(2, at(2)));
    let any = Schema::new(ANY).unwrap();
    let refused = story.update(update(&any, &json!({ "x": 1 }))).unwrap_err();
    assert!(refused.starts_with("board plan was made anew meanwhile"), "{refused}");
}

#[test]
fn a_board_and_its_channels_have_a_size() {
    let (mut story, schema) = (Story::default(), Schema::new(ANY).unwrap());
    let text = |size: usize| json!("x".repeat(size));
    let mib = 1 << 20;
    let refused = story.update(update(&schema, &json!({ "a": text(mib) }))).unwrap_err();
    assert!(refused.contains("would have 1048578 bytes; the limit is 1048576"), "{refused}");
    for name in ["a", "b", "c"] {
        story.update(update(&schema, &json!({ (name): text(mib - 2) }))).unwrap();
    }
    let refused = story.update(update(&schema, &json!({ "d": 1 }))).unwrap_err();
    assert!(refused.starts_with("board plan would have 3145729 bytes"), "{refused}");
    // What is replaced does not count.
    story.update(update(&schema, &json!({ "a": 1 }))).unwrap();
    story.update(update(&schema, &json!({ "d": 1 }))).unwrap();
}

#[test]
fn what_a_schema_may_be() {
    let channels = |text: &str| {
        let schema = Schema::new(text).unwrap();
        schema
            .names()
            .map(|it| format!("{it}:{}", schema.channel(it).unwrap().reducer))
            .collect::<Vec<_>>()
    };
    assert_eq!(channels("agent_state").len(), 9);
    let own = r##"{"properties": {"notes": {"reducer": "append", "items": {"$ref": "#/$defs/note"}},
        "phase": {"enum": ["a", "b"]}}, "$defs": {"note": {"type": "string"}}}"##;
    assert_eq!(channels(own), ["notes:append", "phase:last_value"]);
    let notes = Schema::new(own).unwrap();
    let form = notes.channel(&channel("notes")).unwrap().form.clone().unwrap();
    assert_eq!(form["$defs"]["note"]["type"], "string");
    assert!(notes.channel(&channel("other")).is_some());
    for (bad, why) in [
        (
            "agentstate",
            "is neither agent_state nor any nor a JSON Schema in JSON (did you mean agent_state?)",
        ),
        ("{", "is not JSON"),
        (r#"{"type": "array"}"#, "must have the type \"object\""),
        (r#"{"required": ["x"]}"#, "has \"required\", which does not apply to a board"),
        (
            r#"{"properties": {"x": {"reducer": "sum"}}}"#,
            "has the reducer \"sum\", which names no reducer",
        ),
        (
            r#"{"properties": {"x": {"reducer": "append", "type": "string"}}}"#,
            "must have the type \"array\"",
        ),
        (
            r#"{"properties": {"x": {"reducer": "append", "maxItems": 3}}}"#,
            "has \"maxItems\", which cannot be checked with the reducer append",
        ),
    ] {
        let found = Schema::new(bad).unwrap_err();
        assert!(found.contains(why), "{bad}: {found}");
    }
}

/// What `add_messages` of LangGraph does, as it is documented and was measured.
#[test]
fn messages_are_merged_as_langgraph_does_it() {
    let merged = |left: &Json, right: &Json| {
        let parse = |it: &Json| {
            let (json, _) = parse_messages(&it.to_string(), || "new".to_owned()).unwrap();
            serde_json::from_str::<Vec<Message>>(&json).unwrap()
        };
        let mut list = MessageList::new(parse(left));
        list.merge(parse(right));
        list.iter().map(|it| it.id.clone()).collect::<Vec<_>>().join(" ")
    };
    let put = |id: &str| json!({ "id": id, "type": "human", "content": "x" });
    let remove = |id: &str| json!({ "id": id, "type": "remove" });
    let left = json!([put("a"), put("b"), put("c")]);
    for (right, expected) in [
        (json!([put("b")]), "a b c"),
        (json!([put("d"), put("d")]), "a b c d"),
        (json!([remove("b")]), "a c"),
        (json!([remove("b"), put("b")]), "a b c"),
        (json!([put("d"), remove("d")]), "a b c"),
        (json!([put("d"), remove("__remove_all__"), put("e"), put("e")]), "e e"),
        (json!([remove("__remove_all__"), remove("x")]), "x"),
        (json!("hello"), "a b c new"),
        (json!([["user", "hi"]]), "a b c new"),
    ] {
        assert_eq!(merged(&left, &right), expected, "{right}");
    }
    // Of several with one id the last is meant; a removal takes all of them.
    let twice = json!([put("a"), put("a"), put("b")]);
    assert_eq!(merged(&twice, &json!([put("a")])), "a a b");
    assert_eq!(merged(&twice, &json!([remove("a")])), "b");
    for (bad, why) in [
        (json!([null]), "has the message 0, which is neither a text"),
        (json!([{ "content": "x" }]), "has neither `role` nor `type`"),
        (json!([{ "type": "human" }]), "has no `content`"),
        (json!([{ "type": "remove" }]), "does not say which `id`"),
        (json!([{ "role": 3, "content": "x" }]), "has a `role` that is no text"),
    ] {
        let found = parse_messages(&bad.to_string(), || "new".to_owned()).unwrap_err();
        assert!(found.contains(why), "{bad}: {found}");
    }
}

#[test]
fn a_wait_is_answered_by_a_newer_checkpoint_of_what_is_asked() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    let asks = |channels: &[&str], after| Question {
        board: board(),
        role: role("qa"),
        channels: channels.iter().map(|it| channel(it)).collect(),
        after: at(after),
    };
    assert!(!story.workspace.boards.answer(&asks(&[], 0)).is_there, "there is no board yet");
    story.update(update(&schema, &json!({ "retry_count": 1 }))).unwrap();
    story.update(update(&schema, &json!({ "current_phase": "plan" }))).unwrap();
    for (channels, after, is_there) in [
        (&[][..], 0, true),
        (&[], 1, true),
        (&[], 2, false),
        (&["retry_count"], 0, true),
        (&["retry_count"], 1, false),
        (&["retry_count", "current_phase"], 1, true),
        (&[], u64::MAX, false),
        (&["retry_count"], u64::MAX, false),
    ] {
        let answer = story.workspace.boards.answer(&asks(channels, after));
        assert_eq!(answer.is_there, is_there, "{channels:?} after {after}");
    }
    // What a fork leaves behind became another.
    let fork = Fork {
        by: Actor::Role(role("qa")),
        board: board(),
        checkpoint: Some(at(1)),
        to: None,
        copied: None,
    };
    story.execute(Command::Fork(fork)).unwrap();
    assert!(story.workspace.boards.answer(&asks(&["current_phase"], 2)).is_there);
    assert!(!story.workspace.boards.answer(&asks(&["retry_count"], 2)).is_there);
}

#[test]
fn what_was_updated_often_is_folded_now_and_then() {
    let (mut story, schema) = (Story::default(), Schema::agent_state());
    for number in 1..=100 {
        story.update(update(&schema, &json!({ "review_comments": [number.to_string()] }))).unwrap();
        let (it, head) = story.workspace.boards.checkpoint(&board(), None).unwrap();
        if !it.unfolded().is_empty() {
            assert_eq!(number, 64, "not again before there are as many more");
            story.fold(&board(), head);
        }
    }
    let (it, _) = story.workspace.boards.checkpoint(&board(), None).unwrap();
    let parts = it.value_parts(at(90), None).remove(0);
    assert_eq!((parts.whole, parts.updates.len()), (Some(at(64)), 26));
    assert_eq!(story.read(&board(), at(90))["review_comments"].as_array().map(Vec::len), Some(90));
}
