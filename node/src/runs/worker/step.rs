//! One step, from its claim to its end at the broker.
//!
//! The claim comes first, then the child, then the end: each is tried until the broker has judged
//! it, under one key. What is in the way of a step is told as a refusal of this node.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tasuki_proto::{
    echo::echo,
    limits::STEP_LEASE_MS,
    reason::Reason,
    rpc::Rpc,
    run::StepId,
    wire::{self, RunMode},
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    WorkerSettings,
    end::{self, Ending, NODE_STOPPED},
    environment::{Places, Wanted, environment, policy},
    files::{OutputFile, Place, prune},
    report::{Budget, Latest, Lease, Reporter, Stop, ask_to_stop, is_lost},
};
use crate::{
    client::retry::{Backoff, chance},
    clock,
    link::Link,
    process::{
        keeper::own_program,
        policy::{Kind, Policy},
    },
    refusal::Refusal,
    runner::{
        child::{self, GRACE, Job},
        modes::fill_previous,
        outcome::{Failure, FailureKind, Outcome, Stopped},
        runners::{CommandLine, McpServer, Request, Runner, command_line},
        stream::{Dialect, Output, Progress},
    },
    runs::{convert::plain, live::LiveSteps, schema::check_output, spec::Spec},
    step_key::StepKey,
};

/// The longest that a step may run, whatever it asks for.
const LIMIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// For a claim to be answered: then its lease is gone.
const CLAIM_MAX: Duration = Duration::from_millis(STEP_LEASE_MS);

/// For the broker to be told, once the node is to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What all steps of a worker share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) link: Link,
    pub(super) settings: WorkerSettings,
    pub(super) live: LiveSteps,
    /// The node is to stop.
    pub(super) closing: CancellationToken,
}

impl Context {
    /// Resolves when nothing more is waited for, since the node is to stop.
    async fn out_of_time(&self) {
        self.closing.cancelled().await;
        sleep(LAST_WORDS).await;
    }
}

/// A step that this node holds.
#[derive(Debug)]
struct Claim {
    key: StepKey,
    token: u64,
    lease: Lease,
    budget: Budget,
    step: wire::NewStep,
    previous: Vec<wire::RunText>,
    run: wire::Run,
}

impl Claim {
    const fn id(&self) -> StepId {
        self.key.step()
    }
}

/// Claims a step and runs it. `claimed` hears whether it was.
pub(super) async fn run(
    context: Arc<Context>,
    key: StepKey,
    stop: Arc<Stop>,
    claimed: oneshot::Sender<bool>,
) {
    let claim = claim(&context, key).await;
    // Nobody may be left to hear it.
    claimed.send(claim.is_some()).ok();
    let Some(claim) = claim else { return };
    let (step, agent, runner) = (claim.id(), &claim.step.agent, &claim.step.runner);
    tracing::info!(%step, %agent, %runner, "a step begins");
    let end = match prepare(&context, &claim).await {
        Err(Refused(why)) => Some(end::refused(&why)),
        Ok(_) if context.closing.is_cancelled() => Some(end::canceled(NODE_STOPPED)),
        Ok(prepared) => execute(&context, &claim, prepared, &stop).await,
    };
    if let Some(end) = end {
        tell_end(&context, &claim, end).await;
    }
}

