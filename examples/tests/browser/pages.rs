//! Every page, and everything that a person does there.

use futures::{StreamExt as _, stream};
use tasuki_proto::wire;

use super::{driver::Driver, scene::Scene};

const ROLES: [&str; 4] = ["A", "B", "lead", "worker1"];

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn a_person_sees_the_relay_and_steps_in() {
    let scene = Scene::start(&ROLES).await;
    scene.hand_over("A", "The API is **done**: `GET /health`.", "Build the UI on it.").await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    browser.go(&scene.page("now")).await;

    // Who holds the turn, and what was handed over.
    browser.sees("Turn 2 is with B").await;
    browser.sees("Build the UI on it.").await;
    assert_eq!(browser.count(".loop .words strong").await, 1, "Markdown is shown");
    browser.until("document.querySelector('#live.on')").await;
    browser.picture("now.png").await;

    // What happens appears by itself.
    scene.hand_over("B", "Built the UI.", "Review the layout.").await;
    browser.sees("Turn 3 is with A").await;
    browser.sees("Review the layout.").await;

    // A person starts a loop, hands over in it, and takes a turn back.
    browser
        .fill(
            "#new-loop",
            &[
                ("loop", "review"),
                ("participants", "human, A, B"),
                ("instruction", "Find what breaks."),
            ],
        )
        .await;
    browser
        .until("document.querySelector('#loop-review')?.innerText.includes('Turn 2 is with A')")
        .await;
    browser.fill("#reclaim-review", &[("to", "human"), ("reason", "A went to lunch")]).await;
    browser
        .until("document.querySelector('#loop-review')?.innerText.includes('Turn 3 is with human')")
        .await;
    browser
        .fill(
            "#handover-review",
            &[("summary", "Looked myself."), ("instruction", "Go on."), ("to", "B")],
        )
        .await;
    browser
        .until("document.querySelector('#loop-review')?.innerText.includes('Turn 4 is with B')")
        .await;
    let history = scene
        .call(wire::HistoryRequest { r#loop: "review".to_owned(), from: 1, ..Default::default() })
        .await;
    let told: Vec<_> = history
        .entries
        .iter()
        .map(|it| (it.from.as_str(), it.to.as_str(), it.person.as_str()))
        .collect();
    assert_eq!(told, [("human", "A", ""), ("A", "human", "human"), ("human", "B", "")]);

    // A form that was refused keeps what was typed, and says why.
    browser.click("#new-loop > summary").await;
    browser.write("#new-loop [name=loop]", "other").await;
    browser.write("#new-loop [name=participants]", "nobody").await;
    browser.click("#new-loop button[type=submit]").await;
    browser.until("document.querySelector('#new-loop output').innerText.includes('nobody')").await;
    let typed = browser.run("return document.querySelector('#new-loop [name=loop]').value").await;
    assert_eq!(typed, "other");
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn a_person_reads_writes_and_resolves_mail() {
    let scene = Scene::start(&ROLES).await;
    scene.send("A", "B", "API question", "Which **port** do we use?").await;
    let driver = Driver::start();
    let browser = driver.open(1280, 900, &[]).await;
    browser.go(&scene.page("mail?role=B")).await;
    browser.click(".threads a").await;
    browser.sees("Which port do we use?").await;
    // Looking is not seeing: the agent is still handed it.
    let threads = wire::ListBoxRequest { role: "B".to_owned(), r#box: 1, ..Default::default() };
    assert_eq!(scene.call(threads).await.threads[0].unseen, 1);

    browser
        .fill(
            "#compose",
            &[("to", "A B"), ("subject", "From a person"), ("text", "Please *hurry*.")],
        )
        .await;
    browser.sees("From a person").await;
    let threads = wire::ListBoxRequest { role: "A".to_owned(), r#box: 1, ..Default::default() };
    let thread = scene.call(threads).await.threads[0].clone();
    assert_eq!(
        (thread.original_sender.as_str(), thread.subject.as_str()),
        ("human", "From a person")
    );

    // An answer appears by itself, and is resolved.
    let answer = wire::SendRequest {
        role: "A".to_owned(),
        to: vec!["human".to_owned()],
        r#type: "ACK".to_owned(),
        text: "On my way.".to_owned(),
        in_reply_to: thread.message_id.clone(),
        ..Default::default()
    };
    scene.call(answer).await;
    browser.go(&scene.page(&format!("mail?role=human&thread={}", thread.message_id))).await;
    browser.sees("On my way.").await;
    browser.picture("mail.png").await;
    browser.click("form[action$='/mail/move'] button").await;
    browser
        .until("[...document.querySelectorAll('nav a')].some((it) => it.innerText === 'done 1')")
        .await;

    // Everything is found by one search box, with the keyboard alone.
    browser.press("/").await;
    browser.until("document.activeElement.name === 'q'").await;
    browser.write("header .search input", "port\u{e007}").await;
    browser
        .until("location.pathname.endsWith('/search') && document.readyState === 'complete'")
        .await;
    // A busy machine takes longer to make the index of mail than a search waits, and the page says so.
    for _ in 0..20 {
        if !browser.text("main").await.contains("try again shortly") {
            break;
        }
        browser.go(&browser.url().await).await;
    }
    browser.sees("API question").await;
    browser.press("gt").await;
    browser.until("location.pathname.endsWith('/tasks')").await;
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn a_person_leads_an_issue_to_its_end() {
    let scene = Scene::start(&ROLES).await;
    let (issue, task) = scene.issue("Speed up the parser", "It takes **3 s**.").await;
    scene.submit(&issue, &task, "Half the time now.").await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    browser.go(&scene.page(&format!("tasks?issue={issue}&task={task}"))).await;
    browser.sees("Half the time now.").await;
    browser.picture("tasks.png").await;
    browser
        .fill("#review", &[("verdict", "approve"), ("score", "5"), ("feedback", "Well done")])
        .await;
    browser.sees("human approved it, score 5").await;

    // A task of a person's own, and one that is cancelled.
    browser.fill("#new-task", &[("subject", "Measure it"), ("description", "With numbers.")]).await;
    browser.sees("Measure it").await;
    browser.click("#task-task-2 a").await;
    browser.fill("#cancel", &[("reason", "Not needed")]).await;
    browser.sees("canceled").await;

    // A delivery whose evidence failed is approved by a person, with a reason.
    let evidence = wire::TestEvidence {
        script_path: "test.sh".to_owned(),
        script_cmd: "sh test.sh".to_owned(),
        script_passed: true,
        script_result: "ok".to_owned(),
        doc_path: "issue-parser-test-steps.md".to_owned(),
        doc_commands: vec!["true".to_owned()],
        doc_results: vec![wire::CommandResult {
            command: "true".to_owned(),
            has_passed: true,
            ..Default::default()
        }],
        doc_passed: true,
        rerun: None,
    };
    let artifacts = wire::DeliveryArtifacts {
        has_passed: true,
        test_cases: vec!["all".to_owned()],
        changed_files: vec!["src/a.rs".to_owned(), "issue-parser-test-steps.md".to_owned()],
        reviewed_refs: vec!["HEAD".to_owned()],
        ..Default::default()
    };
    let delivery = wire::SubmitDeliveryRequest {
        role: "lead".to_owned(),
        issue_id: issue.clone(),
        summary: "The parser is quick.".to_owned(),
        artifacts: Some(artifacts),
        test_evidence: Some(evidence),
        ..Default::default()
    };
    let delivery = scene.call(delivery).await.delivery.unwrap().delivery_id;
    scene.run_again_and_fail(&delivery).await;
    browser.sees("The parser is quick.").await;
    browser.sees("Run again by acceptor").await;
    let judge = format!("#judge-{delivery}");
    browser.click(&format!("{judge} > summary")).await;
    browser.write(&format!("{judge} [name=feedback]"), "Works here").await;
    browser.click(&format!("{judge} button[type=submit]")).await;
    browser
        .until(&format!("document.querySelector('{judge} output').innerText.includes('failed')"))
        .await;
    browser.write(&format!("{judge} [name=despite]"), "its machine has no network").await;
    browser.click(&format!("{judge} button[type=submit]")).await;
    browser.sees("in spite of failed evidence: its machine has no network").await;
    let request = wire::GetDeliveryRequest { delivery_id: delivery, ..Default::default() };
    let judged = scene.call(request).await.delivery.unwrap();
    let despite = judged.overridden.clone().unwrap_or_default();
    assert_eq!(
        (judged.status(), judged.reviewed_by.as_str(), despite.person.as_str()),
        (wire::DeliveryStatus::Approved, "human", "human")
    );
    browser.fill("#close-issue", &[("summary", "Done.")]).await;
    browser.until("document.querySelector('article header .chip')?.innerText === 'done'").await;
    let files = wire::FileSet {
        repository: "parser".to_owned(),
        patterns: vec!["src/b.rs".to_owned()],
        ..Default::default()
    };
    let lock = wire::LockFilesRequest {
        role: "lead".to_owned(),
        files: Some(files),
        ..Default::default()
    };
    scene.call(lock).await;
    for (words, found) in [
        ("takes parser", "Issue: Speed up the parser"),
        ("half TIME", "task-1: "),
        ("well done", "task-1: "),
        ("with numbers", "task-2: Measure it"),
        ("quick works here", &format!("of {issue}, by lead")),
        ("src/b.rs lead", "Lock of lead"),
    ] {
        browser.go(&scene.page(&format!("search?q={}", words.replace(' ', "+")))).await;
        browser.sees(found).await;
    }
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn two_browsers_do_the_same_once() {
    let scene = Scene::start(&ROLES).await;
    let driver = Driver::start();
    let (one, other) = (driver.open(1200, 900, &[]).await, driver.open(390, 800, &[]).await);
    for browser in [&one, &other] {
        browser.go(&scene.page("now")).await;
        browser.sees("Turn 1 is with A").await;
        browser.click("#reclaim-main > summary").await;
        browser.write("#reclaim-main [name=reason]", "it hangs").await;
        browser.choose("#reclaim-main [name=to]", "B").await;
    }
    one.click("#reclaim-main button[type=submit]").await;
    one.sees("Turn 2 is with B").await;
    // The other sees it too, and what its person was typing is still there.
    other.sees("Turn 2 is with B").await;
    let typed =
        other.run("return document.querySelector('#reclaim-main [name=reason]').value").await;
    assert_eq!(typed, "it hangs");
    other.click("#reclaim-main button[type=submit]").await;
    other.until("!document.querySelector('#reclaim-main[open]') || document.querySelector('#reclaim-main output:not(:empty)')").await;
    let loops = scene.call(wire::ListLoopsRequest::default()).await.loops;
    assert_eq!(loops[0].turn, 2, "the second reclaim of turn 1 took nothing");
    // Nothing is wider than a phone.
    for path in
        ["now", "timeline", "mail?role=A", "tasks", "runs", "gateway", "machines", "search?q=A"]
    {
        other.go(&scene.page(path)).await;
        other.until("document.querySelector('#live.on')").await;
        let over = other.run("return document.documentElement.scrollWidth - innerWidth").await;
        assert!(over.as_i64().unwrap() <= 0, "{path} is {over} pixels too wide");
    }
    other.close().await;
    one.close().await;
}

/// A browser has six connections for all pages of one place.
#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn many_tabs_do_not_wait_for_each_other() {
    let scene = Scene::start(&ROLES).await;
    let driver = Driver::start();
    let browser = driver.open(1280, 900, &[]).await;
    browser.go(&scene.page("now")).await;
    browser.until("document.querySelector('#live.on')").await;
    let first = browser.window().await;
    for _ in 0..7 {
        browser.tab().await;
        browser.go(&scene.page("now")).await;
        browser.until("document.querySelector('#live.on')").await;
    }
    browser.fill("#pause-main", &[("reason", "lunch")]).await;
    browser.sees("Paused").await;
    browser.look_at(first).await;
    browser.sees("Paused").await;
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn ten_thousand_events_are_a_page_that_opens_at_once() {
    let scene = Scene::start(&ROLES).await;
    let scene = &scene;
    stream::iter(0..10_000_u32)
        .map(|number| async move {
            let from = ROLES[number as usize % ROLES.len()];
            let to = ROLES[(number as usize + 1) % ROLES.len()];
            scene.send(from, to, &format!("subject {number}"), "text").await
        })
        .buffered(200)
        .for_each(|_| std::future::ready(()))
        .await;
    scene.hand_over("A", "Sent a lot.", "Read it.").await;
    let driver = Driver::start();
    let browser = driver.open(1280, 900, &[]).await;
    browser.go(&scene.page("timeline")).await;
    browser.until("document.querySelector('#live.on')").await;
    let nodes = browser.count("*").await;
    assert!(nodes <= 1_500, "{nodes} nodes");
    browser.sees("Sent a lot.").await;
    let events = browser.text("#events").await;
    let count: u32 = events.split(' ').next().unwrap().parse().unwrap();
    // The oldest records leave the journal meanwhile.
    assert!(1_000 < count, "{events}");
    browser.picture("timeline.png").await;
    // What lies under a mark, and the text of one.
    browser.click("tr[data-item]:first-child td:last-child a").await;
    browser.sees("Open it, and what came before and after").await;
    // What was said in it is found, too, and all of it is a page.
    browser.go(&scene.page("timeline?q=read+it&loop=main")).await;
    assert_eq!(browser.text("#events").await, "1 event");
    browser.click("tr[data-item] td:last-child a").await;
    browser.click("#detail p:last-child a").await;
    browser.sees("A ended turn 1 of main and handed it to B").await;
    // A page is small, and is there before anybody waits for it.
    browser.go(&scene.page("now")).await;
    browser.until("document.querySelector('#live.on')").await;
    let bytes = "const all = [...performance.getEntriesByType('resource'), performance.getEntriesByType('navigation')[0]];
                 return all.reduce((sum, it) => sum + it.decodedBodySize, 0)";
    let bytes = browser.run(bytes).await.as_u64().unwrap();
    assert!(bytes < 150 * 1024, "{bytes} bytes");
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn a_person_answers_a_sub_agent_and_cancels_its_run() {
    let scene = Scene::start(&ROLES).await;
    let run = scene.run("reviewer", "Which of the two files is meant?").await;
    run.starts_another("Look for callers").await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    browser.go(&scene.page("runs")).await;
    browser.click(&format!(".boxes a[href$='{}']", run.run_id)).await;
    browser.sees("Step 1 asks").await;
    browser.sees("$0.0123, 900 tokens").await;
    browser.picture("runs.png").await;
    assert_eq!(browser.text(".tree a").await, "Look for callers");
    // What it says is shown while it says it.
    run.says("half-way through the parser").await;
    browser.sees("half-way through the parser").await;
    browser.fill("[id^=reply-]", &[("text", "The second.")]).await;
    browser.sees("The second.").await;
    assert_eq!(run.reply().await, "The second.");
    browser.click("form[action$='/run/cancel'] button").await;
    browser.until("!document.querySelector(\"form[action$='/run/cancel']\")").await;
    assert_eq!(run.says("more").await, wire::StepStop::Canceled);
    run.ends(wire::StepStatus::Canceled, "stopped").await;
    browser.until("document.querySelector('#step-1 .chip').innerText === 'canceled'").await;
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn a_person_sees_why_nothing_goes_on_and_lets_it_go_on() {
    let scene = Scene::start(&ROLES).await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    browser.go(&scene.page("now")).await;
    browser.fill("#pause-main", &[("reason", "lunch")]).await;
    browser.sees("lunch").await;
    browser.until("document.querySelector('#loop-main .chip').innerText === 'paused'").await;
    browser.sees("tasuki loop resume main").await;
    browser.run("scrollTo(0, 0)").await;
    browser.picture("paused.png").await;
    browser.click("form[action$='/loop/resume'] button").await;
    browser.until("document.querySelector('#loop-main .chip').innerText !== 'paused'").await;

    // A role that used up its budget.
    let budget = wire::RoleBudget { max_calls: 1, window_ms: 3_600_000, ..Default::default() };
    let set = wire::SetBudgetRequest {
        person: "me".to_owned(),
        target: "B".to_owned(),
        budget: Some(budget),
        ..Default::default()
    };
    scene.call(set).await;
    scene.send("B", "A", "all that it may say", "text").await;
    browser.until("document.querySelector('#role-B')?.innerText.includes('paused')").await;
    browser.sees("1 of 1 calls").await;
    browser.click("#role-B form[action$='/role/resume'] button").await;
    browser.until("!document.querySelector('#role-B')?.innerText.includes('paused')").await;
    scene.send("B", "A", "goes on", "text").await;
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn sealed_words_are_shown_where_their_key_is() {
    let scene = Scene::start(&ROLES).await;
    scene.tasuki(&["mail", "private", "on"]).await;
    scene.tasuki(&["mail", "send", "--role", "A", "--to", "B", "only between us"]).await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    browser.go(&scene.page("mail?role=B")).await;
    browser.click(".threads a").await;
    browser.sees("Sealed. Only nodes with the key can read it").await;
    assert!(!browser.text("main").await.contains("only between us"));
    browser.go(&format!("{}/w/default/mail?role=B", scene.node_url())).await;
    browser.sees("only between us").await;
    browser.click(".threads a").await;
    browser.until("document.querySelector('.letter')?.innerText.includes('only between us')").await;
    // What a person writes there would not be sealed, so it is refused.
    browser.click("#compose > summary").await;
    for (name, text) in [("to", "A"), ("subject", "from me"), ("text", "in the clear")] {
        browser.write(&format!("#compose [name={name}]"), text).await;
    }
    browser.click("#compose button[type=submit]").await;
    browser.until("document.querySelector('#compose output').innerText.includes('private')").await;
    browser.close().await;
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn the_address_of_a_node_is_a_page_too() {
    let scene = Scene::start(&ROLES).await;
    scene.hand_over("A", "Seen from the node.", "Go on.").await;
    let driver = Driver::start();
    let browser = driver.open(1200, 900, &[]).await;
    browser.go(scene.node_url()).await;
    browser.sees("Seen from the node.").await;
    browser.until("document.querySelector('#live.on')").await;
    scene.hand_over("B", "Followed there.", "Go on.").await;
    browser.sees("Followed there.").await;
    assert_eq!(browser.complaints_of_the_page().await, Vec::<String>::new());
    browser.close().await;
}
