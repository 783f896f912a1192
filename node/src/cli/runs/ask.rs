//! `tasuki runs ask` and `tasuki runs report`: how a running sub-agent without MCP reaches whoever
//! started it.
//!
//! Its node and its key are in its environment. It speaks to that node alone, which passes on what it
//! says, so it needs no token of the broker's.
//!
//! - The key goes only to this machine, or to whoever has the expected certificate.
//! - What was sent and not answered is sent again, and told once.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tasuki_proto::{echo::echo, host::config::duration, reason::Reason};

use super::{Exit, Failure, Output, client};
use crate::{
    cli::{
        loops::text_args::{HELP, TextArgs},
        node_address::{self, NodeArgs, TokenSource},
        stopped, text,
        waiting::Waiting,
    },
    config::Config,
    mcp::{
        ask::{Error, post_as},
        dial::NodeAt,
        steps::{ASK, Message, MessageAck, REPLY, REPORT, Reply, ReplyRequest, ReplyStatus, path},
    },
    paths::NodeFile,
    step_key::{STEP_TOKEN_VARIABLE, StepKey},
};

/// For a node that is away, or that cannot reach its broker, to take what is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ask whoever started this sub-agent and print the reply.
///
/// For agents that Tasuki runs, which have TASUKI_STEP_TOKEN. One question of a step is open at a
/// time. Exits with 7 when there is no reply in time; --message waits on for it.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct AskArgs {
    /// Question
    #[arg(value_name = "TEXT", required_unless_present = "message", conflicts_with = "message")]
    text: Option<String>,
    /// Wait for the reply to this question, which was asked before
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    message: Option<u32>,
    /// Stop waiting after this long; 0 checks once [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Report something to whoever started this sub-agent, before it is done, or hand over a file.
///
/// For agents that Tasuki runs, which have TASUKI_STEP_TOKEN. Nothing is waited for.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct ReportArgs {
    /// Report
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    text: Option<String>,
    /// File of the project to hand over, at most 3 MiB
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

pub(super) async fn ask(
    args: AskArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let text = TextArgs::default().read_if("TEXT", args.text.as_deref())?;
    let parent = Parent::of_process(&args.node, config)?;
    let mut asked = args.message;
    let is_new = asked.is_none();
    let reply = tokio::select! {
        // Signals are listened for before anything is asked.
        biased;
        // Whoever has no more time for this one is told how to wait on.
        () = stopped() => Reply { status: ReplyStatus::StillWaiting, reply: None },
        reply = async {
            let message = match asked {
                Some(message) => message,
                None => parent.tell(ASK, text, None, output).await?,
            };
            asked = Some(message);
            let is_waiting = |reply: &Reply| reply.status == ReplyStatus::StillWaiting;
            let wait = async |hold_ms| {
                let request = ReplyRequest { message, hold_ms: Some(hold_ms) };
                match parent.post::<Reply>(REPLY, &request).await {
                    // The key was good for the question, and ends with the step.
                    Err(why) if is_new && why.as_reason() == Some(Reason::Unauthenticated) => {
                        Ok(Reply { status: ReplyStatus::Over, reply: None })
                    }
                    reply => reply,
                }
            };
            Waiting::new(args.timeout).answer(output, wait, is_waiting).await
        } => reply?,
    };
    let Some(message) = asked else { return Err(Failure::told(Exit::Nothing)) };
    let is_there = reply.status == ReplyStatus::There;
    let for_people = text::is_terminal();
    output.answer(|| as_json(message, &reply), || words(message, &reply, for_people))?;
    if is_there { Ok(()) } else { Err(Failure::told(Exit::Nothing)) }
}

pub(super) async fn report(
    args: ReportArgs,
    config: &Config,
    output: &mut Output,
) -> Result<(), Failure> {
    let text = TextArgs::default().read_if("TEXT", args.text.as_deref())?;
    let file = args.file.as_deref().map(absolute).transpose()?;
    let parent = Parent::of_process(&args.node, config)?;
    let message = parent.tell(REPORT, text, file, output).await?;
    output.answer(|| json!({ "message": message }), || "Reported.\n".to_owned())
}

/// A path as the node reads it, which works elsewhere.
fn absolute(path: &Path) -> Result<String, Failure> {
    let unusable = |why: &dyn Display| {
        let path = path.to_string_lossy();
        Failure::usage(format!("--file: {} {why}. Nothing was sent.", echo(&path)))
    };
    let path = std::path::absolute(path)
        .map_err(|why| unusable(&format_args!("cannot be resolved: {why}")))?;
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| unusable(&"is not UTF-8"))
}

fn as_json(message: u32, reply: &Reply) -> Value {
    json!({ "message": message, "standing": reply.status, "reply": reply.reply })
}

