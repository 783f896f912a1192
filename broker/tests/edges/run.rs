//! Runs at a real broker: nodes that claim, report and end steps, whoever asked for them, and what a
//! broker that was killed in the middle still knows.

mod files;
mod reads;
mod restored;

use std::net::SocketAddr;

use ed25519_dalek::SigningKey;
use prost::Message as _;
use tasuki_proto::{
    limits::REPORT_BYTES_MAX,
    private::{OwnerKey, Roster},
    token::{Right, Secret},
    wire::{
        self, RunStatus, StepStatus, directory_client::DirectoryClient,
        privacy_client::PrivacyClient, run_answer::Standing, run_question::Ask,
        runs_client::RunsClient,
    },
};
use tonic::{Status, transport::Channel};

use crate::{
    guarded::Guarded,
    support::{Process, assert_whole, caller, channel, key, reason, soon},
};

/// A node that hosts one role of its own name, in capitals.
#[derive(Debug, Clone)]
struct Node {
    runs: RunsClient<Channel>,
    address: SocketAddr,
    name: String,
    epoch: u64,
    counter: u64,
}

macro_rules! calls {
    ($($call:ident($asked:ident) -> $answered:ident;)*) => {
        impl Node {
            $(async fn $call(&mut self, mut it: wire::$asked) -> Result<wire::$answered, Status> {
                it.caller = self.caller();
                it.key = it.key.or_else(|| self.key());
                Ok(soon(stringify!($call), self.runs.$call(it)).await?.into_inner())
            })*
        }
    };
}

calls! {
    start_run(StartRunRequest) -> StartRunResponse;
    cancel_run(CancelRunRequest) -> RunResponse;
    reply_to_run(ReplyToRunRequest) -> RunResponse;
    claim_step(ClaimStepRequest) -> ClaimStepResponse;
    end_step(EndStepRequest) -> EndStepResponse;
    ask_parent(AskParentRequest) -> RunMessageResponse;
    report_to_parent(ReportToParentRequest) -> RunMessageResponse;
}

fn text(text: &str) -> Option<wire::RunText> {
    Some(wire::RunText { text: text.to_owned(), sealed: None })
}

fn secret(step: &wire::StepRef) -> Secret {
    let name = format!("{}/{}", step.run_id, step.step);
    Secret::new(*blake3::hash(name.as_bytes()).as_bytes())
}

fn step_key(step: &wire::StepRef) -> Option<wire::StepKey> {
    let secret = secret(step).expose_bytes().to_vec();
    Some(wire::StepKey { run_id: step.run_id.clone(), step: step.step, secret })
}

impl Node {
    async fn at(address: SocketAddr, name: &str) -> Self {
        let runs = RunsClient::new(channel(address));
        let mut node = Self { runs, address, name: name.to_owned(), epoch: 0, counter: 0 };
        node.register().await;
        node
    }

    /// Begins a new life.
    async fn register(&mut self) {
        let spec = wire::RoleSpec { role: self.role(), ..Default::default() };
        let request = wire::RegisterRequest {
            caller: caller("default"),
            key: self.key(),
            node: self.name.clone(),
            roles: vec![spec],
            ..Default::default()
        };
        let mut directory = DirectoryClient::new(channel(self.address));
        let registered = soon("it registers", directory.register(request)).await.unwrap();
        self.epoch = registered.into_inner().epoch;
    }

    /// The same at a broker that is somewhere else since it was killed.
    fn moved(&mut self, address: SocketAddr) {
        (self.address, self.runs) = (address, RunsClient::new(channel(address)));
    }

    fn role(&self) -> String {
        self.name.to_uppercase()
    }

    fn caller(&self) -> Option<wire::Caller> {
        let (workspace, node) = ("default".to_owned(), self.name.clone());
        Some(wire::Caller { workspace, node, epoch: self.epoch })
    }

    fn key(&mut self) -> Option<wire::IdempotencyKey> {
        self.counter += 1;
        key(&format!("of-{}", self.name), self.counter)
    }

    fn starting(&self, mode: wire::RunMode, on: &str, tasks: &[&str]) -> wire::StartRunRequest {
        let step = |task: &&str| wire::NewStep {
            agent: "scout".to_owned(),
            runner: "pi".to_owned(),
            on: on.to_owned(),
            task: text(task),
            system: text("be brief"),
            ..Default::default()
        };
        let (role, steps) = (self.role(), tasks.iter().map(step).collect());
        wire::StartRunRequest { role, mode: mode.into(), steps, ..Default::default() }
    }

