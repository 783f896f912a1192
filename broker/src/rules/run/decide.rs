//! What a command about runs would do.

use tasuki_proto::{
    id::{FencingToken, NodeLabel, Timestamp},
    limits::{
        OPEN_RUNS_MAX, OPEN_RUNS_PER_TOKEN_MAX, RUN_DEPTH, RUN_TREE_STEPS, RUNNING_STEPS_MAX,
        RUNS_MAX, STEP_FILES_MAX, STEP_LEASE_MS, STEP_MESSAGES_MAX, STEP_REPORTS_MAX,
    },
    run::{RunId, StepId},
    swarm::Stamp,
    token::SecretHash,
};

use super::{
    Asker, Bearer, Budget, Claim, Command, End, Event, File, MessageKind, MessageState, Origin,
    Outcome, Rejection, Reply, Run, Runs, Speaker, Start, Started, StepStarted, StepState,
    StopReason, Text, Words, draft::Draft, state::Source,
};
use crate::rules::{Asked, Body, Caller, Decision, Reply as AnyReply};

/// Runs that are forgotten to make room for one.
const FORGOTTEN_MAX: usize = 10;

impl Runs {
    /// Says what `command` would do at `now`. Changes nothing.
    ///
    /// # Errors
    /// A [`Rejection`] says why it would do nothing.
    pub(in crate::rules) fn decide(
        &self,
        asked: Asked<'_>,
        command: &Command,
    ) -> Result<Decision, crate::rules::Rejection> {
        Ok(match command {
            Command::Start(it) => self.decide_start(asked, it)?,
            Command::Cancel { by, run } => self.decide_cancel(asked.now, by, *run)?,
            Command::Reply { by, run, number, text } => {
                self.decide_reply(by, *run, *number, text)?
            }
            Command::Claim { step, secret } => self.decide_claim(asked, *step, *secret)?,
            Command::End(it) => self.decide_end(asked, it)?,
            Command::Tell { by, kind, text, file } => {
                self.decide_tell(by, *kind, text, file.as_deref())?
            }
        })
    }

    fn decide_start(
        &self,
        Asked { now, context, caller, workspace }: Asked<'_>,
        it: &Start,
    ) -> Result<Decision, Rejection> {
        let left = match &it.by {
            Speaker::Role(_) | Speaker::Person(_) => Budget {
                cost_microusd: None,
                turns: None,
                depth: it.budget.depth.unwrap_or(RUN_DEPTH),
                steps: it.budget.steps.unwrap_or(RUN_TREE_STEPS),
            },
            Speaker::Step(bearer) => {
                self.check_bearer(bearer)?;
                let run = bearer.step.run;
                if self.get(run)?.stopped.is_some() {
                    return Err(Rejection::Stopping { run });
                }
                self.left(run, &context.reports).ok_or(Rejection::UnknownRun { run })?
            }
        };
        let budget = left.granted(it.budget);
        budget.check(it.steps.len())?;
        let origin = Origin {
            node: caller.node.as_ref().map(|(node, _)| node.clone()),
            token: caller.token.clone(),
        };
        let is_own = |on: &NodeLabel| {
            let node = on.as_str().parse();
            node.is_ok_and(|node| origin.is_own(&node, &workspace.directory))
        };
        for (spec, _) in &it.steps {
            match &spec.on {
                Some(on) if !it.may_elsewhere && !is_own(on) => {
                    return Err(Rejection::NotElsewhere { on: on.to_string() });
                }
                None if origin.node.is_none() => {
                    let why =
                        "on is empty, and no node calls whose own it could be; say where it runs";
                    return Err(Rejection::Invalid(why.to_owned()));
                }
                Some(_) | None => {}
            }
        }
        let asker = it.by.asker();
        let mut events = self.room(&Source::new(&origin, &asker))?;
        let run = RunId(Stamp { ms: now.as_millis(), tail: self.next_tail });
        let (specs, words): (Vec<_>, Vec<_>) = it.steps.iter().cloned().unzip();
        let started = Started {
            run,
            mode: it.mode,
            asker,
            origin,
            steps: specs,
            concurrency: it.concurrency,
            budget,
        };
        events.push(Event::Started(Box::new(started)));
        let words = (1..)
            .zip(words)
            .map(|(number, words)| Body::Run(Words::Step { step: StepId { run, number }, words }));
        Ok(Decision { bodies: words.collect(), ..Decision::new(events, Reply::Started { run }) })
    }

