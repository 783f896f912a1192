//! One step, from its claim to its end at the broker.
//!
//! The claim comes first, then the child, then the end: each is tried until the broker has judged
//! it, under one key. What is in the way of a step is told as a refusal of this node.

use std::{
    borrow::Cow,
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
    run::StepId,
    schema::{check_output, check_schema},
    wire::{self, RunMode},
};
use tokio::{
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    WorkerSettings,
    end::{self, Ending, NODE_STOPPED},
    environment::{EnvFilter, environment, policy},
    files::{OutputFile, StepDirectory, prune},
    origin::Origin,
    report::{Budget, Latest, Lease, Reporter, Stop, is_lost},
};
use crate::{
    client::retry::may_be_taken_later,
    clock,
    link::Link,
    process::{
        keeper::own_program,
        policy::{Kind, Policy},
    },
    runner::{
        agent_file::TIMEOUT_MAX,
        child::{self, GRACE, Job, LINGER},
        modes::fill_previous,
        outcome::{Failure, FailureKind, Outcome, Stopped},
        runners::{CommandLine, McpServer, Request, command_line},
        stream::{Dialect, Progress},
    },
    runs::{
        convert::{joined, plain},
        live::LiveSteps,
        spec::Spec,
    },
    step_key::StepKey,
};

/// For a claim to be answered: then its lease is gone.
const CLAIM_MAX: Duration = Duration::from_millis(STEP_LEASE_MS);

/// For the broker to be told, once the node is to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// For an output's form to be checked, once there is room for that.
const CHECKED_WITHIN: Duration = Duration::from_secs(10);

/// Checks at once: each takes a thread, and its output many times over. One that was given up goes
/// on to its end.
pub(super) const CHECKS_MAX: usize = 4;

/// What all steps of a worker share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) link: Link,
    pub(super) settings: WorkerSettings,
    pub(super) live: LiveSteps,
    /// The node is to stop.
    pub(super) closing: CancellationToken,
    /// Room for [`CHECKS_MAX`].
    pub(super) checks: Arc<Semaphore>,
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
pub(super) struct Claim {
    key: StepKey,
    token: u64,
    lease: Lease,
    budget: Budget,
    /// What is to be run: taken for that, since it may be large.
    given: wire::ClaimStepResponse,
}

impl Claim {
    /// Of what the broker has just given.
    pub(super) fn new(key: StepKey, given: wire::ClaimStepResponse) -> Self {
        let lease = Lease::granted(Instant::now(), given.expires_ms, given.now_ms);
        Self { key, token: given.claim_token, lease, budget: Budget::new(&given), given }
    }

    pub(super) const fn step(&self) -> StepId {
        self.key.step()
    }
}

/// Takes a step that this node was shown. `None`: somebody else has it, or nobody knows.
pub(super) async fn claim(context: Arc<Context>, step: StepId) -> Option<Claim> {
    let failed = |error: &io::Error| tracing::error!(%error, "a step has no key");
    let key = StepKey::new(step).inspect_err(failed).ok()?;
    let request = wire::ClaimStepRequest {
        run_id: step.run.to_string(),
        step: step.number,
        secret_hash: key.secret_hash().as_bytes().to_vec(),
        ..Default::default()
    };
    let claiming = context.link.command_until_judged(request, may_be_taken_later);
    let answer = tokio::select! {
        answer = timeout(CLAIM_MAX, claiming) => answer.ok()?,
        () = context.out_of_time() => return None,
    };
    match answer {
        // Without a token nothing says that the step is this node's.
        Ok(given) => (given.claim_token != 0).then(|| Claim::new(key, given)),
        Err(refusal) if refusal.reason == Reason::StepTaken => {
            tracing::debug!(%step, %refusal, "another node has the step");
            None
        }
        Err(refusal) => {
            tracing::warn!(%step, %refusal, "a step was not claimed");
            None
        }
    }
}

/// Runs a step to its end, and tells the broker of it.
pub(super) async fn run(context: Arc<Context>, mut claim: Claim, stop: Arc<Stop>) {
    let given = std::mem::take(&mut claim.given);
    let origin = Origin::find(&context.link, claim.step(), &given).await;
    let (shared, key) = (context.clone(), claim.key.clone());
    let prepared = spawn_blocking(move || prepare(&shared.settings, &key, &given, origin)).await;
    let end = match prepared {
        Ok(Ok(_)) if context.closing.is_cancelled() => Some(end::canceled(NODE_STOPPED)),
        Ok(Ok(prepared)) => execute(&context, &claim, prepared, &stop).await,
        Ok(Err(why)) => Some(end::refused(&why)),
        Err(_) => Some(end::refused("This node failed to prepare the step.")),
    };
    if let Some(end) = end {
        tell_end(&context, &claim, end).await;
    }
}