    async fn start(&mut self, mode: wire::RunMode, on: &str, tasks: &[&str]) -> wire::Run {
        let request = self.starting(mode, on, tasks);
        self.start_run(request).await.unwrap().run.unwrap()
    }

    async fn wait(
        &mut self,
        ask: Ask,
        step: Option<wire::StepKey>,
        hold_ms: u64,
    ) -> Result<wire::RunAnswer, Status> {
        let role = if step.is_none() { self.role() } else { String::new() };
        let question =
            wire::RunQuestion { caller: self.caller(), role, step, hold_ms, ask: Some(ask) };
        Ok(soon("an answer", self.runs.await_run(question)).await?.into_inner())
    }

    /// Waits for a step.
    async fn offered(&mut self, hold_ms: u64) -> Result<wire::RunAnswer, Status> {
        let offer = wire::RunnerOffer {
            runners: vec!["pi".to_owned()],
            labels: vec!["gpu".to_owned()],
            places: 1,
            accepts_elsewhere: true,
            ..Default::default()
        };
        self.wait(Ask::Offer(offer), None, hold_ms).await
    }

    async fn claim(&mut self, step: &wire::StepRef) -> Result<wire::ClaimStepResponse, Status> {
        let (run_id, secret_hash) = (step.run_id.clone(), secret(step).hash());
        let secret_hash = secret_hash.as_bytes().to_vec();
        let step = step.step;
        self.claim_step(wire::ClaimStepRequest { run_id, step, secret_hash, ..Default::default() })
            .await
    }

    /// Waits for a step and takes it.
    async fn take(&mut self) -> (wire::StepRef, wire::ClaimStepResponse) {
        let step = self.offered(60_000).await.unwrap().ready.unwrap();
        let claimed = self.claim(&step).await.unwrap();
        (step, claimed)
    }

    fn ending(step: &wire::StepRef, token: u64, output: &str) -> wire::EndStepRequest {
        wire::EndStepRequest {
            run_id: step.run_id.clone(),
            step: step.step,
            claim_token: token,
            status: StepStatus::Succeeded.into(),
            output: text(output).into_iter().collect(),
            output_bytes: output.len() as u64,
            usage: Some(wire::RunUsage { cost_microusd: 5, turns: 1, ..Default::default() }),
            exit_code: Some(0),
            ..Default::default()
        }
    }

    async fn end(&mut self, step: &wire::StepRef, token: u64, output: &str) -> Result<(), Status> {
        self.end_step(Self::ending(step, token, output)).await.map(drop)
    }

    async fn report(
        &mut self,
        step: &wire::StepRef,
        claim_token: u64,
        cost_microusd: u64,
    ) -> Result<wire::StepStop, Status> {
        let request = wire::ReportStepRequest {
            caller: self.caller(),
            run_id: step.run_id.clone(),
            step: step.step,
            claim_token,
            usage: Some(wire::RunUsage { cost_microusd, ..Default::default() }),
            last_tool: "bash".to_owned(),
            partial: text(&format!("so far {cost_microusd}")),
        };
        Ok(soon("it reports", self.runs.report_step(request)).await?.into_inner().stop())
    }

    async fn runs_of(&mut self, role: &str, before: &str, limit: u32) -> wire::ListRunsResponse {
        let request = wire::ListRunsRequest {
            caller: self.caller(),
            role: role.to_owned(),
            before: before.to_owned(),
            limit,
            ..Default::default()
        };
        soon("runs", self.runs.list_runs(request)).await.unwrap().into_inner()
    }

    /// Waits for the end of a run, or for a message after this one.
    async fn hear(&mut self, run: &wire::Run, after: u32) -> wire::RunAnswer {
        let of = wire::RunEndQuestion { run_id: run.run_id.clone(), after };
        let answer = self.wait(Ask::Run(of), None, 60_000).await.unwrap();
        assert_eq!(answer.standing(), Standing::There);
        answer
    }

