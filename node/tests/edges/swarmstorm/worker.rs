//! A worker: finds a task, locks files, asks, writes, submits, and goes on.

use serde_json::{Value, json};

use super::{
    CLAIM_MS, LOCK_MS,
    history::Task,
    player::{Not, Player},
};
use crate::swarm::{of, result};

/// Files that all of them work on.
const FILES: u64 = 12;

/// Times that it tries to lock before it works on without.
const LOCKS_MAX: u64 = 3;

pub(super) struct Worker(pub(super) Player);

/// What it has to do with a task.
struct Next {
    task: Task,
    token: Value,
}

impl Worker {
    pub(super) async fn play(mut self) {
        while !self.0.game.is_over() {
            match self.live().await {
                Ok(()) | Err(Not::Dead) => {}
                Err(Not::Refused(code, text)) => {
                    let told = self.0.game.history.borrow().of_roles(&[&self.0.role]);
                    panic!("{} was refused: {code} {text}\n{told}", self.0.role);
                }
            }
        }
    }

    /// One life. It begins with what others remember of it.
    async fn live(&mut self) -> Result<(), Not> {
        self.0.call("registerWorker", &json!({})).await?;
        let mine = self.0.call("myProfile", &json!({})).await?;
        for claim in mine["worker"]["claims"].as_array().into_iter().flatten() {
            let task = (text(&claim["issue_id"]), text(&claim["task_id"]));
            self.work(task).await?;
        }
        while !self.0.game.is_over() {
            self.find().await?;
        }
        Ok(())
    }

    async fn find(&mut self) -> Result<(), Not> {
        let open: Vec<String> = {
            let it = self.0.game.history.borrow();
            it.issues.iter().filter(|issue| !it.closed.contains(*issue)).cloned().collect()
        };
        if open.is_empty() {
            let game = self.0.game.clone();
            let mut history = game.history.subscribe();
            let issues = game.issues;
            let there = history.wait_for(|it| !it.issues.is_empty() || it.closed.len() == issues);
            drop(crate::process::soon(there).await.unwrap());
            tokio::task::yield_now().await;
            return Ok(());
        }
        let which = usize::try_from(self.0.chance.below(open.len() as u64)).unwrap();
        let issue = &open[which];
        let wait = json!({ "issue_id": issue, "timeout_sec": 1 });
        let told = self.0.call("waitIssueTasks", &wait).await?;
        for task in told["tasks"].as_array().into_iter().flatten() {
            let task = (issue.clone(), text(&task["id"]));
            let mut next = Some(Next { task, token: Value::Null });
            while let Some(it) = next {
                next = if self.claim(&it).await? { self.work(it.task).await? } else { None };
            }
        }
        Ok(())
    }

    /// Whether it is the worker's.
    async fn claim(&mut self, next: &Next) -> Result<bool, Not> {
        let (issue, task) = &next.task;
        let mut words = of(issue, task, &self.0.role);
        if !next.token.is_null() {
            words["next_step_token"] = next.token.clone();
        }
        match self.0.call("claimIssueTask", &words).await {
            Ok(told) => {
                let until = told["lease_expires_at_ms"].as_u64().unwrap();
                let role = self.0.role.clone();
                self.0.game.change(|it| {
                    it.note(&role, format!("claimed {issue} {task} until {until}"));
                    it.claimed.insert((next.task.clone(), role.clone()));
                    let name = format!("{issue}/{task}");
                    it.has(&name, &role, until - CLAIM_MS, until, &next.task);
                });
                Ok(true)
            }
            Err(Not::Refused(code, text)) => match code.as_str() {
                "task_already_claimed" | "task_reserved" | "task_blocked" | "issue_closed" => {
                    Ok(false)
                }
                "invalid_next_step_token" if !next.token.is_null() => Ok(false),
                _ => Err(Not::Refused(code, text)),
            },
            Err(dead) => Err(dead),
        }
    }

    /// A call about the claimed task; `None`: it is no longer the worker's.
    async fn about(
        &mut self,
        task: &Task,
        tool: &str,
        words: &Value,
    ) -> Result<Option<Value>, Not> {
        match self.0.call(tool, words).await {
            Ok(told) => Ok(Some(told)),
            Err(Not::Refused(code, text)) => match code.as_str() {
                "not_claimant"
                | "lease_lost"
                | "stale_token"
                | "task_already_claimed"
                | "issue_closed" => {
                    self.over(task);
                    Ok(None)
                }
                _ => Err(Not::Refused(code, text)),
            },
            Err(dead) => Err(dead),
        }
    }

    fn over(&self, task: &Task) {
        self.0.game.change(|it| it.ends(&self.0.role, task));
    }

