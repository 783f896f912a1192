//! The lead, who plans, judges and delivers, and the acceptor.

use serde_json::{Value, json};

use super::{
    history::Task,
    player::{Not, Player},
    worker::text,
};
use crate::{issues, swarm};

/// Tasks planned at once.
const PLAN: usize = 50;

pub(super) struct Lead {
    player: Player,
    /// How often each issue was delivered.
    delivered: Vec<u64>,
}

pub(super) struct Acceptor(pub(super) Player);

impl Lead {
    pub(super) fn new(player: Player) -> Self {
        let delivered = vec![0; player.game.issues];
        Self { player, delivered }
    }

    pub(super) async fn play(mut self) {
        while !self.player.game.is_over() {
            match self.live().await {
                Ok(()) | Err(Not::Dead) => {}
                Err(Not::Refused(code, text)) => {
                    let told = self.player.game.history.borrow().of_roles(&["lead"]);
                    panic!("the lead was refused: {code} {text}\n{told}");
                }
            }
        }
    }

    async fn live(&mut self) -> Result<(), Not> {
        let mut at = 0;
        while !self.player.game.is_over() {
            let issues = self.player.game.history.borrow().issues.clone();
            if issues.len() < self.player.game.issues {
                self.open(issues.len()).await?;
                continue;
            }
            at = (at + 1) % issues.len();
            let issue = &issues[at];
            if self.player.game.history.borrow().closed.contains(issue) {
                continue;
            }
            // Others may have more to answer; only where nothing is it waits a little.
            for wait in 0..2 {
                let words = json!({ "issue_id": issue, "timeout_sec": wait * u64::from(at == 0) });
                let told = self.player.call("waitIssueTaskEvents", &words).await?;
                if told["status"] != "there" {
                    continue;
                }
                self.answer(issue, &told["item"]).await?;
                break;
            }
            self.end(issue, at).await?;
        }
        Ok(())
    }

    /// Another issue with all of its tasks, as far as it is not there.
    async fn open(&mut self, number: usize) -> Result<(), Not> {
        let subject = format!("issue {number}");
        let known = json!({ "subject_contains": subject });
        let listed = self.player.call("listIssues", &known).await?;
        let there = listed["issues"].as_array().unwrap().first().map(|it| it["id"].clone());
        let doc = |name: &str| json!({ "name": name, "content": format!("the {name}") });
        let issue = match there {
            Some(issue) => issue,
            None => {
                let words = json!({ "subject": subject, "user_issue_doc": doc("wish"),
                    "lead_issue_doc": doc("reading") });
                self.player.call("createIssue", &words).await?["id"].clone()
            }
        };
        let of = json!({ "issue_id": issue, "limit": 1 });
        loop {
            let there = self.player.call("listIssueTasks", &of).await?["total"].as_u64().unwrap();
            let there = usize::try_from(there).unwrap();
            let end = self.player.game.tasks_each.min(there + PLAN);
            if there == end {
                break;
            }
            let tasks: Vec<Value> = (there..end).map(|it| self.task(it, there)).collect();
            let plan = json!({ "issue_id": issue, "tasks": tasks });
            self.player.call("planIssueTasks", &plan).await?;
        }
        let issue = text(&issue);
        self.player.note(format!("opened {issue}"));
        self.player.game.change(|it| it.issues.push(issue));
        Ok(())
    }

    /// Some wait for another one of the same plan.
    fn task(&mut self, number: usize, first: usize) -> Value {
        let difficulty = ["easy", "medium", "focus"][number % 3];
        let mut task = json!({ "subject": format!("part {number}"), "difficulty": difficulty,
            "points": number % 7, "spec": swarm::spec("faster") });
        let before = (number - first) as u64;
        if before != 0 && self.player.once_in(3) {
            let on = first as u64 + self.player.chance.below(before);
            task["blocked_by"] = json!([format!("part {on}")]);
        }
        task
    }

    async fn answer(&mut self, issue: &str, item: &Value) -> Result<(), Not> {
        match item["type"].as_str().unwrap() {
            "submission" => {
                let task = (issue.to_owned(), text(&item["task_id"]));
                self.judge(&task, &item["submission"]).await
            }
            "question" => {
                let (message, task) = (&item["message"], &item["task_id"]);
                let words = json!({ "issue_id": issue, "task_id": task,
                    "message_id": message["id"],
                    "content": format!("yes: {}", text(&message["content"])) });
                self.about("replyIssueTaskMessage", &words).await.map(drop)
            }
            "task_lapsed" => {
                self.player.game.change(|it| it.lapsed += 1);
                Ok(())
            }
            "delivery_result" | "note" => Ok(()),
            other => panic!("{other}: {item}"),
        }
    }