/// A program gets the reply as it is; a terminal gets what cannot harm it.
fn words(message: u32, reply: &Reply, for_people: bool) -> String {
    match reply.status {
        ReplyStatus::There => {
            let reply = reply.reply.as_deref().unwrap_or_default();
            let reply = if for_people { text::block(reply) } else { reply.to_owned() };
            if reply.ends_with('\n') { reply } else { reply + "\n" }
        }
        ReplyStatus::StillWaiting => format!(
            "No reply yet. Question {message} stays open; wait on with `tasuki runs ask --message \
             {message}`.\n"
        ),
        ReplyStatus::Superseded => "A newer wait took this one's place.\n".to_owned(),
        ReplyStatus::Over => "The step ended without a reply.\n".to_owned(),
    }
}

/// Whoever started this sub-agent, by way of the node that runs it.
#[derive(Debug)]
struct Parent {
    node: NodeAt,
    key: StepKey,
}

impl Parent {
    fn of_process(given: &NodeArgs, config: &Config) -> Result<Self, Failure> {
        let key = key(std::env::var(STEP_TOKEN_VARIABLE).ok().as_deref())?;
        // No token of an agent is shown.
        let given = node_address::remote(given, &TokenSource::default(), None)?;
        let data = &config.data.value;
        let here = |file: NodeFile| {
            let fingerprint = file.fingerprint.as_deref().and_then(|text| text.parse().ok());
            NodeAt { url: file.mcp, fingerprint, token: None }
        };
        let node = given.or_else(|| NodeFile::read(data).map(here));
        let node = node.ok_or_else(|| node_address::not_running(data))?;
        Ok(Self { node, key })
    }

    /// Sends a message until it is known to be taken. Its number.
    async fn tell(
        &self,
        what: &str,
        text: String,
        file: Option<String>,
        output: &mut Output,
    ) -> Result<u32, Failure> {
        let message = Message::new(text, file).map_err(|why| {
            Failure::local(format!("The system's random source failed: {why}. Nothing was sent."))
        })?;
        let send = async |_| match self.post::<MessageAck>(what, &message).await {
            // Waiting changes that only where somebody replies to the other one.
            Err(why) if why.as_reason() == Some(Reason::QuestionOpen) => Ok(Err(why)),
            told => told.map(Ok),
        };
        let told = Waiting::new(Some(PATIENCE)).answer(output, send, |_| false).await??;
        Ok(told.message)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).expect("it is JSON");
        let told = post_as(&self.node, &path(what), &self.key, body.into()).await;
        let read = told.and_then(|told| {
            let unreadable = |_| Error::Unreadable { url: self.node.url.clone() };
            serde_json::from_value(told).map_err(unreadable)
        });
        read.map_err(node_address::failure)
    }
}

/// What the variable says.
fn key(variable: Option<&str>) -> Result<StepKey, Failure> {
    let shown = variable.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        Failure::usage(format!(
            "{STEP_TOKEN_VARIABLE} is not set. Only an agent that Tasuki runs can ask and report."
        ))
    })?;
    client::step_key(shown)
}

#[cfg(test)]
mod tests {
    use tasuki_proto::run::StepId;

    use super::*;

    fn reply(status: ReplyStatus, reply: Option<&str>) -> Reply {
        Reply { status, reply: reply.map(str::to_owned) }
    }

    #[test]
    fn a_program_gets_a_reply_as_it_is_and_a_terminal_what_is_safe() {
        let check = |text: &str, for_people, expected: &str| {
            assert_eq!(words(3, &reply(ReplyStatus::There, Some(text)), for_people), expected);
        };
        check("Use\tPostgres.", false, "Use\tPostgres.\n");
        check("a\u{1b}[31mb\n", false, "a\u{1b}[31mb\n");
        check("a\u{1b}[31mb\n", true, "ab\n");
        check("", false, "\n");
    }

    #[test]
    fn where_there_is_no_reply_it_says_what_to_do() {
        let told = words(3, &reply(ReplyStatus::StillWaiting, None), true);
        assert_eq!(
            told,
            "No reply yet. Question 3 stays open; wait on with `tasuki runs ask --message 3`.\n"
        );
        let told = as_json(3, &reply(ReplyStatus::Over, None));
        assert_eq!(told, json!({ "message": 3, "standing": "over", "reply": null }));
        assert!(words(3, &reply(ReplyStatus::Over, None), true).contains("without a reply"));
    }

    #[test]
    fn only_a_sub_agent_has_a_key_and_it_is_not_said_back() {
        let given = StepKey::new(StepId::default()).unwrap();
        let text = given.to_string();
        assert_eq!(key(Some(&format!(" {text}\n"))), Ok(given));
        for none in [None, Some(""), Some(" ")] {
            assert!(key(none).unwrap_err().message.contains("is not set"), "{none:?}");
        }
        let why = key(Some(&text[1..])).unwrap_err();
        assert!(why.code() == "usage" && !why.message.contains(&text[20..]), "{why}");
    }
}
