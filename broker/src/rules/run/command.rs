//! What can be asked of runs.

use tasuki_proto::{
    id::{FencingToken, PersonId, RoleId},
    run::{RunId, StepId},
    token::SecretHash,
};

use super::{
    Asker, Outcome, Usage, WantedBudget,
    event::{StepResult, StepSpec},
    state::{MessageKind, Mode},
    words::{File, OutputWords, StepWords, Text},
};
use crate::rules::{Acting, Needs, Rejection, privacy::Privacy};

/// A sub-agent that acts as the step that it is, and the hash of what it shows for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bearer {
    pub step: StepId,
    pub secret: [u8; 32],
}

/// Who asks for a run, and speaks for it from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speaker {
    Role(RoleId),
    Person(PersonId),
    Step(Bearer),
}

impl Speaker {
    pub(super) fn asker(&self) -> Asker {
        match self {
            Self::Role(role) => Asker::Role(role.clone()),
            Self::Person(person) => Asker::Person(person.clone()),
            Self::Step(bearer) => Asker::Step(bearer.step),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Start(Box<Start>),
    Cancel {
        by: Speaker,
        run: RunId,
    },
    Reply {
        by: Speaker,
        run: RunId,
        number: u32,
        text: Text,
    },
    /// A node takes a step.
    Claim {
        step: StepId,
        secret: SecretHash,
    },
    End(Box<End>),
    Tell {
        by: Bearer,
        kind: MessageKind,
        text: Text,
        file: Option<Box<File>>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    pub by: Speaker,
    pub mode: Mode,
    /// At least one.
    pub steps: Vec<(StepSpec, StepWords)>,
    /// Steps at the same time.
    pub concurrency: u32,
    pub budget: WantedBudget,
    /// Whoever asks may have things started on other machines.
    pub may_elsewhere: bool,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub step: StepId,
    pub token: FencingToken,
    pub outcome: Outcome,
    pub usage: Usage,
    pub result: StepResult,
    pub words: OutputWords,
}

impl Command {
    fn speaker(&self) -> Option<&Speaker> {
        match self {
            Self::Start(it) => Some(&it.by),
            Self::Cancel { by, .. } | Self::Reply { by, .. } => Some(by),
            Self::Claim { .. } | Self::End(_) | Self::Tell { .. } => None,
        }
    }
}

impl Acting for Command {
    fn role(&self) -> Option<&RoleId> {
        match self.speaker()? {
            Speaker::Role(role) => Some(role),
            Speaker::Person(_) | Speaker::Step(_) => None,
        }
    }

    fn person(&self) -> Option<&PersonId> {
        match self.speaker()? {
            Speaker::Person(person) => Some(person),
            Speaker::Role(_) | Speaker::Step(_) => None,
        }
    }

    fn needs(&self) -> Needs<'_> {
        Needs::default()
    }

    fn check_words(&self, privacy: &Privacy) -> Result<(), Rejection> {
        match self {
            Self::Start(it) => {
                let mut texts = it.steps.iter().flat_map(|(_, words)| words.texts());
                texts.try_for_each(|text| text.check(privacy))
            }
            Self::End(it) => it.words.texts().try_for_each(|text| text.check(privacy)),
            Self::Reply { text, .. } => text.check(privacy),
            Self::Tell { text, file, .. } => {
                text.check(privacy)?;
                if file.is_none() { Ok(()) } else { privacy.check_words(false) }
            }
            Self::Cancel { .. } | Self::Claim { .. } => Ok(()),
        }
    }

    fn is_for_paused(&self) -> bool {
        match self {
            Self::Start(_) => false,
            Self::Cancel { .. }
            | Self::Reply { .. }
            | Self::Claim { .. }
            | Self::End(_)
            | Self::Tell { .. } => true,
        }
    }
}