    /// From the claim to the verdict; what comes after it.
    async fn work(&mut self, task: Task) -> Result<Option<Next>, Not> {
        let (issue, name) = (task.0.clone(), task.1.clone());
        let lease = self.lock(&task).await?;
        if self.0.once_in(6) {
            let mut words = of(&issue, &name, &self.0.role);
            words["content"] = format!("is {} right?", self.0.words()).into();
            words["timeout_sec"] = 1.into();
            let told = loop {
                let Some(told) = self.about(&task, "askIssueTask", &words).await? else {
                    return Ok(None);
                };
                if !is_pending(&told) {
                    break told;
                }
            };
            if told["message"]["status"] != "replied" {
                self.0.note(format!("no reply about {issue} {name} : {told}"));
                self.over(&task);
                return Ok(None);
            }
            let about = text(&words["content"]);
            assert_eq!(told["message"]["reply_content"], format!("yes: {about}"), "{told}");
            self.0.game.change(|it| it.answered += 1);
        }
        if self.0.once_in(2) {
            let mut words = of(&issue, &name, &self.0.role);
            (words["name"], words["content"]) = ("notes".into(), self.0.words().into());
            if self.about(&task, "writeTaskDoc", &words).await?.is_none() {
                return Ok(None);
            }
        }
        if let Some(lease) = lease
            && self.0.once_in(2)
        {
            self.unlock(&task, &lease).await?;
        }
        self.submit(task).await
    }

    async fn lock(&mut self, task: &Task) -> Result<Option<String>, Not> {
        for _ in 0..LOCKS_MAX {
            let first = self.0.chance.below(FILES);
            let files: Vec<String> = (0..=self.0.chance.below(3))
                .map(|it| format!("src/{}.rs", (first + it) % FILES))
                .collect();
            let mut words = of(&task.0, &task.1, &self.0.role);
            words["files"] = json!(files);
            words["wait_sec"] = self.0.chance.below(2).into();
            match self.0.call("lockFiles", &words).await {
                Ok(told) => {
                    let until: jiff::Timestamp = text(&told["expires_at"]).parse().unwrap();
                    let until = u64::try_from(until.as_millisecond()).unwrap();
                    let (role, lease) = (self.0.role.clone(), text(&told["lease_id"]));
                    self.0.game.change(|it| {
                        let line = format!("locked {files:?} until {until} by {lease} for");
                        it.note(&role, format!("{line} {} {} ", task.0, task.1));
                        it.locked += 1;
                        // Locks end with the claim that they are for.
                        let sure = until.min(it.claimed_until(&role, task));
                        for file in &files {
                            it.has(file, &role, until - LOCK_MS, sure, task);
                        }
                    });
                    return Ok(Some(lease));
                }
                Err(Not::Refused(code, _)) if code == "file_is_locked" => {}
                // The claim may be over; what comes next says so.
                Err(Not::Refused(code, _))
                    if ["not_claimant", "lease_lost", "task_already_claimed", "issue_closed"]
                        .contains(&code.as_str()) =>
                {
                    return Ok(None);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(None)
    }

    async fn unlock(&mut self, task: &Task, lease: &str) -> Result<(), Not> {
        let role = self.0.role.clone();
        self.0.game.change(|it| it.ends_files(&role, task));
        let words = json!({ "lease_id": lease, "worker_id": role });
        match self.0.call("unlock", &words).await {
            Ok(_) => Ok(()),
            Err(Not::Refused(code, _))
                if ["lease_lost", "lease_not_found"].contains(&code.as_str()) =>
            {
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    async fn submit(&mut self, task: Task) -> Result<Option<Next>, Not> {
        loop {
            let role = self.0.role.clone();
            // What it has ends with the approval, which may come before its answer.
            self.0.game.change(|it| it.ends(&role, &task));
            let summary = self.0.words();
            let mut words = result(&task.0, &task.1, &role, &summary);
            words["timeout_sec"] = 1.into();
            self.0.note(format!("submits {} {} as {summary}", task.0, task.1));
            let told = loop {
                let Some(told) = self.about(&task, "submitIssueTask", &words).await? else {
                    return Ok(None);
                };
                let submitted = (task.clone(), role.clone());
                self.0.game.change(|it| it.submitted.insert(summary.clone(), submitted));
                if !is_pending(&told) {
                    break told;
                }
            };
            let it = &told["submission"];
            match it["status"].as_str().unwrap_or_else(|| panic!("{told}")) {
                "approved" => {
                    self.0.note(format!("approved {} {} as {}", task.0, task.1, it["id"]));
                    self.0.game.change(|history| history.approves(&task, &role, &text(&it["id"])));
                    let next = &it["next"];
                    if next["next_step"]["type"] != "claim_task" {
                        return Ok(None);
                    }
                    let name = text(&next["next_step"]["task_id"]);
                    let token = next["next_step_token"].clone();
                    return Ok(Some(Next { task: (task.0, name), token }));
                }
                "rejected" => self.0.note(format!("rejected {} {} ", task.0, task.1)),
                "reset" => {
                    self.0.note(format!("reset {} {} ", task.0, task.1));
                    return Ok(None);
                }
                // Its own later words, of another life.
                "superseded" => {}
                other => panic!("{other}: {told}"),
            }
        }
    }
}

fn is_pending(told: &Value) -> bool {
    told["status"] == "still_waiting" || told["status"] == "superseded"
}

pub(super) fn text(it: &Value) -> String {
    it.as_str().unwrap_or_else(|| panic!("no text: {it}")).to_owned()
}
