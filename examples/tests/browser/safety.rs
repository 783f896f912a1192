//! What agents write does nothing in a browser, and who may see and do what.

use std::process::Stdio;

use tasuki_examples::process::{Process, program};
use tasuki_proto::wire::StepStatus;
use tokio::process::Command;

use super::{driver::Driver, scene::Scene};

/// Each would set `canary`, were it ever more than a text, or load something from elsewhere.
const CORPUS: [&str; 28] = [
    "<script>window.canary=1</script>",
    "<img src=x onerror=\"window.canary=1\">",
    "<svg onload=window.canary=1>",
    "<svg><script>window.canary=1</script></svg>",
    "<iframe srcdoc=\"<script>parent.canary=1</script>\"></iframe>",
    "<a href=\"javascript:window.canary=1\" autofocus onfocus=window.canary=1>x</a>",
    "[x](javascript:window.canary=1)",
    "[x](JAVASCRIPT&colon;window.canary=1)",
    "[x]( java\nscript:window.canary=1)",
    "[x](data:text/html,<script>opener.canary=1</script>)",
    "![x](https://canary.invalid/x.png)",
    "![x][y]\n\n[y]: https://canary.invalid/y.png",
    "<details open ontoggle=window.canary=1>x</details>",
    "<video><source onerror=window.canary=1></video>",
    "<body onpageshow=window.canary=1>",
    "<style>@import 'https://canary.invalid/z.css';</style>",
    "<link rel=stylesheet href=https://canary.invalid/l.css>",
    "<base href=https://canary.invalid/>",
    "<meta http-equiv=refresh content=\"0;url=https://canary.invalid/\">",
    "<form action=https://canary.invalid/><input autofocus onfocus=window.canary=1></form>",
    "\"><script>window.canary=1</script>",
    "'-window.canary=1-'",
    "</title><script>window.canary=1</script>",
    "</textarea><script>window.canary=1</script>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.canary=1>",
    "<noscript><p title=\"</noscript><img src=x onerror=window.canary=1>\">",
    "<template><script>window.canary=1</script></template>",
    "{{constructor.constructor('window.canary=1')()}}",
];

/// Nothing of the corpus ran, and nothing was loaded from elsewhere.
const QUIET: &str = "return window.canary === undefined
    && document.querySelectorAll('main script, main iframe, main img, main style, main link, main base, main form[action*=canary], main [onerror], main [onload], main [onfocus]').length === 0
    && performance.getEntriesByType('resource').every((it) => it.name.startsWith(location.origin))
    && [...document.querySelectorAll('a[href]')].every((it) => ['http:', 'https:'].includes(it.protocol))";

/// Through every field that an agent can fill.
#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn nothing_that_an_agent_wrote_does_anything() {
    let scene = Scene::start(&["A", "B", "lead", "worker1"]).await;
    let all = CORPUS.join("\n\n");
    let (mut from, mut to) = ("A", "B");
    for text in CORPUS {
        scene.hand_over(from, text, text).await;
        (from, to) = (to, from);
        scene.send("A", "B", &text.replace('\n', " "), text).await;
    }
    scene.hand_over(from, &all, &all).await;
    let thread = scene.send("B", "A", "all of it", &all).await;
    let subject = CORPUS[0];
    let (issue, task) = scene.issue(subject, &all).await;
    scene.submit(&issue, &task, &all).await;
    let run = scene.run(CORPUS[0], &all).await;
    let ended = scene.run(CORPUS[1], &all).await;
    ended.ends(StepStatus::Failed, &all).await;
    // A name has neither a slash nor a line's end.
    let name = "<img src=x onerror=window.canary=1>.html";
    scene.attach(name, CORPUS[0]).await;
    let driver = Driver::start();
    let browser = driver.open(1280, 1000, &[]).await;
    for path in [
        "now".to_owned(),
        "timeline".to_owned(),
        "timeline?at=3".to_owned(),
        format!("timeline?q={}", "%22%3E%3Cscript%3Ewindow.canary%3D1%3C%2Fscript%3E"),
        "mail?role=B".to_owned(),
        format!("mail?role=A&thread={thread}"),
        format!("tasks?issue={issue}&task={task}"),
        format!("tasks?q={}", "%22%3E%3Cscript%3Ewindow.canary%3D1%3C%2Fscript%3E"),
        format!("runs?run={}", run.run_id),
        format!("runs?run={}", ended.run_id),
        "gateway".to_owned(),
        "machines".to_owned(),
        "search?q=canary".to_owned(),
        format!("search?q={}", ended.run_id),
        format!("search?q={}", "%22%3E%3Cscript%3Ewindow.canary%3D1%3C%2Fscript%3E"),
    ] {
        browser.go(&scene.page(&path)).await;
        browser.until("document.querySelector('#live.on')").await;
        // Whatever is folded is opened, and whatever could have the focus gets it.
        browser
            .run("document.querySelectorAll('main details').forEach((it) => { it.open = true; })")
            .await;
        assert_eq!(browser.run(QUIET).await, true, "{path}");
        let stopped: Vec<String> =
            browser.complaints().await.into_iter().filter(|it| it.contains("canary")).collect();
        assert!(stopped.is_empty(), "{path}: the policy had to stop {stopped:?}");
    }
    browser.close().await;
}