    /// What makes room for one more run of this source.
    fn room(&self, source: &Source) -> Result<Vec<Event>, Rejection> {
        if OPEN_RUNS_MAX <= self.open.values().sum() {
            return Err(Rejection::TooManyRuns);
        }
        if self.open_by_source.get(source).is_some_and(|open| OPEN_RUNS_PER_TOKEN_MAX <= *open) {
            return Err(Rejection::TooManyRunsOfOne { whose: source.to_string() });
        }
        if self.by_id.len() < RUNS_MAX {
            return Ok(Vec::new());
        }
        let oldest = self.over.iter().take(FORGOTTEN_MAX).map(|(_, root)| *root);
        self.forget(oldest).map(|event| vec![event]).ok_or(Rejection::TooManyRuns)
    }

    fn decide_cancel(
        &self,
        now: Timestamp,
        by: &Speaker,
        id: RunId,
    ) -> Result<Decision, Rejection> {
        let run = self.get(id)?;
        self.check_asker(run, by)?;
        if !run.is_open() || run.stopped == Some(StopReason::Canceled) {
            return Ok(Decision::repeat(AnyReply::Done));
        }
        let mut draft = Draft::new(now);
        draft.load(self, id);
        draft.stop(id, StopReason::Canceled);
        Ok(Decision::new(draft.events, AnyReply::Done))
    }

    fn decide_reply(
        &self,
        by: &Speaker,
        id: RunId,
        number: u32,
        text: &Text,
    ) -> Result<Decision, Rejection> {
        let run = self.get(id)?;
        self.check_asker(run, by)?;
        let unknown = Rejection::UnknownMessage { run: id, number };
        let content = text.content();
        let refused = |why| Err(Rejection::AlreadyReplied { run: id, number, why });
        match run.question(number).ok_or(unknown)?.state {
            MessageState::Open => {}
            MessageState::Replied(before) if before == content => {
                return Ok(Decision::repeat(Reply::Told { number }));
            }
            MessageState::Replied(_) => return refused("was answered otherwise before"),
            MessageState::Over => return refused("is over: the sub-agent that asked has ended"),
        }
        let replied = Event::Replied { run: id, number, content };
        let words = Body::Run(Words::Reply { run: id, number, text: text.clone() });
        Ok(Decision { bodies: vec![words], ..Decision::new([replied], Reply::Told { number }) })
    }

    fn decide_claim(
        &self,
        Asked { now, caller, workspace, .. }: Asked<'_>,
        id: StepId,
        secret: SecretHash,
    ) -> Result<Decision, Rejection> {
        let (run, step) = self.step(id)?;
        let Some((node, epoch)) = caller.node.clone() else {
            let why = "a step is claimed by a node, and no node calls; nothing was claimed";
            return Err(Rejection::Invalid(why.to_owned()));
        };
        let taken = |why| Err(Rejection::StepTaken { step: id, why });
        match &step.state {
            StepState::Running(claim) if claim.node == node && claim.secret == secret => {
                let (token, lapses) = (claim.token, claim.lease.lapses);
                return Ok(Decision::repeat(Reply::Claimed { token, lapses }));
            }
            StepState::Running(_) => return taken("runs already"),
            StepState::Ended(_) => return taken("has ended"),
            StepState::Waiting if !self.ready.contains(&id) => return taken("is not ready"),
            StepState::Waiting => {}
        }
        // A label is the node's own word; a name is not.
        if !run.is_for(step, &node, &workspace.directory, |_| true) {
            return taken("is for another node");
        }
        if RUNNING_STEPS_MAX <= self.deadlines.len() {
            return Err(Rejection::TooManySteps);
        }
        let (token, lapses) = (self.token.next(), now.plus_millis(STEP_LEASE_MS));
        let started = StepStarted { step: id, node, epoch, token, secret, lapses };
        let reply = Reply::Claimed { token, lapses };
        Ok(Decision::new([Event::StepStarted(started)], reply))
    }

    fn decide_end(
        &self,
        Asked { now, caller, .. }: Asked<'_>,
        it: &End,
    ) -> Result<Decision, Rejection> {
        self.check_claim(caller, it.step, it.token)?;
        let mut draft = Draft::new(now);
        draft.load(self, it.step.run);
        draft.end(it.step, it.outcome, it.usage, it.result.clone());
        let words = || Body::Run(Words::Output { step: it.step, words: it.words.clone() });
        let bodies = it.result.has_words.then(words).into_iter().collect();
        Ok(Decision { bodies, ..Decision::new(draft.events, AnyReply::Done) })
    }

