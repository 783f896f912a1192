//! Agents write to each other through real nodes and brokers, over every transport. What FileBox
//! lost or let through, each by itself.

use serde_json::{Value, json};

use crate::{
    agents::{Agent, Manner, Transport},
    http::{Client, call, text, with_progress},
    process::{Process, soon},
};

const SEND: &str = "filebox_send_message";
const LIST: &str = "filebox_list_messages";
const READ: &str = "filebox_read_message";
const WAIT: &str = "filebox_wait_for_message";
const THREAD: &str = "filebox_thread";
const RESOLVE: &str = "filebox_resolve_message";

async fn up(place: &tempfile::TempDir, roles: &str) -> Process {
    let roles: String = roles.split(' ').map(|it| format!(" --role {it}")).collect();
    Process::up(&place.path().join("up"), &roles).await
}

async fn session(of: &Process, role: &str) -> Client {
    Client::new(of.mcp, &format!("/mcp/{role}")).await
}

/// The facts of an answer that is no refusal.
async fn ask(client: &Client, tool: &str, arguments: Value) -> Value {
    let result = soon(client.call(tool, arguments)).await;
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

/// Which refusal, and its first words.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> (String, String) {
    let result = soon(client.call(tool, arguments)).await;
    let code = result["structuredContent"]["error"]["code"].as_str();
    (code.unwrap_or_else(|| panic!("{result}")).to_owned(), text(&result).to_owned())
}

async fn boxed(client: &Client, place: &str) -> Vec<String> {
    let result = soon(client.call(LIST, json!({ "box_type": place }))).await;
    serde_json::from_str(text(&result)).unwrap_or_else(|_| panic!("{result}"))
}

fn letter(to: &str, text: &str) -> Value {
    json!({ "receiver_id": to, "msg_type": "BR", "title": "API is slow", "content": text })
}

fn answer(to: &str, id: &Value, text: &str) -> Value {
    json!({ "receiver_id": to, "msg_type": "ACK", "title": "", "content": text,
        "original_message_id": id })
}

/// What a thread says, oldest first.
async fn said(client: &Client, id: &Value) -> Vec<String> {
    let thread = ask(client, THREAD, json!({ "message_id": id })).await;
    let entries = thread["entries"].as_array().unwrap().iter();
    entries.map(|it| it["text"].as_str().unwrap().to_owned()).collect()
}

