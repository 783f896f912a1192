//! One issue's directory, as it is taken over.
//!
//! Whatever cannot be read or does not fit is left out and told; the rest comes over. Numbers of
//! tasks stay: one that cannot be read has a canceled one in its place.

use std::{collections::BTreeMap, path::Path};

use prost::Message as _;
use serde_json::Value;
use tasuki_proto::{
    counted::{agreeing, counted},
    limits::{
        DOC_BYTES_MAX, DOCS_MAX, POINTS_MAX, SUBJECT_BYTES_MAX, SWARM_WORDS_BYTES_MAX,
        TASK_MESSAGES_MAX, TEXT_BYTES_MAX,
    },
    swarm::{DocName, IssueId, TaskMessageId, TaskNumber},
    wire::{self, MessageStatus, TaskStatus},
};

use super::{
    fields::{Fields, cut},
    files::Reading,
    fit::{CALL_BYTES_MAX, Fitted, fit_call},
    history::History,
    names::Names,
};
use crate::cli::text;

/// Numbers of tasks in a row that no file is of. More is a number that no task has.
const GAP_MAX: u32 = 1000;

/// The log of an issue, in bytes.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What an event says, and the name of who did it, in bytes.
pub(super) const DETAIL_BYTES_MAX: usize = 4 * 1024;
const ACTOR_BYTES_MAX: usize = 256;

/// Paths of documents that belong to an issue, in bytes.
const DOC_PATHS_BYTES_MAX: usize = 64 * 1024;

/// Of a worker: a sum of points that others still fit beside, and verdicts in a row.
const TOTAL_POINTS_MAX: u32 = u32::MAX / 4;
const LOW_SCORES_MAX: u32 = 1000;

/// References beside a text, in bytes.
pub(super) const REFS_BYTES_MAX: usize = 16 * 1024;

/// What was read of an issue, and what was changed about it.
#[derive(Debug)]
pub(super) struct ReadIssue {
    /// Without caller, key and person.
    pub request: wire::ImportIssueRequest,
    /// Documents that this has no room for.
    pub later: Vec<wire::Doc>,
    pub history: History,
    pub events: usize,
    pub notes: Vec<String>,
}

impl ReadIssue {
    pub(super) fn id(&self) -> &str {
        self.request.issue.as_ref().map_or("", |it| &it.issue_id)
    }
}

/// Reads the issue in `directory`, with the deliveries that are its.
pub(super) fn read(
    directory: &Path,
    deliveries: &[(String, Value)],
    names: &mut Names,
    reading: &mut Reading,
) -> Option<ReadIssue> {
    let file = directory.join("issue.json");
    let Some(json) = reading.json(&file) else {
        if !file.exists() {
            reading.skip(directory, "has no issue.json");
        }
        return None;
    };
    let it = Fields(&json);
    let folder = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let created_ms = it.time(&["created_at"]);
    let own = it.text(&["id"]);
    let name = if own.parse::<IssueId>().is_ok() { own } else { folder };
    let mut gatherer = IssueReader {
        directory,
        id: names.id(&name, created_ms, IssueId),
        names,
        reading,
        issue: wire::Issue::default(),
        whole: wire::ImportIssueRequest::default(),
        events: Vec::new(),
        notes: Vec::new(),
    };
    gatherer.begin(it, created_ms);
    let tasks = gatherer.tasks();
    gatherer.submissions(&tasks);
    gatherer.messages();
    gatherer.docs();
    gatherer.points();
    let reopened_ms = gatherer.events();
    gatherer.end(it, &name, deliveries, reopened_ms);
    gatherer.finish()
}

pub(super) struct IssueReader<'a> {
    pub(super) directory: &'a Path,
    id: IssueId,
    pub(super) names: &'a mut Names,
    pub(super) reading: &'a mut Reading,
    pub(super) issue: wire::Issue,
    /// Without the issue, until all of it was read.
    pub(super) whole: wire::ImportIssueRequest,
    /// A line each.
    events: Vec<String>,
    notes: Vec<String>,
}

