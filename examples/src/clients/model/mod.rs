//! A model that follows a script, behind the APIs that agent CLIs speak: Anthropic Messages,
//! OpenAI Responses and Chat Completions, Gemini generateContent; as much of each as they need.
//!
//! It listens on loopback. Each request is noted with what was heard and what was answered, and
//! written out whole, so that a failed run can be read afterwards.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderValue, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::script::{Call, Heard, Move, Part, is_name_of};
use crate::Result;

/// Of one request, in bytes: a conversation with all the tools of a client.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// So many requests one run may make; more means that something runs in circles.
pub const REQUESTS_MAX: usize = 500;

/// The tool of Claude Code that waits until servers are connected.
const WAIT_FOR_TOOLS: &str = "WaitForMcpServers";

/// Why a request is refused.
const REFUSED: &str = "the scripted model refuses";

/// One request and what became of it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub at: Instant,
    pub heard: Heard,
    pub answered: Move,
    /// What it was told in place of an answer.
    pub failure: Option<String>,
}

/// Something that the model was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Of the request.
    pub number: usize,
    /// `system prompt`, `message` or `result`.
    pub place: &'static str,
    pub words: String,
}

/// The model, listening. It ends when dropped.
#[derive(Debug)]
pub struct Model {
    url: String,
    folder: PathBuf,
    asked: watch::Receiver<Vec<Asked>>,
    server: JoinHandle<()>,
}

impl Drop for Model {
    fn drop(&mut self) {
        self.server.abort();
    }
}

struct Desk {
    /// Where requests are written to.
    folder: PathBuf,
    part: Box<dyn Part>,
    asked: watch::Sender<Vec<Asked>>,
}

impl Model {
    /// Listens on a free port, to play this part; requests are kept in `folder`.
    ///
    /// # Errors
    /// When there is no port, or no folder.
    pub async fn start(folder: &Path, part: Box<dyn Part>) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (sender, asked) = watch::channel(Vec::new());
        let desk = Arc::new(Desk { folder: folder.to_owned(), part, asked: sender });
        let router = Router::new()
            .fallback(serve)
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .with_state(desk);
        let server = tokio::spawn(async move {
            // It ends with the task; a broken connection is its client's business.
            drop(axum::serve(listener, router).await);
        });
        Ok(Self { url, folder: folder.to_owned(), asked, server })
    }

    /// `http://ADDRESS`, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where the model was first told this, and in which words, from its request `from` on. `None`:
    /// it was not.
    ///
    /// # Errors
    /// When a request cannot be read again.
    pub fn told(&self, text: &str, from: usize) -> Result<Option<Told>> {
        let count = self.asked.borrow().len();
        for number in from..count {
            let body = fs::read_to_string(self.folder.join(file_name(number)))?;
            if let Some((place, words)) = find(&serde_json::from_str(&body)?, text) {
                return Ok(Some(Told { number, place, words }));
            }
        }
        Ok(None)
    }

    /// The same once it is told this.
    ///
    /// # Errors
    /// When it is not within this time.
    pub async fn is_told(&self, text: &str, from: usize, within: Duration) -> Result<Told> {
        let mut asked = self.asked();
        let comes = async {
            let mut from = from;
            loop {
                let count = asked.borrow_and_update().len();
                if let Some(told) = self.told(text, from)? {
                    return Ok(told);
                }
                from = from.max(count);
                asked.changed().await?;
            }
        };
        let comes = timeout(within, comes).await;
        comes.map_err(|_| format!("the model was not told {text:?} within {within:?}"))?
    }

    /// Everything asked so far, and whatever comes.
    pub fn asked(&self) -> watch::Receiver<Vec<Asked>> {
        self.asked.clone()
    }
}