/// Takes a step that this node was shown. `None`: somebody else has it, or nobody knows.
async fn claim(context: &Context, key: StepKey) -> Option<Claim> {
    let step = key.step();
    let request = wire::ClaimStepRequest {
        run_id: step.run.to_string(),
        step: step.number,
        secret_hash: key.hash(),
        ..Default::default()
    };
    let is_unsure = |reason: Reason| {
        matches!(reason, Reason::Unavailable | Reason::OutcomeUnknown | Reason::StaleEpoch)
    };
    let claiming = timeout(CLAIM_MAX, carry_through(&context.link, request, is_unsure));
    let answer = tokio::select! {
        answer = claiming => answer.ok()?,
        () = context.out_of_time() => return None,
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) if refusal.reason == Reason::StepTaken => {
            tracing::debug!(%step, %refusal, "another node has the step");
            return None;
        }
        Err(refusal) => {
            tracing::warn!(%step, %refusal, "a step was not claimed");
            return None;
        }
    };
    // Without a token nothing says that the step is this node's.
    if answer.claim_token == 0 {
        return None;
    }
    Some(Claim {
        key,
        token: answer.claim_token,
        lease: Lease::granted(Instant::now(), answer.expires_ms, answer.now_ms),
        budget: Budget::new(&answer),
        step: answer.new_step.unwrap_or_default(),
        previous: answer.previous,
        run: answer.run.unwrap_or_default(),
    })
}

/// Why this node does not run a step: a sentence.
#[derive(Debug)]
struct Refused(String);

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// All that starts a child.
#[derive(Debug)]
struct Prepared {
    keeper: PathBuf,
    line: CommandLine,
    dialect: Dialect,
    directory: PathBuf,
    place: Place,
    environment: Vec<(String, OsString)>,
    policy: Policy,
    limit: Duration,
    output_schema: Option<Value>,
}

async fn prepare(context: &Context, claim: &Claim) -> Result<Prepared, Refused> {
    let (settings, step) = (&context.settings, &claim.step);
    let words = [&step.task, &step.system, &step.spec].into_iter().flatten();
    if words.chain(&claim.previous).any(|text| text.sealed.is_some()) {
        return Err("This node cannot read the step: it is encrypted.".to_owned().into());
    }
    let spec = Spec::parse(plain(step.spec.as_ref()))?;
    let no_runner = || format!("This node has no runner {}.", echo(&step.runner));
    let runner = settings.own.table.get(&step.runner).ok_or_else(no_runner)?;
    let directory = working_directory(&settings.own.project, spec.cwd.as_deref())?;
    let place = Place::make(&settings.directory, claim.id());
    let place = place.map_err(|why| format!("This node cannot keep the step's files: {why}."))?;
    let line = line(settings, claim, &spec, runner, &place)?;
    let is_from_elsewhere = is_from_elsewhere(&context.link, claim).await;
    let wanted = Wanted {
        listed: spec.env.as_deref(),
        allowed: is_from_elsewhere.then_some(settings.env.as_slice()),
    };
    let endpoint = settings.endpoint.as_ref();
    let environment = environment(wanted, &claim.key, endpoint, std::env::vars_os());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = Places {
        project: &settings.own.project,
        directory: &directory,
        own: &place.own(),
        temporary: &std::env::temp_dir(),
        home: home.as_deref(),
    };
    let policy = policy(spec.sandbox, places);
    let keeper = own_program().map_err(|why| format!("This node cannot start anything: {why}."))?;
    Ok(Prepared {
        keeper,
        line,
        dialect: runner.dialect,
        directory,
        place,
        environment,
        policy,
        limit: limit(step.timeout_ms, settings.limit),
        output_schema: spec.output_schema,
    })
}

fn line(
    settings: &WorkerSettings,
    claim: &Claim,
    spec: &Spec,
    runner: &Runner,
    place: &Place,
) -> Result<CommandLine, Refused> {
    let (step, task) = (&claim.step, plain(claim.step.task.as_ref()));
    let previous: String = claim.previous.iter().map(|part| plain(Some(part))).collect();
    // In other modes nothing comes before it.
    let task = match claim.run.mode() {
        RunMode::Chain => fill_previous(task, &previous).map_err(|why| why.to_string())?,
        RunMode::Unspecified | RunMode::Single | RunMode::Parallel => task.into(),
    };
    let mcp_url = settings.endpoint.as_ref().and_then(|endpoint| endpoint.mcp_url.clone());
    let mcp = mcp_url.map(|url| McpServer { url, token: claim.key.to_string() });
    let request = Request {
        task: &task,
        system: plain(step.system.as_ref()),
        model: (!step.model.is_empty()).then_some(step.model.as_str()),
        tools: spec.tools.as_deref(),
        mcp: mcp.as_ref(),
        dir: &place.own(),
    };
    let mut line = command_line(runner, &request).map_err(|why| why.to_string())?;
    if let Some(program) = line.argv.first_mut() {
        *program = resolve_program(&settings.own.project, program);
    }
    Ok(line)
}

