//! Agents play on while their nodes and their broker are killed and started again.
//!
//! `TASUKI_ROUNDS` says how many kills (20), `TASUKI_SEED` which ones.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    agents::{Agent, Broken, Transport},
    chance::Chance,
    process::{Process, soon},
    strikes::{Processes, Trouble, rounds},
};

/// Acknowledged steps between two kills, at most.
const STEPS_MAX: u64 = 12;

/// Tests that share the rounds.
const SCENARIOS: u64 = 4;

/// They go on for as long as the test does.
const NO_LIMITS: &str = "budget limits --turns 0 --hops 0";

const HISTORY: &str = "loop history --from 1 --limit 100000";

/// What all agents of a game saw.
#[derive(Debug, Default)]
struct Seen {
    /// Answers that came.
    steps: u64,
    /// Who was given each turn.
    given: BTreeMap<u64, String>,
    /// What was acknowledged as the end of each turn.
    ended: BTreeMap<u64, String>,
    /// Calls that had to be made again.
    again: u64,
}

#[derive(Clone)]
struct Game {
    seen: Arc<watch::Sender<Seen>>,
    trouble: watch::Receiver<Trouble>,
}

/// Holds A4.
#[tokio::test]
async fn sessions_and_stateless_calls_outlive_nodes_and_broker() {
    two_nodes(Transport::Session, Transport::Stateless, 1).await;
}

#[tokio::test]
async fn streams_and_bridges_outlive_nodes_and_broker() {
    two_nodes(Transport::Sse, Transport::Stdio, 2).await;
}

#[tokio::test]
async fn bridges_and_sessions_outlive_nodes_and_broker() {
    two_nodes(Transport::Stdio, Transport::Session, 3).await;
}

#[tokio::test]
async fn everything_in_one_process_is_killed_and_goes_on() {
    let mut chance = Chance::new(4);
    let dir = tempfile::tempdir().unwrap();
    let mut up = Process::up(&dir.path().join("up"), "").await;
    up.json(NO_LIMITS).await;
    let (troubles, game) = Game::new();
    let mut agents = JoinSet::new();
    for (role, transport) in [("A", Transport::Session), ("B", Transport::Stdio)] {
        let agent = Agent::new(transport, role, up.mcp, up.data.clone()).await;
        agents.spawn(game.clone().play(agent));
    }
    for _ in 0..rounds(SCENARIOS) {
        game.go_on(&mut chance, &mut agents).await;
        troubles.send_modify(|it| it.comes(true, true));
        up.kill().await;
        up.start().await;
        troubles.send_modify(Trouble::goes);
    }
    game.end(&troubles, agents).await;
    game.check(&up.json(HISTORY).await);
}

/// A plays on one node, B on another, and a broker stands alone.
async fn two_nodes(a: Transport, b: Transport, salt: u64) {
    let mut chance = Chance::new(salt);
    let dir = tempfile::tempdir().unwrap();
    let mut world = Processes::three(dir.path(), ["--role A", "--role B"]).await;
    world.nodes[0].json(NO_LIMITS).await;
    let (troubles, game) = Game::new();
    let mut agents = JoinSet::new();
    for (role, transport, node) in [("A", a, &world.nodes[0]), ("B", b, &world.nodes[1])] {
        let agent = Agent::new(transport, role, node.mcp, node.data.clone()).await;
        agents.spawn(game.clone().play(agent));
    }
    for _ in 0..rounds(SCENARIOS) {
        game.go_on(&mut chance, &mut agents).await;
        world.strike(&mut chance, &troubles).await;
    }
    game.end(&troubles, agents).await;
    let history = world.nodes[0].json(HISTORY).await;
    game.check(&history);
    world.broker_mut().kill().await;
    world.broker_mut().start().await;
    let again = world.nodes[1].json(HISTORY).await;
    assert_eq!(again, history);
}

impl Game {
    fn new() -> (watch::Sender<Trouble>, Self) {
        let (troubles, trouble) = watch::channel(Trouble::default());
        (troubles, Self { seen: Arc::new(watch::Sender::new(Seen::default())), trouble })
    }

    /// Takes turns until all is finished.
    async fn play(self, mut agent: Agent) -> Agent {
        let role = agent.role.clone();
        loop {
            let answer = self.wait(&mut agent).await;
            if answer["is_finished"] == true {
                return agent;
            }
            if answer["can_start"] != true {
                continue;
            }
            let turn = answer["turn"].as_u64().unwrap();
            self.seen.send_modify(|seen| {
                let had = seen.given.entry(turn).or_insert_with(|| role.clone()).clone();
                assert_eq!(had, role, "turn {turn} was given to two");
            });
            if turn != 1 {
                assert_eq!(answer["instruction"], format!("after {}", turn - 1), "{answer}");
            }
            self.hand_over(&mut agent, turn).await;
        }
    }

    fn step(&self) {
        self.seen.send_modify(|seen| seen.steps += 1);
    }

