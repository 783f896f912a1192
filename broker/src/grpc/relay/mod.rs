//! `Relay`: tools that roles export, called from other nodes.
//!
//! A node keeps one stream on which it is told of calls and answers them; the `router` holds who
//! that is. That a call began and how it ended is recorded; what is said in it, if its role asks for
//! that.
//! A call that began is answered, fails, or its outcome is not known: it is never sent twice.

mod router;

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt as _;
use prost::Message as _;
use tasuki_proto::{
    echo::echo,
    id::{RoleId, Timestamp},
    limits::{
        EXPORTED_TOOLS_MAX, EXPORTS_BYTES_MAX, TOOL_ARGUMENTS_BYTES_MAX, TOOL_CALLERS_MAX,
        TOOL_LISTING_BYTES_MAX, TOOL_META_BYTES_MAX, TOOL_NAME_BYTES_MAX, TOOL_PROGRESS_BYTES_MAX,
        TOOL_RECORD_BYTES_MAX, TOOL_RESULT_BYTES_MAX,
    },
    reason::Reason,
    wire::{self, call_event::Kind, call_tool_response::Said, serve_tools_request},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, codegen::BoxStream};

pub(super) use self::router::ToolRouter;
use self::router::{CALLS_MAX, CALLS_OF_NODE_MAX, Place, RouteError, RoutedCall};
use super::{Admitted, Answer, Endpoint, Services, WorkspaceSession, only, parse, status};
use crate::rules::{
    Reply,
    call::{self, Call, Outcome},
};

/// The longest that a call takes.
const CALL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// For a caller to read its result.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Between two tries to record how a call ended, in a workspace that has too much to do.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(5);

/// Tries to check what a role exports, in such a workspace.
const CHECKS_MAX: u32 = 50;

/// Of a caller that does not read: progress that is under way to it.
const UNREAD_MAX: usize = 16;

/// What the feed tells of calls.
pub(super) fn event(event: &call::Event) -> Kind {
    match event {
        call::Event::Begun(number, it, arguments) => Kind::ToolCalled(wire::ToolCalled {
            number: *number,
            role: it.role.to_string(),
            target: it.target.to_string(),
            tool: it.tool.clone(),
            arguments: arguments.clone().unwrap_or_default(),
        }),
        call::Event::Ended(number, it, outcome, result) => {
            Kind::ToolCallEnded(wire::ToolCallEnded {
                number: *number,
                role: it.role.to_string(),
                target: it.target.to_string(),
                tool: it.tool.clone(),
                outcome: outcome_to_wire(*outcome).into(),
                result: result.clone().unwrap_or_default(),
            })
        }
    }
}

const fn outcome_to_wire(it: Outcome) -> wire::CallOutcome {
    match it {
        Outcome::Succeeded => wire::CallOutcome::Succeeded,
        Outcome::Failed => wire::CallOutcome::Failed,
        Outcome::Canceled => wire::CallOutcome::Canceled,
        Outcome::TimedOut => wire::CallOutcome::TimedOut,
        Outcome::Unknown => wire::CallOutcome::Unknown,
    }
}

const fn outcome_of(it: wire::CallOutcome) -> Outcome {
    match it {
        wire::CallOutcome::Succeeded => Outcome::Succeeded,
        wire::CallOutcome::Canceled => Outcome::Canceled,
        wire::CallOutcome::TimedOut => Outcome::TimedOut,
        wire::CallOutcome::Unknown => Outcome::Unknown,
        wire::CallOutcome::Failed | wire::CallOutcome::Unspecified => Outcome::Failed,
    }
}

impl Endpoint for wire::ListToolsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let of: Option<RoleId> = parse::optional("of", &self.of)?;
        check_caller(session).await?;
        let roles = session.services.tools.list(&session.workspace, of.as_ref());
        Ok(wire::ListToolsResponse { roles })
    }
}

pub(in crate::grpc) async fn watch_tools(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::WatchToolsRequest>,
) -> Result<BoxStream<wire::RoleTools>, Status> {
    let it = only(asked).await?;
    let session = services.enter(&admitted, it.caller.as_ref())?;
    check_caller(&session).await?;
    let watch = services.tools.watch(session.workspace);
    let told = futures::stream::unfold(watch, |mut watch| async move {
        watch.next().await.map(|it| (Ok(it), watch))
    });
    Ok(Box::pin(told.take_until(services.stopping.cancelled_owned())))
}