/// A program that is named by a path from the project, as seen from anywhere in it.
fn resolve_program(project: &Path, program: &str) -> String {
    let is_relative = program.contains('/') && Path::new(program).is_relative();
    let resolved = is_relative.then(|| project.join(program));
    let resolved = resolved.as_deref().and_then(Path::to_str);
    resolved.unwrap_or(program).to_owned()
}

/// Where the agent works: in the project, wherever links lead.
fn working_directory(project: &Path, cwd: Option<&str>) -> Result<PathBuf, String> {
    let unusable = |why: io::Error| format!("This node's project directory cannot be used: {why}.");
    let project = project.canonicalize().map_err(unusable)?;
    let Some(cwd) = cwd else { return Ok(project) };
    let named = echo(cwd);
    let unusable = |why: io::Error| format!("The working directory {named} cannot be used: {why}.");
    let directory = project.join(cwd).canonicalize().map_err(unusable)?;
    if !directory.starts_with(&project) {
        return Err(format!("The working directory {named} is not in this node's project."));
    }
    if !directory.is_dir() {
        return Err(format!("The working directory {named} is not a directory."));
    }
    Ok(directory)
}

/// How long a step may run; 0: it does not say.
fn limit(timeout_ms: u64, usual: Duration) -> Duration {
    let asked = (timeout_ms != 0).then(|| Duration::from_millis(timeout_ms));
    asked.unwrap_or(usual).min(LIMIT_MAX)
}

/// Whether another machine asked for the run, or for one that it is below. What cannot be found out
/// is from elsewhere.
async fn is_from_elsewhere(link: &Link, claim: &Claim) -> bool {
    let own = claim.run.steps.iter().find(|step| step.step == claim.id().number);
    let own = own.map(|step| step.node.as_str()).filter(|node| !node.is_empty());
    let Some(own) = own else { return true };
    let (mut asker, mut parent) = (claim.run.node.clone(), claim.run.parent.clone());
    loop {
        if asker != own {
            return true;
        }
        let Some(wire::StepRef { run_id, .. }) = parent else { return false };
        let above = link.query(wire::GetRunRequest { run_id, ..Default::default() }).await;
        let Ok(wire::RunResponse { run: Some(above), .. }) = above else { return true };
        (asker, parent) = (above.node, above.parent);
    }
}

