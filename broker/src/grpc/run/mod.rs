//! `Runs`: runs of sub-agents, and the steps that nodes run.
//!
//! `parse` reads what callers say, `render` says what the state holds, `waits` answers questions,
//! `watch` follows a run, `files` are what sub-agents hand over, `reads` asks nodes for the rest of
//! long outputs. Words are read from the journal outside of the workspace's actor.

mod files;
mod parse;
mod reads;
mod render;
mod waits;
mod watch;

use prost::Message as _;
use tasuki_proto::{
    limits::{PARTIAL_BYTES_MAX, TEXT_BYTES_MAX},
    run::{RunId, StepId},
    token::Right,
    wire,
};
use tonic::Status;

use self::waits::OTHER_KIND;
pub(super) use self::{
    reads::{Reads, watch_reads},
    render::event,
    waits::{outcome, question},
    watch::watch,
};
use super::{Answer, Endpoint, Later, WorkspaceSession, at_once, default_response};
use crate::{
    rules::{
        self, Rejection,
        run::{
            Asker, Command, File, MessageKind, Mode, OutputWords, Reply, Report, Step, StepWords,
            Text, Words,
        },
    },
    workspace::View,
};

/// Runs in one page of a list, in bytes: half of what one message may carry.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Runs in one page of a list.
const PAGE_MAX: u32 = 200;

/// Runs in one page of a list, by default.
const PAGE: u32 = 50;

impl Endpoint for wire::StartRunRequest {
    fn intent(&mut self) -> Vec<u8> {
        parse::intent(self, |it| {
            let texts = it.steps.iter_mut().flat_map(|step| {
                [&mut step.task, &mut step.system, &mut step.spec].into_iter().flatten()
            });
            texts.collect()
        })
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let start = parse::start(self, session.has_right(Right::Run))?;
        let render = |view: &View<'_>, reply| {
            let rules::Reply::Run(Reply::Started { run }) = reply else {
                unreachable!("a run is started or refused")
            };
            // It may have been forgotten since it was started under this key.
            let run = Some(render::run(view, view.workspace.runs.get(run)?));
            Ok(at_once(wire::StartRunResponse { run, ..Default::default() }))
        };
        session.execute(Command::Start(Box::new(start)), render).await
    }
}

impl Endpoint for wire::CancelRunRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = parse::speaker(&self.role, &self.person, self.parent.as_ref())?;
        let run = parse::run("run_id", &self.run_id)?;
        session.execute(Command::Cancel { by, run }, move |view, _| response(view, run)).await
    }
}

impl Endpoint for wire::ReplyToRunRequest {
    fn intent(&mut self) -> Vec<u8> {
        parse::intent(self, |it| it.text.as_mut().into_iter().collect())
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let by = parse::speaker(&self.role, &self.person, self.parent.as_ref())?;
        let run = parse::run("run_id", &self.run_id)?;
        let (number, text) = (self.message, parse::words("text", self.text, TEXT_BYTES_MAX)?);
        let reply = Command::Reply { by, run, number, text };
        session.execute(reply, move |view, _| response(view, run)).await
    }
}

impl Endpoint for wire::ClaimStepRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let step = parse::step_id(&self.run_id, self.step)?;
        let secret = parse::secret_hash(&self.secret_hash)?;
        let render = move |view: &View<'_>, reply| claimed(view, step, reply);
        session.execute(Command::Claim { step, secret }, render).await
    }
}

/// Whether words of its end are kept.
fn has_output(step: &Step) -> bool {
    step.ended().is_some_and(|it| it.result.has_words)
}

/// All that a node needs to run a step.
fn claimed(
    view: &View<'_>,
    id: StepId,
    reply: rules::Reply,
) -> Result<Later<wire::ClaimStepResponse>, Rejection> {
    let rules::Reply::Run(Reply::Claimed { token, lapses }) = reply else {
        unreachable!("a step is claimed or refused")
    };
    let runs = &view.workspace.runs;
    let (run, step) = runs.step(id)?;
    let before = StepId { number: id.number.saturating_sub(1), ..id };
    let has_previous = run.mode == Mode::Chain && run.step(before.number).is_some_and(has_output);
    let spec = step.spec.clone();
    let answer = wire::ClaimStepResponse {
        claim_token: token.get(),
        expires_ms: lapses.as_millis(),
        run: Some(render::run(view, run)),
        left: runs.left(run.id, &view.context.reports).map(render::budget),
        ..Default::default()
    };
    Ok(Box::new(move |session| {
        let mut previous = OutputWords::default();
        if has_previous {
            previous = session.output_words(before)?;
        }
        Ok(wire::ClaimStepResponse {
            new_step: Some(render::new_step(&spec, session.step_words(id)?)),
            previous: previous.parts.into_iter().filter_map(render::text).collect(),
            ..answer
        })
    }))
}

impl Endpoint for wire::ReportStepRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let step = parse::step_id(&self.run_id, self.step)?;
        let report = Report {
            usage: parse::usage(self.usage)?,
            last_tool: super::parse::label("last_tool", &self.last_tool)?,
            partial: parse::text("partial", self.partial, PARTIAL_BYTES_MAX)?,
            ..Report::default()
        };
        let reported = session.report(step, self.claim_token.into(), report).await?;
        Ok(wire::ReportStepResponse {
            stop: render::stop(reported.stop).into(),
            expires_ms: reported.lapses.as_millis(),
            now_ms: reported.now.as_millis(),
        })
    }
}

impl Endpoint for wire::EndStepRequest {
    fn intent(&mut self) -> Vec<u8> {
        parse::intent(self, |it| {
            it.claim_token = 0;
            it.output.iter_mut().chain(&mut it.error).collect()
        })
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        session.execute(Command::End(Box::new(parse::end(self)?)), default_response).await
    }
}