/// All that starts a child.
#[derive(Debug)]
struct Prepared {
    keeper: PathBuf,
    line: CommandLine,
    dialect: Dialect,
    directory: PathBuf,
    place: StepDirectory,
    environment: Vec<(String, OsString)>,
    policy: Policy,
    limit: Duration,
    output_schema: Option<Value>,
}

/// An error is a sentence: why this node does not run the step. Blocks on the disk.
fn prepare(
    settings: &WorkerSettings,
    key: &StepKey,
    given: &wire::ClaimStepResponse,
    origin: Origin,
) -> Result<Prepared, String> {
    let none = wire::NewStep::default();
    let step = given.new_step.as_ref().unwrap_or(&none);
    let (id, agent, runner) = (key.step(), &step.agent, &step.runner);
    tracing::info!(step = %id, %agent, %runner, "a step begins");
    let words = [&step.task, &step.system, &step.spec].into_iter().flatten();
    if words.chain(&given.previous).any(|text| text.sealed.is_some()) {
        return Err("This node cannot read the step: it is encrypted.".to_owned());
    }
    let spec = Spec::parse(plain(step.spec.as_ref()))?;
    if let Some(schema) = &spec.output_schema {
        check_schema(schema).map_err(|why| format!("The output schema {why}."))?;
    }
    let no_runner = || format!("This node has no runner {}.", echo(runner));
    let runner = settings.own.table.get(runner).ok_or_else(no_runner)?;
    let project = &settings.own.project;
    let directory = working_directory(project, spec.cwd.as_deref())?;
    let place = StepDirectory::make(&settings.directory, id);
    let place = place.map_err(|why| format!("This node cannot keep the step's files: {why}."))?;
    let (own, endpoint) = (place.own(), &settings.endpoint);
    let mcp = endpoint.mcp_url.clone().map(|url| McpServer { url, token: key.to_string() });
    let task = task(given, plain(step.task.as_ref()))?;
    let request = Request {
        task: &task,
        system: plain(step.system.as_ref()),
        model: (!step.model.is_empty()).then_some(step.model.as_str()),
        tools: spec.tools.as_deref(),
        mcp: mcp.as_ref(),
        dir: &own,
    };
    let mut line = command_line(runner, &request).map_err(|why| why.to_string())?;
    if let Some(program) = line.argv.first_mut() {
        *program = resolve_program(project, program);
    }
    let filter = EnvFilter {
        listed: spec.env.as_deref(),
        allowed: origin.is_elsewhere.then_some(settings.runs.env.as_slice()),
    };
    // Agent CLIs have their settings there.
    let home = std::env::var_os("HOME").map_or_else(|| project.clone(), PathBuf::from);
    let temporary = std::env::temp_dir();
    let keeper = own_program().map_err(|why| format!("This node cannot start anything: {why}."))?;
    let is_sandboxed = spec.sandbox || origin.is_sandboxed;
    Ok(Prepared {
        line,
        dialect: runner.dialect,
        environment: environment(filter, key, endpoint, std::env::vars_os()),
        policy: policy(is_sandboxed, &[project, &home, &keeper], &[&directory, &own, &temporary]),
        // `tasuki runs report` is the same program, so it may be read in there.
        keeper,
        directory,
        place,
        limit: limit(step.timeout_ms, settings.runs.timeout),
        output_schema: spec.output_schema,
    })
}

/// What the agent is to do: with the output before it, where something comes before it.
fn task<'t>(given: &wire::ClaimStepResponse, task: &'t str) -> Result<Cow<'t, str>, String> {
    match given.run.as_ref().map_or(RunMode::Unspecified, wire::Run::mode) {
        RunMode::Chain => {
            fill_previous(task, &joined(&given.previous)).map_err(|why| why.to_string())
        }
        RunMode::Unspecified | RunMode::Single | RunMode::Parallel => Ok(task.into()),
    }
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
        let project = project.to_string_lossy();
        let project = echo(&project);
        return Err(format!(
            "The working directory {named} is not in this node's project, {project}. Name one \
             that is, or start a node there."
        ));
    }
    if !directory.is_dir() {
        return Err(format!("The working directory {named} is not a directory."));
    }
    Ok(directory)
}