    fn decide_tell(
        &self,
        by: &Bearer,
        kind: MessageKind,
        text: &Text,
        file: Option<&File>,
    ) -> Result<Decision, Rejection> {
        self.check_bearer(by)?;
        let step = by.step;
        let kind = if file.is_some() { MessageKind::File } else { kind };
        let content = file.map_or_else(|| text.content(), |file| file.content(text.content()));
        let run = self.get(step.run)?;
        if kind == MessageKind::Question
            && let Some((number, open)) =
                run.messages_of(step.number).find(|(_, it)| it.is_open_question())
        {
            return match open.content == content {
                true => Ok(Decision::repeat(Reply::Told { number })),
                false => Err(Rejection::QuestionOpen { step, number }),
            };
        }
        let sent = run.messages_of(step.number).count();
        match kind {
            MessageKind::Question if STEP_MESSAGES_MAX <= sent => {
                return Err(Rejection::TooManyQuestions { step });
            }
            MessageKind::Report | MessageKind::File if STEP_REPORTS_MAX <= sent => {
                return Err(Rejection::TooManyReports { step });
            }
            MessageKind::File if STEP_FILES_MAX <= run.files_of(step.number) => {
                return Err(Rejection::TooManyFiles { step });
            }
            MessageKind::Question | MessageKind::Report | MessageKind::File => {}
        }
        let number = u32::try_from(run.messages.len() + 1).expect("a small number");
        let told = Event::ParentTold { step, number, kind, content };
        let (run, text, facts) = (run.id, text.clone(), file.map(|it| it.facts.clone()));
        let mut words = vec![Words::Message { run, number, text, file: facts }];
        words.extend(file.map(|it| Words::File { run, number, content: it.content.clone() }));
        let bodies = words.into_iter().map(Body::Run).collect();
        Ok(Decision { bodies, ..Decision::new([told], Reply::Told { number }) })
    }

    /// The claim of a step, if the caller is the node that has it, under its latest token (RU2).
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_claim(
        &self,
        caller: &Caller,
        id: StepId,
        presented: FencingToken,
    ) -> Result<&Claim, Rejection> {
        let stale = |current| Err(Rejection::StaleToken { step: id, presented, current });
        let lost = |why| Err(Rejection::LeaseLost { step: id, why });
        match &self.step(id)?.1.state {
            StepState::Waiting => stale(FencingToken::NONE),
            StepState::Running(claim) => {
                let is_its = caller.node.as_ref().is_some_and(|(node, _)| *node == claim.node);
                if is_its && claim.token == presented { Ok(claim) } else { stale(claim.token) }
            }
            StepState::Ended(ended) => match ended.outcome {
                Outcome::Lost => lost("was lost: nothing was heard of it for too long"),
                Outcome::Succeeded | Outcome::Failed(_) | Outcome::Canceled => lost("has ended"),
            },
        }
    }

    /// Whether a sub-agent is who it says.
    pub(super) fn check_bearer(&self, bearer: &Bearer) -> Result<(), Rejection> {
        let claim = self.step(bearer.step).ok().and_then(|(_, step)| step.claim());
        match claim {
            Some(claim) if claim.secret == SecretHash::from_bytes(bearer.secret) => Ok(()),
            Some(_) | None => Err(Rejection::InvalidStepToken { step: bearer.step }),
        }
    }

    /// Whether somebody speaks for a run. A person always may.
    pub(super) fn check_asker(&self, run: &Run, by: &Speaker) -> Result<(), Rejection> {
        if let Speaker::Step(bearer) = by {
            self.check_bearer(bearer)?;
        }
        if matches!(by, Speaker::Person(_)) || by.asker() == run.asker {
            return Ok(());
        }
        Err(Rejection::NotAsker { run: run.id, asker: run.asker.to_string() })
    }
}

impl Budget {
    /// Whether so many steps may begin with it.
    fn check(self, steps: usize) -> Result<(), Rejection> {
        let spent = match self.spent(super::Usage::default()) {
            Some(limit) => Some(limit),
            None if self.depth == 0 => Some("max_depth"),
            None if (self.steps as usize) < steps => Some("max_runs"),
            None => None,
        };
        spent.map_or(Ok(()), |limit| Err(Rejection::BudgetSpent { limit }))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Token(token) => write!(f, "token {token}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Asker(asker) => write!(f, "{asker}"),
        }
    }
}

impl std::fmt::Display for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Role(role) => write!(f, "{role}"),
            Self::Person(person) => write!(f, "{person}"),
            Self::Step(step) => write!(f, "step {step}"),
        }
    }
}
