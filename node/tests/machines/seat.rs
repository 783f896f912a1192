//! Agents on machines: each calls from the machine it sits at.

use std::{net::SocketAddr, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    agents::{Agent, Broken, Manner, Transport},
    net::Place,
    process::{Desk, soon},
};

/// Where a node's agents connect, on its own machine.
const MCP: ([u8; 4], u16) = ([127, 0, 0, 1], 7421);

/// How long agents let a call be held, in seconds: longer than any test.
const HOLD_SECS: u64 = 600;

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Told {
    Facts(Value),
    /// A refusal: its code, and all of the result.
    Refused(String, Value),
    /// No answer came.
    Nothing(String),
}

impl Told {
    fn of(answer: Result<Value, Broken>) -> Self {
        let result = match answer {
            Ok(result) => result,
            Err(Broken(why)) => return Self::Nothing(why),
        };
        let facts = &result["structuredContent"];
        if result["isError"] == true {
            return Self::Refused(facts["error"]["code"].as_str().unwrap().to_owned(), result);
        }
        Self::Facts(facts.clone())
    }

    pub(crate) fn facts(self) -> Value {
        match self {
            Self::Facts(facts) => facts,
            Self::Refused(..) | Self::Nothing(_) => panic!("{self:?}"),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) role: String,
    place: Arc<Place>,
    agent: Arc<Mutex<Agent>>,
}

impl Seat {
    /// Beside a node that runs.
    pub(crate) async fn new(desk: &Desk, role: &str, transport: Transport) -> Self {
        Self::at(desk, MCP.into(), role, transport).await
    }

    /// The same where a node serves elsewhere.
    pub(crate) async fn at(desk: &Desk, mcp: SocketAddr, role: &str, transport: Transport) -> Self {
        let (data, name) = (desk.data(), role.to_owned());
        let manner = Manner { hold: Some(HOLD_SECS), ..Manner::default() };
        let made = async move { Agent::with(transport, &name, mcp, data, manner).await };
        let agent = soon(desk.place.machine.on(made)).await;
        let agent = Arc::new(Mutex::new(agent));
        Self { role: role.to_owned(), place: Arc::clone(&desk.place), agent }
    }

    /// Begins to call a tool.
    pub(crate) fn begin(&self, tool: &'static str, words: Value) -> AbortOnDropHandle<Told> {
        let agent = Arc::clone(&self.agent);
        self.place.machine.spawn(async move {
            let mut agent = agent.lock().await;
            Told::of(agent.call(tool, words).await)
        })
    }

    pub(crate) async fn call(&self, tool: &'static str, words: Value) -> Told {
        self.begin(tool, words).await.unwrap()
    }

    /// Begins to wait in a loop.
    pub(crate) fn wait_in(&self, of: &str) -> AbortOnDropHandle<Told> {
        self.begin("await_my_turn", json!({ "loop": of }))
    }

    pub(crate) fn wait(&self) -> AbortOnDropHandle<Told> {
        self.wait_in("main")
    }

    /// Whether it is its turn now.
    pub(crate) async fn look(&self) -> Told {
        soon(self.call("await_my_turn", json!({ "timeout_sec": 0 }))).await
    }

    /// Begins to hand `turn` over with words that nobody else says.
    pub(crate) fn hand_over(&self, turn: u64, words: &str) -> AbortOnDropHandle<Told> {
        let words = json!({ "work_summary": words, "turn": turn,
            "next_instruction": format!("after {turn}"), "is_task_complete": false });
        self.begin("handover_work", words)
    }

    /// Waits for a turn, which must come in the same call.
    pub(crate) async fn turn(&self) -> u64 {
        turn_in(&soon(self.wait()).await.unwrap().facts())
    }

    /// Hands over, which must succeed at once.
    pub(crate) async fn pass(&self, turn: u64) {
        let done = soon(self.hand_over(turn, &words(&self.role, turn))).await.unwrap().facts();
        assert_eq!(done["ended_turn"], turn, "{done}");
    }
}

/// What a role says at the end of a turn.
pub(crate) fn words(role: &str, turn: u64) -> String {
    format!("{role} did {turn}")
}

/// The turn that an answer to a wait gives.
pub(crate) fn turn_in(answer: &Value) -> u64 {
    assert_eq!(answer["can_start"], true, "{answer}");
    answer["turn"].as_u64().unwrap()
}
