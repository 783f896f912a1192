//! One browser, and what a person does with it.

use std::{path::PathBuf, time::Duration};

use fantoccini::{
    Client, Locator,
    wd::{TimeoutConfiguration, WindowHandle},
};
use serde_json::{Value, json};
use tasuki_examples::browser;
use tokio::time::timeout;

/// For anything that is to appear on a page.
const WITHIN: Duration = Duration::from_secs(30);

/// For one script: a page that goes takes its scripts with it.
const SCRIPT_WITHIN: Duration = Duration::from_secs(2);

/// Chromium's driver. Ends with this.
pub(super) struct Driver(browser::Driver);

impl Driver {
    pub(super) fn start() -> Self {
        Self(browser::Driver::start().unwrap().expect("chromedriver is installed"))
    }

    /// A window of its own, as wide and high as said.
    pub(super) async fn open(&self, width: u32, height: u32, more: &[&str]) -> Browser {
        let client = self.0.open(width, height, more).await.unwrap();
        let within = TimeoutConfiguration::new(Some(SCRIPT_WITHIN), Some(WITHIN), None);
        client.update_timeouts(within).await.unwrap();
        Browser { client }
    }
}

pub(super) struct Browser {
    client: Client,
}

impl Browser {
    pub(super) async fn go(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// The tab that is looked at.
    pub(super) async fn window(&self) -> WindowHandle {
        self.client.window().await.unwrap()
    }

    /// Opens one more tab, and looks at it. Says which one was looked at before.
    pub(super) async fn tab(&self) -> WindowHandle {
        let before = self.window().await;
        let tab = self.client.new_window(true).await.unwrap();
        self.look_at(tab.handle).await;
        before
    }

    pub(super) async fn look_at(&self, tab: WindowHandle) {
        self.client.switch_to_window(tab).await.unwrap();
    }

    pub(super) async fn url(&self) -> String {
        self.client.current_url().await.unwrap().to_string()
    }

    /// Runs a script in the page, and says what it returns.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    /// Waits until an expression is true in the page, or in the one that takes its place meanwhile.
    pub(super) async fn until(&self, condition: &str) {
        let script = format!(
            "const done = arguments[0];
             const until = Date.now() + 500;
             const look = () => {{
                 if ({condition}) done(true);
                 else if (until < Date.now()) done(false);
                 else setTimeout(look, 10);
             }};
             look();"
        );
        let seen = async {
            // A script ends without an answer when its page goes.
            while !self.client.execute_async(&script, Vec::new()).await.is_ok_and(|it| it == true) {
            }
        };
        if timeout(WITHIN, seen).await.is_err() {
            let page = self.text("body").await;
            panic!("{condition} did not come true at {}\n{page}", self.url().await);
        }
    }

    /// Waits until a text is on the page.
    pub(super) async fn sees(&self, text: &str) {
        let text = json!(text);
        self.until(&format!("document.querySelector('main')?.innerText.includes({text})")).await;
    }

    /// What an element says.
    pub(super) async fn text(&self, css: &str) -> String {
        let css = json!(css);
        let said =
            self.run(&format!("return document.querySelector({css})?.innerText ?? ''")).await;
        said.as_str().unwrap_or_default().to_owned()
    }

    pub(super) async fn count(&self, css: &str) -> u64 {
        let css = json!(css);
        let count = self.run(&format!("return document.querySelectorAll({css}).length")).await;
        count.as_u64().unwrap()
    }

    pub(super) async fn click(&self, css: &str) {
        let element = format!("document.querySelector({})", json!(css));
        self.until(&element).await;
        // The driver would scroll it below the head of the page.
        self.run(&format!("{element}.scrollIntoView({{ block: 'center' }})")).await;
        self.client.find(Locator::Css(css)).await.unwrap().click().await.unwrap();
    }

    pub(super) async fn write(&self, css: &str, text: &str) {
        let field = self.client.find(Locator::Css(css)).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    pub(super) async fn choose(&self, css: &str, value: &str) {
        let field = self.client.find(Locator::Css(css)).await.unwrap();
        field.select_by_value(value).await.unwrap();
    }

    /// Presses a key somewhere on the page.
    pub(super) async fn press(&self, key: &str) {
        self.client.find(Locator::Css("body")).await.unwrap().send_keys(key).await.unwrap();
    }

    /// Opens a form, fills it in, sends it, and waits until it was taken.
    pub(super) async fn fill(&self, form: &str, fields: &[(&str, &str)]) {
        self.click(&format!("{form} > summary")).await;
        for (name, text) in fields {
            let css = format!("{form} [name={name}]");
            let kind =
                self.run(&format!("return document.querySelector({}).tagName", json!(css))).await;
            if kind == "SELECT" {
                self.choose(&css, text).await
            } else {
                self.write(&css, text).await
            }
        }
        self.click(&format!("{form} button[type=submit]")).await;
        // It closes, goes with the page, or says why not.
        let (open, said) =
            (json!(format!("{form}[open]")), json!(format!("{form} output:not(:empty)")));
        self.until(&format!("!document.querySelector({open}) || document.querySelector({said})"))
            .await;
        let refused = self.text(&format!("{form} output")).await;
        assert!(refused.is_empty(), "{form}: {refused}");
    }

    /// What the page complained of: errors, and what its policy stopped.
    pub(super) async fn complaints(&self) -> Vec<String> {
        #[derive(Debug)]
        struct Log;
        impl fantoccini::wd::WebDriverCompatibleCommand for Log {
            fn endpoint(
                &self,
                base: &url::Url,
                session: Option<&str>,
            ) -> Result<url::Url, url::ParseError> {
                base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
            }

            fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
                (http::Method::POST, Some(json!({ "type": "browser" }).to_string()))
            }
        }
        let log = self.client.issue_cmd(Log).await.unwrap();
        let all = log.as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|it| it["message"].as_str().map(str::to_owned)).collect()
    }

    /// The same without what the browser itself says of what it was refused.
    pub(super) async fn complaints_of_the_page(&self) -> Vec<String> {
        let all = self.complaints().await;
        all.into_iter().filter(|it| !it.contains("Failed to load resource")).collect()
    }

    /// Keeps what is shown, where `TASUKI_PICTURES` names a directory: how the pictures of the
    /// documentation are made.
    pub(super) async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("TASUKI_PICTURES") else { return };
        let bytes = self.client.screenshot().await.unwrap();
        std::fs::write(PathBuf::from(folder).join(name), bytes).unwrap();
    }

    pub(super) async fn close(self) {
        self.client.close().await.unwrap();
    }
}