async fn serve(State(desk): State<Arc<Desk>>, uri: Uri, body: Bytes) -> Response {
    let path = uri.path();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if path.ends_with("/count_tokens") {
        json(r#"{"input_tokens":10}"#)
    } else if path.ends_with(":countTokens") {
        json(r#"{"totalTokens":10}"#)
    } else if path.ends_with("/messages") {
        desk.answer(&body, anthropic::read(&body), &anthropic::API)
    } else if path.ends_with("/responses") {
        desk.answer(&body, responses::read(&body), &responses::API)
    } else if path.ends_with("/chat/completions") {
        desk.answer(&body, chat::read(&body), &chat::API)
    } else if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") {
        let asked = gemini::read(&body, path.ends_with(":streamGenerateContent"));
        desk.answer(&body, asked, &gemini::API)
    } else if path.ends_with("/models") {
        json(r#"{"object":"list","data":[{"id":"scripted","object":"model"}],"models":[]}"#)
    } else {
        json("{}")
    }
}

impl Desk {
    fn answer(&self, body: &Value, ask: Ask, api: &Api) -> Response {
        let reply = self.part.reply(&ask.texts());
        let heard = match &reply {
            Some(_) => Heard::Prompt,
            None => ask.heard(&self.part.begin().tool),
        };
        // Claude Code may ask before it has found the tools. It offers one by which a model waits.
        let waits = ask.tools.iter().find(|it| heard == Heard::Early && it.name == WAIT_FOR_TOOLS);
        let waits = waits.map(|it| Call { tool: it.name.clone(), arguments: json!({}) });
        let (mut number, mut moved) = (0, Move::Say(""));
        self.asked.send_modify(|asked| {
            number = asked.len();
            let failures = asked.iter().filter(|it| it.failure.is_some()).count();
            let (answered, failure) = match reply {
                _ if REQUESTS_MAX <= number => (Move::Say("STOPPED: far too many requests."), None),
                Some(reply) => (reply, None),
                None if waits.is_some() => (waits.map_or(Move::Say(""), Move::Call), None),
                None => self.part.answer(&heard, failures),
            };
            moved = answered.clone();
            // There before anybody hears of it.
            drop(fs::write(self.folder.join(file_name(number)), format!("{body:#}")));
            asked.push(Asked { at: Instant::now(), heard, answered, failure });
        });
        let act = match &moved {
            Move::Say(text) => Act::Say { text, number },
            Move::Reply(text) => Act::Say { text, number },
            Move::Refuse => return refusal(),
            Move::Limit => return api.limit.response(),
            Move::Hang => return silence(),
            Move::Call(Call { tool, arguments }) => {
                match ask.tools.iter().find(|it| is_name_of(&it.name, tool)) {
                    Some(tool) => Act::Call { tool, arguments, number },
                    None => Act::Say { text: "That tool is not there.", number },
                }
            }
        };
        let written = (api.write)(&ask, &act);
        if ask.is_stream {
            ([(CONTENT_TYPE, "text/event-stream")], written).into_response()
        } else {
            ([(CONTENT_TYPE, "application/json")], written).into_response()
        }
    }
}

/// One API, but for how its requests are read.
struct Api {
    write: fn(&Ask, &Act<'_>) -> String,
    limit: Limit,
}

/// How an API says that nothing is left of a quota.
struct Limit {
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
}

impl Limit {
    fn response(&self) -> Response {
        let mut response = (StatusCode::TOO_MANY_REQUESTS, self.body).into_response();
        let json = [("content-type", "application/json")];
        for (name, value) in json.iter().chain(self.headers) {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        response
    }
}

fn file_name(number: usize) -> String {
    format!("{number:03}.json")
}

/// A request, whatever the API.
struct Ask {
    /// What came since the model spoke last.
    spoken: Vec<Spoken>,
    /// What the model called last.
    call: Option<Call>,
    tools: Vec<Tool>,
    is_stream: bool,
    /// The model that was asked for.
    model: String,
}

/// A tool, as the client calls it before the model.
struct Tool {
    namespace: Option<String>,
    name: String,
}

/// An answer, whatever the API. The number makes ids of it that are used once.
enum Act<'a> {
    Say { text: &'a str, number: usize },
    Call { tool: &'a Tool, arguments: &'a Value, number: usize },
}

impl Ask {
    /// All that was said to the model, but for what tools said.
    fn texts(&self) -> String {
        let texts = self.spoken.iter().filter_map(|it| match it {
            Spoken::Text(text) => Some(text.as_str()),
            Spoken::Result(_) => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    fn is_call_of(&self, tool: &str) -> bool {
        self.call.as_ref().is_some_and(|call| call.tool == tool)
    }

    /// What it comes to; `ours` is a tool that is there once ours are.
    fn heard(&self, ours: &str) -> Heard {
        let is_ours = self.tools.iter().any(|tool| tool.name.ends_with(ours));
        let notice = self.spoken.iter().find_map(|it| match it {
            Spoken::Text(text) if text.contains("<task-notification>") => Some(text),
            Spoken::Text(_) | Spoken::Result(_) => None,
        });
        let result = self.spoken.iter().rev().find_map(|it| match it {
            Spoken::Result(text) => Some(text),
            Spoken::Text(_) => None,
        });
        match (is_ours, notice, result) {
            (false, _, _) if !self.tools.is_empty() => Heard::Early,
            (false, _, _) => Heard::Aside,
            (true, Some(notice), _) => Heard::Woken(notice.clone()),
            // What it was told before it waited is still to be done.
            (true, None, Some(_)) if self.is_call_of(WAIT_FOR_TOOLS) => Heard::Prompt,
            (true, None, Some(result)) => Heard::Result(result.clone(), self.call.clone()),
            (true, None, None) => Heard::Prompt,
        }
    }
}

/// Where in a request this is said, and the whole text of it.
fn find(body: &Value, text: &str) -> Option<(&'static str, String)> {
    for field in ["system", "instructions"] {
        if let Some(words) = words_with(&body[field], text) {
            return Some(("system prompt", words.to_owned()));
        }
    }
    let mut messages = list(&body["messages"]).iter().chain(list(&body["input"]));
    messages.find_map(|message| {
        let words = words_with(message, text)?.to_owned();
        let place = match message["role"].as_str() {
            Some("system" | "developer") => "system prompt",
            Some("user") => "message",
            Some(_) | None => "result",
        };
        Some((place, words))
    })
}

/// The text in a value that contains this.
fn words_with<'a>(value: &'a Value, text: &str) -> Option<&'a str> {
    match value {
        Value::String(said) => said.contains(text).then_some(said),
        Value::Array(items) => items.iter().find_map(|it| words_with(it, text)),
        Value::Object(fields) => fields.values().find_map(|it| words_with(it, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// One thing said to the model.
#[derive(Debug, PartialEq, Eq)]
enum Spoken {
    Text(String),
    Result(String),
}

/// A call as the client gives it back; its arguments are JSON, or a text of it.
fn call(name: &Value, arguments: &Value) -> Option<Call> {
    let tool = name.as_str()?.to_owned();
    let arguments = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            arguments.clone()
        }
    };
    Some(Call { tool, arguments })
}

fn model_of(body: &Value) -> String {
    body["model"].as_str().unwrap_or("scripted").to_owned()
}

impl Tool {
    fn new(name: &Value) -> Self {
        Self { namespace: None, name: name.as_str().unwrap_or_default().to_owned() }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Items after the last that the model itself said.
fn since_last(items: &[Value], is_models: impl Fn(&Value) -> bool) -> &[Value] {
    let from = items.iter().rposition(is_models).map_or(0, |last| last + 1);
    &items[from..]
}

/// The text of a content that is a text, or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

fn event(name: &str, data: &Value) -> String {
    if name.is_empty() {
        format!("data: {data}\n\n")
    } else {
        format!("event: {name}\ndata: {data}\n\n")
    }
}

/// In the words of all the APIs: a mistake of the caller's, which nobody tries again.
fn refusal() -> Response {
    let error = json!({
        "type": "invalid_request_error",
        "code": 400,
        "status": "INVALID_ARGUMENT",
        "message": REFUSED,
    });
    let body = json!({ "type": "error", "error": error }).to_string();
    (StatusCode::BAD_REQUEST, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// A stream on which nothing comes.
fn silence() -> Response {
    let nothing = futures::stream::pending::<std::io::Result<Bytes>>();
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(nothing)).into_response()
}

fn json(text: &'static str) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests;
