//! An agent that writes, reads and puts away, and says the same again when no answer came.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    ROLES,
    history::{History, Letter},
    letter,
};
use crate::{agents::Agent, chance::Chance, crash::accepted, process::soon, strikes::Trouble};

/// Threads it goes on with; of more it forgets the oldest.
const THREADS_MAX: usize = 6;

#[derive(Clone)]
pub(super) struct Game {
    pub(super) history: Arc<watch::Sender<History>>,
    pub(super) trouble: watch::Receiver<Trouble>,
}

pub(super) struct Writer {
    agent: Agent,
    chance: Chance,
    names_letters: bool,
    game: Game,
    /// Letters said.
    said: u64,
    /// How often the latest call was made.
    tries: u64,
    threads: Vec<String>,
}

impl Writer {
    pub(super) fn new(agent: Agent, chance: Chance, names_letters: bool, game: &Game) -> Self {
        Self {
            agent,
            chance,
            names_letters,
            game: game.clone(),
            said: 0,
            tries: 0,
            threads: Vec::new(),
        }
    }

    /// Until it is to stop.
    pub(super) async fn write(mut self) {
        let mut after = None;
        while !self.game.trouble.borrow().is_last {
            match self.chance.below(6) {
                0 => self.send(None).await,
                1 => {
                    let known = self.some_thread();
                    self.send(known).await;
                }
                2 => self.read().await,
                _ => after = self.wait(after).await,
            }
        }
    }

    /// A result, or the code of a refusal. What brought no answer is asked again, in the same words.
    async fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        self.tries = 0;
        loop {
            self.tries += 1;
            if let Some(facts) = self.ask_once(tool, arguments).await? {
                return Ok(facts);
            }
        }
    }

    /// `None`: no answer came, or one that says to ask again.
    async fn ask_once(&mut self, tool: &str, arguments: &Value) -> Result<Option<Value>, String> {
        let answer = self.agent.call(tool, arguments.clone()).await;
        let code = answer.as_ref().ok().map(|it| it["structuredContent"]["error"]["code"].clone());
        match accepted(answer) {
            Ok(facts) => {
                self.change(|it| {
                    it.steps += 1;
                    it.queued += u64::from(facts["queued"].is_number());
                });
                return Ok(Some(facts));
            }
            Err(why) if why.is_refusal => {
                let code = code.unwrap_or_default();
                return Err(code.as_str().unwrap_or_else(|| panic!("{why}")).to_owned());
            }
            Err(why) => self.change(|it| {
                it.again += 1;
                it.latest = format!("{tool} by {}: {why}", self.agent.role);
            }),
        }
        let mut trouble = self.game.trouble.clone();
        soon(trouble.wait_for(|it| !it.is_node_down)).await.unwrap();
        Ok(None)
    }

    fn change<T>(&self, change: impl FnOnce(&mut History) -> T) -> T {
        let mut out = None;
        self.game.history.send_modify(|it| out = Some(change(it)));
        out.unwrap()
    }

    fn some_thread(&mut self) -> Option<String> {
        let known = self.threads.len() as u64;
        let at = usize::try_from(self.chance.below(known.max(1))).unwrap();
        self.threads.get(at).cloned()
    }

    fn knows(&mut self, thread: &str) {
        if self.threads.iter().any(|it| it == thread) {
            return;
        }
        if self.threads.len() == THREADS_MAX {
            self.threads.remove(0);
        }
        self.threads.push(thread.to_owned());
    }

    /// One to three of the others.
    fn others(&mut self) -> Vec<String> {
        let others: Vec<_> = ROLES.iter().filter(|it| **it != self.agent.role).collect();
        let which = self.chance.below(7) + 1;
        let of = others.iter().enumerate().filter(|(bit, _)| which & (1 << bit) != 0);
        of.map(|(_, role)| role.to_string()).collect()
    }

    async fn send(&mut self, answers: Option<String>) {
        self.said += 1;
        let (role, to) = (self.agent.role.clone(), self.others());
        let text = format!("{} of {role}", self.said);
        let name = self.names_letters.then(|| format!("{role}-{}", self.said));
        let request = letter(&to, &text, answers.as_deref(), name.as_deref());
        let new = Letter {
            from: role.clone(),
            number: self.said,
            to: to.into_iter().collect::<BTreeSet<_>>(),
            answers,
            is_named: self.names_letters,
            tries: 0,
            told: None,
        };
        self.change(|it| it.letters.insert(text.clone(), new));
        let answer = self.ask("filebox_send_message", &request).await;
        let facts = answer.unwrap_or_else(|why| panic!("{text:?} was refused: {why}\n{request}"));
        let thread = facts["message_id"].as_str().unwrap_or_else(|| panic!("{facts}")).to_owned();
        let is_queued = facts["queued"].is_number();
        let number = facts["entry"].as_u64();
        assert_eq!(is_queued, number.is_none(), "{facts}");
        let tries = self.tries;
        self.change(|it| {
            let letter = it.letters.get_mut(&text).unwrap();
            letter.tries = tries;
            letter.told = Some((thread.clone(), number));
        });
        // Said again without a name while the broker was away, it may get another.
        if self.names_letters || tries == 1 || !is_queued {
            self.knows(&thread);
        }
    }

    /// Waits, and does something about what came. What it answers is done with at the next wait.
    async fn wait(&mut self, after: Option<String>) -> Option<String> {
        let mut request = json!({ "timeout_sec": self.chance.below(3) });
        if let Some(after) = after {
            request["after"] = after.into();
        }
        let asked = self.change(History::begins);
        // While the broker is away it writes rather than waits.
        let mail = match self.ask_once("filebox_wait_for_message", &request).await {
            Ok(Some(mail)) => mail,
            Ok(None) => return None,
            Err(why) => panic!("{} may not wait: {why}", self.agent.role),
        };
        if mail["has_mail"] != true {
            return None;
        }
        self.change(|it| it.saw(asked, &mail));
        let id = mail["message_id"].as_str().unwrap().to_owned();
        self.knows(&id);
        match self.chance.below(6) {
            0 => self.put_away(&id, "filebox_resolve_message").await,
            1 => self.put_away(&id, "filebox_reject_message").await,
            2 => return Some(id),
            // As if it had forgotten it.
            3 => {}
            _ => self.send(Some(id)).await,
        }
        None
    }

    async fn put_away(&mut self, id: &str, tool: &str) {
        match self.ask(tool, &json!({ "filename": id })).await {
            Ok(_) => self.change(|it| it.moves += 1),
            // Something came in; or the first try took it away, and only its answer was lost.
            Err(why) => assert!(why == "unseen_entries" || why == "not_in_inbox", "{why}"),
        }
    }

    async fn read(&mut self) {
        let Some(id) = self.some_thread() else { return };
        let asked = self.change(History::begins);
        match self.ask_once("filebox_thread", &json!({ "message_id": id })).await {
            Ok(None) => {}
            Ok(Some(thread)) => self.change(|it| it.saw(asked, &thread)),
            // It waits in the outbox still.
            Err(why) => assert_eq!(why, "unknown_message"),
        }
    }
}
