//! Random stories of a board, beside a plain model that keeps every value whole.

use proptest::prelude::*;

use super::*;

/// One step of a random story.
#[derive(Debug, Clone)]
enum Step {
    Update { values: Vec<(u8, u8)>, fork: Option<u8> },
    Fold(u8),
    Store { at: u8, results: Vec<(u8, u8)>, is_replacing: bool },
    Prune(u8),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let values = proptest::collection::vec((0..4u8, any::<u8>()), 1..4);
    let update = (values, proptest::option::weighted(0.2, any::<u8>()));
    let results = proptest::collection::vec((0..4u8, any::<u8>()), 1..4);
    let store = (any::<u8>(), results, any::<bool>());
    let step = prop_oneof![
        8 => update.prop_map(|(values, fork)| Step::Update { values, fork }),
        2 => any::<u8>().prop_map(Step::Fold),
        2 => store.prop_map(|(at, results, is_replacing)| Step::Store { at, results, is_replacing }),
        1 => (1..6u8).prop_map(Step::Prune),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..40)
}

const OWN: &str = r#"{"properties": {"last": {}, "list": {"reducer": "append"},
    "map": {"reducer": "merge"}, "messages": {"reducer": "add_messages"}}}"#;

/// What one byte writes to a channel.
fn value(channel: u8, seed: u8) -> (&'static str, Json) {
    let id = |seed: u8| format!("m{}", seed % 5);
    match channel {
        0 => ("last", json!(seed)),
        1 => ("list", Json::Array((0..seed % 3).map(|it| json!([seed, it])).collect())),
        2 if seed.is_multiple_of(4) => ("map", json!({ (id(seed / 4)): null, "k": 1.0 })),
        2 => ("map", json!({ (id(seed)): seed })),
        _ => {
            let put = |seed: u8| json!({ "id": id(seed), "type": "ai", "content": seed });
            let remove = json!({ "id": id(seed / 8), "type": "remove" });
            let all = json!({ "id": "__remove_all__", "type": "remove" });
            (
                "messages",
                match seed % 8 {
                    0 => json!([remove]),
                    1 => json!([put(seed / 8), remove, put(seed)]),
                    2 => json!([put(seed), all, put(seed / 8), put(seed / 8)]),
                    _ => json!([put(seed / 8), put(seed)]),
                },
            )
        }
    }
}

/// The same as a person would write it down. `None`: it is refused.
fn plain(reducer: Reducer, before: Option<&Json>, update: &Json) -> Option<Json> {
    Some(match reducer {
        Reducer::LastValue => update.clone(),
        Reducer::Append => {
            let mut list = before.and_then(Json::as_array).cloned().unwrap_or_default();
            list.extend(update.as_array()?.iter().cloned());
            Json::Array(list)
        }
        Reducer::Merge => {
            let mut map = before.and_then(Json::as_object).cloned().unwrap_or_default();
            for (name, it) in update.as_object()? {
                if it.is_null() {
                    map.remove(name)
                } else {
                    map.insert(name.clone(), it.clone())
                };
            }
            Json::Object(map)
        }
        Reducer::AddMessages => {
            let left = before.and_then(Json::as_array).cloned().unwrap_or_default();
            let right = update.as_array()?;
            let is_all = |it: &Json| it["id"] == "__remove_all__";
            if let Some(marker) = right.iter().rposition(is_all) {
                return Some(right[marker + 1..].into());
            }
            let (mut list, mut removed) = (left, Vec::new());
            for message in right {
                let there = list.iter().rposition(|it| it["id"] == message["id"]);
                match (message["type"] == "remove", there) {
                    (true, None) => return None,
                    (true, Some(_)) => removed.push(message["id"].clone()),
                    (false, Some(index)) => {
                        removed.retain(|it| *it != message["id"]);
                        list[index] = message.clone();
                    }
                    (false, None) => list.push(message.clone()),
                }
            }
            list.retain(|it| !removed.contains(&it["id"]));
            Json::Array(list)
        }
    })
}

proptest! {
    /// Holds BD1, BD2, BD5 and BD6.
    #[test]
    fn every_checkpoint_reads_as_it_was_written(steps in steps()) {
        let schema = Schema::new(OWN).unwrap();
        let mut story = Story::default();
        let mut written: Vec<BTreeMap<String, Json>> = Vec::new();
        let mut results: BTreeMap<u64, BTreeMap<String, Json>> = BTreeMap::new();
        let mut oldest = 1;
        for step in steps {
            let head = written.len() as u64;
            let some = |seed: u8| oldest + u64::from(seed) % (head + 1 - oldest);
            match step {
                Step::Update { values, fork } => {
                    let fork = fork.filter(|_| 0 < head).map(some);
                    let parent = fork.or_else(|| (0 < head).then_some(head));
                    let mut state = parent.map(|it| written[usize::try_from(it).unwrap() - 1].clone()).unwrap_or_default();
                    let values: BTreeMap<_, _> = values.iter().map(|(it, seed)| value(*it, *seed)).collect();
                    let mut is_refused = false;
                    for (name, it) in &values {
                        let reducer = schema.channel(&channel(name)).unwrap().reducer;
                        match plain(reducer, state.get(*name), it) {
                            Some(it) => _ = state.insert((*name).to_owned(), it),
                            None => is_refused = true,
                        }
                    }
                    let it = update(&schema, &json!(values));
                    let done = story.update(Update { expected: fork.map(at), is_fork: fork.is_some(), ..it });
                    prop_assert_eq!(done.is_err(), is_refused, "{:?}", done);
                    if done.is_ok() {
                        written.push(state);
                    }
                }
                _ if written.is_empty() => {}
                Step::Fold(seed) => story.fold(&board(), at(some(seed))),
                Step::Store { at, results: new, is_replacing } => {
                    let names = ["a", "b", "c", "d"];
                    let new: BTreeMap<&str, Json> = new.iter().map(|(it, seed)| (names[usize::from(*it)], json!(seed))).collect();
                    let there = results.entry(some(at)).or_default();
                    let kept: Vec<String> = new.keys().filter(|it| !is_replacing && there.contains_key(**it)).map(ToString::to_string).collect();
                    let stored = u32::try_from(new.len() - kept.len()).unwrap();
                    let asked: Vec<(&str, Json)> = new.clone().into_iter().collect();
                    prop_assert_eq!(story.store(some(at), &asked, is_replacing), Ok((stored, kept.clone())));
                    let new = new.into_iter().filter(|(name, _)| !kept.iter().any(|it| it == name));
                    there.extend(new.map(|(name, it)| (name.to_owned(), it)));
                }
                Step::Prune(keep) => {
                    oldest = oldest.max((head + 1).saturating_sub(keep.into()));
                    prop_assert_eq!(story.prune(keep.into()), Ok(oldest));
                    results.retain(|at, _| oldest <= *at);
                }
                Step::Restart => story.restart(),
            }
            for (number, expected) in (1..).zip(&written).filter(|(number, _)| oldest <= *number) {
                prop_assert_eq!(&story.read(&board(), at(number)), expected, "checkpoint {}", number);
                let expected = results.get(&number).cloned().unwrap_or_default();
                prop_assert_eq!(story.results_at(number), expected, "results at {}", number);
            }
        }
    }
}