    async fn output(&mut self, step: &wire::StepRef) -> wire::GetStepResponse {
        let (run_id, step) = (step.run_id.clone(), step.step);
        let request = wire::GetStepRequest { caller: self.caller(), run_id, step };
        soon("a step", self.runs.get_step(request)).await.unwrap().into_inner()
    }
}

async fn office(data: &std::path::Path) -> (Process, Node, Node) {
    let (broker, address) = Process::served(data).await;
    (broker, Node::at(address, "n1").await, Node::at(address, "n2").await)
}

#[tokio::test]
async fn a_chain_hands_each_output_on_and_its_asker_hears_of_the_end() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Chain, "gpu", &["one", "two {previous}"]).await;
    let waiting = {
        let (mut asker, run) = (asker.clone(), run.clone());
        tokio::spawn(async move { asker.hear(&run, 0).await })
    };
    let (first, claimed) = runner.take().await;
    assert_eq!((first.step, claimed.previous.len()), (1, 0));
    let told = claimed.new_step.unwrap();
    assert_eq!((told.task, told.system, told.spec), (text("one"), text("be brief"), None));
    let nothing = runner.offered(0).await.unwrap();
    assert_eq!((nothing.standing(), nothing.ready), (Standing::StillWaiting, None));
    runner.end(&first, claimed.claim_token, "found it").await.unwrap();
    let (second, claimed) = runner.take().await;
    assert_eq!((second.step, claimed.previous), (2, text("found it").into_iter().collect()));
    runner.end(&second, claimed.claim_token, "done").await.unwrap();
    let over = waiting.await.unwrap().run.unwrap();
    assert_eq!(over.status(), RunStatus::Succeeded);
    assert_eq!(over.usage.unwrap().cost_microusd, 10);
    let step = asker.output(&second).await;
    assert_eq!(step.output, [text("done").unwrap()]);
    let step = step.step.unwrap();
    assert_eq!((step.node.as_str(), step.exit_code), ("n2", Some(0)));
}

/// Holds RU2 with a node that began anew, and one that was never asked.
#[tokio::test]
async fn a_step_whose_node_died_is_lost_and_its_asker_is_told() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let (step, claimed) = runner.take().await;
    let token = claimed.claim_token;
    assert_eq!(reason(&asker.claim(&step).await.unwrap_err()), "step_taken");
    assert_eq!(reason(&asker.end(&step, token, "mine").await.unwrap_err()), "stale_token");
    assert_eq!(reason(&runner.end(&step, token + 1, "no").await.unwrap_err()), "stale_token");
    runner.report(&step, token, 7).await.unwrap();
    let mut former = runner.clone();
    runner.register().await;
    let over = asker.hear(&run, 0).await.run.unwrap();
    assert_eq!(over.status(), RunStatus::Lost);
    assert_eq!(over.steps[0].status(), StepStatus::Lost);
    assert_eq!(over.usage.unwrap().cost_microusd, 7, "what was reported before");
    former.counter += 100;
    assert_eq!(reason(&former.end(&step, token, "late").await.unwrap_err()), "stale_epoch");
    assert_eq!(reason(&runner.end(&step, token, "late").await.unwrap_err()), "lease_lost");
    assert_eq!(reason(&runner.report(&step, token, 8).await.unwrap_err()), "lease_lost");
    assert_eq!(reason(&runner.claim(&step).await.unwrap_err()), "step_taken");
}

#[tokio::test]
async fn a_broker_that_is_killed_in_the_middle_still_knows_every_step() {
    let data = tempfile::tempdir().unwrap();
    let (mut broker, mut asker, mut runner) = office(data.path()).await;
    let mut start = asker.starting(wire::RunMode::Parallel, "gpu", &["one", "two"]);
    start.key = asker.key();
    let run = asker.start_run(start.clone()).await.unwrap().run.unwrap();
    let (first, claimed) = runner.take().await;
    broker.kill().await;
    let (started, address) = Process::served(data.path()).await;
    broker = started;
    asker.moved(address);
    runner.moved(address);
    let again = asker.start_run(start).await.unwrap().run.unwrap();
    assert_eq!(again.run_id, run.run_id, "the same key is the same run");
    let token = claimed.claim_token;
    assert_eq!(runner.report(&first, token, 3).await.unwrap(), wire::StepStop::Unspecified);
    let mut end = Node::ending(&first, token, "one is done");
    end.key = runner.key();
    runner.end_step(end.clone()).await.unwrap();
    broker.kill().await;
    let (started, address) = Process::served(data.path()).await;
    broker = started;
    asker.moved(address);
    runner.moved(address);
    runner.end_step(end).await.unwrap();
    let (second, claimed) = runner.take().await;
    assert!(second.step == 2 && token < claimed.claim_token, "RU2: {claimed:?}");
    runner.end(&second, claimed.claim_token, "two is done").await.unwrap();
    let over = asker.hear(&run, 0).await.run.unwrap();
    assert_eq!(over.status(), RunStatus::Succeeded);
    assert_eq!(asker.output(&first).await.output, [text("one is done").unwrap()]);
    broker.kill().await;
    assert_whole(data.path()).await;
}