impl IssueReader<'_> {
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Tells of times that cannot be read.
    pub(super) fn times(&mut self, what: &str, it: Fields<'_>) {
        for odd in it.odd_times() {
            self.note(format!("{what} has {odd}, which is no time, and now none there"));
        }
    }

    /// A number within its limit.
    fn count(&mut self, what: &str, it: Fields<'_>, name: &str, limit: u32) -> u32 {
        let told = match it.number(name) {
            Ok(number) if number <= u64::from(limit) => {
                return u32::try_from(number).unwrap_or(limit);
            }
            Ok(number) => Ok(number),
            Err(odd) => Err(odd),
        };
        let shown = name.replace('_', " ");
        let (told, now) = match told {
            Ok(number) => (number.to_string(), limit),
            Err(odd) => (odd, 0),
        };
        self.note(format!("{what} has {told} {shown}, and now {now}"));
        now
    }

    /// A text within its limit.
    pub(super) fn fit(&mut self, what: &str, text: String, limit: usize) -> String {
        let bytes = text.len();
        let (text, is_cut) = cut(text, limit);
        if is_cut {
            self.note(format!("{what} has {bytes} bytes and is cut to {limit}"));
        }
        text
    }

    /// A line that lists show.
    fn subject(&mut self, what: &str, text: &str) -> String {
        let line = text.replace(char::is_control, " ");
        let line = line.trim();
        if line.is_empty() {
            return format!("({what} has no subject)");
        }
        self.fit(&format!("the subject of {what}"), line.to_owned(), SUBJECT_BYTES_MAX)
    }

    fn begin(&mut self, it: Fields<'_>, created_ms: u64) {
        self.times("the issue", it);
        let mut paths = [it.texts("shared_doc_paths"), it.texts("project_doc_paths")];
        if DOC_PATHS_BYTES_MAX < paths.iter().flatten().map(String::len).sum() {
            self.note("the paths of its documents are too long, and stay");
            paths = [Vec::new(), Vec::new()];
        }
        let [shared_doc_paths, project_doc_paths] = paths;
        let description = it.text(&["description"]);
        self.issue = wire::Issue {
            issue_id: self.id.to_string(),
            subject: self.subject("the issue", &it.text(&["subject"])),
            description: self.fit("the description", description, TEXT_BYTES_MAX),
            shared_doc_paths,
            project_doc_paths,
            created_ms,
            ..wire::Issue::default()
        };
    }

    /// Returns what was read of each.
    fn tasks(&mut self) -> BTreeMap<u32, Value> {
        let folder = self.directory.join("tasks");
        let mut read: BTreeMap<u32, Option<Value>> = BTreeMap::new();
        for stem in self.reading.stems(&folder, ".json") {
            let path = folder.join(format!("{stem}.json"));
            match stem.parse::<TaskNumber>() {
                Ok(number) => _ = read.insert(number.0, self.reading.json(&path)),
                Err(_) => self.reading.skip(&path, "is named like no task"),
            }
        }
        let mut last = 0;
        let far = read.keys().copied().find(|number| {
            let is_far = GAP_MAX < number.saturating_sub(last);
            last = *number;
            is_far
        });
        if let Some(far) = far {
            for number in read.split_off(&far).into_keys() {
                let path = folder.join(format!("task-{number}.json"));
                self.reading.skip(&path, "has a number far beyond the others");
            }
        }
        let count = read.keys().next_back().copied().unwrap_or(0);
        let mut known = BTreeMap::new();
        for number in 1..=count {
            let task = match read.remove(&number).flatten() {
                Some(json) => {
                    let task = self.task(number, count, Fields(&json));
                    known.insert(number, json);
                    task
                }
                None => {
                    self.note(format!(
                        "task-{number} could not be read, a canceled one has its place"
                    ));
                    wire::Task {
                        task_id: format!("task-{number}"),
                        subject: format!("(task-{number} could not be read)"),
                        difficulty: wire::Difficulty::Easy.into(),
                        status: TaskStatus::Canceled.into(),
                        created_ms: self.issue.created_ms,
                        updated_ms: self.issue.created_ms,
                        ..wire::Task::default()
                    }
                }
            };
            self.whole.tasks.push(task);
        }
        known
    }

    fn task(&mut self, number: u32, count: u32, it: Fields<'_>) -> wire::Task {
        let what = format!("task-{number}");
        let difficulty = match it.text(&["difficulty"]).as_str() {
            "easy" => wire::Difficulty::Easy,
            "medium" => wire::Difficulty::Medium,
            "focus" => wire::Difficulty::Focus,
            other => {
                self.note(format!("{what} has the difficulty {other:?}, and becomes easy"));
                wire::Difficulty::Easy
            }
        };
        self.times(&what, it);
        let points = self.count(&what, it, "points", POINTS_MAX);
        let status = match it.text(&["status"]).as_str() {
            "open" => TaskStatus::Open,
            "done" => TaskStatus::Done,
            "canceled" => TaskStatus::Canceled,
            other => {
                let holder = it.text(&["claimed_by"]);
                let by = if holder.is_empty() { String::new() } else { format!(" by {holder}") };
                self.note(format!("{what} was {other}{by}, and is open: claims do not come over"));
                TaskStatus::Open
            }
        };
        let is_done = status == TaskStatus::Done;
        let worker = if is_done { it.text(&["claimed_by", "submitter"]) } else { String::new() };
        let mut words = self.task_words(&what, count, it);
        if SWARM_WORDS_BYTES_MAX < words.encoded_len() {
            self.note(format!("the words of {what} are too long: only its description comes over"));
            let (description, _) = cut(words.description, TEXT_BYTES_MAX);
            words = wire::TaskWords { description, ..wire::TaskWords::default() };
        }
        let created_ms = it.time(&["created_at"]);
        wire::Task {
            task_id: what.clone(),
            subject: self.subject(&what, &it.text(&["subject"])),
            difficulty: difficulty.into(),
            points,
            status: status.into(),
            claimed_by: self.names.role(&worker),
            created_ms,
            updated_ms: it.time(&["updated_at"]).max(created_ms),
            words: Some(words),
            ..wire::Task::default()
        }
    }

    fn task_words(&mut self, what: &str, count: u32, it: Fields<'_>) -> wire::TaskWords {
        let spec = it.object("spec");
        let said = |name: &str| {
            let inner = spec.lines(name);
            if inner.is_empty() { it.lines(name) } else { inner }
        };
        let is_there = |id: &String| id.parse::<TaskNumber>().is_ok_and(|it| it.0 <= count);
        let mut docs = |name: &str| {
            let (good, bad): (Vec<_>, Vec<_>) =
                it.texts(name).into_iter().partition(|it| it.parse::<DocName>().is_ok());
            for name in bad {
                self.notes.push(format!("{what} requires a document {name:?}, which is no name"));
            }
            good
        };
        let required_issue_docs = docs("required_issue_docs");
        let required_task_docs = docs("required_task_docs");
        wire::TaskWords {
            description: it.text(&["description"]),
            context_task_ids: it.texts("context_task_ids").into_iter().filter(is_there).collect(),
            suggested_files: it.texts("suggested_files"),
            labels: it.texts("labels"),
            doc_paths: it.texts("doc_paths"),
            required_issue_docs,
            required_task_docs,
            spec: Some(wire::TaskSpec {
                name: spec.text(&["name"]),
                split_from: said("split_from"),
                split_reason: said("split_reason"),
                impact_scope: said("impact_scope"),
                context_task_ids: Vec::new(),
                goal: said("goal"),
                rules: said("rules"),
                constraints: said("constraints"),
                conventions: said("conventions"),
                acceptance: said("acceptance"),
            }),
        }
    }

    fn messages(&mut self) {
        let folder = self.directory.join("messages");
        let mut found = self.reading.objects(&folder);
        found.sort_by_key(|(_, json)| Fields(json).time(&["created_at"]));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (stem, json) in found {
            let (it, path) = (Fields(&json), folder.join(format!("{stem}.json")));
            let task_id = it.text(&["task_id"]);
            let is_there = self.is_task(&task_id);
            let count = counts.entry(task_id.clone()).or_default();
            if !is_there || TASK_MESSAGES_MAX <= *count {
                let why =
                    if is_there { "is one of too many of its task" } else { "is about no task" };
                self.reading.skip(&path, why);
                continue;
            }
            *count += 1;
            let at = it.time(&["created_at"]);
            let id = self.names.id(&stem, at, TaskMessageId).to_string();
            self.times(&id, it);
            let kind = it.text(&["kind"]);
            let known = ["question", "blocker", "progress", "feedback", "message"];
            let is_known = known.contains(&kind.as_str());
            if !is_known {
                self.note(format!("{id} is of the kind {kind:?}, and becomes a message"));
            }
            let status = it.text(&["status"]);
            let is_replied = status == "replied" || !it.text(&["reply_content"]).is_empty();
            if !is_replied && status == "open" && ["question", "blocker"].contains(&kind.as_str()) {
                self.note(format!("{id} had no reply, and gets none any more: ask again"));
            }
            let sender = it.text(&["sender_id", "worker_id"]);
            let sender = if sender.is_empty() { "unknown".to_owned() } else { sender };
            let reply = it.text(&["reply_content"]);
            let message = wire::TaskMessage {
                task_id,
                sender: self.names.role(&sender),
                kind: if is_known { kind } else { "message".to_owned() },
                content: self.fit(&id, it.text(&["content"]), TEXT_BYTES_MAX),
                refs: self.fit(&id, it.lines("refs"), REFS_BYTES_MAX),
                status: if is_replied { MessageStatus::Replied } else { MessageStatus::Resolved }
                    .into(),
                created_ms: at,
                reply: self.fit(&id, reply, TEXT_BYTES_MAX),
                replied_by: self.names.role(&it.text(&["reply_by"])),
                replied_ms: it.time(&["replied_at"]).max(at),
                message_id: id,
                ..wire::TaskMessage::default()
            };
            self.whole.messages.push(message);
        }
    }

    fn is_task(&self, id: &str) -> bool {
        let count = self.whole.tasks.len();
        id.parse::<TaskNumber>().is_ok_and(|it| it.index() < count)
    }

    fn docs(&mut self) {
        // The history is one as well.
        let own = docs(&self.directory.join("docs"), DOCS_MAX - 1, self.reading);
        let tasks = self.directory.join("tasks");
        let of_tasks = self.reading.stems(&tasks, ".docs");
        let mut all: Vec<(String, Vec<(String, String)>)> = vec![(String::new(), own)];
        for task in of_tasks {
            let folder = tasks.join(format!("{task}.docs"));
            if self.is_task(&task) {
                all.push((task, docs(&folder, DOCS_MAX, self.reading)));
            } else {
                self.reading.skip(&folder, "is of no task");
            }
        }
        for (task_id, docs) in all {
            for (name, content) in docs {
                let place = wire::DocPlace { task_id: task_id.clone(), ..Default::default() };
                let doc = wire::Doc { place: Some(place), name, content, ..Default::default() };
                self.whole.docs.push(doc);
            }
        }
    }

    /// Workers who become one role have their points together.
    fn points(&mut self) {
        let folder = self.directory.join("workers");
        let mut roles: BTreeMap<String, (u32, u32, usize)> = BTreeMap::new();
        for (stem, json) in self.reading.objects(&folder) {
            let it = Fields(&json);
            let worker = it.text(&["worker_id"]);
            let worker = self.names.role(if worker.is_empty() { &stem } else { &worker });
            let low = self.count(&worker, it, "consecutive_low_scores", LOW_SCORES_MAX);
            let points = self.count(&worker, it, "total_points", TOTAL_POINTS_MAX);
            let (sum, lowest, workers) = roles.entry(worker).or_default();
            // Each is at most a fourth of what there is room for.
            *sum = (*sum + points).min(TOTAL_POINTS_MAX);
            *lowest = low.max(*lowest);
            *workers += 1;
        }
        for (worker, (points, low, workers)) in roles {
            if 1 < workers {
                self.note(format!(
                    "the {} who become {worker} have their points added up: {points}",
                    counted(workers, "worker")
                ));
            }
            let (total_points, consecutive_low_scores) = (points.into(), low);
            let points = wire::WorkerPoints { worker, total_points, consecutive_low_scores };
            self.whole.points.push(points);
        }
    }

    /// Returns when it was reopened last.
    fn events(&mut self) -> u64 {
        let path = self.directory.join("events.jsonl");
        let Some(text) = self.reading.text(&path, LOG_BYTES_MAX) else { return 0 };
        let mut reopened_ms = 0;
        let (mut bad, mut untimed) = (0, 0);
        for line in text.lines().filter(|it| !it.trim().is_empty()) {
            let Ok(json) = serde_json::from_str::<Value>(line) else {
                bad += 1;
                continue;
            };
            let it = Fields(&json);
            let kind = it.text(&["type"]);
            let at = it.time(&["timestamp"]);
            untimed += usize::from(it.odd_times().next().is_some());
            if kind == "issue_reopened" {
                reopened_ms = at;
            }
            let task_id = it.text(&["task_id"]);
            let task_id = if self.is_task(&task_id) { task_id } else { String::new() };
            let about = it.text(&["submission_id", "message_id", "delivery_id"]);
            let about = self.names.changed.get(&about).cloned().unwrap_or(about);
            let kind = if kind.is_empty() { "untold".to_owned() } else { cut(kind, 64).0 };
            let mut event = format!("{} {kind}", text::utc_time(at));
            for (before, said, after, limit) in [
                (" ", it.text(&["kind"]), "", 64),
                (" ", task_id, "", 64),
                (" ", about, "", 64),
                (" by ", it.text(&["actor"]), "", ACTOR_BYTES_MAX),
                (": ", it.lines("detail"), "", DETAIL_BYTES_MAX),
                (" (", it.lines("refs"), ")", DETAIL_BYTES_MAX),
            ] {
                if !said.is_empty() {
                    event += &format!("{before}{}{after}", cut(said, limit).0);
                }
            }
            self.events.push(text::line(&event));
        }
        if untimed != 0 {
            let (events, have) = (counted(untimed, "event"), agreeing(untimed, "has", "have"));
            self.note(format!("{events} {have} a time that cannot be read, and now none"));
        }
        if bad != 0 {
            self.reading.skip(
                &path,
                format!("has {} without JSON; the others are taken", counted(bad, "line")),
            );
        }
        reopened_ms
    }

    /// The call that takes it over; `None`: told as skipped, for it fits into none.
    fn finish(mut self) -> Option<ReadIssue> {
        self.whole.issue = Some(std::mem::take(&mut self.issue));
        let (history, older) = History::add(&mut self.whole, &self.events);
        if older != 0 {
            self.note(format!("has too long a log: {} stay", counted(older, "older event")));
        }
        let Fitted { mut later, shortened, notes: cut } =
            match fit_call(&mut self.whole, &history.name) {
                Ok(fitted) => fitted,
                Err(bytes) => {
                    let why = format!("has {bytes} bytes; one issue has at most {CALL_BYTES_MAX}");
                    self.reading.skip(self.directory, why);
                    return None;
                }
            };
        if shortened != 0 {
            self.note(format!(
                "is too large for one call: diff and test output of its {} stay",
                counted(shortened, "oldest submission")
            ));
        }
        self.notes.extend(cut);
        for doc in &mut later {
            doc.place.get_or_insert_default().issue_id = self.id.to_string();
        }
        let Self { whole: request, events, notes, .. } = self;
        Some(ReadIssue { request, later, history, events: events.len(), notes })
    }
}

/// Documents of one place, by name, at most so many.
pub(super) fn docs(folder: &Path, limit: usize, reading: &mut Reading) -> Vec<(String, String)> {
    let mut docs = BTreeMap::new();
    for file in reading.names(folder) {
        let path = folder.join(&file);
        match file.parse::<DocName>() {
            Err(_) => reading.skip(&path, "has a name that no document may have"),
            Ok(_) if limit <= docs.len() => reading.skip(&path, "is one of too many documents"),
            Ok(name) if docs.contains_key(name.as_str()) => {
                reading.skip(&path, "is the second document of this name");
            }
            Ok(name) => {
                if let Some(text) = reading.text(&path, DOC_BYTES_MAX as u64) {
                    docs.insert(name.to_string(), text);
                }
            }
        }
    }
    docs.into_iter().collect()
}