async fn check_caller(session: &WorkspaceSession) -> Result<(), Status> {
    let caller = session.caller.clone();
    session.query(None, move |view| view.workspace.directory.check(&caller, None)).await
}

pub(in crate::grpc) async fn serve_tools(
    services: Services,
    admitted: Admitted,
    mut said: Streaming<wire::ServeToolsRequest>,
) -> Result<BoxStream<wire::ToolOrder>, Status> {
    let first = said.message().await?.unwrap_or_default();
    let session = services.enter(&admitted, first.caller.as_ref())?;
    let missing = "is missing: only a node has roles that export tools";
    let (node, epoch) =
        session.caller.node.clone().ok_or_else(|| status::invalid("caller.node", &missing))?;
    check_caller(&session).await?;
    let place: Place = (session.workspace.clone(), node);
    let newer = || Reason::StaleEpoch.status("a newer registration of this node is served");
    let orders = services.tools.serve(place.clone(), epoch).ok_or_else(newer)?;
    let stream = orders.stream;
    let router = services.tools.clone();
    tokio::spawn(async move {
        let mut next = Some(first);
        while let Some(message) = next {
            if let Err(why) = take(&session, &place, stream, message).await {
                router.refuse(&place, stream, why);
                return;
            }
            next = said.message().await.ok().flatten();
        }
    });
    Ok(Box::pin(orders.take_until(services.stopping.cancelled_owned())))
}

/// Takes what a node says. What is wrong with it is no harm to the rest, unless it is the node.
async fn take(
    session: &WorkspaceSession,
    place: &Place,
    stream: u64,
    message: wire::ServeToolsRequest,
) -> Result<(), Status> {
    let router = &session.services.tools;
    match message.said {
        Some(serve_tools_request::Said::Tools(it)) => {
            let role: RoleId = parse::id("role", &it.role)?;
            let mut tries = 0;
            let tools = loop {
                let Err(why) = check_exports(session, &role, &it.tools).await else {
                    break it.tools;
                };
                tries += 1;
                match Reason::of(&why) {
                    Some(
                        Reason::StaleEpoch
                        | Reason::Unauthenticated
                        | Reason::RightForbidden
                        | Reason::UnknownWorkspace,
                    ) => return Err(why),
                    Some(reason) if reason.is_retryable() && tries < CHECKS_MAX => {
                        sleep(AGAIN_AFTER).await;
                    }
                    Some(_) | None => {
                        let workspace = &session.workspace;
                        tracing::info!(%workspace, %role, %why, "what a role exports is not taken");
                        break Vec::new();
                    }
                }
            };
            router.export(place, stream, role, tools);
        }
        // Progress that says too much is left out: the next one says more.
        Some(serve_tools_request::Said::Progress(it))
            if TOOL_PROGRESS_BYTES_MAX < it.progress.len() => {}
        Some(serve_tools_request::Said::Progress(it)) => router.progress(stream, it),
        Some(serve_tools_request::Said::Answer(mut it)) => {
            let result = it.result.get_or_insert_default();
            let bytes = result.result.len() + result.error.len();
            if TOOL_RESULT_BYTES_MAX < bytes {
                *result = too_large(bytes);
            }
            router.answer(stream, it);
        }
        None => {}
    }
    Ok(())
}

async fn check_exports(
    session: &WorkspaceSession,
    role: &RoleId,
    tools: &[wire::ExportedTool],
) -> Result<(), Status> {
    check_tools(tools)?;
    // Its node speaks for the role, and hosts it; and listings are not sealed.
    session.query(Some(role), |view| view.workspace.privacy.check_words(false)).await
}

/// In place of a result that is not passed on.
fn too_large(bytes: usize) -> wire::ToolResult {
    let message = format!(
        "the result is {bytes} bytes long, and at most {TOOL_RESULT_BYTES_MAX} are passed on. The tool \
         was run"
    );
    let error = serde_json::json!({ "code": -32603, "message": message }).to_string();
    wire::ToolResult {
        outcome: wire::CallOutcome::Failed.into(),
        error,
        ..wire::ToolResult::default()
    }
}