#[tokio::test]
async fn a_canceled_run_stops_what_runs_and_a_budget_does_too() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Parallel, "gpu", &["one", "two"]).await;
    let (step, claimed) = runner.take().await;
    let knowing = {
        let mut runner = runner.clone();
        let offer = wire::RunnerOffer::default();
        tokio::spawn(async move { runner.wait(Ask::Offer(offer), None, 60_000).await })
    };
    let cancel = wire::CancelRunRequest {
        role: asker.role(),
        run_id: run.run_id.clone(),
        ..Default::default()
    };
    let canceled = asker.cancel_run(cancel).await.unwrap().run.unwrap();
    assert!(canceled.is_stopping && canceled.steps[1].status() == StepStatus::Canceled);
    assert_eq!(
        knowing.await.unwrap().unwrap().stop,
        std::slice::from_ref(&step),
        "its node is told"
    );
    let token = claimed.claim_token;
    assert_eq!(runner.report(&step, token, 1).await.unwrap(), wire::StepStop::Canceled);
    let mut end = Node::ending(&step, token, "");
    end.set_status(StepStatus::Canceled);
    runner.end_step(end).await.unwrap();
    assert_eq!(asker.hear(&run, 0).await.run.unwrap().status(), RunStatus::Canceled);

    let mut start = asker.starting(wire::RunMode::Chain, "gpu", &["one", "two"]);
    start.budget = Some(wire::RunBudget { max_cost_microusd: 5, ..Default::default() });
    let run = asker.start_run(start).await.unwrap().run.unwrap();
    let (step, claimed) = runner.take().await;
    assert_eq!(claimed.left.unwrap().max_cost_microusd, 5);
    let token = claimed.claim_token;
    assert_eq!(runner.report(&step, token, 5).await.unwrap(), wire::StepStop::Unspecified);
    assert_eq!(runner.report(&step, token, 6).await.unwrap(), wire::StepStop::Budget);
    runner.end(&step, token, "that was dear").await.unwrap();
    let over = asker.hear(&run, 0).await.run.unwrap();
    assert_eq!(over.status(), RunStatus::OutOfBudget);
    assert_eq!(over.steps[1].status(), StepStatus::Canceled);
}