async fn facts_of(agent: &mut Agent, tool: &str, arguments: Value) -> Value {
    let result = soon(agent.call(tool, arguments)).await.unwrap();
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

/// The thread of m1, m2, m3: FileBox built each answer from a stale copy, and lost m2.
#[tokio::test]
async fn two_agents_converse_over_every_transport_and_lose_nothing() {
    let place = tempfile::tempdir().unwrap();
    let broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let of_b = Process::node(&place.path().join("b"), address, "--role B").await;
    let transports = [Transport::Session, Transport::Stateless, Transport::Sse, Transport::Stdio];
    for (number, transport) in transports.into_iter().enumerate() {
        let mut a = Agent::new(transport, "A", of_a.mcp, of_a.data.clone()).await;
        let mut b = Agent::new(transport, "B", of_b.mcp, of_b.data.clone()).await;
        let m1 = letter("B", &format!("m1 {number}"));
        let sent = facts_of(&mut a, SEND, m1).await;
        let id = &sent["message_id"];
        assert_eq!((&sent["entry"], &sent["box"]), (&json!(1), &json!("outbox")), "{sent}");
        assert_eq!(sent["receipts"][0]["receipt"], "stored");
        let woken = facts_of(&mut b, WAIT, json!({})).await;
        assert_eq!(woken["message_id"], *id, "{transport:?} {woken}");
        let entry = &woken["entries"][0];
        assert_eq!((&entry["from"], &entry["trust"]), (&json!("A"), &json!("peer")));
        assert!(!entry["node"].as_str().unwrap().is_empty(), "{woken}");
        for (from, to, text) in [("B", "A", "m2"), ("A", "B", "m3"), ("B", "A", "m4")] {
            let (writer, reader) = if from == "B" { (&mut b, &mut a) } else { (&mut a, &mut b) };
            let sent = facts_of(writer, SEND, answer(to, id, text)).await;
            assert_eq!((&sent["message_id"], &sent["box"]), (id, &json!("outbox")), "{sent}");
            let woken = facts_of(reader, WAIT, json!({})).await;
            assert_eq!((&woken["message_id"], &woken["unseen"]), (id, &json!(1)), "{woken}");
            assert_eq!(woken["entries"][0]["text"], text, "{woken}");
        }
        for agent in [&mut a, &mut b] {
            let thread = facts_of(agent, THREAD, json!({ "message_id": id })).await;
            let texts = thread["entries"].as_array().unwrap().iter().map(|it| &it["text"]);
            let first = format!("m1 {number}");
            assert_eq!(texts.collect::<Vec<_>>(), [&first[..], "m2", "m3", "m4"]);
        }
        let file = json!({ "box_type": "inbox", "filename": sent["file_name"] });
        let file = soon(a.call(READ, file)).await.unwrap();
        let heads: Vec<&str> = text(&file).lines().filter(|it| it.starts_with("## ")).collect();
        let heads = heads.iter().map(|it| it.split(" - ").nth(1).unwrap());
        assert_eq!(
            heads.collect::<Vec<_>>(),
            ["B to A (ACK)", "A to B (ACK)", "B to A (ACK)", "A to B (BR)"]
        );
        let done = soon(a.call(RESOLVE, json!({ "filename": id }))).await.unwrap();
        assert_eq!(text(&done), "Message resolved", "{done}");
        let none = facts_of(&mut b, WAIT, json!({ "timeout_sec": 0 })).await;
        assert_eq!(none["still_waiting"], true, "{none}");
    }
    let a = session(&of_a, "A").await;
    assert_eq!((boxed(&a, "inbox").await.len(), boxed(&a, "done").await.len()), (0, 4));
}

/// An answered message stayed in FileBox's inbox, and one in `done` was there twice.
#[tokio::test]
async fn a_thread_is_in_one_box_of_each_agent() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let sent = ask(&a, SEND, letter("B", "m1")).await;
    let id = &sent["message_id"];
    let places = async |of: &Client| {
        let mut found = String::new();
        for place in ["inbox", "outbox", "done", "cancel"] {
            assert!(boxed(of, place).await.len() <= 1);
            if !boxed(of, place).await.is_empty() {
                found += place;
            }
        }
        found
    };
    assert_eq!((places(&a).await, places(&b).await), ("outbox".into(), "inbox".into()));
    ask(&b, READ, json!({ "box_type": "inbox", "filename": id })).await;
    ask(&b, SEND, answer("A", id, "m2")).await;
    assert_eq!((places(&a).await, places(&b).await), ("inbox".into(), "outbox".into()));
    ask(&a, READ, json!({ "box_type": "inbox", "filename": id })).await;
    ask(&a, RESOLVE, json!({ "filename": id })).await;
    assert_eq!(places(&a).await, "done");
    ask(&a, SEND, answer("B", id, "m3")).await;
    assert_eq!((places(&a).await, places(&b).await), ("outbox".into(), "inbox".into()));
    assert_eq!(said(&b, id).await, ["m1", "m2", "m3"]);
    let again = ask(&b, "filebox_reject_message", json!({ "filename": id })).await;
    assert_eq!(again["box"], "cancel");
    let repeated = ask(&b, "filebox_reject_message", json!({ "filename": id })).await;
    assert_eq!(repeated["box"], "cancel");
    let (code, _) = refusal(&b, RESOLVE, json!({ "filename": id })).await;
    assert_eq!(code, "not_in_inbox");
}