/// Runs the child to its end. `None`: the broker does not hold the step for this node any more.
async fn execute(
    context: &Context,
    claim: &Claim,
    prepared: Prepared,
    stop: &Stop,
) -> Option<wire::EndStepRequest> {
    let step = claim.id();
    let Prepared {
        keeper,
        line,
        dialect,
        directory,
        place,
        environment,
        policy,
        limit,
        output_schema,
    } = prepared;
    let is_sandboxed = policy.kind == Kind::Landlock;
    let (own, latest, mut output) = (place.own(), Latest::default(), place.output());
    assert!(claim.token != 0, "WK2: step {step} was not claimed");
    let live = context.live.begin(claim.key.clone());
    let (mut outcome, is_lost) = {
        let job = Job {
            keeper: &keeper,
            command_line: &line,
            dialect,
            directory: &directory,
            own: &own,
            environment: &environment,
            policy,
            limit,
            grace: GRACE,
        };
        let mut on_progress = |progress: Progress<'_>| {
            output.take(&progress);
            latest.take(&progress);
        };
        let reporter = Reporter {
            link: &context.link,
            step,
            claim_token: claim.token,
            latest: &latest,
            stop,
            budget: claim.budget,
            lease: claim.lease,
        };
        let running = child::run(&job, stop.subscribe(), &mut on_progress);
        let reporting = reporter.run();
        tokio::pin!(running, reporting);
        let (mut is_lost, mut is_closing) = (false, false);
        loop {
            tokio::select! {
                outcome = &mut running => break (outcome, is_lost),
                () = &mut reporting, if !is_lost => is_lost = true,
                () = context.closing.cancelled(), if !is_closing => {
                    is_closing = true;
                    ask_to_stop(stop, Stopped::Cancelled);
                }
            }
        }
    };
    // The child is gone (RN4), so nobody has a use for its key.
    drop(live);
    close(context, place, output).await;
    if is_lost {
        assert!(stop.borrow().is_some(), "WK3: step {step} went on without its lease");
        return None;
    }
    if let Some(schema) = output_schema.filter(|_| outcome.is_success())
        && let Err(why) = check_form(schema, outcome.output.clone()).await
    {
        outcome.failure = Some(Failure::new(FailureKind::OutputInvalid, why));
    }
    log_end(step, &outcome);
    let is_node_stopping = context.closing.is_cancelled();
    Some(Ending { outcome: &outcome, is_sandboxed, is_node_stopping }.to_request())
}

/// Removes what the step left, but for a long output.
async fn close(context: &Context, place: Place, output: OutputFile) {
    let directory = context.settings.directory.clone();
    let closing = tokio::task::spawn_blocking(move || {
        if place.close(output)
            && let Err(error) = prune(&directory, clock::wall_ms())
        {
            tracing::warn!(%error, "old outputs cannot be removed");
        }
    });
    if let Err(error) = closing.await {
        tracing::error!(%error, "files of a step may be left");
    }
}

/// Checks an output's form, which may take a while.
async fn check_form(schema: Value, output: Output) -> Result<(), String> {
    if output.omitted_bytes() != 0 {
        return Err("The output is too long for its form to be checked.".to_owned());
    }
    let checking = tokio::task::spawn_blocking(move || check_output(&schema, &output.text));
    match checking.await {
        Ok(checked) => checked.map(drop),
        Err(_) => Err("The form of the output could not be checked.".to_owned()),
    }
}

fn log_end(step: StepId, outcome: &Outcome) {
    match &outcome.failure {
        None => tracing::info!(%step, "a step succeeded"),
        Some(Failure { kind, .. }) => tracing::info!(%step, %kind, "a step failed"),
    }
}

/// Tells the broker how a step ended, until it has heard it or does not want to hear it.
async fn tell_end(context: &Context, claim: &Claim, end: wire::EndStepRequest) {
    let step = claim.id();
    assert!(!context.live.has(step), "WK1: step {step} is to end while it runs");
    let request = wire::EndStepRequest {
        run_id: step.run.to_string(),
        step: step.number,
        claim_token: claim.token,
        ..end
    };
    let telling = async {
        let refusal = match send_end(&context.link, request.clone()).await {
            Err(refusal) if !is_lost(refusal.reason) => refusal,
            told => return told,
        };
        tracing::warn!(%step, %refusal, "the end of a step is told again without its words");
        send_end(&context.link, end::without_words(request)).await
    };
    tokio::select! {
        told = telling => match told {
            Ok(_) => tracing::debug!(%step, "the broker knows that a step ended"),
            Err(refusal) => tracing::warn!(%step, %refusal, "the end of a step was not taken"),
        },
        () = context.out_of_time() => {
            tracing::warn!(%step, "the broker was not told that a step ended; it counts as lost");
        }
    }
}

async fn send_end(
    link: &Link,
    request: wire::EndStepRequest,
) -> Result<wire::EndStepResponse, Refusal> {
    carry_through(link, request, may_be_taken_later).await
}