#[tokio::test]
async fn a_sub_agent_asks_whoever_started_it_and_who_watches_sees_it_work() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let run = asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let request = wire::WatchRunRequest { caller: asker.caller(), run_id: run.run_id.clone() };
    let mut watch = asker.runs.watch_run(request).await.unwrap().into_inner();
    let seen = soon("the run", watch.message()).await.unwrap().unwrap();
    assert_eq!(seen.run.unwrap().steps[0].status(), StepStatus::Ready);
    let (step, claimed) = runner.take().await;
    runner.report(&step, claimed.claim_token, 4).await.unwrap();
    let progress = loop {
        let seen = soon("progress", watch.message()).await.unwrap().unwrap();
        if let Some(progress) = seen.progress.first() {
            assert_eq!(seen.run.unwrap().steps[0].last_tool, "bash");
            break progress.clone();
        }
    };
    assert_eq!((progress.step, progress.partial), (1, text("so far 4")));

    let ask = wire::AskParentRequest {
        step: step_key(&step),
        text: text("left or right?"),
        ..Default::default()
    };
    let mut wrong = ask.clone();
    wrong.step.as_mut().unwrap().secret = vec![1; 32];
    let refused = runner.ask_parent(wrong).await.unwrap_err();
    assert_eq!(reason(&refused), "invalid_step_token");
    let number = runner.ask_parent(ask).await.unwrap().message;
    let heard = asker.hear(&run, 0).await;
    assert_eq!(heard.run.unwrap().open_questions, [number]);
    assert_eq!(heard.messages[0].text, text("left or right?"));
    let waiting = {
        let (mut runner, step) = (runner.clone(), step_key(&step));
        tokio::spawn(async move { runner.wait(Ask::Message(number), step, 60_000).await })
    };
    let reply = wire::ReplyToRunRequest {
        role: asker.role(),
        run_id: run.run_id.clone(),
        message: number,
        text: text("left"),
        ..Default::default()
    };
    asker.reply_to_run(reply).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().messages[0].reply, text("left"));

    let mut below = runner.starting(wire::RunMode::Single, "", &["deeper"]);
    (below.role, below.parent) = (String::new(), step_key(&step));
    let child = runner.start_run(below).await.unwrap().run.unwrap();
    assert_eq!((child.depth, child.root_id), (2, run.run_id.clone()));
    let (own, claimed_below) = runner.take().await;
    assert_eq!(own.run_id, child.run_id);
    runner.end(&own, claimed_below.claim_token, "deep").await.unwrap();
    runner.end(&step, claimed.claim_token, "done").await.unwrap();
    let last = loop {
        let seen = soon("the end", watch.message()).await.unwrap().unwrap();
        if let Some(run) = seen.run.filter(|run| run.ended_ms != 0) {
            break run;
        }
    };
    assert_eq!(last.usage.unwrap().cost_microusd, 10, "RU5: with the run below it");
    assert!(soon("the stream ends", watch.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_report_is_short_and_nobody_waits_for_a_reply_to_it() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    asker.start(wire::RunMode::Single, "n2", &["one"]).await;
    let (step, _) = runner.take().await;
    let report = |bytes: usize| wire::ReportToParentRequest {
        step: step_key(&step),
        text: text(&"x".repeat(bytes)),
        ..Default::default()
    };
    let refused = runner.report_to_parent(report(REPORT_BYTES_MAX + 1)).await.unwrap_err();
    assert_eq!(reason(&refused), "too_large");
    let number = runner.report_to_parent(report(REPORT_BYTES_MAX)).await.unwrap().message;
    let waited = runner.wait(Ask::Message(number), step_key(&step), 60_000).await;
    assert_eq!(reason(&waited.unwrap_err()), "unknown_message");
    let ask = wire::AskParentRequest {
        step: step_key(&step),
        text: text(&"x".repeat(REPORT_BYTES_MAX + 1)),
        ..Default::default()
    };
    runner.ask_parent(ask).await.unwrap();
}

#[tokio::test]
async fn runs_are_listed_by_the_role_that_asked_for_them() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut other) = office(data.path()).await;
    let mut own = Vec::new();
    for _ in 0..3 {
        other.start(wire::RunMode::Single, "gpu", &["one"]).await;
        own.push(asker.start(wire::RunMode::Single, "gpu", &["one"]).await.run_id);
    }
    own.reverse();
    let role = asker.role();
    for (role, before, limit, expected, has_more) in [
        (role.as_str(), "", 2, &own[..2], true),
        (role.as_str(), own[1].as_str(), 2, &own[2..], false),
        // Older ones are of others.
        (role.as_str(), "", 3, &own[..], false),
        ("nobody", "", 1, &own[3..], false),
    ] {
        let page = other.runs_of(role, before, limit).await;
        let listed: Vec<String> = page.runs.into_iter().map(|run| run.run_id).collect();
        assert_eq!((&listed[..], page.has_more), (expected, has_more), "{role} {limit}");
    }
    assert_eq!(other.runs_of("", "", 0).await.runs.len(), 6);
}