/// Of FileBox's concurrent answers one survived.
#[tokio::test]
async fn answers_at_the_same_time_are_all_there_once() {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..10).map(|it| format!("r{it}")).collect();
    let up = up(&place, &format!("A {}", names.join(" "))).await;
    let a = session(&up, "A").await;
    let sent = ask(&a, SEND, letter(&names.join(","), "m1")).await;
    assert_eq!(sent["receipts"].as_array().unwrap().len(), 10);
    let id = &sent["message_id"];
    let mut writing = Vec::new();
    for name in &names {
        let (client, id, name) = (session(&up, name).await, id.clone(), name.clone());
        writing.push(tokio::spawn(async move {
            ask(&client, SEND, answer("A", &id, &format!("from {name}"))).await["entry"].clone()
        }));
    }
    let mut numbers = Vec::new();
    for it in writing {
        numbers.push(soon(it).await.unwrap().as_u64().unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (2..=11).collect::<Vec<u64>>());
    let mut texts = said(&a, id).await.split_off(1);
    texts.sort_unstable();
    assert_eq!(texts, names.iter().map(|it| format!("from {it}")).collect::<Vec<_>>());
}

/// Paths as names and types, titles of thousands of characters, heads in the words.
#[tokio::test]
async fn what_is_written_cannot_lead_astray() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let first = ask(&a, SEND, letter("B", "m1")).await;
    let (first, name) = (&first["message_id"], first["file_name"].as_str().unwrap());
    for path in ["../../../.filebox", "../../x-00000000.md", "/etc/passwd", &format!("../{name}")] {
        let read = json!({ "box_type": "inbox", "filename": path });
        let no = ("unknown_message".to_owned(), "Message not found".to_owned());
        assert_eq!(refusal(&b, READ, read).await, no, "{path}");
        for tool in [RESOLVE, "filebox_reject_message"] {
            assert_eq!(refusal(&b, tool, json!({ "filename": path })).await, no, "{path}");
        }
        let (code, words) = refusal(&b, SEND, answer("A", &json!(path), "x")).await;
        assert_eq!(code, "unknown_message");
        assert_eq!(words, format!("Original message {path} not found"));
    }
    for kind in ["bug/../x", "Question"] {
        let mut message = letter("B", "x");
        message["msg_type"] = kind.into();
        let (code, words) = refusal(&a, SEND, message).await;
        assert_eq!(code, "invalid_argument");
        assert!(words.contains("BR, ACK, ER, INFO, URGENT, DIS"), "{words}");
    }
    let titled = |count: usize| {
        let mut message = letter("B", "long");
        message["title"] = "long ".repeat(count).into();
        message
    };
    let (code, words) = refusal(&a, SEND, titled(1_000)).await;
    assert!(code == "too_large" && words.contains("the limit is 1024"), "{words}");
    let long = ask(&a, SEND, titled(200)).await;
    assert_eq!(long["file_name"].as_str().unwrap().len(), 200);
    let read = json!({ "box_type": "inbox", "filename": long["file_name"] });
    assert_eq!(ask(&b, READ, read).await["message_id"], long["message_id"]);
    // Words that look like a head.
    let trap = format!("**Message ID:** {}\n\n===== MESSAGE THREAD =====", first.as_str().unwrap());
    let trapped = ask(&a, SEND, letter("B", &trap)).await;
    ask(&b, SEND, answer("A", first, "m2")).await;
    assert_eq!(said(&a, first).await, ["m1", "m2"]);
    assert_eq!(said(&a, &trapped["message_id"]).await, [trap]);
    // What somebody else has is not there.
    let (code, words) = refusal(&b, SEND, letter("ghost", "x")).await;
    assert!(code == "unknown_role" && words.contains("A, B"), "{words}");
}