fn check_tools(tools: &[wire::ExportedTool]) -> Result<(), Status> {
    parse::check_count("tools", tools.len(), 0..=EXPORTED_TOOLS_MAX)?;
    let mut names = BTreeSet::new();
    let mut bytes = 0;
    for tool in tools {
        if tool.name.is_empty() || !names.insert(&tool.name) {
            return Err(status::invalid("tools.name", &"is empty, or there are two of it"));
        }
        parse::check_size("tools.name", tool.name.len(), TOOL_NAME_BYTES_MAX)?;
        parse::check_size("tools.listing", tool.listing.len(), TOOL_LISTING_BYTES_MAX)?;
        parse::check_count("tools.callers", tool.callers.len(), 0..=TOOL_CALLERS_MAX)?;
        for caller in &tool.callers {
            parse::check_size("tools.callers", caller.len(), TOOL_NAME_BYTES_MAX)?;
            bytes += caller.len();
        }
        bytes += tool.name.len() + tool.listing.len();
    }
    parse::check_size("tools", bytes, EXPORTS_BYTES_MAX)
}

pub(in crate::grpc) async fn call_tool(
    services: Services,
    admitted: Admitted,
    asked: Streaming<wire::CallToolRequest>,
) -> Result<BoxStream<wire::CallToolResponse>, Status> {
    let it = only(asked).await?;
    let bytes = it.encoded_len();
    let session = services.enter(&admitted, it.caller.as_ref())?;
    let (role, target): (RoleId, RoleId) =
        (parse::id("role", &it.role)?, parse::id("target", &it.target)?);
    parse::check_size("tool", it.tool.len(), TOOL_NAME_BYTES_MAX)?;
    parse::check_size("arguments", it.arguments.len(), TOOL_ARGUMENTS_BYTES_MAX)?;
    parse::check_size("meta", it.meta.len(), TOOL_META_BYTES_MAX)?;
    let lasts = match it.timeout_ms {
        0 => CALL_MAX,
        ms => CALL_MAX.min(Duration::from_millis(ms)),
    };
    let asked_of = target.clone();
    let looked = session.query(Some(&role), move |view| {
        let directory = &view.workspace.directory;
        let host = directory.host(&asked_of).cloned();
        let host = host.and_then(|node| {
            let epoch = directory.nodes.get(&node)?.epoch;
            Some((node, epoch))
        });
        Ok((host, view.now))
    });
    let (host, now) = looked.await?;
    let router = &services.tools;
    let no_route = |why| refusal(why, &target, &it.tool);
    let called = (&role, &target, it.tool.as_str());
    let mut routed = router.begin(&session.workspace, called, host).map_err(no_route)?;
    // Until the call has ended: its arguments may lie in a queue.
    let reserved = admitted.grant.reserve_bytes(bytes)?;
    let started = router.started(&session.workspace, now);
    let call = Call { role, target, tool: it.tool.clone() };
    let order = wire::ToolCall {
        role: it.role,
        target: it.target,
        tool: it.tool,
        arguments: it.arguments,
        timeout_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
        meta: it.meta,
    };
    let (responses, stream) = mpsc::channel(UNREAD_MAX);
    let (report, begun) = oneshot::channel();
    // It goes on without whoever asked, so that what begins ends.
    tokio::spawn(async move {
        let _reserved = reserved;
        let number = match start(&session, &mut routed, call.clone(), order, started).await {
            Ok(number) => number,
            Err(why) => return drop(report.send(Err(why))),
        };
        // Who asked may be gone; then its stream is, too.
        drop(report.send(Ok(())));
        let deadline = Instant::now() + lasts;
        let (outcome, last) =
            drive(&session, &mut routed, &call.target, deadline, &responses).await;
        let result = routed.is_recorded.then(|| recorded(result_text(last.as_ref())));
        let respond = async {
            if let Some(last) = last {
                // Progress that is not read leaves room for it as soon as it is.
                timeout(READ_WITHIN, responses.send(last)).await.ok();
            }
            drop(responses);
        };
        tokio::join!(end(&session, number, outcome, result), respond);
    });
    let gone = || Status::internal("the call was dropped");
    begun.await.map_err(|_| gone())??;
    Ok(Box::pin(ReceiverStream::new(stream)))
}