impl Endpoint for wire::AskParentRequest {
    fn intent(&mut self) -> Vec<u8> {
        parse::intent(self, |it| it.text.as_mut().into_iter().collect())
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let text = parse::words("text", self.text, TEXT_BYTES_MAX)?;
        tell(session, self.step, MessageKind::Question, text, None).await
    }
}

impl Endpoint for wire::ReportToParentRequest {
    fn intent(&mut self) -> Vec<u8> {
        parse::intent(self, |it| it.text.as_mut().into_iter().collect())
    }

    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let (text, file) = parse::report(self.text, self.file, self.content)?;
        tell(session, self.step, MessageKind::Report, text, file).await
    }
}

async fn tell(
    session: &WorkspaceSession,
    step: Option<wire::StepKey>,
    kind: MessageKind,
    text: Text,
    file: Option<Box<File>>,
) -> Result<wire::RunMessageResponse, Status> {
    let by = parse::bearer("step", &step.unwrap_or_default())?;
    let render = |_: &View<'_>, reply| {
        let rules::Reply::Run(Reply::Told { number: message }) = reply else {
            unreachable!("a message is taken or refused")
        };
        Ok(at_once(wire::RunMessageResponse { message, ..Default::default() }))
    };
    session.execute(Command::Tell { by, kind, text, file }, render).await
}

impl Endpoint for wire::GetRunRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let run = parse::run("run_id", &self.run_id)?;
        session.show(None, move |view| response(view, run)).await
    }
}

fn response(view: &View<'_>, run: RunId) -> Result<Later<wire::RunResponse>, Rejection> {
    let run = Some(render::run(view, view.workspace.runs.get(run)?));
    Ok(at_once(wire::RunResponse { run, ..Default::default() }))
}

impl Endpoint for wire::ListRunsRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let before = parse::maybe_run("before", &self.before)?;
        let below = parse::maybe_run("below", &self.below)?;
        let asker = super::parse::optional("role", &self.role)?.map(Asker::Role);
        let limit = super::parse::limit(self.limit, PAGE, PAGE_MAX);
        let list = move |view: &View<'_>| {
            let runs = &view.workspace.runs;
            let tree = below.map(|id| runs.tree(id).into_iter().map(|run| run.id));
            let tree: Option<std::collections::BTreeSet<_>> = tree.map(Iterator::collect);
            let mut found = runs.before(before).rev().filter(|run| {
                (!self.only_open || run.is_open())
                    && tree.as_ref().is_none_or(|tree| tree.contains(&run.id))
                    && asker.as_ref().is_none_or(|asker| run.asker == *asker)
            });
            let (mut page, mut bytes) = (wire::ListRunsResponse::default(), 0);
            for run in found.by_ref() {
                let shown = render::run(view, run);
                bytes += shown.encoded_len();
                if page.runs.len() == limit || (PAGE_BYTES_MAX < bytes && !page.runs.is_empty()) {
                    page.has_more = true;
                    break;
                }
                page.runs.push(shown);
            }
            Ok(at_once(page))
        };
        session.show(None, list).await
    }
}

impl Endpoint for wire::GetStepRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let id = parse::step_id(&self.run_id, self.step)?;
        let show = move |view: &View<'_>| -> Result<Later<wire::GetStepResponse>, Rejection> {
            let (run, step) = view.workspace.runs.step(id)?;
            let has_output = has_output(step);
            let shown = render::step(view, run, id, step);
            Ok(Box::new(move |session| {
                let StepWords { task, system, spec } = session.step_words(id)?;
                let mut output = OutputWords::default();
                if has_output {
                    output = session.output_words(id)?;
                }
                Ok(wire::GetStepResponse {
                    step: Some(shown),
                    task: render::text(task),
                    system: render::text(system),
                    spec: render::text(spec),
                    output: output.parts.into_iter().filter_map(render::text).collect(),
                    error: render::text(output.error),
                    ..Default::default()
                })
            }))
        };
        session.show(None, show).await
    }
}

impl Endpoint for wire::ListRunMessagesRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let run = parse::run("run_id", &self.run_id)?;
        let show =
            move |view: &View<'_>| -> Result<Later<wire::ListRunMessagesResponse>, Rejection> {
                let run = view.workspace.runs.get(run)?;
                let last = u32::try_from(run.messages.len()).unwrap_or(u32::MAX);
                let messages = waits::messages(run, self.after.saturating_add(1)..=last);
                Ok(Box::new(move |session| {
                    let (messages, has_more) = messages(session)?;
                    let page = wire::ListRunMessagesResponse { messages, has_more, now_ms: 0 };
                    Ok(page)
                }))
            };
        session.show(None, show).await
    }
}

impl Endpoint for wire::ListRunnersRequest {
    async fn answer(self, session: &WorkspaceSession) -> Answer<Self> {
        let list = |view: &View<'_>| {
            let offers = view.waits.offers().map(render::offer).collect();
            Ok(at_once(wire::ListRunnersResponse { offers, ..Default::default() }))
        };
        session.show(None, list).await
    }
}

impl WorkspaceSession {
    fn step_words(&self, step: StepId) -> Result<StepWords, Status> {
        let place = Words::Step { step, words: StepWords::default() };
        let Words::Step { words, .. } = self.run_words(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok(words)
    }

    fn output_words(&self, step: StepId) -> Result<OutputWords, Status> {
        let place = Words::Output { step, words: OutputWords::default() };
        let Words::Output { words, .. } = self.run_words(place)? else {
            unreachable!("{OTHER_KIND}")
        };
        Ok(words)
    }
}