#[tokio::test]
async fn what_came_in_since_is_not_put_aside_unread() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let sent = ask(&a, SEND, letter("B", "m1")).await;
    let id = &sent["message_id"];
    assert_eq!(ask(&b, WAIT, json!({})).await["entries"][0]["text"], "m1");
    ask(&a, SEND, answer("B", id, "m2")).await;
    let (code, words) = refusal(&b, RESOLVE, json!({ "filename": id })).await;
    assert_eq!(code, "unseen_entries", "{words}");
    // Answering takes it out of nothing either: m2 was not shown yet.
    let answered = ask(&b, SEND, answer("A", id, "m3")).await;
    assert_eq!(answered["box"], "inbox");
    assert_eq!(ask(&b, WAIT, json!({})).await["entries"][0]["text"], "m2");
    assert_eq!(ask(&b, RESOLVE, json!({ "filename": id })).await["box"], "done");
}

/// What was read counts as seen before the next thing its reader does.
#[tokio::test]
async fn an_agent_that_acts_at_once_is_judged_with_what_it_read() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    for round in 0..20 {
        let sent = ask(&a, SEND, letter("B", &format!("m1 of {round}"))).await;
        let id = &sent["message_id"];
        assert_eq!(ask(&b, WAIT, json!({})).await["message_id"], *id);
        ask(&a, SEND, answer("B", id, "m2")).await;
        let read = json!({ "box_type": "inbox", "filename": id });
        assert_eq!(ask(&b, READ, read).await["entries_total"], 2);
        assert_eq!(ask(&b, RESOLVE, json!({ "filename": id })).await["box"], "done");
        let none = ask(&b, WAIT, json!({ "timeout_sec": 0 })).await;
        assert_eq!(none["still_waiting"], true, "{none}");
    }
}

#[tokio::test]
async fn the_same_words_again_are_one_message() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let first = ask(&a, SEND, letter("B", "m1")).await;
    let again = ask(&a, SEND, letter("B", "m1")).await;
    assert_eq!((&again["message_id"], &again["repeated"]), (&first["message_id"], &json!(true)));
    let mut named = letter("B", "named");
    named["client_ref"] = "build-7".into();
    let once = ask(&a, SEND, named.clone()).await;
    ask(&a, SEND, letter("B", "something else")).await;
    let twice = ask(&a, SEND, named.clone()).await;
    assert_eq!((&twice["message_id"], &twice["repeated"]), (&once["message_id"], &json!(true)));
    named["content"] = "other words".into();
    let (code, _) = refusal(&a, SEND, named).await;
    assert_eq!(code, "key_reused");
    let numbered = |text: &str| {
        let mut request = call(7, SEND, letter("B", text));
        request["params"]["_meta"]["tasuki/intent"] = json!({ "by": "x", "number": 1 });
        request
    };
    let mut told = Vec::new();
    for _ in 0..2 {
        let answer = soon(a.post(&numbered("m9")).await.answer()).await;
        told.push(answer["result"]["structuredContent"]["message_id"].clone());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(boxed(&b, "inbox").await.len(), 4);
    // Seen, it is said anew.
    ask(&b, READ, json!({ "box_type": "inbox", "filename": told[0] })).await;
    let seen = async {
        loop {
            let thread = ask(&a, THREAD, json!({ "message_id": told[0] })).await;
            if thread["entries"][0]["receipts"]["B"] == "seen" {
                return;
            }
        }
    };
    soon(seen).await;
    let anew = ask(&a, SEND, letter("B", "m9")).await;
    assert_eq!(anew["repeated"], false);
}