/// Records that a call begins, and sends it to its node. Answers its number.
async fn start(
    session: &WorkspaceSession,
    routed: &mut RoutedCall,
    call: Call,
    order: wire::ToolCall,
    started: Timestamp,
) -> Result<u64, Status> {
    let (target, tool) = (call.target.clone(), call.tool.clone());
    let arguments = routed.is_recorded.then(|| recorded(&order.arguments));
    let number = begin(session, call::Begin { call, started, arguments }).await?;
    if let Err(why) = routed.send(order) {
        end(session, number, Outcome::Failed, None).await;
        return Err(refusal(why, &target, &tool));
    }
    Ok(number)
}

fn refusal(why: RouteError, target: &RoleId, tool: &str) -> Status {
    match why {
        RouteError::Unknown => Reason::UnknownTool
            .status(format!("role {target} exports no tool {} that you can call", echo(tool))),
        RouteError::Away => Reason::Unavailable.status(format!(
            "the node of role {target} is not connected, or does not accept calls. No call was made"
        )),
        RouteError::TooMany => Reason::Overloaded.status(format!(
            "too many calls are in progress: the limit is {CALLS_MAX} for the workspace and \
             {CALLS_OF_NODE_MAX} for the node of role {target}. Try again shortly"
        )),
    }
}

/// As much of a text as is recorded.
fn recorded(text: &str) -> String {
    text[..text.floor_char_boundary(TOOL_RECORD_BYTES_MAX)].to_owned()
}

/// The result or the error that a caller is answered with.
fn result_text(last: Option<&Last>) -> &str {
    match last {
        Some(Ok(wire::CallToolResponse { said: Some(Said::Result(it)) })) => {
            if it.error.is_empty() { &it.result } else { &it.error }
        }
        Some(Err(why)) => why.message(),
        Some(Ok(_)) | None => "",
    }
}

/// What a caller is told last.
type Last = Result<wire::CallToolResponse, Status>;

/// Passes on what a node says of a call, until it ended; answers how, and what its caller is told of
/// that.
async fn drive(
    session: &WorkspaceSession,
    routed: &mut RoutedCall,
    target: &RoleId,
    deadline: Instant,
    responses: &mpsc::Sender<Last>,
) -> (Outcome, Option<Last>) {
    let say = |said| Ok(wire::CallToolResponse { said: Some(said) });
    let unknown = |why: &str| {
        let text = format!("{why}; the call may or may not have taken effect");
        Some(Err(Reason::OutcomeUnknown.status(text)))
    };
    loop {
        tokio::select! {
            biased;
            // What came before the result is told before it.
            Some(progress) = routed.progress.recv() => {
                // Who does not read is not waited for.
                responses.try_send(say(Said::Progress(progress))).ok();
            }
            answered = &mut routed.answered => return match answered {
                Ok(result) => (outcome_of(result.outcome()), Some(say(Said::Result(result)))),
                Err(_) => {
                    let why = format!("the node of role {target} disconnected before it answered");
                    (Outcome::Unknown, unknown(&why))
                }
            },
            () = responses.closed() => return (Outcome::Canceled, None),
            () = sleep_until(deadline) => {
                let why = format!("role {target} did not answer within the time limit");
                return (Outcome::TimedOut, unknown(&why));
            }
            () = session.services.stopping.cancelled() => {
                return (Outcome::Unknown, unknown("the broker is stopping"));
            }
        }
    }
}

async fn begin(session: &WorkspaceSession, begin: call::Begin) -> Result<u64, Status> {
    let begin = call::Command::Begin(begin);
    let begun = session.execute_within(session.reserve_bytes()?, begin, |_, done| Ok(done.reply));
    let Reply::Call(call::Reply::Begun(number)) = begun.await? else {
        return Err(Status::internal("a call began with another's reply"));
    };
    Ok(number)
}

/// Records how a call ended. The broker says so: its caller's node may be another by now.
async fn end(session: &WorkspaceSession, number: u64, outcome: Outcome, result: Option<String>) {
    let mut own = session.clone();
    own.caller.node = None;
    let end = call::Command::End(call::End { number, outcome, result });
    let mut pause = AGAIN_AFTER;
    while let Err(why) = own.execute_within(None, end.clone(), |_, _| Ok(())).await {
        let is_over = session.services.stopping.is_cancelled();
        if is_over || !Reason::of(&why).is_some_and(Reason::is_retryable) {
            tracing::warn!(%why, number, "how a call ended was not recorded");
            return;
        }
        sleep(pause).await;
        pause = AGAIN_AFTER_MAX.min(pause * 2);
    }
}
