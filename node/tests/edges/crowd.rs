//! Ten agents on three nodes answer in the same thread at once.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    sync::{Barrier, watch},
    task::JoinSet,
};

use crate::{
    agents::{Agent, Transport},
    book::Book,
    crash::accepted,
    process::{Process, soon},
};

const AGENTS: usize = 10;

const NODES: usize = 3;

/// Of each agent.
const ANSWERS: usize = 5;

const TRANSPORTS: [Transport; 4] =
    [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];

const SEND: &str = "filebox_send_message";

fn role(number: usize) -> String {
    format!("r{number}")
}

fn others(number: usize) -> Vec<String> {
    (0..AGENTS).filter(|it| *it != number).map(role).collect()
}

fn text(number: usize, answer: usize) -> String {
    format!("{} says {answer}", role(number))
}

/// What is known to everybody.
#[derive(Clone)]
struct Crowd {
    thread: Value,
    begin: Arc<Barrier>,
    answered: Arc<watch::Sender<usize>>,
    is_up: watch::Receiver<bool>,
}

impl Crowd {
    /// Answers, and says which entries its answers became.
    async fn answer(self, number: usize, mut agent: Agent) -> (Agent, BTreeMap<String, Value>) {
        let mut told = BTreeMap::new();
        self.begin.wait().await;
        for answer in 0..ANSWERS {
            let text = text(number, answer);
            let words = json!({ "receiver_id": others(number), "msg_type": "ACK", "title": "",
                "content": text, "original_message_id": self.thread, "client_ref": text });
            let entry = loop {
                self.is_up.clone().wait_for(|is_up| *is_up).await.unwrap();
                match accepted(agent.call(SEND, words.clone()).await) {
                    Ok(done) => break done["entry"].clone(),
                    Err(why) => assert!(!why.is_refusal, "{text}: {why}"),
                }
            };
            told.insert(text, entry);
            self.answered.send_modify(|it| *it += 1);
        }
        (agent, told)
    }
}

/// The entries of a thread as an agent reads them.
async fn read(agent: &mut Agent, thread: &Value) -> Vec<(Value, String)> {
    let read = agent.call("filebox_thread", json!({ "message_id": thread })).await;
    let read = accepted(read).unwrap();
    let entries = read["entries"].as_array().unwrap().iter();
    entries.map(|it| (it["number"].clone(), it["text"].as_str().unwrap().to_owned())).collect()
}

/// `killed`: the node that is killed in the middle of it.
async fn all_answers_are_there_once(killed: Option<usize>) {
    let place = tempfile::tempdir().unwrap();
    let broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let roles = (node..AGENTS).step_by(NODES).map(|it| format!("--role {} ", role(it)));
        let at = place.path().join(format!("node{node}"));
        nodes.push(Process::node(&at, address, &roles.collect::<String>()).await);
    }
    let mut agents = Vec::new();
    for number in 0..AGENTS {
        let node = &nodes[number % NODES];
        let transport = TRANSPORTS[number % TRANSPORTS.len()];
        agents.push(Agent::new(transport, &role(number), node.mcp, node.data.clone()).await);
    }
    let question = json!({ "receiver_id": others(0), "msg_type": "BR", "title": "who?",
        "content": "the question" });
    let asked = accepted(agents[0].call(SEND, question).await).unwrap();
    let (up, is_up) = watch::channel(true);
    let crowd = Crowd {
        thread: asked["message_id"].clone(),
        begin: Arc::new(Barrier::new(AGENTS)),
        answered: Arc::new(watch::Sender::new(0)),
        is_up,
    };
    let mut answering = JoinSet::new();
    for (number, agent) in agents.into_iter().enumerate() {
        answering.spawn(crowd.clone().answer(number, agent));
    }
    if let Some(killed) = killed {
        let mut answered = crowd.answered.subscribe();
        drop(soon(answered.wait_for(|it| AGENTS <= *it)).await.unwrap());
        up.send_replace(false);
        nodes[killed].kill().await;
        nodes[killed].start().await;
        up.send_replace(true);
    }
    let (mut agents, mut told) = (Vec::new(), BTreeMap::new());
    while let Some(ended) = soon(answering.join_next()).await {
        let (agent, entries) = ended.unwrap();
        agents.push(agent);
        told.extend(entries);
    }

    // Nothing was queued: the broker was there all the time.
    let mut numbers: Vec<u64> = told.values().map(|it| it.as_u64().unwrap()).collect();
    numbers.sort_unstable();
    let all = (AGENTS * ANSWERS) as u64;
    assert_eq!(numbers, (2..=all + 1).collect::<Vec<_>>());
    let entries = read(&mut agents[0], &crowd.thread).await;
    assert_eq!(entries.len() as u64, all + 1);
    for (number, text) in entries.iter().skip(1) {
        assert_eq!(told[text], *number, "{text}");
    }
    for number in 0..AGENTS {
        let own = |it: &(Value, String)| it.1.starts_with(&format!("{} says", role(number)));
        let said = entries.iter().filter(|it| own(it)).map(|it| it.1.clone());
        let in_order = (0..ANSWERS).map(|answer| text(number, answer));
        assert_eq!(said.collect::<Vec<_>>(), in_order.collect::<Vec<_>>());
    }
    for agent in &mut agents {
        assert_eq!(read(agent, &crowd.thread).await, entries, "{} reads otherwise", agent.role);
    }
    let roles: Vec<_> = (0..AGENTS).map(role).collect();
    let roles: Vec<_> = roles.iter().map(String::as_str).collect();
    let found = Book::open(address).await.all(&roles).await;
    let texts: Vec<_> = entries.iter().map(|it| it.1.as_str()).collect();
    let thread = &found[crowd.thread.as_str().unwrap()];
    assert_eq!((found.len(), thread.texts()), (1, texts));
    assert!(thread.boxes.values().all(|boxes| boxes.len() == 1), "{:?}", thread.boxes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_agents_answer_at_once_and_all_read_the_same() {
    all_answers_are_there_once(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_agents_answer_at_once_while_a_node_is_killed() {
    all_answers_are_there_once(Some(1)).await;
}