async fn token(data: &std::path::Path, rights: &[&str]) -> String {
    let mut command = Command::new(program("tasuki-broker").unwrap());
    command.args(["token", "new", "--role", "human", "--label", "Ada", "--data"]).arg(data);
    for right in rights {
        command.args(["--right", right]);
    }
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let token = said.split_whitespace().find(|it| it.starts_with("tasuki_"));
    token.unwrap_or_else(|| panic!("no token in {said}")).to_owned()
}

#[tokio::test]
#[ignore = "needs chromium: a real browser"]
async fn who_shows_no_token_sees_nothing_and_a_link_lets_one_look() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("tasuki-broker").unwrap());
    let free = "127.0.0.1:0";
    command.args(["serve", "--secure", "--listen", free, "--dashboard", free, "--data"]);
    command.arg(data.path());
    let broker = Process::start(command, "dashboard").await.unwrap();
    let page = |path: &str| format!("{}{path}", broker.url());
    let person = token(data.path(), &["read", "send", "claim", "steer"]).await;
    let admin = token(data.path(), &["read", "admin"]).await;
    let driver = Driver::start();
    let browser = driver.open(1200, 900, &[]).await;

    browser.go(&page("/w/default/now")).await;
    browser.until("location.pathname === '/login'").await;
    browser.write("[name=token]", "tasuki_0011_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").await;
    browser.click("button").await;
    browser.until("document.querySelector('#trouble')").await;
    let blind = token(data.path(), &["send"]).await;
    browser.write("[name=token]", &blind).await;
    browser.click("button").await;
    browser.sees("lacks the right").await;

    browser.write("[name=token]", &person).await;
    browser.click("button").await;
    browser.until("location.pathname === '/w/default/now'").await;
    assert_eq!(browser.count("#new-loop").await, 1);
    browser.fill("#new-loop", &[("loop", "x"), ("participants", "human, A")]).await;
    browser.sees("Turn 1 is with human").await;

    // Its session ends in another tab: what is typed here stays, and is sent once it has another.
    browser.click("#new-loop > summary").await;
    browser.write("#new-loop [name=loop]", "y").await;
    browser.write("#new-loop [name=participants]", "human, B").await;
    let first = browser.tab().await;
    browser.go(&page("/w/default/now")).await;
    browser.click("details.who summary").await;
    browser.click("form[action$='/logout'] button").await;
    browser.until("location.pathname === '/login'").await;
    let second = browser.window().await;
    browser.look_at(first.clone()).await;
    browser.click("#new-loop button[type=submit]").await;
    browser.until("!document.querySelector('#ended').hidden").await;
    browser.look_at(second.clone()).await;
    browser.write("[name=token]", &person).await;
    browser.click("button").await;
    browser.until("location.pathname === '/w/default/now'").await;
    browser.look_at(first).await;
    browser.until("document.querySelector('#ended').hidden").await;
    browser.click("#new-loop button[type=submit]").await;
    browser.until("document.querySelector('#loop-y')").await;
    browser.click("details.who summary").await;
    browser.click("form[action$='/logout'] button").await;
    browser.until("location.pathname === '/login'").await;

    // A link is made by whoever administrates. It has its token behind the #, and leaves nothing
    // of it in the address.
    browser.write("[name=token]", &admin).await;
    browser.click("button").await;
    browser.until("location.pathname === '/w/default/now'").await;
    browser.go(&page("/w/default/machines")).await;
    browser.fill("#new-link", &[("label", "Bob"), ("for", "1 hour")]).await;
    browser.until("document.querySelector('#look')").await;
    let link = browser.run("return document.querySelector('#look').href").await;
    browser.sees(link.as_str().unwrap()).await;
    let guest = driver.open(1200, 900, &[]).await;
    guest.go(link.as_str().unwrap()).await;
    guest.until("location.pathname === '/w/default/now'").await;
    assert!(!guest.url().await.contains("tasuki_"));
    guest.sees("Turn 1 is with human").await;
    assert_eq!(guest.count("main form[method=post]").await, 0, "who only looks does nothing");

    // Revoked, it shows nothing more, also on a page that is open.
    browser.go(&page("/w/default/machines")).await;
    let row = "[...document.querySelectorAll('[id^=token-]')].find((it) => it.innerText.includes('link for Bob'))";
    let id = browser.run(&format!("return {row}.id")).await;
    browser.click(&format!("#{} form button", id.as_str().unwrap())).await;
    browser.until(&format!("{row}.innerText.includes('revoked')")).await;
    guest.until("location.pathname === '/login'").await;
    guest.close().await;
    browser.close().await;
}