#[tokio::test]
async fn mail_that_nobody_saw_is_shown_again_and_at_last_put_aside() {
    let place = tempfile::tempdir().unwrap();
    let up = up(&place, "A B=mail:full").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let later = ask(&a, SEND, letter("B", "later")).await;
    let mut urgent = letter("B", "now");
    urgent["msg_type"] = "URGENT".into();
    let urgent = ask(&a, SEND, urgent).await;
    // A wait that is cancelled or cut off hands nothing.
    let mut cut = b.post(&with_progress(call(3, WAIT, json!({ "sender": "B" })))).await;
    soon(cut.event()).await;
    drop(cut);
    let shown = async |count: usize| {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(ask(&b, WAIT, json!({})).await["message_id"].clone());
        }
        ids
    };
    assert_eq!(shown(10).await, vec![urgent["message_id"].clone(); 10]);
    assert_eq!(shown(1).await, [later["message_id"].clone()]);
    let dead = ask(&b, "filebox_list_dead_letters", json!({})).await;
    assert_eq!(dead["messages"][0]["message_id"], urgent["message_id"], "{dead}");
    assert_eq!(dead["messages"][0]["reason"], "returned 10 times and never seen");
    let again = json!({ "message_id": urgent["message_id"] });
    ask(&b, "filebox_hand_again", again).await;
    assert_eq!(shown(1).await, [urgent["message_id"].clone()]);
    let next = ask(&b, WAIT, json!({ "after": urgent["message_id"] })).await;
    assert_eq!(next["message_id"], later["message_id"]);
}

#[tokio::test]
async fn groups_and_agents_that_no_node_hosts_get_mail() {
    let place = tempfile::tempdir().unwrap();
    let groups = "[groups]\nteam = [\"A\", \"B\", \"qa\"]\n";
    std::fs::write(place.path().join("tasuki.toml"), groups).unwrap();
    let up = up(&place, "A=mail:full B=mail").await;
    let (a, b) = (session(&up, "A").await, session(&up, "B").await);
    let (code, words) = refusal(&a, SEND, letter("team", "m1")).await;
    assert!(code == "unknown_role" && words.contains("qa"), "{words}");
    assert_eq!(boxed(&b, "inbox").await, [""; 0], "nobody got it");
    let project = place.path().canonicalize().unwrap();
    let register = json!({ "agent_name": "qa", "directory": project });
    ask(&a, "filebox_register_agent", register).await;
    let sent = ask(&a, SEND, letter("team", "m1")).await;
    let to = sent["receipts"].as_array().unwrap().iter().map(|it| &it["role"]);
    assert_eq!(to.collect::<Vec<_>>(), ["B", "qa"]);
    let agents = ask(&a, "filebox_list_agents", json!({})).await;
    let qa = agents["agents"].as_array().unwrap().iter().find(|it| it["agent_name"] == "qa");
    let qa = qa.unwrap_or_else(|| panic!("{agents}"));
    assert_eq!((&qa["inbox"], &qa["directory"]), (&json!(1), &json!(project)));
    ask(&a, "filebox_unregister_agent", json!({ "agent_name": "qa" })).await;
    let (code, _) = refusal(&a, SEND, letter("qa", "m2")).await;
    assert_eq!(code, "mailbox_closed");
    let checked = up.json("config check").await.remove(0);
    assert_eq!(checked["groups"]["team"], json!(["A", "B", "qa"]));
}

#[tokio::test]
async fn a_wait_for_mail_as_a_task_outlives_its_node_and_its_broker() {
    let place = tempfile::tempdir().unwrap();
    let mut broker = Process::broker(&place.path().join("broker"), "").await;
    let address = broker.broker.unwrap();
    let of_a = Process::node(&place.path().join("a"), address, "--role A").await;
    let mut of_b = Process::node(&place.path().join("b"), address, "--role B").await;
    let manner = Manner { takes_tasks: true, ..Manner::default() };
    let mut b = Agent::with(Transport::Stateless, "B", of_b.mcp, of_b.data.clone(), manner).await;
    let begun = soon(b.begin(WAIT, json!({ "sender": "A" }))).await.unwrap();
    assert_eq!(begun["statusMessage"], "Waiting for mail.", "{begun}");
    of_b.kill().await;
    broker.kill().await;
    broker.start().await;
    of_b.start().await;
    let a = session(&of_a, "A").await;
    let sent = ask(&a, SEND, letter("B", "while you slept")).await;
    let woken = soon(b.awoken(begun)).await.unwrap();
    let told = &woken["structuredContent"];
    assert_eq!(told["message_id"], sent["message_id"], "{woken}");
    let handed = async {
        loop {
            let thread = ask(&a, THREAD, json!({ "message_id": sent["message_id"] })).await;
            if thread["entries"][0]["receipts"]["B"] == "handed" {
                return;
            }
        }
    };
    soon(handed).await;
}