    /// Before a call is made again.
    async fn again(&self) {
        self.seen.send_modify(|seen| seen.again += 1);
        let mut trouble = self.trouble.clone();
        soon(trouble.wait_for(|it| !it.is_node_down)).await.unwrap();
    }

    async fn wait(&self, agent: &mut Agent) -> Value {
        loop {
            let before = *self.trouble.borrow();
            let asked = agent.call("await_my_turn", json!({})).await;
            let after = *self.trouble.borrow();
            match accepted(asked) {
                Ok(answer) => {
                    self.step();
                    return answer;
                }
                // A broker that goes and comes back is no news to whoever waits already.
                Err(why)
                    if !before.is_broker_down
                        && !before.is_node_down
                        && before.node_kills == after.node_kills =>
                {
                    panic!("{} was told of trouble that is not its own: {why}", agent.role)
                }
                Err(_) => self.again().await,
            }
        }
    }

    async fn hand_over(&self, agent: &mut Agent, turn: u64) {
        let summary = format!("{} did {turn}", agent.role);
        let is_last = self.trouble.borrow().is_last;
        // A says which turn it ends, B does not.
        let names_turn = agent.role == "A";
        let mut words = json!({ "work_summary": summary,
            "next_instruction": format!("after {turn}"), "is_task_complete": is_last });
        if names_turn {
            words["turn"] = turn.into();
        }
        loop {
            match accepted(agent.call("handover_work", words.clone()).await) {
                Ok(done) => {
                    assert_eq!(done["ended_turn"], turn, "{done}");
                    break;
                }
                Err(why) => assert!(!why.is_refusal, "turn {turn} of {}: {why}", agent.role),
            }
            self.again().await;
            // Without the turn's number only a look tells whether the words were taken.
            if !names_turn && self.wait_again(agent, turn).await {
                break;
            }
        }
        self.seen.send_modify(|seen| {
            seen.steps += 1;
            assert_eq!(seen.ended.insert(turn, summary), None);
        });
    }

    /// Whether `turn` is over.
    async fn wait_again(&self, agent: &mut Agent, turn: u64) -> bool {
        loop {
            let look = json!({ "timeout_sec": 0 });
            if let Ok(answer) = accepted(agent.call("await_my_turn", look).await) {
                return answer["can_start"] != true || answer["turn"] != turn;
            }
            self.again().await;
        }
    }

    /// Lets the agents play for a while.
    async fn go_on(&self, chance: &mut Chance, agents: &mut JoinSet<Agent>) {
        let until = self.seen.borrow().steps + 1 + chance.below(STEPS_MAX);
        let mut seen = self.seen.subscribe();
        tokio::select! {
            seen = soon(seen.wait_for(|seen| until <= seen.steps)) => drop(seen.unwrap()),
            ended = agents.join_next() => panic!("an agent ended: {:?}", ended.unwrap().err()),
        }
    }

    /// Lets the agents finish.
    async fn end(&self, troubles: &watch::Sender<Trouble>, mut agents: JoinSet<Agent>) {
        troubles.send_modify(|it| it.is_last = true);
        while let Some(ended) = soon(agents.join_next()).await {
            ended.unwrap();
        }
    }

    fn check(&self, history: &[Value]) {
        let seen = self.seen.borrow();
        let turns = history.len() as u64;
        let expected: Vec<u64> = (1..=turns).collect();
        let ended: Vec<u64> = history.iter().map(|it| it["ended_turn"].as_u64().unwrap()).collect();
        assert_eq!(ended, expected);
        let numbers: Vec<u64> = history.iter().map(|it| it["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, expected);
        for entry in history {
            let turn = entry["ended_turn"].as_u64().unwrap();
            assert_eq!(entry["from"], *seen.given[&turn], "{entry}");
            assert_eq!(entry["summary"], *seen.ended[&turn], "{entry}");
        }
        assert_eq!(seen.ended.keys().copied().collect::<Vec<_>>(), expected);
        assert_eq!(history.last().unwrap()["is_task_complete"], true);
        let again = seen.again;
        anstream::println!("{turns} turns, {again} calls made again");
    }
}

/// Why a call brought nothing.
#[derive(Debug)]
pub(crate) struct Nothing {
    what: String,
    pub(crate) is_refusal: bool,
}

impl fmt::Display for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The facts of a result; a refusal that says to call again is trouble like any other.
pub(crate) fn accepted(answer: Result<Value, Broken>) -> Result<Value, Nothing> {
    let result = match answer {
        Ok(result) => result,
        Err(Broken(what)) => return Err(Nothing { what, is_refusal: false }),
    };
    let facts = &result["structuredContent"];
    if result["isError"] != true {
        return Ok(facts.clone());
    }
    let code = facts["error"]["code"].as_str().unwrap();
    let is_refusal = !matches!(code, "unavailable" | "outcome_unknown");
    Err(Nothing { what: result.to_string(), is_refusal })
}