    /// `None`: it was too late for that.
    async fn about(&mut self, tool: &str, words: &Value) -> Result<Option<Value>, Not> {
        match self.player.call(tool, words).await {
            Ok(told) => Ok(Some(told)),
            Err(Not::Refused(code, text)) => match code.as_str() {
                "no_open_submission"
                | "already_reviewed"
                | "invalid_next_step_token"
                | "already_replied"
                | "unknown_message"
                | "task_already_claimed"
                | "issue_closed" => Ok(None),
                _ => Err(Not::Refused(code, text)),
            },
            Err(dead) => Err(dead),
        }
    }

    async fn judge(&mut self, task: &Task, submission: &Value) -> Result<(), Not> {
        let worker = text(&submission["worker_id"]);
        if self.player.once_in(25) {
            self.player.game.change(|it| {
                it.resets(task);
                it.note("lead", format!("resets {} {} of {worker}", task.0, task.1));
            });
            let words = json!({ "issue_id": task.0, "task_id": task.1, "reason": "another way" });
            return self.about("resetIssueTask", &words).await.map(drop);
        }
        if self.player.once_in(6) {
            let mut words = swarm::verdict(&task.0, &task.1, None);
            words["submission_id"] = submission["id"].clone();
            if self.about("reviewIssueTask", &words).await?.is_some() {
                self.player.game.change(|it| it.rejected += 1);
            }
            return Ok(());
        }
        let score = [1, 2, 5][usize::try_from(self.player.chance.below(3)).unwrap()];
        let mut words = swarm::of(&task.0, &task.1, &worker);
        words["completion_score"] = score.into();
        let Some(next) = self.about("getNextStepToken", &words).await? else { return Ok(()) };
        let mut words = swarm::verdict(&task.0, &task.1, Some(&next["next_step_token"]));
        words["submission_id"] = submission["id"].clone();
        words["completion_score"] = score.into();
        // Whatever is refused here is shown again, and judged anew.
        if self.about("reviewIssueTask", &words).await?.is_some() {
            let id = text(&submission["id"]);
            self.player.game.change(|it| {
                it.note("lead", format!("approved {} {} of {worker}: {id}", task.0, task.1));
                it.done.insert(task.clone());
                let before = it.reviewed.entry(task.clone()).or_insert_with(|| id.clone());
                assert_eq!(*before, id, "{task:?} was approved twice");
            });
        }
        Ok(())
    }

    /// Delivers an issue that is done, and closes it when that is approved.
    async fn end(&mut self, issue: &str, at: usize) -> Result<(), Not> {
        let of = json!({ "issue_id": issue });
        let shown = self.player.call("getIssue", &of).await?;
        // Closed in another life, before its answer came.
        if shown["status"] == "done" {
            self.player.game.change(|it| it.closed.insert(issue.to_owned()));
            return Ok(());
        }
        if shown["tasks"]["done"].as_u64() != Some(self.player.game.tasks_each as u64) {
            return Ok(());
        }
        let mut words = issues::delivered(issue, &["src/a.rs"], "all of it");
        words["summary"] = format!("all of it, {}", self.delivered[at]).into();
        words["timeout_sec"] = 1.into();
        let told = self.player.call("submitDelivery", &words).await?;
        match told["verdict"].as_str() {
            Some("approved") => match self.player.call("closeIssue", &of).await {
                // Closed by a call whose answer was lost.
                Err(Not::Refused(code, _)) if code == "issue_closed" => {}
                closed => drop(closed?),
            },
            Some(_) => {
                self.delivered[at] += 1;
                return Ok(());
            }
            None => return Ok(()),
        }
        self.player.note(format!("closed {issue}"));
        self.player.game.change(|it| it.closed.insert(issue.to_owned()));
        Ok(())
    }
}

impl Acceptor {
    pub(super) async fn play(mut self) {
        while !self.0.game.is_over() {
            match self.look().await {
                Ok(()) | Err(Not::Dead) => {}
                Err(Not::Refused(code, text)) => panic!("the acceptor was refused: {code} {text}"),
            }
        }
    }

    async fn look(&mut self) -> Result<(), Not> {
        for status in ["open", "in_review"] {
            let words = json!({ "timeout_sec": 1, "status": status });
            let told = self.0.call("waitDeliveries", &words).await?;
            for it in told["deliveries"].as_array().into_iter().flatten() {
                let id = text(&it["id"]);
                match self.judge(&id).await {
                    // Its claim ran out while it was away.
                    Err(Not::Refused(code, _))
                        if ["lease_lost", "not_claimant", "already_reviewed"]
                            .contains(&code.as_str()) => {}
                    judged => judged?,
                }
            }
        }
        Ok(())
    }

    async fn judge(&mut self, id: &str) -> Result<(), Not> {
        self.0.call("claimDelivery", &json!({ "delivery_id": id })).await?;
        let verdict = if self.0.once_in(3) { "rejected" } else { "approved" };
        self.0.call("reviewDelivery", &issues::verdict(id, verdict)).await?;
        self.0.note(format!("{verdict} {id}"));
        Ok(())
    }
}