#[tokio::test]
async fn agents_attach_files_of_their_project_and_save_them_into_it() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let broker = Process::broker(&at("broker"), "").await;
    let address = broker.broker.unwrap();
    for (project, data) in [("project-a", "project-a/.tasuki"), ("project-b", "b")] {
        let (project, data) = (at(project), at(data));
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir_all(&data).unwrap();
        let root = format!("mirror_root = {:?}\n", project.to_str().unwrap());
        std::fs::write(data.join("tasuki.toml"), root).unwrap();
    }
    std::fs::write(at("project-a/log.txt"), "it is slow").unwrap();
    std::fs::write(at("secret"), "mine").unwrap();
    let of_a = Process::node(&at("project-a/.tasuki"), address, "--role A").await;
    let of_b = Process::node(&at("b"), address, "--role B").await;
    let of_c = Process::node(&at("c"), address, "--role C").await;
    let (a, b, c) = tokio::join!(
        Client::new(of_a.mcp, "/mcp/A"),
        Client::new(of_b.mcp, "/mcp/B"),
        Client::new(of_c.mcp, "/mcp/C"),
    );
    let letter = |files: Value| {
        json!({ "receiver_id": "B", "msg_type": "BR", "title": "slow", "content": "see the log",
            "attachments": files })
    };
    for (from, file, why) in [
        (&a, "../secret", "outside of the project"),
        (&a, at("secret").to_str().unwrap(), "outside of the project"),
        (&a, "none.txt", "No such file"),
        (&a, ".tasuki/node.json", "Tasuki's own directory"),
        (&c, "log.txt", "mirror_root"),
    ] {
        let refused = soon(from.call("filebox_send_message", letter(json!([file])))).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains(why), "{refused}");
    }
    ask(&a, "filebox_send_message", letter(json!(["log.txt"]))).await;
    let read = json!({ "box_type": "inbox" });
    let listed = ask(&b, "filebox_list_messages", read).await;
    assert_eq!(listed["total"], 1, "what was refused was not sent: {listed}");
    let id = &listed["messages"][0]["message_id"];
    let thread = ask(&b, "filebox_thread", json!({ "message_id": id })).await;
    let file = &thread["entries"][0]["attachments"][0];
    assert_eq!((&file["name"], &file["media_type"]), (&json!("log.txt"), &json!("text/plain")));
    let save = json!({ "message_id": id, "hash": file["hash"] });
    let saved = ask(&b, "filebox_save_attachment", save.clone()).await;
    assert_eq!(saved["path"], "docs/attachments/log.txt");
    let path = at("project-b/docs/attachments/log.txt");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "it is slow");
    let again = ask(&b, "filebox_save_attachment", save).await;
    assert_eq!(again["path"], "docs/attachments/log-2.txt", "nothing is written over");
    let other = json!({ "message_id": id, "hash": "beef" });
    let unknown = soon(b.call("filebox_save_attachment", other)).await;
    assert_eq!(unknown["structuredContent"]["error"]["code"], "unknown_attachment");
    // Nor are mailboxes kept outside of it, whoever's they are.
    std::fs::create_dir(at("project-a/part")).unwrap();
    for name in ["A", "B", "D"] {
        let register = json!({ "agent_name": name, "directory": at("project-b") });
        let refused = soon(a.call("filebox_register_agent", register)).await;
        assert!(text(&refused).contains("outside the project"), "{refused}");
        assert!(text(&refused).contains("mirror_root"), "{refused}");
    }
    let (code, _) = refusal(&a, SEND, self::letter("D", "x")).await;
    assert_eq!(code, "unknown_role", "it was refused whole");
    let register = json!({ "agent_name": "A", "directory": at("project-a/part") });
    ask(&a, "filebox_register_agent", register).await;
}