/// How long a step may run; 0: it does not say.
fn limit(timeout_ms: u64, usual: Duration) -> Duration {
    let asked = (timeout_ms != 0).then(|| Duration::from_millis(timeout_ms));
    asked.unwrap_or(usual).min(TIMEOUT_MAX)
}

/// Runs the child to its end. `None`: the broker does not hold the step for this node any more.
async fn execute(
    context: &Context,
    claim: &Claim,
    prepared: Prepared,
    stop: &Stop,
) -> Option<wire::EndStepRequest> {
    let step = claim.step();
    assert!(claim.token != 0, "WK2: step {step} was not claimed");
    let live = context.live.begin(claim.key.clone(), prepared.directory.clone());
    let is_sandboxed = prepared.policy.kind == Kind::Landlock;
    let (own, latest) = (prepared.place.own(), Latest::default());
    let mut output = prepared.place.output();
    let output_schema = prepared.output_schema;
    let (outcome, is_lost) = {
        let job = Job {
            keeper: &prepared.keeper,
            command_line: &prepared.line,
            dialect: prepared.dialect,
            directory: &prepared.directory,
            own: &own,
            environment: &prepared.environment,
            policy: prepared.policy,
            limit: prepared.limit,
            grace: GRACE,
            linger: LINGER,
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
        let running = async {
            let mut outcome = child::run(&job, stop.subscribe(), &mut on_progress).await;
            // The child is gone (RN4), so nobody has a use for its key.
            drop(live);
            if let Some(schema) = output_schema.filter(|_| outcome.is_success()) {
                check_form(&context.checks, CHECKED_WITHIN, schema, stop, &mut outcome).await;
            }
            outcome
        };
        tokio::pin!(running);
        tokio::select! {
            outcome = &mut running => (outcome, false),
            () = reporter.run() => (running.await, true),
        }
    };
    close(context, prepared.place, output).await;
    if is_lost {
        assert!(stop.borrow().is_some(), "WK3: step {step} went on without its lease");
        return None;
    }
    match &outcome.failure {
        None => tracing::info!(%step, "a step succeeded"),
        Some(Failure { kind, .. }) => tracing::info!(%step, %kind, "a step failed"),
    }
    let is_node_stopping = context.closing.is_cancelled();
    Some(Ending { outcome, is_sandboxed, is_node_stopping }.into_request())
}

/// Removes what the step left, but for a long output.
async fn close(context: &Context, place: StepDirectory, output: OutputFile) {
    let directory = context.settings.directory.clone();
    let closing = spawn_blocking(move || {
        if place.close(output) {
            prune(&directory, clock::wall_ms());
        }
    });
    if let Err(error) = closing.await {
        tracing::error!(%error, "files of a step may be left");
    }
}

/// Checks an output's form, unless the step is canceled meanwhile. A schema can cost more time than
/// its size tells. The wait for room is no part of that time: it says nothing of this output.
async fn check_form(
    checks: &Arc<Semaphore>,
    within: Duration,
    schema: Value,
    stop: &Stop,
    outcome: &mut Outcome,
) {
    let output = &outcome.output;
    let checked = if output.omitted_bytes() != 0 {
        Err("The output is too long for its form to be checked.".to_owned())
    } else {
        // A copy, so that the output is whole wherever this is given up.
        let text = output.text.clone();
        let checking = async {
            let room = checks.clone().acquire_owned().await;
            let check = move || {
                let _room = room;
                check_output(&schema, &text)
            };
            timeout(within, spawn_blocking(check)).await
        };
        let mut stop = stop.subscribe();
        let canceled = async {
            drop(stop.wait_for(|why| *why == Some(Stopped::Cancelled)).await);
        };
        let checked = tokio::select! {
            checked = checking => checked,
            () = canceled => {
                outcome.failure = Some(Failure::new(FailureKind::Cancelled, "Cancelled."));
                return;
            }
        };
        match checked {
            Ok(Ok(checked)) => checked,
            Ok(Err(_)) => Err("The form of the output could not be checked.".to_owned()),
            Err(_) => {
                let secs = within.as_secs();
                Err(format!("The form of the output could not be checked within {secs} s."))
            }
        }
    };
    outcome.failure = checked.err().map(|why| Failure::new(FailureKind::OutputInvalid, why));
}

/// Tells the broker how a step ended, until it has heard it or does not want to hear it.
async fn tell_end(context: &Context, claim: &Claim, end: wire::EndStepRequest) {
    let (link, step) = (&context.link, claim.step());
    assert!(!context.live.has(step), "WK1: step {step} is to end while it runs");
    let request = wire::EndStepRequest {
        run_id: step.run.to_string(),
        step: step.number,
        claim_token: claim.token,
        ..end
    };
    let telling = async {
        let bare = end::without_words(&request);
        let refusal = match link.command_until_judged(request, may_be_taken_later).await {
            Err(refusal) if !is_lost(refusal.reason) => refusal,
            told => return told,
        };
        tracing::warn!(%step, %refusal, "the end of a step is sent again without its words");
        link.command_until_judged(bare, may_be_taken_later).await
    };
    tokio::select! {
        told = telling => match told {
            Ok(_) => tracing::debug!(%step, "the broker knows that a step ended"),
            Err(refusal) => tracing::warn!(%step, %refusal, "the end of a step was not taken"),
        },
        () = context.out_of_time() => {
            tracing::warn!(%step, "the broker does not know that a step ended; it counts as lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::runner::{
        outcome::Exit,
        stream::{Output, Report},
    };

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

    fn answered(text: &str) -> Outcome {
        let output = Output { text: text.to_owned(), bytes: 2 };
        let report = Report { output, ..Report::default() };
        let mut outcome = Outcome::new(report, Exit::Code(0), "", None);
        outcome.failure = None;
        outcome
    }

    #[tokio::test]
    async fn an_output_without_its_form_is_kept_and_no_success() {
        let schema = serde_json::json!({"type": "object"});
        for (text, why) in [("{}", ""), ("[]", "The output does not match its JSON Schema")] {
            let mut outcome = answered(text);
            let (checks, stop) = (Arc::new(Semaphore::new(1)), Stop::new(None));
            check_form(&checks, CHECKED_WITHIN, schema.clone(), &stop, &mut outcome).await;
            let failure = outcome.failure.map(|it| (it.kind, it.text)).unzip();
            assert_eq!(
                failure.0,
                (!why.is_empty()).then_some(FailureKind::OutputInvalid),
                "{text}"
            );
            assert!(failure.1.unwrap_or_default().starts_with(why), "{text}");
            assert_eq!(outcome.output.text, text);
        }
    }

    #[test]
    fn a_check_that_takes_too_long_is_given_up() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        // The one thread is taken, so the check does not end.
        let (free, taken) = std::sync::mpsc::channel::<()>();
        let _taken = runtime.spawn_blocking(move || taken.recv());
        let mut outcome = answered("{}");
        let (checks, stop) = (Arc::new(Semaphore::new(1)), Stop::new(None));
        let schema = serde_json::json!({});
        runtime.block_on(check_form(&checks, Duration::ZERO, schema, &stop, &mut outcome));
        drop(free);
        let why = "The form of the output could not be checked within 0 s.";
        assert_eq!(outcome.failure, Some(Failure::new(FailureKind::OutputInvalid, why)));
    }

    #[tokio::test]
    async fn an_output_that_waits_for_others_to_be_checked_is_not_called_invalid() {
        let mut outcome = answered("{}");
        let (checks, stop) = (Arc::new(Semaphore::new(0)), Stop::new(None));
        let within = Duration::ZERO;
        {
            let schema = serde_json::json!({});
            let mut checking = Box::pin(check_form(&checks, within, schema, &stop, &mut outcome));
            assert!(futures::poll!(checking.as_mut()).is_pending());
            // A later timer, so one of the check would be over, too.
            sleep(within).await;
            assert!(futures::poll!(checking.as_mut()).is_pending());
            stop.send_replace(Some(Stopped::Cancelled));
            checking.await;
        }
        assert_eq!(outcome.failure, Some(Failure::new(FailureKind::Cancelled, "Cancelled.")));
    }

    #[tokio::test]
    async fn a_step_that_is_canceled_while_its_output_is_checked_ends() {
        let mut outcome = answered("{}");
        let (checks, stop) = (Arc::new(Semaphore::new(0)), Stop::new(Some(Stopped::Cancelled)));
        check_form(&checks, CHECKED_WITHIN, serde_json::json!({}), &stop, &mut outcome).await;
        assert_eq!(outcome.failure, Some(Failure::new(FailureKind::Cancelled, "Cancelled.")));
        assert_eq!(outcome.output.text, "{}");
    }

    #[test]
    fn a_step_has_the_time_it_asks_for_within_a_day() {
        let usual = Duration::from_secs(3600);
        assert_eq!(limit(0, usual), usual);
        assert_eq!(limit(1, usual), Duration::from_millis(1));
        assert_eq!(limit(7_200_000, usual), Duration::from_secs(7200));
        assert_eq!(limit(u64::MAX, usual), TIMEOUT_MAX);
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
}