/// Holds Y5.
#[tokio::test]
async fn a_private_workspace_takes_no_plain_words_about_runs() {
    let data = tempfile::tempdir().unwrap();
    let (_broker, mut asker, mut runner) = office(data.path()).await;
    let owner = SigningKey::from_bytes(&[1; 32]);
    let public = OwnerKey(owner.verifying_key().to_bytes());
    let workspace = "default".parse().unwrap();
    let roster = Roster { workspace, owner: public, number: 1, is_on: true, keys: Vec::new() };
    let roster = Some(roster.signed(&owner).unwrap().to_wire());
    let request = wire::SetRosterRequest { caller: asker.caller(), key: asker.key(), roster };
    PrivacyClient::new(channel(asker.address)).set_roster(request).await.unwrap();

    let plain = asker.starting(wire::RunMode::Single, "gpu", &["in the clear"]);
    let refused = asker.start_run(plain.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");
    let sealed = |envelope: &str| wire::RunText {
        text: String::new(),
        sealed: Some(wire::Sealed { envelope: envelope.into(), same: vec![7; 16] }),
    };
    let mut start = plain;
    (start.steps[0].task, start.steps[0].system) = (Some(sealed("opaque")), None);
    start.key = asker.key();
    let run = asker.start_run(start.clone()).await.unwrap().run.unwrap();
    start.steps[0].task = Some(sealed("sealed again"));
    let again = asker.start_run(start).await.unwrap().run.unwrap();
    assert_eq!(again.run_id, run.run_id, "the same words");
    let (step, claimed) = runner.take().await;
    let task = claimed.new_step.unwrap().task.unwrap().sealed.unwrap();
    assert_eq!(task.envelope, b"opaque");
    let token = claimed.claim_token;
    let refused = runner.report(&step, token, 1).await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");
    let refused = runner.end(&step, token, "in the clear").await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");
    let mut end = Node::ending(&step, token, "");
    end.output = vec![sealed("result")];
    runner.end_step(end).await.unwrap();
    let told = asker.output(&step).await;
    assert_eq!(told.output[0].sealed.as_ref().unwrap().envelope, b"result");
    // Nor does it pass on what a node keeps of an output.
    let request = reads::part(&asker, &step, 0);
    let refused = reads::read(&mut asker, request).await.unwrap_err();
    assert_eq!(reason(&refused), "private_workspace");
}

/// Holds E7.
#[tokio::test]
async fn running_something_elsewhere_takes_a_right_of_its_own() {
    let data = tempfile::tempdir().unwrap();
    let broker = Guarded::start(data.path()).await;
    let node = broker.token("w1", &["A"], Right::OF_A_NODE).await;
    let far = [Right::OF_A_NODE, &[Right::Run]].concat();
    let far = broker.token("w1", &["A"], &far).await;
    let reader = broker.token("w1", &["A"], &[Right::Read, Right::Send]).await;
    let [node, far, reader] = [node, far, reader].map(|it| broker.bearer(Some(&it.expose())));
    let mut counter = 0;
    let mut next = || {
        counter += 1;
        key("rights", counter)
    };
    let register = wire::RegisterRequest {
        caller: caller("w1"),
        key: next(),
        node: "n1".to_owned(),
        ..Default::default()
    };
    let message = register.encode_to_vec().into();
    node.unary("/tasuki.v1.Directory/Register", message).await.unwrap();
    for (bearer, on, expected) in [
        (&node, "n1", "ok"),
        (&node, "gpu", "right_forbidden"),
        (&node, "n2", "right_forbidden"),
        (&reader, "n1", "right_forbidden"),
        (&far, "gpu", "ok"),
        (&far, "n1", "ok"),
    ] {
        let step = wire::NewStep {
            runner: "pi".to_owned(),
            on: on.to_owned(),
            task: text("t"),
            ..Default::default()
        };
        let start = wire::StartRunRequest {
            caller: caller("w1"),
            key: next(),
            role: "A".to_owned(),
            mode: wire::RunMode::Single.into(),
            steps: vec![step],
            ..Default::default()
        };
        let said = bearer.unary("/tasuki.v1.Runs/StartRun", start.encode_to_vec().into()).await;
        let said = said.map_or_else(|status| reason(&status).to_owned(), |_| "ok".to_owned());
        assert_eq!(said, expected, "on {on}");
    }
    // Whoever only reads is offered nothing.
    let offer = wire::RunQuestion {
        caller: caller("w1"),
        ask: Some(Ask::Offer(wire::RunnerOffer::default())),
        ..Default::default()
    };
    let offer = wire::RunQuestion {
        caller: offer.caller.map(|it| wire::Caller { node: "n1".to_owned(), epoch: 1, ..it }),
        ..offer
    };
    let said = reader.unary("/tasuki.v1.Runs/AwaitRun", offer.encode_to_vec().into()).await;
    assert_eq!(reason(&said.unwrap_err()), "right_forbidden");
}