/// Whether what was refused so may be taken when it is sent again, without anybody's doing.
const fn may_be_taken_later(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unavailable
            | Reason::Overloaded
            | Reason::OutcomeUnknown
            | Reason::StaleEpoch
            | Reason::Unauthenticated
            | Reason::NodeForbidden
            | Reason::RoleInUse
    )
}

/// Sends a command under one key until it is answered otherwise than `again` says.
async fn carry_through<R: Rpc>(
    link: &Link,
    request: R,
    again: impl Fn(Reason) -> bool,
) -> Result<R::Response, Refusal> {
    let mut backoff = Backoff::default();
    let key = loop {
        match link.new_key().await {
            Ok(key) => break key,
            Err(refusal) => tracing::debug!(%refusal, "a command has no key yet"),
        }
        sleep(backoff.pause(chance())).await;
    };
    backoff.reset();
    loop {
        link.connected().await;
        let refusal = match link.command_without_role(request.clone(), Some(key.id().clone())).await
        {
            Err(refusal) if again(refusal.reason) => refusal,
            answer => return answer,
        };
        tracing::debug!(%refusal, "a command is sent again");
        sleep(backoff.pause(chance())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_agent_works_in_the_project_wherever_links_lead() {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("project");
        fs::create_dir_all(project.join("web/deep")).unwrap();
        fs::create_dir(place.path().join("project-two")).unwrap();
        fs::write(project.join("file"), "").unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(place.path().join(to), project.join(name)).unwrap();
        };
        link("project/web", "inside");
        link("project-two", "outside");
        let real = project.canonicalize().unwrap();
        let found = |cwd: Option<&str>| working_directory(&project, cwd);
        assert_eq!(found(None), Ok(real.clone()));
        let absolute = real.join("web").display().to_string();
        for (cwd, directory) in [
            (".", ""),
            ("web/deep", "web/deep"),
            ("web/..", ""),
            ("inside", "web"),
            ("inside/deep/..", "web"),
            (absolute.as_str(), "web"),
        ] {
            assert_eq!(found(Some(cwd)), Ok(real.join(directory).components().collect()), "{cwd}");
        }
        for (cwd, why) in [
            ("..", "is not in"),
            ("../project-two", "is not in"),
            ("outside", "is not in"),
            ("inside/../..", "is not in"),
            ("/", "is not in"),
            ("file", "is not a directory"),
            ("none", "cannot be used"),
            ("a\0b", "cannot be used"),
        ] {
            let said = found(Some(cwd)).unwrap_err();
            assert!(said.contains(why), "{cwd}: {said}");
        }
        assert!(working_directory(&place.path().join("none"), None).is_err());
    }

    #[test]
    fn a_step_has_the_time_it_asks_for_within_a_day() {
        let usual = Duration::from_secs(3600);
        assert_eq!(limit(0, usual), usual);
        assert_eq!(limit(1, usual), Duration::from_millis(1));
        assert_eq!(limit(7_200_000, usual), Duration::from_secs(7200));
        assert_eq!(limit(u64::MAX, usual), LIMIT_MAX);
    }

    #[test]
    fn a_program_of_the_project_is_found_from_each_of_its_directories() {
        let project = Path::new("/p");
        for (program, resolved) in
            [("pi", "pi"), ("tools/pi", "/p/tools/pi"), ("./pi", "/p/./pi"), ("/bin/pi", "/bin/pi")]
        {
            assert_eq!(resolve_program(project, program), resolved);
        }
    }

    #[test]
    fn an_end_is_told_again_where_that_helps() {
        for reason in [Reason::Unavailable, Reason::OutcomeUnknown, Reason::Overloaded] {
            assert!(may_be_taken_later(reason), "{reason}");
        }
        for reason in [Reason::LeaseLost, Reason::StaleToken, Reason::PrivateWorkspace] {
            assert!(!may_be_taken_later(reason), "{reason}");
        }
    }
}
